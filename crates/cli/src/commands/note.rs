use onus_core::command::Act;
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;

use crate::args::{ForceArgs, Key, Target, text_or_stdin};
use crate::context::Context;

/// Write a note on a task, for its holder and for whoever comes next
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task, then the text; or the text alone for the one task that you hold (- reads standard input)
    #[arg(value_name = "[ID] TEXT", num_args = 1..=2, required = true)]
    words: Vec<String>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (task, text) = match args.words.as_slice() {
        [text] if text.parse::<TaskRef>().is_ok() => {
            return Err(Refusal::usage(format!("note what? write onus note {text} 'text'")));
        }
        [text] => (None, text),
        [task, text] => (Some(task.parse::<TaskRef>()?), text),
        _ => return Err(Refusal::usage("write onus note ID 'text'")),
    };
    let text = text_or_stdin(text.clone())?;
    super::act(context, Target { task }, Act::Note { text }, Some(&args.force), args.key, "noted")
}
