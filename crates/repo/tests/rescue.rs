//! P10: whatever is uncommitted in a worktree is kept as a commit and comes back exactly, and keeping it touches nothing there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use onus_core::scope::{Glob, Scope};
use onus_repo::rescue::{self, Kept, Limits, What, Why};
use onus_repo::{Place, Repository, discover};

#[path = "../../../tests/support/git.rs"]
mod git;

const LIMITS: Limits = Limits { max_file: 1 << 20, max_total: 4 << 20 };
const REFERENCE: &str = "refs/onus/rescue/ON-1/3";

fn run(folder: &Path, args: &[&OsStr], input: &[u8]) -> Vec<u8> {
    let mut command = git::git_in(folder);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("HOME", folder.parent().unwrap()).env("GIT_OPTIONAL_LOCKS", "0");
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    let ran = child.wait_with_output().unwrap();
    assert!(ran.status.success(), "git {args:?}: {ran:?}");
    ran.stdout
}

fn git(folder: &Path, args: &[&str]) -> Vec<u8> {
    run(folder, &args.iter().map(OsStr::new).collect::<Vec<_>>(), b"")
}

fn git_on(folder: &Path, args: &[&str], path: &Path) {
    let mut args: Vec<&OsStr> = ["--literal-pathspecs"].iter().chain(args).map(OsStr::new).collect();
    args.extend([OsStr::new("--"), path.as_os_str()]);
    drop(run(folder, &args, b""));
}

/// Names that a careless program would mistake for something else.
fn hostile() -> Vec<PathBuf> {
    let names: [&[u8]; 9] = [
        b"plain.txt",
        b"with space and 'quotes\".txt",
        b"new\nline.txt",
        b"-rf",
        b"--",
        b":(exclude)x",
        b"not-utf8-\xff\xfe.bin",
        b"star*[a].rs",
        b"back\\slash\ttab",
    ];
    names.iter().map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

/// A repository with files of every kind, and a filter that nobody may run.
fn repository(root: &Path) {
    fs::create_dir_all(root).unwrap();
    git(root, &["init", "-q"]);
    let ran = root.parent().unwrap().join("filter-ran");
    let filter = format!("touch '{}'; cat", ran.display());
    git(root, &["config", "filter.evil.clean", &filter]);
    git(root, &["config", "filter.evil.smudge", &filter]);
    git(root, &["config", "core.autocrlf", "false"]);
    for (n, name) in hostile().iter().enumerate() {
        for folder in ["", "src", "deep/er"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join(name), format!("{folder} {n}\nsecond line\n")).unwrap();
        }
    }
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("run.sh", root.join("link")).unwrap();
    fs::write(root.join(".gitignore"), "ignored*\n").unwrap();
    git(root, &["add", "-A"]);
    git(root, &["commit", "-qm", "first"]);
    fs::write(root.join(".gitattributes"), "* filter=evil\n").unwrap();
    git(root, &["-c", "filter.evil.clean=", "add", ".gitattributes"]);
    git(root, &["-c", "filter.evil.clean=", "commit", "-qm", "second"]);
}

/// What is on disk: mode and content, without `.git` and nested repositories.
fn files(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for path in git::below(root, |path| !path.join(".git").exists() && !path.ends_with(".git")) {
        let metadata = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(root).unwrap().to_owned();
        if metadata.is_symlink() {
            let target = fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec();
            found.insert(name, (0o120_000, target));
        } else if metadata.is_file() && !path.ends_with(".git") {
            found.insert(name, (metadata.mode() & 0o100, fs::read(&path).unwrap()));
        }
    }
    found.retain(|name, _| !name.to_string_lossy().contains("ignored"));
    found
}

/// Size, times, inode and mode of a file.
type Trace = (PathBuf, u64, [i64; 4], u64, u32);

