//! Reserves a range of ports for a worktree: no other worktree of this user on this machine gets it while this one exists.
//!
//! A range is a file in the user's state folder that names the worktree's git directory. When that directory is gone the range is
//! free again, so nothing has to be released.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::Info;
use crate::files::{private_file, private_folder};

/// How many ports a worktree has.
pub const PORTS: u16 = 20;
/// Below the ports that systems give to outgoing connections, above those of common services.
const FIRST: u16 = 20_000;
const RANGES: u16 = 600;

/// Reserves a range, and returns its first port. None if all are taken.
pub fn ports_of(state: &Path, git_dir: &Path) -> io::Result<Option<u16>> {
    let git_dir = git_dir.canonicalize()?;
    let mut info = Info::of(&git_dir).unwrap_or_default();
    let folder = state.join("ports");
    private_folder(&folder)?;
    let lock = private_file(&folder.join("lock"))?;
    lock.lock()?;
    let file = |range: u16| folder.join((FIRST + range * PORTS).to_string());
    let whose =
        |range: u16| fs::read(file(range)).ok().map(|text| PathBuf::from(std::ffi::OsString::from_vec(text)));
    let is_ours = |range: u16| whose(range).is_some_and(|whose| whose == git_dir);
    let is_free = |range: u16| whose(range).is_none_or(|whose| !whose.exists());
    let known = info.port_base.and_then(|base| base.checked_sub(FIRST)).map(|offset| offset / PORTS);
    let known = known.filter(|range| *range < RANGES && (is_ours(*range) || is_free(*range)));
    let range = known.or_else(|| (0..RANGES).find(|range| is_ours(*range)));
    let Some(range) = range.or_else(|| (0..RANGES).find(|range| is_free(*range))) else { return Ok(None) };
    fs::write(file(range), git_dir.as_os_str().as_bytes())?;
    let base = FIRST + range * PORTS;
    if info.port_base != Some(base) {
        info.port_base = Some(base);
        info.write(&git_dir)?;
    }
    Ok(Some(base))
}
