//! What can go wrong with a store, and what a user should do about it.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::ids::shortened;
use onus_core::quote::is_hidden;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::time::Span;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no onus store at {}", shown(.0))]
    Missing(PathBuf),
    #[error("there is already an onus store at {}", shown(.0))]
    Exists(PathBuf),
    #[error("{} is not an onus store: {why}", shown(.path))]
    NotAStore { path: PathBuf, why: String },
    #[error("the store at {} can be read but not written", shown(.0))]
    ReadOnly(PathBuf),
    #[error("the store is busy: {}; waited {}", holder_text(*.pid), spoken(*.waited))]
    Busy { pid: Option<u32>, waited: Duration },
    /// A session of the server holds the lock.
    #[error("the store is busy: {by} holds one of its locks; waited {}", spoken(*.waited))]
    Blocked { by: Blocker, waited: Duration },
    #[error("no space is left for the store")]
    Full,
    #[error("the store has schema {found}, but this version of onus supports only up to {known}")]
    Newer { found: i64, known: i64 },
    #[error("the store is damaged: {0}")]
    Damaged(String),
    #[error("event {version} of stream {stream} was changed: {why}")]
    Tampered { stream: String, version: u64, why: String },
    #[error("{} is on {filesystem}, where SQLite's shared memory is not safe", shown(.path))]
    UnsafeFilesystem { path: PathBuf, filesystem: String },
    #[error("cannot open {}: {why}", shown(.path))]
    Unavailable { path: PathBuf, why: String },
    #[error("the store at {address} has no project {}", onus_core::quote::name(.name))]
    NoProject { address: String, name: String },
    #[error("the store has schema {found}, but this version of onus needs {known}")]
    Older { found: i64, known: i64 },
    /// Another transaction was preferred. The store runs this one again; only callers that run a transaction
    /// by hand see this.
    #[error("the store asks for the request to be repeated")]
    Again,
    #[error("{}: {why}; it is unknown whether the request was applied", shown(.place))]
    Unknown { place: PathBuf, why: String },
    #[error("writing {} failed, and nothing was changed: {why}", shown(.path))]
    Unwritten { path: PathBuf, why: String },
    /// A database created beside it would adopt it.
    #[error("{} is the log of a database that no longer exists", shown(.log))]
    StrayLog { log: PathBuf },
    #[error("{} has {names} names (hard links), and each would have a log of its own", shown(.path))]
    TwoNames { path: PathBuf, names: u64 },
    /// This kind of store does it by other means.
    #[error("{0}")]
    NotSupported(String),
    #[error("the store failed: {0}")]
    Unexpected(String),
}

/// Quotes a path for a sentence: anybody can name a folder.
fn shown(path: &Path) -> String {
    onus_core::quote::name(&path.to_string_lossy())
}

fn spoken(time: Duration) -> Span {
    Span::from_ms(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

fn holder_text(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid} is writing"),
        None => "another program is writing".to_owned(),
    }
}

