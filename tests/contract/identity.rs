//! P12: nobody is anonymous, and an agent never passes for a person, whatever its shell looks like.

use std::process::Command;

use onus_agents::HARNESSES;

use crate::contract::kit::{Sleeper, claim, dump, on_terminal};
use crate::support::{ONUS, Ran, Sandbox, agent, human};

fn run(sandbox: &Sandbox, env: &[(&str, &str)], args: &[&str]) -> Ran {
    Ran::of(sandbox.anonymous().envs(env.iter().copied()).args(args).arg("--json").output().unwrap())
}

/// Who a task was created by, and in which instance.
#[track_caller]
fn creator(sandbox: &Sandbox, env: &[(&str, &str)], args: &[&str]) -> (String, String) {
    let mut all = vec!["add", "A task"];
    all.extend(args);
    let id = run(sandbox, env, &all).ok().json()["id"].as_str().unwrap().to_owned();
    let log = sandbox.json(&human("founder"), &["log", &id]).ok().json();
    let event = &log["events"][0];
    (event["actor"].as_str().unwrap().to_owned(), event["instance"].as_str().unwrap().to_owned())
}

fn configured(sandbox: &Sandbox, actor: &str) {
    let folder = sandbox.path().join("home/.config/onus");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), format!("[identity]\nactor = \"{actor}\"\n")).unwrap();
}

#[test]
fn the_first_clue_wins() {
    let sandbox = Sandbox::new();
    let env = [("ONUS_ACTOR", "agent:env"), ("ONUS_INSTANCE", "i")];
    assert_eq!(creator(&sandbox, &env, &["--as", "agent:flag"]).0, "agent:flag");
    assert_eq!(creator(&sandbox, &env, &[]), ("agent:env".into(), "i".into()));
    configured(&sandbox, "human:file");
    assert_eq!(creator(&sandbox, &env, &[]).0, "agent:env");
    assert_eq!(creator(&sandbox, &[("CODEX_THREAD_ID", "t-1")], &[]), ("agent:codex".into(), "t-1".into()));
    assert_eq!(creator(&sandbox, &[], &[]), ("human:file".into(), "person".into()));
    assert_eq!(creator(&sandbox, &[("ONUS_ACTOR", "")], &[]).0, "human:file", "empty is not set");
    assert_eq!(creator(&sandbox, &[("ONUS_ACTOR", "ci:main")], &[]).0, "ci:main");
}

#[test]
fn without_a_name_nothing_is_changed_and_everything_can_be_read() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let before = dump(&sandbox);
    for args in [vec!["add", "x"], vec!["claim", &id], vec!["note", &id, "x"], vec!["done", &id, "-m", "x"]] {
        let error = run(&sandbox, &[], &args).refused(2);
        assert_eq!(error["code"], "identity", "{args:?}");
        let steps = error["next"].to_string();
        assert!(steps.contains("ONUS_ACTOR=agent:NAME") && steps.contains("identity.actor"), "{error}");
    }
    assert_eq!(run(&Sandbox::empty(), &[], &["init"]).refused(2)["code"], "identity");
    for args in [
        vec!["show", &id],
        vec!["list"],
        vec!["ready"],
        vec!["status"],
        vec!["log"],
        vec!["ledger", "verify"],
    ] {
        run(&sandbox, &[], &args).ok();
    }
    // A name that is given wrongly is an error even where none is needed.
    assert_eq!(run(&sandbox, &[], &["list", "--as", "bob"]).refused(2)["code"], "identity");
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn under_a_harness_nobody_is_a_person() {
    let sandbox = Sandbox::new();
    configured(&sandbox, "human:file");
    let mut tried = 0;
    let markers = HARNESSES
        .iter()
        .flat_map(|harness| harness.markers.iter().map(move |marker| (harness.name, *marker)));
    for (name, marker) in markers.chain([("some-tool", "AI_AGENT")]) {
        let value = if marker == "AI_AGENT" { "some tool" } else { "1" };
        // By the marker alone it is the harness's agent, though the configuration names a person.
        assert_eq!(creator(&sandbox, &[(marker, value)], &[]).0, format!("agent:{name}"), "{marker}");
        let before = dump(&sandbox);
        let asked = [vec!["add", "x", "--as", "human:ann"], vec!["list", "--as", "human:ann"]];
        for args in asked {
            let error = run(&sandbox, &[(marker, value)], &args).refused(2);
            assert_eq!(error["code"], "identity", "{marker}");
            assert!(error["message"].as_str().unwrap().contains(name), "{error}");
        }
        let env = [(marker, value), ("ONUS_ACTOR", "human:ann")];
        assert_eq!(run(&sandbox, &env, &["add", "x"]).refused(2)["code"], "identity", "{marker}");
        assert_eq!(dump(&sandbox), before, "{marker}");
        // Another agent's name is its own business.
        let env = [(marker, value), ("ONUS_ACTOR", "agent:sub")];
        assert_eq!(creator(&sandbox, &env, &[]).0, "agent:sub", "{marker}");
        tried += 1;
    }
    assert!(tried > 8, "{tried}");
    assert_eq!(creator(&sandbox, &[("CLAUDECODE", "")], &[]).0, "human:file", "an empty marker is none");
}

