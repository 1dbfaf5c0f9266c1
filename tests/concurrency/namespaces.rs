//! Other pid namespaces: a process that cannot be seen is not dead.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent};
use crate::tools::{Started, under};

/// Runs a command in a pid namespace of its own. Root needs no user namespace for that, others do.
fn isolated(extra: &[&'static str]) -> Vec<&'static str> {
    let flags = if rustix::process::geteuid().is_root() { "-p" } else { "-Urp" };
    [&["unshare", flags, "--fork", "--kill-child"], extra].concat()
}

/// A shell in a pid namespace that runs the binary once, with its own pid there as `$$`, and lives on.
struct Inside {
    shell: Started,
    answer: Value,
}

fn claim_inside(sandbox: &Sandbox, who: &As, id: &str) -> Inside {
    let mut program = isolated(&["--mount-proc"]);
    program.extend(["sh", "-c", "\"$@\" --bind $$; cat", "inside"]);
    let mut command = under(&program, sandbox.command(who).args(["claim", id, "--ttl", "30ms", "--json"]));
    let mut shell = Started::answering(command.stdin(Stdio::piped()));
    let mut line = String::new();
    let mut answer = BufReader::new(shell.child().stdout.as_mut().unwrap());
    answer.read_line(&mut line).unwrap();
    let answer = serde_json::from_str(&line).unwrap_or_else(|error| {
        let mut why = String::new();
        drop(shell.child().stdin.take());
        let _ = shell.child().stderr.as_mut().unwrap().read_to_string(&mut why);
        panic!("no answer from inside a pid namespace ({error}): {line}{why}")
    });
    Inside { shell, answer }
}

#[track_caller]
fn is_held_for(sandbox: &Sandbox, id: &str, holder: &As) {
    let task = sandbox.show(id);
    assert_eq!(
        (&task["lease"]["live"], &task["lease"]["actor"]),
        (&true.into(), &holder.actor.clone().into())
    );
    let refusal = sandbox.json(&agent("other"), &["claim", id]).refused(4);
    assert_eq!(refusal["holder"]["actor"], holder.actor);
    sandbox.json(&agent("other"), &["takeover", id, "--reason", "unseen"]).refused(4);
    sandbox.json(&agent("other"), &["claim", "--next"]).refused(7);
}

#[test]
fn a_holder_in_another_pid_namespace_is_not_called_dead() {
    // Given a lease bound to a process that has another pid inside than outside
    let (sandbox, holder) = (Sandbox::new(), agent("inside"));
    let id = sandbox.add("a task");
    let inside = claim_inside(&sandbox, &holder, &id);
    assert_eq!(inside.answer["lease"]["process"]["pid"], 1);
    assert_ne!(inside.answer["lease"]["process"]["start"], start_of_process_1());
    // When those outside look, long after its TTL
    std::thread::sleep(std::time::Duration::from_millis(100));
    // Then it holds: what they see under that pid is somebody else
    is_held_for(&sandbox, &id, &holder);
    // And so it does after its end, which nobody out here can know of: the deadline decides
    inside.shell.kill_and_reap();
    is_held_for(&sandbox, &id, &holder);
}

fn start_of_process_1() -> Value {
    let stat = std::fs::read_to_string("/proc/1/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    fields.split_ascii_whitespace().nth(19).unwrap().parse::<u64>().unwrap().into()
}

#[test]
fn a_holder_outside_is_not_called_dead_from_another_pid_namespace() {
    let (sandbox, holder, other) = (Sandbox::new(), agent("outside"), agent("other"));
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    let pid = process.id().to_string();
    sandbox.json(&holder, &["claim", &id, "--ttl", "10ms", "--bind", &pid]).ok();
    // With its own /proc, and with the /proc of those outside, which shows pids that mean nothing here.
    for proc in [&["--mount-proc"] as &[&str], &[]] {
        let inside = |args: &[&str]| {
            Ran::of(
                under(&isolated(proc), sandbox.command(&other).args(args).arg("--json")).output().unwrap(),
            )
        };
        assert_eq!(inside(&["show", &id]).ok().json()["lease"]["live"], true);
        assert_eq!(inside(&["claim", &id]).refused(4)["holder"]["actor"], holder.actor);
        inside(&["claim", "--next"]).refused(7);
    }
    is_held_for(&sandbox, &id, &holder);
    // Once dead, those who can see it say so.
    process.kill_and_reap();
    sandbox.json(&other, &["claim", "--next"]).ok();
}

#[test]
fn where_proc_shows_another_pid_namespace_no_lease_is_bound_to_a_stranger() {
    let (sandbox, who) = (Sandbox::new(), agent("inside"));
    let id = sandbox.add("a task");
    // Pid 1 exists in this namespace, and in /proc it is another process.
    let mut command =
        under(&isolated(&[]), sandbox.command(&who).args(["claim", &id, "--bind", "1", "--json"]));
    let refusal = Ran::of(command.output().unwrap()).refused(2);
    assert!(refusal["message"].as_str().unwrap().contains("/proc"), "{refusal}");
    assert_eq!(sandbox.show(&id)["lease"], Value::Null);
}

#[test]
fn a_holder_beside_an_observer_with_the_wrong_proc_is_not_called_dead() {
    let (sandbox, holder) = (Sandbox::new(), agent("inside"));
    let id = sandbox.add("a task");
    // Bound where /proc is right, then looked at in the same pid namespace where it is not.
    let story = "unshare --mount-proc \"$@\" --bind 1 >&2 && \"$1\" show 1 --json";
    let mut command = sandbox.command(&holder);
    command.args(["claim", &id, "--ttl", "10ms", "--json"]);
    let seen = Ran::of(under(&isolated(&["sh", "-c", story, "inside"]), &command).output().unwrap());
    let lease = seen.ok().json()["lease"].clone();
    assert_eq!((&lease["process"]["pid"], &lease["live"]), (&1.into(), &true.into()));
}
