use std::path::PathBuf;

use onus_core::refusal::{Refusal, Step};
use onus_store::{Access, Store as _, StoreError};
use serde_json::json;

use crate::context::Context;
use crate::output::{path_line, path_text};
use crate::progress::shown;

/// Copy the whole store to a new file while others keep working
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The new file; an existing one is never overwritten
    file: PathBuf,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let mut engine = context.host.engine(Access::Read)?;
    let copied = shown("pages", context.out.json, |progress| engine.store().backup(&args.file, progress));
    let folder = args.file.parent();
    let missing = folder.filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
    match (copied, missing) {
        (Err(StoreError::Exists(file)), _) => {
            return Err(Refusal::usage(format!("{} exists: name a new file", file.display())));
        }
        // The store can be reached, but there is no folder for the copy.
        (Err(StoreError::Unavailable { .. }), Some(folder)) => {
            return Err(Refusal::usage(format!("the folder {} does not exist", path_line(folder)))
                .next(Step::plain("make it, or name a file in a folder that exists")));
        }
        (copied, _) => copied?,
    }
    let value = json!({ "file": path_text(&args.file) });
    context.out.show(value, &[], || format!("copied the store to {}", path_line(&args.file)));
    Ok(())
}
