//! Paths and globs as people type them, brought to how scopes have them: from the repository's root, with `/`.

use std::path::{Component, Path, PathBuf};

use onus_core::refusal::Refusal;
use onus_core::scope::{Glob, Scope};

use crate::context::Context;

/// Globs from the repository's root. One that names a folder means everything in it.
pub(crate) fn scope(context: &Context, globs: &[String]) -> Result<Scope, Refusal> {
    globs.iter().map(|text| glob(context, text)).collect()
}

fn glob(context: &Context, text: &str) -> Result<Glob, Refusal> {
    let glob: Glob = text.parse()?;
    let folder = context.place.as_ref().zip(glob.path()).map(|(place, path)| place.root.join(path));
    match folder {
        Some(folder) if folder.is_dir() => Ok(format!("{glob}/**").parse()?),
        _ => Ok(glob),
    }
}

/// A path from where the caller stands, as a path from the repository's root.
pub(crate) fn path_in_repository(context: &Context, path: &Path) -> Result<String, Refusal> {
    let root = context.place.as_ref().map_or(context.folder.as_path(), |place| place.root.as_path());
    let full = plain(&context.folder.join(path));
    let inside = full.strip_prefix(root).map(Path::to_owned).or_else(|_| {
        // The same folder by another name: a link on the way, or the other way round.
        let (root, parent) = (root.canonicalize(), full.parent().map(Path::canonicalize));
        match (root, parent, full.file_name()) {
            (Ok(root), Some(Ok(parent)), Some(name)) => {
                parent.join(name).strip_prefix(root).map(Path::to_owned).map_err(|_| ())
            }
            _ => Err(()),
        }
    });
    let inside = inside.map_err(|()| {
        Refusal::usage(format!(
            "{} is not in {}: only its files are reserved",
            path.display(),
            root.display()
        ))
    })?;
    match inside.to_str() {
        Some("") => {
            Err(Refusal::usage(format!("{} is the repository itself: name its files", path.display())))
        }
        Some(text) => Ok(text.to_owned()),
        None => Err(Refusal::usage(format!("{} is not UTF-8: it cannot be reserved", path.display()))),
    }
}

/// Without `.` and `..`, which need not exist to be left out.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
