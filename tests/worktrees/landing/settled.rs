//! A lander that is stopped between its check and the move of the target, while others go on.

use std::process::Stdio;

use crate::kit::Yard;
use crate::support::{As, Ran, agent, eventually, human};

use super::kit::LANDS;

/// Stops `land` right before its target moves, does something else, lets it go on. Returns how it ended.
fn meanwhile(yard: &Yard, who: &As, args: &[&str], act: impl FnOnce()) -> Ran {
    let (bin, stopped, go) = yard.stopping_git();
    let mut command = yard.command(who);
    command.args(args).arg("--json").env("PATH", Yard::path_with(&bin));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the lander comes to its last step", || stopped.exists().then_some(()));
    act();
    std::fs::write(go, "").unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn a_takeover_meanwhile_keeps_the_target_where_it_is() {
    let yard = Yard::landing(LANDS);
    let (who, id) = (agent("w"), yard.add("slow lander"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "slow.txt", "x\n");
    let before = yard.at("main");
    let ended = meanwhile(&yard, &who, &["land", &id, "-m", "did it"], || {
        yard.run(&human("ada"), &["takeover", &id, "--force", "--reason", "it takes too long"]).ok();
        assert_eq!(yard.intents(), Vec::<String>::new(), "settled before it was taken over");
    });
    assert_ne!(ended.code, 0, "{ended:?}");
    assert_eq!(yard.at("main"), before);
    assert_eq!(yard.in_main("slow.txt"), None);
    let task = yard.show(&id);
    assert_eq!(task["lease"]["actor"], "human:ada");
    assert!(yard.kinds(&id).contains(&"landing.withdrawn".to_owned()));
    assert!(!yard.kinds(&id).contains(&"task.landed".to_owned()));
    yard.has_landed_in_peace();
}

#[test]
fn a_reset_or_reopening_meanwhile_keeps_the_target_where_it_is() {
    for verb in [&["reset", "--reason", "again"][..], &["reopen", "-m", "not yet"]] {
        let yard = Yard::landing(LANDS);
        let id = yard.done(&agent("w"), "done", "done.txt", "x\n");
        let before = yard.at("main");
        let ended = meanwhile(&yard, &agent("lander"), &["land", &id], || {
            let args: Vec<&str> =
                std::iter::once(verb[0]).chain([id.as_str()]).chain(verb[1..].iter().copied()).collect();
            yard.run(&human("ada"), &args).ok();
        });
        assert_eq!(ended.refused(6)["code"], "changed", "{verb:?}: {ended:?}");
        assert_eq!(yard.at("main"), before, "{verb:?}");
        assert_eq!(yard.show(&id)["state"], "open");
        yard.has_landed_in_peace();
    }
}

#[test]
fn whoever_lands_meanwhile_is_not_undone() {
    let yard = Yard::landing(LANDS);
    let slow = yard.done(&agent("a"), "slow", "slow.txt", "slow\n");
    let ended = meanwhile(&yard, &agent("lander"), &["land", &slow], || {
        // Somebody who uses git alone.
        let tree = yard.git(&["write-tree"]);
        drop(tree);
        yard.commit("by-hand.txt", "by hand\n");
    });
    ended.ok();
    for (file, text) in [("slow.txt", "slow\n"), ("by-hand.txt", "by hand\n")] {
        assert_eq!(yard.in_main(file).as_deref(), Some(text));
    }
    assert_eq!(yard.kinds(&slow).iter().filter(|kind| *kind == "task.landed").count(), 1);
    yard.has_landed_in_peace();
}

#[test]
fn a_lander_that_lost_its_seat_moves_nothing() {
    let yard = Yard::landing(LANDS);
    let (a, b) =
        (yard.done(&agent("a"), "a", "one.txt", "1\n"), yard.done(&agent("b"), "b", "two.txt", "2\n"));
    let ended = meanwhile(&yard, &agent("slow"), &["land", &a], || {
        let takeover = ["seat", "takeover", "land:main", "--force", "--reason", "stuck"];
        yard.run(&human("ada"), &takeover).ok();
        yard.run(&human("ada"), &["seat", "release", "land:main"]).ok();
        yard.land(&b);
    });
    // It was beaten to the target; without its seat it does not try again.
    assert_eq!(ended.refused(5)["code"], "fenced", "{ended:?}");
    assert_eq!(yard.in_main("two.txt").as_deref(), Some("2\n"));
    assert_eq!(yard.in_main("one.txt"), None);
    assert_eq!(yard.show(&a)["landing"], "awaited");
    yard.land(&a);
    yard.has_landed_in_peace();
}
