//! What an agent waits for around every command of its shell: the hooks that remember it and look at what it changed, where
//! 200 files are reserved in a repository of 50,000.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::harness::{self, Harness};
use crate::measure::{Report, Target, Times};
use crate::place::{Place, many_files};

pub(crate) const ABOUT: &str =
    "the hooks around a command that changes nothing against those of a tool that is no shell";

const ROUNDS: u64 = 7;
const CALLS: u64 = 40;
const RESERVED: usize = 200;
const HOLDERS: usize = 4;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = place.repository("shell")?;
    let root = &repository.root;
    many_files(root)?;
    fs::write(root.join(".gitignore"), "/payload.json\n")?;
    for args in [&["init", "-q"] as &[&str], &["add", "."], &["commit", "-q", "-m", "all"]] {
        git(root, args)?;
    }
    repository.run(&place.onus, "bench", &["init"])?;
    let harness = Harness { onus: &place.onus, repository: &repository };
    let hook =
        |times: &mut Times, session: &str, event: &str, tool: &str, file: &str, budget: &str| -> Result<()> {
            harness.write(harness::Report { session, event, tool, file })?;
            times.time(|| harness.call(&[("ONUS_GUARD_TREE_BUDGET", budget)]))
        };
    for n in 0..RESERVED {
        let (who, file) = (format!("holder-{}", n % HOLDERS), format!("src/{n}/f{n}.rs"));
        hook(&mut Times::default(), &who, "PreToolUse", "Write", &file, "0")?;
        hook(&mut Times::default(), &who, "PostToolUse", "Write", &file, "0")?;
    }
    hook(&mut Times::default(), "bench", "SessionStart", "", "", "0")?;
    let (mut befores, mut afters, mut trees) = (Times::default(), Times::default(), Times::default());
    let (mut edits, mut tools) = (Times::default(), Times::default());
    hook(&mut Times::default(), "bench", "PreToolUse", "Write", "src/300/f300.rs", "0")?;
    hook(&mut Times::default(), "bench", "PostToolUse", "Write", "src/300/f300.rs", "0")?;
    for _ in 0..ROUNDS {
        [&mut befores, &mut afters, &mut trees, &mut edits, &mut tools]
            .into_iter()
            .for_each(Times::next_round);
        for _ in 0..CALLS {
            hook(&mut edits, "bench", "PreToolUse", "Write", "src/300/f300.rs", "0")?;
            hook(&mut tools, "bench", "PostToolUse", "Read", "src/300/f300.rs", "0")?;
            hook(&mut befores, "bench", "PreToolUse", "Bash", "", "0")?;
            hook(&mut afters, "bench", "PostToolUse", "Bash", "", "0")?;
            hook(&mut Times::default(), "bench", "PreToolUse", "Bash", "", "0")?;
            hook(&mut trees, "bench", "PostToolUse", "Bash", "", "200ms")?;
        }
    }
    let mut report = Report::default();
    for (what, times) in [
        ("before a command          ", &befores),
        ("after it, without the tree", &afters),
        ("after it, with the tree   ", &trees),
        ("edit of one's own         ", &edits),
        ("after another tool        ", &tools),
    ] {
        report.note(format!("{what} {}", times.describe()));
    }
    report.check("after a command / after another tool", afters.over(&tools), Target::AtMost(2.0));
    report.check("before a command / edit of one's own", befores.over(&edits), Target::AtMost(2.0));
    Ok(report)
}

pub(crate) fn git(root: &Path, args: &[&str]) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]).args(args);
    match command.current_dir(root).status()?.success() {
        true => Ok(()),
        false => Err(format!("git {}", args.join(" ")).into()),
    }
}
