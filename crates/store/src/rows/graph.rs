//! The graph: which task waits for which, and which are ready.
//!
//! `ready` is read from three indexes whose conditions cover everything that a task's own row can say. The
//! first has one ordered range per tier; those that the asker may claim are merged. The second has the
//! scheduled tasks, of which those that are due are merged in. The third has the tasks kept for the asker,
//! which are merged in, too. No other task is read, except those kept for another actor. Ranges are read in
//! pages, so that a visitor can run other queries in between.

use std::cmp::Reverse;
use std::collections::VecDeque;

use onus_core::actor::{ActorName, Tier};
use onus_core::decide::{is_kept_for, rank};
use onus_core::ids::{Number, Uid};
use onus_core::task::Task;

use crate::{Direction, Result};

use super::columns::SELECT_TASKS;
use super::sql::sql;
use super::{Ask as _, Dialect, Statements, decode, values};

/// The conditions for a task to be ready, except tier and schedule.
pub(crate) const READY: &str = "state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0";

/// The size of a range's first page: most callers take the first task. In PostgreSQL a round trip costs more
/// than a few extra rows.
fn first_page(dialect: Dialect) -> i64 {
    match dialect {
        Dialect::Sqlite => 2,
        Dialect::Postgres => 16,
    }
}

/// The maximum size of a page. Each tier has one in memory.
const MAX_PAGE: i64 = 512;

/// One tier's ready tasks, in order.
struct Range {
    tier: Tier,
    page: VecDeque<Task>,
    size: i64,
    is_over: bool,
}

impl Range {
    /// Reads the next page, after this task, if the last page is used up.
    fn fill(&mut self, session: &mut dyn Statements, after: Option<&Task>) -> Result<()> {
        if !self.page.is_empty() || self.is_over {
            return Ok(());
        }
        const OF_TIER: &str = "[ INDEXED BY task_ready] WHERE {project = $1 AND }";
        const IN_RANGE: &str = " AND not_before_ms IS NULL AND required_tier = ?1";
        const IN_ORDER: &str = " ORDER BY priority, open_dependents DESC, number LIMIT ?2";
        let page = match after {
            None => session.all(
                sql!(SELECT_TASKS, OF_TIER, READY, IN_RANGE, IN_ORDER),
                values![self.tier, self.size],
                decode::task,
            )?,
            // Continues after the last task. The columns are ordered in different directions, so each needs a
            // condition of its own.
            Some(last) => session.all(
                sql!(
                    SELECT_TASKS,
                    OF_TIER,
                    READY,
                    IN_RANGE,
                    " AND priority >= ?3 AND (priority > ?3 OR open_dependents < ?4 \
                     OR (open_dependents = ?4 AND number > ?5))",
                    IN_ORDER
                ),
                values![
                    self.tier,
                    self.size,
                    last.facts.priority.as_str(),
                    last.counts.open_dependents,
                    last.number,
                ],
                decode::task,
            )?,
        };
        self.is_over = (page.len() as i64) < self.size;
        self.size = (self.size * 4).min(MAX_PAGE);
        self.page = page.into();
        Ok(())
    }
}

/// Passes the ready tasks to `visit`, best first, until it returns false.
pub(crate) fn walk_ready<S: Statements>(
    session: &mut S,
    asker: Option<&ActorName>,
    tier: Tier,
    due_ms: i64,
    visit: &mut dyn FnMut(&mut S, Task) -> Result<bool>,
) -> Result<()> {
    // The few tasks that no range has in the right order: read all at once.
    let mut apart = session.all(
        sql!(
            SELECT_TASKS,
            "[ INDEXED BY task_scheduled] WHERE {project = $1 AND }",
            READY,
            " AND not_before_ms IS NOT NULL AND not_before_ms <= ?1 AND required_tier <= ?2 UNION ALL ",
            SELECT_TASKS,
            "[ INDEXED BY task_kept] WHERE {project = $1 AND }",
            READY,
            " AND not_before_ms IS NULL AND kept_actor = ?3 AND required_tier <= ?2"
        ),
        values![due_ms, tier, asker],
        decode::task,
    )?;
    let rank = |task: &Task| rank(task, asker);
    apart.sort_by_key(|task| Reverse(rank(task)));
    let mut ranges = Vec::new();
    for tier in (0..=tier.0).map(Tier) {
        let size = first_page(session.dialect());
        let mut range = Range { tier, page: VecDeque::new(), size, is_over: false };
        range.fill(session, None)?;
        ranges.push(range);
    }
    loop {
        let firsts = ranges.iter().filter_map(|range| range.page.front()).chain(apart.last());
        let Some(best) = firsts.map(rank).min() else { return Ok(()) };
        let range = ranges.iter_mut().find(|range| range.page.front().map(rank) == Some(best));
        let task = match range {
            Some(range) => {
                let task = range.page.pop_front();
                range.fill(session, task.as_ref())?;
                task.filter(|task| !is_kept_for(task, asker))
            }
            None => apart.pop(),
        };
        if let Some(task) = task
            && !visit(session, task)?
        {
            return Ok(());
        }
    }
}

pub(crate) fn next_due(session: &mut dyn Statements, after_ms: i64) -> Result<Option<i64>> {
    session.one(
        sql!(
            "SELECT not_before_ms FROM task[ INDEXED BY task_scheduled] WHERE {project = $1 AND }",
            READY,
            " AND not_before_ms IS NOT NULL AND not_before_ms > ?1 ORDER BY not_before_ms LIMIT 1"
        ),
        values![after_ms],
        |cells| cells.get(),
    )
}

