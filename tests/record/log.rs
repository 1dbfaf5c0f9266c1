//! The ledger as people and programs read it: `log`, `log --follow`, `ledger export`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::record::book::open;
use crate::support::{Sandbox, agent, human, is_written};

/// Every kind of event that commands can make, told to people.
#[test]
fn the_log_reads_as_a_story() {
    let sandbox = Sandbox::new();
    let (founder, carol, a, b) = (human("founder"), human("carol"), agent("a"), agent("b"));
    let steps: &[(&crate::support::As, &[&str])] = &[
        (&founder, &["add", "Repair the pump", "-d", "It leaks\nsince May"]),
        (&founder, &["add", "Paint the door", "--propose"]),
        (&founder, &["accept", "ON-2"]),
        (&a, &["claim", "ON-1", "--ttl", "15m", "--reason", "nearest"]),
        (&founder, &["actor", "tier", "agent:a", "2"]),
        (&founder, &["actor", "alias", "agent:a", "agent:anna"]),
        (&a, &["note", "ON-1", "the \u{1b}[31mseal\u{202e} is worn"]),
        (&carol, &["takeover", "ON-1", "--force", "--reason", "urgent"]),
        (&carol, &["release", "ON-1"]),
        (&a, &["claim", "ON-1"]),
        (&a, &["handoff", "ON-1", "--to", "agent:b", "--reason", "out of seals"]),
        (&b, &["claim", "ON-1"]),
        (&b, &["block", "ON-1", "-m", "waiting for parts"]),
        (&founder, &["unblock", "ON-1"]),
        (&b, &["claim", "ON-1"]),
        (&b, &["submit", "ON-1", "-m", "have a look"]),
        (&founder, &["reject", "ON-1", "-m", "still drips"]),
        (&b, &["submit", "ON-1", "-m", "now?"]),
        (&founder, &["approve", "ON-1"]),
        (&b, &["claim", "ON-2", "--reserve"]),
        (&b, &["claim", "ON-2"]),
        (&b, &["fail", "ON-2", "-m", "no paint"]),
        (&founder, &["drop", "ON-2", "-m", "it is fine as it is"]),
        (&founder, &["reopen", "ON-2"]),
        (&founder, &["edit", "ON-2", "--title", "Paint the door green"]),
        (&founder, &["redact", "ON-1", "1", "--field", "body", "--reason", "asked to"]),
        (&founder, &["ledger", "seal"]),
    ];
    for (who, args) in steps {
        let ran = sandbox.json(who, args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    }
    let told = sandbox.run(&founder, &["log"]).ok().stdout.clone();
    is_written("tests/record/snapshots/the_whole_log.txt", &masked(&told));
    // Of one task alone: its id is not repeated on each line.
    let told = sandbox.run(&founder, &["log", "ON-2"]).ok().stdout.clone();
    is_written("tests/record/snapshots/the_log_of_one_task.txt", &masked(&told));
    let newest = sandbox.run(&founder, &["log", "-n", "2"]).ok().stdout.clone();
    assert_eq!(newest.lines().count(), 2);
    assert!(newest.lines().last().unwrap().contains("sealed"), "{newest}");
    sandbox.is_whole();
}

/// The log without what differs from run to run: when it happened, and how long it took.
fn masked(log: &str) -> String {
    let mut lines = Vec::new();
    for line in log.lines() {
        let at =
            line.find(" v").into_iter().chain(line.find(" ON-")).chain(line.find(" project ")).min().unwrap();
        let rest = match line[at..].split_once(" after ") {
            Some((before, after)) => {
                let unit = after.find(' ').map_or(0, |number| number + 1);
                let end = after[unit..].find([':', ' ']).map_or(after.len(), |length| unit + length);
                format!("{before} after [time]{}", &after[end..])
            }
            None => line[at..].to_owned(),
        };
        lines.push(format!("[when]{rest}"));
    }
    lines.join("\n") + "\n"
}

/// Lines of a process that goes on, as they come.
fn lines_of(stdout: std::process::ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

#[test]
fn a_follower_sees_what_other_processes_do_and_ends_when_interrupted() {
    let sandbox = Sandbox::new();
    sandbox.add("before");
    for json in [false, true] {
        let mut command = sandbox.command(&human("founder"));
        command.args(["log", "--follow"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        if json {
            command.arg("--json");
        }
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let next = || lines.recv_timeout(Duration::from_secs(30)).expect("a line in time");
        // What was there comes first.
        let mut seen = vec![next()];
        while !seen.iter().any(|line| line.contains("before") || line.contains("task.created")) {
            seen.push(next());
        }
        while lines.recv_timeout(Duration::from_millis(600)).is_ok() {}

        let word = format!("seen{json}");
        sandbox.json(&agent("other"), &["note", "ON-1", &word]).ok();
        let mut news = next();
        for _ in 0..10 {
            if news.contains(&word) {
                break;
            }
            news = next();
        }
        assert!(news.contains(&word), "{news}");
        if json {
            let document: Value = serde_json::from_str(&news).unwrap();
            let kinds: Vec<&str> =
                document["events"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
            assert!(kinds.contains(&"note.added"), "{news}");
        }
        // It holds nobody up: no snapshot stays open while it waits.
        let blocked: i64 = open(&sandbox.database())
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .unwrap();
        assert_eq!(blocked, 0);

        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = child.wait().unwrap();
        use std::os::unix::process::ExitStatusExt as _;
        assert!(status.signal() == Some(2) || status.success(), "{status:?}");
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(stderr, "");
        assert!(lines.recv_timeout(Duration::from_secs(30)).is_err(), "the end is said once");
    }
}

/// A follower of one task goes on from where it was, however much happened while it could not look.
#[test]
fn a_follower_of_one_task_misses_nothing_of_it_and_sees_nothing_else() {
    let sandbox = Sandbox::new();
    let (one, other) = (sandbox.add("one"), sandbox.add("other"));
    let mut command = sandbox.command(&human("founder"));
    command.args(["log", &one, "--follow", "-n", "1"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = lines_of(child.stdout.take().unwrap());
    let next = || lines.recv_timeout(Duration::from_secs(10)).expect("a line in time");
    assert!(next().contains("created it: one"));

    sandbox.json(&agent("a"), &["note", &other, "nothing to it"]).ok();
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    for word in ["first", "second", "third"] {
        sandbox.json(&agent("a"), &["note", &one, word]).ok();
        sandbox.json(&agent("a"), &["note", &other, word]).ok();
    }
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();

    for word in ["first", "second", "third"] {
        assert!(next().contains(word));
    }
    sandbox.json(&agent("a"), &["note", &one, "fourth"]).ok();
    assert!(next().contains("fourth"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines.recv().is_err(), "nothing else was said");
}

/// A ledger far larger than what a pipe holds.
fn large() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.add("the model");
    let db = open(&sandbox.database());
    // Copies of one event under other versions: enough for an export, which does not judge them.
    db.execute_batch(
        "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) \
         INSERT INTO event (uid, stream, version, kind, actor, instance, at_ms, payload, prev, hash) \
         SELECT uid || i, stream, i, kind, actor, instance, at_ms, payload, prev, hash FROM event, n \
         WHERE kind = 'task.created'",
    )
    .unwrap();
    sandbox
}

#[test]
fn an_export_streams_and_ends_quietly_when_its_reader_leaves() {
    let sandbox = large();
    let mut command = sandbox.command(&human("founder"));
    command.args(["ledger", "export"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    assert!(first.contains("\"project\""), "{first}");
    // It has begun to speak and waits for its reader: it did not gather everything first.
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "all of it fitted into the pipe");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    if let Ok(status) = status {
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let kb: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kb < 60_000, "{peak}");
    }
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success(), "{:?}", output.status);
}

#[test]
fn every_line_of_an_export_has_its_schema_version() {
    let sandbox = large();
    let file = sandbox.path().join("all.jsonl");
    let told = sandbox.json(&human("founder"), &["ledger", "export", file.to_str().unwrap()]).ok().json();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut events = 0;
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["schema_version"], 1, "{line}");
        let kinds = ["project", "event", "text"].iter().filter(|kind| value.get(**kind).is_some()).count();
        assert_eq!(kinds, 1, "{line}");
        events += usize::from(value.get("event").is_some());
    }
    assert!(events >= 60_000);
    assert_eq!(told["events"], events);
    // And the file is new, or it is not written.
    let again = sandbox.json(&human("founder"), &["ledger", "export", file.to_str().unwrap()]);
    assert_eq!(again.code, 2, "{again:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}
