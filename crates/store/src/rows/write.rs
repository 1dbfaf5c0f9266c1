//! How events and their changes become rows. A function with the name of a method of [`crate::Write`]
//! implements it for both stores.

use std::collections::BTreeSet;

use onus_core::actor::{ActorName, InstanceId};
use onus_core::apply::{LeaseChange, RowChange, apply_to_project};
use onus_core::chain::Record;
use onus_core::event::{Body, Event};
use onus_core::ids::{Prefix, Token, Uid, Version};
use onus_core::lease::Pulse;
use onus_core::scope::Glob;
use onus_core::stretch::Worked;
use onus_core::text::{Field, Salt, TextKey};

use crate::{KeptRequest, KnownInstance, Loss, NOTICES, PendingNotice, Result, StoreError, Write};

use super::columns::{
    INSERT_LEASE, INSERT_TASK, INSTANCE_COLUMNS, MOVE_TASK, UPDATE_TASK, changes_of, json, lease_values,
    moves_of, task_values, waiting, working,
};
use super::sql::{Sql, sql};
use super::{Ask as _, Expect, Statements, Value, commit, judgement, seat, stretch, usage, values};

/// The chore of removing erased texts from the files.
pub(crate) const SCRUB: &str = "scrub";

/// The methods that both stores share, for their `impl Write`, in a module that uses all of the crate root.
macro_rules! shared_writes {
    () => {
        $crate::rows::delegate! { $crate::rows::write =>
            fn apply(change: &RowChange) -> ();
            fn put_instance(instance: &KnownInstance) -> ();
            fn put_loss(loss: &Loss) -> ();
            fn drop_loss(task: Uid, token: Token) -> ();
            fn put_notice(notice: &PendingNotice) -> ();
            fn drop_notice(notice: &PendingNotice) -> ();
            fn keep_request(actor: &ActorName, key: &str, request: &KeptRequest) -> ();
        }
    };
}
pub(crate) use shared_writes;

/// Creates a project: its first event, and the rows that follow from it.
pub(crate) fn create_project(
    session: &mut dyn Write,
    (prefix, uid): (&Prefix, Uid),
    event_uid: Uid,
    (actor, instance): (&ActorName, &InstanceId),
) -> Result<()> {
    let mut event = Event {
        uid: event_uid,
        task: None,
        version: Version(1),
        body: Body::ProjectCreated { uid, prefix: prefix.clone() },
        actor: actor.clone(),
        instance: instance.clone(),
        token: None,
        at_ms: session.now().wall_ms,
        cause: None,
        texts: Default::default(),
        stretches: Vec::new(),
        waited_ms: 0,
        prev: String::new(),
        hash: String::new(),
    };
    event.hash = Record::from_event(&event).hash;
    session.append(&event, &[])?;
    let changes =
        apply_to_project(None, &event).map_err(|error| StoreError::Unexpected(error.to_string()))?;
    changes.iter().try_for_each(|change| session.apply(change))
}

pub(crate) fn append(
    session: &mut dyn Statements,
    event: &Event,
    texts: &[(Field, Salt, String)],
) -> Result<()> {
    let record = Record::as_written(event);
    let mut payload = String::new();
    onus_core::chain::write_canonical(&record.payload, &mut payload);
    let stream = record.task.clone().unwrap_or_else(|| session.stream().to_owned());
    session.run_later(
        sql!(
            "INSERT INTO event {(project, uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, \
             prev, hash) }VALUES ([NULL, ]{$1, }?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        ),
        values![
            &record.uid,
            &stream,
            record.version,
            &record.kind,
            &record.actor,
            &record.instance,
            record.token,
            event.at_ms,
            record.cause.as_deref(),
            payload,
            &record.prev,
            &event.hash,
        ],
        Expect::Success,
    )?;
    for (field, salt, text) in texts {
        session.put_text((&stream, record.version, field.as_str()), salt, text)?;
    }
    Ok(())
}

/// In SQLite this also creates the project's row.
pub(super) const PUT_PROJECT: Sql<'static> = sql!(
    "[INSERT INTO project (id, uid, prefix, created_at_ms, version, head, last_number) \
     VALUES (1, ?1, ?2, ?3, ?4, ?5, 0) ON CONFLICT (id) DO UPDATE SET uid = excluded.uid, prefix = excluded.prefix, \
     created_at_ms = excluded.created_at_ms, version = excluded.version, head = excluded.head]\
     {UPDATE project SET uid = ?1, prefix = ?2, created_at_ms = ?3, version = ?4, head = ?5 WHERE project = $1}"
);