#[test]
fn a_conversation_is_an_instance() {
    let sandbox = Sandbox::new();
    let conversation = |id: &'static str| [("CLAUDECODE", "1"), ("CLAUDE_CODE_SESSION_ID", id)];
    assert_eq!(creator(&sandbox, &conversation("conv-1"), &[]), ("agent:claude".into(), "conv-1".into()));
    let id = sandbox.add("Fix it");
    run(&sandbox, &conversation("conv-1"), &["claim", &id]).ok();
    assert_eq!(run(&sandbox, &conversation("conv-1"), &["claim", &id]).ok().json()["renewed"], true);
    assert_eq!(run(&sandbox, &conversation("conv-2"), &["claim", &id]).refused(4)["code"], "held");
    // Said outright, it is what is said.
    let mut named = conversation("conv-1").to_vec();
    named.push(("ONUS_INSTANCE", "sub-7"));
    assert_eq!(creator(&sandbox, &named, &[]).1, "sub-7");
}

#[test]
fn everything_below_a_registered_process_is_that_instance() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    // Variables do not survive from one tool call of an agent to the next: the process above them does.
    let script = format!(
        "ONUS_ACTOR=agent:worker '{ONUS}' instance register --pid $$ --instance conv-9 --json >/dev/null || exit 90
         sh -c \"'{ONUS}' claim {id} --json; exit \\$?\" || exit 91
         sh -c \"'{ONUS}' note {id} below --json >/dev/null; exit \\$?\" || exit 92
         '{ONUS}' add x --as human:ann --json >&2; test $? = 2 || exit 93
         ONUS_ACTOR=human:ann '{ONUS}' add x --json >&2; test $? = 2 || exit 94
         ONUS_ACTOR=agent:other '{ONUS}' note {id} 'not that instance' --json >/dev/null || exit 95"
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(sandbox.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", sandbox.path().join("home"));
    let ran = Ran::of(command.output().unwrap());
    let claimed = ran.ok().json();
    assert_eq!(
        (&claimed["lease"]["actor"], &claimed["lease"]["instance"]),
        (&"agent:worker".into(), &"conv-9".into())
    );
    assert_eq!(ran.stderr.matches("\"identity\"").count(), 2, "{ran:?}");
    let notes = sandbox.show(&id)["notes"].clone();
    assert_eq!((&notes[0]["instance"], &notes[1]["actor"]), (&"conv-9".into(), &"agent:other".into()));
    // Its process gone, the name is nobody's: whoever comes next is not taken for it.
    assert_eq!(run(&sandbox, &[], &["add", "x"]).refused(2)["code"], "identity");
    let known = sandbox.json(&human("ann"), &["instance", "list"]).ok().json();
    let known = known["instances"].as_array().unwrap();
    assert!(known.iter().any(|one| one["instance"] == "conv-9" && one["alive"] == false), "{known:?}");
}

#[test]
fn a_registered_process_elsewhere_says_nothing_about_the_caller() {
    let sandbox = Sandbox::new();
    let process = Sleeper::start();
    let everybody = sandbox.json(&agent("a"), &["instance", "register", "--pid", "1", "--instance", "x"]);
    assert_eq!(everybody.refused(2)["code"], "usage");
    sandbox.run(&agent("a"), &["instance", "register", "--pid", &process.pid(), "--instance", "x"]).ok();
    assert_eq!(creator(&sandbox, &[("ONUS_ACTOR", "human:ann")], &[]).0, "human:ann");
    assert_eq!(run(&sandbox, &[], &["add", "x"]).refused(2)["code"], "identity");
}

#[test]
fn at_a_terminal_it_is_the_user_unless_a_harness_sits_there() {
    let sandbox = Sandbox::new();
    let Some(seen) = on_terminal(&sandbox, &[], &["add", "By hand", "--json"]) else { return };
    let added: serde_json::Value = serde_json::from_str(seen.trim()).unwrap_or_else(|_| panic!("{seen:?}"));
    let created_by = added["created_by"].as_str().unwrap();
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    assert_eq!(created_by, format!("human:{}", String::from_utf8(user).unwrap().trim()));
    // The same terminal under an agent's program: a pseudo-terminal makes nobody a person.
    for harness in HARNESSES {
        for marker in harness.markers {
            let seen = on_terminal(&sandbox, &[(marker, "1")], &["add", "By an agent", "--json"]).unwrap();
            let added: serde_json::Value = serde_json::from_str(seen.trim()).unwrap();
            assert_eq!(added["created_by"], format!("agent:{}", harness.name), "{marker}");
        }
    }
    let seen =
        on_terminal(&sandbox, &[("CLAUDECODE", "1")], &["add", "x", "--as", "human:ann", "--json"]).unwrap();
    assert!(seen.contains("\"identity\""), "{seen}");
}

#[test]
fn an_alias_is_the_same_actor() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    claim(&sandbox, &crate::contract::kit::instance("agent:a", "one"), &id);
    assert_eq!(
        sandbox.json(&agent("x"), &["actor", "alias", "agent:a", "agent:a2"]).refused(6)["code"],
        "people_only"
    );
    sandbox.run(&human("ann"), &["actor", "alias", "agent:a", "agent:a2"]).ok();
    let renewed =
        sandbox.json(&crate::contract::kit::instance("agent:a2", "one"), &["claim", &id]).ok().json();
    assert_eq!((&renewed["renewed"], &renewed["lease"]["actor"]), (&true.into(), &"agent:a".into()));
    // Never a person and an agent in one.
    assert_eq!(sandbox.json(&human("ann"), &["actor", "alias", "agent:a", "human:a"]).code, 2);
}
