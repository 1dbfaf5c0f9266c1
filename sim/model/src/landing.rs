//! The landing protocol, every interleaving of its steps within bounds.
//!
//! **What is checked** is the order of the steps, with the core's own decisions: `decide` says who may begin a landing and what settling one
//! writes, [`moves_task`] what must not be written before. Git is three references: two targets, of which only the tip and what they contain
//! matter, and the task's intent. A step of git's is all or nothing, as `git update-ref --stdin` is.
//!
//! **Who acts:** two landers, each with a seat that the other may take from it; a person who takes the task over, resets and reopens it,
//! and settles first what was begun; and whoever tidies up references that no event knows. Each may stop between any two of its steps, for
//! good or for as long as all others like: a lander that was killed is one that takes no step any more.
//!
//! **What is assumed:** no two landings have the same commit. A commit has its time and its parent in it; a landing that is tried again is
//! built again.

use std::collections::BTreeSet;

use onus_core::command::{Act, Force};
use onus_core::commit::{CommitId, Extent};
use onus_core::decide::{self, decide, moves_task};
use onus_core::event::{Body, Draft};
use onus_core::gate::Demand;
use onus_core::ids::Token;
use onus_core::landing::{Checked, Intent, LandStyle, LandingPlace, Settled};
use onus_core::task::State as TaskState;
use stateright::{Model, Property};

use crate::state::{PERSON, State};
use crate::{Bounds, Breadth, Broken, Deed, Protocol};

/// How far the search goes.
#[derive(Clone, Copy, Debug)]
pub struct LandingBounds {
    /// Landings that each lander begins.
    pub tries: u8,
    /// Tokens that the task may see.
    pub tokens: u64,
    /// Whether the landers have a target each, or share one.
    pub apart: bool,
}

/// A rule left out, to see that the checker notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenLanding {
    Nothing,
    /// The event comes before the reference.
    EventFirst,
    /// The target is moved whether or not the intent is there, at its old value.
    IntentNotDeleted,
    /// A task is changed before what was begun is settled.
    NotSettled,
    /// What became of a landing is judged by the reference that is there, not by the commit that was intended.
    ByReference,
    /// What was looked at is not compared with the task when a landing begins.
    NotCompared,
}

const LANDERS: usize = 2;
/// Who settles: each lander, and the person.
const SETTLERS: usize = LANDERS + 1;

/// A commit: which lander's, and its how-manieth.
type Commit = (usize, u8);

fn name((lander, attempt): Commit) -> CommitId {
    let text = format!("{:040x}", 16 * lander + usize::from(attempt));
    match text.parse() {
        Ok(commit) => commit,
        Err(_) => unreachable!("'{text}' is a hash"),
    }
}

/// Where a lander is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    /// It has looked at the task and at its target.
    Looked,
    /// Its reference is written; or its event, if that comes first.
    Half,
    /// It may move the target.
    Begun,
    /// The target has moved.
    Moved,
    /// It was refused, or has failed: its reference is to be deleted.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lander {
    stage: Stage,
    tries: u8,
    onto: Option<Commit>,
    /// The task, as it was looked at.
    token: u64,
    state: &'static str,
}