const INSERT_ACTOR: Sql<'static> =
    sql!("INSERT INTO actor ({project, }name, tier, registered_at_ms) VALUES ({$1, }?1, ?2, ?3)");

const INSERT_REF: Sql<'static> =
    sql!("INSERT INTO ref ({project, }task, system, reference) VALUES ({$1, }?1, ?2, ?3)");

/// Applies a change to the rows.
pub(crate) fn apply(session: &mut dyn Statements, change: &RowChange) -> Result<()> {
    match change {
        RowChange::PutProject(project) => session.run_later(
            PUT_PROJECT,
            values![
                project.uid,
                project.prefix.as_str(),
                project.created_at_ms,
                project.version,
                &project.head,
            ],
            Expect::OneRow,
        ),
        RowChange::PutActor(actor) => {
            session.run(INSERT_ACTOR, values![&actor.name, actor.tier, actor.registered_at_ms]).map(drop)
        }
        RowChange::SetTier { actor, tier } => session.run_on_one(
            sql!("UPDATE actor SET tier = ?2 WHERE {project = $1 AND }name = ?1"),
            values![actor, *tier],
        ),
        RowChange::PutAlias { alias, actor } => session
            .run(
                sql!(
                    "INSERT INTO alias ({project, }alias, actor) VALUES ({$1, }?1, ?2) \
                     ON CONFLICT ({project, }alias) DO UPDATE SET actor = excluded.actor"
                ),
                values![alias, actor],
            )
            .map(drop),
        RowChange::NumberTaken(number) => session.run_on_one(
            sql!("UPDATE project SET last_number = [MAX]{GREATEST}(last_number, ?1){ WHERE project = $1}"),
            values![*number],
        ),
        RowChange::SeatNumberTaken(number) => session.run_on_one(
            sql!("UPDATE project SET last_seat = [MAX]{GREATEST}(last_seat, ?1){ WHERE project = $1}"),
            values![*number],
        ),
        RowChange::PutSeat(seat) => seat::put(session, seat),
        RowChange::PutTask(task) => {
            if task.version.0 > 1 && session.run(UPDATE_TASK, &changes_of(task))? > 0 {
                return Ok(());
            }
            session.run_later(INSERT_TASK, &task_values(task), Expect::Success)
        }
        RowChange::MoveTask(task) => session.run_later(MOVE_TASK, &moves_of(task), Expect::OneRow),
        RowChange::OpenLease(lease) => session.run_later(INSERT_LEASE, &lease_values(lease), Expect::Success),
        RowChange::OfLease { task, token, change } => change_lease(session, *task, *token, change),
        RowChange::AddStretches(rows) => stretch::add(session, rows),
        RowChange::AddUsage(row) => {
            session.run_later(usage::INSERT, &usage::row_values(row), Expect::Success)
        }
        RowChange::AddCommit(row) => {
            session.run_later(commit::INSERT, &commit::row_values(row), Expect::Success)
        }
        RowChange::AddJudgement(row) => {
            session.run_later(judgement::INSERT, &judgement::row_values(row), Expect::Success)
        }
        RowChange::VoidJudgements { task } => judgement::void(session, *task),
        RowChange::AddDeps { task, on } => add_deps(session, *task, on),
        RowChange::RemoveDeps { task, on } => remove_deps(session, *task, on),
        RowChange::SetRefs { task, refs } => {
            session.run(sql!("DELETE FROM ref WHERE {project = $1 AND }task = ?1"), values![*task])?;
            refs.iter().try_for_each(|(system, reference)| {
                session.run_later(
                    INSERT_REF,
                    values![*task, system.as_str(), reference.as_str()],
                    Expect::Success,
                )
            })
        }
        RowChange::Met { task, met } => count_down(
            session,
            sql!(
                "UPDATE task SET unmet = unmet + ?2 WHERE {project = $1 AND }uid IN \
                 (SELECT dep.task FROM dep WHERE {dep.project = $1 AND }dep.needs = ?1)"
            ),
            *task,
            *met,
        ),
        RowChange::Finished { task, finished } => count_down(
            session,
            sql!(
                "UPDATE task SET open_dependents = open_dependents + ?2 WHERE {project = $1 AND }uid IN \
                 (SELECT dep.needs FROM dep WHERE {dep.project = $1 AND }dep.task = ?1)"
            ),
            *task,
            *finished,
        ),
        RowChange::CountChildren { parent, more } => session.run_on_one(
            sql!("UPDATE task SET open_children = open_children + ?2 WHERE {project = $1 AND }uid = ?1"),
            values![*parent, *more],
        ),
        RowChange::Index(key) => session.index(*key, true),
        RowChange::Unindex(key) => session.index(*key, false),
    }
}

