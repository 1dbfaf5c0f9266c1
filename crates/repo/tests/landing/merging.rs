//! The merge: what `git merge` makes of it in a checkout, wherever it is computed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use onus_core::scope::Scope;
use onus_repo::landing::{Conflict, Merge};

use crate::kit::{Dice, Yard, commit_of, count, git, lander, lines, try_git, union, write};
use crate::program::program;

/// What stands for git's words where it aborted itself.
const GIT_GAVE_UP: &str = "git gave up";

const NAMES: [&str; 8] = [
    "a.txt",
    "b.txt",
    "src/lib.rs",
    "src/deep/x.rs",
    "src/deep/y.rs",
    "docs/one.md",
    "notes.log",
    "with space.txt",
];

/// One random thing that is done to files before they are committed.
fn change(root: &Path, dice: &mut Dice, who: &str) {
    let name = NAMES[dice.roll(NAMES.len())];
    let path = root.join(name);
    let is_file = path.symlink_metadata().is_ok_and(|at| at.is_file());
    let edit = |dice: &mut Dice| {
        let text = fs::read_to_string(&path).unwrap();
        let mut text: Vec<String> = text.lines().map(str::to_owned).collect();
        if text.is_empty() {
            text.push(String::new());
        }
        let at = dice.roll(text.len());
        match dice.roll(3) {
            0 => text[at] = format!("{who} changed {}", dice.roll(3)),
            1 => text.insert(at, format!("{who} added {}", dice.roll(3))),
            _ => drop(text.remove(at)),
        }
        fs::write(&path, text.join("\n") + "\n").unwrap();
    };
    let parent_is_folder = path.parent().unwrap().symlink_metadata().is_ok_and(|at| at.is_dir());
    match dice.roll(12) {
        0..=3 if is_file => edit(dice),
        4 if is_file => {
            let mut text = fs::read_to_string(&path).unwrap();
            text.push_str(&format!("{who} {}\n", dice.roll(100)));
            fs::write(&path, text).unwrap();
        }
        5 if is_file => fs::remove_file(&path).unwrap(),
        6 if is_file => {
            let to = root.join(["moved.txt", "src/moved.rs", "other/moved.md"][dice.roll(3)]);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            if to.symlink_metadata().is_err() {
                fs::rename(&path, to).unwrap();
            }
        }
        7 if is_file => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap(),
        8 if is_file => {
            fs::remove_file(&path).unwrap();
            symlink(["a.txt", "nowhere", "src"][dice.roll(3)], &path).unwrap();
        }
        9 if root.join("src/deep").is_dir() && root.join("renamed").symlink_metadata().is_err() => {
            fs::rename(root.join("src/deep"), root.join("renamed")).unwrap();
        }
        10 if is_file => {
            fs::remove_file(&path).unwrap();
            write(&path, "inside.txt", &format!("{who}\n"));
        }
        11 => {
            let new = format!("new-{}.txt", dice.roll(3));
            write(root, &new, &lines(if dice.roll(2) == 0 { "same" } else { who }));
        }
        _ if parent_is_folder && path.symlink_metadata().is_err() => write(root, name, &lines(who)),
        _ => {}
    }
}

fn commits(root: &Path, dice: &mut Dice, who: &str) {
    for n in 0..1 + dice.roll(3) {
        for _ in 0..1 + dice.roll(3) {
            change(root, dice, who);
        }
        git(root, &["add", "--all"]);
        git(root, &["commit", "--quiet", "--allow-empty", "-m", &format!("{who} {n}")]);
    }
}

/// What git calls the sides of a file that cannot be where it was: `src~ours`.
fn without_side(path: &str) -> String {
    path.split('~').next().unwrap_or_default().to_owned()
}

