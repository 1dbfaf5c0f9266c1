//! Two builds of `onus`, one after the other, whole processes: what an agent waits for most. Each has a store of its own, made by
//! itself, so that builds with different tables can be compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde_json::json;

use crate::Result;
use crate::harness::{Harness, Report, succeed};
use crate::measure::{median, microseconds, quantile};
use crate::place::{Place, Repository, as_read_from_disk};

pub(crate) const USAGE: &str = "compare OLD NEW [--instructions]";

const ROUNDS: u64 = 9;
const CALLS: u64 = 20;
/// Instructions hardly differ from run to run.
const COUNTED_CALLS: u64 = 5;
const LEASES: u64 = 200;
const GLOBS: u64 = 20;

/// What is run, with the process that is measured last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Claim,
    NewFile,
    OwnFile,
    AfterTool,
}

const CASES: [(&str, Case); 4] = [
    ("claim", Case::Claim),
    ("hook, edit of a new file", Case::NewFile),
    ("hook, edit of one's own", Case::OwnFile),
    ("hook, after a tool", Case::AfterTool),
];

/// One of the two, with its store.
#[derive(Debug)]
struct Build {
    onus: PathBuf,
    repository: Repository,
}

/// What one process cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    processor_us: f64,
    page_faults: f64,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let [old, new, options @ ..] = args else { return Err(format!("usage: onus-bench {USAGE}").into()) };
    let counts_instructions = match options {
        [] => false,
        [option] if option == "--instructions" => true,
        _ => return Err(format!("usage: onus-bench {USAGE}").into()),
    };
    let place = Place::prepare(false)?;
    let calls = if counts_instructions { COUNTED_CALLS } else { ROUNDS * CALLS };
    let [old, new] =
        [("old", old), ("new", new)].map(|(name, onus)| Build::prepare(&place, name, onus, calls));
    let builds = [old?, new?];
    for (name, case) in CASES {
        println!("\n{name}");
        match counts_instructions {
            true => instructions(&builds, case)?,
            false => processor_time(&builds, case)?,
        }
    }
    Ok(())
}

/// In turn, and each first as often as the other.
fn processor_time(builds: &[Build; 2], case: Case) -> Result<()> {
    let mut ratios = Vec::new();
    let mut costs = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let mut sums = [0.0, 0.0];
        for call in 0..CALLS {
            let order = if call % 2 == 0 { [0, 1] } else { [1, 0] };
            for which in order {
                let mut command = builds[which].command(case, round * CALLS + call)?;
                let cost = cost_of(|| succeed(&mut command))?;
                sums[which] += cost.processor_us;
                costs[which].push(cost);
            }
        }
        ratios.push(sums[1] / sums[0]);
    }
    for (name, costs) in ["old", "new"].iter().zip(&costs) {
        let of = |value: fn(&Cost) -> f64| median(&costs.iter().map(value).collect::<Vec<_>>());
        let (time, faults) = (microseconds(of(|cost| cost.processor_us)), of(|cost| cost.page_faults));
        println!("  {name}  {time} of processor time, {faults:.0} page faults (medians)");
    }
    let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(&ratios, part));
    println!("  new / old  {middle:.3}  (quartiles {low:.3} to {high:.3}, {ROUNDS} rounds of {CALLS})");
    Ok(())
}

fn instructions(builds: &[Build; 2], case: Case) -> Result<()> {
    let mut medians = [0.0, 0.0];
    for (which, build) in builds.iter().enumerate() {
        let mut counts = Vec::new();
        for call in 0..COUNTED_CALLS {
            let command = build.command(case, call)?;
            counts.push(instructions_of(&command, build.stdin(case)?)?);
        }
        medians[which] = median(&counts);
    }
    let [old, new] = medians;
    let millions = |count: f64| count / 1e6;
    println!(
        "  old {:.2} million instructions, new {:.2}: new / old {:.3}",
        millions(old),
        millions(new),
        new / old
    );
    Ok(())
}

impl Build {
    /// A store with a task for each claim, and 200 live leases of 20 globs each.
    fn prepare(place: &Place, name: &str, onus: &str, calls: u64) -> Result<Build> {
        let onus = Path::new(onus).canonicalize().map_err(|error| format!("{onus}: {error}"))?;
        as_read_from_disk(&onus)?;
        let build = Build { onus, repository: place.repository(&format!("compare-{name}"))? };
        let run = |instance: &str, args: &[&str]| build.repository.run(&build.onus, instance, args);
        run("bench", &["init", "--prefix", "B"])?;
        let tasks: Vec<_> = (0..LEASES + calls).map(|n| json!({ "title": format!("task {n}") })).collect();
        fs::write(build.repository.root.join("plan.json"), json!({ "tasks": tasks }).to_string())?;
        run("bench", &["add", "--file", "plan.json"])?;
        for n in 1..=LEASES {
            let task = n.to_string();
            let globs: Vec<String> = (0..GLOBS).map(|part| format!("src/mod{n}/part{part}/**")).collect();
            let scopes = globs.iter().flat_map(|glob| ["--scope", glob]);
            let args: Vec<&str> = ["claim", &task].into_iter().chain(scopes).collect();
            run(&format!("h{n}"), &args)?;
        }
        for (event, file) in [("SessionStart", ""), ("PreToolUse", OWN_FILE), ("PostToolUse", OWN_FILE)] {
            succeed(&mut build.hook(event, file)?)?;
        }
        Ok(build)
    }

    fn command(&self, case: Case, call: u64) -> Result<Command> {
        match case {
            Case::Claim => {
                let mut command = self.repository.command(&self.onus, &format!("i{call}"));
                command.args(["claim", &(LEASES + call + 1).to_string()]);
                Ok(command)
            }
            Case::NewFile => self.hook("PreToolUse", &format!("src/new{call}.rs")),
            Case::OwnFile => self.hook("PreToolUse", OWN_FILE),
            Case::AfterTool => self.hook("PostToolUse", OWN_FILE),
        }
    }

    fn harness(&self) -> Harness<'_> {
        Harness { onus: &self.onus, repository: &self.repository }
    }

    fn hook(&self, event: &str, file: &str) -> Result<Command> {
        self.harness().write(Report { session: "bench", event, tool: "Write", file })?;
        self.harness().command()
    }

    /// What the command reads.
    fn stdin(&self, case: Case) -> Result<Stdio> {
        match case {
            Case::Claim => Ok(Stdio::null()),
            Case::NewFile | Case::OwnFile | Case::AfterTool => self.harness().stdin(),
        }
    }
}

const OWN_FILE: &str = "src/mine.rs";

/// What the process that this waits for cost.
fn cost_of(run: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let so_far = || -> Result<Cost> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let processor = usage.user_time() + usage.system_time();
        Ok(Cost {
            processor_us: processor.num_microseconds() as f64,
            page_faults: usage.minor_page_faults() as f64,
        })
    };
    let before = so_far()?;
    run()?;
    let after = so_far()?;
    Ok(Cost {
        processor_us: after.processor_us - before.processor_us,
        page_faults: after.page_faults - before.page_faults,
    })
}

/// Counted by valgrind, which must be installed, as is Python.
fn instructions_of(command: &Command, stdin: Stdio) -> Result<f64> {
    let mut counted = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/instructions"));
    counted.arg(command.get_program()).args(command.get_args()).env_clear();
    counted.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        counted.current_dir(folder);
    }
    counted.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = counted.stdin(stdin).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    let count = told.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.ok_or_else(|| format!("{counted:?}: {told}").into())
}
