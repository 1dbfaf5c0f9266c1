//! What would be written, worked out before anything is written.

use std::path::{Path, PathBuf};

use onus_core::refusal::Refusal;

use super::files::Bounds;
use super::receipt::{self, Receipt, hash};
use super::{AGENTS, Agent, Difference, Ground, Level, Part, State, Target, json, refused};

/// One file, and what becomes of it.
#[derive(Clone, Debug)]
pub struct Change {
    /// As it was named; a link has its own name here.
    pub path: PathBuf,
    pub(super) real: PathBuf,
    pub(super) bounds: Bounds,
    /// None: it is not there.
    pub before: Option<String>,
    /// None: it will not be there.
    pub after: Option<String>,
    /// Whose entries it is about.
    pub agents: Vec<&'static str>,
    /// What had our name or mark and was not as it is written, and is put right.
    pub differences: Vec<Difference>,
    /// It becomes byte for byte what it was before onus was set up.
    pub restored: bool,
    /// Others that are set up go on using what is in it.
    pub stays: bool,
    pub(super) receipt: Keep,
    /// Folders that were made for it, and go with it.
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
    /// The change of a file, by where it really lies: several agents, and links, may mean the same.
    fn of(&mut self, target: &Target) -> Result<&mut Change, Refusal> {
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
                    receipt: Keep::AsItIs,
                    made: Vec::new(),
                });
                self.changes.len() - 1
            }
        };
        Ok(&mut self.changes[at])
    }
}

fn all_targets(agent: &Agent, ground: &Ground<'_>, allow: bool) -> Result<Vec<Target>, Refusal> {
    let mut targets = (agent.targets)(ground)?;
    if allow
        && ground.level == Level::Project
        && let Some(store) = ground.store.as_deref().and_then(Path::to_str)
    {
        targets.extend((agent.allowance)(ground, store).map(|(target, _)| target));
    }
    Ok(targets)
}

/// Sets agents up; with `allow`, their sandboxes let them write the store too.
pub fn plan_setup(ground: &Ground<'_>, agents: &[&'static Agent], allow: bool) -> Result<Plan, Refusal> {
    let mut plan = Plan::default();
    let mut parts: Vec<(PathBuf, Vec<Part>)> = Vec::new();
    for agent in agents {
        for target in all_targets(agent, ground, allow)? {
            let change = plan.of(&target)?;
            let mut text = change.after.clone().unwrap_or_default();
            for part in &target.parts {
                let compared = part.compared(&text).map_err(|broken| refused(&target.path, &broken))?;
                change.differences.extend(compared.unwrap_or_default());
                text = part.put(&text).map_err(|broken| refused(&target.path, &broken))?;
            }
            if change.before.is_some() || !text.is_empty() {
                change.after = Some(text);
            }
            if !change.agents.contains(&agent.name) {
                change.agents.push(agent.name);
            }
            parts.push((change.real.clone(), target.parts));
        }
    }
    for change in &mut plan.changes {
        let parts = parts.iter().filter(|(real, _)| *real == change.real).flat_map(|(_, parts)| parts);
        change.receipt = receipt_of_setup(ground, change, parts)?;
    }
    Ok(plan)
}

/// What has to be remembered of a file that is set up.
fn receipt_of_setup<'a>(
    ground: &Ground<'_>,
    change: &Change,
    parts: impl Iterator<Item = &'a Part>,
) -> Result<Keep, Refusal> {
    let kept = receipt::load(&ground.receipts, &change.real);
    let unchanged_since =
        |receipt: &Receipt| change.before.as_deref().map(hash) == Some(receipt.after.clone());
    let kept_agents = kept.iter().flat_map(|receipt| receipt.agents.clone());
    let mut agents: Vec<String> = kept_agents.collect();
    for name in &change.agents {
        if !agents.iter().any(|known| known == name) {
            agents.push((*name).to_owned());
        }
    }
    let after = change.after.as_deref().map(hash).unwrap_or_default();
    let receipt = match kept {
        Some(receipt) if unchanged_since(&receipt) => Receipt { after, agents, ..receipt },
        // Nothing is written, so there is nothing to remember.
        _ if !change.changes() => return Ok(Keep::AsItIs),
        kept => Receipt {
            path: change.real.to_string_lossy().into_owned(),
            before: before_us(change, parts)?,
            after,
            agents,
            made: kept.map(|receipt| receipt.made).unwrap_or_default(),
        },
    };
    let same = receipt::load(&ground.receipts, &change.real).as_ref() == Some(&receipt);
    Ok(if same { Keep::AsItIs } else { Keep::Save(receipt) })
}

