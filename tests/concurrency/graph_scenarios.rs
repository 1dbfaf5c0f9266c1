//! What others got wrong about graphs of work, through the real binary: claims of the dead that outlive a retry, a
//! reservation nobody will ever begin, and a reset that leaves old tokens alive.

use std::process::Command;

use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent, human};
use crate::tools::Started;

fn depend(sandbox: &Sandbox, task: &str, on: &str) {
    sandbox.run(&human("founder"), &["dep", "add", task, on]).ok();
}

fn with_token(sandbox: &Sandbox, who: &As, token: &str, args: &[&str]) -> Ran {
    let mut command: Command = sandbox.command(who);
    Ran::of(command.args(args).arg("--json").env("ONUS_TOKEN", token).output().unwrap())
}

fn bind(sandbox: &Sandbox, who: &As, id: &str, process: &Started) -> Value {
    sandbox.json(who, &["claim", id, "--bind", &process.id().to_string()]).ok().json()
}

#[test]
fn a_retry_frees_what_dead_holders_keep_downstream_and_leaves_the_living_alone() {
    // Given a task that is done, and three downstream of it in work: by a process that will die, by one that will live,
    // and by an agent without a process
    let sandbox = Sandbox::new();
    let [root, dead, alive, unbound, beside] =
        ["root", "dead", "alive", "unbound", "beside"].map(|title| sandbox.add(title));
    for task in [&dead, &alive, &unbound] {
        depend(&sandbox, task, &root);
    }
    sandbox.run(&agent("first"), &["done", &root, "-m", "done"]).ok();
    let (doomed, survivor, stranger) = (Started::sleeper(), Started::sleeper(), Started::sleeper());
    bind(&sandbox, &agent("doomed"), &dead, &doomed);
    bind(&sandbox, &agent("survivor"), &alive, &survivor);
    sandbox.run(&agent("unbound"), &["claim", &unbound]).ok();
    bind(&sandbox, &agent("stranger"), &beside, &stranger);

    // When the root turns out to be broken, its second attempt fails, and processes are killed meanwhile
    sandbox.run(&agent("first"), &["reopen", &root]).ok();
    sandbox.run(&agent("first"), &["fail", &root, "-m", "it does not hold"]).ok();
    doomed.kill_and_reap();
    stranger.kill_and_reap();
    let retried = sandbox.json(&agent("second"), &["retry", &root]).ok().json();

    // Then what the dead one kept is free, and the living keep theirs
    assert_eq!((&retried["state"], &retried["attempts"]), (&"open".into(), &1.into()));
    let notices = retried["notices"].to_string();
    assert!(notices.contains(&format!("{dead} was freed")) && !notices.contains(&alive), "{notices}");
    let freed = sandbox.show(&dead);
    assert_eq!((&freed["state"], &freed["lease"]), (&"open".into(), &Value::Null));
    for (id, holder) in [(&alive, "agent:survivor"), (&unbound, "agent:unbound")] {
        let held = sandbox.show(id);
        assert_eq!((&held["lease"]["actor"], &held["lease"]["live"]), (&holder.into(), &true.into()));
        assert_eq!(held["lease"]["token"], 1);
    }
    // What is not downstream is none of its business, dead or not: the next who needs it sweeps it.
    assert_eq!(sandbox.show(&beside)["lease"]["lapsed_by"], "process_died");
    let events = sandbox.events();
    let swept = events.iter().filter(|event| event["kind"] == "lease.lapsed").collect::<Vec<_>>();
    let retry = events.iter().find(|event| event["kind"] == "task.retried").unwrap();
    assert_eq!((swept.len(), &swept[0]["cause"]), (1, &retry["uid"]));

    // And once the root is done, the freed one is offered as fresh work
    sandbox.run(&agent("second"), &["done", &root, "-m", "now it holds"]).ok();
    let next = sandbox.json(&agent("third"), &["claim", "--next"]).ok().json();
    assert_eq!((&next["task"]["id"], &next["takeover"]), (&dead.clone().into(), &false.into()));
    sandbox.is_whole();
}

#[test]
fn a_reservation_whose_process_was_killed_before_it_began_is_offered_again_at_once() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("a task");
    // Given a task that is reserved by a process which has not started it
    let (holder, other) = (agent("holder"), agent("other"));
    let process = Started::sleeper();
    let reserved = sandbox
        .json(&holder, &["claim", &id, "--reserve", "--ttl", "8h", "--bind", &process.id().to_string()])
        .ok()
        .json();
    assert_eq!((&reserved["task"]["state"], &reserved["lease"]["live"]), (&"open".into(), &true.into()));
    assert_eq!(sandbox.json(&other, &["ready"]).ok().json()["tasks"], serde_json::json!([]));
    sandbox.json(&other, &["claim", "--next"]).refused(7);

    // When that process is killed
    process.kill_and_reap();

    // Then the very next question offers it, and the next claim has it
    let ready = sandbox.json(&other, &["ready"]).ok().json();
    assert_eq!(
        (&ready["tasks"][0]["id"], &ready["tasks"][0]["takeover"]),
        (&id.clone().into(), &true.into())
    );
    let why = sandbox.json(&other, &["why", &id]).ok().json();
    assert_eq!(why["ready"], true);
    let taken = sandbox.json(&other, &["claim", "--next"]).ok().json();
    assert_eq!((&taken["task"]["id"], &taken["lease"]["token"]), (&id.clone().into(), &2.into()));
    assert_eq!(taken["task"]["state"], "in_progress");
    // The one that never began finds out.
    sandbox.json(&holder, &["done", &id, "-m", "late"]).refused(5);
    with_token(&sandbox, &holder, "1", &["note", &id, "late"]).refused(5);
    sandbox.is_whole();
}

