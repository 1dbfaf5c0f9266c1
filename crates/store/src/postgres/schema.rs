//! The tables, and how an older schema becomes a newer one: numbered steps, forward only, in one transaction,
//! by one process at a time.
//!
//! Everything is in the schema `onus` of the database. Each table's keys begin with the project: one database
//! holds many projects, and every statement of this store names its project.
//!
//! **Two roles.** The owner of the tables takes the steps (`onus store migrate`); everyday work needs only what
//! [`GRANTS`] gives the role `onus_app`: to read and write rows, never to create, change or drop a table. If that role
//! does not exist, only the owner can work.
//!
//! **One database, one circle of trust.** Anyone who works with the tables can read and write every project's
//! rows, and anyone who may connect can take the locks that writers wait for. So creating the tables closes a
//! new database of our own to all other roles ([`CLOSE`]); a database that others also use is left as it is,
//! and reported as open.
//!
//! There are no foreign keys: rows are derived from the ledger in its order, and the store's own check finds
//! dangling references. A foreign key would lock rows of its own choice, in an order of its own.

use crate::{Migrated, Result, StoreError};

use super::address::Address;
use super::blocker::{AdvisoryLock, with_blocker};
use super::connection::{Connection, Failure, Value};
use super::failed;
use super::rebuild::LONG;

/// Step n turns schema n into schema n + 1.
const STEPS: &[&str] = &[include_str!("schema.sql")];

pub(super) const KNOWN: i64 = STEPS.len() as i64;

/// The lock under which steps are taken.
const MIGRATING: i64 = 0x6f6e_7573;

/// What the working role may do.
const GRANTS: &str = include_str!("grants.sql");

/// Closes a database of our own to all other roles.
const CLOSE: &str = include_str!("close.sql");

/// Whether any role of the server may connect.
pub(super) const IS_OPEN: &str = "SELECT has_database_privilege('public', current_database(), 'CONNECT')";

/// The database's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) version: i64,
    /// Identifies the clock: generated once, and kept wherever the database is moved.
    pub(super) cluster: String,
}

/// The oldest server version that supports this store's statements.
const OLDEST_SERVER: i32 = 140_000;

/// Takes the missing steps, and gives the working role its permissions.
pub(super) fn migrate(connection: &mut Connection, address: &Address) -> Result<Migrated> {
    let server: i32 = single(connection, address, "SELECT current_setting('server_version_num')::int", &[])?
        .unwrap_or_default();
    if server < OLDEST_SERVER {
        return Err(
            address.fails(format!("the server is PostgreSQL {}; onus needs 14 or newer", server / 10_000))
        );
    }
    // If two migrate at once, the second finds what the first has done.
    let begun = connection.begin("BEGIN", ("SELECT pg_advisory_xact_lock($1)", &[&MIGRATING]), None);
    begun.map_err(|failure| {
        with_blocker(failed(failure, address), address, AdvisoryLock { key: MIGRATING, shared: false })
    })?;
    connection.set_patience(LONG);
    let found = take_steps(connection, address);
    let ended = match &found {
        Ok(_) => connection.commit("COMMIT", None).and_then(|committed| committed),
        Err(_) => {
            connection.rollback();
            Ok(())
        }
    };
    connection.set_patience(address.patience());
    let found = found?;
    ended.map_err(|failure| failed(failure, address))?;
    let is_open = single(connection, address, IS_OPEN, &[])?.unwrap_or_default();
    Ok(Migrated { found, schema: KNOWN, is_open })
}

fn take_steps(connection: &mut Connection, address: &Address) -> Result<i64> {
    let fail = |failure: Failure| failed(failure, address);
    connection.batch("SET LOCAL statement_timeout = 0").map_err(fail)?;
    let there = "SELECT to_regclass('onus.format') IS NOT NULL";
    if single(connection, address, there, &[])? != Some(true) {
        connection
            .batch(
                "CREATE SCHEMA IF NOT EXISTS onus;
                 CREATE TABLE onus.format (
                     id integer PRIMARY KEY CHECK (id = 1), version bigint NOT NULL, cluster text NOT NULL
                 );
                 INSERT INTO onus.format VALUES (1, 0, gen_random_uuid()::text);",
            )
            .map_err(fail)?;
    }
    let found = single(connection, address, "SELECT version FROM onus.format", &[])?.unwrap_or_default();
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN });
    }
    for (index, step) in STEPS.iter().enumerate().skip(usize::try_from(found).unwrap_or_default()) {
        connection.batch(step).map_err(fail)?;
        connection.execute("UPDATE onus.format SET version = $1", &[&(index as i64 + 1)]).map_err(fail)?;
    }
    connection.batch(GRANTS).map_err(fail)?;
    if found == 0 {
        connection.batch(CLOSE).map_err(fail)?;
    }
    Ok(found)
}

/// The single value that a query returns.
pub(super) fn single<T: tokio_postgres::types::FromSqlOwned>(
    connection: &mut Connection,
    address: &Address,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Option<T>> {
    connection
        .query(sql, values)
        .and_then(|rows| Ok(rows.first().map(|row| row.try_get(0)).transpose()?))
        .map_err(|failure| failed(failure, address))
}
