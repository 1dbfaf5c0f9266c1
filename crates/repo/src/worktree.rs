//! Identifies a worktree wherever it is moved, by a random mark in a file of its own git directory.
//!
//! The first process that needs the file creates it; it is never written again. Git gives every linked worktree a directory of
//! its own and removes it with the worktree, so the mark lives exactly as long. A link is never followed, and a file with any
//! other content is not taken for a mark.
//!
//! **A copied git directory has the mark of the original**, and on one machine the two count as one worktree. That errs on the
//! strict side: files touched in one collide with those in the other. It only matters where both use one store, so on
//! PostgreSQL; to make them two, delete the file in the copy.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::discover::{Place, linked, worktree};
use crate::files::read_itself;

const FILE: &str = "onus-worktree";

/// 128 bits, in hexadecimal digits.
const LEN: usize = 32;

/// The mark of the worktree that this place is in. None outside git, or if there is none and none can be written.
///
/// `fresh` returns a new mark, should one be needed.
pub fn worktree_mark(place: &Place, fresh: impl FnOnce() -> String) -> Option<String> {
    // A submodule's files are named relative to the worktree that contains it, so they belong to that one.
    let outer = if place.is_submodule() { place.root.parent().and_then(worktree) } else { None };
    let git_dir = outer.as_ref().unwrap_or(place).git_dir.as_deref()?;
    let file = git_dir.join(FILE);
    match fs::symlink_metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(git_dir, &file, &fresh()).ok()?,
        _ => {}
    }
    mark_in(&file)
}

/// The linked worktrees that git has recorded here, wherever their folders are now: each recorded path, and its mark.
pub fn administered(place: &Place) -> Vec<(PathBuf, Option<String>)> {
    let Some(common_dir) = &place.common_dir else { return Vec::new() };
    let marked =
        |(own, root): (PathBuf, Option<PathBuf>)| (root.unwrap_or_default(), mark_in(&own.join(FILE)));
    linked(common_dir).map(marked).collect()
}

fn mark_in(file: &Path) -> Option<String> {
    let text = read_itself(file).ok()?;
    let mark = text.strip_suffix('\n')?;
    let is_mark = mark.len() == LEN && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_mark.then(|| mark.to_owned())
}

/// Creates the file whole, and only if there is none: of two processes, the second finds the first one's mark.
fn create(git_dir: &Path, file: &Path, mark: &str) -> io::Result<()> {
    let mut new = tempfile::Builder::new().prefix(FILE).tempfile_in(git_dir)?;
    new.write_all(format!("{mark}\n").as_bytes())?;
    new.as_file().sync_all()?;
    match new.persist_noclobber(file) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::discover;

    /// The parts of a git checkout that discovery reads.
    fn checkout(folder: &Path) -> Place {
        for made in ["objects", "refs"] {
            fs::create_dir_all(folder.join(".git").join(made)).unwrap();
        }
        fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        discover(folder).unwrap()
    }

    fn fresh(digit: char) -> impl FnOnce() -> String {
        move || digit.to_string().repeat(LEN)
    }

    #[test]
    fn a_mark_is_made_once_kept_private_and_survives_a_move() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        let place = checkout(&here);
        let mark = worktree_mark(&place, fresh('a')).unwrap();
        assert_eq!(mark, "a".repeat(LEN));
        assert_eq!(worktree_mark(&place, fresh('b')).unwrap(), mark);
        let mode = fs::metadata(here.join(".git").join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let names: Vec<_> =
            fs::read_dir(here.join(".git")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(
            names.iter().filter(|name| name.to_string_lossy().starts_with(FILE)).count(),
            1,
            "{names:?}"
        );
        fs::rename(&here, &there).unwrap();
        assert_eq!(worktree_mark(&discover(&there).unwrap(), fresh('c')).unwrap(), mark);
    }

    #[test]
    fn of_many_who_need_one_at_once_all_get_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let place = checkout(folder.path());
        let marks: Vec<String> = std::thread::scope(|scope| {
            let asking: Vec<_> = "0123456789abcdef"
                .chars()
                .map(|digit| {
                    scope.spawn({
                        let place = &place;
                        move || worktree_mark(place, fresh(digit))
                    })
                })
                .collect();
            asking.into_iter().map(|asked| asked.join().unwrap().unwrap()).collect()
        });
        assert!(marks.iter().all(|mark| *mark == marks[0]), "{marks:?}");
    }

    #[test]
    fn what_is_not_a_mark_is_not_taken_for_one_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let place = checkout(&folder.path().join("w"));
        let (file, elsewhere) = (folder.path().join("w/.git").join(FILE), folder.path().join("elsewhere"));
        fs::write(&elsewhere, format!("{}\n", "d".repeat(LEN))).unwrap();
        for text in ["", "dddd\n", "not a mark\n", &"d".repeat(LEN)] {
            fs::write(&file, text).unwrap();
            assert_eq!(worktree_mark(&place, fresh('e')), None, "{text:?}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        fs::remove_file(&file).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert_eq!(worktree_mark(&place, fresh('e')), None, "a link");
        fs::remove_file(&file).unwrap();
        symlink(folder.path().join("nowhere"), &file).unwrap();
        assert_eq!(worktree_mark(&place, fresh('e')), None, "a link that leads nowhere");
        assert!(!folder.path().join("nowhere").exists());
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(worktree_mark(&place, fresh('e')), None, "a folder");
    }
}
