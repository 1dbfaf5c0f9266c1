//! One round: some tasks, one result, one step of the target.

use onus_core::command::{Act, Command};
use onus_core::commit::CommitId;
use onus_core::gate::{Demand, GateKey};
use onus_core::ids::TaskRef;
use onus_core::landing::{
    Checked as Check, ConflictFile, Failure, Intent, LandStyle, MOST_CONFLICTS, Obstruction, Settled,
};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_engine::{Request, Unsettled};
use onus_repo::landing::{
    Checkout, Conflict, Fetched, Intended, Moved, Part, Plan, Planned, Push, Style, Tip, Tips,
};

use super::checks::{Asked, Checked, GateRun};
use super::settle::REMOTE_LIMIT;
use super::words::words;
use super::{Candidate, Landings, Seated, refused};
use crate::config::SHARED_FILE;

/// How often a round is built again because something moved under it.
const TRIES: usize = 20;

/// A task that landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandedTask {
    pub id: String,
    pub title: String,
    pub actor: Option<String>,
    pub branch: String,
    /// Where its branch was.
    pub head: CommitId,
    pub commit: CommitId,
    /// Lines in conflict that `land.union` resolved.
    pub resolved_lines: u64,
    pub gates: Vec<GateKey>,
}

/// A task that did not.
#[derive(Clone, Debug)]
pub struct Refused {
    pub id: String,
    pub refusal: Refusal,
    /// It was done and is open again.
    pub is_reopened: bool,
}

/// What came of trying to land some tasks.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub landed: Vec<LandedTask>,
    /// The target had all that they change.
    pub found: Vec<(String, CommitId)>,
    pub refused: Vec<Refused>,
    /// Gates that fail on the bare target: nothing landed after that.
    pub red: Vec<GateKey>,
    /// Where the target is checked out, and what became of that.
    pub checkouts: Vec<Checkout>,
}

impl Report {
    /// Adds what could not be settled.
    pub fn refuse(&mut self, refusals: Vec<Refusal>) {
        self.refused.extend(refusals.into_iter().map(|refusal| Refused {
            id: refusal.task.clone().unwrap_or_default(),
            refusal,
            is_reopened: false,
        }));
    }
}

/// A branch, merged on top of what comes before it.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) candidate: Candidate,
    pub(super) commit: CommitId,
    pub(super) demand: Demand,
    resolved_lines: u64,
    gates: Vec<GateKey>,
}

/// What one try came to.
enum Tried {
    Done,
    /// Something moved: these are to be tried again.
    Again(Vec<Candidate>),
    /// The result of all failed gates: these are to be tried in parts.
    Split(Vec<Candidate>),
}

/// How far a round goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    Landed,
    /// Nothing is moved or recorded but what gates came to.
    Checked,
}

