//! What a commit costs with the guard in git's hooks, in a repository of 50,000 files: the same commits by an agent that holds a task,
//! in turn with the hooks, without any, and with hooks that do nothing. The last is what git and the shell take for hooks as such.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::measure::{Report, Target, Times, median};
use crate::place::{Place, many_files};
use crate::shell::git;

pub(crate) const ABOUT: &str = "git commit with the guard against git commit without it, 50,000 files";

const ROUNDS: u64 = 9;
const COMMITS: u64 = 10;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = place.repository("guard")?;
    let root = &repository.root;
    let files = many_files(root)?;
    for args in [&["init", "-q"] as &[&str], &["add", "."], &["commit", "-q", "-m", "all"]] {
        git(root, args)?;
    }
    repository.run(&place.onus, "bench", &["init"])?;
    repository.run(&place.onus, "bench", &["add", "commits"])?;
    repository.run(&place.onus, "bench", &["claim", "1", "--scope", "src/1/**"])?;
    repository.run(&place.onus, "bench", &["guard", "install"])?;
    let empty = empty_hooks(root)?;
    let (mut with, mut without, mut floor) = (Times::default(), Times::default(), Times::default());
    let mut count = 0_u64;
    for _ in 0..ROUNDS {
        [&mut with, &mut without, &mut floor].into_iter().for_each(Times::next_round);
        for _ in 0..COMMITS {
            for (times, hooks) in
                [(&mut with, None), (&mut without, Some("/dev/null")), (&mut floor, Some(empty.as_str()))]
            {
                count += 1;
                fs::write(root.join("src/1/f1.rs"), format!("// changed {count}\n"))?;
                git(root, &["add", "src/1/f1.rs"])?;
                times.time(|| commit(root, hooks))?;
            }
        }
    }
    let mut report = Report::default();
    report.note(format!("{files} files"));
    report.note(format!("with the guard    {}", with.describe()));
    report.note(format!("without           {}", without.describe()));
    report.note(format!("with empty hooks  {}", floor.describe()));
    report.note(format!("commit with empty hooks / without: {:.2}", median(&floor.over(&without))));
    report.check("commit with the guard / without", with.over(&without), Target::AtMost(1.25));
    Ok(report)
}

/// Hooks of the same names as those that a commit runs, and nothing in them.
fn empty_hooks(root: &Path) -> Result<String> {
    let folder = root.join(".git/empty-hooks");
    fs::create_dir(&folder)?;
    for name in ["prepare-commit-msg", "commit-msg", "post-commit"] {
        let hook = folder.join(name);
        fs::write(&hook, "#!/bin/sh\n")?;
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755))?;
    }
    Ok(folder.display().to_string())
}

/// As the agent makes it.
fn commit(root: &Path, hooks: Option<&str>) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
    if let Some(hooks) = hooks {
        command.args(["-c", &format!("core.hooksPath={hooks}")]);
    }
    let output = command
        .args(["commit", "-q", "-m", "one line"])
        .current_dir(root)
        .env("ONUS_ACTOR", "agent:bench")
        .env("ONUS_INSTANCE", "bench")
        .env("HOME", root)
        .stdin(Stdio::null())
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("git commit: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
