use onus_core::command::{Act, Command};
use onus_core::ids::{TaskRef, Version};
use onus_core::refusal::Refusal;
use onus_core::text::Field;
use onus_engine::Reply;
use onus_store::{Access, Store as _};
use serde_json::{Value, json};

use crate::args::{Key, force_of, parse};
use crate::context::Context;
use crate::output::{escape_line, note};

/// Erase a text for good, such as a pasted secret or personal data
///
/// The text, and everything it could be guessed from, is removed from the store, its log and its search index. To leave
/// no trace on disk, the store's file is rewritten; writers wait meanwhile. The ledger still verifies, and records what
/// was erased, by whom and why. Finding copies elsewhere (backups, exports, terminals) is up to you.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    task: TaskRef,
    /// The event's version, as `onus log ID` shows it (3 or v3)
    #[arg(value_name = "VERSION", value_parser = parse_version)]
    version: u64,
    /// Erase only this text of the event: title, body, note, reason, acceptance or author; repeatable
    #[arg(long = "field", value_name = "FIELD", value_parser = parse::<Field>)]
    fields: Vec<Field>,
    /// Why; this stays in the ledger
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    /// People only: erase it although another holder superseded you on this task; the override is recorded
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    key: Key,
}

pub(super) fn parse_version(text: &str) -> Result<u64, String> {
    text.strip_prefix('v').unwrap_or(text).parse().map_err(|_| "give a version, such as 3 or v3".to_owned())
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let force = force_of(args.force, Some(&args.reason), None);
    let act = Act::Redact { version: Version(args.version), fields: args.fields, reason: args.reason };
    let command = Command::OnTask { task: Some(args.task), act, force };
    erase(context, command, args.key.key, |reply| {
        let task = super::task_of(reply)?;
        Ok((json!(task), format!("{}: the text of event {} is erased", task.id, args.version)))
    })
}

/// Carries out a redaction, then scrubs the store's files. `tell` words the answer for programs and for people.
pub(super) fn erase(
    context: &Context,
    command: Command,
    key: Option<String>,
    tell: impl FnOnce(&Reply) -> Result<(Value, String), Refusal>,
) -> super::Result {
    let mut engine = context.host.engine(Access::Write)?;
    let identity = context.host.identity(&mut engine)?;
    let reply = engine.run(&onus_engine::Request { identity, command, key })?;
    // The text can no longer be read through onus; now its bytes are removed from every file. The redaction is committed, so
    // it is reported even if that fails.
    let scrubbed = engine.store().tidy();
    let gone = matches!(scrubbed, Ok(true));
    let (mut value, said) = tell(&reply)?;
    value["erased_everywhere"] = json!(gone);
    context.out.reply(&reply, value, || said);
    let later = "the store's files still contain the text: run 'onus doctor --fix'";
    match scrubbed {
        Ok(true) => {}
        Ok(false) => note(&format!("{later} when its current readers have finished")),
        Err(error) => note(&format!("{later}, after fixing this: {}", escape_line(&error.to_string()))),
    }
    Ok(())
}
