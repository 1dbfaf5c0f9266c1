//! `onus run`: a command under a task's lease.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::contract::kit::{claim, dump, kinds, run_with};
use crate::support::{As, ONUS, Ran, Sandbox, agent, eventually, human};

/// A run that goes on while the test does something else. It does not outlive the test.
struct Run(Option<Child>);

impl Run {
    fn start(sandbox: &Sandbox, who: &As, args: &[&str], script: &str) -> Run {
        let mut command = sandbox.command(who);
        command.arg("run").args(args).args(["--", "/bin/sh", "-c", script]);
        Run(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn signal(&self, signal: Signal) {
        let pid = self.0.as_ref().unwrap().id();
        kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
    }

    #[track_caller]
    fn ends(mut self) -> Ran {
        let mut child = self.0.take().unwrap();
        let status = eventually("the run to end", || child.try_wait().unwrap());
        let mut output = child.wait_with_output().unwrap();
        output.status = status;
        Ran::of(output)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a script to its end.
fn run(sandbox: &Sandbox, who: &As, args: &[&str], script: &str) -> Ran {
    let mut all = vec!["run"];
    all.extend(args);
    all.extend(["--", "/bin/sh", "-c", script]);
    sandbox.run(who, &all)
}

/// The last note on a task.
fn noted(sandbox: &Sandbox, id: &str) -> String {
    sandbox.show(id)["notes"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned()
}

/// A file that a script writes, as soon as its first line is whole.
#[track_caller]
fn line(sandbox: &Sandbox, name: &str) -> String {
    eventually(&format!("a line in {name}"), || {
        let text = std::fs::read_to_string(sandbox.path().join(name)).ok()?;
        text.split_once('\n').map(|(line, _)| line.to_owned())
    })
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

const UNTIL_END: &str = "while [ ! -e end ]; do sleep 0.02; done";

fn let_it_end(sandbox: &Sandbox) {
    std::fs::write(sandbox.path().join("end"), "").unwrap();
}

#[test]
fn success_is_done_submitted_or_released_as_asked() {
    let sandbox = Sandbox::new();
    let a = agent("a");
    for (args, state, kind, note) in [
        (vec![], "done", "task.done", "sh succeeded after "),
        (vec!["-m", "It is built."], "done", "task.done", "It is built."),
        (vec!["--on-success", "submit"], "review", "task.submitted", "sh succeeded after "),
        (vec!["--on-success", "release", "-m", "Half of it."], "open", "lease.released", "Half of it."),
    ] {
        let id = sandbox.add("Build it");
        let mut all = vec![id.as_str()];
        all.extend(args);
        let ran = run(&sandbox, &a, &all, "echo out; echo err >&2");
        assert_eq!(ran.ok().stdout, "out\n", "stdout is the command's");
        assert!(ran.stderr.lines().any(|line| line == "err"), "{ran:?}");
        assert_eq!(sandbox.show(&id)["state"], state);
        assert_eq!(kinds(&sandbox, &id), ["task.created", "lease.acquired", kind]);
        assert!(noted(&sandbox, &id).starts_with(note), "{}", noted(&sandbox, &id));
    }
    sandbox.is_whole();
}

#[test]
fn failure_fails_the_task_with_the_last_lines_of_its_output() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let script = "for i in $(seq 100); do echo step $i; done; sleep 0.1; printf '\\033[31merror\\033[0m: no\\n' >&2; exit 42";
    let ran = run(&sandbox, &agent("a"), &[&id], script);
    assert_eq!(ran.code, 42, "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 100);
    assert_eq!(sandbox.show(&id)["state"], "failed");
    let note = noted(&sandbox, &id);
    assert!(note.starts_with("sh failed with exit code 42 after "), "{note}");
    assert!(note.ends_with("step 100\nerror: no"), "{note}");
    assert!(note.lines().count() < 50);

    let id = sandbox.add("Build it");
    let ran = run(&sandbox, &agent("a"), &[&id], "kill -SEGV $$");
    assert_eq!(ran.code, 128 + 11);
    assert!(noted(&sandbox, &id).starts_with("sh was killed by SIGSEGV after "));
}

#[test]
fn a_signal_to_onus_leaves_the_task_unfinished_not_failed() {
    let sandbox = Sandbox::new();
    for (script, code) in [
        ("echo > ready; while :; do sleep 0.02; done", 143),
        ("trap 'exit 7' TERM; echo > ready; while :; do sleep 0.02; done", 7),
        // One that ends well when it is told to has not finished its work for that.
        ("trap 'exit 0' TERM; echo > ready; while :; do sleep 0.02; done", 143),
    ] {
        let id = sandbox.add("Build it");
        let run = Run::start(&sandbox, &agent("a"), &[&id], script);
        line(&sandbox, "ready");
        run.signal(Signal::TERM);
        assert_eq!(run.ends().code, code);
        std::fs::remove_file(sandbox.path().join("ready")).unwrap();
        assert_eq!(sandbox.show(&id)["state"], "open");
        assert!(noted(&sandbox, &id).starts_with("sh was interrupted by SIGTERM after "));
    }
}

#[test]
fn a_command_that_ends_its_lease_itself_is_respected() {
    let sandbox = Sandbox::new();
    for (verb, outcome, code) in
        [("done -m inside", "done", 0), ("submit", "submitted", 0), ("block", "blocked", 3)]
    {
        let id = sandbox.add("Build it");
        // Renewals find the lease ended, and let the command finish all the same.
        let script = format!("{ONUS} {verb} > /dev/null && sleep 1.5; exit {code}");
        let args = ["run", &id, "--ttl", "1s", "--", "/bin/sh", "-c", &script];
        let ran = sandbox.json(&agent("a"), &args);
        assert_eq!(ran.code, code, "{ran:?}");
        let answer = ran.json();
        assert_eq!((&answer["outcome"], &answer["exit_code"]), (&json!(outcome), &json!(code)), "{answer}");
        let kinds = kinds(&sandbox, &id);
        assert_eq!(kinds.len(), 3, "nothing was added to what the command did: {kinds:?}");
    }
    // Another got the task since: that is not our lease's end, and not a fence.
    let id = sandbox.add("Build it");
    let script =
        format!("{ONUS} release > /dev/null; ONUS_ACTOR=agent:b ONUS_INSTANCE=b ONUS_TOKEN= {ONUS} claim");
    assert_eq!(
        sandbox.json(&agent("a"), &["run", &id, "--", "/bin/sh", "-c", &script]).ok().json()["outcome"],
        "released"
    );
    assert_eq!(sandbox.show(&id)["lease"]["actor"], "agent:b");
}

#[test]
fn what_runs_inside_is_the_holder_with_or_without_its_environment() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let script = format!(
        "{ONUS} note 'by environment' && env -i PATH=\"$PATH\" {ONUS} note 'by ancestry' &&
         env -i PATH=\"$PATH\" {ONUS} status --json > status; echo $ONUS_TASK $ONUS_ACTOR $ONUS_INSTANCE $ONUS_TOKEN > env"
    );
    run(&sandbox, &agent("a"), &[&id], &script).ok();
    let env = line(&sandbox, "env");
    let words: Vec<&str> = env.split(' ').collect();
    assert_eq!((words[0], words[1], words[3]), (id.as_str(), "agent:a", "1"));
    assert!(words[2].starts_with("run-"), "{env}");
    let inside = [words[1], words[2]];
    for event in sandbox
        .events()
        .iter()
        .filter(|event| event["kind"] != "task.created" && event["task"] != json!(null))
    {
        assert_eq!(
            [event["actor"].as_str().unwrap(), event["instance"].as_str().unwrap()],
            inside,
            "{event}"
        );
    }
    let status: serde_json::Value = serde_json::from_str(&line(&sandbox, "status")).unwrap();
    assert_eq!(status["yours"], json!([id]), "{status}");
    // A second run is another instance.
    let again = sandbox.add("Build it again");
    let answer = sandbox.json(&agent("a"), &["run", &again, "--", "true"]).ok().json();
    assert_ne!(answer["instance"], words[2]);
}

#[test]
fn a_person_may_run_a_command_too() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    run(&sandbox, &human("ann"), &[&id], &format!("{ONUS} note inside && {ONUS} done -m 'by hand'")).ok();
    assert_eq!(sandbox.show(&id)["state"], "done");
    assert_eq!(kinds(&sandbox, &id), ["task.created", "lease.acquired", "note.added", "task.done"]);
}

#[test]
fn the_lease_lives_through_any_silence_and_is_nobody_elses() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let run =
        Run::start(&sandbox, &agent("a"), &[&id, "--ttl", "100ms"], &format!("echo > ready; {UNTIL_END}"));
    line(&sandbox, "ready");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(sandbox.json(&agent("b"), &["claim", &id]).refused(4)["holder"]["actor"], "agent:a");
    // Its own actor elsewhere is another instance.
    sandbox.json(&agent("a"), &["done", &id, "-m", "x"]).refused(4);
    let renewals = || sandbox.show(&id)["lease"]["renewals"].as_u64().filter(|renewals| *renewals >= 2);
    eventually("renewals", renewals);
    let_it_end(&sandbox);
    run.ends().ok();
    assert_eq!(sandbox.show(&id)["state"], "done");
}

#[test]
fn who_is_superseded_is_stopped_with_everything_it_started_and_told_by_whom() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let script =
        "sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 0.02; done' & echo $$ > child; wait";
    let args = [id.as_str(), "--ttl", "1s", "--grace", "300ms", "--json"];
    let run = Run::start(&sandbox, &agent("a"), &args, script);
    let pids = [line(&sandbox, "child"), line(&sandbox, "grandchild")];
    sandbox.run(&human("ann"), &["takeover", &id, "--force", "--reason", "urgent"]).ok();
    let ran = run.ends();
    for pid in &pids {
        eventually("the group to end", || (!lives(pid)).then_some(()));
    }
    assert_eq!(ran.code, 5);
    let answer = ran.json();
    assert_eq!((&answer["outcome"], &answer["exit_code"]), (&json!("fenced"), &json!(5)));
    assert_eq!(answer["error"]["code"], "fenced");
    assert_eq!(answer["error"]["holder"]["actor"], "human:ann");
    assert!(ran.stderr.contains("human:ann holds it now, with token 2"), "{}", ran.stderr);
    // It changed nothing after it was superseded.
    assert_eq!(kinds(&sandbox, &id).last().unwrap(), "lease.acquired");
    assert_eq!(sandbox.show(&id)["lease"]["actor"], "human:ann");
}

/// For people the same in prose.
#[test]
fn a_superseded_run_ends_with_what_to_do_next() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let run = Run::start(
        &sandbox,
        &agent("a"),
        &[&id, "--ttl", "1s"],
        "echo > ready; while :; do sleep 0.02; done",
    );
    line(&sandbox, "ready");
    sandbox.run(&human("ann"), &["takeover", &id, "--force", "--reason", "urgent"]).ok();
    let ran = run.ends();
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""));
    assert!(ran.stderr.contains("next: onus ready") && !ran.stderr.contains("--force"), "{}", ran.stderr);
}

