//! What is asked for: which gates are defined where a task's work is, and what is there to be judged.
//!
//! **Where a task's work is:** in the checkout that its lease is attached to, if that is one of this repository's here; else where its own
//! branch is checked out; else in that branch alone; and a task that has neither is worked on wherever it is spoken of.
//!
//! **What is judged there:** [`onus_repo::judged::tree_in`], for those who run gates and for those who ask whether they passed alike, so
//! that what was judged is found again. Before work there is nothing to judge: what `before` gates came to belongs to no tree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use onus_core::command::{Act, Command, Terms};
use onus_core::gate::{Demand, Gate, GateKey, GateKind, Stage, TreeId, Work};
use onus_core::ids::{TaskRef, shortened};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::transition::Verb;
use onus_engine::{Engine, Identity, Landable, TaskView};
use onus_repo::judged::{base_of, changed_between, tree_in, tree_of_branch};
use onus_repo::landing::Lander;
use onus_repo::worktrees::Worktrees;
use onus_repo::{Place, Unreadable, discover, read_inside};
use onus_store::AnyStore;

use crate::Host;
use crate::config::{SHARED_FILE, gates_in};
use crate::worktree::marked;

/// What cannot be told is no tree that anybody judged.
const UNKNOWN: &str = "unknown";

/// Where a task's work is.
#[derive(Clone, Debug)]
pub enum Workplace {
    Checkout(Place),
    /// Nobody has its branch checked out here. The place is any checkout of the repository.
    Branch(Place, String),
    /// There is no git here.
    Folder(PathBuf),
}

impl Workplace {
    /// Where commands can be run, if anywhere.
    pub fn root(&self) -> Option<&Path> {
        match self {
            Workplace::Checkout(place) => Some(&place.root),
            Workplace::Branch(..) => None,
            Workplace::Folder(folder) => Some(folder),
        }
    }

    /// What is there to be judged. None: there is no git here.
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

    /// The gates of a task: those of where its work is, and for its landing those of its target, as the lander reads them.
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

    /// Gates that a task is to name: one that the project does not define is refused.
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
        let known = all.iter().map(|gate| gate.key.clone()).collect();
        let gates: Vec<Gate> = all.into_iter().filter(|gate| gate.stage == stage).collect();
        let mut demand = Demand { gates, known, ..Demand::default() };
        let facts = &task.task.facts;
        let may_apply = |gate: &&Gate| gate.is_for(facts, Work::Unknown);
        if stage == Stage::Before || !demand.gates.iter().any(|gate| may_apply(&gate)) {
            return Ok(demand);
        }
        demand.tree = workplace.tree()?;
        let by_path = demand.gates.iter().filter(may_apply).any(|gate| !gate.applies.paths.is_empty());
        if by_path
            && let (Some(place), Some(base), Some(tree)) =
                (workplace.place(), workplace.base(&task.view), &demand.tree)
        {
            // Nobody knows what cannot be told: then a gate is for every task.
            demand.changed = changed_between(place, &base, tree).ok();
        }
        Ok(demand)
    }

    /// The same command, with the gates that are asked for where it is given. Without gates nothing is read.
    pub(crate) fn with_gates(
        &self,
        engine: &mut Engine<AnyStore>,
        identity: &Identity,
        mut command: Command,
    ) -> Command {
        match &mut command {
            Command::OnTask { act: Act::Claim(terms) | Act::Takeover(terms), .. }
            | Command::ClaimNext(terms) => self.ask_before(terms),
            Command::OnTask { act: Act::Edit(edit), .. } => edit.defined = self.config.gates().to_vec(),
            Command::OnTask { task, act: Act::Move { verb, demand, .. }, .. }
                if matches!(verb, Verb::Done | Verb::Submit | Verb::Approve) =>
            {
                *demand = self.asked_at_the_end(engine, identity, task.as_ref(), *verb);
            }
            _ => {}
        }
        command
    }

    fn ask_before(&self, terms: &mut Terms) {
        let all = self.config.gates();
        if !all.is_empty() {
            let gates = all.iter().filter(|gate| gate.stage == Stage::Before).cloned().collect();
            let known = all.iter().map(|gate| gate.key.clone()).collect();
            terms.demand = Some(Demand { gates, known, ..Demand::default() });
        }
    }

    /// Whoever approves is the review; whoever submits asks for judges, and has run what can be run.
    fn asked_at_the_end(
        &self,
        engine: &mut Engine<AnyStore>,
        identity: &Identity,
        task: Option<&TaskRef>,
        verb: Verb,
    ) -> Option<Demand> {
        // A task's worktree may define gates that this checkout does not have yet; without any here it is not looked for.
        if self.config.gates().is_empty() {
            return None;
        }
        // Whatever is wrong with the request itself, its answer says.
        let task = engine.landable(Some(identity), task).ok()?.value;
        let workplace = self.workplace(&task.view);
        let mut demand = self.demand(&task, &workplace, Stage::Done).unwrap_or_else(|_| Demand {
            gates: self.config.gates().iter().filter(|gate| gate.stage == Stage::Done).cloned().collect(),
            known: self.config.gates().iter().map(|gate| gate.key.clone()).collect(),
            tree: Some(UNKNOWN.to_owned()),
            ..Demand::default()
        });
        if verb != Verb::Approve {
            // On a task that nobody holds it is also a claim.
            let all = self.config.gates().iter();
            demand.gates.extend(all.filter(|gate| gate.stage == Stage::Before).cloned());
        }
        if verb == Verb::Approve {
            let all = self.config.gates().iter();
            let reviews = all.filter(|gate| gate.stage == Stage::Land && gate.kind == GateKind::Review);
            demand.gates.extend(reviews.cloned());
            if demand.tree.is_none() && !demand.gates.is_empty() {
                demand.tree = workplace.tree().ok().flatten();
            }
        }
        demand.gates.retain(|gate| match verb {
            Verb::Submit => gate.kind.is_run() || gate.stage == Stage::Before,
            // A task without a branch of its own may have been left behind by what others did since it was submitted.
            Verb::Approve => gate.kind == GateKind::Review || task.view.branch.is_some(),
            _ => true,
        });
        Some(demand)
    }
}

pub fn unknown_gate(key: &str, gates: &[Gate]) -> Refusal {
    let known: Vec<&str> = gates.iter().map(|gate| gate.key.as_str()).collect();
    let known = match known.is_empty() {
        true => format!("{SHARED_FILE} of this checkout defines none"),
        false => format!("defined: {}", known.join(", ")),
    };
    Refusal::usage(format!("unknown gate '{}'; {known}", shortened(key)))
}
