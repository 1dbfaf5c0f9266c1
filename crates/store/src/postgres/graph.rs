//! The graph: who waits for whom, and what is ready.
//!
//! `ready` is read off the same two indexes as in SQLite: one ordered range for each tier, merged, and what is scheduled
//! and due. Ranges are read in pages, so that a visitor can ask other questions in between.

use std::collections::VecDeque;

use onus_core::actor::Tier;
use onus_core::ids::{Number, Uid};
use onus_core::task::Task;

use crate::sqlite::graph::rank;
use crate::{Direction, Result};

use super::rows::{self, TASK_COLUMNS, parsed, to_sql};
use super::session::Session;

/// How many tasks of a range are read at first, and at most, at a time.
const FIRST_PAGE: i64 = 16;
const MAX_PAGE: i64 = 1_024;

/// What a row must say to be ready, but for tier and schedule.
pub(super) const READY: &str = "state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0";

/// Both ends of `waits for`: a task waits for its dependencies and for its children. A recursive query names what it has
/// reached but once, so the two are one.
const WAITS: &str = "SELECT next.uid FROM reached CROSS JOIN LATERAL (\
    SELECT needs AS uid FROM dep WHERE dep.project = $1 AND dep.task = reached.uid UNION ALL \
    SELECT task.uid FROM task WHERE task.project = $1 AND task.parent = reached.uid) AS next";

/// One tier's tasks in order.
struct Range {
    tier: i64,
    page: VecDeque<Task>,
    size: i64,
    is_over: bool,
}

impl Range {
    fn fill(&mut self, session: &mut Session<'_>, after: Option<&Task>) -> Result<()> {
        if !self.page.is_empty() || self.is_over {
            return Ok(());
        }
        const ORDER: &str = "ORDER BY priority, open_dependents DESC, number";
        let of_tier = format!(
            "SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND {READY} AND not_before_ms IS NULL \
             AND required_tier = $2"
        );
        let page = match after {
            None => {
                session.all(&format!("{of_tier} {ORDER} LIMIT $3"), &[&self.tier, &self.size], rows::task)?
            }
            // Behind the last one, in an order that goes up and down: a stretch each.
            Some(last) => session.all(
                &format!(
                    "{of_tier} AND priority >= $4 AND (priority > $4 OR open_dependents < $5 \
                     OR (open_dependents = $5 AND number > $6)) {ORDER} LIMIT $3"
                ),
                &[
                    &self.tier,
                    &self.size,
                    &last.facts.priority.as_str(),
                    &to_sql(last.counts.open_dependents),
                    &to_sql(last.number.0),
                ],
                rows::task,
            )?,
        };
        self.is_over = (page.len() as i64) < self.size;
        self.size = (self.size * 4).min(MAX_PAGE);
        self.page = page.into();
        Ok(())
    }
}

/// The numbers of what a task depends on.
pub(super) const NEEDS: &str = "SELECT number FROM dep JOIN task ON task.project = $1 AND task.uid = dep.needs \
    WHERE dep.project = $1 AND dep.task = $2 ORDER BY number";