#[test]
fn kill_9_of_onus_kills_the_command_and_frees_the_task_at_once() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let script = "trap '' TERM HUP INT; echo $$ > child; while :; do sleep 0.02; done";
    let mut run = Run::start(&sandbox, &agent("a"), &[&id, "--ttl", "8h"], script);
    let child = line(&sandbox, "child");
    let before = Instant::now();
    run.0.as_mut().unwrap().kill().unwrap();
    run.0.take().unwrap().wait().unwrap();
    eventually("the command to die", || (!lives(&child)).then_some(()));
    let claimed = sandbox.json(&agent("b"), &["claim", "--next"]).ok().json();
    assert_eq!((&claimed["task"]["id"], &claimed["takeover"]), (&json!(id), &json!(true)));
    assert!(before.elapsed() < Duration::from_secs(60), "no TTL was waited for");
}

#[test]
fn a_maximum_hold_ends_the_work_before_it_ends_the_lease() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    // Stopping begins the grace and five seconds before the deadline.
    let mut command = sandbox.command(&agent("a"));
    command
        .env("ONUS_LEASE_MAX_HOLD", "7s")
        .args(["run", &id, "--grace", "0", "--json", "--", "sleep", "600"]);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 5, "{ran:?}");
    let answer = ran.json();
    assert_eq!(
        (&answer["outcome"], &answer["error"]["code"]),
        (&json!("released"), &json!("fenced")),
        "{answer}"
    );
    assert_eq!(kinds(&sandbox, &id), ["task.created", "lease.acquired", "lease.released"]);
    assert!(noted(&sandbox, &id).contains("its lease ran out"));
}

