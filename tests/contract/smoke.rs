//! The shortest way through.

use crate::support::{Sandbox, agent};

#[test]
fn a_task_is_added_claimed_and_finished() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let claimed = sandbox.json(&agent("a"), &["claim", &id]).ok().json();
    assert_eq!(claimed["lease"]["token"], 1);
    let done = sandbox.json(&agent("a"), &["done", "-m", "fixed"]).ok().json();
    assert_eq!(done["state"], "done");
    assert!(done["lease"].is_null());
    sandbox.is_whole();
}

/// Whoever shares the temporary folder may guess a process's number, and be there first.
#[test]
fn the_demo_goes_into_no_folder_that_somebody_else_prepared() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::empty();
    let (shared, theirs) = (sandbox.path().join("tmp"), sandbox.path().join("theirs"));
    for folder in [&shared, &theirs] {
        std::fs::create_dir(folder).unwrap();
    }
    // The shell's number is the demo's: it becomes the demo.
    let script = "mkdir \"$TMPDIR/onus-demo-$$\" && ln -s \"$1\" \"$TMPDIR/onus-demo-$$/.onus\" && umask 0 && exec \"$2\" demo --keep";
    let mut onus = sandbox.command(&agent("a"));
    let mut command = std::process::Command::new("/bin/sh");
    command.env_clear().args(["-c", script, "sh"]).arg(&theirs).arg(onus.get_program());
    for (name, value) in onus.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let ran =
        crate::support::Ran::of(command.current_dir(sandbox.path()).env("TMPDIR", &shared).output().unwrap());
    ran.ok();
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0, "{ran:?}");
    let kept: Vec<_> = std::fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().path()).collect();
    let own = kept.iter().find(|folder| folder.join(".onus/onus.db").is_file()).unwrap();
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    onus.arg("-C").arg(own).arg("status");
    crate::support::Ran::of(onus.output().unwrap()).ok();
}
