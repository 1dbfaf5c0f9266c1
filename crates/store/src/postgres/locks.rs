//! Locks rows before they are read. The module `postgres` explains the order, and why.
//!
//! Rows are locked `FOR NO KEY UPDATE`: their keys never change. If a statement may wait, the clock is read
//! outside the part that waits, in the same round trip.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use onus_core::actor::{ActorName, Tier};
use onus_core::ids::{Token, Uid};
use onus_core::lease::Lease;
use onus_core::seat::{Seat, SeatName};
use onus_core::task::Task;

use crate::rows::columns::{LEASE_COLUMNS, TASK_COLUMNS};
use crate::rows::graph::{self, READY};
use crate::rows::seat::{self, SEAT_COLUMNS};
use crate::rows::{self, Cells, Decoded};
use crate::{Fits, OnLocked, Reach, Result, StoreError};

use super::connection::Value;
use super::rows::to_sql;
use super::session::{Lock, NOW_MS, ScopeLock, Session};

/// The best ready task that nobody has locked. None where the next after a locked one is not simply the next
/// of its index: if more than one tier has ready tasks, or if a task is kept for somebody, or scheduled and due.
/// The statement skips locked rows, so it waits for nothing and may read the clock beside the row.
static FIRST_FREE: LazyLock<String> = LazyLock::new(|| {
    const ORDER: &str = "ORDER BY priority, open_dependents DESC, number LIMIT 1";
    format!(
        "SELECT {TASK_COLUMNS}, {NOW_MS} AS now_ms FROM task WHERE project = $1 AND {READY} AND not_before_ms IS NULL \
         AND required_tier = (SELECT min(required_tier) FROM generate_series(0::bigint, $2) AS tiers (tier) \
             CROSS JOIN LATERAL (SELECT required_tier FROM task WHERE project = $1 AND {READY} \
             AND not_before_ms IS NULL AND required_tier = tier {ORDER}) AS tops HAVING count(*) = 1) \
         AND NOT EXISTS (SELECT 1 FROM task AS due WHERE due.project = $1 AND due.state = 'open' AND NOT due.leased \
             AND due.unmet = 0 AND due.open_children = 0 AND due.not_before_ms IS NOT NULL \
             AND due.not_before_ms <= $3 AND due.required_tier <= $2) \
         AND NOT EXISTS (SELECT 1 FROM task AS kept WHERE kept.project = $1 AND kept.state = 'open' AND NOT kept.leased \
             AND kept.unmet = 0 AND kept.open_children = 0 AND kept.not_before_ms IS NULL AND kept.kept_actor IS NOT NULL \
             AND kept.required_tier <= $2) \
         {ORDER} FOR NO KEY UPDATE SKIP LOCKED"
    )
});

impl Session<'_> {
    /// Runs a statement that locks a row, and reads the clock as of when it was locked.
    fn lock_by<T>(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        decode: impl Fn(&mut Cells<'_>) -> Decoded<T>,
    ) -> Result<Option<T>> {
        self.may_wait();
        let locked = self.one(sql, values, |cells| Ok((decode(cells)?, cells.get()?)))?;
        Ok(locked.map(|(row, wall_ms)| {
            let now = self.set_time(wall_ms);
            self.read_with_lock = Some(now);
            row
        }))
    }

    /// Takes the lock on reservations: exclusively, or shared with others that only keep theirs. False: it
    /// was already held.
    pub(super) fn lock_reservations(&mut self, wanted: ScopeLock) -> Result<bool> {
        if self.scopes >= wanted {
            return Ok(false);
        }
        self.lock(Lock::Scopes, wanted == ScopeLock::Shared)?;
        self.scopes = wanted;
        Ok(true)
    }
}

/// Locks a task's row, waiting if need be.
pub(super) fn lock_task(session: &mut Session<'_>, uid: Uid) -> Result<Option<Task>> {
    let sql = format!(
        "WITH had AS MATERIALIZED (SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND uid = $2 \
         FOR NO KEY UPDATE) SELECT {TASK_COLUMNS}, {NOW_MS} AS now_ms FROM had"
    );
    session.lock_by(&sql, &[&uid.to_string()], rows::task)
}

