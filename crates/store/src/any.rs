//! Either store, chosen by its address when a program starts. Nothing of the other is touched.

use std::path::Path;

use crate::{
    Clock, Ending, Finding, PostgresStore, Progress, Read, Rebuilt, Result, SqliteStore, Store, Watch, Write,
};

#[derive(Debug)]
pub enum AnyStore {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl From<SqliteStore> for AnyStore {
    fn from(store: SqliteStore) -> AnyStore {
        AnyStore::Sqlite(store)
    }
}

impl From<PostgresStore> for AnyStore {
    fn from(store: PostgresStore) -> AnyStore {
        AnyStore::Postgres(store)
    }
}

impl AnyStore {
    /// Whether this shows the store as it was when it was opened.
    pub fn is_frozen(&self) -> bool {
        match self {
            AnyStore::Sqlite(store) => store.is_frozen(),
            AnyStore::Postgres(_) => false,
        }
    }

    pub fn set_clock(&mut self, clock: Clock) {
        match self {
            AnyStore::Sqlite(store) => store.set_clock(clock),
            AnyStore::Postgres(store) => store.set_clock(clock),
        }
    }
}

impl Store for AnyStore {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        match self {
            AnyStore::Sqlite(store) => store.read(work),
            AnyStore::Postgres(store) => store.read(work),
        }
    }

    fn transact<R>(&mut self, work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R> {
        match self {
            AnyStore::Sqlite(store) => store.transact(work),
            AnyStore::Postgres(store) => store.transact(work),
        }
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        match self {
            AnyStore::Sqlite(store) => store.rebuild(progress),
            AnyStore::Postgres(store) => store.rebuild(progress),
        }
    }

    fn backup(&mut self, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        match self {
            AnyStore::Sqlite(store) => store.backup(to, progress),
            AnyStore::Postgres(store) => store.backup(to, progress),
        }
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        match self {
            AnyStore::Sqlite(store) => store.check(),
            AnyStore::Postgres(store) => store.check(),
        }
    }

    fn tidy(&mut self) -> Result<bool> {
        match self {
            AnyStore::Sqlite(store) => store.tidy(),
            AnyStore::Postgres(store) => store.tidy(),
        }
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        match self {
            AnyStore::Sqlite(store) => store.watch(),
            AnyStore::Postgres(store) => store.watch(),
        }
    }
}
