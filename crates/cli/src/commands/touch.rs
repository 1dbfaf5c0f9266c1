use std::path::PathBuf;

use onus_core::command::{Act, Command};
use onus_core::ids::TaskRef;

use crate::args::{Key, parse};
use crate::context::{Context, target};
use crate::scopes::path_in_repository;

/// Reserve files before you change them
///
/// A file that nobody has reserved joins the scope of the task that you hold (the latest, if you hold several). If
/// another's live lease has one of them, all are refused, and you are told who has it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Files, from where you are; they need not exist
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The task: without it ONUS_TASK, or the latest that you hold
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let paths: Vec<String> =
        args.paths.iter().map(|path| path_in_repository(context, path)).collect::<Result<_, _>>()?;
    let command = Command::OnTask { task: target(args.task)?, act: Act::Touch { paths }, force: None };
    let reply = context.run(command, args.key.key)?;
    super::print_lease(context, &reply, |task| format!("{}: yours to change", task.id))
}