impl StoreError {
    /// Why something in the store's folder could not be created or written.
    pub fn of_io(path: &Path, error: &io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly(path.to_owned())
            }
            io::ErrorKind::StorageFull => StoreError::Full,
            _ => StoreError::Unavailable { path: path.to_owned(), why: error.to_string() },
        }
    }

    pub fn code(&self) -> Code {
        match self {
            StoreError::Missing(_) | StoreError::NoProject { .. } => Code::NoStore,
            StoreError::Exists(_) => Code::NotAllowed,
            StoreError::NotAStore { .. } | StoreError::Damaged(_) => Code::Damaged,
            StoreError::ReadOnly(_) => Code::ReadOnly,
            StoreError::Busy { .. } | StoreError::Blocked { .. } | StoreError::Again => Code::Busy,
            StoreError::Full => Code::DiskFull,
            StoreError::Newer { .. } => Code::NewerSchema,
            StoreError::Tampered { .. } => Code::Tampered,
            StoreError::UnsafeFilesystem { .. } => Code::UnsafeFilesystem,
            StoreError::Unavailable { .. }
            | StoreError::Older { .. }
            | StoreError::Unwritten { .. }
            | StoreError::StrayLog { .. }
            | StoreError::TwoNames { .. } => Code::Unavailable,
            StoreError::Unknown { .. } => Code::NotKnown,
            StoreError::NotSupported(_) => Code::Usage,
            StoreError::Unexpected(_) => Code::Unexpected,
        }
    }

    fn next_steps(&self) -> Vec<Step> {
        match self {
            StoreError::Missing(_) | StoreError::NoProject { .. } => vec![Step::Init],
            StoreError::Older { .. } => vec![Step::MigrateStore],
            StoreError::Unknown { .. } => vec![Step::LogAll, Step::RepeatWithKey],
            StoreError::Unwritten { .. } => {
                vec![Step::plain(
                    "check the system's messages about the disk (dmesg), then repeat the request",
                )]
            }
            StoreError::StrayLog { .. } => vec![
                Step::plain("put that database back, if you have it: the log has its newest commits"),
                Step::plain("otherwise move the log to another folder, then repeat the request"),
            ],
            StoreError::TwoNames { .. } => vec![
                Step::plain("find the other names (find DIR -samefile FILE) and remove all but one"),
                Step::plain(
                    "to read it as it is, copy the file and its -wal to another folder (cp, not cp -l)",
                ),
            ],
            StoreError::NotSupported(_) => vec![Step::CopyStore],
            StoreError::Exists(_) => vec![Step::Status],
            StoreError::NotAStore { .. } | StoreError::Damaged(_) => {
                vec![Step::CheckStore, Step::RestoreBackup]
            }
            StoreError::ReadOnly(path) => vec![Step::LeaveSandbox, Step::MakeWritable(path.clone())],
            StoreError::Busy { pid: Some(_), .. } => {
                vec![Step::plain(
                    "try again; if that process is stopped, let it continue (kill -CONT) or end it",
                )]
            }
            StoreError::Busy { pid: None, .. } | StoreError::Again => {
                vec![Step::plain("try again; close other programs that have the file open")]
            }
            StoreError::Blocked { .. } => vec![
                Step::plain("try again; if that session stays, the server's administrator can end it"),
                Step::CheckStore,
            ],
            StoreError::Full => {
                vec![Step::plain("free some space, then repeat the request: it changed nothing")]
            }
            StoreError::Newer { .. } => vec![Step::plain("use the newer version that wrote this store")],
            StoreError::Tampered { .. } => {
                vec![Step::VerifyLedger, Step::plain("compare with a backup or a seal")]
            }
            StoreError::UnsafeFilesystem { .. } => vec![Step::LocalStore],
            StoreError::Unavailable { path, .. } => vec![gain_access(path).unwrap_or(Step::CheckStore)],
            StoreError::Unexpected(_) => vec![Step::CheckStore],
        }
    }
}

/// How to get access to the first part of a path, from the root, that exists and denies it to the caller.
fn gain_access(path: &Path) -> Option<Step> {
    use rustix::fs::{Access, access};
    let is_shut = |part: &&Path| {
        let wanted = if part.is_dir() { Access::EXEC_OK } else { Access::READ_OK };
        access(*part, wanted) == Err(rustix::io::Errno::ACCESS)
    };
    let mut parts: Vec<&Path> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    parts.reverse();
    let part = parts.into_iter().find(is_shut)?;
    let owner = std::fs::symlink_metadata(part).ok()?.uid();
    let path = shown(part);
    Some(Step::plain(match owner == rustix::process::geteuid().as_raw() {
        true => format!("give yourself access to {path} (chmod u+rwX): it is yours"),
        false => format!("ask the owner of {path} (uid {owner}) for access, or work in a clone of your own"),
    }))
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        let mut refusal = Refusal::new(error.code(), error.to_string());
        refusal.next = error.next_steps();
        refusal
    }
}

/// A server session that holds what others wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub pid: i32,
    pub role: Option<String>,
    /// The name it gives itself.
    pub program: Option<String>,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |name: &str| shortened(&name.replace(is_hidden, "?"));
        write!(f, "session {}", self.pid)?;
        if let Some(role) = &self.role {
            write!(f, " of the role '{}'", plain(role))?;
        }
        match self.program.as_deref().filter(|program| !program.is_empty()) {
            Some(program) => write!(f, " ('{}')", plain(program)),
            None => Ok(()),
        }
    }
}
