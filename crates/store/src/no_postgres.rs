//! A build without PostgreSQL: the address of a server is refused where it is parsed. No value of these types
//! can exist, so nothing that needs one can run, and callers are the same in both builds.

use std::path::Path;
use std::time::Duration;

use onus_core::actor::{ActorName, InstanceId};
use onus_core::apply::Project;
use onus_core::ids::{Prefix, Uid};

use crate::{
    Clock, Ending, Finding, Migrated, Progress, Read, Rebuilt, Result, Store, StoreError, Watch, Write,
    spelling,
};

#[derive(Clone, Debug)]
pub enum Address {}

impl Address {
    pub fn parse(text: &str, _password: Option<&str>, _wait: Duration) -> Result<Address> {
        Err(StoreError::Unavailable {
            path: spelling::mask(text).into(),
            why: "this onus was built without PostgreSQL (the cargo feature 'postgres')".to_owned(),
        })
    }

    pub fn shown(&self) -> &str {
        match *self {}
    }

    pub fn place(&self) -> String {
        match *self {}
    }
}

#[derive(Debug)]
pub enum PostgresStore {}

impl PostgresStore {
    pub fn open(address: &Address, _name: &str, _wait: Duration) -> Result<PostgresStore> {
        match *address {}
    }

    pub fn create(
        address: &Address,
        _name: &str,
        _prefix: &Prefix,
        _uids: (Uid, Uid),
        _by: (&ActorName, &InstanceId),
        _wait: Duration,
    ) -> Result<PostgresStore> {
        match *address {}
    }

    pub fn begin_copy(
        address: &Address,
        _name: &str,
        _project: &Project,
        _wait: Duration,
    ) -> Result<PostgresStore> {
        match *address {}
    }

    pub fn migrate(address: &Address) -> Result<Migrated> {
        match *address {}
    }

    pub fn finish_copy(&mut self, _name: &str) -> Result<()> {
        match *self {}
    }

    pub fn set_clock(&mut self, _clock: Clock) {
        match *self {}
    }
}

impl Store for PostgresStore {
    fn read<R>(&mut self, _work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        match *self {}
    }

    fn transact<R>(&mut self, _work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R> {
        match *self {}
    }

    fn rebuild(&mut self, _progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        match *self {}
    }

    fn backup(&mut self, _to: &Path, _progress: &mut dyn FnMut(Progress)) -> Result<()> {
        match *self {}
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        match *self {}
    }

    fn tidy(&mut self) -> Result<bool> {
        match *self {}
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        match *self {}
    }
}
