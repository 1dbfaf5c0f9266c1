//! Where the work is: each worktree with its contents, and the safe next command.

use std::collections::BTreeMap;
use std::path::Path;

use onus_core::refusal::{Refusal, Step};
use onus_core::time::rfc3339;
use onus_engine::{ConflictView, ForecastView, LeaseView};
use onus_host::marked;
use onus_repo::landing::Behind;
use onus_repo::worktrees::{DiskUse, Journal, Linked, State, Target, Worktrees};
use onus_store::Access;
use serde_json::{Value, json};

use crate::commands::land::behind;
use crate::context::Context;
use crate::output::{escape_line, path_line, path_text};
use crate::{render, wording};

/// A worktree, its state and who works there.
pub(crate) struct Seen {
    pub(crate) linked: Linked,
    pub(crate) state: Result<State, Refusal>,
    /// The live leases of work there: the task's id, and its holder.
    pub(crate) holders: Vec<(String, String)>,
    pub(crate) target: Option<String>,
    /// What its branch cannot be merged with.
    conflicts: Vec<ConflictView>,
    /// What landed in its branch and is missing in this checkout.
    pub(crate) behind: Option<Behind>,
    disk: Option<DiskUse>,
}

/// All worktrees, and what else concerns them.
pub(crate) struct All {
    pub(crate) seen: Vec<Seen>,
    /// Branches of tasks that are checked out nowhere, and how many commits only they have.
    pub(crate) branches: Vec<(String, u64)>,
    pub(crate) rescues: usize,
    pub(crate) interrupted: Vec<Journal>,
    pub(crate) remarks: Vec<String>,
    /// Why it is not known what was interrupted.
    pub(crate) busy: Option<String>,
    /// Targets that lack what landed.
    behind: Vec<Behind>,
}

/// The live leases, which say who works in which worktree.
pub(crate) fn leases(context: &Context) -> Result<Vec<LeaseView>, Refusal> {
    let status = context.host.engine(Access::Read)?.status(None)?.value;
    Ok(status.held.into_iter().map(|held| held.lease).collect())
}

pub(crate) fn holders(leases: &[LeaseView], linked: &Linked) -> Vec<(String, String)> {
    let id = linked.place().as_ref().and_then(marked).map(|id| id.to_string());
    let path = path_text(&linked.path);
    let here = leases.iter().filter(|lease| match (&lease.worktree_id, &id) {
        (Some(theirs), Some(id)) => theirs == id,
        _ => lease.worktree.as_ref() == Some(&path),
    });
    here.map(|lease| (lease.task.clone().unwrap_or_default(), lease.actor.clone())).collect()
}

/// The target of a worktree; None if it cannot be determined.
pub(crate) fn target_of(context: &Context, worktrees: &Worktrees, own: Option<&str>) -> Option<Target> {
    let configured = context.host.config.worktrees().target;
    let target = own.map(str::to_owned).or(configured);
    worktrees.target(target.as_deref(), false).ok()
}

impl Seen {
    pub(crate) fn new(
        context: &Context,
        worktrees: &Worktrees,
        (leases, forecast, behind): (&[LeaseView], &ForecastView, &[Behind]),
        linked: Linked,
        size: bool,
    ) -> Seen {
        let own = linked.info.as_ref().and_then(|info| info.own.as_ref()).map(|own| own.target.clone());
        let target = target_of(context, worktrees, own.as_deref());
        Seen {
            state: worktrees.state(&linked, target.as_ref()),
            holders: holders(leases, &linked),
            conflicts: forecast.of(|_, branch| linked.branch.as_deref() == Some(branch)),
            behind: behind.iter().find(|behind| behind.checkouts.contains(&linked.path)).cloned(),
            disk: size.then(|| DiskUse::of(&linked.path)),
            target: target.map(|target| target.name),
            linked,
        }
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.linked.info.as_ref().and_then(|info| info.id.as_deref())
    }

