//! P8: one request, once; one ask, one task.

use crate::kit::{Dump, claim, dump, instance, lapse, lapsed_claim};
use crate::support::{Sandbox, agent, human};

/// The rows without the memory of who was last seen when.
fn settled(sandbox: &Sandbox) -> Dump {
    let mut rows = dump(sandbox);
    rows.remove("instance");
    rows
}

#[track_caller]
fn must(sandbox: &Sandbox, who: &str, args: &[&str]) {
    sandbox.run(&agent(who), args).ok();
}

#[test]
fn a_replayed_request_is_answered_and_not_applied_again() {
    let sandbox = Sandbox::new();
    let a = agent("a");
    let verbs: &[(&str, &[&str])] = &[
        ("", &["add", "Once"]),
        ("open", &["claim", "{}"]),
        ("open", &["claim", "--next"]),
        ("held", &["renew", "{}"]),
        ("held", &["note", "{}", "once"]),
        ("held", &["edit", "{}", "--title", "Once"]),
        ("held", &["release", "{}"]),
        ("held", &["handoff", "{}", "--to", "agent:b", "--reason", "r"]),
        ("held", &["block", "{}"]),
        ("held", &["submit", "{}"]),
        ("held", &["done", "{}", "-m", "x"]),
        ("held", &["fail", "{}"]),
        ("held", &["drop", "{}"]),
        ("open", &["done", "{}", "-m", "one command"]),
        ("lapsed", &["takeover", "{}", "--reason", "r"]),
        ("blocked", &["unblock", "{}"]),
        ("review", &["reject", "{}"]),
        ("review", &["approve", "{}"]),
        ("done", &["reopen", "{}"]),
        ("proposed", &["accept", "{}"]),
        ("mine", &["redact", "{}", "1", "--reason", "r"]),
        ("", &["actor", "register", "agent:fresh"]),
    ];
    for (at, (given, verb)) in verbs.iter().enumerate() {
        let id = match *given {
            "proposed" => sandbox.json(&human("ann"), &["add", "T", "--propose"]).ok().json()["id"].clone(),
            "mine" => sandbox.json(&a, &["add", "T"]).ok().json()["id"].clone(),
            _ => sandbox.add("T").into(),
        };
        let id = id.as_str().unwrap();
        match *given {
            "held" => must(&sandbox, "a", &["claim", id]),
            "lapsed" => {
                lapsed_claim(&sandbox, &agent("b"), id);
            }
            "blocked" => must(&sandbox, "a", &["block", id]),
            "review" => must(&sandbox, "b", &["submit", id]),
            "done" => must(&sandbox, "a", &["done", id, "-m", "x"]),
            _ => {}
        }
        let key = format!("key-{at}");
        let mut args: Vec<&str> = verb.iter().map(|arg| if *arg == "{}" { id } else { arg }).collect();
        args.extend(["--key", &key]);

        let first = sandbox.json(&a, &args).ok().json();
        assert!(first.get("replayed").is_none(), "{args:?}");
        let before = dump(&sandbox);
        let again = sandbox.json(&a, &args).ok().json();
        assert_eq!(again["replayed"], true, "{args:?}: {again}");
        assert_eq!(dump(&sandbox), before, "{args:?} was applied twice");
        for name in ["id", "uid", "name"] {
            assert_eq!(first[name], again[name], "{args:?}");
        }
        assert_eq!(first["lease"]["token"], again["lease"]["token"], "{args:?}");
        assert_eq!(first["task"]["id"], again["task"]["id"], "{args:?}");
        // From another instance of the actor too: a restarted agent repeats what it is not sure of. Only a lease that
        // lives is one instance's, whoever has the key.
        let restarted = sandbox.json(&instance("agent:a", "restarted"), &args);
        if first["lease"]["live"] == true && first.get("task").is_some() {
            assert_eq!(restarted.refused(4)["code"], "held", "{args:?}");
        } else {
            assert_eq!(restarted.ok().json()["replayed"], true, "{args:?}");
        }
        // People read it too.
        assert!(sandbox.run(&a, &args).ok().stdout.contains("done before"), "{args:?}");
    }
    sandbox.is_whole();
}

#[test]
fn a_key_is_its_actors_own() {
    let sandbox = Sandbox::new();
    let first = sandbox.json(&agent("a"), &["add", "One", "--key", "k"]).ok().json();
    let second = sandbox.json(&agent("b"), &["add", "Two", "--key", "k"]).ok().json();
    assert_ne!(first["id"], second["id"]);
    assert!(second.get("replayed").is_none());
}

