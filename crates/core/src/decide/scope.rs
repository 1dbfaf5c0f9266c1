//! Scopes (P3): a lease and the paths it reserves are granted, widened and renewed after a lapse together, or not at
//! all. The view has the live leases that reserve something near; what exactly collides is found here.

use crate::command::Terms;
use crate::event::{Body, Draft};
use crate::lease::{Lease, Mode};
use crate::policy::ScopeMode;
use crate::refusal::{Code, Conflict, Refusal};
use crate::scope::{Glob, Scope, overlap};
use crate::task::Task;
use crate::transition::Verb;

use super::claim::{not_yours, renew_late};
use super::standing::{Standing, held_for, held_refusal, holder_note, standing};
use super::{Decision, Renewal, View};

/// The most globs that one lease may reserve: a task that touches more files reserves their folders.
pub const MAX_GLOBS: usize = 10_000;

/// Another's live lease, with those of its globs that may meet the ones asked for.
#[derive(Clone, Debug)]
pub struct Rival {
    /// The task's id.
    pub id: String,
    pub lease: Lease,
    pub globs: Vec<Glob>,
}

/// What a claim of a task on these terms reserves: what the task declares, and what the terms add.
pub fn wanted(task: &Task, terms: &Terms) -> (Scope, Mode) {
    let mut scope = task.facts.scope.clone();
    scope.extend(terms.scope.globs().iter().cloned());
    let mode = if terms.shared { Mode::Shared } else { task.facts.mode };
    (scope, mode)
}

/// What collides with a scope, as a refusal; None if nothing does. Globs too complex to compare are a refusal, too.
pub(super) fn collision(view: &View<'_>, scope: &Scope, mode: Mode) -> Option<Refusal> {
    if view.policy.scope_mode == ScopeMode::Off {
        return None;
    }
    let both_shared = |rival: &&Rival| mode == Mode::Shared && rival.lease.grant.mode == Mode::Shared;
    view.rivals.iter().filter(|rival| !both_shared(rival)).find_map(|rival| {
        match overlap(scope.globs(), &rival.globs, view.policy.scope_shared.globs()) {
            Ok(None) => None,
            Ok(Some(witness)) => Some(collides(
                view,
                rival,
                Conflict {
                    task: rival.id.clone(),
                    path: witness.path,
                    yours: scope.globs()[witness.left].to_string(),
                    theirs: rival.globs[witness.right].to_string(),
                },
            )),
            Err(error) => Some(error.into()),
        }
    })
}

/// Exit 4: somebody else reserved a path.
fn collides(view: &View<'_>, rival: &Rival, conflict: Conflict) -> Refusal {
    let Rival { id, lease, .. } = rival;
    let whose = if lease.is_held_by(&view.caller.actor, &view.caller.instance) {
        format!("which you ({}) hold yourself", lease.actor)
    } else {
        held_for(view.now, lease)
    };
    let both = if conflict.yours == conflict.theirs || conflict.yours == conflict.path {
        format!("it has '{}'", conflict.theirs)
    } else {
        format!("it has '{}', and {} needs '{}'", conflict.theirs, view.id, conflict.yours)
    };
    let mut refusal =
        Refusal::new(Code::Scope, format!("{} is reserved by {id}, {whose}: {both}", conflict.path))
            .task(view.id);
    refusal.holder = Some(Box::new(holder_note(view, lease, true)));
    refusal.expires_in_s = super::standing::expires_in_s(view, lease);
    refusal.conflict = Some(Box::new(conflict));
    refusal
        .next("onus ready   # work that collides with nobody's")
        .next(format!("onus note {id} '…'   # tell its holder what you need"))
        .next(format!("onus show {id}   # look again later"))
}

/// The same as the policy has it: an error where scopes are strict, a notice where they only warn.
pub(super) fn check(view: &View<'_>, scope: &Scope, mode: Mode) -> Result<Option<String>, Refusal> {
    match (collision(view, scope, mode), view.policy.scope_mode) {
        (Some(refusal), ScopeMode::Strict) => Err(refusal),
        (refusal, _) => Ok(refusal.map(|refusal| format!("careful: {}", refusal.message))),
    }
}

/// Widens the caller's lease. After a lapse it is renewed with it, or not at all.
pub(super) fn add(view: &View<'_>, more: &Scope) -> Result<Decision, Refusal> {
    let new = more.globs().iter().filter(|glob| !view.scope.globs().contains(glob)).cloned().collect();
    widen(view, new)
}

fn widen(view: &View<'_>, new: Scope) -> Result<Decision, Refusal> {
    let (lease, mut decision) = held(view)?;
    if new.is_empty() {
        return Ok(decision);
    }
    let len = view.scope_len + new.globs().len();
    if len > MAX_GLOBS {
        return Err(Refusal::new(
            Code::Limit,
            format!("a lease reserves at most {MAX_GLOBS} globs; this would be {len}"),
        )
        .task(view.id)
        .next(format!("onus scope add {} 'folder/**'   # reserve folders rather than files", view.id)));
    }
    decision.notices.extend(check(view, &new, lease.grant.mode)?);
    decision.drafts.push(Draft::new(Body::ScopeAdded { scope: new }).token(lease.token));
    Ok(decision)
}

/// Only what is named as it stands there.
pub(super) fn remove(view: &View<'_>, less: &Scope) -> Result<Decision, Refusal> {
    let (lease, mut decision) = held(view)?;
    let gone: Scope = less.globs().iter().filter(|glob| view.scope.globs().contains(glob)).cloned().collect();
    if gone.is_empty() {
        return Err(Refusal::new(
            Code::Nothing,
            format!("{} reserves none of these; they must be named as it has them", view.id),
        )
        .task(view.id)
        .next(format!("onus scope show {}", view.id)));
    }
    decision.drafts.push(Draft::new(Body::ScopeRemoved { scope: gone }).token(lease.token));
    Ok(decision)
}

/// First touch: paths that nobody reserved join the holder's scope; what it has already, or what the project shares,
/// needs nothing.
pub(super) fn touch(view: &View<'_>, paths: &[String]) -> Result<Decision, Refusal> {
    let mut new = Scope::default();
    for path in paths {
        let glob = Glob::literal(path)?;
        let path = glob.path().unwrap_or(path).to_owned();
        let is_shared = view.policy.scope_shared.covers(&path);
        let is_mine = view.scope.covers(&path)
            || view.rivals.iter().any(|rival| {
                rival.lease.is_held_by(&view.caller.actor, &view.caller.instance)
                    && rival.globs.iter().any(|glob| glob.matches(&path))
            });
        if !is_shared && !is_mine {
            new.insert(glob);
        }
    }
    widen(view, new)
}

/// The caller's lease, live, or with what revives it after a lapse.
fn held<'a>(view: &View<'a>) -> Result<(&'a Lease, Decision), Refusal> {
    match standing(view)? {
        Standing::Holder { lease, late: false } => {
            let renew = Some(Renewal { token: lease.token, ttl_ms: None, progress: true });
            Ok((lease, Decision { renew, ..Decision::default() }))
        }
        Standing::Holder { lease, late: true } => Ok((lease, renew_late(view, lease, None, None)?)),
        Standing::Held(lease) => Err(held_refusal(view, lease)),
        Standing::Free { .. } | Standing::Freed => Err(not_yours(view, Verb::Claim)),
    }
}