    /// The next step, if the worktree needs attention.
    pub(crate) fn next(&self) -> Option<Step> {
        let path = path_text(&self.linked.path);
        let git = |what: &str| {
            Step::plain(format!("git -C {} {what}", onus_core::quote::shell_word(&path).unwrap_or_default()))
        };
        let Ok(state) = &self.state else { return Some(git("status")) };
        let has_work = !state.changed.is_empty() || !state.untracked.is_empty() || state.under_way.is_some();
        match self.id() {
            _ if self.linked.is_missing => Some(Step::RepairWorktrees),
            _ if self.behind.is_some() => self.behind.as_ref().map(|behind| Step::plain(behind.command())),
            _ if !self.holders.is_empty() => None,
            _ if self.linked.is_main => (state.under_way.is_some()).then(|| git("status")),
            Some(id) if !self.linked.info.as_ref().is_some_and(|info| info.ready) => {
                Some(Step::AddWorktree(id.to_owned()))
            }
            _ if has_work => Some(git("status")),
            _ if state.unlanded > 0 => {
                Some(git(&format!("log {}..HEAD", self.target.as_deref().unwrap_or_default())))
            }
            _ if self.linked.path.is_symlink() => Some(Step::RepairWorktrees),
            _ if state.private > 0 => Some(git("for-each-ref refs/worktree")),
            _ if state.has_submodules => Some(git("submodule status")),
            _ => Some(Step::RemoveWorktree(path)),
        }
    }

    /// The facts, in the order in which they matter.
    pub(crate) fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        let mut tasks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, actor) in &self.holders {
            tasks.entry(actor).or_default().push(id);
        }
        for (actor, ids) in tasks {
            let ids = match ids.split_last() {
                Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
                _ => ids.join(", "),
            };
            facts.push(format!("{actor} works there on {ids}"));
        }
        if self.linked.is_missing {
            facts.push("its folder is missing: moved or deleted".to_owned());
        }
        if self.linked.is_made() && !self.linked.info.as_ref().is_some_and(|info| info.ready) {
            facts.push("its set-up is not finished".to_owned());
        }
        if let Some(why) = &self.linked.locked {
            facts.push(if why.is_empty() { "locked".to_owned() } else { format!("locked: {why}") });
        }
        facts.extend(self.behind.as_ref().map(Behind::words));
        match &self.state {
            Ok(state) => {
                if let Some(under_way) = &state.under_way {
                    let age = render::age(&rfc3339(under_way.since_ms));
                    facts.push(format!("a {} has been under way for {age}", under_way.what));
                }
                let count = |n: usize, what: &str| (n > 0).then(|| format!("{n} {what}"));
                facts.extend(count(state.changed.len(), "uncommitted"));
                facts.extend(count(state.untracked.len(), "untracked"));
                if state.unlanded > 0 {
                    facts.push(format!("{} unlanded", state.unlanded));
                }
                if state.private > 0 {
                    facts.push("commits that only refs/worktree/ keeps".to_owned());
                }
                if state.behind > 0 {
                    facts.push(format!(
                        "{} behind {}",
                        state.behind,
                        self.target.as_deref().unwrap_or_default()
                    ));
                }
                facts.extend(self.conflicts.iter().map(ConflictView::message));
                if facts.is_empty() {
                    facts.push("clean".to_owned());
                }
            }
            Err(refusal) => facts.push(refusal.message.clone()),
        }
        facts.extend(self.disk.map(|disk| {
            let more = if disk.is_more { "more than " } else { "" };
            match disk.bytes >> 20 {
                0 if !disk.is_more => "less than 1 MiB".to_owned(),
                mib => format!("{more}{mib} MiB"),
            }
        }));
        facts
    }

    pub(crate) fn document(&self) -> Value {
        let state = self.state.as_ref().ok();
        let info = self.linked.info.clone().unwrap_or_default();
        let since = |state: &State| {
            state.under_way.as_ref().map(|it| json!({ "what": it.what, "since_at": rfc3339(it.since_ms) }))
        };
        json!({
            "path": path_text(&self.linked.path),
            "main": self.linked.is_main,
            "made": info.made,
            "adopted": self.linked.info.is_some() && !info.made,
            "task": info.id,
            "branch": self.linked.branch,
            "head": self.linked.head,
            "target": self.target,
            "held_by": self.holders.iter().map(|(id, actor)| json!({ "task": id, "actor": actor })).collect::<Vec<_>>(),
            "ready": !info.made || info.ready,
            "missing": self.linked.is_missing,
            "locked": self.linked.locked,
            "changed": state.map(|state| texts(&state.changed)),
            "untracked": state.map(|state| texts(&state.untracked)),
            "ignored": state.map(|state| state.ignored),
            "under_way": state.and_then(since),
            "unlanded": state.map(|state| state.unlanded),
            "behind": state.map(|state| state.behind),
            "behind_landed": self.behind.as_ref().map(|behind| behind.lacks),
            "conflicts": self.conflicts,
            "port_base": info.port_base,
            "bytes": self.disk.map(|disk| disk.bytes),
            "next": self.next().as_ref().and_then(wording::step),
        })
    }

    pub(crate) fn lines(&self, context: &Context) -> Vec<String> {
        let name = match (self.id(), self.linked.is_main) {
            (Some(id), _) => id.to_owned(),
            (None, true) => "main".to_owned(),
            (None, false) => "-".to_owned(),
        };
        let branch = self.linked.branch.as_deref().unwrap_or("(detached)");
        let mut lines = vec![
            format!(
                "{}{} {}",
                context.out.bold(&escape_line(&name)),
                " ".repeat(7usize.saturating_sub(name.len())),
                path_line(&self.linked.path)
            ),
            format!("        {}: {}", escape_line(branch), escape_line(&self.facts().join(", "))),
        ];
        lines
            .extend(self.next().as_ref().and_then(wording::step).map(|next| format!("        next: {next}")));
        lines
    }
}

