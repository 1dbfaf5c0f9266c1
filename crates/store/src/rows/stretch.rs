//! Recorded work, one row per stretch, and completed tasks: for timesheets and reports. Both are read page by
//! page, in the order of an index, so that a window costs only what is in it. Each public function implements
//! the method of that name in [`crate::Read`].

use onus_core::actor::ActorName;
use onus_core::ids::{Token, Uid};
use onus_core::stretch::{MAX_ROW_MS, Recorded};

use crate::{Finished, Result, TaskFacts, Window, WorkRow};

use super::sql::sql;
use super::value::{Cells, Decoded};
use super::{Ask as _, Expect, Statements, Value, values};

pub(super) const COLUMNS: &str = "task, version, place, token, actor, start_ms, active_ms";

pub(super) fn row_values(row: &Recorded) -> [Value<'_>; 7] {
    [
        row.task.into(),
        row.version.into(),
        row.place.into(),
        row.token.into(),
        row.actor.as_ref().into(),
        row.start_ms.into(),
        row.active_ms.into(),
    ]
}

/// Adds rows of work. A row without an actor gets its lease's.
pub(super) fn add(session: &mut dyn Statements, rows: &[Recorded]) -> Result<()> {
    rows.iter().try_for_each(|row| {
        session.run_later(
            sql!(
                "INSERT INTO stretch ({project, }",
                COLUMNS,
                ") VALUES ({$1, }?1, ?2, ?3, ?4, COALESCE(?5, (SELECT lease.actor FROM lease \
                 WHERE {lease.project = $1 AND }lease.task = ?1 AND lease.token = ?4)), ?6, ?7)"
            ),
            &row_values(row),
            Expect::OneRow,
        )
    })
}

fn recorded(cells: &mut Cells<'_>) -> Decoded<Recorded> {
    Ok(Recorded {
        task: cells.parsed()?,
        version: cells.get()?,
        place: cells.get()?,
        token: cells.get()?,
        actor: Some(cells.parsed::<ActorName>()?),
        start_ms: cells.get()?,
        active_ms: cells.get()?,
    })
}

pub(super) fn facts(cells: &mut Cells<'_>) -> Decoded<TaskFacts> {
    Ok(TaskFacts {
        number: cells.get()?,
        parent: cells.optional_parsed()?,
        area: cells.optional()?,
        tags: cells.json()?,
    })
}

pub(crate) fn work_in(
    session: &mut dyn Statements,
    window: Window,
    after: Option<&WorkRow>,
    limit: u64,
) -> Result<Vec<WorkRow>> {
    let from_ms = window.since_ms.saturating_sub(MAX_ROW_MS);
    let after = after.map(|last| &last.stretch);
    session.all(
        sql!(
            "SELECT stretch.task, stretch.version, place, stretch.token, stretch.actor, start_ms, active_ms, \
             task.number, task.parent, task.area, task.tags FROM stretch[ INDEXED BY stretch_start] \
             JOIN task ON {task.project = $1 AND }task.uid = stretch.task \
             WHERE {stretch.project = $1 AND }start_ms >= ?1 AND start_ms < ?2 \
             AND (start_ms, stretch.task, stretch.version, place) > (?1, ?3, ?4, ?5) \
             ORDER BY start_ms, stretch.task, stretch.version, place LIMIT ?6"
        ),
        values![
            after.map_or(from_ms, |last| last.start_ms),
            window.until_ms,
            after.map(|last| last.task.to_string()).unwrap_or_default(),
            after.map_or(0, |last| last.version.0),
            after.map_or(0, |last| last.place),
            limit,
        ],
        |cells| Ok(WorkRow { stretch: recorded(cells)?, task: facts(cells)? }),
    )
}

pub(crate) fn stretches_of(session: &mut dyn Statements, task: Uid, token: Token) -> Result<Vec<Recorded>> {
    session.all(
        sql!(
            "SELECT ",
            COLUMNS,
            " FROM stretch WHERE {project = $1 AND }task = ?1 AND token = ?2 ORDER BY version, place"
        ),
        values![task, token],
        recorded,
    )
}

pub(crate) fn finished_in(
    session: &mut dyn Statements,
    window: Window,
    after: Option<&Finished>,
    limit: u64,
) -> Result<Vec<Finished>> {
    session.all(
        sql!(
            "SELECT number, parent, area, tags, uid, token, title_version, created_at_ms, started_at_ms, completed_at_ms, \
             effort_ms, (SELECT {CAST(}COALESCE(SUM(ended_at_ms - acquired_at_ms), 0){ AS bigint)} FROM lease \
             WHERE {lease.project = $1 AND }lease.task = task.uid AND NOT lease.reserve AND ended_at_ms IS NOT NULL) \
             FROM task[ INDEXED BY task_completed] \
             WHERE {project = $1 AND }completed_at_ms >= ?1 AND completed_at_ms < ?2 \
             AND (completed_at_ms, number) > (?1, ?3) ORDER BY completed_at_ms, number LIMIT ?4"
        ),
        values![
            after.map_or(window.since_ms, |last| last.completed_at_ms),
            window.until_ms,
            after.map_or(0, |last| last.task.number.0),
            limit,
        ],
        |cells| {
            Ok(Finished {
                task: facts(cells)?,
                uid: cells.parsed()?,
                token: cells.get()?,
                title_version: cells.get()?,
                created_at_ms: cells.get()?,
                started_at_ms: cells.optional()?,
                completed_at_ms: cells.get()?,
                effort_ms: cells.get()?,
                held_ms: cells.get()?,
            })
        },
    )
}
