//! What a look at a worktree found changed: those concerned are told, and what nobody has joins the writer's work.
//!
//! **Nobody is blamed for another's write.** A change has suspects: the conversations whose commands ran while it happened. What
//! is told is just that, as somebody without hooks may have written meanwhile. One suspect counts as the writer. If there are several, the holder of the file hears that it changed, and no more can be said. If the only
//! one is the holder itself, there is nothing to say. If no command ran, one that was left in the background may have: then the
//! holder hears it where others have run commands in this worktree.
//!
//! **Whose a file is, the leases say, as for an edit.** A file that another touched in a worktree of its own is not another's here: it
//! joins, and both hear of the merge to come. A conversation and its parts are not others to each other. What was yielded is
//! no longer its former owner's. What joins has been changed already, and so is what the writer had touched before.

use onus_core::actor::{ActorName, InstanceId, PendingKind, PendingNotice};
use onus_core::command::{Act, ChangedFiles, FileChange, Guard, Look, Party};
use onus_core::decide::Rival;
use onus_core::lease::Lease;
use onus_core::policy::ScopeMode;
use onus_core::quote;
use onus_core::scope::{Basis, Glob, Reservation, Scope, collide};

use super::{Effect, Outcome, Result, Stop, UnitOfWork};
use crate::snapshot::Snapshot;
use crate::view::Notice;

/// What a look comes to.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) strays: Vec<PendingNotice>,
    /// What nobody has, and joins the caller's work.
    pub(crate) joining: Vec<String>,
}

impl Snapshot<'_> {
    /// `whole`: the conversation that looks.
    pub(crate) fn findings(
        &mut self,
        (actor, whole): (&ActorName, &InstanceId),
        look: &Look,
    ) -> onus_store::Result<Findings> {
        let touched = &look.joining.touched;
        let seen = look.changes.iter().map(|change| &change.path).chain(&look.joining.paths);
        let seen: Scope = seen.filter_map(|path| Glob::literal(path).ok()).collect();
        let holders = match self.policy.scope_mode {
            ScopeMode::Off => Vec::new(),
            ScopeMode::Strict | ScopeMode::Warn => self.rivals(&seen)?,
        };
        let (shared, across) = (&self.policy.scope_shared, self.policy.across_worktrees);
        // Whether a lease has a file that is changed in this worktree.
        let has = |held: &Rival, path: &str| {
            let Ok(glob) = Glob::literal(path) else { return false };
            let here = Reservation::new(glob, Basis::Touched(touched.clone()));
            held.reserved.iter().any(|row| row.glob.matches(path) && collide(&here, row, across))
        };
        let mut findings = Findings::default();
        let lingering = self.behind(&look.lingering)?;
        for FileChange { path, suspects } in look.changes.iter().filter(|change| !shared.covers(&change.path))
        {
            let suspects = self.behind(suspects)?;
            for held in holders.iter().filter(|held| has(held, path)) {
                let Some(by) = writer(&held.lease, &suspects, &lingering) else { continue };
                let told = |actor: &ActorName, instance: &InstanceId| PendingNotice {
                    actor: actor.clone(),
                    instance: instance.clone(),
                    task: held.lease.task,
                    token: held.lease.token,
                    kind: PendingKind::Changed,
                    path: path.clone(),
                    by: by.map(|by| (by.actor.clone(), by.instance.clone())),
                    by_task: None,
                    worktree: None,
                    branch: None,
                    at_ms: self.now.wall_ms,
                };
                findings.strays.push(told(&held.lease.actor, &held.lease.instance));
                findings.strays.extend(by.map(|by| told(&by.actor, &by.instance)));
            }
        }
        let is_free = |path: &&String| {
            let is_had = |held: &Rival| match is_of(&held.lease, actor, whole) {
                // What it has in another worktree, it may have here as well.
                true => held
                    .reserved
                    .iter()
                    .any(|row| row.glob.matches(path) && row.is_good_in(touched.worktree.as_ref())),
                false => has(held, path),
            };
            !shared.covers(path) && !holders.iter().any(is_had)
        };
        findings.joining = look.joining.paths.iter().filter(is_free).cloned().collect();
        Ok(findings)
    }

    /// Parties under the names that leases have. Two commands of one conversation are one suspect.
    fn behind(&mut self, parties: &[Party]) -> onus_store::Result<Vec<Party>> {
        let mut behind: Vec<Party> = Vec::with_capacity(parties.len());
        for party in parties {
            let actor = self.read.alias(&party.actor)?.unwrap_or_else(|| party.actor.clone());
            if !behind.iter().any(|known| known.actor == actor && known.conversation == party.conversation) {
                behind.push(Party { actor, ..party.clone() });
            }
        }
        Ok(behind)
    }
}

