//! Several clones that share one target: whoever is second lands on top.

use std::thread;

use crate::kit::Yard;
use crate::support::agent;

#[test]
fn two_clones_of_one_remote_lose_nothing() {
    let yards: Vec<Yard> = (0..2).map(|_| Yard::landing("[land]\nremote = \"origin\"\n")).collect();
    let bare = yards[0].folder().join("bare.git");
    yards[0].git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    for yard in &yards {
        yard.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
        yard.git(&["fetch", "--quiet", "origin"]);
        yard.git(&["reset", "--quiet", "--hard", "origin/main"]);
        yard.git(&["branch", "--quiet", "--set-upstream-to", "origin/main"]);
    }
    thread::scope(|scope| {
        for (clone, yard) in yards.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..3 {
                    let file = format!("{clone}-{n}.txt");
                    let id = yard.done(&agent(&format!("w{n}")), &file, &file, "x\n");
                    yard.land(&id);
                    assert_eq!(yard.show(&id)["state"], "done");
                }
            });
        }
    });
    let all = yards[0].git_in(&bare, &["ls-tree", "--name-only", "main"]);
    for clone in 0..2 {
        for n in 0..3 {
            assert!(all.lines().any(|name| name == format!("{clone}-{n}.txt")), "{all}");
        }
    }
    let intents = yards[0].git_in(&bare, &["for-each-ref", "refs/onus/"]);
    assert_eq!(intents, "");
    let landings = yards[0].git_in(&bare, &["rev-list", "--count", "--first-parent", "main"]);
    let before = yards[0].git(&["rev-list", "--count", "--first-parent", "main"]);
    assert_eq!(landings.parse::<u32>().unwrap(), before.parse::<u32>().unwrap() + 6, "each exactly once");
}

#[test]
fn a_remote_that_cannot_be_reached_changes_nothing() {
    let yard = Yard::landing("[land]\nremote = \"origin\"\n");
    yard.git(&["remote", "add", "origin", "/nowhere/at-all.git"]);
    let id = yard.done(&agent("w"), "one", "one.txt", "1\n");
    let refused = yard.json(&agent("lander"), &["land", &id]);
    assert_eq!(refused.refused(8)["code"], "unavailable", "{refused:?}");
    assert_eq!(yard.show(&id)["landing"], "awaited");
    assert_eq!(yard.show(&id)["state"], "done");
}
