//! A repository whose tasks land, with gates that a person approved.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::kit::Yard;
use crate::support::{As, Ran, agent, human, program};

/// Whose landings count: a merge commit each, lines of LOG.md kept from both sides.
pub(super) const LANDS: &str = "[land]\nstyle = \"merge\"\nunion = [\"LOG.md\"]\n";

impl Yard {
    /// A repository whose main branch has this in its onus.toml. Its gates are approved.
    #[track_caller]
    pub(super) fn landing(config: &str) -> Yard {
        let yard = Yard::new();
        std::fs::create_dir_all(yard.folder().join("home")).unwrap();
        let identity = "[user]\n\tname = Ada\n\temail = ada@example.com\n";
        std::fs::write(yard.folder().join("home/.gitconfig"), identity).unwrap();
        yard.commit("LOG.md", "# log\n");
        yard.commit("onus.toml", config);
        yard.approve();
        yard
    }

    /// A person approves whatever the checkout configures.
    #[track_caller]
    pub(super) fn approve(&self) {
        let listed = self.json(&human("ada"), &["trust", "list"]).ok().json();
        for command in listed["commands"].as_array().unwrap() {
            let digest = command["digest"].as_str().unwrap();
            let name = command["name"].as_str().unwrap();
            self.run(&human("ada"), &["trust", "approve", name, "--digest", digest]).ok();
        }
    }

    /// A task that an agent has done on a branch of its own: the file that it added.
    #[track_caller]
    pub(super) fn done(&self, who: &As, title: &str, file: &str, text: &str) -> String {
        let id = self.add(title);
        let path = self.claim(who, &id);
        self.commit_in(&path, file, text);
        self.finish(who, &id);
        id
    }

    #[track_caller]
    pub(super) fn finish(&self, who: &As, id: &str) {
        self.run(who, &["done", id, "-m", "did it"]).ok();
    }

    /// Adds a line at the end of a file in a worktree, and commits it.
    pub(super) fn append(&self, folder: &Path, file: &str, line: &str) {
        let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        self.commit_in(folder, file, &format!("{text}{line}\n"));
    }

    #[track_caller]
    pub(super) fn land(&self, id: &str) -> Value {
        self.json(&agent("lander"), &["land", id]).ok().json()
    }

    /// What is in a file of the target.
    pub(super) fn in_main(&self, file: &str) -> Option<String> {
        let ran = self.try_git(&self.repo(), &["show", &format!("main:{file}")]);
        (ran.code == 0).then_some(ran.stdout)
    }

    pub(super) fn at(&self, reference: &str) -> String {
        self.git(&["rev-parse", reference])
    }

    /// References of landings that nobody has settled.
    pub(super) fn intents(&self) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname)", "refs/onus/landing/"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Every first parent of the target, from the newest.
    pub(super) fn history(&self) -> Vec<String> {
        let listed = self.git(&["rev-list", "--first-parent", "main"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// A folder with a `git` that stops where a target is about to move, until `go` is there. Says where `stopped` and `go` are.
    pub(super) fn stopping_git(&self) -> (PathBuf, PathBuf, PathBuf) {
        let bin = self.folder().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let (stopped, go) = (self.folder().join("stopped"), self.folder().join("go"));
        let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
        let real = String::from_utf8(real.stdout).unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*update-ref*--stdin*)\n  in=$(mktemp)\n  cat > \"$in\"\n  \
             if grep -aq 'delete refs/onus/landing/' \"$in\" && grep -aEq 'update refs/|create refs/onus/landed/' \"$in\"; then\n    \
             : > '{}'\n    n=0\n    while [ ! -e '{}' ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done\n  fi\n  \
             '{real}' \"$@\" < \"$in\"\n  code=$?\n  rm -f \"$in\"\n  exit $code;;\nesac\nexec '{real}' \"$@\"\n",
            stopped.display(),
            go.display(),
            real = real.trim(),
        );
        program(&bin.join("git"), script);
        (bin, stopped, go)
    }

    /// The path in which programs are looked for, with a folder before it.
    pub(super) fn path_with(bin: &Path) -> std::ffi::OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
        std::env::join_paths(all).unwrap()
    }

    /// Nothing of any landing is left: no intent, no scratch worktree, nothing locked; the ledger is whole and explains every row.
    #[track_caller]
    pub(super) fn has_landed_in_peace(&self) {
        assert_eq!(self.intents(), Vec::<String>::new());
        self.is_at_rest();
        let verified = self.json(&human("ada"), &["ledger", "verify"]).ok().json();
        assert_eq!(verified["ok"], true);
        let rebuilt: Ran = self.json(&human("ada"), &["ledger", "rebuild"]);
        assert_eq!(rebuilt.code, 0, "{rebuilt:?}");
    }
}
