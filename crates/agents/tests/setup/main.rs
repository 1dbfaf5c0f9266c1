//! Setting up and taking out, on the configurations that people have.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use onus_agents::setup::json::{self, Hook, JsonSyntax};
use onus_agents::setup::{
    AGENTS, Agent, Done, Level, SetupEnv, State, agent, apply, plan_removal, plan_setup,
};
use onus_core::refusal::Refusal;
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

mod any;
mod files;
mod foreign;
mod golden;

/// A repository and a home, with nothing in them.
struct World {
    folder: TempDir,
}

/// Every file below a folder, with what is in it.
type Tree = BTreeMap<String, Vec<u8>>;

impl World {
    fn new() -> World {
        let world = World { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.root()).unwrap();
        fs::create_dir_all(world.home()).unwrap();
        world
    }

    fn with(files: &[(&str, &str)]) -> World {
        let world = World::new();
        for (path, text) in files {
            world.put(path, text);
        }
        world
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn receipts(&self) -> PathBuf {
        self.folder.path().join("store").join("setup")
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn get(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn tree(&self) -> Tree {
        tree(&self.root())
    }

    fn setup_env<T>(&self, level: Level, work: impl FnOnce(&SetupEnv<'_>) -> T) -> T {
        let env = |_: &str| None;
        work(&SetupEnv {
            level,
            root: self.root(),
            home: Some(self.home()),
            store: Some(self.folder.path().join("store")),
            receipts: self.receipts(),
            env: &env,
        })
    }

    fn set_up(&self, agents: &[&str]) -> Result<Vec<Done>, Refusal> {
        self.setup_env(Level::Project, |setup_env| {
            apply(setup_env, &plan_setup(setup_env, &named(agents), false)?)
        })
    }

    fn remove(&self, agents: &[&str]) -> Result<Vec<Done>, Refusal> {
        self.setup_env(Level::Project, |setup_env| {
            apply(setup_env, &plan_removal(setup_env, &named(agents))?)
        })
    }

    fn states(&self, name: &str) -> Vec<State> {
        let found =
            self.setup_env(Level::Project, |setup_env| agent(name).unwrap().found(setup_env)).unwrap();
        found.into_iter().map(|found| found.state).collect()
    }

    /// What a check says of an agent.
    fn differences(&self, name: &str) -> Vec<String> {
        let found =
            self.setup_env(Level::Project, |setup_env| agent(name).unwrap().found(setup_env)).unwrap();
        found.into_iter().flat_map(|found| found.differences).map(|one| one.to_string()).collect()
    }
}

fn named(agents: &[&str]) -> Vec<&'static Agent> {
    agents.iter().map(|name| agent(name).unwrap()).collect()
}

fn tree(root: &Path) -> Tree {
    let mut files = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                files.insert(format!("{name}/"), Vec::new());
                folders.push(path);
            } else {
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}
