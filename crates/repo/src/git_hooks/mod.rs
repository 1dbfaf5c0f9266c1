//! Git's hooks: installed beside what is there, and taken out so that nothing is left.
//!
//! **Only git's own folder of hooks is written**, the one of the common directory, which all worktrees share. `core.hooksPath` is
//! never set, moved or taken over: a folder that somebody set it to is theirs (it may be tracked, or serve many repositories), and
//! gets a line to add by hand.
//!
//! **What was there is kept as it is**, as a second name of the same file in `.onus` of that folder, so that its bytes, mode and
//! times come back. The new file appears in its place in one step: git never finds no hook.
//!
//! **That git reaches us is proved by git** ([`probe`]): it runs its hook, and ours answers before anything else does. Where others'
//! commands may come before ours, git runs them in an empty repository.

mod script;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::discover::Place;
use crate::files::{locked, replace};
use crate::git::{Call, GitError, Repository};

pub use script::line_to_add;

/// Set for a probe: the hook repeats it and does nothing else.
pub const PROBE: &str = "ONUS_GUARD_PROBE";

/// The index that a commit's tree was made from, in the git directory: kept by prepare-commit-msg until commit-msg has judged it.
pub(crate) const KEPT_INDEX: &str = "onus-index";

/// The message that an editor was given to fill in, in the git directory: kept by prepare-commit-msg for commit-msg.
pub(crate) const KEPT_TEMPLATE: &str = "onus-template";

/// Where what was there is kept, below the folder of hooks.
const KEPT: &str = ".onus";

/// Says that the folder of hooks was made by us.
const MADE: &str = "made";

/// No hook that is read is larger.
const MAX_BYTES: u64 = 1024 * 1024;

onus_core::spelled! {
    /// The hooks of git that call onus.
    ///
    /// Commits are judged in `commit-msg`, the last hook that can refuse one: it sees the index as every `pre-commit` hook left it, and
    /// git runs it for `commit` and `merge` alike. A `pre-commit` of ours would be judged too early, and git reads the whole index again
    /// after one.
    Hook {
        PrepareCommitMsg = "prepare-commit-msg",
        CommitMsg = "commit-msg",
        PostCommit = "post-commit",
        PostMerge = "post-merge",
        PrePush = "pre-push",
    }
}

/// Where git looks for hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Its own: ours to add to.
    Own(PathBuf),
    /// What `core.hooksPath` says.
    Others(PathBuf),
}

impl Folder {
    pub fn path(&self) -> &Path {
        match self {
            Folder::Own(path) | Folder::Others(path) => path,
        }
    }
}

onus_core::spelled! {
    /// What is in a hook's place.
    Found {
        Nothing = "nothing",
        /// Somebody else's, without us.
        Others = "others",
        /// Ours alone.
        Ours = "ours",
        /// Somebody else's, and we are asked first.
        Both = "both",
    }
}

onus_core::spelled! {
    /// What became of a hook.
    Done {
        Created = "created",
        /// Added to a hook that runs as before.
        Added = "added",
        Restored = "restored",
        Removed = "removed",
        /// Our line was taken out of a hook that somebody changed meanwhile.
        TakenOut = "taken_out",
        Unchanged = "unchanged",
    }
}

/// Where git looks for hooks in this checkout.
pub fn folder(place: &Place) -> Result<Folder, GitError> {
    let common = place.common_dir.as_deref().filter(|_| place.git_dir.is_some());
    let common = common.ok_or_else(|| GitError("this is not a checkout".to_owned()))?;
    // A submodule has hooks of its own.
    let own = if place.is_submodule() { place.git_dir.as_deref().unwrap_or(common) } else { common };
    let words = ["config", "--show-scope", "-z", "--type=path", "--get-all", "core.hooksPath"];
    let out = Call::at(place)?.words(&words).outcome()?;
    let listed = String::from_utf8_lossy(&out.out).into_owned();
    let fields: Vec<&str> = listed.split('\0').collect();
    let set = fields.chunks_exact(2).filter(|pair| pair[0] != "command").map(|pair| pair[1]).next_back();
    let Some(set) = set.filter(|set| !set.is_empty()) else { return Ok(Folder::Own(own.join("hooks"))) };
    let path = place.root.join(set);
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    let is_own = own.canonicalize().is_ok_and(|own| real == own.join("hooks"));
    Ok(if is_own { Folder::Own(own.join("hooks")) } else { Folder::Others(path) })
}

fn kept(folder: &Path, hook: Hook) -> PathBuf {
    folder.join(KEPT).join(hook.as_str())
}

