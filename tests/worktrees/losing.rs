//! `worktree remove` and `prune` against random states of a worktree. What would be lost is worked out here from the bytes of files,
//! trees and the index: nothing of what onus asks git is asked. Whenever something would be, the worktree stays as it is; when it
//! goes, everything in it is still there.
//!
//! `REMOVAL_ROUNDS=500` runs the long one; `REMOVAL_SEED` chooses another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::kit::Yard;
use crate::support::{As, agent, below, human, write};

/// Random numbers that a seed repeats (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What happened to the branch before.
const HISTORIES: [&str; 8] =
    ["none", "unlanded", "merged", "squashed", "rebased", "elsewhere", "behind", "empty commit"];

/// What is done to files. One that is ignored, or only looked at, is no loss.
const CHANGES: [&str; 26] = [
    "none",
    "none",
    "none",
    "none",
    "none",
    "none",
    "none",
    "none",
    "none",
    "ignored",
    "touched",
    "empty folder",
    "modified",
    "staged",
    "staged and put back",
    "deleted",
    "removed",
    "untracked",
    "untracked below",
    "symlink",
    "executable",
    "intent to add",
    "skip-worktree",
    "assume-unchanged",
    "ignored repository",
    "ignored bare repository",
];

/// What is under way, or who is there.
const STATES: [&str; 16] = [
    "none",
    "none",
    "none",
    "none",
    "merge",
    "rebase",
    "cherry-pick",
    "bisect",
    "detached",
    "detached commit",
    "locked",
    "held",
    "own ref",
    "moved",
    "moved and repaired",
    "nested repository",
];

struct Round<'a> {
    yard: &'a Yard,
    path: PathBuf,
    id: String,
    who: As,
    branch: String,
}

