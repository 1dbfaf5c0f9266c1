//! P10 through the real binary: what a holder left uncommitted is kept when its task changes hands, and comes back.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::agents::kit::{git, repository};
use crate::guard::kit::write;
use crate::support::{self, Sandbox, agent, eventually, human};

/// A repository with a task whose holder, dead by now, left this uncommitted: one file changed, one staged, one new.
pub(super) fn left_behind() -> Sandbox {
    let sandbox = repository();
    fs::write(sandbox.path().join(".gitignore"), "/home/\n").unwrap();
    for file in ["src/a.rs", "src/staged.rs", "other.rs"] {
        write(sandbox.path(), file, "before\n");
    }
    git(&sandbox, &["add", "."]);
    git(&sandbox, &["commit", "-q", "-m", "second"]);
    sandbox.add("work");
    sandbox.run(&agent("a"), &["claim", "ON-1", "--scope", "src/**", "--ttl", "1s"]).ok();
    soil(sandbox.path());
    eventually("the lease to lapse", || (sandbox.show("ON-1")["lease"]["live"] == false).then_some(()));
    sandbox
}

fn soil(root: &Path) {
    write(root, "src/staged.rs", "staged\n");
    support::git(root, &["add", "src/staged.rs"]);
    write(root, "src/staged.rs", "and more\n");
    write(root, "src/a.rs", "changed\n");
    write(root, "src/new \n name.rs", "new\n");
    write(root, "other.rs", "somebody else's\n");
}

fn read(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).unwrap()
}

const TAKE: [&str; 4] = ["takeover", "ON-1", "--reason", "its holder died"];

#[test]
fn a_takeover_keeps_what_its_predecessor_left_and_the_successor_brings_it_back() {
    let sandbox = left_behind();
    let (b, ada) = (agent("b"), human("ada"));
    let taken = sandbox.json(&b, &TAKE).ok().json();
    let told = taken["notices"].to_string();
    assert!(told.contains("kept 3 uncommitted files of agent:a"), "{told}");
    assert!(told.contains("onus rescue show ON-1"), "{told}");
    // Nothing was touched.
    assert_eq!(read(sandbox.path(), "src/staged.rs"), "and more\n");
    let listed = sandbox.json(&b, &["rescue", "list"]).ok().json();
    assert_eq!(listed["rescues"][0]["task"], "ON-1");
    assert_eq!(listed["rescues"][0]["kept"][0]["ref"], "refs/onus/rescue/ON-1/1");
    let shown = sandbox.json(&b, &["rescue", "show", "ON-1"]).ok().json();
    let files = shown["files"].as_array().unwrap();
    assert_eq!(files.len(), 3, "what is not in its scope is not its own: {shown}");
    assert!(sandbox.run(&b, &["rescue", "show", "ON-1"]).ok().stdout.contains("src/a.rs"));

    // Its words are gone; somebody else's are not.
    git(&sandbox, &["checkout", "-q", "HEAD", "--", "src"]);
    fs::remove_file(sandbox.path().join("src/new \n name.rs")).unwrap();
    sandbox.run(&b, &["rescue", "restore", "ON-1"]).ok();
    assert_eq!(read(sandbox.path(), "src/a.rs"), "changed\n");
    assert_eq!(read(sandbox.path(), "src/staged.rs"), "and more\n");
    assert_eq!(read(sandbox.path(), "src/new \n name.rs"), "new\n");
    assert_eq!(read(sandbox.path(), "other.rs"), "somebody else's\n");
    // Not over what is uncommitted.
    write(sandbox.path(), "src/a.rs", "the successor's\n");
    let refused = sandbox.json(&b, &["rescue", "restore", "ON-1"]).refused(6);
    assert!(refused["message"].to_string().contains("src/a.rs"), "{refused}");
    sandbox.run(&b, &["rescue", "restore", "ON-1", "--to", "out"]).ok();
    assert_eq!(read(sandbox.path(), "out/src/a.rs"), "changed\n");
    sandbox.json(&b, &["rescue", "restore", "ON-1", "--to", "out"]).refused(2);

    assert_eq!(
        sandbox.json(&b, &["rescue", "drop", "ON-1", "--reason", "no"]).refused(6)["code"],
        "people_only"
    );
    sandbox.run(&ada, &["rescue", "drop", "ON-1", "--reason", "it is in"]).ok();
    assert_eq!(sandbox.json(&b, &["rescue", "list"]).ok().json()["rescues"].as_array().unwrap().len(), 0);
    sandbox.json(&b, &["rescue", "restore", "ON-1"]).refused(3);
    sandbox.is_whole();
}