/// The tree that `git merge` makes; or the files that it cannot merge, and what it says about them.
fn by_checkout(root: &Path, branch: &str) -> Result<String, (BTreeSet<String>, String)> {
    let ran = try_git(root, &["merge", "--no-ff", "-m", "merged", branch]);
    if ran.status.signal().is_some() && ran.stderr.starts_with(b"BUG: merge-ort.c") {
        // Some conflicts of renamed folders are too much for git when it writes them down. That there is one is sure.
        return Err((BTreeSet::new(), GIT_GAVE_UP.to_owned()));
    }
    let unmerged = git(root, &["ls-files", "-z", "--unmerged"]);
    let unmerged = unmerged.split('\0').filter_map(|entry| entry.split_once('\t'));
    let unmerged: BTreeSet<String> = unmerged.map(|(_, path)| without_side(path)).collect();
    match ran.status.success() {
        true => Ok(git(root, &["rev-parse", "HEAD^{tree}"])),
        false => {
            let said = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(said.contains("CONFLICT"), "git merge failed otherwise: {ran:?}");
            Err((unmerged, said))
        }
    }
}

fn in_memory(folder: &Path, target: &str, branch: &str) -> Result<String, Vec<Conflict>> {
    let (target, branch) = (commit_of(folder, target), commit_of(folder, branch));
    match lander(folder).merge(&target, &branch, &Scope::default()).unwrap() {
        Merge::Clean(merged) => {
            assert!(merged.unions.is_empty());
            Ok(merged.tree)
        }
        Merge::Conflicts(conflicts) => Err(conflicts),
    }
}

/// Both made one tree, or both stumbled over the same files.
#[track_caller]
fn assert_same(
    ours: &Result<String, Vec<Conflict>>,
    theirs: &Result<String, (BTreeSet<String>, String)>,
    what: &str,
) {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{what}"),
        (Err(ours), Err((unmerged, said))) => {
            let paths: BTreeSet<String> = ours.iter().map(|it| it.path.clone()).collect();
            assert_eq!(paths.len(), ours.len(), "{what}: twice in {ours:?}");
            assert!(unmerged.is_subset(&paths), "{what}: {unmerged:?} {ours:?}");
            // Git keeps no sides of some conflicts, and says only that there is one.
            let is_said = |path: &str| {
                said == GIT_GAVE_UP
                    || said.lines().any(|line| line.starts_with("CONFLICT") && line.contains(path))
            };
            assert!(paths.difference(unmerged).all(|path| is_said(path)), "{what}: {said} {ours:?}");
            let are_words = ours.iter().all(|it| !it.kind.is_empty() && !it.says.is_empty());
            assert!(are_words, "{what}: {ours:?}");
        }
        _ => panic!("{what}: {ours:?} {theirs:?}"),
    }
}

#[test]
fn random_histories_merge_as_git_merges_them_in_a_checkout_and_bare_and_dirty_ones_agree() {
    let (mut clean, mut conflicts) = (0, 0);
    let seed = count("LANDING_SEED", 1);
    for round in seed..seed + count("LANDING_ROUNDS", 14) {
        let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let yard = Yard::new();
        let repo = yard.repo();
        for name in NAMES {
            write(&repo, name, &lines(name));
        }
        if dice.roll(3) > 0 {
            let kind =
                ["* merge=union", "* -merge", "*.txt merge=binary", "*.rs text eol=crlf"][dice.roll(4)];
            write(&repo, ".gitattributes", &format!("{kind}\n"));
        }
        yard.commit("more");
        for who in ["ours", "theirs"] {
            yard.git(&["checkout", "--quiet", "-b", who, "main"]);
            commits(&repo, &mut dice, who);
        }
        if dice.roll(4) == 0
            && try_git(&repo, &["merge", "--quiet", "-m", "criss", "ours~1"]).status.success()
        {
            commits(&repo, &mut dice, "theirs");
        } else {
            drop(try_git(&repo, &["merge", "--abort"]));
        }
        yard.git(&["checkout", "--quiet", "--force", "ours"]);
        let bare = yard.path().join("bare.git");
        yard.git(&["clone", "--quiet", "--bare", ".", &bare.display().to_string()]);

        let ours = in_memory(&repo, "ours", "theirs");
        assert_eq!(in_memory(&bare, "ours", "theirs"), ours, "seed {round}: bare");
        // Uncommitted attributes, in a checkout and of the user.
        write(&repo, ".gitattributes", ["* merge=union\n", "* -merge\n", "* merge=ours\n"][dice.roll(3)]);
        yard.git(&["config", "core.attributesFile", &repo.join(".gitattributes").display().to_string()]);
        yard.git(&["config", "merge.renames", "false"]);
        assert_eq!(in_memory(&repo, "ours", "theirs"), ours, "seed {round}: dirty attributes");
        yard.git(&["config", "--unset", "core.attributesFile"]);
        yard.git(&["config", "--unset", "merge.renames"]);
        yard.git(&["reset", "--quiet", "--hard"]);
        yard.git(&["clean", "-ffdq"]);
        assert_same(&ours, &by_checkout(&repo, "theirs"), &format!("seed {round}"));
        match ours {
            Ok(_) => clean += 1,
            Err(_) => conflicts += 1,
        }
    }
    assert!(clean > 0 && conflicts > 0, "{clean} clean, {conflicts} conflicts: this shows nothing");
}

