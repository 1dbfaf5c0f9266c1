//! Nobody undoes anybody: whatever state a checkout is in, a landing leaves what is not committed there, and the next commit there
//! takes nothing back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use onus_repo::landing::{Checkout, Forward, Left};

use crate::kit::{Yard, below, git, land, lander, lines, tip, try_git, write};
use crate::program::program;

/// A state that a checkout may be in when something lands.
struct Kind {
    name: &'static str,
    /// Brings it about, in a checkout of `main`.
    prepare: fn(&Path),
    /// What becomes of the checkout: None, it has nothing to do with the target.
    expected: Option<fn(&Forward) -> bool>,
    /// What the next `commit -am` there may change.
    own: &'static [&'static str],
}

fn edit(root: &Path, name: &str, at: usize) {
    let text = fs::read_to_string(root.join(name)).unwrap();
    let mut text: Vec<&str> = text.lines().collect();
    text[at] = "an edit of its own";
    fs::write(root.join(name), text.join("\n") + "\n").unwrap();
}

fn up_to_date(outcome: &Forward) -> bool {
    *outcome == Forward::UpToDate
}

fn in_the_way(outcome: &Forward, paths: &[&str]) -> bool {
    matches!(outcome, Forward::Left(Left::InTheWay(found)) if found == paths)
}

fn under_way(outcome: &Forward) -> bool {
    matches!(outcome, Forward::Left(Left::UnderWay(_)))
}

/// A commit on `main` that another branch does not agree with.
fn disagree(root: &Path) {
    git(root, &["checkout", "--quiet", "-b", "disagrees"]);
    edit(root, "b.txt", 5);
    git(root, &["commit", "--quiet", "-am", "one way"]);
    git(root, &["checkout", "--quiet", "main"]);
    fs::write(root.join("b.txt"), "another way\n").unwrap();
    git(root, &["commit", "--quiet", "-am", "another way"]);
}

