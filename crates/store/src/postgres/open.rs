//! Opens a project of a database, creates one, and migrates the schema.

use std::path::PathBuf;
use std::time::Duration;

use onus_core::actor::{ActorName, InstanceId};
use onus_core::ids::{Prefix, Uid};
use onus_core::time::ClockDomain;

use crate::copy::unfinished;
use crate::rows::write::create_project;
use crate::{Result, StoreError};

use super::connection::{Connection, Failure};
use super::session::{Lock, Mode, key_of};
use super::{Address, PostgresStore, failed, schema};

/// The machine part of a server's clock domain.
const SERVER: &str = onus_core::time::SERVER;

impl PostgresStore {
    /// Opens an existing project. Does not touch the schema: see [`PostgresStore::migrate`].
    pub fn open(address: &Address, name: &str, wait: Duration) -> Result<PostgresStore> {
        let mut store = PostgresStore::connect(address, wait)?;
        let found = store
            .connection
            .query("SELECT project, uid FROM project WHERE name = $1", &[&name])
            .map_err(|failure| failed(failure, address))?;
        let Some(row) = found.first() else {
            return Err(StoreError::NoProject { address: address.shown().to_owned(), name: name.to_owned() });
        };
        let read = |error: tokio_postgres::Error| failed(error.into(), address);
        store.project = row.try_get(0).map_err(read)?;
        store.stream = row.try_get(1).map_err(read)?;
        Ok(store)
    }

    /// Creates a project in a database that has our schema. `Exists` if the name is taken.
    pub fn create(
        address: &Address,
        name: &str,
        prefix: &Prefix,
        (uid, event_uid): (Uid, Uid),
        by: (&ActorName, &InstanceId),
        wait: Duration,
    ) -> Result<PostgresStore> {
        let mut store = PostgresStore::connect(address, wait)?;
        store.project = uid.0;
        store.stream = uid.to_string();
        store.record_project(name, prefix, (uid, event_uid), by)?;
        Ok(store)
    }

    /// An empty project to copy another one into, or what an interrupted copy left. It gets its name only
    /// when it is complete: see [`PostgresStore::finish_copy`].
    pub fn begin_copy(
        address: &Address,
        name: &str,
        project: &onus_core::apply::Project,
        wait: Duration,
    ) -> Result<PostgresStore> {
        let mut store = PostgresStore::connect(address, wait)?;
        let working = unfinished(name, project.uid);
        let fail = |failure: Failure| failed(failure, address);
        let taken = store
            .connection
            .query(
                "SELECT name FROM project WHERE name = $1 OR (project = $2 AND name <> $3)",
                &[&name, &project.uid.0, &working],
            )
            .map_err(fail)?;
        if !taken.is_empty() {
            return Err(StoreError::Exists(PathBuf::from(format!("{}, project {name}", address.shown()))));
        }
        store
            .connection
            .query(
                "INSERT INTO project (project, name, uid, prefix, created_at_ms, version, head, last_number) \
                 VALUES ($1, $2, $3, $4, $5, 0, '', 0) ON CONFLICT (project) DO NOTHING",
                &[
                    &project.uid.0,
                    &working,
                    &project.uid.to_string(),
                    &project.prefix.as_str(),
                    &project.created_at_ms,
                ],
            )
            .map_err(fail)?;
        store.project = project.uid.0;
        store.stream = project.uid.to_string();
        Ok(store)
    }

    /// Gives a complete copy its name.
    pub fn finish_copy(&mut self, name: &str) -> Result<()> {
        self.connection
            .query("UPDATE project SET name = $2 WHERE project = $1", &[&self.project, &name])
            .map(drop)
            .map_err(|failure| failed(failure, &self.address))
    }

    /// Brings the schema up to date. Only the owner of the tables can.
    pub fn migrate(address: &Address) -> Result<crate::Migrated> {
        schema::migrate(&mut Connection::open(address)?, address)
    }

    fn connect(address: &Address, wait: Duration) -> Result<PostgresStore> {
        let address = &address.within(wait);
        let mut connection = Connection::open(address)?;
        let format = connection
            .query("SELECT version, cluster FROM format", &[])
            .and_then(|rows| match rows.first() {
                Some(row) => Ok(Some(schema::Format { version: row.try_get(0)?, cluster: row.try_get(1)? })),
                None => Ok(None),
            })
            .map_err(|failure| failed(failure, address))?;
        let Some(format) = format else { return Err(StoreError::Missing(PathBuf::from(address.shown()))) };
        if format.version > schema::KNOWN {
            return Err(StoreError::Newer { found: format.version, known: schema::KNOWN });
        }
        if format.version < schema::KNOWN {
            return Err(StoreError::Older { found: format.version, known: schema::KNOWN });
        }
        Ok(PostgresStore {
            connection,
            address: address.clone(),
            wait,
            clock: None,
            domain: ClockDomain::new(SERVER, &format.cluster, ""),
            project: uuid::Uuid::nil(),
            stream: String::new(),
            jitter: key_of(&format!("{:?} {}", std::thread::current().id(), std::process::id()))
                .cast_unsigned(),
        })
    }

    fn record_project(
        &mut self,
        name: &str,
        prefix: &Prefix,
        (uid, event_uid): (Uid, Uid),
        by: (&ActorName, &InstanceId),
    ) -> Result<()> {
        let exists = StoreError::Exists(PathBuf::from(format!("{}, project {name}", self.address.shown())));
        // If two create the same project at once, the second finds the first one's.
        let naming = key_of(&format!("name {name}"));
        let address = self.address.clone();
        let is_new = |store: &mut PostgresStore| -> Result<bool> {
            let rows = store
                .connection
                .query("SELECT 1 FROM project WHERE name = $1", &[&name])
                .map_err(|failure| failed(failure, &address))?;
            Ok(rows.is_empty())
        };
        if !is_new(self)? {
            return Err(exists);
        }
        let mut session = self.session(Mode::Write);
        let made = (|| {
            session.lock_number(naming, false)?;
            session.lock(Lock::Graph, false)?;
            // Only the name does not follow from the event.
            session.run(
                "INSERT INTO project (project, name, uid, prefix, created_at_ms, version, head, last_number) \
                 VALUES ($1, $2, '', '', 0, 0, '', 0)",
                &[&name],
            )?;
            create_project(&mut session, (prefix, uid), event_uid, by)
        })();
        let ended = made.and_then(|()| {
            let committed = self.connection.commit("COMMIT", None).and_then(|committed| committed);
            committed.map_err(|failure| failed(failure, &self.address))
        });
        match ended {
            Ok(()) => Ok(()),
            Err(error) => {
                self.connection.rollback();
                // With a new uid, only another project of the same name can conflict.
                Err(if matches!(error, StoreError::Again) && !is_new(self)? { exists } else { error })
            }
        }
    }
}
