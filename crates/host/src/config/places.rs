//! Where a user's own files are.

use std::path::PathBuf;

use crate::env;

/// The user's own configuration file.
pub fn user_file() -> Option<PathBuf> {
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("onus").join("config.toml"))
}

/// The user's state folder.
pub fn state_folder() -> Option<PathBuf> {
    let own = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    Some(own.or_else(|| Some(set("HOME")?.join(".local").join("state")))?.join("onus"))
}

fn set(name: &str) -> Option<PathBuf> {
    env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
