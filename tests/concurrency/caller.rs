//! Callers that claim tasks and take seats, go on, let lapse, come back late and take over at random, and write down what they
//! asked, when, and what they were told. How a command is run, and what happens to it, is the test's.

use std::ops::Range;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::history::{Deed, Event, History, Term, Verb};
use crate::support::{As, Ran, Sandbox, agent};
use crate::tools::{Dice, Started, now_ms, wall_ms};

/// Who plays.
#[derive(Clone, Debug)]
pub(crate) struct Company {
    pub(crate) callers: u64,
    pub(crate) tasks: usize,
    pub(crate) seats: usize,
    /// How long their leases live, in milliseconds.
    pub(crate) ttl_ms: Range<u64>,
    pub(crate) seed: u64,
}

/// A task's id has no colon; these seats have a role and what it is for.
fn is_seat(task: &str) -> bool {
    task.contains(':')
}

/// A lease that a caller believes to have, or to have had.
struct Mine {
    /// Or a seat.
    task: String,
    token: u64,
    term: Term,
    /// The process it is bound to, and lives as long as.
    anchor: Option<Started>,
}

struct Caller<'a, F> {
    sandbox: &'a Sandbox,
    company: &'a Company,
    who: As,
    tasks: &'a [String],
    dice: Dice,
    /// Runs a command: its exit code and its answer.
    carry_out: F,
    leases: Vec<Mine>,
    log: Vec<Deed>,
}

