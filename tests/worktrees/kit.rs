//! A repository with a store, and room beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{As, Ran, below, git_in, human, json_of, onus_in};

pub(crate) struct Yard {
    folder: TempDir,
}

impl Yard {
    /// A repository with one commit on main.
    pub(crate) fn new() -> Yard {
        let yard = Yard::bare_ground();
        yard.git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
        yard.commit("a.txt", "one\n");
        yard
    }

    /// A repository without a commit.
    pub(crate) fn bare_ground() -> Yard {
        let yard = Yard { folder: tempfile::Builder::new().prefix("onus-yard-").tempdir().unwrap() };
        std::fs::create_dir_all(yard.repo()).unwrap();
        yard.git(&["init", "--quiet", "-b", "main"]);
        yard.run(&human("ada"), &["init", "--prefix", "ON"]).ok();
        yard
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.folder().join("web")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder().join("web.onus")
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.repo(), args)
    }

    #[track_caller]
    pub(crate) fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let ran = self.try_git(folder, args);
        assert_eq!(ran.code, 0, "git {args:?}: {ran:?}");
        ran.stdout.trim().to_owned()
    }

    pub(crate) fn try_git(&self, folder: &Path, args: &[&str]) -> Ran {
        let mut git = git_in(folder);
        git.args(["-c", "commit.gpgSign=false"]).args(args).env("HOME", self.folder().join("home"));
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "ada@example.com");
        }
        Ran::of(git.output().unwrap())
    }

    pub(crate) fn commit(&self, file: &str, text: &str) -> String {
        self.commit_in(&self.repo(), file, text)
    }

    pub(crate) fn commit_in(&self, folder: &Path, file: &str, text: &str) -> String {
        std::fs::write(folder.join(file), text).unwrap();
        self.git_in(folder, &["add", file]);
        self.git_in(folder, &["commit", "--quiet", "-m", file]);
        self.git_in(folder, &["rev-parse", "HEAD"])
    }

    pub(crate) fn command_in(&self, folder: &Path, who: &As) -> Command {
        let mut command = onus_in(folder, &self.folder().join("home"));
        command.env("ONUS_ACTOR", &who.actor).env("ONUS_INSTANCE", &who.instance);
        command
    }

    pub(crate) fn command(&self, who: &As) -> Command {
        self.command_in(&self.repo(), who)
    }

    pub(crate) fn run(&self, who: &As, args: &[&str]) -> Ran {
        Ran::of(self.command(who).args(args).output().unwrap())
    }

    pub(crate) fn json(&self, who: &As, args: &[&str]) -> Ran {
        json_of(self.command(who), args)
    }

    #[track_caller]
    pub(crate) fn add(&self, title: &str) -> String {
        self.json(&human("ada"), &["add", title]).ok().json()["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn show(&self, id: &str) -> Value {
        self.json(&human("ada"), &["show", id]).ok().json()
    }

    /// A claim with a worktree, and the folder that it got.
    #[track_caller]
    pub(crate) fn claim(&self, who: &As, id: &str) -> PathBuf {
        let claimed = self.json(who, &["claim", id, "--worktree"]).ok().json();
        PathBuf::from(claimed["worktree"]["path"].as_str().unwrap())
    }

    /// How often an event of this kind happened to a task.
    pub(crate) fn kinds(&self, id: &str) -> Vec<String> {
        let log = self.json(&human("ada"), &["log", id, "-n", "1000"]).ok().json();
        log["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["kind"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn branches(&self) -> Vec<String> {
        let listed = self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/onus/"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Git is at rest: nothing locked, half made or broken; nothing of ours is under way.
    #[track_caller]
    pub(crate) fn is_at_rest(&self) {
        let fsck = self.try_git(&self.repo(), &["fsck", "--no-dangling"]);
        assert_eq!(fsck.code, 0, "{fsck:?}");
        // The store's own are beside it.
        let enters = |path: &Path| !path.ends_with("objects") && !path.ends_with("onus");
        for path in below(&self.repo().join(".git"), enters) {
            assert!(path.extension().is_none_or(|end| end != "lock"), "{}", path.display());
        }
        let listed = self.git(&["worktree", "list", "--porcelain"]);
        assert!(!listed.contains("prunable"), "{listed}");
        let known: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("worktree ")).collect();
        let there = std::fs::read_dir(self.root()).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in there {
            assert!(known.contains(&path.to_str().unwrap()), "half made: {}", path.display());
            self.git_in(&path, &["status", "--porcelain"]);
        }
        let own = self.repo().join(".git/onus/worktrees");
        let journals: Vec<_> =
            std::fs::read_dir(own).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(journals, ["lock"], "under way");
    }
}
