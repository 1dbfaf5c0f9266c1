//! Who holds what, and which leases need attention: each with its cause and the safe next step.

use std::collections::BTreeMap;

use serde::Serialize;

use onus_core::actor::ActorName;
use onus_core::attention::{Awaited, awaited};
use onus_core::lease::LapseCause;
use onus_core::quote;
use onus_core::refusal::{Reader, Step};
use onus_core::task::{State, Task};
use onus_core::time::{SECOND_MS, Span};
use onus_core::transition::Verb;
use onus_store::{Filter, Store, StoreError};

use crate::query::QueryResult;
use crate::seats::SeatHeldView;
use crate::show::NoteView;
use crate::snapshot::Snapshot;
use crate::view::LeaseView;
use crate::{Engine, Identity};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "StatusView"))]
pub struct StatusView<N = Step> {
    pub project: String,
    pub prefix: String,
    /// Number of planned tasks by state.
    pub counts: BTreeMap<String, u64>,
    /// Unfinished ad-hoc tasks, which are not among them.
    pub ad_hoc: u64,
    /// What goes on only if the caller does something: the first of it.
    pub waiting_for_you: Vec<AwaitedView<N>>,
    /// Tasks that were blocked, and those in review: the first of each.
    pub blocked: Vec<AwaitedView<N>>,
    pub review: Vec<AwaitedView<N>>,
    /// Tasks that are done and have still to land: the first of them.
    pub to_land: Vec<AwaitedView<N>>,
    /// Live leases.
    pub held: Vec<HeldView<N>>,
    /// Leases that lapsed and wait for a takeover, with the safe next step.
    pub lapsed: Vec<HeldView<N>>,
    /// People's leases without a sign of life for a long time.
    pub stale: Vec<HeldView<N>>,
    /// Agents that live, and of whose work nothing has come for a long time.
    pub stalled: Vec<HeldView<N>>,
    /// What the caller holds.
    pub yours: Vec<String>,
    /// Seats that somebody holds, or held until the lease lapsed.
    pub seats: Vec<SeatHeldView<N>>,
    /// The names of those that the caller holds.
    pub your_seats: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "HeldView"))]
pub struct HeldView<N = Step> {
    pub id: String,
    pub title: String,
    pub state: State,
    pub lease: LeaseView,
    /// What happened, for people.
    pub message: String,
    /// The safe next step.
    pub next: Option<N>,
}

/// A task that waits for somebody.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AwaitedView"))]
pub struct AwaitedView<N = Step> {
    pub id: String,
    pub title: String,
    pub state: State,
    /// What the caller is waited for; null: not the caller.
    pub awaited: Option<Awaited>,
    /// What happened, for people.
    pub message: String,
    /// What was said with it.
    pub last_word: Option<NoteView>,
    /// The next step.
    pub next: Option<N>,
}

impl AwaitedView {
    /// The same in an interface's words.
    pub fn worded(&self, say: &dyn Fn(&Step) -> Option<String>) -> AwaitedView<String> {
        AwaitedView {
            id: self.id.clone(),
            title: self.title.clone(),
            state: self.state,
            awaited: self.awaited,
            message: self.message.clone(),
            last_word: self.last_word.clone(),
            next: self.next.as_ref().and_then(say),
        }
    }
}

impl StatusView {
    /// The same in an interface's words.
    pub fn worded(&self, say: &dyn Fn(&Step) -> Option<String>) -> StatusView<String> {
        let worded = |held: &HeldView| HeldView {
            id: held.id.clone(),
            title: held.title.clone(),
            state: held.state,
            lease: held.lease.clone(),
            message: held.message.clone(),
            next: held.next.as_ref().and_then(say),
        };
        let all = |list: &[HeldView]| list.iter().map(worded).collect();
        let awaited = |list: &[AwaitedView]| list.iter().map(|waits| waits.worded(say)).collect();
        StatusView {
            project: self.project.clone(),
            prefix: self.prefix.clone(),
            counts: self.counts.clone(),
            ad_hoc: self.ad_hoc,
            waiting_for_you: awaited(&self.waiting_for_you),
            blocked: awaited(&self.blocked),
            review: awaited(&self.review),
            to_land: awaited(&self.to_land),
            held: all(&self.held),
            lapsed: all(&self.lapsed),
            stale: all(&self.stale),
            stalled: all(&self.stalled),
            yours: self.yours.clone(),
            seats: self.seats.iter().map(|seat| seat.worded(say)).collect(),
            your_seats: self.your_seats.clone(),
        }
    }
}

