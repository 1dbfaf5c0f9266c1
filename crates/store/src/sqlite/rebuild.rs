//! Rebuilding every row from the ledger (P5).
//!
//! The fold goes into side tables in SQLite's temporary database, from one snapshot and without any lock: others
//! work on meanwhile. Then, in one write transaction, the streams that grew since are folded again, the side tables
//! are compared with the rows, and what differs is swapped in. A rebuild that is killed has changed nothing.
//!
//! **A row is a witness.** Its head says which event it has seen last. If the ledger has no such event, the ledger is
//! what was damaged: a tail was cut off, or an event replaced. Rebuilding the row would destroy the only evidence
//! inside the store, so it is refused.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use onus_core::apply::{Misplaced, ProjectFold, TaskFold};
use onus_core::chain::Record;
use onus_core::text::TextKey;

use crate::{Progress, Rebuilt, Result, StoreError};

use super::rows::{self, EVENT_COLUMNS, LEASE_COLUMNS, TASK_COLUMNS, to_sql};
use super::watch::Bell;
use super::{SqliteStore, failed};

const SIDE_TABLES: &str = "
DROP TABLE IF EXISTS temp.new_project; DROP TABLE IF EXISTS temp.new_actor; DROP TABLE IF EXISTS temp.new_alias;
DROP TABLE IF EXISTS temp.new_task; DROP TABLE IF EXISTS temp.new_lease; DROP TABLE IF EXISTS temp.new_indexed;
DROP TABLE IF EXISTS temp.new_dep; DROP TABLE IF EXISTS temp.new_scope;
CREATE TEMP TABLE new_project AS SELECT * FROM main.project WHERE 0;
CREATE TEMP TABLE new_actor AS SELECT * FROM main.actor WHERE 0;
CREATE TEMP TABLE new_alias AS SELECT * FROM main.alias WHERE 0;
CREATE TEMP TABLE new_task AS SELECT * FROM main.task WHERE 0;
CREATE TEMP TABLE new_lease AS SELECT * FROM main.lease WHERE 0;
CREATE TEMP TABLE new_dep AS SELECT * FROM main.dep WHERE 0;
CREATE TEMP TABLE new_scope AS SELECT * FROM main.scope WHERE 0;
CREATE TEMP TABLE new_indexed (stream TEXT, version INTEGER, field TEXT);
CREATE INDEX temp.new_task_uid ON new_task (uid);
CREATE INDEX temp.new_task_parent ON new_task (parent);
CREATE INDEX temp.new_dep_task ON new_dep (task);
CREATE INDEX temp.new_dep_needs ON new_dep (needs);
CREATE INDEX temp.new_scope_task ON new_scope (task, token);
CREATE INDEX temp.new_lease_task ON new_lease (task, token);
CREATE INDEX temp.new_indexed_place ON new_indexed (stream, version, field);
";

/// How a report names the texts that are, or are not, searchable.
const SEARCH: &str = "search";

/// How many events are folded between two reports.
const STEP: u64 = 10_000;

pub(super) fn rebuild(store: &mut SqliteStore, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
    let path = store.path.clone();
    let fail = |error: rusqlite::Error| failed(&error, &path);
    let project = store.project.clone();
    store.connection.execute_batch(SIDE_TABLES).map_err(fail)?;

    let snapshot = store.connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(fail)?;
    let last_seq: i64 =
        snapshot.query_row("SELECT COALESCE(MAX(seq), 0) FROM event", [], |row| row.get(0)).map_err(fail)?;
    let total: i64 = snapshot.query_row("SELECT COUNT(*) FROM event", [], |row| row.get(0)).map_err(fail)?;
    let total = u64::try_from(total).unwrap_or_default();
    let mut folder = Folder { connection: &snapshot, path: &path, project: &project };
    let events = folder.fold(None, &mut |done| progress(Progress { done, total }))?;
    snapshot.commit().map_err(fail)?;
    progress(Progress { done: total, total });

    let _seat = store.queue.sit(store.wait)?;
    let swap = store.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    let grown: Vec<String> = swap
        .prepare("SELECT DISTINCT stream FROM event WHERE seq > ?1")
        .and_then(|mut statement| statement.query_map([last_seq], |row| row.get(0))?.collect())
        .map_err(fail)?;
    let mut folder = Folder { connection: &swap, path: &path, project: &project };
    for stream in &grown {
        folder.forget(stream).map_err(fail)?;
        folder.fold(Some(stream), &mut |_| {})?;
    }
    hear_witnesses(&swap, &path)?;
    let changed = swap_in(&swap).map_err(fail)?;
    let tasks: i64 = swap.query_row("SELECT COUNT(*) FROM main.task", [], |row| row.get(0)).map_err(fail)?;
    let _bell = Bell::take(&path);
    swap.commit().map_err(fail)?;
    Ok(Rebuilt { events, tasks: u64::try_from(tasks).unwrap_or_default(), changed })
}

