//! One round: some tasks, one result, one step of the target.

use onus_core::command::{Act, Command};
use onus_core::commit::{CommitId, Extent, Uncommitted};
use onus_core::decide;
use onus_core::gate::{Demand, GateKey};
use onus_core::ids::TaskRef;
use onus_core::landing::{Checked, Intent, LandStyle};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::State;
use onus_engine::Request;
use onus_repo::landing::{Fetched, Plan, Planned, Push, Style, Tip, Tips};

use super::checks::{Asked, GateOutcome, GateRun};
use super::failing::for_another;
use super::report::{LandedTask, Refused, Report};
use super::settle::REMOTE_LIMIT;
use super::words::words;
use super::{Candidate, Landings, Seated, refused};
use crate::committing::MOST_NAMED;
use crate::config::SHARED_FILE;

/// How often a round is built again because something moved meanwhile.
const TRIES: usize = 20;

/// A branch, merged on top of the one before it.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) candidate: Candidate,
    pub(super) commit: CommitId,
    pub(super) demand: Demand,
    pub(super) extent: Extent,
    pub(super) resolved_lines: u64,
    pub(super) gates: Vec<GateKey>,
    pub(super) plan: Plan,
}

/// The outcome of one try.
enum Tried {
    Done,
    /// Something moved: try these again.
    Again(Vec<Candidate>),
    /// Gates failed on the result of all: try these in two parts.
    Split(Vec<Candidate>),
}

/// How far a round goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Landed,
    /// Nothing is moved, and only the results of gates are recorded.
    Checked,
}

