use onus_core::command::Act;
use onus_core::ids::TaskRef;
use onus_core::refusal::{Refusal, Step};
use onus_core::task::NoteKind;

use crate::args::{ForceArgs, Key, Target, text_or_stdin};
use crate::context::Context;

/// Add a note to a task, for its current and later holders
///
/// `onus show` marks findings and decisions. What `onus done -m` says is the resolution.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task, then the text; or only the text, for the one task you hold (- reads standard input)
    #[arg(value_name = "[ID] TEXT", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// progress (the default), finding or decision
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<NoteKind>,
    /// A link to more about it; with --force, to the decision or approval that allows the override
    #[arg(long, value_name = "URL")]
    link: Option<String>,
    /// People only: override who holds the task, or a rule. Always with --reason, and recorded
    #[arg(long, requires = "reason")]
    force: bool,
    /// Why. Needed with --force
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    key: Key,
}

/// An unknown kind is told those that can be chosen: only finishing a task writes a resolution.
fn kind(text: &str) -> Result<NoteKind, String> {
    let unknown = |_| format!("'{text}' is not a kind of note: use progress, finding or decision");
    text.parse().map_err(unknown)
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (task, text) = match args.words.as_slice() {
        // A single word such as `jira:WEB-7` may well be a note.
        [text] if text.parse::<TaskRef>().is_ok_and(|id| !matches!(id, TaskRef::External { .. })) => {
            return Err(Refusal::usage("the text of the note is missing").next(Step::HelpOn("note")));
        }
        [text] => (None, text),
        [task, text] => (Some(task.parse::<TaskRef>()?), text),
        _ => return Err(Refusal::usage("give one text, and at most one task").next(Step::HelpOn("note"))),
    };
    let text = text_or_stdin(text.clone())?;
    let kind = args.kind.unwrap_or(NoteKind::Progress);
    let force = ForceArgs { force: args.force, reason: args.reason, link: args.link.clone() };
    let act = Act::Note { text, kind, link: args.link };
    super::act(context, Target { task }, act, Some(&force), args.key, "noted")
}
