//! Actors and their instances. Each function implements the method of that name in [`crate::Read`].

use onus_core::actor::{Actor, ActorName, InstanceId};
use onus_core::lease::Process;

use crate::{KnownInstance, Result};

use super::columns::{SELECT_INSTANCE_ROWS, SELECT_INSTANCES};
use super::sql::sql;
use super::{Ask as _, Statements, decode, values};

pub(crate) fn actor(session: &mut dyn Statements, name: &ActorName) -> Result<Option<Actor>> {
    session.one(
        sql!("SELECT name, tier, registered_at_ms FROM actor WHERE {project = $1 AND }name = ?1"),
        values![name],
        decode::actor,
    )
}

pub(crate) fn alias(session: &mut dyn Statements, name: &ActorName) -> Result<Option<ActorName>> {
    session.one(sql!("SELECT actor FROM alias WHERE {project = $1 AND }alias = ?1"), values![name], |cells| {
        cells.parsed()
    })
}

pub(crate) fn actors(session: &mut dyn Statements) -> Result<Vec<Actor>> {
    session.all(
        sql!("SELECT name, tier, registered_at_ms FROM actor{ WHERE project = $1} ORDER BY name"),
        &[],
        decode::actor,
    )
}

pub(crate) fn aliases(session: &mut dyn Statements) -> Result<Vec<(ActorName, ActorName)>> {
    session.all(sql!("SELECT alias, actor FROM alias{ WHERE project = $1} ORDER BY alias"), &[], |cells| {
        Ok((cells.parsed()?, cells.parsed()?))
    })
}

pub(crate) fn instance(
    session: &mut dyn Statements,
    actor: &ActorName,
    instance: &InstanceId,
) -> Result<Option<KnownInstance>> {
    session.one(
        sql!(SELECT_INSTANCE_ROWS, " WHERE {project = $1 AND }actor = ?1 AND instance = ?2"),
        values![actor, instance],
        decode::instance,
    )
}

pub(crate) fn instances(session: &mut dyn Statements, limit: u64) -> Result<Vec<KnownInstance>> {
    session.all(
        sql!(SELECT_INSTANCES, "{ WHERE project = $1} ORDER BY seen_at_ms DESC, actor, instance LIMIT ?1"),
        values![limit],
        decode::instance,
    )
}

pub(crate) fn instances_of(
    session: &mut dyn Statements,
    process: &Process,
    limit: u64,
) -> Result<Vec<KnownInstance>> {
    session.all(
        sql!(
            SELECT_INSTANCE_ROWS,
            " WHERE {project = $1 AND }pid = ?1 AND start = ?2 AND boot = ?3 AND pid_ns = ?4 \
             AND time_ns = ?5 ORDER BY ended_at_ms IS NOT NULL, COALESCE(registered_at_ms, 0) DESC, \
             seen_at_ms DESC, actor, instance LIMIT ?6"
        ),
        values![
            process.pid,
            process.start,
            process.boot.known(),
            process.pid_ns.known(),
            process.time_ns.known(),
            limit,
        ],
        decode::instance,
    )
}

pub(crate) fn running_parts(
    session: &mut dyn Statements,
    actor: &ActorName,
    instance: &InstanceId,
) -> Result<Vec<KnownInstance>> {
    // `0` is the character after `/`, so this range covers everything that begins with the conversation and a
    // `/`.
    let (from, until) = (format!("{instance}/"), format!("{instance}0"));
    session.all(
        sql!(
            SELECT_INSTANCE_ROWS,
            " WHERE {project = $1 AND }actor = ?1 AND instance >= ?2 AND instance < ?3 \
             AND ended_at_ms IS NULL{ ORDER BY instance}"
        ),
        values![actor, from, until],
        decode::instance,
    )
}
