//! Failing calls under the real binary: what an answer says is so, whatever the disk does.
//!
//! `strace` lets the n-th `fdatasync`, `fsync`, `pwrite`, `write`, `rename` or `ftruncate` of a command fail, or that one
//! and all that follow. Then another process looks: "done" is in the ledger, and only once; "nothing was done" (exit 8)
//! left every row as it was; only "not known" may be either. The same command with the same key then has its one effect.
//! The ledger verifies, the database is sound, and no file is left that nobody asked for.
//!
//! In the tests a sample of it; `FAULTS=all` tries every call of every command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::contract::kit::{dump, lapsed_claim};
use crate::support::{As, ONUS, Ran, Sandbox, agent, below, human};

/// The calls that fail, as the kernel names them, each with all its spellings.
const CALLS: [&str; 6] =
    ["fdatasync", "fsync", "pwrite64", "write", "rename,renameat,renameat2", "ftruncate"];

/// In which shape a command finds the store's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    /// None: the command begins one.
    None,
    Short,
    /// So long that a writer copies it into the database first, and starts it over.
    Long,
}

/// A command that changes something, and who gives it.
struct Case {
    who: fn() -> As,
    args: &'static [&'static str],
    /// Whether it has `--key`.
    keyed: bool,
}

fn a() -> As {
    agent("a")
}

fn founder() -> As {
    human("founder")
}

const fn keyed(who: fn() -> As, args: &'static [&'static str]) -> Case {
    Case { who, args, keyed: true }
}

const fn bare(who: fn() -> As, args: &'static [&'static str]) -> Case {
    Case { who, args, keyed: false }
}

const CASES: &[Case] = &[
    keyed(founder, &["add", "Another", "-d", "with words"]),
    keyed(a, &["claim", "ON-2", "--scope", "src/**"]),
    keyed(a, &["claim", "--next"]),
    keyed(a, &["note", "ON-1", "a word"]),
    keyed(a, &["done", "ON-1", "-m", "x"]),
    keyed(a, &["done", "ON-2", "-m", "x"]),
    keyed(a, &["release", "ON-1"]),
    keyed(a, &["renew", "ON-1"]),
    keyed(a, &["handoff", "ON-1", "--to", "agent:b", "--reason", "r"]),
    keyed(a, &["takeover", "ON-8", "--reason", "r"]),
    keyed(a, &["block", "ON-1", "--reason", "r"]),
    keyed(founder, &["unblock", "ON-3"]),
    keyed(a, &["submit", "ON-1", "-m", "x"]),
    keyed(founder, &["approve", "ON-5"]),
    keyed(founder, &["reject", "ON-5", "--reason", "r"]),
    keyed(a, &["fail", "ON-1", "--reason", "r"]),
    keyed(founder, &["retry", "ON-4"]),
    keyed(founder, &["reopen", "ON-6"]),
    keyed(founder, &["reset", "ON-6", "--reason", "r"]),
    keyed(founder, &["drop", "ON-2", "--reason", "r"]),
    keyed(founder, &["accept", "ON-7"]),
    keyed(founder, &["edit", "ON-2", "--title", "New words"]),
    keyed(founder, &["dep", "add", "ON-2", "ON-1"]),
    keyed(founder, &["redact", "ON-1", "3", "--reason", "r"]),
    bare(a, &["scope", "add", "docs/**"]),
    bare(founder, &["actor", "register", "agent:new"]),
    bare(a, &["instance", "register"]),
    bare(founder, &["ledger", "rebuild"]),
    bare(founder, &["ledger", "seal"]),
    bare(founder, &["ledger", "export", "out.jsonl"]),
    bare(founder, &["doctor", "--fix"]),
    bare(founder, &["backup", "copy.db"]),
    bare(founder, &["store", "copy", ".onus/onus.db", "moved/onus.db", "--with-live-leases"]),
];

/// Tasks in all states: ON-1 is agent a's, with a note at version 3, ON-8 was another's until it lapsed.
fn template(log: Log) -> Sandbox {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    let run = |who: &As, args: &[&str]| {
        sandbox.run(who, args).ok();
    };
    for title in ["Held", "Open", "Blocked", "Failed", "In review", "Done"] {
        sandbox.add(title);
    }
    run(&founder(), &["add", "Proposed", "--propose"]);
    sandbox.add("Lapsed");
    run(&a, &["claim", "ON-1"]);
    run(&a, &["note", "ON-1", "a secret"]);
    run(&founder(), &["block", "ON-3", "--reason", "r"]);
    run(&b, &["claim", "ON-4"]);
    run(&b, &["fail", "ON-4", "--reason", "r"]);
    run(&b, &["claim", "ON-5"]);
    run(&b, &["submit", "ON-5", "-m", "x"]);
    run(&b, &["done", "ON-6", "-m", "x"]);
    lapsed_claim(&sandbox, &b, "ON-8");
    let length = || fs::metadata(sandbox.database().with_extension("db-wal")).map_or(0, |log| log.len());
    run(&founder(), &["doctor", "--fix"]);
    match log {
        Log::None => assert_eq!(length(), 0, "all of it is in the database"),
        Log::Short => run(&a, &["note", "ON-1", "short"]),
        // The first writer that finds it so long starts it over: none has yet.
        Log::Long => {
            while length() <= 110 * 4_096 {
                run(&a, &["note", "ON-1", &"long ".repeat(12_000)]);
            }
        }
    }
    sandbox
}

