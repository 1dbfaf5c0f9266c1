//! The tables whose rows follow from the ledger, as a rebuild sees them: the key of a row, the statements
//! that select, delete and insert rows, and which part of a row is not history.

use super::columns::{
    INSERT_LEASE, INSERT_TASK, LEASE, LEASE_COLUMNS, PULSE, TASK, TASK_COLUMNS, TASK_COUNTS,
};
use super::seat::{INSERT_SEAT, SEAT_COLUMNS};
use super::sql::sql;
use super::write::{INSERT_ACTOR, INSERT_REF};
use super::{Sql, Value, commit, judgement, stretch, usage};

/// The rows of a range of tasks.
const OF_TASKS: &str = "{project = $1 AND }task >= ?1 AND task <= ?2";

/// A row, or its key.
pub(super) type RowValues = Vec<Value<'static>>;

pub(super) struct Table {
    pub(super) name: &'static str,
    /// The cells that identify a row, in the order of the parameters of `delete`.
    pub(super) key: &'static [usize],
    /// Selects the rows of a range of streams, or names.
    pub(super) select: Sql<'static>,
    pub(super) delete: Sql<'static>,
    pub(super) insert: Sql<'static>,
    /// Copies what is not history from the existing row to the expected one.
    pub(super) carry_over: fn(&mut RowValues, &RowValues),
}

pub(super) const ACTOR: Table = Table {
    name: "actor",
    key: &[0],
    select: sql!(
        "SELECT name, tier, registered_at_ms FROM actor WHERE {project = $1 AND }name >= ?1 AND name <= ?2"
    ),
    delete: sql!("DELETE FROM actor WHERE {project = $1 AND }name = ?1"),
    insert: INSERT_ACTOR,
    carry_over: |_, _| (),
};

pub(super) const ALIAS: Table = Table {
    name: "alias",
    key: &[0],
    select: sql!("SELECT alias, actor FROM alias WHERE {project = $1 AND }alias >= ?1 AND alias <= ?2"),
    delete: sql!("DELETE FROM alias WHERE {project = $1 AND }alias = ?1"),
    insert: sql!("INSERT INTO alias ({project, }alias, actor) VALUES ({$1, }?1, ?2)"),
    carry_over: |_, _| (),
};

/// The counters of neighbours are compared at the end, when everything else is right.
pub(super) const TASKS: Table = Table {
    name: "task",
    key: &[1],
    select: sql!("SELECT ", TASK_COLUMNS, " FROM task WHERE {project = $1 AND }uid >= ?1 AND uid <= ?2"),
    delete: sql!("DELETE FROM task WHERE {project = $1 AND }uid = ?1"),
    insert: INSERT_TASK,
    carry_over: |expected, there| copy(&TASK, &TASK_COUNTS, expected, there),
};

pub(super) const SEATS: Table = Table {
    name: "seat",
    key: &[0],
    select: sql!("SELECT ", SEAT_COLUMNS, " FROM seat WHERE {project = $1 AND }uid >= ?1 AND uid <= ?2"),
    delete: sql!("DELETE FROM seat WHERE {project = $1 AND }uid = ?1"),
    insert: INSERT_SEAT,
    carry_over: |_, _| (),
};

/// The pulse of a lease that has not ended is not history, and is carried over.
pub(super) const LEASES: Table = Table {
    name: "lease",
    key: &[1, 2],
    select: sql!("SELECT ", LEASE_COLUMNS, " FROM lease WHERE ", OF_TASKS),
    delete: sql!("DELETE FROM lease WHERE {project = $1 AND }task = ?1 AND token = ?2"),
    insert: INSERT_LEASE,
    carry_over: |expected, there| {
        let is_live = |row: &RowValues| {
            LEASE.iter().zip(row).any(|(column, value)| *column == "ended_how" && *value == Value::Null)
        };
        if is_live(expected) && is_live(there) {
            copy(&LEASE, &PULSE, expected, there);
        }
    },
};

