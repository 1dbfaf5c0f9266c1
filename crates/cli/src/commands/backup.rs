use std::path::{Path, PathBuf};

use onus_core::refusal::{Code, Refusal, Step};
use onus_store::{Access, Store as _, StoreError};
use serde_json::json;

use crate::context::Context;
use crate::output::{path_line, path_text};
use crate::progress::Bar;

/// Copy the whole store to a new file while others keep working
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The new file; an existing one is never overwritten
    file: PathBuf,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let mut engine = context.host.engine(Access::Read)?;
    let mut bar = Bar::new("pages", context.out.json);
    let copied = engine.store().backup(&args.file, &mut |progress| bar.at(progress));
    bar.end();
    match copied {
        Err(StoreError::Exists(file)) => {
            return Err(Refusal::new(Code::Usage, format!("{} exists: name a new file", file.display())));
        }
        // Not the store is out of reach, but the copy's place.
        Err(StoreError::Unavailable { .. }) if missing_folder(&args.file).is_some() => {
            let folder = missing_folder(&args.file).map(path_line).unwrap_or_default();
            return Err(Refusal::usage(format!("the folder {folder} does not exist"))
                .next(Step::plain("make it, or name a file in a folder that exists")));
        }
        copied => copied?,
    }
    if context.out.json {
        context.out.document(json!({ "file": path_text(&args.file) }), &[]);
    } else {
        context.out.line(&format!("copied the store to {}", path_line(&args.file)));
    }
    Ok(())
}

/// The folder that a file was to be in, if it is not there.
fn missing_folder(file: &Path) -> Option<&Path> {
    file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}
