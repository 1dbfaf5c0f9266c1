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
    pub(crate) fn landing(config: &str) -> Yard {
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
        self.done_in_steps(who, title, &[(file, text)])
    }

    /// The same with a commit for each of these.
    #[track_caller]
    pub(super) fn done_in_steps(&self, who: &As, title: &str, steps: &[(&str, &str)]) -> String {
        let id = self.add(title);
        let path = self.claim(who, &id);
        steps.iter().for_each(|(file, text)| drop(self.commit_in(&path, file, text)));
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
        let (stopped, go, wait) = self.stop();
        (self.git_that("bin", &at_the_move(&wait, "")), stopped, go)
    }

    /// The same where a scratch worktree is about to be made.
    pub(super) fn git_stopping_at_scratch(&self) -> (PathBuf, PathBuf, PathBuf) {
        let (stopped, go, wait) = self.stop();
        (self.git_that("bin", &format!("*worktree*add*.scratch-*)\n  {wait};;\n")), stopped, go)
    }

    /// A folder with a `git` that kills whoever called it with -9, right after the target moved.
    pub(super) fn killing_git(&self) -> PathBuf {
        self.git_that("killing", &at_the_move("moves=1", "[ -z \"$moves\" ] || kill -9 $PPID"))
    }

    /// Files by which a script waits, and the lines that do so.
    fn stop(&self) -> (PathBuf, PathBuf, String) {
        let (stopped, go) = (self.folder().join("stopped"), self.folder().join("go"));
        let wait = format!(
            ": > '{}'; n=0; while [ ! -e '{}' ] && [ $n -lt 6000 ]; do sleep 0.05; n=$((n+1)); done",
            stopped.display(),
            go.display()
        );
        (stopped, go, wait)
    }

    /// A folder with a `git` of this kind: cases of its words, before the real one is run.
    fn git_that(&self, folder: &str, cases: &str) -> PathBuf {
        let bin = self.folder().join(folder);
        std::fs::create_dir_all(&bin).unwrap();
        let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
        let real = String::from_utf8(real.stdout).unwrap();
        let real = real.trim();
        let script =
            format!("#!/bin/sh\nreal='{real}'\ncase \"$*\" in\n{cases}esac\nexec \"$real\" \"$@\"\n");
        program(&bin.join("git"), script);
        bin
    }

    /// The path in which programs are looked for, with a folder before it.
    pub(crate) fn path_with(bin: &Path) -> std::ffi::OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
        std::env::join_paths(all).unwrap()
    }

    /// Nothing of any landing is left: no intent, no scratch worktree, nothing locked; the ledger is whole and explains every row.
    #[track_caller]
    pub(super) fn has_landed_in_peace(&self) {
        assert_eq!(self.intents(), Vec::<String>::new());
        self.is_at_rest();
        let tidying = std::fs::read_dir(self.repo().join(".git/onus/tidying"));
        let tidying: Vec<_> = tidying.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        assert_eq!(tidying, Vec::<PathBuf>::new());
        let verified = self.json(&human("ada"), &["ledger", "verify"]).ok().json();
        assert_eq!(verified["ok"], true);
        let rebuilt: Ran = self.json(&human("ada"), &["ledger", "rebuild"]);
        assert_eq!(rebuilt.code, 0, "{rebuilt:?}");
    }
}

/// A case of a script: what is done before and after the transaction that moves a target.
fn at_the_move(before: &str, after: &str) -> String {
    format!(
        "*update-ref*--stdin*)\n  in=$(mktemp)\n  cat > \"$in\"\n  moves=\n  \
         if grep -aq 'delete refs/onus/landing/' \"$in\" && grep -aEq 'update refs/|create refs/onus/landed/' \"$in\"; then\n    \
         {before}\n  fi\n  \"$real\" \"$@\" < \"$in\"\n  code=$?\n  rm -f \"$in\"\n  {after}\n  exit $code;;\n"
    )
}
