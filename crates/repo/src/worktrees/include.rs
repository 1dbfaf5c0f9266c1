//! Copies files that a new worktree needs and git does not have: the ignored files that `.worktreeinclude` names.
//!
//! Anyone may have written the patterns. So they select only among ignored files inside the main checkout; a link is copied as a
//! link, if it stays inside; and nothing is written through a link that is checked out in the new worktree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use onus_core::refusal::{Refusal, Step};

use super::{Worktrees, failed, refuse, unwritten};
use crate::files::{Unreadable, read_inside};
use crate::git::Call;

pub(super) const FILE: &str = ".worktreeinclude";
const MOST_FILES: usize = 10_000;
const MOST_BYTES: u64 = 2 << 30;
const LIMIT: Duration = Duration::from_secs(120);

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) files: usize,
    pub(super) remarks: Vec<String>,
}

impl Worktrees {
    /// Copies what `.worktreeinclude` of the main checkout names. Existing files are not overwritten.
    pub(super) fn include(&self, into: &Path) -> Result<Copied, Refusal> {
        let home = self.home();
        match read_inside(home, &home.join(FILE)) {
            Ok(_) => {}
            Err(Unreadable::Missing) => return Ok(Copied::default()),
            Err(why) => return Err(refuse(format!("cannot use {FILE}: {why}"))),
        }
        let what = format!("cannot copy the files that {FILE} names");
        let files = self.named(home).map_err(|error| failed(&what, &error))?;
        let size = |file: &PathBuf| home.join(file).symlink_metadata().map_or(0, |file| file.len());
        let bytes: u64 = files.iter().map(size).sum();
        if files.len() > MOST_FILES || bytes > MOST_BYTES {
            return Err(refuse(format!(
                "{FILE} names {} files of {} MiB together; at most {MOST_FILES} files and {} MiB are copied",
                files.len(),
                bytes >> 20,
                MOST_BYTES >> 20
            ))
            .next(Step::plain(format!("name fewer files in {FILE}"))));
        }
        let mut copied = Copied::default();
        for file in files {
            match copy(home, into, &file) {
                Ok(true) => copied.files += 1,
                Ok(false) => copied
                    .remarks
                    .push(format!("{} was not copied: it leads out of the repository", file.display())),
                Err(error) => return Err(unwritten(&format!("cannot copy {}", file.display()), &error)),
            }
        }
        Ok(copied)
    }

    /// The untracked files that match the patterns and that git ignores.
    fn named(&self, home: &Path) -> Result<Vec<PathBuf>, crate::GitError> {
        let here = || Call::in_worktree(home, self.common_dir()).limit(LIMIT);
        let patterns = format!("--exclude-from={FILE}");
        let matching = here().words(&["ls-files", "-z", "--others", "--ignored"]).word(patterns).run()?;
        if matching.is_empty() {
            return Ok(Vec::new());
        }
        // Its status is a silent failure if none of them is ignored.
        let ignored = here().words(&["check-ignore", "-z", "--stdin"]).input(&matching).outcome()?.out;
        let names: BTreeSet<&[u8]> =
            ignored.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
        Ok(names.into_iter().map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
    }
}

/// Copies a file, unless it exists. False if it was refused.
fn copy(from: &Path, into: &Path, file: &Path) -> io::Result<bool> {
    let source = from.join(file);
    let metadata = source.symlink_metadata()?;
    if !is_inside(file) {
        return Ok(false);
    }
    let mut folder = into.to_owned();
    for part in file.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        match folder.symlink_metadata() {
            Ok(there) if there.is_dir() => {}
            Ok(_) => return Ok(false),
            Err(_) => fs::create_dir(&folder)?,
        }
    }
    let target = into.join(file);
    if target.symlink_metadata().is_ok() {
        return Ok(true);
    }
    if metadata.is_symlink() {
        let leads_to = fs::read_link(&source)?;
        let stays =
            leads_to.is_relative() && is_inside(&file.parent().unwrap_or(Path::new("")).join(&leads_to));
        return if stays { symlink(leads_to, target).map(|()| true) } else { Ok(false) };
    }
    if !metadata.is_file() {
        return Ok(false);
    }
    let mode = metadata.permissions().mode() & 0o777;
    let mut source = File::open(source)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(mode).open(target)?;
    // On file systems that support it, both share one copy until one of them is changed.
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(true);
    }
    io::copy(&mut source, &mut target).map(|_| true)
}

/// Whether a path, taken literally, stays below its starting point and out of git's own folder.
fn is_inside(path: &Path) -> bool {
    let mut depth = 0_usize;
    for part in path.components() {
        match part {
            Component::Normal(name) if !name.eq_ignore_ascii_case(".git") => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return false,
        }
    }
    depth > 0
}