/// Of every file of a worktree, and of its index.
fn untouched(root: &Path, git_dir: &Path) -> Vec<Trace> {
    let mut found = git::below(root, |path| !path.ends_with(".git"));
    found.retain(|path| !path.ends_with(".git"));
    found.push(root.to_owned());
    found.extend(["index", "HEAD"].map(|name| git_dir.join(name)).into_iter().filter(|path| path.exists()));
    let print = |path: PathBuf| {
        let at = path.symlink_metadata().unwrap();
        let times = [at.mtime(), at.mtime_nsec(), at.ctime(), at.ctime_nsec()];
        (path, at.size(), times, at.ino(), at.mode())
    };
    found.into_iter().map(print).collect()
}

/// What git says of index and worktree; of untracked files only what a rescue keeps.
fn state(root: &Path) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let quiet = ["-c", "filter.evil.clean=", "-c", "filter.evil.smudge="];
    let ask = |args: &[&str]| git(root, &[&quiet[..], args].concat());
    let status = ask(&[
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignore-submodules=all",
    ]);
    let kept = status.split(|byte| *byte == 0).filter(|line| !line.ends_with(b"/"));
    let mut kept: Vec<&[u8]> = kept.collect();
    kept.sort();
    (ask(&["ls-files", "-z", "-s"]), ask(&["diff-index", "--cached", "--raw", "-z", "HEAD"]), kept.join(&0))
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }
}

/// One random thing that people and agents do before they commit.
fn soil(root: &Path, dice: &mut Dice) {
    let names = hostile();
    let folder = ["", "src", "deep/er"][dice.roll(3)];
    let name = Path::new(folder).join(&names[dice.roll(names.len())]);
    let path = root.join(&name);
    let is_file = path.symlink_metadata().is_ok_and(|at| at.is_file());
    let parent_is_folder = path.parent().unwrap().symlink_metadata().is_ok_and(|at| at.is_dir());
    let add = |args: &[&str]| git_on(root, &[&["-c", "filter.evil.clean=", "add"], args].concat(), &name);
    let text = format!("{}\r\nno newline at the end {}", dice.roll(1000), dice.roll(1000));
    if !parent_is_folder {
        return;
    }
    match dice.roll(17) {
        0 | 1 if is_file => fs::write(&path, text).unwrap(),
        2 if is_file => {
            fs::write(&path, text).unwrap();
            add(&[]);
        }
        3 if is_file => {
            fs::write(&path, &text).unwrap();
            add(&[]);
            fs::write(&path, format!("and then {text}")).unwrap();
        }
        4 if is_file => fs::remove_file(&path).unwrap(),
        5 if is_file => {
            fs::remove_file(&path).unwrap();
            drop(run(
                root,
                &["update-index", "--force-remove", "--"]
                    .iter()
                    .map(OsStr::new)
                    .chain([name.as_os_str()])
                    .collect::<Vec<_>>(),
                b"",
            ));
        }
        6 if is_file => {
            let new = root.join("renamed").join(path.file_name().unwrap());
            fs::create_dir_all(new.parent().unwrap()).unwrap();
            fs::rename(&path, &new).unwrap();
            git_on(root, &["-c", "filter.evil.clean=", "add"], Path::new("renamed"));
        }
        7 if is_file => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap(),
        8 if is_file => {
            fs::remove_file(&path).unwrap();
            symlink(["nowhere", "/etc/passwd", "src"][dice.roll(3)], &path).unwrap();
        }
        9 if is_file => fs::write(&path, "").unwrap(),
        10 => {
            let new = root.join(folder).join(format!("untracked {}\n{}", dice.roll(5), dice.roll(5)));
            fs::write(new, text).unwrap();
        }
        11 => {
            let new = Path::new(folder).join(format!("intended-{}", dice.roll(5)));
            if fs::symlink_metadata(root.join(&new)).is_err() {
                fs::write(root.join(&new), text).unwrap();
                git_on(root, &["-c", "filter.evil.clean=", "add", "-N"], &new);
            }
        }
        12 if is_file => {
            let blob = |text: &str| {
                let args = ["hash-object", "-w", "--no-filters", "--stdin"].map(OsStr::new);
                String::from_utf8(run(root, &args, text.as_bytes())).unwrap().trim().to_owned()
            };
            let mut info = format!("0 {}\t", "0".repeat(40)).into_bytes();
            info.extend(name.as_os_str().as_bytes());
            info.push(0);
            let stages = [1, 2, 3];
            for stage in stages.iter().skip(dice.roll(2)) {
                info.extend(format!("100644 {} {stage}\t", blob(&format!("side {stage} {text}"))).bytes());
                info.extend(name.as_os_str().as_bytes());
                info.push(0);
            }
            drop(run(root, &["update-index", "-z", "--index-info"].map(OsStr::new), &info));
            fs::write(&path, format!("<<<<<<< {text} >>>>>>>")).unwrap();
        }
        13 if is_file => {
            // A folder in place of a file.
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            fs::write(path.join("inside"), text).unwrap();
        }
        14 => {
            let nested = root.join("nested");
            fs::create_dir_all(&nested).unwrap();
            git(&nested, &["init", "-q"]);
            fs::write(nested.join("its own"), text).unwrap();
        }
        15 => fs::write(root.join(folder).join("ignored file"), text).unwrap(),
        16 if is_file => {
            // Of the same size, within the same tick of the clock as the index: only its content tells.
            let mut bytes = fs::read(&path).unwrap();
            add(&[]);
            bytes.reverse();
            fs::write(&path, bytes).unwrap();
        }
        _ => {}
    }
}

