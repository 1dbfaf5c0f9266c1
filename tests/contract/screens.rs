//! Screens as people see them: 60, 80 and 140 columns, short and long titles, double-width characters, many holders. The
//! snapshots were looked at; no line is wider than its screen unless a holder's name is.

use unicode_width::UnicodeWidthStr as _;

use crate::contract::kit::run_with;
use crate::contract::people::ad_hoc;
use crate::support::{As, Sandbox, agent, human, is_written};

/// Times and processes differ from run to run.
fn masked(text: &str) -> String {
    let spans =
        regex::Regex::new(r"\b\d+ (?:ms|s|min|h)(?: \d+ (?:s|min))?\b|\b\d+(?:ms|s|m|h)(?:\d+(?:s|m))?\b")
            .unwrap();
    let times = regex::Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d|\b\d\d:\d\d:\d\d\b").unwrap();
    let uids = regex::Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}").unwrap();
    let text = times.replace_all(text, "TIME");
    let text = uids.replace_all(&text, "UID");
    spans.replace_all(&text, "SPAN").into_owned()
}

/// Where a line is broken depends on how long something took: in a snapshot it is whole again.
fn unbroken(args: &[&str], text: &str) -> String {
    let indent = match args {
        ["log", ..] => "  ",
        ["status"] | ["why", _] | ["ready", "--explain"] => "      ",
        _ => return masked(text),
    };
    let whole = regex::Regex::new(&format!(r"\n{indent}(\S)")).unwrap();
    masked(&whole.replace_all(text, " $1"))
}

fn busy() -> Sandbox {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    let long = "Cut the list of orders into pages of fifty, keep their order, and do not ask the database twice for what one \
                question answers, not even on the last page, where the count is wrong today";
    assert!(long.len() > 180);
    for (title, more) in [
        ("Fix login", &["-t", "bug", "-p", "0"] as &[&str]),
        (long, &["-t", "feature", "-p", "1"]),
        (
            "支付页面在双倍宽度字符下也要对齐，不能把右边的列挤出屏幕，哪怕标题很长很长很长很长很长很长很长",
            &["-p", "1"],
        ),
        ("Ship 🚀 it", &[]),
        (long, &["-p", "3"]),
        ("Upgrade", &["-t", "epic"]),
        ("Rotate keys", &[]),
        ("Old ideas", &["--propose"]),
    ] {
        let args: Vec<&str> = ["add", title].into_iter().chain(more.iter().copied()).collect();
        sandbox.run(&ann, &args).ok();
    }
    sandbox
        .run(
            &As { actor: "agent:claude".into(), instance: "0193f6d2-conversation".into() },
            &["claim", "1", "--ttl", "45m"],
        )
        .ok();
    sandbox.run(&agent("codex"), &["claim", "2"]).ok();
    sandbox
        .run(&agent("codex"), &["submit", "2", "-m", "See the branch pages; the last page is tested"])
        .ok();
    sandbox.run(&ann, &["dep", "add", "3", "1", "5"]).ok();
    sandbox.run(&agent("gemini"), &["block", "4", "-m", "Which of the two providers is it going to be? Both have their quirks, and both cost money\nsee the thread"]).ok();
    sandbox.run(&ann, &["edit", "7", "--parent", "6"]).ok();
    sandbox.run(&ann, &["claim", "7"]).ok();
    ad_hoc(&sandbox, "notes.md");
    sandbox
}

fn at(sandbox: &Sandbox, width: usize, args: &[&str]) -> String {
    let columns = width.to_string();
    run_with(sandbox, &human("ann"), &[("COLUMNS", &columns)], args).ok().stdout.clone()
}

