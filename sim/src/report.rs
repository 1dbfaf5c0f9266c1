//! What was done, which faults were injected, and which promises were broken.

use std::collections::BTreeMap;
use std::fmt;

/// A broken promise, and how to reproduce it.
#[derive(Clone, Debug)]
pub struct Violation {
    pub seed: u64,
    pub steps: u64,
    pub at: u64,
    pub what: String,
    pub last: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {}: {}", self.seed, self.at, self.what)?;
        for line in &self.last {
            writeln!(f, "    {line}")?;
        }
        write!(f, "again: cargo run --profile sim -p onus-sim -- --seed {} --steps {}", self.seed, self.steps)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seeds: u64,
    pub operations: u64,
    pub actors: u64,
    pub events: u64,
    /// By command: how often it succeeded, and how often it was refused.
    pub commands: BTreeMap<&'static str, (u64, u64)>,
    pub refusals: BTreeMap<String, u64>,
    pub faults: BTreeMap<&'static str, u64>,
    pub lapses: BTreeMap<String, u64>,
    /// Outcomes of landings, by event.
    pub landings: BTreeMap<String, u64>,
    pub violations: Vec<Violation>,
}

impl Report {
    pub fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub fn add(&mut self, other: Report) {
        self.seeds += other.seeds;
        self.operations += other.operations;
        self.actors += other.actors;
        self.events += other.events;
        for (verb, (done, refused)) in other.commands {
            let sum = self.commands.entry(verb).or_default();
            *sum = (sum.0 + done, sum.1 + refused);
        }
        add_up(&mut self.refusals, other.refusals);
        add_up(&mut self.faults, other.faults);
        add_up(&mut self.lapses, other.lapses);
        add_up(&mut self.landings, other.landings);
        self.violations.extend(other.violations);
    }
}

fn counted<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn add_up<K: Ord>(sums: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    more.into_iter().for_each(|(key, count)| *sums.entry(key).or_default() += count);
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: u64 = self.faults.values().sum();
        let commands: Vec<String> =
            self.commands.iter().map(|(verb, (done, refused))| format!("{verb} {done}/{refused}")).collect();
        writeln!(
            f,
            "{} operations over {} seeds by {} actors, {} events",
            self.operations, self.seeds, self.actors, self.events
        )?;
        writeln!(f, "{faults} faults: {}", counted(&self.faults))?;
        writeln!(f, "commands (done/refused): {}", commands.join(", "))?;
        writeln!(f, "refusals: {}", counted(&self.refusals))?;
        writeln!(f, "lapses: {}", counted(&self.lapses))?;
        writeln!(f, "landings: {}", counted(&self.landings))?;
        write!(f, "{} violations", self.violations.len())
    }
}