#[test]
fn three_branches_that_append_to_one_log_and_one_list_cost_nobody_a_conflict() {
    let yard = Yard::new();
    write(&yard.repo(), "src/mods.rs", "mod first;\n");
    yard.commit("a list");
    let start = yard.at("main").to_string();
    yard.git(&["checkout", "--quiet", "--detach"]);
    let lander = yard.lander();
    let mut saved = 0;
    for n in 0..3 {
        let branch = yard.branch(&format!("b{n}"), &start, |root| {
            // The last one without a line end, as some editors leave it.
            let end = if n == 1 { "" } else { "\n" };
            write(root, "log.md", &format!("# log\n- task {n}{end}"));
            write(root, "src/mods.rs", &format!("mod first;\nmod m{n};\n"));
            write(root, &format!("src/m{n}.rs"), "//\n");
        });
        let tip = crate::kit::tip(&lander, "main");
        let merge = lander.merge(&tip.commit, &branch, &union(&["log.md", "src/mods.rs"])).unwrap();
        let Merge::Clean(merged) = merge else { panic!("{merge:?}") };
        assert_eq!(merged.unions.len(), if n == 0 { 0 } else { 2 }, "{merged:?}");
        assert!(merged.unions.iter().all(|it| it.conflict_lines > 0), "{merged:?}");
        saved += merged.unions.iter().map(|it| it.conflict_lines).sum::<u64>();
        if n > 0 {
            // Without the globs both are conflicts, and one glob does not cover the other.
            let merge = lander.merge(&tip.commit, &branch, &union(&["log.md"])).unwrap();
            let Merge::Conflicts(left) = merge else { panic!("{merge:?}") };
            assert_eq!(left.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["src/mods.rs"]);
            assert_eq!((left[0].kind.as_str(), left[0].conflict_lines > 0), ("contents", true), "{left:?}");
        }
        crate::kit::land(&lander, &format!("ON-{n}"), "main", &branch);
    }
    assert!(saved >= 4, "{saved}");
    let main = yard.at("main");
    for (file, expected) in [
        ("log.md", vec!["# log", "- task 0", "- task 1", "- task 2"]),
        ("src/mods.rs", vec!["mod first;", "mod m0;", "mod m1;", "mod m2;"]),
    ] {
        let text = yard.file(&main, file).unwrap();
        let mut found: Vec<&str> = text.lines().collect();
        found.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{file}");
    }
}

