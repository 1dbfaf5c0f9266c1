//! Either store, chosen by its address when the program starts.

use std::path::Path;

use crate::{
    Clock, Ending, Finding, PostgresStore, Progress, Read, Rebuilt, Result, SqliteStore, Store, Watch, Write,
};

#[derive(Debug)]
pub enum AnyStore {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

/// Does the same with whichever store it is.
macro_rules! either {
    ($any:expr, $store:ident => $done:expr) => {
        match $any {
            AnyStore::Sqlite($store) => $done,
            #[cfg(feature = "postgres")]
            AnyStore::Postgres($store) => $done,
            #[cfg(not(feature = "postgres"))]
            AnyStore::Postgres(never) => match *never {},
        }
    };
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
        either!(self, store => store.set_clock(clock))
    }
}

impl Store for AnyStore {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        either!(self, store => store.read(work))
    }

    fn transact<R>(&mut self, work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R> {
        either!(self, store => store.transact(work))
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        either!(self, store => store.rebuild(progress))
    }

    fn backup(&mut self, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        either!(self, store => store.backup(to, progress))
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        either!(self, store => store.check())
    }

    fn tidy(&mut self) -> Result<bool> {
        either!(self, store => store.tidy())
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        either!(self, store => store.watch())
    }
}
