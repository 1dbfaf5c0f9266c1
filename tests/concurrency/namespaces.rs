//! Other pid namespaces, and places where `/proc` tells less or something else: a process that cannot be seen is not dead.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent, human};
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

/// Shell commands for a mount namespace of one's own, in which `/proc` tells less, or something else.
struct Places {
    /// As a container with a boot id of its own, beside the same machine id.
    own_boot: String,
    no_boot: &'static str,
    no_proc: &'static str,
}

fn places(sandbox: &Sandbox) -> Places {
    let file = sandbox.path().join("another-boot-id");
    std::fs::write(&file, "8f9c1f6e-0d5b-4f0e-9a55-0123456789ab\n").unwrap();
    Places {
        own_boot: format!("mount --bind '{}' /proc/sys/kernel/random/boot_id", file.display()),
        no_boot: "mount -t tmpfs none /proc/sys/kernel/random",
        no_proc: "mount -t tmpfs none /proc",
    }
}

/// Runs the binary, or a program that runs it, where the mounts have been made.
#[track_caller]
fn behind(mounts: &str, program: &[&str], command: &std::process::Command) -> Ran {
    let flags = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    let story = format!("{mounts} && exec \"$@\"");
    let wrapped = [&["unshare", flags, "sh", "-c", &story, "inside"], program].concat();
    Ran::of(under(&wrapped, command).output().unwrap())
}

#[track_caller]
fn ask_behind(mounts: &str, sandbox: &Sandbox, who: &As, args: &[&str]) -> Ran {
    behind(mounts, &[], sandbox.command(who).args(args).arg("--json"))
}

#[test]
fn a_living_holder_is_not_called_dead_where_the_boot_id_is_hidden_or_another() {
    let (sandbox, holder, other) = (Sandbox::new(), agent("outside"), agent("other"));
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    let pid = process.id().to_string();
    sandbox.json(&holder, &["claim", &id, "--ttl", "10ms", "--bind", &pid]).ok();
    let places = places(&sandbox);
    for mounts in [places.no_boot, places.no_proc, &places.own_boot] {
        let inside = |args: &[&str]| ask_behind(mounts, &sandbox, &other, args);
        assert_eq!(inside(&["show", &id]).ok().json()["lease"]["live"], true, "{mounts}");
        let refusal = inside(&["claim", &id]).refused(4);
        assert_eq!(refusal["holder"]["actor"], holder.actor, "{mounts}");
        inside(&["takeover", &id, "--reason", "unseen"]).refused(4);
        inside(&["claim", "--next"]).refused(7);
    }
    is_held_for(&sandbox, &id, &holder);
    // Once dead, only those who can see it say so.
    process.kill_and_reap();
    for mounts in [places.no_boot, places.no_proc, &places.own_boot] {
        ask_behind(mounts, &sandbox, &other, &["claim", &id]).refused(4);
    }
    sandbox.json(&other, &["claim", "--next"]).ok();
}

#[test]
fn a_living_holder_whose_boot_id_is_hidden_or_another_is_not_called_dead_by_the_host() {
    let sandbox = Sandbox::new();
    let places = places(&sandbox);
    for mounts in [places.no_boot, &places.own_boot] {
        let (id, process, holder) = (sandbox.add("a task"), Started::sleeper(), agent("inside"));
        let pid = process.id().to_string();
        let claim = ["claim", &id, "--ttl", "10ms", "--bind", &pid];
        let lease = ask_behind(mounts, &sandbox, &holder, &claim).ok().json()["lease"].clone();
        assert_eq!(lease["process"]["pid"], process.id());
        is_held_for(&sandbox, &id, &holder);
        for elsewhere in [places.no_boot, places.no_proc] {
            ask_behind(elsewhere, &sandbox, &agent("other"), &["claim", &id]).refused(4);
        }
        // In the container itself its death is seen, where it is known to be the same one.
        process.kill_and_reap();
        let again = ask_behind(mounts, &sandbox, &agent("beside"), &["claim", &id]);
        if mounts == places.no_boot {
            again.refused(4)
        } else {
            again.ok().json()
        };
        sandbox.run(&human("founder"), &["drop", &id, "--force", "--reason", "the next place"]).ok();
    }
    // Where there is no /proc at all, nothing can be bound to.
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    let pid = process.id().to_string();
    let refusal =
        ask_behind(places.no_proc, &sandbox, &agent("inside"), &["claim", &id, "--bind", &pid]).refused(2);
    assert!(refusal["message"].as_str().unwrap().contains("/proc"), "{refusal}");
}

