//! The judge. It knows what was asked, by whom and when, and what the ledger says happened; it knows the promises, and none of
//! the code that is supposed to keep them. Its own idea of every lease (until when it lives, what it reserves, whose it is)
//! follows from requests, events and the world's clock. No verdict comes from a decision or a query of the engine; where
//! rows and answers are read, they are what is judged.
//!
//! | promise | what is a violation |
//! | --- | --- |
//! | P1 | a grant beside a lease that has not ended; ending a live lease as if it had lapsed; a token that did not grow |
//! | P2 | a superseded or foreign caller that changed something; an event under a token that is not current |
//! | P3 | two live leases that share a path of a small universe, unless both are shared; a touched path that nobody reserved |
//! | P4 | a step that the table does not know, or by somebody who may not take it |
//! | P8 | a key applied twice, or for two requests; two tasks for one origin; a request without an answer that half happened |
//! | P9 | a lease that lives or lapses otherwise than the monotonic clock says |
//! | P11, P12 | a refusal that teaches an override; an event by another than the caller |

mod lease;
mod paths;
mod rows;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onus_core::chain::Record;
use onus_core::command::{Act, Command, Presence};
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;
use onus_engine::{Ancestry, Reply, Request};
use serde_json::Value;

use crate::fate::Fate;
use lease::{At, Held};
pub use paths::{Paths, SHARED, UNIVERSE, matches, spelled_out};

/// What somebody asked for, and what the world saw of it.
#[derive(Debug)]
pub struct Deed<'a> {
    pub request: &'a Request,
    /// Whether it was committed, told or not.
    pub committed: bool,
    /// From where the store was written: what could be seen of processes.
    pub pid_ns: &'static str,
    /// What the caller was told; None if the answer was lost.
    pub answer: Option<&'a Result<Reply, Refusal>>,
}

/// A task, as far as promises are concerned.
#[derive(Debug, Default)]
struct Known {
    number: u64,
    version: u64,
    state: &'static str,
    highest: u64,
    fenced: u64,
    leases: BTreeMap<u64, Held>,
    kept: Option<(String, At)>,
    declared: BTreeSet<String>,
    deps: BTreeSet<String>,
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
    aliases: BTreeMap<String, String>,
    origins: BTreeMap<String, String>,
    /// What each key of an actor was first used for.
    keys: BTreeMap<(String, String), String>,
    paths: Rc<Paths>,
    /// Whoever changes a file without a task gets one; else some are only warned.
    adopts: bool,
    /// Leases that lapsed, by cause.
    pub lapses: BTreeMap<String, u64>,
}

/// What is being judged, while its events are followed.
struct Case<'a> {
    request: &'a Request,
    actor: String,
    instance: String,
    forced: bool,
    /// A token that is compared with this task's.
    token: Option<(String, u64)>,
    /// A rule was overridden in this request.
    overridden: bool,
    now: &'a Fate,
    pid_ns: &'static str,
    /// Tasks whose lease was renewed after a lapse by this very request.
    revived: BTreeSet<String>,
    paths: Rc<Paths>,
}

