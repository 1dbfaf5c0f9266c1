//! The tables whose rows follow from the ledger, as a rebuild sees them: the key of a row, the statements
//! that select, delete and insert rows, and which part of a row is not history.

use super::columns::{LEASE, LEASE_COLUMNS, PULSE, TASK, TASK_COLUMNS, TASK_COUNTS};
use super::seat::SEAT_COLUMNS;
use super::sql::sql;
use super::{Dialect, Sql, Value, commit, judgement, stretch, usage};

/// A row, or its key.
pub(super) type RowValues = Vec<Value<'static>>;

pub(super) struct Table {
    pub(super) name: &'static str,
    columns: &'static str,
    /// The columns that identify a row. The first has its stream, or a name.
    key: &'static [&'static str],
}

const fn table(name: &'static str, columns: &'static str, key: &'static [&'static str]) -> Table {
    Table { name, columns, key }
}

pub(super) const ACTOR: Table = table("actor", "name, tier, registered_at_ms", &["name"]);
pub(super) const ALIAS: Table = table("alias", "alias, actor", &["alias"]);
pub(super) const TASKS: Table = table("task", TASK_COLUMNS, &["uid"]);
pub(super) const SEATS: Table = table("seat", SEAT_COLUMNS, &["uid"]);
pub(super) const LEASES: Table = table("lease", LEASE_COLUMNS, &["task", "token"]);
pub(super) const STRETCHES: Table = table("stretch", stretch::COLUMNS, &["task", "version", "place"]);
pub(super) const USAGE: Table = table("usage", usage::COLUMNS, &["task", "version"]);
pub(super) const COMMITS: Table = table("made_commit", commit::COLUMNS, &["task", "version"]);
pub(super) const JUDGEMENTS: Table = table("judgement", judgement::COLUMNS, &["task", "version"]);
pub(super) const DEPS: Table = table("dep", "task, needs", &["task", "needs"]);
pub(super) const REFS: Table = table("ref", "task, system, reference", &["task", "system"]);
pub(super) const SCOPES: Table = table(
    "scope",
    "task, token, glob, anchor, kind, worktree, area, part, changed, held",
    &["task", "token", "glob", "anchor", "kind", "worktree", "part"],
);

const OF_PROJECT: Sql<'static> = sql!("{project = $1 AND }");

impl Table {
    /// The cells that identify a row, in the order of the parameters of `delete`.
    pub(super) fn places(&self) -> Vec<usize> {
        let place = |key: &&str| self.columns.split(", ").position(|column| column == *key);
        self.key.iter().filter_map(place).collect()
    }

    /// Selects the rows of a range of streams, or names.
    pub(super) fn select(&self, dialect: Dialect) -> String {
        let (first, from, until) = (self.key[0], dialect.mark(1), dialect.mark(2));
        let range = format!("{}{first} >= {from} AND {first} <= {until}", OF_PROJECT.of(dialect));
        format!("SELECT {} FROM {} WHERE {range}", self.columns, self.name)
    }

    pub(super) fn delete(&self, dialect: Dialect) -> String {
        let is = |(at, column): (usize, &&str)| format!("{column} = {}", dialect.mark(at + 1));
        let key: Vec<String> = self.key.iter().enumerate().map(is).collect();
        format!("DELETE FROM {} WHERE {}{}", self.name, OF_PROJECT.of(dialect), key.join(" AND "))
    }

    pub(super) fn insert(&self, dialect: Dialect) -> String {
        let marks: Vec<String> =
            self.columns.split(", ").enumerate().map(|(at, _)| dialect.mark(at + 1)).collect();
        let (before, mark, behind, value) = match dialect {
            Dialect::Sqlite => ("", "", "", ""),
            // The key has the digest of a glob, which may be too long for an index.
            Dialect::Postgres if self.name == SCOPES.name => {
                ("project, ", "$1, ", ", glob_hash", ", sha256(convert_to($4, 'UTF8'))")
            }
            Dialect::Postgres => ("project, ", "$1, ", "", ""),
        };
        let (columns, marks) = (self.columns, marks.join(", "));
        format!("INSERT INTO {} ({before}{columns}{behind}) VALUES ({mark}{marks}{value})", self.name)
    }

    /// Copies what is not history from the existing row to the expected one.
    pub(super) fn carry_over(&self, expected: &mut RowValues, there: &RowValues) {
        let is_live = |row: &RowValues| {
            LEASE.iter().zip(row).any(|(column, value)| *column == "ended_how" && *value == Value::Null)
        };
        match self.name {
            // The counters of neighbours are compared at the end, when everything else is right.
            "task" => copy(&TASK, &TASK_COUNTS, expected, there),
            // The pulse of a lease that has not ended.
            "lease" if is_live(expected) && is_live(there) => copy(&LEASE, &PULSE, expected, there),
            _ => {}
        }
    }
}

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