impl UnitOfWork<'_> {
    pub(super) fn look(&mut self, look: &Look) -> Result<Outcome> {
        let (actor, instance) = (self.caller.actor.clone(), self.caller.instance.clone());
        let whole = look.joining.whole.as_ref().unwrap_or(&instance);
        let Findings { strays, joining: paths } = self.snapshot().findings((&actor, whole), look)?;
        let had = look.joining.paths.iter().filter(|path| !paths.contains(path)).cloned().collect();
        self.mark(&ChangedFiles { paths: had, worktree: look.joining.touched.worktree.clone() })?;
        let outcome = match paths.is_empty() {
            true => Outcome::of(Effect::Guarded { adopted: false, is_shown: false }),
            false => self.join(&Guard { paths, ..look.joining.clone() })?,
        };
        for stray in &strays {
            self.write.put_notice(stray)?;
        }
        Ok(outcome)
    }

    /// What the caller had touched before is changed now. Where that cannot be said any more, nothing is.
    fn mark(&mut self, changed: &ChangedFiles) -> Result<()> {
        let first = self.first;
        self.write.savepoint()?;
        match self.changed(changed) {
            Ok(_) => Ok(self.write.release()?),
            Err(Stop::Refused(_)) => {
                self.undo_part()?;
                self.first = first;
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    /// Files that were changed already join the caller's work, if they may. Otherwise the caller hears why not.
    fn join(&mut self, guard: &Guard) -> Result<Outcome> {
        let first = self.first;
        self.write.savepoint()?;
        match self.guard_changed(guard) {
            Ok(mut outcome) => {
                self.write.release()?;
                let whose = if outcome.task.is_some() { "reserved for you now" } else { "not reserved" };
                let message = format!("while your command ran, {} changed: {whose}", listed(&guard.paths));
                outcome.notices.insert(0, Notice::info(message));
                Ok(outcome)
            }
            Err(Stop::Refused(refusal)) => {
                self.undo_part()?;
                self.first = first;
                let mut outcome = Outcome::of(Effect::Guarded { adopted: false, is_shown: false });
                let message = format!(
                    "while your command ran, {} changed: not reserved, {}",
                    listed(&guard.paths),
                    refusal.message
                );
                outcome.notices.push(Notice::info(message));
                Ok(outcome)
            }
            Err(stop) => Err(stop),
        }
    }

    /// The task is locked by then: nothing is locked after what is reserved.
    fn guard_changed(&mut self, guard: &Guard) -> Result<Outcome> {
        let outcome = self.guard(guard)?;
        if let Some(task) = outcome.task {
            let changed =
                ChangedFiles { paths: guard.paths.clone(), worktree: guard.touched.worktree.clone() };
            self.on_task(task, &Act::Change(changed), None)?;
        }
        Ok(outcome)
    }
}

/// Whose command changed a lease's file: None if there is nothing to tell its holder, `Some(None)` if that cannot be told.
fn writer<'a>(lease: &Lease, suspects: &'a [Party], lingering: &[Party]) -> Option<Option<&'a Party>> {
    match suspects {
        [] => lingering.iter().any(|party| !is_of(lease, &party.actor, &party.conversation)).then_some(None),
        [only] => (!is_of(lease, &only.actor, &only.conversation)).then_some(Some(only)),
        _ => Some(None),
    }
}

/// Whether a lease is a conversation's own, or its parts'.
fn is_of(lease: &Lease, actor: &ActorName, whole: &InstanceId) -> bool {
    lease.actor == *actor && (lease.instance == *whole || whole.has_part(&lease.instance))
}

fn listed(paths: &[String]) -> String {
    const MOST: usize = 5;
    let named: Vec<String> = paths.iter().take(MOST).map(|path| quote::name(path)).collect();
    match paths.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
