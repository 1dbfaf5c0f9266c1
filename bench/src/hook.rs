//! What an agent waits for at every edit and every tool call: the hook's whole process, where 200 others hold leases.

use std::fs::File;
use std::process::{Command, Stdio};

use onus_core::command::{Act, Terms};
use onus_core::ids::{Number, TaskRef};
use onus_core::scope::Scope;
use onus_engine::Request;
use onus_store::Access;

use crate::Result;
use crate::claim::{commit, yardstick};
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str =
    "an agent's hooks against an empty program, plus a durable commit where they write";

const ROUNDS: u64 = 7;
const CALLS: u64 = 50;
const TASKS: u64 = 100_000;
const LEASES: u64 = 200;
const GLOBS: u64 = 20;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = place.repository("hook")?;
    repository.fill(&fixture::store(place, TASKS, History::Fresh)?)?;
    hold(&repository)?;
    let yardstick = yardstick(&repository)?;
    let hook = |times: &mut Times, event: &str, file: &str| {
        payload(&repository, event, file)?;
        times.time(|| call(place, &repository))
    };
    hook(&mut Times::default(), "SessionStart", "")?;
    hook(&mut Times::default(), "PreToolUse", "src/mine.rs")?;
    let (mut news, mut olds, mut tools) = (Times::default(), Times::default(), Times::default());
    let (mut empties, mut commits) = (Times::default(), Times::default());
    for round in 0..ROUNDS {
        for times in [&mut news, &mut olds, &mut tools, &mut empties, &mut commits] {
            times.next_round();
        }
        for n in 0..CALLS {
            let number = round * CALLS + n;
            empties.time(|| repository.run(&place.empty, "i", &["hook", "claude"]))?;
            commits.time(|| commit(&yardstick, number))?;
            hook(&mut news, "PreToolUse", &format!("src/new{number}.rs"))?;
            hook(&mut olds, "PreToolUse", "src/mine.rs")?;
            hook(&mut tools, "PostToolUse", "src/mine.rs")?;
        }
    }
    let mut report = Report::default();
    for (what, times) in [
        ("edit of a new file ", &news),
        ("edit of one's own  ", &olds),
        ("after a tool       ", &tools),
        ("empty program      ", &empties),
        ("durable commit     ", &commits),
    ] {
        report.note(format!("{what}{}", times.describe()));
    }
    let least = empties.means().into_iter().zip(commits.means()).map(|(empty, commit)| empty + commit);
    let ratios = news.means().iter().zip(least).map(|(new, least)| new / least).collect();
    report.check("edit of a new file / (empty + commit)", ratios, Target::AtMost(3.0));
    report.check("edit of one's own file / empty", olds.over(&empties), Target::AtMost(3.0));
    report.check("after a tool / empty", tools.over(&empties), Target::AtMost(3.0));
    Ok(report)
}

/// Many live leases, each with a scope.
fn hold(repository: &Repository) -> Result<()> {
    let mut engine = fixture::engine(&repository.store(), Access::Write)?;
    for n in 1..=LEASES {
        let globs = (0..GLOBS).map(|part| format!("src/mod{n}/part{part}/**").parse());
        let scope: Scope = globs.collect::<std::result::Result<_, _>>()?;
        let act = Act::Claim(Terms { scope, ..Terms::default() });
        let task = Some(TaskRef::Number(Number(n)));
        let command = onus_core::command::Command::OnTask { task, act, force: None };
        engine.run(&Request { identity: fixture::identity(&format!("h{n}"))?, command, key: None })?;
    }
    Ok(())
}

/// What a harness says.
fn payload(repository: &Repository, event: &str, file: &str) -> Result<()> {
    let payload = serde_json::json!({
        "session_id": "bench", "hook_event_name": event, "cwd": repository.root, "tool_name": "Write",
        "tool_input": { "file_path": repository.root.join(file), "content": "x".repeat(4_000) },
    });
    Ok(std::fs::write(repository.root.join("payload.json"), payload.to_string())?)
}

/// As a harness calls it, apart from the shell between.
fn call(place: &Place, repository: &Repository) -> Result<()> {
    let output = Command::new(&place.onus)
        .args(["hook", "claude"])
        .env_clear()
        .env("HOME", &repository.root)
        .current_dir(&repository.root)
        .stdin(File::open(repository.root.join("payload.json"))?)
        .stderr(Stdio::null())
        .output()?;
    if !output.status.success() || String::from_utf8_lossy(&output.stdout).contains("deny") {
        return Err(format!("the hook refused: {}", String::from_utf8_lossy(&output.stdout)).into());
    }
    Ok(())
}
