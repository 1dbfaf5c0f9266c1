//! A supervisor that is killed -9: its command dies with it, and what that had started is ended before the task is
//! granted to anyone else. Nobody else's process is touched.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::{Sandbox, agent, eventually};

/// Whether a process runs; one that ended and was not waited for does not.
fn runs(pid: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let state = state.as_deref().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
        && !matches!(state, None | Some('Z' | 'X'))
}

/// A pid that a command wrote into a file.
fn pid_in(sandbox: &Sandbox, name: &str) -> i32 {
    let file = sandbox.path().join(name);
    eventually(name, || std::fs::read_to_string(&file).ok()?.trim().parse().ok())
}

struct Killed {
    child: i32,
    grandchild: i32,
    /// In the same group, but without the instance in its environment.
    stranger: i32,
}

/// `onus run` with a command that leaves two processes in its group, killed -9.
fn killed_supervisor(sandbox: &Sandbox, id: &str) -> Killed {
    // The grandchild ignores TERM: it must be killed.
    let script = "(trap '' TERM; sleep 600 & echo $! > sleeper; wait) & echo $! > grandchild; \
                  env -u ONUS_INSTANCE sleep 600 & echo $! > stranger; echo $$ > child; wait";
    let mut command: Command = sandbox.command(&agent("worker"));
    command.args(["run", id, "--", "sh", "-c", script]);
    let mut supervisor: Child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let killed = Killed {
        child: pid_in(sandbox, "child"),
        grandchild: pid_in(sandbox, "grandchild"),
        stranger: pid_in(sandbox, "stranger"),
    };
    pid_in(sandbox, "sleeper");
    // Until it has become another program, it carries what its shell did.
    eventually("a process without the instance", || {
        let environment = std::fs::read(format!("/proc/{}/environ", killed.stranger)).unwrap_or_default();
        let is_stranger = !environment.windows(14).any(|part| part == b"ONUS_INSTANCE=");
        (is_stranger && !environment.is_empty()).then_some(())
    });
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    killed
}

fn end(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[test]
fn what_a_killed_supervisor_left_is_ended_before_the_task_is_granted_again() {
    for claim in [&["claim", "--next", "--json"][..], &["takeover", "1", "--reason", "it died", "--json"][..]]
    {
        let sandbox = Sandbox::new();
        let id = sandbox.add("a task");
        // Given a supervisor that was killed -9 while its command had started others
        let Killed { child, grandchild, stranger } = killed_supervisor(&sandbox, &id);
        eventually("the command's end", || (!runs(child)).then_some(()));
        assert!(runs(grandchild) && runs(stranger), "nothing ends these but a takeover");
        let sleeper = pid_in(&sandbox, "sleeper");
        // When somebody else takes the task
        let taken = sandbox.run(&agent("next"), claim);
        // Then what carried the dead instance is gone, and who did not is left and listed
        let taken = taken.ok().json();
        assert_eq!((taken["takeover"].as_bool(), taken["lease"]["token"].as_u64()), (Some(true), Some(2)));
        assert!(!runs(grandchild) && !runs(sleeper));
        assert!(runs(stranger));
        let notices = taken["notices"].to_string();
        assert!(
            notices.contains(&grandchild.to_string()) && notices.contains(&stranger.to_string()),
            "{notices}"
        );
        end(stranger);
        sandbox.is_whole();
    }
}

#[test]
fn a_live_supervisors_processes_are_nobodys_to_end() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("a task");
    let mut command = sandbox.command(&agent("worker"));
    command.args(["run", &id, "--", "sh", "-c", "echo $$ > child; exec sleep 600"]);
    let mut supervisor = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let child = pid_in(&sandbox, "child");
    sandbox.json(&agent("next"), &["takeover", &id, "--reason", "with_short_wait"]).refused(4);
    sandbox.json(&agent("next"), &["claim", "--next"]).refused(7);
    assert!(runs(child));
    kill_process(Pid::from_child(&supervisor), Signal::TERM).unwrap();
    supervisor.wait().unwrap();
    assert!(!runs(child));
    assert_eq!(sandbox.show(&id)["state"], "open", "interrupted is not failed");
}