#[test]
fn a_store_out_of_reach_stops_nobody_who_is_bound_to_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let script =
        format!("mv .onus gone; while [ ! -e back ]; do sleep 0.02; done; mv gone .onus; {UNTIL_END}");
    let said = sandbox.path().join("said");
    let mut command = sandbox.command(&agent("a"));
    command.args(["run", &id, "--ttl", "1s", "--", "/bin/sh", "-c", &script]);
    let run = Run(Some(command.stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap()));
    eventually("it to be said", || {
        std::fs::read_to_string(&said).unwrap().contains("cannot renew the lease").then_some(())
    });
    std::fs::write(sandbox.path().join("back"), "").unwrap();
    let_it_end(&sandbox);
    run.ends().ok();
    assert_eq!(sandbox.show(&id)["state"], "done");
}

#[test]
fn with_json_stdout_is_one_document_and_the_commands_output_goes_to_stderr() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let ran =
        sandbox.json(&agent("a"), &["run", &id, "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 9"]);
    assert_eq!(ran.code, 9);
    let answer = ran.json();
    assert_eq!((&answer["outcome"], &answer["exit_code"]), (&json!("failed"), &json!(9)));
    assert_eq!((&answer["task"]["state"], answer.get("error")), (&json!("failed"), None));
    let mut lines: Vec<&str> = ran.stderr.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err", "out"]);
}

