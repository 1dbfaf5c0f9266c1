//! What the contract's tests share beyond the sandbox: calls with extra environment, and the whole store as values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OpenFlags};

use crate::support::{As, ONUS, Ran, Sandbox, human, is_written};

/// An agent's instance by name: several instances of one agent, or one that speaks for itself.
pub(crate) fn instance(actor: &str, instance: &str) -> As {
    As { actor: actor.into(), instance: instance.into() }
}

/// Runs a command with more in its environment, with `--json`.
pub(crate) fn json_with(sandbox: &Sandbox, who: &As, env: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = sandbox.command(who);
    command.args(args).arg("--json").envs(env.iter().copied());
    Ran::of(command.output().unwrap())
}

/// The same for people to read.
pub(crate) fn run_with(sandbox: &Sandbox, who: &As, env: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = sandbox.command(who);
    command.args(args).envs(env.iter().copied());
    Ran::of(command.output().unwrap())
}

/// Runs a command that reads `input` from standard input.
pub(crate) fn fed(sandbox: &Sandbox, who: &As, args: &[&str], input: &[u8]) -> Ran {
    crate::support::fed(sandbox.command(who).args(args), input)
}

/// Every row of every table, the ledger included: equal before and after means that nothing changed.
pub(crate) type Dump = BTreeMap<String, Vec<Vec<Cell>>>;

pub(crate) fn dump(sandbox: &Sandbox) -> Dump {
    let connection = open(sandbox);
    let tables = strings(&connection, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
    assert!(tables.iter().any(|name| name == "event"), "the dump sees the ledger");
    tables
        .into_iter()
        // The index itself shows rows of other tables; what it keeps lies in its shadow tables, which are dumped.
        .filter(|name| name != "search")
        .map(|name| {
            // What a holder was refused is kept for those who have it, and is no change of anything it names.
            let columns = match name.as_str() {
                "instance" => "actor, instance, machine, boot, pid_ns, time_ns, pid, start, seen_at_ms, pgid",
                _ => "*",
            };
            let rows = rows(&connection, &format!("SELECT {columns} FROM \"{name}\""));
            (name, rows)
        })
        .collect()
}

fn open(sandbox: &Sandbox) -> Connection {
    Connection::open_with_flags(sandbox.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn rows(connection: &Connection, sql: &str) -> Vec<Vec<Cell>> {
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

fn strings(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0));
    rows.unwrap().map(Result::unwrap).collect()
}

/// Changes the database behind the program's back.
pub(crate) fn tamper(sandbox: &Sandbox, sql: &str) {
    let connection = Connection::open(sandbox.database()).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// A lease that is claimed with this TTL has lapsed when [`lapse`] returns.
pub(crate) const SHORT: &str = "1ms";

pub(crate) fn lapse() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Claims a task for somebody whose lease has lapsed by the time this returns; its token.
#[track_caller]
pub(crate) fn lapsed_claim(sandbox: &Sandbox, who: &As, id: &str) -> u64 {
    let claimed = sandbox.json(who, &["claim", id, "--ttl", SHORT]).ok().json();
    lapse();
    assert_eq!(sandbox.show(id)["lease"]["live"], false);
    claimed["lease"]["token"].as_u64().unwrap()
}

#[track_caller]
pub(crate) fn claim(sandbox: &Sandbox, who: &As, id: &str) -> u64 {
    sandbox.json(who, &["claim", id]).ok().json()["lease"]["token"].as_u64().unwrap()
}

/// The kinds of a task's events, oldest first.
#[track_caller]
pub(crate) fn kinds(sandbox: &Sandbox, id: &str) -> Vec<String> {
    let log = sandbox.json(&human("founder"), &["log", id]).ok().json();
    let events = log["events"].as_array().unwrap();
    events.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

/// Every command that the binary has, by its own list.
pub(crate) fn commands(sandbox: &Sandbox) -> BTreeSet<String> {
    let help = sandbox.run(&human("founder"), &["help", "--all"]).ok().stdout.clone();
    let names =
        help.lines().filter(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// Whether this test runs in mount namespaces of its own, where it may mount what it likes and nobody sees it.
/// Outside it runs itself again inside, and is done: write `if !in_own_mounts("module::test") { return }`.
#[track_caller]
pub(crate) fn in_own_mounts(test: &str) -> bool {
    const INSIDE: &str = "ONUS_TEST_IN_OWN_MOUNTS";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let flags = if is_root() { "-m" } else { "-Urm" };
    let works = Command::new("unshare").args([flags, "true"]).output();
    if !works.is_ok_and(|ran| ran.status.success()) {
        eprintln!("{test}: left out, because this machine does not let its users make mount namespaces");
        return false;
    }
    let again = Command::new("unshare")
        .arg(flags)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("contract::{test}"), "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    assert!(again.status.success() && out.contains("1 passed"), "{out}\n{err}");
    false
}

/// Whether a program that was to be run is not there, or not for this user.
pub(crate) fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied)
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Something mounted, until dropped: a folder cannot be removed while it is a mount point.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    #[track_caller]
    pub(crate) fn new(args: &[&str], at: &Path) -> Mounted {
        let mut all: Vec<&std::ffi::OsStr> = args.iter().map(std::ffi::OsStr::new).collect();
        all.push(at.as_os_str());
        must("mount", &all);
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

/// Runs a program that must succeed.
#[track_caller]
fn must(program: &str, args: &[&std::ffi::OsStr]) {
    let ran = Command::new(program).args(args).output().unwrap();
    assert!(ran.status.success(), "{program} {args:?}: {ran:?}");
}

/// Runs the binary in a pseudo-terminal and returns what it shows, by util-linux's `script`; None where that is missing.
pub(crate) fn on_terminal(sandbox: &Sandbox, env: &[(&str, &str)], args: &[&str]) -> Option<String> {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let line: Vec<String> = std::iter::once(ONUS).chain(args.iter().copied()).map(quoted).collect();
    let ran = Command::new("script")
        .args(["-qec", &line.join(" "), "/dev/null"])
        .current_dir(sandbox.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", sandbox.path().join("home"))
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output();
    match ran {
        Ok(ran) => Some(String::from_utf8_lossy(&ran.stdout).into_owned()),
        Err(error) if is_missing(&error) => {
            eprintln!("what needs a terminal is left out: there is no script(1) here");
            None
        }
        Err(error) => panic!("script: {error}"),
    }
}

/// Compares a generated page with the one in the repository, or writes it.
#[track_caller]
pub(crate) fn documented(page: &str, text: &str) {
    is_written(&format!("docs/{page}"), text);
}

/// A process that does nothing until it is dropped.
pub(crate) struct Sleeper(std::process::Child);

impl Sleeper {
    pub(crate) fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
