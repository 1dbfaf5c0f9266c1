//! Turns rows into domain types: one function per table, which reads the cells in the order of the table's
//! list of columns.

use onus_core::actor::Actor;
use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::ids::{Token, Uid};
use onus_core::landing::Landing;
use onus_core::lease::{Ended, Grant, Lease, LeaseEnd, Process, Pulse};
use onus_core::rescue::Rescue;
use onus_core::scope::{Basis, Reservation, ReservationKind, Scope, Touched};
use onus_core::seal::StreamHead;
use onus_core::stretch::{Work, Worked};
use onus_core::task::{Counts, Facts, Kept, Task};
use onus_core::text::TextKey;
use onus_core::time::rfc3339;

use crate::{KeptRequest, KnownInstance, Loss, NoteLeft, PendingNotice, StoredText, Wanted, Wish};

use super::value::{Cells, Decoded, Unreadable};

pub(crate) fn task(cells: &mut Cells<'_>) -> Decoded<Task> {
    let (number, uid) = (cells.get()?, cells.parsed()?);
    // `uid_reversed`.
    cells.skip(1);
    let mut task = Task {
        number,
        uid,
        version: cells.get()?,
        head: cells.get()?,
        state: cells.parsed()?,
        facts: Facts {
            kind: cells.parsed()?,
            priority: cells.parsed()?,
            required_tier: cells.get()?,
            area: cells.optional()?,
            iteration: cells.optional()?,
            owner: cells.optional_parsed()?,
            tags: cells.json()?,
            refs: cells.json()?,
            link: cells.optional()?,
            ..Facts::default()
        },
        title_version: cells.get()?,
        body_version: cells.optional()?,
        word_version: cells.optional()?,
        origin: cells.optional_parsed()?,
        created_at_ms: cells.get()?,
        created_by: cells.parsed()?,
        updated_at_ms: cells.get()?,
        started_at_ms: cells.optional()?,
        completed_at_ms: cells.optional()?,
        acceptance: cells.json()?,
        token: cells.get()?,
        leased: cells.get()?,
        opened_token: cells.get()?,
        kept: match (cells.optional_parsed()?, cells.optional_moment()?, cells.optional()?) {
            (Some(actor), Some(until), Some(version)) => Some(Kept { actor, until, version }),
            _ => None,
        },
        submitter: cells.optional_parsed()?,
        dropped_from: cells.optional_parsed()?,
        attempts: 0,
        effort_ms: 0,
        fenced_token: Token(0),
        branch: None,
        landing: Landing::default(),
        counts: Counts::default(),
    };
    task.facts.parent = cells.optional_parsed()?;
    task.facts.relates = cells.json()?;
    task.facts.not_before_ms = cells.optional()?;
    task.facts.max_attempts = cells.optional()?;
    task.facts.scope = cells.json()?;
    task.facts.scope_areas = cells.json()?;
    task.facts.mode = cells.parsed()?;
    task.facts.constraints = cells.json()?;
    task.facts.gates = cells.optional_json()?.unwrap_or_default();
    task.facts.ad_hoc = cells.get()?;
    task.attempts = cells.get()?;
    task.effort_ms = cells.get()?;
    task.fenced_token = cells.get()?;
    task.branch = cells.optional_json()?;
    // `branch_name`, which the branch has.
    cells.skip(1);
    task.landing = cells.optional_json()?.unwrap_or_default();
    task.landing.landed = cells.optional_json()?;
    // `met` and `finished`, which follow from the state.
    cells.skip(2);
    task.counts = Counts { unmet: cells.get()?, open_children: cells.get()?, open_dependents: cells.get()? };
    Ok(task)
}