pub(super) fn lock_seat(session: &mut Session<'_>, name: &SeatName) -> Result<Option<Seat>> {
    let sql = format!(
        "WITH had AS MATERIALIZED (SELECT {SEAT_COLUMNS} FROM seat WHERE project = $1 AND name = $2 \
         FOR NO KEY UPDATE) SELECT {SEAT_COLUMNS}, {NOW_MS} AS now_ms FROM had"
    );
    session.lock_by(&sql, &[&name.as_str()], seat::decode)
}

pub(super) fn lock_tasks(session: &mut Session<'_>, tasks: &[Uid], reach: Reach) -> Result<()> {
    let named: BTreeSet<String> = tasks.iter().map(ToString::to_string).collect();
    let mut all = named.clone();
    if reach == Reach::Neighbours {
        all.extend(neighbours(session, &named)?);
    }
    let ordered: Vec<&String> = all.iter().collect();
    session.may_wait();
    session.rows(
        "SELECT uid FROM task WHERE project = $1 AND uid = ANY($2) ORDER BY uid FOR NO KEY UPDATE",
        &[&ordered],
    )?;
    // A task that became a neighbour before the locks were held is not locked, and can no longer be
    // locked in order.
    if reach == Reach::Neighbours && !neighbours(session, &named)?.is_subset(&all) {
        return Err(StoreError::Again);
    }
    Ok(())
}

/// The rows that count something of these tasks: their dependencies, their dependents, their parents.
fn neighbours(session: &mut Session<'_>, tasks: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let tasks: Vec<&String> = tasks.iter().collect();
    let found = session.all(
        "SELECT needs FROM dep WHERE project = $1 AND task = ANY($2) \
         UNION SELECT task FROM dep WHERE project = $1 AND needs = ANY($2) \
         UNION SELECT parent FROM task WHERE project = $1 AND uid = ANY($2) AND parent IS NOT NULL",
        &[&tasks],
        |cells| cells.get::<String>(),
    )?;
    Ok(found.into_iter().collect())
}

/// Locks the rows of leases that nobody else has locked.
pub(super) fn lock_leases(session: &mut Session<'_>, leases: &[(Uid, Token)]) -> Result<Vec<Lease>> {
    let tasks: Vec<String> = leases.iter().map(|(task, _)| task.to_string()).collect();
    let tokens: Vec<i64> = leases.iter().map(|(_, token)| to_sql(token.0)).collect();
    session.all(
        &format!(
            "SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 \
             AND (task, token) IN (SELECT * FROM unnest($2::text[], $3::bigint[])) \
             ORDER BY task, token FOR NO KEY UPDATE SKIP LOCKED"
        ),
        &[&tasks, &tokens],
        rows::lease,
    )
}

pub(super) fn first_ready(
    session: &mut Session<'_>,
    asker: &ActorName,
    tier: Tier,
    due_ms: i64,
    on_locked: OnLocked,
    fits: Fits<'_>,
) -> Result<(Option<Task>, bool)> {
    let mut tried = None;
    if on_locked == OnLocked::Skip
        && let Some(task) = session.lock_by(&FIRST_FREE, &[&i64::from(tier.0), &due_ms], rows::task)?
    {
        if fits(session, &task)? {
            return Ok((Some(task), false));
        }
        tried = Some(task.uid);
    }
    let (mut first, mut left_out) = (None, false);
    graph::walk_ready(session, Some(asker), tier, due_ms, &mut |session, task| {
        if tried == Some(task.uid) || !fits(session, &task)? {
            return Ok(true);
        }
        let locked = match on_locked {
            OnLocked::Skip => session.one(
                &format!(
                    "SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND uid = $2 AND {READY} \
                     FOR NO KEY UPDATE SKIP LOCKED"
                ),
                &[&task.uid.to_string()],
                rows::task,
            )?,
            OnLocked::Wait => lock_task(session, task.uid)?,
        };
        match locked {
            // It may have changed before it was locked.
            Some(task) if fits(session, &task)? => first = Some(task),
            Some(_) => {}
            None => left_out = true,
        }
        Ok(first.is_none())
    })?;
    Ok((first, left_out))
}
