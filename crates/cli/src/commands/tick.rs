use onus_core::command::Act;
use onus_core::ids::TaskRef;
use onus_core::refusal::{Refusal, Step};

use crate::args::{ForceArgs, Key, Target};
use crate::context::Context;

/// Mark an acceptance line of a task as met
///
/// The ledger records who ticked it, and when. While a task is held, only its holder and people may tick its lines.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task and the line's number, as `onus show` prints it; or only the number, for the one task you hold
    #[arg(value_name = "[ID] LINE", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// Take the tick back
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (task, line) = match args.words.as_slice() {
        [line] => (None, line),
        [task, line] => (Some(task.parse::<TaskRef>()?), line),
        _ => return Err(Refusal::usage("give one line, and at most one task").next(Step::HelpOn("tick"))),
    };
    let line = line.parse().map_err(|_| {
        let line = onus_core::ids::shortened(line);
        Refusal::usage(format!("'{line}' is not a line number")).next(Step::HelpOn("tick"))
    })?;
    let past = if args.undo { "unticked" } else { "ticked" };
    let act = Act::Tick { line, undo: args.undo };
    super::act(context, Target { task }, act, Some(&args.force), args.key, past)
}
