//! The guard: may this agent change these files now? It needs no ceremony: what nobody reserved joins the agent's
//! latest task, and an agent that holds none gets one opened for it, so that edits collide in no case.

use onus_core::command::{Act, Guard, NewTask, Presence, Terms};
use onus_core::ids::Uid;
use onus_core::lease::{Lease, Liveness};
use onus_core::policy::Unclaimed;
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::{Glob, Scope};
use onus_core::task::Facts;
use onus_core::text::Field;
use onus_core::transition::Verb;

use super::{Door, Made, Outcome, Result, Stop};
use crate::view::NoticeKind;

/// How many files a title names, and how many the note of finished ad-hoc work does.
const TITLE_FILES: usize = 3;
const NOTE_FILES: usize = 200;

impl Door<'_> {
    pub(super) fn guard(&mut self, guard: &Guard) -> Result<Outcome> {
        self.heed_loss()?;
        let held = self.write.leases_held_by(&self.caller.actor, &self.caller.instance)?;
        if let Some(lease) = held.last() {
            let first = self.first;
            self.write.savepoint()?;
            match self.on_task(lease.task, &Act::Touch { paths: guard.paths.clone() }, None) {
                Ok(outcome) => {
                    self.write.release()?;
                    self.got(&guard.paths);
                    return Ok(Outcome { made: Made::Guarded { adopted: false }, ..outcome });
                }
                Err(Stop::Refused(refusal)) => {
                    self.write.undo()?;
                    self.first = first;
                    if !self.is_left_behind(lease)? {
                        return Err(refusal.into());
                    }
                    self.finish_ad_hoc(lease)?;
                }
                Err(stop) => return Err(stop),
            }
        }
        match self.policy.unclaimed {
            Unclaimed::Adopt => self.adopt(guard),
            Unclaimed::Warn => {
                // Whether it collides is found out as if it were adopted.
                self.write.savepoint()?;
                let collision = self.adopt(guard).err();
                self.write.undo()?;
                self.first = None;
                match collision {
                    Some(stop) => Err(stop),
                    None => {
                        let mut outcome = Outcome::of(Made::Guarded { adopted: false });
                        outcome.notices.push(
                            "you change files without a task: onus claim --next, or onus add and claim it"
                                .to_owned(),
                        );
                        Ok(outcome)
                    }
                }
            }
            Unclaimed::Refuse => Err(Refusal::new(
                Code::NotAllowed,
                format!(
                    "{} holds no task, and this project asks for one before files are changed",
                    self.caller.actor
                ),
            )
            .next("onus claim --next   # the best task that you may take")
            .next("onus add 'what you are about to do'   # then onus claim it")
            .into()),
        }
    }

    /// Whoever lost a task since it was last seen here learns that before it writes on.
    fn heed_loss(&mut self) -> Result<()> {
        match self.news(None)?.into_iter().find(|notice| notice.kind == NoticeKind::Superseded) {
            Some(notice) => {
                let mut refusal = Refusal::new(Code::Fenced, notice.message);
                refusal.task = notice.task.clone();
                if let Some(id) = notice.task {
                    refusal = refusal.next(format!("onus log {id}   # what happened"));
                }
                Err(refusal.next("onus ready   # take another task; then go on").into())
            }
            None => Ok(()),
        }
    }

    /// Ad-hoc work whose lease lapsed and cannot be renewed (held too long, its process is gone and the conversation goes on
    /// in another, or somebody has one of its files now) is finished, and begun anew.
    fn is_left_behind(&mut self, lease: &Lease) -> Result<bool> {
        let is_live = lease.liveness(&self.now, self.seen(Some(lease))) == Liveness::Live;
        Ok(!is_live && self.write.task(lease.task)?.is_some_and(|task| task.facts.ad_hoc))
    }

    fn adopt(&mut self, guard: &Guard) -> Result<Outcome> {
        let scope: Scope = guard
            .paths
            .iter()
            .map(|path| Glob::literal(path))
            .collect::<std::result::Result<_, _>>()
            .map_err(Refusal::from)?;
        let title = format!("ad hoc: {}", one_line(&some_of(&guard.paths, TITLE_FILES)));
        let facts = Facts { ad_hoc: true, ..Facts::default() };
        let new = NewTask { facts, ..NewTask::titled(shortened(title, Field::Title.max_bytes())) };
        let uid = self.add(&new)?.task.ok_or_else(|| Refusal::new(Code::Unexpected, "no task was added"))?;
        let process = guard.process.clone();
        let terms = Terms {
            process,
            scope,
            worktree: guard.worktree.clone(),
            branch: guard.branch.clone(),
            ..Terms::default()
        };
        let outcome = self.on_task(uid, &Act::Claim(terms), None)?;
        self.got(&guard.paths);
        Ok(Outcome { made: Made::Guarded { adopted: true }, ..outcome })
    }

    /// What it wanted and was refused, it has now.
    fn got(&mut self, paths: &[String]) {
        if self.watch.wants.as_ref().is_some_and(|wants| paths.contains(&wants.path)) {
            self.watch.wants = None;
        }
    }

    pub(super) fn presence(&mut self, presence: Presence) -> Result<Outcome> {
        let mut ended = Vec::new();
        let whole = self.caller.instance.clone();
        let mut held = self.write.leases_held_by(&self.caller.actor, &whole)?;
        if presence != Presence::Here {
            held.extend(self.leases_of_parts()?);
        }
        for lease in held {
            // What a part of the conversation holds, only that part ends.
            self.caller.instance = lease.instance.clone();
            match presence {
                Presence::Here => {}
                Presence::TurnOver => self.rest(&lease)?,
                Presence::Gone if lease.grant.reserve => {
                    if self.finish(&lease, Verb::Release, None)? {
                        ended.push(lease.task);
                    }
                }
                Presence::Gone => {
                    if self.finish_ad_hoc(&lease)? {
                        ended.push(lease.task);
                    } else {
                        self.rest(&lease)?;
                    }
                }
            }
        }
        self.caller.instance = whole;
        Ok(Outcome::of(Made::Present(ended)))
    }

    /// What the caller's sub-agents hold. Not every harness tells when one of them stops: they rest and end with the whole, and
    /// one that works on in the background shows it by its next action.
    fn leases_of_parts(&mut self) -> Result<Vec<Lease>> {
        let parts = format!("{}/", self.caller.instance);
        let mut leases: Vec<Lease> =
            self.write.open_leases(u64::from(u32::MAX))?.into_iter().map(|(_, lease)| lease).collect();
        leases
            .retain(|lease| lease.actor == self.caller.actor && lease.instance.as_str().starts_with(&parts));
        Ok(leases)
    }

    /// From now on the lease's TTL counts, until its holder goes on.
    fn rest(&mut self, lease: &Lease) -> Result<()> {
        let now = self.steady_now()?;
        let Some(lease) = self.write.lock_lease(lease.task, lease.token)? else { return Ok(()) };
        let live = self.is_live(&lease, now.as_ref());
        let now = now.unwrap_or_else(|| self.now.clone());
        let Some(deadline) = lease.resting_deadline(&now).filter(|_| live && !lease.pulse.resting) else {
            return Ok(());
        };
        let pulse = onus_core::lease::Pulse {
            last: now,
            renewals: lease.pulse.renewals + 1,
            deadline: Some(deadline),
            resting: true,
            ..lease.pulse.clone()
        };
        Ok(self.write.pulse(lease.task, lease.token, &pulse)?)
    }

    /// True: it was ad-hoc work, and it is done now.
    fn finish_ad_hoc(&mut self, lease: &Lease) -> Result<bool> {
        if !self.write.task(lease.task)?.is_some_and(|task| task.facts.ad_hoc) {
            return Ok(false);
        }
        let scope = self.write.scope_of(lease.task, lease.token)?;
        let files: Vec<&str> = scope.globs().iter().map(Glob::as_str).collect();
        let note = format!("changed without a task of its own: {}", some_of(&files, NOTE_FILES));
        self.finish(lease, Verb::Done, Some(shortened(note, Field::Note.max_bytes())))
    }

    /// False: that is not possible any more, and is left as it is.
    fn finish(&mut self, lease: &Lease, verb: Verb, message: Option<String>) -> Result<bool> {
        self.write.savepoint()?;
        match self.on_task(lease.task, &Act::Move { verb, message }, None) {
            Ok(_) => {
                self.write.release()?;
                Ok(true)
            }
            Err(Stop::Refused(_)) => {
                self.write.undo()?;
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }

    /// The tasks that a conversation ended when it went, as people say them.
    pub(super) fn render_all(&mut self, uids: Vec<Uid>) -> Result<Vec<crate::TaskView>> {
        let mut views = Vec::with_capacity(uids.len());
        for uid in uids {
            let task = self.locked(uid)?;
            views.push(self.renderer().task(&task)?);
        }
        Ok(views)
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Cut to what can be kept.
fn shortened(mut text: String, most_bytes: usize) -> String {
    const CUT: &str = "…";
    if text.len() > most_bytes {
        let end = (0..=most_bytes - CUT.len()).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push_str(CUT);
    }
    text
}

/// The first of some names, and how many more there are.
fn some_of<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
