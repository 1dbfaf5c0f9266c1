//! Gates and landing, derived from events and git's references alone: what a task has passed, what is about to land, and what
//! the targets contain.

use std::collections::BTreeSet;

use onus_core::chain::Record;
use onus_core::command::{Act, Command};
use onus_core::gate::{Demand, Gate, GateKind, Stage};
use onus_core::transition::Verb;
use serde_json::Value;

use super::{Case, Known, Oracle, Verdict, globs, limits, must};
use crate::fate::Fate;

/// What the judge knows about a task's gates and its landing.
#[derive(Debug, Default)]
pub(super) struct Landing {
    /// The gates that it names.
    pub(super) gates: BTreeSet<String>,
    /// Gate, definition, tree, and whether it passed, in the order of the judgements.
    judged: Vec<(String, String, Option<String>, bool)>,
    pub(super) has_branch: bool,
    /// Set if the task is done and has still to land; says whether its dependents wait for that.
    awaited: Option<String>,
    intent: Option<Begun>,
    /// Where it landed since it was last opened.
    landed: Option<String>,
    /// The highest token when it was last opened.
    opened: u64,
    /// The version of the event that reopened it last.
    reopened: u64,
}

/// A landing that was begun, and the task at that time.
#[derive(Debug)]
struct Begun {
    commit: String,
    target: String,
    was: (&'static str, u64, u64),
}

/// Events that change the task's holder, state or branch. A landing that was begun must be settled before.
const MOVING: [&str; 16] = [
    "lease.acquired",
    "lease.released",
    "lease.lapsed",
    "lease.taken_over",
    "lease.revoked",
    "lease.handed_off",
    "task.blocked",
    "task.submitted",
    "task.rejected",
    "task.done",
    "task.failed",
    "task.dropped",
    "task.reopened",
    "task.reset",
    "task.branched",
    "landing.intended",
];

/// Whether an event is written before a request is tried again, and so stays whatever becomes of the request.
pub(super) fn comes_before(kind: &str, command: &Command) -> bool {
    let says_so =
        matches!(command, Command::OnTask { act: Act::SettleLanding { .. } | Act::FoundLanded(_), .. });
    kind == "scope.yielded" || matches!(kind, "landing.withdrawn" | "task.landed") && !says_so
}

/// The gates that a request brings, and the tree to be judged.
fn demand_of(command: &Command) -> Option<&Demand> {
    match command.itself() {
        Command::ClaimNext(terms) | Command::OnTask { act: Act::Claim(terms) | Act::Takeover(terms), .. } => {
            terms.demand.as_ref()
        }
        Command::OnTask { act: Act::Move { demand, .. }, .. } => demand.as_ref(),
        Command::OnTask { act: Act::Land(checked), .. } => Some(&checked.demand),
        _ => None,
    }
}

impl Known {
    /// Whether its dependents may begin.
    pub(super) fn is_met(&self) -> bool {
        self.state == "done" && self.landing.awaited.as_deref() != Some("landed")
    }

    fn id(&self) -> String {
        format!("ON-{}", self.number)
    }

    /// Which of the gates that a request brings it has not passed.
    fn missing(&self, demand: &Demand, approves: bool) -> Vec<String> {
        let named = &self.landing.gates;
        let is_for = |gate: &&Gate| {
            let is_asked = !self.ad_hoc || gate.stage == Stage::Land;
            is_asked && (named.contains(gate.key.as_str()) || !gate.applies.only_named)
        };
        let is_passed = |gate: &&Gate| {
            let on_result = gate.stage != Stage::Done && gate.kind.is_run();
            let tree = if on_result {
                &demand.tree
            } else {
                demand.reviewed.as_ref().map_or(&demand.tree, |_| &demand.reviewed)
            };
            let (key, definition) = (gate.key.as_str(), gate.digest());
            let last = self
                .landing
                .judged
                .iter()
                .rev()
                .find(|(gate, by, of, _)| gate == key && *by == definition && of == tree);
            last.is_some_and(|(.., passed)| *passed)
        };
        let open = demand.gates.iter().filter(is_for).filter(|gate| !is_passed(gate));
        let open = open.filter(|gate| !(approves && gate.kind == GateKind::Review));
        let undefined = named.iter().filter(|name| demand.known.iter().all(|known| known.as_str() != **name));
        open.map(|gate| gate.key.to_string()).chain(undefined.cloned()).collect()
    }

