//! What commits change: one that is about to be made, those that are about to be pushed. What was made is in `made.rs`.
//!
//! Git's hooks are asked in the middle of git's own work. The index is the one that git names in the hook's environment, which for
//! `git commit PATH` is not the checkout's; [`super::hardened`] removes the variable, so it is handed in. Names are separated by NUL
//! and kept as bytes until the end.
//!
//! **Of a merge only that counts which no parent has.** What comes from the other side was somebody's commit before.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::commit::{CommitId, Tally};

use super::index::tree_of;
use super::{Call, GitError, Running};
use crate::calls::home;
use crate::discover::Place;
use crate::git_hooks::{KEPT_INDEX, KEPT_TEMPLATE};

/// The longest that git may take inside a hook.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// The most commits of one push that are looked at, the newest first.
const MOST_PUSHED: &str = "--max-count=1000";

/// How far git looks for renames, whatever is configured: as far as when it merges.
pub(crate) const RENAMES: &str = "-l7000";

/// Compares two trees as [`Staging::diff`] compares an index with a tree. Unlike `diff-tree`, `diff` does not read the index.
const TREES: [&str; 9] = [
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "-M",
    RENAMES,
    "-z",
    "--name-status",
    "--ignore-submodules=none",
];

/// A commit that is about to be made.
#[derive(Clone, Debug)]
pub struct Staging<'a> {
    pub place: &'a Place,
    /// The index that git commits from.
    pub index: Option<PathBuf>,
    /// What is merged, beside HEAD.
    pub merged: Vec<CommitId>,
}

/// What it changes, by names from the worktree's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staged {
    pub paths: Vec<String>,
    /// Of these, what is deleted. What is renamed is not.
    pub removed: Vec<String>,
}

impl<'a> Staging<'a> {
    /// As git's environment and the checkout have it.
    pub fn of(place: &'a Place, env: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> Staging<'a> {
        let index = env("GIT_INDEX_FILE").filter(|file| !file.is_empty()).map(|file| place.root.join(file));
        // Git names them in the environment while it merges, and in a file while a merge waits for its commit.
        let named = std::env::vars_os().filter_map(|(name, _)| {
            name.to_str().and_then(|name| name.strip_prefix("GITHEAD_")?.parse().ok())
        });
        let waiting = place.git_dir.as_ref().and_then(|dir| crate::read_small(&dir.join("MERGE_HEAD")).ok());
        let waiting = waiting.iter().flat_map(|text| text.lines()).filter_map(|line| line.parse().ok());
        let merged: BTreeSet<CommitId> = named.chain(waiting).collect();
        Staging { place, index, merged: merged.into_iter().collect() }
    }

    /// The same, with the index from which git has made the commit's tree, if a hook kept it (`KEPT_INDEX`).
    pub fn with_kept_index(self) -> Staging<'a> {
        let kept = self.kept(KEPT_INDEX).filter(|kept| kept.is_file());
        Staging { index: kept.or(self.index), ..self }
    }

    /// Forgets the index that was kept for this commit.
    pub fn forget_kept_index(&self) {
        if let Some(kept) = self.kept(KEPT_INDEX) {
            // Most commits have none.
            let _ = std::fs::remove_file(kept);
        }
    }

    /// Whether a message is the template that its writer was given, as it was: git commits none. What was kept of it is forgotten.
    pub fn is_untouched_template(&self, message: &Path) -> bool {
        let Some(kept) = self.kept(KEPT_TEMPLATE).filter(|kept| kept.is_file()) else { return false };
        let template = crate::read_small(&kept);
        let _ = std::fs::remove_file(kept);
        let message = crate::read_small(message);
        template.is_ok_and(|template| message.is_ok_and(|message| message.trim_end() == template.trim_end()))
    }

    /// Where a hook keeps a file for the next one.
    fn kept(&self, name: &str) -> Option<PathBuf> {
        self.place.git_dir.as_ref().map(|dir| dir.join(name))
    }

    fn call<'c>(&self) -> Result<Call<'c>, GitError> {
        let call = Call::at(self.place)?.limit(LIMIT);
        Ok(match &self.index {
            Some(index) => call.env("GIT_INDEX_FILE", index),
            None => call,
        })
    }

