//! The wall clock is stepped by two hours under the real binary, the monotonic clock left alone: no live lease lapses,
//! no lapsed one revives (P9). Every command runs under a clock of its own, as after `date` or NTP.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent, eventually, human};
use crate::tools::{Started, tidy_after_faketime, under};

const STEPS: [&str; 3] = ["+2h", "-2h", "+0"];
const HOUR_S: i64 = 3_600;

/// Runs a command with `--json` while the wall clock is off by `step`.
#[track_caller]
fn at(sandbox: &Sandbox, step: &str, who: &As, args: &[&str]) -> Ran {
    at_with(sandbox, step, who, args, &[])
}

#[track_caller]
fn at_with(sandbox: &Sandbox, step: &str, who: &As, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = sandbox.command(who);
    command.args(args).arg("--json").envs(env.iter().copied());
    let mut stepped = under(&["faketime", "--exclude-monotonic", "-f", step], &command);
    match stepped.output() {
        // One that was killed had the same pid.
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("faketime: s") => {
            tidy_after_faketime();
            Ran::of(stepped.output().unwrap())
        }
        Ok(output) => Ran::of(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!(
                "the program faketime is missing: install the package faketime, this test steps the clock with it"
            )
        }
        Err(error) => panic!("{stepped:?}: {error}"),
    }
}

fn lease_at(sandbox: &Sandbox, step: &str, id: &str) -> Value {
    at(sandbox, step, &agent("reader"), &["show", id]).ok().json()["lease"].clone()
}

/// The wall time of the last event, in seconds from now by the test's own clock.
fn last_event_in_s(sandbox: &Sandbox) -> i64 {
    let at = sandbox.events().pop().unwrap()["at"].as_str().unwrap().to_owned();
    let at = at.parse::<jiff::Timestamp>().unwrap().as_second();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    at - i64::try_from(now).unwrap()
}

/// A sandbox in which stepping the clock is known to work: the binary's wall clock moved, both ways.
#[track_caller]
fn stepped_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.add("what the clock is tried on");
    for (step, hours) in [("+2h", 2), ("-2h", -2), ("+0", 0)] {
        at(&sandbox, step, &agent("tester"), &["note", "1", "what time is it?"]).ok();
        let moved = last_event_in_s(&sandbox);
        assert!((moved - hours * HOUR_S).abs() < 600, "{step} moved the binary's wall clock by {moved} s");
    }
    sandbox.run(&human("founder"), &["drop", "1"]).ok();
    sandbox
}

/// Nobody gets a task from its holder, whatever the wall clock says.
#[track_caller]
fn is_held_at_every_step(sandbox: &Sandbox, id: &str, holder: &As) {
    for step in STEPS {
        assert_eq!(lease_at(sandbox, step, id)["live"], true, "{step}");
        let other = agent("other");
        let refusal = at(sandbox, step, &other, &["claim", id]).refused(4);
        assert_eq!(refusal["holder"]["actor"], holder.actor, "{step}");
        assert_eq!(
            at(sandbox, step, &other, &["takeover", id, "--reason", "late"]).refused(4)["code"],
            "held"
        );
        at(sandbox, step, &other, &["claim", "--next"]).refused(7);
        let ready = at(sandbox, step, &other, &["ready"]).ok().json();
        assert_eq!(ready["tasks"].as_array().unwrap().len(), 0, "{step}");
    }
}

#[test]
fn a_lease_granted_at_any_wall_time_lives_at_any_other() {
    let sandbox = stepped_sandbox();
    for granted in STEPS {
        let (id, holder) = (sandbox.add("a task"), agent("holder"));
        at(&sandbox, granted, &holder, &["claim", &id, "--ttl", "60m"]).ok();
        is_held_at_every_step(&sandbox, &id, &holder);
        for step in STEPS {
            let left_s = lease_at(&sandbox, step, &id)["expires_in_s"].as_i64().unwrap();
            assert!(
                (HOUR_S - 600..=HOUR_S).contains(&left_s),
                "granted {granted}, read {step}: {left_s} s left"
            );
        }
        at(&sandbox, "+0", &holder, &["done", &id, "-m", "done"]).ok();
    }
    sandbox.is_whole();
}

#[test]
fn no_maximum_hold_passes_by_a_step() {
    let (sandbox, holder) = (stepped_sandbox(), agent("holder"));
    let id = sandbox.add("a task");
    at_with(&sandbox, "-2h", &holder, &["claim", &id], &[("ONUS_LEASE_MAX_HOLD", "1h")]).ok();
    assert_eq!(sandbox.show(&id)["lease"]["max_hold_s"], HOUR_S);
    is_held_at_every_step(&sandbox, &id, &holder);
}

#[test]
fn renewing_at_another_wall_time_keeps_the_lease_as_long_as_it_says() {
    let (sandbox, holder) = (stepped_sandbox(), agent("holder"));
    let id = sandbox.add("a task");
    at(&sandbox, "+0", &holder, &["claim", &id, "--ttl", "60m"]).ok();
    for step in STEPS {
        let renewed = at(&sandbox, step, &holder, &["renew", &id]).ok().json();
        assert_eq!(renewed["lease"]["token"], 1);
        let left_s = lease_at(&sandbox, "+0", &id)["expires_in_s"].as_i64().unwrap();
        assert!((HOUR_S - 600..=HOUR_S).contains(&left_s), "renewed {step}: {left_s} s left");
        is_held_at_every_step(&sandbox, &id, &holder);
    }
    // And the two hours that never passed are nobody's working time.
    at(&sandbox, "+2h", &holder, &["release", &id]).ok();
    let released = sandbox.events().pop().unwrap();
    assert_eq!(released["kind"], "lease.released");
    assert!(released["payload"]["lease"]["active_ms"].as_i64().unwrap() < 600_000, "{released}");
}

