use std::path::PathBuf;

use clap::CommandFactory as _;
use onus_core::refusal::Refusal;
use serde_json::json;

use crate::cli::Cli;
use crate::context::Context;
use crate::output::{path_line, path_text};

/// Write the manual pages into a folder, or print the main one
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Where the pages go (onus.1, onus-claim.1, …)
    #[arg(value_name = "FOLDER")]
    pages: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let fail = |error: std::io::Error| Refusal::usage(format!("the pages cannot be written: {error}"));
    let mut command = Cli::command();
    command.build();
    let Some(folder) = args.pages else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(fail)?;
        let page = String::from_utf8_lossy(&page);
        context.out.answer("page", page.trim_end());
        return Ok(());
    };
    std::fs::create_dir_all(&folder).map_err(fail)?;
    clap_mangen::generate_to(command, &folder).map_err(fail)?;
    if context.out.json {
        context.out.document(json!({ "folder": path_text(&folder) }), &[]);
    } else {
        context.out.line(&format!("wrote the pages to {}", path_line(&folder)));
    }
    Ok(())
}
