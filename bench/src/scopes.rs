//! What scopes cost a claim and a first touch, where many are live.

use onus_core::command::{Act, Command, Terms};
use onus_core::scope::{Glob, Scope};
use onus_store::Access;

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::Place;

pub(crate) const ABOUT: &str = "a claim with 20 globs and a first touch beside 200 live leases with 20 globs each, against a claim without scopes";

const LEASES: u64 = 200;
const GLOBS: u64 = 20;
const ROUNDS: u64 = 7;
const CLAIMS: u64 = 30;
const TASKS: u64 = 1_000;

/// Folders of their own, and of every kind: files, folders, names anywhere, alternatives.
fn globs(owner: &str) -> Vec<String> {
    (0..GLOBS)
        .map(|n| match n % 5 {
            0 => format!("src/{owner}/part{n}/**"),
            1 => format!("src/{owner}/file{n}.rs"),
            2 => format!("snapshots/**/{owner}_{n}_*.snap"),
            3 => format!("{{src,tests}}/{owner}/[a-m]{n}*.rs"),
            _ => format!("docs/*/{owner}-{n}.md"),
        })
        .collect()
}

fn scope(owner: &str) -> Result<Scope> {
    Ok(globs(owner).iter().map(|glob| glob.parse::<Glob>()).collect::<std::result::Result<_, _>>()?)
}

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = fixture::repository(place, "scopes", TASKS, History::Fresh)?;
    let mut engine = fixture::engine(&repository.store(), Access::Write)?;
    let claim = |number: u64, instance: &str, scope: Scope| {
        fixture::on_task(number, instance, Act::Claim(Terms { scope, ..Terms::default() }))
    };
    for n in 1..=LEASES {
        engine.run(&claim(n, &format!("h{n}"), scope(&format!("mod{n}"))?)?)?;
    }
    let (mut with, mut without, mut touch) = (Times::default(), Times::default(), Times::default());
    let (mut with_inside, mut without_inside) = (Times::default(), Times::default());
    let mut touch_inside = Times::default();
    let mut number = LEASES + 1;
    engine.run(&claim(number, "toucher", Scope::default())?)?;
    for round in 0..ROUNDS {
        let whole = [&mut with, &mut without, &mut touch];
        let inside = [&mut with_inside, &mut without_inside, &mut touch_inside];
        whole.into_iter().chain(inside).for_each(Times::next_round);
        for n in 0..CLAIMS / 2 {
            let (owner, instance) = (format!("new{n}"), format!("c{number}"));
            let words = globs(&owner);
            let mut args: Vec<&str> = Vec::new();
            for glob in &words {
                args.extend(["--scope", glob]);
            }
            let ids: Vec<String> = (1..=4).map(|more| (number + more).to_string()).collect();
            number += 4;
            without.time(|| repository.run(&place.onus, &instance, &["claim", &ids[0]]))?;
            let call: Vec<&str> = ["claim", ids[1].as_str()].into_iter().chain(args).collect();
            with.time(|| repository.run(&place.onus, &instance, &call))?;
            let request = claim(number - 1, &format!("{instance}a"), Scope::default())?;
            without_inside.time(|| Ok(engine.run(&request)?))?;
            // The process above holds its globs: these are others.
            let request = claim(number, &format!("{instance}b"), scope(&format!("inside{n}"))?)?;
            with_inside.time(|| Ok(engine.run(&request)?))?;
            // A file in a folder where every lease has some glob.
            let file = format!("docs/{round}/new-{n}.md");
            touch.time(|| repository.run(&place.onus, "toucher", &["touch", &file]))?;
            let act = Act::Touch {
                paths: vec![format!("docs/{round}/inside-{n}.md")],
                touched: Default::default(),
                extent: Default::default(),
            };
            let request = fixture::request("toucher", Command::OnTask { task: None, act, force: None })?;
            touch_inside.time(|| Ok(engine.run(&request)?))?;
            for id in [&ids[1], &ids[3]] {
                let instance = if id == &ids[1] { instance.clone() } else { format!("{instance}b") };
                repository.run(&place.onus, &instance, &["release", id])?;
            }
        }
    }
    let mut report = Report::default();
    report.note(format!("process, without  {}", without.describe()));
    report.note(format!("process, with     {}", with.describe()));
    report.note(format!("process, touch    {}", touch.describe()));
    report.note(format!("inside, without   {}", without_inside.describe()));
    report.note(format!("inside, with      {}", with_inside.describe()));
    report.note(format!("inside, touch     {}", touch_inside.describe()));
    report.check("whole process, with / without", with.over(&without), Target::AtMost(3.0));
    report.check("inside, with / without", with_inside.over(&without_inside), Target::AtMost(3.0));
    report.check("whole process, touch / without", touch.over(&without), Target::AtMost(3.0));
    report.check("inside, touch / without", touch_inside.over(&without_inside), Target::AtMost(3.0));
    Ok(report)
}
