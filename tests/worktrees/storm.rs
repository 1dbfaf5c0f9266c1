//! Many at once.

use std::thread;

use crate::kit::Yard;
use crate::support::{agent, human};

#[test]
fn many_processes_add_claim_remove_and_prune_at_once() {
    const PROCESSES: usize = 16;
    let yard = Yard::new();
    let ids: Vec<String> = (0..PROCESSES).map(|n| yard.add(&format!("task {n}"))).collect();
    thread::scope(|scope| {
        for (n, id) in ids.iter().enumerate() {
            let (yard, ids) = (&yard, &ids);
            scope.spawn(move || {
                let who = agent(&format!("a{n}"));
                let path = yard.claim(&who, id);
                assert!(path.join("a.txt").exists(), "{}", path.display());
                match n % 4 {
                    // Work stays, whoever prunes.
                    0 => drop(yard.commit_in(&path, &format!("{n}.txt"), "work\n")),
                    1 => std::fs::write(path.join("dirty"), "x").unwrap(),
                    _ => {}
                }
                yard.run(&who, &["release", id]).ok();
                if n % 4 == 2 {
                    // Somebody else's prune may have been faster.
                    let gone = yard.json(&who, &["worktree", "remove", path.to_str().unwrap()]);
                    assert!(matches!(gone.code, 0 | 3 | 6), "{gone:?}");
                } else {
                    yard.run(&who, &["worktree", "prune"]).ok();
                }
                // And one that others fight for, too.
                let fought = yard.json(&who, &["worktree", "add", &ids[n / 4 * 4]]);
                assert!(matches!(fought.code, 0 | 4 | 6), "{fought:?}");
                yard.run(&who, &["worktree", "list"]).ok();
            });
        }
    });
    yard.is_at_rest();
    for n in 0..PROCESSES {
        let path = yard.root().join(format!("ON-{}-task-{n}", n + 1));
        match n % 4 {
            0 => assert!(path.join(format!("{n}.txt")).exists(), "{n}"),
            1 => assert!(path.join("dirty").exists(), "{n}"),
            _ => {}
        }
    }
    let verified = yard.json(&human("ada"), &["ledger", "verify"]).ok().json();
    assert_eq!(verified["ok"], true);
}

#[test]
fn two_claims_of_one_agent_at_once_get_the_same_worktree() {
    const ROUNDS: usize = 20;
    let yard = Yard::new();
    let a = agent("a");
    for round in 0..ROUNDS {
        let id = yard.add(&format!("round {round}"));
        let paths: Vec<_> = thread::scope(|scope| {
            let claims: Vec<_> = (0..2).map(|_| scope.spawn(|| yard.claim(&a, &id))).collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        assert_eq!(paths[0], paths[1]);
        let task = yard.show(&id);
        assert_eq!(task["lease"]["worktree"], paths[0].to_str().unwrap(), "round {round}: {task:#}");
        yard.run(&a, &["release", &id]).ok();
    }
    yard.is_at_rest();
}