/// A hook's text, if it is a file of a size that hooks have; links are followed.
fn text(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= MAX_BYTES).then(|| fs::read(path).ok()).flatten()
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// What is in a hook's place now.
pub fn found(folder: &Path, hook: Hook) -> Found {
    let path = folder.join(hook.as_str());
    if path.symlink_metadata().is_err() {
        return Found::Nothing;
    }
    match text(&path) {
        Some(text) if script::is_whole(&text) => {
            if kept(folder, hook).symlink_metadata().is_ok() {
                Found::Both
            } else {
                Found::Ours
            }
        }
        Some(text) if script::has_line(&text) => Found::Both,
        _ => Found::Others,
    }
}

/// The longest that another installation or removal is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Locks the folder's hooks until the result is dropped: whoever installs or removes them moves other people's programs to and fro, one at
/// a time.
pub fn lock(folder: &Path) -> io::Result<File> {
    let above = File::open(folder.parent().unwrap_or(folder))?;
    locked(above, PATIENCE)
        .ok_or_else(|| io::Error::new(io::ErrorKind::ResourceBusy, "another command is changing the hooks"))
}

/// Adds all hooks to git's own folder, or changes nothing. `program`: what they run.
pub fn install_all(folder: &Path, program: &Path) -> io::Result<Vec<(Hook, Done)>> {
    let is_folder = |hook: &&Hook| folder.join(hook.as_str()).symlink_metadata().is_ok_and(|it| it.is_dir());
    if let Some(hook) = Hook::ALL.iter().find(is_folder) {
        let why = format!("{} is a folder, where git looks for a hook", hook.as_str());
        return Err(io::Error::new(io::ErrorKind::IsADirectory, why));
    }
    let before: Vec<Found> = Hook::ALL.iter().map(|hook| found(folder, *hook)).collect();
    let mut all = Vec::new();
    for &hook in Hook::ALL {
        match install(folder, hook, program) {
            Ok(done) => all.push((hook, done)),
            Err(error) => {
                // Half a guard would look like a whole one. What was ours before stays.
                let new = all
                    .iter()
                    .zip(&before)
                    .filter(|(_, before)| matches!(before, Found::Nothing | Found::Others));
                for ((hook, _), _) in new {
                    let _ = uninstall(folder, *hook);
                }
                if is_one(&kept(folder, hook), &folder.join(hook.as_str())) {
                    let _ = fs::remove_file(kept(folder, hook));
                }
                tidy(folder);
                return Err(error);
            }
        }
    }
    Ok(all)
}

/// Whether both names are there, and are one file's.
fn is_one(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| path.symlink_metadata().map(|it| (it.dev(), it.ino())).ok();
    file(one).is_some() && file(one) == file(other)
}

/// Adds a hook.
fn install(folder: &Path, hook: Hook, program: &Path) -> io::Result<Done> {
    let path = folder.join(hook.as_str());
    if !folder.exists() {
        fs::create_dir_all(folder.join(KEPT))?;
        fs::write(folder.join(KEPT).join(MADE), "")?;
    }
    fs::create_dir_all(folder.join(KEPT))?;
    // What was said once may be said again.
    let _ = fs::remove_dir(folder.join(KEPT).join("told"));
    match found(folder, hook) {
        Found::Nothing => {
            put(&path, &script::whole(hook, program, None), 0o755)?;
            Ok(Done::Created)
        }
        Found::Ours | Found::Both => {
            let now = text(&path).unwrap_or_default();
            let new = match script::is_whole(&now) {
                true => script::whole(hook, program, before(folder, hook)?.as_deref()),
                false => script::with_line(&now, hook, program).unwrap_or_else(|| now.clone()),
            };
            if new == now {
                return Ok(Done::Unchanged);
            }
            put(&path, &new, mode(&path)?)?;
            Ok(Done::Added)
        }
        Found::Others => {
            keep(folder, hook)?;
            let is_itself = path.symlink_metadata()?.is_file() && is_executable(&path);
            let with = text(&path).filter(|_| is_itself);
            match with.and_then(|text| script::with_line(&text, hook, program)) {
                Some(text) => put(&path, &text, mode(&path)?)?,
                None => put(&path, &script::whole(hook, program, before(folder, hook)?.as_deref()), 0o755)?,
            }
            Ok(Done::Added)
        }
    }
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
}

/// Gives what is there a second name, under which it stays. What was kept before is kept beside it.
fn keep(folder: &Path, hook: Hook) -> io::Result<()> {
    let (path, kept) = (folder.join(hook.as_str()), kept(folder, hook));
    if kept.symlink_metadata().is_ok() {
        let older = (1..).map(|n| kept.with_extension(format!("old-{n}")));
        let older = older.take(1_000).find(|older| older.symlink_metadata().is_err());
        fs::rename(&kept, older.ok_or(io::ErrorKind::AlreadyExists)?)?;
    }
    fs::hard_link(path, kept)
}