fn change_lease(session: &mut dyn Statements, task: Uid, token: Token, change: &LeaseChange) -> Result<()> {
    match change {
        LeaseChange::Revive { worked, pulse, process } => {
            session.run_on_one(
                sql!(
                    "UPDATE lease SET active_ms = active_ms + ?3, stretches = stretches + ?4, ended_how = NULL, \
                     ended_at_ms = NULL, ended_version = NULL, process = ?5, waited_ms = waited_ms + ?6 WHERE {project = $1 AND }task = ?1 AND token = ?2"
                ),
                values![
                    task,
                    token,
                    worked.active_ms,
                    worked.stretches,
                    process.as_ref().map(json),
                    worked.waited_ms,
                ],
            )?;
            hold(session, task, token, true)?;
            set_pulse(session, task, token, pulse, None)
        }
        LeaseChange::Attach { worktree_id, worktree, branch } => session.run_on_one(
            sql!(
                "UPDATE lease SET worktree_id = ?3, worktree = ?4, branch = ?5 \
                 WHERE {project = $1 AND }task = ?1 AND token = ?2"
            ),
            values![
                task,
                token,
                worktree_id.as_ref().map(|id| id.as_str()),
                worktree.as_str(),
                branch.as_deref(),
            ],
        ),
        LeaseChange::SetRescue(rescue) => session.run_on_one(
            sql!(
                "UPDATE lease SET rescue = ?3, rescue_version = ?4 WHERE {project = $1 AND }task = ?1 AND token = ?2"
            ),
            values![task, token, rescue.state.as_str(), rescue.version],
        ),
        LeaseChange::Start => session.run_on_one(
            sql!("UPDATE lease SET reserve = false WHERE {project = $1 AND }task = ?1 AND token = ?2"),
            values![task, token],
        ),
        LeaseChange::RecordWork { stretches, waited_ms } => {
            let worked = Worked::of(stretches);
            // Work that began to wait meanwhile must not be lost: the request is decided again. In a copy,
            // nothing waits.
            session.run_later(
                sql!(
                    "UPDATE lease SET active_ms = active_ms + ?3, stretches = stretches + ?4, \
                     waited_ms = waited_ms + ?7, waiting = ?6 \
                     WHERE {project = $1 AND }task = ?1 AND token = ?2 AND waiting IN (?5, ?6)"
                ),
                values![
                    task,
                    token,
                    worked.active_ms,
                    worked.stretches,
                    waiting(stretches, *waited_ms),
                    waiting(&[], 0),
                    *waited_ms,
                ],
                Expect::RowsOrRetry(1),
            )
        }
        LeaseChange::EndReview { at_ms } => session.run_later(
            sql!("UPDATE lease SET reviewed_at_ms = ?3 WHERE {project = $1 AND }task = ?1 AND token = ?2"),
            values![task, token, *at_ms],
            Expect::OneRow,
        ),
        LeaseChange::End { worked, ended } => {
            // If the lease was renewed after it was read, it must be judged again.
            let end = &ended.end;
            set_pulse(session, task, token, &Pulse::of_ended(end), Some(end.renewals))?;
            hold(session, task, token, false)?;
            session.run_later(
                sql!(
                    "UPDATE lease SET ended_how = ?3, ended_at_ms = ?4, ended_version = ?5, \
                     active_ms = active_ms + ?6, stretches = stretches + ?7, waited_ms = waited_ms + ?8 \
                     WHERE {project = $1 AND }task = ?1 AND token = ?2"
                ),
                values![
                    task,
                    token,
                    ended.how.as_str(),
                    ended.at_ms,
                    ended.version,
                    worked.active_ms,
                    worked.stretches,
                    worked.waited_ms,
                ],
                Expect::OneRow,
            )
        }
        LeaseChange::AddScope(reservations) => session.reserve(task, token, reservations),
        LeaseChange::RemoveScope(scope) => session.unreserve(task, token, scope),
        LeaseChange::YieldFiles { scope, worktree } => scope.globs().iter().try_for_each(|glob| {
            session
                .run(
                    sql!(
                        "DELETE FROM scope WHERE {project = $1 AND }task = ?1 AND token = ?2 AND glob = ?3 \
                         AND kind = 'touched' AND worktree = ?4"
                    ),
                    values![task, token, glob.as_str(), worktree.as_str()],
                )
                .map(drop)
        }),
        LeaseChange::ChangeFiles { scope, worktree } => {
            let worktree = worktree.as_ref().map_or("", |worktree| worktree.as_str());
            scope.globs().iter().try_for_each(|glob| change_file(session, (task, token), glob, worktree))
        }
    }
}

