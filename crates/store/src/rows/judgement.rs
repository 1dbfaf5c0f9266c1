//! Judgements of gates, one row per event that reports one; and which tasks have a branch, or have still to
//! land. Each public function implements the method of that name in [`crate::Read`].

use onus_core::gate::JudgementRow;
use onus_core::ids::Uid;
use onus_core::task::Task;

use crate::Result;

use super::columns::{SELECT_TASK_ROWS, SELECT_TASKS, json};
use super::sql::sql;
use super::value::{Cells, Decoded};
use super::{Ask as _, Expect, Sql, Statements, Value, decode, values};

pub(super) const COLUMNS: &str = "task, version, verdict, actor, at_ms, judgement";

pub(super) const INSERT: Sql<'static> =
    sql!("INSERT INTO judgement ({project, }", COLUMNS, ") VALUES ({$1, }?1, ?2, ?3, ?4, ?5, ?6)");

pub(super) fn row_values(row: &JudgementRow) -> [Value<'_>; 6] {
    [
        row.task.into(),
        row.version.into(),
        row.verdict.as_str().into(),
        (&row.actor).into(),
        row.at_ms.into(),
        json(&row.judgement).into(),
    ]
}

/// Deletes a task's judgements: the ledger still has them.
pub(super) fn void(session: &mut dyn Statements, task: Uid) -> Result<()> {
    let statement = sql!("DELETE FROM judgement WHERE {project = $1 AND }task = ?1");
    session.run_later(statement, values![task], Expect::Success)
}

fn decoded(cells: &mut Cells<'_>) -> Decoded<JudgementRow> {
    Ok(JudgementRow {
        task: cells.parsed()?,
        version: cells.get()?,
        verdict: cells.parsed()?,
        actor: cells.parsed()?,
        at_ms: cells.get()?,
        judgement: cells.json()?,
    })
}

pub(crate) fn judgements_of(
    session: &mut dyn Statements,
    task: Uid,
    limit: u64,
) -> Result<Vec<JudgementRow>> {
    session.all(
        sql!(
            "SELECT ",
            COLUMNS,
            " FROM judgement WHERE {project = $1 AND }task = ?1 ORDER BY version DESC LIMIT ?2"
        ),
        values![task, limit],
        decoded,
    )
}

pub(crate) fn to_land(session: &mut dyn Statements, limit: u64) -> Result<Vec<Task>> {
    session.all(
        sql!(SELECT_TASK_ROWS, " WHERE {project = $1 AND }landing IS NOT NULL ORDER BY number LIMIT ?1"),
        values![limit],
        decode::task,
    )
}

pub(crate) fn branched(session: &mut dyn Statements, limit: u64) -> Result<Vec<Task>> {
    session.all(
        sql!(
            SELECT_TASKS,
            "[ INDEXED BY task_branched] WHERE {project = $1 AND }branch IS NOT NULL AND state <> 'dropped' \
             ORDER BY finished, number DESC LIMIT ?1"
        ),
        values![limit],
        decode::task,
    )
}

pub(crate) fn task_of_branch(session: &mut dyn Statements, branch: &str) -> Result<Option<Task>> {
    session.one(
        sql!(
            SELECT_TASK_ROWS,
            " WHERE {project = $1 AND }branch_name = ?1 AND state <> 'dropped' \
             ORDER BY finished, number DESC LIMIT 1"
        ),
        values![branch],
        decode::task,
    )
}