impl Landings<'_> {
    /// Lands one task, or says why not.
    pub fn land(
        &mut self,
        seated: &Seated,
        candidate: Candidate,
        run: &mut GateRun<'_>,
    ) -> Result<Report, Refusal> {
        self.land_all(seated, vec![candidate], Until::Landed, run)
    }

    /// Finds out whether one task would land.
    pub fn check_only(
        &mut self,
        seated: &Seated,
        candidate: Candidate,
        run: &mut GateRun<'_>,
    ) -> Result<Report, Refusal> {
        self.land_all(seated, vec![candidate], Until::Checked, run)
    }

    /// Lands these in as few steps as their gates and conflicts allow.
    pub(super) fn land_all(
        &mut self,
        seated: &Seated,
        candidates: Vec<Candidate>,
        until: Until,
        run: &mut GateRun<'_>,
    ) -> Result<Report, Refusal> {
        let mut report = Report::default();
        let mut left = vec![self.landable(seated, candidates, &mut report)];
        while let Some(mut batch) = left.pop() {
            let mut tries = 0;
            while !batch.is_empty() && report.red.is_empty() {
                match self.round(seated, &mut report, std::mem::take(&mut batch), until, run)? {
                    Tried::Done => {}
                    Tried::Again(rest) if tries < TRIES => {
                        tries += 1;
                        batch = self.as_they_are_now(rest, &mut report)?;
                    }
                    Tried::Again(rest) => {
                        let busy = "its target or its branch moved again and again";
                        report.refused.extend(rest.iter().map(|candidate| {
                            Refused {
                                id: candidate.id().to_owned(),
                                refusal: Refusal::new(Code::Busy, format!("{}: {busy}", candidate.id()))
                                    .task(candidate.id())
                                    .next(Step::Land(candidate.id().to_owned())),
                                is_reopened: false,
                            }
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
        if until == Until::Landed && self.remote().is_none() {
            report.checkouts = self.lander.bring_forward(&self.target).map_err(refused)?;
        }
        // Only now is it known by which name what has landed can be merged.
        let how = Step::plain(format!("in its worktree: git merge {}, resolve, commit", self.merge_name()));
        let conflicts = report.refused.iter_mut().filter(|refused| refused.refusal.code == Code::Conflict);
        conflicts.for_each(|refused| refused.refusal.next.push(how.clone()));
        Ok(report)
    }

    /// Those whom nothing but their gates may keep from landing: nobody waits for gates of what cannot land anyhow.
    fn landable(
        &mut self,
        seated: &Seated,
        candidates: Vec<Candidate>,
        report: &mut Report,
    ) -> Vec<Candidate> {
        let mut landable = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let (task, head) = (&candidate.of.task, &candidate.head);
            let checked = Check {
                intent: self.intent(head, head, candidate.head.clone(), 0, Vec::new()),
                demand: Demand::default(),
                token: task.token,
                state: task.state,
            };
            let command =
                Command::OnTask { task: Some(TaskRef::from(task.uid)), act: Act::Land(checked), force: None };
            let identity = self.identity_for(&candidate);
            let request = Request { identity, command: seated.guard(command), key: None };
            match self.engine.rehearse(&request) {
                // What it names and nobody defines is asked for with the rest.
                Ok(_) => landable.push(candidate),
                Err(refusal) if refusal.code == Code::Gate => landable.push(candidate),
                Err(refusal) => {
                    let id = candidate.id().to_owned();
                    report.refused.push(Refused { id, refusal, is_reopened: false });
                }
            }
        }
        landable
    }

    fn intent(
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

    /// One try with these: what cannot land is told in the report, and the rest lands together or not at all.
    fn round(
        &mut self,
        seated: &Seated,
        report: &mut Report,
        candidates: Vec<Candidate>,
        until: Until,
        run: &mut GateRun<'_>,
    ) -> Result<Tried, Refusal> {
        let tip = self.tip()?;
        let asked = self.asked(&tip.commit)?;
        let (built, deferred) = self.build(&tip, &asked, candidates, until, report)?;
        let parts: Vec<Candidate> = built.iter().map(|part| part.candidate.clone()).collect();
        let checked = match self.force {
            Some(_) => Checked::Passed,
            None => self.check(&tip.commit, &built, run)?,
        };
        match checked {
            Checked::Passed => {}
            Checked::Red(gates) => return Ok(self.red(gates, built, deferred, report)),
            Checked::Failed(_) if parts.len() > 1 => {
                let all = parts.into_iter().chain(deferred).collect();
                return Ok(Tried::Split(all));
            }
            Checked::Failed(gates) => {
                for part in &parts {
                    let refused = self.failed_gates(part, &tip.commit, &gates, until)?;
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

    /// Gates that fail on the bare target concern those who have to pass them; the others go on.
    fn red(
        &self,
        gates: Vec<GateKey>,
        built: Vec<Built>,
        deferred: Vec<Candidate>,
        report: &mut Report,
    ) -> Tried {
        let is_asked = |part: &Built| part.gates.iter().any(|gate| gates.contains(gate));
        let (concerned, others): (Vec<Built>, Vec<Built>) = built.into_iter().partition(is_asked);
        let rest: Vec<Candidate> = others.into_iter().map(|part| part.candidate).chain(deferred).collect();
        if rest.is_empty() {
            report.red = gates;
            return Tried::Done;
        }
        let names: Vec<&str> = gates.iter().map(GateKey::as_str).collect();
        report.refused.extend(concerned.iter().map(|part| {
            let id = part.candidate.id().to_owned();
            let message = format!("{id} waits: gate {} fails on {} alone", names.join(", "), self.target);
            let refusal = Refusal::new(Code::Gate, message).task(&id).next(Step::Gates(id.clone()));
            Refused { id, refusal, is_reopened: false }
        }));
        Tried::Again(rest)
    }

    /// Where the target is: here, or at the remote.
    fn tip(&self) -> Result<Tip, Refusal> {
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

    /// Each branch on top of the one before. What conflicts with the target itself is told; what conflicts with another of the
    /// round waits until that has landed.
    fn build(
        &mut self,
        tip: &Tip,
        asked: &Asked,
        candidates: Vec<Candidate>,
        until: Until,
        report: &mut Report,
    ) -> Result<(Vec<Built>, Vec<Candidate>), Refusal> {
        let (mut built, mut deferred): (Vec<Built>, Vec<Candidate>) = (Vec::new(), Vec::new());
        let mut base = tip.commit.clone();
        let mut candidates = candidates.into_iter();
        while let Some(candidate) = candidates.next() {
            let style = style(self.style);
            let planned = self.lander.plan(&base, &candidate.head, style, &asked.union).map_err(refused)?;
            let plan = match planned {
                Planned::AlreadyThere if base == tip.commit => {
                    if until == Until::Landed && candidate.is_done() {
                        self.found(&candidate, &self.target.clone(), &tip.commit)?;
                    }
                    report.found.push((candidate.id().to_owned(), tip.commit.clone()));
                    continue;
                }
                // Replayed commits conflict with themselves where they are there already.
                Planned::Conflicts(_)
                    if base == tip.commit
                        && self.lander.is_landed(&candidate.head, &tip.commit).map_err(refused)? =>
                {
                    if until == Until::Landed && candidate.is_done() {
                        self.found(&candidate, &self.target.clone(), &tip.commit)?;
                    }
                    report.found.push((candidate.id().to_owned(), tip.commit.clone()));
                    continue;
                }
                Planned::Conflicts(conflicts) if base == tip.commit => {
                    report.refused.push(self.conflicts(&candidate, &tip.commit, &conflicts, until)?);
                    continue;
                }
                Planned::AlreadyThere | Planned::Conflicts(_) => {
                    deferred.push(candidate);
                    continue;
                }
                Planned::Ready(plan) => plan,
            };
            let part = self.part(tip, &base, asked, candidate, &plan)?;
            let lacks = self.lacks(&part.candidate, &part.demand).filter(|_| self.force.is_none());
            if let Some(refusal) = lacks {
                let id = part.candidate.id().to_owned();
                report.refused.push(Refused { id, refusal, is_reopened: false });
                continue;
            }
            base = part.commit.clone();
            let changes_rules = part.demand.changed.iter().flatten().any(|file| file == SHARED_FILE);
            built.push(part);
            // What comes behind it is judged by what it says: in the next round.
            if changes_rules {
                deferred.extend(candidates);
                break;
            }
        }
        // Gates are run on the result of all.
        if let Some(last) = built.last() {
            let tree = self.lander.tree_of(&last.commit).map_err(refused)?;
            for part in &mut built {
                part.demand.tree = Some(tree.clone());
            }
        }
        Ok((built, deferred))
    }

    fn part(
        &self,
        tip: &Tip,
        base: &CommitId,
        asked: &Asked,
        candidate: Candidate,
        plan: &Plan,
    ) -> Result<Built, Refusal> {
        let provisional = self.lander.provisional(&plan.tree, base).map_err(refused)?;
        let changed = self.lander.changed(base, &provisional).map_err(refused)?;
        let read = self.lander.tree_of(&candidate.head).map_err(refused)?;
        let demand = asked.demand(&changed, &plan.tree, &read);
        let gates: Vec<GateKey> =
            demand.asked(&candidate.of.task.facts).map(|gate| gate.key.clone()).collect();
        let commit = self.lander.commit(plan, &words(&candidate, &gates)).map_err(refused)?;
        debug_assert!(self.lander.contains(&commit, &tip.commit).unwrap_or(true));
        let resolved_lines = plan.unions.iter().map(|union| union.conflict_lines).sum();
        Ok(Built { candidate, commit, demand, resolved_lines, gates })
    }

    /// Intents, the step, and the record of it. The candidates that are to be tried again, if something was in the way.
    fn commit_round(
        &mut self,
        seated: &Seated,
        tip: &Tip,
        built: Vec<Built>,
        report: &mut Report,
    ) -> Result<Option<Vec<Candidate>>, Refusal> {
        let Some(result) = built.last().map(|last| last.commit.clone()) else { return Ok(None) };
        let mut begun: Vec<Unsettled> = Vec::new();
        for part in &built {
            match self.begin(seated, tip, part)? {
                Ok(unsettled) => begun.push(unsettled),
                Err(refusal) => {
                    self.withdraw(&begun)?;
                    let id = part.candidate.id().to_owned();
                    let rest = built.iter().map(|part| part.candidate.clone());
                    let rest = rest.filter(|candidate| candidate.id() != id).collect();
                    report.refused.push(Refused { id, refusal, is_reopened: false });
                    return Ok(Some(rest));
                }
            }
        }
        let moved = match self.move_target(tip, &built, &result) {
            Ok(moved) => moved,
            Err(refusal) => {
                // A server that refuses it, or cannot be reached: nothing of it may happen later.
                self.withdraw(&begun)?;
                return Err(refusal);
            }
        };
        match moved {
            Moved::Moved { .. } => {}
            Moved::TargetMoved | Moved::IntentGone | Moved::BranchMoved => {
                self.withdraw(&begun)?;
                return Ok(Some(built.into_iter().map(|part| part.candidate).collect()));
            }
        }
        let requests: Vec<Request> =
            begun.iter().map(|unsettled| self.settled(unsettled, Settled::Landed)).collect();
        for answer in self.engine.execute(&requests) {
            answer?;
        }
        report.landed.extend(built.iter().map(Built::landed));
        Ok(None)
    }

    /// The reference first, then the event: a lander that is stopped in between is refused the event once the task is another's.
    fn begin(
        &mut self,
        seated: &Seated,
        tip: &Tip,
        part: &Built,
    ) -> Result<Result<Unsettled, Refusal>, Refusal> {
        let Built { candidate, commit, demand, resolved_lines, gates } = part;
        let id = candidate.id();
        for _ in 0..2 {
            let intended = match &self.settings.remote {
                None => self.lander.intend(id, commit, tip).map_err(refused)?,
                Some(remote) => {
                    match self.lander.intend_at(remote, id, commit, REMOTE_LIMIT).map_err(refused)? {
                        Ok(intended) => intended,
                        Err(push) => return Err(unreachable(remote, &push_failed(&push))),
                    }
                }
            };
            match intended {
                Intended::Written => break,
                // Whoever left it there was killed before the store heard of it, or has not lost the seat for long.
                Intended::Taken => drop(self.settle_reference(id, None)?),
            }
        }
        let intent = self.intent(&tip.commit, commit, candidate.head.clone(), *resolved_lines, gates.clone());
        let task = &candidate.of.task;
        let checked =
            Check { intent: intent.clone(), demand: demand.clone(), token: task.token, state: task.state };
        let act = Act::Land(checked);
        let force = self.force.clone();
        let command = seated.guard(Command::OnTask { task: Some(TaskRef::from(task.uid)), act, force });
        let request = Request { identity: self.identity_for(candidate), command, key: None };
        let unsettled = Unsettled { task: task.uid, id: id.to_owned(), intent };
        match self.engine.run(&request) {
            Ok(_) => Ok(Ok(unsettled)),
            Err(refusal) => {
                self.settle_reference(id, Some(commit))?;
                // Without the seat, nothing more is to be done.
                match refusal.seat.is_some() {
                    true => Err(refusal),
                    false => Ok(Err(refusal)),
                }
            }
        }
    }

    /// Deletes the reference of an intent, unless the target has it.
    fn settle_reference(&self, id: &str, commit: Option<&CommitId>) -> Result<bool, Refusal> {
        use onus_repo::landing::Settled::Landed;
        match (&self.settings.remote, commit) {
            (None, _) => {
                let settled = self.lander.settle(id, &self.target, commit).map_err(refused)?;
                Ok(matches!(settled, Landed(_)))
            }
            (Some(remote), commit) => {
                // Without a commit of ours: whatever is there is not in the target by our doing.
                let nothing = self.lander.commit_of(&format!("refs/remotes/{remote}/{}", self.target));
                let Some(commit) = commit.cloned().or(nothing) else { return Ok(false) };
                let settled = self.lander.settle_at(remote, id, &self.target, &commit, REMOTE_LIMIT);
                match settled.map_err(refused)? {
                    Ok(settled) => Ok(matches!(settled, Landed(_))),
                    Err(push) => Err(unreachable(remote, &push_failed(&push))),
                }
            }
        }
    }

    fn move_target(&self, tip: &Tip, built: &[Built], result: &CommitId) -> Result<Moved, Refusal> {
        let parts: Vec<Part<'_>> = built
            .iter()
            .map(|part| Part {
                id: part.candidate.id(),
                commit: &part.commit,
                branch: Some((part.candidate.branch.as_str(), &part.candidate.head)),
            })
            .collect();
        let ids: Vec<&str> = parts.iter().map(|part| part.id).collect();
        let message = format!("onus: land {}", ids.join(", "));
        let Some(remote) = &self.settings.remote else {
            return self.lander.move_together(&parts, tip, result, &message).map_err(refused);
        };
        let steps = (&tip.commit, result);
        match self
            .lander
            .move_together_at(remote, &parts, &self.target, steps, REMOTE_LIMIT)
            .map_err(refused)?
        {
            Ok(moved) => Ok(moved),
            Err(Push::Refused(words)) => {
                let message = format!("{} refused it: {}", quote::name(remote), quote::visible_line(&words));
                Err(Refusal::new(Code::NotAllowed, message)
                    .next(Step::plain("if the branch is protected, land by a pull request")))
            }
            Err(push) => Err(unreachable(remote, &push_failed(&push))),
        }
    }

    /// Ends what was begun, so that it moves nothing any more.
    fn withdraw(&mut self, begun: &[Unsettled]) -> Result<(), Refusal> {
        for unsettled in begun {
            let landed = self.settle_reference(&unsettled.id, Some(&unsettled.intent.commit))?;
            let settled = if landed { Settled::Landed } else { Settled::Withdrawn };
            self.engine.record_settled(&self.identity, unsettled, settled)?;
        }
        Ok(())
    }

    fn settled(&self, unsettled: &Unsettled, settled: Settled) -> Request {
        let act = Act::SettleLanding { commit: unsettled.intent.commit.clone(), settled };
        let command = Command::OnTask { task: Some(TaskRef::from(unsettled.task)), act, force: None };
        let identity = onus_engine::Identity { token: None, ..self.identity.clone() };
        Request { identity, command, key: None }
    }

    /// The same tasks, looked at again. What has changed hands is left out.
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
                report.refused.push(Refused { id: before.id().to_owned(), refusal, is_reopened: false });
                continue;
            }
            now.push(self.looked_at(of)?);
        }
        Ok(now)
    }

    /// Tells of files that two sides changed: whose the other side is, and what becomes of the task.
    fn conflicts(
        &mut self,
        candidate: &Candidate,
        tip: &CommitId,
        conflicts: &[Conflict],
        until: Until,
    ) -> Result<Refused, Refusal> {
        let id = candidate.id().to_owned();
        let mut files = Vec::new();
        for conflict in conflicts.iter().take(MOST_CONFLICTS) {
            let mut with = Vec::new();
            for other in self.lander.tasks_behind(&conflict.path, &candidate.head, tip) {
                with.push(self.with_actor(&other));
            }
            files.push(ConflictFile { path: conflict.path.clone(), lines: conflict.conflict_lines, with });
        }
        let told: Vec<String> = files.iter().map(told).collect();
        let more = conflicts.len().saturating_sub(told.len());
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        let target = quote::name(&self.target);
        let message = format!("{id} conflicts with {target}: {}{more}", told.join("; "));
        let why = Obstruction::Conflict { files, count: conflicts.len() as u64 };
        let refusal = Refusal::new(Code::Conflict, message).task(&id);
        self.fail(candidate, tip, why, refusal, until)
    }

    /// What a branch has to merge to contain what has landed.
    fn merge_name(&self) -> String {
        let beside = format!("refs/onus/landed/{}", self.target);
        match &self.settings.remote {
            Some(remote) => format!("{remote}/{}", self.target),
            None if self.lander.commit_of(&beside).is_some() => beside,
            None => self.target.clone(),
        }
    }

    /// Another task, and who did it.
    fn with_actor(&mut self, id: &str) -> String {
        let found = id.parse().ok().and_then(|task| self.engine.landable(None, Some(&task)).ok());
        match found.and_then(|found| found.value.last_actor) {
            Some(actor) => format!("{id} by {actor}"),
            None => id.to_owned(),
        }
    }

    fn failed_gates(
        &mut self,
        candidate: &Candidate,
        tip: &CommitId,
        gates: &[GateKey],
        until: Until,
    ) -> Result<Refused, Refusal> {
        let id = candidate.id().to_owned();
        let names: Vec<&str> = gates.iter().map(GateKey::as_str).collect();
        let plural = if names.len() == 1 { "gate" } else { "gates" };
        let message = format!(
            "{id} does not land: {plural} {} failed on the merged result, and passes on {} alone",
            names.join(", "),
            quote::name(&self.target)
        );
        let refusal = Refusal::new(Code::Gate, message).task(&id).next(Step::Gates(id.clone()));
        self.fail(candidate, tip, Obstruction::Gates { gates: gates.to_vec() }, refusal, until)
    }

    /// Records why a branch cannot land as it is. What was done is open again.
    fn fail(
        &mut self,
        candidate: &Candidate,
        tip: &CommitId,
        why: Obstruction,
        refusal: Refusal,
        until: Until,
    ) -> Result<Refused, Refusal> {
        let id = candidate.id().to_owned();
        if until == Until::Checked {
            return Ok(Refused { id, refusal, is_reopened: false });
        }
        let act = Act::FailLanding(Failure {
            target: self.target.clone(),
            onto: tip.clone(),
            head: candidate.head.clone(),
            why,
            message: refusal.message.clone(),
            token: candidate.of.task.token,
        });
        let task = Some(TaskRef::from(candidate.of.task.uid));
        let command = Command::OnTask { task, act, force: None };
        let request = Request { identity: self.identity_for(candidate), command, key: None };
        match self.engine.run(&request) {
            Ok(_) => {
                let mut refusal = refusal;
                if let Some(actor) = candidate.of.last_actor.as_ref().filter(|_| candidate.is_done()) {
                    refusal.message.push_str(&format!("; it is open again, kept for {actor}"));
                }
                Ok(Refused { id, refusal, is_reopened: candidate.is_done() })
            }
            Err(changed) => Ok(Refused { id, refusal: changed, is_reopened: false }),
        }
    }
}

impl Built {
    fn landed(&self) -> LandedTask {
        LandedTask {
            id: self.candidate.id().to_owned(),
            title: self.candidate.title().to_owned(),
            actor: self.candidate.actor(),
            branch: self.candidate.branch.clone(),
            head: self.candidate.head.clone(),
            commit: self.commit.clone(),
            resolved_lines: self.resolved_lines,
            gates: self.gates.clone(),
        }
    }
}

fn told(file: &ConflictFile) -> String {
    let with = if file.with.is_empty() { String::new() } else { format!(" (with {})", file.with.join(", ")) };
    format!("{}{with}", quote::name(&file.path))
}

fn style(style: LandStyle) -> Style {
    match style {
        LandStyle::Squash => Style::Squash,
        LandStyle::Rebase => Style::Rebase,
        LandStyle::Merge | LandStyle::Elsewhere => Style::Merge,
    }
}

pub(super) fn unreachable(remote: &str, why: &str) -> Refusal {
    // Git's advice that follows is for people who typed the command.
    let why = why.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let why = why.trim_start_matches("fatal: ");
    let message = format!("{} cannot be reached: {}", quote::name(remote), quote::visible_line(why));
    Refusal::new(Code::Unavailable, message).next(Step::plain("check the remote, then try again"))
}

/// Why a push changed nothing, in words.
pub(super) fn push_failed(push: &Push) -> String {
    match push {
        Push::Pushed => "it was pushed".to_owned(),
        Push::Moved => "its references moved".to_owned(),
        Push::Refused(words) | Push::Unreachable(words) => words.clone(),
    }
}