#[test]
fn union_keeps_to_the_text_of_regular_files() {
    let yard = Yard::new();
    for name in ["del.md", "bin.md", "mode.md", "link.md", "ren.md", "from-one.md", "from-two.md", "col.md"] {
        write(&yard.repo(), name, &lines(name));
    }
    fs::write(yard.repo().join("bin.md"), b"\0binary\n").unwrap();
    yard.commit("more");
    let ours = yard.branch("ours", "main", |root| {
        fs::remove_file(root.join("del.md")).unwrap();
        fs::write(root.join("bin.md"), b"\0ours\n").unwrap();
        fs::remove_file(root.join("link.md")).unwrap();
        symlink("a.txt", root.join("link.md")).unwrap();
        fs::rename(root.join("ren.md"), root.join("one.md")).unwrap();
        fs::rename(root.join("from-one.md"), root.join("to.md")).unwrap();
        fs::remove_file(root.join("col.md")).unwrap();
        write(root, "lide.md", &lines("col.md").replace("col.md 3\n", "ours\n"));
        write(root, "mode.md", &lines("ours"));
        write(root, "both.md", "ours\n");
        fs::set_permissions(root.join("mode.md"), fs::Permissions::from_mode(0o755)).unwrap();
    });
    let theirs = yard.branch("theirs", "main", |root| {
        write(root, "del.md", &lines("theirs"));
        fs::write(root.join("bin.md"), b"\0theirs\n").unwrap();
        fs::remove_file(root.join("link.md")).unwrap();
        symlink("b.txt", root.join("link.md")).unwrap();
        fs::rename(root.join("ren.md"), root.join("two.md")).unwrap();
        fs::rename(root.join("from-two.md"), root.join("to.md")).unwrap();
        write(root, "col.md", &lines("col.md").replace("col.md 3\n", "theirs\n"));
        write(root, "lide.md", "added\n");
        write(root, "mode.md", &lines("theirs"));
        write(root, "both.md", "theirs\n");
    });
    let merge = yard.lander().merge(&ours, &theirs, &union(&["**"])).unwrap();
    let Merge::Conflicts(left) = merge else { panic!("{merge:?}") };
    let paths: BTreeSet<&str> = left.iter().map(|it| it.path.as_str()).collect();
    let expected = ["bin.md", "del.md", "lide.md", "link.md", "one.md", "ren.md", "to.md", "two.md"];
    assert_eq!(paths, BTreeSet::from(expected), "{left:?}");
    // The rest was united: the mode that one side changed, and a file that both added.
    yard.git(&["checkout", "--quiet", "-B", "ours2", "main"]);
    write(&yard.repo(), "mode.md", &lines("ours"));
    fs::set_permissions(yard.repo().join("mode.md"), fs::Permissions::from_mode(0o755)).unwrap();
    write(&yard.repo(), "both.md", "ours\n");
    yard.commit("text alone");
    let theirs = yard.branch("theirs2", "main", |root| {
        write(root, "mode.md", &lines("theirs"));
        write(root, "both.md", "theirs\n");
    });
    let merge = yard.lander().merge(&yard.at("ours2"), &theirs, &union(&["**"])).unwrap();
    let Merge::Clean(merged) = merge else { panic!("{merge:?}") };
    let listed = yard.git(&["ls-tree", "-r", &merged.tree]);
    assert!(listed.lines().any(|line| line.starts_with("100755") && line.ends_with("\tmode.md")), "{listed}");
    assert_eq!(yard.git(&["show", &format!("{}:both.md", merged.tree)]), "ours\ntheirs");
}

#[test]
fn the_targets_own_attributes_decide_and_nobody_elses() {
    let yard = Yard::new();
    write(&yard.repo(), ".gitattributes", "log.md merge=union\na.txt -merge\n");
    yard.commit("attributes");
    let edit = |root: &Path, at: usize, what: &str| {
        let mut text: Vec<String> = lines("a.txt").lines().map(str::to_owned).collect();
        text[at] = what.to_owned();
        write(root, "a.txt", &(text.join("\n") + "\n"));
        write(root, "log.md", &format!("# log\n- {what}\n"));
    };
    let ours = yard.branch("ours", "main", |root| edit(root, 2, "ours"));
    let theirs = yard.branch("theirs", "main", |root| {
        edit(root, 15, "theirs");
        // For what is merged after this has landed.
        write(root, ".gitattributes", "log.md -merge\n");
    });
    let bare = yard.path().join("bare.git");
    yard.git(&["clone", "--quiet", "--bare", ".", &bare.display().to_string()]);
    write(&yard.repo(), ".gitattributes", "* merge=binary\n");
    for folder in [yard.repo(), bare] {
        let conflicts = in_memory(&folder, "ours", "theirs").unwrap_err();
        let paths: Vec<&str> = conflicts.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["a.txt"], "{}: {conflicts:?}", folder.display());
    }
    // The other way round, the other's attributes decide.
    let Merge::Conflicts(left) = yard.lander().merge(&theirs, &ours, &Scope::default()).unwrap() else {
        panic!("log.md is not to be merged there")
    };
    assert_eq!(left.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["log.md"], "{left:?}");
}

