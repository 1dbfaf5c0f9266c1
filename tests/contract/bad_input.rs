//! Bad input: a clear message, exit 2, nothing changed, no panic; with `--json` one document all the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use serde_json::Value;

use crate::contract::kit::{dump, fed};
use crate::support::{Ran, Sandbox, agent, human};

/// Runs what must be refused as bad input, for people and for programs; the message must contain `needle`.
#[track_caller]
fn refuses(sandbox: &Sandbox, needle: &str, prepare: impl Fn(&mut Command)) {
    let before = dump(sandbox);
    let run = |json: bool| {
        let mut command = sandbox.command(&agent("a"));
        prepare(&mut command);
        if json {
            command.arg("--json");
        }
        Ran::of(command.output().unwrap())
    };
    let (words, json) = (run(false), run(true));
    assert_eq!((words.code, json.code), (2, 2), "{needle}: {words:?} {json:?}");
    check_message(&words, &json, needle);
    assert_eq!(dump(sandbox), before, "{needle}");
}

#[track_caller]
fn check_message(words: &Ran, json: &Ran, needle: &str) {
    assert_eq!(words.stdout, "", "{words:?}");
    assert!(words.stderr.contains(needle), "'{needle}' is not in {words:?}");
    assert!(!words.stderr.contains("panicked"), "{words:?}");
    // A message is to be read: it does not repeat a flood.
    assert!(words.stderr.len() < 2_000, "{} bytes on stderr", words.stderr.len());
    let error = &json.json()["error"];
    assert!(error["message"].as_str().unwrap().contains(needle), "'{needle}' is not in {error}");
    assert!(json.stdout.len() < 4_000);
}

#[track_caller]
fn refuses_args(sandbox: &Sandbox, needle: &str, args: &[&str]) {
    refuses(sandbox, needle, |command| {
        command.args(args);
    });
}

/// The same for what comes by standard input.
#[track_caller]
fn refuses_input(sandbox: &Sandbox, needle: &str, args: &[&str], input: &[u8]) {
    let before = dump(sandbox);
    let words = fed(sandbox, &agent("a"), args, input);
    let mut with_json = args.to_vec();
    with_json.push("--json");
    let json = fed(sandbox, &agent("a"), &with_json, input);
    assert_eq!((words.code, json.code), (2, 2), "{needle}: {words:?} {json:?}");
    check_message(&words, &json, needle);
    assert_eq!(dump(sandbox), before, "{needle}");
}

#[test]
fn nothing_is_not_something() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    for (needle, args) in [
        ("title is empty", vec!["add", ""]),
        ("title is empty", vec!["add", " \t\n "]),
        ("body is empty", vec!["add", "x", "-d", ""]),
        ("title is empty", vec!["edit", &id, "--title", ""]),
        ("note is empty", vec!["note", &id, ""]),
        ("note is empty", vec!["done", &id, "-m", ""]),
        ("reason is empty", vec!["handoff", &id, "--to", "agent:b", "--reason", ""]),
        ("reason is empty", vec!["claim", &id, "--reason", ""]),
        ("is not a tag", vec!["add", "x", "--tag", ""]),
        ("is not an origin", vec!["add", "x", "--origin", ""]),
        ("a key has", vec!["add", "x", "--key", ""]),
        ("does not name a task", vec!["show", ""]),
        ("is not an actor", vec!["handoff", &id, "--to", "", "--reason", "r"]),
        ("is not an actor", vec!["claim", &id, "--as", ""]),
        ("it is empty", vec!["claim", &id, "--ttl", ""]),
        ("no change given", vec!["edit", &id]),
        ("give 1 to 20 words", vec!["search", ""]),
    ] {
        refuses_args(&sandbox, needle, &args);
    }
    refuses_input(&sandbox, "title is empty", &["add", "-"], b"");
    refuses_input(&sandbox, "title is empty", &["add", "-"], b"\nonly a body\n");
    refuses_input(&sandbox, "note is empty", &["note", &id, "-"], b" \n");
}

