//! Plans what to write, before anything is written.

use std::path::{Path, PathBuf};

use onus_core::refusal::Refusal;

use super::files::Bounds;
use super::receipt::{self, Receipt, hash};
use super::{AGENTS, Agent, Difference, Level, Part, SetupEnv, State, Target, json, refused};

/// The planned change of one file.
#[derive(Clone, Debug)]
pub struct Change {
    /// As named, with links not resolved.
    pub path: PathBuf,
    pub(super) real: PathBuf,
    pub(super) bounds: Bounds,
    /// None if it does not exist.
    pub before: Option<String>,
    /// None if it will not exist.
    pub after: Option<String>,
    /// The agents whose entries change.
    pub agents: Vec<&'static str>,
    /// Deviations in entries of ours that are corrected.
    pub differences: Vec<Difference>,
    /// It becomes byte for byte what it was before onus was set up.
    pub restored: bool,
    /// Other agents that are set up still use it.
    pub stays: bool,
    parts: Vec<Part>,
    pub(super) receipt: Keep,
    /// Folders that were made for it, and are removed with it.
    pub(super) made: Vec<PathBuf>,
}

impl Change {
    pub fn changes(&self) -> bool {
        self.before != self.after
    }
}

/// What becomes of a file's receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    AsItIs,
    Save(Receipt),
    Forget,
}

/// Everything that would be done.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub changes: Vec<Change>,
}

impl Plan {
    /// The change of a file, by its resolved path, since several agents and links may mean the same file.
    fn of(&mut self, target: &Target, agent: &Agent) -> Result<&mut Change, Refusal> {
        let seen = target.look()?;
        let at = match self.changes.iter().position(|change| change.real == seen.real) {
            Some(at) => at,
            None => {
                self.changes.push(Change {
                    path: target.path.clone(),
                    real: seen.real,
                    bounds: target.bounds.clone(),
                    before: seen.text.clone(),
                    after: seen.text,
                    agents: Vec::new(),
                    differences: Vec::new(),
                    restored: false,
                    stays: false,
                    parts: Vec::new(),
                    receipt: Keep::AsItIs,
                    made: Vec::new(),
                });
                self.changes.len() - 1
            }
        };
        let change = &mut self.changes[at];
        change.parts.extend_from_slice(&target.parts);
        if !change.agents.contains(&agent.name) {
            change.agents.push(agent.name);
        }
        Ok(change)
    }
}

fn all_targets(agent: &Agent, setup_env: &SetupEnv<'_>, allow: bool) -> Result<Vec<Target>, Refusal> {
    let mut targets = (agent.targets)(setup_env)?;
    if allow
        && setup_env.level == Level::Project
        && let Some(store) = setup_env.store.as_deref().and_then(Path::to_str)
    {
        targets.extend((agent.allowance)(setup_env, store).map(|(target, _)| target));
    }
    Ok(targets)
}

/// Plans setting agents up; with `allow`, also lets their sandboxes write the store.
pub fn plan_setup(setup_env: &SetupEnv<'_>, agents: &[&'static Agent], allow: bool) -> Result<Plan, Refusal> {
    let mut plan = Plan::default();
    for agent in agents {
        for target in all_targets(agent, setup_env, allow)? {
            let change = plan.of(&target, agent)?;
            let mut text = change.after.clone().unwrap_or_default();
            for part in &target.parts {
                let compared = part.compared(&text).map_err(|broken| refused(&target.path, &broken))?;
                change.differences.extend(compared.unwrap_or_default());
                text = part.put(&text).map_err(|broken| refused(&target.path, &broken))?;
            }
            if change.before.is_some() || !text.is_empty() {
                change.after = Some(text);
            }
        }
    }
    for change in &mut plan.changes {
        change.receipt = receipt_of_setup(setup_env, change)?;
    }
    Ok(plan)
}

/// The receipt to keep for a file that is set up.
fn receipt_of_setup(setup_env: &SetupEnv<'_>, change: &Change) -> Result<Keep, Refusal> {
    let kept = receipt::load(&setup_env.receipts, &change.real);
    let unchanged_since =
        |receipt: &Receipt| change.before.as_deref().map(hash) == Some(receipt.after.clone());
    let mut agents: Vec<String> = kept.iter().flat_map(|receipt| receipt.agents.clone()).collect();
    for name in &change.agents {
        if !agents.iter().any(|known| known == name) {
            agents.push((*name).to_owned());
        }
    }
    let after = change.after.as_deref().map(hash).unwrap_or_default();
    let receipt = match kept {
        Some(receipt) if unchanged_since(&receipt) => Receipt { after, agents, ..receipt },
        // Nothing is written, so there is nothing to record.
        _ if !change.changes() => return Ok(Keep::AsItIs),
        kept => Receipt {
            path: change.real.to_string_lossy().into_owned(),
            before: before_us(change)?,
            after,
            agents,
            made: kept.map(|receipt| receipt.made).unwrap_or_default(),
        },
    };
    let same = receipt::load(&setup_env.receipts, &change.real).as_ref() == Some(&receipt);
    Ok(if same { Keep::AsItIs } else { Keep::Save(receipt) })
}

