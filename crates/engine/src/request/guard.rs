//! The guard: may this agent change these files now? It needs no ceremony: unreserved files join the agent's
//! latest task, and an agent without a task gets one, so that edits never collide: the task whose own
//! worktree it is working in, or an ad-hoc one.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::{ActorName, InstanceId, KnownInstance, PendingKind, PendingNotice};
use onus_core::command::{Act, ChangedFiles, Guard, NewTask, Presence, Terms};
use onus_core::decide::check_fence;
use onus_core::event::Body;
use onus_core::ids::Uid;
use onus_core::lease::{Lease, Liveness, Mode, Pulse, Seen};
use onus_core::policy::{ScopeMode, Unclaimed};
use onus_core::quote::is_hidden;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::{Basis, Glob, Reservation, ReservationKind, Scope, Touched};
use onus_core::task::{Facts, State};
use onus_core::text::Field;
use onus_core::transition::Verb;
use onus_store::{EventQuery, Reach, StoreError, Wanted};

use super::{Effect, Outcome, Result, Stop, UnitOfWork};
use crate::notices::first_of;
use crate::view::Notice;

/// How many files a title names, and how many the note of finished ad-hoc work names.
const TITLE_FILES: usize = 3;
const NOTE_FILES: usize = 200;

impl UnitOfWork<'_> {
    pub(super) fn guard(&mut self, guard: &Guard) -> Result<Outcome> {
        self.caller.whole.clone_from(&guard.whole);
        let outcome = self.guarded(guard)?;
        if let Some(part) = &guard.touched.part {
            self.mark_running(part)?;
        }
        Ok(outcome)
    }

    /// Records that a sub-agent of the caller is working on files of its own. One that holds a lease gives
    /// signs of life itself.
    fn mark_running(&mut self, part: &InstanceId) -> Result<()> {
        let known = self.write.instance(&self.caller.actor, part)?;
        if known.as_ref().is_some_and(KnownInstance::is_live) {
            return Ok(());
        }
        let (actor, now_ms) = (self.caller.actor.clone(), self.now.wall_ms);
        let known = known.unwrap_or_else(|| KnownInstance::seen(actor, part.clone(), now_ms));
        Ok(self.write.put_instance(&KnownInstance { ended_at_ms: None, ..known })?)
    }

    /// Ends the sub-agents of a conversation that still ran, as far as anybody knows.
    pub(super) fn end_parts(&mut self, actor: &ActorName, whole: &InstanceId) -> Result<()> {
        for part in self.write.running_parts(actor, whole)? {
            self.write.put_instance(&KnownInstance { ended_at_ms: Some(self.now.wall_ms), ..part })?;
        }
        Ok(())
    }

    fn guarded(&mut self, guard: &Guard) -> Result<Outcome> {
        self.check_no_loss()?;
        self.check_token()?;
        self.check_worktree(guard)?;
        let held = self.tasks_held()?;
        if self.policy.unclaimed == Unclaimed::Adopt
            && let Some(outcome) = self.continue_here(guard)?
        {
            return Ok(outcome);
        }
        if let Some(lease) = self.lease_for(&held, guard)? {
            match self.try_part(|work| work.on_task(lease.task, &touch_of(guard), None))? {
                Ok(outcome) => {
                    self.forget_fulfilled_wish(&guard.paths);
                    return Ok(Outcome {
                        effect: Effect::Guarded { adopted: false, is_shown: !guard.is_brief },
                        ..outcome
                    });
                }
                Err(refusal) => {
                    if !self.is_left_behind(lease)? {
                        return match self.has_outlived_its_process(lease) {
                            true => self.resume(lease, guard),
                            false => Err(refusal.into()),
                        };
                    }
                    // The next task needs a number, and numbers are locked before tasks.
                    self.write.lock_project()?;
                    self.finish_ad_hoc(lease)?;
                }
            }
        }
        match self.policy.unclaimed {
            Unclaimed::Adopt => self.adopt(guard),
            Unclaimed::Warn => {
                // Adopt the files to find out whether they collide, then undo it.
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

    /// The lease that the files join: in a task's own worktree, that task's; otherwise the latest, unless
    /// another of the leases declares all of the files. A sub-agent is recorded with the files, so that its
    /// siblings know.
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

    /// Refuses a caller that lost a task since it was last seen here: it must learn that before it writes on.
    fn check_no_loss(&mut self) -> Result<()> {
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

    /// Refuses to change files in the worktree of a task that another is working on.
    fn check_worktree(&mut self, guard: &Guard) -> Result<()> {
        if self.policy.scope_mode != ScopeMode::Strict {
            return Ok(());
        }
        let (actor, whole) =
            (self.caller.actor.clone(), guard.whole.as_ref().unwrap_or(&self.caller.instance));
        let (whole, here) = (whole.clone(), guard.touched.worktree.as_ref());
        match self.snapshot().worktree_of_another((&actor, &whole), here)? {
            Some(refusal) => Err(refusal.into()),
            None => Ok(()),
        }
    }

    /// Refuses a token presented for a task unless it is current, whatever else its holder has.
    fn check_token(&mut self) -> Result<()> {
        let Some((Some(reference), token)) = self.request.identity.token.clone() else { return Ok(()) };
        let task = match self.resolve(&reference) {
            Ok(uid) => self.locked(uid)?,
            Err(Stop::Refused(_)) => return Ok(()),
            Err(stop) => return Err(stop),
        };
        let lease = self.write.lease(task.uid, token)?.filter(|lease| lease.actor == self.caller.actor);
        if lease.is_some_and(|lease| !lease.was_superseded(task.token, task.fenced_token)) {
            // A holder that finished by itself lost nothing.
            return Ok(());
        }
        self.caller.token = Some(token);
        let evidence = self.evidence(&task, None)?;
        Ok(check_fence(&self.view(&task, &evidence))?)
    }

    /// Whether this is ad-hoc work whose lease lapsed and cannot be renewed: it was held too long, its
    /// process is gone and the conversation continues in another, or somebody has one of its files now. Then
    /// it is finished, and new work is begun.
    fn is_left_behind(&mut self, lease: &Lease) -> Result<bool> {
        let is_live = lease.liveness(&self.now, self.seen(Some(lease))) == Liveness::Live;
        Ok(!is_live && self.write.task(lease.task)?.is_some_and(|task| task.facts.ad_hoc))
    }

    /// Whether the conversation continues in another process than the lease was bound to.
    fn has_outlived_its_process(&self, lease: &Lease) -> bool {
        let seen = self.seen(Some(lease));
        let is_live = lease.liveness(&self.now, seen) == Liveness::Live;
        !is_live && matches!(seen, Seen::Dead | Seen::EarlierBoot { .. })
    }

    /// Continues a planned task in the conversation's new process, if everything that it reserved passes the
    /// whole check of a claim. The lease is a new one: whatever the dead process left running has the old
    /// token, and is fenced.
    fn resume(&mut self, lease: &Lease, guard: &Guard) -> Result<Outcome> {
        let mut terms =
            Terms { ttl_ms: lease.grant.ttl_ms, shared: lease.grant.mode == Mode::Shared, ..bound_to(guard) };
        // Declare again what was declared, and touch each file where it was touched.
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
        self.forget_fulfilled_wish(&guard.paths);
        let id = self.snapshot().id_of(lease.task)?;
        let message = format!("you continue {id}: the process that held it for you is gone");
        outcome.notices.push(Notice::info(message).next(Step::show(&id)));
        Ok(Outcome { effect: Effect::Guarded { adopted: false, is_shown: !guard.is_brief }, ..outcome })
    }

    /// Claims the task in whose own worktree the files are, if it is open to the caller: what is done there is
    /// that task's work, under its constraints.
    fn continue_here(&mut self, guard: &Guard) -> Result<Option<Outcome>> {
        let task = self.snapshot().task_of_branch(guard.branch.as_deref())?;
        let Some(task) = task.filter(|task| task.state == State::Open).map(|task| task.uid) else {
            return Ok(None);
        };
        // If the claim is refused, a task is added, which needs a number, and numbers are locked before tasks.
        self.write.lock_project()?;
        let claim = Act::Claim(bound_to(guard));
        let Ok(claimed) = self.try_part(|work| work.on_task(task, &claim, None))? else { return Ok(None) };
        let mut outcome = self.on_task(task, &touch_of(guard), None)?;
        self.forget_fulfilled_wish(&guard.paths);
        let id = self.snapshot().id_of(task)?;
        let message = format!("you hold {id} now: you are working in its worktree");
        outcome.notices.push(Notice::info(message).next(Step::show(&id)));
        outcome.notices.extend(claimed.notices);
        let effect = Effect::Guarded { adopted: false, is_shown: !guard.is_brief };
        Ok(Some(Outcome { effect, token: claimed.token, ..outcome }))
    }

    fn adopt(&mut self, guard: &Guard) -> Result<Outcome> {
        let scope = asked(guard)?;
        let title = format!("ad hoc: {}", one_line(&first_of(&guard.paths, TITLE_FILES)));
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
        self.forget_fulfilled_wish(&guard.paths);
        Ok(Outcome { effect: Effect::Guarded { adopted: true, is_shown: true }, ..outcome })
    }

    /// Forgets what the caller wanted and was refused, if it has it now.
    fn forget_fulfilled_wish(&mut self, paths: &[String]) {
        let has_it = |wants: &Wanted| wants.path.as_ref().is_some_and(|path| paths.contains(path));
        if self.before.wants.as_ref().is_some_and(has_it) {
            self.before.wants = None;
        }
    }

    /// Marks files that a tool has changed, in every lease of the conversation and its sub-agents: which of
    /// them touched a file makes no difference to whether it was changed.
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
            self.act_as(&lease.instance);
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
            // Only the sub-agent that holds a lease ends it.
            self.act_as(&lease.instance);
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
        // After everything that needs a task's row: resting locks what is reserved.
        for lease in &resting {
            self.act_as(&lease.instance);
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

    /// Acts as the caller or as a sub-agent of it. Turns are the whole conversation's: sub-agents are
    /// measured by their signs of life.
    pub(super) fn act_as(&mut self, instance: &InstanceId) {
        self.caller.in_turn = self.before.in_turn && *instance == self.request.identity.instance;
        self.caller.instance = instance.clone();
    }

    /// The leases of the caller's sub-agents. Not every harness reports when one of them stops: they rest and
    /// end with the whole conversation, and one that continues in the background shows it by its next action.
    fn leases_of_parts(&mut self) -> Result<Vec<Lease>> {
        let parts = format!("{}/", self.caller.instance);
        let mut leases = self.write.unended_leases()?;
        leases
            .retain(|lease| lease.actor == self.caller.actor && lease.instance.as_str().starts_with(&parts));
        Ok(leases)
    }

    /// From now on the lease is not worked on and its TTL counts, until its holder continues.
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

    /// Ends ad-hoc work: as done, or as dropped if its tools reported no change. False: it is not ad-hoc
    /// work, or cannot be ended any more.
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
            false => format!("{what}: {}", first_of(&files, NOTE_FILES)),
            true => "no change was reported".to_owned(),
        };
        self.finish(lease, verb, Some(shortened(note, Field::Note.max_bytes())))
    }

    /// The files that were changed under a lease, according to the ledger: a file that the lease no longer
    /// reserves was still changed.
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

    /// Runs a part of the request. If it is refused, only this part is undone.
    pub(super) fn try_part<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<std::result::Result<T, Refusal>> {
        let first = self.first;
        self.write.savepoint()?;
        match part(self) {
            Ok(done) => {
                self.write.release()?;
                Ok(Ok(done))
            }
            Err(Stop::Refused(refusal)) => {
                self.undo_part()?;
                self.first = first;
                Ok(Err(refusal))
            }
            Err(stop) => Err(stop),
        }
    }

    fn undo_part(&mut self) -> Result<()> {
        self.rows.forget();
        Ok(self.write.undo()?)
    }

    /// False: that is no longer possible, and nothing was changed.
    fn finish(&mut self, lease: &Lease, verb: Verb, message: Option<String>) -> Result<bool> {
        let act = Act::moved(verb, message);
        Ok(self.try_part(|work| work.on_task(lease.task, &act, None))?.is_ok())
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

/// The files join a task.
fn touch_of(guard: &Guard) -> Act {
    let (paths, touched) = (guard.paths.clone(), guard.touched.clone());
    Act::Touch { paths, touched, extent: guard.extent.clone() }
}

/// The terms of a lease that lasts as long as the agent's process, in the agent's worktree.
fn bound_to(guard: &Guard) -> Terms {
    Terms {
        process: guard.process.clone(),
        worktree: guard.worktree.clone(),
        worktree_id: guard.touched.worktree.clone(),
        branch: guard.branch.clone(),
        ..Terms::default()
    }
}

/// Files by their own names; globs that are not files as they are.
fn files_of(scope: &Scope) -> impl Iterator<Item = String> {
    scope.globs().iter().map(|glob| glob.path().unwrap_or(glob.as_str()).to_owned())
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

/// Truncates a text to what can be stored.
fn shortened(mut text: String, most_bytes: usize) -> String {
    const CUT: &str = "…";
    if text.len() > most_bytes {
        let end = (0..=most_bytes - CUT.len()).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push_str(CUT);
    }
    text
}
