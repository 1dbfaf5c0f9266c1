//! Generated races: pairs of all verbs, by two or three callers, over tasks whose leases are live, lapsed,
//! swept, released or never existed, with scopes that overlap, and over one seat; on a PostgreSQL server,
//! where writers really run concurrently.
//!
//! **No race is left to luck.** Inside its transaction, the engine asks the test for the time, for uids and
//! for what can be seen of processes. So one caller is stopped in the middle of it, at any such question; the
//! other runs until it has ended or waits for a lock; then the first continues (`stage.rs`). The clock stands
//! still meanwhile: all decisions are about the same leases.
//!
//! **The outcome is judged by the ledger and the rows**, read over another connection, by rules that share no
//! code with the engine (`judge.rs`). A refusal is as good as a grant, but nobody may be told that something
//! unexpected happened (exit 1) or that the store is busy (8): that would be a deadlock, or a wait without
//! end.
//!
//! `RACE_PAIRS=1000 cargo test -p onus-engine --test engine pairs:: -- --nocapture` is the long run; `RACE_SEED` repeats one. A violation
//! names its seed, its number and both requests; `RACE_ONLY=n` runs that pair alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod judge;
mod stage;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onus_core::command::{Act, Command, Edit, Guard, Presence, SeatAct, SeatTerms, Terms};
use onus_core::ids::Token;
use onus_core::scope::{Scope, Touched, WorktreeId};
use onus_core::transition::Verb;
use onus_engine::Identity;

use crate::world::{on, process, takeover, verb, who};
use stage::{Play, Stage};

/// How many pairs a plain `cargo test` runs.
const FEW: usize = 75;

/// The longest that one pair may take, on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    Claim,
    ClaimWithScope,
    Next,
    Takeover,
    Renew,
    Done,
    Submit,
    Fail,
    AddScope,
    Touch,
    Guard,
    Hook,
    Release,
    RemoveScope,
    Block,
    Unblock,
    Drop,
    Handoff,
    Reset,
    Retry,
    Edit,
    Note,
    Approve,
    Reject,
    Reopen,
    TurnOver,
    Gone,
    TakeSeat,
    TakeOverSeat,
    RenewSeat,
    ReleaseSeat,
    /// A write that only the seat's holder may make.
    UnderSeat,
}

/// Deeds that can begin, widen or revive a reservation come first: `TAKING` of them.
const DEEDS: [Deed; 32] = [
    Deed::Claim,
    Deed::ClaimWithScope,
    Deed::Next,
    Deed::Takeover,
    Deed::Renew,
    Deed::Done,
    Deed::Submit,
    Deed::Fail,
    Deed::AddScope,
    Deed::Touch,
    Deed::Guard,
    Deed::Hook,
    Deed::Release,
    Deed::RemoveScope,
    Deed::Block,
    Deed::Unblock,
    Deed::Drop,
    Deed::Handoff,
    Deed::Reset,
    Deed::Retry,
    Deed::Edit,
    Deed::Note,
    Deed::Approve,
    Deed::Reject,
    Deed::Reopen,
    Deed::TurnOver,
    Deed::Gone,
    Deed::TakeSeat,
    Deed::TakeOverSeat,
    Deed::RenewSeat,
    Deed::ReleaseSeat,
    Deed::UnderSeat,
];
const TAKING: usize = 12;
/// Those of seats come last.
const OF_SEATS: usize = 5;

/// Globs, and which files of a universe of four each matches.
pub(crate) const GLOBS: [(&str, u8); 7] = [
    ("src/**", 0b0111),
    ("src/a", 0b0001),
    ("src/b", 0b0010),
    ("src/sub/**", 0b0100),
    ("src/?", 0b0011),
    ("{src/a,docs/x}", 0b1001),
    ("docs/x", 0b1000),
];
const FILES: [&str; 3] = ["src/a", "src/b", "docs/x"];

/// A sequence of numbers determined by a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % (n as u64)).unwrap()
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn scope(&mut self) -> Scope {
        (0..1 + self.below(2)).map(|_| GLOBS[self.below(GLOBS.len())].0.parse().unwrap()).collect()
    }
}

/// One caller and its request.
pub(crate) struct Part {
    pub(crate) deed: Deed,
    pub(crate) by: Identity,
    pub(crate) batch: Vec<Command>,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} by {} ({}): {:?}", self.deed, self.by.actor, self.by.instance, self.batch)
    }
}

