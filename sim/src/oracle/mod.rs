//! The judge. It knows what was requested, by whom and when, and what the ledger says happened; it knows the promises, and none
//! of the code that is supposed to keep them. Its own model of every lease (how long it lives, what it reserves, whose it is)
//! follows from requests, events and the world's clock. No verdict relies on a decision or a query of the engine; rows and
//! answers are read only to be judged.
//!
//! | promise | what is a violation |
//! | --- | --- |
//! | P1 | a grant beside a lease that has not ended; ending a live lease as if it had lapsed; a token that did not grow |
//! | P2 | a superseded or foreign caller that changed something, or passed the guard before it was notified; an event under a token that is not current |
//! | P3 | a reservation, by whichever verb, of a path of a small universe that another live lease has, unless both are shared or both touched it, in worktrees known to be two or as parts of one conversation; two live leases that share one so; a touched path that nobody reserved in that worktree |
//! | P2, P10 | a task that is changed while its landing is begun and not settled; a target that moves for a task that has changed since; a landing that is recorded and not in the target, or called withdrawn and there |
//! | P4 | a step that is not in the table, or by a caller that may not take it; a task kept for one actor and got or assigned by another; a lease that may do what its task or its claim forbids; an agent that loosens a task; a step whose gates have not passed on what is there; a gate judged by the wrong party; what depends on a task that has still to land |
//! | P7 | a lease whose events record other hours than the judge computes from its holder's signs of life |
//! | P8 | a key applied twice, or for two requests; two tasks for one origin; a request without an answer that half happened |
//! | P9 | a lease that lives or lapses against the monotonic clock |
//! | P10 | a file that was yielded by anything but resting ad-hoc work, with uncommitted changes, or unseen on another machine |
//! | P11, P12 | a refusal that teaches an override; an event by another actor than the caller |

mod fence;
mod landing;
mod lease;
mod life;
mod limits;
mod losses;
mod paths;
mod rows;
mod seats;
mod table;
mod work;
mod yielding;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onus_core::chain::Record;
use onus_core::command::{Act, Command};
use onus_core::ids::TaskRef;
use onus_core::lease::Process;
use onus_core::refusal::{Refusal, Step};
use onus_core::scope::WorktreeId;
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Reply, Request};
use serde_json::Value;

use crate::fate::{Fate, Place};
use lease::{At, Held};
pub use paths::{Paths, SHARED, UNIVERSE, matches, spelled_out};
pub use work::IDLE_MS;

/// A request, and what the world saw of it.
#[derive(Debug)]
pub struct Deed<'a> {
    pub request: &'a Request,
    /// Whether it was committed, whether or not the answer arrived.
    pub committed: bool,
    /// The place of the handle that wrote, which determines what could be seen of processes.
    pub place: &'static Place,
    /// The answer to the caller. None: it was lost.
    pub answer: Option<&'a Result<Reply, Refusal>>,
}

/// What the judge knows about a task.
#[derive(Debug, Default)]
struct Known {
    number: u64,
    version: u64,
    state: &'static str,
    /// Its state before it was last dropped.
    dropped_from: &'static str,
    highest: u64,
    fenced: u64,
    leases: BTreeMap<u64, Held>,
    kept: Option<(String, At)>,
    declared: BTreeSet<String>,
    deps: BTreeSet<String>,
    /// What its holder may not do, as it is spelled.
    limits: BTreeSet<String>,
    /// Whether a person held it last, and the constraints of that lease.
    bound: Option<(bool, BTreeSet<String>)>,
    /// Acceptance lines.
    lines: u64,
    /// Its references in other systems.
    refs: BTreeSet<String>,
    landing: landing::Landing,
    /// It was opened for edits that belonged to no task.
    ad_hoc: bool,
    /// A seat instead of a task: the same promises, but it is never finished.
    seat: bool,
}

impl Known {
    fn current(&self) -> Option<&Held> {
        self.leases.get(&self.highest)
    }

    /// The lease under which its holder may still write.
    fn usable(&self) -> Option<&Held> {
        self.current()
            .filter(|held| held.token > self.fenced && held.ended.is_none_or(|how| how == "lease.lapsed"))
    }

    fn was_superseded(&self, actor: &str, instance: &str) -> bool {
        let own = self.leases.values().rev().find(|held| held.is_of(actor, instance));
        own.is_some_and(|own| match own.ended {
            Some("lease.taken_over" | "lease.revoked" | "task.reset") => true,
            Some("lease.lapsed") | None => own.token < self.highest || own.token <= self.fenced,
            Some(_) => own.token <= self.fenced && !actor.starts_with("human:"),
        })
    }
}

