//! Signs of life: which leases a request keeps alive, and what it means for the work under them.

use onus_core::command::{Act, Command, Presence};

use super::lease::At;
use super::{Case, Oracle};

impl Oracle {
    /// A replayed key with the token of another instance is checked like a renewal, and is a sign of life.
    pub(super) fn renewed_by_replay(&mut self, case: &Case<'_>) {
        let Command::OnTask { task: Some(task), act, .. } = &case.request.command else { return };
        let by_store = self.as_the_store_knows(At::of(case.now));
        let Some(uid) = self.uid(task).filter(|_| act.gives_lease()) else { return };
        let held = self.tasks.get_mut(&uid).and_then(|known| known.leases.get_mut(&known.highest));
        let Some(held) = held.filter(|held| !case.is_of(held) && case.presents(&uid, held)) else { return };
        held.ask(by_store);
        if held.is_for_work() {
            held.work.sign(&by_store, case.in_turn);
        }
        held.renew(&by_store, None, true);
        self.settle(case.now);
    }

    /// A successful change is a sign of life; after the end of a turn the TTL counts. True: a lease was renewed, and the store wrote
    /// that.
    pub(super) fn signs_of_life(&mut self, case: &Case<'_>) -> bool {
        let (now, at) = (case.now, At::of(case.now));
        let presence = match &case.request.command {
            Command::Presence(presence) => Some(*presence),
            _ => None,
        };
        let target = match &case.request.command {
            Command::OnTask { task: Some(task), act, .. } => self.uid(task).map(|uid| (uid, act.clone())),
            Command::OnSeat { act, .. } => self.seat_of(&case.request.command).map(|uid| (uid, act.as_act())),
            _ => None,
        };
        let silent = case.request.identity.known_by == onus_core::actor::KnownBy::Worktree;
        let by_store = self.as_the_store_knows(at);
        let mut has_renewed = false;
        for (uid, known) in &mut self.tasks {
            let Some(held) = known.leases.get_mut(&known.highest) else { continue };
            // A renewal goes by name or by token; everything else renews by name alone, and not for a caller known only by its folder.
            let renewed = match &target {
                Some((task, Act::Renew { ttl_ms, .. })) if task == uid => Some(*ttl_ms),
                Some((task, Act::Claim(terms))) if task == uid && case.is_of(held) => Some(terms.ttl_ms),
                Some((
                    task,
                    Act::AddScope { .. } | Act::RemoveScope { .. } | Act::Touch { .. } | Act::Attach(_),
                )) if task == uid => Some(None),
                _ => None,
            };
            if held.ended.is_none() && (case.is_of(held) || renewed.is_some()) {
                held.ask(at);
            }
            if held.ended.is_some()
                || case.revived.contains(uid)
                || !(case.is_of(held) && !silent || renewed.is_some())
            {
                continue;
            }
            // A lease that was revived by setting the wall clock back continues like any other.
            let is_revived =
                held.process.is_none() && held.may_be_revived(now) && !held.has_run_out(&by_store);
            if !held.is_live(now) && !is_revived {
                held.work.doubt();
                continue;
            }
            held.over = false;
            // A rest is written if something was worked.
            let rests = matches!(presence, Some(Presence::TurnOver | Presence::Gone));
            let is_written = !rests || held.is_for_work() && held.work.is_at_work();
            has_renewed |= held.process.is_none() && is_written;
            if is_revived {
                held.is_in_doubt = true;
                held.work.doubt();
            }
            if held.is_for_work() {
                match presence {
                    Some(Presence::TurnOver | Presence::Gone) => held.work.rest(&by_store, case.in_turn),
                    Some(Presence::TurnBegun) => held.work.begin_again(&by_store),
                    _ => held.work.sign(&by_store, case.in_turn),
                }
            }
            match presence {
                Some(Presence::TurnOver) => held.rest(&by_store),
                Some(Presence::Gone) if !held.reserve => held.rest(&by_store),
                Some(Presence::Gone) => {}
                _ => {
                    // The lease that was worked on is renewed in any case; the caller's other leases once per moment.
                    let is_worked_on = match &case.request.command {
                        Command::Guard(guard) => {
                            let has = |path: &String| held.rows.iter().any(|row| row.glob == *path);
                            guard.paths.iter().all(has)
                        }
                        _ => target.as_ref().is_some_and(|(task, _)| task == uid),
                    };
                    held.renew(&by_store, renewed.flatten().filter(|ms| *ms > 0), is_worked_on);
                }
            }
        }
        has_renewed
    }
}
