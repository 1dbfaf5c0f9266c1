//! P8: one request, once; one ask, one task.

use crate::contract::kit::{Dump, claim, dump, instance, lapse, lapsed_claim};
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
        ("held", &["assign", "{}", "--to", "agent:b", "--for", "2h", "--reason", "r"]),
        ("open", &["assign", "{}", "--to", "agent:b", "--reason", "r"]),
        ("held", &["edit", "{}", "--acceptance", "it works"]),
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
        assert!(sandbox.run(&a, &args).ok().stdout.contains("already done"), "{args:?}");
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

/// Without an id it is the task that the caller holds at the time: the same words may mean another one later.
#[test]
fn a_request_that_names_its_task_is_not_one_that_leaves_it_out() {
    let sandbox = Sandbox::new();
    let (first, second) = (sandbox.add("First"), sandbox.add("Second"));
    let a = agent("a");
    let (named, bare) = (["done", &first, "-m", "x", "--key", "k"], ["done", "-m", "x", "--key", "k"]);
    sandbox.run(&a, &named).ok();
    sandbox.run(&a, &["claim", &second]).ok();
    assert_eq!(sandbox.json(&a, &bare).refused(2)["code"], "key_reused");
    assert_eq!(sandbox.show(&second)["state"], "in_progress");
    assert_eq!(sandbox.json(&a, &named).ok().json()["replayed"], true);
    // The same words are the same request, although nothing is held any more.
    let bare = ["done", "-m", "x", "--key", "l"];
    sandbox.run(&a, &bare).ok();
    let again = sandbox.json(&a, &bare).ok().json();
    assert_eq!((&again["replayed"], again["id"].as_str()), (&serde_json::json!(true), Some(second.as_str())));
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
        lapse();
        end(&sandbox, &id);
        let before = dump(&sandbox);
        let error = sandbox.json(&a, &args).refused(5);
        assert_eq!((&error["code"], &error["task"]), (&"fenced".into(), &id.as_str().into()), "end {at}");
        assert_eq!(dump(&sandbox), before);
    }
}

/// Whoever asks again takes the answer for a lease that it holds: one that lapsed is not. Nothing is changed by asking;
/// the token can still finish, and a new claim goes on with it.
#[test]
fn a_replay_whose_lease_lapsed_is_fenced_swept_or_not() {
    let sandbox = Sandbox::new();
    let a = agent("a");
    let given: [(&str, &[&str]); 4] = [
        ("open", &["claim", "{}", "--ttl", "1ms"]),
        ("open", &["claim", "--next", "--ttl", "1ms"]),
        ("lapsed", &["takeover", "{}", "--reason", "r", "--ttl", "1ms"]),
        ("lapsing", &["scope", "add", "--task", "{}", "src/x"]),
    ];
    for (at, (given, verb)) in given.iter().enumerate() {
        for swept in [false, true] {
            let id = sandbox.add("T");
            match *given {
                "lapsed" => drop(lapsed_claim(&sandbox, &agent("b"), &id)),
                "lapsing" => must(&sandbox, "a", &["claim", &id, "--ttl", "400ms"]),
                _ => {}
            }
            let key = format!("key-{at}-{swept}");
            let mut args: Vec<&str> = verb.iter().map(|arg| if *arg == "{}" { &id } else { *arg }).collect();
            args.extend(["--key", &key]);
            let token = sandbox.json(&a, &args).ok().json()["lease"]["token"].clone();
            if *given == "lapsing" {
                std::thread::sleep(std::time::Duration::from_millis(450));
            }
            lapse();
            if swept {
                must(&sandbox, "c", &["block", &id]);
                must(&sandbox, "c", &["unblock", &id]);
            }
            let before = dump(&sandbox);
            for who in [&a, &instance("agent:a", "restarted")] {
                let error = sandbox.json(who, &args).refused(5);
                assert_eq!(
                    (&error["code"], &error["task"]),
                    (&"fenced".into(), &id.as_str().into()),
                    "{args:?}"
                );
                let next = error["next"][0].as_str().unwrap();
                assert!(next.starts_with(&format!("onus claim {id}")), "{error}");
            }
            assert_eq!(dump(&sandbox), before, "{args:?}");
            let renewed = sandbox.json(&a, &["claim", &id]).ok().json();
            assert_eq!((&renewed["renewed"], &renewed["lease"]["token"]), (&true.into(), &token), "{args:?}");
            must(&sandbox, "a", &["done", &id, "-m", "x"]);
        }
    }
    sandbox.is_whole();
}

