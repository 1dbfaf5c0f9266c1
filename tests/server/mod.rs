//! The real binary on a real PostgreSQL server: what a user of one does, and what must not show.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod joining;
mod passwords;
mod tls;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Ran, Sandbox, agent, human};
use onus_store::conformance::server::{Server, fresh_name};
use serde_json::json;

/// A clone of a repository whose project is on the server.
fn clone_of(project: &str) -> Sandbox {
    Sandbox::on_server(Server::shared().shared_database(), project)
}

fn project() -> Sandbox {
    let clone = clone_of(&fresh_name());
    clone.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    clone
}

#[test]
fn two_clones_share_one_project_and_a_day_of_work() {
    let name = fresh_name();
    let (one, two) = (clone_of(&name), clone_of(&name));
    let made = one.json(&human("ann"), &["init", "--prefix", "WS"]).ok().json();
    assert_eq!((&made["created"], &made["prefix"]), (&true.into(), &"WS".into()));
    assert_eq!(two.json(&human("bob"), &["init"]).ok().json()["created"], false);
    let id = one.add("Fix the login");
    assert_eq!(id, "WS-1");
    two.json(&agent("b"), &["claim", &id]).ok();
    assert_eq!(one.json(&agent("a"), &["claim", "1"]).refused(4)["code"], "held");
    two.json(&agent("b"), &["note", &id, "half of it"]).ok();
    two.json(&agent("b"), &["done", &id, "-m", "all of it"]).ok();
    let task = one.json(&human("ann"), &["show", &id]).ok().json();
    assert_eq!((&task["state"], &task["notes"].as_array().unwrap().len()), (&"done".into(), &2));
    assert_eq!(one.json(&human("ann"), &["search", "login"]).ok().json()["tasks"][0]["id"], "WS-1");
    assert_eq!(one.json(&human("ann"), &["ledger", "verify"]).ok().json()["ok"], true);
    let rebuilt = two.json(&human("bob"), &["ledger", "rebuild"]).ok().json();
    assert_eq!(rebuilt["changed"], json!({}));
    assert_eq!(one.json(&human("ann"), &["doctor"]).ok().json()["ok"], true);
    assert_eq!(one.json(&human("ann"), &["ledger", "seal", "--out", "seal.jsonl"]).ok().json()["streams"], 2);
    // What was erased is gone, and the owner's tidying reaches the server's files.
    let erased = two.json(&agent("b"), &["redact", &id, "3", "--reason", "secret"]).ok().json();
    assert_eq!(erased["erased_everywhere"], true);
    assert!(one.json(&human("ann"), &["search", "half"]).ok().json()["tasks"].as_array().unwrap().is_empty());
}

#[test]
fn a_project_must_be_named_and_be_there() {
    let nameless = clone_of("");
    let refused = nameless.json(&human("ann"), &["list"]).refused(2);
    assert!(refused["next"].to_string().contains("onus.toml"), "{refused}");
    nameless.json(&human("ann"), &["init"]).refused(2);
    let mut unknown = clone_of(&fresh_name());
    unknown.by(Server::shared().shared_database());
    assert_eq!(unknown.json(&human("ann"), &["list"]).refused(8)["code"], "no_store");
}