#[test]
fn what_is_too_long_is_refused_at_a_stated_limit() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let mib = "x".repeat(1 << 20);
    refuses_input(&sandbox, "the limit is 500", &["add", "-"], mib.as_bytes());
    refuses_input(&sandbox, "longer than 1048576 bytes", &["add", "-"], format!("{mib}x").as_bytes());
    refuses_input(&sandbox, "the limit is 262144", &["add", "Title", "-d", "-"], mib.as_bytes());
    refuses_input(&sandbox, "the limit is 65536", &["note", &id, "-"], mib.as_bytes());
    refuses_input(&sandbox, "the limit is 65536", &["done", &id, "-m", "-"], mib.as_bytes());

    // The longest single argument that Linux lets through: 32 pages with the closing NUL.
    let longest = "x".repeat(32 * 4096 - 1);
    refuses_args(&sandbox, "the limit is 500", &["add", &longest]);
    refuses_args(&sandbox, "the limit is 500", &["edit", &id, "--title", &longest]);
    refuses_args(&sandbox, "the limit is 65536", &["note", &id, &longest]);
    refuses_args(&sandbox, "the limit is 4096", &["claim", &id, "--reason", &longest]);
    refuses_args(&sandbox, "is not a tag", &["add", "x", "--tag", &longest]);
    refuses_args(&sandbox, "is not an origin", &["add", "x", "--origin", &longest]);
    refuses_args(&sandbox, "is not an actor", &["claim", &id, "--as", &longest]);
    refuses_args(&sandbox, "a key has 1 to 200", &["add", "x", "--key", &longest]);
    refuses_args(&sandbox, "does not name a task", &["claim", &longest]);
    refuses_args(&sandbox, "is not a duration", &["claim", &id, "--ttl", &longest]);
    refuses_args(&sandbox, "unrecognized subcommand", &[&longest]);
    refuses_args(&sandbox, "unexpected argument", &["claim", &format!("--{longest}")[..longest.len()]]);
    refuses(&sandbox, "ONUS_INSTANCE", |command| {
        command.args(["claim", &id]).env("ONUS_INSTANCE", &longest[..100_000]);
    });
    let tags: Vec<String> = (0..51).map(|n| format!("--tag=t{n}")).collect();
    let mut many = vec!["add", "x"];
    many.extend(tags.iter().map(String::as_str));
    refuses_args(&sandbox, "at most 50 tags", &many);

    // At the limit it is kept, whole.
    let title = "ü".repeat(250);
    let body = "y".repeat(262_144);
    let added = fed(&sandbox, &agent("a"), &["add", &title, "-d", "-", "--json"], body.as_bytes());
    let task = added.ok().json();
    assert_eq!((&task["title"], &task["body"]), (&Value::from(title), &Value::from(body)));
    sandbox.is_whole();
}

#[test]
fn a_nul_character_is_refused_wherever_text_is_read() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    refuses_input(&sandbox, "NUL", &["add", "-"], b"before\0after");
    refuses_input(&sandbox, "NUL", &["add", "x", "-d", "-"], b"before\0after");
    refuses_input(&sandbox, "NUL", &["note", &id, "-"], b"before\0after");
    refuses_input(&sandbox, "NUL", &["edit", &id, "-d", "-"], b"before\0after");
    refuses_input(&sandbox, "NUL", &["done", &id, "-m", "-"], b"before\0after");
}

#[test]
fn what_is_not_utf8_is_refused_in_arguments_environment_and_input() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let bad = OsStr::from_bytes(b"caf\xe9");
    let id = OsStr::new(&id);
    let all = |parts: &[&OsStr]| parts.iter().map(|part| OsString::from(*part)).collect::<Vec<_>>();
    let word = OsStr::new;
    for args in [
        all(&[word("add"), bad]),
        all(&[word("note"), id, bad]),
        all(&[word("claim"), bad]),
        all(&[word("claim"), id, word("--ttl"), bad]),
        all(&[word("add"), word("x"), word("--tag"), bad]),
        all(&[word("--as"), bad, word("claim"), id]),
        all(&[bad]),
    ] {
        let needle = if args[0] == bad { "unrecognized subcommand" } else { "UTF-8" };
        refuses(&sandbox, needle, |command| {
            command.args(&args);
        });
    }
    // A name that cannot be read is not the same as none.
    for name in ["ONUS_ACTOR", "ONUS_INSTANCE", "ONUS_TOKEN", "ONUS_TASK", "ONUS_LEASE_TTL"] {
        refuses(&sandbox, &format!("{name} is not UTF-8"), |command| {
            command.args([word("note"), id, word("x")]).env(name, bad);
        });
    }
    refuses_input(&sandbox, "not UTF-8", &["add", "-"], b"caf\xe9");
    refuses_input(&sandbox, "not UTF-8", &["note", &id.to_string_lossy(), "-"], b"caf\xe9");
}

#[test]
fn a_harness_marker_that_cannot_be_read_still_is_one() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let mut command = sandbox.command(&human("ann"));
    command.args(["claim", &id, "--json"]).env("CLAUDECODE", OsStr::from_bytes(b"\xff"));
    assert_eq!(Ran::of(command.output().unwrap()).refused(2)["code"], "identity");
}

