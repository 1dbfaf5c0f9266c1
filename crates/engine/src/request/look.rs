//! What a look at a worktree found changed: those concerned are told, and files that nobody has join the
//! writer's work.
//!
//! **Nobody is blamed for another's write.** A change has suspects: the conversations whose commands ran
//! while it happened. Exactly that is reported, since somebody without hooks may have written at the same
//! time. A single suspect counts as the writer. If there are several, the holder of the file is told that it
//! changed, and no more can be said. If the only suspect is the holder itself, there is nothing to report. If
//! no command ran, one left in the background may have written: then the holder is told if others have run
//! commands in this worktree.
//!
//! **Leases say whose a file is, as for an edit.** A file that another conversation touched in a worktree of
//! its own is not another's here: it joins, and both are told of the merge to come. A conversation and its
//! sub-agents are not others to each other. A yielded file no longer belongs to its former holder. Files that
//! join were already changed, as were those that the writer had touched before.

use onus_core::actor::{ActorName, InstanceId, PendingKind, PendingNotice};
use onus_core::command::{Act, ChangedFiles, FileChange, Guard, Look, Runner};
use onus_core::decide::Rival;
use onus_core::lease::Lease;
use onus_core::policy::ScopeMode;
use onus_core::quote;
use onus_core::scope::{Basis, Glob, Reservation, Scope, collide};

use super::{Effect, Outcome, Result, UnitOfWork};
use crate::notices::first_of;
use crate::snapshot::Snapshot;
use crate::view::Notice;

/// The result of a look.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) strays: Vec<PendingNotice>,
    /// Files that nobody has, which join the caller's work.
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
        // Whether a lease reserves a file that is changed in this worktree.
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
                    .any(|row| row.glob.matches(path) && row.applies_in(touched.worktree.as_ref())),
                false => has(held, path),
            };
            !shared.covers(path) && !holders.iter().any(is_had)
        };
        findings.joining = look.joining.paths.iter().filter(is_free).cloned().collect();
        Ok(findings)
    }

    /// Runners under the actor names that leases have. Two commands of one conversation are one suspect.
    fn behind(&mut self, runners: &[Runner]) -> onus_store::Result<Vec<Runner>> {
        let mut behind: Vec<Runner> = Vec::with_capacity(runners.len());
        for runner in runners {
            let actor = self.read.alias(&runner.actor)?.unwrap_or_else(|| runner.actor.clone());
            if !behind.iter().any(|known| known.actor == actor && known.conversation == runner.conversation) {
                behind.push(Runner { actor, ..runner.clone() });
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

    /// Marks what the caller had touched before as changed. If that is no longer possible, nothing is marked.
    fn mark(&mut self, changed: &ChangedFiles) -> Result<()> {
        self.try_part(|work| work.changed(changed)).map(drop)
    }

    /// Adds files that were already changed to the caller's work, if possible. Otherwise the caller is told
    /// why not.
    fn join(&mut self, guard: &Guard) -> Result<Outcome> {
        match self.try_part(|work| work.guard_changed(guard))? {
            Ok(mut outcome) => {
                let whose = if outcome.task.is_some() { "reserved for you now" } else { "not reserved" };
                let message = format!("while your command ran, {} changed: {whose}", listed(&guard.paths));
                outcome.notices.insert(0, Notice::info(message));
                Ok(outcome)
            }
            Err(refusal) => {
                let mut outcome = Outcome::of(Effect::Guarded { adopted: false, is_shown: false });
                let message = format!(
                    "while your command ran, {} changed: not reserved, {}",
                    listed(&guard.paths),
                    refusal.message
                );
                outcome.notices.push(Notice::info(message));
                Ok(outcome)
            }
        }
    }

    /// The task is already locked here: after reservations are locked, nothing else may be.
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

/// Whose command changed a lease's file. None: there is nothing to tell its holder; `Some(None)`: nobody can
/// tell.
fn writer<'a>(lease: &Lease, suspects: &'a [Runner], lingering: &[Runner]) -> Option<Option<&'a Runner>> {
    match suspects {
        [] => {
            lingering.iter().any(|runner| !is_of(lease, &runner.actor, &runner.conversation)).then_some(None)
        }
        [only] => (!is_of(lease, &only.actor, &only.conversation)).then_some(Some(only)),
        _ => Some(None),
    }
}

/// Whether a lease belongs to a conversation or its sub-agents.
fn is_of(lease: &Lease, actor: &ActorName, whole: &InstanceId) -> bool {
    lease.actor == *actor && (lease.instance == *whole || whole.has_part(&lease.instance))
}

fn listed(paths: &[String]) -> String {
    first_of(&paths.iter().map(|path| quote::name(path)).collect::<Vec<_>>(), 5)
}
