//! Who counts as the holder: after a lapse, by token, by instance, by process, by folder, and by one command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use crate::contract::kit::{claim, dump, instance, json_with, kinds, lapse, lapsed_claim};
use crate::support::{ONUS, Ran, Sandbox, agent, human};

/// Ends the lapsed lease as a sweep does, and leaves the task open: its holder's token stays usable.
#[track_caller]
fn sweep(sandbox: &Sandbox, id: &str) {
    sandbox.run(&human("founder"), &["block", id]).ok();
    sandbox.run(&human("founder"), &["unblock", id]).ok();
    assert!(kinds(sandbox, id).contains(&"lease.lapsed".to_owned()));
    assert!(sandbox.show(id)["lease"].is_null());
}

/// Waiting until the task is free would not make it possible.
#[test]
fn what_cannot_be_done_to_work_in_progress_is_refused_as_such_and_a_person_learns_what_would_help() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Held");
    claim(&sandbox, &agent("a"), &id);
    for verb in ["approve", "unblock", "reopen"] {
        let refused = sandbox.json(&agent("b"), &[verb, &id]).refused(4);
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.contains("is in progress, so it cannot be") && message.contains("agent:a"),
            "{message}"
        );
        assert_eq!(refused["next"], serde_json::json!([format!("onus show {id}")]), "{refused}");
    }
    // A claim cannot be forced; what can is said whether or not it was tried.
    for force in [&[][..], &["--force", "--reason", "urgent"]] {
        let refused = sandbox.run(&human("founder"), &[&["claim", &id], force].concat());
        assert_eq!(refused.code, 4);
        assert!(refused.stderr.contains(&format!("onus takeover {id} --force")), "{refused:?}");
    }
}

#[test]
fn a_late_holder_may_finish_by_token_and_by_name_swept_or_not() {
    let verbs: [(&[&str], &str); 4] = [
        (&["done", "-m", "late"], "done"),
        (&["submit"], "review"),
        (&["fail"], "failed"),
        (&["release"], "open"),
    ];
    for (verb, state) in verbs {
        for swept in [false, true] {
            for by_token in [false, true] {
                let sandbox = Sandbox::new();
                let id = sandbox.add("Slow work");
                let token = lapsed_claim(&sandbox, &agent("a"), &id).to_string();
                if swept {
                    sweep(&sandbox, &id);
                }
                let mut args = vec![verb[0], id.as_str()];
                args.extend(&verb[1..]);
                // The token is enough: also for another instance, which a restarted agent is.
                let (who, env) = if by_token {
                    (instance("agent:a", "restarted"), vec![("ONUS_TOKEN", token.as_str())])
                } else {
                    (agent("a"), vec![])
                };
                let task = json_with(&sandbox, &who, &env, &args).ok().json();
                assert_eq!(task["state"], state, "{args:?}, swept {swept}, by token {by_token}");
                assert!(task["lease"].is_null());
                // No second lease was granted for it: it finished under the one it had.
                let acquired = kinds(&sandbox, &id).iter().filter(|kind| *kind == "lease.acquired").count();
                assert_eq!(acquired, 1);
                sandbox.is_whole();
            }
        }
    }
}

#[test]
fn a_late_holder_may_renew_under_its_token_swept_or_not() {
    for swept in [false, true] {
        let sandbox = Sandbox::new();
        let id = sandbox.add("Slow work");
        lapsed_claim(&sandbox, &agent("a"), &id);
        if swept {
            sweep(&sandbox, &id);
        }
        let renewed = sandbox.json(&agent("a"), &["renew", &id, "--ttl", "1h"]).ok().json();
        assert_eq!(renewed["renewed"], true);
        assert_eq!((&renewed["lease"]["token"], &renewed["lease"]["live"]), (&1.into(), &true.into()));
        assert_eq!(renewed["task"]["state"], "in_progress");
        assert_eq!(sandbox.json(&agent("b"), &["claim", &id]).refused(4)["code"], "held");
        sandbox.is_whole();
    }
}