/// A caller's part in a race on this stage.
fn part(dice: &mut Dice, stage: &Stage, deed: Deed) -> Part {
    let left: Vec<usize> = (0..stage.tasks.len()).filter(|task| stage.tasks[*task].is_left).collect();
    // Most verbs have a rule of their own for what others left.
    let takes_over = DEEDS[..TAKING].contains(&deed) && !left.is_empty() && dice.one_in(2);
    let task = if takes_over { left[dice.below(left.len())] } else { dice.below(stage.tasks.len()) };
    let id = &stage.tasks[task].id;
    let callers = stage.callers();
    // Half of the time by its current or former holder: late, stale and rightful holders.
    let is_of_a_seat = DEEDS[DEEDS.len() - OF_SEATS..].contains(&deed);
    let holder = if is_of_a_seat { &stage.seat_holder } else { &stage.tasks[task].holder };
    let by = match holder {
        Some(holder) if dice.one_in(2) => holder.clone(),
        _ => callers[dice.below(callers.len())].clone(),
    };
    let paths = || vec![FILES[0].to_owned()];
    // All in one worktree, which not everybody knows.
    let worktree = (!dice.one_in(3)).then(|| WorktreeId::new("machine", "here"));
    let touched = Touched { worktree, part: None };
    let guard = |paths| {
        let (process, touched) = (Some(process(7, 1)), touched.clone());
        Command::Guard(Guard { paths, process, touched, ..Guard::default() })
    };
    let file = FILES[dice.below(FILES.len())].to_owned();
    let batch = match deed {
        Deed::Claim => vec![on(id, Act::Claim(Terms::default()))],
        Deed::ClaimWithScope => {
            vec![on(
                id,
                Act::Claim(Terms { scope: dice.scope(), shared: dice.one_in(4), ..Terms::default() }),
            )]
        }
        Deed::Next => vec![Command::ClaimNext(Terms::default())],
        Deed::Takeover => vec![on(id, takeover())],
        Deed::Renew => vec![on(id, Act::Renew { ttl_ms: None, progress: false })],
        Deed::Done => vec![on(id, verb(Verb::Done))],
        Deed::Submit => vec![on(id, verb(Verb::Submit))],
        Deed::Fail => vec![on(id, verb(Verb::Fail))],
        Deed::AddScope => vec![on(id, Act::AddScope { scope: dice.scope(), areas: Default::default() })],
        Deed::Touch => vec![on(
            id,
            Act::Touch { paths: vec![file], touched: touched.clone(), extent: Default::default() },
        )],
        Deed::Guard => vec![guard(vec![file])],
        Deed::Hook => {
            let (actor, instance) = (by.actor.clone(), by.instance.clone());
            let process = process(7, 1);
            vec![Command::RegisterInstance { actor, instance, process, group: None }, guard(paths())]
        }
        Deed::Release => vec![on(id, verb(Verb::Release))],
        Deed::RemoveScope => vec![on(id, Act::RemoveScope { scope: dice.scope() })],
        Deed::Block => vec![on(id, verb(Verb::Block))],
        Deed::Unblock => vec![on(id, verb(Verb::Unblock))],
        Deed::Drop => vec![on(id, verb(Verb::Drop))],
        Deed::Handoff => {
            let to = callers[dice.below(callers.len())].actor.clone();
            vec![on(id, Act::Handoff { to, reason: "yours".to_owned() })]
        }
        Deed::Reset => {
            vec![Command::Reset { task: Some(id.parse().unwrap()), reason: "again".to_owned(), force: None }]
        }
        Deed::Retry => {
            vec![Command::Retry { task: Some(id.parse().unwrap()), message: None, force: None }]
        }
        Deed::Edit => vec![on(id, Act::Edit(Edit { add_scope: dice.scope(), ..Edit::default() }))],
        Deed::Note => vec![on(id, Act::note("n"))],
        Deed::Approve => vec![on(id, verb(Verb::Approve))],
        Deed::Reject => vec![on(id, verb(Verb::Reject))],
        Deed::Reopen => vec![on(id, verb(Verb::Reopen))],
        Deed::TurnOver => vec![Command::Presence(Presence::TurnOver)],
        Deed::Gone => vec![Command::Presence(Presence::Gone)],
        Deed::TakeSeat => vec![stage::on_seat(SeatAct::Take(SeatTerms::default()))],
        Deed::TakeOverSeat => {
            let reason = Some("its holder is gone".to_owned());
            vec![stage::on_seat(SeatAct::Takeover(SeatTerms { reason, ..SeatTerms::default() }))]
        }
        Deed::RenewSeat => vec![stage::on_seat(SeatAct::Renew { ttl_ms: None })],
        Deed::ReleaseSeat => vec![stage::on_seat(SeatAct::Release)],
        Deed::UnderSeat => {
            let command = Box::new(on(id, Act::note("landed")));
            vec![Command::Seated { seat: stage::seat(), token: Token(1 + dice.below(2) as u64), command }]
        }
    };
    Part { deed, by, batch }
}

