//! Worktrees of tasks: made beside the repository, examined, and removed without losing anything (P10).
//!
//! **Who has authority.** Git knows which worktrees exist; the store knows which task has which branch and who holds it. What only
//! onus needs is in the worktree's own git directory ([`Info`]) and goes with it: that onus made it, for which task, whether its
//! set-up is finished, and its ports.
//!
//! **One at a time.** Git's own worktree commands race one another. Ours run under a lock on a file in the repository's
//! common dir, which is never removed. Git inherits that lock as its standard input: if onus is killed, the lock lasts until the git
//! that it started has ended, so nobody sees half of its work.
//!
//! **The journal** (`journal.rs`) is one small file for each worktree that is being made or removed, locked by the process that does
//! so. An unlocked journal was left by a process that died; [`Worktrees::settle`] cleans up after it: a worktree that was never handed
//! to anybody and contains nothing uncommitted is removed, everything else stays and is reported.
//!
//! | window | what a kill leaves | what settling does |
//! | --- | --- | --- |
//! | journal written, git not started | the journal | removes the journal |
//! | git running, or done | a folder that no task has | removes folder and branch, if nobody put anything there |
//! | set-up running | the same | the same |
//! | recorded in the store | the journal | removes the journal, keeps the worktree |
//! | removing | a folder that is partly gone | continues, if the rest is committed |
//! | a scratch worktree in use (`scratch.rs`) | a folder of no task | removes it with all its content |
//!
//! **Nothing outside our own root is deleted**, and nothing that is uncommitted, untracked, under way, locked or in no other
//! branch. A worktree whose folder is missing may have been moved, so it is never deregistered here.

mod include;
mod journal;
mod landed;
mod look;
mod make;
mod ports;
mod remove;
mod scratch;
mod target;

use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::refusal::{Code, Refusal};
use onus_core::task::TaskBranch;
use serde::{Deserialize, Serialize};

use crate::discover::{Place, discover, linked, real};
use crate::files::{read_itself, replace};
use crate::git::{Call, GitError, Repository};
use crate::owner::Foreign;
use crate::rescue;

pub use journal::{Journal, Lock, Settled};
pub use look::{DiskUse, State, UnderWay, under_way};
pub use make::{Making, NewWorktree};
pub use ports::{PORTS, ports_of};
pub use remove::{Removed, Whereabouts};
pub use scratch::Scratch;
pub use target::Target;
pub(crate) use target::target_refs;

/// Generous: a checkout of many files is slow.
const CHECKOUT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// What onus knows of a worktree, in that worktree's own git directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// Whether onus made it. One that it only adopted is never deleted automatically.
    pub made: bool,
    /// The uid and the id of the task that it was made for.
    pub task: Option<String>,
    pub id: Option<String>,
    pub own: Option<TaskBranch>,
    /// Its files were copied and its set-up command has run.
    pub ready: bool,
    /// The first of its ports.
    pub port_base: Option<u16>,
}

const INFO: &str = "onus-worktree.json";

impl Info {
    /// None if there is none, or it cannot be read.
    pub fn of(git_dir: &Path) -> Option<Info> {
        serde_json::from_str(&read_itself(&git_dir.join(INFO)).ok()?).ok()
    }

    /// Writes it atomically.
    pub fn write(&self, git_dir: &Path) -> std::io::Result<()> {
        replace(&git_dir.join(INFO), git_dir, &serde_json::to_vec(self)?, 0o600)
    }
}

/// A worktree as git lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    pub path: PathBuf,
    /// Its own git directory; for the main checkout, the common one.
    pub git_dir: PathBuf,
    pub is_main: bool,
    /// The commit that is checked out.
    pub head: Option<String>,
    /// The branch that is checked out; None if HEAD is detached.
    pub branch: Option<String>,
    /// The reason given to `git worktree lock`, if it is locked.
    pub locked: Option<String>,
    /// Its folder is not where git has recorded it.
    pub is_missing: bool,
    pub info: Option<Info>,
}

impl Linked {
    pub fn place(&self) -> Option<Place> {
        discover(&self.path).filter(|place| place.git_dir.as_deref() == Some(&*self.git_dir) || self.is_main)
    }

    pub fn is_made(&self) -> bool {
        self.info.as_ref().is_some_and(|info| info.made)
    }
}

/// The worktrees of one repository.
#[derive(Clone, Debug)]
pub struct Worktrees {
    repository: Repository,
    /// The main checkout, or the bare repository itself.
    home: PathBuf,
    /// How long to wait for other processes that change worktrees.
    patience: Duration,
}

impl Worktrees {
    /// None outside git.
    pub fn of(place: &Place) -> Result<Option<Worktrees>, Foreign> {
        let Some(repository) = Repository::new(place)? else { return Ok(None) };
        let common = repository.common_dir();
        let home = match (common.file_name(), common.parent()) {
            _ if place.git_dir.as_deref() == Some(common) => place.root.clone(),
            (Some(name), Some(parent)) if name == ".git" => parent.to_owned(),
            _ => common.to_owned(),
        };
        Ok(Some(Worktrees { repository, home, patience: journal::PATIENCE }))
    }

    /// Waits only briefly for other processes, which may be suspended: the caller would rather hear that they are busy.
    pub fn with_short_wait(&self) -> Worktrees {
        Worktrees { patience: journal::SHORT_PATIENCE, ..self.clone() }
    }

    /// The main checkout, or the bare repository itself.
    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn common_dir(&self) -> &Path {
        self.repository.common_dir()
    }

    pub(crate) fn repository(&self) -> &Repository {
        &self.repository
    }

