//! A build without PostgreSQL: the address of a server is refused where it is parsed. No value of these types
//! can exist, so nothing that needs one can run, and callers are the same in both builds.

use std::time::Duration;

use onus_core::actor::{ActorName, InstanceId};
use onus_core::apply::Project;
use onus_core::ids::{Prefix, Uid};

use crate::{Migrated, Result, StoreError, spelling};

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
}
