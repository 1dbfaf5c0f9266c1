//! Whatever is wrong with onus, commits are made: the trouble is said, once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::agents::kit::git;
use crate::guard::kit::{HOOKS, git_by, guarded, head, held, unknown, write};
use crate::support::{Ran, Sandbox, agent, human};

/// An agent's commit of something new.
#[track_caller]
fn commits(sandbox: &Sandbox) -> String {
    write(sandbox.path(), "a.txt", &format!("{:?}\n", std::time::Instant::now()));
    let before = head(sandbox);
    let ran = git_by(sandbox, &agent("bob"), &["commit", "-q", "-a", "-m", "x"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_ne!(head(sandbox), before);
    ran.stderr
}

#[test]
fn no_store_and_the_commit_passes_and_says_so_once() {
    let sandbox = guarded();
    held(&sandbox, &agent("ada"), "a.txt");
    fs::create_dir_all(sandbox.path().join("home")).unwrap();
    fs::rename(sandbox.path().join(".git/onus"), sandbox.path().join("home/away")).unwrap();
    let said = commits(&sandbox);
    assert_eq!(said.matches("this commit was not checked").count(), 1, "{said}");
    assert_eq!(commits(&sandbox), "");
    fs::rename(sandbox.path().join("home/away"), sandbox.path().join(".git/onus")).unwrap();
    write(sandbox.path(), "a.txt", "bob\n");
    let ran = git_by(&sandbox, &agent("bob"), &["commit", "-q", "-a", "-m", "x"]);
    assert!(ran.code != 0 && ran.stderr.contains("reserved by ON-1"), "it is back: {ran:?}");
    git_by(&sandbox, &agent("ada"), &["commit", "-q", "-a", "-m", "x"]).ok();
    fs::rename(sandbox.path().join(".git/onus"), sandbox.path().join("home/away")).unwrap();
    assert!(commits(&sandbox).contains("not checked"), "and gone again, which is news");
}

#[test]
fn a_broken_store_passes_and_says_so_once() {
    let sandbox = guarded();
    held(&sandbox, &agent("ada"), "a.txt");
    for end in ["", "-wal", "-shm"] {
        let _ = fs::write(
            sandbox.path().join(format!(".git/onus/onus.db{end}")),
            "this is not a database".repeat(900),
        );
    }
    let said = commits(&sandbox);
    assert_eq!(said.matches("this commit was not checked").count(), 1, "{said}");
    assert_eq!(commits(&sandbox), "");
}

#[test]
fn a_store_that_is_locked_answers_from_what_can_be_read() {
    let sandbox = guarded();
    held(&sandbox, &agent("ada"), "a.txt");
    let database = sandbox.path().join(".git/onus/onus.db");
    let connection = rusqlite_lock(&database);
    write(sandbox.path(), "b.txt", "bob\n");
    let ran = git_by(&sandbox, &agent("bob"), &["commit", "-q", "-m", "x", "b.txt"]);
    assert_eq!(ran.code, 0, "what is free passes: {ran:?}");
    assert!(ran.stderr.contains("not checked"), "{ran:?}");
    write(sandbox.path(), "a.txt", "bob\n");
    let ran = git_by(&sandbox, &agent("bob"), &["commit", "-q", "-m", "x", "a.txt"]);
    assert!(ran.code != 0 && ran.stderr.contains("a.txt is reserved by ON-1"), "another's does not: {ran:?}");
    drop(connection);
}

/// Somebody who writes, and goes on writing.
fn rusqlite_lock(database: &std::path::Path) -> impl Drop {
    struct Writer(std::process::Child);
    impl Drop for Writer {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    use std::io::{BufRead as _, BufReader};
    let script = "import sqlite3,sys,time\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\n\
                  c.execute('BEGIN IMMEDIATE')\nprint('locked',flush=True)\ntime.sleep(600)\n";
    let mut child = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(database)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    Writer(child)
}

#[test]
fn without_the_program_hooks_say_so_once_and_pass() {
    let sandbox = guarded();
    held(&sandbox, &agent("ada"), "a.txt");
    for name in HOOKS {
        let path = sandbox.path().join(".git/hooks").join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(crate::support::ONUS));
        fs::write(path, text.replace(crate::support::ONUS, "/gone/onus")).unwrap();
    }
    let said = commits(&sandbox);
    assert_eq!(said, "onus: the program is gone, so commits are not checked (said once)\n");
    assert_eq!(commits(&sandbox), "");
    git(&sandbox, &["init", "-q", "--bare", "home/far.git"]);
    let pushed = git_by(&sandbox, &agent("bob"), &["push", "-q", "home/far.git", "main"]);
    assert_eq!((pushed.code, pushed.stderr.as_str()), (0, ""), "{pushed:?}");
}

#[test]
fn under_a_harness_a_commit_is_an_agents() {
    let sandbox = guarded();
    held(&sandbox, &agent("ada"), "a.txt");
    write(sandbox.path(), "a.txt", "claude\n");
    let mut command = unknown(&sandbox, sandbox.path());
    command.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", "c-1");
    let ran = Ran::of(command.args(["commit", "-q", "-a", "-m", "x"]).output().unwrap());
    assert!(ran.code != 0 && ran.stderr.contains("a.txt is reserved by ON-1"), "{ran:?}");
}

#[test]
fn another_user_who_may_not_read_the_store_commits_all_the_same() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = guarded();
    let id = held(&sandbox, &agent("ada"), "a.txt");
    // Somebody else's clone is theirs to write, and the store's folder stays its owner's.
    let chown = |owner: &str| {
        let status = std::process::Command::new("chown").args(["-R", owner]).arg(sandbox.path()).status();
        assert!(status.unwrap().success());
    };
    chown("65534:65534");
    let closed = sandbox.path().join(".git/onus");
    std::os::unix::fs::chown(&closed, Some(0), Some(0)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    write(sandbox.path(), "a.txt", "somebody\n");
    let as_nobody = |args: &[&str]| {
        let known = unknown(&sandbox, sandbox.path());
        let mut command = std::process::Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "git"])
            .args(args)
            .current_dir(sandbox.path())
            .env_clear()
            .envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("ONUS_ACTOR", "agent:bob")
            .env("ONUS_INSTANCE", "bob-1");
        Ran::of(command.output().unwrap())
    };
    let ran = as_nobody(&["commit", "-q", "-a", "-m", "x"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("not checked"), "{ran:?}");
    chown("0:0");
    assert_eq!(sandbox.show(&id)["commits"], serde_json::json!([]));
}

#[test]
fn a_hook_called_by_hand_or_wrongly_does_no_harm() {
    let sandbox = guarded();
    for args in [
        &["guard", "hook", "prepare-commit-msg"][..],
        &["guard", "hook", "no-such-hook", "x"],
        &["guard", "hook", "post-commit"],
    ] {
        sandbox.run(&human("founder"), args).ok();
    }
    assert_eq!(sandbox.run(&human("founder"), &["guard", "hook", "commit-msg"]).code, 0);
}

#[test]
fn check_asks_the_same_and_reserves_nothing() {
    let sandbox = guarded();
    held(&sandbox, &agent("ada"), "a.txt");
    let before = sandbox.events().len();
    let refused = sandbox.json(&agent("bob"), &["guard", "check", "b.txt", "a.txt"]).refused(4);
    assert_eq!((&refused["code"], &refused["conflict"]["path"]), (&"scope".into(), &"a.txt".into()));
    let ok = sandbox.json(&agent("bob"), &["guard", "check", "b.txt"]).ok().json();
    assert_eq!((&ok["ok"], &ok["paths"]), (&true.into(), &serde_json::json!(["b.txt"])));
    let person = sandbox.json(&human("carol"), &["guard", "check", "a.txt"]).ok().json();
    assert!(
        person["notices"][0]["message"].as_str().unwrap().contains("a.txt is reserved by ON-1"),
        "{person}"
    );
    assert_eq!(sandbox.events().len(), before);
}