/// The task while a landing of it is begun: its state, its token, and up to which it is fenced.
type Was = (&'static str, u64, u64);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LandingState {
    task: State,
    /// What the row says is about to land, and the task as it was then.
    intent: Option<(Commit, Was)>,
    /// Who has the seat of each target.
    seats: [Option<usize>; LANDERS],
    /// What each target contains, its tip last.
    targets: [Vec<Commit>; LANDERS],
    /// The reference of the intent.
    reference: Option<Commit>,
    landers: [Lander; LANDERS],
    /// What each settler has seen of the references, and not yet recorded.
    seen: [Option<(Commit, bool)>; SETTLERS],
    landed: BTreeSet<Commit>,
    withdrawn: BTreeSet<Commit>,
    /// A target moved for a task that had changed since.
    undone: bool,
    /// Something was called landed that was not.
    invented: bool,
    /// A landing began of a task that had changed since it was looked at.
    unseen: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingStep {
    /// Takes the seat, and looks at the task and at the target.
    Look(usize),
    WriteReference(usize),
    RecordIntent(usize),
    MoveTarget(usize),
    RecordLanded(usize),
    /// Deletes whatever reference is in the way, or its own.
    ClearReference(usize),
    /// Looks at the references of what is begun, and keeps it from going on.
    Settle(usize),
    RecordSettled(usize),
    /// Deletes a reference that no event knows.
    Tidy,
    /// Somebody moves a target without onus.
    Elsewhere,
    Reset,
    Ask(usize, Deed),
}

/// The deeds of the holder, and of a person.
const ASKED: [(usize, Deed); 4] =
    [(0, Deed::Done), (0, Deed::Release), (PERSON, Deed::ForcedTakeover), (PERSON, Deed::Reopen)];

/// A commit that no lander made.
const FOREIGN: usize = 9;

#[derive(Clone, Debug)]
pub struct Landings {
    pub bounds: LandingBounds,
    pub broken: BrokenLanding,
    protocol: Protocol,
}

impl Landings {
    pub fn new(bounds: LandingBounds, broken: BrokenLanding) -> Landings {
        let of_tasks =
            Bounds { tasks: 1, tokens: bounds.tokens, ticks: 0, ttl: 9, max_hold: 9, breadth: Breadth::All };
        Landings { bounds, broken, protocol: Protocol::new(of_tasks, Broken::Nothing) }
    }

    fn target(&self, lander: usize) -> usize {
        if self.bounds.apart { lander } else { 0 }
    }

    fn was(state: &LandingState) -> Was {
        let row = state.task.tasks[0].task.as_ref();
        row.map_or(("", 0, 0), |row| (spoken(row.state), row.token.0, row.fenced_token.0))
    }

    /// What the core decides, if nothing that is begun has to be settled before.
    fn decided(
        &self,
        state: &LandingState,
        by: usize,
        act: &Act,
        force: Option<&Force>,
    ) -> Option<Vec<Draft>> {
        let decision =
            self.protocol.view(&state.task, (by, 0, None), None, |view| decide(view, act, force))?;
        self.settled_first(state, decision.ok()?.drafts)
    }

    fn settled_first(&self, state: &LandingState, drafts: Vec<Draft>) -> Option<Vec<Draft>> {
        let moves = drafts.iter().any(|draft| moves_task(&draft.body));
        let is_in_the_way = state.intent.is_some() && moves && self.broken != BrokenLanding::NotSettled;
        (!is_in_the_way).then_some(drafts)
    }

    fn write(&self, state: &mut LandingState, by: usize, drafts: Vec<Draft>) {
        let of = |commit: &CommitId| {
            let all = (0..LANDERS).flat_map(|lander| (0..=self.bounds.tries).map(move |it| (lander, it)));
            all.into_iter().find(|it| name(*it) == *commit)
        };
        for draft in &drafts {
            match &draft.body {
                Body::LandingWithdrawn { commit } => state.withdrawn.extend(of(commit)),
                Body::TaskLanded(landed) => {
                    let commit = of(&landed.commit);
                    let contained = |commit: &Commit| state.targets[self.target(commit.0)].contains(commit);
                    state.invented |= !commit.as_ref().is_some_and(contained);
                    let is_first = commit.is_some_and(|commit| state.landed.insert(commit));
                    state.invented |= !is_first;
                }
                _ => {}
            }
        }
        self.protocol.write(&mut state.task, (by, 0), drafts);
        state.task.normalize();
        let row = state.task.tasks[0].task.as_ref();
        let begun = row.and_then(|row| row.landing.intent.as_ref()).and_then(|intent| of(&intent.commit));
        let before = state.intent.filter(|(commit, _)| Some(*commit) == begun);
        state.intent =
            begun.map(|commit| (commit, before.map_or_else(|| Landings::was(state), |(_, was)| was)));
    }

    fn checked(&self, state: &LandingState, lander: usize) -> Checked {
        let it = &state.landers[lander];
        let place = LandingPlace { machine: None, repository: String::new() };
        let intent = Intent {
            target: self.target(lander).to_string(),
            onto: name(it.onto.unwrap_or((FOREIGN, 0))),
            commit: name((lander, it.tries)),
            head: name((FOREIGN, 1)),
            style: LandStyle::Merge,
            resolved_lines: 0,
            gates: Vec::new(),
            place,
        };
        let row = state.task.tasks[0].task.as_ref();
        let (token, task_state) = match row.filter(|_| self.broken == BrokenLanding::NotCompared) {
            Some(row) => (row.token, row.state),
            None => (Token(it.token), read(it.state)),
        };
        Checked { intent, demand: Demand::default(), extent: Extent::default(), token, state: task_state }
    }

    fn settle_refs(&self, state: &mut LandingState, target: usize, intended: Option<Commit>) -> bool {
        let there = state.reference.take();
        let judged = match self.broken {
            BrokenLanding::ByReference => there.or(intended),
            _ => intended.or(there),
        };
        judged.is_some_and(|commit| state.targets[target].contains(&commit))
    }

    /// A lander's own steps, after the first.
    fn step_of(&self, state: &mut LandingState, step: &LandingStep, lander: usize) -> Option<()> {
        let commit = (lander, state.landers[lander].tries);
        let target = self.target(lander);
        let event_first = self.broken == BrokenLanding::EventFirst;
        let stage = state.landers[lander].stage.clone();
        let next = match (step, stage) {
            (LandingStep::WriteReference(_), Stage::Looked) if !event_first => Stage::Half,
            (LandingStep::WriteReference(_), Stage::Half) if event_first => Stage::Begun,
            (LandingStep::RecordIntent(_), Stage::Half) if !event_first => Stage::Begun,
            (LandingStep::RecordIntent(_), Stage::Looked) if event_first => Stage::Half,
            (LandingStep::MoveTarget(_), Stage::Begun) => Stage::Moved,
            (LandingStep::RecordLanded(_), Stage::Moved) => Stage::Idle,
            (LandingStep::ClearReference(_), Stage::Looked) if state.reference.is_some() => {
                state.reference = None;
                return Some(());
            }
            (LandingStep::ClearReference(_), Stage::Failed) => {
                let has_landed = self.settle_refs(state, target, Some(commit));
                state.seen[lander] = Some((commit, has_landed));
                Stage::Idle
            }
            _ => return None,
        };
        let next = match step {
            LandingStep::WriteReference(_) => {
                if state.reference.is_some() {
                    return None;
                }
                state.reference = Some(commit);
                next
            }
            LandingStep::RecordIntent(_) => {
                let act = Act::Land(self.checked(state, lander));
                let is_seated = state.seats[target] == Some(lander);
                let decision = self
                    .protocol
                    .view(&state.task, (lander, 0, None), None, |view| decide(view, &act, None))
                    .filter(|_| is_seated);
                match decision {
                    Some(Ok(decision)) => {
                        let drafts = self.settled_first(state, decision.drafts)?;
                        let (was, token, _) = Landings::was(state);
                        let it = &state.landers[lander];
                        state.unseen |= (was, token) != (it.state, it.token);
                        self.write(state, lander, drafts);
                        next
                    }
                    _ => Stage::Failed,
                }
            }
            LandingStep::MoveTarget(_) => {
                let onto = state.landers[lander].onto;
                let stands =
                    state.reference == Some(commit) || self.broken == BrokenLanding::IntentNotDeleted;
                if state.targets[target].last().copied() != onto || !stands {
                    state.landers[lander].stage = Stage::Failed;
                    return Some(());
                }
                state.undone |= state.intent != Some((commit, Landings::was(state)));
                state.reference = state.reference.filter(|it| *it != commit);
                state.targets[target].push(commit);
                next
            }
            LandingStep::RecordLanded(_) => {
                let act = Act::SettleLanding { commit: name(commit), settled: Settled::Landed };
                let drafts = self.decided(state, lander, &act, None)?;
                self.write(state, lander, drafts);
                next
            }
            _ => next,
        };
        state.landers[lander].stage = next;
        Some(())
    }
}

fn spoken(state: TaskState) -> &'static str {
    match state {
        TaskState::Done => "done",
        TaskState::InProgress => "in_progress",
        _ => "open",
    }
}

