//! What an agent is told when its conversation begins: always something, never too much.

use serde_json::json;

use crate::agents::harness::Harness;
use crate::agents::kit::{bare_repository, configured, repository, store};
use crate::support::{Ran, Sandbox, agent, human};

/// Under 600 tokens, at four bytes a token.
const MOST: usize = 2_400;

fn prime(sandbox: &Sandbox, env: &[(&str, &str)], args: &[&str]) -> Ran {
    Ran::of(sandbox.anonymous().envs(env.iter().copied()).arg("prime").args(args).output().unwrap())
}

/// It answers, in words and as one document.
#[track_caller]
fn answers(sandbox: &Sandbox, env: &[(&str, &str)], words: &[&str]) {
    for args in [&[] as &[&str], &["--full"]] {
        let ran = prime(sandbox, env, args);
        assert_eq!(ran.code, 0, "{ran:?}");
        for word in words {
            assert!(ran.stdout.contains(word), "'{word}' is not in {ran:?}");
        }
    }
    let ran = prime(sandbox, env, &["--json"]);
    let text = ran.ok().json()["primer"].as_str().unwrap().to_owned();
    assert!(text.len() <= MOST, "{}", text.len());
}

#[test]
fn prime_never_fails() {
    let named = [("ONUS_ACTOR", "agent:a"), ("ONUS_INSTANCE", "a-1")];
    for env in [&named as &[(&str, &str)], &[]] {
        answers(&Sandbox::empty(), env, &["onus"]);
        answers(&bare_repository(), env, &["onus init"]);
        answers(&repository(), env, &["onus claim", "Exit codes"]);
        let damaged = repository();
        for side in ["", "-wal", "-shm"] {
            std::fs::write(store(&damaged).join(format!("onus.db{side}")), "not a database").unwrap();
        }
        answers(&damaged, env, &["onus"]);
        let folder = repository();
        std::fs::remove_dir_all(store(&folder)).unwrap();
        std::fs::create_dir_all(store(&folder).join("onus.db")).unwrap();
        answers(&folder, env, &["onus"]);
        let misconfigured = repository();
        configured(&misconfigured, "this is [ not toml");
        answers(&misconfigured, env, &["onus.toml"]);
    }
    // Names that are none.
    answers(&repository(), &[("ONUS_ACTOR", "nonsense")], &["ONUS_ACTOR"]);
    answers(&repository(), &[("CLAUDECODE", "1"), ("ONUS_ACTOR", "human:x")], &["person"]);
    answers(&repository(), &[("ONUS_ACTOR", "agent:a"), ("ONUS_TOKEN", "x")], &["ONUS_TOKEN"]);
}

/// A store in which all that the primer tells is as long as it can be.
fn crowded(letter: &str) -> Sandbox {
    let sandbox = repository();
    let long = letter.repeat(480 / letter.len());
    for _ in 0..12 {
        sandbox.add(&long);
    }
    sandbox
}

#[test]
fn at_its_largest_the_primer_is_under_six_hundred_tokens() {
    // One byte, three, four; what must be escaped; and what looks like markup.
    for letter in ["m", "漢", "🦀", "\u{7f}", "\"", "é"] {
        let sandbox = crowded(letter);
        let conversation = "c".repeat(120);
        let me = Harness::claude(&sandbox, &conversation);
        me.start();
        for number in 1..=6 {
            me.json(&format!("onus claim {number} --scope '{number}/**'"));
            let number = number.to_string();
            let note = letter.repeat(3_000);
            let other = agent(&"n".repeat(40));
            let ran = sandbox.json(&other, &["note", &number, &note]);
            assert_eq!(ran.code, 0, "{ran:?}");
        }
        // Told of them once, so that the next start is the primer alone.
        me.after_tool("Bash");
        let started = me.started_by("compact");
        let primer = started.told();
        assert!(primer.contains("You hold:") && primer.contains("Ready:"), "{primer}");
        assert!(primer.contains("last note") && primer.contains("3 more"), "{primer}");
        assert!(primer.len() <= MOST, "{letter:?}: {} bytes: {primer}", primer.len());
        assert_eq!(me.shell("onus prime").ok().stdout.trim_end(), primer.trim_end());
    }
}

#[test]
fn the_primer_tells_who_it_is_what_it_holds_and_what_was_left_to_it() {
    let sandbox = repository();
    let (mine, free) = (sandbox.add("Say it better"), sandbox.add("Say it louder"));
    sandbox.json(&human("ann"), &["note", &mine, "the tests lie"]).ok();
    let me = Harness::codex(&sandbox, "c-1");
    me.start();
    me.json(&format!("onus claim {mine}"));
    let primer = me.started_by("compact").told().to_owned();
    for word in
        ["agent:codex", "c-1", &mine, "Say it better", "the tests lie", "human:ann", &free, "Say it louder"]
    {
        assert!(primer.contains(word), "'{word}' is not in: {primer}");
    }
    assert!(primer.contains("while this conversation runs"), "{primer}");
    assert_eq!(json!(primer), me.json("onus prime")["primer"]);
}
