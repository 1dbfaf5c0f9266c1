//! Grants of requests that may still be cancelled.
//!
//! A client that cancels a request ignores its answer. Whether the cancellation arrives while the claim runs or after it was
//! answered depends on timing. So each grant is remembered under its request, and the first task that finds the request
//! cancelled takes the grant and releases the lease, once. A claim that only renewed a lease grants nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rmcp::model::RequestId;

use onus_core::command::{Act, Command};
use onus_core::ids::{TaskRef, Token};
use onus_core::refusal::Refusal;
use onus_core::transition::Verb;
use onus_engine::{Answer, Identity, Reply, Request};
use onus_store::Access;

use onus_host::Connection;

/// How many grants are remembered. A cancellation that crosses its answer does not arrive later than this many claims.
const MAX_GRANTS: usize = 64;

/// A lease that a claim was granted.
#[derive(Clone, Debug)]
pub(super) struct CancellableClaim {
    task: TaskRef,
    identity: Identity,
}

impl CancellableClaim {
    pub(super) fn of(reply: &Reply, identity: &Identity) -> Option<CancellableClaim> {
        let Answer::Lease { task, lease: Some(lease), renewed: false, .. } = &reply.answer else {
            return None;
        };
        let task: TaskRef = task.uid.parse().ok()?;
        let token = Some((Some(task.clone()), Token(lease.token)));
        Some(CancellableClaim { task, identity: Identity { token, ..identity.clone() } })
    }

    /// Ends the lease, unless it has ended otherwise.
    pub(super) fn give_back(self, connection: &Connection) -> Result<(), Refusal> {
        let mut engine = connection.host()?.engine(Access::Write)?;
        let message = Some("the claim was cancelled".to_owned());
        let act = Act::moved(Verb::Release, message);
        let command = Command::OnTask { task: Some(self.task), act, force: None };
        engine.run(&Request { identity: self.identity, command, key: None }).map(drop)
    }
}

/// Releases what the connection's own instance still holds: nobody will ever act as it again. Lapsed leases are left for a
/// takeover.
pub(super) fn give_back_all(connection: &Connection, identity: &Identity) -> Result<(), Refusal> {
    let mut engine = connection.host()?.engine(Access::Write)?;
    let status = engine.status(Some(identity))?.value;
    for held in status.held.iter().chain(&status.stalled).filter(|held| status.yours.contains(&held.id)) {
        let message = Some("the connection ended".to_owned());
        let act = Act::moved(Verb::Release, message);
        let command = Command::OnTask { task: Some(held.id.parse()?), act, force: None };
        engine.run(&Request { identity: identity.clone(), command, key: None })?;
    }
    Ok(())
}

#[derive(Debug, Default)]
pub(super) struct Grants(Mutex<VecDeque<(RequestId, CancellableClaim)>>);

impl Grants {
    pub(super) fn put(&self, id: RequestId, grant: CancellableClaim) {
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if grants.len() == MAX_GRANTS {
            grants.pop_front();
        }
        grants.push_back((id, grant));
    }

    pub(super) fn take(&self, id: &RequestId) -> Option<CancellableClaim> {
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = grants.iter().position(|(other, _)| other == id)?;
        grants.remove(place).map(|(_, grant)| grant)
    }
}