const KINDS: &[Kind] = &[
    Kind { name: "clean", prepare: |_| {}, expected: Some(up_to_date), own: &["own.txt"] },
    Kind {
        name: "dirty elsewhere",
        prepare: |root| edit(root, "b.txt", 3),
        expected: Some(up_to_date),
        own: &["b.txt", "own.txt"],
    },
    Kind {
        name: "dirty in the way",
        prepare: |root| edit(root, "a.txt", 18),
        expected: Some(|it| in_the_way(it, &["a.txt"])),
        own: &["a.txt", "own.txt"],
    },
    Kind {
        name: "deleted in the way",
        prepare: |root| fs::remove_file(root.join("a.txt")).unwrap(),
        expected: Some(up_to_date),
        own: &["own.txt"],
    },
    Kind {
        name: "staged elsewhere",
        prepare: |root| {
            edit(root, "b.txt", 3);
            git(root, &["add", "b.txt"]);
            edit(root, "b.txt", 9);
        },
        expected: Some(up_to_date),
        own: &["b.txt", "own.txt"],
    },
    Kind {
        name: "staged in the way",
        prepare: |root| {
            edit(root, "a.txt", 18);
            git(root, &["add", "a.txt"]);
        },
        expected: Some(|it| in_the_way(it, &["a.txt"])),
        own: &["a.txt", "own.txt"],
    },
    Kind {
        name: "staged away",
        prepare: |root| drop(git(root, &["rm", "--quiet", "--cached", "b.txt"])),
        expected: Some(up_to_date),
        own: &["b.txt", "own.txt"],
    },
    Kind {
        name: "intended to be added",
        prepare: |root| {
            write(root, "soon.txt", "soon\n");
            git(root, &["add", "--intent-to-add", "soon.txt"]);
        },
        expected: Some(up_to_date),
        own: &["own.txt", "soon.txt"],
    },
    Kind {
        name: "said to be unchanged",
        prepare: |root| {
            git(root, &["update-index", "--assume-unchanged", "a.txt"]);
            edit(root, "a.txt", 18);
        },
        expected: Some(|it| in_the_way(it, &["a.txt"])),
        own: &["own.txt"],
    },
    Kind {
        name: "untracked elsewhere",
        prepare: |root| write(root, "mine.txt", "mine\n"),
        expected: Some(up_to_date),
        own: &["own.txt"],
    },
    Kind {
        name: "untracked in the way",
        prepare: |root| write(root, "new.txt", "mine\n"),
        expected: Some(|it| in_the_way(it, &["new.txt"])),
        own: &["own.txt"],
    },
    Kind {
        name: "ignored in the way",
        prepare: |root| write(root, "new.ignored", "mine\n"),
        expected: Some(|it| in_the_way(it, &["new.ignored"])),
        own: &["own.txt"],
    },
    Kind {
        name: "a folder in the way",
        prepare: |root| write(root, "new.txt/inside", "mine\n"),
        expected: Some(|it| matches!(it, Forward::Left(Left::InTheWay(_)))),
        own: &["own.txt"],
    },
    Kind {
        name: "merging",
        prepare: |root| {
            disagree(root);
            assert!(!try_git(root, &["merge", "disagrees"]).status.success());
        },
        expected: Some(under_way),
        own: &["b.txt", "own.txt"],
    },
    Kind {
        name: "rebasing",
        prepare: |root| {
            disagree(root);
            assert!(!try_git(root, &["rebase", "disagrees"]).status.success());
        },
        expected: Some(under_way),
        own: &["b.txt", "own.txt"],
    },
    Kind {
        name: "bisecting",
        prepare: |root| {
            git(root, &["commit", "--quiet", "--allow-empty", "-m", "one more"]);
            git(root, &["commit", "--quiet", "--allow-empty", "-m", "two more"]);
            git(root, &["bisect", "start", "HEAD", "HEAD~2"]);
        },
        expected: Some(under_way),
        own: &["own.txt"],
    },
    Kind {
        name: "sparse",
        prepare: |root| drop(git(root, &["sparse-checkout", "set", "--no-cone", "/own.txt", "/b.txt"])),
        expected: Some(up_to_date),
        own: &["own.txt"],
    },
    Kind {
        name: "stashes on its own",
        prepare: |root| {
            git(root, &["config", "merge.autoStash", "true"]);
            git(root, &["config", "branch.main.mergeOptions", "--squash"]);
            edit(root, "a.txt", 18);
        },
        expected: Some(|it| in_the_way(it, &["a.txt"])),
        own: &["a.txt", "own.txt"],
    },
    Kind {
        name: "detached",
        prepare: |root| drop(git(root, &["checkout", "--quiet", "--detach"])),
        expected: None,
        own: &["own.txt"],
    },
    Kind {
        name: "on another branch",
        prepare: |root| drop(git(root, &["checkout", "--quiet", "-b", "elsewhere"])),
        expected: None,
        own: &["own.txt"],
    },
];

/// Every file and folder in a checkout, with content and mode.
fn files(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let files = below(root, |path| !path.ends_with(".git")).into_iter();
    let files = files.filter(|path| path.is_file() && !path.ends_with(".git"));
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode();
    files.map(|path| (path.clone(), (mode(&path), fs::read(&path).unwrap()))).collect()
}

/// What of a checkout is not committed, and must be as it was.
fn uncommitted(root: &Path) -> Vec<String> {
    let cached = git(root, &["diff", "--cached", "--binary", "--ita-visible-in-index"]);
    let edits = git(root, &["diff", "--binary"]);
    // What landed around a change may move it within its file; the change itself must stay.
    let changes = |text: &str| -> String {
        let is_change = |line: &&str| line.starts_with(['+', '-']);
        text.lines().filter(is_change).collect::<Vec<_>>().join("\n")
    };
    let stash = git(root, &["stash", "list", "--format=%H"]);
    let untracked = git(root, &["ls-files", "--others"]);
    let flags = git(root, &["ls-files", "-v", "own.txt", "a.txt", "b.txt"]);
    vec![changes(&cached), changes(&edits), stash, untracked, flags]
}

/// What lands: a file changed, two added, one of them ignored, one deleted.
fn work(root: &Path) {
    edit(root, "a.txt", 2);
    write(root, "new.txt", "landed\n");
    write(root, "new.ignored", "landed\n");
    fs::remove_file(root.join("gone.txt")).unwrap();
}

