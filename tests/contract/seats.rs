//! `onus seat`: a role has one holder, and its exit codes are those of tasks.

use serde_json::{Value, json};

use crate::contract::kit::{Sleeper, json_with};
use crate::support::{As, Sandbox, agent, eventually, human};

const SEAT: &str = "land:main";

/// Waits until the lease on a seat has lapsed.
fn has_lapsed(sandbox: &Sandbox, seat: &str) {
    eventually("its lease to lapse", || {
        let shown = sandbox.json(&human("founder"), &["seat", "show", seat]).ok().json();
        (shown["lease"]["live"] == false).then_some(())
    });
}

#[test]
fn a_seat_is_taken_renewed_released_and_taken_again() {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    let taken = sandbox.json(&a, &["seat", "take", SEAT, "--reason", "landing"]).ok().json();
    assert_eq!(taken["seat"]["name"], SEAT);
    assert_eq!((&taken["lease"]["token"], &taken["lease"]["seat"]), (&json!(1), &json!(SEAT)));
    assert_eq!((&taken["lease"]["task"], &taken["lease"]["reason"]), (&Value::Null, &json!("landing")));
    let error = sandbox.json(&b, &["seat", "take", SEAT]).refused(4);
    assert_eq!((&error["code"], &error["seat"]), (&json!("held"), &json!(SEAT)));
    assert_eq!(error["holder"]["actor"], "agent:a");
    assert!(error["expires_in_s"].as_i64().unwrap() > 3_000, "{error}");
    assert_eq!(error["next"], json!(["onus seat take land:main --wait 10m   # wait up to 10 min for it"]));
    assert_eq!(sandbox.json(&a, &["seat", "renew", SEAT]).ok().json()["renewed"], true);
    let free = sandbox.json(&a, &["seat", "release", SEAT]).ok().json();
    assert_eq!(free["lease"], Value::Null);
    assert_eq!(sandbox.json(&b, &["seat", "take", SEAT]).ok().json()["lease"]["token"], 2);
    let seats = sandbox.json(&b, &["seat", "list"]).ok().json();
    assert_eq!(seats["seats"][0]["lease"]["actor"], "agent:b");
    let kinds: Vec<Value> = sandbox.json(&b, &["log", "--seat", SEAT]).ok().json()["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].clone())
        .collect();
    assert_eq!(kinds, ["seat.created", "lease.acquired", "lease.released", "lease.acquired"]);
    sandbox.is_whole();
}

#[test]
fn check_says_by_its_exit_code_whether_you_hold_it() {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    sandbox.json(&a, &["seat", "check", SEAT]).refused(7);
    sandbox.json(&a, &["seat", "take", SEAT, "--ttl", "2s"]).ok();
    assert_eq!(sandbox.json(&a, &["seat", "check", SEAT]).ok().json()["lease"]["token"], 1);
    sandbox.json(&b, &["seat", "check", SEAT]).refused(4);
    has_lapsed(&sandbox, SEAT);
    let lapsed = sandbox.json(&a, &["seat", "check", SEAT]).refused(6);
    assert_eq!(lapsed["next"], json!(["onus seat renew land:main"]));
    sandbox.json(&b, &["seat", "takeover", SEAT, "--reason", "gone"]).ok();
    sandbox.json(&a, &["seat", "check", SEAT]).refused(5);
    sandbox.json(&b, &["seat", "release", SEAT]).ok();
    sandbox.json(&agent("c"), &["seat", "check", SEAT]).refused(7);
}

/// Its old token is refused everywhere, however it is presented.
#[test]
fn a_stale_token_is_fenced() {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    sandbox.json(&a, &["seat", "take", SEAT]).ok();
    sandbox.json(&a, &["seat", "release", SEAT]).ok();
    sandbox.json(&b, &["seat", "take", SEAT]).ok();
    for verb in [&["seat", "renew", SEAT][..], &["seat", "release", SEAT], &["seat", "check", SEAT]] {
        for who in [&a, &b] {
            let error = json_with(&sandbox, who, &[("ONUS_TOKEN", "1")], verb).refused(5);
            assert_eq!(error["code"], "fenced");
            let given: Vec<&str> = verb.iter().copied().chain(["--token", "1"]).collect();
            sandbox.json(who, &given).refused(5);
        }
        // A task's token says nothing about a seat.
        let id = sandbox.add("t");
        let env = [("ONUS_TOKEN", "1"), ("ONUS_TASK", id.as_str())];
        if verb[1] == "check" {
            json_with(&sandbox, &b, &env, verb).ok();
        }
    }
    // The current one makes any instance of its actor the holder, and nobody else.
    let elsewhere = As { instance: "b-2".into(), ..b.clone() };
    sandbox.json(&elsewhere, &["seat", "renew", SEAT]).refused(4);
    sandbox.json(&elsewhere, &["seat", "renew", SEAT, "--token", "2"]).ok();
    sandbox.json(&a, &["seat", "renew", SEAT, "--token", "2"]).refused(4);
}

#[test]
fn a_dead_process_frees_its_seat_at_once() {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    sandbox.json(&a, &["seat", "take", SEAT, "--bind", &pid]).ok();
    sandbox.json(&b, &["seat", "take", SEAT]).refused(4);
    drop(sleeper);
    let taken = sandbox.json(&b, &["seat", "take", SEAT]).ok().json();
    assert_eq!((&taken["takeover"], &taken["lease"]["token"]), (&json!(true), &json!(2)));
    sandbox.json(&a, &["seat", "release", SEAT]).refused(5);
    sandbox.is_whole();
}

#[test]
fn people_see_seats_where_they_look_for_holders() {
    let sandbox = Sandbox::new();
    let (a, ann) = (agent("a"), human("ann"));
    sandbox.run(&a, &["seat", "take", "dispatch", "--ttl", "1s"]).ok();
    sandbox.run(&ann, &["seat", "take", SEAT]).ok();
    has_lapsed(&sandbox, "dispatch");
    let status = sandbox.json(&ann, &["status"]).ok().json();
    let names: Vec<&Value> = status["seats"].as_array().unwrap().iter().map(|seat| &seat["name"]).collect();
    assert_eq!(names, ["dispatch", SEAT]);
    assert_eq!(status["seats"][0]["needs_attention"], true);
    assert_eq!(status["seats"][0]["next"], "onus seat take dispatch");
    assert_eq!(status["your_seats"], json!([SEAT]));
    let said = sandbox.run(&ann, &["status"]).ok().stdout.clone();
    assert!(said.contains("seats\n  dispatch\n    agent:a (a-1) let it lapse: no sign of life"), "{said}");
    assert!(said.contains("hold seat land:main"), "{said}");
    let doctor = sandbox.run(&ann, &["doctor"]).ok().stdout.clone();
    assert!(doctor.contains("dispatch: agent:a (a-1) let it lapse"), "{doctor}");
    assert_eq!(sandbox.json(&ann, &["whoami"]).ok().json()["seats"], json!([SEAT]));
    assert!(sandbox.run(&ann, &["whoami"]).ok().stdout.contains("holds seat land:main"));
    // A person's live seat: an agent is not told how to get past it, another person is.
    let refused = sandbox.json(&a, &["seat", "takeover", SEAT, "--reason", "x"]).refused(4);
    assert_eq!(refused.get("override"), None, "{refused}");
    let bob = sandbox.json(&human("bob"), &["seat", "take", SEAT]).refused(4);
    assert_eq!(bob["override"], "onus seat takeover land:main --force --reason '…'");
    sandbox.json(&human("bob"), &["seat", "takeover", SEAT, "--force", "--reason", "urgent"]).ok();
}

#[test]
fn what_is_no_seat_is_said_before_anything_is_done() {
    let sandbox = Sandbox::new();
    for bad in ["Land", "land main", "land:", ":main", "", "1st"] {
        sandbox.json(&agent("a"), &["seat", "take", bad]).refused(2);
    }
    sandbox.json(&agent("a"), &["seat", "show", SEAT]).refused(3);
    sandbox.json(&agent("a"), &["seat", "renew", SEAT]).refused(3);
    assert_eq!(sandbox.json(&agent("a"), &["seat", "list"]).ok().json(), json!({ "seats": [] }));
}

/// Two agents on a command line wait for one another: both learn of it, and `why` says it.
#[test]
fn a_circle_of_waiting_is_named_with_its_way_out() {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    let (x, y, more) = (sandbox.add("x"), sandbox.add("y"), sandbox.add("more"));
    sandbox.json(&a, &["claim", &x, "--scope", "x/**"]).ok();
    sandbox.json(&b, &["claim", &y, "--scope", "y/**"]).ok();
    sandbox.json(&a, &["claim", &more, "--scope", "y/m.rs"]).refused(4);
    sandbox.json(&b, &["scope", "add", "x/n.rs", "--task", &y]).refused(4);
    let why = sandbox.json(&a, &["why", &y]).ok().json();
    let circle = why["obstacles"].as_array().unwrap().iter().find(|o| o["kind"] == "circle");
    assert!(
        circle.unwrap()["message"].as_str().unwrap().contains("agent:b (b-1) should give back y/m.rs"),
        "{why}"
    );
    let renewed = sandbox.json(&b, &["renew", &y]).ok().json();
    let notice = renewed["notices"].as_array().unwrap().iter().find(|n| n["kind"] == "circle").unwrap();
    assert_eq!(notice["next"], json!([format!("onus scope rm --task {y} 'y/**'")]), "{notice}");
    sandbox.run(&b, &["scope", "rm", "--task", &y, "y/**"]).ok();
    sandbox.json(&a, &["claim", &more, "--scope", "y/m.rs"]).ok();
    let why = sandbox.json(&a, &["why", &y]).ok().json();
    assert!(!why.to_string().contains("circle"), "{why}");
}
