//! Between fork and the command.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::stage::{PUPPET, Stage, eventually, eventually_gone, lives, output_of, within};

#[test]
fn a_command_that_is_not_there_is_told_apart_from_one_that_failed() {
    let stage = Stage::new();
    assert_eq!(stage.start(&[], &["onus-no-such-command"]).ends(), 127);
    assert_eq!(stage.line("report"), "not started: command not found: onus-no-such-command");
    assert_eq!(stage.read("started"), "");

    let stage = Stage::new();
    assert_eq!(stage.start(&[], &["/bin/sh", "-c", "exit 127"]).ends(), 0);
    assert!(stage.report().starts_with("Code(127)\n"), "{}", stage.report());
}

#[test]
fn a_file_that_cannot_be_run_is_126() {
    let stage = Stage::new();
    let file = stage.file("data");
    std::fs::write(&file, "no program").unwrap();
    assert_eq!(stage.start(&[], &[&file]).ends(), 126);
    assert!(stage.line("report").contains("Permission denied"), "{}", stage.read("report"));
}

#[test]
fn the_command_gets_its_arguments_environment_folder_and_input_unchanged() {
    let stage = Stage::new();
    let script =
        "printf '%s|' \"$@\"; cat; echo $ONUS_INSTANCE; pwd; cat /proc/$$/stat | cut -d' ' -f5; echo $$";
    let mut puppet =
        stage.supervisor(&["instance=run-7"], &["/bin/sh", "-c", script, "sh", "a b", "$HOME", "--"]);
    let mut puppet = puppet.current_dir(stage.path()).stdin(Stdio::piped()).spawn().unwrap();
    puppet.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    let output = within("the command", || puppet.wait_with_output().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "a b|$HOME|--|from stdin");
    assert_eq!(lines[1], "run-7");
    assert_eq!(lines[2], stage.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(lines[3], lines[4], "it leads a group of its own");
    assert_eq!(lines[4], stage.line("pid"), "and has the pid that was put on record before it started");
}

/// No descriptor, mask or ignored signal of ours leaks into the command.
#[test]
fn the_command_starts_as_if_nobody_were_in_between() {
    let stage = Stage::new();
    let script = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd | wc -l";
    let bare = output_of(Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()));
    let supervised = output_of(&mut stage.supervisor(&[], &["/bin/sh", "-c", script]));
    assert_eq!(String::from_utf8_lossy(&supervised.stdout), String::from_utf8_lossy(&bare.stdout));
}

#[test]
fn nothing_of_the_command_runs_before_the_word_to_go() {
    let stage = Stage::new();
    let go = stage.file("go");
    let mut supervisor = stage.start(&["park=go"], &["/bin/sh", "-c", "exit 3"]);
    let pid = stage.pid("pid");
    let name = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    for _ in 0..20 {
        assert!(lives(pid) && !name().starts_with("sh"), "{}", name());
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::write(go, "").unwrap();
    supervisor.ends();
    assert!(stage.report().starts_with("Code(3)\n"));
}

#[test]
fn a_supervisor_that_dies_before_the_word_to_go_takes_the_process_with_it() {
    let stage = Stage::new();
    let mark = stage.file("mark");
    let mut supervisor = stage.start(&["park=never"], &["/bin/sh", "-c", &format!("echo > {mark}")]);
    let pid = stage.pid("pid");
    supervisor.process.kill().unwrap();
    eventually_gone(pid);
    assert!(!stage.path().join("mark").exists());
}

/// The trampoline alone, with a line of our own.
fn trampoline(parent: &str, start: &str, command: &[&str]) -> (std::process::Child, UnixStream) {
    let (line, theirs) = UnixStream::pair().unwrap();
    line.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut puppet = Command::new(PUPPET);
    puppet.args(["__exec", parent, start, "--"]).args(command);
    let child = puppet.stdin(Stdio::from(OwnedFd::from(theirs))).spawn().unwrap();
    (child, line)
}

fn own_start() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().to_owned()
}

#[test]
fn a_parent_that_died_between_fork_and_prctl_is_noticed() {
    let stage = Stage::new();
    let mark = stage.file("mark");
    let own = std::process::id().to_string();
    // Whoever is our parent now, it is not the one that started us: another pid, or its pid reused.
    for (parent, start) in [("1", own_start()), (&own, "12345".to_owned())] {
        let (mut child, mut line) = trampoline(parent, &start, &["/bin/sh", "-c", &format!("echo > {mark}")]);
        let mut answer = String::new();
        line.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("orphaned "), "{answer}");
        let status = eventually("the trampoline", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(125));
    }
    // With the right parent it waits.
    let (mut child, line) = trampoline(&own, &own_start(), &["/bin/sh", "-c", &format!("echo > {mark}")]);
    drop(line);
    let status = eventually("the trampoline", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(125), "a line that ends is not the word to go");
    assert!(!stage.path().join("mark").exists());
}
