//! Writes events as the engine would, without deciding anything.

use onus_core::actor::{ActorName, InstanceId, Tier};
use onus_core::apply::{apply_to_project, apply_to_seat, apply_to_task};
use onus_core::chain::Record;
use onus_core::constraint::Constraint;
use onus_core::event::{Body, Draft, Event};
use onus_core::ids::{Token, Uid, Version};
use onus_core::lease::{Grant, LeaseEnd, Mode};
use onus_core::seat::Seat;
use onus_core::stretch::{Stretch, Work};
use onus_core::task::{Facts, NoteKind, State, Task};
use onus_core::text::{Field, Salt, digest};
use onus_core::time::Moment;

use crate::{Result, Store, Write};

pub fn actor(name: &str) -> ActorName {
    format!("agent:{name}").parse().unwrap()
}

pub fn instance(name: &str) -> InstanceId {
    name.parse().unwrap()
}

/// A uid whose text begins with one number and ends with another.
pub fn uid(start: u32, end: u32) -> Uid {
    format!("{start:08x}-0000-7000-8000-0000{end:08x}").parse().unwrap()
}

/// Appends a draft to a task's stream and applies it; returns the row after.
pub fn append(write: &mut dyn Write, task: Uid, draft: Draft) -> Result<Task> {
    append_as(write, task, draft, ("a", "i"))
}

pub fn append_as(write: &mut dyn Write, task: Uid, draft: Draft, by: (&str, &str)) -> Result<Task> {
    let before = write.lock_task(task)?;
    let head = before.as_ref().map_or((Version(0), String::new()), |task| (task.version, task.head.clone()));
    let (event, texts) = stamped(write, task, head, draft, by);
    let changes = apply_to_task(before.as_ref(), &event).expect("the case tells a possible story");
    write.append(&event, &texts)?;
    for change in &changes {
        write.apply(change)?;
    }
    Ok(write.task(task)?.expect("the task was just written"))
}

/// The same for a seat's stream.
pub fn append_to_seat(write: &mut dyn Write, seat: Uid, draft: Draft, by: (&str, &str)) -> Result<Seat> {
    let before = write.seat(seat)?;
    let head = before.as_ref().map_or((Version(0), String::new()), |seat| (seat.version, seat.head.clone()));
    let (event, texts) = stamped(write, seat, head, draft, by);
    let changes = apply_to_seat(before.as_ref(), &event).expect("the case tells a possible story");
    write.append(&event, &texts)?;
    for change in &changes {
        write.apply(change)?;
    }
    Ok(write.seat(seat)?.expect("the seat was just written"))
}

/// Stamps a draft with its place, after the head of its stream.
fn stamped(
    write: &mut dyn Write,
    stream: Uid,
    (version, prev): (Version, String),
    draft: Draft,
    by: (&str, &str),
) -> (Event, Vec<(Field, Salt, String)>) {
    let texts: Vec<_> = draft.texts.iter().map(|(field, text)| (*field, [7; 16], text.clone())).collect();
    let mut event = Event {
        uid: uid(0xeeee_0000, u32::try_from(version.0).unwrap()),
        task: Some(stream),
        version: version.next(),
        body: draft.body,
        actor: actor(by.0),
        instance: instance(by.1),
        token: draft.token,
        at_ms: write.now().wall_ms,
        cause: None,
        texts: texts.iter().map(|(field, salt, text)| (*field, digest(salt, text))).collect(),
        stretches: draft.stretches,
        waited_ms: draft.waited_ms,
        prev,
        hash: String::new(),
    };
    event.hash = Record::from_event(&event).hash;
    (event, texts)
}

pub fn append_to_project(write: &mut dyn Write, body: Body) -> Result<()> {
    let project = write.lock_project()?;
    let mut event = Event {
        uid: uid(0xaaaa_0000, u32::try_from(project.version.0).unwrap()),
        task: None,
        version: project.version.next(),
        body,
        actor: actor("a"),
        instance: instance("i"),
        token: None,
        at_ms: write.now().wall_ms,
        cause: None,
        texts: Default::default(),
        stretches: Vec::new(),
        waited_ms: 0,
        prev: project.head.clone(),
        hash: String::new(),
    };
    event.hash = Record::from_event(&event).hash;
    write.append(&event, &[])?;
    for change in &apply_to_project(Some(&project), &event).expect("the case tells a possible story") {
        write.apply(change)?;
    }
    Ok(())
}

/// A new open task.
pub fn create(write: &mut dyn Write, task: Uid, title: &str, facts: Facts) -> Result<Task> {
    let number = write.next_number()?;
    let created = Body::TaskCreated {
        number,
        state: State::Open,
        facts,
        origin: None,
        body: false,
        deps: Default::default(),
    };
    append(write, task, Draft::new(created).text(Field::Title, Some(title.to_owned())))
}

/// A note on a task.
pub fn append_note(write: &mut dyn Write, task: Uid) -> Result<()> {
    append(
        write,
        task,
        Draft::new(Body::NoteAdded { kind: NoteKind::Progress, link: None })
            .text(Field::Note, Some("a note".to_owned())),
    )
    .map(drop)
}

pub fn grant(now: &Moment, ttl_ms: Option<i64>) -> Grant {
    Grant {
        tier: Tier(1),
        tick_ms: now.tick_ms,
        domain: now.domain.clone(),
        ttl_ms,
        max_hold_ms: None,
        process: None,
        worktree: Some("/somewhere/else".into()),
        worktree_id: None,
        branch: None,
        mode: Mode::Exclusive,
        constraints: [Constraint::NoLand, Constraint::MaxFiles(3)].into_iter().collect(),
        reserve: false,
        handoff_version: None,
    }
}

/// A lease for somebody, with the next token.
pub fn claim(write: &mut dyn Write, task: Uid, by: (&str, &str), ttl_ms: Option<i64>) -> Result<Token> {
    let token = write.task(task)?.expect("the task exists").token.next();
    let now = write.now();
    let (grant, scope, areas) = (grant(&now, ttl_ms), Default::default(), Default::default());
    let acquired = Body::LeaseAcquired { grant, scope, areas, touched: None, own_clock: None };
    append_as(write, task, Draft::new(acquired).token(token), by)?;
    Ok(token)
}

pub fn end() -> LeaseEnd {
    LeaseEnd { renewals: 3, last_sign_ms: 1_000, active_ms: 0 }
}

/// An open stretch, and two that wait.
pub fn some_work(now: &Moment) -> Work {
    Work { waiting: some_stretches(now), ..Work::begun(now, None) }
}

pub fn some_stretches(now: &Moment) -> Vec<Stretch> {
    [600, 42].map(|active_ms| Stretch { start_ms: now.wall_ms - 9_000, active_ms }).to_vec()
}

/// One committed transaction.
pub fn commit<S: Store, R>(store: &mut S, mut work: impl FnMut(&mut dyn Write) -> Result<R>) -> R {
    store.write(|write| work(write)).expect("the transaction commits")
}

/// One snapshot.
pub fn look<S: Store, R>(store: &mut S, work: impl FnOnce(&mut dyn crate::Read) -> Result<R>) -> R {
    store.read(work).expect("the snapshot can be read")
}