    /// Has git list what the commit changes; [`Listing::staged`] waits for it.
    pub fn list(&self) -> Result<Listing<'_>, GitError> {
        let own = self.place.git_dir.as_ref().map(|dir| dir.join("index"));
        let tree = self.index.clone().or(own).and_then(|index| tree_of(&index));
        let call = match tree {
            Some(tree) => self.call()?.words(&TREES).words(&["--end-of-options", "HEAD", &tree, "--"]),
            None => self.diff("HEAD")?,
        };
        let running = call.start()?;
        Ok(Listing { staging: self, running })
    }

    /// Lists how the index differs from a commit or tree.
    fn diff<'c>(&self, tree: &str) -> Result<Call<'c>, GitError> {
        // What is only marked to be added later is not in the commit.
        let words =
            ["diff-index", "--cached", "--ita-invisible-in-index", "-M", RENAMES, "-z", "--name-status"];
        let words = [&words[..], &["--ignore-submodules=none"]].concat();
        Ok(self.call()?.words(&words).words(&["--end-of-options", tree, "--"]))
    }

    fn has_head(&self) -> Result<bool, GitError> {
        let words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        Ok(self.call()?.words(&words).outcome()?.status.success())
    }

    fn empty_tree(&self) -> Result<String, GitError> {
        self.call()?.words(&["hash-object", "-t", "tree", "--stdin"]).input(b"").line()
    }

    /// All that a task has changed: these of its commits that HEAD or what is merged still has, and what is about to be committed.
    /// Which files have lines is for the attributes to say that the task began with: it cannot exempt its own.
    pub fn tally(&self, commits: &[CommitId]) -> Result<Tally, GitError> {
        let base = if self.has_head()? { "HEAD".to_owned() } else { self.empty_tree()? };
        let attributes = match commits.first() {
            Some(first) => self.parent(first)?,
            None => base.clone(),
        };
        let count = |words: &[&str], input: &[u8]| {
            let call = self.call()?.env("GIT_ATTR_SOURCE", &attributes).words(words).input(input);
            call.run().map(|out| numbers(&out))
        };
        let staged = |base: &str| {
            let words = ["diff-index", "--cached", "--no-renames", "-z", "--numstat", "--end-of-options"];
            count(&[&words[..], &[base, "--"]].concat(), b"")
        };
        let mut changed: BTreeMap<Vec<u8>, u64> = staged(&base)?.into_iter().collect();
        for parent in &self.merged {
            let other: BTreeMap<Vec<u8>, u64> = staged(parent.as_str())?.into_iter().collect();
            changed.retain(|path, lines| {
                other.get(path).is_some_and(|there| {
                    *lines = (*lines).min(*there);
                    true
                })
            });
        }
        let mut lines = changed.values().sum();
        let mut files: BTreeSet<Vec<u8>> = changed.into_keys().collect();
        let kept = self.still_there(commits)?;
        if !kept.is_empty() {
            let input = kept.join("\n") + "\n";
            let words =
                ["diff-tree", "--stdin", "--no-commit-id", "-r", "--root", "--no-renames", "-z", "--numstat"];
            for (path, changed) in count(&words, input.as_bytes())? {
                files.insert(path);
                lines += changed;
            }
        }
        Ok(Tally { files: files.len() as u64, lines })
    }

    /// What a commit was made from; nothing, if it was the first.
    fn parent(&self, commit: &CommitId) -> Result<String, GitError> {
        let words = ["rev-parse", "--verify", "--quiet"];
        let out = self.call()?.words(&words).word(format!("{commit}^1^{{commit}}")).outcome()?;
        match out.status.success() {
            true => Ok(String::from_utf8_lossy(&out.out).trim().to_owned()),
            false => self.empty_tree(),
        }
    }

    /// Those of the commits that HEAD or what is merged has: what was amended or moved is in another by now.
    fn still_there(&self, commits: &[CommitId]) -> Result<Vec<String>, GitError> {
        let Some(first) = commits.first() else { return Ok(Vec::new()) };
        let merged: Vec<&str> = self.merged.iter().map(CommitId::as_str).collect();
        // All that came after what the task began from, which is enough whatever was moved since.
        let call = self.call()?.words(&["rev-list", "--ignore-missing", "HEAD"]).words(&merged);
        let listed = call.words(&["--not"]).word(format!("{first}^@")).words(&["--"]).run()?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let listed: BTreeSet<&str> = listed.lines().collect();
        let kept = commits.iter().map(CommitId::as_str).filter(|commit| listed.contains(commit));
        Ok(kept.map(str::to_owned).collect())
    }
}

/// Git, listing what a commit is about to change.
#[derive(Debug)]
pub struct Listing<'a> {
    staging: &'a Staging<'a>,
    running: Running<'static>,
}

