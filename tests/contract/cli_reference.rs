//! The command reference in the manual is the program's own help, page by page.

use crate::contract::kit::{commands, documented};
use crate::support::{Sandbox, human};

fn help(sandbox: &Sandbox, path: &[&str]) -> String {
    let mut args = vec!["help"];
    args.extend(path);
    sandbox.run(&human("ann"), &args).ok().stdout.trim_end().to_owned()
}

/// The names under "Commands:" in a page of help.
fn subcommands(page: &str) -> Vec<String> {
    let names =
        page.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_command_reference_in_the_manual_is_the_programs_help() {
    let sandbox = Sandbox::empty();
    let overview = help(&sandbox, &["--all"]);
    // In the order of the overview: the daily ones first.
    let names = overview
        .lines()
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.collect();
    assert_eq!(names.len(), commands(&sandbox).len());
    let mut page = format!(
        "# Command reference\n\nWhat `onus help` says, command by command. This page is made from the program: \
         `ONUS_UPDATE=1 cargo test` writes it.\n\n```text\n{overview}\n```\n"
    );
    let mut pages = 0;
    for name in names {
        let text = help(&sandbox, &[name]);
        page.push_str(&format!("\n## onus {name}\n\n```text\n{text}\n```\n"));
        for sub in subcommands(&text) {
            let text = help(&sandbox, &[name, &sub]);
            page.push_str(&format!("\n### onus {name} {sub}\n\n```text\n{text}\n```\n"));
            pages += 1;
        }
        pages += 1;
    }
    assert!(pages > 45, "only {pages} pages: the walk went wrong");
    documented("cli.md", &page);
}

#[test]
fn help_is_the_same_however_it_is_asked_for() {
    let sandbox = Sandbox::empty();
    let run = |args: &[&str]| sandbox.run(&human("ann"), args).ok().stdout.clone();
    assert_eq!(run(&[]), run(&["help"]));
    assert_eq!(run(&["--help"]), run(&["help"]));
    assert_eq!(run(&["claim", "--help"]).trim_end(), help(&sandbox, &["claim"]));
    assert_eq!(run(&["ledger", "verify", "--help"]).trim_end(), help(&sandbox, &["ledger", "verify"]));
    for name in ["add", "ready", "claim", "note", "done", "release", "show", "status"] {
        assert!(run(&["help"]).contains(&format!("  {name} ")), "{name} is one of the daily ones");
    }
    assert!(!run(&["help"]).contains("  ledger "));
}

#[test]
fn every_option_is_explained() {
    let sandbox = Sandbox::empty();
    for name in commands(&sandbox) {
        let mut pages = vec![vec![name.clone()]];
        pages.extend(subcommands(&help(&sandbox, &[&name])).into_iter().map(|sub| vec![name.clone(), sub]));
        for path in pages {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let text = help(&sandbox, &path);
            let first = text.lines().next().unwrap_or_default();
            assert!(
                !first.is_empty() && !first.starts_with("Usage:"),
                "{path:?} does not say what it is for"
            );
            let lines: Vec<&str> = text.lines().collect();
            for (at, line) in lines.iter().enumerate() {
                let trimmed = line.trim_start();
                if trimmed.starts_with("[possible values") || trimmed.starts_with("[default") {
                    continue;
                }
                if !line.starts_with("  ") || !(trimmed.starts_with('-') || trimmed.starts_with(['<', '['])) {
                    continue;
                }
                // Short pages explain beside the option, long ones below it.
                let below = lines
                    .get(at + 1)
                    .is_some_and(|below| below.starts_with("          ") && !below.trim().is_empty());
                let beside = trimmed.split("  ").nth(1).is_some();
                assert!(below || beside, "{path:?}: nothing is said about {trimmed}");
            }
        }
    }
}
