//! Which project of a server a clone belongs to: what its repository says counts once a person has confirmed it.

use std::fs;

use onus_store::conformance::server::{Server, fresh_name};

use crate::support::{As, Ran, agent, git, human, json_of, onus_in};

/// A user of the server who clones what others publish.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> User {
        User { folder: tempfile::tempdir().unwrap() }
    }

    /// A repository somewhere whose `onus.toml` names this project.
    fn publish(&self, name: &str, project: &str) {
        let origin = self.folder.path().join(name);
        fs::create_dir(&origin).unwrap();
        fs::write(origin.join("onus.toml"), format!("[project]\nname = \"{project}\"\n")).unwrap();
        git(&origin, &["init", "-q"]);
        git(&origin, &["add", "."]);
        git(&origin, &["commit", "-qm", "x"]);
    }

    fn clone(&self, origin: &str, to: &str) {
        git(self.folder.path(), &["clone", "-q", origin, to]);
    }

    fn run_with(&self, who: &As, folder: &str, env: &[(&str, &str)], args: &[&str]) -> Ran {
        let mut command = onus_in(&self.folder.path().join(folder), &self.folder.path().join("home"));
        command
            .env("ONUS_STORE", Server::shared().shared_database())
            .envs([("ONUS_ACTOR", &who.actor), ("ONUS_INSTANCE", &who.instance)])
            .envs(env.iter().copied());
        json_of(command, args)
    }

    fn run(&self, folder: &str, args: &[&str]) -> Ran {
        self.run_with(&human("ann"), folder, &[], args)
    }
}

/// The project `secret` with one task, made from a clone of its repository.
fn with_project() -> (User, String) {
    let (user, project) = (User::new(), fresh_name());
    user.publish("ours", &project);
    user.clone("ours", "work");
    user.run("work", &["init", "--prefix", "ON"]).ok();
    user.run("work", &["add", "Our own affair"]).ok();
    (user, project)
}

#[test]
fn a_clone_from_anywhere_does_not_join_a_project_by_naming_it() {
    let (user, project) = with_project();
    user.publish("theirs", &project);
    user.clone("theirs", "curious");
    for args in [
        &["list"][..],
        &["status"],
        &["add", "x"],
        &["claim", "--next"],
        &["log"],
        &["whoami"],
        &["ledger", "export"],
        &["run", "1", "--", "true"],
        &["setup", "claude"],
    ] {
        let ran = user.run("curious", args);
        assert!(!format!("{ran:?}").contains("Our own affair"), "{args:?}: {ran:?}");
        let refused = ran.refused(6);
        assert_eq!(refused["code"], "unconfirmed", "{args:?}");
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.contains(&project) && message.contains("postgres://onus_owner@127.0.0.1"),
            "{message}"
        );
        assert!(refused["next"][0].as_str().unwrap().starts_with("onus init"), "{refused}");
    }
    // Nor is it copied out of the server, unless the user names it.
    let database = Server::shared().shared_database();
    assert_eq!(
        user.run("curious", &["store", "copy", database, "./copy.db"]).refused(6)["code"],
        "unconfirmed"
    );
    user.run("curious", &["store", "copy", database, "./copy.db", "--project", &project]).ok();
    // The primer never fails, and shows nothing of it.
    let primer = user.run("curious", &["prime"]);
    assert!(
        primer.ok().stdout.contains("has not joined") && !primer.stdout.contains("Our own affair"),
        "{primer:?}"
    );
}

#[test]
fn a_person_confirms_it_once_per_clone() {
    let (user, project) = with_project();
    user.clone("ours", "second");
    // An agent does not decide that for a person.
    let refused = user.run_with(&agent("a"), "second", &[], &["init"]).refused(6);
    assert_eq!(refused["code"], "people_only");
    assert_eq!(user.run("second", &["list"]).refused(6)["code"], "unconfirmed");
    // Nor does a command that fails.
    user.run("second", &["init", "--prefix", "XX"]).refused(2);
    assert_eq!(user.run("second", &["list"]).refused(6)["code"], "unconfirmed");
    assert_eq!(user.run("second", &["init"]).ok().json()["created"], false);
    let listed = user.run_with(&agent("a"), "second", &[], &["list"]).ok().json();
    assert_eq!(listed["tasks"][0]["title"], "Our own affair");
    // In all its worktrees.
    git(&user.folder.path().join("second"), &["worktree", "add", "-q", "../tree"]);
    user.run("tree", &["list"]).ok();
    // Another name is another project.
    let toml = user.folder.path().join("second/onus.toml");
    fs::write(&toml, "[project]\nname = \"another\"\n").unwrap();
    assert_eq!(user.run("second", &["list"]).refused(6)["code"], "unconfirmed");
    fs::write(&toml, format!("[project]\nname = \"{project}\"\n")).unwrap();
    user.run("second", &["list"]).ok();
    // Another server is another server.
    let elsewhere = [("ONUS_STORE", "postgres://onus_owner@127.0.0.1:1/onus")];
    assert_eq!(
        user.run_with(&human("ann"), "second", &elsewhere, &["list"]).refused(6)["code"],
        "unconfirmed"
    );
    // Another clone in the same place is another clone, whatever its files say.
    fs::remove_dir_all(user.folder.path().join("second")).unwrap();
    user.clone("ours", "second");
    assert_eq!(user.run("second", &["list"]).refused(6)["code"], "unconfirmed");
}

#[test]
fn what_the_user_says_needs_no_confirmation() {
    let (user, project) = with_project();
    user.clone("ours", "ci");
    let runner = As { actor: "ci:main".into(), instance: "1".into() };
    assert_eq!(user.run_with(&runner, "ci", &[], &["list"]).refused(6)["code"], "unconfirmed");
    user.run_with(&runner, "ci", &[("ONUS_PROJECT", &project)], &["list"]).ok();
    // Their own file, in a repository that says nothing.
    fs::create_dir_all(user.folder.path().join("home/.config/onus")).unwrap();
    let own = format!("[project]\nname = \"{project}\"\n");
    fs::write(user.folder.path().join("home/.config/onus/config.toml"), own).unwrap();
    fs::create_dir(user.folder.path().join("bare")).unwrap();
    git(&user.folder.path().join("bare"), &["init", "-q"]);
    user.run("bare", &["list"]).ok();
    // Without a place to keep it, nothing is made.
    user.publish("new", &fresh_name());
    let refused = user.run_with(&human("ann"), "new", &[("HOME", "")], &["init"]).refused(2);
    assert!(refused["message"].as_str().unwrap().contains("XDG_STATE_HOME"), "{refused}");
    assert_eq!(user.run("new", &["init"]).ok().json()["created"], true);
}