/// How many of each kind are named, and how many are read to find those that wait for one actor.
const NAMED: usize = 20;
const LOOKED_AT: u64 = 1_000;

impl Snapshot<'_> {
    /// Adds what waits for somebody: for this actor, or for anyone.
    fn add_waiting(&mut self, asker: Option<&ActorName>, status: &mut StatusView) -> Result<(), StoreError> {
        let kept = asker.map(|actor| Filter { kept_for: Some(actor.clone()), ..Filter::default() });
        let states = [State::Review, State::Blocked, State::Failed, State::Proposed];
        // Nobody plans ad-hoc work, but once it is submitted, somebody has to look at it.
        let ad_hoc = |state| if state == State::Review { None } else { Some(false) };
        let in_state = |state| Filter { states: vec![state], ad_hoc: ad_hoc(state), ..Filter::default() };
        for filter in kept.into_iter().chain(states.map(in_state)) {
            for task in self.read.list(&filter, None, LOOKED_AT)? {
                let wanted = match asker {
                    Some(actor) if status.waiting_for_you.len() < NAMED => {
                        let worked = self.read.held_above(task.uid, task.opened_token, actor)?;
                        awaited(&task, actor, worked, self.now)
                    }
                    _ => None,
                };
                let list = match task.state {
                    State::Review => Some(&mut status.review),
                    State::Blocked => Some(&mut status.blocked),
                    _ => None,
                };
                let list = list.filter(|list| list.len() < NAMED);
                if wanted.is_none() && list.is_none() {
                    continue;
                }
                let view = self.awaited_view(&task, wanted)?;
                if wanted.is_some() {
                    status.waiting_for_you.push(view.clone());
                }
                if let Some(list) = list {
                    list.push(view);
                }
            }
        }
        for task in self.read.to_land(LOOKED_AT)? {
            if task.landing.awaited.is_some() && status.to_land.len() < NAMED {
                let view = self.awaited_view(&task, None)?;
                let next = Some(Step::Land(view.id.clone()));
                status.to_land.push(AwaitedView { next, ..view });
            }
        }
        Ok(())
    }

    fn awaited_view(&mut self, task: &Task, awaited: Option<Awaited>) -> Result<AwaitedView, StoreError> {
        let view = self.task_view(task)?;
        let message = match (awaited, task.state) {
            (Some(Awaited::Claim), _) => {
                let left = view.kept_for.as_ref().map(|kept| Span::from_ms(kept.expires_in_s * SECOND_MS));
                format!("kept for you, {} left", left.unwrap_or(Span::from_ms(0)))
            }
            (_, State::Review) => match &view.submitter {
                Some(submitter) => format!("submitted by {submitter}"),
                None => "in review".to_owned(),
            },
            (_, State::Done) if task.landing.awaited.is_some() => match &view.target {
                Some(target) => format!("done, to land in {}", quote::name(target)),
                None => "done, to land".to_owned(),
            },
            (_, State::Proposed) => format!("proposed by {}", view.created_by),
            (_, state) => state.spoken().to_owned(),
        };
        let is_used_up = self.policy.has_used_up_attempts(task);
        let step = |awaited: Awaited| match (awaited, &view.branch) {
            (Awaited::Claim, Some(_)) => Step::ClaimInWorktree(view.id.clone()),
            (Awaited::Decision, _) if task.state == State::Failed && is_used_up => Step::show(&view.id),
            _ => Step::verb(awaited.verb(task.state), &view.id),
        };
        Ok(AwaitedView {
            next: awaited.map(step),
            id: view.id,
            title: view.title,
            state: task.state,
            awaited,
            message,
            last_word: view.last_word,
        })
    }
}