/// Every ordered pair of deeds, shuffled; pairs in which both take something come up every third time, and so
/// do those in which both want the seat.
fn pairs(dice: &mut Dice, count: usize) -> Vec<(Deed, Deed)> {
    let mut shuffled = |of: &mut dyn Iterator<Item = (Deed, Deed)>| {
        let mut pairs: Vec<(Deed, Deed)> = of.collect();
        for at in (1..pairs.len()).rev() {
            pairs.swap(at, dice.below(at + 1));
        }
        pairs
    };
    let all = |deeds: &'static [Deed]| deeds.iter().flat_map(|one| deeds.iter().map(|other| (*one, *other)));
    let taking = shuffled(&mut all(&DEEDS[..TAKING]));
    let every = shuffled(&mut all(&DEEDS));
    let seats = shuffled(&mut all(&DEEDS[DEEDS.len() - OF_SEATS..]));
    let three = taking.into_iter().cycle().zip(every.into_iter().cycle()).zip(seats.into_iter().cycle());
    three.flat_map(|((taking, any), seats)| [taking, any, seats]).take(count).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

#[test]
#[allow(clippy::print_stderr, reason = "the long run says what it did")]
fn of_any_two_at_once_no_promise_is_broken() {
    let seed = number("RACE_SEED").unwrap_or(1);
    let count = number("RACE_PAIRS").map_or(FEW, |count| usize::try_from(count).unwrap());
    let only = number("RACE_ONLY").map(|only| usize::try_from(only).unwrap());
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut tried = std::collections::BTreeSet::new();
    let server = stage::server();
    let play = Play::new(&server);
    for (at, (one, other)) in pairs(&mut Dice(seed), count).into_iter().enumerate() {
        if only.is_some_and(|only| only != at) {
            continue;
        }
        tried.insert((one, other));
        let mut dice = Dice(seed.wrapping_mul(1_000_003).wrapping_add(at as u64));
        let mut stage = Stage::set(&play, &mut dice);
        let mut parts = vec![part(&mut dice, &stage, one), part(&mut dice, &stage, other)];
        if dice.one_in(4) {
            let third = DEEDS[dice.below(DEEDS.len())];
            parts.push(part(&mut dice, &stage, third));
        }
        let told = format!("RACE_SEED={seed} RACE_ONLY={at}: {parts:#?}");
        let before = stage.judged();
        let began = Instant::now();
        let race = stage.race(&mut dice, &parts);
        assert!(began.elapsed() < BOUND, "{told}\nsomebody waited for {:?}", began.elapsed());
        for (name, more) in [
            ("stopped inside", race.stopped),
            ("waited for a lock", race.waited),
            ("granted", race.answers.iter().filter(|answer| answer.is_ok()).count()),
            ("refused", race.answers.iter().filter(|answer| answer.is_err()).count()),
            (
                "refused for another's paths or task",
                race.answers
                    .iter()
                    .filter(|answer| matches!(answer, Err(refusal) if refusal.exit_code() == 4))
                    .count(),
            ),
        ] {
            *seen.entry(name).or_default() += more;
        }
        for refusal in race.answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert!(matches!(refusal.exit_code(), 2..=7), "{told}\n{refusal:?}");
        }
        if let Err(violation) = before.judge(&mut stage) {
            panic!("{told}\n{:#?}\n{violation}", race.answers);
        }
        stage.is_whole(&told);
    }
    let deadlocks = play.deadlocks();
    eprintln!("seed {seed}: {count} pairs, {} kinds of them, {deadlocks} deadlocks; {seen:?}", tried.len());
    if only.is_none() {
        // Otherwise it showed nothing.
        assert!(seen.values().all(|times| *times > 0), "{seen:?}");
    }
}

pub(crate) fn agent(n: usize) -> Identity {
    who(&format!("agent:a{n}"), "1")
}
