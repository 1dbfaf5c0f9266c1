//! The tables, and how an older schema becomes a newer one: numbered steps, forward only, one transaction, one at a time.
//!
//! Everything lies in the schema `onus` of the database. Each table begins its keys with the project: one database holds
//! many projects, and every statement of this store names the one it is for.
//!
//! **Two roles.** Who owns the tables takes the steps (`onus store migrate`); who works with them needs only what
//! [`GRANTS`] gives to the role `onus_app`: to read and write rows, never to make, change or drop a table. Where that role
//! does not exist, the owner works alone.
//!
//! There are no foreign keys: rows are derived from the ledger, in the order it was written, and what refers to nothing is
//! found by the store's own check. A foreign key would lock rows of its own choosing, in an order of its own.

use crate::{Result, StoreError};

use super::address::Address;
use super::connection::{Connection, Trouble, Value};
use super::failed;
use super::rebuild::LONG;

/// Step n turns schema n into schema n + 1. `WORD` is a text that sorts by its bytes, as SQLite's do.
const STEPS: &[&str] = &[FIRST];

pub(super) const KNOWN: i64 = STEPS.len() as i64;

/// The lock under which steps are taken.
const MIGRATING: i64 = 0x6f6e_7573;

const GRANTS: &str = "
DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'onus_app') THEN
    GRANT USAGE ON SCHEMA onus TO onus_app;
    GRANT SELECT ON onus.format TO onus_app;
    GRANT SELECT, INSERT, UPDATE ON onus.project, onus.task TO onus_app;
    GRANT SELECT, INSERT, UPDATE, DELETE ON onus.actor, onus.alias, onus.lease, onus.dep, onus.scope, onus.text,
        onus.instance, onus.request, onus.chore TO onus_app;
    GRANT DELETE ON onus.task TO onus_app;
    GRANT SELECT, INSERT ON onus.event TO onus_app;
    GRANT USAGE, SELECT ON SEQUENCE onus.event_seq TO onus_app;
END IF; END $$;
";

/// The same rows as in SQLite, each with its project.
const FIRST: &str = "
CREATE TABLE project (
    project uuid PRIMARY KEY,
    name WORD NOT NULL UNIQUE,
    uid WORD NOT NULL,
    prefix WORD NOT NULL,
    created_at_ms bigint NOT NULL,
    version bigint NOT NULL,
    head WORD NOT NULL,
    last_number bigint NOT NULL
);

CREATE TABLE actor (
    project uuid NOT NULL,
    name WORD NOT NULL,
    tier bigint NOT NULL,
    registered_at_ms bigint NOT NULL,
    PRIMARY KEY (project, name)
);

CREATE TABLE alias (
    project uuid NOT NULL,
    alias WORD NOT NULL,
    actor WORD NOT NULL,
    PRIMARY KEY (project, alias)
);

CREATE SEQUENCE event_seq;
-- One is taken: from now on its last value was given out.
SELECT nextval('event_seq');
CREATE TABLE event (
    project uuid NOT NULL,
    seq bigint NOT NULL DEFAULT nextval('onus.event_seq'),
    uid WORD NOT NULL,
    stream WORD NOT NULL,
    version bigint NOT NULL,
    kind WORD NOT NULL,
    actor WORD NOT NULL,
    instance WORD NOT NULL,
    token bigint,
    at_ms bigint NOT NULL,
    cause WORD,
    payload WORD NOT NULL,
    prev WORD NOT NULL,
    hash WORD NOT NULL,
    PRIMARY KEY (project, seq)
);
CREATE UNIQUE INDEX event_place ON event (project, stream, version);

CREATE TABLE text (
    project uuid NOT NULL,
    stream WORD NOT NULL,
    version bigint NOT NULL,
    field WORD NOT NULL,
    salt bytea NOT NULL,
    body WORD NOT NULL,
    indexed boolean NOT NULL DEFAULT false,
    words tsvector,
    PRIMARY KEY (project, stream, version, field)
);
CREATE INDEX text_words ON text USING gin (words) WHERE indexed;

