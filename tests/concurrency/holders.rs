//! Processes that bind, renew, release, lapse, come back late and take over at random, and a checker that was not there.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::history::{Deed, Event, History, Term, Verb, complaints};
use crate::support::{As, Ran, Sandbox};
use crate::tools::{Dice, Started, fresh_seed, now_ms};

const WORKERS: u64 = 6;
const TASKS: usize = 3;
/// Deeds of each worker.
const DEEDS: usize = 300;

/// A lease that a worker believes to have, or to have had.
struct Mine {
    task: String,
    token: u64,
    term: Term,
    /// The process it is bound to, and lives as long as.
    anchor: Option<Started>,
}

struct Worker<'a> {
    sandbox: &'a Sandbox,
    who: As,
    tasks: &'a [String],
    dice: Dice,
    leases: Vec<Mine>,
    log: Vec<Deed>,
}

impl Worker<'_> {
    fn name(&self) -> String {
        format!("{} {}", self.who.actor, self.who.instance)
    }

    /// Runs one command and writes down when it ran and what it was told.
    fn run(&mut self, verb: Verb, task: &str, token: Option<u64>, term: Term, args: &[&str]) -> Deed {
        let mut command = self.sandbox.command(&self.who);
        if let Some(token) = token {
            command.env("ONUS_TASK", task).env("ONUS_TOKEN", token.to_string());
        }
        command.args(args).arg("--json").env("ONUS_STORE_WAIT", "60s");
        let start_ms = now_ms();
        let ran = Ran::of(command.output().unwrap());
        let end_ms = now_ms() + 1;
        let answer = ran.json();
        let (task, who) = (task.to_owned(), self.name());
        Deed { who, verb, task, start_ms, end_ms, code: ran.code, answer, token, term }
    }

    fn begin(&mut self) {
        let task = self.dice.pick(self.tasks).clone();
        let anchor = self.dice.one_in(3).then(Started::sleeper);
        let ttl_ms = 20 + i64::try_from(self.dice.below(150)).unwrap();
        let term = if anchor.is_some() { Term::Bound } else { Term::Ttl(ttl_ms) };
        let (ttl, pid) = (format!("{ttl_ms}ms"), anchor.as_ref().map(|anchor| anchor.id().to_string()));
        let verb = if self.dice.one_in(4) { Verb::Takeover } else { Verb::Claim };
        let mut args = match verb {
            Verb::Takeover => vec!["takeover", &task, "--reason", "it looks forgotten", "--ttl", &ttl],
            _ => vec!["claim", &task, "--ttl", &ttl],
        };
        args.extend(pid.iter().flat_map(|pid| ["--bind", pid]));
        let mut deed = self.run(verb, &task, None, term, &args);
        if deed.code == 0 {
            deed.token = deed.answer["lease"]["token"].as_u64();
            if deed.answer["renewed"] == true {
                // Claimed again: only a lease that is not bound answers to somebody without its token.
                deed.term = Term::Ttl(ttl_ms);
            } else {
                self.leases.push(Mine { task, token: deed.token.unwrap(), term, anchor });
            }
        }
        self.log.push(deed);
    }

    /// Something under one of its leases, which may be long gone.
    fn go_on(&mut self, index: usize) {
        let Mine { task, token, term, .. } = &self.leases[index];
        let (task, token, term) = (task.clone(), *token, *term);
        let (verb, args): (Verb, &[&str]) = match self.dice.below(8) {
            0 | 1 => (Verb::Release, &["release", &task]),
            2 => (Verb::Done, &["done", &task, "-m", "done"]),
            3 => (Verb::Note, &["note", &task, "going on"]),
            _ => (Verb::Renew, &["renew", &task]),
        };
        let deed = self.run(verb, &task, Some(token), term, args);
        if deed.code == 0 && matches!(verb, Verb::Release | Verb::Done) {
            self.leases.remove(index);
        }
        self.log.push(deed);
    }

    fn kill(&mut self, index: usize) {
        let mine = &mut self.leases[index];
        let Some(anchor) = mine.anchor.take() else { return };
        let (task, token, start_ms) = (mine.task.clone(), Some(mine.token), now_ms());
        anchor.kill_and_reap();
        let (who, end_ms, answer) = (self.name(), now_ms() + 1, Value::Null);
        let term = Term::None;
        self.log.push(Deed { who, verb: Verb::Kill, task, start_ms, end_ms, code: 0, answer, token, term });
    }

    fn step(&mut self) {
        let pick = |dice: &mut Dice, from: &[Mine]| {
            (!from.is_empty()).then(|| usize::try_from(dice.below(from.len() as u64)).unwrap())
        };
        match (self.dice.below(10), pick(&mut self.dice, &self.leases)) {
            (0..4, Some(index)) => self.go_on(index),
            (4, Some(index)) => self.kill(index),
            (5, _) => {
                let task = self.dice.pick(self.tasks).clone();
                let deed = self.run(Verb::Show, &task, None, Term::None, &["show", &task]);
                self.log.push(deed);
            }
            (6, _) => {
                let task = self.dice.pick(self.tasks).clone();
                let deed = self.run(Verb::Reopen, &task, None, Term::None, &["reopen", &task]);
                self.log.push(deed);
            }
            // Longer than many a TTL: it lapses, and comes back late.
            (7, _) => std::thread::sleep(Duration::from_millis(self.dice.below(250))),
            _ => self.begin(),
        }
        // Old leases are kept for a while, to come back with a token that is long superseded.
        if self.leases.len() > 4 {
            self.kill(0);
            self.leases.remove(0);
        }
    }
}