impl Snapshot<'_> {
    pub(crate) fn status(&mut self, identity: Option<&Identity>) -> Result<StatusView, StoreError> {
        let mut counts: BTreeMap<String, u64> =
            State::ALL.iter().map(|state| (state.to_string(), 0)).collect();
        for (state, count) in self.read.count_by_state()? {
            counts.insert(state.to_string(), count);
        }
        let asker = self.asker(identity)?;
        let mut view = StatusView {
            project: self.project.uid.to_string(),
            prefix: self.project.prefix.to_string(),
            counts,
            ad_hoc: self.read.count_ad_hoc()?,
            waiting_for_you: Vec::new(),
            blocked: Vec::new(),
            review: Vec::new(),
            to_land: Vec::new(),
            held: Vec::new(),
            lapsed: Vec::new(),
            stale: Vec::new(),
            stalled: Vec::new(),
            yours: Vec::new(),
            seats: Vec::new(),
            your_seats: Vec::new(),
        };
        self.add_waiting(asker.as_ref().map(|actor| &actor.name), &mut view)?;
        for (task, lease) in self.read.open_leases(u64::from(u32::MAX))? {
            let id = self.id(task.number);
            let title = self.title(&task)?;
            let rendered = self.lease_view(&lease, &task)?;
            let silent = Span::from_ms(self.now.since_ms(&lease.pulse.last));
            let yours = asker
                .as_ref()
                .zip(identity)
                .is_some_and(|(actor, identity)| lease.is_held_by(&actor.name, &identity.instance));
            if yours && rendered.lapsed_by.is_none() {
                view.yours.push(id.clone());
            }
            let held = Span::from_ms(self.now.since_ms(&lease.acquired()));
            let (list, message, next) = match rendered.lapsed_by {
                Some(cause) => (
                    &mut view.lapsed,
                    format!("{} let it lapse: {}", lease.holder(), lapse_text(cause, &silent)),
                    Some(if yours && matches!(cause, LapseCause::Ttl) {
                        Step::Renew(id.clone())
                    } else if yours {
                        Step::verb(Verb::Claim, &id)
                    } else if task.facts.ad_hoc {
                        Step::verb(Verb::Done, &id)
                    } else if task.branch.is_some() && !lease.actor.is_person() {
                        // Its work is on a branch, and what is in no commit in that worktree.
                        Step::ClaimInWorktree(id.clone())
                    } else {
                        Step::verb(Verb::Takeover, &id)
                    }),
                ),
                None if rendered.stale => (
                    &mut view.stale,
                    format!("{} has shown no sign of life for {silent}", lease.actor),
                    Some(Step::note(&id, Reader::Holder)),
                ),
                None if rendered.stalled => (
                    &mut view.stalled,
                    format!(
                        "{} is alive, but has recorded no progress for {}",
                        lease.holder(),
                        Span::from_ms(self.now.since_ms(&lease.pulse.progress))
                    ),
                    Some(Step::note(&id, Reader::Holder)),
                ),
                None => (
                    &mut view.held,
                    match rendered.expires_in_s {
                        Some(s) if lease.pulse.resting => format!(
                            "{} has held it for {held}; its turn is over, {} left",
                            lease.holder(),
                            Span::from_ms(s * SECOND_MS)
                        ),
                        Some(s) if lease.grant.process.is_none() => format!(
                            "{} has held it for {held}; {} left",
                            lease.holder(),
                            Span::from_ms(s * SECOND_MS)
                        ),
                        _ => format!("{} has held it for {held}", lease.holder()),
                    },
                    None,
                ),
            };
            list.push(HeldView { id, title, state: task.state, lease: rendered, message, next });
        }
        for (seat, is_yours) in self.held_seats(identity)? {
            view.your_seats.extend(is_yours.then(|| seat.name.clone()));
            view.seats.push(seat);
        }
        Ok(view)
    }
}

impl<S: Store> Engine<S> {
    pub fn status(&mut self, identity: Option<&Identity>) -> QueryResult<StatusView> {
        self.ask(identity, |snapshot| Ok(snapshot.status(identity)?))
    }
}

/// Why a lease lapsed, in words.
pub(crate) fn lapse_text(cause: LapseCause, silent: &Span) -> String {
    match cause {
        LapseCause::ProcessDied => "its process died".to_owned(),
        LapseCause::Rebooted => "the machine was restarted".to_owned(),
        LapseCause::Ttl => format!("no sign of life for {silent}"),
        LapseCause::MaxHold => "held for the maximum time".to_owned(),
    }
}