#[derive(Debug, Default)]
pub struct Oracle {
    seq: u64,
    tasks: BTreeMap<String, Known>,
    numbers: BTreeMap<u64, String>,
    seats: BTreeMap<String, String>,
    aliases: BTreeMap<String, String>,
    origins: BTreeMap<String, String>,
    /// The first request of each key of an actor.
    keys: BTreeMap<(String, String), String>,
    /// What holders lost and were not notified of.
    losses: losses::Losses,
    paths: Rc<Paths>,
    /// Whether an agent that changes a file without a task gets one; otherwise it is only warned.
    adopts: bool,
    /// Whether one file may not be touched in two worktrees.
    refuses: bool,
    /// When a dependency is met, if the project configures landing.
    deps_met: Option<String>,
    /// The commits with which tasks landed.
    landed: BTreeSet<String>,
    /// When a task was last written: at least this much of the time the store knows.
    written: Option<At>,
    turns: work::Turns,
    /// Leases that lapsed, by cause.
    pub lapses: BTreeMap<String, u64>,
}

/// The request that is being judged, while its events are processed.
struct Case<'a> {
    request: &'a Request,
    actor: String,
    instance: String,
    forced: bool,
    /// The token that is compared with this task's.
    token: Option<(String, u64)>,
    /// A rule was overridden in this request.
    overridden: bool,
    /// The caller is in a turn.
    in_turn: bool,
    now: &'a Fate,
    place: &'static Place,
    /// Tasks whose lease this request renewed after a lapse.
    revived: BTreeSet<String>,
    paths: Rc<Paths>,
}

impl Case<'_> {
    fn is_of(&self, held: &Held) -> bool {
        held.is_of(&self.actor, &self.instance)
    }

    /// Whether the caller presents the token of a lease that was granted to its own actor.
    fn presents(&self, task: &str, held: &Held) -> bool {
        let shown = self.token.as_ref().is_some_and(|(of, presented)| of == task && *presented == held.token);
        shown && held.actor == self.actor
    }

    /// Whether the caller may use a lease that is bound to a live process: it comes from that process.
    fn is_inside(&self, held: &Held) -> bool {
        let Some(process) = held.process.as_ref().filter(|_| held.is_live(self.now)) else { return true };
        let Ancestry::Known(ancestry) = &self.request.identity.ancestry else { return false };
        let sees_the_same = |own: &Process| match (own.pid_ns.known(), process.pid_ns.known()) {
            (Some(own), Some(other)) => own == other,
            _ => false,
        };
        ancestry.contains(process) || ancestry.first().is_some_and(|own| !sees_the_same(own))
    }
}

type Verdict = Result<(), String>;

/// Fails with a promise and what broke it.
macro_rules! must {
    ($holds:expr, $($what:tt)+) => {
        if !$holds { return Err(format!($($what)+)); }
    };
}
use must;

impl Oracle {
    pub fn new(adopts: bool, refuses: bool, deps_met: Option<String>) -> Oracle {
        Oracle { adopts, refuses, deps_met, ..Oracle::default() }
    }

    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn tasks(&self) -> u64 {
        self.numbers.keys().next_back().copied().unwrap_or_default()
    }

