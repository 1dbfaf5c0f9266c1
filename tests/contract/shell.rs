//! Beside the work: completions, manual pages, aliases, colours, and a reader that goes away.

use std::process::{Command, Stdio};

use crate::contract::kit::{claim, fed, is_missing, on_terminal};
use crate::support::{Ran, Sandbox, agent, human};

#[test]
fn completions_are_scripts_that_their_shells_can_read() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(&human("ann"), &["completions", shell]).ok().stdout.clone();
        // It knows the commands, or asks for them.
        assert!(script.contains("takeover") || script.contains("__complete"), "{shell}");
        let file = sandbox.path().join(format!("onus.{shell}"));
        std::fs::write(&file, &script).unwrap();
        let flag = if shell == "fish" { "--no-execute" } else { "-n" };
        if matches!(shell, "elvish" | "powershell") {
            continue;
        }
        match Command::new(shell).arg(flag).arg(&file).output() {
            Ok(ran) => assert!(ran.status.success(), "{shell}: {ran:?}"),
            Err(error) => {
                assert!(is_missing(&error), "{shell}: {error}");
                eprintln!("{shell} is not here: its script is not read by it");
            }
        }
    }
    assert_eq!(sandbox.run(&human("ann"), &["completions", "tcsh"]).code, 2);
}