/// A request is what was asked for, not how it was spelled.
#[test]
fn a_request_in_another_spelling_is_the_same_request() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    sandbox.run(&ann, &["actor", "register", "human:bob"]).ok();
    sandbox.run(&ann, &["actor", "alias", "human:bob", "human:bobby"]).ok();
    for title in ["one", "two", "three"] {
        sandbox.add(title);
    }
    let uid = |id: &str| sandbox.show(id)["uid"].as_str().unwrap().to_owned();
    let (one, two) = (uid("ON-1"), uid("ON-2"));
    // The last two groups: the last alone is all digits in one uid of 280, and digits are always a number.
    let end = &two[two.len() - 17..];
    let (upper, bare) = (one.to_uppercase(), two.replace('-', ""));
    // Each in one spelling, in another, and a request that is another one.
    let requests: &[(&[&str], &[&str], &[&str])] = &[
        (
            &["add", "T", "--dep", "1", "--dep", "ON-2"],
            &["add", "T", "--dep", end, "--dep", &one],
            &["add", "T", "--dep", "1"],
        ),
        (&["add", "T", "--parent", "1"], &["add", "T", "--parent", &upper], &["add", "T", "--parent", "2"]),
        (&["add", "T", "--relate", "1"], &["add", "T", "--relate", "ON-1"], &["add", "T", "--relate", "3"]),
        (
            &["add", "T", "--owner", "human:bob"],
            &["add", "T", "--owner", "human:bobby"],
            &["add", "T", "--owner", "human:eve"],
        ),
        (
            &["add", "T", "--scope", "a/**", "--scope", "b"],
            &["add", "T", "--scope", "b", "--scope", "a/**"],
            &["add", "T", "--scope", "b"],
        ),
        (
            &["add", "T", "--tag", "x", "--tag", "y"],
            &["add", "T", "--tag", "y", "--tag", "x"],
            &["add", "T", "--tag", "y"],
        ),
        (&["dep", "add", "3", "1", "2"], &["dep", "add", "ON-3", &bare, "ON-1"], &["dep", "add", "3", "1"]),
        (&["dep", "rm", "3", "1", "2"], &["dep", "rm", "ON-3", end, &one], &["dep", "rm", "3", "2"]),
        (
            &["edit", "3", "--parent", "1"],
            &["edit", "ON-3", "--parent", "ON-1"],
            &["edit", "3", "--parent", "2"],
        ),
        (
            &["edit", "3", "--relate", "1", "--relate", "2"],
            &["edit", "3", "--relate", &bare, "--relate", &one],
            &["edit", "3", "--relate", "1"],
        ),
        (
            &["edit", "3", "--unrelate", "1"],
            &["edit", "3", "--unrelate", &upper],
            &["edit", "3", "--unrelate", "2"],
        ),
        (
            &["edit", "3", "--owner", "human:bobby"],
            &["edit", "3", "--owner", "human:bob"],
            &["edit", "3", "--owner", "human:ann"],
        ),
        (
            &["edit", "3", "--tag", "x", "--tag", "y"],
            &["edit", "3", "--tag", "y", "--tag", "x"],
            &["edit", "3", "--tag", "z"],
        ),
        (&["claim", "1", "--ttl", "60m"], &["claim", "ON-1", "--ttl", "1h"], &["claim", "1", "--ttl", "61m"]),
        (&["renew", "1", "--ttl", "7200s"], &["renew", &one, "--ttl", "2h"], &["renew", "1", "--ttl", "1h"]),
        (
            &["scope", "add", "--task", "1", "a/b", "c"],
            &["scope", "add", "--task", &upper, "c", "a/b"],
            &["scope", "add", "--task", "1", "c"],
        ),
        (
            &["scope", "rm", "--task", "1", "a/b", "c"],
            &["scope", "rm", "--task", &upper, "c", "a/b"],
            &["scope", "rm", "--task", "1", "c"],
        ),
        (
            &["handoff", "1", "--to", "human:bob", "--reason", "r"],
            &["handoff", &one, "--to", "human:bobby", "--reason", "r"],
            &["handoff", "1", "--to", "human:eve", "--reason", "r"],
        ),
        (
            &["reset", "1", "--reason", "r"],
            &["reset", "ON-1", "--reason", "r"],
            &["reset", "2", "--reason", "r"],
        ),
        (&["fail", "2"], &["fail", &bare], &["fail", "1"]),
        (&["retry", "2"], &["retry", end], &["retry", "1"]),
        (&["done", "2", "-m", "x"], &["done", "ON-2", "-m", "x"], &["done", "1", "-m", "x"]),
        (&["reopen", "2"], &["reopen", &two], &["reopen", "1"]),
        (
            &["redact", "1", "1", "--field", "title", "--field", "body", "--reason", "r"],
            &["redact", &one, "1", "--field", "body", "--field", "title", "--reason", "r"],
            &["redact", "1", "1", "--reason", "r"],
        ),
        (
            &["actor", "tier", "human:bob", "2"],
            &["actor", "tier", "human:bobby", "2"],
            &["actor", "tier", "human:bob", "3"],
        ),
    ];
    for (at, (spelled, otherwise, another)) in requests.iter().enumerate() {
        let key = format!("key-{at}");
        let keyed = |args: &[&str]| sandbox.json(&ann, &[args, &["--key", &key]].concat());
        let first = keyed(spelled);
        assert!(first.ok().json().get("replayed").is_none(), "{spelled:?}");
        let before = dump(&sandbox);
        assert_eq!(keyed(otherwise).ok().json()["replayed"], true, "{otherwise:?} is {spelled:?}");
        assert_eq!(keyed(another).refused(2)["code"], "key_reused", "{another:?} is not {spelled:?}");
        // A task that there is not was not in the request.
        let mut nowhere: Vec<&str> = spelled.to_vec();
        if let Some(place) = nowhere.iter().rposition(|arg| *arg == "1" || *arg == "2") {
            nowhere[place] = "99";
            assert_eq!(keyed(&nowhere).code, 2, "{nowhere:?}");
        }
        assert_eq!(dump(&sandbox), before, "{spelled:?}");
    }
    // A plan names tasks, too.
    for (refers, replays) in [("1", false), ("ON-1", true), (one.as_str(), true)] {
        let plan = format!("[[task]]\nname = 'a'\ntitle = 'A'\ndeps = ['{refers}']\n");
        std::fs::write(sandbox.path().join("plan.toml"), plan).unwrap();
        let added = sandbox.json(&ann, &["add", "--file", "plan.toml", "--key", "plan"]).ok().json();
        assert_eq!(added["replayed"] == true, replays, "{refers}");
    }
    sandbox.is_whole();
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
    assert!(sandbox.run(&human("ann"), &args).ok().stdout.contains("already exists"));
    // Another reference, or none, is another task.
    let other = sandbox.json(&agent("a"), &["add", "Other", "--origin", "github:acme/web#13"]).ok().json();
    assert_ne!(other["id"], id);
    assert_ne!(sandbox.add("Login is broken"), id);
    let found = sandbox.json(&agent("a"), &["list", "--origin", "github:acme/web#12"]).ok().json();
    assert_eq!(found["tasks"][0]["id"], id);
    sandbox.is_whole();
}
