use onus_core::command::{Act, Command};
use onus_core::ids::{TaskRef, Version};
use onus_core::text::Field;
use onus_store::{Access, Store as _};
use serde_json::json;

use crate::args::{Key, force_of, parse};
use crate::context::Context;
use crate::output::{escape_line, note};

/// Erase a text for good: a pasted secret, or at a person's request
///
/// The words and what they could be guessed from go from the store, its log and its search index. To be sure, the
/// store's file is written anew: writers wait for that. The ledger still verifies, and says what was erased, by whom
/// and why. Copies elsewhere (backups, exports, terminals) are yours to find.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    task: TaskRef,
    /// Which event's text: its version, as `onus log ID` shows it (v3 is 3)
    #[arg(value_name = "VERSION", value_parser = parse_version)]
    version: u64,
    /// Only this text of the event: title, body, note or reason; may be repeated
    #[arg(long = "field", value_name = "FIELD", value_parser = parse::<Field>)]
    fields: Vec<Field>,
    /// Why (it stays in the ledger)
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    /// People only: although another superseded you on this task. Recorded
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    key: Key,
}

fn parse_version(text: &str) -> Result<u64, String> {
    text.strip_prefix('v').unwrap_or(text).parse().map_err(|_| "give a version, such as 3 or v3".to_owned())
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let force = force_of(args.force, Some(&args.reason), None);
    let act = Act::Redact { version: Version(args.version), fields: args.fields, reason: args.reason };
    let mut engine = context.engine(Access::Write)?;
    let identity = context.identity(&mut engine)?;
    let command = Command::OnTask { task: Some(args.task), act, force };
    let reply = engine.run(&onus_engine::Request { identity, command, key: args.key.key })?;
    // Nobody can ask for the words any more; now they go from the bytes of every file. What is committed is said,
    // whatever becomes of that.
    let scrubbed = engine.store().tidy();
    let gone = matches!(scrubbed, Ok(true));
    let task = super::task_of(&reply)?;
    let mut value = json!(task);
    value["erased_everywhere"] = json!(gone);
    context.out.reply(&reply, value, || format!("{}: the text of event {} is erased", task.id, args.version));
    let later = "the store's files still hold the words: run 'onus doctor --fix'";
    match scrubbed {
        Ok(true) => {}
        Ok(false) => note(&format!("{later} when those who read it now are done")),
        Err(error) => note(&format!("{later}, after this is mended: {}", escape_line(&error.to_string()))),
    }
    Ok(())
}
