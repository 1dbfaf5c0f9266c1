//! What is recorded of a session besides its stretches: usage and commits, by its holder; corrections, by a person.

use std::collections::BTreeMap;

use crate::actor::ActorName;
use crate::commit::CommitId;
use crate::event::{Body, Draft};
use crate::ids::Token;
use crate::refusal::{Code, Refusal, Step};
use crate::session::{Correction, Usage, left};
use crate::stretch::Stretch;
use crate::text::Field;

use super::standing::{Standing, standing};
use super::{Decision, View};

/// Records what the caller's own session on the task used, whether the session is running or has ended.
pub(super) fn record(view: &View<'_>, usage: &Usage) -> Result<Decision, Refusal> {
    standing(view)?;
    usage.check()?;
    let lease = match view.caller.token {
        Some(_) => view.lease,
        None => view.mine,
    };
    let Some(lease) = lease else {
        let message = format!("{} has no session on {}", view.caller.actor, view.id);
        return Err(Refusal::new(Code::NotAllowed, message).task(view.id).next(Step::log(view.id)));
    };
    let recorded = Draft::new(Body::SessionRecorded { usage: usage.clone() }).token(lease.token);
    Ok(Decision::of(vec![recorded]))
}

/// Records a commit under the caller's lease, live or lapsed: only the token matters. It is also a sign of life.
pub(super) fn commit(view: &View<'_>, commit: &CommitId) -> Result<Decision, Refusal> {
    let Standing::Holder { lease, .. } = standing(view)? else {
        let message = format!("{} does not hold {}", view.caller.actor, view.id);
        return Err(Refusal::new(Code::NotAllowed, message).task(view.id).next(Step::log(view.id)));
    };
    let made = Draft::new(Body::CommitMade { commit: commit.clone() }).token(lease.token);
    Ok(Decision::of(vec![made]))
}

pub(super) fn correct(
    view: &View<'_>,
    token: Token,
    correction: &Correction,
    reason: &str,
) -> Result<Decision, Refusal> {
    let (id, caller) = (view.id, &view.caller.actor);
    let refused = |code, message: String| Refusal::new(code, message).task(id).next(Step::log(id));
    if !caller.is_person() {
        return Err(refused(
            Code::PeopleOnly,
            format!("only a person may correct a session; {caller} is not one"),
        ));
    }
    let reason = Field::Reason.check(reason)?;
    let Some((lease, rows)) = view.session else {
        return Err(refused(Code::NotFound, format!("{id} has no session {token}")));
    };
    if lease.ended.is_none() {
        let message = format!(
            "the session of {} on {id} is still running: it can be corrected when it has ended",
            lease.actor
        );
        return Err(refused(Code::NotAllowed, message));
    }
    // After an earlier correction, parts of the session may belong to different actors.
    let mut less: BTreeMap<ActorName, Vec<Stretch>> = BTreeMap::new();
    for (actor, piece) in left(rows) {
        if let Some(taken) = correction.takes(&actor, piece) {
            less.entry(actor).or_default().push(taken);
        }
    }
    if less.is_empty() {
        let message = format!("session {token} of {id} has no recorded work that this would change");
        return Err(refused(Code::Nothing, message));
    }
    let to = match correction {
        Correction::Reassign { to } => Some(to.clone()),
        Correction::Shorten { .. } | Correction::Void => None,
    };
    let drafts = less.into_iter().map(|(from, less)| {
        let corrected = Body::SessionCorrected { what: correction.what(), from, to: to.clone(), less };
        Draft::new(corrected).token(token).text(Field::Reason, Some(reason.clone()))
    });
    Ok(Decision::of(drafts.collect()))
}
