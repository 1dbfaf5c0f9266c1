//! Rebuilds every row from the ledger: see [`crate::rows::rebuild`]. A repair locks the whole project: others
//! wait meanwhile, or give up when their time is up.

use std::time::Duration;

use crate::rows::rebuild::{Purpose, run};
use crate::{Progress, Rebuilt, Result};

use super::session::Mode;
use super::{PostgresStore, failed};

/// The longest that one statement of a rebuild may take.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3_600);

pub(super) fn rebuild(store: &mut PostgresStore, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
    store.connection.set_patience(LONG);
    let rebuilt = match within(store, Purpose::Compare, progress) {
        Ok(compared) if !compared.changed.is_empty() => within(store, Purpose::Mend, progress),
        compared => compared,
    };
    store.connection.set_patience(store.address.patience());
    rebuilt
}

/// Runs one transaction that compares, or repairs.
fn within(
    store: &mut PostgresStore,
    purpose: Purpose,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt> {
    let mut session = store.session(match purpose {
        Purpose::Compare => Mode::Read,
        Purpose::Mend => Mode::Alone,
    });
    let rebuilt =
        session.batch("SET LOCAL statement_timeout = 0").and_then(|()| run(&mut session, purpose, progress));
    if rebuilt.is_err() {
        store.connection.rollback();
        return rebuilt;
    }
    let ended = store.connection.commit("COMMIT", None).and_then(|committed| committed);
    ended.map_err(|failure| failed(failure, &store.address))?;
    rebuilt
}
