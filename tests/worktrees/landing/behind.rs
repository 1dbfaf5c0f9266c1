//! A checkout of the target that was left behind: it is seen until it has everything, and nothing of either side is lost.

use serde_json::Value;

use crate::kit::Yard;
use crate::support::{Ran, agent, human};

use super::kit::LANDS;

/// A landing past a checkout whose edit of a.txt is in the way. The task that landed.
fn left_behind(yard: &Yard) -> String {
    let id = yard.done_in_steps(&agent("w"), "change a", &[("a.txt", "landed\n"), ("new.txt", "new\n")]);
    std::fs::write(yard.repo().join("a.txt"), "uncommitted\n").unwrap();
    let said = yard.land(&id);
    assert!(said["checkouts"][0]["left"].as_str().unwrap().contains("a.txt"), "{said:#}");
    id
}

/// What `doctor`, `status` and `worktree list` say of it: how far behind and ahead it is, and git's command.
#[track_caller]
fn seen(yard: &Yard, behind: u64, ahead: u64, command: &str) {
    let path = yard.repo().to_str().unwrap().to_owned();
    let next = command.replace("PATH", &path);
    let status = yard.json(&human("ada"), &["status"]).ok().json();
    let own = &status["behind_landed"][0];
    assert_eq!((own["target"].as_str(), own["checkouts"][0].as_str()), (Some("main"), Some(path.as_str())));
    assert_eq!((own["behind"].as_u64(), own["ahead"].as_u64()), (Some(behind), Some(ahead)), "{own:#}");
    assert_eq!(own["next"], next.as_str());
    let text = yard.run(&human("ada"), &["status"]).stdout;
    assert!(text.contains("behind what landed\n") && text.contains(&next), "{text}");
    let listed = yard.json(&human("ada"), &["worktree", "list"]).ok().json();
    let main = &listed["worktrees"][0];
    assert_eq!((main["behind_landed"].as_u64(), main["next"].as_str()), (Some(behind), Some(next.as_str())));
    assert!(yard.run(&human("ada"), &["worktree", "list"]).stdout.contains(&next));
    let doctor = yard.json(&human("ada"), &["doctor"]);
    assert_eq!(doctor.code, 6, "{doctor:?}");
    let line = landing(&doctor);
    assert!(line.contains(&path) && line.contains(&next), "{line}");
    assert!(line.contains(&format!("{behind} commit")), "{line}");
    assert_eq!(doctor.json()["error"]["code"], "unmet");
}

/// What `doctor` finds wrong with landings.
fn landing(doctor: &Ran) -> String {
    let checks = doctor.json()["checks"].as_array().unwrap().clone();
    let is_it = |check: &&Value| check["name"] == "landing" && check["ok"] == false;
    checks.iter().find(is_it).map_or(String::new(), |check| check["detail"].as_str().unwrap().to_owned())
}