fn keep(place: &Place, what: What<'_>) -> Kept {
    rescue::keep(place, what, LIMITS, REFERENCE, "a test\n").unwrap()
}

#[test]
fn any_dirty_state_comes_back_exactly_and_its_worktree_is_not_touched() {
    let rounds: u64 = std::env::var("RESCUE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let seed: u64 = std::env::var("RESCUE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(7);
    for round in seed..seed + rounds {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (main, source, target) = (folder.join("main"), folder.join("source"), folder.join("target"));
        repository(&main);
        for worktree in [&source, &target] {
            git_on(&main, &["-c", "filter.evil.smudge=", "worktree", "add", "-q", "--detach"], worktree);
        }
        let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..2 + dice.roll(14) {
            soil(&source, &mut dice);
        }
        let place = discover(&source).unwrap();
        let git_dir = place.git_dir.clone().unwrap();
        let index = fs::read(git_dir.join("index")).unwrap();
        let (before, said) = (untouched(&source, &git_dir), state(&source));

        // The test's own git may have run it.
        let ran = folder.join("filter-ran");
        let _ = fs::remove_file(&ran);
        let kept = keep(&place, What::All);
        assert!(!ran.exists(), "seed {round}: a filter ran");
        assert_eq!(untouched(&source, &git_dir), before, "seed {round}");
        assert_eq!(fs::read(git_dir.join("index")).unwrap(), index, "seed {round}");
        let has_nested = source.join("nested").exists();
        let nested = kept.left_out.iter().any(|left| left.why == Why::NestedRepository);
        assert_eq!(nested, has_nested, "seed {round}: {:?}", kept.left_out);
        assert!(kept.left_out.len() <= 1, "seed {round}: {:?}", kept.left_out);
        let Some(at) = &kept.at else {
            assert_eq!(files(&source), files(&target), "seed {round}: something was not seen");
            assert_eq!(said, state(&target), "seed {round}: something was not seen");
            continue;
        };
        // Once more, as after an interruption: the same one.
        assert_eq!(keep(&place, What::All).at.as_ref(), Some(at), "seed {round}");

        rescue::restore_exactly(&discover(&target).unwrap(), &at.commit).unwrap();
        assert!(!ran.exists(), "seed {round}: a filter ran");
        assert_eq!(files(&target), files(&source), "seed {round}");
        let (is, was) = (state(&target), said);
        assert_eq!(String::from_utf8_lossy(&is.0), String::from_utf8_lossy(&was.0), "seed {round}: index");
        assert_eq!(String::from_utf8_lossy(&is.1), String::from_utf8_lossy(&was.1), "seed {round}: staged");
        assert_eq!(String::from_utf8_lossy(&is.2), String::from_utf8_lossy(&was.2), "seed {round}: status");
        git(&main, &["fsck", "--no-progress", "--no-dangling"]);
        let ours = fs::read_dir(main.join(".git/onus")).unwrap().count();
        assert_eq!(ours, 0, "seed {round}: something was left behind");
    }
}

#[test]
fn a_clean_worktree_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("r");
    repository(&root);
    let place = discover(&root).unwrap();
    assert_eq!(keep(&place, What::All), Kept::default());
    let repository = Repository::new(&place).unwrap().unwrap();
    assert_eq!(rescue::list(&repository).unwrap(), []);
}

