//! Many processes deliver the same asks at once, each in an order of its own: one task each, and every answer names it.
//!
//! Small here; `DELIVERIES=64x50x20` (processes, asks, rounds) is what `scripts/long intake` runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Child, Stdio};

use onus_store::conformance::server::{Server, fresh_name};
use serde_json::{Value, json};

use crate::support::{Ran, Sandbox, agent, human};

struct Storm {
    processes: u64,
    asks: u64,
    rounds: u64,
}

fn storm() -> Storm {
    let text = std::env::var("DELIVERIES").unwrap_or_else(|_| "8x10x3".to_owned());
    let parts: Vec<u64> = text.split('x').map(|part| part.parse().unwrap()).collect();
    Storm { processes: parts[0], asks: parts[1], rounds: parts[2] }
}

/// The asks of one process: each so often, in an order that its number decides.
fn lines(process: u64, storm: &Storm) -> Vec<u64> {
    let mut lines: Vec<u64> = (0..storm.rounds).flat_map(|_| 0..storm.asks).collect();
    // A generator of Lehmer's, good enough to shuffle by.
    let mut state = process * 2_654_435_761 + 1;
    for last in (1..lines.len()).rev() {
        state = state * 48_271 % 2_147_483_647;
        lines.swap(last, usize::try_from(state).unwrap() % (last + 1));
    }
    lines
}

fn deliver(sandbox: &Sandbox, process: u64) -> Child {
    let mut command = sandbox.command(&agent(&format!("door{process}")));
    // Whether such a queue fits into the default wait is not the question here.
    command.env("ONUS_STORE_WAIT", "300s").args(["intake", "chat", "--follow"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn one_task_each(sandbox: &Sandbox) {
    let storm = storm();
    let children: Vec<Child> = (0..storm.processes).map(|process| deliver(sandbox, process)).collect();
    let mut by_ask: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut created = 0;
    let answered: Vec<(Vec<u64>, Ran)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..storm.processes)
            .zip(children)
            .map(|(process, mut child)| {
                let asks = lines(process, &storm);
                scope.spawn(move || {
                    let mut input = child.stdin.take().unwrap();
                    let text: String = asks
                        .iter()
                        .map(|ask| {
                            json!({"channel": "ops", "id": ask, "text": format!("ask {ask}")}).to_string()
                                + "\n"
                        })
                        .collect();
                    // It answers while it reads: both ends must move.
                    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
                    let ran = Ran::of(child.wait_with_output().unwrap());
                    writer.join().unwrap().unwrap();
                    (asks, ran)
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (asks, ran) in answered {
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
        let answers: Vec<Value> =
            ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), asks.len());
        for (ask, answer) in asks.into_iter().zip(&answers) {
            assert_eq!(answer["task"]["title"], format!("ask {ask}"));
            by_ask.entry(ask).or_default().insert(answer["task"]["id"].as_str().unwrap().to_owned());
            created += u64::from(answer["existing"] == false);
        }
    }
    assert_eq!(by_ask.len() as u64, storm.asks);
    assert!(by_ask.values().all(|ids| ids.len() == 1), "{by_ask:?}");
    assert_eq!(created, storm.asks, "so many deliveries say that they created a task");
    let listed = sandbox.json(&human("founder"), &["list", "--all", "--limit", "1000"]).ok().json();
    let tasks = listed["tasks"].as_array().unwrap();
    assert_eq!(tasks.len() as u64, storm.asks);
    assert!(tasks.iter().all(|task| task["version"] == 1), "a delivery changed something");
    sandbox.is_whole();
}

#[test]
fn the_same_asks_from_many_processes_are_one_task_each() {
    one_task_each(&Sandbox::new());
}

#[test]
fn the_same_on_a_server() {
    let sandbox = Sandbox::on_server(Server::shared().shared_database(), &fresh_name());
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    one_task_each(&sandbox);
}