impl Landings<'_> {
    /// Lands tasks in as few steps as their gates and conflicts allow.
    pub fn land_all(
        &mut self,
        seated: &Seated,
        candidates: Vec<Candidate>,
        until: Until,
        run: &mut GateRun<'_>,
    ) -> Result<Report, Refusal> {
        let mut report = Report::default();
        let all: Vec<String> = candidates.iter().map(|it| it.id().to_owned()).collect();
        let landable = self.landable(Some(seated), candidates, &mut report);
        match self.land_batches(seated, landable, until, run, &mut report) {
            // What landed before the error is reported all the same.
            Err(refusal) if !report.landed.is_empty() => report.stopped(&all, refusal),
            outcome => outcome?,
        }
        if until == Until::Landed && self.remote().is_none() {
            match self.lander.bring_forward(&self.target).map_err(refused) {
                Ok(checkouts) => report.checkouts = checkouts,
                Err(refusal) => report.refuse(vec![refusal]),
            }
        }
        self.say_how(&mut report);
        Ok(report)
    }

    fn land_batches(
        &mut self,
        seated: &Seated,
        landable: Vec<Candidate>,
        until: Until,
        run: &mut GateRun<'_>,
        report: &mut Report,
    ) -> Result<(), Refusal> {
        let mut left = vec![landable];
        while let Some(mut batch) = left.pop() {
            let mut tries = 0;
            while !batch.is_empty() && report.red.is_none() {
                let size = batch.len();
                match self.round(seated, report, std::mem::take(&mut batch), until, run)? {
                    Tried::Done => {}
                    Tried::Again(rest) if rest.len() < size || tries < TRIES => {
                        // Counted from the last progress, since a long queue may take many rounds.
                        tries = if rest.len() < size { 0 } else { tries + 1 };
                        batch = self.as_they_are_now(rest, report)?;
                    }
                    Tried::Again(rest) => {
                        let busy = "its target or its branch moved again and again";
                        report.refuse_each(rest.iter().map(|candidate| {
                            let id = candidate.id();
                            let refusal = Refusal::new(Code::Busy, format!("{id}: {busy}"));
                            (id.to_owned(), refusal.task(id).next(Step::Land(id.to_owned())))
                        }));
                    }
                    Tried::Split(mut first) => {
                        let second = first.split_off(first.len().div_ceil(2));
                        left.push(second);
                        batch = first;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the step that resolves conflicts. Done last, since only then is the name known by which what landed can be merged.
    pub(super) fn say_how(&self, report: &mut Report) {
        let name = self.merge_name();
        let conflicts = report.refused.iter_mut().filter(|refused| refused.refusal.code == Code::Conflict);
        for Refused { id, refusal, kept_for, .. } in conflicts {
            let how = match kept_for {
                None => format!("in its worktree: git merge {name}, resolve, commit"),
                Some(actor) => for_another(actor, id, &format!("merges {name} there, resolves, commits")),
            };
            let claims = usize::from(matches!(refusal.next.first(), Some(Step::ClaimInWorktree(_))));
            refusal.next.insert(claims, Step::plain(how));
        }
    }

    /// Selects the tasks that only their gates may keep from landing, so that no gate is run for a task that cannot land anyway.
    pub(super) fn landable(
        &mut self,
        seated: Option<&Seated>,
        candidates: Vec<Candidate>,
        report: &mut Report,
    ) -> Vec<Candidate> {
        let mut landable = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let head = &candidate.head;
            let intent = self.intent(head, head, head.clone(), 0, Vec::new());
            let request = self.begun(seated, &candidate, (intent, Demand::default(), Extent::default()));
            match self.engine.rehearse(&request) {
                // Gates are checked later, including those that the task names and nobody defines.
                Ok(_) => landable.push(candidate),
                Err(refusal) if refusal.code == Code::Gate => landable.push(candidate),
                Err(refusal) => report.refuse_each([(candidate.id().to_owned(), refusal)]),
            }
        }
        landable
    }

    /// The request that begins to land a task as it was checked.
    pub(super) fn begun(
        &self,
        seated: Option<&Seated>,
        candidate: &Candidate,
        (intent, demand, extent): (Intent, Demand, Extent),
    ) -> Request {
        let task = &candidate.of.task;
        let checked = Checked { intent, demand, extent, token: task.token, state: task.state };
        let (task, force) = (Some(TaskRef::from(task.uid)), self.force.clone());
        let command = Command::OnTask { task, act: Act::Land(checked), force };
        let command = match seated {
            Some(seated) => seated.guard(command),
            None => command,
        };
        Request { identity: self.identity_for(candidate), command, key: None }
    }

    /// Why a task must not land with what it changes, as its holder or a person is told.
    fn constrained(&mut self, part: &Built) -> Option<Refusal> {
        let of = &part.candidate.of;
        let changed = part.demand.changed.as_deref().unwrap_or_default();
        let found =
            decide::check_landing(part.candidate.id(), &of.constraints, changed, &part.extent).err()?;
        let (head, commit) = (part.candidate.head.clone(), &part.commit);
        let intent = self.intent(commit, commit, head, part.resolved_lines, Vec::new());
        let request = self.begun(None, &part.candidate, (intent, part.demand.clone(), part.extent.clone()));
        // The decision itself knows whether it can be overridden.
        let decided = self.engine.rehearse(&request).err();
        Some(decided.filter(|decided| decided.code == Code::Constraint).unwrap_or(found))
    }

    pub(super) fn intent(
        &self,
        onto: &CommitId,
        commit: &CommitId,
        head: CommitId,
        resolved_lines: u64,
        gates: Vec<GateKey>,
    ) -> Intent {
        Intent {
            target: self.target.clone(),
            onto: onto.clone(),
            commit: commit.clone(),
            head,
            style: self.style,
            resolved_lines,
            gates,
            place: self.place(),
        }
    }

    /// Tries once: reports tasks that cannot land, and lands the rest together or not at all.
    fn round(
        &mut self,
        seated: &Seated,
        report: &mut Report,
        candidates: Vec<Candidate>,
        until: Until,
        run: &mut GateRun<'_>,
    ) -> Result<Tried, Refusal> {
        self.lander = self.lander.without_cache();
        let tip = self.tip()?;
        let asked = self.asked(&tip.commit)?;
        let (built, deferred) = self.build(&tip, &asked, candidates, until, report)?;
        let parts: Vec<Candidate> = built.iter().map(|part| part.candidate.clone()).collect();
        let checked = match self.force {
            Some(_) => GateOutcome::Passed,
            None => self.check(&tip.commit, &built, &mut report.ran, run)?,
        };
        match checked {
            GateOutcome::Passed => {}
            GateOutcome::Red(gate) => return Ok(self.red(gate, built, deferred, report)),
            GateOutcome::Failed(_) if parts.len() > 1 => {
                let all = parts.into_iter().chain(deferred).collect();
                return Ok(Tried::Split(all));
            }
            GateOutcome::Failed(gate) => {
                for part in &parts {
                    let refused = self.failed_gate(part, &tip.commit, &gate, until)?;
                    report.refused.push(refused);
                }
                return Ok(if deferred.is_empty() { Tried::Done } else { Tried::Again(deferred) });
            }
        }
        if until == Until::Checked {
            report.landed.extend(built.iter().map(Built::landed));
            return Ok(Tried::Done);
        }
        match self.commit_round(seated, &tip, built, report)? {
            None if deferred.is_empty() => Ok(Tried::Done),
            None => Ok(Tried::Again(deferred)),
            Some(rest) => Ok(Tried::Again(rest.into_iter().chain(deferred).collect())),
        }
    }

    /// Handles a gate that fails on the bare target: refuses the tasks that have to pass it; the others are tried again.
    fn red(&self, gate: GateKey, built: Vec<Built>, deferred: Vec<Candidate>, report: &mut Report) -> Tried {
        let is_asked = |part: &Built| part.gates.contains(&gate);
        let (concerned, others): (Vec<Built>, Vec<Built>) = built.into_iter().partition(is_asked);
        let rest: Vec<Candidate> = others.into_iter().map(|part| part.candidate).chain(deferred).collect();
        if rest.is_empty() {
            report.red = Some(gate);
            return Tried::Done;
        }
        report.refuse_each(concerned.iter().map(|part| {
            let id = part.candidate.id().to_owned();
            let message = format!("{id} waits: gate {gate} fails on {} alone", self.target);
            let refusal = Refusal::new(Code::Gate, message).task(&id).next(Step::Gates(id.clone()));
            (id, refusal)
        }));
        Tried::Again(rest)
    }

    /// Finds the target, here or at the remote.
    pub(super) fn tip(&self) -> Result<Tip, Refusal> {
        let Some(remote) = &self.settings.remote else {
            let here = self.lander.tips(&self.target).map_err(refused)?.branch;
            return self.lander.tip(&self.target, &self.asked(&here)?.union).map_err(refused)?.map_err(
                |conflicts| {
                    let files: Vec<String> = conflicts.iter().map(|conflict| conflict.path.clone()).collect();
                    let message = format!(
                        "what was committed to {} where it is checked out conflicts with what has landed: {}",
                        quote::name(&self.target),
                        quote::some_names(&files)
                    );
                    Refusal::new(Code::Conflict, message).next(Step::plain(format!(
                        "in the checkout of {}: git merge refs/onus/landed/{}",
                        self.target, self.target
                    )))
                },
            );
        };
        match self.lander.fetch_target(remote, &self.target, REMOTE_LIMIT).map_err(refused)? {
            Fetched::At(commit) => Ok(Tip {
                target: self.target.clone(),
                tips: Tips { branch: commit.clone(), landed: None },
                commit,
            }),
            Fetched::NoBranch => {
                let message = format!("{} has no branch {}", quote::name(remote), quote::name(&self.target));
                Err(Refusal::new(Code::NotFound, message))
            }
            Fetched::Unreachable(why) => Err(unreachable(remote, &why)),
        }
    }

    /// What is in no commit in the worktree of a branch that has no commit of its own: the task's work, which has not landed.
    fn left_uncommitted(&self, candidate: &Candidate) -> Option<Uncommitted> {
        let own = candidate.of.task.branch.as_ref().filter(|own| own.base == candidate.head.as_str())?;
        let all = self.lander.worktrees().list().ok()?;
        let place = all.iter().find(|linked| linked.branch.as_ref() == Some(&own.branch))?.place()?;
        let (files, count) = onus_repo::uncommitted(&place, MOST_NAMED).ok()?;
        (count > 0).then(|| Uncommitted { files, count, ..Uncommitted::default() })
    }

    /// Merges each branch on top of the one before. A conflict with the target itself is reported; a branch that conflicts with
    /// another one of the round is deferred until that has landed.
    pub(super) fn build(
        &mut self,
        tip: &Tip,
        asked: &Asked,
        candidates: Vec<Candidate>,
        until: Until,
        report: &mut Report,
    ) -> Result<(Vec<Built>, Vec<Candidate>), Refusal> {
        let (mut built, mut deferred): (Vec<Built>, Vec<Candidate>) = (Vec::new(), Vec::new());
        let (mut base, is_alone) = (tip.commit.clone(), candidates.len() == 1);
        let mut candidates = candidates.into_iter();
        while let Some(candidate) = candidates.next() {
            let waits = match self.force {
                Some(_) => None,
                None => self.waits_for(&candidate, &base, report)?,
            };
            if let Some(refused) = waits {
                report.refused.push(refused);
                continue;
            }
            let style = style(self.style);
            let planned = self.lander.plan(&base, &candidate.head, style, &asked.union).map_err(refused)?;
            let is_on_target = base == tip.commit;
            let is_there = match &planned {
                Planned::AlreadyThere => is_on_target,
                // Replayed commits may conflict with themselves if the target has them already.
                Planned::Conflicts(_) if is_on_target => {
                    self.lander.is_landed(&candidate.head, &tip.commit).map_err(refused)?
                }
                Planned::Conflicts(_) | Planned::Ready(_) => false,
            };
            if is_there {
                if let Some(left) = self.left_uncommitted(&candidate) {
                    let refusal = decide::uncommitted(candidate.id(), &left);
                    report.refuse_each([(candidate.id().to_owned(), refusal)]);
                    continue;
                }
                if until == Until::Landed && candidate.is_done() {
                    self.found(&candidate, &self.target.clone(), &tip.commit)?;
                }
                report.found.push((candidate.id().to_owned(), tip.commit.clone()));
                continue;
            }
            let plan = match planned {
                Planned::Conflicts(conflicts) if is_on_target => {
                    report.refused.push(self.conflicts(&candidate, &tip.commit, &conflicts, until)?);
                    continue;
                }
                Planned::AlreadyThere | Planned::Conflicts(_) => {
                    deferred.push(candidate);
                    continue;
                }
                Planned::Ready(plan) => plan,
            };
            // Whether another branch comes on top of this one is only known at the end.
            let part = self.part(tip, &base, asked, candidate, plan, is_alone)?;
            let changes_rules = part.demand.changed.iter().flatten().any(|file| file == SHARED_FILE);
            let lacks = match self.force {
                Some(_) => None,
                None => self.constrained(&part).or_else(|| self.lacks(&part.candidate, &part.demand)),
            };
            let lacks = lacks
                .or_else(|| changes_rules.then(|| self.unreadable(&part.candidate, &part.commit)).flatten());
            if let Some(refusal) = lacks {
                report.refuse_each([(part.candidate.id().to_owned(), refusal)]);
                continue;
            }
            base = part.commit.clone();
            built.push(part);
            // Its new rules apply to the tasks after it, so they wait for the next round.
            if changes_rules {
                deferred.extend(candidates);
                break;
            }
        }
        // Gates are run on the result of all, so only its commit names them.
        if let Some(last) = built.last_mut().filter(|last| !is_alone && !last.gates.is_empty()) {
            let said = words(&last.candidate, &last.gates);
            last.commit = self.lander.commit(&last.plan, &said).map_err(refused)?;
        }
        if let Some(last) = built.last() {
            let tree = self.lander.tree_of(&last.commit).map_err(refused)?;
            for part in &mut built {
                part.demand.tree = Some(tree.clone());
            }
        }
        Ok((built, deferred))
    }

    /// Refuses a task whose dependency has not landed: its branch may contain commits of that one, which its gates or conflicts keep
    /// out. `base`: the commit that it would land on.
    fn waits_for(
        &mut self,
        candidate: &Candidate,
        base: &CommitId,
        report: &Report,
    ) -> Result<Option<Refused>, Refusal> {
        for dependency in &candidate.of.view.deps {
            let is_refused = report.refused.iter().any(|refused| refused.id == *dependency);
            if !is_refused && !self.has_still_to_land(dependency, base)? {
                continue;
            }
            let id = candidate.id().to_owned();
            let (what, next) = match is_refused {
                true => ("which does not land", Step::why(dependency)),
                false => ("which has not landed", Step::Land(dependency.clone())),
            };
            let message = format!("{id} depends on {dependency}, {what}");
            let refusal = Refusal::new(Code::Unmet, message).task(&id).next(next);
            return Ok(Some(Refused { id, refusal, is_reopened: false, kept_for: None }));
        }
        let carried = self.carried(candidate, base)?;
        Ok(carried.map(|other| {
            let id = candidate.id().to_owned();
            let message = format!("{id} contains the work of {other}, which has not landed");
            let refusal = Refusal::new(Code::Unmet, message).task(&id).next(Step::why(&other));
            Refused { id, refusal, is_reopened: false, kept_for: None }
        }))
    }

    /// A task that has not landed and whose own branch the candidate's contains: it would land without its gates and constraints.
    fn carried(&mut self, candidate: &Candidate, base: &CommitId) -> Result<Option<String>, Refusal> {
        for branch in self.lander.carried(&candidate.head, base).map_err(refused)? {
            if branch == candidate.branch {
                continue;
            }
            let Some(other) = self.engine.unlanded_task_of(&branch)? else { continue };
            let Some(head) = self.lander.commit_of(&format!("refs/heads/{branch}")) else { continue };
            // A branch without commits of its own, or one that is there by content, brings nothing.
            if !self.lander.is_landed(&head, base).map_err(refused)? {
                return Ok(Some(other));
            }
        }
        // Whatever became of its branch since, the record knows whose work a commit is.
        let commits = self.lander.commits_between(base, &candidate.head).map_err(refused)?;
        for (other, commit) in self.engine.unlanded_work_of_others(&commits, candidate.of.task.uid)? {
            if !self.lander.is_landed(&commit, base).map_err(refused)? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Whether a task that is done has commits on a branch of its own that are not in `base`.
    fn has_still_to_land(&mut self, id: &str, base: &CommitId) -> Result<bool, Refusal> {
        let task = self.engine.show(None, Some(&id.parse()?))?.value;
        let Some(branch) = task.branch.filter(|_| task.state == State::Done && task.landed.is_none()) else {
            return Ok(false);
        };
        match self.lander.commit_of(&format!("refs/heads/{branch}")) {
            Some(head) => Ok(!self.lander.is_landed(&head, base).map_err(refused)?),
            None => Ok(false),
        }
    }

    fn part(
        &self,
        tip: &Tip,
        base: &CommitId,
        asked: &Asked,
        candidate: Candidate,
        plan: Plan,
        is_result: bool,
    ) -> Result<Built, Refusal> {
        let changed = self.lander.changed(base, &plan.tree).map_err(refused)?;
        let extent = match candidate.of.constraints.is_empty() {
            true => Extent::default(),
            false => self.lander.extent(base, &plan.tree).map_err(refused)?,
        };
        let read = self.lander.tree_of(&candidate.head).map_err(refused)?;
        let demand = asked.demand(&changed, &plan.tree, &read);
        let gates: Vec<GateKey> =
            demand.asked(&candidate.of.task.facts).map(|gate| gate.key.clone()).collect();
        let said = words(&candidate, if is_result { &gates } else { &[] });
        let commit = self.lander.commit(&plan, &said).map_err(refused)?;
        debug_assert!(self.lander.contains(&commit, &tip.commit).unwrap_or(true));
        let resolved_lines = plan.unions.iter().map(|union| union.conflict_lines).sum();
        Ok(Built { candidate, commit, demand, extent, resolved_lines, gates, plan })
    }

    /// Reads the tasks again, and refuses those that have changed since.
    fn as_they_are_now(
        &mut self,
        candidates: Vec<Candidate>,
        report: &mut Report,
    ) -> Result<Vec<Candidate>, Refusal> {
        let mut now = Vec::with_capacity(candidates.len());
        for before in candidates {
            let reference = TaskRef::from(before.of.task.uid);
            let of = self.engine.landable(Some(&self.identity.clone()), Some(&reference))?.value;
            let (old, new) = (&before.of.task, &of.task);
            if (old.token, old.state) != (new.token, new.state) {
                let message = format!("{} has changed since it was checked: nothing was landed", before.id());
                let refusal = Refusal::new(Code::Changed, message).task(before.id());
                let refusal = refusal.next(Step::Land(before.id().to_owned()));
                report.refuse_each([(before.id().to_owned(), refusal)]);
                continue;
            }
            now.push(self.candidate_of(of)?);
        }
        Ok(now)
    }
}

impl Built {
    pub(super) fn landed(&self) -> LandedTask {
        LandedTask {
            id: self.candidate.id().to_owned(),
            title: self.candidate.title().to_owned(),
            actor: self.candidate.actor(),
            branch: self.candidate.branch.clone(),
            head: self.candidate.head.clone(),
            commit: self.commit.clone(),
            resolved_lines: self.resolved_lines,
            gates: self.gates.clone(),
            to_run: Vec::new(),
        }
    }
}

fn style(style: LandStyle) -> Style {
    match style {
        LandStyle::Squash => Style::Squash,
        LandStyle::Rebase => Style::Rebase,
        LandStyle::Merge | LandStyle::Elsewhere | LandStyle::Nothing => Style::Merge,
    }
}

pub(super) fn unreachable(remote: &str, why: &str) -> Refusal {
    // Only the first line: git's advice after it is for people who typed the command.
    let why = why.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let why = why.trim_start_matches("fatal: ");
    let message = format!("{} cannot be reached: {}", quote::name(remote), quote::visible_line(why));
    Refusal::new(Code::Unavailable, message).next(Step::plain("check the remote, then try again"))
}

/// Why a push changed nothing, for people.
pub(super) fn push_failed(push: &Push) -> String {
    match push {
        Push::Pushed => "it was pushed".to_owned(),
        Push::Moved => "its references moved".to_owned(),
        Push::Refused(words) | Push::Unreachable(words) => words.clone(),
    }
}