impl Case<'_> {
    fn is_of(&self, held: &Held) -> bool {
        held.is_of(&self.actor, &self.instance)
    }

    fn presents(&self, task: &str, token: u64) -> bool {
        self.token.as_ref().is_some_and(|(of, presented)| of == task && *presented == token)
    }

    /// Whether the caller comes from where a lease that is bound to a live process listens.
    fn is_inside(&self, held: &Held) -> bool {
        let Some(process) = held.process.as_ref().filter(|_| held.is_live(self.now)) else { return true };
        let Ancestry::Known(ancestry) = &self.request.identity.ancestry else { return false };
        ancestry.contains(process) || ancestry.first().is_some_and(|own| own.pid_ns != process.pid_ns)
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
    pub fn new(adopts: bool) -> Oracle {
        Oracle { adopts, ..Oracle::default() }
    }

    pub fn seq(&self) -> u64 {
        self.seq
    }

    pub fn tasks(&self) -> u64 {
        self.numbers.keys().next_back().copied().unwrap_or_default()
    }

    /// Who really acts behind a name.
    pub fn actor(&self, name: &str) -> String {
        self.aliases.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// What the founding of the store wrote.
    pub fn begin(&mut self, records: &[Record]) {
        self.seq = records.iter().map(|record| record.seq).max().unwrap_or_default();
    }

    /// Judges one request by the events that it wrote.
    pub fn judge(&mut self, deed: &Deed<'_>, records: &[Record], now: &Fate) -> Verdict {
        if let Some(Err(refusal)) = deed.answer {
            let teaches =
                refusal.message.contains("--force") || refusal.next.iter().any(|s| s.contains("--force"));
            must!(!teaches, "P11: a refusal teaches the override: {refusal:?}");
        }
        if !deed.committed {
            must!(records.is_empty(), "P8: what was refused or lost wrote {}", records[0].kind);
            return Ok(());
        }
        let request = deed.request;
        let identity = &request.identity;
        let token = match &identity.token {
            Some((Some(reference), token)) => self.uid(reference).map(|uid| (uid, token.0)),
            _ => None,
        };
        let mut case = Case {
            request,
            actor: self.actor(identity.actor.as_str()),
            instance: identity.instance.to_string(),
            forced: is_forced(&request.command),
            token,
            overridden: false,
            now,
            pid_ns: deed.pid_ns,
            revived: BTreeSet::new(),
            paths: Rc::clone(&self.paths),
        };
        must!(!case.forced || case.actor.starts_with("human:"), "P4: {} forced something", case.actor);
        if self.is_replay(&case, deed, records)? {
            return Ok(());
        }
        self.fence(&case, records)?;
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
        self.signs_of_life(&case);
        self.reserved(&case)?;
        self.disjoint(now)
    }

    fn uid(&self, reference: &TaskRef) -> Option<String> {
        match reference {
            TaskRef::Number(number) => self.numbers.get(&number.0).cloned(),
            _ => reference
                .to_string()
                .rsplit('-')
                .next()?
                .parse()
                .ok()
                .and_then(|n: u64| self.numbers.get(&n).cloned()),
        }
    }

    /// P8: a key applies one request once.
    fn is_replay(&mut self, case: &Case<'_>, deed: &Deed<'_>, records: &[Record]) -> Result<bool, String> {
        let told_replayed = match deed.answer {
            Some(Ok(reply)) => Some(reply.replayed),
            _ => None,
        };
        let Some(key) = &case.request.key else {
            must!(told_replayed != Some(true), "P8: replayed without a key");
            return Ok(false);
        };
        let asked = format!("{:?}", case.request.command);
        match self.keys.get(&(case.actor.clone(), key.clone())) {
            Some(first) => {
                must!(*first == asked, "P8: key {key} was applied for {first}, and for {asked}");
                must!(told_replayed != Some(false), "P8: key {key} was applied twice");
                let renews = |record: &Record| record.kind == "lease.renewed";
                must!(records.iter().all(renews), "P8: key {key} wrote again: {}", records[0].kind);
                self.seq = records.last().map_or(self.seq, |record| record.seq);
                must!(records.is_empty(), "P8: a replay of key {key} renewed a lease");
                Ok(true)
            }
            None => {
                must!(told_replayed != Some(true), "P8: key {key} was never applied, and is called replayed");
                self.keys.insert((case.actor.clone(), key.clone()), asked);
                Ok(false)
            }
        }
    }

    /// P2: a superseded caller changes nothing of the task it names, unless a person forces it.
    fn fence(&self, case: &Case<'_>, records: &[Record]) -> Verdict {
        let reference = match &case.request.command {
            Command::OnTask { act: Act::Claim(_) | Act::Takeover(_), .. } => return Ok(()),
            Command::OnTask { task: Some(task), .. }
            | Command::Reset { task: Some(task), .. }
            | Command::Retry { task: Some(task), .. } => task,
            _ => return Ok(()),
        };
        let Some(uid) = self.uid(reference) else { return Ok(()) };
        let Some(known) = self.tasks.get(&uid) else { return Ok(()) };
        let writes = records.iter().any(|record| record.task.as_ref() == Some(&uid));
        if case.forced || !writes {
            return Ok(());
        }
        let usable = known.usable();
        if let Some((_, presented)) = case.token.as_ref().filter(|(task, _)| *task == uid) {
            must!(
                usable.is_some_and(|held| held.token == *presented),
                "P2: token {presented} changed ON-{}, whose highest is {} and which was fenced up to {}",
                known.number,
                known.highest,
                known.fenced
            );
            return Ok(());
        }
        let is_holder = usable.is_some_and(|held| case.is_of(held) && case.is_inside(held));
        let is_past = case.actor.starts_with("human:") && matches!(known.state, "done" | "dropped");
        must!(
            is_holder || is_past || !known.was_superseded(&case.actor, &case.instance),
            "P2: {} {} was superseded on ON-{} and changed it",
            case.actor,
            case.instance,
            known.number
        );
        Ok(())
    }

    fn follow_project(&mut self, record: &Record) {
        if record.kind == "actor.aliased" {
            let text = |name: &str| record.payload[name].as_str().unwrap_or_default().to_owned();
            self.aliases.insert(text("alias"), text("actor"));
        }
    }

    fn follow(&mut self, case: &mut Case<'_>, task: &str, record: &Record) -> Verdict {
        if record.kind == "task.created" {
            self.created(task, record)?;
        }
        let unmet = self.tasks.get(task).is_some_and(|known| {
            known.deps.iter().any(|dep| self.tasks.get(dep).is_none_or(|dep| dep.state != "done"))
        });
        let Some(known) = self.tasks.get_mut(task) else {
            return Err(format!("P5: {} of a task that was never created", record.kind));
        };
        let id = format!("ON-{}", known.number);
        let at = At::of(case.now);
        must!(
            record.version == known.version + 1,
            "P5: {id} has version {} after {}",
            record.version,
            known.version
        );
        known.version = record.version;
        let kind = record.kind.as_str();
        let (payload, before) = (&record.payload, known.state);
        // P2: whatever names a token names the current one.
        if let Some(token) = record.token
            && kind != "lease.acquired"
        {
            must!(
                known.usable().is_some_and(|held| held.token == token),
                "P2: {kind} of {id} under token {token}; the highest is {}, fenced up to {}",
                known.highest,
                known.fenced
            );
        }
        let others = known.current().filter(|held| held.is_live(case.now) && !case.is_of(held));
        let others = others.filter(|held| !case.presents(task, held.token)).map(|held| held.token);
        let ends = payload.get("lease").is_some_and(Value::is_object);
        match kind {
            "lease.acquired" => {
                known.acquire(case, record, at, unmet)?;
                known.kept = None;
            }
            "lease.taken_over" | "lease.lapsed" => {
                let held = known.of_token(record)?;
                must!(
                    !held.is_live(case.now),
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
            "lease.revoked" => {
                must!(case.forced, "P1: {id} was revoked by {} without force", case.actor);
                known.of_token(record)?.ended = Some("lease.revoked");
            }
            "lease.renewed" => {
                known.renew_late(case, task, record, at, unmet)?;
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
                known.kept = None;
            }
            "task.started" | "scope.added" | "scope.removed" => {
                let held = known.of_token(record)?;
                must!(
                    case.is_of(held) && case.is_inside(held) || case.presents(task, held.token),
                    "P2: {kind} of {id} by {} {}, not its holder {held:?}",
                    case.actor,
                    case.instance
                );
                match kind {
                    "task.started" => held.reserve = false,
                    "scope.added" => held.scope.extend(globs(&payload["scope"])),
                    _ => held.scope.retain(|glob| !globs(&payload["scope"]).contains(glob)),
                }
                held.mask = self.paths.mask(&held.scope);
            }
            "task.edited" | "dep.added" | "dep.removed" => {
                let person = case.actor.starts_with("human:");
                must!(
                    others.is_none() || person,
                    "P2: {kind} of {id} by {} under token {others:?}: {:?}",
                    case.actor,
                    known.current()
                );
                match kind {
                    "task.edited" => known.declared = globs(&payload["facts"]["scope"]),
                    "dep.added" => known.deps.extend(globs(&payload["on"])),
                    _ => known.deps.retain(|dep| !globs(&payload["on"]).contains(dep)),
                }
            }
            "rule.overridden" => {
                must!(case.forced, "P4: {} overrode a rule without force", case.actor);
                case.overridden = true;
            }
            "note.added" | "text.redacted" | "task.created" => {}
            _ if ends => {
                let held = known.of_token(record)?;
                must!(
                    case.is_of(held) && case.is_inside(held) || case.presents(task, held.token),
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
        if matches!(kind, "lease.handed_off" | "task.rejected") {
            known.kept = payload["kept_for"]["actor"].as_str().map(|actor| {
                let kept = &payload["kept_for"];
                let ms = |name: &str| kept[name].as_i64().unwrap_or_default();
                (
                    actor.to_owned(),
                    At { wall_ms: ms("until_wall_ms"), tick_ms: ms("until_tick_ms"), boot: at.boot },
                )
            });
        }
        if matches!(kind, "task.accepted" | "task.reopened" | "task.dropped") {
            known.kept = None;
        }
        if kind == "task.done" && unmet {
            must!(case.overridden, "P4: {id} is done and depends on what is not");
        }
        let after = table::after(kind, payload, before);
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
            ..Known::default()
        };
        must!(self.tasks.insert(task.to_owned(), known).is_none(), "P5: a task was created twice");
        Ok(())
    }

    /// A successful change shows that its caller lives; a turn that is over lets the TTL count.
    fn signs_of_life(&mut self, case: &Case<'_>) {
        let (now, at) = (case.now, At::of(case.now));
        let presence = match &case.request.command {
            Command::Presence(presence) => Some(*presence),
            _ => None,
        };
        let target = match &case.request.command {
            Command::OnTask { task: Some(task), act, .. } => self.uid(task).map(|uid| (uid, act)),
            _ => None,
        };
        let silent = case.request.identity.known_by == onus_core::actor::KnownBy::Worktree;
        for (uid, known) in &mut self.tasks {
            let Some(held) = known.leases.get_mut(&known.highest) else { continue };
            // Renewing is by name or by token; everything else renews by name alone, and not for who is known only by a folder.
            let renewed = match &target {
                Some((task, Act::Renew { ttl_ms, .. })) if task == uid => Some(*ttl_ms),
                Some((task, Act::Claim(terms))) if task == uid && case.is_of(held) => Some(terms.ttl_ms),
                Some((task, Act::AddScope { .. } | Act::RemoveScope { .. } | Act::Touch { .. }))
                    if task == uid =>
                {
                    Some(None)
                }
                _ => None,
            };
            if held.ended.is_some()
                || case.revived.contains(uid)
                || !held.is_live(now)
                || !(case.is_of(held) && !silent || renewed.is_some())
            {
                continue;
            }
            match presence {
                Some(Presence::TurnOver) => held.rest(&at),
                Some(Presence::Gone) if !held.reserve => held.rest(&at),
                Some(Presence::Gone) => {}
                _ => held.renew(&at, renewed.flatten().filter(|ms| *ms > 0)),
            }
        }
    }

    /// P3: what was touched, guarded or claimed is reserved now.
    fn reserved(&self, case: &Case<'_>) -> Verdict {
        let own = || {
            let held = self.tasks.values().filter_map(Known::usable);
            // Whether a holder's process lives cannot be told from everywhere, and between boots the wall clock decides.
            let counts = |held: &&Held| {
                let unclear = held.process.is_some() || held.goes_by_the_wall(case.now);
                case.is_of(held) && held.ended.is_none() && (held.is_live(case.now) || unclear)
            };
            held.filter(counts).fold(self.paths.shared(), |mask, held| mask | held.mask)
        };
        match &case.request.command {
            Command::Guard(guard) => {
                let asked = guard.paths.iter().fold(0, |mask, path| mask | self.paths.bit(path));
                must!(
                    !self.adopts || asked & !own() == 0,
                    "P3: guarded paths {:?} are not reserved",
                    guard.paths
                );
                Ok(())
            }
            Command::OnTask { act: Act::Touch { paths }, task: Some(task), .. } => {
                let Some(held) = self.uid(task).and_then(|uid| self.tasks.get(&uid)).and_then(Known::usable)
                else {
                    return Err("P3: a touch without a lease".to_owned());
                };
                let asked = paths.iter().fold(0, |mask, path| mask | self.paths.bit(path));
                must!(asked & !(own() | held.mask) == 0, "P3: touched paths {paths:?} are not reserved");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// P3: live scopes share no path, unless both are shared. Cheap enough for every step: a scope is a bit a path.
    fn disjoint(&self, now: &Fate) -> Verdict {
        let (mut exclusive, mut any) = (0, 0);
        for known in self.tasks.values() {
            let Some(held) = known.current().filter(|held| held.mask != 0 && held.ended.is_none()) else {
                continue;
            };
            if !held.is_live(now) {
                continue;
            }
            let mask = held.mask & !self.paths.shared();
            let clash = if held.shared { mask & exclusive } else { mask & any };
            must!(
                clash == 0,
                "P3: ON-{} and another live lease both have {:?}: {held:?}",
                known.number,
                self.paths.names(clash)
            );
            any |= mask;
            if !held.shared {
                exclusive |= mask;
            }
        }
        Ok(())
    }

    /// Time has passed, or was stepped: what is over stays over, whatever the clocks say next.
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
    match command {
        Command::OnTask { force, .. } | Command::Reset { force, .. } | Command::Retry { force, .. } => {
            force.is_some()
        }
        _ => false,
    }
}

fn globs(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(|glob| glob.as_str().map(str::to_owned)).collect()
}
