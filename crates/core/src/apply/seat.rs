//! The fold of a seat's stream. An event means the same for a seat's leases as for a task's.

use crate::event::{Body, Event};
use crate::ids::{Token, Version};
use crate::lease::Holding;
use crate::seat::Seat;
use crate::stretch::Work;

use super::{LeaseChange, Misplaced, RowChange, TaskFold, fold_event};

/// The changes of an event of a seat's stream. `before` is None before the first.
pub fn apply_to_seat(before: Option<&Seat>, event: &Event) -> Result<Vec<RowChange>, Misplaced> {
    let uid = event.task.ok_or(Misplaced("an event of the project stands in a seat's stream"))?;
    let mut changes = Vec::with_capacity(3);
    let mut seat = match (&event.body, before) {
        (Body::SeatCreated { number, name }, None) => {
            changes.push(RowChange::SeatNumberTaken(*number));
            Seat {
                uid,
                number: *number,
                name: name.clone(),
                version: Version(0),
                head: String::new(),
                created_at_ms: event.at_ms,
                created_by: event.actor.clone(),
                updated_at_ms: event.at_ms,
                token: Token(0),
                leased: false,
            }
        }
        (Body::SeatCreated { .. }, Some(_)) => return Err(Misplaced("the seat was created twice")),
        (_, Some(seat)) => seat.clone(),
        (_, None) => return Err(Misplaced("the seat was not created yet")),
    };
    match &event.body {
        Body::SeatCreated { .. } => {}
        Body::LeaseAcquired { .. }
        | Body::LeaseRenewed { .. }
        | Body::LeaseReleased { .. }
        | Body::LeaseLapsed { .. }
        | Body::LeaseTakenOver { .. }
        | Body::LeaseRevoked { .. }
        | Body::RuleOverridden { .. }
        | Body::TextRedacted { .. } => {
            let mut task = seat.as_task();
            fold_event(&mut task, event, &mut changes)?;
            (seat.token, seat.leased) = (task.token, task.leased);
            for change in &mut changes {
                match change {
                    RowChange::OpenLease(lease) => {
                        lease.holds = Holding::Seat;
                        lease.pulse.work = Work::default();
                    }
                    RowChange::OfLease { change: LeaseChange::Revive { pulse, .. }, .. } => {
                        pulse.work = Work::default();
                    }
                    _ => {}
                }
            }
        }
        _ => return Err(Misplaced("an event of a task stands in a seat's stream")),
    }
    if !event.stretches.is_empty() || event.waited_ms != 0 {
        return Err(Misplaced("a seat is no work"));
    }
    seat.version = event.version;
    seat.head = event.hash.clone();
    seat.updated_at_ms = event.at_ms;
    // The seat's row comes first: a store may check that what the other rows refer to exists.
    changes.insert(0, RowChange::PutSeat(Box::new(seat)));
    Ok(changes)
}

/// A folded seat's stream: the seat's row, and its leases as those of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeatFold {
    pub seat: Option<Seat>,
    pub held: TaskFold,
}

impl SeatFold {
    pub fn add(&mut self, event: &Event) -> Result<(), Misplaced> {
        let mut changes = apply_to_seat(self.seat.as_ref(), event)?;
        if let RowChange::PutSeat(seat) = changes.remove(0) {
            self.seat = Some(*seat);
        }
        self.held.carry_out(changes)
    }
}
