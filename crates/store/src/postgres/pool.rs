//! A few connections for a program that serves many: each is lent to one at a time.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Finding, Progress, Read, Rebuilt, Result, Store, StoreError, Watch, Write};

use super::{Address, PostgresStore};

/// Connections to one project of one database, opened as they are needed, up to a number.
#[derive(Debug)]
pub struct PostgresPool {
    address: Address,
    name: String,
    wait: Duration,
    most: usize,
    lent: Mutex<Lent>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Lent {
    idle: Vec<PostgresStore>,
    open: usize,
}

impl PostgresPool {
    pub fn new(address: Address, name: &str, wait: Duration, most: usize) -> PostgresPool {
        PostgresPool {
            address,
            name: name.to_owned(),
            wait,
            most: most.max(1),
            lent: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// A connection, waited for if all are lent.
    pub fn get(&self) -> Result<PooledStore<'_>> {
        let until = Instant::now() + self.wait;
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(store) = lent.idle.pop() {
                if store.is_closed() {
                    lent.open -= 1;
                    continue;
                }
                return Ok(PooledStore { pool: self, store: Some(store) });
            }
            if lent.open < self.most {
                lent.open += 1;
                drop(lent);
                let opened = PostgresStore::open(&self.address, &self.name, self.wait);
                if opened.is_err() {
                    self.lent.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
                    self.returned.notify_one();
                }
                return Ok(PooledStore { pool: self, store: Some(opened?) });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Busy { pid: None, waited: self.wait });
            }
            lent = self.returned.wait_timeout(lent, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// One connection of a pool, given back when this is dropped.
#[derive(Debug)]
pub struct PooledStore<'a> {
    pool: &'a PostgresPool,
    /// None only while it is dropped.
    store: Option<PostgresStore>,
}

impl Deref for PooledStore<'_> {
    type Target = PostgresStore;

    #[allow(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref(&self) -> &PostgresStore {
        self.store.as_ref().expect("a lent connection")
    }
}

impl DerefMut for PooledStore<'_> {
    #[allow(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref_mut(&mut self) -> &mut PostgresStore {
        self.store.as_mut().expect("a lent connection")
    }
}

impl Drop for PooledStore<'_> {
    fn drop(&mut self) {
        let mut lent = self.pool.lent.lock().unwrap_or_else(PoisonError::into_inner);
        match self.store.take().filter(|store| !store.is_closed() && !std::thread::panicking()) {
            Some(store) => lent.idle.push(store),
            None => lent.open -= 1,
        }
        self.pool.returned.notify_one();
    }
}

impl Store for PooledStore<'_> {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        (**self).read(work)
    }

    fn write<R>(&mut self, work: impl FnMut(&mut dyn Write) -> Result<R>) -> Result<R> {
        (**self).write(work)
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        (**self).rebuild(progress)
    }

    fn backup(&mut self, to: &std::path::Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        (**self).backup(to, progress)
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        (**self).check()
    }

    fn tidy(&mut self) -> Result<bool> {
        (**self).tidy()
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        (**self).watch()
    }
}
