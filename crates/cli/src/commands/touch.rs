use std::path::PathBuf;

use onus_core::command::{Act, Command};
use onus_core::ids::TaskRef;
use onus_core::refusal::{Refusal, Step};

use crate::args::{Key, parse};
use crate::context::Context;
use crate::output::path_line;
use onus_host::target;

/// Reserve files before you change them
///
/// Files that nobody has reserved are added to the scope of the task you hold (the latest, if you hold several). If
/// another's live lease reserves any of them, none is added, and the refusal names the holder.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Files, relative to the current folder; they need not exist yet
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The task; default: ONUS_TASK, or else the latest you hold
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    if let Some(folder) = args.paths.iter().find(|path| context.host.folder.join(path).is_dir()) {
        let message = format!("{} is a folder: only files are touched", path_line(folder));
        return Err(Refusal::usage(message)
            .next(Step::plain("reserve a folder with its glob: onus scope add 'FOLDER/**'")));
    }
    let (paths, touched) = context.host.touched(&args.paths)?;
    let act = Act::Touch { paths, touched, extent: Default::default() };
    let command = Command::OnTask { task: target(args.task)?, act, force: None };
    let reply = context.run(command, args.key.key)?;
    let named: Vec<String> = args.paths.iter().map(|path| path_line(path)).collect();
    super::print_lease(context, &reply, |task| format!("{}: yours to change: {}", task.id, named.join(", ")))
}