fn read(state: &str) -> TaskState {
    match state {
        "done" => TaskState::Done,
        "in_progress" => TaskState::InProgress,
        _ => TaskState::Open,
    }
}

impl Model for Landings {
    type State = LandingState;
    type Action = LandingStep;

    fn init_states(&self) -> Vec<LandingState> {
        let lander = Lander { stage: Stage::Idle, tries: 0, onto: None, token: 0, state: "" };
        let open = LandingState {
            task: State::begin(1, &Default::default(), false),
            intent: None,
            seats: [None; LANDERS],
            targets: [Vec::new(), Vec::new()],
            reference: None,
            landers: [lander.clone(), lander],
            seen: [None; SETTLERS],
            landed: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            undone: false,
            invented: false,
            unseen: false,
        };
        let held = self.next_state(&open, LandingStep::Ask(0, Deed::Claim));
        let done = held.as_ref().and_then(|held| self.next_state(held, LandingStep::Ask(0, Deed::Done)));
        held.into_iter().chain(done).collect()
    }

    fn actions(&self, state: &LandingState, actions: &mut Vec<LandingStep>) {
        for lander in 0..LANDERS {
            let steps = match state.landers[lander].stage {
                Stage::Idle if state.landers[lander].tries < self.bounds.tries => {
                    vec![LandingStep::Look(lander)]
                }
                Stage::Idle => vec![],
                Stage::Looked | Stage::Half => vec![
                    LandingStep::WriteReference(lander),
                    LandingStep::RecordIntent(lander),
                    LandingStep::ClearReference(lander),
                ],
                Stage::Begun => vec![LandingStep::MoveTarget(lander), LandingStep::WriteReference(lander)],
                Stage::Moved => vec![LandingStep::RecordLanded(lander)],
                Stage::Failed => vec![LandingStep::ClearReference(lander)],
            };
            actions.extend(steps);
        }
        for settler in 0..SETTLERS {
            match state.seen[settler] {
                Some(_) => actions.push(LandingStep::RecordSettled(settler)),
                // A lander settles what is in the way of its own.
                None if settler < LANDERS && state.landers[settler].stage != Stage::Half => {}
                None if state.intent.is_some() => actions.push(LandingStep::Settle(settler)),
                None => {}
            }
        }
        actions.extend(state.reference.map(|_| LandingStep::Tidy));
        if state.targets[0].is_empty() {
            actions.push(LandingStep::Elsewhere);
        }
        actions.push(LandingStep::Reset);
        actions.extend(ASKED.map(|(by, deed)| LandingStep::Ask(by, deed)));
    }