pub(crate) fn lease(cells: &mut Cells<'_>) -> Decoded<Lease> {
    let (holds, task, token) = (cells.parsed()?, cells.parsed()?, cells.get()?);
    let (actor, instance, tier) = (cells.parsed()?, cells.parsed()?, cells.get()?);
    let acquired_at_ms = cells.get()?;
    let grant = Grant {
        tier,
        tick_ms: cells.get()?,
        domain: cells.get()?,
        ttl_ms: cells.optional()?,
        max_hold_ms: cells.optional()?,
        process: cells.optional_json()?,
        worktree: cells.optional()?,
        worktree_id: cells.optional_parsed()?,
        branch: cells.optional()?,
        mode: cells.parsed()?,
        constraints: cells.json()?,
        reserve: cells.get()?,
        handoff_version: cells.optional()?,
    };
    let version = cells.get()?;
    let worked = Worked { active_ms: cells.get()?, stretches: cells.get()?, waited_ms: cells.get()? };
    let mut pulse = Pulse {
        last: cells.moment()?,
        progress: cells.moment()?,
        renewals: cells.get()?,
        deadline: cells.optional_moment()?,
        resting: cells.get()?,
        work: Work { open: cells.optional_json()?, ..Work::default() },
    };
    (pulse.work.waiting, pulse.work.waited_ms) = cells.json()?;
    let reviewed_at_ms = cells.optional()?;
    let ended = match cells.optional_parsed()? {
        Some(how) => Some(Ended {
            how,
            at_ms: cells.get()?,
            version: cells.get()?,
            end: LeaseEnd {
                renewals: pulse.renewals,
                last_sign_ms: pulse.last.wall_ms,
                active_ms: worked.active_ms,
            },
        }),
        None => {
            cells.skip(2);
            None
        }
    };
    let (state, rescued) = (cells.optional_parsed()?, cells.optional()?);
    let rescue = state.zip(rescued).map(|(state, version)| Rescue { state, version });
    Ok(Lease {
        holds,
        task,
        token,
        actor,
        instance,
        grant,
        acquired_at_ms,
        version,
        worked,
        pulse,
        ended,
        reviewed_at_ms,
        rescue,
    })
}

pub(crate) fn project(cells: &mut Cells<'_>) -> Decoded<Project> {
    Ok(Project {
        uid: cells.parsed()?,
        prefix: cells.parsed()?,
        created_at_ms: cells.get()?,
        version: cells.get()?,
        head: cells.get()?,
    })
}

/// An event as stored, whether valid or not: its hash will show. `project` is the project's own stream.
pub(crate) fn record(cells: &mut Cells<'_>, project: &str) -> Decoded<Record> {
    Ok(Record {
        seq: cells.get()?,
        uid: cells.get()?,
        task: Some(cells.get::<&str>()?).filter(|stream| *stream != project).map(str::to_owned),
        version: cells.get()?,
        kind: cells.get()?,
        actor: cells.get()?,
        instance: cells.get()?,
        token: cells.optional()?,
        at: rfc3339(cells.get()?),
        cause: cells.optional()?,
        payload: cells.payload()?,
        prev: cells.get()?,
        hash: cells.get()?,
    })
}

pub(crate) fn stored_text(cells: &mut Cells<'_>) -> Decoded<StoredText> {
    Ok(StoredText {
        key: TextKey { stream: cells.parsed()?, version: cells.get()?, field: cells.parsed()? },
        salt: cells.get()?,
        text: cells.get()?,
    })
}

pub(crate) fn instance(cells: &mut Cells<'_>) -> Decoded<KnownInstance> {
    let (actor, instance) = (cells.parsed()?, cells.parsed()?);
    let [machine, boot, pid_ns, time_ns] = [cells.mark()?, cells.mark()?, cells.mark()?, cells.mark()?];
    let process = match (cells.optional()?, cells.optional()?) {
        (Some(pid), Some(start)) => {
            Some(Process { machine, boot, pid_ns, time_ns, pid, start, unique: false })
        }
        _ => None,
    };
    let (seen_at_ms, group, in_turn) = (cells.get()?, cells.optional()?, cells.get()?);
    let (task, path) = (cells.optional_parsed()?, cells.optional()?);
    let (worktree, at_ms) = (cells.optional_parsed()?, cells.optional()?);
    let wants = task.zip(at_ms).map(|(task, at_ms)| Wanted { task, path, worktree, at_ms });
    let (registered_at_ms, ended_at_ms, read) = (cells.optional()?, cells.optional()?, cells.optional()?);
    Ok(KnownInstance {
        actor,
        instance,
        process,
        group,
        seen_at_ms,
        in_turn,
        wants,
        registered_at_ms,
        ended_at_ms,
        read,
    })
}

