//! Rebuilds every row from the ledger: see [`crate::rows::rebuild`].

use rusqlite::TransactionBehavior;

use crate::rows::rebuild::{Purpose, run};
use crate::{Progress, Rebuilt, Result};

use super::read::Session;
use super::watch::CommitSignal;
use super::{SqliteStore, begin, commit};

pub(super) fn rebuild(store: &mut SqliteStore, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
    // Fail before the long work if the store cannot be repaired.
    drop(store.lock_writer()?);
    let compared = compare(store, progress)?;
    if compared.changed.is_empty() {
        return Ok(compared);
    }
    let _lock = store.lock_writer()?;
    let transaction = begin(&mut store.connection, &store.path, TransactionBehavior::Immediate)?;
    let mut session = Session::begin(&transaction, &store.path, &store.clock, &store.project)?;
    let rebuilt = run(&mut session, Purpose::Mend, progress)?;
    let _signal = CommitSignal::take(&store.path);
    transaction.commit().map_err(|error| commit::settle(&store.connection, &store.path, &error))?;
    Ok(rebuilt)
}

/// What a rebuild would change, compared within one snapshot, without changing it.
pub(super) fn compare(store: &mut SqliteStore, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
    let transaction = begin(&mut store.connection, &store.path, TransactionBehavior::Deferred)?;
    let mut session = Session::begin(&transaction, &store.path, &store.clock, &store.project)?;
    run(&mut session, Purpose::Compare, progress)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use onus_core::ids::Uid;

    use super::*;

    #[test]
    fn a_judgement_that_no_event_reports_is_found_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, wait) = (folder.path().join("onus.db"), Duration::from_secs(5));
        let uid = |n: u128| Uid(uuid::Uuid::from_u128(n));
        let by = (&"human:a".parse().unwrap(), &"i".parse().unwrap());
        let mut store = SqliteStore::create(&path, &"ON".parse().unwrap(), uid(1), uid(2), by, wait).unwrap();
        let insert = "INSERT INTO judgement VALUES ('u1', 1, 'passed', 'human:a', 0, '{}')";
        store.connection.execute(insert, []).unwrap();
        let changed = vec![("judgement".to_owned(), 1)];
        assert_eq!(rebuild(&mut store, &mut |_| {}).unwrap().changed, changed);
        assert_eq!(rebuild(&mut store, &mut |_| {}).unwrap().changed, vec![]);
    }
}
