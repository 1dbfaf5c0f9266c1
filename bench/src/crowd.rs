//! Sixteen processes that claim different tasks of one store as fast as they can, against one process alone.
//!
//! Each worker is this program again, with the store opened once. It says when it is ready, begins when told, stops
//! after a fixed time, and then tells how long each of its claims took.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use onus_core::refusal::Code;
use onus_store::Access;

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, median, microseconds, quantile};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str = "16 processes claiming different tasks in a loop against one process";

/// The first argument of a worker.
pub(crate) const WORKER: &str = "crowd-worker";

const ROUNDS: usize = 5;
const PROCESSES: u64 = 16;
const DURATION: Duration = Duration::from_secs(3);
const TASKS: u64 = 80_000;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = place.repository("crowd")?;
    let fixture = fixture::store(place, TASKS, History::Fresh)?;
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        repository.fill(&fixture)?;
        let one = together(&repository, 1)?;
        repository.fill(&fixture)?;
        let crowd = together(&repository, PROCESSES)?;
        rounds.add(&one, &crowd);
    }
    Ok(rounds.report())
}

/// What one worker did.
struct Work {
    latencies_us: Vec<f64>,
    busy: u64,
}

#[derive(Default)]
struct Rounds {
    throughput: Vec<f64>,
    fairness: Vec<f64>,
    tail: Vec<f64>,
    busy: u64,
    notes: Vec<String>,
}

impl Rounds {
    fn add(&mut self, one: &[Work], crowd: &[Work]) {
        let all = |works: &[Work]| -> Vec<f64> {
            works.iter().flat_map(|work| work.latencies_us.iter().copied()).collect()
        };
        let (alone, together) = (all(one), all(crowd));
        let least = crowd.iter().map(|work| work.latencies_us.len()).min().unwrap_or_default();
        let share = together.len() as f64 / crowd.len() as f64;
        self.throughput.push(together.len() as f64 / alone.len() as f64);
        self.fairness.push(least as f64 / share);
        self.tail.push(quantile(&together, 0.999) / median(&together));
        self.busy += crowd.iter().chain(one).map(|work| work.busy).sum::<u64>();
        let rate = |claims: &[f64]| claims.len() as f64 / DURATION.as_secs_f64();
        self.notes.push(format!(
            "one: {:.0}/s, median {}; sixteen: {:.0}/s, median {}, p99.9 {}, longest {}",
            rate(&alone),
            microseconds(median(&alone)),
            rate(&together),
            microseconds(median(&together)),
            microseconds(quantile(&together, 0.999)),
            microseconds(quantile(&together, 1.0)),
        ));
    }

    fn report(self) -> Report {
        let mut report = Report::default();
        for note in self.notes {
            report.note(note);
        }
        report.check("throughput of 16 / throughput of 1", self.throughput, Target::AtLeast(0.8));
        report.check("busy errors", vec![self.busy as f64], Target::AtMost(0.0));
        report.check("the slowest's part of its fair share", self.fairness, Target::AtLeast(0.5));
        report.check("p99.9 / median of 16", self.tail, Target::AtMost(30.0));
        report
    }
}

fn together(repository: &Repository, processes: u64) -> Result<Vec<Work>> {
    let program = std::env::current_exe()?;
    let mut workers = (0..processes)
        .map(|worker| {
            Command::new(&program)
                .args([WORKER, &worker.to_string(), &processes.to_string()])
                .arg(repository.store())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<std::io::Result<Vec<Child>>>()?;
    let mut outputs = Vec::new();
    for worker in &mut workers {
        let mut output = BufReader::new(worker.stdout.take().ok_or("a worker has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.trim() != "ready" {
            return Err(format!("a worker did not begin: {line}").into());
        }
        outputs.push(output);
    }
    for worker in &mut workers {
        // Closing its input is the sign to begin.
        drop(worker.stdin.take());
    }
    let works = outputs.into_iter().map(read_work).collect::<Result<Vec<_>>>();
    for mut worker in workers {
        let status = worker.wait()?;
        if !status.success() {
            return Err(format!("a worker ended with {status}").into());
        }
    }
    works
}

fn read_work(mut output: BufReader<std::process::ChildStdout>) -> Result<Work> {
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    let mut lines = text.lines();
    let busy = lines.next().ok_or("a worker told nothing")?.parse()?;
    let latencies_us = lines.map(str::parse).collect::<std::result::Result<_, _>>()?;
    Ok(Work { latencies_us, busy })
}

/// The worker: claims every nth task until its time is over.
pub(crate) fn work(args: &[String]) -> Result<()> {
    let [worker, processes, store] = args else { return Err("a worker needs its part and a store".into()) };
    let (worker, processes): (u64, u64) = (worker.parse()?, processes.parse()?);
    let mut engine = fixture::engine(Path::new(store), Access::Write)?;
    let mut requests = (worker..TASKS).step_by(usize::try_from(processes)?);
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let (mut latencies, mut busy) = (Vec::with_capacity(100_000), 0);
    let began = Instant::now();
    while began.elapsed() < DURATION {
        let n = requests.next().ok_or("a worker ran out of tasks")?;
        let request = fixture::claim(n + 1, &format!("i{n}"))?;
        let started = Instant::now();
        match engine.run(&request) {
            Ok(_) => latencies.push(started.elapsed()),
            Err(refusal) if refusal.code == Code::Busy => busy += 1,
            Err(refusal) => return Err(refusal.into()),
        }
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{busy}")?;
    for latency in latencies {
        writeln!(out, "{:.1}", latency.as_secs_f64() * 1e6)?;
    }
    out.flush()?;
    Ok(())
}
