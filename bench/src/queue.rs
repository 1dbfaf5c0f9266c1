//! What the queue costs, in a repository of 50,000 files: 50 independent tasks that are done, landed by one `onus land --queue` with a
//! gate on the result, against the gates that it ran plus 50 merges of the same branches by git in a checkout, in turn.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use onus_repo::landing::Lander;

use crate::Result;
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository, many_files};
use crate::shell::git;

pub(crate) const ABOUT: &str =
    "the queue with 50 tasks against the gates it ran and 50 merges by git, 50,000 files";

const ROUNDS: usize = 5;
const TASKS: usize = 50;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = place.repository("queue")?;
    let root = &repository.root;
    let files = many_files(root)?;
    // It leaves a line for each run.
    let ran = root.join(".git/ran");
    let gate = ["sh".to_owned(), "-c".to_owned(), format!("sleep 0.2; echo ran >> '{}'", ran.display())];
    let table = format!("key = \"check\"\nstage = \"land\"\nrun = {}\n", serde_json::json!(gate));
    fs::write(root.join("onus.toml"), format!("[land]\nstyle = \"merge\"\n\n[[gate]]\n{table}"))?;
    for args in [
        &["init", "-q"] as &[&str],
        &["config", "user.name", "bench"],
        &["config", "user.email", "bench@localhost"],
        &["config", "gc.auto", "0"],
        &["add", "onus.toml", "src"],
        &["commit", "-q", "-m", "all"],
        &["branch", "-M", "main"],
        &["worktree", "add", "-q", "-b", "merged", "../queue-merged"],
    ] {
        git(root, args)?;
    }
    let (merged, work) = (root.with_file_name("queue-merged"), root.with_file_name("queue-work"));
    onus(place, &repository, &["init"])?;
    onus(place, &repository, &["trust", "approve", "check"])?;
    let place_of = onus_repo::discover(root).ok_or("there is no repository")?;
    let lander = Lander::of(&place_of)?.ok_or("this is not git")?;
    let (mut queue, mut allowed) = (Times::default(), Times::default());
    let mut gates = 0;
    for round in 0..ROUNDS {
        queue.next_round();
        allowed.next_round();
        let branches = work_is_done(place, &repository, &work, round)?;
        let already = lines(&ran);
        queue.time(|| onus(place, &repository, &["land", "--queue"]))?;
        gates = lines(&ran) - already;
        allowed.time(|| {
            for branch in &branches {
                git(&merged, &["merge", "-q", "--no-ff", "-m", "merged", branch])?;
            }
            (0..gates).try_for_each(|_| bare(&gate, &merged))
        })?;
        let tree = |name: &str| lander.commit_of(name).and_then(|commit| lander.tree_of(&commit).ok());
        if tree("main") != tree("merged") {
            return Err("what landed is not what git merged".into());
        }
    }
    let mut report = Report::default();
    report.note(format!("{files} files, {TASKS} tasks, gates run by the queue: {gates}"));
    report.note(format!("the queue                {}", queue.describe()));
    report.note(format!("merges by git and gates  {}", allowed.describe()));
    report.check("queue / gates and merges", queue.over(&allowed), Target::AtMost(1.3));
    Ok(report)
}

/// Tasks that are done, each with a commit on a branch of its own; the branches.
fn work_is_done(place: &Place, repository: &Repository, work: &Path, round: usize) -> Result<Vec<String>> {
    let root = &repository.root;
    if !work.exists() {
        git(root, &["worktree", "prune"])?;
        git(root, &["worktree", "add", "-q", "--detach", "../queue-work", "main"])?;
    }
    let mut branches = Vec::with_capacity(TASKS);
    for n in 0..TASKS {
        let number = round * TASKS + n + 1;
        let (id, branch) = (number.to_string(), format!("work-{number}"));
        git(work, &["checkout", "-q", "-b", &branch, "main"])?;
        fs::write(work.join(format!("src/{0}/f{0}.rs", number % 500)), format!("// changed {number}\n"))?;
        git(work, &["commit", "-q", "-am", "a change"])?;
        onus(place, repository, &["add", "a task"])?;
        onus(place, repository, &["claim", &id])?;
        onus(place, repository, &["worktree", "adopt", "../queue-work", "--task", &id])?;
        onus(place, repository, &["done", &id, "-m", "done"])?;
        git(root, &["branch", "-q", &format!("same-{number}"), &branch])?;
        branches.push(format!("same-{number}"));
    }
    git(work, &["checkout", "-q", "--detach", "main"])?;
    Ok(branches)
}

/// As the person who approved the gate.
fn onus(place: &Place, repository: &Repository, args: &[&str]) -> Result<()> {
    let mut command = repository.command(&place.onus, "bench");
    let output = command.env("ONUS_ACTOR", "human:bench").args(args).stderr(Stdio::piped()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("onus {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// How often the gate ran.
fn lines(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

/// The gate alone.
fn bare(gate: &[String; 3], folder: &Path) -> Result<()> {
    match Command::new(&gate[0]).args(&gate[1..]).current_dir(folder).status()?.success() {
        true => Ok(()),
        false => Err("the gate failed".into()),
    }
}