/// The same store in another place.
fn copy_of(template: &Sandbox) -> Sandbox {
    let copy = Sandbox::empty();
    let copied = Command::new("cp").arg("-a").arg(template.path().join(".onus")).arg(copy.path()).output();
    assert!(copied.unwrap().status.success());
    copy
}

/// Runs a command under `strace`, with more of its options.
fn traced(sandbox: &Sandbox, who: &As, options: &[&str], args: &[&str]) -> Ran {
    let plain = sandbox.command(who);
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "--seccomp-bpf"])
        .args(options)
        .arg(ONUS)
        .args(args)
        .arg("--json")
        .current_dir(sandbox.path())
        .env_clear()
        .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(command.output().unwrap())
}

/// Whether processes may be traced here. A container may forbid it; that `strace` is missing is not an excuse.
fn may_trace() -> bool {
    if !cfg!(target_os = "linux") {
        eprintln!("failing calls are left out: there is no strace on this system");
        return false;
    }
    let tried = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    let tried =
        tried.unwrap_or_else(|error| panic!("these tests need strace, as scripts/test has it: {error}"));
    if !tried.status.success() {
        eprintln!("failing calls are left out: this machine does not let its users trace their processes");
    }
    tried.status.success()
}

/// How often a command makes each call.
fn calls_of(sandbox: &Sandbox, who: &As, args: &[&str]) -> (Ran, BTreeMap<&'static str, u32>) {
    let log = sandbox.path().join("trace");
    let trace = format!("trace={}", CALLS.join(","));
    let ran = traced(sandbox, who, &["-o", log.to_str().unwrap(), "-e", &trace], args);
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        let name = line.split_whitespace().nth(1).and_then(|call| call.split('(').next()).unwrap_or_default();
        if let Some(call) = CALLS.iter().find(|spellings| spellings.split(',').any(|one| one == name)) {
            *calls.entry(*call).or_default() += 1;
        }
    }
    fs::remove_file(log).unwrap();
    (ran, calls)
}

fn events(sandbox: &Sandbox) -> u64 {
    sandbox.json(&founder(), &["ledger", "verify"]).ok().json()["events"].as_u64().unwrap()
}

/// Every file below a folder, but for the store's own and those that locks and bells are.
fn strays(folder: &Path) -> BTreeSet<String> {
    const OWN: [&str; 6] = ["onus.db", "onus.db-wal", "onus.db-shm", "bell", "turnstile.lock", "writer.lock"];
    let is_own = |path: &PathBuf| path.is_dir() || OWN.iter().any(|name| path.ends_with(name));
    let strays = below(folder, |_| true).into_iter().filter(|path| !is_own(path));
    strays.map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
}

/// What a command does when nothing fails.
struct Expected {
    before: u64,
    after: u64,
    calls: BTreeMap<&'static str, u32>,
}

/// What a run may have come to, by its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    Nothing,
    /// Not known, or there was no answer to read.
    Either,
}

fn told(ran: &Ran, call: &str, what: &str) -> Told {
    if call == "write" && ran.code == 1 {
        // The answer itself could not be written.
        return Told::Either;
    }
    let answer = ran.json();
    // The doctor's report has its error beside it.
    match (ran.code, answer["error"]["code"].as_str()) {
        (0, None) => Told::Done,
        (8, Some("not_known")) => Told::Either,
        (8, Some("unavailable" | "disk_full" | "read_only")) => Told::Nothing,
        _ => panic!("{what}: {ran:?}"),
    }
}

