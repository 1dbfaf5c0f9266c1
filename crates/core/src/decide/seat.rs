//! Seats: the rules of leases, applied to a role. [`super::decide`] decides; this file rewrites its refusals for seats, because
//! a seat cannot be finished, noted on or exchanged for another.

use crate::command::{Force, SeatAct};
use crate::lease::Lease;
use crate::refusal::{Code, Forced, OnSeat, Override, Refusal, Step};
use crate::seat::SeatName;
use crate::transition::Verb;

use super::claim::can_be_renewed;
use super::standing::{Standing, held_refusal, standing};
use super::{Decision, View, decide};

/// Decides about a seat. `view` shows the seat as a task ([`crate::seat::Seat::as_task`]).
pub fn decide_seat(
    view: &View<'_>,
    seat: &SeatName,
    act: &SeatAct,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    decide(view, &act.as_act(), force).map_err(|refusal| {
        let can_be_forced = matches!(act, SeatAct::Takeover(_) | SeatAct::Redact { .. });
        of_seat(refusal, seat, can_be_forced)
    })
}

/// How strong a hold the caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The token is current, for a write in the same transaction. After a lapse it stays current until a higher one is granted.
    CurrentToken,
    /// Nobody else could take the seat at this moment, for a mere query.
    LiveLease,
}

/// Returns the caller's lease on a seat. Otherwise exit 5 if it was superseded, 4 if another holds the seat, 6 if the caller's
/// lease has lapsed and a live one is needed, 7 if nobody holds the seat.
pub fn holds_seat<'a>(view: &View<'a>, seat: &SeatName, need: Need) -> Result<&'a Lease, Refusal> {
    let refusal = match standing(view) {
        Ok(Standing::Holder { lease, late }) if !late || need == Need::CurrentToken => return Ok(lease),
        Ok(Standing::Holder { lease, .. }) => {
            Refusal::new(Code::NotAllowed, format!("your lease on {} has lapsed", view.id)).next(
                match can_be_renewed(view, lease) {
                    true => Step::Renew(view.id.to_owned()),
                    false => Step::verb(Verb::Claim, view.id),
                },
            )
        }
        Ok(Standing::Held(lease)) => held_refusal(view, lease),
        Ok(Standing::Free { .. } | Standing::RevokedByForce) => nobody_holds(view),
        Err(fenced) => fenced,
    };
    Err(of_seat(refusal, seat, false))
}

fn nobody_holds(view: &View<'_>) -> Refusal {
    Refusal::new(Code::Nothing, format!("nobody holds {}", view.id)).next(Step::verb(Verb::Claim, view.id))
}

/// Turns a refusal about the seat as a task into one about the seat. `can_be_forced`: the same request can be made with force.
fn of_seat(mut refusal: Refusal, seat: &SeatName, can_be_forced: bool) -> Refusal {
    refusal.task = None;
    refusal.seat = Some(seat.to_string());
    let steps = std::mem::take(&mut refusal.next);
    refusal.next = steps.into_iter().filter_map(|step| step_of_seat(step, seat)).collect();
    refusal.overridable = refusal.overridable.and_then(|way| {
        let Override { by, needs_link } = *way;
        let by = match by {
            Forced::SameRequest if can_be_forced => Forced::SameRequest,
            Forced::SameRequest | Forced::ClaimInWorktree(_) | Forced::LiveCopy => return None,
            Forced::Takeover(_) | Forced::SeatTakeover(_) => Forced::SeatTakeover(seat.clone()),
        };
        Some(Box::new(Override { by, needs_link }))
    });
    refusal
}

/// The same step for a seat. None: seats have no such step.
fn step_of_seat(step: Step, seat: &SeatName) -> Option<Step> {
    let what = match step {
        Step::Do(Verb::Claim, _) | Step::ClaimWithLimit(_) => OnSeat::Take,
        Step::Do(Verb::Takeover, _) => OnSeat::TakeOver,
        Step::Do(Verb::Release, _) => OnSeat::Release,
        Step::WaitFor(_) => OnSeat::WaitFor,
        Step::Renew(_) => OnSeat::Renew,
        Step::RenewIfYours(_) => OnSeat::RenewIfYours,
        Step::Show(_) => OnSeat::Show,
        Step::Log(_) => OnSeat::Log,
        Step::GiveReason | Step::GiveLink | Step::Seat(..) => return Some(step),
        _ => return None,
    };
    Some(Step::Seat(what, seat.clone()))
}