#[test]
fn lists_status_and_cards_at_three_widths() {
    let sandbox = busy();
    let mut screens = String::new();
    for width in [60, 80, 140] {
        for args in [
            &["list"] as &[&str],
            &["ready"],
            &["blocked"],
            &["status"],
            &["dep", "list", "3"],
            &["show", "2"],
            &["log", "2"],
            &["why", "3"],
            &["ready", "--explain"],
        ] {
            let shown = at(&sandbox, width, args);
            // A step is copied as it is; everything else fits.
            for line in shown.lines().filter(|line| !line.trim_start().starts_with("next: ")) {
                assert!(line.width() <= width, "{args:?} at {width}: {line}");
            }
            let shown = unbroken(args, &shown);
            screens.push_str(&format!("{} onus {}\n{shown}\n", "=".repeat(width), args.join(" ")));
        }
    }
    is_written("tests/contract/snapshots/screens.txt", &screens);
}

#[test]
fn thirty_holders_stand_in_line() {
    let sandbox = Sandbox::new();
    for n in 1..=30 {
        let title =
            if n % 2 == 0 { "A short one".to_owned() } else { "A title that goes on for a while ".repeat(4) };
        sandbox.add(title.trim());
        let who = As { actor: format!("agent:worker-{n}"), instance: format!("conversation-{n}") };
        sandbox.run(&who, &["claim", &n.to_string(), "--ttl", "1h"]).ok();
    }
    let mut screens = String::new();
    for width in [60, 80, 140] {
        let shown = masked(&at(&sandbox, width, &["list"]));
        for n in 1..=30 {
            assert!(
                shown.contains(&format!("agent:worker-{n} (conversation-{n})")),
                "{n} at {width}:\n{shown}"
            );
        }
        let first: Vec<&str> = shown.lines().take(6).collect();
        screens.push_str(&format!("{} onus list\n{}\n", "=".repeat(width), first.join("\n")));
    }
    is_written("tests/contract/snapshots/holders.txt", &screens);
    // Nobody says how wide it is: nothing is cut.
    let piped = sandbox.run(&human("ann"), &["list"]).ok().stdout.clone();
    assert!(!piped.contains('…') && piped.lines().count() == 30, "{piped}");
}

/// Sessions, reports, notices and refusals, too; a row that has no room takes more lines.
#[test]
fn nothing_is_wider_than_a_narrow_screen() {
    let sandbox = busy();
    let columns = [("COLUMNS", "60")];
    let fits = |args: &[&str], text: &str| {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("next: ")) {
            assert!(line.width() <= 60, "{args:?}: {line}");
        }
    };
    for args in [&["sessions"] as &[&str], &["report", "standup"], &["report", "flow"], &["timesheet"]] {
        fits(args, &at(&sandbox, 60, args));
    }
    let sessions = at(&sandbox, 60, &["sessions"]);
    assert!(sessions.contains("outcome") && sessions.contains("running"), "{sessions}");
    let args = ["claim", "1"];
    let refused = run_with(&sandbox, &agent("other"), &columns, &args);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.lines().count() > 2, "{refused:?}");
    fits(&args, &refused.stderr);
}

/// As `git branch` does.
#[test]
fn a_group_without_a_command_lists_what_it_is_about() {
    let sandbox = busy();
    let ann = human("ann");
    for (group, verb) in
        [("actor", "list"), ("instance", "list"), ("seat", "list"), ("rescue", "list"), ("trust", "list")]
    {
        let listed = sandbox.run(&ann, &[group, verb]).ok().stdout.clone();
        assert_eq!(sandbox.run(&ann, &[group]).ok().stdout, listed, "{group}");
    }
    let holder = agent("one");
    let id = sandbox.add("mine");
    sandbox.run(&holder, &["claim", &id, "--scope", "src/a.rs"]).ok();
    for (group, verb) in [("scope", "show"), ("dep", "list")] {
        let bare = sandbox.json(&holder, &[group]).ok().json();
        assert_eq!(bare, sandbox.json(&holder, &[group, verb]).ok().json(), "{group}");
    }
    // What stands for another command does so at the top alone.
    let wrong = sandbox.run(&ann, &["seat", "delete"]);
    assert!(wrong.code == 2 && !wrong.stderr.contains("dropped"), "{wrong:?}");
    let wrong = sandbox.run(&ann, &["delete", "1"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("dropped"), "{wrong:?}");
}
