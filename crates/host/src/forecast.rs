//! The forecast of conflicts here: which branches of this repository belong to whom, and whom to warn.
//!
//! A query shows all of it and warns nobody. A commit, a new worktree or the beginning of a turn warns both holders, once for as long
//! as a conflict lasts. Errors keep nobody from working.

use std::collections::BTreeSet;
use std::time::Duration;

use onus_core::forecast::hearers;
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::Scope;
use onus_engine::{AnyEngine, BranchView, ConflictView, ForecastView, LiveBranch, Warning};
use onus_repo::discover;
use onus_repo::forecast::{Asked, ConflictNews, Forecast, Forecasted, With};
use onus_repo::worktrees::Worktrees;

use crate::Host;

/// How long a caller waits that asked for the forecast.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a caller waits that is doing something else.
const PATIENCE_BESIDE: Duration = Duration::from_millis(1_500);

/// A forecast, with the branches that it is about.
struct Foreseen {
    forecast: Forecast,
    branches: Vec<(LiveBranch, String)>,
    outlook: Forecasted,
}

impl Host {
    /// The forecast for the branches of this repository; empty outside git.
    pub fn forecast(&self, engine: &mut AnyEngine) -> ForecastView {
        match self.foresee(engine, PATIENCE) {
            Ok(Some(foreseen)) => foreseen.view(),
            Ok(None) => ForecastView::default(),
            Err(refusal) => ForecastView { conflicts: Vec::new(), incomplete: Some(refusal.message) },
        }
    }

    /// Warns the holders of new conflicts. Errors are ignored: the next call tries again.
    pub fn tell_of_conflicts(&self, engine: &mut AnyEngine) {
        let Ok(Some(foreseen)) = self.foresee(engine, PATIENCE_BESIDE) else { return };
        let warnings = foreseen.warnings();
        let tidings: Vec<ConflictNews> = warnings.iter().map(tidings_of).collect();
        let is_all = foreseen.outlook.incomplete.is_none();
        let seen =
            foreseen.outlook.seen.iter().filter(|_| is_all).map(|at| foreseen.branches[*at].0.task).collect();
        let _ = foreseen.forecast.tell(&tidings, is_all, |news| {
            let is_news = |warning: &&Warning| news.iter().any(|news| **news == tidings_of(warning));
            let news: Vec<&Warning> = warnings.iter().filter(is_news).collect();
            engine.warn_of_conflicts(&news, &warnings, &seen)
        });
    }

    /// None if there is no branch to examine; then git is not run.
    fn foresee(&self, engine: &mut AnyEngine, patience: Duration) -> Result<Option<Foreseen>, Refusal> {
        let Some(place) = self.place.as_ref().filter(|place| !place.is_submodule()) else { return Ok(None) };
        let Some(forecast) = Forecast::of(place)? else { return Ok(None) };
        let mut branches = engine.live_branches()?;
        // The branch of the main checkout is usually the target of others, so it counts only if it is a task's own.
        let configured = self.config.worktrees().target;
        let shared = Worktrees::of(place)?.and_then(|worktrees| discover(worktrees.home())?.branch);
        branches
            .retain(|it| it.target.is_some() || configured.is_some() || Some(&it.branch) != shared.as_ref());
        let mut known = BTreeSet::new();
        // Holders that share a branch share its conflicts, so the first one represents them.
        branches.retain(|branch| known.insert(branch.branch.clone()));
        if branches.is_empty() {
            return Ok(None);
        }
        let mut fallback: Option<Option<String>> = None;
        let mut targeted = Vec::new();
        for branch in branches {
            let target = match &branch.target {
                Some(target) => Some(target.clone()),
                None => fallback.get_or_insert_with(|| self.target_name()).clone(),
            };
            if let Some(target) = target.filter(|target| *target != branch.branch) {
                targeted.push((branch, target));
            }
        }
        let asked: Vec<Asked> = targeted
            .iter()
            .map(|(branch, target)| Asked { branch: branch.branch.clone(), target: target.clone() })
            .collect();
        // Files of `land.union` keep the lines of both sides, so they never conflict.
        let kept = self.config.landing().union;
        let never: Scope = engine.shared_files().globs().iter().chain(kept.globs()).cloned().collect();
        let outlook = forecast.look(&asked, &never, place.branch.as_deref(), patience);
        let outlook = outlook.map_err(|error| Refusal::new(Code::NotAllowed, error.to_string()))?;
        Ok(Some(Foreseen { forecast, branches: targeted, outlook }))
    }

    /// The target of branches that name none.
    fn target_name(&self) -> Option<String> {
        let worktrees = Worktrees::of(self.place.as_ref()?).ok()??;
        worktrees.target_name(self.config.worktrees().target.as_deref()).ok()
    }
}

impl Foreseen {
    fn view(&self) -> ForecastView {
        let holder = |branch: &LiveBranch| branch.lease.as_ref().map(|(_, actor, _)| actor.to_string());
        let conflicts = self.outlook.conflicts.iter().map(|conflict| {
            let (branch, target) = &self.branches[conflict.branch];
            let with = match conflict.with {
                With::Target => BranchView { task: None, branch: target.clone(), holder: None },
                With::Branch(other) => {
                    let other = &self.branches[other].0;
                    BranchView {
                        task: Some(other.id.clone()),
                        branch: other.branch.clone(),
                        holder: holder(other),
                    }
                }
            };
            ConflictView {
                task: branch.id.clone(),
                branch: branch.branch.clone(),
                holder: holder(branch),
                with,
                files: conflict.files.clone(),
                count: conflict.count,
            }
        });
        ForecastView { conflicts: conflicts.collect(), incomplete: self.outlook.incomplete.clone() }
    }

    /// The warnings for each holder.
    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for conflict in &self.outlook.conflicts {
            let (one, target) = &self.branches[conflict.branch];
            let other = match conflict.with {
                With::Branch(other) => Some(&self.branches[other].0),
                With::Target => None,
            };
            let held = |branch: &'_ LiveBranch| branch.lease.clone();
            let (of_one, of_other) = (held(one), other.and_then(held));
            let told = hearers(
                of_one
                    .as_ref()
                    .map(|(token, actor, instance)| (actor, instance, (one, *token, other, &of_other))),
                of_other.as_ref().zip(other).map(|((token, actor, instance), other)| {
                    (actor, instance, (other, *token, Some(one), &of_one))
                }),
            );
            for (actor, instance, (own, token, other, by)) in told {
                warnings.push(Warning {
                    task: own.task,
                    token,
                    actor: actor.clone(),
                    instance: instance.clone(),
                    by: by.as_ref().map(|(_, actor, instance)| (actor.clone(), instance.clone())),
                    by_task: other.map(|other| other.task),
                    branch: other.map_or_else(|| target.clone(), |other| other.branch.clone()),
                    files: conflict.files.clone(),
                });
            }
        }
        warnings
    }
}

/// Identifies a warning by the lease and the other side, so that a new holder is warned again.
fn tidings_of(warning: &Warning) -> ConflictNews {
    let with = warning.by_task.map_or_else(|| format!("target {}", warning.branch), |task| task.to_string());
    ConflictNews {
        about: format!("{}#{} {with}", warning.task, warning.token),
        files: warning.files.iter().cloned().collect(),
    }
}