pub(crate) fn loss(cells: &mut Cells<'_>) -> Decoded<Loss> {
    Ok(Loss { actor: cells.parsed()?, instance: cells.parsed()?, task: cells.parsed()?, token: cells.get()? })
}

pub(crate) fn kept_request(cells: &mut Cells<'_>) -> Decoded<KeptRequest> {
    Ok(KeptRequest {
        digest: cells.optional()?,
        salt: cells.get()?,
        verb: cells.get()?,
        task: cells.optional_parsed()?,
        token: cells.optional()?,
        at_ms: cells.get()?,
    })
}

pub(crate) fn actor(cells: &mut Cells<'_>) -> Decoded<Actor> {
    Ok(Actor { name: cells.parsed()?, tier: cells.get()?, registered_at_ms: cells.get()? })
}

pub(crate) fn stream_head(cells: &mut Cells<'_>) -> Decoded<StreamHead> {
    Ok(StreamHead { uid: cells.get()?, version: cells.get()?, hash: cells.get()? })
}

/// A reservation, with the lease's task and token.
pub(crate) fn reserved(cells: &mut Cells<'_>) -> Decoded<(Uid, Token, Reservation)> {
    let (task, token, glob) = (cells.parsed()?, cells.get()?, cells.parsed()?);
    let (kind, area): (ReservationKind, _) = (cells.parsed()?, cells.optional_parsed()?);
    // Both are part of the row's key, so they are empty instead of null.
    let worktree = Some(cells.get::<&str>()?).filter(|id| !id.is_empty());
    let worktree = worktree.map(|id| id.parse().map_err(Unreadable::because)).transpose()?;
    let part = Some(cells.get::<&str>()?).filter(|part| !part.is_empty());
    let part = part.map(|part| part.parse().map_err(Unreadable::because)).transpose()?;
    let basis = match kind {
        ReservationKind::Declared => Basis::Declared { area },
        ReservationKind::Touched => Basis::Touched(Touched { worktree, part }),
    };
    Ok((task, token, Reservation { glob, basis, is_changed: cells.get()? }))
}

/// The part of `scope.yielded` that the files' holder is told.
#[derive(serde::Deserialize)]
struct Yielded {
    scope: Scope,
}

pub(crate) fn note_left(cells: &mut Cells<'_>) -> Decoded<NoteLeft> {
    let (task, actor) = (cells.parsed()?, cells.parsed()?);
    let yielded: Option<Yielded> = cells.optional_json()?;
    Ok(NoteLeft { task, actor, yielded: yielded.map(|yielded| yielded.scope) })
}

pub(crate) fn pending_notice(cells: &mut Cells<'_>) -> Decoded<PendingNotice> {
    let (actor, instance) = (cells.parsed()?, cells.parsed()?);
    let (task, token, kind, path) = (cells.parsed()?, cells.get()?, cells.parsed()?, cells.get()?);
    let by: (&str, &str) = (cells.get()?, cells.get()?);
    let by = match by.0.is_empty() {
        true => None,
        false => {
            Some((by.0.parse().map_err(Unreadable::because)?, by.1.parse().map_err(Unreadable::because)?))
        }
    };
    Ok(PendingNotice {
        actor,
        instance,
        task,
        token,
        kind,
        path,
        by,
        by_task: cells.optional_parsed()?,
        worktree: cells.optional()?,
        branch: cells.optional()?,
        at_ms: cells.get()?,
    })
}

pub(crate) fn wish(cells: &mut Cells<'_>) -> Decoded<Wish> {
    Ok(Wish { task: cells.parsed()?, actor: cells.parsed()?, path: cells.optional()? })
}
