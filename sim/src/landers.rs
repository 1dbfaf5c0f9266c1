//! Landers: programs that bring a task's branch into a target, step by step. Between any two steps the world continues, and a
//! lander may pause for long, or for ever. See [`onus_core::landing`] for the protocol.

use onus_core::command::{Act, Attachment, Command, SeatAct, SeatTerms};
use onus_core::commit::{CommitId, Extent};
use onus_core::gate::{Demand, GateKind, Stage as GateStage, Verdict};
use onus_core::ids::{TaskRef, Token};
use onus_core::landing::{
    Checked, ConflictFile, Failure, Intent, LandStyle, Landed, LandingPlace, Obstruction, Settled,
};
use onus_core::seat::SeatName;
use onus_core::task::{State, Task, TaskBranch};
use onus_engine::{Answer, Identity, Reply, Request};
use onus_store::Store as _;

use crate::actors::Asked;
use crate::actors::chance;
use crate::fate::MACHINE;
use crate::gates;
use crate::git::{Moved, TARGETS};
use crate::oracle::Deed;
use crate::run::{Heard, Run, Step, text};

/// The most landers at a time.
const MOST: usize = 5;

#[derive(Debug)]
pub(crate) struct Lander {
    by: usize,
    identity: Identity,
    seat: SeatName,
    seat_token: Token,
    target: String,
    /// The task as it was checked.
    task: Task,
    head: CommitId,
    onto: CommitId,
    commit: CommitId,
    demand: Demand,
    extent: Extent,
    stage: Stage,
}

/// What a lander does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    RunGates,
    WriteReference,
    Intend,
    Move,
    Tell(Settled),
}

impl Lander {
    fn id(&self) -> String {
        format!("ON-{}", self.task.number.0)
    }

    fn on_task(&self, act: Act) -> Command {
        Command::OnTask { task: Some(TaskRef::Number(self.task.number)), act, force: None }
    }

    fn seated(&self, act: Act) -> Command {
        let command = Box::new(self.on_task(act));
        Command::Seated { seat: self.seat.clone(), token: self.seat_token, command }
    }

    fn asked(&self, command: Command) -> Asked {
        Asked::new(self.by, self.identity.clone(), command)
    }

    fn intent(&self) -> Intent {
        let place = LandingPlace { machine: Some(MACHINE.to_owned()), repository: "/r/.git".to_owned() };
        Intent {
            target: self.target.clone(),
            onto: self.onto.clone(),
            commit: self.commit.clone(),
            head: self.head.clone(),
            style: LandStyle::Merge,
            resolved_lines: 0,
            gates: vec![gates::key("lint")],
            place,
        }
    }

    fn failure(&self, why: Obstruction) -> Act {
        Act::FailLanding(Failure {
            target: self.target.clone(),
            onto: self.onto.clone(),
            head: self.head.clone(),
            why,
            message: "it does not fit".to_owned(),
            token: self.task.token,
        })
    }
}

fn seat_of(target: &str) -> Option<SeatName> {
    format!("land:{target}").parse().ok()
}

/// Whether a command is part of a landing.
pub(crate) fn speaks_of_landing(command: &Command) -> bool {
    let Command::OnTask { act, .. } = command.itself() else { return false };
    matches!(act, Act::Land(_) | Act::SettleLanding { .. } | Act::FoundLanded(_) | Act::FailLanding(_))
}

impl Run {
    /// Everything that may happen to landings in one step of the world.
    pub(crate) fn land(&mut self, at: u64) -> Step<()> {
        if self.dice.one_in(5) {
            let task = 1 + self.oracle.tasks().saturating_sub(self.dice.below(16) as u64);
            self.world.fate().git.work_on(task);
        }
        if self.dice.one_in(60) {
            self.world.fate().git.definitions += 1;
        }
        if self.dice.one_in(40) {
            self.land_elsewhere(at)?;
        }
        if self.dice.one_in(50) {
            self.settle_all(at)?;
        }
        if self.dice.one_in(6) {
            self.interfere(at)?;
        }
        if self.landers.len() < MOST && self.dice.one_in(3) {
            self.begin_landing(at)?;
        }
        if self.dice.one_in(2) && !self.landers.is_empty() {
            let which = self.dice.below(self.landers.len());
            let lander = self.landers.swap_remove(which);
            if self.dice.one_in(14) {
                self.report.fault("lander killed");
                self.note(at, format!("the lander of {} is killed at {:?}", lander.id(), lander.stage));
                return Ok(());
            }
            let goes_on = self.step_of(at, lander)?;
            self.landers.extend(goes_on);
        }
        Ok(())
    }