/// Changes a neighbour's counter by one.
fn count_down(session: &mut dyn Statements, sql: Sql<'static>, task: Uid, is_fewer: bool) -> Result<()> {
    session.run(sql, values![task, if is_fewer { -1_i64 } else { 1 }]).map(drop)
}

/// An edge counts for its upstream end while its downstream end is unfinished, and for its downstream end
/// while the upstream end is not met.
fn add_deps(session: &mut dyn Statements, task: Uid, on: &BTreeSet<Uid>) -> Result<()> {
    for upstream in on {
        let added = session.run(
            sql!("INSERT INTO dep ({project, }task, needs) VALUES ({$1, }?1, ?2) ON CONFLICT DO NOTHING"),
            values![task, *upstream],
        )?;
        if added > 0 {
            count_edge(session, task, *upstream, 1)?;
        }
    }
    Ok(())
}

fn remove_deps(session: &mut dyn Statements, task: Uid, on: &BTreeSet<Uid>) -> Result<()> {
    for upstream in on {
        let removed = session.run(
            sql!("DELETE FROM dep WHERE {project = $1 AND }task = ?1 AND needs = ?2"),
            values![task, *upstream],
        )?;
        if removed > 0 {
            count_edge(session, task, *upstream, -1)?;
        }
    }
    Ok(())
}

fn count_edge(session: &mut dyn Statements, task: Uid, upstream: Uid, more: i64) -> Result<()> {
    session.run(
        sql!(
            "UPDATE task SET unmet = unmet + ?3 WHERE {project = $1 AND }uid = ?1 \
             AND EXISTS (SELECT 1 FROM task AS up WHERE {up.project = $1 AND }up.uid = ?2 AND NOT up.met)"
        ),
        values![task, upstream, more],
    )?;
    session
        .run(
            sql!(
                "UPDATE task SET open_dependents = open_dependents + ?3 WHERE {project = $1 AND }uid = ?2 \
                 AND EXISTS (SELECT 1 FROM task AS down WHERE {down.project = $1 AND }down.uid = ?1 \
                 AND NOT down.finished)"
            ),
            values![task, upstream, more],
        )
        .map(drop)
}

/// Marks a file touched in this worktree as changed.
fn change_file(
    session: &mut dyn Statements,
    (task, token): (Uid, Token),
    glob: &Glob,
    worktree: &str,
) -> Result<()> {
    session.run_later(
        sql!(
            "UPDATE scope SET changed = true WHERE {project = $1 AND }task = ?1 AND token = ?2 AND glob = ?3 \
             AND kind = 'touched' AND worktree = ?4"
        ),
        values![task, token, glob.as_str(), worktree],
        Expect::Success,
    )
}

/// Marks what a lease reserves as held or not.
fn hold(session: &mut dyn Statements, task: Uid, token: Token, held: bool) -> Result<()> {
    session.run_later(
        sql!("UPDATE scope SET held = ?3 WHERE {project = $1 AND }task = ?1 AND token = ?2 AND held <> ?3"),
        values![task, token, held],
        Expect::Success,
    )
}