    /// Judges an event's effect on gates and landing, before anything else.
    pub(super) fn follow_landing(
        &mut self,
        case: &Case<'_>,
        record: &Record,
        others: Option<u64>,
        policy: Option<&str>,
    ) -> Verdict {
        let (kind, payload, id) = (record.kind.as_str(), &record.payload, self.id());
        if MOVING.contains(&kind) {
            must!(
                self.landing.intent.is_none(),
                "P2: {kind} of {id}, which is being landed, and nobody has settled that: {:?}",
                self.landing.intent
            );
        }
        let asks = match kind {
            "lease.acquired" => matches!(
                case.request.command.itself(),
                Command::ClaimNext(_) | Command::OnTask { act: Act::Claim(_) | Act::Takeover(_), .. }
            ),
            _ => matches!(kind, "task.done" | "task.submitted" | "task.approved" | "landing.intended"),
        };
        if asks && !self.seat {
            let approves = matches!(
                case.request.command.itself(),
                Command::OnTask { act: Act::Move { verb: Verb::Approve, .. }, .. }
            );
            // Ad-hoc work is unplanned, so no gate applies.
            let is_excused = self.ad_hoc && kind != "landing.intended";
            let missing = demand_of(&case.request.command).map(|demand| self.missing(demand, approves));
            must!(
                case.overridden || is_excused || missing.as_ref().is_some_and(Vec::is_empty),
                "P4: {kind} of {id} by {}, whose gates are not all passed: {missing:?} of {:?}",
                case.actor,
                self.landing
            );
        }
        match kind {
            "task.created" => self.landing.gates = globs(&payload["facts"]["gates"]),
            "task.edited" => {
                let gates = globs(&payload["facts"]["gates"]);
                let kept = gates.is_superset(&self.landing.gates);
                must!(kept || case.actor.starts_with("human:"), "P4: {} took a gate off {id}", case.actor);
                self.landing.gates = gates;
            }
            "task.branched" => self.landing.has_branch = true,
            "task.reset" | "task.reopened" | "task.accepted" | "task.retried" => {
                self.landing.opened = self.highest;
                self.landing.reopened = record.version;
                if kind != "task.retried" {
                    (self.landing.awaited, self.landing.landed) = (None, None);
                }
                if kind == "task.reset" {
                    self.landing.judged.clear();
                }
            }
            "task.done" | "task.approved" => {
                let has_to = self.landing.has_branch && self.landing.landed.is_none();
                let awaited = has_to.then(|| policy.unwrap_or("done").to_owned());
                must!(
                    payload["awaits_landing"].as_str() == awaited.as_deref(),
                    "P4: {id} is done and awaits its landing for {}, not {awaited:?}",
                    payload["awaits_landing"]
                );
                self.landing.awaited = awaited;
            }
            "gate.passed" | "gate.failed" => self.judge_gate(case, record)?,
            "landing.intended" => {
                must!(others.is_none(), "P2: {id} is landed by {} under token {others:?}", case.actor);
                let is_seated = matches!(&case.request.command, Command::Seated { seat, .. }
                    if seat.as_str().strip_prefix("land:") == payload["target"].as_str());
                must!(is_seated, "P2: {id} is landed in {} from another seat", payload["target"]);
                let is_holder = self.usable().is_some_and(|held| {
                    case.is_of(held) || case.presents(record.task.as_deref().unwrap_or_default(), held)
                });
                must!(
                    self.state == "done" || self.state == "in_progress" && is_holder,
                    "P4: {id} is {} and is landed by {}",
                    self.state,
                    case.actor
                );
                let as_it_was = match case.request.command.itself() {
                    Command::OnTask { act: Act::Land(checked), .. } => {
                        checked.token.0 == self.highest && checked.state.to_string() == self.state
                    }
                    _ => false,
                };
                must!(as_it_was, "P2: {id} is landed as it was looked at, and has changed since");
                let (is_person, granted) = self.bound.clone().unwrap_or_default();
                let all: BTreeSet<String> = self.limits.union(&granted).cloned().collect();
                let may = !all.contains("no_land") || case.actor.starts_with("human:");
                must!(may, "P4: {id} may not be landed by {}", case.actor);
                let broken = limits::broken(&all, &case.request.command);
                must!(
                    case.overridden || is_person || broken.is_none(),
                    "P4: {id} is landed by {} against {broken:?}",
                    case.actor
                );
                self.landing.intent = Some(Begun {
                    commit: word(payload, "commit"),
                    target: word(payload, "target"),
                    was: (self.state, self.highest, self.fenced),
                });
            }
            "landing.withdrawn" => {
                let begun = self.landing.intent.take();
                let commit = word(payload, "commit");
                let Some(begun) = begun.filter(|begun| begun.commit == commit) else {
                    return Err(format!(
                        "P5: a landing of {id} was withdrawn that nobody had begun: {commit}"
                    ));
                };
                let git = &case.now.git;
                must!(
                    !git.contains(&begun.target, &commit) && !git.is_intended(&id, &commit),
                    "P10: the landing of {id} was withdrawn, and {} has it or may get it: {commit}",
                    begun.target
                );
            }
            "task.landed" => self.landed(case, payload)?,
            "landing.failed" => {
                must!(
                    others.is_none(),
                    "P2: a landing of {id} failed by {} under token {others:?}",
                    case.actor
                );
                let is_seated = matches!(&case.request.command, Command::Seated { .. });
                must!(is_seated, "P2: a landing of {id} failed without a seat");
                // The event before has reopened the finished task.
                let is_reopened = self.state == "open" && self.landing.reopened + 1 == record.version;
                must!(
                    is_reopened || self.state == "in_progress",
                    "P4: a landing of {id} failed, which is {}",
                    self.state
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// Who may judge a gate.
    fn judge_gate(&mut self, case: &Case<'_>, record: &Record) -> Verdict {
        let (payload, id) = (&record.payload, self.id());
        let (gate, passed) = (word(payload, "gate"), record.kind == "gate.passed");
        let by = &case.actor;
        if passed && !case.overridden {
            match gate.as_str() {
                "sign" | "plan" => must!(by.starts_with("human:"), "P4: {gate} of {id} was passed by {by}"),
                "review" => {
                    let worked =
                        self.leases.range(self.landing.opened + 1..).any(|(_, held)| held.actor == *by);
                    must!(!worked, "P4: {gate} of {id} was passed by {by}, who worked on it");
                }
                _ => must!(payload["run"].is_object(), "P4: {gate} of {id} was passed without being run"),
            }
        }
        let tree = payload["tree"].as_str().map(str::to_owned);
        self.landing.judged.push((gate, word(payload, "definition"), tree, passed));
        Ok(())
    }

    fn landed(&mut self, case: &Case<'_>, payload: &Value) -> Verdict {
        let (id, commit, target) = (self.id(), word(payload, "commit"), word(payload, "target"));
        must!(case.now.git.contains(&target, &commit), "P10: {id} landed in {target}, which has no {commit}");
        if payload["style"] == "elsewhere" {
            must!(self.state == "done", "P4: {id} is {} and was found in {target}", self.state);
            must!(self.landing.intent.is_none(), "P2: {id} was found in {target} while it is being landed");
            let is_news = self.landing.landed.as_ref() != Some(&target);
            must!(is_news, "P8: {id} landed in {target}, and again");
        } else {
            let begun = self.landing.intent.take().filter(|begun| begun.commit == commit);
            must!(begun.is_some(), "P8: {id} landed in {target} by {commit}, which nobody intends");
        }
        self.landing.landed = Some(target);
        self.landing.awaited = None;
        Ok(())
    }
}

impl Oracle {
    /// P2: a target moves only by a recorded intent, for a task that has not changed since.
    pub fn target_moved(&mut self, number: u64, commit: &str) -> Verdict {
        let known = self.numbers.get(&number).and_then(|uid| self.tasks.get(uid));
        let Some(known) = known else { return Err(format!("P5: ON-{number} moved a target and is no task")) };
        let begun = known.landing.intent.as_ref().filter(|begun| begun.commit == commit);
        must!(begun.is_some(), "P2: ON-{number} moved a target to {commit}, which nobody intends any more");
        let now = (known.state, known.highest, known.fenced);
        must!(
            begun.is_some_and(|begun| begun.was == now),
            "P2: ON-{number} moved a target and is {now:?}: {begun:?}"
        );
        Ok(())
    }

    /// P8: a commit lands one task, once.
    pub(super) fn count_landing(&mut self, record: &Record) -> Verdict {
        if record.kind == "task.landed" && record.payload["style"] != "elsewhere" {
            let commit = word(&record.payload, "commit");
            must!(self.landed.insert(commit.clone()), "P8: {commit} landed twice");
        }
        Ok(())
    }

    /// P5 along the way: what has still to land, and what is about to.
    pub fn compare_landings(&self, rows: &[onus_core::task::Task]) -> Verdict {
        let of_rows: BTreeSet<_> = rows
            .iter()
            .map(|task| {
                let landing = &task.landing;
                let intent = landing.intent.as_ref().map(|intent| intent.commit.to_string());
                (task.number.0, landing.awaited.map(|met| met.to_string()), intent)
            })
            .collect();
        let unsettled = |known: &&Known| known.landing.awaited.is_some() || known.landing.intent.is_some();
        let own: BTreeSet<_> = self
            .tasks
            .values()
            .filter(unsettled)
            .map(|known| {
                let intent = known.landing.intent.as_ref().map(|begun| begun.commit.clone());
                (known.number, known.landing.awaited.clone(), intent)
            })
            .collect();
        must!(of_rows == own, "P5: the rows say of landings {of_rows:?}, the ledger {own:?}");
        Ok(())
    }

    /// Once every landing is settled, the ledger has each move of a target, and no other.
    pub fn all_recorded(&self, now: &Fate) -> Verdict {
        let moved = now.git.moved();
        must!(*moved == self.landed, "P10: targets moved to {moved:?}, the ledger says {:?}", self.landed);
        Ok(())
    }
}

fn word(payload: &Value, name: &str) -> String {
    payload[name].as_str().unwrap_or_default().to_owned()
}