impl Session<'_> {
    pub(super) fn merge_ready(
        &mut self,
        tier: Tier,
        due_ms: i64,
        visit: &mut dyn FnMut(&mut Self, Task) -> Result<bool>,
    ) -> Result<()> {
        let mut due = self.all(
            &format!(
                "SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND {READY} AND not_before_ms IS NOT NULL \
                 AND not_before_ms <= $2 AND required_tier <= $3"
            ),
            &[&due_ms, &i64::from(tier.0)],
            rows::task,
        )?;
        due.sort_by_key(|task| std::cmp::Reverse(rank(task)));
        let mut ranges = Vec::new();
        for tier in 0..=tier.0 {
            let mut range =
                Range { tier: i64::from(tier), page: VecDeque::new(), size: FIRST_PAGE, is_over: false };
            range.fill(self, None)?;
            ranges.push(range);
        }
        loop {
            let firsts = ranges.iter().filter_map(|range| range.page.front()).chain(due.last());
            let Some(best) = firsts.map(rank).min() else { return Ok(()) };
            let range = ranges.iter_mut().find(|range| range.page.front().map(rank) == Some(best));
            let task = match range {
                Some(range) => {
                    let task = range.page.pop_front();
                    range.fill(self, task.as_ref())?;
                    task
                }
                None => due.pop(),
            };
            if let Some(task) = task
                && !visit(self, task)?
            {
                return Ok(());
            }
        }
    }

    pub(super) fn first_due(&mut self, after_ms: i64) -> Result<Option<i64>> {
        self.one(
            &format!(
                "SELECT not_before_ms FROM task WHERE project = $1 AND {READY} AND not_before_ms IS NOT NULL \
                 AND not_before_ms > $2 ORDER BY not_before_ms LIMIT 1"
            ),
            &[&after_ms],
            |row| Ok(row.try_get(0)?),
        )
    }

    pub(super) fn uids_beside(&mut self, uid: Uid, direction: Direction) -> Result<Vec<Uid>> {
        let sql = match direction {
            Direction::Upstream => "SELECT needs FROM dep WHERE project = $1 AND task = $2 ORDER BY needs",
            Direction::Downstream => "SELECT task FROM dep WHERE project = $1 AND needs = $2 ORDER BY task",
        };
        self.uids(sql, &[&uid.to_string()])
    }

    pub(super) fn numbers_of(&mut self, uid: Uid, direction: Direction) -> Result<Vec<Number>> {
        let sql = match direction {
            Direction::Upstream => NEEDS,
            Direction::Downstream => {
                "SELECT number FROM dep JOIN task ON task.project = $1 AND task.uid = dep.task \
                 WHERE dep.project = $1 AND dep.needs = $2 ORDER BY number"
            }
        };
        self.all(sql, &[&uid.to_string()], rows::number)
    }

    pub(super) fn closure_of(&mut self, uid: Uid, direction: Direction) -> Result<Vec<Uid>> {
        let step = match direction {
            Direction::Upstream => {
                "SELECT dep.needs FROM dep JOIN reached ON dep.project = $1 AND dep.task = reached.uid"
            }
            Direction::Downstream => {
                "SELECT dep.task FROM dep JOIN reached ON dep.project = $1 AND dep.needs = reached.uid"
            }
        };
        self.uids(
            &format!(
                "WITH RECURSIVE reached (uid) AS (SELECT $2::text COLLATE \"C\" UNION {step}) \
                 SELECT uid FROM reached WHERE uid <> $2 ORDER BY uid"
            ),
            &[&uid.to_string()],
        )
    }

    pub(super) fn all_edges(&mut self, finished: bool) -> Result<Vec<(Uid, Uid)>> {
        let sql = if finished {
            "SELECT task, needs FROM dep WHERE project = $1"
        } else {
            "SELECT dep.task, dep.needs FROM task JOIN dep ON dep.project = $1 AND dep.task = task.uid \
             WHERE task.project = $1 AND NOT task.finished"
        };
        self.all(sql, &[], |row| Ok((parsed(row.try_get(0)?)?, parsed(row.try_get(1)?)?)))
    }

    pub(super) fn is_waited_for(&mut self, from: Uid, to: Uid) -> Result<bool> {
        let hit = self.one(
            &format!(
                "WITH RECURSIVE reached (uid) AS (SELECT $2::text COLLATE \"C\" UNION {WAITS}) \
                 SELECT 1 FROM reached WHERE uid = $3 LIMIT 1"
            ),
            &[&from.to_string(), &to.to_string()],
            |_| Ok(()),
        )?;
        Ok(hit.is_some())
    }

    pub(super) fn waited_for_by(&mut self, uid: Uid) -> Result<Vec<Uid>> {
        self.uids(
            "SELECT needs FROM dep WHERE project = $1 AND task = $2 \
             UNION SELECT uid FROM task WHERE project = $1 AND parent = $2",
            &[&uid.to_string()],
        )
    }

    pub(super) fn unmet_of(&mut self, uid: Uid, limit: u64) -> Result<Vec<Task>> {
        self.all(
            &format!(
                "SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND NOT met \
                 AND uid IN (SELECT needs FROM dep WHERE dep.project = $1 AND dep.task = $2) \
                 ORDER BY priority, number LIMIT $3"
            ),
            &[&uid.to_string(), &to_sql(limit)],
            rows::task,
        )
    }

    pub(super) fn unfinished_children_of(&mut self, uid: Uid, limit: u64) -> Result<Vec<Task>> {
        self.all(
            &format!(
                "SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND parent = $2 \
                 AND NOT finished ORDER BY priority, number LIMIT $3"
            ),
            &[&uid.to_string(), &to_sql(limit)],
            rows::task,
        )
    }
}
