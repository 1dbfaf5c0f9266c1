//! What these tests share beyond the harness: a git repository with a store, and what lies around an agent's shell.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::agents::harness::Shell;
use crate::support::{self, Sandbox, human};

/// A git repository with one commit and a fresh store.
pub(crate) fn repository() -> Sandbox {
    let sandbox = bare_repository();
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    sandbox
}

/// The same without a store.
pub(crate) fn bare_repository() -> Sandbox {
    let sandbox = Sandbox::empty();
    git(&sandbox, &["init", "-q"]);
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "first"]);
    sandbox
}

/// Where its store is.
pub(crate) fn store(sandbox: &Sandbox) -> PathBuf {
    sandbox.path().join(".git/onus")
}

/// Real git, with nobody's configuration.
#[track_caller]
pub(crate) fn git(sandbox: &Sandbox, args: &[&str]) {
    support::git(sandbox.path(), args);
}

/// The project's own settings.
pub(crate) fn configured(sandbox: &Sandbox, text: &str) {
    std::fs::write(sandbox.path().join("onus.toml"), text).unwrap();
}

pub(crate) fn write(sandbox: &Sandbox, file: impl AsRef<Path>) {
    support::write(sandbox.path().join(file), "before\n");
}

/// Every task, finished ones too.
#[track_caller]
pub(crate) fn tasks(sandbox: &Sandbox) -> Vec<Value> {
    let listed = sandbox.json(&human("founder"), &["list", "--all"]).ok().json();
    listed["tasks"].as_array().unwrap().clone()
}

/// The id of the one task whose live or last lease has this file in its scope, and who has it.
#[track_caller]
pub(crate) fn holder_of(sandbox: &Sandbox, file: &str) -> Option<(String, String)> {
    let mut found = tasks(sandbox).into_iter().filter(|task| {
        let scope = task["lease"]["scope"].as_array();
        task["lease"]["live"] == true && scope.is_some_and(|scope| scope.iter().any(|glob| glob == file))
    });
    let task = found.next()?;
    assert_eq!(found.next(), None, "{file} has two holders");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Some((text(&task["id"]), text(&task["lease"]["instance"])))
}

/// The one task that is not in `before`.
#[track_caller]
pub(crate) fn only_ad_hoc(sandbox: &Sandbox) -> Value {
    let mut found = tasks(sandbox).into_iter().filter(|task| task["ad_hoc"] == true);
    let task = found.next().unwrap_or_else(|| panic!("there is no ad-hoc task"));
    assert_eq!(found.next(), None, "there are several ad-hoc tasks");
    task
}

/// What the kernel allows this user: namespaces of its own.
fn flags(wanted: &str) -> String {
    if rustix::process::geteuid().is_root() { format!("-{wanted}") } else { format!("-Ur{wanted}") }
}

/// A sandbox with pids of its own, whose `/proc` shows them (or still the outer ones); None where that is not allowed.
pub(crate) fn own_pids(mounts_proc: bool) -> Option<Shell> {
    let mut under = vec!["unshare".to_owned(), flags("p"), "--fork".into(), "--kill-child".into()];
    if mounts_proc {
        under.push("--mount-proc".into());
    }
    works(&under).then(|| Shell { under, ..Shell::default() })
}

/// A sandbox in which git's folder can be read but not written; None where that is not allowed.
pub(crate) fn read_only_git() -> Option<Vec<String>> {
    let mount = "mount --bind .git .git && mount -o remount,ro,bind .git && exec \"$@\"";
    let under = vec!["unshare".to_owned(), flags("m")];
    works(&under).then(|| [under, ["sh", "-c", mount, "sandbox"].map(str::to_owned).to_vec()].concat())
}

fn works(under: &[String]) -> bool {
    let ran = Command::new(&under[0]).args(&under[1..]).arg("true").output();
    let works = ran.is_ok_and(|ran| ran.status.success());
    if !works {
        eprintln!("left out, because this machine does not let its users do that: {}", under.join(" "));
    }
    works
}