/// What a rebuild would change, from one snapshot and without changing it: how many rows differ, by table.
pub(super) fn differing(store: &mut SqliteStore) -> Result<Vec<(String, u64)>> {
    let path = store.path.clone();
    let fail = |error: rusqlite::Error| failed(&error, &path);
    let project = store.project.clone();
    store.connection.execute_batch(SIDE_TABLES).map_err(fail)?;
    let snapshot = store.connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(fail)?;
    Folder { connection: &snapshot, path: &path, project: &project }.fold(None, &mut |_| {})?;
    hear_witnesses(&snapshot, &path)?;
    compare(&snapshot).map_err(fail)
}

/// Refuses if a row has seen an event that the ledger does not have.
fn hear_witnesses(connection: &Connection, path: &std::path::Path) -> Result<()> {
    let contradicted: Option<(String, i64, &str)> = connection
        .query_row(
            "SELECT row.uid, row.version, event.hash IS NULL, \
                 (SELECT COALESCE(MAX(version), 0) + 1 FROM main.event WHERE stream = row.uid) \
             FROM (SELECT uid, version, head FROM main.task UNION ALL SELECT uid, version, head FROM main.project) AS row \
             LEFT JOIN main.event ON event.stream = row.uid AND event.version = row.version \
             WHERE event.hash IS NOT row.head LIMIT 1",
            [],
            |row| {
                let stream = row.get(0)?;
                Ok(match row.get(2)? {
                    true => (stream, row.get(3)?, "its row has seen it, and it is missing"),
                    false => (stream, row.get(1)?, "its row has seen another in its place"),
                })
            },
        )
        .optional()
        .map_err(|error| failed(&error, path))?;
    match contradicted {
        None => Ok(()),
        Some((stream, version, why)) => Err(StoreError::Tampered {
            stream,
            version: u64::try_from(version).unwrap_or_default(),
            why: why.to_owned(),
        }),
    }
}

struct Folder<'a> {
    connection: &'a Connection,
    path: &'a std::path::Path,
    project: &'a str,
}

pub(crate) enum Fold {
    Project(ProjectFold),
    Task(TaskFold),
}