#[test]
fn before_the_first_commit_everything_is_kept_too() {
    let folder = tempfile::tempdir().unwrap();
    let (root, other) = (folder.path().join("r"), folder.path().join("o"));
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q"]);
    fs::write(root.join("staged"), "a").unwrap();
    git(&root, &["add", "staged"]);
    fs::write(root.join("staged"), "b").unwrap();
    fs::write(root.join("new"), "c").unwrap();
    let place = discover(&root).unwrap();
    let at = keep(&place, What::All).at.unwrap();
    assert_eq!(keep(&place, What::All).at, Some(at.clone()));
    git(folder.path(), &["clone", "-q", "r", "o"]);
    git(&other, &["fetch", "-q", "origin", &format!("{}:refs/x", at.reference)]);
    rescue::restore_exactly(&discover(&other).unwrap(), &at.commit).unwrap();
    assert_eq!(files(&other), files(&root));
    assert_eq!(git(&other, &["ls-files", "-s"]), git(&root, &["ls-files", "-s"]));
}

#[test]
fn in_a_shared_checkout_only_what_the_scope_matches_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("r");
    repository(&root);
    for name in ["plain.txt", "src/plain.txt", "deep/er/plain.txt", "src/new.rs"] {
        fs::write(root.join(name), format!("changed {name}")).unwrap();
    }
    git(&root, &["-c", "filter.evil.clean=", "add", "deep/er/plain.txt", "src/plain.txt"]);
    let place = discover(&root).unwrap();
    let kept_of = |globs: &[&str]| {
        let scope: Scope = globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect();
        let mut files = keep(&place, What::Scope(&scope)).files;
        files.sort();
        files
    };
    assert_eq!(kept_of(&["src/**"]), [Path::new("src/new.rs"), Path::new("src/plain.txt")]);
    assert_eq!(kept_of(&["plain.txt", "src/new.rs"]), [Path::new("plain.txt"), Path::new("src/new.rs")]);
    assert_eq!(kept_of(&["nothing/**"]), Vec::<PathBuf>::new());
    // Three different ones: none took another's place.
    let repository = Repository::new(&place).unwrap().unwrap();
    let all = rescue::list(&repository).unwrap();
    assert_eq!(all.len(), 2, "{all:?}");
    let files = rescue::files_of(&repository, &all[0].commit).unwrap();
    assert_eq!(files.len(), 2, "others' staged files are not in it: {files:?}");
}

