//! Acceptance lines: what must be true before a task counts as accepted, and who ticked it.

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

fn line(task: &mut Task, number: u64) -> Result<&mut AcceptanceLine, Misplaced> {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let line = index.and_then(|index| task.acceptance.get_mut(index));
    line.ok_or(Misplaced("the event concerns an acceptance line that was never added"))
}
