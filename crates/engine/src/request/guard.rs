//! The guard: may this agent change these files now? It needs no ceremony: unreserved files join the agent's
//! latest task, and an agent without a task gets one, so that edits never collide.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::{ActorName, InstanceId, KnownInstance, PendingKind, PendingNotice};
use onus_core::command::{Act, ChangedFiles, Guard, NewTask, Presence, Terms};
use onus_core::decide::check_fence;
use onus_core::event::Body;
use onus_core::ids::Uid;
use onus_core::lease::{Lease, Liveness, Mode, Pulse, Seen};
use onus_core::policy::Unclaimed;
use onus_core::quote::is_hidden;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::{Basis, Glob, Reservation, ReservationKind, Scope, Touched};
use onus_core::task::Facts;
use onus_core::text::Field;
use onus_core::transition::Verb;
use onus_store::{EventQuery, Reach, Seats, StoreError, Wanted};

use super::{Effect, Outcome, Result, Stop, UnitOfWork};
use crate::view::Notice;

/// How many files a title names, and how many the note of finished ad-hoc work does.
const TITLE_FILES: usize = 3;
const NOTE_FILES: usize = 200;

impl UnitOfWork<'_> {
    pub(super) fn guard(&mut self, guard: &Guard) -> Result<Outcome> {
        self.caller.whole.clone_from(&guard.whole);
        let outcome = self.guarded(guard)?;
        if let Some(part) = &guard.touched.part {
            self.is_running(part)?;
        }
        Ok(outcome)
    }

    /// A part of the caller is on files of its own from now. A part that holds a lease shows signs of life itself.
    fn is_running(&mut self, part: &InstanceId) -> Result<()> {
        let known = self.write.instance(&self.caller.actor, part)?;
        if known.as_ref().is_some_and(KnownInstance::is_live) {
            return Ok(());
        }
        let (actor, now_ms) = (self.caller.actor.clone(), self.now.wall_ms);
        let known = known.unwrap_or_else(|| KnownInstance::seen(actor, part.clone(), now_ms));
        Ok(self.write.put_instance(&KnownInstance { ended_at_ms: None, ..known })?)
    }

    /// Whatever parts of a conversation still ran have ended, as far as anybody knows.
    pub(super) fn end_parts(&mut self, actor: &ActorName, whole: &InstanceId) -> Result<()> {
        for part in self.write.running_parts(actor, whole)? {
            self.write.put_instance(&KnownInstance { ended_at_ms: Some(self.now.wall_ms), ..part })?;
        }
        Ok(())
    }

    fn guarded(&mut self, guard: &Guard) -> Result<Outcome> {
        self.heed_loss()?;
        self.heed_token()?;
        let held = self.tasks_held()?;
        if let Some(lease) = self.lease_for(&held, guard)? {
            let first = self.first;
            self.write.savepoint()?;
            let touch = Act::Touch {
                paths: guard.paths.clone(),
                touched: guard.touched.clone(),
                extent: guard.extent.clone(),
            };
            match self.on_task(lease.task, &touch, None) {
                Ok(outcome) => {
                    self.write.release()?;
                    self.got(&guard.paths);
                    return Ok(Outcome {
                        effect: Effect::Guarded { adopted: false, is_shown: !guard.is_brief },
                        ..outcome
                    });
                }
                Err(Stop::Refused(refusal)) => {
                    self.undo_part()?;
                    self.first = first;
                    if !self.is_left_behind(lease)? {
                        return match self.has_outlived_its_process(lease) {
                            true => self.resume(lease, guard),
                            false => Err(refusal.into()),
                        };
                    }
                    // The task that follows needs a number, and numbers are locked before tasks.
                    self.write.next_number()?;
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
                self.undo_part()?;
                self.first = None;
                match collision {
                    Some(stop) => Err(stop),
                    None => {
                        let mut outcome = Outcome::of(Effect::Guarded { adopted: false, is_shown: false });
                        let message = "you are changing files without a task".to_owned();
                        outcome.notices.push(Notice::info(message).next(Step::ClaimNext).next(Step::AddTask));
                        Ok(outcome)
                    }
                }
            }
            Unclaimed::Refuse => Err(Refusal::new(
                Code::NotAllowed,
                format!(
                    "{} holds no task, and this project requires one for changing files",
                    self.caller.actor
                ),
            )
            .next(Step::ClaimNext)
            .next(Step::AddTask)
            .into()),
        }
    }

    /// The lease that the files join: in a task's own worktree that task's, else the latest, but what one of them declares is
    /// nobody else's. A part is recorded there, so that its siblings know.
    fn lease_for<'l>(&mut self, held: &'l [Lease], guard: &Guard) -> Result<Option<&'l Lease>> {
        if held.len() < 2 {
            return Ok(held.last());
        }
        if let Some(own) = self.snapshot().of_own_worktree(held, guard.touched.worktree.as_ref())? {
            return Ok(Some(own));
        }
        let near = self.write.scopes_near(&asked(guard)?)?;
        let declares = |lease: &Lease, path: &str| {
            near.iter().any(|(task, token, row)| {
                let is_declared = row.basis.kind() == ReservationKind::Declared;
                (*task, *token) == (lease.task, lease.token) && is_declared && row.glob.matches(path)
            })
        };
        let has_all = |lease: &&Lease| guard.paths.iter().all(|path| declares(lease, path));
        let declared = held.iter().rev().filter(|lease| self.is_live(lease, None)).find(has_all);
        Ok(declared.or(held.last()))
    }

    /// Whoever lost a task since it was last seen here learns that before it writes on.
    fn heed_loss(&mut self) -> Result<()> {
        let (actor, instance) = (self.caller.actor.clone(), self.caller.instance.clone());
        let mut lost = self.write.leases_lost_by(&actor, &instance)?;
        // Files belong to tasks: a lost seat is news, and keeps nobody from writing.
        lost.retain(Lease::is_of_a_task);
        let news = self.snapshot().losses((&actor, &instance), &lost)?;
        match news.notices.into_iter().next() {
            Some(notice) => {
                let mut refusal = Refusal::new(Code::Fenced, notice.message);
                refusal.task = notice.task.clone();
                if let Some(id) = notice.task {
                    refusal = refusal.next(Step::Log(id));
                }
                Err(refusal.next(Step::TakeAnother).into())
            }
            None => Ok(()),
        }
    }

    /// A token that is presented for a task must be current, whatever else its holder has.
    fn heed_token(&mut self) -> Result<()> {
        let Some((Some(reference), token)) = self.request.identity.token.clone() else { return Ok(()) };
        let task = match self.resolve(&reference) {
            Ok(uid) => self.locked(uid)?,
            Err(Stop::Refused(_)) => return Ok(()),
            Err(stop) => return Err(stop),
        };
        let lease = self.write.lease(task.uid, token)?.filter(|lease| lease.actor == self.caller.actor);
        if lease.is_some_and(|lease| !lease.was_superseded(task.token, task.fenced_token)) {
            // Whoever has finished by itself lost nothing.
            return Ok(());
        }
        self.caller.token = Some(token);
        let evidence = self.evidence(&task, None)?;
        Ok(check_fence(&self.view(&task, &evidence))?)
    }

    /// Ad-hoc work whose lease lapsed and cannot be renewed (held too long, its process is gone and the conversation goes on
    /// in another, or somebody has one of its files now) is finished, and a new one begun.
    fn is_left_behind(&mut self, lease: &Lease) -> Result<bool> {
        let is_live = lease.liveness(&self.now, self.seen(Some(lease))) == Liveness::Live;
        Ok(!is_live && self.write.task(lease.task)?.is_some_and(|task| task.facts.ad_hoc))
    }

    /// Whether the conversation goes on in another process than the lease was bound to.
    fn has_outlived_its_process(&self, lease: &Lease) -> bool {
        let seen = self.seen(Some(lease));
        let is_live = lease.liveness(&self.now, seen) == Liveness::Live;
        !is_live && matches!(seen, Seen::Dead | Seen::EarlierBoot { .. })
    }

    /// A planned task goes on where its conversation does, if claim's whole check passes for all that it reserved. The lease is a
    /// new one: whatever the dead process left running has the old token, and is fenced.
    fn resume(&mut self, lease: &Lease, guard: &Guard) -> Result<Outcome> {
        let mut terms =
            Terms { ttl_ms: lease.grant.ttl_ms, shared: lease.grant.mode == Mode::Shared, ..bound_to(guard) };
        // What was declared is declared again, and each file touched where it was touched.
        let mut touched: BTreeMap<Touched, Vec<String>> = BTreeMap::new();
        for Reservation { glob, basis, .. } in self.write.scope_of(lease.task, lease.token)? {
            match basis {
                Basis::Declared { area } => {
                    area.into_iter().for_each(|area| terms.scope_areas.insert(area, [glob.clone()]));
                    terms.scope.insert(glob);
                }
                Basis::Touched(place) => {
                    touched.entry(place).or_default().extend(glob.path().map(str::to_owned));
                }
            }
        }
        touched.entry(guard.touched.clone()).or_default().extend(guard.paths.iter().cloned());
        let mut outcome = self.on_task(lease.task, &Act::Claim(terms), None)?;
        for (touched, paths) in touched {
            let again =
                self.on_task(lease.task, &Act::Touch { paths, touched, extent: guard.extent.clone() }, None)?;
            outcome.notices.extend(again.notices);
        }
        self.got(&guard.paths);
        let id = self.snapshot().id_of(lease.task)?;
        let message = format!("you continue {id}: the process that held it for you is gone");
        outcome.notices.push(Notice::info(message).next(Step::show(&id)));
        Ok(Outcome { effect: Effect::Guarded { adopted: false, is_shown: !guard.is_brief }, ..outcome })
    }

    fn adopt(&mut self, guard: &Guard) -> Result<Outcome> {
        let scope = asked(guard)?;
        let title = format!("ad hoc: {}", one_line(&some_of(&guard.paths, TITLE_FILES)));
        let facts = Facts { ad_hoc: true, ..Facts::default() };
        let new = NewTask { facts, ..NewTask::titled(shortened(title, Field::Title.max_bytes())) };
        let uid = self.add(&new)?.task.ok_or_else(|| Refusal::new(Code::Unexpected, "no task was added"))?;
        let terms = Terms { scope, touched: Some(guard.touched.clone()), ..bound_to(guard) };
        let outcome = self.on_task(uid, &Act::Claim(terms), None)?;
        if let Some(token) = outcome.token.filter(|_| !guard.is_heard) {
            self.write.put_notice(&PendingNotice {
                actor: self.caller.actor.clone(),
                instance: self.caller.instance.clone(),
                task: uid,
                token,
                kind: PendingKind::Opened,
                path: guard.paths.first().cloned().unwrap_or_default(),
                by: None,
                by_task: None,
                worktree: None,
                branch: None,
                at_ms: self.now.wall_ms,
            })?;
        }
        self.got(&guard.paths);
        Ok(Outcome { effect: Effect::Guarded { adopted: true, is_shown: true }, ..outcome })
    }

    /// What it wanted and was refused, it has now.
    fn got(&mut self, paths: &[String]) {
        let has_it = |wants: &Wanted| wants.path.as_ref().is_some_and(|path| paths.contains(path));
        if self.before.wants.as_ref().is_some_and(has_it) {
            self.before.wants = None;
        }
    }

    /// Files that a tool has changed are marked in whatever the conversation or a part of it holds: by which of them a file was
    /// touched makes no difference to whether it was changed.
    pub(super) fn changed(&mut self, changed: &ChangedFiles) -> Result<Outcome> {
        let files: Scope = changed.paths.iter().filter_map(|path| Glob::literal(path).ok()).collect();
        let whole = self.caller.instance.clone();
        let mut held = BTreeMap::new();
        for (task, token, row) in self.write.scopes_near(&files)? {
            let is_news = row.is_touched_in(changed.worktree.as_ref()) && !row.is_changed;
            if is_news && files.has(&row.glob) && !held.contains_key(&task) {
                held.extend(self.write.lease(task, token)?.map(|lease| (task, lease)));
            }
        }
        held.retain(|_, lease| lease.actor == self.caller.actor && whole.is_one_with(&lease.instance));
        self.write.lock_tasks(&held.keys().copied().collect::<Vec<_>>(), Reach::Rows)?;
        for (task, lease) in held {
            self.speak_for(&lease.instance);
            self.on_task(task, &Act::Change(changed.clone()), None)?;
        }
        self.caller.instance = whole;
        self.caller.in_turn = self.before.in_turn;
        Ok(Outcome::of(Effect::Present(Vec::new())))
    }

    pub(super) fn presence(&mut self, presence: Presence) -> Result<Outcome> {
        let mut ended = Vec::new();
        let whole = self.caller.instance.clone();
        let mut held = self.write.leases_held_by(&self.caller.actor, &whole)?;
        if matches!(presence, Presence::TurnOver | Presence::Gone) {
            held.extend(self.leases_of_parts()?);
            let actor = self.caller.actor.clone();
            self.end_parts(&actor, &whole)?;
        }
        let mut resting = Vec::new();
        if presence == Presence::Gone {
            let tasks = held.iter().filter(|lease| lease.is_of_a_task());
            let tasks: Vec<Uid> = tasks.map(|lease| lease.task).collect();
            self.write.lock_tasks(&tasks, Reach::Neighbours)?;
        }
        for lease in held {
            // What a part of the conversation holds, only that part ends.
            self.speak_for(&lease.instance);
            match presence {
                Presence::Here | Presence::TurnBegun | Presence::Asks | Presence::ToolOver { .. } => {}
                Presence::TurnOver => resting.push(lease),
                Presence::Gone if lease.grant.reserve => {
                    if self.finish(&lease, Verb::Release, None)? {
                        ended.push(lease.task);
                    }
                }
                Presence::Gone => {
                    if self.finish_ad_hoc(&lease)? {
                        ended.push(lease.task);
                    } else {
                        resting.push(lease);
                    }
                }
            }
        }
        // After all that needs the row of a task: what rests locks what is reserved.
        for lease in &resting {
            self.speak_for(&lease.instance);
            self.rest(lease)?;
        }
        self.caller.instance = whole;
        self.before.in_turn = match presence {
            Presence::Here | Presence::Asks | Presence::ToolOver { .. } => self.before.in_turn,
            Presence::TurnBegun => true,
            Presence::TurnOver | Presence::Gone => false,
        };
        self.caller.in_turn = self.before.in_turn;
        Ok(Outcome::of(Effect::Present(ended)))
    }

    /// The caller, or a part of it. Turns are the whole conversation's: its parts are measured by their signs of life.
    pub(super) fn speak_for(&mut self, instance: &InstanceId) {
        self.caller.in_turn = self.before.in_turn && *instance == self.request.identity.instance;
        self.caller.instance = instance.clone();
    }

    /// What the caller's sub-agents hold. Not every harness tells when one of them stops: they rest and end with the whole, and
    /// one that works on in the background shows it by its next action.
    fn leases_of_parts(&mut self) -> Result<Vec<Lease>> {
        let parts = format!("{}/", self.caller.instance);
        let mut leases: Vec<Lease> =
            self.write.open_leases(u64::from(u32::MAX))?.into_iter().map(|(_, lease)| lease).collect();
        for seat in self.write.seats(Seats::Leased, u64::from(u32::MAX))? {
            leases.extend(self.write.lease(seat.uid, seat.token)?);
        }
        leases
            .retain(|lease| lease.actor == self.caller.actor && lease.instance.as_str().starts_with(&parts));
        Ok(leases)
    }

    /// From now on the lease is not worked on and its TTL counts, until its holder goes on.
    fn rest(&mut self, lease: &Lease) -> Result<()> {
        let now = self.lock_deadlines()?;
        let Some(lease) = self.write.lock_leases(&[(lease.task, lease.token)])?.pop() else {
            return Ok(());
        };
        let live = self.is_live(&lease, now.as_ref());
        let now = now.unwrap_or_else(|| self.now.clone());
        let deadline = lease.resting_deadline(&now).filter(|_| !lease.pulse.resting);
        if !live || deadline.is_none() && lease.pulse.work.open.is_none() {
            return Ok(());
        }
        let pulse = Pulse {
            progress: lease.pulse.progress.clone(),
            renewals: lease.pulse.renewals + 1,
            resting: lease.pulse.resting || deadline.is_some(),
            deadline: deadline.or(lease.pulse.deadline.clone()),
            work: lease.work_after(self.sign(&now)).closed(),
            last: now,
        };
        self.set_pulses(vec![(lease.task, lease.token, pulse)])
    }

    /// True: it was ad-hoc work, and it has ended: done, or dropped if nothing came of it as far as its tools reported.
    fn finish_ad_hoc(&mut self, lease: &Lease) -> Result<bool> {
        if !self.write.task(lease.task)?.is_some_and(|task| task.facts.ad_hoc) {
            return Ok(false);
        }
        let changed = self.changed_under(lease)?;
        let (verb, what, files) = match changed.is_empty() {
            false => (Verb::Done, "changed without a task", changed),
            true => {
                let touched = self.write.scope_of(lease.task, lease.token)?.scope();
                (Verb::Drop, "no change was reported; only touched", files_of(&touched).collect())
            }
        };
        let files: Vec<String> = files.into_iter().collect();
        let note = match files.is_empty() {
            false => format!("{what}: {}", some_of(&files, NOTE_FILES)),
            true => "no change was reported".to_owned(),
        };
        self.finish(lease, verb, Some(shortened(note, Field::Note.max_bytes())))
    }

    /// The files that were changed under a lease, as the ledger has it: what the lease no longer reserves was changed all the same.
    fn changed_under(&mut self, lease: &Lease) -> Result<BTreeSet<String>> {
        let query = EventQuery {
            stream: Some(lease.task),
            newest: true,
            limit: u64::from(u16::MAX),
            ..EventQuery::default()
        };
        let mut files = BTreeSet::new();
        for record in self.write.events(&query)? {
            let event = record.to_event().map_err(|error| StoreError::Damaged(error.to_string()))?;
            if let (Body::ScopeChanged { scope, .. }, Some(token)) = (&event.body, event.token)
                && token == lease.token
            {
                files.extend(files_of(scope));
            }
        }
        Ok(files)
    }

    pub(super) fn undo_part(&mut self) -> Result<()> {
        self.rows.forget();
        Ok(self.write.undo()?)
    }

    /// False: that is not possible any more, and is left as it is.
    fn finish(&mut self, lease: &Lease, verb: Verb, message: Option<String>) -> Result<bool> {
        self.write.savepoint()?;
        match self.on_task(lease.task, &Act::Move { verb, message, uncommitted: None, demand: None }, None) {
            Ok(_) => {
                self.write.release()?;
                Ok(true)
            }
            Err(Stop::Refused(_)) => {
                self.undo_part()?;
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }
}

/// The files that a guard is asked about.
fn asked(guard: &Guard) -> std::result::Result<Scope, Refusal> {
    guard
        .paths
        .iter()
        .map(|path| Glob::literal(path))
        .collect::<std::result::Result<_, _>>()
        .map_err(Refusal::from)
}

/// The terms of a lease that lasts as long as the agent's process, where the agent works.
fn bound_to(guard: &Guard) -> Terms {
    Terms {
        process: guard.process.clone(),
        worktree: guard.worktree.clone(),
        worktree_id: guard.touched.worktree.clone(),
        branch: guard.branch.clone(),
        ..Terms::default()
    }
}

/// Files by their own names, where a glob is one.
fn files_of(scope: &Scope) -> impl Iterator<Item = String> {
    scope.globs().iter().map(|glob| glob.path().unwrap_or(glob.as_str()).to_owned())
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
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
