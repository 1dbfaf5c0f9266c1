//! The checker: replays what processes did and were told, against the ledger, and knows nothing of onus's own rules
//! but what they promise. It trusts no row and no crate of onus: ticks, tokens and answers are all it looks at.
//!
//! A process may *trust* its lease from the answer that gave it until, counted from the **start** of the request that
//! last renewed it, the TTL is over; or, bound to a process, until just before that process was killed; in any case
//! until it began to give the lease back. If a higher token was granted before that, two held the task at once.

use std::collections::BTreeMap;

use serde_json::Value;

/// What somebody did to a task or a seat, when, and what they were told. Times are of the clock that the store decides by.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(crate) who: String,
    pub(crate) verb: Verb,
    pub(crate) task: String,
    /// Rounded down, and up: what happened lies within.
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    pub(crate) code: i32,
    pub(crate) answer: Value,
    /// The lease it was done under; for one that gives a lease, the lease it gave.
    pub(crate) token: Option<u64>,
    /// What a lease given by it may be trusted for.
    pub(crate) term: Term,
}

/// The code of a command that was killed before it answered, or that could not find out: it was done, or it was not.
pub(crate) const UNKNOWN: i32 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Claim,
    Takeover,
    Renew,
    Release,
    Done,
    Reopen,
    Note,
    Show,
    /// Not a command: the process that the lease is bound to was killed.
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    None,
    Ttl(i64),
    Bound,
}

/// An event of the ledger, as far as holding is concerned.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) task: String,
    pub(crate) version: u64,
    pub(crate) kind: String,
    pub(crate) who: String,
    pub(crate) token: Option<u64>,
    /// When a lease was granted or renewed late.
    pub(crate) tick_ms: Option<i64>,
    /// Why a lease was taken over.
    pub(crate) cause: Option<String>,
}

impl Event {
    /// Reads an event as `onus log --json` shows it; None for those that concern no task.
    pub(crate) fn read(event: &Value) -> Option<Event> {
        let payload = &event["payload"];
        let tick = payload["grant"]["tick_ms"].as_i64().or(payload["tick_ms"].as_i64());
        Some(Event {
            task: event["task"].as_str()?.to_owned(),
            version: event["version"].as_u64()?,
            kind: event["kind"].as_str()?.to_owned(),
            who: format!("{} {}", event["actor"].as_str()?, event["instance"].as_str()?),
            token: event["token"].as_u64(),
            tick_ms: tick,
            cause: payload["cause"].as_str().map(str::to_owned),
        })
    }
}

/// Everything that is known about one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) deeds: Vec<Deed>,
    pub(crate) events: Vec<Event>,
}

impl Deed {
    fn succeeded(&self) -> bool {
        self.code == 0
    }

    /// The command gave its caller a new lease.
    fn grants(&self) -> bool {
        self.succeeded()
            && matches!(self.verb, Verb::Claim | Verb::Takeover)
            && self.answer["renewed"] == false
    }

    /// The command told its caller that it holds the task: its trust starts anew.
    fn assures(&self) -> bool {
        let lease = match self.verb {
            Verb::Claim | Verb::Takeover | Verb::Renew => &self.answer["lease"],
            // Any change is a sign of life, if the lease was still live then.
            Verb::Note => &self.answer["lease"],
            _ => return false,
        };
        self.succeeded()
            && self.token.is_some()
            && lease["live"] == true
            && lease["token"].as_u64() == self.token
            && format!(
                "{} {}",
                lease["actor"].as_str().unwrap_or(""),
                lease["instance"].as_str().unwrap_or("")
            ) == self.who
    }
}

/// Where a task stands while its events are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Free,
    Held(u64),
    /// Lapsed and swept: its holder may still finish.
    Swept(u64),
}

/// All that is wrong with a history.
pub(crate) fn complaints(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    let mut by_task: BTreeMap<&str, (Vec<&Deed>, Vec<&Event>)> = BTreeMap::new();
    for deed in &history.deeds {
        by_task.entry(&deed.task).or_default().0.push(deed);
    }
    for event in &history.events {
        by_task.entry(&event.task).or_default().1.push(event);
    }
    for (task, (deeds, mut events)) in by_task {
        events.sort_by_key(|event| event.version);
        let mut wrong = replay(&events);
        wrong.extend(two_holders(&deeds, &events));
        wrong.extend(past_the_fence(&deeds, &events));
        wrong.extend(out_of_order(&deeds));
        wrong.extend(misread(&deeds));
        wrong.extend(unrecorded(&deeds, &events));
        found.extend(wrong.into_iter().map(|what| format!("{task}: {what}")));
    }
    found
}