CREATE TABLE task (
    project uuid NOT NULL,
    number bigint NOT NULL,
    uid WORD NOT NULL,
    uid_reversed WORD NOT NULL,
    version bigint NOT NULL,
    head WORD NOT NULL,
    state WORD NOT NULL,
    type WORD NOT NULL,
    priority WORD NOT NULL,
    required_tier bigint NOT NULL,
    area WORD,
    iteration WORD,
    owner WORD,
    tags WORD NOT NULL,
    refs WORD NOT NULL,
    title_version bigint NOT NULL,
    body_version bigint,
    origin WORD,
    created_at_ms bigint NOT NULL,
    created_by WORD NOT NULL,
    updated_at_ms bigint NOT NULL,
    token bigint NOT NULL,
    leased boolean NOT NULL,
    opened_token bigint NOT NULL,
    kept_actor WORD,
    kept_wall_ms bigint,
    kept_tick_ms bigint,
    kept_domain WORD,
    kept_version bigint,
    submitter WORD,
    parent WORD,
    relates WORD NOT NULL,
    not_before_ms bigint,
    max_attempts bigint,
    scope WORD NOT NULL,
    mode WORD NOT NULL,
    ad_hoc boolean NOT NULL,
    attempts bigint NOT NULL,
    fenced_token bigint NOT NULL,
    met boolean NOT NULL,
    finished boolean NOT NULL,
    unmet bigint NOT NULL,
    open_children bigint NOT NULL,
    open_dependents bigint NOT NULL,
    PRIMARY KEY (project, uid)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX task_number ON task (project, number);
CREATE INDEX task_uid_reversed ON task (project, uid_reversed);
CREATE UNIQUE INDEX task_origin ON task (project, origin) WHERE origin IS NOT NULL;
CREATE INDEX task_parent ON task (project, parent) WHERE parent IS NOT NULL;
CREATE INDEX task_ready ON task (project, required_tier, priority, open_dependents DESC, number)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NULL;
CREATE INDEX task_scheduled ON task (project, not_before_ms)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NOT NULL;
CREATE INDEX task_unfinished ON task (project, priority, number) WHERE NOT finished;
CREATE INDEX task_state ON task (project, state, priority, number);

CREATE TABLE dep (
    project uuid NOT NULL,
    task WORD NOT NULL,
    needs WORD NOT NULL,
    PRIMARY KEY (project, task, needs)
);
CREATE INDEX dep_needs ON dep (project, needs, task);

CREATE TABLE lease (
    project uuid NOT NULL,
    task WORD NOT NULL,
    token bigint NOT NULL,
    actor WORD NOT NULL,
    instance WORD NOT NULL,
    tier bigint NOT NULL,
    acquired_at_ms bigint NOT NULL,
    tick_ms bigint NOT NULL,
    domain WORD NOT NULL,
    ttl_ms bigint,
    max_hold_ms bigint,
    process WORD,
    worktree WORD,
    branch WORD,
    mode WORD NOT NULL,
    reserve boolean NOT NULL,
    handoff_version bigint,
    version bigint NOT NULL,
    active_wall_ms bigint NOT NULL,
    active_tick_ms bigint NOT NULL,
    active_domain WORD NOT NULL,
    active_before_s bigint NOT NULL,
    last_wall_ms bigint NOT NULL,
    last_tick_ms bigint NOT NULL,
    last_domain WORD NOT NULL,
    progress_wall_ms bigint NOT NULL,
    progress_tick_ms bigint NOT NULL,
    progress_domain WORD NOT NULL,
    renewals bigint NOT NULL,
    deadline_wall_ms bigint,
    deadline_tick_ms bigint,
    deadline_domain WORD,
    resting boolean NOT NULL,
    ended_how WORD,
    ended_at_ms bigint,
    ended_version bigint,
    ended_active_s bigint,
    PRIMARY KEY (project, task, token)
) WITH (fillfactor = 80);
CREATE INDEX lease_unended ON lease (project, actor, instance) WHERE ended_how IS NULL;
CREATE INDEX lease_lost ON lease (project, actor, instance, ended_at_ms)
    WHERE ended_how IN ('taken_over', 'revoked', 'reset', 'lapsed');

CREATE TABLE scope (
    project uuid NOT NULL,
    task WORD NOT NULL,
    token bigint NOT NULL,
    glob WORD NOT NULL,
    anchor WORD NOT NULL,
    held boolean NOT NULL,
    PRIMARY KEY (project, task, token, glob, anchor)
);
CREATE INDEX scope_anchor ON scope (project, anchor) WHERE held;

CREATE TABLE instance (
    project uuid NOT NULL,
    actor WORD NOT NULL,
    instance WORD NOT NULL,
    machine WORD,
    boot WORD,
    pid_ns WORD,
    time_ns WORD,
    pid bigint,
    start bigint,
    seen_at_ms bigint NOT NULL,
    pgid bigint,
    wants_task WORD,
    wants_path WORD,
    wants_at_ms bigint,
    PRIMARY KEY (project, actor, instance)
) WITH (fillfactor = 70);
CREATE INDEX instance_process ON instance (project, pid, start) WHERE pid IS NOT NULL;
CREATE INDEX instance_wants ON instance (project, wants_task) WHERE wants_task IS NOT NULL;

CREATE TABLE request (
    project uuid NOT NULL,
    actor WORD NOT NULL,
    key WORD NOT NULL,
    digest WORD,
    salt bytea NOT NULL,
    verb WORD NOT NULL,
    task WORD,
    token bigint,
    at_ms bigint NOT NULL,
    PRIMARY KEY (project, actor, key)
);
CREATE INDEX request_task ON request (project, task);

CREATE TABLE chore (
    project uuid NOT NULL,
    name WORD NOT NULL,
    since_ms bigint NOT NULL,
    PRIMARY KEY (project, name)
);
";

/// What a database says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) version: i64,
    /// Names the clock: made once, and carried wherever the database is.
    pub(super) cluster: String,
}