/// The most files that a document names.
const MOST: usize = 200;

fn texts(files: &[std::path::PathBuf]) -> Vec<String> {
    files.iter().take(MOST).map(|file| path_text(Path::new(file))).collect()
}

impl All {
    pub(crate) fn new(context: &Context, worktrees: &Worktrees, size: bool) -> Result<All, Refusal> {
        let leases = leases(context)?;
        let linked = super::listed(worktrees)?;
        let forecast = context.host.forecast(&mut context.host.engine(Access::Read)?);
        let behind = behind::all(&context.host);
        let seen = linked
            .into_iter()
            .map(|linked| Seen::new(context, worktrees, (&leases, &forecast, &behind), linked, size))
            .collect();
        let target = worktrees.target(context.host.config.worktrees().target.as_deref(), false);
        let (branches, mut remarks) = match target {
            Ok(target) => (worktrees.unlanded_branches(&target)?, target.remarks),
            Err(refusal) => (Vec::new(), vec![refusal.message]),
        };
        remarks.extend(forecast.incomplete.map(render::incomplete));
        let (interrupted, busy) = match worktrees.interrupted() {
            Ok(interrupted) => (interrupted, None),
            Err(refusal) => (Vec::new(), Some(refusal.message)),
        };
        remarks.extend(busy.iter().map(|why| format!("what was interrupted is not known: {why}")));
        Ok(All { seen, branches, rescues: worktrees.rescues(), interrupted, busy, remarks, behind })
    }

    pub(crate) fn document(&self) -> Value {
        json!({
            "worktrees": self.seen.iter().map(Seen::document).collect::<Vec<_>>(),
            "unlanded_branches": self.branches.iter().map(|(name, unlanded)| json!({ "branch": name, "unlanded": unlanded })).collect::<Vec<_>>(),
            "behind_landed": behind::documents(&self.behind),
            "rescues": self.rescues,
            "interrupted": self.interrupted.iter().map(|journal| path_text(&journal.path)).collect::<Vec<_>>(),
        })
    }

    pub(crate) fn lines(&self, context: &Context) -> Vec<String> {
        let mut lines: Vec<String> = self.seen.iter().flat_map(|seen| seen.lines(context)).collect();
        for (branch, unlanded) in &self.branches {
            let branch = escape_line(branch);
            lines.push(format!("branch  {branch}: {unlanded} unlanded, checked out nowhere"));
            lines.push(format!("        next: git log HEAD..{branch}"));
        }
        for behind in self.behind.iter().filter(|behind| behind.checkouts.is_empty()) {
            let (branch, words) = (escape_line(&behind.target), escape_line(&behind.words()));
            let nowhere = if behind.own.is_some() { ", checked out nowhere" } else { "" };
            lines.push(format!("branch  {branch}: {words}{nowhere}"));
            lines.push(format!("        next: {}", escape_line(&behind.command())));
        }
        for journal in &self.interrupted {
            lines.push(format!("        {}: interrupted", path_line(&journal.path)));
            lines.push("        next: onus doctor --fix".to_owned());
        }
        if self.rescues > 0 {
            lines.push(format!("rescues {} kept", self.rescues));
            lines.push("        next: onus rescue list".to_owned());
        }
        lines
    }
}
