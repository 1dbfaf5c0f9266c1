//! Processes that bind, renew, release, lapse, come back late and take over at random, and a checker that was not there.

use std::process::Command;

use serde_json::Value;

use crate::caller::{Company, play};
use crate::history::{Term, Verb, complaints};
use crate::support::{Ran, Sandbox};
use crate::tools::{Dice, fresh_seed};

/// Of each caller.
const STEPS: usize = 300;

fn run(mut command: Command, _: &mut Dice) -> (i32, Value) {
    let ran = Ran::of(command.output().unwrap());
    (ran.code, ran.json())
}

#[test]
fn no_instant_has_two_live_holders_and_every_token_grows() {
    let seed = fresh_seed();
    let company = Company { callers: 6, tasks: 3, seats: 3, ttl_ms: 20..170, seed };
    let history = play(&company, &Sandbox::new(), |steps| steps < STEPS, || run, || ());
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
