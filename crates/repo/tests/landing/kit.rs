//! Repositories to land in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use onus_core::commit::CommitId;
use onus_core::scope::Scope;
use onus_repo::discover;
use onus_repo::landing::{Intended, Lander, Moved, Plan, Planned, Settled, Style, Tip, Words};
use tempfile::TempDir;

use support::git_in;
pub(crate) use support::{below, git};

#[path = "../../../../tests/support/git.rs"]
mod support;

pub(crate) struct Yard {
    folder: TempDir,
}

pub(crate) fn try_git(folder: &Path, args: &[&str]) -> Output {
    git_in(folder).args(args).output().unwrap()
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    support::write(folder.join(name), text);
}

/// Lines that two sides can change without meeting.
pub(crate) fn lines(what: &str) -> String {
    (0..20).map(|n| format!("{what} {n}\n")).collect()
}

pub(crate) fn lander(folder: &Path) -> Lander {
    Lander::of(&discover(folder).unwrap()).unwrap().unwrap()
}

pub(crate) fn commit_of(folder: &Path, name: &str) -> CommitId {
    git(folder, &["rev-parse", &format!("{name}^{{commit}}")]).parse().unwrap()
}

pub(crate) fn union(globs: &[&str]) -> Scope {
    Scope::from(globs.iter().map(|glob| glob.parse().unwrap()).collect::<Vec<_>>())
}

/// How often, by default or as `scripts/long` says.
pub(crate) fn count(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }
}

impl Yard {
    /// A repository with a user, and one commit on `main`.
    pub(crate) fn new() -> Yard {
        let yard = Yard { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(yard.repo()).unwrap();
        git(&yard.repo(), &["init", "--quiet"]);
        for (key, value) in [("user.name", "Lander"), ("user.email", "lander@example.org")] {
            git(&yard.repo(), &["config", key, value]);
        }
        for name in ["a.txt", "b.txt", "own.txt", "gone.txt", "src/lib.rs"] {
            write(&yard.repo(), name, &lines(name));
        }
        write(&yard.repo(), ".gitignore", "*.ignored\n");
        write(&yard.repo(), "log.md", "# log\n");
        yard.commit("base");
        yard
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.path().join("repo")
    }

    /// The folder of tasks' worktrees.
    pub(crate) fn root(&self) -> PathBuf {
        self.path().join("repo.onus")
    }

    /// What is in it, two folders deep.
    pub(crate) fn left_in_root(&self) -> Vec<PathBuf> {
        let inside = |folder: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        inside(&self.root())
            .into_iter()
            .flat_map(|path| [vec![path.clone()], inside(&path)].concat())
            .collect()
    }

    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.repo(), args)
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
    }

    pub(crate) fn lander(&self) -> Lander {
        lander(&self.repo())
    }

    pub(crate) fn at(&self, name: &str) -> CommitId {
        commit_of(&self.repo(), name)
    }

    /// A branch from `start` with one commit, made in a worktree of its own that is gone again.
    pub(crate) fn branch(&self, name: &str, start: &str, change: impl FnOnce(&Path)) -> CommitId {
        let folder = self.path().join(format!("branch-{}", name.replace('/', "-")));
        let at = folder.display().to_string();
        self.git(&["worktree", "add", "--quiet", "-b", name, &at, start]);
        change(&folder);
        git(&folder, &["add", "--all", "--force", "--sparse"]);
        git(&folder, &["commit", "--quiet", "-m", name]);
        self.git(&["worktree", "remove", "--force", &at]);
        self.at(&format!("refs/heads/{name}"))
    }

    /// The text of a file in a commit; None: there is none.
    pub(crate) fn file(&self, commit: &CommitId, name: &str) -> Option<String> {
        let ran = try_git(&self.repo(), &["show", &format!("{commit}:{name}")]);
        ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    #[track_caller]
    pub(crate) fn fsck(&self) {
        self.git(&["fsck", "--no-progress", "--no-dangling", "--full"]);
    }
}

#[track_caller]
pub(crate) fn tip(lander: &Lander, target: &str) -> Tip {
    lander.tip(target, &union(&["log.md"])).unwrap().unwrap()
}

#[track_caller]
pub(crate) fn plan(lander: &Lander, base: &CommitId, branch: &CommitId, style: Style) -> Plan {
    match lander.plan(base, branch, style, &union(&["log.md", "src/mods.rs"])).unwrap() {
        Planned::Ready(plan) => plan,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn words(message: &str) -> Words {
    Words { message: message.to_owned(), trailers: vec!["Onus-Task: ON-1".to_owned()], ..Words::default() }
}

/// Lands a branch, however often others are faster. The commit, and how often they were.
#[track_caller]
pub(crate) fn land(lander: &Lander, id: &str, target: &str, branch: &CommitId) -> (CommitId, usize) {
    land_from(lander, id, target, branch, &|| {})
}

/// The same, where something happens after the first look at the target.
#[track_caller]
pub(crate) fn land_from(
    lander: &Lander,
    id: &str,
    target: &str,
    branch: &CommitId,
    looked: &dyn Fn(),
) -> (CommitId, usize) {
    for lost in 0..200 {
        let tip = tip(lander, target);
        if lost == 0 {
            looked();
        }
        let plan = plan(lander, &tip.commit, branch, Style::Merge);
        let result = lander.commit(&plan, &words(&format!("Land {id}"))).unwrap();
        assert_eq!(lander.intend(id, &result, &tip).unwrap(), Intended::Written);
        match lander.move_target(id, &tip, &result, "land").unwrap() {
            Moved::Moved { checkouts } => {
                if checkouts {
                    lander.bring_forward(target).unwrap();
                }
                assert_eq!(lander.intent(id).unwrap(), None);
                return (result, lost);
            }
            Moved::TargetMoved => {
                assert_eq!(lander.settle(id, target, Some(&result)).unwrap(), Settled::Withdrawn);
            }
            Moved::IntentGone | Moved::BranchMoved => panic!("nobody settled it"),
        }
    }
    panic!("{id} never got its turn");
}
