//! News for a holder: notes, wishes, notices. Each function implements the method of that name in
//! [`crate::Read`].

use onus_core::actor::{ActorName, InstanceId};
use onus_core::ids::{Token, Uid};
use onus_core::lease::Lease;

use crate::{LATEST, NOTICES, NoteLeft, PendingNotice, Result, WISHES, Wish};

use super::columns::SELECT_NOTICES;
use super::sql::sql;
use super::{Ask as _, Sql, Statements, decode, values};

#[cfg(feature = "postgres")]
pub(crate) const NOTES_LEFT: Sql<'static> = sql!(
    "SELECT event.stream, event.actor, CASE WHEN event.kind = 'scope.yielded' THEN event.payload END FROM lease \
     JOIN task ON {task.project = $1 AND }task.uid = lease.task \
     JOIN event ON {event.project = $1 AND }event.stream = lease.task AND event.version > task.version - ?4 \
     WHERE {lease.project = $1 AND }lease.actor = ?1 AND lease.instance = ?2 AND lease.ended_how IS NULL \
     AND task.updated_at_ms >= ?3 AND event.kind IN ('note.added', 'scope.yielded') \
     AND event.at_ms >= [MAX]{GREATEST}(?3, lease.acquired_at_ms) \
     AND (event.actor <> ?1 OR event.instance <> ?2) ORDER BY event.stream, event.version"
);

pub(crate) fn notes_left_on(
    session: &mut dyn Statements,
    lease: &Lease,
    since_ms: i64,
) -> Result<Vec<NoteLeft>> {
    // A task has hardly ever changed since. Checking that first costs a tenth of the whole query.
    let changed: Option<u64> = session.one(
        sql!("SELECT version FROM task WHERE {project = $1 AND }uid = ?1 AND updated_at_ms >= ?2"),
        values![lease.task, since_ms],
        |cells| cells.get(),
    )?;
    let Some(version) = changed else { return Ok(Vec::new()) };
    session.all(
        sql!(
            "SELECT stream, actor, CASE WHEN kind = 'scope.yielded' THEN payload END FROM event \
             WHERE {project = $1 AND }stream = ?1 AND version > ?2 AND at_ms >= ?3 \
             AND kind IN ('note.added', 'scope.yielded') AND (actor <> ?4 OR instance <> ?5) ORDER BY version"
        ),
        values![lease.task, version.saturating_sub(LATEST), since_ms, &lease.actor, &lease.instance],
        decode::note_left,
    )
}

/// Asked of a server together with others.
#[cfg(feature = "postgres")]
pub(crate) const WISHES_LEFT: Sql<'static> = sql!(
    "SELECT wants_task, instance.actor, wants_path FROM lease \
     JOIN instance ON {instance.project = $1 AND }instance.wants_task = lease.task \
     WHERE {lease.project = $1 AND }lease.actor = ?1 AND lease.instance = ?2 AND lease.ended_how IS NULL \
     AND wants_at_ms >= [MAX]{GREATEST}(?3, lease.acquired_at_ms) ORDER BY wants_at_ms LIMIT ?4"
);

pub(crate) fn wishes_for(session: &mut dyn Statements, task: Uid, since_ms: i64) -> Result<Vec<Wish>> {
    session.all(
        sql!(
            "SELECT wants_task, actor, wants_path FROM instance WHERE {project = $1 AND }wants_task = ?1 \
             AND wants_at_ms >= ?2 ORDER BY wants_at_ms LIMIT ?3"
        ),
        values![task, since_ms, WISHES],
        decode::wish,
    )
}

/// Oldest first; notices of the same time are ordered by their key.
pub(crate) const NOTICES_LEFT: Sql<'static> = sql!(
    SELECT_NOTICES,
    " WHERE {project = $1 AND }actor = ?1 AND instance = ?2 \
     ORDER BY at_ms, task, kind, path, by_actor, by_instance LIMIT ?3"
);

pub(crate) fn notices_for(
    session: &mut dyn Statements,
    actor: &ActorName,
    instance: &InstanceId,
) -> Result<Vec<PendingNotice>> {
    // Hardly anybody has notices. Checking that first costs a third of the whole query.
    let first = session.one(
        sql!("SELECT token FROM notice WHERE {project = $1 AND }actor = ?1 AND instance = ?2 LIMIT 1"),
        values![actor, instance],
        |cells| cells.get::<Token>(),
    )?;
    match first {
        Some(_) => session.all(NOTICES_LEFT, values![actor, instance, NOTICES], decode::pending_notice),
        None => Ok(Vec::new()),
    }
}

pub(crate) fn notices(session: &mut dyn Statements) -> Result<Vec<PendingNotice>> {
    session.all(
        sql!(
            SELECT_NOTICES,
            "{ WHERE project = $1} ORDER BY actor, instance, task, token, kind, path, by_actor, by_instance"
        ),
        &[],
        decode::pending_notice,
    )
}
