//! Which gates a task has to pass: those defined where its work is, and the tree there that they judge.
//!
//! **Where a task's work is:** in the checkout that its lease is attached to, if that is a checkout of this repository here; else where
//! its own branch is checked out; else in that branch alone. A task that has neither is worked on wherever the command is given.
//!
//! **What is judged there:** [`onus_repo::judged::tree_in`], both to run gates and to find out whether they passed, so
//! that judgements are found again. Before work there is nothing to judge: the result of a `before` gate belongs to no tree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use onus_core::command::{Act, Command};
use onus_core::gate::{ChangedBy, Demand, Gate, GateKey, GateKind, Stage, TreeId};
use onus_core::ids::{TaskRef, shortened};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::transition::Verb;
use onus_engine::{AnyEngine, Identity, Landable, TaskView};
use onus_repo::judged::{base_of, changed_between, tree_in, tree_of_branch};
use onus_repo::landing::Lander;
use onus_repo::worktrees::Worktrees;
use onus_repo::{Place, Unreadable, discover, read_inside};

use crate::Host;
use crate::config::{SHARED_FILE, gates_in};
use crate::worktree::marked;

/// Stands for a tree that could not be determined; no judgement has it.
const UNKNOWN: &str = "unknown";

/// Where a task's work is.
#[derive(Clone, Debug)]
pub enum Workplace {
    Checkout(Place),
    /// Its branch is not checked out here. The place is any checkout of the repository.
    Branch(Place, String),
    /// There is no git here.
    Folder(PathBuf),
}

impl Workplace {
    /// The folder in which commands can be run, if any.
    pub fn root(&self) -> Option<&Path> {
        match self {
            Workplace::Checkout(place) => Some(&place.root),
            Workplace::Branch(..) => None,
            Workplace::Folder(folder) => Some(folder),
        }
    }

    /// The tree to be judged; None outside git.
    pub fn tree(&self) -> Result<Option<TreeId>, Refusal> {
        match self {
            Workplace::Checkout(place) => tree_in(place).map(Some).map_err(|error| {
                let message = format!("what is in {} cannot be told: {error}", place.root.display());
                Refusal::new(Code::Unavailable, message).next(Step::plain("commit what is there"))
            }),
            Workplace::Branch(place, branch) => Ok(tree_of_branch(place, branch)),
            Workplace::Folder(_) => Ok(None),
        }
    }

    /// The commit that the task's work began at, if it has a branch of its own.
    pub fn base(&self, task: &TaskView) -> Option<String> {
        let (place, branch) = match self {
            Workplace::Checkout(place) => (place, None),
            Workplace::Branch(place, branch) => (place, Some(branch.as_str())),
            Workplace::Folder(_) => return None,
        };
        task.branch.as_ref()?;
        let target = task.target.as_deref().and_then(|target| base_of(place, branch, target));
        target.or_else(|| task.base.clone())
    }

    /// A checkout of the repository.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Workplace::Checkout(place) | Workplace::Branch(place, _) => Some(place),
            Workplace::Folder(_) => None,
        }
    }
}

impl Host {
    /// Where a task's work is.
    pub fn workplace(&self, task: &TaskView) -> Workplace {
        let Some(here) = &self.place else { return Workplace::Folder(self.folder.clone()) };
        let attached = task.lease.as_ref().filter(|lease| lease.live).and_then(|lease| {
            let place = discover(Path::new(lease.worktree.as_ref()?))?;
            let is_it =
                lease.worktree_id.is_none() || marked(&place).map(|id| id.to_string()) == lease.worktree_id;
            (is_it && place.common_dir == here.common_dir).then_some(place)
        });
        if let Some(place) = attached {
            return Workplace::Checkout(place);
        }
        match &task.branch {
            Some(branch) if here.branch.as_ref() != Some(branch) => self.where_branch_is(here, branch),
            _ => Workplace::Checkout(here.clone()),
        }
    }

    fn where_branch_is(&self, here: &Place, branch: &str) -> Workplace {
        let worktrees = Worktrees::of(here).ok().flatten();
        let all = worktrees.and_then(|worktrees| worktrees.list().ok()).unwrap_or_default();
        let linked = all.iter().find(|linked| linked.branch.as_deref() == Some(branch));
        match linked.and_then(onus_repo::worktrees::Linked::place) {
            Some(place) => Workplace::Checkout(place),
            None if tree_of_branch(here, branch).is_some() => {
                Workplace::Branch(here.clone(), branch.to_owned())
            }
            None => Workplace::Checkout(here.clone()),
        }
    }

    /// The gates that are defined where a task's work is.
    pub fn gates_at(&self, workplace: &Workplace) -> Result<Vec<Gate>, Refusal> {
        let is_here = |root: &Path| self.place.as_ref().is_some_and(|here| here.root == root);
        match workplace {
            Workplace::Checkout(place) if !is_here(&place.root) => {
                match read_inside(&place.root, &place.root.join(SHARED_FILE)) {
                    Ok(text) => gates_in(&text),
                    Err(Unreadable::Missing) => Ok(Vec::new()),
                    Err(why) => Err(Refusal::usage(format!("cannot use {SHARED_FILE}: {why}"))),
                }
            }
            _ => Ok(self.config.gates().to_vec()),
        }
    }