/// Lets one call of a command fail, and holds the answer against the store.
fn judge(
    template: &Sandbox,
    case: &Case,
    expected: &Expected,
    (call, error, when): (&'static str, &str, &str),
) -> Told {
    let what = format!("{:?} with {call}:error={error}:when={when}", case.args);
    let sandbox = copy_of(template);
    let mut args = case.args.to_vec();
    args.extend(if case.keyed { &["--key", "k"][..] } else { &[] });
    let before = dump(&sandbox);
    let inject = format!("inject={call}:error={error}:when={when}");
    let who = (case.who)();
    let ran =
        traced(&sandbox, &who, &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject], &args);
    let told = told(&ran, call, &what);

    let now = events(&sandbox);
    let all = [expected.before, expected.after];
    match told {
        Told::Done => assert_eq!(now, expected.after, "{what}: told to be done: {ran:?}"),
        Told::Nothing if expected.before == expected.after => {}
        Told::Nothing => assert!(dump(&sandbox) == before, "{what}: nothing was done, it was told: {ran:?}"),
        Told::Either => assert!(all.contains(&now), "{what}: {now} events: {ran:?}"),
    }
    if told == Told::Nothing {
        let left = strays(sandbox.path());
        // A copy goes on from what an interrupted one left.
        let left: Vec<_> = left.iter().filter(|name| !name.contains(".copying")).collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }

    // The same again has its one effect.
    let again = sandbox.json(&who, &args);
    if case.keyed {
        again.ok();
        assert_eq!(events(&sandbox), expected.after, "{what}, again: {ran:?}, then {again:?}");
    } else if told == Told::Nothing {
        assert_eq!(again.code, 0, "{what}, again: {again:?}");
    }
    sandbox.json(&founder(), &["doctor"]).ok();
    told
}

/// Which failures are tried: all, or of each kind of call the last, which commits, and for the first command some more.
fn failures(expected: &Expected, all: bool, many: bool) -> Vec<(&'static str, &'static str, String)> {
    let mut failures = Vec::new();
    for (call, count) in &expected.calls {
        let step = if all {
            1
        } else if many {
            5
        } else {
            *count as usize
        };
        for n in (1..=*count).rev().step_by(step) {
            failures.push((*call, "EIO", n.to_string()));
            if all || *call == "pwrite64" {
                failures.push((*call, "ENOSPC", n.to_string()));
            }
            if all || *call == "fdatasync" {
                failures.push((*call, "EIO", format!("{n}+")));
            }
        }
    }
    failures
}

/// Tries the failures of some commands, and counts what was told.
fn try_on(log: Log, cases: &[Case]) -> BTreeMap<String, u32> {
    let all = std::env::var("FAULTS").is_ok_and(|what| what == "all");
    let mut tally = BTreeMap::new();
    let template = template(log);
    for (index, case) in cases.iter().enumerate() {
        let sound = copy_of(&template);
        let before = events(&sound);
        let (ran, calls) = calls_of(&sound, &(case.who)(), case.args);
        ran.ok();
        let expected = Expected { before, after: events(&sound), calls };
        for (call, error, when) in failures(&expected, all, index == 0) {
            let told = judge(&template, case, &expected, (call, error, &when));
            *tally.entry(format!("{call} {told:?}")).or_default() += 1;
        }
    }
    eprintln!("failing calls, {log:?} log: {tally:?}");
    tally
}

#[test]
fn an_answer_is_true_whatever_call_fails() {
    if !may_trace() {
        return;
    }
    let tally = try_on(Log::Short, CASES);
    for needed in ["fdatasync Nothing", "fdatasync Either", "pwrite64 Nothing", "pwrite64 Done"] {
        assert!(tally.contains_key(needed), "no {needed} among {tally:?}");
    }
}

/// The shape of the log is the store's affair: beyond the usual one, a few commands are enough.
#[test]
fn an_answer_is_true_where_the_log_is_begun_or_started_over() {
    if !may_trace() {
        return;
    }
    for log in [Log::Long, Log::None] {
        let tally = try_on(log, &CASES[..2]);
        assert!(tally.contains_key("fdatasync Nothing"), "{tally:?}");
    }
}

/// Creation has no key and no ledger before it: the store is there and whole, or it is not there.
#[test]
fn a_store_is_made_or_not_whatever_call_fails() {
    if !may_trace() {
        return;
    }
    let args = ["init", "--prefix", "ON"];
    let (_, calls) = calls_of(&Sandbox::empty(), &founder(), &args);
    let all = std::env::var("FAULTS").is_ok_and(|what| what == "all");
    for (call, error, when) in failures(&Expected { before: 0, after: 1, calls }, all, true) {
        let what = format!("init with {call}:error={error}:when={when}");
        let sandbox = Sandbox::empty();
        let inject = format!("inject={call}:error={error}:when={when}");
        let trace = format!("trace={call}");
        let ran = traced(&sandbox, &founder(), &["-o", "/dev/null", "-e", &trace, "-e", &inject], &args);
        match told(&ran, call, &what) {
            Told::Done => drop(events(&sandbox)),
            Told::Nothing => {
                assert!(!sandbox.database().exists(), "{what}: {ran:?}");
                assert_eq!(strays(sandbox.path()), BTreeSet::new(), "{what}");
            }
            Told::Either => {}
        }
        sandbox.json(&founder(), &args).ok();
        sandbox.add("Fix it");
        sandbox.is_whole();
        sandbox.json(&founder(), &["doctor"]).ok();
    }
}
