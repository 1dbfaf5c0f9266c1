//! Benchmarks that print a ratio against the machine's own limit.
//!
//! Absolute times say more about the machine than about onus, so each benchmark measures two things in turn, many
//! times, and compares: a claim with what any durable program must cost, a large store with a small one, many
//! processes with one. A target that is missed is exit code 1.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

mod batch;
mod claim;
mod compare;
mod crowd;
mod fixture;
mod graph;
mod guard;
mod harness;
mod hook;
mod land;
mod lists;
mod measure;
mod pages;
mod place;
mod postgres;
mod queue;
mod recovery;
mod scale;
mod scopes;
mod shell;
mod timesheet;

use std::error::Error;
use std::process::ExitCode;

use measure::Report;
use place::Place;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Benchmark {
    name: &'static str,
    about: &'static str,
    run: fn(&Place) -> Result<Report>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "claim", about: claim::ABOUT, run: claim::run },
    Benchmark { name: "scale", about: scale::ABOUT, run: scale::run },
    Benchmark { name: "crowd", about: crowd::ABOUT, run: crowd::run },
    Benchmark { name: "pages", about: pages::ABOUT, run: pages::run },
    Benchmark { name: "lists", about: lists::ABOUT, run: lists::run },
    Benchmark { name: "timesheet", about: timesheet::ABOUT, run: timesheet::run },
    Benchmark { name: "batch", about: batch::ABOUT, run: batch::run },
    Benchmark { name: "graph", about: graph::ABOUT, run: graph::run },
    Benchmark { name: "finish", about: graph::ABOUT_FINISH, run: graph::finish },
    Benchmark { name: "scopes", about: scopes::ABOUT, run: scopes::run },
    Benchmark { name: "hook", about: hook::ABOUT, run: hook::run },
    Benchmark { name: "shell", about: shell::ABOUT, run: shell::run },
    Benchmark { name: "guard", about: guard::ABOUT, run: guard::run },
    Benchmark { name: "land", about: land::ABOUT, run: land::run },
    Benchmark { name: "queue", about: queue::ABOUT, run: queue::run },
    Benchmark { name: "postgres", about: postgres::ABOUT, run: postgres::run },
    Benchmark { name: "recovery", about: recovery::ABOUT, run: recovery::run },
];

/// What they measure they are linked with: there is nothing to build for them.
const IN_THIS_PROCESS: [&str; 3] = ["batch", "land", "postgres"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some(crowd::WORKER) => crowd::work(&args[1..]).map(|()| true),
        Some("compare") => compare::run(&args[1..]).map(|()| true),
        Some(name) => run(name),
        None => run("help"),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let (mut text, mut cause) = (format!("failed: {error}"), error.source());
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every target was met.
fn run(name: &str) -> Result<bool> {
    let chosen: Vec<&Benchmark> =
        BENCHMARKS.iter().filter(|benchmark| name == "all" || name == benchmark.name).collect();
    if chosen.is_empty() {
        println!("usage: onus-bench NAME|all");
        println!("       onus-bench {}", compare::USAGE);
        for Benchmark { name, about, .. } in BENCHMARKS {
            println!("  {name:8} {about}");
        }
        return Ok(name == "help");
    }
    let starts_programs = chosen.iter().any(|benchmark| !IN_THIS_PROCESS.contains(&benchmark.name));
    let place = Place::prepare(starts_programs)?;
    let mut met = true;
    for Benchmark { name, about, run } in chosen {
        println!("\n{name}: {about}");
        met &= run(&place)?.print();
    }
    Ok(met)
}