#[test]
fn in_a_clean_checkout_a_rescue_comes_back_with_what_was_staged() {
    let sandbox = left_behind();
    sandbox.run(&agent("b"), &TAKE).ok();
    git(&sandbox, &["stash", "-q", "-u"]);
    sandbox.run(&agent("b"), &["rescue", "restore", "ON-1"]).ok();
    let status = support::git(sandbox.path(), &["status", "--porcelain", "-z", "--no-renames"]);
    assert_eq!(status, " M src/a.rs\0MM src/staged.rs\0?? src/new \n name.rs\0");
}

#[test]
fn an_agent_brings_nothing_back_over_what_another_has_reserved() {
    let sandbox = left_behind();
    sandbox.run(&agent("b"), &TAKE).ok();
    sandbox.run(&agent("b"), &["release", "ON-1"]).ok();
    git(&sandbox, &["stash", "-q", "-u"]);
    sandbox.add("other work");
    sandbox.run(&agent("c"), &["claim", "ON-2", "--scope", "src/**"]).ok();
    sandbox.json(&agent("b"), &["rescue", "restore", "ON-1"]).refused(4);
    assert_eq!(read(sandbox.path(), "src/a.rs"), "before\n");
}

/// By `rescue.max_file`.
pub(super) fn a_larger_file_is_left_and_listed() {
    let sandbox = left_behind();
    fs::write(sandbox.path().join("src/large.bin"), vec![1_u8; 2 << 20]).unwrap();
    let mut command = sandbox.command(&agent("b"));
    let ran = command.args(TAKE).env("ONUS_RESCUE_MAX_FILE", "1").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let listed = sandbox.json(&agent("b"), &["rescue", "list"]).ok().json();
    assert_eq!(listed["rescues"][0]["left_out"][0]["path"], "src/large.bin");
}

/// By `rescue.max_total`.
pub(super) fn of_all_files_together_the_smallest_are_kept() {
    let sandbox = left_behind();
    for n in 0..3 {
        fs::write(sandbox.path().join(format!("src/{n}.bin")), vec![n; 700 << 10]).unwrap();
    }
    let mut command = sandbox.command(&agent("b"));
    let ran = command.args(TAKE).env("ONUS_RESCUE_MAX_TOTAL", "1").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let listed = sandbox.json(&agent("b"), &["rescue", "list"]).ok().json();
    assert_eq!(listed["rescues"][0]["left_out"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed["rescues"][0]["kept"][0]["files"], 4, "{listed}");
}

/// `KILLS`: how often (`scripts/long` asks for 200).
#[test]
fn killed_at_any_point_a_takeover_loses_nothing_and_doctor_finishes_it() {
    let kills: u64 = std::env::var("KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut finished = 0;
    for n in 0..kills {
        let sandbox = left_behind();
        let mut child = sandbox
            .command(&agent("b"))
            .args(TAKE)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Later and later: before the commit, between commit and git, between git and the record.
        std::thread::sleep(Duration::from_micros(n * 60_000 / kills.max(1) + n % 7 * 900));
        let _ = child.kill();
        child.wait().unwrap();
        let sweep = sandbox.run(&human("ada"), &["doctor", "--fix"]);
        assert_eq!(sweep.code, 0, "{sweep:?}");
        let was_taken = sandbox.show("ON-1")["lease"]["actor"] == "agent:b";
        let all = sandbox.json(&human("ada"), &["rescue", "list", "--all"]).ok().json();
        let states: Vec<_> =
            all["rescues"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
        assert_eq!(states, if was_taken { vec!["kept"] } else { Vec::new() }, "kill {n}");
        for file in ["src/a.rs", "src/staged.rs", "src/new \n name.rs", "other.rs"] {
            assert!(sandbox.path().join(file).exists(), "kill {n}: {file}");
        }
        if was_taken {
            finished += 1;
            git(&sandbox, &["stash", "-q", "-u"]);
            sandbox.run(&agent("b"), &["rescue", "restore", "ON-1"]).ok();
            assert_eq!(read(sandbox.path(), "src/staged.rs"), "and more\n", "kill {n}");
        }
        git(&sandbox, &["fsck", "--no-progress", "--no-dangling"]);
        sandbox.is_whole();
    }
    println!("{finished} of {kills} had changed hands");
}
