//! P10 with worktrees of a task's own: bringing back overwrites nothing, a moved one is not given up, and nothing stays behind.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::agents::kit::{git, repository};
use crate::support::{self, Ran, Sandbox, agent, eventually, human};

struct Site {
    sandbox: Sandbox,
    beside: TempDir,
    /// The worktree that `agent:a` lost.
    lost: PathBuf,
}

/// A lapsed task with a worktree of its own, in which this was done.
fn site(base: impl FnOnce(&Path), work: impl FnOnce(&Path)) -> Site {
    let (sandbox, beside) = (repository(), tempfile::tempdir().unwrap());
    fs::write(sandbox.path().join(".gitignore"), "/home/\n").unwrap();
    for file in ["f", "g"] {
        fs::write(sandbox.path().join(file), "before\n").unwrap();
    }
    base(sandbox.path());
    git(&sandbox, &["add", "."]);
    git(&sandbox, &["commit", "-q", "-m", "second"]);
    sandbox.add("work");
    let mut claim = sandbox.command(&agent("a"));
    claim.args(["claim", "ON-1", "--worktree", "--ttl", "1s", "--json"]);
    let claim = claim.env("ONUS_WORKTREE_ROOT", beside.path().canonicalize().unwrap());
    let claimed = Ran::of(claim.output().unwrap()).ok().json();
    let lost = PathBuf::from(claimed["worktree"]["path"].as_str().unwrap());
    work(&lost);
    eventually("the lease to lapse", || (sandbox.show("ON-1")["lease"]["live"] == false).then_some(()));
    Site { sandbox, beside, lost }
}

impl Site {
    fn take_over(&self) -> Value {
        self.sandbox.json(&agent("b"), &["takeover", "ON-1", "--reason", "r"]).ok().json()
    }

    /// Another worktree of the same commit.
    fn checkout(&self, name: &str) -> PathBuf {
        let path = self.beside.path().canonicalize().unwrap().join(name);
        git(&self.sandbox, &["worktree", "add", "-q", "--detach", path.to_str().unwrap(), "main"]);
        path
    }

    fn restore(&self, folder: &Path, args: &[&str]) -> Ran {
        let mut command = self.sandbox.command(&agent("b"));
        command.current_dir(folder).args(["rescue", "restore", "ON-1"]).args(args);
        Ran::of(command.output().unwrap())
    }

    fn state(&self) -> Value {
        let all = self.sandbox.json(&human("al"), &["rescue", "list", "--all"]).ok().json();
        all["rescues"][0]["state"].clone()
    }
}

fn is(path: PathBuf, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|is| is == text)
}

#[test]
fn restoring_overwrites_no_ignored_file_and_does_all_or_nothing() {
    let site = site(
        |_| {},
        |lost| {
            fs::write(lost.join("build"), "b\n").unwrap();
            fs::create_dir(lost.join("x")).unwrap();
            fs::write(lost.join("x/y"), "y\n").unwrap();
            fs::remove_file(lost.join("g")).unwrap();
        },
    );
    site.take_over();
    fs::write(site.sandbox.path().join(".git/info/exclude"), "/build\n/x\n").unwrap();
    let cases: [(&str, &[&str]); 3] = [("build", &[]), ("build", &["--only", "build"]), ("x", &[])];
    for (n, (precious, args)) in cases.into_iter().enumerate() {
        let folder = site.checkout(&format!("c{n}"));
        fs::write(folder.join(precious), "PRECIOUS\n").unwrap();
        let ran = site.restore(&folder, args);
        assert_eq!(ran.code, 6, "{n}: {ran:?}");
        assert!(ran.stderr.contains("nothing was restored"), "{n}: {ran:?}");
        assert!(is(folder.join(precious), "PRECIOUS\n"), "{n}");
        assert!(is(folder.join("g"), "before\n"), "{n}: something was restored");
        let other = if precious == "build" { "x" } else { "build" };
        assert!(!folder.join(other).exists(), "{n}: something was restored");
    }
    let folder = site.checkout("free");
    assert_eq!(site.restore(&folder, &[]).code, 0);
    assert!(is(folder.join("x/y"), "y\n") && !folder.join("g").exists());
}