#[test]
fn a_lapsed_lease_does_not_revive_when_the_wall_clock_goes_back() {
    let sandbox = stepped_sandbox();
    for granted in STEPS {
        // Given a lease that is over, whatever the wall clock said when it was granted
        let (id, late) = (sandbox.add("a task"), agent("late"));
        at(&sandbox, granted, &late, &["claim", &id, "--ttl", "30ms"]).ok();
        eventually("the lease to lapse", || (sandbox.show(&id)["lease"]["live"] == false).then_some(()));
        // Then nobody sees it live at any wall time, and it is on offer
        for step in STEPS {
            let lease = lease_at(&sandbox, step, &id);
            assert_eq!(
                (&lease["live"], &lease["lapsed_by"]),
                (&false.into(), &"ttl".into()),
                "{granted} {step}"
            );
            assert_eq!(lease["expires_in_s"], 0, "{granted} {step}");
            let ready = at(&sandbox, step, &agent("other"), &["ready"]).ok().json();
            assert_eq!(ready["tasks"][0]["takeover"], true, "{granted} {step}");
        }
        // And another gets it two hours before it was granted
        let taken = at(&sandbox, "-2h", &agent("other"), &["claim", "--next"]).ok().json();
        assert_eq!((&taken["task"]["id"], &taken["takeover"]), (&id.clone().into(), &true.into()));
        at(&sandbox, "-2h", &late, &["renew", &id]).refused(5);
        at(&sandbox, "+0", &agent("other"), &["done", &id, "-m", "done"]).ok();
    }
    sandbox.is_whole();
}

#[test]
fn a_reservation_is_kept_and_ends_by_no_step() {
    let sandbox = stepped_sandbox();
    let (from, to, other) = (agent("from"), agent("to"), agent("other"));
    for handed in STEPS {
        let id = sandbox.add("a task");
        at(&sandbox, "+0", &from, &["claim", &id]).ok();
        at(&sandbox, handed, &from, &["handoff", &id, "--to", &to.actor, "--reason", "yours"]).ok();
        for step in STEPS {
            let refusal = at(&sandbox, step, &other, &["claim", &id]).refused(4);
            assert_eq!(refusal["code"], "kept", "{handed} {step}");
            let left_s = refusal["expires_in_s"].as_i64().unwrap();
            assert!((HOUR_S - 600..=HOUR_S).contains(&left_s), "{handed} {step}: {left_s} s left");
            at(&sandbox, step, &other, &["claim", "--next"]).refused(7);
        }
        let got = at(&sandbox, "+2h", &to, &["claim", "--next"]).ok().json();
        assert_eq!(got["task"]["id"], id);
        at(&sandbox, "+0", &to, &["done", &id, "-m", "done"]).ok();
    }
    // One that is over does not come back.
    let id = sandbox.add("a task");
    at(&sandbox, "+0", &from, &["claim", &id]).ok();
    let handoff = ["handoff", &id, "--to", &to.actor, "--reason", "yours"];
    at_with(&sandbox, "+2h", &from, &handoff, &[("ONUS_LEASE_KEEP", "30ms")]).ok();
    eventually("the reservation to end", || (sandbox.show(&id)["kept_for"] == Value::Null).then_some(()));
    assert_eq!(at(&sandbox, "-2h", &other, &["show", &id]).ok().json()["kept_for"], Value::Null);
    at(&sandbox, "-2h", &other, &["claim", &id]).ok();
}

#[test]
fn a_persons_lease_neither_lapses_nor_goes_stale_by_a_step() {
    let (sandbox, person) = (stepped_sandbox(), human("alice"));
    let id = sandbox.add("a task");
    at(&sandbox, "-2h", &person, &["claim", &id]).ok();
    is_held_at_every_step(&sandbox, &id, &person);
    for step in STEPS {
        let stale_after = [("ONUS_LEASE_STALE_AFTER", "1h")];
        let task = at_with(&sandbox, step, &agent("other"), &["show", &id], &stale_after).ok().json();
        assert_eq!((&task["lease"]["stale"], &task["lease"]["expires_in_s"]), (&false.into(), &Value::Null));
    }
    // The same question with a limit that has really passed: the answer can be yes.
    std::thread::sleep(Duration::from_millis(5));
    let stale_after = [("ONUS_LEASE_STALE_AFTER", "1ms")];
    let task = at_with(&sandbox, "-2h", &agent("other"), &["show", &id], &stale_after).ok().json();
    assert_eq!(task["lease"]["stale"], true);
}

#[test]
fn a_bound_lease_lives_and_dies_with_its_process_at_any_wall_time() {
    let (sandbox, holder, process) = (stepped_sandbox(), agent("holder"), Started::sleeper());
    let id = sandbox.add("a task");
    let pid = process.id().to_string();
    at(&sandbox, "-2h", &holder, &["claim", &id, "--ttl", "30ms", "--bind", &pid]).ok();
    is_held_at_every_step(&sandbox, &id, &holder);

    process.kill_and_reap();

    for step in STEPS {
        assert_eq!(lease_at(&sandbox, step, &id)["lapsed_by"], "process_died", "{step}");
    }
    let taken = at(&sandbox, "-2h", &agent("other"), &["claim", "--next"]).ok().json();
    assert_eq!(taken["takeover"], true);
}
