//! 16 processes touch the same 100 paths, each in an order of its own: every path ends with exactly one holder.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{As, Ran, Sandbox, agent, human};

const PROCESSES: usize = 16;
const PATHS: usize = 100;
/// How many paths a call names: some single ones, some together, all or nothing.
const TOGETHER: [usize; 4] = [1, 1, 2, 5];

fn path(n: usize) -> String {
    format!("src/part{}/file{n}.rs", n % 7)
}

/// What one process was granted, by its own account.
fn touch_all(sandbox: &Sandbox, who: &As, number: usize) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    // A step without a common factor with the number of paths: each process goes through all, in another order.
    let order: Vec<usize> = (0..PATHS).map(|n| (n * (2 * number + 3) + number * 31) % PATHS).collect();
    let together = TOGETHER[number % TOGETHER.len()];
    for chunk in order.chunks(together) {
        let paths: BTreeSet<String> = chunk.iter().map(|n| path(*n)).collect();
        let mut command = sandbox.command(who);
        command.env("ONUS_STORE_WAIT", "60s").arg("touch").args(&paths).arg("--json");
        let ran = Ran::of(command.output().unwrap());
        match ran.code {
            0 => granted.extend(paths),
            _ => {
                let error = ran.refused(4);
                assert_eq!(error["code"], "scope");
                assert_ne!(error["holder"]["instance"], who.instance.as_str(), "{error}");
                let path = error["conflict"]["path"].as_str().unwrap();
                assert!(paths.contains(path), "it names a path that was asked for: {error}");
            }
        }
    }
    granted
}

#[test]
fn every_path_that_sixteen_processes_touch_ends_with_exactly_one_holder() {
    // Given 16 agents, each with a task of its own
    let sandbox = Sandbox::new();
    let agents: Vec<As> = (0..PROCESSES).map(|n| agent(&format!("toucher{n}"))).collect();
    for who in &agents {
        let id = sandbox.add("a task");
        sandbox.json(who, &["claim", &id]).ok();
    }
    // When all of them touch all paths at the same time
    let granted: Vec<BTreeSet<String>> = std::thread::scope(|scope| {
        let running: Vec<_> = agents
            .iter()
            .enumerate()
            .map(|(number, who)| {
                let sandbox = &sandbox;
                scope.spawn(move || touch_all(sandbox, who, number))
            })
            .collect();
        running.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    // Then each path was granted to one of them, by their own accounts
    let mut owners: BTreeMap<&String, usize> = BTreeMap::new();
    for (number, paths) in granted.iter().enumerate() {
        for path in paths {
            assert_eq!(owners.insert(path, number), None, "{path} was granted twice");
        }
    }
    assert_eq!(owners.len(), PATHS, "a path that was free stayed free");
    assert!(granted.iter().filter(|paths| !paths.is_empty()).count() > 1, "one process got everything");
    // And the store agrees
    let status = sandbox.json(&human("founder"), &["status"]).ok().json();
    for held in status["held"].as_array().unwrap() {
        let lease = &held["lease"];
        let number = agents.iter().position(|who| lease["instance"] == who.instance.as_str()).unwrap();
        let reserved: BTreeSet<String> =
            lease["scope"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()).collect();
        assert_eq!(reserved, granted[number]);
    }
    sandbox.is_whole();
}
