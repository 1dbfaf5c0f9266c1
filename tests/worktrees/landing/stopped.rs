//! Landers that are stopped or interrupted: nobody waits for them without a word, and nothing of theirs goes on.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::Yard;
use crate::support::{Ran, agent, eventually, human};

/// Ended with the test, however that ends: a stopped process waits for ever.
struct Running(Option<Child>);

impl Running {
    fn ended(mut self) -> Ran {
        eventually("it ends", || self.0.as_mut().unwrap().try_wait().unwrap());
        Ran::of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

fn signal(running: &Running, name: &str) {
    let child = running.0.as_ref().unwrap();
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_lander_that_is_stopped_while_it_makes_its_scratch_worktree_keeps_nobody_waiting() {
    let gated = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"ok\"\nstage = \"land\"\nrun = [\"true\"]\n";
    let yard = Yard::landing(gated);
    let id = yard.done(&agent("w"), "one", "one.txt", "1\n");
    let (bin, stopped, go) = yard.git_stopping_at_scratch();
    let mut land = yard.command(&agent("lander"));
    land.args(["land", &id, "--json"]).env("PATH", Yard::path_with(&bin));
    let child = Running(land.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok());
    eventually("git makes a scratch worktree", || stopped.exists().then_some(()));
    signal(&child, "STOP");
    for args in [&["worktree", "list"][..], &["doctor"], &["doctor", "--fix"], &["status"]] {
        let begun = Instant::now();
        let ran = yard.run(&human("ada"), args);
        assert!(begun.elapsed() < Duration::from_secs(90), "{args:?} took {:?}", begun.elapsed());
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let is_said = said.contains("another process has been changing this repository's worktrees for 5 s");
        assert_eq!(is_said, args != ["status"], "{args:?}: {said}");
    }
    signal(&child, "CONT");
    std::fs::write(go, "").unwrap();
    child.ended().ok();
    assert_eq!(yard.in_main("one.txt").as_deref(), Some("1\n"));
    yard.has_landed_in_peace();
}

/// A gate that goes on for ever, with a child in a session of its own. Both write down who they are.
fn endless(stage: &str) -> String {
    format!(
        "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"endless\"\nstage = \"{stage}\"\n\
         shell = \"setsid sleep 900 & echo $! >> \\\"$HOME/pids\\\"; echo $$ >> \\\"$HOME/pids\\\"; sleep 900\"\n"
    )
}

/// The two processes of the gate, once they run.
fn pids(file: &Path) -> Vec<String> {
    eventually("the gate runs", || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let pids: Vec<String> = text.lines().map(str::to_owned).collect();
        (pids.len() == 2).then_some(pids)
    })
}

fn is_running(pid: &str) -> bool {
    // One that has ended and was not waited for is gone, too.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

const SIGNALS: [(&str, i32); 3] = [("TERM", 15), ("INT", 2), ("HUP", 1)];

#[test]
fn an_interrupted_landing_ends_its_gate_and_leaves_nothing() {
    let yard = Yard::landing(&endless("land"));
    let id = yard.done(&agent("w"), "one", "one.txt", "1\n");
    let (before, file) = (yard.at("main"), yard.folder().join("home/pids"));
    for (n, (name, number)) in SIGNALS.iter().enumerate() {
        let args: &[&str] = if n == 0 { &["land", "--queue", "--watch"] } else { &["land", &id] };
        let mut land = yard.command(&agent("lander"));
        let child =
            Running(land.args(args).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok());
        let pids = pids(&file);
        signal(&child, name);
        let ended = child.ended();
        assert_eq!(ended.code, 128 + number, "{name}: {ended:?}");
        let message = ended.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("gate endless was stopped: it was interrupted"), "{name}: {message}");
        assert!(!pids.iter().any(|pid| is_running(pid)), "{name}: {pids:?}");
        assert_eq!((yard.at("main"), yard.show(&id)["state"].as_str()), (before.clone(), Some("done")));
        assert!(!yard.root().join(".scratch").exists(), "{name}");
        yard.has_landed_in_peace();
        std::fs::remove_file(&file).unwrap();
    }
    // Nothing is locked, and nobody has to tidy up first.
    yard.commit("onus.toml", "[land]\nstyle = \"merge\"\n");
    yard.land(&id);
    yard.has_landed_in_peace();
}

#[test]
fn an_interrupted_gate_run_ends_its_gate_and_judges_nothing() {
    let yard = Yard::landing(&endless("done"));
    let (who, id) = (agent("w"), yard.add("one"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "one.txt", "1\n");
    let file = yard.folder().join("home/pids");
    for (name, number) in SIGNALS {
        let mut run = yard.command_in(&path, &who);
        let child = Running(
            run.args(["gate", "run", &id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok(),
        );
        let pids = pids(&file);
        signal(&child, name);
        let ended = child.ended();
        assert_eq!(ended.code, 128 + number, "{name}: {ended:?}");
        assert!(!pids.iter().any(|pid| is_running(pid)), "{name}: {pids:?}");
        assert!(!yard.kinds(&id).iter().any(|kind| kind.starts_with("gate.")), "{name}");
        std::fs::remove_file(&file).unwrap();
    }
}