impl Folder<'_> {
    /// Folds one stream, or all, into the side tables. Returns the number of events.
    fn fold(&mut self, stream: Option<&str>, report: &mut dyn FnMut(u64)) -> Result<u64> {
        let fail = |error: rusqlite::Error| failed(&error, self.path);
        let which = if stream.is_some() { "stream = ?1" } else { "?1 IS NULL" };
        let mut statement = self
            .connection
            .prepare(&format!("SELECT {EVENT_COLUMNS} FROM event WHERE {which} ORDER BY stream, version"))
            .map_err(fail)?;
        let mut rows = statement.query([stream]).map_err(fail)?;
        let mut events = 0;
        let mut current: Option<(String, Fold, Record)> = None;
        while let Some(row) = rows.next().map_err(fail)? {
            let record = rows::record(row, self.project).map_err(fail)?;
            let stream = record.task.clone().unwrap_or_else(|| self.project.to_owned());
            let (mut fold, previous) = match current.take() {
                Some((name, fold, previous)) if name == stream => (fold, Some(previous)),
                finished => {
                    if let Some((_, fold, _)) = finished {
                        self.put(fold).map_err(fail)?;
                    }
                    let fresh = match record.task {
                        Some(_) => Fold::Task(TaskFold::default()),
                        None => Fold::Project(ProjectFold::default()),
                    };
                    (fresh, None)
                }
            };
            add(&mut fold, &record, previous.as_ref()).map_err(|why| StoreError::Tampered {
                stream: stream.clone(),
                version: record.version,
                why,
            })?;
            current = Some((stream, fold, record));
            events += 1;
            if events % STEP == 0 {
                report(events);
            }
        }
        if let Some((_, fold, _)) = current {
            self.put(fold).map_err(fail)?;
        }
        Ok(events)
    }

    fn forget(&self, stream: &str) -> rusqlite::Result<()> {
        let tables: &[(&str, &str)] = if stream == self.project {
            &[("new_project", "uid = ?1"), ("new_actor", "?1 IS NOT NULL"), ("new_alias", "?1 IS NOT NULL")]
        } else {
            &[
                ("new_task", "uid = ?1"),
                ("new_lease", "task = ?1"),
                ("new_dep", "task = ?1"),
                ("new_scope", "task = ?1"),
                ("new_indexed", "stream = ?1"),
            ]
        };
        for (table, condition) in tables {
            self.connection.execute(&format!("DELETE FROM temp.{table} WHERE {condition}"), [stream])?;
        }
        Ok(())
    }

    fn put(&self, fold: Fold) -> rusqlite::Result<()> {
        match fold {
            Fold::Project(fold) => self.put_project(&fold),
            Fold::Task(fold) => self.put_task(&fold),
        }
    }

    fn put_project(&self, fold: &ProjectFold) -> rusqlite::Result<()> {
        if let Some(project) = &fold.project {
            self.connection
                .prepare_cached("INSERT INTO temp.new_project VALUES (1, ?1, ?2, ?3, ?4, ?5, 0)")?
                .execute(params![
                    project.uid.to_string(),
                    project.prefix.as_str(),
                    project.created_at_ms,
                    to_sql(project.version.0),
                    project.head,
                ])?;
        }
        for actor in fold.actors.values() {
            self.connection
                .prepare_cached("INSERT INTO temp.new_actor VALUES (?1, ?2, ?3)")?
                .execute(params![actor.name.as_str(), actor.tier.0, actor.registered_at_ms])?;
        }
        for (alias, actor) in &fold.aliases {
            self.connection
                .prepare_cached("INSERT INTO temp.new_alias VALUES (?1, ?2)")?
                .execute(params![alias.as_str(), actor.as_str()])?;
        }
        Ok(())
    }

    fn put_task(&self, fold: &TaskFold) -> rusqlite::Result<()> {
        let insert_task = rows::insert_task_into("temp.new_task");
        let insert_lease = rows::insert_lease_into("temp.new_lease");
        if let Some(task) = &fold.task {
            rows::with_task(task, |values| self.connection.prepare_cached(&insert_task)?.execute(values))?;
        }
        for lease in fold.leases.values() {
            rows::with_lease(lease, |values| self.connection.prepare_cached(&insert_lease)?.execute(values))?;
        }
        for (token, scope) in &fold.scopes {
            let lease = fold.leases.get(token);
            let task = lease.map(|lease| lease.task.to_string());
            let held = lease.is_some_and(|lease| lease.ended.is_none());
            for (glob, anchor) in crate::near::rows_of(scope) {
                self.connection
                    .prepare_cached("INSERT INTO temp.new_scope VALUES (?1, ?2, ?3, ?4, ?5)")?
                    .execute(params![task, to_sql(token.0), glob, anchor, held])?;
            }
        }
        let task = fold.task.as_ref().map(|task| task.uid.to_string());
        for upstream in &fold.deps {
            self.connection
                .prepare_cached("INSERT INTO temp.new_dep (task, needs) VALUES (?1, ?2)")?
                .execute(params![task, upstream.to_string()])?;
        }
        for TextKey { stream, version, field } in &fold.indexed {
            self.connection
                .prepare_cached("INSERT INTO temp.new_indexed VALUES (?1, ?2, ?3)")?
                .execute(params![stream.to_string(), to_sql(version.0), field.as_str()])?;
        }
        Ok(())
    }
}

/// Adds one event to its stream's fold, if it follows the one before it.
pub(crate) fn add(
    fold: &mut Fold,
    record: &Record,
    previous: Option<&Record>,
) -> std::result::Result<(), String> {
    let (version, hash) = previous.map_or((0, ""), |previous| (previous.version, previous.hash.as_str()));
    if record.version != version + 1 {
        return Err(format!("event {} is missing before it", version + 1));
    }
    if record.prev != hash || record.hash != record.expected_hash() {
        return Err("its hash does not match".to_owned());
    }
    let event = record.to_event().map_err(|error| error.to_string())?;
    let misplaced = |error: Misplaced| error.to_string();
    match fold {
        Fold::Project(fold) => fold.add(&event).map_err(misplaced),
        Fold::Task(fold) => fold.add(&event).map_err(misplaced),
    }
}