impl Listing<'_> {
    pub fn staged(self) -> Result<Staged, GitError> {
        let staging = self.staging;
        let out = match self.running.printed() {
            Ok(out) => out,
            Err(error) if error.is_late() => return Err(error),
            Err(_) if staging.has_head()? => staging.diff("HEAD")?.run()?,
            // The first commit of a branch.
            Err(_) => staging.diff(&staging.empty_tree()?)?.run()?,
        };
        let mut changes = changed(&out);
        for parent in &staging.merged {
            let other = changed(&staging.diff(parent.as_str())?.run()?);
            changes.retain(|path, _| other.contains_key(path));
        }
        let prefix = prefix(staging.place);
        let name = |path: &Vec<u8>| name(&prefix, path);
        let removed =
            changes.iter().filter(|(_, is_removed)| **is_removed).map(|(path, _)| name(path)).collect();
        Ok(Staged { paths: changes.keys().map(name).collect(), removed })
    }
}

/// Reads what `--name-status -z` prints: each changed path, and whether it is deleted.
pub(crate) fn changed(out: &[u8]) -> BTreeMap<Vec<u8>, bool> {
    let mut found = BTreeMap::new();
    let mut fields = out.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    while let Some(status) = fields.next() {
        let Some(path) = fields.next() else { break };
        found.insert(path.to_vec(), status == b"D");
        if matches!(status.first(), Some(b'R' | b'C'))
            && let Some(new) = fields.next()
        {
            found.insert(new.to_vec(), false);
        }
    }
    found
}

/// Reads what `--numstat -z` prints: `ADDED<tab>REMOVED<tab>PATH<nul>`, as each path and how many of its lines change. A binary file
/// has none.
pub(crate) fn numbers(out: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let entry = |entry: &[u8]| {
        let mut fields = entry.splitn(3, |byte| *byte == b'\t');
        let mut number = || {
            let text = fields.next().map(String::from_utf8_lossy);
            text.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or_default()
        };
        let lines = number() + number();
        fields.next().map(|path| (path.to_vec(), lines))
    };
    out.split(|byte| *byte == 0).filter_map(entry).collect()
}

/// The commit that a file of git's such as `CHERRY_PICK_HEAD` names. Where refs are kept in tables, git is asked.
pub fn named_by(place: &Place, name: &str) -> Option<CommitId> {
    let git_dir = place.git_dir.as_ref()?;
    let text = match crate::read_small(&git_dir.join(name)) {
        Ok(text) => text,
        Err(_) if git_dir.join("reftable").is_dir() => {
            let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", name];
            Call::at(place).ok()?.limit(LIMIT).words(&words).line().ok()?
        }
        Err(_) => return None,
    };
    text.trim().parse().ok()
}

/// The commits that a push would bring to the remote and that no remote is known to have, with what each changed. `lines` is
/// what git tells its hook.
pub fn pushed(place: &Place, lines: &str) -> Result<Vec<(CommitId, Vec<String>)>, GitError> {
    let is_commit = |hash: &&str| hash.parse::<CommitId>().is_ok() && hash.bytes().any(|byte| byte != b'0');
    let refs = lines.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
    let (mut new, mut old) = (Vec::new(), Vec::new());
    for fields in refs.filter(|fields| fields.len() == 4) {
        new.extend(Some(fields[1]).filter(is_commit));
        old.extend(Some(fields[3]).filter(is_commit));
    }
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let words = ["log", "-c", "-z", "--name-only", "--no-renames", "--format=%x01%H", "--ignore-missing"];
    let call = Call::at(place)?.limit(LIMIT).words(&words).words(&[MOST_PUSHED]).words(&new);
    let out = call.words(&["--not"]).words(&old).words(&["--remotes", "--"]).run()?;
    let prefix = prefix(place);
    let mut commits: Vec<(CommitId, Vec<String>)> = Vec::new();
    for field in out.split(|byte| *byte == 0) {
        let header =
            field.strip_prefix(b"\x01").and_then(|hash| std::str::from_utf8(hash).ok()?.parse().ok());
        if let Some(commit) = header {
            commits.push((commit, Vec::new()));
            continue;
        }
        let path = field.strip_prefix(b"\n").unwrap_or(field);
        if let (false, Some((_, paths))) = (path.is_empty(), commits.last_mut()) {
            paths.push(name(&prefix, path));
        }
    }
    Ok(commits)
}

