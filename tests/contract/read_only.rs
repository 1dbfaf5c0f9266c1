//! A store that can be read but not written, as in an agent's sandbox: reads answer, writes are exit 8 `read_only` and
//! name the way that works. With the log's side files, without them, and with a log whose index is gone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use onus_core::refusal::Refusal;
use onus_store::StoreError;

use crate::contract::kit::{Mounted, claim, in_own_mounts, is_root};
use crate::support::{ONUS, Ran, Sandbox, agent, copy_of_program, human};

/// In which shape a sandbox finds the store.
#[derive(Clone, Copy, Debug)]
enum Files {
    /// Database, log and index, as the last command left them.
    All,
    /// The database alone: everything is in it.
    DatabaseAlone,
    /// A log with commits in it, and no index to it.
    LogWithoutIndex,
}

const SHAPES: [Files; 3] = [Files::All, Files::DatabaseAlone, Files::LogWithoutIndex];

const READS: &[&[&str]] = &[
    &["show", "1"],
    &["list"],
    &["ready"],
    &["log"],
    &["log", "1"],
    &["status"],
    &["search", "quickly"],
    &["ledger", "verify"],
    &["seat", "list"],
    &["rescue", "list"],
    &["actor", "list"],
    &["instance", "list"],
    &["doctor"],
];

const WRITES: &[&[&str]] = &[
    &["add", "More"],
    &["claim", "2"],
    &["claim", "--next"],
    &["claim", "--next", "--wait", "5m"],
    &["renew", "1"],
    &["note", "1", "x"],
    &["edit", "1", "--title", "x"],
    &["done", "1", "-m", "x"],
    &["release", "1"],
    &["handoff", "1", "--to", "agent:b", "--reason", "r"],
    &["assign", "1", "--to", "agent:b", "--reason", "r"],
    &["tick", "1", "1"],
    &["redact", "1", "1", "--reason", "r"],
    &["seat", "take", "dispatch"],
    &["actor", "register", "agent:c"],
    &["instance", "register"],
    &["ledger", "rebuild"],
    &["ledger", "seal"],
    &["doctor", "--fix"],
    &["init"],
];

fn prepared(files: Files) -> Sandbox {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it quickly");
    sandbox.add("Another");
    claim(&sandbox, &agent("a"), &id);
    let folder = sandbox.path().join(".onus");
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
    match files {
        Files::All => assert!(size("onus.db-wal") > 0 && size("onus.db-shm") > 0),
        Files::DatabaseAlone => {
            sandbox.run(&human("founder"), &["doctor", "--fix"]).ok();
            assert_eq!(size("onus.db-wal"), 0, "everything was moved into the database");
            let _ = fs::remove_file(folder.join("onus.db-wal"));
            let _ = fs::remove_file(folder.join("onus.db-shm"));
        }
        Files::LogWithoutIndex => {
            fs::remove_file(folder.join("onus.db-shm")).unwrap();
            assert!(size("onus.db-wal") > 0);
        }
    }
    sandbox
}