/// The ledger by itself: tokens grow, and nobody gets a lease before the last one ended.
fn replay(events: &[&Event]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut highest, mut hold) = (0, Hold::Free);
    for (index, event) in events.iter().enumerate() {
        if event.version != index as u64 + 1 {
            found.push(format!("version {} stands at place {}", event.version, index + 1));
        }
        let token = event.token.unwrap_or(0);
        let is_current = hold == Hold::Held(token) || hold == Hold::Swept(token);
        match event.kind.as_str() {
            "lease.acquired" => {
                if token <= highest {
                    found.push(format!("token {token} did not grow: {highest} was granted before"));
                }
                if let Hold::Held(holder) = hold {
                    found.push(format!("token {token} was granted while {holder} was held"));
                }
                highest = token.max(highest);
                hold = Hold::Held(token);
            }
            "lease.renewed" if is_current => hold = Hold::Held(token),
            "lease.lapsed" if hold == Hold::Held(token) => hold = Hold::Swept(token),
            "lease.taken_over" if hold == Hold::Held(token) => hold = Hold::Free,
            "lease.released" | "task.done" if is_current => hold = Hold::Free,
            kind @ ("lease.renewed" | "lease.lapsed" | "lease.taken_over" | "lease.released"
            | "task.done") => {
                found.push(format!("{kind} names token {token} while the task is {hold:?}"));
            }
            kind if event.token.is_some() && !is_current => {
                found.push(format!("{kind} names token {token} while the task is {hold:?}"));
            }
            _ => {}
        }
    }
    found
}

/// The tick of every grant, by token.
fn grants(events: &[&Event]) -> BTreeMap<u64, i64> {
    let granted = events.iter().filter(|event| event.kind == "lease.acquired");
    granted.filter_map(|event| Some((event.token?, event.tick_ms?))).collect()
}

/// No token was granted while the holder of a lower one could still trust its lease.
fn two_holders(deeds: &[&Deed], events: &[&Event]) -> Vec<String> {
    let grants = grants(events);
    let mut found = Vec::new();
    for deed in deeds.iter().filter(|deed| deed.assures()) {
        let Some(token) = deed.token else { continue };
        let until = trusted_until(deed, deeds);
        for (higher, tick_ms) in grants.range(token + 1..) {
            if *tick_ms < until {
                found.push(format!(
                    "two live holders: token {higher} was granted at {tick_ms}, {} trusted token {token} until {until}",
                    deed.who
                ));
            }
        }
    }
    found
}

/// Until when the caller of a command that assured it of its lease may trust it.
fn trusted_until(deed: &Deed, deeds: &[&Deed]) -> i64 {
    let of_this_lease = |other: &&&Deed| other.token == deed.token && other.who == deed.who;
    let mut until = match deed.term {
        Term::Ttl(ttl_ms) => deed.start_ms + ttl_ms,
        Term::Bound | Term::None => i64::MAX,
    };
    for other in deeds.iter().filter(of_this_lease) {
        let ends = match other.verb {
            Verb::Kill => true,
            Verb::Release | Verb::Done => other.succeeded() || other.code == UNKNOWN,
            _ => false,
        };
        if ends {
            until = until.min(other.start_ms);
        }
    }
    until
}

/// Nothing succeeded under a token after a higher one was granted.
fn past_the_fence(deeds: &[&Deed], events: &[&Event]) -> Vec<String> {
    let grants = grants(events);
    let mut found = Vec::new();
    for deed in
        deeds.iter().filter(|deed| deed.succeeded() && deed.verb != Verb::Kill && deed.verb != Verb::Show)
    {
        let Some(token) = deed.token else { continue };
        if let Some((higher, tick_ms)) =
            grants.range(token + 1..).find(|(_, tick_ms)| **tick_ms < deed.start_ms)
        {
            found.push(format!(
                "past the fence: {:?} under token {token} began at {} and succeeded, token {higher} was granted at {tick_ms}",
                deed.verb, deed.start_ms
            ));
        }
    }
    found
}

