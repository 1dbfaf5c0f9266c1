//! Seats: taken, renewed, released and taken over like tasks, and required by some commands.

use onus_core::apply::apply_to_seat;
use onus_core::command::{Act, Command, Force, SeatAct};
use onus_core::decide::{Decision, Need, decide_seat, holds_seat};
use onus_core::event::{Body, Draft, store_reasons_once};
use onus_core::ids::{Token, Uid, Version};
use onus_core::refusal::{Code, OnSeat, Refusal, Step};
use onus_core::seat::{Seat, SeatName};
use onus_store::StoreError;

use super::act::erased_by;
use super::evidence::Evidence;
use super::{Effect, Outcome, Result, UnitOfWork};
use crate::view::Notice;

impl UnitOfWork<'_> {
    pub(super) fn on_seat(
        &mut self,
        name: &SeatName,
        act: &SeatAct,
        force: Option<&Force>,
    ) -> Result<Outcome> {
        let seat = self.seat_for(name, act)?;
        let act = self.bound_seat(act);
        self.caller.token = self.request.identity.token_for_seat();
        let decision = self.decide_seat(&seat, &act, force)?;
        self.seat_changed(seat, &act, decision)
    }

    /// Runs a command of the holder of a seat under this token. The row stays locked until the commit, so
    /// nobody takes the seat over between the comparison and the write.
    pub(super) fn seated(&mut self, name: &SeatName, token: Token, command: &Command) -> Result<Outcome> {
        let seat = self.lock_seat(name)?.ok_or_else(|| no_such_seat(name))?;
        self.caller.token = Some(token);
        self.check_seat(&seat, Need::CurrentToken)?;
        self.perform(command)
    }

    /// Checks that the caller holds a seat under the token that it presents.
    pub(super) fn check_seat(&mut self, seat: &Seat, need: Need) -> Result<()> {
        let evidence = self.evidence_of_seat(seat, None)?;
        let task = seat.as_task();
        holds_seat(&self.view(&task, &evidence), &seat.name, need)?;
        Ok(())
    }

    /// The locked seat. Taking a seat that does not exist creates it.
    fn seat_for(&mut self, name: &SeatName, act: &SeatAct) -> Result<Seat> {
        match (self.lock_seat(name)?, act) {
            (Some(seat), _) => Ok(seat),
            (None, SeatAct::Take(_)) => self.create_seat(name),
            (None, _) => Err(no_such_seat(name).into()),
        }
    }

    /// Locks a seat's row until the commit and reads it, and then the clock.
    fn lock_seat(&mut self, name: &SeatName) -> Result<Option<Seat>> {
        let seat = self.write.lock_seat(name)?;
        self.now = self.write.now();
        Ok(seat)
    }

    fn create_seat(&mut self, name: &SeatName) -> Result<Seat> {
        let number = self.write.next_seat()?;
        // Of two requests that create it at once, the second finds it here.
        if let Some(seat) = self.lock_seat(name)? {
            return Ok(seat);
        }
        let uid = (self.outside.new_uid)(self.now.wall_ms);
        let created = Draft::new(Body::SeatCreated { number, name: name.clone() });
        let mut seat = None;
        self.append_to_seat(uid, &mut seat, vec![created])?;
        Ok(seat.ok_or_else(|| StoreError::Damaged("a seat that was created is not there".to_owned()))?)
    }

    fn bound_seat(&self, act: &SeatAct) -> SeatAct {
        let mut act = act.clone();
        if let SeatAct::Take(terms) | SeatAct::Takeover(terms) = &mut act {
            terms.process = self.bound(&terms.clone().into()).process;
        }
        act
    }

    fn evidence_of_seat(&mut self, seat: &Seat, act: Option<&Act>) -> Result<Evidence> {
        let mut evidence = self.evidence(&seat.as_task(), act)?;
        evidence.id = seat.name.spoken();
        Ok(evidence)
    }

    fn decide_seat(&mut self, seat: &Seat, act: &SeatAct, force: Option<&Force>) -> Result<Decision> {
        let (task, on_task) = (seat.as_task(), act.as_act());
        let evidence = self.evidence_of_seat(seat, Some(&on_task))?;
        let decision = decide_seat(&self.view(&task, &evidence), &seat.name, act, force)?;
        self.end_orphans_first(&evidence.id, evidence.lease.as_ref(), &decision)?;
        self.remember_loss(&task, evidence.lease.as_ref(), &decision.drafts)?;
        Ok(decision)
    }

    fn seat_changed(&mut self, seat: Seat, act: &SeatAct, decision: Decision) -> Result<Outcome> {
        let uid = seat.uid;
        let has = |test: fn(&Body) -> bool| decision.drafts.iter().any(|draft| test(&draft.body));
        let acquired = has(|body| matches!(body, Body::LeaseAcquired { .. }));
        let takeover = has(|body| matches!(body, Body::LeaseTakenOver { .. } | Body::LeaseRevoked { .. }));
        let erased = erased_by(uid, &decision.drafts);
        let mut after = Some(seat);
        self.append_to_seat(uid, &mut after, decision.drafts)?;
        self.erase(erased)?;
        if let Some(renewal) = decision.renew {
            self.pulse(uid, renewal.token, renewal.ttl_ms, renewal.progress)?;
        }
        let holds = matches!(act, SeatAct::Take(_) | SeatAct::Takeover(_) | SeatAct::Renew { .. });
        let token = after.as_ref().map(|seat| seat.token).filter(|token| *token > Token(0) && holds);
        Ok(Outcome {
            token,
            notices: decision.notices.into_iter().map(Notice::info).collect(),
            ..Outcome::on(Effect::Seat { renewed: holds && !acquired, takeover }, uid)
        })
    }

    /// Stamps each draft into the seat's chain and applies it. `seat` is the row before, and the row after on
    /// return.
    fn append_to_seat(&mut self, uid: Uid, seat: &mut Option<Seat>, mut drafts: Vec<Draft>) -> Result<()> {
        store_reasons_once(&mut drafts, &mut self.said);
        for draft in drafts {
            let (version, head) =
                seat.as_ref().map_or((Version(0), String::new()), |seat| (seat.version, seat.head.clone()));
            let (event, texts) = self.stamp(Some(uid), version, head, draft);
            let changes = apply_to_seat(seat.as_ref(), &event)
                .map_err(|error| StoreError::Damaged(error.to_string()))?;
            self.record(&event, &texts, &changes)?;
            if let Some(onus_core::apply::RowChange::PutSeat(after)) = changes.into_iter().next() {
                *seat = Some(*after);
            }
        }
        Ok(())
    }
}

pub(crate) fn no_such_seat(name: &SeatName) -> Refusal {
    let mut refusal = Refusal::new(Code::NotFound, format!("nobody has ever taken {}", name.spoken()))
        .next(Step::Seat(OnSeat::Take, name.clone()));
    refusal.seat = Some(name.to_string());
    refusal
}