#[test]
fn a_late_renewal_repeats_the_whole_check_of_a_claim() {
    // The tier rose meanwhile.
    let sandbox = Sandbox::new();
    let id = sandbox.add("Slow work");
    lapsed_claim(&sandbox, &agent("a"), &id);
    sandbox.run(&human("founder"), &["edit", &id, "--tier", "2"]).ok();
    let before = dump(&sandbox);
    let error = sandbox.json(&agent("a"), &["renew", &id]).refused(4);
    assert!(error["message"].as_str().unwrap().contains("tier 2"), "{error}");
    assert_eq!(dump(&sandbox), before);
    // Yet its work is not stranded: the token still finishes.
    sandbox.run(&agent("a"), &["done", &id, "-m", "late"]).ok();

    // The maximum hold passed: finishing is possible, going on is not.
    let id = sandbox.add("Endless work");
    let held = [("ONUS_LEASE_MAX_HOLD", "1ms")];
    json_with(&sandbox, &agent("a"), &held, &["claim", &id]).ok();
    lapse();
    let error = sandbox.json(&agent("a"), &["renew", &id]).refused(4);
    assert!(error["message"].as_str().unwrap().contains("maximum"), "{error}");
    sandbox.run(&agent("a"), &["submit", &id]).ok();

    // Another took it over: the renewal is fenced.
    let id = sandbox.add("Contested work");
    lapsed_claim(&sandbox, &agent("a"), &id);
    claim(&sandbox, &agent("b"), &id);
    sandbox.json(&agent("a"), &["renew", &id]).refused(5);

    // It was handed to another while nobody held it live: the old token is dead.
    let id = sandbox.add("Handed work");
    lapsed_claim(&sandbox, &agent("a"), &id);
    sandbox.run(&human("founder"), &["handoff", &id, "--to", "agent:b", "--reason", "go on"]).ok();
    let env = [("ONUS_TOKEN", "1")];
    json_with(&sandbox, &agent("a"), &env, &["renew", &id]).refused(5);
    json_with(&sandbox, &agent("a"), &env, &["done", &id, "-m", "x"]).refused(5);
    sandbox.is_whole();
}

#[test]
fn a_renewal_never_brings_the_end_closer() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    sandbox.run(&agent("a"), &["claim", &id, "--ttl", "2h"]).ok();
    for verb in ["renew", "claim"] {
        let renewed = sandbox.json(&agent("a"), &[verb, &id, "--ttl", "1m"]).ok().json();
        assert!(renewed["lease"]["expires_in_s"].as_i64().unwrap() > 7000, "{verb}: {renewed}");
        assert_eq!(renewed["lease"]["token"], 1);
        assert_eq!(renewed["renewed"], true);
    }
}

#[test]
fn small_work_is_one_command() {
    let sandbox = Sandbox::new();
    let verbs: [(&[&str], &str); 3] =
        [(&["done", "-m", "typo fixed"], "done"), (&["submit"], "review"), (&["fail"], "failed")];
    for (verb, state) in verbs {
        let id = sandbox.add("Fix a typo");
        let mut args = vec![verb[0], id.as_str()];
        args.extend(&verb[1..]);
        let task = sandbox.json(&agent("a"), &args).ok().json();
        assert_eq!(task["state"], state);
        let ended = format!("task.{}", if verb[0] == "submit" { "submitted" } else { state });
        assert_eq!(kinds(&sandbox, &id), ["task.created", "lease.acquired", ended.as_str()]);
    }
    // A verb that gives up something does not take it first.
    let id = sandbox.add("Fix a typo");
    let before = dump(&sandbox);
    assert_eq!(sandbox.json(&agent("a"), &["release", &id]).refused(6)["code"], "not_allowed");
    assert_eq!(sandbox.json(&agent("a"), &["renew", &id]).refused(6)["code"], "not_allowed");
    assert_eq!(dump(&sandbox), before);
    sandbox.is_whole();
}

#[test]
fn the_one_command_is_refused_where_a_claim_would_be() {
    let sandbox = Sandbox::new();
    let id = sandbox.json(&human("founder"), &["add", "Hard", "--tier", "3"]).ok().json()["id"].clone();
    let id = id.as_str().unwrap();
    assert_eq!(sandbox.json(&agent("a"), &["done", id, "-m", "x"]).refused(6)["code"], "tier");
    let kept = sandbox.add("Kept");
    sandbox.run(&human("founder"), &["handoff", &kept, "--to", "agent:b", "--reason", "yours"]).ok();
    assert_eq!(sandbox.json(&agent("a"), &["done", &kept, "-m", "x"]).refused(4)["code"], "kept");
    let held = sandbox.add("Held");
    claim(&sandbox, &agent("b"), &held);
    assert_eq!(sandbox.json(&agent("a"), &["done", &held, "-m", "x"]).refused(4)["code"], "held");
}