/// What bash offers for a line whose end is where the cursor is.
fn completed(sandbox: &Sandbox, line: &str) -> Vec<String> {
    let script = sandbox.run(&human("ann"), &["completions", "bash"]).ok().stdout.clone();
    std::fs::write(sandbox.path().join("onus.bash"), script).unwrap();
    let line = line.replacen("onus", crate::support::ONUS, 1);
    let bash = "source onus.bash; COMP_LINE=$1; COMP_POINT=${#1}; _onus; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = sandbox.anonymous();
    let env: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect();
    command = Command::new("bash");
    command.args(["-c", bash, "bash", &line]).current_dir(sandbox.path()).env_clear().envs(env);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    ran.stdout.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn completions_know_tasks_states_actors_and_keys_and_write_nothing() {
    let sandbox = Sandbox::new();
    let (one, two) = (sandbox.add("Fix it"), sandbox.add("Drop it; $(touch x)"));
    sandbox.run(&human("ann"), &["drop", &two]).ok();
    claim(&sandbox, &agent("a"), &one);
    let before = crate::contract::kit::dump(&sandbox);
    for (line, offers) in [
        ("onus take", vec!["takeover"]),
        ("onus show ON-", vec!["ON-1", "ON-2"]),
        ("onus claim O", vec!["ON-1"]),
        ("onus claim 1", vec!["1"]),
        ("onus reopen ", vec!["ON-2"]),
        ("onus list --state rev", vec!["review"]),
        ("onus list --state=rev", vec!["review"]),
        ("onus list --holder ag", vec!["agent:a"]),
        // Bash has broken the word at the colon: what is before it stands there already.
        ("onus list --holder agent:", vec!["a"]),
        ("onus config get lease.tt", vec!["lease.ttl"]),
        ("onus help taked", vec![]),
    ] {
        assert_eq!(completed(&sandbox, line), offers, "{line}");
    }
    assert_eq!(crate::contract::kit::dump(&sandbox), before, "nobody changed anything");
    // Where there is no store nothing is said either.
    let elsewhere = Sandbox::empty();
    assert_eq!(completed(&elsewhere, "onus show O"), Vec::<String>::new());
}

#[test]
fn manual_pages_render() {
    let sandbox = Sandbox::new();
    sandbox.run(&human("ann"), &["man", "new/pages"]).ok();
    let folder = sandbox.path().join("new/pages");
    for page in ["onus.1", "onus-claim.1", "onus-ledger-verify.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.starts_with(".ie") || text.contains(".TH"), "{page}");
        match Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(folder.join(page)).output() {
            Ok(ran) => assert!(ran.status.success(), "{page}: {ran:?}"),
            Err(error) => assert!(is_missing(&error), "{error}"),
        }
    }
    let main = sandbox.run(&human("ann"), &["man"]).ok().stdout.clone();
    for part in [".TH onus", "EXIT STATUS", "ENVIRONMENT", "ONUS_ACTOR", "FILES", "onus.toml"] {
        assert!(main.contains(part), "{part}");
    }
    assert!(std::fs::read_to_string(folder.join("onus-claim.1")).unwrap().contains("EXIT STATUS"));
}

#[test]
fn close_complete_and_finish_are_done() {
    let sandbox = Sandbox::new();
    for word in ["done", "close", "complete", "finish"] {
        let id = sandbox.add("Fix it");
        claim(&sandbox, &agent("a"), &id);
        assert_eq!(sandbox.json(&agent("a"), &[word, "-m", "fixed"]).ok().json()["state"], "done", "{word}");
    }
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let ann = ("ONUS_ACTOR", "human:ann");
    assert!(!sandbox.run(&human("ann"), &["show", &id]).stdout.contains('\u{1b}'));
    let Some(seen) = on_terminal(&sandbox, &[ann], &["show", &id]) else { return };
    assert!(seen.contains('\u{1b}'), "{seen:?}");
    let plain = on_terminal(&sandbox, &[ann, ("NO_COLOR", "1")], &["show", &id]).unwrap();
    assert!(!plain.contains('\u{1b}') && plain.contains("Fix it"), "{plain:?}");
    let empty = on_terminal(&sandbox, &[ann, ("NO_COLOR", "")], &["show", &id]).unwrap();
    assert!(empty.contains('\u{1b}'), "an empty NO_COLOR is not set");
    let json = on_terminal(&sandbox, &[ann], &["show", &id, "--json"]).unwrap();
    assert!(!json.contains('\u{1b}'), "{json:?}");
    let help = on_terminal(&sandbox, &[ann, ("NO_COLOR", "1")], &["claim", "--help"]).unwrap();
    assert!(!help.contains('\u{1b}'), "{help:?}");
}

/// Runs a command whose reader is gone before it writes.
fn unread(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let mut child = sandbox.command(&human("ann"));
    let child = child.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    let ran = child.wait_with_output().unwrap();
    Ran::of(ran)
}

#[test]
fn a_reader_that_goes_away_is_no_accident() {
    let sandbox = Sandbox::new();
    for n in 0..200 {
        let title = format!("Task number {n} with a title long enough to fill pipes");
        sandbox.run(&human("ann"), &["add", &title]).ok();
    }
    let commands: [&[&str]; 10] = [
        &["list", "--limit", "1000"],
        &["list", "--limit", "1000", "--json"],
        &["log", "-n", "1000"],
        &["show", "1"],
        &["status"],
        &["help"],
        &["claim", "--help"],
        &["ledger", "export"],
        &["man"],
        &["completions", "bash"],
    ];
    for args in commands {
        let ran = unread(&sandbox, args);
        assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("unexpected"), "{args:?}: {ran:?}");
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    }
    // What was to be changed is changed, whether or not anybody reads the answer.
    assert_eq!(unread(&sandbox, &["claim", "1"]).code, 0);
    assert_eq!(sandbox.show("1")["state"], "in_progress");
    // As in a shell.
    let line = format!("'{}' list --limit 1000 | head -0", crate::support::ONUS);
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", &line]).current_dir(sandbox.path()).env("ONUS_ACTOR", "human:ann");
    let ran = Ran::of(shell.output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn an_answer_that_is_lost_on_its_way_to_a_file_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix it");
    for args in [vec!["list"], vec!["list", "--json"], vec!["ledger", "export"], vec!["show", "1"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(sandbox.command(&human("ann")).args(&args).stdout(full).output().unwrap());
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("cannot write") && !ran.stderr.contains("panicked"), "{ran:?}");
    }
}

#[test]
fn text_comes_from_standard_input_where_a_dash_stands() {
    let sandbox = Sandbox::new();
    let added =
        fed(&sandbox, &human("ann"), &["add", "-", "--json"], b"The title\n\nThe body,\nin two lines.\n");
    let task = added.ok().json();
    assert_eq!((&task["title"], &task["body"]), (&"The title".into(), &"The body,\nin two lines.".into()));
    fed(&sandbox, &human("ann"), &["note", "1", "-"], "Grüße".as_bytes()).ok();
    assert_eq!(sandbox.show("1")["notes"][0]["text"], "Grüße");
    fed(&sandbox, &human("ann"), &["done", "1", "-m", "-"], b"done so").ok();
    assert_eq!(sandbox.show("1")["notes"][1]["text"], "done so");
    let both = fed(&sandbox, &human("ann"), &["add", "-", "-d", "-", "--json"], b"x");
    assert_eq!(both.code, 2);
}

#[test]
fn another_folder_is_entered_first() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let elsewhere = Sandbox::empty();
    let mut command = elsewhere.command(&agent("a"));
    command.args(["show", &id, "--json", "-C"]).arg(sandbox.path());
    assert_eq!(Ran::of(command.output().unwrap()).ok().json()["id"], id.as_str());
    let mut command = elsewhere.command(&agent("a"));
    assert_eq!(
        Ran::of(command.args(["-C", "not/there", "list", "--json"]).output().unwrap()).refused(2)["code"],
        "usage"
    );
}
