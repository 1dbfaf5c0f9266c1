//! What landing costs without gates, in a repository of 50,000 files: the same change, merged by git in a checkout, landed in a target
//! that nobody has checked out, and landed in one that somebody has, in turn.

use std::fs;
use std::path::Path;

use onus_core::commit::CommitId;
use onus_core::scope::Scope;
use onus_repo::landing::{Lander, Moved, Planned, Style, Words};

use crate::Result;
use crate::measure::{Report, Target, Times};
use crate::place::{Place, many_files};
use crate::shell::git;

pub(crate) const ABOUT: &str =
    "landing a change without gates against git merge of it in a checkout, 50,000 files";

const ROUNDS: usize = 9;
const LANDINGS: usize = 5;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = place.repository("land")?;
    let root = &repository.root;
    let files = many_files(root)?;
    for args in [
        &["init", "-q"] as &[&str],
        &["config", "user.name", "bench"],
        &["config", "user.email", "bench@localhost"],
        &["config", "gc.auto", "0"],
        &["add", "."],
        &["commit", "-q", "-m", "all"],
        &["checkout", "-q", "--detach"],
        &["branch", "-f", "free", "HEAD"],
        &["worktree", "add", "-q", "-b", "merged", "../land-merged"],
        &["worktree", "add", "-q", "-b", "out", "../land-out"],
    ] {
        git(root, args)?;
    }
    let (merged, out) = (root.with_file_name("land-merged"), root.with_file_name("land-out"));
    let place = onus_repo::discover(root).ok_or("there is no repository")?;
    let lander = Lander::of(&place)?.ok_or("this is not git")?;
    let base = lander.commit_of("HEAD").ok_or("there is no commit")?;
    let (mut by_git, mut free, mut checked_out) = (Times::default(), Times::default(), Times::default());
    for round in 0..ROUNDS {
        [&mut by_git, &mut free, &mut checked_out].into_iter().for_each(Times::next_round);
        for n in 0..LANDINGS {
            let change = change(root, &lander, &base, round * LANDINGS + n)?;
            by_git.time(|| git(&merged, &["merge", "-q", "--no-ff", "-m", "merged", change.as_str()]))?;
            free.time(|| land(&lander, "free", &change))?;
            checked_out.time(|| land(&lander, "out", &change))?;
        }
    }
    // All three have the same.
    let tree = |name: &str| lander.commit_of(name).and_then(|commit| lander.tree_of(&commit).ok());
    if tree("free") != tree("merged") || tree("out") != tree("merged") || !out.join("src").exists() {
        return Err("what landed is not what git merged".into());
    }
    let mut report = Report::default();
    report.note(format!("{files} files"));
    report.note(format!("git merge in a checkout       {}", by_git.describe()));
    report.note(format!("landed, not checked out       {}", free.describe()));
    report.note(format!("landed, and brought forward   {}", checked_out.describe()));
    report.check("landing / git merge", free.over(&by_git), Target::AtMost(1.5));
    report.check("landing in a checkout / git merge", checked_out.over(&by_git), Target::AtMost(1.5));
    Ok(report)
}

/// A commit on top of the first one that changes two files.
fn change(root: &Path, lander: &Lander, base: &CommitId, n: usize) -> Result<CommitId> {
    for file in [n, n + 250] {
        fs::write(root.join(format!("src/{0}/f{0}.rs", file % 500)), format!("// changed {n}\n"))?;
    }
    git(root, &["commit", "-q", "-am", "a change"])?;
    let change = lander.commit_of("HEAD").ok_or("there is no commit")?;
    git(root, &["checkout", "-q", "--detach", base.as_str()])?;
    Ok(change)
}

fn land(lander: &Lander, target: &str, branch: &CommitId) -> Result<()> {
    let union = Scope::default();
    let tip = lander.tip(target, &union)?.map_err(|_| "the target has diverged")?;
    let Planned::Ready(plan) = lander.plan(&tip.commit, branch, Style::Merge, &union)? else {
        return Err("nothing lands".into());
    };
    let words = Words {
        message: "Land B-1".to_owned(),
        trailers: vec!["Onus-Task: B-1".to_owned()],
        ..Words::default()
    };
    let result = lander.commit(&plan, &words)?;
    lander.intend("B-1", &result, &tip)?;
    match lander.move_target("B-1", &tip, &result, "land B-1")? {
        Moved::Moved { checkouts } if checkouts => lander.bring_forward(target).map(drop).map_err(Into::into),
        Moved::Moved { .. } => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}