#[test]
fn two_instances_of_one_actor_are_two_holders() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let (first, second) = (instance("agent:a", "one"), instance("agent:a", "two"));
    claim(&sandbox, &first, &id);
    let before = dump(&sandbox);
    for args in [
        vec!["claim", &id],
        vec!["renew", &id],
        vec!["release", &id],
        vec!["done", &id, "-m", "x"],
        vec!["edit", &id, "--title", "x"],
    ] {
        let error = sandbox.json(&second, &args).refused(4);
        assert_eq!(
            (&error["code"], &error["holder"]["instance"]),
            (&"held".into(), &"one".into()),
            "{args:?}"
        );
    }
    assert_eq!(dump(&sandbox), before);
    // A person is one instance in all terminals.
    let id = sandbox.add("Review it");
    claim(&sandbox, &instance("human:ann", "tab-1"), &id);
    sandbox.run(&instance("human:ann", "tab-2"), &["done", &id, "-m", "x"]).ok();
}

/// A shell that stands for an agent: commands go in, and each answers on one line.
struct Shell {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Shell {
    fn start(sandbox: &Sandbox) -> Shell {
        let mut command = Command::new("sh");
        command
            .current_dir(sandbox.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", sandbox.path().join("home"))
            .env("ONUS_ACTOR", "agent:a")
            .env("ONUS_INSTANCE", "a-1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Shell { child, lines }
    }

    /// Runs onus below this process, by way of another shell, as an agent's tool calls do.
    fn onus(&mut self, args: &str) -> Ran {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "sh -c '{ONUS} {args} --json; exit $?'; echo $?").unwrap();
        let stdout = self.lines.next().unwrap().unwrap();
        let code = self.lines.next().unwrap().unwrap().parse().unwrap();
        Ran { code, stdout, stderr: String::new() }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_bound_lease_answers_only_to_its_process_and_what_that_started() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let mut shell = Shell::start(&sandbox);
    let pid = shell.child.id().to_string();
    shell.onus(&format!("claim {id} --bind {pid}")).ok();

    // The same actor and instance, but not below that process.
    let before = dump(&sandbox);
    for args in [vec!["done", &id, "-m", "x"], vec!["release", &id], vec!["renew", &id], vec!["claim", &id]] {
        let error = sandbox.json(&agent("a"), &args).refused(4);
        assert_eq!(error["code"], "held", "{args:?}");
        assert!(error["message"].as_str().unwrap().contains(&pid), "{error}");
    }
    assert_eq!(dump(&sandbox), before);

    // Below it everything goes on; and the token opens from anywhere.
    assert_eq!(shell.onus(&format!("claim {id}")).ok().json()["renewed"], true);
    shell.onus(&format!("note {id} within")).ok();
    json_with(&sandbox, &agent("a"), &[("ONUS_TOKEN", "1")], &["renew", &id]).ok();
    shell.onus(&format!("done {id} -m fixed")).ok();
    shell.kill();
    sandbox.is_whole();
}

#[test]
fn a_dead_process_frees_its_task_at_once_and_its_token_still_finishes() {
    let sandbox = Sandbox::new();
    let (taken, finished) = (sandbox.add("Taken over"), sandbox.add("Finished late"));
    let mut shell = Shell::start(&sandbox);
    let pid = shell.child.id().to_string();
    shell.onus(&format!("claim {taken} --bind {pid}")).ok();
    shell.onus(&format!("claim {finished} --bind {pid}")).ok();
    shell.kill();

    assert_eq!(sandbox.show(&taken)["lease"]["lapsed_by"], "process_died");
    let claimed = sandbox.json(&agent("b"), &["claim", &taken]).ok().json();
    assert_eq!((&claimed["takeover"], &claimed["lease"]["token"]), (&true.into(), &2.into()));
    sandbox.json(&agent("a"), &["done", &taken, "-m", "x"]).refused(5);
    // Renewing what a dead process held is a new lease, and is called one.
    assert_eq!(sandbox.json(&agent("a"), &["renew", &finished]).refused(4)["code"], "held");
    json_with(&sandbox, &agent("a"), &[("ONUS_TOKEN", "1")], &["done", &finished, "-m", "late"]).ok();
    sandbox.is_whole();
}

#[test]
fn a_caller_known_only_by_its_folder_never_renews_silently() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let nameless = |args: &[&str]| {
        let mut command = sandbox.anonymous();
        Ran::of(command.env("ONUS_ACTOR", "agent:a").args(args).arg("--json").output().unwrap())
    };
    let first = nameless(&["claim", &id]).ok().json();
    assert!(first["lease"]["instance"].as_str().unwrap().starts_with("worktree:"));
    let before = dump(&sandbox);
    let error = nameless(&["claim", &id]).refused(4);
    assert_eq!(error["code"], "held");
    assert!(error["next"][0].as_str().unwrap().starts_with(&format!("onus renew {id}")), "{error}");
    assert_eq!(dump(&sandbox), before);
    // Said outright it is a renewal; and one that has a name renews by claiming again.
    assert_eq!(nameless(&["renew", &id]).ok().json()["renewed"], true);
    nameless(&["done", &id, "-m", "x"]).ok();
}

#[test]
fn claiming_again_renews_under_the_same_token() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    claim(&sandbox, &agent("a"), &id);
    let again = sandbox.json(&agent("a"), &["claim", &id]).ok().json();
    assert_eq!((&again["renewed"], &again["lease"]["token"]), (&true.into(), &1.into()));
    assert_eq!(again["lease"]["renewals"], 1);
    // A sign of life is no event.
    assert_eq!(kinds(&sandbox, &id), ["task.created", "lease.acquired"]);
}

#[test]
fn a_takeover_needs_a_lapse() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let take = ["takeover", id.as_str(), "--reason", "I want it"];
    assert_eq!(sandbox.json(&agent("b"), &take).refused(6)["code"], "not_allowed");
    claim(&sandbox, &agent("a"), &id);
    let before = dump(&sandbox);
    assert_eq!(sandbox.json(&agent("b"), &take).refused(4)["code"], "held");
    assert_eq!(sandbox.json(&agent("a"), &take).refused(6)["code"], "not_allowed");
    assert_eq!(dump(&sandbox), before);
    // A person's lease has no end of its own, whatever was asked for.
    let id = sandbox.add("A person's");
    let claimed = sandbox.json(&human("ann"), &["claim", &id, "--ttl", "1ms"]).ok().json();
    lapse();
    assert_eq!(claimed["lease"]["expires_at"], serde_json::Value::Null);
    assert_eq!(sandbox.json(&agent("b"), &["claim", &id]).refused(4)["code"], "held");
    assert_eq!(sandbox.json(&agent("b"), &["claim", "--next"]).refused(7)["code"], "nothing");
}