    fn git(&self) -> Call<'static> {
        self.repository.call()
    }

    /// The folder that tasks' worktrees are made in: beside the repository, or below `configured`.
    pub fn root(&self, configured: Option<&str>) -> Result<PathBuf, Refusal> {
        let name = self.home.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name =
            format!("{}.onus", name.strip_suffix(".git").filter(|name| !name.is_empty()).unwrap_or(&name));
        let above = match configured.map(Path::new) {
            None => self.home.parent().map(Path::to_owned),
            Some(path) if path.is_absolute() => Some(path.to_owned()),
            Some(path) => {
                return Err(Refusal::usage(format!(
                    "worktree.root is not an absolute path: {}",
                    path.display()
                )));
            }
        };
        let root =
            above.ok_or_else(|| Refusal::usage("there is no folder beside the repository"))?.join(name);
        // Resolved, since a link in its place leads elsewhere.
        let real = root.ancestors().find_map(|folder| {
            let rest = root.strip_prefix(folder).ok()?;
            folder.canonicalize().ok().map(|folder| folder.join(rest))
        });
        let real = real.unwrap_or_else(|| root.clone());
        let inside = |folder: &Path| folder.canonicalize().is_ok_and(|folder| real.starts_with(folder));
        if inside(&self.home) || inside(self.common_dir()) {
            return Err(Refusal::usage(format!(
                "worktrees are never made inside the repository, and {} is",
                root.display()
            )));
        }
        Ok(real)
    }

    /// All worktrees, the main checkout first, without scratch worktrees.
    pub fn list(&self) -> Result<Vec<Linked>, GitError> {
        let mut all = self.list_all()?;
        all.retain(|linked| linked.is_main || !scratch::is_scratch(&linked.path));
        Ok(all)
    }

    fn list_all(&self) -> Result<Vec<Linked>, GitError> {
        let out = self.git().words(&["worktree", "list", "--porcelain", "-z"]).run()?;
        let lines = out.split(|byte| *byte == 0).map(|line| String::from_utf8_lossy(line).into_owned());
        let lines: Vec<String> = lines.collect();
        let dirs = self.git_dirs();
        let mut found = Vec::new();
        // Records of the form `line NUL line NUL NUL`.
        for record in lines.split(String::is_empty).filter(|record| !record.is_empty()) {
            let value = |name: &str| record.iter().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let Some(path) = value("worktree ").map(PathBuf::from) else { continue };
            let is_main = found.is_empty();
            let git_dir = match is_main {
                true => self.common_dir().to_owned(),
                false => match dirs.iter().find(|(there, _)| *there == path || same(there, &path)) {
                    Some((_, git_dir)) => git_dir.clone(),
                    None => continue,
                },
            };
            let head = value("HEAD ").filter(|head| head.bytes().any(|byte| byte != b'0'));
            found.push(Linked {
                is_missing: !is_main && !path.join(".git").exists(),
                head: head.map(str::to_owned),
                branch: value("branch refs/heads/").map(str::to_owned),
                locked: value("locked").map(str::to_owned),
                info: Info::of(&git_dir),
                is_main,
                path,
                git_dir,
            });
        }
        Ok(found)
    }

    /// Each linked worktree's folder and git directory, as git has recorded them.
    fn git_dirs(&self) -> Vec<(PathBuf, PathBuf)> {
        linked(self.common_dir()).filter_map(|(git_dir, root)| Some((root?, git_dir))).collect()
    }

    /// The folder of a task's worktree, found by its [`Info`] without starting a process.
    pub fn of_task(&self, uid: &str) -> Option<PathBuf> {
        let is_its = |git_dir: &Path| Info::of(git_dir).is_some_and(|info| info.task.as_deref() == Some(uid));
        self.git_dirs().into_iter().find(|(_, git_dir)| is_its(git_dir)).map(|(path, _)| path)
    }

    /// The worktree that contains this folder.
    pub fn at(&self, folder: &Path) -> Result<Option<Linked>, GitError> {
        let folder = real(folder);
        let mut all = self.list()?;
        all.retain(|linked| folder.starts_with(real(&linked.path)));
        Ok(all.into_iter().max_by_key(|linked| linked.path.components().count()))
    }

    /// How many rescues are kept.
    pub fn rescues(&self) -> usize {
        rescue::list(&self.repository).map_or(0, |rescues| rescues.len())
    }
}

/// Whether both exist and are the same.
pub(crate) fn same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().is_some_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// The name of a task's worktree and branch: its id, and its title reduced to safe characters.
pub fn name_for(id: &str, title: &str) -> String {
    const MOST: usize = 32;
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        match c {
            c if c.is_ascii_alphanumeric() => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
        if slug.len() >= MOST {
            break;
        }
    }
    // Drops a last word that was cut off.
    if slug.len() >= MOST
        && let Some((whole, _)) = slug.rsplit_once('-')
    {
        slug.truncate(whole.len());
    }
    match slug.trim_end_matches('-') {
        "" => id.to_owned(),
        slug => format!("{id}-{slug}"),
    }
}

fn refuse(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::NotAllowed, why)
}

fn failed(what: &str, error: &GitError) -> Refusal {
    match error.0.contains("No space left on device") || error.0.contains("Disk quota exceeded") {
        true => Refusal::new(Code::DiskFull, format!("{what}: there is no space left")),
        // A git that was killed leaves no message.
        false if error.0.is_empty() => refuse(format!("{what}: it ended without a word")),
        false => refuse(format!("{what}: {}", error.0)),
    }
}

fn unwritten(what: &str, error: &std::io::Error) -> Refusal {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Refusal::new(Code::DiskFull, format!("{what}: there is no space left"))
        }
        _ => refuse(format!("{what}: {error}")),
    }
}