    /// An instance that takes the seat of a target checks a task that may land there.
    fn begin_landing(&mut self, at: u64) -> Step<()> {
        let target = TARGETS[self.dice.below(TARGETS.len())].to_owned();
        let Some(seat) = seat_of(&target) else { return Ok(()) };
        let (by, identity) = self.actors.anybody(&mut self.dice);
        let store = self.engines[0].store();
        let done = store.read(|read| read.to_land(10_000)).map_err(text)?;
        let held = store.read(|read| read.open_leases(10_000)).map_err(text)?;
        let is_own = |lease: &onus_core::lease::Lease| {
            lease.actor == identity.actor && lease.instance == identity.instance
        };
        let own = held.into_iter().filter(|(task, lease)| task.state == State::InProgress && is_own(lease));
        let all = done.into_iter().chain(own.map(|(task, _)| task));
        let landable: Vec<Task> = all.filter(|task| task.branch.is_some()).collect();
        let Some(task) = self.dice.pick(&landable).cloned() else { return Ok(()) };
        let take =
            Command::OnSeat { seat: seat.clone(), act: SeatAct::Take(SeatTerms::default()), force: None };
        self.tell(at, Asked::new(by, identity.clone(), take))?;
        // An instance that was refused the seat may still have an old token.
        let Some(seat_token) = self.actors.seat_token(by, &seat) else { return Ok(()) };
        let mut fate = self.world.fate();
        let number = task.number.0;
        let (head, onto, commit) = (fate.git.head(number), fate.git.tip(&target), fate.git.commit());
        let read = fate.git.tree(number, 0);
        let mut demand = gates::at_landing(&fate.git, format!("{onto}+{read}"), read);
        drop(fate);
        let (changed, extent) = chance::changes(&mut self.dice);
        demand.changed = Some(changed);
        let stage = Stage::RunGates;
        let lander = Lander {
            by,
            identity,
            seat,
            seat_token,
            target,
            task,
            head,
            onto,
            commit,
            demand,
            extent,
            stage,
        };
        self.landers.push(lander);
        Ok(())
    }

    /// One step of a lander. None: it has finished.
    fn step_of(&mut self, at: u64, lander: Lander) -> Step<Option<Lander>> {
        let (id, commit) = (lander.id(), lander.commit.clone());
        let next = match &lander.stage {
            Stage::RunGates => return self.run_gates(at, lander),
            Stage::WriteReference => {
                let git = &mut self.world.fate().git;
                if !git.intend(&id, &commit) {
                    // The lander that left it was killed, or is about to be refused.
                    git.settle(&id, &lander.target, None);
                    git.intend(&id, &commit);
                }
                Stage::Intend
            }
            Stage::Intend => {
                let checked = Checked {
                    intent: lander.intent(),
                    demand: lander.demand.clone(),
                    extent: lander.extent.clone(),
                    token: lander.task.token,
                    state: lander.task.state,
                };
                match self.tell(at, lander.asked(lander.seated(Act::Land(checked))))? {
                    Heard::Done => Stage::Move,
                    Heard::Refused => {
                        self.world.fate().git.settle(&id, &lander.target, Some(&commit));
                        return Ok(None);
                    }
                    Heard::Nothing => return Ok(None),
                }
            }
            Stage::Move => {
                let mut fate = self.world.fate();
                let (of, steps) = ((id.as_str(), lander.task.number.0), (&lander.onto, &commit));
                let settled = match fate.git.advance(of, &lander.target, steps, &lander.head) {
                    Moved::Moved => Settled::Landed,
                    Moved::Refused => fate.git.settle(&id, &lander.target, Some(&commit)),
                };
                drop(fate);
                self.note(at, format!("the lander of {id} finds its step to {commit} {settled:?}"));
                if settled == Settled::Landed {
                    self.oracle.target_moved(lander.task.number.0, commit.as_str())?;
                }
                Stage::Tell(settled)
            }
            Stage::Tell(settled) => {
                let act = Act::SettleLanding { commit, settled: settled.clone() };
                let identity = Identity { token: None, ..lander.identity.clone() };
                let mut asked = lander.asked(lander.on_task(act));
                asked.request.identity = identity;
                if self.dice.one_in(4) {
                    self.later(at, 40, asked.clone());
                }
                self.tell(at, asked)?;
                return Ok(None);
            }
        };
        Ok(Some(Lander { stage: next, ..lander }))
    }

    /// Runs the gates of the landing on the merged result. Reports a conflict or a failed gate.
    fn run_gates(&mut self, at: u64, lander: Lander) -> Step<Option<Lander>> {
        if self.dice.one_in(14) {
            let file = ConflictFile { path: "a/x".to_owned(), lines: 2, with: Vec::new() };
            let why = Obstruction::Conflict { files: vec![file], count: 1 };
            self.tell(at, lander.asked(lander.seated(lander.failure(why))))?;
            return Ok(None);
        }
        // Some forget to run them, and the landing is refused.
        let is_forgetful = self.dice.one_in(8);
        let is_run = |gate: &&onus_core::gate::Gate| {
            gate.stage == GateStage::Land && gate.kind == GateKind::Command && !is_forgetful
        };
        let run: Vec<_> = lander.demand.gates.iter().filter(is_run).cloned().collect();
        for gate in run {
            let verdict = if self.dice.one_in(8) { Verdict::Failed } else { Verdict::Passed };
            let judging = gates::judged(gate.clone(), verdict, lander.demand.tree.clone());
            let heard = self.tell(at, lander.asked(lander.on_task(Act::Judge(judging))))?;
            if heard == Heard::Nothing {
                return Ok(None);
            }
            if verdict == Verdict::Failed && self.dice.one_in(2) {
                let why = Obstruction::Gates { gates: vec![gate.key.clone()] };
                self.tell(at, lander.asked(lander.seated(lander.failure(why))))?;
                return Ok(None);
            }
        }
        Ok(Some(Lander { stage: Stage::WriteReference, ..lander }))
    }