#[track_caller]
fn assert_landed(yard: &Yard, what: &str) {
    let tip = tip(&yard.lander(), "main");
    assert!(
        yard.file(&tip.commit, "a.txt").unwrap().lines().nth(2) == Some("an edit of its own"),
        "{what}: a.txt"
    );
    assert_eq!(yard.file(&tip.commit, "new.txt").as_deref(), Some("landed\n"), "{what}");
    assert_eq!(yard.file(&tip.commit, "new.ignored").as_deref(), Some("landed\n"), "{what}");
    assert_eq!(yard.file(&tip.commit, "gone.txt"), None, "{what}");
}

/// Its own edit, committed as people do. What that commit changed.
fn commit_own(root: &Path) -> Vec<String> {
    edit(root, "own.txt", 10);
    git(root, &["commit", "--quiet", "-am", "its own"]);
    git(root, &["diff", "--name-only", "--no-renames", "HEAD~1", "HEAD"]).lines().map(str::to_owned).collect()
}

fn walk(is_linked: bool) {
    for kind in KINDS {
        let yard = Yard::new();
        let root = match is_linked {
            false => yard.repo(),
            true => {
                let root = yard.path().join("linked");
                yard.git(&["checkout", "--quiet", "--detach"]);
                yard.git(&["worktree", "add", "--quiet", &root.display().to_string(), "main"]);
                root
            }
        };
        let what = format!("{} ({})", kind.name, if is_linked { "linked" } else { "main" });
        let branch = yard.branch("work", "main", work);
        write(&root, "stashed.txt", "stashed\n");
        git(&root, &["stash", "push", "--quiet", "--include-untracked"]);
        (kind.prepare)(&root);
        let (before, was, all) = (yard.at("main"), uncommitted(&root), files(&root));
        let (result, _) = land(&yard.lander(), "ON-1", "main", &branch);
        assert_landed(&yard, &what);
        let found = yard.lander().bring_forward("main").unwrap();
        let is = uncommitted(&root);
        match kind.expected {
            Some(expected) => {
                let [Checkout { path, outcome }] = found.as_slice() else { panic!("{what}: {found:?}") };
                assert_eq!(*path, root, "{what}");
                assert!(expected(outcome), "{what}: {outcome:?}");
                if kind.name == "deleted in the way" {
                    assert!(root.join("a.txt").exists(), "{what}");
                } else {
                    assert_eq!(is, was, "{what}");
                }
                match outcome {
                    Forward::UpToDate => assert_eq!(yard.at("main"), result, "{what}"),
                    Forward::Left(_) => {
                        assert_eq!(yard.at("main"), before, "{what}: the branch moved under it");
                        assert_eq!(files(&root), all, "{what}: its files changed");
                        let moves = yard.git(&["reflog", "show", "--format=%gs", "main"]);
                        assert!(!moves.contains("land"), "{what}: it moved and came back: {moves}");
                    }
                }
            }
            None => {
                assert_eq!(found, [], "{what}");
                assert_eq!((yard.at("main"), files(&root)), (result, all), "{what}");
                assert_eq!(is, was, "{what}");
            }
        }
        // What is under way is ended as its owner would.
        match kind.name {
            "merging" => drop(git(&root, &["merge", "--abort"])),
            "rebasing" => drop(git(&root, &["rebase", "--abort"])),
            "bisecting" => drop(git(&root, &["bisect", "reset"])),
            _ => {}
        }
        let changed = commit_own(&root);
        assert!(
            changed.iter().all(|name| kind.own.contains(&name.as_str())),
            "{what}: it took back {changed:?}"
        );
        assert_landed(&yard, &what);
        // The next one lands on both.
        let next = yard.branch("next", "work", |root| write(root, "next.txt", "next\n"));
        land(&yard.lander(), "ON-2", "main", &next);
        assert_landed(&yard, &what);
        let now = tip(&yard.lander(), "main");
        assert!(yard.file(&now.commit, "next.txt").is_some(), "{what}");
        if kind.expected.is_some() {
            let own = yard.file(&now.commit, "own.txt").unwrap();
            assert_eq!(
                own.lines().nth(10),
                Some("an edit of its own"),
                "{what}: what was committed there is lost"
            );
        }
        assert_eq!(git(&root, &["stash", "list"]).lines().count(), 1, "{what}");
        yard.fsck();
    }
}

#[test]
fn the_next_commit_in_a_main_checkout_takes_nothing_back() {
    walk(false);
}