#[test]
fn a_backup_is_the_servers_and_says_so() {
    let refused = project().json(&human("ann"), &["backup", "copy.db"]).refused(2);
    assert!(refused["message"].as_str().unwrap().contains("pg_dump"), "{refused}");
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_unavailable() {
    let mut unreachable = project();
    unreachable.by("postgres://ann@127.0.0.1:1/onus");
    assert_eq!(unreachable.json(&human("ann"), &["list"]).refused(8)["code"], "unavailable");
}

/// One waits for a task and one follows the ledger; something happens; then there is a task.
fn waited_for_and_followed(clone: &Sandbox, meanwhile: impl FnOnce()) {
    let mut follower = clone
        .command(&human("ann"))
        .args(["log", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("project.created"));
    let waiter = clone
        .command(&agent("a"))
        .args(["claim", "--next", "--wait", "30s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    meanwhile();
    let began = Instant::now();
    let id = clone.add("Something to do");
    let got = Ran::of(waiter.wait_with_output().unwrap());
    assert_eq!(got.ok().json()["task"]["id"], id.as_str());
    assert!(began.elapsed() < Duration::from_secs(15), "it was woken, and did not find it by chance");
    let mut seen = String::new();
    while !seen.contains("lease.acquired") {
        seen.push_str(&lines.next().unwrap().unwrap());
    }
    assert!(seen.contains("task.created"));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn who_waits_is_woken_by_another_machine_and_who_follows_sees_it() {
    waited_for_and_followed(&project(), || {});
}

#[test]
fn who_waits_and_who_follows_outlive_a_restart_of_the_server() {
    let server = Server::start();
    let clone = Sandbox::on_server(&server.database(), &fresh_name());
    clone.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    waited_for_and_followed(&clone, || server.control(&["-w", "-m", "fast", "restart"]));
}

#[test]
fn a_run_holds_its_task_by_a_deadline_that_it_moves() {
    let clone = project();
    let id = clone.add("Long work");
    let mut run = clone
        .command(&agent("a"))
        .env("ONUS_LEASE_TTL", "20s")
        .args(["run", "--grace", "1s", &id, "--", "sleep", "60"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(9));
    let lease = clone.json(&human("ann"), &["show", &id]).ok().json()["lease"].clone();
    assert_eq!(lease["live"], true, "{lease}");
    // Not moved it would be eleven seconds.
    assert!((14..=20).contains(&lease["expires_in_s"].as_i64().unwrap()), "{lease}");
    // It dies. That is seen here; but a clone of this machine would see the same of a run that lives: the deadline decides.
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(clone.json(&agent("b"), &["claim", &id]).refused(4)["holder"]["actor"], "agent:a");
    let got = clone.json(&agent("b"), &["claim", &id, "--wait", "60s"]).ok().json();
    assert_eq!(got["takeover"], true);
}

#[test]
fn where_machines_are_not_cloned_a_death_that_is_seen_ends_a_lease_at_once() {
    let clone = project();
    let config = clone.path().join("onus.toml");
    let vouched = format!("{}[lease]\nunique_machines = true\n", std::fs::read_to_string(&config).unwrap());
    let id = clone.add("Long work");
    let mut work = std::process::Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let pid = work.id().to_string();
    std::fs::write(&config, vouched).unwrap();
    clone.json(&agent("a"), &["claim", &id, "--bind", &pid]).ok();
    clone.json(&agent("b"), &["claim", &id]).refused(4);
    work.kill().unwrap();
    work.wait().unwrap();
    let got = clone.json(&agent("b"), &["claim", &id]).ok().json();
    assert_eq!(got["takeover"], true);
    let ended = clone.events().into_iter().rfind(|event| event["kind"] == "lease.taken_over").unwrap();
    assert_eq!(ended["payload"]["cause"], "process_died");
}

#[test]
fn a_project_is_copied_there_and_back() {
    let file = Sandbox::new();
    for n in 0..5 {
        file.add(&format!("task {n}"));
    }
    let worker = agent("a");
    file.json(&worker, &["claim", "ON-2"]).ok();
    let name = fresh_name();
    let database = file.database().to_string_lossy().into_owned();
    let address = Server::shared().shared_database();
    let there = ["store", "copy", &database, address, "--project", &name];
    assert_eq!(file.json(&human("ann"), &there).refused(6)["code"], "not_allowed");
    let all = [&there[..], &["--with-live-leases"]].concat();
    assert_eq!(file.json(&worker, &all).refused(6)["code"], "not_allowed", "people only");
    let copied = file.json(&human("ann"), &all).ok().json();
    assert_eq!(copied["tasks"], 5);
    let clone = clone_of(&name);
    clone.run(&human("ann"), &["init"]).ok();
    assert_eq!(clone.json(&human("ann"), &["list"]).ok().json()["tasks"].as_array().unwrap().len(), 5);
    clone.json(&worker, &["done", "ON-2", "-m", "there"]).ok();
    assert_eq!(clone.add("one more"), "ON-6");
    let back = file.path().join("back.db").to_string_lossy().into_owned();
    file.json(&human("ann"), &["store", "copy", address, &back, "--project", &name]).ok();
    file.json(&human("ann"), &["store", "copy", address, &back, "--project", &name]).refused(2);
    let listed = Ran::of(
        file.command(&human("ann"))
            .env("ONUS_STORE", &back)
            .args(["list", "--all", "--json"])
            .output()
            .unwrap(),
    );
    assert_eq!(listed.ok().json()["tasks"].as_array().unwrap().len(), 6);
}

/// An agent that speaks the Model Context Protocol, and waits for a task that another machine adds.
#[test]
fn an_agent_over_mcp_works_on_a_server_too() {
    let clone = project();
    let mut mcp = clone
        .command(&agent("a"))
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut says = mcp.stdin.take().unwrap();
    let mut answers = BufReader::new(mcp.stdout.take().unwrap()).lines();
    let mut tell = |message: serde_json::Value| writeln!(says, "{message}").unwrap();
    let mut answer = |id: u64| {
        answers
            .by_ref()
            .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
            .find(|answer| answer["id"] == id)
            .unwrap()
    };
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    tell(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
    assert!(answer(1)["result"]["serverInfo"].is_object());
    tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let claim = json!({ "name": "claim", "arguments": { "wait": 20 } });
    tell(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": claim }));
    std::thread::sleep(Duration::from_millis(300));
    let id = clone.add("Something to do");
    let claimed = answer(2);
    assert!(claimed["result"].to_string().contains(&id), "{claimed}");
    tell(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": { "name": "done", "arguments": { "message": "all of it" } } }));
    answer(3);
    assert_eq!(clone.json(&human("ann"), &["show", &id]).ok().json()["state"], "done");
    drop(says);
    mcp.wait().unwrap();
}
