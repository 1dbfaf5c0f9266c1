//! Targets that several clones share through one server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::commit::CommitId;
use onus_repo::landing::{Change, Error, Fetched, Intended, Lander, Moved, Part, Push, Settled, Style};

use crate::kit::{Yard, commit_of, count, git, lander, plan, words, write};
use crate::program::program;

const LIMIT: Duration = Duration::from_secs(60);

/// A server, and clones of it.
fn clones(yard: &Yard, many: usize) -> (PathBuf, Vec<PathBuf>) {
    let server = yard.path().join("server.git");
    yard.git(&["clone", "--quiet", "--bare", ".", &server.display().to_string()]);
    let clone = |n: usize| {
        let clone = yard.path().join(format!("clone-{n}"));
        yard.git(&["clone", "--quiet", &server.display().to_string(), &clone.display().to_string()]);
        for (key, value) in [("user.name", "Lander"), ("user.email", "lander@example.org")] {
            git(&clone, &["config", key, value]);
        }
        clone
    };
    let clones = (0..many).map(clone).collect();
    (server, clones)
}

fn change(clone: &Path, name: &str) -> CommitId {
    git(clone, &["checkout", "--quiet", "-b", name, "origin/main"]);
    write(clone, &format!("{name}.txt"), "here\n");
    git(clone, &["add", "--all"]);
    git(clone, &["commit", "--quiet", "-m", name]);
    git(clone, &["checkout", "--quiet", "main"]);
    commit_of(clone, name)
}

/// Moves the server's `main` for one task.
fn move_target(lander: &Lander, id: &str, old: &CommitId, result: &CommitId) -> Result<Moved, Push> {
    let parts = [Part { id, commit: result, branch: None }];
    lander.move_together_at("origin", &parts, "main", (old, result), LIMIT).unwrap()
}