/// Name and content of every file of the store.
fn content(sandbox: &Sandbox) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(sandbox.path().join(".onus"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Every read works and every write is refused, by `run`, which cannot write.
fn reads_work_and_writes_are_refused(sandbox: &Sandbox, files: Files, run: &dyn Fn(&[&str]) -> Ran) {
    let before = content(sandbox);
    for args in READS {
        let mut with_json = args.to_vec();
        with_json.push("--json");
        let ran = run(&with_json);
        assert_eq!(ran.code, 0, "{files:?}, {args:?}: {ran:?}");
        let value = ran.json();
        match args[0] {
            "show" => assert_eq!(value["lease"]["actor"], "agent:a", "{files:?}: what is in the log counts"),
            "list" => assert_eq!(value["tasks"].as_array().unwrap().len(), 2, "{files:?}"),
            "ready" | "search" => {
                assert_eq!(value["tasks"].as_array().unwrap().len(), 1, "{files:?}, {args:?}")
            }
            "ledger" => assert_eq!(value["ok"], true),
            "status" => assert_eq!(value["yours"], serde_json::json!(["ON-1"])),
            _ => {}
        }
        assert_eq!(run(args).code, 0, "{files:?}, {args:?}");
    }
    for args in WRITES {
        let mut with_json = args.to_vec();
        with_json.push("--json");
        let ran = run(&with_json);
        let error = ran.refused(8);
        assert_eq!(error["code"], "read_only", "{files:?}, {args:?}: {error}");
        // The words of the snapshot, which are made from the same error.
        let known = Refusal::from(StoreError::ReadOnly(PathBuf::new()));
        let known = crate::contract::wording::refusal(&known).next;
        assert_eq!(error["next"][0], known[0], "{files:?}, {args:?}");
        assert!(error["message"].as_str().unwrap().contains("can be read but not written"));
        let words = run(args);
        assert_eq!(words.code, 8, "{files:?}, {args:?}");
        // The doctor's report is its answer; everybody else's refusal goes to stderr.
        let told = if args[0] == "doctor" && words.stderr.is_empty() { &words.stdout } else { &words.stderr };
        assert!(told.contains("outside the sandbox"), "{words:?}");
    }
    assert!(content(sandbox) == before, "{files:?}: some file changed");
}

#[test]
fn on_a_read_only_mount_reads_work_and_writes_name_the_way_that_works() {
    if !in_own_mounts("read_only::on_a_read_only_mount_reads_work_and_writes_name_the_way_that_works") {
        return;
    }
    for files in SHAPES {
        let sandbox = prepared(files);
        let folder = sandbox.path().join(".onus");
        let mounted = Mounted::new(&["--bind", &folder.to_string_lossy()], &folder);
        // One mount, told a second time what it is: ended by the one guard.
        std::mem::forget(Mounted::new(&["-o", "remount,ro,bind"], &folder));
        assert!(fs::write(folder.join("probe"), "").is_err(), "the mount keeps writers out");

        reads_work_and_writes_are_refused(&sandbox, files, &|args| sandbox.run(&agent("a"), args));

        // Back outside the sandbox everything is as it was.
        drop(mounted);
        sandbox.run(&agent("a"), &["done", "1", "-m", "x"]).ok();
        sandbox.is_whole();
    }
}

/// The log lies beside the real file, not beside the link.
#[test]
fn a_link_to_a_store_that_cannot_be_written_shows_what_is_in_its_log() {
    if !in_own_mounts("read_only::a_link_to_a_store_that_cannot_be_written_shows_what_is_in_its_log") {
        return;
    }
    let sandbox = prepared(Files::LogWithoutIndex);
    let folder = sandbox.path().join(".onus");
    let link = sandbox.path().join("link.db");
    std::os::unix::fs::symlink(sandbox.database(), &link).unwrap();
    let _mounted = Mounted::new(&["--bind", &folder.to_string_lossy()], &folder);
    std::mem::forget(Mounted::new(&["-o", "remount,ro,bind"], &folder));
    let mut command = sandbox.command(&agent("a"));
    let ran = Ran::of(command.args(["list", "--json"]).env("ONUS_STORE", &link).output().unwrap());
    assert_eq!(ran.ok().json()["tasks"].as_array().unwrap().len(), 2);
}

/// Takes (or gives back) everybody's right to write in a folder and to the files in it.
fn set_writable(folder: &Path, writable: bool) {
    for entry in fs::read_dir(folder).unwrap() {
        let mode = if writable { 0o600 } else { 0o400 };
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mode = if writable { 0o700 } else { 0o500 };
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a folder and all in it to another user, if this is root's to give.
fn belongs_to(folder: &Path, uid: u32) {
    if is_root() {
        let given = Command::new("chown").arg("-R").arg(format!("{uid}:{uid}")).arg(folder).status();
        assert!(given.unwrap().success());
    }
}

/// Permissions do not bind root: it becomes somebody else, who must reach the folder and the binary.
fn by_somebody(sandbox: &Sandbox) -> impl Fn(&[&str]) -> Ran + use<'_> {
    let binary = if is_root() { sandbox.path().join("onus") } else { PathBuf::from(ONUS) };
    if is_root() {
        copy_of_program(ONUS, &binary);
    }
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    move |args| {
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
            command
        } else {
            Command::new(&binary)
        };
        command
            .current_dir(sandbox.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("ONUS_ACTOR", "agent:a")
            .env("ONUS_INSTANCE", "a-1")
            .args(args);
        Ran::of(command.output().unwrap())
    }
}

#[test]
fn what_may_not_even_be_read_is_named_with_what_to_change() {
    let sandbox = Sandbox::new();
    let run = by_somebody(&sandbox);
    let file = sandbox.database();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    belongs_to(sandbox.path(), 65_534);
    let step = format!("give yourself access to {} (chmod u+rwX): it is yours", file.display());
    for args in [&["status"][..], &["list"], &["doctor"]] {
        let refused = run(&[args, &["--json"]].concat()).refused(8);
        assert_eq!(
            (&refused["code"], &refused["next"]),
            (&"unavailable".into(), &[step.as_str()][..].into())
        );
    }
    belongs_to(sandbox.path(), 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.is_whole();
}

#[test]
fn without_permission_to_write_reads_work_and_writes_name_the_way_that_works() {
    for files in SHAPES {
        let sandbox = prepared(files);
        let run = by_somebody(&sandbox);
        let folder = sandbox.path().join(".onus");
        set_writable(&folder, false);
        // What another user owns is not looked at: it is theirs for a while.
        belongs_to(sandbox.path(), 65_534);

        reads_work_and_writes_are_refused(&sandbox, files, &run);

        belongs_to(sandbox.path(), 0);
        set_writable(&folder, true);
        sandbox.run(&agent("a"), &["done", "1", "-m", "x"]).ok();
        sandbox.is_whole();
    }
}