#[test]
fn a_folder_whose_name_is_not_utf8_works() {
    let sandbox = Sandbox::empty();
    let folder = sandbox.path().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&folder).unwrap();
    let run = |args: &[&OsStr]| {
        let mut command = sandbox.command(&human("ann"));
        command.current_dir(&folder).args(args).arg("--json");
        Ran::of(command.output().unwrap())
    };
    let word = OsStr::new;
    let odd = OsStr::from_bytes(b"\xe9.out");
    assert_eq!(run(&[word("init"), word("--prefix"), word("ON")]).ok().json()["created"], true);
    run(&[word("add"), word("Fix it")]).ok();
    run(&[word("claim"), word("1")]).ok();
    for args in [
        vec![word("config"), word("files")],
        vec![word("status")],
        vec![word("backup"), odd],
        vec![word("ledger"), word("seal")],
        vec![word("doctor")],
    ] {
        run(&args).ok().json();
    }
    run(&[word("ledger"), word("export"), OsStr::from_bytes(b"\xe9.jsonl")]).ok().json();
    run(&[word("man"), OsStr::from_bytes(b"\xe9.pages")]).ok().json();
    run(&[word("ledger"), word("seal"), word("--out"), OsStr::from_bytes(b"\xe9.seal")]).ok().json();
    assert!(folder.join(odd).exists());
}

#[test]
fn words_that_are_none_are_refused_with_those_there_are() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    for (needle, args) in [
        ("in_progress", vec!["list", "--state", "doing"]),
        ("in_progress", vec!["list", "--state", "open,doing"]),
        ("feature", vec!["add", "x", "--type", "chore"]),
        ("P0", vec!["add", "x", "--priority", "urgent"]),
        ("0, 1, 2 or 3", vec!["add", "x", "--tier", "4"]),
        ("0, 1, 2 or 3", vec!["edit", &id, "--tier", "-1"]),
        ("human:…", vec!["add", "x", "--owner", "agent:b"]),
        ("CHANNEL:REFERENCE", vec!["add", "x", "--origin", "somewhere"]),
        ("SYSTEM:ID", vec!["add", "x", "--ref", "jira"]),
        ("no spaces around it", vec!["add", "x", "--ref", "jira: 7"]),
        ("max_files=N", vec!["add", "x", "--constraint", "max_files"]),
        ("max_files=N", vec!["claim", &id, "--constraint", "nothing"]),
        ("is not a constraint", vec!["edit", &id, "--no-constraint", "max_files=3"]),
        ("is one line", vec!["add", "x", "--acceptance", "two\nlines"]),
        ("is not a line number", vec!["tick", &id, "first"]),
        ("is not a kind of note", vec!["note", &id, "x", "--kind", "rumour"]),
        ("only finishing a task writes", vec!["note", &id, "x", "--kind", "resolution"]),
        ("must be longer than zero", vec!["assign", &id, "--to", "agent:b", "--for", "0", "--reason", "r"]),
        (
            "title, body, note, reason, acceptance or author",
            vec!["redact", &id, "1", "--field", "name", "--reason", "r"],
        ),
        ("3 or v3", vec!["redact", &id, "first", "--reason", "r"]),
        ("use letters", vec!["init", "--prefix", "42"]),
        ("invalid cursor", vec!["list", "--cursor", "yesterday"]),
        ("unknown key", vec!["config", "get", "lease.tll"]),
        ("unknown command", vec!["help", "clam"]),
        ("several lines", vec!["add", "two\nlines"]),
    ] {
        let needle = if needle == "use letters" { "is not a prefix" } else { needle };
        let needle = if args.contains(&"-1") { "unexpected argument '-1'" } else { needle };
        refuses_args(&sandbox, needle, &args);
    }
}

#[test]
fn numbers_and_durations_out_of_range_are_refused() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    for (needle, args) in [
        ("negative", vec!["claim", &id, "--ttl=-5m"]),
        ("unexpected argument", vec!["claim", &id, "--ttl", "-5m"]),
        ("longer than 366 days", vec!["claim", &id, "--ttl", "99999999999999999999h"]),
        ("longer than 366 days", vec!["claim", &id, "--ttl", "9223372036854775807ms"]),
        ("longer than 366 days", vec!["claim", &id, "--ttl", "366d1ms"]),
        ("unit is missing", vec!["claim", &id, "--ttl", "90"]),
        ("unit is unknown", vec!["renew", &id, "--ttl", "5y"]),
        ("use 1 to 10000", vec!["list", "--limit", "0"]),
        ("use 1 to 100000", vec!["log", "-n", "100001"]),
        ("invalid value", vec!["list", "--limit", "99999999999999999999"]),
        ("invalid value", vec!["edit", &id, "--title", "x", "--if-version", "1.5"]),
        ("there is no process", vec!["claim", &id, "--bind", "0"]),
        ("there is no process", vec!["claim", &id, "--bind", "4294967295"]),
        ("invalid value", vec!["claim", &id, "--bind", "4294967296"]),
        ("does not name a task", vec!["show", "99999999999999999999"]),
        ("does not name a task", vec!["show", "ON-99999999999999999999"]),
    ] {
        refuses_args(&sandbox, needle, &args);
    }
    for (name, value) in [
        ("ONUS_LEASE_TTL", "-1m"),
        ("ONUS_LEASE_KEEP", "1e9h"),
        ("ONUS_LEASE_MAX_HOLD", "99999999999999999999h"),
        ("ONUS_LEASE_INDEFINITE_PER_ACTOR", "-1"),
        ("ONUS_FORCE_NEEDS_LINK", "perhaps"),
        ("ONUS_UI_COLOR", "pink"),
    ] {
        refuses(&sandbox, name, |command| {
            command.args(["claim", &id]).env(name, value);
        });
    }
    // The longest that is understood is granted, and reckoned with, without overflow.
    let claimed = sandbox.json(&agent("a"), &["claim", &id, "--ttl", "366d"]).ok().json();
    assert_eq!(claimed["lease"]["ttl_s"], 366 * 24 * 3600);
    sandbox.run(&agent("a"), &["renew", &id, "--ttl", "366d"]).ok();
}