#[test]
fn no_program_that_a_repository_configures_runs() {
    let yard = Yard::new();
    let ran = yard.path().join("RAN");
    write(
        &yard.repo(),
        ".gitattributes",
        "a.txt merge=evil\nb.txt merge=evil filter=evil\nblob merge=evil\n",
    );
    fs::write(yard.repo().join("blob"), b"\0base").unwrap();
    yard.commit("attributes");
    let edit = |root: &Path, at: usize, what: &str| {
        let mut text: Vec<String> = lines("a.txt").lines().map(str::to_owned).collect();
        text[at] = what.to_owned();
        write(root, "a.txt", &(text.join("\n") + "\n"));
        write(root, "b.txt", &format!("{what}\n"));
        fs::write(root.join("blob"), format!("\0{what}")).unwrap();
    };
    let ours = yard.branch("ours", "main", |root| edit(root, 2, "ours"));
    let theirs = yard.branch("theirs", "main", |root| edit(root, 15, "theirs"));
    let evil = format!("touch '{}'; cat", ran.display());
    for (key, value) in [
        ("merge.evil.driver", evil.as_str()),
        ("merge.evil.recursive", "evil"),
        ("merge.default", "evil"),
        ("merge.renormalize", "true"),
        ("filter.evil.clean", &evil),
        ("filter.evil.smudge", &evil),
        ("core.fsmonitor", &evil),
    ] {
        yard.git(&["config", key, value]);
    }
    let hook = yard.repo().join(".git/hooks/reference-transaction");
    program(&hook, format!("#!/bin/sh\n{evil}\n"));
    // Neither where files are put, nor what becomes of them, is decided by where this runs.
    let before = fs::read_dir(".").unwrap().count();
    let merge = yard.lander().merge(&ours, &theirs, &Scope::default()).unwrap();
    assert!(!ran.exists(), "a program of the repository's ran");
    let Merge::Conflicts(left) = merge else { panic!("{merge:?}") };
    // One that text can be made of is merged as text; the others are conflicts, as in a clone without that configuration.
    assert_eq!(left.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["b.txt", "blob"], "{left:?}");
    let merge = yard.lander().merge(&ours, &theirs, &union(&["b.txt", "blob"])).unwrap();
    let Merge::Conflicts(left) = merge else { panic!("{merge:?}") };
    assert_eq!(left.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["blob"], "{left:?}");
    assert!(!ran.exists(), "a program of the repository's ran");
    assert_eq!(fs::read_dir(".").unwrap().count(), before);
    // Nor when what is landed is looked for.
    assert!(!yard.lander().is_landed(&theirs, &ours).unwrap());
    assert!(!ran.exists(), "a program of the repository's ran");
}

#[test]
fn a_file_of_a_commit_is_read_if_it_is_small_and_regular() {
    let yard = Yard::new();
    write(&yard.repo(), "onus.toml", "[land]\n");
    write(&yard.repo(), "large", &"x".repeat(70_000));
    symlink("onus.toml", yard.repo().join("link")).unwrap();
    yard.commit("files");
    write(&yard.repo(), "onus.toml", "changed, not committed\n");
    let (lander, main) = (yard.lander(), yard.at("main"));
    assert_eq!(lander.file_at(&main, "onus.toml").unwrap().as_deref(), Some("[land]\n"));
    assert_eq!(lander.file_at(&main, "none").unwrap(), None);
    for name in ["large", "link", "src"] {
        assert!(lander.file_at(&main, name).is_err(), "{name}");
    }
}