#[test]
fn another_request_under_a_used_key_is_bad_input() {
    let sandbox = Sandbox::new();
    let (id, other) = (sandbox.add("One"), sandbox.add("Two"));
    let a = agent("a");
    sandbox.run(&a, &["note", &id, "text", "--key", "k"]).ok();
    let before = dump(&sandbox);
    for args in [
        vec!["note", &id, "other text", "--key", "k"],
        vec!["note", &other, "text", "--key", "k"],
        vec!["add", "text", "--key", "k"],
        vec!["claim", &id, "--key", "k"],
        vec!["claim", "--next", "--key", "k"],
    ] {
        assert_eq!(sandbox.json(&a, &args).refused(2)["code"], "key_reused", "{args:?}");
    }
    assert_eq!(dump(&sandbox), before);
    // The same task by another name is the same request.
    let uid = sandbox.show(&id)["uid"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.json(&a, &["note", &uid, "text", "--key", "k"]).ok().json()["replayed"], true);
}

#[test]
fn a_refusal_is_not_kept_under_its_key() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("One");
    claim(&sandbox, &agent("b"), &id);
    let args = ["claim", id.as_str(), "--key", "k"];
    sandbox.json(&agent("a"), &args).refused(4);
    sandbox.run(&agent("b"), &["release", &id]).ok();
    let claimed = sandbox.json(&agent("a"), &args).ok().json();
    assert!(claimed.get("replayed").is_none());
    assert_eq!(claimed["lease"]["token"], 2);
}

#[test]
fn a_replay_whose_lease_is_gone_is_fenced() {
    let sandbox = Sandbox::new();
    let a = agent("a");
    // Released, superseded, finished: each time the lease that the request got is no longer there.
    let ends: [fn(&Sandbox, &str); 3] = [
        |sandbox, id| must(sandbox, "a", &["release", id]),
        |sandbox, id| must(sandbox, "b", &["takeover", id, "--reason", "it lapsed"]),
        |sandbox, id| must(sandbox, "a", &["done", id, "-m", "x"]),
    ];
    for (at, end) in ends.iter().enumerate() {
        let id = sandbox.add("One");
        let key = format!("k{at}");
        let args = ["claim", id.as_str(), "--ttl", "1ms", "--key", &key];
        sandbox.json(&a, &args).ok();
        // A lapse alone takes nothing away: the token can still finish.
        lapse();
        assert_eq!(sandbox.json(&a, &args).ok().json()["replayed"], true);
        end(&sandbox, &id);
        let before = dump(&sandbox);
        let error = sandbox.json(&a, &args).refused(5);
        assert_eq!((&error["code"], &error["task"]), (&"fenced".into(), &id.as_str().into()), "end {at}");
        assert_eq!(dump(&sandbox), before);
    }
}

#[test]
fn the_same_origin_is_the_same_task() {
    let sandbox = Sandbox::new();
    let args = ["add", "Login is broken", "--origin", "github:acme/web#12"];
    let first = sandbox.json(&agent("a"), &args).ok().json();
    assert!(first.get("existing").is_none());
    let before = settled(&sandbox);
    // By anybody, in other words, and also when it is finished.
    let again =
        sandbox.json(&agent("a"), &["add", "Other words", "--origin", "github:acme/web#12", "-p", "P0"]);
    let again = again.ok().json();
    assert_eq!(
        (&again["existing"], &again["id"], &again["title"]),
        (&true.into(), &first["id"], &first["title"])
    );
    assert_eq!(settled(&sandbox), before);
    let id = first["id"].as_str().unwrap();
    sandbox.run(&agent("a"), &["done", id, "-m", "x"]).ok();
    assert_eq!(sandbox.json(&human("ann"), &args).ok().json()["id"], id);
    assert!(sandbox.run(&human("ann"), &args).ok().stdout.contains("was there already"));
    // Another reference, or none, is another task.
    let other = sandbox.json(&agent("a"), &["add", "Other", "--origin", "github:acme/web#13"]).ok().json();
    assert_ne!(other["id"], id);
    assert_ne!(sandbox.add("Login is broken"), id);
    let found = sandbox.json(&agent("a"), &["list", "--origin", "github:acme/web#12"]).ok().json();
    assert_eq!(found["tasks"][0]["id"], id);
    sandbox.is_whole();
}