/// Changes the pulse of a lease that has not ended and was not renewed meanwhile; with `renewed`, of a lease
/// with at most that many renewals. Otherwise another transaction ended or renewed it first, and the request
/// is run again.
pub(crate) fn set_pulse(
    session: &mut dyn Statements,
    task: Uid,
    token: Token,
    pulse: &Pulse,
    renewed: Option<u64>,
) -> Result<()> {
    let deadline = pulse.deadline.as_ref();
    session.run_later(
        sql!(
            "UPDATE lease SET last_wall_ms = ?3, last_tick_ms = ?4, last_domain = ?5, renewals = ?6, \
             deadline_wall_ms = ?7, deadline_tick_ms = ?8, deadline_domain = ?9, progress_wall_ms = ?10, \
             progress_tick_ms = ?11, progress_domain = ?12, resting = ?13, working = ?15, waiting = ?16 \
             WHERE {project = $1 AND }task = ?1 AND token = ?2 \
             AND CASE WHEN ?14{::bigint} IS NULL THEN ended_how IS NULL AND renewals < ?6 ELSE renewals <= ?14 END"
        ),
        values![
            task,
            token,
            pulse.last.wall_ms,
            pulse.last.tick_ms,
            pulse.last.domain.as_str(),
            pulse.renewals,
            deadline.map(|deadline| deadline.wall_ms),
            deadline.map(|deadline| deadline.tick_ms),
            deadline.map(|deadline| deadline.domain.as_str()),
            pulse.progress.wall_ms,
            pulse.progress.tick_ms,
            pulse.progress.domain.as_str(),
            pulse.resting,
            renewed,
            working(&pulse.work),
            waiting(&pulse.work.waiting, pulse.work.waited_ms),
        ],
        Expect::RowsOrRetry(1),
    )
}

pub(crate) fn put_instance(session: &mut dyn Statements, known: &KnownInstance) -> Result<()> {
    const VALUES: &str =
        " VALUES ({$1, }?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";
    let (process, wants) = (known.process.as_ref(), known.wants.as_ref());
    session.run_later(
        sql!(
            "[REPLACE INTO instance]{INSERT INTO instance (project, ",
            INSTANCE_COLUMNS,
            ")}",
            VALUES,
            "{ ON CONFLICT (project, actor, instance) DO UPDATE SET machine = excluded.machine, boot = excluded.boot, \
             pid_ns = excluded.pid_ns, time_ns = excluded.time_ns, pid = excluded.pid, start = excluded.start, \
             seen_at_ms = excluded.seen_at_ms, pgid = excluded.pgid, in_turn = excluded.in_turn, \
             wants_task = excluded.wants_task, wants_path = excluded.wants_path, \
             wants_worktree = excluded.wants_worktree, wants_at_ms = excluded.wants_at_ms, \
             registered_at_ms = excluded.registered_at_ms, ended_at_ms = excluded.ended_at_ms, \
             read = excluded.read}"
        ),
        values![
            &known.actor,
            &known.instance,
            process.and_then(|process| process.machine.known()),
            process.and_then(|process| process.boot.known()),
            process.and_then(|process| process.pid_ns.known()),
            process.and_then(|process| process.time_ns.known()),
            process.map(|process| process.pid),
            process.map(|process| process.start),
            known.seen_at_ms,
            known.group,
            known.in_turn,
            wants.map(|wants| wants.task),
            wants.and_then(|wants| wants.path.as_deref()),
            wants.and_then(|wants| wants.worktree.as_ref()).map(|worktree| worktree.as_str()),
            wants.map(|wants| wants.at_ms),
            known.registered_at_ms,
            known.ended_at_ms,
            known.read.as_deref(),
        ],
        Expect::Success,
    )
}

pub(crate) fn put_loss(session: &mut dyn Statements, loss: &Loss) -> Result<()> {
    session.run_later(
        sql!(
            "INSERT INTO loss ({project, }task, token, actor, instance) VALUES ({$1, }?1, ?2, ?3, ?4) \
             ON CONFLICT DO NOTHING"
        ),
        values![loss.task, loss.token, &loss.actor, &loss.instance],
        Expect::Success,
    )
}

pub(crate) fn drop_loss(session: &mut dyn Statements, task: Uid, token: Token) -> Result<()> {
    session.run_later(
        sql!("DELETE FROM loss WHERE {project = $1 AND }task = ?1 AND token = ?2"),
        values![task, token],
        Expect::Success,
    )
}

/// Empty if nobody is known to have done it.
fn by_of(notice: &PendingNotice) -> (&str, &str) {
    notice.by.as_ref().map_or_else(Default::default, |(actor, instance)| (actor.as_str(), instance.as_str()))
}

