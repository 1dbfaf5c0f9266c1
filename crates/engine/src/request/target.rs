//! Which task a request is about.

use onus_core::apply::Project;
use onus_core::decide::check_fence;
use onus_core::ids::{TaskRef, Token, Uid, no_such_task};
use onus_core::lease::Lease;
use onus_core::refusal::{Code, Refusal, Step};
use onus_store::Read;

use super::{Result, Stop, UnitOfWork};

impl UnitOfWork<'_> {
    /// The task a command is about: the one it names, or the only one that the caller holds.
    pub(super) fn target(&mut self, reference: Option<&TaskRef>) -> Result<Uid> {
        if let Some(reference) = reference {
            return self.resolve(reference);
        }
        let held = self.tasks_held()?;
        match held.as_slice() {
            [lease] => Ok(lease.task),
            [] => {
                self.check_not_superseded()?;
                Err(Refusal::usage("name a task: you hold none").next(Step::Ready).into())
            }
            many => {
                let message = format!("name a task: you hold {}", many.len());
                let mut refusal = Refusal::new(Code::Ambiguous, message).next(Step::Status);
                for lease in many.iter().take(10) {
                    let task = self.write.task(lease.task)?;
                    refusal.candidates.extend(task.map(|task| self.project.prefix.id(task.number)));
                }
                Err(refusal.into())
            }
        }
    }

    /// Exit 5 for a caller that lost its task and has not been told yet: it names no task because it believes
    /// that it holds one.
    fn check_not_superseded(&mut self) -> Result<()> {
        let lost = self.write.leases_lost_by(&self.caller.actor, &self.caller.instance)?;
        for lease in lost.iter().filter(|lease| lease.is_of_a_task()) {
            let Some(task) = self.write.task(lease.task)? else { continue };
            let evidence = self.evidence(&task, None)?;
            check_fence(&self.view(&task, &evidence))?;
        }
        Ok(())
    }

    /// The task that a touched file joins: the caller's latest.
    pub(super) fn latest_held(&mut self) -> Result<Uid> {
        let held = self.tasks_held()?;
        match held.last() {
            Some(lease) => Ok(lease.task),
            None => self.target(None),
        }
    }

    /// The caller's leases on tasks, the latest last.
    pub(super) fn tasks_held(&mut self) -> Result<Vec<Lease>> {
        let mut held = self.write.leases_held_by(&self.caller.actor, &self.caller.instance)?;
        held.retain(Lease::is_of_a_task);
        Ok(held)
    }

    pub(super) fn resolve(&mut self, reference: &TaskRef) -> Result<Uid> {
        resolve(self.write, &self.project, reference)
    }

    /// The token that counts for this task.
    pub(super) fn token_for(&mut self, uid: Uid) -> Result<Option<Token>> {
        match &self.request.identity.token {
            None => Ok(None),
            Some((None, token)) => Ok(Some(*token)),
            Some((Some(reference), token)) => match self.resolve(reference) {
                Ok(task) => Ok(Some(*token).filter(|_| task == uid)),
                Err(Stop::Refused(_)) => Ok(None),
                Err(failed) => Err(failed),
            },
        }
    }
}

/// The one task that a reference names: exit 3 if none, exit 2 with the candidates if several.
pub(crate) fn resolve(
    read: &mut dyn Read,
    project: &Project,
    reference: &TaskRef,
) -> std::result::Result<Uid, Stop> {
    let found = read.resolve(reference)?;
    match found.as_slice() {
        [uid] => Ok(*uid),
        [] => Err(no_such_task(reference).into()),
        many => {
            let mut refusal = Refusal::new(Code::Ambiguous, format!("'{reference}' matches several tasks"))
                .next(Step::LongerReference);
            for uid in many {
                if let Some(task) = read.task(*uid)? {
                    refusal.candidates.push(format!("{} ({uid})", project.prefix.id(task.number)));
                }
            }
            Err(refusal.into())
        }
    }
}