/// Adds lines such as `Onus-Task: ON-3` to the message that git is about to commit, unless they are there. A message that is empty
/// stays so: git does not commit it.
pub fn add_trailers(place: &Place, message: &Path, trailers: &[String]) -> Result<(), GitError> {
    let failed = |error: std::io::Error| GitError(error.to_string());
    let text = std::fs::read(message).map_err(failed)?;
    if let Some(with) = std::str::from_utf8(&text).ok().and_then(|text| if_plain(text, trailers)) {
        return std::fs::write(message, with).map_err(failed);
    }
    if is_empty(place, &text)? {
        return Ok(());
    }
    let words = ["interpret-trailers", "--in-place", "--no-divider", "--if-exists", "addIfDifferent"];
    let call = trailers.iter().fold(Call::at(place)?.limit(LIMIT).words(&words), |call, trailer| {
        call.words(&["--trailer", trailer])
    });
    call.words(&["--"]).word(message).run().map(drop)
}

/// The same without git, for messages in which nothing can be a comment: most of them. None: git has to look.
fn if_plain(text: &str, trailers: &[String]) -> Option<String> {
    let body = text.trim_end();
    (!body.is_empty() && body.lines().all(is_plain_line)).then(|| with_trailers(body, trailers))
}

/// Whether a line of a message cannot be a comment.
pub(super) fn is_plain_line(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphanumeric()) || line.is_empty()
}

/// A message without comments, with these lines at its end, unless they are there.
pub(crate) fn with_trailers(text: &str, trailers: &[String]) -> String {
    let body = text.trim_end();
    let is_trailer = |line: &str| {
        let key = line.split_once(": ").map(|(key, _)| key);
        key.is_some_and(|key| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
    };
    let last = body.rsplit("\n\n").next().filter(|last| last.len() < body.len());
    let there: Vec<&str> =
        last.filter(|last| last.lines().all(is_trailer)).into_iter().flat_map(str::lines).collect();
    let new: Vec<&str> =
        trailers.iter().map(String::as_str).filter(|trailer| !there.contains(trailer)).collect();
    let gap = if there.is_empty() { "\n\n" } else { "\n" };
    match new.is_empty() {
        true => format!("{body}\n"),
        false => format!("{body}{gap}{}\n", new.join("\n")),
    }
}

/// Whether nothing is left of a message without its comments.
fn is_empty(place: &Place, text: &[u8]) -> Result<bool, GitError> {
    let is_plain = |line: &[u8]| line.first().is_some_and(u8::is_ascii_alphanumeric);
    if text.split(|byte| *byte == b'\n').next().is_some_and(is_plain) {
        return Ok(false);
    }
    let left = Call::at(place)?.limit(LIMIT).words(&["stripspace", "--strip-comments"]).input(text).run()?;
    // Below the line where a message ends, git shows what is committed.
    Ok(left.is_empty() || left.starts_with(b"diff --git "))
}

/// Where a checkout's files are named from: a submodule's from its superproject's root.
pub(super) fn prefix(place: &Place) -> PathBuf {
    let outer = place.is_submodule().then(|| home(place)).flatten();
    let root = place.root.canonicalize().unwrap_or_else(|_| place.root.clone());
    let below = outer.and_then(|(outer, _)| root.strip_prefix(outer).map(Path::to_path_buf).ok());
    below.unwrap_or_default()
}

pub(super) fn name(prefix: &Path, path: &[u8]) -> String {
    prefix.join(OsStr::from_bytes(path)).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_added_as_git_adds_them_where_git_is_not_needed() {
        let folder = tempfile::tempdir().unwrap();
        Call::scratch(folder.path()).words(&["init", "-q"]).run().unwrap();
        let place = crate::discover(folder.path()).unwrap();
        let trailers = ["Onus-Task: ON-1".to_owned(), "Onus-Token: ON-1#2".to_owned()];
        let file = folder.path().join("message");
        for message in [
            "title",
            "title\n",
            "title\n\nbody\nof two lines\n\n",
            "title\n\nbody\n\nSigned-off-by: A <a@b>\n",
            "title\n\nOnus-Task: ON-1\n",
            "title\n\nOnus-Task: ON-1\nOnus-Token: ON-1#2\n",
            "fix: not a trailer",
        ] {
            let own = if_plain(message, &trailers).unwrap();
            std::fs::write(&file, message).unwrap();
            let words = ["interpret-trailers", "--in-place", "--no-divider", "--if-exists", "addIfDifferent"];
            let call = Call::at(&place).unwrap().words(&words);
            let call = trailers.iter().fold(call, |call, trailer| call.words(&["--trailer", trailer]));
            call.word(&file).run().unwrap();
            assert_eq!(own.trim_end(), std::fs::read_to_string(&file).unwrap().trim_end(), "{message:?}");
        }
        for message in ["", "\n", "# a comment", "title\n# a comment\n", "- a list"] {
            assert_eq!(if_plain(message, &trailers), None, "{message:?}");
        }
    }
}
