//! Seats: roles with the promises of tasks, under which other writes are made.

use onus_core::chain::Record;
use onus_core::command::{Command, SeatAct};

use super::{Case, Known, Oracle, Verdict, must};

impl Oracle {
    /// The seat that a command changes.
    pub(super) fn seat_of(&self, command: &Command) -> Option<String> {
        match command {
            Command::OnSeat { seat, .. } => self.seats.get(seat.as_str()).cloned(),
            _ => None,
        }
    }

    /// P2 of a seat: a superseded holder changes nothing, neither the seat nor anything under it.
    pub(super) fn fence_seat(&self, case: &Case<'_>, records: &[Record]) -> Verdict {
        let (seat, presented) = match &case.request.command {
            Command::OnSeat { act: SeatAct::Take(_) | SeatAct::Takeover(_), .. } => return Ok(()),
            Command::OnSeat { seat, .. } => (seat, case.token.as_ref().map(|(_, token)| *token)),
            Command::Seated { seat, token, .. } => (seat, Some(token.0)),
            _ => return Ok(()),
        };
        let known = self.seats.get(seat.as_str()).and_then(|uid| self.tasks.get(uid));
        let usable = known.and_then(Known::usable);
        // A mere sign of life writes no event.
        if records.is_empty() {
            return Ok(());
        }
        let may = match presented {
            Some(token) => usable.is_some_and(|held| held.token == token && held.actor == case.actor),
            None => usable.is_some_and(|held| case.is_of(held) && case.is_inside(held)),
        };
        must!(
            may,
            "P2: {} {} wrote by seat {seat} under {presented:?}: {usable:?}",
            case.actor,
            case.instance
        );
        Ok(())
    }

    pub(super) fn seat_created(&mut self, seat: &str, record: &Record) -> Verdict {
        let name = record.payload["name"].as_str().unwrap_or_default();
        let first = self.seats.insert(name.to_owned(), seat.to_owned());
        must!(first.is_none(), "P1: there are two seats {name}");
        let known = Known { state: "open", version: record.version, seat: true, ..Known::default() };
        must!(self.tasks.insert(seat.to_owned(), known).is_none(), "P5: a seat was created twice");
        must!(record.version == 1, "P5: seat {name} begins at version {}", record.version);
        Ok(())
    }
}