#[test]
fn a_reboot_frees_what_was_bound_to_a_process_of_the_boot_before() {
    let initial = std::fs::read_link("/proc/self/ns/pid").unwrap();
    if initial.to_str() != Some("pid:[4026531836]") {
        eprintln!("left out: in a container ({initial:?}) no reboot can be told from a boot id of its own");
        return;
    }
    let (sandbox, holder, other) = (Sandbox::new(), agent("before"), agent("after"));
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    let pid = process.id().to_string();
    let mut claim = sandbox.command(&holder);
    claim.args(["claim", &id, "--bind", &pid, "--json"]).env("ONUS_LEASE_MAX_HOLD", "0");
    Ran::of(claim.output().unwrap()).ok();
    // Given another boot id, and a wall clock by which the last sign of life is longer ago than this machine is up
    let later = ["faketime", "--exclude-monotonic", "-f", "+4000d"];
    let after = |program: &[&str], args: &[&str]| {
        behind(&places(&sandbox).own_boot, program, sandbox.command(&other).args(args).arg("--json"))
    };
    // By the boot id alone, it may be a container; by the clock alone, somebody set it.
    assert_eq!(after(&[], &["claim", &id]).refused(4)["holder"]["actor"], holder.actor);
    let stepped = under(&later, sandbox.command(&other).args(["claim", &id, "--json"])).output().unwrap();
    Ran::of(stepped).refused(4);
    // When both say so, then it is free at once.
    assert_eq!(after(&later, &["show", &id]).ok().json()["lease"]["lapsed_by"], "rebooted");
    assert_eq!(after(&later, &["claim", &id]).ok().json()["takeover"], true);
    let ended = sandbox.events().into_iter().rfind(|event| event["kind"] == "lease.taken_over").unwrap();
    assert_eq!(ended["payload"]["cause"], "rebooted");
}

#[test]
fn no_lease_is_bound_to_a_thread() {
    let (sandbox, who) = (Sandbox::new(), agent("a"));
    let id = sandbox.add("a task");
    // Given a thread of this process: it has an entry in /proc, and ends before its process does
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap();
    assert_ne!(thread, std::process::id().to_string(), "tests run in threads of their own");
    let refusal = sandbox.json(&who, &["claim", &id, "--bind", thread]).refused(2);
    let said = format!("{thread} is a thread of process {}", std::process::id());
    assert!(refusal["message"].as_str().unwrap().contains(&said), "{refusal}");
    sandbox.json(&who, &["instance", "register", "--pid", thread]).refused(2);
    assert_eq!(sandbox.show(&id)["lease"], Value::Null);
}

/// A kernel gives the inode of a time namespace that is gone to the next one: it is the offsets that tell clocks apart.
#[test]
fn no_lease_lapses_by_the_clock_of_another_time_namespace() {
    let sandbox = Sandbox::new();
    for title in ["for an hour", "bound to a process", "from the host"] {
        sandbox.add(title);
    }
    let process = Started::sleeper();
    let pid = process.id().to_string();
    let inside = |offset: &str, who: &As, args: &[&str]| {
        let command = sandbox.command(who);
        let shifted =
            ["unshare", "--time", "--fork", "--monotonic", offset, "--boottime", offset].map(str::to_owned);
        let mut wrapped = under(&shifted.iter().map(String::as_str).collect::<Vec<_>>(), &command);
        Ran::of(wrapped.args(args).arg("--json").output().unwrap())
    };
    if inside("0", &agent("a"), &["list"]).code != 0 {
        return; // No time namespaces here, or not for this user.
    }
    inside("0", &agent("a"), &["claim", "1"]).ok();
    inside("1000", &agent("a"), &["claim", "2", "--bind", &pid]).ok();
    sandbox.json(&agent("a"), &["claim", "3", "--bind", &pid]).ok();
    for offset in ["100000", "5000", "0"] {
        // A note is enough to tell the store what time it is there.
        inside(offset, &agent("c"), &["note", "1", "seen"]).ok();
        for id in ["1", "2", "3"] {
            assert_eq!(
                inside(offset, &agent("b"), &["claim", id]).refused(4)["code"],
                "held",
                "{offset}: {id}"
            );
            assert_eq!(
                sandbox.json(&agent("b"), &["claim", id]).refused(4)["code"],
                "held",
                "{offset}: {id}"
            );
        }
    }
    sandbox.is_whole();
}
