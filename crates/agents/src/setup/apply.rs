//! Carries out a plan. If it fails half-way, everything is restored.

use std::path::PathBuf;

use onus_core::refusal::{Code, Refusal, Step};

use super::plan::{Change, Keep, Plan};
use super::{Ground, Level, files, receipt};

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Created,
    Changed,
    /// As it was, byte for byte, before onus was set up.
    Restored,
    Removed,
    Unchanged,
}

impl Done {
    pub fn as_str(self) -> &'static str {
        match self {
            Done::Created => "created",
            Done::Changed => "changed",
            Done::Restored => "restored",
            Done::Removed => "removed",
            Done::Unchanged => "unchanged",
        }
    }

    /// What a change comes to.
    pub fn of(change: &Change) -> Done {
        match (&change.before, &change.after) {
            (before, after) if before == after => Done::Unchanged,
            (None, _) => Done::Created,
            (_, None) => Done::Removed,
            _ if change.restored => Done::Restored,
            _ => Done::Changed,
        }
    }
}

/// What has to be put back if a later file fails.
struct Undo<'a> {
    change: &'a Change,
    /// The folders made for the file, and for its receipt.
    made: Vec<PathBuf>,
    receipt: Option<receipt::Receipt>,
}

/// Writes a plan: all of it, or nothing.
pub fn apply(ground: &Ground<'_>, plan: &Plan) -> Result<Vec<Done>, Refusal> {
    for change in plan.changes.iter().filter(|change| change.changes()) {
        let seen = files::look(&change.path, &change.bounds)?;
        if seen.real != change.real || seen.text != change.before {
            let message = format!("{}: changed in the meantime", change.path.display());
            return Err(
                Refusal::new(Code::Changed, message).next(Step::plain("run it again: nothing was written"))
            );
        }
    }
    let mut undo = Vec::new();
    for change in &plan.changes {
        let mut step =
            Undo { change, made: Vec::new(), receipt: receipt::load(&ground.receipts, &change.real) };
        let outcome = write(ground, change, &mut step.made);
        undo.push(step);
        if let Err(refusal) = outcome {
            put_back(ground, &undo);
            return Err(refusal.next(Step::plain("nothing was changed")));
        }
    }
    // Only now: until here everything can be put back.
    for change in &plan.changes {
        if change.receipt == Keep::Forget {
            // One that stays says of a file what is no longer so, and is not believed.
            let _ = receipt::forget(&ground.receipts, &change.real);
        }
        if change.after.is_none() {
            files::remove_folders(&change.made);
        }
    }
    Ok(plan.changes.iter().map(Done::of).collect())
}

fn write(ground: &Ground<'_>, change: &Change, made: &mut Vec<PathBuf>) -> Result<(), Refusal> {
    let mut folders = Vec::new();
    if change.changes() && change.after.is_some() {
        folders = files::make_folders(&change.real)?;
        made.extend(folders.iter().cloned());
    }
    // Before the file: should we be killed in between, the receipt of a file that was not written says nothing.
    if let Keep::Save(receipt) = &change.receipt {
        let mut receipt = receipt.clone();
        receipt.made.extend(folders);
        made.extend(receipt::save(&ground.receipts, &change.real, &receipt)?);
    }
    if !change.changes() {
        return Ok(());
    }
    match &change.after {
        Some(text) => {
            let mode = if ground.level == Level::User { 0o600 } else { 0o666 };
            files::write(&change.real, text, mode)
        }
        None => files::remove(&change.real),
    }
}

fn put_back(ground: &Ground<'_>, undo: &[Undo<'_>]) {
    for step in undo.iter().rev() {
        let Undo { change, made, receipt } = step;
        if change.changes() {
            let _ = match &change.before {
                Some(text) => files::write(&change.real, text, 0o600),
                None => files::remove(&change.real),
            };
        }
        let _ = match receipt {
            Some(receipt) => receipt::save(&ground.receipts, &change.real, receipt).map(drop),
            None => receipt::forget(&ground.receipts, &change.real),
        };
        for folder in made.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