/// The oldest server whose statements this store uses.
const OLDEST_SERVER: i32 = 140_000;

/// Takes the steps that are missing, and gives the working role what it needs. Returns what was there and what is now.
pub(super) fn migrate(connection: &mut Connection, address: &Address) -> Result<(i64, i64)> {
    let server: i32 = single(connection, address, "SELECT current_setting('server_version_num')::int", &[])?
        .unwrap_or_default();
    if server < OLDEST_SERVER {
        return Err(
            address.fails(format!("the server is PostgreSQL {}; onus needs 14 or newer", server / 10_000))
        );
    }
    // Two that migrate at once: the second finds what the first has done.
    let begun = connection.begin("BEGIN", ("SELECT pg_advisory_xact_lock($1)", &[&MIGRATING]), None);
    begun.map_err(|trouble| failed(trouble, address))?;
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
    ended.map_err(|trouble| failed(trouble, address))?;
    Ok((found, KNOWN))
}

fn take_steps(connection: &mut Connection, address: &Address) -> Result<i64> {
    let fail = |trouble: Trouble| failed(trouble, address);
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
        connection.batch(&step.replace("WORD", "text COLLATE \"C\"")).map_err(fail)?;
        connection.execute("UPDATE onus.format SET version = $1", &[&(index as i64 + 1)]).map_err(fail)?;
    }
    connection.batch(GRANTS).map_err(fail)?;
    Ok(found)
}

/// The one value that a statement answers.
fn single<T: tokio_postgres::types::FromSqlOwned>(
    connection: &mut Connection,
    address: &Address,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Option<T>> {
    connection
        .query(sql, values)
        .and_then(|rows| Ok(rows.first().map(|row| row.try_get(0)).transpose()?))
        .map_err(|trouble| failed(trouble, address))
}