    /// The gates of a task: those defined where its work is, and for its landing those of its target, as the lander reads them.
    pub fn gates_of(&self, task: &TaskView, workplace: &Workplace) -> Result<Vec<Gate>, Refusal> {
        let mut gates = self.gates_at(workplace)?;
        let at_target = || {
            task.branch.as_ref()?;
            let lander = Lander::of(workplace.place()?).ok()??;
            let tips = lander.tips(task.target.as_deref()?).ok()?;
            let text = lander.file_at(tips.landed.as_ref().unwrap_or(&tips.branch), SHARED_FILE).ok()?;
            gates_in(&text.unwrap_or_default()).ok()
        };
        if let Some(at_target) = at_target() {
            gates.retain(|gate| gate.stage != Stage::Land);
            let is_new = |gate: &Gate| !gates.iter().any(|own| own.key == gate.key);
            let landing: Vec<Gate> =
                at_target.into_iter().filter(|gate| gate.stage == Stage::Land && is_new(gate)).collect();
            gates.extend(landing);
        }
        Ok(gates)
    }

    /// Checks the gates that a task is to name: one that the project does not define is refused.
    pub fn known_gates(&self, keys: Vec<GateKey>) -> Result<BTreeSet<GateKey>, Refusal> {
        let gates = self.config.gates();
        match keys.iter().find(|key| !gates.iter().any(|gate| gate.key == **key)) {
            Some(key) => Err(unknown_gate(key.as_str(), gates)),
            None => Ok(keys.into_iter().collect()),
        }
    }

    /// What a task has to pass at a stage.
    pub fn demand(&self, task: &Landable, workplace: &Workplace, stage: Stage) -> Result<Demand, Refusal> {
        let all = match stage {
            Stage::Land => self.gates_of(&task.view, workplace)?,
            Stage::Before | Stage::Done => self.gates_at(workplace)?,
        };
        let mut demand = at_stage(&all, stage);
        let facts = &task.task.facts;
        let may_apply = |gate: &&Gate| gate.is_for(facts, ChangedBy::Unknown);
        if stage == Stage::Before || !demand.gates.iter().any(|gate| may_apply(&gate)) {
            return Ok(demand);
        }
        demand.tree = workplace.tree()?;
        let by_path = demand.gates.iter().filter(may_apply).any(|gate| !gate.applies.paths.is_empty());
        if by_path
            && let (Some(place), Some(base), Some(tree)) =
                (workplace.place(), workplace.base(&task.view), &demand.tree)
        {
            // If the changes are unknown, a gate applies to every task.
            demand.changed = changed_between(place, &base, tree).ok();
        }
        Ok(demand)
    }

    /// Adds to a command the gates that it requires here. Without gates nothing is read.
    pub(crate) fn with_gates(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        mut command: Command,
    ) -> Command {
        let gates = self.config.gates();
        match &mut command {
            Command::OnTask { act: Act::Claim(terms) | Act::Takeover(terms), .. }
            | Command::ClaimNext(terms)
                if !gates.is_empty() =>
            {
                terms.demand = Some(at_stage(gates, Stage::Before));
            }
            Command::OnTask { act: Act::Edit(edit), .. } => edit.defined = gates.to_vec(),
            Command::OnTask { task, act: Act::Move { verb, demand, .. }, .. }
                if matches!(verb, Verb::Done | Verb::Submit | Verb::Approve) =>
            {
                *demand = self.asked_at_the_end(engine, identity, task.as_ref(), *verb);
            }
            _ => {}
        }
        command
    }

    /// What a task has to pass to be done, submitted or approved. Approving is the review itself; submitting asks for judges, so only
    /// gates that can be run must have passed.
    fn asked_at_the_end(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        task: Option<&TaskRef>,
        verb: Verb,
    ) -> Option<Demand> {
        // A task's worktree may define gates that this checkout lacks, but without any here it is not searched.
        let all = self.config.gates();
        if all.is_empty() {
            return None;
        }
        // If the request itself is wrong, its answer will say so.
        let task = engine.landable(Some(identity), task).ok()?.value;
        let workplace = self.workplace(&task.view);
        let demand = self.demand(&task, &workplace, Stage::Done);
        let mut demand = demand
            .unwrap_or_else(|_| Demand { tree: Some(UNKNOWN.to_owned()), ..at_stage(all, Stage::Done) });
        if verb == Verb::Approve {
            let is_review = |gate: &&Gate| gate.stage == Stage::Land && gate.kind == GateKind::Review;
            demand.gates.extend(all.iter().filter(is_review).cloned());
            if demand.tree.is_none() && !demand.gates.is_empty() {
                demand.tree = workplace.tree().ok().flatten();
            }
        } else {
            // On a task that nobody holds, the command is also a claim.
            demand.gates.extend(at_stage(all, Stage::Before).gates);
        }
        if verb == Verb::Submit {
            demand.gates.retain(|gate| gate.kind.is_run() || gate.stage == Stage::Before);
        }
        Some(demand)
    }
}

/// What the gates of one stage demand, before a tree is known.
fn at_stage(all: &[Gate], stage: Stage) -> Demand {
    let gates = all.iter().filter(|gate| gate.stage == stage).cloned().collect();
    Demand { gates, known: all.iter().map(|gate| gate.key.clone()).collect(), ..Demand::default() }
}

pub fn unknown_gate(key: &str, gates: &[Gate]) -> Refusal {
    let known: Vec<&str> = gates.iter().map(|gate| gate.key.as_str()).collect();
    let known = match known.is_empty() {
        true => format!("{SHARED_FILE} of this checkout defines none"),
        false => format!("defined: {}", known.join(", ")),
    };
    Refusal::usage(format!("unknown gate '{}'; {known}", shortened(key)))
}
