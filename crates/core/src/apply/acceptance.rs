//! Acceptance lines: what must be true before a task counts as accepted, and who found it to be.

use crate::event::Event;
use crate::task::{AcceptanceLine, Task, Ticked};

use super::Misplaced;

pub(super) fn add(task: &mut Task, event: &Event) {
    task.acceptance.push(AcceptanceLine { version: event.version, ticked: None });
}

pub(super) fn tick(task: &mut Task, number: u64, event: &Event) -> Result<(), Misplaced> {
    line(task, number)?.ticked = Some(Ticked { by: event.actor.clone(), at_ms: event.at_ms });
    Ok(())
}

pub(super) fn untick(task: &mut Task, number: u64) -> Result<(), Misplaced> {
    line(task, number)?.ticked = None;
    Ok(())
}

/// Whatever was found true was true of work that is void now.
pub(super) fn void(task: &mut Task) {
    task.acceptance.iter_mut().for_each(|line| line.ticked = None);
}

fn line(task: &mut Task, number: u64) -> Result<&mut AcceptanceLine, Misplaced> {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let line = index.and_then(|index| task.acceptance.get_mut(index));
    line.ok_or(Misplaced("the event concerns an acceptance line that was never added"))
}