#[test]
fn the_next_commit_in_a_linked_worktree_takes_nothing_back() {
    walk(true);
}

#[test]
fn a_checkout_that_was_left_is_brought_forward_once_nothing_is_in_the_way() {
    let yard = Yard::new();
    let branch = yard.branch("work", "main", work);
    write(&yard.repo(), "new.txt", "mine\n");
    edit(&yard.repo(), "a.txt", 18);
    let (result, _) = land(&yard.lander(), "ON-1", "main", &branch);
    let left = yard.lander().bring_forward("main").unwrap();
    assert!(in_the_way(&left[0].outcome, &["a.txt", "new.txt"]), "{left:?}");
    yard.git(&["checkout", "--quiet", "a.txt"]);
    fs::remove_file(yard.repo().join("new.txt")).unwrap();
    for _ in 0..2 {
        let found = yard.lander().bring_forward("main").unwrap();
        assert!(up_to_date(&found[0].outcome), "{found:?}");
        assert_eq!((yard.at("main"), yard.git(&["status", "--porcelain"])), (result.clone(), String::new()));
        assert_eq!(yard.git(&["for-each-ref", "refs/onus"]), "");
    }
}

#[test]
fn a_target_that_nobody_has_out_any_more_catches_up() {
    for by_landing in [false, true] {
        let yard = Yard::new();
        let branch = yard.branch("work", "main", work);
        write(&yard.repo(), "new.txt", "mine\n");
        let (result, _) = land(&yard.lander(), "ON-1", "main", &branch);
        assert_ne!(yard.at("main"), result);
        yard.git(&["checkout", "--quiet", "-b", "elsewhere"]);
        match by_landing {
            false => {
                assert_eq!(yard.lander().bring_forward("main").unwrap(), []);
                assert_eq!(yard.at("main"), result);
            }
            true => {
                let next = yard.branch("next", "work", |root| write(root, "next.txt", "next\n"));
                let (next, _) = land(&yard.lander(), "ON-2", "main", &next);
                assert_eq!(yard.at("main"), next);
                assert!(yard.lander().contains(&next, &result).unwrap());
            }
        }
        assert_eq!(yard.git(&["for-each-ref", "refs/onus"]), "");
        assert_eq!(fs::read_to_string(yard.repo().join("new.txt")).unwrap(), "mine\n");
    }
}

#[test]
fn a_bare_repository_with_and_without_worktrees_is_landed_in() {
    let yard = Yard::new();
    let branch = yard.branch("work", "main", work);
    let bare = yard.path().join("bare.git");
    yard.git(&["clone", "--quiet", "--bare", ".", &bare.display().to_string()]);
    for (key, value) in [("user.name", "Lander"), ("user.email", "lander@example.org")] {
        git(&bare, &["config", key, value]);
    }
    let (result, _) = land(&lander(&bare), "ON-1", "main", &branch);
    assert_eq!(git(&bare, &["rev-parse", "main"]), result.to_string());
    let root = yard.path().join("of-bare");
    git(&bare, &["worktree", "add", "--quiet", &root.display().to_string(), "main"]);
    git(&bare, &["branch", "--quiet", "more", "main"]);
    let more = yard.path().join("more");
    git(&bare, &["worktree", "add", "--quiet", &more.display().to_string(), "more"]);
    write(&more, "more.txt", "more\n");
    git(&more, &["add", "--all"]);
    git(&more, &["commit", "--quiet", "-m", "more"]);
    edit(&root, "own.txt", 3);
    let more = crate::kit::commit_of(&bare, "more");
    let (result, _) = land(&lander(&bare), "ON-2", "main", &more);
    assert_eq!(git(&root, &["rev-parse", "HEAD"]), result.to_string());
    assert_eq!(commit_own(&root), ["own.txt"]);
}