pub(crate) fn put_notice(session: &mut dyn Statements, notice: &PendingNotice) -> Result<()> {
    let (by_actor, by_instance) = by_of(notice);
    session.run_later(
        sql!(
            "DELETE FROM notice WHERE {project = $1 AND }NOT EXISTS (SELECT 1 FROM lease WHERE \
             {lease.project = $1 AND }lease.task = notice.task AND lease.token = notice.token AND ended_how IS NULL)"
        ),
        &[],
        Expect::Success,
    )?;
    session.run_later(
        sql!(
            "INSERT INTO notice ({project, }actor, instance, task, token, kind, path, {path_hash, }by_actor, by_instance, \
             by_task, worktree, branch, at_ms) \
             SELECT {$1, }?1, ?2, ?3, ?4, ?5, ?6, {sha256(convert_to(?6, 'UTF8')), }?7, ?8, ?9, ?10, ?11, ?12 WHERE \
             (SELECT COUNT(*) FROM notice WHERE {project = $1 AND }actor = ?1 AND instance = ?2) < ?13 \
             ON CONFLICT DO NOTHING"
        ),
        values![
            &notice.actor,
            &notice.instance,
            notice.task,
            notice.token,
            notice.kind.as_str(),
            notice.path.as_str(),
            by_actor,
            by_instance,
            notice.by_task,
            notice.worktree.as_deref(),
            notice.branch.as_deref(),
            notice.at_ms,
            NOTICES,
        ],
        Expect::Success,
    )
}

pub(crate) fn drop_notice(session: &mut dyn Statements, notice: &PendingNotice) -> Result<()> {
    let (by_actor, by_instance) = by_of(notice);
    session.run_later(
        sql!(
            "DELETE FROM notice WHERE {project = $1 AND }actor = ?1 AND instance = ?2 AND task = ?3 AND token = ?4 \
             AND kind = ?5 AND path = ?6 AND by_actor = ?7 AND by_instance = ?8"
        ),
        values![
            &notice.actor,
            &notice.instance,
            notice.task,
            notice.token,
            notice.kind.as_str(),
            notice.path.as_str(),
            by_actor,
            by_instance,
        ],
        Expect::Success,
    )
}

pub(crate) fn keep_request(
    session: &mut dyn Statements,
    actor: &ActorName,
    key: &str,
    request: &KeptRequest,
) -> Result<()> {
    session.run_later(
        sql!(
            "INSERT INTO request ({project, }actor, key, digest, salt, verb, task, token, at_ms) \
             VALUES ({$1, }?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        ),
        values![
            actor,
            key,
            request.digest.as_deref(),
            &request.salt,
            &request.verb,
            request.task,
            request.token,
            request.at_ms,
        ],
        Expect::Success,
    )
}

pub(crate) fn erase(session: &mut dyn Statements, key: TextKey, now_ms: i64) -> Result<()> {
    let place: &[Value<'_>] = values![key.stream, key.version];
    session.run_on_one(
        sql!("DELETE FROM text WHERE {project = $1 AND }stream = ?1 AND version = ?2 AND field = ?3"),
        values![key.stream, key.version, key.field],
    )?;
    const OF_THAT_EVENT: &str =
        "at_ms = (SELECT at_ms FROM event WHERE {event.project = $1 AND }stream = ?1 AND version = ?2)";
    // The request that wrote the text has its event's time: both were stamped in the same transaction. A
    // request without an event at its time wrote nothing, like an ask that was delivered twice: it may have
    // contained the same words.
    session.run(
        sql!(
            "UPDATE request SET digest = NULL WHERE {project = $1 AND }task = ?1 AND (",
            OF_THAT_EVENT,
            " OR NOT EXISTS (SELECT 1 FROM event WHERE {event.project = $1 AND }stream = ?1 \
             AND event.at_ms = request.at_ms))"
        ),
        place,
    )?;
    // A plan is about many tasks and is kept with the first that it created. A plan that refers to an
    // existing task may repeat its words, and it can refer only to a task with an origin.
    session.run(
        sql!(
            "UPDATE request SET digest = NULL WHERE {project = $1 AND }verb = 'add_plan' AND (",
            OF_THAT_EVENT,
            " OR EXISTS (SELECT 1 FROM task WHERE {task.project = $1 AND }uid = ?1 AND origin IS NOT NULL))"
        ),
        place,
    )?;
    // If this process is killed before the files are scrubbed, the chore tells the next one to do it.
    session
        .run(
            sql!(
                "INSERT INTO chore ({project, }name, since_ms) VALUES ({$1, }?1, ?2) \
                 ON CONFLICT ({project, }name) DO UPDATE SET since_ms = excluded.since_ms"
            ),
            values![SCRUB, now_ms],
        )
        .map(drop)
}
