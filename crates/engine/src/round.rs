//! A round of work: who did which task on which branch, what conflicted, what it passed, and where it landed.

use onus_core::event::Body;
use onus_core::gate::Verdict;
use onus_core::ids::Token;
use onus_core::landing::{Landed, Obstruction};
use onus_core::task::{State, Task};
use onus_core::timesheet::Calendar;
use onus_store::{EventQuery, Result, Store};
use serde::Serialize;

use crate::query::QueryResult;
use crate::request::evidence::MOST_JUDGED;
use crate::snapshot::Snapshot;
use crate::timesheet::{dates, window_of};
use crate::{Engine, Identity};

/// How many tasks with branches are read, and how many of the last events and leases of each.
const MOST: u64 = 10_000;
const EVENTS: u64 = 2_000;
const LEASES: u64 = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundView {
    pub since: String,
    pub until: String,
    /// Tasks with a branch of their own on which something happened in this time.
    pub rows: Vec<RoundRow>,
    pub landed: u64,
    /// Lines that somebody had to resolve, and lines that the project's rule kept from both sides.
    pub conflict_lines: u64,
    pub resolved_lines: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundRow {
    pub task: String,
    pub title: String,
    pub state: State,
    /// Who held it last.
    pub actor: Option<String>,
    /// Everyone who held it, each once, in the order of their first leases.
    pub actors: Vec<String>,
    /// How many leases there were on it.
    pub leases: u64,
    pub branch: String,
    pub target: String,
    /// Lines in conflict that a landing met, and left to whoever did the task.
    pub conflict_lines: u64,
    /// Lines in conflict that were kept from both sides by `land.union`.
    pub resolved_lines: u64,
    /// What each gate came to in the end.
    pub gates: Vec<RoundGate>,
    /// The commit by which it landed.
    pub landed: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundGate {
    pub gate: String,
    pub passed: bool,
    /// It came out differently on the same files before.
    pub flaky: bool,
}

impl Snapshot<'_> {
    fn round(&mut self, calendar: &Calendar) -> Result<RoundView> {
        let window = window_of(calendar);
        let mut rows = Vec::new();
        for task in self.read.branched(MOST)? {
            if (window.since_ms..window.until_ms).contains(&task.updated_at_ms) {
                rows.extend(self.round_row(&task)?.map(|row| (task.number, row)));
            }
        }
        rows.sort_by_key(|(number, _)| *number);
        let rows: Vec<RoundRow> = rows.into_iter().map(|(_, row)| row).collect();
        let (since, until) = dates(calendar);
        Ok(RoundView {
            since,
            until,
            landed: rows.iter().filter(|row| row.landed.is_some()).count() as u64,
            conflict_lines: rows.iter().map(|row| row.conflict_lines).sum(),
            resolved_lines: rows.iter().map(|row| row.resolved_lines).sum(),
            rows,
        })
    }

    fn round_row(&mut self, task: &Task) -> Result<Option<RoundRow>> {
        let Some(own) = &task.branch else { return Ok(None) };
        let (mut last, mut actors): (Option<String>, Vec<String>) = (None, Vec::new());
        let first = task.token.0.saturating_sub(LEASES).max(1);
        for token in first..=task.token.0 {
            last = self.lease(task.uid, Token(token))?.map(|lease| lease.actor.to_string());
            actors.extend(last.clone().filter(|actor| !actors.contains(actor)));
        }
        let mut gates: Vec<RoundGate> = Vec::new();
        // Newest first: the last judgement of each gate counts.
        for row in self.read.judgements_of(task.uid, MOST_JUDGED)? {
            let gate = row.judgement.gate.to_string();
            if !gates.iter().any(|known| known.gate == gate) {
                gates.push(RoundGate {
                    gate,
                    passed: row.verdict == Verdict::Passed,
                    flaky: row.judgement.flaky,
                });
            }
        }
        gates.sort_by(|one, other| one.gate.cmp(&other.gate));
        let landed = task.landing.landed.as_ref();
        Ok(Some(RoundRow {
            task: self.id(task.number),
            title: self.title_of(task.uid)?.unwrap_or_default(),
            state: task.state,
            actor: last,
            actors,
            leases: task.token.0,
            branch: own.branch.clone(),
            target: own.target.clone(),
            conflict_lines: self.lines_in_conflict(task)?,
            resolved_lines: landed.map_or(0, |landed| landed.resolved_lines),
            gates,
            landed: landed.and_then(Landed::by).map(ToString::to_string),
        }))
    }

    /// The lines that failed landings left to somebody. The same conflict met twice counts once.
    fn lines_in_conflict(&mut self, task: &Task) -> Result<u64> {
        let query =
            EventQuery { stream: Some(task.uid), newest: true, limit: EVENTS, ..EventQuery::default() };
        let (mut lines, mut met) = (0, Vec::new());
        for record in self.read.events(&query)? {
            if let Ok(Body::LandingFailed { head, why: Obstruction::Conflict { files, .. }, .. }) =
                record.body()
                && !met.contains(&head)
            {
                lines += files.iter().map(|file| file.lines).sum::<u64>();
                met.push(head);
            }
        }
        Ok(lines)
    }
}

impl<S: Store> Engine<S> {
    /// The results of a round of work, task by task.
    pub fn round(&mut self, identity: Option<&Identity>, calendar: &Calendar) -> QueryResult<RoundView> {
        self.ask(identity, |snapshot| Ok(snapshot.round(calendar)?))
    }
}
