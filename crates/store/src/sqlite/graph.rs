//! The graph: who waits for whom, and what is ready.
//!
//! `ready` is read off two indexes whose conditions say all that a task's own row can say. The first has one ordered
//! range for each tier; those the asker may take are merged. The second has the tasks with a schedule: the range that is
//! due is read and merged too. Nothing that is not ready is looked at, but for what is kept for another or scheduled
//! and due.

use rusqlite::{Rows, params};

use onus_core::actor::Tier;
use onus_core::ids::{Number, Uid};
use onus_core::task::Task;

use crate::{Direction, Read, Result};

use super::failed;
use super::read::Session;
use super::rows::{self, TASK_COLUMNS, to_sql};

/// Both ends of `waits for`: a task waits for its dependencies and for its children.
const WAITS: &str = "SELECT dep.needs FROM dep JOIN reached ON dep.task = reached.uid \
    UNION SELECT task.uid FROM task JOIN reached ON task.parent = reached.uid";

/// The order in which `ready` offers tasks.
pub(crate) fn rank(task: &Task) -> (onus_core::task::Priority, std::cmp::Reverse<u64>, u64) {
    (task.facts.priority, std::cmp::Reverse(task.counts.open_dependents), task.number.0)
}

impl Session<'_> {
    pub(super) fn merge_ready(
        &mut self,
        tier: Tier,
        due_ms: i64,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<()> {
        let (connection, path) = (self.connection, self.path);
        let fail = |error: rusqlite::Error| failed(&error, path);
        let of_tier = format!(
            "SELECT {TASK_COLUMNS} FROM task INDEXED BY task_ready WHERE state = 'open' AND leased = 0 \
             AND unmet = 0 AND open_children = 0 AND not_before_ms IS NULL AND required_tier = ?1 \
             ORDER BY priority, open_dependents DESC, number"
        );
        let mut due = self.all(
            &format!(
                "SELECT {TASK_COLUMNS} FROM task INDEXED BY task_scheduled WHERE state = 'open' AND leased = 0 \
                 AND unmet = 0 AND open_children = 0 AND not_before_ms IS NOT NULL AND not_before_ms <= ?1 \
                 AND required_tier <= ?2"
            ),
            params![due_ms, tier.0],
            rows::task,
        )?;
        due.sort_by_key(|task| std::cmp::Reverse(rank(task)));
        let mut statements = Vec::new();
        for _ in 0..=tier.0 {
            statements.push(connection.prepare_cached(&of_tier).map_err(fail)?);
        }
        let mut ranges = Vec::new();
        for (tier, statement) in statements.iter_mut().enumerate() {
            let mut range = statement.query([to_sql(tier as u64)]).map_err(fail)?;
            let first = next(&mut range).map_err(fail)?;
            ranges.push((range, first));
        }
        loop {
            let firsts = ranges.iter().filter_map(|(_, first)| first.as_ref()).chain(due.last());
            let Some(best) = firsts.map(rank).min() else { return Ok(()) };
            let range = ranges.iter_mut().find(|(_, first)| first.as_ref().map(rank) == Some(best));
            let task = match range {
                Some((range, first)) => {
                    let after = next(range).map_err(fail)?;
                    std::mem::replace(first, after)
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

    pub(super) fn first_due(&self, after_ms: i64) -> Result<Option<i64>> {
        self.one(
            "SELECT not_before_ms FROM task INDEXED BY task_scheduled WHERE state = 'open' AND leased = 0 \
             AND unmet = 0 AND open_children = 0 AND not_before_ms IS NOT NULL AND not_before_ms > ?1 \
             ORDER BY not_before_ms LIMIT 1",
            [after_ms],
            |row| row.get(0),
        )
    }

    pub(super) fn uids_beside(&self, uid: Uid, direction: Direction) -> Result<Vec<Uid>> {
        let sql = match direction {
            Direction::Upstream => "SELECT needs FROM dep WHERE task = ?1 ORDER BY needs",
            Direction::Downstream => "SELECT task FROM dep WHERE needs = ?1 ORDER BY task",
        };
        self.uids(sql, [uid.to_string()])
    }

    pub(super) fn numbers_of(&self, uid: Uid, direction: Direction) -> Result<Vec<Number>> {
        let sql = match direction {
            Direction::Upstream => {
                "SELECT number FROM dep JOIN task ON task.uid = dep.needs WHERE dep.task = ?1 ORDER BY number"
            }
            Direction::Downstream => {
                "SELECT number FROM dep JOIN task ON task.uid = dep.task WHERE dep.needs = ?1 ORDER BY number"
            }
        };
        self.all(sql, [uid.to_string()], |row| Ok(Number(rows::unsigned(row, "number")?)))
    }

    pub(super) fn closure_of(&self, uid: Uid, direction: Direction) -> Result<Vec<Uid>> {
        let step = match direction {
            Direction::Upstream => "SELECT dep.needs FROM dep JOIN reached ON dep.task = reached.uid",
            Direction::Downstream => "SELECT dep.task FROM dep JOIN reached ON dep.needs = reached.uid",
        };
        self.uids(
            &format!(
                "WITH RECURSIVE reached (uid) AS (SELECT ?1 UNION {step}) SELECT uid FROM reached WHERE uid <> ?1"
            ),
            [uid.to_string()],
        )
    }

    /// The unfinished tasks come off their index; what is finished is not looked at.
    pub(super) fn all_edges(&self, finished: bool) -> Result<Vec<(Uid, Uid)>> {
        let sql = if finished {
            "SELECT task, needs FROM dep"
        } else {
            "SELECT dep.task, dep.needs FROM task INDEXED BY task_unfinished CROSS JOIN dep ON dep.task = task.uid \
             WHERE task.finished = 0"
        };
        self.all(sql, [], |row| Ok((rows::text(row, "task")?, rows::text(row, "needs")?)))
    }

    pub(super) fn is_waited_for(&self, from: Uid, to: Uid) -> Result<bool> {
        let hit = self.one(
            &format!("WITH RECURSIVE reached (uid) AS (SELECT ?1 UNION {WAITS}) SELECT 1 FROM reached WHERE uid = ?2 LIMIT 1"),
            [from.to_string(), to.to_string()],
            |_| Ok(()),
        )?;
        Ok(hit.is_some())
    }

    pub(super) fn waited_for_by(&self, uid: Uid) -> Result<Vec<Uid>> {
        self.uids(
            "SELECT needs FROM dep WHERE task = ?1 UNION SELECT uid FROM task WHERE parent = ?1",
            [uid.to_string()],
        )
    }

    pub(super) fn unmet_of(&self, uid: Uid, limit: u64) -> Result<Vec<Task>> {
        self.all(
            &format!(
                "SELECT {TASK_COLUMNS} FROM task WHERE uid IN (SELECT needs FROM dep WHERE task = ?1) AND met = 0 \
                 ORDER BY priority, number LIMIT ?2"
            ),
            params![uid.to_string(), to_sql(limit)],
            rows::task,
        )
    }

    pub(super) fn unfinished_children_of(&self, uid: Uid, limit: u64) -> Result<Vec<Task>> {
        self.all(
            &format!(
                "SELECT {TASK_COLUMNS} FROM task WHERE parent = ?1 AND finished = 0 \
                 ORDER BY priority, number LIMIT ?2"
            ),
            params![uid.to_string(), to_sql(limit)],
            rows::task,
        )
    }
}

fn next(range: &mut Rows<'_>) -> rusqlite::Result<Option<Task>> {
    range.next()?.map(rows::task).transpose()
}
