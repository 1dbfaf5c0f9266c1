//! Constraints at landing. No hook of git is installed here, so nothing judged the commits: what lands is measured by what it would
//! change in the target.

use std::path::PathBuf;

use crate::kit::Yard;
use crate::support::{As, agent, human};

use super::kit::LANDS;

/// A task with a constraint, on whose branch an agent did this; and what its landing was refused for.
struct Bound {
    constraint: &'static str,
    commands: &'static [&'static [&'static str]],
    why: &'static str,
}

const BOUND: [Bound; 5] = [
    Bound {
        constraint: "read_only",
        commands: &[&["commit", "-q", "-am", "x"]],
        why: "kept.txt may not be changed",
    },
    Bound {
        constraint: "no_delete",
        commands: &[&["rm", "-q", "-f", "kept.txt"], &["commit", "-q", "-m", "x"]],
        why: "kept.txt may not be deleted",
    },
    Bound {
        constraint: "max_lines=1",
        commands: &[&["commit", "-q", "-am", "x"]],
        why: "this would be 2 changed lines",
    },
    Bound {
        constraint: "max_files=1",
        commands: &[&["mv", "other.txt", "moved.txt"], &["commit", "-q", "-am", "x"]],
        why: "this would be 3 changed files",
    },
    // The branch says that its own file has no lines.
    Bound {
        constraint: "max_lines=1",
        commands: &[&["checkout", "-q", "exempt", "--", ".gitattributes"], &["commit", "-q", "-am", "x"]],
        why: "this would be 3 changed lines",
    },
];

fn yard() -> Yard {
    let yard = Yard::landing(LANDS);
    yard.git(&["checkout", "-q", "-b", "exempt"]);
    yard.commit(".gitattributes", "*.txt -diff\n");
    yard.git(&["checkout", "-q", "main"]);
    yard.commit("kept.txt", "one\n");
    yard.commit("other.txt", "a\nb\nc\nd\n");
    yard.commit("more.txt", "e\nf\ng\nh\n");
    yard
}

fn constrained(yard: &Yard, constraint: &str) -> String {
    let added = yard.json(&human("ada"), &["add", constraint, "--constraint", constraint]).ok().json();
    added["id"].as_str().unwrap().to_owned()
}

#[test]
fn work_against_its_constraints_does_not_land() {
    for Bound { constraint, commands, why } in BOUND {
        let yard = yard();
        let id = constrained(&yard, constraint);
        let path = yard.claim(&agent("a"), &id);
        std::fs::write(path.join("kept.txt"), "two\n").unwrap();
        commands.iter().for_each(|command| drop(yard.git_in(&path, command)));
        yard.run(&agent("a"), &["done", &id, "-m", "did it"]).ok();
        let (before, version) = (yard.at("main"), yard.show(&id)["version"].clone());
        for args in [&["land", &id][..], &["land", &id, "--check"]] {
            let error = yard.json(&agent("lander"), args).refused(6);
            assert_eq!(error["code"], "constraint", "{constraint}: {error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(constraint) && message.contains(why), "{message}");
        }
        assert_eq!((yard.at("main"), &yard.show(&id)["version"]), (before, &version), "{constraint}");
        // Others land past it; a person answers for it, and is told how.
        let told = yard.run(&human("ada"), &["land", &id]);
        assert!(told.code == 6 && told.stderr.contains("override: repeat it with --force"), "{told:?}");
        let good = yard.done(&agent("b"), "good", "good.txt", "x\n");
        let ran = yard.json(&agent("lander"), &["land", "--queue"]);
        assert_eq!((ran.code, ran.json()["landed"][0]["task"].as_str()), (6, Some(good.as_str())), "{ran:?}");
        yard.run(&human("ada"), &["land", &id, "--force", "--reason", "looked at it"]).ok();
        let told = yard.run(&human("ada"), &["log", &id]);
        assert!(told.ok().stdout.contains("overrode its constraints"), "{told:?}");
        yard.has_landed_in_peace();
    }
}

/// A worktree that was made by hand, on a branch that is not named after the task.
fn by_hand(yard: &Yard, who: &As, id: &str) -> PathBuf {
    let path = yard.folder().join(format!("by-hand-{id}"));
    yard.git(&["worktree", "add", "-q", "-b", &format!("feature/{id}"), path.to_str().unwrap()]);
    yard.run(who, &["claim", id]).ok();
    yard.run(who, &["worktree", "adopt", "--task", id, path.to_str().unwrap()]).ok();
    path
}

/// Neither inside another task's branch nor as another task's worktree.
#[test]
fn work_against_its_constraints_does_not_land_as_anothers() {
    let yard = yard();
    let (ada, bob) = (agent("ada"), agent("bob"));
    for is_by_hand in [false, true] {
        let id = constrained(&yard, "max_files=1");
        let path = match is_by_hand {
            false => yard.claim(&ada, &id),
            true => by_hand(&yard, &ada, &id),
        };
        let [one, two, three] = ["one", "two", "three"].map(|name| format!("{name}-{id}.txt"));
        yard.commit_in(&path, &one, "1\n");
        yard.commit_in(&path, &two, "2\n");
        let branch = yard.git_in(&path, &["branch", "--show-current"]);
        yard.finish(&ada, &id);
        let other = yard.add("carries it");
        let there = yard.claim(&bob, &other);
        yard.git_in(&there, &["merge", "-q", "--ff-only", branch.trim()]);
        yard.commit_in(&there, &three, "3\n");
        yard.finish(&bob, &other);
        let ran = yard.json(&bob, &["land", "--queue"]);
        assert!(ran.code == 6 && ran.stdout.contains(&format!("contains the work of {id}")), "{ran:?}");
        assert_eq!((yard.in_main(&one), yard.in_main(&three)), (None, None));
        // What it waited for has landed: so it can land.
        yard.run(&human("ada"), &["land", &id, "--force", "--reason", "looked at it"]).ok();
        yard.land(&other);
        assert_eq!(yard.in_main(&three).as_deref(), Some("3\n"));
    }
    // Another's branch is not made one's own.
    let (id, other) = (constrained(&yard, "max_files=1"), yard.add("takes it"));
    let path = yard.claim(&ada, &id);
    yard.run(&ada, &["release", &id]).ok();
    yard.run(&bob, &["claim", &other]).ok();
    let adopt = ["worktree", "adopt", "--task", &other, path.to_str().unwrap()];
    let error = yard.json(&bob, &adopt).refused(6);
    assert!(error["message"].as_str().unwrap().contains(&format!("is the branch of {id}")), "{error}");
    assert!(yard.show(&other)["branch"].is_null());
}

/// Whatever became of the branch that it was done on.
#[test]
fn work_against_its_constraints_does_not_land_as_anothers_when_its_branch_is_gone() {
    let yard = yard();
    let (ada, bob) = (agent("ada"), agent("bob"));
    for hidden in [&["branch", "-m", "hidden"][..], &["reset", "-q", "--hard", "HEAD^"], &["drop"]] {
        let id = constrained(&yard, "max_files=0");
        let path = yard.claim(&ada, &id);
        // Recorded, as the hooks of git do it.
        yard.run(&human("ada"), &["guard", "install"]).ok();
        std::fs::write(path.join("kept.txt"), format!("{id}\n")).unwrap();
        let commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--no-verify", "-am", "x"];
        let git = |args: &[&str]| {
            let mut command = std::process::Command::new("git");
            command
                .current_dir(&path)
                .args(args)
                .env("ONUS_ACTOR", &ada.actor)
                .env("ONUS_INSTANCE", &ada.instance);
            assert!(command.output().unwrap().status.success(), "{args:?}");
        };
        git(&commit);
        yard.run(&human("ada"), &["guard", "uninstall"]).ok();
        assert_eq!(yard.show(&id)["commits"].as_array().unwrap().len(), 1);
        let made = yard.git_in(&path, &["rev-parse", "HEAD"]);
        let other = yard.add("carries it");
        let there = yard.claim(&bob, &other);
        yard.git_in(&there, &["merge", "-q", "--ff-only", made.trim()]);
        yard.commit_in(&there, &format!("more-{id}.txt"), "3\n");
        match hidden {
            ["drop"] => yard.run(&ada, &["drop", &id, "-m", "no"]).ok().code,
            args => yard.git_in(&path, args).len() as i32,
        };
        yard.finish(&bob, &other);
        let refused = yard.json(&bob, &["land", &other]).refused(6);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(&format!("contains the work of {id}")), "{hidden:?}: {message}");
        assert_ne!(yard.in_main("kept.txt"), Some(format!("{id}\n")));
        if hidden[0] == "branch" {
            yard.git_in(&path, &["branch", "-m", "hidden", "shown"]);
        }
    }
}

#[test]
fn work_within_its_constraints_lands_and_so_does_a_persons() {
    let yard = yard();
    // Nobody's settings make a deletion of a rename.
    yard.git(&["config", "diff.renameLimit", "1"]);
    for (who, constraint, command) in [
        (agent("a"), "no_delete", &["mv", "other.txt", "more.txt", "moved"][..]),
        (agent("a"), "max_lines=2", &["status"]),
        (agent("a"), "max_files=1", &["status"]),
        (human("ada"), "max_lines=1", &["status"]),
    ] {
        let id = constrained(&yard, constraint);
        let path = yard.claim(&who, &id);
        std::fs::create_dir_all(path.join("moved")).unwrap();
        yard.git_in(&path, command);
        // Only a file that is changed as well has to be searched for.
        for file in command.iter().filter(|word| word.ends_with(".txt")) {
            let file = path.join("moved").join(file);
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, format!("{text}{id}\n")).unwrap();
        }
        std::fs::write(path.join("kept.txt"), format!("{id}\n")).unwrap();
        yard.git_in(&path, &["commit", "-q", "-am", "x"]);
        yard.finish(&who, &id);
        yard.land(&id);
        assert_eq!(yard.in_main("kept.txt"), Some(format!("{id}\n")), "{constraint}");
    }
    yard.has_landed_in_peace();
}
