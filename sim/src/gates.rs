//! The gates of the simulated project, and the demand of each request, as an interface would read it from the repository when it
//! makes the request.

use std::collections::BTreeSet;

use onus_core::command::{Act, Command, Judging};
use onus_core::gate::{
    Applies, Demand, Gate, GateCommand, GateKey, GateKind, Judgement, Run, Stage, Verdict,
};
use onus_core::ids::TaskRef;
use onus_core::scope::Scope;
use onus_core::transition::Verb;

use crate::actors::chance::parsed;
use crate::dice::Dice;
use crate::git::Git;

/// All gates. Except for the one for landing, they apply only to tasks that name them.
pub const GATES: [(&str, GateKind, Stage); 5] = [
    ("tests", GateKind::Command, Stage::Done),
    ("sign", GateKind::Manual, Stage::Done),
    ("review", GateKind::Review, Stage::Done),
    ("plan", GateKind::Manual, Stage::Before),
    ("lint", GateKind::Command, Stage::Land),
];

/// A gate that a task may name although the project does not define it.
pub const UNDEFINED: &str = "gone";

pub fn key(name: &str) -> GateKey {
    parsed(name)
}

fn gate((name, kind, stage): (&str, GateKind, Stage), version: u64) -> Gate {
    let command = kind.is_run().then(|| GateCommand {
        argv: vec!["check".to_owned(), version.to_string()],
        env: BTreeSet::new(),
        folder: String::new(),
        timeout_ms: 1_000,
    });
    Gate {
        key: key(name),
        title: None,
        kind,
        stage,
        command,
        tests: Scope::default(),
        by: BTreeSet::new(),
        applies: Applies { only_named: stage != Stage::Land, ..Applies::default() },
    }
}

fn demand(git: &Git, counts: impl Fn(&Gate) -> bool) -> Demand {
    let all: Vec<Gate> = GATES.into_iter().map(|it| gate(it, git.definitions)).collect();
    let known = all.iter().map(|gate| gate.key.clone()).collect();
    Demand { gates: all.into_iter().filter(|gate| counts(gate)).collect(), known, ..Demand::default() }
}

/// What a merged result must pass to land.
pub fn at_landing(git: &Git, merged: String, reviewed: String) -> Demand {
    Demand { tree: Some(merged), reviewed: Some(reviewed), ..demand(git, |gate| gate.stage != Stage::Before) }
}

/// A verdict of a gate on a tree.
pub fn judged(gate: Gate, verdict: Verdict, tree: Option<String>) -> Judging {
    let run = gate.kind.is_run().then(|| Run {
        exit: Some(if verdict == Verdict::Passed { 0 } else { 1 }),
        timed_out: false,
        duration_ms: 10,
        log: None,
        machine: None,
    });
    let judgement = Judgement { gate: gate.key.clone(), definition: gate.digest(), tree, flaky: false, run };
    Judging { gate, verdict, judgement, message: None }
}

/// Judges a gate of a task: mostly on the current tree, sometimes on an earlier one, or without having run it.
pub fn judging(dice: &mut Dice) -> Judging {
    let which = GATES[dice.weighted(&[6, 3, 4, 3, 1])];
    let verdict = if dice.one_in(5) { Verdict::Failed } else { Verdict::Passed };
    let mut judging = judged(gate(which, 0), verdict, Some(dice.below(3).to_string()));
    if dice.one_in(15) {
        judging.judgement.run = None;
    }
    judging
}

/// Completes a request with what its caller sees in the repository.
pub fn complete(command: &mut Command, git: &Git) {
    match command {
        Command::OnTask { act: Act::Claim(terms) | Act::Takeover(terms), .. } | Command::ClaimNext(terms) => {
            terms.demand = Some(demand(git, |gate| gate.stage == Stage::Before));
        }
        Command::OnTask { task, act: Act::Move { verb, demand: asked, .. }, .. }
            if matches!(verb, Verb::Done | Verb::Submit | Verb::Approve) =>
        {
            let counts =
                |gate: &Gate| gate.stage == Stage::Done && (*verb != Verb::Submit || gate.kind.is_run());
            // If the task is unknown, there is no tree to judge.
            let tree = number(task.as_ref()).map_or_else(|| "unknown".to_owned(), |task| git.tree(task, 0));
            *asked = Some(Demand { tree: Some(tree), ..demand(git, counts) });
        }
        Command::OnTask { task, act: Act::Judge(judging), .. } => {
            let ago = judging.judgement.tree.as_ref().and_then(|ago| ago.parse::<u64>().ok());
            let ran = judging.judgement.run.clone();
            let of = GATES.into_iter().find(|(name, ..)| *name == judging.gate.key.as_str());
            let (Some(of), Some(task)) = (of, number(task.as_ref())) else { return };
            // Some judge the tree of one or two commits ago.
            let tree = git.tree(task, ago.unwrap_or_default());
            let tree = (of.2 != Stage::Before).then_some(tree);
            let version = git.definitions.saturating_sub(u64::from(ago == Some(2)));
            *judging = judged(gate(of, version), judging.verdict, tree);
            judging.judgement.run = judging.judgement.run.take().filter(|_| ran.is_some());
        }
        _ => {}
    }
}

fn number(task: Option<&TaskRef>) -> Option<u64> {
    match task {
        Some(TaskRef::Number(number)) => Some(number.0),
        _ => None,
    }
}