    fn next_state(&self, last: &LandingState, step: LandingStep) -> Option<LandingState> {
        let mut state = last.clone();
        match &step {
            LandingStep::Look(lander) => {
                let (was, token, _) = Landings::was(last);
                // What is not done is its holder's to land: the first lander is that.
                if was != "done" && !(was == "in_progress" && *lander == 0) {
                    return None;
                }
                let target = self.target(*lander);
                state.seats[target] = Some(*lander);
                let it = &mut state.landers[*lander];
                it.stage = Stage::Looked;
                it.tries += 1;
                (it.onto, it.token, it.state) = (last.targets[target].last().copied(), token, was);
            }
            LandingStep::WriteReference(lander)
            | LandingStep::RecordIntent(lander)
            | LandingStep::MoveTarget(lander)
            | LandingStep::RecordLanded(lander)
            | LandingStep::ClearReference(lander) => self.step_of(&mut state, &step, *lander)?,
            LandingStep::Settle(settler) => {
                let (commit, _) = last.intent?;
                let has_landed = self.settle_refs(&mut state, self.target(commit.0), Some(commit));
                state.seen[*settler] = Some((commit, has_landed));
            }
            LandingStep::RecordSettled(settler) => {
                let (commit, has_landed) = state.seen[*settler].take()?;
                let settled = if has_landed { Settled::Landed } else { Settled::Withdrawn };
                let act = Act::SettleLanding { commit: name(commit), settled };
                let drafts = self.decided(&state, *settler, &act, None)?;
                self.write(&mut state, *settler, drafts);
            }
            LandingStep::Tidy => {
                let is_known = last.intent.map(|(commit, _)| commit) == last.reference;
                if is_known {
                    return None;
                }
                state.reference = None;
            }
            LandingStep::Elsewhere => state.targets[0].push((FOREIGN, 2)),
            LandingStep::Reset => {
                let force = Force { reason: "all wrong".to_owned(), link: None };
                let reset = self.protocol.view(&last.task, (PERSON, 0, None), None, |view| {
                    decide::reset(view, true, "all wrong", Some(&force))
                })?;
                let Ok(decide::Reset::Back(drafts)) = reset else { return None };
                let drafts = self.settled_first(last, drafts)?;
                self.write(&mut state, PERSON, drafts);
            }
            LandingStep::Ask(by, deed) => {
                let (act, force) = deed.act(*by);
                let around = Some(*deed);
                let asked = (*by, 0, None);
                let decide = |view: &decide::View<'_>| decide(view, &act, force.as_ref());
                let decision = self.protocol.view(&last.task, asked, around, decide)?;
                let drafts = self.settled_first(last, decision.ok()?.drafts)?;
                self.write(&mut state, *by, drafts);
            }
        }
        (state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &LandingState) -> bool {
        Landings::was(state).1 <= self.bounds.tokens
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type Holds = fn(&Landings, &LandingState) -> bool;
        let always: [(&'static str, Holds); 5] = [
            ("a target moves only for a task that is as it was", |_, state| !state.undone),
            ("what is withdrawn never lands", |_, state| {
                state.targets.iter().flatten().all(|commit| !state.withdrawn.contains(commit))
            }),
            ("what is called landed is there, once", |_, state| !state.invented),
            ("what landed is recorded, or about to be", |_, state| {
                let begun = state.intent.map(|(commit, _)| commit);
                let known =
                    |it: &&Commit| it.0 == FOREIGN || state.landed.contains(*it) || begun == Some(**it);
                state.targets.iter().flatten().all(|commit| known(&commit))
            }),
            ("a landing begins as it was looked at", |_, state| !state.unseen),
        ];
        let lands =
            Property::sometimes("a landing lands", |_, state: &LandingState| !state.landed.is_empty());
        let withdrawn = Property::sometimes("a landing is withdrawn", |_, state: &LandingState| {
            !state.withdrawn.is_empty()
        });
        always
            .map(|(name, holds)| Property::always(name, holds))
            .into_iter()
            .chain([lands, withdrawn])
            .collect()
    }
}
