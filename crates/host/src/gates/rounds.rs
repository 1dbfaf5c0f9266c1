//! Runs the gates of a task where its work is, one after the other or several at once, and records the results.
//!
//! A result belongs to the tree before the first gate began. If files have changed when a gate ends, it is unknown what it
//! judged, and nothing is recorded.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use onus_core::command::Act;
use onus_core::gate::{Demand, Gate, GateKind, Run, Stage, TreeId, Verdict, Why};
use onus_core::ids::TaskRef;
use onus_core::refusal::{Code, Reader, Refusal, Step};
use onus_dispatch::{Interrupts, Renewal, Watch};
use onus_engine::{AnyEngine, Identity, Landable};
use onus_repo::judged::changed_between;
use onus_repo::worktrees::Info;
use onus_store::Access;

use super::asking::{Workplace, unknown_gate};
use super::judging::On;
use super::running::{Judged, Live, nothing_to_run};
use crate::Host;
use crate::host::on_task;
use crate::worktrees::worktree_env;

const RENEW_EVERY: Duration = Duration::from_secs(15);

/// The most changed files that are named.
const MOST_NAMED: usize = 3;

/// Which gates of a task are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// By default, done.
    pub stage: Option<Stage>,
    /// These gates; if empty, those that have not passed.
    pub named: Vec<String>,
    /// Also gates that have passed.
    pub all: bool,
}

/// Gates to run, and on what.
#[derive(Debug)]
pub struct Round {
    pub task: Landable,
    pub workplace: Workplace,
    pub demand: Demand,
    pub gates: Vec<Gate>,
    /// Gates that a judge has still to pass.
    pub for_judges: Vec<Gate>,
}

impl Round {
    /// Why nothing is to be run.
    pub fn nothing_to_run(&self) -> String {
        let id = &self.task.view.id;
        let asked = self.demand.asked(&self.task.task.facts).filter(|gate| gate.kind.is_run());
        let passed: Vec<&str> = asked.map(|gate| gate.key.as_str()).collect();
        match passed.as_slice() {
            [] => format!("{id} has no gate to run"),
            [one] => format!("{id} has nothing left to run: {one} has passed"),
            all => format!("{id} has nothing left to run: {} have passed", all.join(", ")),
        }
    }
}

/// The result of one gate.
#[derive(Debug)]
pub struct GateOutcome {
    pub gate: Gate,
    pub result: Result<(Verdict, Run), Refusal>,
}

impl Host {
    /// Finds out what a task has to pass, and what to run now. What cannot be run is refused before anything runs.
    pub fn plan_gates(
        &self,
        engine: &mut AnyEngine,
        identity: Option<&Identity>,
        task: Option<&TaskRef>,
        wanted: &Wanted,
    ) -> Result<Round, Refusal> {
        let task = engine.landable(identity, task)?.value;
        let workplace = self.workplace(&task.view);
        let known = self.gates_of(&task.view, &workplace)?;
        let named = wanted.named.iter().map(|key| {
            let gate = known.iter().find(|gate| gate.key.as_str() == key);
            gate.ok_or_else(|| unknown_gate(key, &known))
        });
        let named: Vec<&Gate> = named.collect::<Result<_, _>>()?;
        let stage = wanted.stage.or(named.first().map(|gate| gate.stage)).unwrap_or(Stage::Done);
        if stage == Stage::Land {
            return Err(Refusal::usage(
                "gates of stage land are run on the merged result, when the task lands",
            )
            .next(Step::TryToLand(task.view.id)));
        }
        if let Some(other) = named.iter().find(|gate| gate.stage != stage) {
            return Err(Refusal::usage(format!(
                "gate {} is of stage {}, not {stage}",
                other.key, other.stage
            )));
        }
        let mut demand = self.demand(&task, &workplace, stage)?;
        if stage != Stage::Before && demand.tree.is_none() && !named.is_empty() {
            demand.tree = workplace.tree()?;
        }
        let lacks = |gate: &Gate| demand.standing(gate, &task.judged).is_some();
        let wants = |gate: &&Gate| wanted.all || lacks(gate);
        let chosen: Vec<Gate> = match named.is_empty() {
            true => demand.asked(&task.task.facts).filter(wants).cloned().collect(),
            false => named.into_iter().cloned().collect(),
        };
        let (gates, judged): (Vec<Gate>, Vec<Gate>) = chosen.into_iter().partition(|gate| gate.kind.is_run());
        if let (false, Some(gate)) = (wanted.named.is_empty(), judged.first()) {
            let by = if gate.kind == GateKind::Review { Reader::Reviewer } else { Reader::Person };
            let (id, key) = (task.view.id, gate.key.to_string());
            return Err(nothing_to_run(gate).next(Step::PassGate { task: id, gate: key, by }));
        }
        self.approved_gates(&gates)?;
        if !gates.is_empty() && workplace.root().is_none() {
            let message = format!("{} has no worktree here to run gates in", task.view.id);
            return Err(Refusal::new(Code::NotAllowed, message)
                .task(&task.view.id)
                .next(Step::AddWorktree(task.view.id.clone())));
        }
        let for_judges = judged.into_iter().filter(lacks).collect();
        Ok(Round { task, workplace, demand, gates, for_judges })
    }

