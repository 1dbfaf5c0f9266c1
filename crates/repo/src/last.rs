//! The last contents of reserved files that a hook saw, so that a file that others overwrote can be brought back (P10).
//!
//! A content is stored by its digest in a private folder of the repository, and a log per worktree says which file had it, when, and
//! how it was seen. No git is run: a hook has no time for it. Both are bounded by age and by size; what exceeds that is
//! deleted. It is written beside the memory of running commands (`calls/`) and under its lock, and like it is not a record: what
//! cannot be written is not kept, and the agents continue.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use onus_core::actor::{ActorName, InstanceId};
use onus_core::text::hex;

use crate::calls::home;
use crate::discover::Place;
use crate::files::private_folder;
use crate::rescue::beneath::{self, Content};

/// The largest content that is kept, in bytes.
pub const MAX_CONTENT: u64 = 4 << 20;

/// The most that one worktree's contents may take together, in bytes.
const MAX_TOTAL: u64 = 64 << 20;

/// How many contents of one file are kept, and for how long.
const MAX_VERSIONS: usize = 20;
const MAX_AGE_MS: i64 = 14 * 24 * 3_600 * 1_000;

/// A longer log is pruned.
const MAX_LOG: u64 = 512 << 10;
/// The most of a log that is read.
const MAX_READ: u64 = 8 << 20;

/// A content that is younger than this may be about to be logged, so it is not deleted.
const ON_ITS_WAY: Duration = Duration::from_secs(600);

/// How a content came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// An edit tool of its owner wrote it.
    Edited,
    /// The file had it before a command ran.
    Seen,
    /// The file changed while commands ran, or at an unknown time.
    Changed,
    /// The file had it when another content was brought back.
    Replaced,
    /// It was brought back.
    Restored,
}

/// One content of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub at_ms: i64,
    /// Relative to the worktree's root.
    pub path: String,
    /// The digest of its content, which identifies a version.
    pub sha256: String,
    pub mode: String,
    pub bytes: u64,
    pub how: How,
    /// Whose edit it was, or whose commands ran.
    #[serde(default)]
    pub by: Vec<(ActorName, InstanceId)>,
}

impl Version {
    /// Whether this content is somebody's own work, or at least not known to be another's.
    pub fn is_own(&self, who: (&ActorName, &InstanceId)) -> bool {
        self.how != How::Changed || self.by.iter().all(|by| (&by.0, &by.1) == who) && !self.by.is_empty()
    }
}

/// The contents of one worktree's files.
#[derive(Debug)]
pub struct Last {
    root: PathBuf,
    folder: PathBuf,
    log: PathBuf,
}

impl Last {
    /// None outside git.
    pub fn of(place: &Place) -> Option<Last> {
        let (root, git_dir) = home(place)?;
        let common_dir = place.common_dir.as_ref()?;
        // Named after the worktree's own git directory, which keeps its name when the worktree is moved.
        let is_main = git_dir == *common_dir;
        let name = if is_main { "main".to_owned() } else { git_dir.file_name()?.to_str()?.to_owned() };
        let kind = if is_main { "" } else { "worktree-" };
        let folder = common_dir.join("onus").join("last");
        Some(Last { root, log: folder.join(format!("{kind}{name}.log")), folder })
    }

    /// Keeps the current content of a file.
    pub fn keep(
        &self,
        path: &str,
        (how, by): (How, Vec<(ActorName, InstanceId)>),
        now_ms: i64,
    ) -> io::Result<Option<Version>> {
        let Some(content) = beneath::read(&self.root, Path::new(path), MAX_CONTENT)? else { return Ok(None) };
        let sha256 = digest(content.bytes());
        private_folder(&self.objects())?;
        self.put(&sha256, content.bytes(), now_ms)?;
        let (mode, bytes) = (content.mode().to_owned(), content.bytes().len() as u64);
        let version = Version { at_ms: now_ms, path: path.to_owned(), sha256, mode, bytes, how, by };
        let mut line = serde_json::to_vec(&version)?;
        line.push(b'\n');
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut log = File::from(rustix::fs::open(&self.log, how, Mode::RUSR | Mode::WUSR)?);
        log.write_all(&line)?;
        if log.metadata()?.len() > MAX_LOG {
            self.prune(now_ms)?;
        }
        Ok(Some(version))
    }

    fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    fn put(&self, sha256: &str, bytes: &[u8], now_ms: i64) -> io::Result<()> {
        let object = self.objects().join(sha256);
        let how = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(there) = rustix::fs::open(&object, how, Mode::empty()) {
            // A new time protects it from being pruned.
            return File::from(there).set_times(FileTimes::new().set_modified(time(now_ms)));
        }
        let new = self.objects().join(format!("{sha256}.{}", std::process::id()));
        let how = how | OFlags::CREATE | OFlags::TRUNC;
        let mut file = File::from(rustix::fs::open(&new, how, Mode::RUSR | Mode::WUSR)?);
        file.write_all(bytes)?;
        fs::rename(new, object)
    }

    /// The contents of a file, or of all files, newest first.
    pub fn versions(&self, path: Option<&str>) -> Vec<Version> {
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(log) = rustix::fs::open(&self.log, how, Mode::empty()) else { return Vec::new() };
        let mut text = String::new();
        if File::from(log).take(MAX_READ).read_to_string(&mut text).is_err() {
            return Vec::new();
        }
        let versions = text.lines().rev().filter_map(|line| serde_json::from_str::<Version>(line).ok());
        versions.filter(|version| path.is_none_or(|path| version.path == path)).collect()
    }

    /// Whether a file has this content now.
    pub fn is_there(&self, version: &Version) -> bool {
        let now = beneath::read(&self.root, Path::new(&version.path), MAX_CONTENT);
        now.ok()
            .flatten()
            .is_some_and(|now| now.mode() == version.mode && digest(now.bytes()) == version.sha256)
    }

    /// Brings a content back, after keeping the current one.
    pub fn bring_back(&self, version: &Version, now_ms: i64) -> io::Result<()> {
        let content = self.content(version)?;
        let path = Path::new(&version.path);
        let is_kept = self.keep(&version.path, (How::Replaced, Vec::new()), now_ms)?.is_some();
        if !is_kept && self.root.join(path).symlink_metadata().is_ok() {
            return Err(io::Error::other("what is there now cannot be kept: it is too large, or no file"));
        }
        beneath::put(&self.root, path, &content)?;
        self.keep(&version.path, (How::Restored, Vec::new()), now_ms).map(drop)
    }

    /// Reads a content, if it is still kept and intact.
    pub fn content(&self, version: &Version) -> io::Result<Content> {
        let gone = || io::Error::other("its content is no longer kept");
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let object = rustix::fs::open(self.objects().join(&version.sha256), how, Mode::empty());
        let mut bytes = Vec::new();
        File::from(object.map_err(|_| gone())?).take(MAX_CONTENT + 1).read_to_end(&mut bytes)?;
        if digest(&bytes) != version.sha256 {
            return Err(gone());
        }
        Content::of_mode(&version.mode, bytes).ok_or_else(gone)
    }

    /// Deletes what is too old or too much, and contents that no log names, unless they may be about to be logged.
    pub fn prune(&self, now_ms: i64) -> io::Result<()> {
        let (mut total, mut of_file): (u64, BTreeMap<String, usize>) = (0, BTreeMap::new());
        let mut kept = Vec::new();
        for version in self.versions(None) {
            let count = of_file.entry(version.path.clone()).or_default();
            *count += 1;
            total = total.saturating_add(version.bytes);
            // Newest first, so the newest content of a file stays while there is room.
            if now_ms - version.at_ms <= MAX_AGE_MS && *count <= MAX_VERSIONS && total <= MAX_TOTAL {
                kept.push(version);
            }
        }
        let mut text = Vec::new();
        for version in kept.iter().rev() {
            serde_json::to_writer(&mut text, version)?;
            text.push(b'\n');
        }
        let new = self.log.with_extension(format!("{}.new", std::process::id()));
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(rustix::fs::open(&new, how, Mode::RUSR | Mode::WUSR)?).write_all(&text)?;
        fs::rename(new, &self.log)?;
        let logs = fs::read_dir(&self.folder)?.flatten().map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        let mut named = BTreeSet::new();
        for log in logs {
            let of_log = Last { root: self.root.clone(), folder: self.folder.clone(), log };
            named.extend(of_log.versions(None).into_iter().map(|version| version.sha256));
        }
        for entry in fs::read_dir(self.objects())?.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|at| time(now_ms).duration_since(at).ok());
            let is_named = entry.file_name().to_str().is_some_and(|name| named.contains(name));
            if !is_named && age.is_some_and(|age| age > ON_ITS_WAY) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

fn time(ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
