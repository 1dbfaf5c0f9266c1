//! How tasks land, key by key. The rest of it is in `worktrees`.

use serde_json::json;

use super::{shared_file, user_file};
use crate::support::{Ran, Sandbox, agent, git, human};

/// A repository in which tasks have worktrees, beside it.
pub(crate) struct SetupEnv {
    pub(crate) sandbox: Sandbox,
    _beside: Sandbox,
}

impl SetupEnv {
    pub(crate) fn new(config: &str) -> SetupEnv {
        let ground = SetupEnv { sandbox: Sandbox::empty(), _beside: Sandbox::empty() };
        let root = ground._beside.path().canonicalize().unwrap();
        user_file(&ground.sandbox, &format!("[worktree]\nroot = \"{}\"\n", root.display()));
        let folder = ground.sandbox.path();
        let identity = "[user]\n\tname = Ann\n\temail = ann@example.com\n";
        std::fs::write(folder.join("home/.gitconfig"), identity).unwrap();
        std::fs::write(folder.join(".gitignore"), "home\n").unwrap();
        std::fs::write(folder.join("LOG"), "log\n").unwrap();
        shared_file(&ground.sandbox, config);
        git(folder, &["init", "--quiet", "-b", "main"]);
        git(folder, &["add", "."]);
        git(folder, &["commit", "--quiet", "-m", "first"]);
        ground.sandbox.run(&human("ann"), &["init", "--prefix", "ON"]).ok();
        ground
    }

    /// A task that is done, with one line more in the log.
    #[track_caller]
    pub(crate) fn done(&self, line: &str) -> String {
        let id = self.sandbox.add(line);
        let claimed = self.sandbox.json(&agent("a"), &["claim", &id, "--worktree"]).ok().json();
        let path = std::path::PathBuf::from(claimed["worktree"]["path"].as_str().unwrap());
        std::fs::write(path.join("LOG"), format!("log\n{line}\n")).unwrap();
        git(&path, &["commit", "--quiet", "-a", "-m", line]);
        self.sandbox.run(&agent("a"), &["done", &id, "-m", "did it"]).ok();
        id
    }

    fn land(&self, id: &str) -> Ran {
        self.sandbox.json(&agent("lander"), &["land", id])
    }
}

pub(super) fn style() {
    for (config, parents) in [("", 2), ("[land]\nstyle = \"squash\"\n", 1)] {
        let ground = SetupEnv::new(config);
        ground.land(&ground.done("x")).ok();
        let listed = git(ground.sandbox.path(), &["log", "-1", "--format=%P", "main"]);
        assert_eq!(listed.split(' ').count(), parents, "{config}: {listed}");
    }
}

pub(super) fn union() {
    let ground = SetupEnv::new("[land]\nstyle = \"merge\"\n");
    let (one, two) = (ground.done("one"), ground.done("two"));
    ground.land(&one).ok();
    assert_eq!(
        ground.sandbox.json(&agent("lander"), &["land", &two, "--check"]).refused(6)["code"],
        "conflict"
    );
    // Only what the target itself says counts.
    shared_file(&ground.sandbox, "[land]\nstyle = \"merge\"\nunion = [\"LOG\"]\n");
    let check = ["land", two.as_str(), "--check"];
    assert_eq!(ground.sandbox.json(&agent("lander"), &check).refused(6)["code"], "conflict");
    git(ground.sandbox.path(), &["add", "onus.toml"]);
    git(ground.sandbox.path(), &["commit", "--quiet", "-m", "union"]);
    ground.land(&two).ok();
    let log = git(ground.sandbox.path(), &["show", "main:LOG"]);
    assert_eq!(log, "log\none\ntwo");
}

pub(super) fn remote() {
    let ground = SetupEnv::new("");
    let id = ground.done("x");
    shared_file(&ground.sandbox, "[land]\nremote = \"nowhere\"\n");
    let error = ground.land(&id).refused(3);
    assert!(error["message"].as_str().unwrap().contains("nowhere"), "{error}");
    shared_file(&ground.sandbox, "");
    ground.land(&id).ok();
}

pub(super) fn pull_requests() {
    let ground = SetupEnv::new("");
    let id = ground.done("x");
    let open = || ground.sandbox.json(&human("ann"), &["land", &id, "--via", "pr"]);
    assert_eq!(open().refused(2)["code"], "usage");
    shared_file(&ground.sandbox, "[land]\npr = [\"open\", \"{branch}\"]\n");
    assert_eq!(open().refused(6)["code"], "unapproved");
    let listed = ground.sandbox.json(&human("ann"), &["trust", "list"]).ok().json();
    assert_eq!(listed["commands"][0]["argv"], json!(["open", "{branch}"]));
}

pub(super) fn deps_met() {
    for (met, is_met) in [("done", true), ("landed", false)] {
        let ground = SetupEnv::new(&format!("[deps]\nmet = \"{met}\"\n"));
        let first = ground.done("x");
        let add = ["add", "next", "--dep", &first];
        let next = ground.sandbox.json(&human("ann"), &add).ok().json();
        let claimed = ground.sandbox.json(&agent("b"), &["claim", next["id"].as_str().unwrap()]);
        assert_eq!(claimed.code == 0, is_met, "{met}: {claimed:?}");
    }
}