fn play(seed: u64) -> History {
    let sandbox = Sandbox::new();
    let tasks: Vec<String> = (0..TASKS).map(|number| sandbox.add(&format!("task {number}"))).collect();
    let log = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..WORKERS {
            let (sandbox, tasks, log) = (&sandbox, &tasks, &log);
            scope.spawn(move || {
                // Two instances of each actor: they are two holders.
                let (actor, instance) = (format!("agent:worker{}", number / 2), format!("worker-{number}"));
                let dice = Dice::new(seed.wrapping_add(number));
                let who = As { actor, instance };
                let mut worker = Worker { sandbox, who, tasks, dice, leases: Vec::new(), log: Vec::new() };
                for _ in 0..DEEDS {
                    worker.step();
                }
                (0..worker.leases.len()).for_each(|index| worker.kill(index));
                log.lock().unwrap().append(&mut worker.log);
            });
        }
    });
    sandbox.is_whole();
    let uids: Vec<String> =
        tasks.iter().map(|id| sandbox.show(id)["uid"].as_str().unwrap().to_owned()).collect();
    let mut deeds = log.into_inner().unwrap();
    for deed in &mut deeds {
        let index = tasks.iter().position(|id| *id == deed.task).unwrap();
        deed.task.clone_from(&uids[index]);
    }
    History { deeds, events: sandbox.events().iter().filter_map(Event::read).collect() }
}

#[test]
fn no_instant_has_two_live_holders_and_every_token_grows() {
    let seed = fresh_seed();
    let history = play(seed);
    let found = complaints(&history);
    assert!(found.is_empty(), "seed {seed}: {}", found.join("\n"));

    // What the run must have met, or it showed nothing.
    let told = |code: i32| history.deeds.iter().filter(|deed| deed.code == code).count();
    let by =
        |cause: &str| history.events.iter().filter(|event| event.cause.as_deref() == Some(cause)).count();
    let late = history.events.iter().filter(|event| event.kind == "lease.renewed").count();
    let met = [told(0), told(4), told(5), by("ttl"), by("process_died"), late];
    assert!(met.iter().all(|count| *count > 0), "seed {seed}: the run met only {met:?}");
    for deed in &history.deeds {
        assert!([0, 4, 5, 6].contains(&deed.code), "seed {seed}: {deed:?}");
    }

    // The same history with one grant a little earlier is not sound, and the checker sees it.
    let mut doctored = history;
    let taken = doctored
        .deeds
        .iter()
        .find(|deed| deed.term == Term::Bound && deed.verb == Verb::Claim && deed.code == 0);
    let (task, token, start_ms) = taken.map(|deed| (deed.task.clone(), deed.token, deed.start_ms)).unwrap();
    let next = doctored
        .events
        .iter_mut()
        .find(|event| event.task == task && event.kind == "lease.acquired" && event.token > token);
    next.unwrap().tick_ms = Some(start_ms);
    assert!(
        complaints(&doctored).iter().any(|complaint| complaint.contains("two live holders")),
        "seed {seed}"
    );
}
