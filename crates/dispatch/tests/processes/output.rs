//! Output, as it comes.

use std::io::Read as _;
use std::process::{ChildStdout, Stdio};

use crate::stage::{Stage, eventually, eventually_gone, lives, output_of, within};

const MEBIBYTE: usize = 1 << 20;

/// Bytes that no text has: every value, no pattern that could hide a lost one.
fn noise(mut seed: u64) -> Vec<u8> {
    std::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()
    })
    .take(MEBIBYTE / 8)
    .flatten()
    .collect()
}

/// The next bytes.
fn read<const N: usize>(from: &mut ChildStdout) -> [u8; N] {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_mebibyte_of_noise_on_both_streams_arrives_unchanged() {
    let stage = Stage::new();
    let (out, err) = (noise(1), noise(2));
    std::fs::write(stage.path().join("out"), &out).unwrap();
    std::fs::write(stage.path().join("err"), &err).unwrap();
    let script = format!("cat {} & cat {} >&2; wait", stage.file("out"), stage.file("err"));
    // One stream is read to its end before the other: neither may hold the other up.
    let output = output_of(&mut stage.supervisor(&[], &["/bin/sh", "-c", &script]));
    assert!(output.stdout == out, "{} bytes of stdout", output.stdout.len());
    assert!(output.stderr == err, "{} bytes of stderr", output.stderr.len());
    assert!(stage.read("tail").len() <= 8 * 1_024 + 1);
    assert!(stage.read("report").starts_with("Code(0)\n"));
}

#[test]
fn output_comes_at_once_also_without_a_line_end() {
    let stage = Stage::new();
    let script = format!("printf half; while [ ! -e {0} ]; do sleep 0.01; done", stage.file("end"));
    let mut puppet = stage.supervisor(&[], &["/bin/sh", "-c", &script]).spawn().unwrap();
    let mut stdout = puppet.stdout.take().unwrap();
    assert_eq!(within("half a line", move || read::<4>(&mut stdout)), *b"half");
    std::fs::write(stage.path().join("end"), "").unwrap();
    stage.adopt(puppet).ends();
}

#[test]
fn the_last_lines_are_kept_of_both_streams() {
    let stage = Stage::new();
    let script = "for i in $(seq 500); do echo out $i; done; sleep 0.2; echo 'error: it broke' >&2; exit 1";
    stage.start_script(&[], script).ends();
    stage.report();
    let tail = stage.read("tail");
    assert_eq!(tail.lines().count(), 40, "{tail}");
    assert!(tail.ends_with("out 500\nerror: it broke\n"), "{tail}");
}

#[test]
fn all_of_it_goes_to_stderr_when_stdout_says_something_else() {
    let stage = Stage::new();
    let output =
        output_of(&mut stage.supervisor(&["passing=stderr"], &["/bin/sh", "-c", "echo out; echo err >&2"]));
    assert_eq!(output.stdout, b"");
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stderr).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err", "out"]);
}

#[test]
fn a_process_that_keeps_the_pipe_open_holds_nobody_up() {
    let stage = Stage::new();
    // Out of the group, so that it is not ended with it.
    let script =
        "setsid sh -c 'echo $$ > $S/keeper; exec sleep 600' & while [ ! -s $S/keeper ]; do sleep 0.01; done
                  echo last; exit 3";
    let script = script.replace("$S", stage.path().to_str().unwrap());
    let mut puppet = stage.supervisor(&[], &["/bin/sh", "-c", &script]).spawn().unwrap();
    let mut stdout = puppet.stdout.take().unwrap();
    let mut supervisor = stage.adopt(puppet);
    assert_eq!(within("a line", move || read::<5>(&mut stdout)), *b"last\n");
    supervisor.ends();
    let keeper = stage.pid("keeper");
    assert!(lives(keeper));
    assert!(stage.report().starts_with("Code(3)\n"));
    assert_eq!(stage.read("tail"), "last\n");
    rustix::process::kill_process(crate::stage::raw(keeper), rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_reader_that_went_away_is_the_commands_business() {
    let stage = Stage::new();
    let mut puppet = stage.supervisor(&[], &["yes"]).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = puppet.stdout.take().unwrap();
    assert_eq!(within("something to read", move || read::<2>(&mut stdout)), *b"y\n");
    stage.adopt(puppet).ends();
    assert!(stage.report().starts_with("Signal(13)\n"), "SIGPIPE, as without us: {}", stage.report());
}

#[test]
fn a_slow_reader_gets_everything_and_the_run_is_over_before_it() {
    let stage = Stage::new();
    let out = noise(3);
    std::fs::write(stage.path().join("out"), &out).unwrap();
    // Less than two pipes hold: the command can finish while nobody has read a byte.
    let script = format!("head -c 100000 {}; echo $$ > {}", stage.file("out"), stage.file("done"));
    let mut puppet = stage.supervisor(&[], &["/bin/sh", "-c", &script]).spawn().unwrap();
    let mut stdout = puppet.stdout.take().unwrap();
    eventually_gone(stage.pid("done"));
    // Nobody reads, and yet there is a report.
    assert!(stage.report().starts_with("Code(0)\n"));
    let read = within("everything", move || {
        let mut read = Vec::new();
        stdout.read_to_end(&mut read).unwrap();
        read
    });
    assert!(read == out[..100_000], "{} bytes", read.len());
    eventually("the supervisor", || puppet.try_wait().unwrap());
}