/// The text of the file without our entries. An entry that only has our name is kept, and comes back on removal.
fn before_us(change: &Change) -> Result<Option<String>, Refusal> {
    let Some(before) = &change.before else { return Ok(None) };
    let mut text = before.clone();
    for part in &change.parts {
        let without = part.is_anothers(&text).and_then(|anothers| match anothers {
            true => Ok(text.clone()),
            false => part.take(&text),
        });
        text = without.map_err(|broken| refused(&change.path, &broken))?;
    }
    let was_all_ours = text != *before && json::is_empty(&text);
    Ok((!was_all_ours).then_some(text))
}

/// Plans removing agents' set-up.
pub fn plan_removal(setup_env: &SetupEnv<'_>, agents: &[&'static Agent]) -> Result<Plan, Refusal> {
    let mut plan = Plan::default();
    for agent in agents {
        for target in all_targets(agent, setup_env, true)? {
            plan.of(&target, agent)?;
        }
    }
    for change in &mut plan.changes {
        take_out(setup_env, change, agents)?;
    }
    // Files without entries of ours are dropped; those that other agents still use are reported.
    plan.changes.retain(|change| change.changes() || change.receipt != Keep::AsItIs || change.stays);
    Ok(plan)
}

fn take_out(setup_env: &SetupEnv<'_>, change: &mut Change, agents: &[&'static Agent]) -> Result<(), Refusal> {
    let kept = receipt::load(&setup_env.receipts, &change.real);
    let Some(before) = change.before.clone() else {
        change.receipt = if kept.is_some() { Keep::Forget } else { Keep::AsItIs };
        return Ok(());
    };
    let staying = staying(setup_env, change, kept.as_ref(), agents);
    if let Some(receipt) = &kept
        && receipt.after == hash(&before)
        && staying.is_empty()
    {
        change.after = receipt.before.clone();
        change.restored = true;
        change.made = receipt.made.clone();
        change.receipt = Keep::Forget;
        return Ok(());
    }
    let others = parts_of(setup_env, &staying, &change.real)?;
    change.stays = !staying.is_empty();
    let mut text = before.clone();
    for part in change.parts.iter().filter(|part| !others.contains(part)) {
        text = part.take(&text).map_err(|broken| refused(&change.path, &broken))?;
    }
    let was_there = kept.as_ref().is_some_and(|receipt| receipt.before.is_some());
    let was_all_ours = text != before && json::is_empty(&text) && !was_there;
    change.receipt = match kept {
        Some(receipt) if !staying.is_empty() => {
            let agents = staying.iter().map(|agent| agent.name.to_owned()).collect();
            Keep::Save(Receipt { after: hash(&text), agents, ..receipt })
        }
        Some(receipt) => {
            change.made = receipt.made;
            Keep::Forget
        }
        None => Keep::AsItIs,
    };
    if was_all_ours && change.made.is_empty() {
        // Without a receipt, an empty folder with an agent's name was probably made for this file.
        let folder = change.real.parent().filter(|folder| {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            AGENTS.iter().any(|agent| agent.folder == name.as_deref())
        });
        change.made.extend(folder.map(Path::to_owned));
    }
    change.after = (!was_all_ours).then_some(text);
    Ok(())
}

/// The agents that still use a file: those in its receipt, else those that are also set up elsewhere.
fn staying(
    setup_env: &SetupEnv<'_>,
    change: &Change,
    kept: Option<&Receipt>,
    leaving: &[&'static Agent],
) -> Vec<&'static Agent> {
    let others = AGENTS.iter().filter(|agent| !leaving.iter().any(|gone| gone.name == agent.name));
    let stays = |agent: &&Agent| match kept {
        Some(receipt) => receipt.agents.iter().any(|name| name == agent.name),
        None => uses(setup_env, agent, &change.real),
    };
    others.filter(stays).collect()
}

fn uses(setup_env: &SetupEnv<'_>, agent: &Agent, real: &Path) -> bool {
    let Ok(targets) = (agent.targets)(setup_env) else { return false };
    let seen: Vec<_> = targets.iter().filter_map(|target| Some((target, target.look().ok()?))).collect();
    seen.iter().any(|(_, seen)| seen.real == real)
        && seen.iter().filter(|(_, seen)| seen.real != real).any(|(target, seen)| {
            let text = seen.text.as_deref().unwrap_or_default();
            target.parts.iter().any(|part| part.state(text).is_ok_and(|state| state != State::Missing))
        })
}

fn parts_of(setup_env: &SetupEnv<'_>, agents: &[&'static Agent], real: &Path) -> Result<Vec<Part>, Refusal> {
    let mut parts = Vec::new();
    for agent in agents {
        for target in all_targets(agent, setup_env, true)? {
            if target.look()?.real == real {
                parts.extend(target.parts);
            }
        }
    }
    Ok(parts)
}
