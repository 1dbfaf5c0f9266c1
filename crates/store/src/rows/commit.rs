//! Commits that were made under leases, a row per event that tells it.

use onus_core::commit::{CommitId, CommitRow};
use onus_core::ids::{Token, Uid};

use crate::Result;

use super::sql::sql;
use super::value::{Cells, Decoded};
use super::{Ask as _, Expect, Sql, Statements, Value, values};

const COLUMNS: &str = "task, version, token, actor, at_ms, hash";

pub(super) const INSERT_COMMIT: Sql<'static> =
    sql!("INSERT INTO made_commit ({project, }", COLUMNS, ") VALUES ({$1, }?1, ?2, ?3, ?4, ?5, ?6)");

pub(super) fn row_values(row: &CommitRow) -> [Value<'_>; 6] {
    [
        row.task.into(),
        row.version.into(),
        row.token.into(),
        (&row.actor).into(),
        row.at_ms.into(),
        row.commit.as_str().into(),
    ]
}

pub(super) fn add(session: &mut dyn Statements, row: &CommitRow) -> Result<()> {
    session.run_later(INSERT_COMMIT, &row_values(row), Expect::Success)
}

fn decoded(cells: &mut Cells<'_>) -> Decoded<CommitRow> {
    Ok(CommitRow {
        task: cells.parsed()?,
        version: cells.get()?,
        token: cells.get()?,
        actor: cells.parsed()?,
        at_ms: cells.get()?,
        commit: cells.parsed()?,
    })
}

/// All that were made for a task, in the order in which they were recorded.
pub(crate) fn commits_of(session: &mut dyn Statements, task: Uid) -> Result<Vec<CommitRow>> {
    session.all(
        sql!("SELECT ", COLUMNS, " FROM made_commit WHERE {project = $1 AND }task = ?1 ORDER BY version"),
        values![task],
        decoded,
    )
}

/// Those of one session.
pub(crate) fn commits_under(session: &mut dyn Statements, task: Uid, token: Token) -> Result<Vec<CommitRow>> {
    session.all(
        sql!(
            "SELECT ",
            COLUMNS,
            " FROM made_commit WHERE {project = $1 AND }task = ?1 AND token = ?2 ORDER BY version"
        ),
        values![task, token],
        decoded,
    )
}

/// Where a commit was recorded.
pub(crate) fn commit_made(session: &mut dyn Statements, commit: &CommitId) -> Result<Vec<CommitRow>> {
    session.all(
        sql!(
            "SELECT ",
            COLUMNS,
            " FROM made_commit WHERE {project = $1 AND }hash = ?1 ORDER BY task, version"
        ),
        values![commit.as_str()],
        decoded,
    )
}