impl<F: FnMut(Command, &mut Dice) -> (i32, Value)> Caller<'_, F> {
    fn name(&self) -> String {
        format!("{} {}", self.who.actor, self.who.instance)
    }

    /// The clock that the store decides by: the server's is this machine's, by which no process but a caller is stepped.
    fn now_ms(&self) -> i64 {
        if self.sandbox.is_on_server() { wall_ms() } else { now_ms() }
    }

    /// Runs one command and writes down when it ran and what it was told.
    fn run(&mut self, verb: Verb, task: &str, token: Option<u64>, term: Term, args: &[&str]) -> Deed {
        let mut command = self.sandbox.command(&self.who);
        command.args(args);
        match token.map(|token| token.to_string()) {
            Some(token) if is_seat(task) => drop(command.args(["--token", &token])),
            Some(token) => drop(command.env("ONUS_TASK", task).env("ONUS_TOKEN", token)),
            None => {}
        }
        command.arg("--json").env("ONUS_STORE_WAIT", "60s");
        let start_ms = self.now_ms();
        let (code, answer) = (self.carry_out)(command, &mut self.dice);
        let end_ms = self.now_ms() + 1;
        Deed { who: self.name(), verb, task: task.to_owned(), start_ms, end_ms, code, answer, token, term }
    }

    fn begin(&mut self) {
        let task = self.dice.pick(self.tasks).clone();
        let anchor = self.dice.one_in(3).then(Started::sleeper);
        let Range { start, end } = self.company.ttl_ms;
        let ttl_ms = i64::try_from(start + self.dice.below(end - start)).unwrap();
        // On a server the deadline binds all, and a death only shortens it.
        let lives_with_it = anchor.is_some() && !self.sandbox.is_on_server();
        let term = if lives_with_it { Term::Bound } else { Term::Ttl(ttl_ms) };
        let (ttl, pid) = (format!("{ttl_ms}ms"), anchor.as_ref().map(|anchor| anchor.id().to_string()));
        let verb = if self.dice.one_in(4) { Verb::Takeover } else { Verb::Claim };
        let mut args = match (verb, is_seat(&task)) {
            (Verb::Takeover, false) => vec!["takeover", &task, "--reason", "it looks forgotten"],
            (Verb::Takeover, true) => vec!["seat", "takeover", &task, "--reason", "it looks forgotten"],
            (_, false) => vec!["claim", &task],
            (_, true) => vec!["seat", "take", &task],
        };
        args.extend(["--ttl", &ttl]);
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
            0 | 1 if is_seat(&task) => (Verb::Release, &["seat", "release", &task]),
            _ if is_seat(&task) => (Verb::Renew, &["seat", "renew", &task]),
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

    /// The process that a lease is bound to dies.
    fn kill(&mut self, index: usize) {
        let start_ms = self.now_ms();
        let mine = &mut self.leases[index];
        let Some(anchor) = mine.anchor.take() else { return };
        let (task, token) = (mine.task.clone(), Some(mine.token));
        anchor.kill_and_reap();
        let (who, end_ms, answer) = (self.name(), self.now_ms() + 1, Value::Null);
        let term = Term::None;
        self.log.push(Deed { who, verb: Verb::Kill, task, start_ms, end_ms, code: 0, answer, token, term });
    }

    fn step(&mut self) {
        let index = (!self.leases.is_empty())
            .then(|| usize::try_from(self.dice.below(self.leases.len() as u64)).unwrap());
        match (self.dice.below(10), index) {
            (0..4, Some(index)) => self.go_on(index),
            (4, Some(index)) => self.kill(index),
            (5, _) => {
                let task = self.dice.pick(self.tasks).clone();
                let args: &[&str] = if is_seat(&task) { &["seat", "show", &task] } else { &["show", &task] };
                let deed = self.run(Verb::Show, &task, None, Term::None, args);
                self.log.push(deed);
            }
            (6, _) => {
                let task = self.dice.pick(&self.tasks[..self.company.tasks]).clone();
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

/// Each seat is there once it was taken: what the first to have it did, and was told.
fn found(sandbox: &Sandbox, company: &Company, seats: &[String]) -> Vec<Deed> {
    let mut founder = Caller {
        sandbox,
        company,
        who: agent("founder"),
        tasks: seats,
        dice: Dice::new(company.seed),
        carry_out: |mut command: Command, _: &mut Dice| {
            let ran = Ran::of(command.output().unwrap());
            (ran.code, ran.json())
        },
        leases: Vec::new(),
        log: Vec::new(),
    };
    for seat in seats {
        let mut taken =
            founder.run(Verb::Claim, seat, None, Term::Ttl(60_000), &["seat", "take", seat, "--ttl", "60s"]);
        taken.token = taken.answer["lease"]["token"].as_u64();
        let released = founder.run(Verb::Release, seat, taken.token, Term::None, &["seat", "release", seat]);
        founder.log.extend([taken, released]);
    }
    founder.log
}

/// Lets them play in a sandbox, each until `goes_on` says no to the number of its steps so far, while `beside` runs beside
/// them; what they did and what the ledger has.
pub(crate) fn play<F: FnMut(Command, &mut Dice) -> (i32, Value)>(
    company: &Company,
    sandbox: &Sandbox,
    goes_on: impl Fn(usize) -> bool + Sync,
    carry_out: impl Fn() -> F + Sync,
    beside: impl FnOnce() + Send,
) -> History {
    let mut tasks: Vec<String> =
        (0..company.tasks).map(|number| sandbox.add(&format!("task {number}"))).collect();
    tasks.extend((0..company.seats).map(|number| format!("land:branch-{number}")));
    let log = Mutex::new(found(sandbox, company, &tasks[company.tasks..]));
    std::thread::scope(|scope| {
        scope.spawn(beside);
        for number in 0..company.callers {
            let (tasks, log, goes_on, carry_out) = (&tasks, &log, &goes_on, &carry_out);
            scope.spawn(move || {
                let mut caller = Caller {
                    sandbox,
                    company,
                    // Two instances of each actor: they are two holders.
                    who: As {
                        actor: format!("agent:caller{}", number / 2),
                        instance: format!("caller-{number}"),
                    },
                    tasks,
                    dice: Dice::new(company.seed.wrapping_add(number)),
                    carry_out: carry_out(),
                    leases: Vec::new(),
                    log: Vec::new(),
                };
                for steps in 0.. {
                    if !goes_on(steps) {
                        break;
                    }
                    caller.step();
                }
                (0..caller.leases.len()).for_each(|index| caller.kill(index));
                log.lock().unwrap().append(&mut caller.log);
            });
        }
    });
    sandbox.is_whole();
    let uid = |task: &String| -> String {
        let shown = match is_seat(task) {
            true => sandbox.json(&agent("reader"), &["seat", "show", task]).ok().json(),
            false => sandbox.show(task),
        };
        shown["uid"].as_str().unwrap().to_owned()
    };
    let uids: Vec<String> = tasks.iter().map(uid).collect();
    let mut deeds = log.into_inner().unwrap();
    for deed in &mut deeds {
        let index = tasks.iter().position(|id| *id == deed.task).unwrap();
        deed.task.clone_from(&uids[index]);
    }
    History { deeds, events: sandbox.events().iter().filter_map(Event::read).collect() }
}