impl Round<'_> {
    fn git(&self, args: &[&str]) -> String {
        self.yard.git_in(&self.path, args)
    }

    /// On the main branch, as others do it.
    fn main(&self, args: &[&str]) -> String {
        self.yard.git(args)
    }

    fn write(&self, file: &str, text: &str) {
        write(self.path.join(file), text);
    }

    fn commits(&self, file: &str, text: &str) {
        self.write(file, text);
        self.git(&["add", file]);
        self.git(&["commit", "--quiet", "-m", file]);
    }

    /// Whether commits are nowhere else afterwards.
    fn history(&self, what: &str) -> bool {
        let own = format!("own-{}", self.id);
        match what {
            "none" => return false,
            "behind" => drop(self.yard.commit(&format!("later-{}", self.id), "later\n")),
            "empty commit" => drop(self.git(&["commit", "--quiet", "--allow-empty", "-m", "empty"])),
            _ => {
                self.commits(&own, "first\n");
                self.commits(&own, "second\n");
            }
        }
        match what {
            "merged" => drop(self.main(&["merge", "--quiet", "--no-edit", &self.branch])),
            "squashed" => {
                self.main(&["merge", "--quiet", "--squash", &self.branch]);
                self.main(&["commit", "--quiet", "-m", "squashed"]);
            }
            "rebased" => drop(self.main(&["cherry-pick", &format!("main..{}", self.branch)])),
            "elsewhere" => drop(self.main(&["branch", &format!("safe-{}", self.id), &self.branch])),
            _ => {}
        }
        matches!(what, "unlanded" | "empty commit")
    }

    fn change(&self, what: &str, file: &str) {
        let path = self.path.join(file);
        match what {
            "ignored" => self.write(&format!("{file}.ign"), "ignored\n"),
            "ignored repository" | "ignored bare repository" => {
                let folder = self.path.join(format!("{file}.ign/below"));
                fs::create_dir_all(&folder).unwrap();
                let bare: &[&str] = if what == "ignored repository" { &[] } else { &["--bare"] };
                self.yard.git_in(&folder, &[&["init", "--quiet"], bare].concat());
            }
            "touched" => fs::File::options()
                .append(true)
                .open(path)
                .unwrap()
                .set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap(),
            "empty folder" => fs::create_dir_all(self.path.join(format!("{file}-folder"))).unwrap(),
            "modified" => self.write(file, "changed\n"),
            "staged" | "staged and put back" => {
                let before = fs::read_to_string(&path).unwrap();
                self.write(file, "staged\n");
                self.git(&["add", file]);
                if what == "staged and put back" {
                    self.write(file, &before);
                }
            }
            "deleted" => fs::remove_file(path).unwrap(),
            "removed" => drop(self.git(&["rm", "--quiet", file])),
            "untracked" => self.write(&format!("new {file}"), "new\n"),
            "untracked below" => self.write(&format!("deep/er/{file}"), "new\n"),
            "symlink" => symlink("nowhere", self.path.join(format!("link-{file}"))).unwrap(),
            "executable" => fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap(),
            "intent to add" => {
                self.write(&format!("meant-{file}"), "meant\n");
                self.git(&["add", "-N", &format!("meant-{file}")]);
            }
            "skip-worktree" | "assume-unchanged" => {
                self.git(&["update-index", &format!("--{what}"), file]);
                self.write(file, "hidden\n");
            }
            _ => {}
        }
    }

    /// Two sides that change one line, so that git stops in the middle.
    fn opposed(&self) {
        let other = format!("other-{}", self.id);
        self.yard.git(&["branch", "--quiet", &other, "main"]);
        let there = self.yard.folder().join(&other);
        self.yard.git(&["worktree", "add", "--quiet", there.to_str().unwrap(), &other]);
        self.yard.commit_in(&there, "z", "theirs\n");
        self.yard.git(&["worktree", "remove", there.to_str().unwrap()]);
        self.commits("z", "ours\n");
    }

    /// Whether that keeps it, whatever is in it.
    fn state(&mut self, what: &str) -> bool {
        let other = format!("other-{}", self.id);
        match what {
            "merge" | "rebase" | "cherry-pick" => {
                self.opposed();
                assert_ne!(self.yard.try_git(&self.path, &[what, &other]).code, 0, "{what}");
            }
            "bisect" => drop(self.git(&["bisect", "start"])),
            "detached" => drop(self.git(&["checkout", "--quiet", "--detach"])),
            "detached commit" => {
                self.git(&["checkout", "--quiet", "--detach"]);
                self.git(&["commit", "--quiet", "--allow-empty", "-m", "on no branch"]);
            }
            "locked" => drop(self.git(&["worktree", "lock", self.path.to_str().unwrap()])),
            "held" => drop(self.yard.claim(&self.who, &self.id)),
            "own ref" => {
                let tree = self.git(&["rev-parse", "HEAD^{tree}"]);
                let commit = self.git(&["commit-tree", &tree, "-p", "HEAD", "-m", "only here"]);
                self.git(&["update-ref", "refs/worktree/mine", &commit]);
            }
            "moved" | "moved and repaired" => {
                let to = self.yard.root().join(format!("moved-{}", self.id));
                fs::rename(&self.path, &to).unwrap();
                self.path = to;
                if what == "moved and repaired" {
                    self.yard.run(&human("ada"), &["worktree", "repair"]).ok();
                }
            }
            "nested repository" => {
                self.git(&["init", "--quiet", "nested"]);
                fs::write(self.path.join("nested/inside"), "inside\n").unwrap();
            }
            _ => {}
        }
        matches!(
            what,
            "merge"
                | "rebase"
                | "cherry-pick"
                | "bisect"
                | "detached commit"
                | "locked"
                | "held"
                | "own ref"
                | "moved"
                | "nested repository"
        )
    }

    /// `MODE OBJECT` of each file: of the commit, of the index, and of the folder.
    fn trees(&self) -> [BTreeMap<String, String>; 3] {
        let listed = |text: String, end: &str| {
            let entries = text.split('\0').filter_map(|entry| entry.split_once('\t'));
            entries
                .map(|(facts, name)| {
                    let facts: Vec<&str> = facts.split(' ').collect();
                    let object = if end == "tree" { facts[2] } else { facts[1] };
                    (name.to_owned(), format!("{} {object}", facts[0]))
                })
                .collect::<BTreeMap<_, _>>()
        };
        let head = listed(self.git(&["ls-tree", "-r", "-z", "HEAD"]), "tree");
        let index = listed(self.git(&["ls-files", "-s", "-z"]), "index");
        let counts = |path: &Path| !path.ends_with(".git") && !path.to_str().unwrap().ends_with(".ign");
        let mut files = BTreeMap::new();
        for path in below(&self.path, counts).into_iter().filter(|path| counts(path)) {
            let metadata = path.symlink_metadata().unwrap();
            let mode = match metadata.is_symlink() {
                _ if metadata.is_dir() => continue,
                true => "120000",
                false if metadata.permissions().mode() & 0o100 == 0 => "100644",
                false => "100755",
            };
            let object = match metadata.is_symlink() {
                true => "a link".to_owned(),
                false => self.git(&["hash-object", "--no-filters", path.to_str().unwrap()]),
            };
            let name = path.strip_prefix(&self.path).unwrap().to_str().unwrap().to_owned();
            files.insert(name, format!("{mode} {object}"));
        }
        [head, index, files]
    }

    /// Takes away what was kept, so that the next round is as quick as the first.
    fn clear(&self, state: &str) {
        if state == "held" {
            self.yard.run(&self.who, &["release", &self.id]).ok();
        }
        fs::remove_dir_all(&self.path).unwrap();
        if state == "locked" {
            let name = self.path.file_name().unwrap();
            fs::remove_file(self.yard.repo().join(".git/worktrees").join(name).join("locked")).unwrap();
        }
        self.yard.git(&["worktree", "prune"]);
    }

    /// Everything there, with its times: also git's own files of this worktree.
    fn bytes(&self) -> Vec<(PathBuf, Vec<u8>, i64)> {
        let name = format!("{}-", self.id);
        let own = fs::read_dir(self.yard.repo().join(".git/worktrees")).unwrap().flatten();
        let own = own
            .map(|entry| entry.path())
            .find(|path| path.file_name().unwrap().to_string_lossy().starts_with(&name));
        let all = own.into_iter().chain([self.path.clone()]).flat_map(|folder| below(&folder, |_| true));
        let mut found = Vec::new();
        for path in all.filter(|path| path.is_symlink() || !path.is_dir()) {
            let content = if path.is_symlink() { Vec::new() } else { fs::read(&path).unwrap() };
            let changed = path.symlink_metadata().unwrap().mtime();
            found.push((path, content, changed));
        }
        found.sort();
        found
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn whatever_state_a_worktree_is_in_nothing_is_lost_by_removing_it() {
    let rounds = number("REMOVAL_ROUNDS").unwrap_or(40);
    let mut dice = Dice(number("REMOVAL_SEED").unwrap_or(7).max(1));
    let yard = Yard::new();
    fs::write(yard.repo().join(".gitignore"), "*.ign\n").unwrap();
    for file in [".gitignore", "b", "c", "z"] {
        if file != ".gitignore" {
            fs::write(yard.repo().join(file), format!("{file}\n")).unwrap();
        }
        yard.git(&["add", file]);
    }
    yard.git(&["commit", "--quiet", "-m", "files"]);
    let (mut gone, mut stayed) = (0, BTreeSet::new());
    for round in 0..rounds {
        let (who, id) = (agent("a"), yard.add(&format!("round {round}")));
        let path = yard.claim(&who, &id);
        yard.run(&who, &["release", &id]).ok();
        let branch = yard.git_in(&path, &["symbolic-ref", "--short", "HEAD"]);
        let mut at = Round { yard: &yard, path, id, who, branch };
        let history = dice.one(&HISTORIES);
        let is_unlanded = at.history(history);
        let state = dice.one(&STATES);
        let is_busy = at.state(state);
        let changes = [dice.one(&CHANGES), dice.one(&CHANGES)];
        // Between two sides git keeps to itself what may be changed.
        let may_change = !matches!(state, "merge" | "rebase" | "cherry-pick" | "moved");
        for (change, file) in changes.iter().zip(["b", "c"]).filter(|_| may_change) {
            at.change(change, file);
        }
        let case = format!("round {round}: {history}, {state}, {changes:?}");
        // Detached from its branch, it goes without it.
        let is_unlanded = is_unlanded && state != "detached";
        let is_changed = state != "moved" && {
            let [head, index, files] = at.trees();
            head != index || head != files
        };
        let has_another = may_change && changes.iter().any(|what| what.ends_with("repository"));
        let is_lost = is_unlanded || is_busy || is_changed || has_another;
        let objects = yard.git_in(&yard.repo(), &["rev-list", "--objects", &format!("main..{}", at.branch)]);
        let objects: BTreeSet<String> =
            objects.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        let before = at.bytes();
        let named = at.path.to_str().unwrap().to_owned();
        let dry = yard.json(&human("ada"), &["worktree", "prune", "--dry-run"]).ok().json();
        let is_named =
            |list: &serde_json::Value| list.as_array().unwrap().iter().any(|path| *path == named.as_str());
        assert_eq!(is_named(&dry["removed"]), !is_lost, "{case}: {dry:#}");
        assert!(before == at.bytes(), "{case}: a dry run changed something");
        let is_gone = match round % 2 {
            0 => {
                let removed = yard.json(&human("ada"), &["worktree", "remove", &named]);
                assert!(removed.code == 0 || matches!(removed.code, 3 | 6), "{case}: {removed:?}");
                removed.code == 0
            }
            _ => is_named(&yard.json(&human("ada"), &["worktree", "prune"]).ok().json()["removed"]),
        };
        assert_eq!(is_gone, !is_lost, "{case}");
        assert_eq!(Path::new(&named).exists(), is_lost, "{case}");
        if is_lost {
            assert!(before == at.bytes(), "{case}: it was kept, and changed");
            stayed.insert(state);
            at.clear(state);
            continue;
        }
        gone += 1;
        // Every commit, tree and file of it is still in some branch; or, if the branch landed by its content, in that.
        let left: BTreeSet<String> = yard
            .git(&["rev-list", "--objects", "--all"])
            .lines()
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect();
        assert!(objects.is_subset(&left), "{case}: {:?}", objects.difference(&left).collect::<Vec<_>>());
        let fsck = yard.try_git(&yard.repo(), &["fsck", "--no-dangling"]);
        assert_eq!(fsck.code, 0, "{case}: {fsck:?}");
    }
    assert!(gone > 0 && stayed.len() > 3, "{gone} went, {stayed:?} stayed: nothing was tried");
    yard.run(&human("ada"), &["worktree", "list"]).ok();
}
