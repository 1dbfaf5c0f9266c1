//! Installing: what is there runs as before, comes back as it was, and git itself says whether it reaches us.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::agents::kit::{git, repository};
use crate::guard::kit::{HOOKS, by, git_by, guarded, head, held, unknown, worktree, write};
use crate::support::{Ran, Sandbox, agent, below, human, program};

/// Everything in a folder: what it is, its mode, its time, its bytes or where it leads.
fn all(folder: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let print = |path: PathBuf| {
        let metadata = path.symlink_metadata().unwrap();
        let bytes = match (metadata.is_dir(), metadata.is_symlink()) {
            (true, _) => Vec::new(),
            (_, true) => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => fs::read(&path).unwrap(),
        };
        // A folder's time changes with what is in it.
        let at = if metadata.is_dir() { (0, 0) } else { (metadata.mtime(), metadata.mtime_nsec()) };
        (path, (metadata.mode(), at.0, at.1, bytes))
    };
    below(folder, |_| true).into_iter().map(print).collect()
}

fn hook(sandbox: &Sandbox, name: &str, text: &[u8], mode: u32) -> PathBuf {
    let path = sandbox.path().join(".git/hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    program(&path, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn guard(sandbox: &Sandbox, action: &str) -> Ran {
    sandbox.json(&human("founder"), &["guard", action])
}

#[test]
fn the_guard_took_over_core_hooks_path_and_broke_peoples_hooks() {
    // The row of the lessons: existing hooks run as before; byte-identical after uninstall.
    let sandbox = repository();
    let log = sandbox.path().join("log");
    // What it was called as, with which arguments, what it read; then it fails.
    let script = |tail: &str| {
        format!("#!/bin/sh\nprintf '%s|%s|%s\\n' \"$0\" \"$*\" \"$(cat)\" >>'{}'\n{tail}", log.display())
    };
    hook(&sandbox, "pre-commit", script("exit 0").as_bytes(), 0o700);
    hook(&sandbox, "commit-msg", script("exit 3\n").as_bytes(), 0o755);
    hook(&sandbox, "pre-push", script("exit 5\n").as_bytes(), 0o755);
    let python = format!(
        "#!/usr/bin/env python3\nimport sys,os\nopen('{}','a').write(os.path.basename(sys.argv[0])+'\\n')\n",
        log.display()
    );
    hook(&sandbox, "post-commit", python.as_bytes(), 0o755);
    hook(&sandbox, "prepare-commit-msg", b"not executable", 0o644);
    git(&sandbox, &["init", "-q", "--bare", "home/far.git"]);
    git(&sandbox, &["remote", "add", "far", "home/far.git"]);
    let before = all(&sandbox.path().join(".git/hooks"));
    let config = fs::read(sandbox.path().join(".git/config")).unwrap();
    // What they say without us, then with us.
    let tries = |sandbox: &Sandbox| {
        let _ = fs::remove_file(&log);
        write(sandbox.path(), "f", &format!("{:?}", std::time::Instant::now()));
        git(sandbox, &["add", "f"]);
        let who = human("founder");
        let refused = git_by(sandbox, &who, &["commit", "-q", "-m", "x"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        git_by(sandbox, &who, &["commit", "-q", "--no-verify", "-m", "x"]).ok();
        let pushed = git_by(sandbox, &who, &["push", "-q", "far", "HEAD:refs/heads/x"]);
        assert_ne!(pushed.code, 0, "{pushed:?}");
        let said = fs::read_to_string(&log).unwrap();
        said.replace(&head(sandbox), "HEAD")
    };
    let without = tries(&sandbox);
    assert!(without.contains("pre-push|far home/far.git|HEAD HEAD refs/heads/x"), "{without}");
    guard(&sandbox, "install").ok();
    assert_eq!(fs::read(sandbox.path().join(".git/config")).unwrap(), config, "core.hooksPath is not ours");
    let with = tries(&sandbox);
    assert_eq!(with, without, "the same names, arguments and input");
    guard(&sandbox, "install").ok();
    assert_eq!(tries(&sandbox), without, "installed twice is once");
    let undone = guard(&sandbox, "uninstall").ok().json();
    assert_eq!(undone["left"], serde_json::json!([]));
    assert_eq!(all(&sandbox.path().join(".git/hooks")), before, "bytes, modes and times");
    assert_eq!(tries(&sandbox), without);
}

#[test]
fn where_there_was_nothing_nothing_is_left() {
    let sandbox = repository();
    let hooks = sandbox.path().join(".git/hooks");
    for removed in [false, true] {
        if removed {
            fs::remove_dir_all(&hooks).unwrap();
        }
        let before = all(&sandbox.path().join(".git/hooks"));
        guard(&sandbox, "install").ok();
        for hook in HOOKS {
            assert!(hooks.join(hook).is_file(), "{hook}");
        }
        guard(&sandbox, "uninstall").ok();
        assert_eq!(all(&hooks), before);
        assert_eq!(hooks.exists(), !removed, "a folder that was made goes again");
    }
}

#[test]
fn a_hook_that_is_a_link_keeps_its_name_and_comes_back_as_a_link() {
    let sandbox = repository();
    let script = format!("#!/bin/sh\nbasename \"$0\" >>'{}'\n", sandbox.path().join("log").display());
    hook(&sandbox, "master-hook", script.as_bytes(), 0o755);
    let hooks = sandbox.path().join(".git/hooks");
    symlink("master-hook", hooks.join("commit-msg")).unwrap();
    let before = all(&hooks);
    guard(&sandbox, "install").ok();
    write(sandbox.path(), "f", "f");
    git_by(&sandbox, &human("founder"), &["add", "f"]).ok();
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-m", "x"]).ok();
    assert_eq!(fs::read_to_string(sandbox.path().join("log")).unwrap(), "commit-msg\n");
    assert_eq!(
        fs::read(hooks.join("master-hook")).unwrap(),
        script.as_bytes(),
        "what it leads to is not ours"
    );
    guard(&sandbox, "uninstall").ok();
    assert_eq!(all(&hooks), before);
}

#[test]
fn a_hook_that_somebody_changed_meanwhile_keeps_the_change() {
    let sandbox = repository();
    let path = hook(&sandbox, "commit-msg", b"#!/bin/sh\nexit 0\n", 0o755);
    guard(&sandbox, "install").ok();
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("# a line more\n");
    fs::write(&path, text).unwrap();
    let undone = guard(&sandbox, "uninstall").ok().json();
    assert_eq!(undone["hooks"][1]["done"], "taken_out", "{undone}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\nexit 0\n# a line more\n");
    // One that was replaced is not ours any more.
    guard(&sandbox, "install").ok();
    fs::write(&path, "#!/bin/sh\necho another\n").unwrap();
    let undone = guard(&sandbox, "uninstall").ok().json();
    assert_eq!(undone["hooks"][1]["done"], "unchanged", "{undone}");
    assert_ne!(undone["left"], serde_json::json!([]), "what was there before is named: {undone}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\necho another\n");
}

#[test]
fn git_itself_proves_that_it_reaches_the_guard() {
    let sandbox = guarded();
    let there = worktree(&sandbox, "aside");
    let status = |folder: &Path| {
        let mut command = sandbox.command(&human("founder"));
        Ran::of(command.current_dir(folder).args(["guard", "status", "--json"]).output().unwrap())
    };
    let before = all(&sandbox.path().join(".git"));
    for folder in [sandbox.path(), &there] {
        let report = status(folder).ok().json();
        assert_eq!(report["ok"], true);
        for hook in report["hooks"].as_array().unwrap() {
            assert_eq!(hook["reached"], true, "{report}");
        }
    }
    assert_eq!(all(&sandbox.path().join(".git")), before, "asking touches nothing");
    // The file is there, and git does not run it.
    let commit_msg = sandbox.path().join(".git/hooks/commit-msg");
    fs::set_permissions(&commit_msg, fs::Permissions::from_mode(0o644)).unwrap();
    let report = status(&there);
    assert_eq!(report.code, 6, "{report:?}");
    assert_eq!(report.json()["hooks"][1]["reached"], false);
    fs::set_permissions(&commit_msg, fs::Permissions::from_mode(0o755)).unwrap();
    // Git is sent elsewhere: what is in its own folder says nothing.
    git(&sandbox, &["config", "core.hooksPath", "/nowhere"]);
    let report = status(sandbox.path());
    assert_eq!((report.code, &report.json()["error"]["code"]), (6, &"unmet".into()), "{report:?}");
    git(&sandbox, &["config", "core.hooksPath", sandbox.path().join(".git/hooks").to_str().unwrap()]);
    status(sandbox.path()).ok();
}

#[test]
fn a_probe_runs_none_of_the_hooks_that_were_there() {
    let sandbox = repository();
    let ran = sandbox.path().join("ran");
    let script = format!("#!/bin/sh\ntouch '{}'\n", ran.display());
    for name in HOOKS {
        hook(&sandbox, name, script.as_bytes(), 0o755);
    }
    guard(&sandbox, "install").ok();
    assert_eq!(guard(&sandbox, "status").ok().json()["ok"], true);
    assert!(!ran.exists());
}

#[test]
fn all_hooks_are_installed_or_none() {
    let sandbox = repository();
    let hooks = sandbox.path().join(".git/hooks");
    hook(&sandbox, "commit-msg", b"#!/bin/sh\ntrue\n", 0o755);
    // The last of them is none.
    fs::create_dir_all(hooks.join("pre-push/below")).unwrap();
    let before = all(&hooks);
    let refused = sandbox.json(&human("founder"), &["guard", "install"]);
    let message = refused.refused(6)["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "nothing was installed: pre-push is a folder, where git looks for a hook");
    assert_eq!(all(&hooks), before);
    fs::remove_dir_all(hooks.join("pre-push")).unwrap();
    // Something is in the way of the last one when the others are installed.
    symlink("elsewhere", hooks.join("pre-push")).unwrap();
    fs::create_dir(hooks.join(".onus")).unwrap();
    fs::write(hooks.join(".onus/run"), "in the way").unwrap();
    let before = all(&hooks);
    let refused = sandbox.json(&human("founder"), &["guard", "install"]);
    let message = refused.refused(8)["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("nothing was installed: "), "{message}");
    assert_eq!(all(&hooks), before);
    // What was ours stays, whatever fails.
    fs::remove_file(hooks.join(".onus/run")).unwrap();
    fs::remove_file(hooks.join("pre-push")).unwrap();
    guard(&sandbox, "install").ok();
    fs::remove_file(hooks.join("pre-push")).unwrap();
    fs::create_dir(hooks.join("pre-push")).unwrap();
    let before = all(&hooks);
    sandbox.json(&human("founder"), &["guard", "install"]).refused(6);
    assert_eq!(all(&hooks), before);
}

#[test]
fn a_folder_of_hooks_that_others_set_is_not_written_and_gets_a_line_to_add() {
    let sandbox = repository();
    // As Husky does it: a tracked folder, and a wrapper in a folder below it.
    let root = sandbox.path();
    fs::create_dir_all(root.join(".husky/_")).unwrap();
    program(&root.join(".husky/_/commit-msg"), "#!/bin/sh\nexec sh -e \"${0%/*}/../commit-msg\" \"$@\"\n");
    write(root, ".husky/commit-msg", "true\n");
    git(&sandbox, &["config", "core.hooksPath", ".husky/_"]);
    let before = (
        all(&root.join(".husky")),
        all(&root.join(".git/hooks")),
        fs::read(root.join(".git/config")).unwrap(),
    );
    let refused = sandbox.run(&human("founder"), &["guard", "install"]);
    assert_eq!(refused.code, 6, "whoever believes that commits are guarded now is wrong: {refused:?}");
    let told = refused.stdout.clone();
    let programs = guard(&sandbox, "install");
    assert_eq!((programs.code, &programs.json()["installed"]), (6, &serde_json::json!(false)));
    assert_eq!(programs.json()["error"]["code"], "unmet");
    let line = "if command -v onus >/dev/null; then onus_code=0; onus guard hook commit-msg \"$@\" || onus_code=$?; \
                case $onus_code in 4|5|6|7) exit 1 ;; esac; fi";
    assert!(told.contains(line) && told.contains(".husky/_"), "{told}");
    let now = (
        all(&root.join(".husky")),
        all(&root.join(".git/hooks")),
        fs::read(root.join(".git/config")).unwrap(),
    );
    assert_eq!(now, before);
    assert_eq!(guard(&sandbox, "status").code, 6);
    // With the line, by hand, the guard is reached, and works.
    let bin = root.join("home/bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(crate::support::ONUS, bin.join("onus")).unwrap();
    write(root, ".husky/commit-msg", &format!("{line}\ntouch '{}'\n", root.join("ran").display()));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = sandbox.command(&human("founder"));
    let report = Ran::of(command.env("PATH", &path).args(["guard", "status", "--json"]).output().unwrap());
    assert_eq!(report.json()["hooks"][1]["reached"], true, "{report:?}");
    assert!(!root.join("ran").exists(), "a probe ends there");
    held(&sandbox, &agent("ada"), "f");
    write(root, "f", "f");
    git(&sandbox, &["add", "f"]);
    let bob = agent("bob");
    let mut command = unknown(&sandbox, root);
    command.env("PATH", &path).env("ONUS_ACTOR", &bob.actor).env("ONUS_INSTANCE", &bob.instance);
    let ran = Ran::of(command.args(["commit", "-q", "-m", "x"]).output().unwrap());
    assert!(ran.code != 0 && ran.stderr.contains("f is reserved by ON-1"), "{ran:?}");
    guard(&sandbox, "uninstall").ok();
}

#[test]
fn paths_that_a_shell_would_read_otherwise_are_quoted() {
    let sandbox = repository();
    let odd = sandbox.path().join("home/it's $(touch bad) \"here\"");
    fs::create_dir_all(&odd).unwrap();
    let program = odd.join("onus");
    crate::support::copy_of_program(crate::support::ONUS, &program);
    let mut command = std::process::Command::new(&program);
    command
        .current_dir(sandbox.path())
        .env("HOME", sandbox.path().join("home"))
        .env("ONUS_ACTOR", "human:founder");
    assert!(command.args(["guard", "install"]).output().unwrap().status.success());
    assert_eq!(guard(&sandbox, "status").ok().json()["ok"], true);
    held(&sandbox, &agent("ada"), "f");
    write(sandbox.path(), "f", "f");
    git(&sandbox, &["add", "f"]);
    let ran = by(&sandbox, &agent("bob"), sandbox.path(), &["commit", "-q", "-m", "x"]);
    assert!(ran.code != 0 && ran.stderr.contains("f is reserved by ON-1"), "{ran:?}");
    assert!(!sandbox.path().join("bad").exists());
}

#[test]
fn outside_git_there_is_nothing_to_install() {
    let sandbox = Sandbox::new();
    for action in ["install", "uninstall", "status"] {
        assert_eq!(guard(&sandbox, action).refused(2)["code"], "usage");
    }
}

#[test]
fn an_agent_does_not_remove_what_checks_it() {
    let sandbox = guarded();
    let before = all(&sandbox.path().join(".git/hooks"));
    sandbox.run(&human("founder"), &["setup", "claude"]).ok();
    let settings = fs::read(sandbox.path().join(".claude/settings.json")).unwrap();
    let loosened = ["config", "set", "scope.mode", "off"];
    for args in [&["guard", "uninstall"][..], &["setup", "claude", "--remove"], &loosened] {
        let error = sandbox.json(&agent("ada"), args).refused(6);
        assert_eq!(error["code"], "not_allowed", "{error}");
    }
    assert_eq!(all(&sandbox.path().join(".git/hooks")), before);
    assert_eq!(fs::read(sandbox.path().join(".claude/settings.json")).unwrap(), settings);
    sandbox.json(&agent("ada"), &["setup", "claude", "--remove", "--print"]).ok();
    sandbox.run(&human("founder"), &["setup", "claude", "--remove"]).ok();
    guard(&sandbox, "uninstall").ok();
}

/// A guard that is gone from one hook lets commits pass: nobody would notice.
#[test]
fn doctor_names_hooks_that_lack_the_guard_although_others_have_it() {
    let sandbox = repository();
    let ann = human("ann");
    sandbox.json(&ann, &["doctor"]).ok();
    guard(&sandbox, "install").ok();
    sandbox.json(&ann, &["doctor"]).ok();
    fs::remove_file(sandbox.path().join(".git/hooks/commit-msg")).unwrap();
    let error = sandbox.json(&ann, &["doctor"]).refused(6);
    assert_eq!(error["next"][0], "onus guard install", "{error}");
    assert!(sandbox.run(&ann, &["doctor"]).stdout.contains("git's hooks lack it: commit-msg"));
    guard(&sandbox, "install").ok();
    sandbox.json(&ann, &["doctor"]).ok();
}

/// They move other people's programs to and fro, so they do it one after the other.
#[test]
fn whoever_installs_and_removes_the_guard_at_once_loses_no_hook() {
    let sandbox = repository();
    let hooks = sandbox.path().join(".git/hooks");
    for name in HOOKS {
        hook(&sandbox, name, format!("\x7fELF, the only copy of {name}").as_bytes(), 0o755);
    }
    let before = all(&hooks);
    for _ in 0..5 {
        let at_once =
            ["install", "uninstall", "install", "uninstall", "install", "uninstall"].map(|action| {
                let mut command = sandbox.command(&human("founder"));
                command.args(["guard", action, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
                command.spawn().unwrap()
            });
        for one in at_once {
            Ran::of(one.wait_with_output().unwrap()).ok();
        }
        guard(&sandbox, "uninstall").ok();
        assert_eq!(all(&hooks), before);
    }
}