/// Not history, and carried over: the pulse of each lease that has not ended.
const CARRY_OVER: &str = "
UPDATE temp.new_lease SET (last_wall_ms, last_tick_ms, last_domain, progress_wall_ms, progress_tick_ms,
    progress_domain, renewals, deadline_wall_ms, deadline_tick_ms, deadline_domain, resting) = (SELECT last_wall_ms,
    last_tick_ms, last_domain, progress_wall_ms, progress_tick_ms, progress_domain, renewals, deadline_wall_ms,
    deadline_tick_ms, deadline_domain, resting FROM main.lease AS old WHERE old.task = new_lease.task AND old.token = new_lease.token)
WHERE ended_how IS NULL AND EXISTS (SELECT 1 FROM main.lease AS old WHERE old.task = new_lease.task
    AND old.token = new_lease.token AND old.ended_how IS NULL);
UPDATE temp.new_project SET last_number = (SELECT COALESCE(MAX(number), 0) FROM temp.new_task);
";

/// What each row counts of its neighbours, counted anew.
const COUNT: &str = "
UPDATE temp.new_task SET
    unmet = (SELECT COUNT(*) FROM temp.new_dep AS dep JOIN temp.new_task AS other ON other.uid = dep.needs
        WHERE dep.task = new_task.uid AND other.met = 0),
    open_dependents = (SELECT COUNT(*) FROM temp.new_dep AS dep JOIN temp.new_task AS other ON other.uid = dep.task
        WHERE dep.needs = new_task.uid AND other.state NOT IN ('done', 'dropped')),
    open_children = (SELECT COUNT(*) FROM temp.new_task AS other
        WHERE other.parent = new_task.uid AND other.state NOT IN ('done', 'dropped'));
";

const TABLES: [(&str, &str); 7] = [
    ("project", "id, uid, prefix, created_at_ms, version, head, last_number"),
    ("actor", "name, tier, registered_at_ms"),
    ("alias", "alias, actor"),
    ("task", TASK_COLUMNS),
    ("lease", LEASE_COLUMNS),
    ("dep", "task, needs"),
    ("scope", "task, token, glob, anchor, held"),
];

/// Which texts should be searchable.
const SHOULD_BE: &str = "EXISTS (SELECT 1 FROM temp.new_indexed AS n WHERE n.stream = text.stream \
    AND n.version = text.version AND n.field = text.field)";

/// How many rows are not as the side tables have them, by table; only those where some are not.
fn compare(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    connection.execute_batch(CARRY_OVER)?;
    connection.execute_batch(COUNT)?;
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let mut differing = Vec::new();
    for (table, columns) in TABLES {
        let beyond = |from: &str, against: &str| {
            count(&format!(
                "SELECT COUNT(*) FROM (SELECT {columns} FROM {from} EXCEPT SELECT {columns} FROM {against})"
            ))
        };
        let (old, new) = (format!("main.{table}"), format!("temp.new_{table}"));
        differing.push((table.to_owned(), beyond(&old, &new)?.max(beyond(&new, &old)?)));
    }
    let indexed = count(&format!("SELECT COUNT(*) FROM main.text WHERE indexed <> {SHOULD_BE}"))?;
    differing.push((SEARCH.to_owned(), indexed));
    let differing =
        differing.into_iter().map(|(table, rows)| (table, u64::try_from(rows).unwrap_or_default()));
    Ok(differing.filter(|(_, rows)| *rows > 0).collect())
}

fn swap_in(swap: &Transaction<'_>) -> rusqlite::Result<Vec<(String, u64)>> {
    let changed = compare(swap)?;
    for (table, columns) in TABLES.iter().filter(|(table, _)| changed.iter().any(|(name, _)| name == table)) {
        swap.execute_batch(&format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} ({columns}) SELECT {columns} FROM temp.new_{table};"
        ))?;
    }
    if changed.iter().any(|(name, _)| name == SEARCH) {
        swap.execute(&format!("UPDATE main.text SET indexed = {SHOULD_BE}"), [])?;
        swap.execute("INSERT INTO search (search) VALUES ('rebuild')", [])?;
    }
    Ok(changed)
}
