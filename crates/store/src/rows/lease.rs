//! Leases and what they reserve. Each function implements the method of that name in [`crate::Read`].

use std::collections::BTreeMap;

use onus_core::actor::{ActorName, InstanceId};
use onus_core::ids::{Token, Uid};
use onus_core::lease::Lease;
use onus_core::rescue::RescueState;
use onus_core::scope::{Glob, Reservations, WorktreeId};
use onus_core::task::Task;

use crate::{LOSSES, Loss, Result};

use super::columns::{SCOPE_COLUMNS, SELECT_LEASE_ROWS, SELECT_LEASES, SELECT_TASKS};
use super::sql::sql;
use super::{Ask as _, Statements, decode, values};

pub(crate) fn lease(session: &mut dyn Statements, task: Uid, token: Token) -> Result<Option<Lease>> {
    session.one(
        sql!(SELECT_LEASE_ROWS, " WHERE {project = $1 AND }task = ?1 AND token = ?2"),
        values![task, token],
        decode::lease,
    )
}

pub(crate) fn latest_lease_of(
    session: &mut dyn Statements,
    task: Uid,
    actor: &ActorName,
    instance: &InstanceId,
) -> Result<Option<Lease>> {
    session.one(
        // In SQLite, leases that have not ended have an index of their own, so that beginning a lease writes
        // one index.
        sql!(
            SELECT_LEASES,
            " WHERE {project = $1 AND }task = ?1 \
             {AND actor = ?2 AND instance = ?3 ORDER BY token DESC LIMIT 1}\
             [AND token = (SELECT MAX(token) FROM ( \
             SELECT MAX(token) AS token FROM lease INDEXED BY lease_holder \
             WHERE task = ?1 AND actor = ?2 AND instance = ?3 AND ended_how IS NOT NULL \
             UNION ALL SELECT token FROM lease \
             WHERE task = ?1 AND actor = ?2 AND instance = ?3 AND ended_how IS NULL))]"
        ),
        values![task, actor, instance],
        decode::lease,
    )
}

pub(crate) fn open_leases(session: &mut dyn Statements, limit: u64) -> Result<Vec<(Task, Lease)>> {
    let leases = session.all(
        sql!(
            SELECT_LEASES,
            "[ INDEXED BY lease_unended] WHERE {project = $1 AND }ended_how IS NULL \
             ORDER BY actor, instance LIMIT ?1"
        ),
        values![limit],
        decode::lease,
    )?;
    let tasks = session.all(
        sql!(
            SELECT_TASKS,
            " WHERE {project = $1 AND }uid IN (SELECT task FROM lease[ INDEXED BY lease_unended] \
             WHERE {lease.project = $1 AND }ended_how IS NULL)"
        ),
        &[],
        decode::task,
    )?;
    let tasks: BTreeMap<Uid, Task> = tasks.into_iter().map(|task| (task.uid, task)).collect();
    let mut pairs: Vec<(Task, Lease)> =
        leases.into_iter().filter_map(|lease| Some((tasks.get(&lease.task)?.clone(), lease))).collect();
    pairs.sort_by_key(|(task, _)| onus_core::decide::rank(task, None));
    Ok(pairs)
}

#[cfg(feature = "postgres")]
pub(crate) fn leases_held_by(
    session: &mut dyn Statements,
    actor: &ActorName,
    instance: &InstanceId,
) -> Result<Vec<Lease>> {
    let held = sql!(
        SELECT_LEASES,
        "[ INDEXED BY lease_unended] WHERE {project = $1 AND }actor = ?1 AND instance = ?2 \
         AND ended_how IS NULL ORDER BY acquired_at_ms, task"
    );
    session.all(held, values![actor, instance], decode::lease)
}

/// A conversation has ended few leases, and few are asked for.
pub(crate) fn leases_ended_by(
    session: &mut dyn Statements,
    actor: &ActorName,
    instance: &InstanceId,
    since_ms: i64,
) -> Result<Vec<Lease>> {
    session.all(
        sql!(
            SELECT_LEASES,
            "[ INDEXED BY lease_holder] WHERE {project = $1 AND }actor = ?1 AND instance = ?2 \
             AND ended_how IS NOT NULL AND ended_at_ms >= ?3 ORDER BY acquired_at_ms, task, token"
        ),
        values![actor, instance, since_ms],
        decode::lease,
    )
}

pub(crate) fn held_by(
    session: &mut dyn Statements,
    actor: &ActorName,
    instance: &InstanceId,
) -> Result<Vec<(Uid, Token)>> {
    session.all(
        sql!(
            "SELECT task, token FROM lease[ INDEXED BY lease_unended] WHERE {project = $1 AND }actor = ?1 \
             AND instance = ?2 AND ended_how IS NULL"
        ),
        values![actor, instance],
        |cells| Ok((cells.parsed()?, cells.get()?)),
    )
}