pub(super) const STRETCHES: Table = Table {
    name: "stretch",
    key: &[0, 1, 2],
    select: sql!("SELECT ", stretch::COLUMNS, " FROM stretch WHERE ", OF_TASKS),
    delete: sql!("DELETE FROM stretch WHERE {project = $1 AND }task = ?1 AND version = ?2 AND place = ?3"),
    insert: stretch::INSERT,
    carry_over: |_, _| (),
};

pub(super) const USAGE: Table = Table {
    name: "usage",
    key: &[0, 1],
    select: sql!("SELECT ", usage::COLUMNS, " FROM usage WHERE ", OF_TASKS),
    delete: sql!("DELETE FROM usage WHERE {project = $1 AND }task = ?1 AND version = ?2"),
    insert: usage::INSERT,
    carry_over: |_, _| (),
};

pub(super) const COMMITS: Table = Table {
    name: "made_commit",
    key: &[0, 1],
    select: sql!("SELECT ", commit::COLUMNS, " FROM made_commit WHERE ", OF_TASKS),
    delete: sql!("DELETE FROM made_commit WHERE {project = $1 AND }task = ?1 AND version = ?2"),
    insert: commit::INSERT,
    carry_over: |_, _| (),
};

pub(super) const JUDGEMENTS: Table = Table {
    name: "judgement",
    key: &[0, 1],
    select: sql!("SELECT ", judgement::COLUMNS, " FROM judgement WHERE ", OF_TASKS),
    delete: sql!("DELETE FROM judgement WHERE {project = $1 AND }task = ?1 AND version = ?2"),
    insert: judgement::INSERT,
    carry_over: |_, _| (),
};

pub(super) const DEPS: Table = Table {
    name: "dep",
    key: &[0, 1],
    select: sql!("SELECT task, needs FROM dep WHERE ", OF_TASKS),
    delete: sql!("DELETE FROM dep WHERE {project = $1 AND }task = ?1 AND needs = ?2"),
    insert: sql!("INSERT INTO dep ({project, }task, needs) VALUES ({$1, }?1, ?2)"),
    carry_over: |_, _| (),
};

pub(super) const REFS: Table = Table {
    name: "ref",
    key: &[0, 1],
    select: sql!("SELECT task, system, reference FROM ref WHERE ", OF_TASKS),
    delete: sql!("DELETE FROM ref WHERE {project = $1 AND }task = ?1 AND system = ?2"),
    insert: INSERT_REF,
    carry_over: |_, _| (),
};

pub(super) const SCOPES: Table = Table {
    name: "scope",
    key: &[0, 1, 2, 3, 4, 5, 7],
    select: sql!(
        "SELECT task, token, glob, anchor, kind, worktree, area, part, changed, held FROM scope WHERE ",
        OF_TASKS
    ),
    delete: sql!(
        "DELETE FROM scope WHERE {project = $1 AND }task = ?1 AND token = ?2 AND glob = ?3 AND anchor = ?4 \
         AND kind = ?5 AND worktree = ?6 AND part = ?7"
    ),
    insert: sql!(
        "INSERT INTO scope ({project, }task, token, glob, {glob_hash, }anchor, kind, worktree, area, part, changed, held) \
         VALUES ({$1, }?1, ?2, ?3, {sha256(convert_to(?3, 'UTF8')), }?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    ),
    carry_over: |_, _| (),
};

fn copy(columns: &[&str], which: &[&str], expected: &mut RowValues, there: &RowValues) {
    for ((column, expected), there) in columns.iter().zip(expected).zip(there) {
        if which.contains(column) {
            *expected = there.clone();
        }
    }
}

/// Whether a cell has the expected value; SQLite's booleans are numbers.
pub(super) fn is_same(expected: &Value<'_>, there: &Value<'_>) -> bool {
    match (expected, there) {
        (Value::Bool(is), Value::Integer(number)) => i64::from(*is) == *number,
        _ => expected == there,
    }
}
