//! Rebuilding every row from the ledger: see [`crate::rows::rebuild`].

use rusqlite::TransactionBehavior;

use crate::rows::rebuild::{Purpose, run};
use crate::{Progress, Rebuilt, Result};

use super::read::Session;
use super::watch::CommitSignal;
use super::{SqliteStore, commit, failed};

pub(super) fn rebuild(store: &mut SqliteStore, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
    // Whoever could not mend is told so before the long work.
    drop(store.lock_writer()?);
    let compared = compare(store, progress)?;
    if compared.changed.is_empty() {
        return Ok(compared);
    }
    let _lock = store.lock_writer()?;
    let transaction = store
        .connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| failed(&error, &store.path))?;
    let mut session = Session::begin(&transaction, &store.path, &store.clock, &store.project)?;
    let rebuilt = run(&mut session, Purpose::Mend, progress)?;
    let _signal = CommitSignal::take(&store.path);
    transaction.commit().map_err(|error| commit::settle(&store.connection, &store.path, &error))?;
    Ok(rebuilt)
}

/// What a rebuild would change, from one snapshot and without changing it.
pub(super) fn compare(store: &mut SqliteStore, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
    let transaction = store
        .connection
        .transaction_with_behavior(TransactionBehavior::Deferred)
        .map_err(|error| failed(&error, &store.path))?;
    let mut session = Session::begin(&transaction, &store.path, &store.clock, &store.project)?;
    run(&mut session, Purpose::Compare, progress)
}
