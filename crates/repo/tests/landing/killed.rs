//! kill -9 at random points.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use onus_repo::landing::{Forward, Settled, Style};

use crate::kit::{Dice, Yard, count, git, land, lander, plan, tip, words, write};

/// Where a process that is this test itself finds its repository, when it is to land there.
const CHILD: &str = "LANDING_KILLED";

/// Lands what it is told, with a checkout in between as for a gate.
fn land_all(repo: &Path) {
    let lander = lander(repo);
    for line in std::fs::read_to_string(repo.with_extension("todo")).unwrap().lines() {
        let (id, branch) = line.split_once(' ').unwrap();
        let tip = tip(&lander, "main");
        let plan = plan(&lander, &tip.commit, &branch.parse().unwrap(), Style::Merge);
        let provisional = lander.provisional(&plan.tree, &tip.commit).unwrap();
        let scratch = lander.worktrees().scratch(&repo.with_extension("onus"), provisional.as_str()).unwrap();
        assert_eq!(git(scratch.path(), &["status", "--porcelain"]), "");
        write(scratch.path(), "made/by-a-gate.txt", "x\n");
        scratch.remove().unwrap();
        let result = lander.commit(&plan, &words(id)).unwrap();
        // What the ledger would know.
        std::fs::write(repo.with_extension("ledger"), format!("{id} {result}")).unwrap();
        lander.intend(id, &result, &tip).unwrap();
        lander.move_target(id, &tip, &result, "land").unwrap();
        lander.bring_forward("main").unwrap();
    }
    std::fs::write(repo.with_extension("finished"), "").unwrap();
}

#[test]
fn who_is_killed_while_landing_loses_nothing_and_leaves_nothing() {
    if let Some(repo) = std::env::var_os(CHILD) {
        return land_all(repo.as_ref());
    }
    let yard = Yard::new();
    let (repo, mut dice, mut next) = (yard.repo(), Dice(count("LANDING_SEED", 7)), 0);
    // Edits of a person, in the checkout that is brought forward all the time.
    write(&repo, "own.txt", "not committed\n");
    write(&repo, "untracked.txt", "mine\n");
    let mut whole = None;
    let (mut landed, mut withdrawn, mut interrupted) = (0, 0, 0);
    for _ in 0..count("LANDING_KILLS", 8) {
        let start = tip(&yard.lander(), "main").commit.to_string();
        let branches: Vec<(String, String)> = (0..2)
            .map(|_| {
                next += 1;
                let commit = yard.branch(&format!("b{next}"), &start, |root| {
                    write(root, &format!("landed/{next}.txt"), "here\n");
                    let log = std::fs::read_to_string(root.join("log.md")).unwrap();
                    write(root, "log.md", &format!("{log}- {next}\n"));
                });
                (format!("ON-{next}"), commit.to_string())
            })
            .collect();
        let todo: Vec<String> = branches.iter().map(|(id, commit)| format!("{id} {commit}")).collect();
        std::fs::write(repo.with_extension("todo"), todo.join("\n")).unwrap();
        for file in ["ledger", "finished"] {
            drop(std::fs::remove_file(repo.with_extension(file)));
        }
        let began = Instant::now();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::who_is_killed_while_landing_loses_nothing_and_leaves_nothing",
                "--nocapture",
            ])
            .env(CHILD, &repo)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        match whole {
            // How long it takes when nobody is killed.
            None => {
                assert!(child.wait().unwrap().success());
                whole = Some(began.elapsed());
            }
            Some(whole) => {
                std::thread::sleep(Duration::from_secs_f64(
                    whole.as_secs_f64() * dice.roll(1000) as f64 / 1000.0,
                ));
                drop(child.kill());
                child.wait().unwrap();
            }
        }
        if !repo.with_extension("finished").exists() {
            interrupted += 1;
        }
        // As `doctor --fix` would. A git that was started just before the kill still uses the scratch worktree, so it is left alone.
        let lander = yard.lander();
        let patience = Instant::now() + Duration::from_secs(60);
        while lander.worktrees().remove_scratches().is_ok()
            && yard.root().exists()
            && Instant::now() < patience
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Ok(ledger) = std::fs::read_to_string(repo.with_extension("ledger")) {
            let (id, commit) = ledger.split_once(' ').unwrap();
            if let Ok(commit) = commit.parse() {
                match lander.settle(id, "main", Some(&commit)).unwrap() {
                    Settled::Landed(_) => landed += 1,
                    Settled::Withdrawn => withdrawn += 1,
                }
            }
        }
        assert_eq!(lander.intents().unwrap(), []);
        // What was withdrawn lands when it is tried again.
        for (id, commit) in &branches {
            let commit = commit.parse().unwrap();
            if !lander.is_in("main", &commit).unwrap() {
                land(&lander, id, "main", &commit);
            }
        }
        let forward = lander.bring_forward("main").unwrap();
        assert!(forward.len() == 1 && forward[0].outcome == Forward::UpToDate, "{forward:?}");
        assert_eq!(yard.git(&["status", "--porcelain"]), " M own.txt\n?? untracked.txt");
        assert_eq!(std::fs::read_to_string(repo.join("own.txt")).unwrap(), "not committed\n");
        let log = std::fs::read_to_string(repo.join("log.md")).unwrap();
        for n in 1..=next {
            assert!(repo.join(format!("landed/{n}.txt")).exists(), "{n} is lost");
            assert_eq!(log.lines().filter(|line| *line == format!("- {n}")).count(), 1, "{n}\n{log}");
        }
        assert_eq!(yard.git(&["for-each-ref", "refs/onus"]), "");
        assert_eq!(yard.git(&["worktree", "list"]).lines().count(), 1);
        assert!(!yard.root().exists(), "a scratch worktree is left: {:?}", yard.left_in_root());
        yard.fsck();
    }
    assert!(interrupted > 0, "nobody was killed in time: this shows nothing");
    println!(
        "{interrupted} interrupted; of the last landings {landed} had landed, {withdrawn} were withdrawn"
    );
}
