//! What an agent waits for at every edit and every tool call: the hook's whole process, where 200 others hold leases.

use onus_core::command::{Act, Terms};
use onus_core::scope::Scope;
use onus_store::Access;

use crate::Result;
use crate::claim::{commit, yardstick};
use crate::fixture::{self, History};
use crate::harness::{self, Harness};
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
    let repository = fixture::repository(place, "hook", TASKS, History::Fresh)?;
    hold(&repository)?;
    let yardstick = yardstick(&repository)?;
    let harness = Harness { onus: &place.onus, repository: &repository };
    let hook = |times: &mut Times, event: &str, file: &str| {
        harness.write(harness::Report { session: "bench", event, tool: "Write", file })?;
        times.time(|| harness.call(&[]))
    };
    hook(&mut Times::default(), "SessionStart", "")?;
    hook(&mut Times::default(), "PreToolUse", "src/mine.rs")?;
    let (mut news, mut olds, mut tools) = (Times::default(), Times::default(), Times::default());
    let (mut empties, mut commits) = (Times::default(), Times::default());
    for round in 0..ROUNDS {
        [&mut news, &mut olds, &mut tools, &mut empties, &mut commits]
            .into_iter()
            .for_each(Times::next_round);
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
        engine.run(&fixture::on_task(n, &format!("h{n}"), act)?)?;
    }
    Ok(())
}
