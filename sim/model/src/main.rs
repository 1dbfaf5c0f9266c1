//! `onus-model`: the search with bounds of one's choice. Exit 1 if a promise can be broken.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::process::ExitCode;
use std::time::Instant;

use onus_model::{Bounds, Breadth, Broken, BrokenLanding, LandingBounds, Landings, Protocol};
use stateright::{Checker as _, Expectation, Model};

const USAGE: &str = "onus-model [--tasks N] [--tokens N] [--ticks N] [--ttl N] [--max-hold N] [--threads N] [--paths | --passing | --work | --all]
\
onus-model --landing [--apart] [--tries N] [--tokens N] [--threads N]";

enum Search {
    Leases(Bounds),
    Landing(LandingBounds),
}

fn search() -> Result<(Search, usize), String> {
    let mut bounds = Bounds { tasks: 1, tokens: 3, ticks: 4, ttl: 1, max_hold: 3, breadth: Breadth::Holding };
    let mut landing = LandingBounds { tries: 2, tokens: 2, apart: false };
    let mut is_landing = false;
    let mut threads = std::thread::available_parallelism().map_or(2, usize::from);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words.next().and_then(|value| value.parse::<u32>().ok());
            value.ok_or_else(|| format!("{word} needs a number\n{USAGE}"))
        };
        match word.as_str() {
            "--landing" => is_landing = true,
            "--apart" => (is_landing, landing.apart) = (true, true),
            "--paths" => (bounds.breadth, bounds.tasks) = (Breadth::Paths, 2),
            "--passing" => (bounds.breadth, bounds.tasks) = (Breadth::Passing, 2),
            "--work" => (bounds.breadth, bounds.ttl) = (Breadth::Work, 2),
            "--all" => bounds.breadth = Breadth::All,
            "--tasks" => bounds.tasks = value()? as usize,
            "--tokens" => (bounds.tokens, landing.tokens) = [u64::from(value()?); 2].into(),
            "--tries" => landing.tries = u8::try_from(value()?).map_err(|_| USAGE)?,
            "--ticks" => bounds.ticks = i64::from(value()?),
            "--ttl" => bounds.ttl = i64::from(value()?),
            "--max-hold" => bounds.max_hold = i64::from(value()?),
            "--threads" => threads = value()? as usize,
            _ => return Err(format!("what is {word}?\n{USAGE}")),
        }
    }
    Ok((if is_landing { Search::Landing(landing) } else { Search::Leases(bounds) }, threads))
}

fn main() -> ExitCode {
    let (search, threads) = match search() {
        Ok(search) => search,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match search {
        Search::Leases(bounds) => {
            let model = Protocol::new(bounds, Broken::Nothing);
            let saw = std::sync::Arc::clone(&model.saw);
            let code = report(model, threads, format!("{bounds:?}"));
            for (what, count) in saw.counts() {
                println!("seen:    {what} ({count} times)");
            }
            code
        }
        Search::Landing(bounds) => {
            report(Landings::new(bounds, BrokenLanding::Nothing), threads, format!("{bounds:?}"))
        }
    }
}

/// Searches, and says what was found.
fn report<M>(model: M, threads: usize, bounds: String) -> ExitCode
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send,
{
    let started = Instant::now();
    let checker = model.checker().threads(threads).spawn_bfs().join();
    println!(
        "{bounds}: {} states, {} of them different, depth {}, in {:.1} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f64()
    );
    let mut broken = 0;
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        // Of what must be possible, an example is found.
        let is_possible = property.expectation == Expectation::Sometimes;
        let holds = found.is_some() == is_possible;
        println!("{} {}", if holds { "holds:  " } else { "BROKEN: " }, property.name);
        if !holds {
            broken += 1;
            for action in found.map(stateright::Path::into_actions).unwrap_or_default() {
                println!("    {action:?}");
            }
        }
    }
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
