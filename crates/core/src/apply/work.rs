//! Stretches: the work that events record, and when a lease's work begins.

use crate::event::Event;
use crate::stretch::{Recorded, Stretch, Work, Worked, pieces};
use crate::task::Task;
use crate::time::{Moment, Tick};

use super::{LeaseChange, Misplaced, RowChange, of_lease, token_of};

/// Counts the event's work for its task, and for its lease unless the change that ends or revives the lease counts it.
pub(super) fn record(task: &mut Task, event: &Event, changes: &mut Vec<RowChange>) -> Result<(), Misplaced> {
    if event.stretches.is_empty() && event.waited_ms == 0 {
        return Ok(());
    }
    task.effort_ms = task.effort_ms.saturating_add(Worked::of(&event.stretches).active_ms);
    let is_counted = |change: &RowChange| {
        use LeaseChange::{End, Revive};
        matches!(change, RowChange::OfLease { change: End { .. } | Revive { .. }, .. })
    };
    if !changes.iter().any(is_counted) {
        let (stretches, waited_ms) = (event.stretches.clone(), event.waited_ms);
        changes.push(of_lease(task, event, LeaseChange::RecordWork { stretches, waited_ms })?);
    }
    if event.stretches.is_empty() {
        return Ok(());
    }
    let rows = event.stretches.iter().copied().flat_map(pieces).zip(0..);
    let recorded = |(piece, place): (Stretch, u64)| -> Result<Recorded, Misplaced> {
        Ok(Recorded {
            task: task.uid,
            token: token_of(event)?,
            version: event.version,
            place,
            actor: None,
            start_ms: piece.start_ms,
            active_ms: piece.active_ms,
        })
    };
    changes.push(RowChange::AddStretches(rows.map(recorded).collect::<Result<_, _>>()?));
    Ok(())
}

/// The work of a lease that begins now. A task that is only reserved has none yet.
pub(super) fn begun(now: &Moment, own_clock: Option<&Tick>, reserve: bool) -> Work {
    if reserve { Work::default() } else { Work::begun(now, own_clock) }
}
