//! Real git in a test's folder, with nobody's configuration; and the files that it is to see.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Git in a folder, to be given its words. The user's own configuration is in that folder: git replaces the file that it is to write, so
/// /dev/null would be replaced, too.
pub fn git_in(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Test").env(format!("GIT_{who}_EMAIL"), "test@example.org");
    }
    command
}

/// Runs git, and returns what it prints.
#[track_caller]
pub fn git(folder: &Path, args: &[&str]) -> String {
    let ran = git_in(folder).args(args).output().unwrap();
    assert!(ran.status.success(), "git {args:?} in {}: {ran:?}", folder.display());
    String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()
}

/// Writes a file, and makes the folders above it.
#[track_caller]
pub fn write(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Every file and folder below a folder, if it is there, sorted. Links are not followed, and a folder is entered only if `enters` holds for it.
pub fn below(folder: &Path, enters: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() && enters(&entry.path()) {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}