pub(crate) fn neighbours(session: &mut dyn Statements, task: Uid, direction: Direction) -> Result<Vec<Uid>> {
    let sql = match direction {
        Direction::Upstream => {
            sql!("SELECT needs FROM dep WHERE {project = $1 AND }task = ?1 ORDER BY needs")
        }
        Direction::Downstream => {
            sql!("SELECT task FROM dep WHERE {project = $1 AND }needs = ?1 ORDER BY task")
        }
    };
    session.uids(sql, values![task])
}

/// The numbers of a task's dependencies.
pub(crate) const NEEDS: &str = "SELECT number FROM dep JOIN task ON {task.project = $1 AND }task.uid = dep.needs \
    WHERE {dep.project = $1 AND }dep.task = ?1 ORDER BY number";

pub(crate) fn neighbour_numbers(
    session: &mut dyn Statements,
    task: Uid,
    direction: Direction,
) -> Result<Vec<Number>> {
    let sql = match direction {
        Direction::Upstream => sql!(NEEDS),
        Direction::Downstream => sql!(
            "SELECT number FROM dep JOIN task ON {task.project = $1 AND }task.uid = dep.task \
             WHERE {dep.project = $1 AND }dep.needs = ?1 ORDER BY number"
        ),
    };
    session.all(sql, values![task], |cells| cells.get())
}

pub(crate) fn children(session: &mut dyn Statements, task: Uid) -> Result<Vec<Number>> {
    session.all(
        sql!("SELECT number FROM task WHERE {project = $1 AND }parent = ?1 ORDER BY number"),
        values![task],
        |cells| cells.get(),
    )
}

/// All tasks that a walk from one task reaches.
const REACHED: &str = "WITH RECURSIVE reached (uid) AS (SELECT ?1{::text COLLATE \"C\"} UNION ";

pub(crate) fn closure(session: &mut dyn Statements, task: Uid, direction: Direction) -> Result<Vec<Uid>> {
    // SQLite returns them in the order of the walk.
    const OTHERS: &str = ") SELECT uid FROM reached WHERE uid <> ?1{ ORDER BY uid}";
    let sql = match direction {
        Direction::Upstream => sql!(
            REACHED,
            "SELECT dep.needs FROM dep JOIN reached ON {dep.project = $1 AND }dep.task = reached.uid",
            OTHERS
        ),
        Direction::Downstream => sql!(
            REACHED,
            "SELECT dep.task FROM dep JOIN reached ON {dep.project = $1 AND }dep.needs = reached.uid",
            OTHERS
        ),
    };
    session.uids(sql, values![task])
}

/// Unfinished tasks are read from their index; finished ones are not read.
pub(crate) fn edges(session: &mut dyn Statements, finished: bool) -> Result<Vec<(Uid, Uid)>> {
    let sql = match finished {
        true => sql!("SELECT task, needs FROM dep{ WHERE project = $1}"),
        false => sql!(
            "SELECT dep.task, dep.needs FROM task [INDEXED BY task_unfinished CROSS ]JOIN dep \
             ON {dep.project = $1 AND }dep.task = task.uid WHERE {task.project = $1 AND }NOT task.finished"
        ),
    };
    session.all(sql, &[], |cells| Ok((cells.parsed()?, cells.parsed()?)))
}

pub(crate) fn waits_for(session: &mut dyn Statements, task: Uid) -> Result<Vec<Uid>> {
    session.uids(
        sql!(
            "SELECT needs FROM dep WHERE {project = $1 AND }task = ?1 \
             UNION SELECT uid FROM task WHERE {project = $1 AND }parent = ?1"
        ),
        values![task],
    )
}

pub(crate) fn does_wait_for(session: &mut dyn Statements, task: Uid, other: Uid) -> Result<bool> {
    // A task waits for its dependencies and for its children. PostgreSQL allows only one reference to the
    // recursive table, so there both are one subquery.
    let hit = session.one(
        sql!(
            REACHED,
            "[SELECT dep.needs FROM dep JOIN reached ON dep.task = reached.uid \
             UNION SELECT task.uid FROM task JOIN reached ON task.parent = reached.uid]\
             {SELECT next.uid FROM reached CROSS JOIN LATERAL (\
             SELECT needs AS uid FROM dep WHERE dep.project = $1 AND dep.task = reached.uid UNION ALL \
             SELECT task.uid FROM task WHERE task.project = $1 AND task.parent = reached.uid) AS next}",
            ") SELECT uid FROM reached WHERE uid = ?2 LIMIT 1"
        ),
        values![task, other],
        |_| Ok(()),
    )?;
    Ok(hit.is_some())
}

/// Dependencies that are not done come before those that only have to land.
pub(crate) fn unmet(session: &mut dyn Statements, task: Uid, limit: u64) -> Result<Vec<Task>> {
    session.all(
        sql!(
            SELECT_TASKS,
            " WHERE {project = $1 AND }NOT met \
             AND uid IN (SELECT needs FROM dep WHERE {dep.project = $1 AND }dep.task = ?1) \
             ORDER BY state = 'done', priority, number LIMIT ?2"
        ),
        values![task, limit],
        decode::task,
    )
}

pub(crate) fn unfinished_children(session: &mut dyn Statements, task: Uid, limit: u64) -> Result<Vec<Task>> {
    session.all(
        sql!(
            SELECT_TASKS,
            " WHERE {project = $1 AND }parent = ?1 AND NOT finished ORDER BY priority, number LIMIT ?2"
        ),
        values![task, limit],
        decode::task,
    )
}