#[test]
fn a_checkout_whose_submodule_would_move_is_left() {
    let yard = Yard::new();
    let inner = yard.path().join("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "--quiet"]);
    for n in 0..2 {
        write(&inner, "inside.txt", &lines(&n.to_string()));
        git(&inner, &["add", "--all"]);
        git(&inner, &["commit", "--quiet", "-m", "inside"]);
    }
    yard.git(&["submodule", "--quiet", "add", &inner.display().to_string(), "sub"]);
    git(&yard.repo().join("sub"), &["checkout", "--quiet", "HEAD~1"]);
    yard.commit("a submodule");
    // One that does not move is no reason.
    let branch = yard.branch("work", "main", work);
    let (result, _) = land(&yard.lander(), "ON-1", "main", &branch);
    assert_eq!(yard.at("main"), result);
    let to = git(&inner, &["rev-parse", "HEAD"]);
    let moved = yard.branch("moved", "main", |root| {
        git(root, &["update-index", "--cacheinfo", &format!("160000,{to},sub")]);
        // The folder is empty there, and `add --all` must not see it.
        fs::remove_dir(root.join("sub")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
    });
    assert!(yard.git(&["ls-tree", "moved", "sub"]).contains(&to));
    land(&yard.lander(), "ON-2", "main", &moved);
    let left = yard.lander().bring_forward("main").unwrap();
    assert_eq!(left[0].outcome, Forward::Left(Left::Submodules(vec!["sub".to_owned()])));
    assert_eq!(commit_own(&yard.repo()), ["own.txt"]);
    let tip = tip(&yard.lander(), "main");
    assert!(yard.git(&["ls-tree", tip.commit.as_str(), "sub"]).contains(&to), "the submodule was taken back");
}

#[test]
fn a_branch_that_is_out_twice_moves_under_neither() {
    let yard = Yard::new();
    let branch = yard.branch("work", "main", work);
    let second = yard.path().join("second");
    yard.git(&["worktree", "add", "--quiet", "--force", &second.display().to_string(), "main"]);
    let before = yard.at("main");
    land(&yard.lander(), "ON-1", "main", &branch);
    let left = yard.lander().bring_forward("main").unwrap();
    assert!(left.len() == 2 && left.iter().all(|it| it.outcome == Forward::Left(Left::Twice)), "{left:?}");
    assert_eq!(yard.at("main"), before);
    // One whose folder is missing may come back.
    yard.git(&["checkout", "--quiet", "--detach"]);
    fs::rename(&second, yard.path().join("moved away")).unwrap();
    let left = yard.lander().bring_forward("main").unwrap();
    assert_eq!(left[0].outcome, Forward::Left(Left::Missing));
    assert_eq!(yard.at("main"), before);
}

/// Where a process that is this test itself finds its repository, when it is to land there.
const CHILD: &str = "LANDING_CHECKED_OUT";

#[test]
fn a_branch_that_is_checked_out_at_the_very_moment_does_not_stay_moved_under_it() {
    if let Some(repo) = std::env::var_os(CHILD) {
        let lander = lander(repo.as_ref());
        let branch = lander.commit_of("refs/heads/work").unwrap();
        drop(land(&lander, "ON-1", "main", &branch));
        return;
    }
    let yard = Yard::new();
    yard.branch("work", "main", work);
    yard.git(&["checkout", "--quiet", "-b", "elsewhere"]);
    edit(&yard.repo(), "own.txt", 3);
    // A git that checks the target out just before it moves.
    let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
    let real = String::from_utf8(real).unwrap().trim().to_owned();
    let (bin, once) = (yard.path().join("bin"), yard.path().join("once"));
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" update-ref \"*' -m land '*)\n  if mkdir '{once}' 2>/dev/null; then (unset GIT_DIR; '{real}' -C '{repo}' checkout --quiet main </dev/null) || exit 9; fi;;\nesac\nexec '{real}' \"$@\"\n",
        once = once.display(),
        repo = yard.repo().display(),
    );
    fs::create_dir(&bin).unwrap();
    program(&bin.join("git"), script);
    let name = "checkouts::a_branch_that_is_checked_out_at_the_very_moment_does_not_stay_moved_under_it";
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, yard.repo())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(once.exists(), "it was never checked out: this shows nothing");
    assert_eq!(yard.git(&["symbolic-ref", "--short", "HEAD"]), "main");
    assert_landed(&yard, "checked out meanwhile");
    let found = yard.lander().bring_forward("main").unwrap();
    assert!(up_to_date(&found[0].outcome), "{found:?}");
    assert_eq!(yard.git(&["status", "--porcelain"]), " M own.txt");
    assert_eq!(commit_own(&yard.repo()), ["own.txt"]);
    assert_landed(&yard, "checked out meanwhile");
}
