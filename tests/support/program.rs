//! Programs that a test writes and runs.
//!
//! Another process writes them. A file that this process has open for writing is open, for a moment, in every child that
//! another test forks meanwhile; until that child has become its program, running the file fails with "Text file busy".

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a file that can be executed at once.
pub fn program(path: &Path, text: impl AsRef<[u8]>) {
    let mut copy = Command::new("cp").arg("/dev/stdin").arg(path).stdin(Stdio::piped()).spawn().unwrap();
    copy.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
    assert!(copy.wait().unwrap().success(), "{}", path.display());
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Copies a program so that the copy can be executed at once.
pub fn copy_of_program(from: impl AsRef<Path>, to: &Path) {
    assert!(Command::new("cp").arg(from.as_ref()).arg(to).status().unwrap().success(), "{}", to.display());
}
