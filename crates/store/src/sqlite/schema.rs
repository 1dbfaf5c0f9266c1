//! The tables, and how an older store becomes a newer one: numbered steps, forward only, one transaction.

use rusqlite::Connection;

use crate::{Result, StoreError};

use super::failed;

/// "onus" in ASCII, in the database's header: what tells our file from anybody else's.
pub(super) const APPLICATION_ID: i64 = 0x6f6e_7573;

/// Step n turns schema n into schema n + 1.
const STEPS: &[&str] = &[FIRST, GRAPH, AGENTS];

pub(super) const KNOWN: i64 = STEPS.len() as i64;

/// Rows that are a fold of the ledger: project, actor, alias, task, lease, and which texts are indexed.
/// Rows that are not: event (the ledger itself), text (erasable), a live lease's pulse, instance, request, and chore
/// (what must still be done to the files themselves).
const FIRST: &str = "
CREATE TABLE project (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    uid TEXT NOT NULL,
    prefix TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    head TEXT NOT NULL,
    last_number INTEGER NOT NULL
) STRICT;

CREATE TABLE actor (
    name TEXT PRIMARY KEY,
    tier INTEGER NOT NULL,
    registered_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE alias (
    alias TEXT PRIMARY KEY,
    actor TEXT NOT NULL REFERENCES actor (name) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    uid TEXT NOT NULL,
    stream TEXT NOT NULL,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    token INTEGER,
    at_ms INTEGER NOT NULL,
    cause TEXT,
    payload TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_place ON event (stream, version);

CREATE TABLE text (
    id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    version INTEGER NOT NULL,
    field TEXT NOT NULL,
    salt BLOB NOT NULL,
    body TEXT NOT NULL,
    indexed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX text_place ON text (stream, version, field);

CREATE TABLE task (
    number INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    uid_reversed TEXT NOT NULL,
    version INTEGER NOT NULL,
    head TEXT NOT NULL,
    state TEXT NOT NULL,
    type TEXT NOT NULL,
    priority TEXT NOT NULL,
    required_tier INTEGER NOT NULL,
    area TEXT,
    iteration TEXT,
    owner TEXT,
    tags TEXT NOT NULL,
    refs TEXT NOT NULL,
    title_version INTEGER NOT NULL,
    body_version INTEGER,
    origin TEXT,
    created_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    token INTEGER NOT NULL,
    leased INTEGER NOT NULL,
    opened_token INTEGER NOT NULL,
    kept_actor TEXT,
    kept_wall_ms INTEGER,
    kept_tick_ms INTEGER,
    kept_domain TEXT,
    kept_version INTEGER,
    submitter TEXT
) STRICT;
CREATE INDEX task_uid_reversed ON task (uid_reversed);
CREATE UNIQUE INDEX task_origin ON task (origin) WHERE origin IS NOT NULL;
CREATE INDEX task_open ON task (priority, number, required_tier) WHERE state = 'open' AND leased = 0;
CREATE INDEX task_unfinished ON task (priority, number) WHERE state NOT IN ('done', 'dropped');
CREATE INDEX task_state ON task (state, priority, number);

CREATE TABLE lease (
    task TEXT NOT NULL REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED,
    token INTEGER NOT NULL,
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    tier INTEGER NOT NULL,
    acquired_at_ms INTEGER NOT NULL,
    tick_ms INTEGER NOT NULL,
    domain TEXT NOT NULL,
    ttl_ms INTEGER,
    max_hold_ms INTEGER,
    process TEXT,
    worktree TEXT,
    branch TEXT,
    mode TEXT NOT NULL,
    reserve INTEGER NOT NULL,
    handoff_version INTEGER,
    version INTEGER NOT NULL,
    active_wall_ms INTEGER NOT NULL,
    active_tick_ms INTEGER NOT NULL,
    active_domain TEXT NOT NULL,
    active_before_s INTEGER NOT NULL,
    last_wall_ms INTEGER NOT NULL,
    last_tick_ms INTEGER NOT NULL,
    last_domain TEXT NOT NULL,
    renewals INTEGER NOT NULL,
    deadline_wall_ms INTEGER,
    deadline_tick_ms INTEGER,
    deadline_domain TEXT,
    ended_how TEXT,
    ended_at_ms INTEGER,
    ended_version INTEGER,
    ended_active_s INTEGER,
    PRIMARY KEY (task, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_holder ON lease (task, actor, instance, token);
CREATE INDEX lease_unended ON lease (actor, instance) WHERE ended_how IS NULL;
CREATE INDEX lease_lost ON lease (actor, instance, ended_at_ms) WHERE ended_how IN ('taken_over', 'revoked', 'lapsed');

CREATE TABLE instance (
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    machine TEXT,
    boot TEXT,
    pid_ns TEXT,
    time_ns TEXT,
    pid INTEGER,
    start INTEGER,
    seen_at_ms INTEGER NOT NULL,
    PRIMARY KEY (actor, instance)
) STRICT, WITHOUT ROWID;
CREATE INDEX instance_process ON instance (pid, start) WHERE pid IS NOT NULL;

CREATE TABLE request (
    actor TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT,
    salt BLOB NOT NULL,
    verb TEXT NOT NULL,
    task TEXT,
    token INTEGER,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_task ON request (task);

CREATE TABLE chore (
    name TEXT PRIMARY KEY,
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW searchable AS SELECT id, body FROM text WHERE indexed = 1;
CREATE VIRTUAL TABLE search USING fts5 (
    body, content = 'searchable', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
";

/// Dependencies, parents and schedules, with what `ready` needs to be read off an index; scopes; progress beside signs
/// of life; which process group an instance runs.
const GRAPH: &str = "
ALTER TABLE task ADD COLUMN parent TEXT REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE task ADD COLUMN relates TEXT NOT NULL DEFAULT '[]';
ALTER TABLE task ADD COLUMN not_before_ms INTEGER;
ALTER TABLE task ADD COLUMN max_attempts INTEGER;
ALTER TABLE task ADD COLUMN scope TEXT NOT NULL DEFAULT '[]';
ALTER TABLE task ADD COLUMN mode TEXT NOT NULL DEFAULT 'exclusive';
ALTER TABLE task ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN fenced_token INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN met INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN finished INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN unmet INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN open_children INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN open_dependents INTEGER NOT NULL DEFAULT 0;
UPDATE task SET met = 1 WHERE state = 'done';
UPDATE task SET finished = 1 WHERE state IN ('done', 'dropped');
CREATE INDEX task_parent ON task (parent) WHERE parent IS NOT NULL;
DROP INDEX task_unfinished;
CREATE INDEX task_unfinished ON task (priority, number) WHERE finished = 0;
DROP INDEX task_open;
CREATE INDEX task_ready ON task (required_tier, priority, open_dependents DESC, number)
    WHERE state = 'open' AND leased = 0 AND unmet = 0 AND open_children = 0 AND not_before_ms IS NULL;
CREATE INDEX task_scheduled ON task (not_before_ms)
    WHERE state = 'open' AND leased = 0 AND unmet = 0 AND open_children = 0 AND not_before_ms IS NOT NULL;

CREATE TABLE dep (
    task TEXT NOT NULL REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED,
    needs TEXT NOT NULL REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;
CREATE INDEX dep_needs ON dep (needs, task);

CREATE TABLE scope (
    task TEXT NOT NULL,
    token INTEGER NOT NULL,
    glob TEXT NOT NULL,
    anchor TEXT NOT NULL,
    held INTEGER NOT NULL,
    PRIMARY KEY (task, token, glob, anchor)
) STRICT, WITHOUT ROWID;
CREATE INDEX scope_anchor ON scope (anchor) WHERE held = 1;

ALTER TABLE lease ADD COLUMN progress_wall_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN progress_tick_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN progress_domain TEXT NOT NULL DEFAULT '';
UPDATE lease SET progress_wall_ms = last_wall_ms, progress_tick_ms = last_tick_ms, progress_domain = last_domain;
DROP INDEX lease_holder;
CREATE INDEX lease_holder ON lease (task, actor, instance, token) WHERE ended_how IS NOT NULL;
DROP INDEX lease_lost;
CREATE INDEX lease_lost ON lease (actor, instance, ended_at_ms)
    WHERE ended_how IN ('taken_over', 'revoked', 'reset', 'lapsed');

ALTER TABLE instance ADD COLUMN pgid INTEGER;
";

/// Ad-hoc work, holders that rest between two turns, and which path of another's task an instance was refused last.
const AGENTS: &str = "
ALTER TABLE task ADD COLUMN ad_hoc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN resting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN wants_task TEXT;
ALTER TABLE instance ADD COLUMN wants_path TEXT;
ALTER TABLE instance ADD COLUMN wants_at_ms INTEGER;
CREATE INDEX instance_wants ON instance (wants_task) WHERE wants_task IS NOT NULL;
";

/// The schema a store has; an error if it is not ours or from the future.
pub(super) fn version(connection: &Connection, path: &std::path::Path) -> Result<i64> {
    let number = |pragma: &str| {
        connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(|e| failed(&e, path))
    };
    let found = number("user_version")?;
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN });
    }
    if number("application_id")? != APPLICATION_ID {
        let why = if found == 0 { "it is an empty or foreign database" } else { "another program made it" };
        return Err(StoreError::NotAStore { path: path.to_owned(), why: why.to_owned() });
    }
    Ok(found)
}

/// Takes the steps that are missing. The caller holds the write lock; all or nothing.
pub(super) fn migrate(connection: &Connection, found: i64) -> rusqlite::Result<()> {
    let missing = STEPS.iter().enumerate().skip(usize::try_from(found).unwrap_or_default());
    let transaction = connection.unchecked_transaction()?;
    for (index, step) in missing {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", index as i64 + 1)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store as the first schema had it, with one task of each state that the second must understand.
    fn first_schema() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(FIRST).unwrap();
        connection
            .execute_batch(
                "PRAGMA user_version = 1;
                 INSERT INTO task (number, uid, uid_reversed, version, head, state, type, priority, required_tier, tags,
                     refs, title_version, created_at_ms, created_by, updated_at_ms, token, leased, opened_token)
                 VALUES (1, 'u1', '1u', 1, 'h', 'done', 'task', 'P2', 1, '[]', '{}', 1, 5, 'human:h', 5, 1, 0, 0),
                        (2, 'u2', '2u', 1, 'h', 'open', 'task', 'P2', 1, '[]', '{}', 1, 5, 'human:h', 5, 1, 1, 0);
                 INSERT INTO lease (task, token, actor, instance, tier, acquired_at_ms, tick_ms, domain, mode, reserve,
                     version, active_wall_ms, active_tick_ms, active_domain, active_before_s, last_wall_ms, last_tick_ms,
                     last_domain, renewals)
                 VALUES ('u2', 1, 'agent:a', 'i', 1, 5, 5, 'd', 'exclusive', 0, 2, 5, 5, 'd', 0, 77, 66, 'dd', 3);",
            )
            .unwrap();
        connection
    }

    #[test]
    fn a_store_of_the_first_schema_keeps_what_it_has_and_gets_what_is_new() {
        let connection = first_schema();
        migrate(&connection, 1).unwrap();
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("PRAGMA user_version"), KNOWN);
        assert_eq!(number("SELECT met + finished FROM task WHERE number = 1"), 2);
        assert_eq!(
            number(
                "SELECT met + finished + unmet + open_children + open_dependents FROM task WHERE number = 2"
            ),
            0
        );
        assert_eq!(number("SELECT progress_wall_ms FROM lease"), 77);
        assert_eq!(number("SELECT SUM(ad_hoc) FROM task") + number("SELECT SUM(resting) FROM lease"), 0);
        assert_eq!(number("SELECT COUNT(*) FROM pragma_foreign_key_check"), 0);
    }
}