#[test]
fn what_a_killed_rescue_left_behind_is_named_and_removed_unless_it_is_in_use() {
    let site = site(|_| {}, |lost| fs::write(lost.join("f"), "changed\n").unwrap());
    let ours = site.sandbox.path().join(".git/onus");
    let (left, used) = (ours.join("rescue-left00"), ours.join("rescue-used00"));
    for folder in [&left, &used] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("0"), "a secret\n").unwrap();
    }
    let lock = fs::File::open(&used).unwrap();
    lock.lock().unwrap();
    let ran = site.sandbox.run(&human("al"), &["doctor"]);
    assert!(ran.code != 0 && ran.stdout.contains("rescue-left00"), "{ran:?}");
    assert!(!ran.stdout.contains("rescue-used00"), "{ran:?}");
    let ran = site.sandbox.run(&human("al"), &["doctor", "--fix"]);
    assert!(ran.code == 0 && ran.stdout.contains("rescue-left00"), "{ran:?}");
    assert!(!left.exists() && used.join("0").exists());
    drop(lock);
    // A rescue tidies up by itself.
    site.take_over();
    assert!(!used.exists());
    assert_eq!(site.state(), "kept");
}

#[test]
fn of_a_moved_worktree_the_rescue_stays_due_until_git_knows_where_it_is() {
    let site = site(|_| {}, |lost| fs::write(lost.join("f"), "changed\n").unwrap());
    let moved = site.beside.path().canonicalize().unwrap().join("moved");
    fs::rename(&site.lost, &moved).unwrap();
    let told = site.take_over()["notices"].to_string();
    assert!(told.contains("is still to be kept") && told.contains("worktree repair"), "{told}");
    assert_eq!(site.state(), "due");
    let doctor = site.sandbox.run(&human("al"), &["doctor", "--fix"]);
    assert!(doctor.stdout.contains("worktree repair"), "{doctor:?}");
    assert_eq!(site.state(), "due");
    git(&site.sandbox, &["worktree", "repair", moved.to_str().unwrap()]);
    site.sandbox.run(&human("al"), &["doctor", "--fix"]).ok();
    assert_eq!(site.state(), "kept");
    let folder = site.checkout("c");
    assert_eq!(site.restore(&folder, &[]).code, 0);
    assert!(is(folder.join("f"), "changed\n"));
}

#[test]
fn only_a_worktree_that_git_has_let_go_of_is_gone() {
    let site = site(|_| {}, |lost| fs::write(lost.join("f"), "changed\n").unwrap());
    fs::remove_dir_all(&site.lost).unwrap();
    site.take_over();
    assert_eq!(site.state(), "due");
    git(&site.sandbox, &["worktree", "prune"]);
    site.sandbox.run(&human("al"), &["doctor", "--fix"]).ok();
    assert_eq!(site.state(), "gone");
}

#[test]
fn what_was_only_staged_is_named_and_a_wrong_destination_is_refused() {
    let site = site(
        |_| {},
        |lost| {
            fs::write(lost.join("f"), "staged\n").unwrap();
            support::git(lost, &["add", "f"]);
            fs::write(lost.join("f"), "on disk\n").unwrap();
        },
    );
    site.take_over();
    let folder = site.checkout("c");
    let ran = site.restore(&folder, &["--only", "nowhere"]);
    assert!(ran.code == 3 && ran.stderr.contains("nowhere"), "{ran:?}");
    symlink("nowhere", folder.join("dangling")).unwrap();
    let ran = site.restore(&folder, &["--to", "dangling"]);
    assert!(ran.code == 2 && ran.stderr.contains("leads nowhere"), "{ran:?}");
    let told = site.restore(&folder, &["--to", "out"]).ok().stdout.clone();
    assert!(told.contains("only staged, not written: git show ") && told.contains("^2:f"), "{told}");
    let told = site.restore(&folder, &["--to", "again", "--json"]).ok().json();
    let object = told["only_staged"][0]["object"].as_str().unwrap();
    assert_eq!(support::git(&folder, &["show", object]), "staged");
    assert!(is(folder.join("again/f"), "on disk\n"));
}

#[test]
fn a_folder_comes_back_where_a_link_leads_outside() {
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("f"), "outside\n").unwrap();
    let site = site(
        |root| symlink(out.path(), root.join("ld")).unwrap(),
        |lost| {
            fs::remove_file(lost.join("ld")).unwrap();
            fs::create_dir(lost.join("ld")).unwrap();
            fs::write(lost.join("ld/f"), "inside\n").unwrap();
        },
    );
    site.take_over();
    for (name, args) in [("c1", &[][..]), ("c2", &["--only", "ld"][..])] {
        let folder = site.checkout(name);
        let ran = site.restore(&folder, args);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(folder.join("ld").symlink_metadata().unwrap().is_dir());
        assert!(is(folder.join("ld/f"), "inside\n") && is(out.path().join("f"), "outside\n"));
    }
}
