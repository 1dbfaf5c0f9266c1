//! Work, by an account of its own that knows nothing of stretches, and what must be true of the stretches beside it.
//!
//! An account hears of signs of life and of ends, as the engine's callers give them, and marks on a line of ticks when its lease
//! could be worked under, when it rested and when its holder was heard of. A stretch that is nowhere else than the account says, and
//! a sum that is the account's, is an hour that was worked.

use std::collections::BTreeMap;

use onus_core::apply::TaskFold;
use onus_core::event::{Body, Draft};
use onus_core::ids::Token;
use onus_core::lease::{Lease, Pulse};
use onus_core::stretch::{Sign, Worked};

use crate::state::{BOUND, State, is_held_by, moment};
use crate::{Broken, Protocol};

/// Bits of ticks: bit `t` is the time from tick `t` to the next, or the tick itself.
type Ticks = u32;

/// From one tick up to another.
fn ticks(from: i64, to: i64) -> Ticks {
    (from..to).fold(0, |ticks, tick| ticks | 1 << tick)
}

/// What happened under one lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Account {
    /// When it was live.
    live: Ticks,
    /// When it was live and its holder's turn was over.
    resting: Ticks,
    /// When its holder was heard of.
    signs: Ticks,
    worked: i64,
    /// Since when its holder is at work, as far as it was heard of.
    at_work: Option<i64>,
}

impl Account {
    /// A sign of life. What lies between two of them is work, in a turn; outside of one if it is not too long.
    fn sign(&mut self, now: i64, counts: impl FnOnce(i64) -> bool) {
        if let Some(since) = self.at_work.filter(|since| counts(now - since)) {
            self.worked += now - since;
        }
        self.begin(now);
    }

    /// Work begins, whatever was before.
    fn begin(&mut self, now: i64) {
        self.signs |= 1 << now;
        self.at_work = Some(now);
    }
}

/// All stretches of a lease: recorded, waiting and open, as start and end.
fn stretches(fold: &TaskFold, lease: &Lease) -> Vec<(i64, i64)> {
    let recorded = fold.stretches.iter().filter(|row| row.token == lease.token);
    let recorded = recorded.map(|row| (row.start_ms, row.end_ms()));
    let work = &lease.pulse.work;
    let unrecorded = work.waiting.iter().chain(work.open.iter().map(|open| &open.stretch));
    let mut all: Vec<_> =
        recorded.chain(unrecorded.map(|stretch| (stretch.start_ms, stretch.end_ms()))).collect();
    all.sort_unstable();
    all
}

/// All that tells two states apart, of a task's work.
pub(crate) fn known(fold: &TaskFold) -> impl std::hash::Hash + Eq + use<> {
    let leases = fold.leases.values().map(|lease| {
        let (last, worked) = (lease.pulse.last.tick_ms, lease.worked.active_ms);
        let open = lease.pulse.work.open.is_some();
        // What waits will be told by an event, what is recorded was.
        let waiting = lease.pulse.work.waiting.len();
        let told = lease.ended.as_ref().map(|ended| ended.end.active_ms);
        ((last, worked), (open, waiting, told), stretches(fold, lease))
    });
    leases.collect::<Vec<_>>()
}

impl Protocol {
    /// A turn of the bound agent begins: its leases are worked on from now.
    pub(crate) fn begin_turn(&self, last: &State, state: &mut State) {
        let now = moment(state.now);
        let sign = Sign { now: &now, own: None, in_turn: true, idle_ms: self.policy.idle_ms };
        self.each_live_of_bound(last, state, |lease| {
            lease.pulse = Pulse {
                deadline: lease.renewed_deadline(&now, None),
                resting: false,
                last: now.clone(),
                work: lease.pulse.work.clone().in_new_turn(&lease.pulse.last, sign),
                ..lease.pulse.clone()
            };
        });
        state.in_turn = true;
        self.account(last, state, |account, lease| {
            if is_held_by(lease, BOUND) && self.is_live(last, lease) {
                account.begin(now.tick_ms);
            }
        });
    }

    /// Its turn is over: its leases are not worked on, and their TTL counts.
    pub(crate) fn end_turn(&self, last: &State, state: &mut State) {
        let now = moment(state.now);
        let sign = Sign { now: &now, own: None, in_turn: last.in_turn, idle_ms: self.policy.idle_ms };
        self.each_live_of_bound(last, state, |lease| {
            let deadline = lease.resting_deadline(&now).filter(|_| !lease.pulse.resting);
            if deadline.is_none() && lease.pulse.work.open.is_none() {
                return;
            }
            let work = lease.work_after(sign);
            lease.pulse = Pulse {
                resting: lease.pulse.resting || deadline.is_some(),
                deadline: deadline.or_else(|| lease.pulse.deadline.clone()),
                last: now.clone(),
                work: if self.broken == Broken::Rest { work } else { work.closed() },
                ..lease.pulse.clone()
            };
        });
        state.in_turn = false;
        self.account(last, state, |account, lease| {
            let works = account.at_work.is_some() || !lease.pulse.resting;
            if is_held_by(lease, BOUND) && self.is_live(last, lease) && works {
                account.sign(now.tick_ms, |gap| last.in_turn || gap <= self.policy.idle_ms);
                account.at_work = None;
            }
        });
    }