/// What the file says without us: as it is, unless something of ours is in it already. What only has our name comes back
/// when we go.
fn before_us<'a>(change: &Change, parts: impl Iterator<Item = &'a Part>) -> Result<Option<String>, Refusal> {
    let Some(before) = &change.before else { return Ok(None) };
    let mut text = before.clone();
    for part in parts {
        let without = part.is_anothers(&text).and_then(|anothers| match anothers {
            true => Ok(text.clone()),
            false => part.take(&text),
        });
        text = without.map_err(|broken| refused(&change.path, &broken))?;
    }
    let was_all_ours = text != *before && json::is_empty(&text);
    Ok((!was_all_ours).then_some(text))
}

/// Takes agents' set-up out again.
pub fn plan_removal(ground: &Ground<'_>, agents: &[&'static Agent]) -> Result<Plan, Refusal> {
    let mut plan = Plan::default();
    let mut parts: Vec<(PathBuf, Part)> = Vec::new();
    for agent in agents {
        for target in all_targets(agent, ground, true)? {
            let change = plan.of(&target)?;
            if !change.agents.contains(&agent.name) {
                change.agents.push(agent.name);
            }
            parts.extend(target.parts.into_iter().map(|part| (change.real.clone(), part)));
        }
    }
    for change in &mut plan.changes {
        let parts: Vec<&Part> =
            parts.iter().filter(|(real, _)| *real == change.real).map(|(_, part)| part).collect();
        take_out(ground, change, &parts, agents)?;
    }
    // What has nothing of ours is not part of it; what goes on being used is.
    plan.changes.retain(|change| change.changes() || change.receipt != Keep::AsItIs || change.stays);
    Ok(plan)
}

fn take_out(
    ground: &Ground<'_>,
    change: &mut Change,
    parts: &[&Part],
    agents: &[&'static Agent],
) -> Result<(), Refusal> {
    let kept = receipt::load(&ground.receipts, &change.real);
    let Some(before) = change.before.clone() else {
        change.receipt = if kept.is_some() { Keep::Forget } else { Keep::AsItIs };
        return Ok(());
    };
    let staying = staying(ground, change, kept.as_ref(), agents)?;
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
    let others = parts_of(ground, &staying, &change.real)?;
    change.stays = !staying.is_empty();
    let mut text = before.clone();
    for part in parts.iter().filter(|part| !others.contains(part)) {
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
        // Without a receipt, an empty folder that bears an agent's name was made for this file as likely as not.
        let folder = change.real.parent().filter(|folder| {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            AGENTS.iter().any(|agent| agent.folder == name.as_deref())
        });
        change.made.extend(folder.map(Path::to_owned));
    }
    change.after = (!was_all_ours).then_some(text);
    Ok(())
}

/// The agents that go on using a file: those in its receipt, else those that are set up elsewhere too.
fn staying(
    ground: &Ground<'_>,
    change: &Change,
    kept: Option<&Receipt>,
    leaving: &[&'static Agent],
) -> Result<Vec<&'static Agent>, Refusal> {
    let mut staying = Vec::new();
    for agent in AGENTS.iter().filter(|agent| !leaving.iter().any(|gone| gone.name == agent.name)) {
        let stays = match kept {
            Some(receipt) => receipt.agents.iter().any(|name| name == agent.name),
            None => uses(ground, agent, &change.real),
        };
        if stays {
            staying.push(agent);
        }
    }
    Ok(staying)
}

fn uses(ground: &Ground<'_>, agent: &Agent, real: &Path) -> bool {
    let Ok(targets) = (agent.targets)(ground) else { return false };
    let seen: Vec<_> = targets.iter().filter_map(|target| Some((target, target.look().ok()?))).collect();
    seen.iter().any(|(_, seen)| seen.real == real)
        && seen.iter().filter(|(_, seen)| seen.real != real).any(|(target, seen)| {
            let text = seen.text.as_deref().unwrap_or_default();
            target.parts.iter().any(|part| part.state(text).is_ok_and(|state| state != State::Missing))
        })
}

fn parts_of(ground: &Ground<'_>, agents: &[&'static Agent], real: &Path) -> Result<Vec<Part>, Refusal> {
    let mut parts = Vec::new();
    for agent in agents {
        for target in all_targets(agent, ground, true)? {
            if target.look()?.real == real {
                parts.extend(target.parts);
            }
        }
    }
    Ok(parts)
}
