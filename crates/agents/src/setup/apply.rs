//! Carries out a plan. If it fails half-way, everything is restored.

use std::path::PathBuf;

use onus_core::refusal::{Code, Refusal, Step};

use super::plan::{Change, Keep, Plan};
use super::{Level, SetupEnv, files, receipt};

onus_core::spelled! {
    /// What became of a file.
    Done {
        Created = "created",
        Changed = "changed",
        /// It is byte for byte what it was before onus was set up.
        Restored = "restored",
        Removed = "removed",
        Unchanged = "unchanged",
    }
}

impl Done {
    /// The outcome of a change.
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

/// What to restore if a later file fails.
struct Undo<'a> {
    change: &'a Change,
    /// The folders made for the file, and for its receipt.
    made: Vec<PathBuf>,
    receipt: Option<receipt::Receipt>,
}

/// Writes a plan: all of it, or nothing.
pub fn apply(setup_env: &SetupEnv<'_>, plan: &Plan) -> Result<Vec<Done>, Refusal> {
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
            Undo { change, made: Vec::new(), receipt: receipt::load(&setup_env.receipts, &change.real) };
        let outcome = write(setup_env, change, &mut step.made);
        undo.push(step);
        if let Err(refusal) = outcome {
            put_back(setup_env, &undo);
            return Err(refusal.next(Step::plain("nothing was changed")));
        }
    }
    // Only now, since up to here everything can be restored.
    for change in &plan.changes {
        if change.receipt == Keep::Forget {
            // A receipt that stays no longer matches its file, so it is ignored.
            let _ = receipt::forget(&setup_env.receipts, &change.real);
        }
        if change.after.is_none() {
            files::remove_folders(&change.made);
        }
    }
    Ok(plan.changes.iter().map(Done::of).collect())
}

fn write(setup_env: &SetupEnv<'_>, change: &Change, made: &mut Vec<PathBuf>) -> Result<(), Refusal> {
    let mut folders = Vec::new();
    if change.changes() && change.after.is_some() {
        folders = files::make_folders(&change.real)?;
        made.extend(folders.iter().cloned());
    }
    // Before the file: after a kill in between, the receipt does not match the unwritten file, and is ignored.
    if let Keep::Save(receipt) = &change.receipt {
        let mut receipt = receipt.clone();
        receipt.made.extend(folders);
        made.extend(receipt::save(&setup_env.receipts, &change.real, &receipt)?);
    }
    if !change.changes() {
        return Ok(());
    }
    match &change.after {
        Some(text) => {
            let mode = if setup_env.level == Level::User { 0o600 } else { 0o666 };
            files::write(&change.real, text, mode)
        }
        None => files::remove(&change.real),
    }
}

fn put_back(setup_env: &SetupEnv<'_>, undo: &[Undo<'_>]) {
    for step in undo.iter().rev() {
        let Undo { change, made, receipt } = step;
        if change.changes() {
            let _ = match &change.before {
                Some(text) => files::write(&change.real, text, 0o600),
                None => files::remove(&change.real),
            };
        }
        let _ = match receipt {
            Some(receipt) => receipt::save(&setup_env.receipts, &change.real, receipt).map(drop),
            None => receipt::forget(&setup_env.receipts, &change.real),
        };
        for folder in made.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