/// Lands on what was fetched, however often another clone is faster. How often it was.
fn land(clone: &Path, id: &str, branch: &CommitId, fetched: &dyn Fn()) -> usize {
    let lander = lander(clone);
    for lost in 0..100 {
        let Fetched::At(tip) = lander.fetch_target("origin", "main", LIMIT).unwrap() else {
            panic!("no main")
        };
        if lost == 0 {
            fetched();
        }
        let result = lander.commit(&plan(&lander, &tip, branch, Style::Merge), &words(id)).unwrap();
        assert_eq!(lander.intend_at("origin", id, &result, LIMIT).unwrap(), Ok(Intended::Written));
        match move_target(&lander, id, &tip, &result) {
            Ok(Moved::Moved { .. }) => return lost,
            Ok(Moved::TargetMoved) => {
                let settled = lander.settle_at("origin", id, "main", &result, LIMIT).unwrap();
                assert_eq!(settled, Ok(Settled::Withdrawn));
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("{id} never got its turn");
}

#[test]
fn two_clones_of_one_server_lose_nothing() {
    let yard = Yard::new();
    let (server, clones) = clones(&yard, 2);
    let each = count("LANDING_RACE", 3);
    // Both begin at the same value, so one is too late.
    let begin = std::sync::Barrier::new(2);
    let lost: usize = std::thread::scope(|scope| {
        let begin = &begin;
        let threads: Vec<_> = clones
            .iter()
            .enumerate()
            .map(|(who, clone)| {
                scope.spawn(move || {
                    let land = |n| {
                        let name = format!("c{who}-{n}");
                        let fetched = || {
                            if n == 0 {
                                begin.wait();
                            }
                        };
                        land(clone, &name, &change(clone, &name), &fetched)
                    };
                    (0..each).map(land).sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(lost >= 1, "nobody was too late");
    let there = git(&server, &["ls-tree", "--name-only", "main"]);
    for who in 0..2 {
        for n in 0..each {
            assert!(there.lines().any(|name| name == format!("c{who}-{n}.txt")), "{there}");
        }
    }
    assert_eq!(git(&server, &["rev-list", "--count", "--first-parent", "main"]), (1 + 2 * each).to_string());
    assert_eq!(git(&server, &["for-each-ref", "refs/onus"]), "");
    git(&server, &["fsck", "--no-progress", "--no-dangling"]);
}

#[test]
fn a_push_replaces_only_what_it_names_and_says_why_not() {
    let yard = Yard::new();
    let (server, clones) = clones(&yard, 1);
    let (clone, start) = (&clones[0], commit_of(&server, "main"));
    let lander = lander(clone);
    let one = change(clone, "one");
    git(clone, &["checkout", "--quiet", "--detach", "one"]);
    let two = change(clone, "two");
    let main = |old: &CommitId, new: &CommitId| {
        [Change { reference: "refs/heads/main".to_owned(), old: Some(old.clone()), new: Some(new.clone()) }]
    };
    let push = |changes: &[Change]| lander.push("origin", changes, LIMIT);
    // The local hook would stop it.
    let hook = |folder: &Path, name: &str, text: &str| {
        program(&folder.join(name), format!("#!/bin/sh\n{text}\n"));
    };
    hook(clone, ".git/hooks/pre-push", "exit 1");
    assert_eq!(push(&main(&start, &one)).unwrap(), Push::Pushed);
    // What it expects is gone; and it never takes anything back, even if asked to.
    assert_eq!(push(&main(&start, &two)).unwrap(), Push::Moved);
    assert!(matches!(push(&main(&one, &start)), Err(Error::NotAhead)));
    // All or none.
    let mut both = main(&one, &one).to_vec();
    both[0].new = Some(one.clone());
    both.push(Change {
        reference: "refs/heads/extra".to_owned(),
        old: Some(one.clone()),
        new: Some(one.clone()),
    });
    both.push(Change { reference: "refs/heads/third".to_owned(), old: None, new: Some(one.clone()) });
    assert_eq!(push(&both).unwrap(), Push::Moved);
    assert_eq!(git(&server, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    // A server that does not want it, in its own words.
    hook(&server, "hooks/pre-receive", "echo 'main is protected: ask Ann' >&2; exit 1");
    let third = {
        git(clone, &["fetch", "--quiet"]);
        change(clone, "three")
    };
    let refused = push(&main(&one, &third)).unwrap();
    assert!(
        matches!(&refused, Push::Refused(words) if words.contains("main is protected: ask Ann")),
        "{refused:?}"
    );
    assert_eq!(commit_of(&server, "main"), one);
    // One that is not there.
    git(clone, &["remote", "add", "gone", &yard.path().join("nowhere.git").display().to_string()]);
    assert!(matches!(lander.push("gone", &main(&one, &third), LIMIT).unwrap(), Push::Unreachable(_)));
    assert!(matches!(lander.fetch_target("gone", "main", LIMIT).unwrap(), Fetched::Unreachable(_)));
    assert_eq!(lander.fetch_target("origin", "none", LIMIT).unwrap(), Fetched::NoBranch);
    assert!(lander.fetch_target("nobody", "main", LIMIT).is_err());
    // One that does not answer in time.
    git(clone, &["config", "remote.origin.uploadpack", "sleep 100 #"]);
    let began = std::time::Instant::now();
    let answer = lander.fetch_target("origin", "main", Duration::from_millis(300)).unwrap();
    assert!(matches!(answer, Fetched::Unreachable(_)), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(50));
}

#[test]
fn a_lander_moves_nothing_on_a_server_once_its_landing_is_settled() {
    let yard = Yard::new();
    let (server, clones) = clones(&yard, 2);
    let start = commit_of(&server, "main");
    let (stopped, other) = (lander(&clones[0]), lander(&clones[1]));
    let branch = change(&clones[0], "work");
    let result = stopped.commit(&plan(&stopped, &start, &branch, Style::Merge), &words("land")).unwrap();
    assert_eq!(stopped.intend_at("origin", "ON-1", &result, LIMIT).unwrap(), Ok(Intended::Written));
    assert_eq!(stopped.intend_at("origin", "ON-1", &result, LIMIT).unwrap(), Ok(Intended::Taken));
    // Another machine, which has none of its commits.
    assert_eq!(other.settle_at("origin", "ON-1", "main", &result, LIMIT).unwrap(), Ok(Settled::Withdrawn));
    let moved = move_target(&stopped, "ON-1", &start, &result);
    assert_eq!(moved, Ok(Moved::IntentGone));
    assert_eq!(commit_of(&server, "main"), start);
    // And one that was not stopped has landed, whoever asks.
    assert_eq!(stopped.intend_at("origin", "ON-1", &result, LIMIT).unwrap(), Ok(Intended::Written));
    let moved = move_target(&stopped, "ON-1", &start, &result);
    assert!(matches!(moved, Ok(Moved::Moved { .. })), "{moved:?}");
    let settled = other.settle_at("origin", "ON-1", "main", &result, LIMIT).unwrap();
    assert_eq!(settled, Ok(Settled::Landed(result)));
}
