use clap::CommandFactory as _;
use onus_core::refusal::{Refusal, Step};

use crate::cli::Cli;
use crate::context::Context;

/// Show the everyday commands, all commands, or how to use one
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// List every command
    #[arg(long)]
    all: bool,
    /// A command, such as claim or ledger verify
    command: Vec<String>,
}

/// The commands people and agents use every day, in the order of a day's work.
const DAILY: &[&str] = &["add", "ready", "claim", "note", "done", "release", "show", "status"];

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let text = if args.command.is_empty() { overview(args.all) } else { of_command(&args.command)? };
    context.out.prose_answer("help", text.trim_end());
    Ok(())
}

/// The page that `onus`, `onus help` and `onus --help` show.
pub(crate) fn overview(all: bool) -> String {
    let command = Cli::command();
    let line = |sub: &clap::Command| {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<12} {about}\n", sub.get_name())
    };
    let mut text = format!(
        "{}\n\nusage: onus COMMAND [--json] [--as ACTOR] [-C DIR]\n\n",
        command.get_about().map(ToString::to_string).unwrap_or_default()
    );
    text.push_str("everyday commands\n");
    for name in DAILY {
        text.extend(command.find_subcommand(name).map(line));
    }
    if all {
        text.push_str("\nother commands\n");
        for sub in
            command.get_subcommands().filter(|sub| !DAILY.contains(&sub.get_name()) && !sub.is_hide_set())
        {
            text.push_str(&line(sub));
        }
    }
    text.push_str("\nonus help COMMAND   how to use a command\n");
    if !all {
        text.push_str("onus help --all     all commands\n");
    }
    text.push_str(
        "\nexit codes: 0 done, 1 unexpected, 2 usage or identity, 3 not found, 4 held by another, 5 fenced,\n\
         6 not allowed, 7 nothing to do, 8 store unavailable, read-only, busy or damaged\n",
    );
    text
}

fn of_command(path: &[String]) -> Result<String, Refusal> {
    let mut command = Cli::command();
    command.build();
    let mut current = &mut command;
    for name in path {
        current = current.find_subcommand_mut(name).ok_or_else(|| {
            Refusal::usage(format!("unknown command '{}'", path.join(" "))).next(Step::Help)
        })?;
    }
    Ok(current.render_long_help().to_string())
}
