//! A repository with a store, the guard installed, and git run in it by somebody.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::agents::kit::{git, repository};
use crate::support::{self, As, Ran, Sandbox, human};

/// The hooks that the guard installs.
pub(super) const HOOKS: [&str; 5] =
    ["prepare-commit-msg", "commit-msg", "post-commit", "post-merge", "pre-push"];

/// A repository with a store, the guard and one file `a.txt`.
pub(super) fn guarded() -> Sandbox {
    let sandbox = repository();
    write(sandbox.path(), ".git/info/exclude", "/home/\n");
    write(sandbox.path(), "a.txt", "a\n");
    write(sandbox.path(), "b.txt", "b\n");
    git(&sandbox, &["add", "a.txt", "b.txt"]);
    git(&sandbox, &["commit", "-q", "-m", "files"]);
    sandbox.run(&human("founder"), &["guard", "install"]).ok();
    sandbox
}

pub(crate) fn write(root: &Path, file: impl AsRef<Path>, text: &str) {
    support::write(root.join(file), text);
}

/// Git in a folder, without a terminal, with nobody's configuration, and nobody that onus knows.
pub(super) fn unknown(sandbox: &Sandbox, folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", sandbox.path().join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_COUNT", "3")
        .env("GIT_CONFIG_KEY_0", "user.name")
        .env("GIT_CONFIG_VALUE_0", "Test")
        .env("GIT_CONFIG_KEY_1", "user.email")
        .env("GIT_CONFIG_VALUE_1", "test@example.org")
        .env("GIT_CONFIG_KEY_2", "protocol.file.allow")
        .env("GIT_CONFIG_VALUE_2", "always")
        .stdin(Stdio::null());
    command
}

/// The same by somebody.
pub(super) fn by(sandbox: &Sandbox, who: &As, folder: &Path, args: &[&str]) -> Ran {
    let mut command = unknown(sandbox, folder);
    command.env("ONUS_ACTOR", &who.actor);
    if !who.actor.starts_with("human:") {
        command.env("ONUS_INSTANCE", &who.instance);
    }
    Ran::of(command.args(args).output().unwrap())
}

/// In the repository itself.
pub(super) fn git_by(sandbox: &Sandbox, who: &As, args: &[&str]) -> Ran {
    by(sandbox, who, sandbox.path(), args)
}

/// What git prints.
#[track_caller]
pub(super) fn said(sandbox: &Sandbox, args: &[&str]) -> String {
    let ran = Ran::of(unknown(sandbox, sandbox.path()).args(args).output().unwrap());
    ran.ok().stdout.trim_end().to_owned()
}

/// Another task of somebody, which reserves this.
#[track_caller]
pub(super) fn held(sandbox: &Sandbox, who: &As, scope: &str) -> String {
    let id = sandbox.add(&format!("work on {scope}"));
    sandbox.run(who, &["claim", &id, "--scope", scope]).ok();
    id
}

/// A second worktree on a branch.
pub(super) fn worktree(sandbox: &Sandbox, branch: &str) -> PathBuf {
    let folder = sandbox.path().join("home").join(branch.replace('/', "-"));
    std::fs::create_dir_all(sandbox.path().join("home")).unwrap();
    git(sandbox, &["worktree", "add", "-q", "-b", branch, folder.to_str().unwrap()]);
    folder
}

/// The hash of what is checked out.
#[track_caller]
pub(super) fn head(sandbox: &Sandbox) -> String {
    said(sandbox, &["rev-parse", "HEAD"])
}

/// The events of a kind.
pub(super) fn events(sandbox: &Sandbox, kind: &str) -> Vec<serde_json::Value> {
    sandbox.events().into_iter().filter(|event| event["kind"] == kind).collect()
}
