//! Commits made under leases: one row per event that reports one. Each public function implements the method
//! of that name in [`crate::Read`].

use onus_core::commit::{CommitId, CommitRow};
use onus_core::ids::{Token, Uid};

use crate::Result;

use super::columns::{joined, made};
use super::sql::sql;
use super::value::{Cells, Decoded};
use super::{Ask as _, Sql, Statements, Value, values};

pub(super) const COLUMNS: &str = "task, version, token, actor, at_ms, hash";

const SELECT: &str = made!(joined(&["SELECT ", COLUMNS, " FROM made_commit"], ""));

pub(super) const INSERT: Sql<'static> =
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

pub(crate) fn commits_of(session: &mut dyn Statements, task: Uid) -> Result<Vec<CommitRow>> {
    session.all(sql!(SELECT, " WHERE {project = $1 AND }task = ?1 ORDER BY version"), values![task], decoded)
}

pub(crate) fn commits_under(session: &mut dyn Statements, task: Uid, token: Token) -> Result<Vec<CommitRow>> {
    session.all(
        sql!(SELECT, " WHERE {project = $1 AND }task = ?1 AND token = ?2 ORDER BY version"),
        values![task, token],
        decoded,
    )
}

pub(crate) fn commit_made(session: &mut dyn Statements, commit: &CommitId) -> Result<Vec<CommitRow>> {
    session.all(
        sql!(SELECT, " WHERE {project = $1 AND }hash = ?1 ORDER BY task, version"),
        values![commit.as_str()],
        decoded,
    )
}