/// How a script of ours runs what was there: by the same name, since many hooks ask how they were called. None: git would not run it.
fn before(folder: &Path, hook: Hook) -> io::Result<Option<String>> {
    let kept = kept(folder, hook);
    let name = hook.as_str();
    if let Ok(target) = fs::read_link(&kept) {
        let run = folder.join(KEPT).join("run");
        fs::create_dir_all(&run)?;
        let link = run.join(name);
        let _ = fs::remove_file(&link);
        symlink(if target.is_absolute() { target } else { Path::new("../..").join(target) }, &link)?;
        return Ok(is_executable(&link).then(|| format!("{KEPT}/run/{name}")));
    }
    Ok(is_executable(&kept).then(|| format!("{KEPT}/{name}")))
}

/// Takes a hook out again.
pub fn uninstall(folder: &Path, hook: Hook) -> io::Result<Done> {
    let (path, kept) = (folder.join(hook.as_str()), kept(folder, hook));
    let now = text(&path).unwrap_or_default();
    let done = match found(folder, hook) {
        Found::Nothing | Found::Others => Done::Unchanged,
        Found::Ours => {
            fs::remove_file(&path)?;
            Done::Removed
        }
        Found::Both if script::is_whole(&now) => {
            fs::rename(&kept, &path)?;
            Done::Restored
        }
        Found::Both => {
            let bare = script::without_line(&now);
            if text(&kept).is_some_and(|kept| same(&kept, &bare)) {
                fs::rename(&kept, &path)?;
                Done::Restored
            } else {
                put(&path, &bare, mode(&path)?)?;
                Done::TakenOut
            }
        }
    };
    if done == Done::Restored {
        let _ = fs::remove_file(folder.join(KEPT).join("run").join(hook.as_str()));
    }
    Ok(done)
}

/// A script without an end of its last line got one with ours.
fn same(kept: &[u8], bare: &[u8]) -> bool {
    kept == bare || bare.strip_suffix(b"\n") == Some(kept)
}

/// Removes what we made beside the hooks, if nothing is left in it. Returns what is: hooks that others have replaced since.
pub fn tidy(folder: &Path) -> Vec<PathBuf> {
    let own = folder.join(KEPT);
    let was_made = own.join(MADE).exists();
    // Each is removed only if nothing is in it.
    let _ = fs::remove_file(own.join(MADE));
    let _ = fs::remove_dir(own.join("told"));
    let _ = fs::remove_dir(own.join("run"));
    let _ = fs::remove_dir(&own);
    if was_made {
        let _ = fs::remove_dir(folder);
    }
    let left = fs::read_dir(&own).into_iter().flatten().flatten();
    left.map(|entry| entry.path()).collect()
}

/// Writes a file in one step.
fn put(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    replace(path, &path.parent().unwrap_or(path).join(KEPT), text, mode)
}

/// The longest that a hook may take to answer.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// Whether git, asked to run this hook in this checkout, reaches us. Nothing else is run in the checkout.
pub fn probe(place: &Place, hook: Hook, nonce: &str) -> Result<bool, GitError> {
    match folder(place)? {
        Folder::Own(folder) => match found(&folder, hook) {
            Found::Ours | Found::Both => answers(Call::at_with_hooks(place, None)?, hook, nonce),
            Found::Nothing | Found::Others => Ok(false),
        },
        Folder::Others(folder) => {
            let is_ours = |path: PathBuf| text(&path).is_some_and(|text| script::calls_us(&text));
            // Some keep what is run beside the folder that git is sent to.
            let beside = folder.parent().map(|parent| parent.join(hook.as_str()));
            if !is_ours(folder.join(hook.as_str())) && !beside.is_some_and(is_ours) {
                return Ok(false);
            }
            let scratch = tempfile::tempdir().map_err(|error| GitError(error.to_string()))?;
            Call::scratch(scratch.path()).words(&["init", "-q", "--template="]).word(scratch.path()).run()?;
            let there =
                crate::discover(scratch.path()).ok_or_else(|| GitError("no repository".to_owned()))?;
            let folder = folder.canonicalize().unwrap_or(folder);
            answers(Call::at_with_hooks(&there, Some(&folder))?, hook, nonce)
        }
    }
}

fn answers(call: Call<'_>, hook: Hook, nonce: &str) -> Result<bool, GitError> {
    let words = ["hook", "run", "--ignore-missing", hook.as_str(), "--"];
    let call = call.env(PROBE, nonce).words(&words).limit(PROBE_LIMIT);
    let call = if matches!(hook, Hook::CommitMsg | Hook::PrepareCommitMsg) {
        call.words(&["/dev/null"])
    } else {
        call
    };
    let outcome = call.input(b"").outcome()?;
    let said = format!("{} {nonce}", hook.as_str());
    if outcome.err.contains("is not a git command") {
        return Err(GitError("this needs git 2.36 or newer".to_owned()));
    }
    Ok(outcome.err.lines().any(|line| line.trim() == said))
}

/// Whether hooks may be written: the repository is the user's own, or trusted.
pub fn check(place: &Place) -> Result<(), crate::Foreign> {
    Repository::new(place).map(drop)
}
