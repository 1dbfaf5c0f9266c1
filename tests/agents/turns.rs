//! When an agent's turn is over its TTL counts, although its process lives; what it does next stops the clock.

use std::time::Duration;

use serde_json::json;

use crate::agents::harness::Harness;
use crate::agents::kit::{holder_of, repository, tasks};
use crate::agents::payload::KINDS;
use crate::support::{Sandbox, eventually};

fn agent(sandbox: &Sandbox, conversation: &str, ttl: &str) -> Harness {
    let agent = Harness::claude(sandbox, conversation).with("ONUS_LEASE_TTL", ttl);
    agent.start();
    agent
}

fn is_live(sandbox: &Sandbox, id: &str) -> bool {
    sandbox.show(id)["lease"]["live"] == json!(true)
}

#[test]
fn a_resting_agents_lease_lapses_although_its_process_lives_and_a_busy_ones_does_not() {
    let sandbox = repository();
    for kind in KINDS {
        let (resting_task, busy_task) = (sandbox.add("Rests"), sandbox.add("Works"));
        let resting = Harness::new(kind, &sandbox, "resting").with("ONUS_LEASE_TTL", "300ms");
        let busy = Harness::new(kind, &sandbox, "busy").with("ONUS_LEASE_TTL", "300ms");
        resting.start();
        busy.start();
        resting.json(&format!("onus claim {resting_task}"));
        busy.json(&format!("onus claim {busy_task}"));
        resting.turn_over().silent();
        let lease = sandbox.show(&resting_task)["lease"].clone();
        assert_eq!(lease["resting"], true, "{lease}");

        eventually("the resting one to lapse", || (!is_live(&sandbox, &resting_task)).then_some(()));
        std::thread::sleep(Duration::from_millis(1_200));

        assert!(is_live(&sandbox, &busy_task), "many TTLs later");
        let other = Harness::codex(&sandbox, "other");
        other.start();
        assert_eq!(other.shell(&format!("onus claim {busy_task}")).code, 4);
        assert_eq!(other.json(&format!("onus claim {resting_task}"))["takeover"], true);
        assert_eq!(resting.whoami(), resting.who(), "its process lives");
        other.json(&format!("onus done {resting_task} -m x"));
        busy.json(&format!("onus done {busy_task} -m x"));
    }
}

#[test]
fn whatever_a_resting_agent_does_next_stops_the_clock() {
    type Action = fn(&Harness, &str);
    let actions: [(&str, Action); 5] = [
        ("prompt", |agent, _| agent.prompt().silent()),
        ("tool", |agent, _| agent.after_tool("Read").silent()),
        ("edit", |agent, _| {
            agent.edit("a.rs").allowed();
        }),
        ("edit-again", |agent, _| {
            agent.edit("a.rs").allowed();
        }),
        ("note", |agent, id| {
            agent.json(&format!("onus note {id} x"));
        }),
    ];
    let sandbox = repository();
    let ids: Vec<String> = actions.iter().map(|_| sandbox.add("A task")).collect();
    std::thread::scope(|scope| {
        for ((name, act), id) in actions.into_iter().zip(&ids) {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let folder = sandbox.path().join(name);
                std::fs::create_dir_all(&folder).unwrap();
                let agent = Harness::claude(sandbox, name).at(&folder).with("ONUS_LEASE_TTL", "4s");
                agent.start();
                agent.json(&format!("onus claim {id}"));
                if name == "edit-again" {
                    agent.edit("a.rs").allowed();
                }
                agent.turn_over().silent();
                assert_eq!(sandbox.show(id)["lease"]["resting"], true, "{name}");
                act(&agent, id);
                assert_eq!(sandbox.show(id)["lease"]["resting"], false, "{name}");
                std::thread::sleep(Duration::from_millis(4_500));
                assert!(is_live(sandbox, id), "{name}");
            });
        }
    });
}

#[test]
fn after_a_lapse_an_agent_whose_task_nobody_took_goes_on() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let one = agent(&sandbox, "one", "200ms");
    let token = one.json(&format!("onus claim {id}"))["lease"]["token"].clone();
    one.edit("a.rs").allowed();
    one.turn_over().silent();
    eventually("the lapse", || (!is_live(&sandbox, &id)).then_some(()));
    one.prompt();
    one.edit("b.rs").allowed();
    let lease = sandbox.show(&id)["lease"].clone();
    assert_eq!((&lease["live"], &lease["token"], &lease["resting"]), (&json!(true), &token, &json!(false)));
    assert_eq!(holder_of(&sandbox, "a.rs"), holder_of(&sandbox, "b.rs"));
    std::thread::sleep(Duration::from_millis(500));
    assert!(is_live(&sandbox, &id), "it is bound to its process again");
    assert_eq!(tasks(&sandbox).len(), 1);
}

#[test]
fn after_a_lapse_an_agent_whose_task_another_took_is_told_to_stop() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let one = agent(&sandbox, "one", "200ms");
    one.json(&format!("onus claim {id}"));
    one.edit("a.rs").allowed();
    one.turn_over().silent();
    eventually("the lapse", || (!is_live(&sandbox, &id)).then_some(()));
    let other = agent(&sandbox, "other", "60m");
    other.json(&format!("onus claim {id}"));

    let edit = one.edit("a.rs");
    let reason = edit.refused();
    for word in ["your lease", &id, "taken over", "agent:claude", "other", "stop", "next:"] {
        assert!(reason.contains(word), "'{word}' is not in: {reason}");
    }
    // Also of another file, as it may not know yet.
    one.edit("b.rs").refused();
    assert_eq!(one.shell(&format!("onus note {id} 'still here'")).code, 5);
    // Once it knows, it works on under another task.
    one.after_tool("Bash");
    one.edit("b.rs").allowed();
    one.edit("a.rs").allowed();
    assert_eq!(sandbox.show(&id)["lease"]["instance"], "other");
}

#[test]
fn ad_hoc_work_that_lapsed_goes_on_and_what_another_took_meanwhile_stays_the_others() {
    let sandbox = repository();
    let one = agent(&sandbox, "one", "200ms");
    one.edit("a.rs").allowed();
    one.edit("b.rs").allowed();
    one.turn_over().silent();
    eventually("the lapse", || holder_of(&sandbox, "a.rs").is_none().then_some(()));
    let other = agent(&sandbox, "other", "60m");
    other.edit("a.rs").allowed();

    one.prompt();
    assert!(one.edit("a.rs").refused().contains("other"));
    // That one file is gone is no reason to keep it from the others.
    one.edit("b.rs").allowed();
    one.edit("c.rs").allowed();
    assert_eq!(holder_of(&sandbox, "b.rs").unwrap().1, "one");
    assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "other");
}
