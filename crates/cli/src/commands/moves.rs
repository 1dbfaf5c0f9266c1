//! The commands that only move a task from one state to another.

use clap::Subcommand;
use onus_core::transition::Verb;
use onus_engine::TaskView;

use crate::args::{MoveArgs, Targets};
use crate::context::Context;

#[derive(Subcommand, Debug)]
pub(crate) enum Move {
    /// Accept a proposed task, which makes it open
    Accept(MoveArgs),
    /// Mark a task as blocked; if you hold it, your lease ends
    Block(MoveArgs),
    /// Unblock a task, which makes it open again
    Unblock(MoveArgs),
    /// Submit the task you hold for review; your lease ends
    Submit(MoveArgs),
    /// Approve a task in review, which makes it done
    ///
    /// Only for actors who have not worked on it since it was last opened.
    Approve(MoveArgs),
    /// Reject a task in review: it reopens, kept for its submitter for a while
    Reject(MoveArgs),
    /// Mark a task as failed; if you hold it, your lease ends
    Fail(MoveArgs),
    /// Drop a task that will not be done
    Drop(MoveArgs),
    /// Reopen a finished or dropped task
    ///
    /// A dropped proposal is a proposal again, and a dropped task that had failed has failed: reopening neither accepts nor retries.
    #[command(mut_arg("tasks", Targets::unheld))]
    Reopen(MoveArgs),
}

pub(crate) fn run(context: &Context, step: Move) -> super::ExitCode {
    let (verb, how, past) = match step {
        Move::Accept(how) => (Verb::Accept, how, "accepted"),
        Move::Block(how) => (Verb::Block, how, "is blocked"),
        Move::Unblock(how) => (Verb::Unblock, how, "is open again"),
        Move::Submit(how) => (Verb::Submit, how, "is in review"),
        Move::Approve(how) => (Verb::Approve, how, "is approved and done"),
        Move::Reject(how) => (Verb::Reject, how, "goes back to its submitter"),
        Move::Fail(how) => (Verb::Fail, how, "has failed"),
        Move::Drop(how) => (Verb::Drop, how, "is dropped"),
        // The state depends on what the task was before.
        Move::Reopen(how) => {
            let past = |task: &TaskView| format!("is {} again", task.state.spoken());
            return super::shift_to(context, Verb::Reopen, how, past);
        }
    };
    super::shift(context, verb, how, past)
}
