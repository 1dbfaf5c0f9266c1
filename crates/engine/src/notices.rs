//! What the caller should know, beside its answer: its lease lapses soon, was taken, or somebody wrote to it.
//!
//! News is what happened since the caller's last changing command, which the instance registry remembers. Readers
//! therefore see the same news until they act; nothing has to be marked as read.

use onus_core::actor::{ActorName, InstanceId};
use onus_core::apply::Project;
use onus_core::ids::Uid;
use onus_core::lease::{EndKind, LapseCause, Liveness, Process, Seen};
use onus_core::time::{DAY_MS, MINUTE_MS, Moment, Span, parse_rfc3339};
use onus_store::{EventQuery, KnownInstance, Read, Result, Wanted};

use crate::view::{Notice, NoticeKind};

/// A lease is lapsing when less than this share of its TTL, and less than this time, is left.
const LAPSING_SHARE: i64 = 5;
const LAPSING_MS: i64 = 10 * MINUTE_MS;

/// The longest that a lost lease is told to somebody who changes nothing.
const MAX_NEWS_MS: i64 = DAY_MS;

/// How many of a task's latest events are looked through for notes: news must not cost more as a task grows old.
const LATEST: u64 = 20;

/// What is known of the caller from before.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) process: Option<Process>,
    pub(crate) group: Option<u32>,
    pub(crate) wants: Option<Wanted>,
    pub(crate) seen_at_ms: Option<i64>,
}

impl Watch {
    pub(crate) fn of<R: Read + ?Sized>(
        read: &mut R,
        actor: &ActorName,
        instance: &InstanceId,
    ) -> Result<Watch> {
        Ok(read.instance(actor, instance)?.into())
    }
}

impl From<Option<KnownInstance>> for Watch {
    fn from(known: Option<KnownInstance>) -> Watch {
        Watch {
            seen_at_ms: known.as_ref().map(|known| known.seen_at_ms),
            group: known.as_ref().and_then(|known| known.group),
            wants: known.as_ref().and_then(|known| known.wants.clone()),
            process: known.and_then(|known| known.process),
        }
    }
}

/// The caller's news. `about`: the task it just acted on, about whose lease it knows.
pub(crate) fn for_caller<R: Read + ?Sized>(
    read: &mut R,
    project: &Project,
    now: &Moment,
    observe: &dyn Fn(&Process) -> Seen,
    (actor, instance): (&ActorName, &InstanceId),
    watch: &Watch,
    about: Option<Uid>,
) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    // Never seen before: nothing can be news to it.
    let Some(seen_at_ms) = watch.seen_at_ms else { return Ok(notices) };
    let since_ms = seen_at_ms.max(now.wall_ms - MAX_NEWS_MS);
    for lease in read.leases_lost_by(actor, instance, since_ms)? {
        let Some(task) = read.task(lease.task)? else { continue };
        let current = read.lease(task.uid, task.token)?;
        let is_own = current.as_ref().is_some_and(|current| current.is_held_by(actor, instance));
        if is_own || !lease.was_superseded(task.token, task.fenced_token) {
            continue;
        }
        let id = project.prefix.id(task.number);
        let by = current
            .map(|current| format!(" by {} ({})", current.actor, current.instance))
            .unwrap_or_default();
        let how = match lease.ended.as_ref().map(|ended| ended.how) {
            Some(EndKind::TakenOver) => "taken over",
            Some(EndKind::Revoked) => "revoked",
            Some(EndKind::Reset) => "reset",
            _ => "superseded",
        };
        notices.push(Notice {
            kind: NoticeKind::Superseded,
            message: format!(
                "your lease on {id} (token {}) was {how}{by}: stop working on it, keep what you have on its branch",
                lease.token
            ),
            task: Some(id),
        });
    }
    for lease in read.leases_held_by(actor, instance)? {
        let Some(task) = read.task(lease.task)? else { continue };
        let id = project.prefix.id(task.number);
        let seen = lease.grant.process.as_ref().map_or(Seen::Unseen, observe);
        let liveness = lease.liveness(now, seen);
        if about != Some(task.uid) {
            notices.extend(lapsing(&id, liveness, lease.pulse.deadline.as_ref(), lease.grant.ttl_ms, now));
        }
        let since_ms = seen_at_ms.max(lease.acquired_at_ms);
        let latest =
            EventQuery { stream: Some(task.uid), newest: true, limit: LATEST, ..EventQuery::default() };
        for note in read.events(&latest)? {
            let is_new = parse_rfc3339(&note.at).is_some_and(|at_ms| at_ms >= since_ms);
            if is_new
                && note.kind == "note.added"
                && (note.actor != actor.as_str() || note.instance != instance.as_str())
            {
                notices.push(Notice {
                    kind: NoticeKind::Note,
                    message: format!("{} left a note on {id}: see onus show {id}", note.actor),
                    task: Some(id.clone()),
                });
            }
        }
        for other in read.wanting(task.uid, since_ms)? {
            let Some(wants) = other.wants else { continue };
            notices.push(Notice {
                kind: NoticeKind::Wanted,
                message: format!(
                    "{} waits for {}, which {id} reserves: if you are done with it, onus scope rm --task {id} '{}', or finish {id}",
                    other.actor, wants.path, wants.path
                ),
                task: Some(id.clone()),
            });
        }
    }
    Ok(notices)
}

fn lapsing(
    id: &str,
    liveness: Liveness,
    deadline: Option<&Moment>,
    ttl_ms: Option<i64>,
    now: &Moment,
) -> Option<Notice> {
    if let Liveness::Lapsed(cause) = liveness
        && cause != LapseCause::Ttl
    {
        let message = format!("your lease on {id} has lapsed: finish it, or onus claim {id} to begin anew");
        return Some(Notice { kind: NoticeKind::Lapsing, task: Some(id.to_owned()), message });
    }
    let left_ms = deadline?.since_ms(now);
    let soon_ms = ttl_ms.map_or(LAPSING_MS, |ttl_ms| (ttl_ms / LAPSING_SHARE).min(LAPSING_MS));
    let message = if liveness != Liveness::Live {
        format!("your lease on {id} has lapsed: finish it, or onus renew {id} before somebody takes it over")
    } else if left_ms < soon_ms {
        format!("your lease on {id} lapses in {}: onus renew {id}", Span::from_ms(left_ms))
    } else {
        return None;
    };
    Some(Notice { kind: NoticeKind::Lapsing, task: Some(id.to_owned()), message })
}