#[test]
fn what_cannot_be_run_is_said_before_anything_is_changed() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let before = dump(&sandbox);
    let a = agent("a");
    for args in [
        vec!["run", &id],
        vec!["run", "--", "true"],
        vec!["run", &id, "true"],
        vec!["run", &id, "--next", "--", "true"],
        vec!["run", &id, "--ttl", "0", "--", "true"],
        vec!["run", &id, "--on-success", "fail", "--", "true"],
        vec!["run", &id, "--", "onus-no-such-command"],
        vec!["run", &id, "--", "./no/such/command"],
        vec!["run", &id, "--", ""],
    ] {
        assert_eq!(sandbox.json(&a, &args).refused(2)["code"], "usage", "{args:?}");
        assert!(dump(&sandbox) == before, "{args:?} changed something");
    }
    assert_eq!(sandbox.json(&a, &["run", "99", "--", "true"]).refused(3)["code"], "not_found");
    sandbox.run(&a, &["done", &id, "-m", "x"]).ok();
    assert_eq!(sandbox.json(&a, &["run", "--next", "--", "true"]).refused(7)["code"], "nothing");
    let held = sandbox.add("Held");
    claim(&sandbox, &agent("b"), &held);
    assert_eq!(sandbox.json(&a, &["run", &held, "--", "true"]).refused(4)["code"], "held");
}

#[test]
fn what_turns_out_not_to_run_leaves_the_task_free() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    std::fs::write(sandbox.path().join("data"), "no program").unwrap();
    let refused = sandbox.json(&agent("a"), &["run", &id, "--", "./data"]).refused(2);
    assert!(refused["message"].as_str().unwrap().contains("cannot run"), "{refused}");
    assert_eq!(sandbox.show(&id)["state"], "open");
    assert_eq!(kinds(&sandbox, &id), ["task.created", "lease.acquired", "lease.released"]);
}

#[test]
fn the_command_runs_where_onus_was_told_to_be() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let folder = sandbox.path().join("inner");
    std::fs::create_dir(&folder).unwrap();
    let ran = sandbox.run(&agent("a"), &["-C", "inner", "run", &id, "--", "pwd"]);
    assert_eq!(ran.ok().stdout.trim(), folder.canonicalize().unwrap().to_str().unwrap());
}

/// What is lent to the command is a person's terminal, keys and all.
#[test]
fn at_a_terminal_the_command_has_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Build it");
    let args = ["run", &id, "--", "/bin/sh", "-c", "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo lent"];
    let env = [("ONUS_ACTOR", "agent:a"), ("ONUS_INSTANCE", "a-1")];
    let Some(screen) = crate::contract::kit::on_terminal(&sandbox, &env, &args) else {
        eprintln!("left out: there is no script(1) here");
        return;
    };
    assert!(screen.contains("lent"), "{screen}");
    assert_eq!(sandbox.show(&id)["state"], "done");
}

#[test]
fn the_trampoline_is_for_onus_alone() {
    let sandbox = Sandbox::new();
    let ran = run_with(&sandbox, &agent("a"), &[], &["__exec", "1", "1", "--", "echo", "hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains("only for its supervisor"), "{ran:?}");
}
