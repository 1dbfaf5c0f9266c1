//! 32 processes claim one task at the same instant: one wins, the others learn who did.

use std::io::{Read as _, Write as _};
use std::process::Command;

use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent};
use crate::tools::{Lock, Started, under};

const CLAIMANTS: usize = 32;
const TASKS: usize = 20;
const ROUNDS_EACH: usize = 5;

/// What a round left behind: who got it, under which token.
struct Won {
    who: As,
    token: u64,
}

fn claimant(number: usize) -> As {
    agent(&format!("claimant{number}"))
}

/// Every way to say which task: a lock keyed by what was typed would grant it several times.
fn spellings(task: &Value) -> [String; 5] {
    let (id, uid) = (task["id"].as_str().unwrap(), task["uid"].as_str().unwrap());
    let (start, end) = (&uid[..23], &uid[uid.len() - 16..]);
    [task["number"].to_string(), id.to_owned(), uid.to_owned(), start.to_owned(), end.to_owned()]
}

fn claim(sandbox: &Sandbox, number: usize, task: &Value) -> Command {
    let mut command = sandbox.command(&claimant(number));
    // Whether a queue of 32 on a loaded machine fits into the default wait is not the question here.
    command.env("ONUS_STORE_WAIT", "60s");
    command.args(["claim", &spellings(task)[number % 5], "--json"]);
    command
}

/// One exit 0, all others exit 4 with the winner named, nothing else.
fn judge(answers: Vec<Ran>) -> Won {
    let winners: Vec<usize> = (0..answers.len()).filter(|number| answers[*number].code == 0).collect();
    assert_eq!(winners.len(), 1, "the winners are {winners:?}: {answers:?}");
    let who = claimant(winners[0]);
    let won = answers[winners[0]].json();
    let token = won["lease"]["token"].as_u64().unwrap();
    assert_eq!(won["lease"]["actor"], who.actor);
    assert_eq!(won["renewed"], false);
    for (number, answer) in answers.iter().enumerate() {
        if number != winners[0] {
            let error = answer.refused(4);
            assert_eq!(error["code"], "held");
            assert_eq!(error["holder"]["actor"], who.actor);
            assert_eq!(error["holder"]["instance"], who.instance);
            assert_eq!(error["holder"]["token"], token);
        }
    }
    Won { who, token }
}

/// Runs `round` on each task several times, with the winner's release in between, and reads the record at the end.
fn rounds(round: impl Fn(&Sandbox, &Value) -> Won) {
    let sandbox = Sandbox::new();
    for task in 0..TASKS {
        let task = sandbox.show(&sandbox.add(&format!("task {task}")));
        let mut highest = 0;
        for _ in 0..ROUNDS_EACH {
            let won = round(&sandbox, &task);
            assert!(won.token > highest, "token {} after {highest}", won.token);
            highest = won.token;
            sandbox.run(&won.who, &["release", task["id"].as_str().unwrap()]).ok();
        }
    }
    let count = |kind: &str| sandbox.events().iter().filter(|event| event["kind"] == kind).count();
    assert_eq!(count("lease.acquired"), TASKS * ROUNDS_EACH);
    assert_eq!(count("lease.released"), TASKS * ROUNDS_EACH);
    let leases =
        sandbox.events().iter().filter(|e| e["kind"].as_str().unwrap().starts_with("lease.")).count();
    assert_eq!(leases, 2 * TASKS * ROUNDS_EACH, "a loser left something behind");
    sandbox.is_whole();
}

/// All have read the store and stand before the write when it is let loose: whoever decided on what it read then
/// would win beside another.
#[test]
fn of_32_that_stand_in_the_queue_together_one_wins() {
    rounds(|sandbox, task| {
        let (turnstile, lock) = (Lock::turnstile(sandbox), Lock::writer(sandbox));
        turnstile.take();
        lock.take();
        let started: Vec<Started> =
            (0..CLAIMANTS).map(|number| Started::answering(&mut claim(sandbox, number, task))).collect();
        turnstile.wait_until_waiting(CLAIMANTS);
        lock.free();
        turnstile.free();
        judge(started.into_iter().map(|claimant| Ran::of(claimant.output())).collect())
    });
}

/// All begin at one shot: nothing is ordered for them, from opening the store on.
#[test]
fn of_32_that_start_at_one_shot_one_wins() {
    rounds(|sandbox, task| {
        let (line, mut gun) = std::io::pipe().unwrap();
        let mut started: Vec<Started> = (0..CLAIMANTS)
            .map(|number| {
                let waiting = ["sh", "-c", "echo; read _; exec \"$@\" </dev/null", "claimant"];
                let mut command = under(&waiting, &claim(sandbox, number, task));
                Started::answering(command.stdin(line.try_clone().unwrap()))
            })
            .collect();
        for claimant in &mut started {
            // Its empty line: it stands at the start.
            claimant.child().stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }
        gun.write_all(&[b'\n'; CLAIMANTS]).unwrap();
        judge(started.into_iter().map(|claimant| Ran::of(claimant.output())).collect())
    });
}