#[test]
fn what_is_too_large_or_no_file_is_left_out_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("r");
    repository(&root);
    fs::write(root.join("large"), vec![7; 2 << 20]).unwrap();
    for n in 0..6 {
        fs::write(root.join(format!("much-{n}")), vec![n; (1 << 20) - 1]).unwrap();
    }
    fs::write(root.join("plain.txt"), vec![7; 2 << 20]).unwrap();
    fs::remove_file(root.join("run.sh")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("run.sh"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let kept = keep(&discover(&root).unwrap(), What::All);
    assert_eq!(kept.files.len(), 4, "{:?}", kept.files);
    let left: Vec<_> = kept.left_out.iter().map(|left| (left.path.to_str().unwrap(), left.why)).collect();
    let large = Why::TooLarge;
    assert_eq!(
        left,
        [
            ("large", large),
            ("much-4", large),
            ("much-5", large),
            ("plain.txt", large),
            ("run.sh", Why::Special)
        ]
    );
}

#[test]
fn a_rescue_is_brought_back_in_place_only_where_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("r");
    repository(&root);
    let place = discover(&root).unwrap();
    fs::write(root.join("plain.txt"), "theirs").unwrap();
    fs::write(root.join("new"), "new").unwrap();
    fs::remove_file(root.join("run.sh")).unwrap();
    let commit = keep(&place, What::All).at.unwrap().commit;
    let back = |only: Option<&str>| rescue::bring_back(&place, &commit, only.map(Path::new), None).unwrap();
    assert_eq!(back(None).same.len(), 3);
    // Somebody else's uncommitted words stay.
    fs::write(root.join("plain.txt"), "mine").unwrap();
    fs::remove_file(root.join("new")).unwrap();
    let refused = back(None);
    assert_eq!(refused.uncommitted, [Path::new("plain.txt")]);
    assert_eq!(fs::read(root.join("plain.txt")).unwrap(), b"mine");
    assert!(!root.join("new").exists(), "all or nothing");
    assert_eq!(back(Some("new")).written, [Path::new("new")]);
    // What was committed since is not undone.
    git(&root, &["-c", "filter.evil.clean=", "commit", "-qm", "mine", "plain.txt"]);
    assert_eq!(back(None).committed, [Path::new("plain.txt")]);
    // A folder of its own is always possible.
    let to = folder.path().join("out");
    let brought = rescue::bring_back(&place, &commit, None, Some(&to)).unwrap();
    assert_eq!(brought.written, [Path::new("new"), Path::new("plain.txt")]);
    assert_eq!(fs::read(to.join("plain.txt")).unwrap(), b"theirs");
    // Through a link nothing is written.
    fs::remove_file(root.join("new")).unwrap();
    fs::remove_dir_all(root.join("src")).unwrap();
    symlink(folder.path(), root.join("src")).unwrap();
    let linked = keep(&place, What::All).at.unwrap().commit;
    fs::remove_file(root.join("src")).unwrap();
    git(&root, &["-c", "filter.evil.smudge=", "-c", "filter.evil.clean=", "checkout", "-q", "--", "."]);
    assert!(!rescue::bring_back(&place, &linked, None, None).unwrap().is_refused());
    assert!(root.join("src").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn a_rescue_is_let_go_only_as_it_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("r");
    repository(&root);
    let place = discover(&root).unwrap();
    let repository = Repository::new(&place).unwrap().unwrap();
    fs::write(root.join("plain.txt"), "one").unwrap();
    let at = keep(&place, What::All).at.unwrap();
    fs::write(root.join("plain.txt"), "two").unwrap();
    let other = keep(&place, What::All).at.unwrap();
    assert_eq!(other.reference, format!("{REFERENCE}-2"));
    let wrong = rescue::KeptAt { commit: other.commit.clone(), ..at.clone() };
    rescue::forget(&repository, &wrong).unwrap_err();
    assert_eq!(rescue::list(&repository).unwrap().len(), 2);
    rescue::forget(&repository, &at).unwrap();
    assert_eq!(rescue::list(&repository).unwrap(), [other]);
}

/// A rescue of a new file, a new folder and a deletion, and a clean worktree of the same commit.
fn to_be_brought_back(folder: &Path) -> (Place, String) {
    let (main, source, target) = (folder.join("main"), folder.join("source"), folder.join("target"));
    repository(&main);
    for worktree in [&source, &target] {
        git_on(&main, &["-c", "filter.evil.smudge=", "worktree", "add", "-q", "--detach"], worktree);
    }
    fs::write(source.join("build"), "theirs").unwrap();
    fs::create_dir(source.join("x")).unwrap();
    fs::write(source.join("x/y"), "theirs").unwrap();
    fs::write(source.join("plain.txt"), "theirs").unwrap();
    fs::remove_file(source.join("run.sh")).unwrap();
    let commit = keep(&discover(&source).unwrap(), What::All).at.unwrap().commit;
    (discover(&target).unwrap(), commit)
}

#[test]
fn what_git_does_not_see_is_not_overwritten_either() {
    type Precious = fn(&Path);
    let precious: [(&str, Precious); 6] = [
        ("build", |root| fs::write(root.join("build"), "precious").unwrap()),
        ("x/y", |root| fs::write(root.join("x"), "precious").unwrap()),
        ("build", |root| {
            fs::create_dir(root.join("build")).unwrap();
            fs::write(root.join("build/inside"), "precious").unwrap();
        }),
        ("x/y", |root| symlink("src", root.join("x")).unwrap()),
        ("plain.txt", |root| {
            git(root, &["update-index", "--skip-worktree", "plain.txt"]);
            fs::write(root.join("plain.txt"), "precious").unwrap();
        }),
        ("run.sh", |root| {
            git(root, &["update-index", "--assume-unchanged", "run.sh"]);
            fs::write(root.join("run.sh"), "precious").unwrap();
        }),
    ];
    for (n, (path, make)) in precious.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (target, commit) = to_be_brought_back(&folder);
        fs::write(folder.join("main/.git/info/exclude"), "/build\n/x\n").unwrap();
        make(&target.root);
        let before = files(&target.root);
        rescue::restore_exactly(&target, &commit).unwrap_err();
        assert_eq!(files(&target.root), before, "{n}: laid out");
        let refused = rescue::bring_back(&target, &commit, None, None).unwrap();
        assert_eq!(refused.uncommitted, [Path::new(path)], "{n}");
        let only = rescue::bring_back(&target, &commit, Some(Path::new(path)), None).unwrap();
        assert_eq!(only.uncommitted, [Path::new(path)], "{n}");
        assert_eq!(files(&target.root), before, "{n}: brought back");
    }
}

