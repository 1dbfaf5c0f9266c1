//! Queries about seats: their holders, and whether the caller is one of them.

use serde::Serialize;

use onus_core::decide::{Need, holds_seat};
use onus_core::ids::Uid;
use onus_core::lease::{LapseCause, Lease};
use onus_core::refusal::{Code, OnSeat, Refusal, Step};
use onus_core::seat::{Seat, SeatName};
use onus_core::time::{Span, rfc3339};
use onus_store::{Result, Seats, Store, StoreError};

use crate::query::QueryResult;
use crate::request::evidence::Evidence;
use crate::request::seat::no_such_seat;
use crate::snapshot::Snapshot;
use crate::status::lapse_text;
use crate::view::LeaseView;
use crate::{Engine, Identity};

/// How many seats are shown at once.
const MAX_SEATS: u64 = 10_000;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeatView {
    pub name: String,
    pub uid: String,
    /// How many events it has.
    pub version: u64,
    /// The highest token that was ever granted; 0: none.
    pub token: u64,
    /// The lease that has not ended, live or lapsed; null if nobody holds the seat.
    pub lease: Option<LeaseView>,
    pub created_at: String,
    pub created_by: String,
    pub updated_at: String,
}

/// A seat that somebody holds, or held until it lapsed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SeatHeldView"))]
pub struct SeatHeldView<N = Step> {
    pub name: String,
    pub lease: LeaseView,
    /// Whether somebody should look at it: its lease has lapsed, or its holder, a person, has not been seen for a long time.
    pub needs_attention: bool,
    /// What happened, for people.
    pub message: String,
    /// The safe next step.
    pub next: Option<N>,
}

impl SeatHeldView {
    /// The same in an interface's words.
    pub fn worded(&self, say: &dyn Fn(&Step) -> Option<String>) -> SeatHeldView<String> {
        SeatHeldView {
            name: self.name.clone(),
            lease: self.lease.clone(),
            needs_attention: self.needs_attention,
            message: self.message.clone(),
            next: self.next.as_ref().and_then(say),
        }
    }
}

impl Snapshot<'_> {
    pub(crate) fn seat_view(&mut self, seat: &Seat) -> Result<SeatView> {
        let lease = self.lease_of_seat(seat)?;
        Ok(SeatView {
            name: seat.name.to_string(),
            uid: seat.uid.to_string(),
            version: seat.version.0,
            token: seat.token.0,
            lease: lease.map(|lease| self.seat_lease_view(&lease, seat)).transpose()?,
            created_at: rfc3339(seat.created_at_ms),
            created_by: seat.created_by.to_string(),
            updated_at: rfc3339(seat.updated_at_ms),
        })
    }

    fn seat_lease_view(&mut self, lease: &Lease, seat: &Seat) -> Result<LeaseView> {
        let view = self.lease_view(lease, &seat.as_task())?;
        Ok(LeaseView { seat: Some(seat.name.to_string()), ..view })
    }

    /// The lease that has not ended.
    pub(crate) fn lease_of_seat(&mut self, seat: &Seat) -> Result<Option<Lease>> {
        if seat.leased { self.lease(seat.uid, seat.token) } else { Ok(None) }
    }

    pub(crate) fn seat_of(&mut self, uid: Uid) -> Result<Seat> {
        self.read.seat(uid)?.ok_or_else(|| StoreError::Damaged("a seat vanished".to_owned()))
    }

    /// Every seat that is held or lapsed, each with whether the asker holds it.
    pub(crate) fn held_seats(&mut self, identity: Option<&Identity>) -> Result<Vec<(SeatHeldView, bool)>> {
        let asker = self.asker(identity)?;
        let mut held = Vec::new();
        for seat in self.read.seats(Seats::Leased, MAX_SEATS)? {
            let Some(lease) = self.lease_of_seat(&seat)? else { continue };
            let is_yours = asker
                .as_ref()
                .zip(identity)
                .is_some_and(|(actor, identity)| lease.is_held_by(&actor.name, &identity.instance));
            held.push((self.held_seat(&seat, &lease, is_yours)?, is_yours));
        }
        Ok(held)
    }

    fn held_seat(&mut self, seat: &Seat, lease: &Lease, is_yours: bool) -> Result<SeatHeldView> {
        let rendered = self.seat_lease_view(lease, seat)?;
        let silent = Span::from_ms(self.now.since_ms(&lease.pulse.last));
        let step = |what| Some(Step::Seat(what, seat.name.clone()));
        let (message, next) = match rendered.lapsed_by {
            Some(cause) => (
                format!("{} let it lapse: {}", lease.holder(), lapse_text(cause, &silent)),
                match cause {
                    LapseCause::Ttl if is_yours => step(OnSeat::Renew),
                    _ => step(OnSeat::Take),
                },
            ),
            None if rendered.stale => {
                (format!("{} has shown no sign of life for {silent}", lease.actor), step(OnSeat::Show))
            }
            None => {
                let held = Span::from_ms(self.now.since_ms(&lease.acquired()));
                (format!("{} has held it for {held}", lease.holder()), None)
            }
        };
        Ok(SeatHeldView {
            name: seat.name.to_string(),
            needs_attention: rendered.lapsed_by.is_some() || rendered.stale,
            lease: rendered,
            message,
            next,
        })
    }
}

impl<S: Store> Engine<S> {
    pub fn seat(&mut self, identity: Option<&Identity>, name: &SeatName) -> QueryResult<SeatView> {
        self.ask(identity, |snapshot| {
            let seat = snapshot.read.seat_named(name)?.ok_or_else(|| no_such_seat(name))?;
            Ok(snapshot.seat_view(&seat)?)
        })
    }

    /// Every seat that was ever taken, by name.
    pub fn seats(&mut self, identity: Option<&Identity>) -> QueryResult<Vec<SeatView>> {
        self.ask(identity, |snapshot| {
            let seats = snapshot.read.seats(Seats::All, MAX_SEATS)?;
            Ok(seats.iter().map(|seat| snapshot.seat_view(seat)).collect::<Result<_>>()?)
        })
    }

    /// The seat, if the caller holds it live at this moment; otherwise exit 5, 4, 6 or 7. A caller that
    /// writes afterwards requires the seat with the write itself ([`onus_core::command::Command::Seated`]): a
    /// moment later somebody else may have it.
    pub fn check_seat(&mut self, identity: &Identity, name: &SeatName) -> QueryResult<SeatView> {
        self.ask(Some(identity), |snapshot| {
            let Some(seat) = snapshot.read.seat_named(name)? else {
                let refusal = no_such_seat(name);
                return Err(Refusal { code: Code::Nothing, ..refusal }.into());
            };
            let (mut caller, actor) = snapshot.as_caller(Some(identity))?;
            caller.token = identity.token_for_seat();
            let task = seat.as_task();
            let mut evidence = Evidence::of(snapshot, &caller, &task)?;
            evidence.id = seat.name.spoken();
            let view = evidence.view(snapshot.now, snapshot.policy, (&caller, &actor), &task);
            holds_seat(&view, name, Need::LiveLease)?;
            Ok(snapshot.seat_view(&seat)?)
        })
    }
}