#[test]
fn a_reset_clears_every_claim_downstream_and_fences_every_old_token() {
    // Given root -> middle -> leaf, the first two done by their holders, the leaf held by a live process, and beside
    // the leaf one whose holder was killed and one that lapsed and was taken over
    let sandbox = Sandbox::new();
    let [root, middle, leaf, dead, taken, untouched] =
        ["root", "middle", "leaf", "dead", "taken", "untouched"].map(|title| sandbox.add(title));
    for (task, on) in
        [(&middle, &root), (&leaf, &middle), (&dead, &middle), (&taken, &root), (&untouched, &leaf)]
    {
        depend(&sandbox, task, on);
    }
    let holders = ["one", "two", "live", "doomed", "slow", "quick"].map(agent);
    let [one, two, live, doomed, slow, quick] = &holders;
    sandbox.run(one, &["done", &root, "-m", "x"]).ok();
    sandbox.run(two, &["done", &middle, "-m", "x"]).ok();
    let (process, victim) = (Started::sleeper(), Started::sleeper());
    bind(&sandbox, live, &leaf, &process);
    bind(&sandbox, doomed, &dead, &victim);
    victim.kill_and_reap();
    sandbox.run(slow, &["claim", &taken, "--ttl", "1ms"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(5));
    sandbox.run(quick, &["claim", &taken]).ok();

    // When the root is reset: refused while somebody lives, whoever asks, unless a person means it
    for who in [agent("other"), human("ann")] {
        let error = sandbox.json(&who, &["reset", &root, "--reason", "wrong from the start"]).refused(4);
        assert_eq!(error["code"], "held");
    }
    let reset = sandbox
        .json(&human("ann"), &["reset", &root, "--reason", "wrong from the start", "--force"])
        .ok()
        .json();

    // Then all of it is open and nobody's, but for what nobody had begun
    let touched: Vec<&str> =
        reset["touched"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(touched.len(), 5, "{touched:?}");
    assert!(!touched.contains(&untouched.as_str()));
    for id in [&root, &middle, &leaf, &dead, &taken] {
        let task = sandbox.show(id);
        assert_eq!((&task["state"], &task["lease"]), (&"open".into(), &Value::Null), "{id}");
    }
    // One reset event a task, and each names the root's as its cause
    let events = sandbox.events();
    let resets: Vec<&Value> = events.iter().filter(|event| event["kind"] == "task.reset").collect();
    assert_eq!(resets.len(), 5);
    assert_eq!(resets[0]["task"], sandbox.show(&root)["uid"]);
    assert!(resets[1..].iter().all(|event| event["cause"] == resets[0]["uid"]), "{resets:#?}");

    // And every token is dead: with it, without it, by whatever verb
    for (who, id, token) in [
        (one, &root, "1"),
        (two, &middle, "1"),
        (live, &leaf, "1"),
        (doomed, &dead, "1"),
        (slow, &taken, "1"),
        (quick, &taken, "2"),
    ] {
        for args in [
            vec!["done", id, "-m", "late"],
            vec!["note", id, "late"],
            vec!["renew", id],
            vec!["release", id],
            vec!["submit", id],
            vec!["fail", id],
            vec!["edit", id, "--title", "mine"],
        ] {
            assert_eq!(sandbox.json(who, &args).refused(5)["code"], "fenced", "{args:?} by {}", who.actor);
            assert_eq!(with_token(&sandbox, who, token, &args).refused(5)["code"], "fenced", "{args:?}");
        }
    }
    // Until its holder claims anew; the old token stays dead even then
    assert_eq!(sandbox.json(one, &["claim", &root]).ok().json()["lease"]["token"], 2);
    with_token(&sandbox, one, "1", &["note", &root, "old"]).refused(5);
    sandbox.run(one, &["note", &root, "new"]).ok();
    sandbox.run(one, &["done", &root, "-m", "right this time"]).ok();
    let ready = sandbox.json(&agent("other"), &["ready"]).ok().json();
    let ids: Vec<&str> =
        ready["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [middle.as_str(), taken.as_str()]);
    sandbox.is_whole();
}