/// Nobody has to do anything any more.
#[track_caller]
fn is_whole(yard: &Yard) {
    assert_eq!(yard.git(&["for-each-ref", "refs/onus/landed/"]), "");
    assert_eq!(yard.json(&human("ada"), &["status"]).ok().json()["behind_landed"], serde_json::json!([]));
    let doctor = yard.json(&human("ada"), &["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
    yard.has_landed_in_peace();
}

#[test]
fn behind_and_in_the_way_it_is_named_until_it_can_be_brought_forward() {
    let yard = Yard::landing(LANDS);
    left_behind(&yard);
    seen(&yard, 3, 0, "git -C PATH merge --ff-only refs/onus/landed/main");
    // Wherever git keeps the reference.
    yard.git(&["pack-refs", "--all", "--prune"]);
    seen(&yard, 3, 0, "git -C PATH merge --ff-only refs/onus/landed/main");
    // Nothing brings it forward while the edit is there.
    let fixed = yard.json(&human("ada"), &["doctor", "--fix"]);
    assert_eq!(fixed.code, 6, "{fixed:?}");
    assert!(landing(&fixed).contains("in the way: a.txt"), "{fixed:?}");
    assert_eq!(std::fs::read_to_string(yard.repo().join("a.txt")).unwrap(), "uncommitted\n");
    assert_eq!(yard.json(&agent("lander"), &["land", "--queue"]).refused(7)["code"], "nothing");
    // As soon as it is gone, the next who comes by does.
    yard.git(&["checkout", "--quiet", "--", "a.txt"]);
    seen(&yard, 3, 0, "git -C PATH merge --ff-only refs/onus/landed/main");
    let fixed = yard.json(&human("ada"), &["doctor", "--fix"]).ok().json();
    assert!(fixed["fixed"].to_string().contains("brought forward to what landed in main"), "{fixed:#}");
    assert_eq!(std::fs::read_to_string(yard.repo().join("new.txt")).unwrap(), "new\n");
    is_whole(&yard);
}

#[test]
fn a_later_landing_brings_it_forward_also_if_nothing_waits() {
    let yard = Yard::landing(LANDS);
    left_behind(&yard);
    yard.git(&["checkout", "--quiet", "--", "a.txt"]);
    assert_eq!(yard.json(&agent("lander"), &["land", "--queue"]).refused(7)["code"], "nothing");
    assert_eq!(yard.in_main("new.txt").as_deref(), Some("new\n"));
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    is_whole(&yard);
}

#[test]
fn diverged_by_a_persons_commit_both_sides_are_kept_and_the_next_landing_has_both() {
    let yard = Yard::landing(LANDS);
    left_behind(&yard);
    yard.git(&["checkout", "--quiet", "--", "a.txt"]);
    yard.commit("mine.txt", "mine\n");
    let mine = yard.at("main");
    seen(&yard, 3, 1, "git -C PATH merge refs/onus/landed/main");
    // It is no fast-forward: nobody undoes the commit, and nobody loses what landed.
    let fixed = yard.json(&human("ada"), &["doctor", "--fix"]);
    assert_eq!(fixed.code, 6, "{fixed:?}");
    assert_eq!(yard.at("main"), mine);
    yard.json(&agent("lander"), &["land", "--queue"]).refused(7);
    seen(&yard, 3, 1, "git -C PATH merge refs/onus/landed/main");
    let other = yard.done(&agent("b"), "another", "other.txt", "x\n");
    yard.land(&other);
    for (file, text) in
        [("a.txt", "landed\n"), ("new.txt", "new\n"), ("mine.txt", "mine\n"), ("other.txt", "x\n")]
    {
        assert_eq!(yard.in_main(file).as_deref(), Some(text));
        assert_eq!(std::fs::read_to_string(yard.repo().join(file)).unwrap(), text);
    }
    yard.git(&["merge-base", "--is-ancestor", &mine, "main"]);
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    is_whole(&yard);
}

#[test]
fn what_a_person_committed_and_what_landed_may_conflict_and_then_the_person_merges() {
    let yard = Yard::landing(LANDS);
    left_behind(&yard);
    yard.git(&["commit", "--quiet", "-am", "my own a"]);
    seen(&yard, 3, 1, "git -C PATH merge refs/onus/landed/main");
    let (before, other) = (yard.at("main"), yard.done(&agent("b"), "another", "other.txt", "x\n"));
    let refused = yard.json(&agent("lander"), &["land", &other]);
    let error = refused.refused(6);
    assert_eq!(error["code"], "conflict");
    assert!(error["next"][0].as_str().unwrap().contains("git merge refs/onus/landed/main"), "{error:#}");
    assert_eq!((yard.at("main"), yard.show(&other)["state"].as_str()), (before, Some("done")));
    yard.try_git(&yard.repo(), &["merge", "refs/onus/landed/main"]);
    yard.commit("a.txt", "both\n");
    // The branch has it all: nothing is behind any more, and whoever lands next tidies up.
    assert_eq!(yard.json(&human("ada"), &["status"]).ok().json()["behind_landed"], serde_json::json!([]));
    yard.land(&other);
    assert_eq!(yard.in_main("a.txt").as_deref(), Some("both\n"));
    assert_eq!(yard.in_main("other.txt").as_deref(), Some("x\n"));
    is_whole(&yard);
}

#[test]
fn gits_own_hook_brings_it_forward_after_a_merge() {
    let yard = Yard::landing(LANDS);
    yard.run(&human("ada"), &["guard", "install"]).ok();
    yard.git(&["branch", "side"]);
    left_behind(&yard);
    yard.git(&["checkout", "--quiet", "--", "a.txt"]);
    // A merge that brings nothing runs no hook: what it brings here is the first of what landed.
    let first = yard.at("refs/onus/landed/main^2~1");
    let merged = yard.try_git(&yard.repo(), &["merge", "--ff-only", &first]);
    assert_eq!(merged.code, 0, "{merged:?}");
    assert!(merged.stderr.contains("brought forward to what landed in main"), "{merged:?}");
    assert_eq!(yard.in_main("new.txt").as_deref(), Some("new\n"));
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    is_whole(&yard);
}

#[test]
fn a_branch_that_is_gone_or_out_nowhere_is_named_too() {
    let yard = Yard::landing(LANDS);
    left_behind(&yard);
    yard.git(&["checkout", "--quiet", "--", "a.txt"]);
    yard.commit("mine.txt", "mine\n");
    yard.git(&["switch", "--quiet", "-c", "elsewhere"]);
    let status = yard.json(&human("ada"), &["status"]).ok().json();
    assert_eq!(status["behind_landed"][0]["checkouts"], serde_json::json!([]));
    assert!(landing(&yard.json(&human("ada"), &["doctor"])).contains("branch main, checked out nowhere"));
    yard.git(&["branch", "--quiet", "-D", "main"]);
    let doctor = yard.json(&human("ada"), &["doctor"]);
    assert_eq!(doctor.code, 6, "{doctor:?}");
    let command = format!("git -C {} branch main refs/onus/landed/main", yard.repo().display());
    assert!(landing(&doctor).contains(&command), "{doctor:?}");
    assert!(yard.run(&human("ada"), &["worktree", "list"]).stdout.contains(&command));
}
