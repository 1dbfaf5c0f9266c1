//! Ratios, their spread over interleaved rounds, and their targets.

use std::time::{Duration, Instant};

/// What a value must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Reported, not judged.
    None,
}

/// One value, measured once a round.
#[derive(Debug)]
struct Check {
    what: String,
    rounds: Vec<f64>,
    target: Target,
}

/// What a benchmark found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    checks: Vec<Check>,
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn check(&mut self, what: &str, rounds: Vec<f64>, target: Target) {
        self.checks.push(Check { what: what.to_owned(), rounds, target });
    }

    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Whether every target was met.
    pub(crate) fn print(&self) -> bool {
        for note in &self.notes {
            println!("  {note}");
        }
        let mut met = true;
        for Check { what, rounds, target } in &self.checks {
            let value = median(rounds);
            let (ok, wanted) = match target {
                Target::AtMost(most) => (value <= *most, format!("at most {most:.2}")),
                Target::AtLeast(least) => (value >= *least, format!("at least {least:.2}")),
                Target::None => (true, "no target".to_owned()),
            };
            let verdict = match (target, ok) {
                (Target::None, _) => "",
                (_, true) => "pass",
                (_, false) => "FAIL",
            };
            met &= ok;
            let (low, high) = (quantile(rounds, 0.0), quantile(rounds, 1.0));
            println!(
                "  {what:<44} {value:>8.2}  ({low:.2} to {high:.2}, {} rounds)  {wanted}  {verdict}",
                rounds.len()
            );
        }
        met
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value that this part of the values does not exceed.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((part * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Times of one kind of work, in microseconds, round by round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    rounds: Vec<Vec<f64>>,
}

impl Times {
    pub(crate) fn next_round(&mut self) {
        self.rounds.push(Vec::new());
    }

    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> crate::Result<T>) -> crate::Result<T> {
        let started = Instant::now();
        let outcome = work()?;
        self.add(started.elapsed());
        Ok(outcome)
    }

    pub(crate) fn add(&mut self, took: Duration) {
        if let Some(round) = self.rounds.last_mut() {
            round.push(took.as_secs_f64() * 1e6);
        }
    }

    /// The mean of each round: it holds what only every hundredth run pays, too.
    pub(crate) fn means(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.iter().sum::<f64>() / round.len().max(1) as f64).collect()
    }

    fn medians(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| median(round)).collect()
    }

    /// Mean by mean, round by round.
    pub(crate) fn over(&self, base: &Times) -> Vec<f64> {
        self.means().iter().zip(base.means()).map(|(mine, base)| mine / base).collect()
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "mean {}, median {}",
            microseconds(median(&self.means())),
            microseconds(median(&self.medians()))
        )
    }
}

pub(crate) fn microseconds(value: f64) -> String {
    if value >= 10_000.0 { format!("{:.1} ms", value / 1e3) } else { format!("{value:.0} µs") }
}
