//! Blocks marked `console`: lines with `$ ` are commands (`> ` continues one), the rest is what they print.
//!
//! The blocks of a document are one session of bash, in a sandbox that the document calls `/home/alice`. An HTML
//! comment right before a block changes that, and is seen by whoever edits the document:
//!
//! - `<!-- docs: fresh -->` begins a new session in a new sandbox;
//! - ``<!-- docs: run `COMMAND` instead: REASON -->`` runs another command in place of the block's only one;
//! - `<!-- docs: skip: REASON -->` runs nothing.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::docs::mask::mask;
use crate::support::{ONUS, Sandbox};

/// What the sandbox is called in the documents.
const HOME: &str = "/home/alice";

/// The longest that the blocks of one document may take.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
struct Step {
    /// The line of the document, from 0.
    line: usize,
    command: String,
    /// What is run, where it is not the command shown.
    instead: Option<String>,
    /// The lines that are shown as its output: from, and how many.
    output: (usize, usize),
}

#[derive(Debug, PartialEq, Eq)]
enum Directive {
    Fresh,
    Skip,
    Instead(String),
}

fn directive(line: &str, place: &str) -> Option<Directive> {
    let text = line.trim().strip_prefix("<!-- docs:")?.strip_suffix("-->")?.trim();
    if text == "fresh" {
        return Some(Directive::Fresh);
    }
    let (what, reason) = text.rsplit_once(": ").unwrap_or((text, ""));
    assert!(!reason.trim().is_empty(), "{place}: a block is not run as it stands, and no reason is given");
    if what == "skip" {
        return Some(Directive::Skip);
    }
    let command = what.strip_prefix("run `").and_then(|rest| rest.strip_suffix("` instead"));
    Some(Directive::Instead(command.unwrap_or_else(|| panic!("{place}: not understood: {text}")).to_owned()))
}

/// The sessions of a document: steps that share one sandbox.
fn sessions(name: &str, lines: &[&str]) -> Vec<Vec<Step>> {
    let mut sessions = vec![Vec::new()];
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim_end() != "```console" {
            at += 1;
            continue;
        }
        let end = (at + 1..lines.len())
            .find(|i| lines[*i].trim_end() == "```")
            .unwrap_or_else(|| panic!("{name}:{}: the block does not end", at + 1));
        let before = lines[..at].iter().rev().find(|line| !line.trim().is_empty());
        let directive = before.and_then(|line| directive(line, &format!("{name}:{at}")));
        if directive != Some(Directive::Skip) {
            let mut steps = steps(name, lines, at + 1, end);
            match directive {
                Some(Directive::Fresh) => sessions.push(Vec::new()),
                Some(Directive::Instead(command)) => {
                    assert_eq!(steps.len(), 1, "{name}:{at}: one command is replaced, not several");
                    steps[0].instead = Some(command);
                }
                _ => {}
            }
            sessions.last_mut().unwrap().extend(steps);
        }
        at = end + 1;
    }
    sessions.retain(|steps| !steps.is_empty());
    sessions
}

fn steps(name: &str, lines: &[&str], from: usize, end: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (i, line) in lines.iter().enumerate().take(end).skip(from) {
        if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            steps.push(Step { line: i, command, instead: None, output: (i + 1, 0) });
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("{name}:{}: output of no command", i + 1));
        match line.strip_prefix("> ").filter(|_| step.output == (i, 0)) {
            Some(more) => {
                step.command.push('\n');
                step.command.push_str(more);
                step.output = (i + 1, 0);
            }
            None => step.output.1 += 1,
        }
    }
    steps
}

/// Whoever reads along types slower than a killed process dies: the next command comes when it has.
const KILL: &str = r#"kill() {
    command kill "$@" || return
    [ "$1" = -9 ] || return 0
    local n=0
    while [ -e "/proc/$2" ] && ! grep -q '^State:.[ZX]' "/proc/$2/status" && [ $n -lt 200 ]; do
        sleep 0.02
        n=$((n + 1))
    done
}
"#;

/// Runs the steps in one bash and gives what each of them printed.
fn run(steps: &[Step]) -> Vec<String> {
    let sandbox = Sandbox::empty();
    let home = sandbox.path().join("alice");
    let config = home.join(".config").join("onus");
    std::fs::create_dir_all(&config).unwrap();
    // Nobody sits at a terminal here: the file says what the terminal would.
    std::fs::write(config.join("config.toml"), "[identity]\nactor = \"human:alice\"\n").unwrap();
    let mut script =
        String::from("exec 2>&1\nmark() { local code=$?; printf '@@mark %s\\n' \"$1\"; return $code; }\n");
    script.push_str(KILL);
    for (i, step) in steps.iter().enumerate() {
        let command = step.instead.as_ref().unwrap_or(&step.command);
        writeln!(script, "mark {i}\n{command}").unwrap();
    }
    let file = sandbox.path().join("script");
    std::fs::write(&file, script).unwrap();
    let printed = sandbox.path().join("printed");
    let folder = Path::new(ONUS).parent().unwrap().to_string_lossy().into_owned();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut bash = Command::new("bash")
        .arg(&file)
        .current_dir(&home)
        .env_clear()
        .envs([("PATH", path.as_str()), ("TZ", "UTC"), ("LC_ALL", "C.UTF-8")])
        .env("HOME", &home)
        .stdin(Stdio::null())
        .stdout(File::create(&printed).unwrap())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let started = Instant::now();
    while bash.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < LIMIT, "the session takes too long: {steps:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // What a session started and did not end.
    let group = rustix::process::Pid::from_raw(i32::try_from(bash.id()).unwrap()).unwrap();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let printed = String::from_utf8(std::fs::read(printed).unwrap()).unwrap();
    let printed = printed.replace(&*home.to_string_lossy(), HOME);
    (0..steps.len())
        .map(|i| {
            let start = format!("@@mark {i}\n");
            let from = printed.find(&start).unwrap_or_else(|| panic!("bash never came to {:?}", steps[i]));
            let rest = &printed[from + start.len()..];
            rest.split("@@mark ").next().unwrap().to_owned()
        })
        .collect()
}

pub(crate) fn check(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let sessions = sessions(&name, &lines);
    assert!(!sessions.is_empty(), "{name} shows nothing that could be run");
    // Line ranges of the document, and what was printed for them.
    let mut outputs: Vec<((usize, usize), String)> = Vec::new();
    let mut report = String::new();
    for steps in &sessions {
        for (step, printed) in steps.iter().zip(run(steps)) {
            let (from, count) = step.output;
            let shown = lines[from..from + count].join("\n");
            let stands_in = step.instead.is_some();
            if mask(&shown, stands_in) != mask(printed.trim_end(), stands_in) {
                let _ = write!(
                    report,
                    "\n{name}:{}: $ {}\n--- shown\n{shown}\n--- printed\n{printed}",
                    step.line + 1,
                    step.command
                );
            }
            outputs.push((step.output, printed));
        }
    }
    if crate::support::updates() && !report.is_empty() {
        return update(file, &lines, outputs);
    }
    assert!(report.is_empty(), "the document shows something else than is printed:\n{report}");
}

/// Writes what one run printed, all of it: a document whose times do not fit together puzzles its readers.
fn update(file: &Path, lines: &[&str], outputs: Vec<((usize, usize), String)>) {
    let mut new: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    for ((from, count), printed) in outputs.into_iter().rev() {
        let printed = printed.trim_end().lines().map(str::to_owned);
        new.splice(from..from + count, printed);
    }
    std::fs::write(file, new.join("\n") + "\n").unwrap();
}
