//! Ports of a worktree's own: a range that no other worktree of this user has on this machine, for as long as it exists.
//!
//! A range is a file in the user's state folder that names the worktree's git directory. One whose directory is gone is free again, so
//! nothing has to be given back.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::Info;

/// How many ports a worktree has.
pub const PORTS: u16 = 20;
/// Below the ports that systems give to outgoing connections, above those of common services.
const FIRST: u16 = 20_000;
const RANGES: u16 = 600;

/// The first port of the range that this worktree has from now on. None: all are taken.
pub fn ports_of(state: &Path, git_dir: &Path) -> io::Result<Option<u16>> {
    let git_dir = git_dir.canonicalize()?;
    let mut info = Info::of(&git_dir).unwrap_or_default();
    let folder = state.join("ports");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let mut open = OpenOptions::new();
    let lock: File = open.write(true).create(true).truncate(false).mode(0o600).open(folder.join("lock"))?;
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
