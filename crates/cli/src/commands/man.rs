use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use onus_core::refusal::Refusal;
use serde_json::json;

use crate::cli::Cli;
use crate::context::Context;
use crate::manual;
use crate::output::{path_line, path_text};

/// Write the manual pages into a folder, or print the main one
///
/// The main page ends with the exit codes, the environment and the files.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The folder for the pages (onus.1, onus-claim.1, …)
    #[arg(value_name = "FOLDER")]
    pages: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let fail = |error: std::io::Error| Refusal::usage(format!("cannot write the pages: {error}"));
    let mut command = Cli::command();
    command.build();
    let Some(folder) = args.pages else {
        let (_, page) = page(&command, true).map_err(fail)?;
        context.out.answer("page", page.trim_end());
        return Ok(());
    };
    std::fs::create_dir_all(&folder).map_err(fail)?;
    write(&command, &folder, true).map_err(fail)?;
    let value = json!({ "folder": path_text(&folder) });
    context.out.show(value, &[], || format!("wrote the pages to {}", path_line(&folder)));
    Ok(())
}

/// The name of a command's page, and its text.
fn page(command: &clap::Command, is_main: bool) -> std::io::Result<(String, String)> {
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    page.push_str(&if is_main { manual::sections() } else { manual::SEE_ALSO.to_owned() });
    Ok((man.get_filename(), page))
}

/// Writes the page of a command and those of its subcommands.
fn write(command: &clap::Command, folder: &Path, is_main: bool) -> std::io::Result<()> {
    let (name, text) = page(command, is_main)?;
    std::fs::write(folder.join(name), text)?;
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| write(sub, folder, false))
}