/// What was granted later in real time has the higher token.
fn out_of_order(deeds: &[&Deed]) -> Vec<String> {
    let mut found = Vec::new();
    let claims: Vec<&&Deed> = deeds.iter().filter(|deed| deed.grants()).collect();
    for first in &claims {
        for second in &claims {
            if first.end_ms < second.start_ms && first.token >= second.token {
                found.push(format!(
                    "token {:?} did not grow: {:?} was granted before",
                    second.token, first.token
                ));
            }
        }
    }
    found
}

/// Readers see no superseded lease, and call no lease lapsed that its holder can trust.
fn misread(deeds: &[&Deed]) -> Vec<String> {
    let mut found = Vec::new();
    for read in deeds.iter().filter(|deed| deed.verb == Verb::Show && deed.succeeded()) {
        let (seen, live) = (read.answer["lease"]["token"].as_u64(), read.answer["lease"]["live"] == true);
        let older = |grant: &&&Deed| grant.grants() && grant.end_ms < read.start_ms && grant.token > seen;
        if let (Some(seen), Some(grant)) = (seen, deeds.iter().find(older)) {
            found.push(format!("a reader saw token {seen} after {:?} had been granted", grant.token));
        }
        for deed in deeds.iter().filter(|deed| deed.assures() && deed.end_ms <= read.start_ms) {
            let trusted = trusted_until(deed, deeds) > read.end_ms;
            if trusted && (seen != deed.token || !live) {
                found.push(format!(
                    "a reader saw {seen:?} (live: {live}) while token {:?} was trusted",
                    deed.token
                ));
            }
        }
    }
    found
}

/// Every success is in the ledger, by whom and when it was, and the ledger has nothing else but what killed commands did.
fn unrecorded(deeds: &[&Deed], events: &[&Event]) -> Vec<String> {
    let mut found = Vec::new();
    for deed in deeds.iter().filter(|deed| deed.grants()) {
        let recorded =
            events.iter().find(|event| event.kind == "lease.acquired" && event.token == deed.token);
        match recorded.map(|event| (event.who == deed.who, event.tick_ms.unwrap_or(0))) {
            Some((true, tick_ms)) if (deed.start_ms..=deed.end_ms).contains(&tick_ms) => {}
            other => found.push(format!(
                "the grant of {:?} to {} is not in the ledger: {other:?}",
                deed.token, deed.who
            )),
        }
    }
    let verbs: [(&str, &[Verb]); 5] = [
        ("lease.released", &[Verb::Release]),
        ("task.done", &[Verb::Done]),
        ("task.reopened", &[Verb::Reopen]),
        ("note.added", &[Verb::Note]),
        ("lease.acquired", &[Verb::Claim, Verb::Takeover]),
    ];
    for (kind, verbs) in verbs {
        let of_kind = |deed: &&&Deed| verbs.contains(&deed.verb);
        let succeeded =
            |deed: &&&Deed| if kind == "lease.acquired" { deed.grants() } else { deed.succeeded() };
        let told = deeds.iter().filter(of_kind).filter(succeeded).count();
        let perhaps = deeds.iter().filter(of_kind).filter(|deed| deed.code == UNKNOWN).count();
        let recorded = events.iter().filter(|event| event.kind == kind).count();
        if !(told..=told + perhaps).contains(&recorded) {
            found.push(format!("the ledger has {recorded} {kind}, callers were told of {told}"));
        }
    }
    found
}

/// The checker itself: it accepts a sound history, and finds what was doctored.
mod tests {
    use serde_json::json;

    use super::*;

    fn deed(who: &str, verb: Verb, (start_ms, end_ms): (i64, i64), token: Option<u64>, term: Term) -> Deed {
        let (actor, instance) = who.split_once(' ').unwrap();
        let lease = json!({ "actor": actor, "instance": instance, "token": token, "live": true });
        let answer = match verb {
            Verb::Claim | Verb::Takeover => json!({ "renewed": false, "lease": lease }),
            Verb::Renew => json!({ "renewed": true, "lease": lease }),
            _ => json!({ "lease": lease }),
        };
        let (who, task) = (who.to_owned(), "t".to_owned());
        Deed { who, verb, task, start_ms, end_ms, code: 0, answer, token, term }
    }