#[test]
fn what_would_repaint_a_terminal_is_shown_escaped_and_kept_as_it_is() {
    let sandbox = Sandbox::new();
    let title = "red \u{1b}[31m, back \u{202e}drawkcab, bell \u{7}, hidden \u{200b}\u{feff}, rubout \u{7f}";
    let id = sandbox.json(&human("ann"), &["add", title, "-d", title]).ok().json()["id"].clone();
    let id = id.as_str().unwrap();
    sandbox.run(&human("ann"), &["note", id, title]).ok();
    sandbox.run(&human("ann"), &["edit", id, "--tag", "a\u{202e}b", "--area", "x\u{2066}y"]).ok();
    // A name that cannot be read is none.
    let odd = crate::contract::kit::instance("agent:a", "conv\u{202e}1");
    assert_eq!(sandbox.json(&odd, &["claim", id]).refused(2)["code"], "identity");
    sandbox.run(&agent("a"), &["claim", id, "--reason", title]).ok();
    assert_eq!(sandbox.show(id)["title"], title);

    let shown: [&[&str]; 11] = [
        &["show", id],
        &["list"],
        &["ready"],
        &["status"],
        &["log"],
        &["log", id],
        &["search", "drawkcab"],
        &["instance", "list"],
        &["doctor"],
        &["claim", id],
        &["done", id, "-m", title],
    ];
    let mut escaped = 0;
    for args in shown {
        let ran = sandbox.run(&agent("b"), args);
        for text in [&ran.stdout, &ran.stderr] {
            let hidden = text.chars().find(|c| {
                (c.is_control() && !matches!(c, '\n' | '\t'))
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
            });
            assert_eq!(hidden, None, "{args:?}: {text:?}");
            escaped += usize::from(text.contains("\\u{202e}"));
        }
    }
    assert!(escaped >= 6, "only {escaped} of the texts showed the escape");
    // The same on a terminal.
    if let Some(seen) =
        crate::contract::kit::on_terminal(&sandbox, &[("ONUS_ACTOR", "human:ann")], &["show", id])
    {
        assert!(
            seen.contains("\\u{202e}") && !seen.contains('\u{202e}') && !seen.contains("\u{1b}[31m,"),
            "{seen:?}"
        );
    }
    // Where a text names something it may not hide at all.
    for args in [
        ["add", "x", "--tag", "a\u{1b}b"],
        ["add", "x", "--origin", "chat:a\u{7}b"],
        ["add", "x", "--key", "a\u{1b}b"],
    ] {
        let ran = sandbox.run(&human("ann"), &args);
        assert_eq!(ran.code, 2, "{args:?}");
        assert!(!ran.stderr.contains(['\u{1b}', '\u{7}']), "{ran:?}");
    }
}

/// A document is shown on terminals, too: what is hidden stands as an escape of JSON's, and means what it meant.
#[test]
fn nothing_hidden_is_printed_raw_in_a_document() {
    let sandbox = Sandbox::new();
    let title = "a\u{9b}31mb\u{202e}c\u{e0041}d";
    let added = sandbox.json(&human("ann"), &["add", title]);
    for ran in
        [added, sandbox.json(&human("ann"), &["list"]), sandbox.json(&human("ann"), &["show", "\u{9b}x"])]
    {
        assert!(!ran.stdout.chars().any(|c| c != '\n' && onus_core::quote::is_hidden(c)), "{ran:?}");
    }
    assert_eq!(sandbox.json(&human("ann"), &["show", "1"]).ok().json()["title"], title);
}