    /// Runs the gates, at most `jobs` at once, and records each result. `told` is called as each ends.
    pub fn run_round(
        &self,
        identity: &Identity,
        round: &Round,
        jobs: usize,
        live: &(dyn Fn(&Gate) -> Live + Sync),
        interrupts: Option<&Interrupts>,
        told: &(dyn Fn(&GateOutcome) + Sync),
    ) -> Vec<GateOutcome> {
        let queue: Mutex<VecDeque<(usize, &Gate)>> = Mutex::new(round.gates.iter().enumerate().collect());
        let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
        let work = || {
            let mut done = Vec::new();
            while let Some((place, gate)) = next() {
                let result = self.run_one(identity, round, gate, live(gate), interrupts);
                let stopped = matches!(&result, Err(refusal) if refusal.code != Code::Gate);
                let came = GateOutcome { gate: gate.clone(), result };
                told(&came);
                done.push((place, came));
                if stopped {
                    // The others would fail for the same reason.
                    while next().is_some() {}
                }
            }
            done
        };
        let mut all = match jobs.min(round.gates.len()) {
            0 | 1 => work(),
            jobs => std::thread::scope(|scope| {
                let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
                workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
            }),
        };
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, came)| came).collect()
    }

    fn run_one(
        &self,
        identity: &Identity,
        round: &Round,
        gate: &Gate,
        live: Live,
        interrupts: Option<&Interrupts>,
    ) -> Result<(Verdict, Run), Refusal> {
        let Round { task, workplace, demand, .. } = round;
        let root = workplace.root().unwrap_or(&self.folder);
        let base = workplace.base(&task.view);
        let tree = demand.tree.as_deref();
        let on = On { root, place: workplace.place(), tree, base: base.as_deref() };
        let port_base = workplace.place().and_then(|place| Info::of(place.git_dir.as_deref()?)?.port_base);
        let mut told = worktree_env(root, port_base);
        told.push(("ONUS_GATE".to_owned(), gate.key.to_string()));
        let mut renewing = self.renewing(identity, task);
        let renew = renewing.as_mut().map(|renew| renew as &mut dyn FnMut() -> Renewal);
        let (verdict, run) = self.run_gate_on(gate, on, told, live, Watch { renew, interrupts })?;
        self.unchanged(workplace, gate, demand.tree.as_ref())?;
        let judged = Judged {
            gate,
            verdict,
            tree: demand.tree.clone(),
            flaky: came_out_otherwise(round, gate, verdict),
            run: Some(run.clone()),
            message: None,
        };
        self.engine(Access::Write)?.run(&on_task(identity.clone(), task.task.uid, judged.act()))?;
        Ok((verdict, run))
    }

    /// Refuses a result if files changed while the gate ran.
    fn unchanged(&self, workplace: &Workplace, gate: &Gate, before: Option<&TreeId>) -> Result<(), Refusal> {
        let Some(before) = before else { return Ok(()) };
        let now = workplace.tree()?;
        if now.as_ref() == Some(before) {
            return Ok(());
        }
        let files = workplace
            .place()
            .zip(now.as_ref())
            .and_then(|(place, now)| changed_between(place, before, now).ok());
        let files = files.unwrap_or_default();
        let more = if files.len() > MOST_NAMED { ", …" } else { "" };
        let files = files.iter().take(MOST_NAMED).map(|file| onus_core::quote::name(file).to_string());
        let message = format!(
            "files changed while gate {} ran, so nothing is recorded: {}{more}",
            gate.key,
            files.collect::<Vec<_>>().join(", ")
        );
        Err(Refusal::new(Code::Gate, message)
            .next(Step::plain("have git ignore what it makes, or run it again when nobody changes files")))
    }

    /// Renews the caller's lease while gates run; None if the caller holds none.
    fn renewing(&self, identity: &Identity, task: &Landable) -> Option<impl FnMut() -> Renewal + use<'_>> {
        let lease = task.view.lease.as_ref()?;
        let is_own = lease.live
            && lease.actor == identity.actor.to_string()
            && lease.instance == identity.instance.to_string();
        let (identity, task) = (identity.clone(), TaskRef::from(task.task.uid));
        is_own.then_some(move || {
            let act = Act::Renew { ttl_ms: None, progress: true };
            let request = on_task(identity.clone(), task.clone(), act);
            match self.engine(Access::Write).and_then(|mut engine| engine.run(&request)) {
                Ok(_) => Renewal::Kept { next_in: RENEW_EVERY, trusted_for: None },
                Err(refusal) if refusal.code == Code::Fenced => Renewal::Fenced { why: refusal.message },
                Err(refusal) => Renewal::Unavailable { why: refusal.message },
            }
        })
    }
}

/// Whether the same gate had the opposite result before, on the same tree.
fn came_out_otherwise(round: &Round, gate: &Gate, verdict: Verdict) -> bool {
    let Round { task, demand, .. } = round;
    match (demand.tree.is_some(), demand.standing(gate, &task.judged)) {
        (false, _) | (true, Some(Why::NotJudged | Why::Stale | Why::Unknown)) => false,
        (true, None) => verdict == Verdict::Failed,
        (true, Some(Why::Failed)) => verdict == Verdict::Passed,
    }
}
