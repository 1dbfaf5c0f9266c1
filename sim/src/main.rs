//! `onus-sim`: runs seeds, prints what was done and which promises were broken. Exit 1 if any was.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use onus_sim::report::Report;

struct Options {
    first: u64,
    seeds: u64,
    steps: u64,
    threads: usize,
    folder: PathBuf,
    /// Stop at the first violation.
    hasty: bool,
}

const USAGE: &str =
    "onus-sim [--seed N | --seeds N [--from N]] [--steps N] [--threads N] [--dir FOLDER] [--hasty]";

fn options() -> Result<Options, String> {
    let memory = PathBuf::from("/dev/shm");
    let mut options = Options {
        first: 1,
        seeds: 200,
        steps: 5_000,
        threads: std::thread::available_parallelism().map_or(2, usize::from),
        folder: if memory.is_dir() { memory } else { std::env::temp_dir() },
        hasty: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--hasty" {
            options.hasty = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: not a number\n{USAGE}"));
        match word.as_str() {
            "--seed" => (options.first, options.seeds) = (number()?, 1),
            "--from" => options.first = number()?,
            "--seeds" => options.seeds = number()?,
            "--steps" => options.steps = number()?,
            "--threads" => options.threads = usize::try_from(number()?).unwrap_or(1).max(1),
            "--dir" => options.folder = PathBuf::from(value),
            _ => return Err(format!("what is {word}?\n{USAGE}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    // A panic is a violation like any other, and is reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let (next, total) = (AtomicU64::new(options.first), Mutex::new(Report::default()));
    let end = options.first + options.seeds;
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let report = onus_sim::run::run(seed, options.steps, &options.folder);
                    if options.hasty && !report.violations.is_empty() {
                        next.store(end, Ordering::Relaxed);
                    }
                    if let Ok(mut total) = total.lock() {
                        total.add(report);
                    }
                }
            });
        }
    });
    let Ok(mut report) = total.into_inner() else { return ExitCode::FAILURE };
    report.violations.sort_by_key(|violation| violation.seed);
    if let Some(first) = report.violations.first() {
        println!("{first}\n");
    }
    for other in report.violations.iter().skip(1).take(10) {
        println!("seed {}, step {}: {}\n", other.seed, other.at, other.what);
    }
    println!("{report} in {:.1} s", started.elapsed().as_secs_f64());
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