    fn each_live_of_bound(&self, last: &State, state: &mut State, change: impl Fn(&mut Lease)) {
        for fold in &mut state.tasks {
            let held = fold.leases.values_mut().filter(|lease| is_held_by(lease, BOUND));
            held.filter(|lease| self.is_live(last, lease)).for_each(&change);
        }
    }

    /// Time goes on: who could work meanwhile, and who rested.
    pub(crate) fn account_for_tick(&self, last: &State, state: &mut State) {
        self.account(last, state, |account, lease| {
            if self.is_live(last, lease) {
                account.live |= 1 << last.now;
                account.resting |= if lease.pulse.resting { 1 << last.now } else { 0 };
            }
        });
    }

    /// Somebody did something that succeeded: a sign of life of each live lease that it holds; and leases began, ended or went on
    /// by it.
    pub(crate) fn account_for_deed(&self, last: &State, state: &mut State, by: usize) {
        let (now, in_turn) = (last.now, by == BOUND && last.in_turn);
        self.account(last, state, |account, lease| {
            if is_held_by(lease, by) && self.is_live(last, lease) {
                account.sign(now, |gap| in_turn || gap <= self.policy.idle_ms);
            }
        });
        let Some(mut accounts) = state.accounts.take() else { return };
        for (task, (fold, accounts)) in state.tasks.iter().zip(&mut accounts).enumerate() {
            for lease in fold.leases.values() {
                let before = last.tasks[task].leases.get(&lease.token);
                let was_live = before.is_some_and(|before| self.is_live(last, before));
                let account = accounts.entry(lease.token).or_default();
                match lease.ended {
                    Some(_) => account.at_work = None,
                    // A new one, or one that goes on after a lapse.
                    None if !was_live && self.is_live(state, lease) => account.begin(now),
                    None => {}
                }
            }
        }
        state.accounts = Some(accounts);
    }

    /// The rule that work under a lapsed lease ended at the last sign of life, broken.
    pub(crate) fn work_on_until_noticed(&self, state: &State, task: usize, draft: &mut Draft) {
        let (Body::LeaseLapsed { lease: end, .. } | Body::LeaseTakenOver { lease: end, .. }) =
            &mut draft.body
        else {
            return;
        };
        let lease = draft.token.and_then(|token| state.tasks[task].leases.get(&token));
        let Some(lease) = lease.filter(|lease| lease.ended.is_none()) else { return };
        let now = moment(state.now);
        let sign = Sign { now: &now, own: None, in_turn: true, idle_ms: self.policy.idle_ms };
        draft.stretches = lease.work_after(sign).closed().waiting;
        end.active_ms = lease.worked.and(Worked::of(&draft.stretches)).active_ms;
    }

    /// Tells each account of something; `lease` is its lease as it was.
    fn account(&self, last: &State, state: &mut State, tell: impl Fn(&mut Account, &Lease)) {
        let Some(accounts) = &mut state.accounts else { return };
        for (fold, accounts) in last.tasks.iter().zip(accounts) {
            for lease in fold.leases.values() {
                if let Some(account) = accounts.get_mut(&lease.token) {
                    tell(account, lease);
                }
            }
        }
    }

    /// Whether this is true of the stretches of every lease, beside its account.
    pub(crate) fn each_lease(
        state: &State,
        is_true: impl Fn(&Account, &[(i64, i64)], &Lease) -> bool,
    ) -> bool {
        let Some(accounts) = &state.accounts else { return true };
        let of_task = |(fold, accounts): (&TaskFold, &BTreeMap<Token, Account>)| {
            fold.leases.values().all(|lease| {
                let account = accounts.get(&lease.token).cloned().unwrap_or_default();
                is_true(&account, &stretches(fold, lease), lease)
            })
        };
        state.tasks.iter().zip(accounts).all(of_task)
    }
}

/// Two stretches of one lease share no time.
pub(crate) fn are_apart(stretches: &[(i64, i64)]) -> bool {
    stretches.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

/// The lease was live all along each stretch.
pub(crate) fn is_under_a_lease(account: &Account, stretches: &[(i64, i64)]) -> bool {
    stretches.iter().all(|(start, end)| ticks(*start, *end) & !account.live == 0)
}

/// Each stretch ends where its holder was heard of, and none has a rest in it.
pub(crate) fn ends_at_a_sign(account: &Account, stretches: &[(i64, i64)]) -> bool {
    stretches
        .iter()
        .all(|(start, end)| account.signs & (1 << end) != 0 && ticks(*start, *end) & account.resting == 0)
}

/// What was worked is what the stretches add up to, and what the end of the lease says.
pub(crate) fn adds_up(account: &Account, stretches: &[(i64, i64)], lease: &Lease) -> bool {
    let sum: i64 = stretches.iter().map(|(start, end)| end - start).sum();
    let said = lease.ended.as_ref().map_or(sum, |ended| ended.end.active_ms);
    sum == account.worked && said == sum
}
