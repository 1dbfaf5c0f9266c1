//! Finds who holds a lock that could not be obtained in time.
//!
//! Anyone who may connect to a database can take any of its advisory locks; only the right to connect limits
//! that. So a caller that gives up names the session that held the lock. It asks over a separate connection:
//! rolling back the failed transaction is up to its owner.

use std::time::Duration;

use crate::{Blocker, StoreError};

use super::Address;
use super::connection::Connection;
use super::session::MARK;

/// How long to look: the error must be reported soon.
const LOOKING: Duration = Duration::from_secs(1);

/// A requested lock: its number, and whether it would have been shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdvisoryLock {
    pub(super) key: i64,
    pub(super) shared: bool,
}

/// Adds the session that holds this lock to an error, if the error is about a lock and one still holds it.
/// The caller may have waited for something else, such as a row, so only a session that must have been in the
/// way is named.
pub(super) fn with_blocker(error: StoreError, address: &Address, lock: AdvisoryLock) -> StoreError {
    match error {
        StoreError::Busy { pid: None, waited } => match in_the_way(address, lock) {
            Some(by) => StoreError::Blocked { by, waited },
            None => StoreError::Busy { pid: None, waited },
        },
        error => error,
    }
}

/// The session that holds this lock (exclusively, if it would have been shared), or holds exclusively what
/// can only be a writer's mark. Never the session of the failed transaction, which may hold the lock itself.
fn in_the_way(address: &Address, lock: AdvisoryLock) -> Option<Blocker> {
    let sql = format!(
        "SELECT pid, usename::text, application_name FROM pg_locks LEFT JOIN pg_stat_activity USING (pid) \
         WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid IS NOT NULL \
         AND ((((classid::bigint << 32) | objid::bigint) = $1 AND (NOT $2 OR mode = 'ExclusiveLock')) \
             OR (classid::bigint >> 16 = {MARK} AND mode = 'ExclusiveLock')) \
         AND state IS DISTINCT FROM 'idle in transaction (aborted)' \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         ORDER BY mode = 'ExclusiveLock' DESC, pid LIMIT 1"
    );
    let rows =
        Connection::open(&address.within(LOOKING)).ok()?.query(&sql, &[&lock.key, &lock.shared]).ok()?;
    let row = rows.first()?;
    Some(Blocker { pid: row.try_get(0).ok()?, role: row.try_get(1).ok()?, program: row.try_get(2).ok()? })
}