#[test]
fn a_person_may_force_what_another_holds_and_the_record_says_so() {
    let sandbox = Sandbox::new();
    // Taking it over, handing it on, and finishing it: each ends the live lease by an event of its own.
    let cases: [(&[&str], &[&str]); 3] = [
        (&["takeover", "{}", "--force", "--reason", "urgent"], &["lease.revoked", "lease.acquired"]),
        (
            &["handoff", "{}", "--to", "agent:c", "--force", "--reason", "urgent"],
            &["lease.revoked", "lease.handed_off"],
        ),
        (
            &["done", "{}", "-m", "was done already", "--force", "--reason", "urgent"],
            &["lease.revoked", "lease.acquired", "task.done"],
        ),
    ];
    for (verb, events) in cases {
        for start in [vec!["claim"], vec!["claim", "--reserve"]] {
            let id = sandbox.add("Urgent");
            let mut held = start.clone();
            held.push(&id);
            sandbox.run(&agent("a"), &held).ok();
            let args: Vec<&str> =
                verb.iter().map(|arg| if *arg == "{}" { id.as_str() } else { arg }).collect();
            // The same without force, and by an agent, is refused.
            let gentle: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--force").collect();
            let before = dump(&sandbox);
            if verb[0] != "done" {
                sandbox.json(&human("ann"), &gentle).refused(4);
            }
            assert_eq!(sandbox.json(&agent("b"), &args).refused(4)["code"], "held");
            assert_eq!(dump(&sandbox), before);

            let known = kinds(&sandbox, &id).len();
            sandbox.json(&human("ann"), &args).ok();
            assert_eq!(kinds(&sandbox, &id)[known..], *events, "{args:?} after {start:?}");
            sandbox.json(&agent("a"), &["note", &id, "mine?"]).refused(5);
        }
    }
    sandbox.is_whole();
}