    /// The actor behind an alias.
    pub fn actor(&self, name: &str) -> String {
        self.aliases.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// Processes the events of the store's creation.
    pub fn begin(&mut self, records: &[Record]) {
        self.seq = records.iter().map(|record| record.seq).max().unwrap_or_default();
    }

    /// Judges one request by the events that it wrote.
    pub fn judge(&mut self, deed: &Deed<'_>, records: &[Record], now: &Fate) -> Verdict {
        if let Some(Err(refusal)) = deed.answer {
            let by = self.actor(deed.request.identity.actor.as_str());
            let told = refusal.overridable.is_none() || by.starts_with("human:");
            must!(told, "P11: a refusal tells {by}, no person, of an override: {refusal:?}");
            // Taking work from another is never the safe step, and no message names an interface.
            let takes = |step: &Step| matches!(step, Step::Do(Verb::Takeover | Verb::Reset, _));
            let names = ["force", "onus ", " --"].iter().any(|word| refusal.message.contains(word));
            let teaches = names || refusal.next.iter().any(takes);
            must!(!teaches, "P11: a refusal teaches the override: {refusal:?}");
        }
        let is_before = |record: &Record| landing::comes_before(&record.kind, &deed.request.command);
        let before = records.iter().rposition(is_before).map_or(0, |at| at + 1);
        let (before, records) = records.split_at(before);
        self.make_way(deed, before, now)?;
        if !deed.committed {
            must!(records.is_empty(), "P8: what was refused or lost wrote {}", records[0].kind);
            return Ok(());
        }
        let request = deed.request;
        let identity = &request.identity;
        let token = match &identity.token {
            Some((Some(reference), token)) => self.uid(reference).map(|uid| (uid, token.0)),
            Some((None, token)) => self.seat_of(&request.command).map(|uid| (uid, token.0)),
            None => None,
        };
        let mut case = Case {
            request,
            actor: self.actor(identity.actor.as_str()),
            instance: identity.instance.to_string(),
            forced: is_forced(&request.command),
            token,
            overridden: false,
            in_turn: self.turns.is_part_of_one(
                &self.actor(identity.actor.as_str()),
                identity.instance.as_str(),
                &request.command,
            ),
            now,
            place: deed.place,
            revived: BTreeSet::new(),
            paths: Rc::clone(&self.paths),
        };
        must!(!case.forced || case.actor.starts_with("human:"), "P4: {} forced something", case.actor);
        if self.is_replay(&case, deed, records)? {
            self.renewed_by_replay(&case);
            return Ok(());
        }
        self.fence(&case, records)?;
        self.fence_seat(&case, records)?;
        self.heeds_losses(&case)?;
        for record in records {
            self.seq = record.seq;
            must!(
                record.actor == case.actor && record.instance == case.instance,
                "P12: {} {} wrote as {} {}",
                case.actor,
                case.instance,
                record.actor,
                record.instance
            );
            match &record.task {
                Some(task) => self.follow(&mut case, task, record)?,
                None => self.follow_project(record),
            }
        }
        self.tell_losses(&case);
        let renewed = self.signs_of_life(&case);
        self.turns.follow(&case);
        if renewed || records.iter().any(|record| record.task.is_some()) {
            self.settle(now);
        }
        self.reserved(&case)?;
        self.disjoint(now)
    }

    fn uid(&self, reference: &TaskRef) -> Option<String> {
        match reference {
            TaskRef::Number(number) => self.numbers.get(&number.0).cloned(),
            TaskRef::External { .. } => {
                let named = reference.to_string();
                let mut called = self.tasks.iter().filter(|(_, known)| known.refs.contains(&named));
                let first = called.next().map(|(uid, _)| uid.clone());
                first.filter(|_| called.next().is_none())
            }
            _ => reference
                .to_string()
                .rsplit('-')
                .next()?
                .parse()
                .ok()
                .and_then(|n: u64| self.numbers.get(&n).cloned()),
        }
    }

    fn follow_project(&mut self, record: &Record) {
        if record.kind == "actor.aliased" {
            let text = |name: &str| record.payload[name].as_str().unwrap_or_default().to_owned();
            self.aliases.insert(text("alias"), text("actor"));
        }
    }

    fn follow(&mut self, case: &mut Case<'_>, task: &str, record: &Record) -> Verdict {
        self.follow_loss(case, task, record);
        self.count_landing(record)?;
        if record.kind == "task.created" {
            self.created(task, record)?;
        }
        if record.kind == "seat.created" {
            return self.seat_created(task, record);
        }
        let unmet = self.tasks.get(task).is_some_and(|known| {
            known.deps.iter().any(|dep| !self.tasks.get(dep).is_some_and(Known::is_met))
        });
        let begins = matches!(record.kind.as_str(), "lease.acquired" | "lease.renewed" | "scope.added");
        let rivals = if begins { self.rivals(task, case.now) } else { Vec::new() };
        let at = At::of(case.now);
        let by_store = self.as_the_store_knows(at);
        let Some(known) = self.tasks.get_mut(task) else {
            return Err(format!("P5: {} of a task that was never created", record.kind));
        };
        let id = format!("ON-{}", known.number);
        must!(
            record.version == known.version + 1,
            "P5: {id} has version {} after {}",
            record.version,
            known.version
        );
        known.version = record.version;
        let kind = record.kind.as_str();
        let (payload, before) = (&record.payload, known.state);
        // P2: an event names the current token, except one about the files of a lost lease.
        if let Some(token) = record.token
            && kind != "lease.acquired"
            && !kind.starts_with("rescue.")
        {
            must!(
                known.usable().is_some_and(|held| held.token == token),
                "P2: {kind} of {id} under token {token}; the highest is {}, fenced up to {}",
                known.highest,
                known.fenced
            );
        }
        let others = known.current().filter(|held| held.is_live(case.now) && !case.is_of(held));
        let others = others.filter(|held| !case.presents(task, held)).map(|held| held.token);
        let ends = payload.get("lease").is_some_and(Value::is_object);
        if let Some(held) = record.token.and_then(|token| known.leases.get_mut(&token)) {
            held.hear(record);
            if ends {
                held.settle_work(case, task, record, &by_store)?;
            }
        }
        known.follow_landing(case, record, others, self.deps_met.as_deref())?;
        match kind {
            "lease.acquired" => {
                known.acquire(case, record, at, unmet)?;
                known.kept = None;
            }
            "lease.taken_over" | "lease.lapsed" => {
                let held = known.of_token(record)?;
                must!(
                    !held.is_surely_live(case.now),
                    "P1: {kind} of {id}: the lease of {} is live: {held:?}",
                    held.actor
                );
                let cause = payload["cause"].as_str().unwrap_or_default();
                must!(
                    held.ended.is_some() || held.may_lapse_by(cause, case.now),
                    "P9: {id} lapsed by {cause}: {held:?}"
                );
                *self.lapses.entry(cause.to_owned()).or_default() += 1;
                held.ended = Some(if kind == "lease.lapsed" { "lease.lapsed" } else { "lease.taken_over" });
            }
            "rescue.due" => {
                let held = known.of_token(record)?;
                must!(
                    held.ended.is_some() && !case.is_of(held),
                    "P10: {kind} of {id}: {} has not lost its lease: {held:?}",
                    held.actor
                );
            }
            "rescue.kept" | "rescue.settled" | "rescue.dropped" => {}
            "lease.revoked" => {
                must!(case.forced, "P1: {id} was revoked by {} without force", case.actor);
                known.of_token(record)?.ended = Some("lease.revoked");
            }
            "lease.renewed" => {
                known.renew_late(case, task, record, by_store, unmet)?;
                case.revived.insert(task.to_owned());
            }
            "task.reset" => {
                must!(others.is_none() || case.forced, "P2: {id} was reset under token {others:?}");
                if let Some(held) = known.leases.get_mut(&known.highest)
                    && held.ended.is_none()
                {
                    held.ended = Some("task.reset");
                }
                known.fenced = known.highest;
            }
            "scope.yielded" => known.give_up(case, record)?,
            "task.started" | "scope.added" | "scope.removed" | "scope.changed" | "lease.attached"
            | "task.branched" => {
                let held = known.of_token(record)?;
                // Its holder may use a lapsed lease from anywhere, also for what comes with its renewal.
                let is_inside = case.is_inside(held) || case.revived.contains(task);
                must!(
                    case.is_of(held) && is_inside || case.presents(task, held),
                    "P2: {kind} of {id} by {} {}, not its holder {held:?}",
                    case.actor,
                    case.instance
                );
                match kind {
                    "task.started" => held.reserve = false,
                    "lease.attached" => held.place = lease::place_of(payload),
                    "task.branched" => {}
                    "scope.changed" => yielding::change(held, payload)?,
                    "scope.added" => {
                        held.scope.extend(globs(&payload["scope"]));
                        rows::add(&mut held.rows, rows::rows_of(payload));
                    }
                    _ => {
                        held.scope.retain(|glob| !globs(&payload["scope"]).contains(glob));
                        held.rows.retain(|row| held.scope.contains(&row.glob));
                    }
                }
                held.ground = rows::Ground::of(&held.rows, &self.paths);
            }
            "task.edited"
            | "dep.added"
            | "dep.removed"
            | "acceptance.added"
            | "acceptance.ticked"
            | "acceptance.unticked" => {
                let person = case.actor.starts_with("human:");
                must!(
                    others.is_none() || person,
                    "P2: {kind} of {id} by {} under token {others:?}: {:?}",
                    case.actor,
                    known.current()
                );
                match kind {
                    "task.edited" => {
                        let facts = &payload["facts"];
                        let limits = globs(&facts["constraints"]);
                        must!(
                            person || limits::cover(&limits, &known.limits),
                            "P4: {} loosened {:?} of {id} to {limits:?}",
                            case.actor,
                            known.limits
                        );
                        (known.declared, known.limits, known.refs) =
                            (globs(&facts["scope"]), limits, refs(facts));
                    }
                    "acceptance.added" => known.lines += 1,
                    "acceptance.ticked" | "acceptance.unticked" => {
                        let line = payload["line"].as_u64().unwrap_or_default();
                        must!((1..=known.lines).contains(&line), "P5: {id} has no line {line}");
                    }
                    "dep.added" => known.deps.extend(globs(&payload["on"])),
                    _ => known.deps.retain(|dep| !globs(&payload["on"]).contains(dep)),
                }
            }
            "rule.overridden" => {
                must!(case.forced, "P4: {} overrode a rule without force", case.actor);
                case.overridden = true;
            }
            "note.added" | "text.redacted" | "task.created" | "gate.passed" | "gate.failed"
            | "landing.intended" | "landing.withdrawn" | "landing.failed" | "task.landed" => {}
            _ if ends => {
                let held = known.of_token(record)?;
                must!(
                    case.is_of(held) && case.is_inside(held) || case.presents(task, held),
                    "P2: {kind} of {id} by {} {}, not its holder {held:?}",
                    case.actor,
                    case.instance
                );
                held.ended = Some("by its holder");
            }
            _ => {
                must!(
                    others.is_none(),
                    "P2: {kind} of {id} by {} {} under token {others:?}",
                    case.actor,
                    case.instance
                );
                let open = known.current().is_some_and(|held| held.ended.is_none());
                must!(!open, "P4: {kind} of {id} left its lease open");
            }
        }
        // Whichever verb reserved it, and even if the lease ends in the same request.
        if begins && let Some(held) = known.current() {
            let clash = rivals.iter().fold(0, |clash, other| clash | held.clash(other, self.refuses));
            must!(
                clash == 0,
                "P3: {kind} of {id} by {} in {:?} on {:?}, which another live lease has: {held:?}",
                case.actor,
                case.request.command,
                self.paths.names(clash)
            );
        }
        if kind == "lease.handed_off" {
            known.assigned(case, payload, &at)?;
        }
        let keeps = kind == "landing.failed" && payload["kept_for"].is_object();
        if keeps || matches!(kind, "lease.handed_off" | "task.rejected") {
            known.kept = payload["kept_for"]["actor"].as_str().map(|actor| {
                let kept = &payload["kept_for"];
                let ms = |name: &str| kept[name].as_i64().unwrap_or_default();
                (
                    actor.to_owned(),
                    At {
                        wall_ms: ms("until_wall_ms"),
                        tick_ms: ms("until_tick_ms"),
                        latest_ms: ms("until_wall_ms"),
                        boot: at.boot,
                    },
                )
            });
        }
        if kind == "task.done" && unmet {
            must!(case.overridden, "P4: {id} is done and depends on what is not");
        }
        let after = table::after(kind, payload, before, known.dropped_from);
        if kind == "task.dropped" {
            known.dropped_from = before;
        }
        must!(table::allows(kind, before), "P4: {kind} from {before} (of {id})");
        known.state = after;
        Ok(())
    }

    fn created(&mut self, task: &str, record: &Record) -> Verdict {
        let payload = &record.payload;
        if let Some(origin) = payload["origin"].as_str() {
            let first = self.origins.insert(origin.to_owned(), task.to_owned());
            must!(first.is_none(), "P8: {origin} became two tasks");
        }
        let number = payload["number"].as_u64().unwrap_or_default();
        must!(self.numbers.insert(number, task.to_owned()).is_none(), "P8: two tasks are called ON-{number}");
        let known = Known {
            number,
            state: "none",
            declared: globs(&payload["facts"]["scope"]),
            deps: globs(&payload["deps"]),
            limits: globs(&payload["facts"]["constraints"]),
            refs: refs(&payload["facts"]),
            ad_hoc: payload["facts"]["ad_hoc"] == true,
            ..Known::default()
        };
        must!(self.tasks.insert(task.to_owned(), known).is_none(), "P5: a task was created twice");
        Ok(())
    }

    /// P3: whatever was touched, guarded or claimed is now reserved, in the worktree where it was touched.
    fn reserved(&self, case: &Case<'_>) -> Verdict {
        let bits = |paths: &[String]| paths.iter().fold(0, |mask, path| mask | self.paths.bit(path));
        match &case.request.command {
            Command::Guard(guard) => {
                let own = self.own_in(guard.touched.worktree.as_ref(), case, None);
                must!(
                    !self.adopts || bits(&guard.paths) & !own == 0,
                    "P3: guarded paths {:?} are not reserved in {:?}",
                    guard.paths,
                    guard.touched.worktree
                );
                Ok(())
            }
            Command::OnTask { act: Act::Touch { paths, touched, .. }, task: Some(task), .. } => {
                let Some(held) = self.uid(task).and_then(|uid| self.tasks.get(&uid)).and_then(Known::usable)
                else {
                    return Err("P3: a touch without a lease".to_owned());
                };
                let own = self.own_in(touched.worktree.as_ref(), case, Some(held));
                must!(bits(paths) & !own == 0, "P3: {paths:?} are not reserved in {touched:?}: {held:?}");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The paths that the caller's leases and this one reserve in a worktree.
    fn own_in(&self, worktree: Option<&WorktreeId>, case: &Case<'_>, this: Option<&Held>) -> u64 {
        let worktree = worktree.map(ToString::to_string);
        // A holder's process cannot be seen from everywhere, and between boots the wall clock decides.
        let counts = |held: &&Held| {
            let unclear = held.process.is_some() || held.may_be_revived(case.now);
            case.is_of(held) && held.ended.is_none() && (held.is_live(case.now) || unclear)
        };
        let held = self.tasks.values().filter_map(Known::usable).filter(counts).chain(this);
        held.fold(self.paths.shared(), |mask, held| {
            let here = held.rows.iter().filter(|row| row.applies_in(worktree.as_deref()));
            mask | self.paths.mask(&here.map(|row| row.glob.clone()).collect())
        })
    }

    /// The live leases of other tasks.
    fn rivals(&self, task: &str, now: &Fate) -> Vec<Held> {
        let others = self.tasks.iter().filter(|(uid, _)| *uid != task);
        others.filter_map(|(_, known)| known.current().filter(|held| held.is_live(now)).cloned()).collect()
    }

    /// P3: no two live leases reserve what they may not both reserve, unless both are shared. Cheap enough for every step: a path is
    /// one bit.
    fn disjoint(&self, now: &Fate) -> Verdict {
        let live = |known: &&Known| {
            known
                .current()
                .is_some_and(|held| !held.rows.is_empty() && held.ended.is_none() && held.is_live(now))
        };
        let live: Vec<(u64, &Held)> = self
            .tasks
            .values()
            .filter(live)
            .filter_map(|known| Some((known.number, known.current()?)))
            .collect();
        for (at, (number, held)) in live.iter().enumerate() {
            for (other, theirs) in &live[..at] {
                let clash = held.clash(theirs, self.refuses);
                must!(
                    clash == 0,
                    "P3: ON-{number} and ON-{other} both have {:?}: {held:?}, {theirs:?}",
                    self.paths.names(clash)
                );
            }
        }
        Ok(())
    }

    /// A moment with the latest time that the store can know: it does not know the wall clock while nothing is written.
    fn as_the_store_knows(&self, at: At) -> At {
        at.knowing(self.written.as_ref().unwrap_or(&At { latest_ms: at.wall_ms, ..at }))
    }

    /// Something was written, so the store knows the time, and what has lapsed by now has lapsed for good.
    fn settle(&mut self, now: &Fate) {
        let at = self.as_the_store_knows(At::of(now));
        self.written = Some(at);
        for held in self.tasks.values_mut().flat_map(|known| known.leases.values_mut()) {
            held.settled |= held.has_run_out(&at);
        }
    }

    /// Time has passed, or was stepped: a lapsed lease stays lapsed, whatever the clocks say next.
    pub fn look(&mut self, now: &Fate) -> Verdict {
        for known in self.tasks.values_mut() {
            if let Some(held) = known.leases.get_mut(&known.highest)
                && held.ended.is_none()
                && !held.is_live(now)
            {
                held.over = true;
            }
        }
        self.disjoint(now)
    }
}

fn is_forced(command: &Command) -> bool {
    match command.itself() {
        Command::OnTask { force, .. }
        | Command::OnSeat { force, .. }
        | Command::Reset { force, .. }
        | Command::Retry { force, .. } => force.is_some(),
        _ => false,
    }
}

/// A task's references in other systems.
fn refs(facts: &Value) -> BTreeSet<String> {
    let refs = facts["refs"].as_object().into_iter().flatten();
    refs.filter_map(|(system, id)| Some(format!("{system}:{}", id.as_str()?))).collect()
}

fn globs(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(|glob| glob.as_str().map(str::to_owned)).collect()
}
