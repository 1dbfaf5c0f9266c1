//! What can go wrong with a store, and what a user should do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::refusal::{Code, Refusal};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no onus store at {}", .0.display())]
    Missing(PathBuf),
    #[error("there is an onus store at {} already", .0.display())]
    Exists(PathBuf),
    #[error("{} is not an onus store: {why}", .path.display())]
    NotAStore { path: PathBuf, why: String },
    #[error("the store at {} can be read but not written", .0.display())]
    ReadOnly(PathBuf),
    #[error("the store is busy: {}; waited {:.1}s", holder_text(*.pid), .waited.as_secs_f32())]
    Busy { pid: Option<u32>, waited: Duration },
    #[error("no space is left for the store")]
    Full,
    #[error("the store has schema {found}, this onus knows up to {known}")]
    Newer { found: i64, known: i64 },
    #[error("the store is damaged: {0}")]
    Damaged(String),
    #[error("event {version} of stream {stream} is not what was written: {why}")]
    Tampered { stream: String, version: u64, why: String },
    #[error("{} is on {filesystem}, where SQLite's shared memory is not safe", .path.display())]
    UnsafeFilesystem { path: PathBuf, filesystem: String },
    #[error("{} cannot be opened: {why}", .path.display())]
    Unavailable { path: PathBuf, why: String },
    #[error("the store at {address} has no project '{name}'")]
    NoProject { address: String, name: String },
    #[error("the store has schema {found}, this onus needs {known}")]
    Older { found: i64, known: i64 },
    /// Others were preferred. A store runs the transaction again; this is seen only by who runs one by hand.
    #[error("the store asks to do that again")]
    Again,
    #[error("the connection to {} was lost at the commit: whether the command was applied is not known", .0.display())]
    Unknown(PathBuf),
    /// What this kind of store does by other means.
    #[error("{0}")]
    NotHere(String),
    #[error("the store failed: {0}")]
    Unexpected(String),
}

fn holder_text(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid} is writing"),
        None => "another program is writing".to_owned(),
    }
}

impl StoreError {
    /// Why something in the store's folder could not be made or written.
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
            StoreError::Busy { .. } | StoreError::Again => Code::Busy,
            StoreError::Full => Code::DiskFull,
            StoreError::Newer { .. } => Code::NewerSchema,
            StoreError::Tampered { .. } => Code::Tampered,
            StoreError::UnsafeFilesystem { .. } => Code::UnsafeFilesystem,
            StoreError::Unavailable { .. } | StoreError::Older { .. } | StoreError::Unknown(_) => {
                Code::Unavailable
            }
            StoreError::NotHere(_) => Code::Usage,
            StoreError::Unexpected(_) => Code::Unexpected,
        }
    }

    fn next_steps(&self) -> Vec<String> {
        let steps: &[&str] = match self {
            StoreError::Missing(_) | StoreError::NoProject { .. } => &["onus init   # make one here"],
            StoreError::Older { .. } => &["onus store migrate   # as the owner of the tables"],
            StoreError::Unknown(_) => &[
                "onus log   # look whether it was",
                "with --key a command can be repeated: it is applied once",
            ],
            StoreError::NotHere(_) => &["onus store copy --help"],
            StoreError::Exists(_) => &["onus status"],
            StoreError::NotAStore { .. } | StoreError::Damaged(_) => &[
                "onus doctor   # what is wrong",
                "restore the last copy that 'onus backup' made, and keep the damaged file",
            ],
            StoreError::ReadOnly(_) => &[
                "run the command outside the sandbox, or make the store's folder writable in it",
                "reads (show, list, ready, log, status) work as before",
            ],
            StoreError::Busy { pid: Some(_), .. } => {
                &["try again; if that process is stopped, let it go on (kill -CONT) or end it"]
            }
            StoreError::Busy { pid: None, .. } | StoreError::Again => {
                &["try again; close other programs that have the file open"]
            }
            StoreError::Full => &["free some space, then repeat the command: it changed nothing"],
            StoreError::Newer { .. } => &["use the newer onus that wrote this store"],
            StoreError::Tampered { .. } => {
                &["onus ledger verify   # everything that is wrong", "compare with a backup or a seal"]
            }
            StoreError::UnsafeFilesystem { .. } => {
                &["set ONUS_STORE to a path on a local file system, the same for everyone on this machine"]
            }
            StoreError::Unavailable { .. } | StoreError::Unexpected(_) => &["onus doctor   # what is wrong"],
        };
        steps.iter().map(|step| (*step).to_owned()).collect()
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        let mut refusal = Refusal::new(error.code(), error.to_string());
        refusal.next = error.next_steps();
        refusal
    }
}
