//! A commit that was made: what it changed, and what its message says.
//!
//! Git is asked, and takes longer over it than the store does. Of most commits the hook that judged them knew it all, except for the
//! commit's id: so it leaves what it knew for the next hook ([`JudgedCommit`]), in the worktree's git directory.
//!
//! **This is a shortcut, never an authority.** It holds only if git's own record of HEAD (`OLD NEW WHO<tab>ACTION`, a line for each
//! move) says that a plain commit was made, and nobody wrote to the file of its message since it was judged. Whatever is not so (an amended commit, a merge, one
//! that is picked, a message with comments, no such record), git is asked about.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use onus_core::commit::CommitId;

use super::changes::{LIMIT, is_plain_line, name, prefix};
use super::{Call, GitError, Running};
use crate::discover::Place;
use crate::files::{MAX_BYTES, read_small};

/// What a hook leaves for the hook after the commit.
const JUDGED: &str = "onus-commit";

/// Git's file with the message of the commit that is being made.
const MESSAGE: &str = "COMMIT_EDITMSG";

/// Longer than any line that git writes for a move of HEAD.
const LOG_END: u64 = 8 * 1024;

/// A commit that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub commit: CommitId,
    pub paths: Vec<String>,
    pub message: String,
}

/// Has git describe a commit that was made, such as HEAD; [`Describing::made`] waits for it.
pub fn describe<'a>(place: &'a Place, commit: &str) -> Result<Describing<'a>, GitError> {
    // Unlike `diff-tree`, `log` does not read the index, which may be large.
    let words = [
        "log",
        "-1",
        "--root",
        "-c",
        "-z",
        "--name-only",
        "--no-renames",
        "--no-show-signature",
        "--no-notes",
    ];
    let call = Call::at(place)?.limit(LIMIT).words(&words).words(&["--format=%H%x00%B%x00", commit, "--"]);
    Ok(Describing { place, running: call.start()? })
}

/// Git, describing a commit.
#[derive(Debug)]
pub struct Describing<'a> {
    place: &'a Place,
    running: Running<'static>,
}

impl Describing<'_> {
    /// What the commit changed that no parent has, and what its message says.
    pub fn made(self) -> Result<Made, GitError> {
        let out = self.running.printed()?;
        let mut fields = out.split(|byte| *byte == 0);
        let mut text =
            || fields.next().map(|field| String::from_utf8_lossy(field).into_owned()).unwrap_or_default();
        let (hash, message) = (text(), text());
        let commit = hash.parse().map_err(|_| GitError("git described no commit".to_owned()))?;
        let prefix = prefix(self.place);
        let paths = fields.map(|path| path.strip_prefix(b"\n").unwrap_or(path));
        let paths = paths.filter(|path| !path.is_empty()).map(|path| name(&prefix, path));
        Ok(Made { commit, paths: paths.collect(), message })
    }
}

/// What is known of a commit that was judged before it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedCommit {
    /// The message's file as it was, and all that the commit changes.
    known: Option<(String, Vec<String>)>,
}

impl JudgedCommit {
    /// Leaves word that a commit was judged; `paths`: all that it changes, if that is known. Whatever is to be written into its message
    /// is written before.
    pub fn leave(place: &Place, paths: Option<&[String]>) {
        let Some(git_dir) = &place.git_dir else { return };
        let known = paths.zip(stamp(git_dir)).map(|(paths, stamp)| format!("{stamp}\0{}", paths.join("\0")));
        let known = known.filter(|known| known.len() <= MAX_BYTES as usize);
        // Without it, the next hook asks git, and warns once too often.
        let _ = fs::write(git_dir.join(JUDGED), known.unwrap_or_default());
    }

    /// Takes what was left. None: the commit that was just made was not judged.
    pub fn take(place: &Place) -> Option<JudgedCommit> {
        let git_dir = place.git_dir.as_ref()?;
        let file = git_dir.join(JUDGED);
        let text = read_small(&file);
        fs::remove_file(file).ok()?;
        let text = text.unwrap_or_default();
        let mut fields = text.split('\0');
        let stamp = fields.next().filter(|stamp| !stamp.is_empty()).map(str::to_owned);
        let paths = fields.filter(|path| !path.is_empty()).map(str::to_owned).collect();
        // A revert is not judged: what was left is about a commit that failed before.
        let is_another = last_move(git_dir).is_some_and(|last| last.action.starts_with("revert"));
        (!is_another).then_some(JudgedCommit { known: stamp.map(|stamp| (stamp, paths)) })
    }

    /// The commit that was just made, if it is certain to be the one that was judged, and all of it is known.
    pub fn made(self, place: &Place) -> Option<Made> {
        let git_dir = place.git_dir.as_ref()?;
        let (before, paths) = self.known?;
        let last = last_move(git_dir)?;
        // Git writes the file for each commit, even for one whose hooks it was told to leave out.
        let is_same = stamp(git_dir).is_some_and(|now| now == before);
        let is_it = is_same && last.action.starts_with("commit: ") && head(place).as_ref() == Some(&last.new);
        let message = read_small(&git_dir.join(MESSAGE)).ok().filter(|_| is_it)?;
        // Git has taken out what is a comment.
        message.lines().all(is_plain_line).then_some(Made { commit: last.new, paths, message })
    }
}

/// What changes with every write of the message's file.
fn stamp(git_dir: &Path) -> Option<String> {
    let file = fs::symlink_metadata(git_dir.join(MESSAGE)).ok()?;
    Some(format!("{}.{:09} {}", file.mtime(), file.mtime_nsec(), file.len()))
}

/// What is checked out, as far as a file says it.
fn head(place: &Place) -> Option<CommitId> {
    let file = match &place.branch {
        Some(branch) => place.common_dir.as_ref()?.join("refs/heads").join(branch),
        None => place.git_dir.as_ref()?.join("HEAD"),
    };
    read_small(&file).ok()?.trim().parse().ok()
}

/// The last move of HEAD.
#[derive(Debug, PartialEq, Eq)]
struct LastMove {
    new: CommitId,
    /// `commit: TITLE` is by a commit on top of the old one, with no other parent.
    action: String,
}

fn last_move(git_dir: &Path) -> Option<LastMove> {
    let mut log = File::open(git_dir.join("logs/HEAD")).ok()?;
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(LOG_END))).ok()?;
    let mut end = Vec::new();
    log.take(LOG_END).read_to_end(&mut end).ok()?;
    // A line that is cut, at either end, is no line.
    let mut lines = end.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n');
    let line = String::from_utf8_lossy(lines.next()?).into_owned();
    let is_whole = lines.next().is_some() || length <= LOG_END;
    let (who, action) = line.split_once('\t').filter(|_| is_whole)?;
    Some(LastMove { new: who.split(' ').nth(1)?.parse().ok()?, action: action.to_owned() })
}