#[test]
fn if_not_every_file_can_be_written_none_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (target, commit) = to_be_brought_back(&folder);
    let object = String::from_utf8(git(&target.root, &["rev-parse", &format!("{commit}:x/y")])).unwrap();
    let (two, rest) = object.trim().split_at(2);
    fs::remove_file(folder.join("main/.git/objects").join(two).join(rest)).unwrap();
    let before = files(&target.root);
    rescue::restore_exactly(&target, &commit).unwrap_err();
    let said = rescue::bring_back(&target, &commit, None, None).unwrap_err().to_string();
    assert!(said.contains("nothing was restored"), "{said}");
    assert_eq!(files(&target.root), before);
}

#[test]
fn a_file_that_git_checks_out_with_other_line_ends_is_no_uncommitted_change() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (target, commit) = to_be_brought_back(&folder);
    git(&target.root, &["config", "core.autocrlf", "true"]);
    fs::remove_file(target.root.join("plain.txt")).unwrap();
    git(&target.root, &["-c", "filter.evil.smudge=", "checkout", "-q", "--", "plain.txt"]);
    assert!(fs::read(target.root.join("plain.txt")).unwrap().contains(&b'\r'));
    let brought = rescue::bring_back(&target, &commit, None, None).unwrap();
    assert!(!brought.is_refused(), "{brought:?}");
    assert_eq!(fs::read(target.root.join("plain.txt")).unwrap(), b"theirs");
}
