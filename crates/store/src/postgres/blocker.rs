//! Who holds a lock that could not be obtained in time.
//!
//! Anyone who may connect to a database can take any of its advisory locks; only the right to connect limits that.
//! So a caller that gives up names the session that held the lock. It asks over a separate connection: the failed transaction is
//! its owner's to roll back.

use std::time::Duration;

use crate::{Blocker, StoreError};

use super::Address;
use super::connection::Connection;
use super::session::MARK;

/// How long it is looked for: what is known already is told soon.
const LOOKING: Duration = Duration::from_secs(1);

/// A lock that was asked for: its number, and whether it would have been shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdvisoryLock {
    pub(super) key: i64,
    pub(super) shared: bool,
}

/// The same error with the name of the session that has this lock, if it was given up for a lock and one has it still. What
/// was waited for may have been something else, a row: so only a session that must have been in the way is named.
pub(super) fn named(error: StoreError, address: &Address, lock: AdvisoryLock) -> StoreError {
    match error {
        StoreError::Busy { pid: None, waited } => match in_the_way(address, lock) {
            Some(by) => StoreError::Blocked { by, waited },
            None => StoreError::Busy { pid: None, waited },
        },
        error => error,
    }
}

/// Who has this lock, alone if it would have been shared, or alone what can only be a writer's mark. Not the session that
/// asks: if it holds a part of it, it is the one that just failed.
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
