//! The target moves exactly once for each landing, or not at all.

use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use onus_repo::landing::{Error, Intended, Moved, Settled, Style};

use crate::kit::{Yard, count, land_from, plan, tip, union, words, write};

/// Landers at once, and the branches of each.
fn race(yard: &Yard) {
    let (landers, each) = (4, count("LANDING_RACE", 3));
    let start = yard.at("main").to_string();
    let branches: Vec<Vec<_>> = (0..landers)
        .map(|lander| {
            let branch = |n| {
                yard.branch(&format!("race-{lander}-{n}"), &start, |root| {
                    write(root, &format!("race/{lander}-{n}.txt"), "here\n");
                    write(root, "log.md", &format!("# log\n- {lander}-{n}\n"));
                })
            };
            (0..each).map(branch).collect()
        })
        .collect();
    // All begin at the same value, so all but one are too late.
    let begin = Barrier::new(branches.len());
    let lost: usize = std::thread::scope(|scope| {
        let begin = &begin;
        let threads: Vec<_> = branches
            .iter()
            .enumerate()
            .map(|(who, branches)| {
                scope.spawn(move || {
                    let lander = yard.lander();
                    let mut lost = 0;
                    for (n, branch) in branches.iter().enumerate() {
                        let looked = || {
                            if n == 0 {
                                begin.wait();
                            }
                        };
                        lost += land_from(&lander, &format!("ON-{who}-{n}"), "main", branch, &looked).1;
                    }
                    lost
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(lost >= 3, "{lost} were too late");
    let tip = tip(&yard.lander(), "main");
    let log = yard.file(&tip.commit, "log.md").unwrap();
    for lander in 0..landers {
        for n in 0..each {
            assert!(
                yard.file(&tip.commit, &format!("race/{lander}-{n}.txt")).is_some(),
                "{lander}-{n} is lost"
            );
            let times = log.lines().filter(|line| *line == format!("- {lander}-{n}")).count();
            assert_eq!(times, 1, "{lander}-{n}\n{log}");
        }
    }
    // Each value was built on the one before it.
    let landed = yard.git(&["rev-list", "--count", "--first-parent", &format!("{start}..{}", tip.commit)]);
    assert_eq!(landed, (landers * each).to_string());
    assert_eq!(yard.lander().intents().unwrap(), []);
    yard.fsck();
}

#[test]
fn of_many_landers_at_once_each_lands_exactly_once() {
    let yard = Yard::new();
    yard.git(&["checkout", "--quiet", "--detach"]);
    race(&yard);
}

#[test]
fn of_many_landers_at_once_each_lands_exactly_once_where_the_target_is_checked_out() {
    let yard = Yard::new();
    race(&yard);
    yard.lander().bring_forward("main").unwrap();
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    assert_eq!(yard.git(&["for-each-ref", "refs/onus/"]), "");
    assert_eq!(yard.git(&["ls-files", "race"]).lines().count() as u64, 4 * count("LANDING_RACE", 3));
}

#[test]
fn a_lander_and_a_settler_at_once_agree_who_was_first() {
    let yard = Yard::new();
    yard.git(&["checkout", "--quiet", "--detach"]);
    let lander = yard.lander();
    let (mut moved, mut withdrawn, mut took) = (0, 0, Duration::ZERO);
    for n in 0..count("LANDING_SETTLES", 20) {
        let branch = yard.branch(&format!("b{n}"), "main", |root| write(root, &format!("n{n}"), "x\n"));
        let tip = tip(&lander, "main");
        let result =
            lander.commit(&plan(&lander, &tip.commit, &branch, Style::Merge), &words("land")).unwrap();
        assert_eq!(lander.intend("ON-1", &result, &tip).unwrap(), Intended::Written);
        assert_eq!(lander.intend("ON-1", &result, &tip).unwrap(), Intended::Taken);
        // One is surely first, then the other; in between they meet, as far as this machine's speed can be told.
        let pause = took.mul_f64((n % 8) as f64 / 5.0);
        let (lander, result) = (&lander, &result);
        let (settler_is_first, lander_is_first) = (n % 8 == 1, n % 8 == 0);
        let (outcome, settled) = std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel();
            let settled = scope.spawn(move || {
                match lander_is_first {
                    true => is_done.recv().unwrap(),
                    false => std::thread::sleep(if settler_is_first { Duration::ZERO } else { pause }),
                }
                // With and without what the ledger knows.
                lander.settle("ON-1", "main", (n % 2 == 0).then_some(result)).unwrap()
            });
            if settler_is_first {
                let settled = settled.join().unwrap();
                return (lander.move_target("ON-1", &tip, result, "land").unwrap(), settled);
            }
            let began = Instant::now();
            let outcome = lander.move_target("ON-1", &tip, result, "land").unwrap();
            took = if took.is_zero() { began.elapsed() } else { took };
            // Only a settler that comes second waits for it.
            let _ = done.send(());
            (outcome, settled.join().unwrap())
        });
        match outcome {
            Moved::Moved { .. } => {
                moved += 1;
                assert_eq!(yard.at("main"), *result);
                // Nobody who asks later, and knows what was intended, is told otherwise.
                assert_eq!(
                    lander.settle("ON-1", "main", Some(result)).unwrap(),
                    Settled::Landed(result.clone())
                );
                if n % 2 == 0 {
                    assert_eq!(settled, Settled::Landed(result.clone()));
                }
            }
            Moved::IntentGone => {
                withdrawn += 1;
                assert_eq!(yard.at("main"), tip.commit);
                assert_eq!(settled, Settled::Withdrawn);
                assert_eq!(lander.settle("ON-1", "main", Some(result)).unwrap(), Settled::Withdrawn);
            }
            Moved::TargetMoved | Moved::BranchMoved => panic!("nobody else landed"),
        }
        assert_eq!(lander.intents().unwrap(), []);
    }
    assert!(moved > 0 && withdrawn > 0, "{moved} moved, {withdrawn} withdrawn: this shows nothing");
}

/// Where a process that is this test itself finds its repository, when it is to land there.
const CHILD: &str = "LANDING_CHILD";

fn wait_for(path: &std::path::Path) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says that it has written its intent, and goes on when it may.
fn land_in_two_steps(repo: &std::path::Path) {
    let lander = crate::kit::lander(repo);
    let branch = lander.commit_of("refs/heads/work").unwrap();
    let tip = tip(&lander, "main");
    let result = lander.commit(&plan(&lander, &tip.commit, &branch, Style::Merge), &words("land")).unwrap();
    lander.intend("ON-1", &result, &tip).unwrap();
    std::fs::write(repo.with_extension("intended"), result.as_str()).unwrap();
    wait_for(&repo.with_extension("go"));
    let outcome = lander.move_target("ON-1", &tip, &result, "land").unwrap();
    std::fs::write(repo.with_extension("done.new"), format!("{outcome:?}")).unwrap();
    std::fs::rename(repo.with_extension("done.new"), repo.with_extension("done")).unwrap();
}

#[test]
fn a_lander_that_was_stopped_moves_nothing_once_its_landing_is_settled() {
    if let Some(repo) = std::env::var_os(CHILD) {
        return land_in_two_steps(repo.as_ref());
    }
    let yard = Yard::new();
    yard.git(&["checkout", "--quiet", "--detach"]);
    yard.branch("work", "main", |root| write(root, "new.txt", "new\n"));
    let before = yard.at("main");
    let name = "moving::a_lander_that_was_stopped_moves_nothing_once_its_landing_is_settled";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, yard.repo())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&yard.repo().with_extension("intended"));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let lander = yard.lander();
    let (_, intended) = lander.intents().unwrap().remove(0);
    assert_eq!(lander.settle("ON-1", "main", Some(&intended)).unwrap(), Settled::Withdrawn);
    std::fs::write(yard.repo().with_extension("go"), "").unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(yard.repo().with_extension("done")).unwrap(), "IntentGone");
    assert_eq!(yard.at("main"), before);
}

/// One lander has moved its target and was killed; another is about to land the same task elsewhere, and has written its reference.
#[test]
fn what_landed_is_told_by_its_commit_whatever_else_is_about_to_land() {
    let yard = Yard::new();
    yard.git(&["checkout", "--quiet", "--detach"]);
    yard.git(&["branch", "next", "main"]);
    let branch = yard.branch("work", "main", |root| write(root, "new.txt", "new\n"));
    let lander = yard.lander();
    let commit = |target: &str| {
        let tip = tip(&lander, target);
        let result =
            lander.commit(&plan(&lander, &tip.commit, &branch, Style::Merge), &words(target)).unwrap();
        assert_eq!(lander.intend("ON-1", &result, &tip).unwrap(), Intended::Written);
        (tip, result)
    };
    let (tip_of_main, landed) = commit("main");
    let moved = lander.move_target("ON-1", &tip_of_main, &landed, "land").unwrap();
    assert!(matches!(moved, Moved::Moved { .. }), "{moved:?}");
    let (tip_of_next, begun) = commit("next");
    assert_eq!(lander.settle("ON-1", "main", Some(&landed)).unwrap(), Settled::Landed(landed));
    // The other finds its intent gone, and begins again.
    assert_eq!(lander.move_target("ON-1", &tip_of_next, &begun, "land").unwrap(), Moved::IntentGone);
    assert_eq!(lander.settle("ON-1", "next", Some(&begun)).unwrap(), Settled::Withdrawn);
}

#[test]
fn what_is_there_already_and_what_cannot_be_are_told_apart() {
    let yard = Yard::new();
    let branch = yard.branch("work", "main", |root| write(root, "new.txt", "new\n"));
    let (lander, start) = (yard.lander(), yard.at("main"));
    assert!(!lander.is_landed(&branch, &start).unwrap());
    // A result that does not contain the target is never intended.
    let other = yard.branch("other", "main", |root| write(root, "other.txt", "other\n"));
    yard.git(&["merge", "--quiet", "--ff-only", "other"]);
    let tip_now = tip(&lander, "main");
    assert!(matches!(lander.intend("ON-1", &branch, &tip_now), Err(Error::NotAhead)));
    // The same content, squashed elsewhere.
    yard.git(&["merge", "--quiet", "--squash", "work"]);
    yard.commit("squashed elsewhere");
    let main = yard.at("main");
    let nothing = lander.plan(&main, &branch, Style::Merge, &union(&[])).unwrap();
    assert_eq!(nothing, onus_repo::landing::Planned::AlreadyThere);
    assert!(lander.is_landed(&branch, &main).unwrap() && lander.is_landed(&other, &main).unwrap());
    // And later, when the target has gone on to something else in the same file.
    write(&yard.repo(), "new.txt", "changed since\n");
    yard.commit("on top");
    assert!(lander.is_landed(&branch, &yard.at("main")).unwrap());
    // Taken by hand, and taken back: it is in the history, and not in the target.
    let again = yard.branch("again", "main", |root| write(root, "again.txt", "again\n"));
    yard.git(&["cherry-pick", "-x", "again"]);
    write(&yard.repo(), "own.txt", "its own\n");
    yard.commit("on top");
    assert!(lander.is_landed(&again, &yard.at("main")).unwrap());
    yard.git(&["revert", "--no-edit", "HEAD~1"]);
    assert!(!lander.is_landed(&again, &yard.at("main")).unwrap());
    assert!(matches!(lander.tips("none"), Err(Error::NoBranch(_))));
    yard.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    assert!(matches!(lander.tips("alias"), Err(Error::Symbolic(_, _))));
}