    fn event(version: u64, kind: &str, who: &str, token: Option<u64>, tick_ms: Option<i64>) -> Event {
        let (task, kind, who) = ("t".to_owned(), kind.to_owned(), who.to_owned());
        Event { task, version, kind, who, token, tick_ms, cause: None }
    }

    /// A claims for 100 ms and renews; lapses; B takes over, bound to a process; that is killed; C takes over.
    fn sound() -> History {
        let (a, b, c) = ("agent:a a-1", "agent:b b-1", "agent:c c-1");
        History {
            deeds: vec![
                deed(a, Verb::Claim, (1_000, 1_010), Some(1), Term::Ttl(100)),
                deed(a, Verb::Renew, (1_050, 1_060), Some(1), Term::Ttl(100)),
                deed(a, Verb::Show, (1_065, 1_070), Some(1), Term::None),
                deed(b, Verb::Claim, (1_150, 1_170), Some(2), Term::Bound),
                deed(b, Verb::Kill, (2_000, 2_001), Some(2), Term::None),
                deed(c, Verb::Takeover, (2_005, 2_015), Some(3), Term::Ttl(100)),
                deed(c, Verb::Release, (2_030, 2_040), Some(3), Term::None),
            ],
            events: vec![
                event(1, "task.created", a, None, None),
                event(2, "lease.acquired", a, Some(1), Some(1_005)),
                event(3, "lease.taken_over", b, Some(1), None),
                event(4, "lease.acquired", b, Some(2), Some(1_160)),
                event(5, "lease.taken_over", c, Some(2), None),
                event(6, "lease.acquired", c, Some(3), Some(2_010)),
                event(7, "lease.released", c, Some(3), None),
            ],
        }
    }

    #[track_caller]
    fn finds(what: &str, doctor: impl FnOnce(&mut History)) {
        let mut history = sound();
        doctor(&mut history);
        let found = complaints(&history);
        assert!(found.iter().any(|complaint| complaint.contains(what)), "{what}: {found:?}");
    }

    #[test]
    fn the_checker_accepts_a_sound_history() {
        assert_eq!(complaints(&sound()), Vec::<String>::new());
    }

    #[test]
    fn the_checker_finds_two_live_holders() {
        // Granted a moment before the first holder's renewed lease was over.
        finds("two live holders", |history| {
            history.events[3].tick_ms = Some(1_149);
            history.deeds[3].start_ms = 1_140;
        });
        // Granted before the process of the second was killed.
        finds("two live holders", |history| history.deeds[4].start_ms = 2_011);
        finds("two live holders", |history| drop(history.deeds.remove(4)));
    }

    #[test]
    fn the_checker_finds_a_token_that_did_not_grow() {
        finds("did not grow", |history| history.events[5].token = Some(2));
        finds("did not grow", |history| history.deeds[5].token = Some(2));
        finds("was granted while 1 was held", |history| history.events[2].kind = "note.added".to_owned());
    }

    #[test]
    fn the_checker_finds_a_superseded_holder_that_changed_something() {
        let (a, late) = ("agent:a a-1", (1_200, 1_210));
        finds("past the fence", |history| {
            history.deeds.push(deed(a, Verb::Renew, late, Some(1), Term::Ttl(100)))
        });
        finds("names token 1 while", |history| history.events[6].token = Some(1));
    }

    #[test]
    fn the_checker_finds_what_readers_should_not_have_seen() {
        let (a, read) = ("agent:a a-1", (1_200, 1_210));
        finds("a reader saw token 1", |history| {
            history.deeds.push(deed(a, Verb::Show, read, Some(1), Term::None))
        });
        finds("live: false", |history| history.deeds[2].answer["lease"]["live"] = json!(false));
    }

    #[test]
    fn the_checker_finds_what_the_ledger_forgot_or_made_up() {
        finds("not in the ledger", |history| history.events[3].who = "agent:x x-1".to_owned());
        finds("not in the ledger", |history| history.events[3].tick_ms = Some(1_500));
        finds("has 0 lease.released", |history| drop(history.events.pop()));
        finds("stands at place", |history| drop(history.events.remove(2)));
        finds("told of 0", |history| drop(history.deeds.pop()));
    }
}