    /// Changes a task that is about to land, as its holder, as its lander, or as a person by force.
    fn interfere(&mut self, at: u64) -> Step<()> {
        let begun = self.engines[0].store().read(|read| read.to_land(10_000)).map_err(text)?;
        let begun: Vec<Task> = begun.into_iter().filter(|task| task.landing.intent.is_some()).collect();
        let Some(task) = self.dice.pick(&begun).map(|task| task.number) else { return Ok(()) };
        let lander = self.landers.iter().find(|lander| lander.task.number == task);
        let lander = lander.map(|lander| (lander.by, lander.identity.clone()));
        let (by, identity) = match lander.filter(|_| self.dice.one_in(3)) {
            Some(lander) => lander,
            None => self.actors.anybody(&mut self.dice),
        };
        let command = self.actors.on_landing(&mut self.dice, by, task.0);
        let mut asked = Asked::new(by, identity, command);
        gates::complete(&mut asked.request.command, &self.world.fate().git);
        match self.dice.one_in(2) {
            true => self.tell(at, asked).map(drop),
            false => {
                self.later(at, 6, asked);
                Ok(())
            }
        }
    }

    /// A branch reaches a target without onus, and an instance finds it there, now or later.
    fn land_elsewhere(&mut self, at: u64) -> Step<()> {
        let target = TARGETS[self.dice.below(TARGETS.len())];
        let commit = self.world.fate().git.push(target);
        let done = self.engines[0].store().read(|read| read.to_land(10_000)).map_err(text)?;
        let Some(task) = self.dice.pick(&done).map(|task| task.number) else { return Ok(()) };
        let landed = Landed {
            target: target.to_owned(),
            commit,
            style: LandStyle::Elsewhere,
            resolved_lines: 0,
            gates: Vec::new(),
        };
        let (by, identity) = self.actors.anybody(&mut self.dice);
        let command =
            Command::OnTask { task: Some(TaskRef::Number(task)), act: Act::FoundLanded(landed), force: None };
        self.later(at, 30, Asked::new(by, identity, command));
        Ok(())
    }

    /// Settles every landing that was begun.
    pub(crate) fn settle_all(&mut self, at: u64) -> Step<()> {
        let (_, identity) = self.actors.anybody(&mut self.dice);
        let (_, left) = self.engines[0].settle_all(&identity).map_err(text)?;
        if let Some(refusal) = left.first() {
            return Err(format!("P10: a landing cannot be settled: {}", refusal.message));
        }
        self.note(at, format!("{} settles all landings", identity.actor));
        let records = self.new_events(0)?;
        let command = Command::RegisterActor { actor: identity.actor.clone(), tier: None };
        let request = Request { identity, command, key: None };
        let deed = Deed { request: &request, committed: false, place: crate::fate::HOST, answer: None };
        self.oracle.judge(&deed, &records, &self.world.fate())
    }

    /// An instance that claims a task mostly works on the task's own branch.
    pub(crate) fn take_branch(&mut self, asked: &Asked, reply: &Reply) {
        let Answer::Lease { task, .. } = &reply.answer else { return };
        let claims = match &asked.request.command {
            Command::ClaimNext(_) => true,
            Command::OnTask { act, .. } => matches!(act, Act::Claim(_) | Act::Takeover(_)),
            _ => false,
        };
        if !claims || self.dice.one_in(3) {
            return;
        }
        let (Ok(task), branch) = (task.id.parse(), format!("onus/{}", task.id)) else { return };
        let target = TARGETS[self.dice.below(TARGETS.len())].to_owned();
        let own = Some(TaskBranch { branch: branch.clone(), base: "0".repeat(40), target });
        let place = Attachment { id: None, path: format!("/w/{branch}"), branch: Some(branch), own };
        let command = Command::OnTask { task: Some(task), act: Act::Attach(place), force: None };
        let request = Request { command, key: None, ..asked.request.clone() };
        self.flying.push((0, Asked { by: asked.by, request }));
    }

    /// Delivers a lander's own request.
    fn tell(&mut self, at: u64, asked: Asked) -> Step<Heard> {
        let heard = self.deliver(at, vec![asked], "lander")?;
        Ok(heard.into_iter().next().unwrap_or(Heard::Nothing))
    }
}