/// Hardly anybody has lost a lease, so the lost ones are read one by one.
pub(crate) fn leases_lost_by(
    session: &mut dyn Statements,
    actor: &ActorName,
    instance: &InstanceId,
) -> Result<Vec<Lease>> {
    let lost = session.all(
        sql!(
            // SQLite's index already has this order.
            "SELECT task, token FROM loss WHERE {project = $1 AND }actor = ?1 AND instance = ?2 \
             {ORDER BY task, token }LIMIT ?3"
        ),
        values![actor, instance, LOSSES],
        |cells| Ok((cells.parsed()?, cells.get()?)),
    )?;
    let mut leases = Vec::with_capacity(lost.len());
    for (task, token) in lost {
        leases.extend(lease(session, task, token)?);
    }
    Ok(leases)
}

pub(crate) fn rescues(
    session: &mut dyn Statements,
    state: Option<RescueState>,
    limit: u64,
) -> Result<Vec<Lease>> {
    let decoded = decode::lease;
    match state {
        Some(state) => session.all(
            sql!(
                SELECT_LEASES,
                " WHERE {project = $1 AND }rescue = ?1 AND rescue IS NOT NULL ORDER BY task, token LIMIT ?2"
            ),
            values![state.as_str(), limit],
            decoded,
        ),
        None => session.all(
            sql!(SELECT_LEASES, " WHERE {project = $1 AND }rescue IS NOT NULL ORDER BY task, token LIMIT ?1"),
            values![limit],
            decoded,
        ),
    }
}

pub(crate) fn losses(session: &mut dyn Statements) -> Result<Vec<Loss>> {
    session.all(
        sql!("SELECT actor, instance, task, token FROM loss{ WHERE project = $1} ORDER BY task, token"),
        &[],
        decode::loss,
    )
}

pub(crate) fn touched_in(session: &mut dyn Statements, worktree: Option<&WorktreeId>) -> Result<Vec<Glob>> {
    session.all(
        sql!(
            "SELECT DISTINCT glob FROM scope WHERE {project = $1 AND }worktree IN (?1, '') AND held \
             AND kind = 'touched' ORDER BY glob"
        ),
        values![worktree.map_or("", WorktreeId::as_str)],
        |cells| cells.parsed(),
    )
}

pub(crate) fn leases_in(session: &mut dyn Statements, worktree: &WorktreeId) -> Result<Vec<Lease>> {
    session.all(
        sql!(
            SELECT_LEASE_ROWS,
            "[ INDEXED BY lease_unended] WHERE {project = $1 AND }ended_how IS NULL AND worktree_id = ?1 \
             AND holds = 'task' ORDER BY actor, instance, task"
        ),
        values![worktree.as_str()],
        decode::lease,
    )
}

pub(crate) fn held_above(
    session: &mut dyn Statements,
    task: Uid,
    token: Token,
    actor: &ActorName,
) -> Result<bool> {
    let above = session.number(
        sql!("SELECT COUNT(*) FROM lease WHERE {project = $1 AND }task = ?1 AND actor = ?2 AND token > ?3"),
        values![task, actor, token],
    )?;
    Ok(above > 0)
}

pub(crate) fn indefinite_leases(session: &mut dyn Statements, actor: &ActorName) -> Result<(u64, u64)> {
    const UNBOUNDED: &str = "SELECT COUNT(*) FROM lease[ INDEXED BY lease_unended] WHERE {project = $1 AND }\
        ended_how IS NULL AND ttl_ms IS NULL AND actor NOT LIKE 'human:%'";
    let own = session.number(sql!(UNBOUNDED, " AND actor = ?1"), values![actor])?;
    Ok((own, session.number(sql!(UNBOUNDED), &[])?))
}

pub(crate) fn scope_of(session: &mut dyn Statements, task: Uid, token: Token) -> Result<Reservations> {
    let rows = session.all(
        sql!("SELECT ", SCOPE_COLUMNS, " FROM scope WHERE {project = $1 AND }task = ?1 AND token = ?2"),
        values![task, token],
        decode::reserved,
    )?;
    Ok(rows.into_iter().map(|(_, _, row)| row).collect())
}

pub(crate) fn scope_len(session: &mut dyn Statements, task: Uid, token: Token) -> Result<usize> {
    let count = session.number(
        sql!(
            "SELECT COUNT(*) FROM (SELECT DISTINCT glob, kind, worktree, part FROM scope \
             WHERE {project = $1 AND }task = ?1 AND token = ?2) AS reserved"
        ),
        values![task, token],
    )?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
