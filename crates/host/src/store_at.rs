//! The location of a store, and how it is opened.

use std::path::PathBuf;
use std::time::Duration;

use onus_core::refusal::{Refusal, Step};
use onus_store::{Access, Address, AnyStore, PostgresStore, SqliteStore};

use crate::joining::Joining;

/// Where a store is.
#[derive(Clone, Debug)]
pub enum StoreAt {
    File(PathBuf),
    Server {
        address: Box<Address>,
        project: Option<String>,
        /// What a person has to confirm first.
        joining: Option<Joining>,
    },
}

impl StoreAt {
    pub fn open(&self, access: Access, wait: Duration) -> Result<AnyStore, Refusal> {
        if let StoreAt::Server { joining: Some(joining), .. } = self {
            joining.check()?;
        }
        self.open_to_join(access, wait)
    }

    /// Opens the store before a person has confirmed that this is the intended project.
    pub fn open_to_join(&self, access: Access, wait: Duration) -> Result<AnyStore, Refusal> {
        match self {
            StoreAt::File(path) => Ok(AnyStore::Sqlite(SqliteStore::open(path, access, wait)?)),
            StoreAt::Server { address, .. } => {
                Ok(AnyStore::Postgres(PostgresStore::open(address, self.project()?, wait)?))
            }
        }
    }

    /// The project's name on the server. It must be configured: two repositories whose folders have the same name must not become
    /// one project by accident.
    pub fn project(&self) -> Result<&str, Refusal> {
        match self {
            StoreAt::Server { project: Some(name), .. } if !name.is_empty() => Ok(name),
            _ => {
                Err(Refusal::usage("the store is on a server, but nothing says which project of it this is")
                    .next(Step::NameProject))
            }
        }
    }
}

/// Without secrets, so that it may be shown.
impl std::fmt::Display for StoreAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreAt::File(path) => f.write_str(&path.to_string_lossy()),
            StoreAt::Server { address, project, .. } => {
                f.write_str(address.shown())?;
                project.as_ref().map_or(Ok(()), |name| write!(f, ", project {name}"))
            }
        }
    }
}
