//! A supervisor for the tests, played by files: what renewing gives is read from one, what happened is written to another.
//!
//! ```text
//! puppet supervise FOLDER [NAME=VALUE]… -- COMMAND…
//! puppet session PTS -- COMMAND…
//! puppet hidden FOLDER
//! puppet end FOLDER INSTANCE GROUP GRACE_MS
//! puppet errand FOLDER [NAME=VALUE]… -- COMMAND…
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use onus_dispatch::{
    Errand, Hooks, Interrupts, Log, Passing, Renewal, Spec, Terms, Trampoline, Waiting, Watch, supervise,
    trampoline, warden,
};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let first = words.next().unwrap_or_default();
    let outcome = match first.to_str() {
        Some(trampoline::NAME) => return trampoline::run(words),
        Some(warden::NAME) => return warden::run(words),
        Some("errand") => errand(words),
        Some("supervise") => run(words),
        Some("session") => session(words),
        Some("hidden") => hidden(words),
        Some("end") => end(words),
        _ => Err("what?".into()),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "puppet: {error}");
            ExitCode::from(99)
        }
    }
}

/// Words before `--`, and those after it.
fn split(words: impl Iterator<Item = OsString>) -> (Vec<OsString>, Vec<OsString>) {
    let mut before: Vec<OsString> = words.collect();
    let at = before.iter().position(|word| word == "--").unwrap_or(before.len());
    let after = before.split_off(at).split_off(1);
    (before, after)
}

/// A new session on a terminal, as if somebody had logged in there.
fn session(words: impl Iterator<Item = OsString>) -> Fallible<u8> {
    let (before, command) = split(words);
    rustix::process::setsid()?;
    // The first terminal that a session opens is its own.
    let tty = File::options().read(true).write(true).open(before.first().ok_or("which terminal?")?)?;
    rustix::stdio::dup2_stdin(&tty)?;
    rustix::stdio::dup2_stdout(&tty)?;
    rustix::stdio::dup2_stderr(&tty)?;
    Err(Command::new(&command[0]).args(&command[1..]).exec().into())
}

/// A process that only those may look at who may look at everything.
fn hidden(mut words: impl Iterator<Item = OsString>) -> Fallible<u8> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    append(Path::new(&words.next().unwrap_or_default()), "hidden", "yes");
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn end(words: impl Iterator<Item = OsString>) -> Fallible<u8> {
    let words: Vec<String> = words.filter_map(|word| word.into_string().ok()).collect();
    let [folder, instance, group, grace] = words.as_slice() else { return Err("end what?".into()) };
    let ended = onus_dispatch::group::end(instance, group.parse()?, Duration::from_millis(grace.parse()?))?;
    append(Path::new(folder), "ended", &format!("{ended:?}"));
    Ok(0)
}

fn run(words: impl Iterator<Item = OsString>) -> Fallible<u8> {
    let (before, command) = split(words);
    let folder = PathBuf::from(before.first().ok_or("which folder?")?);
    let setting = |name: &str| {
        let words = before.iter().filter_map(|word| word.to_str()?.split_once('='));
        words.filter(|(this, _)| *this == name).map(|(_, value)| value.to_owned()).next_back()
    };
    let ms = |name: &str, default: u64| -> Fallible<Duration> {
        Ok(Duration::from_millis(setting(name).map_or(Ok(default), |value| value.parse())?))
    };
    let trusted_for = setting("trust").map(|_| ms("trust", 0)).transpose()?;
    let renewed_for = setting("renewed").map(|_| ms("renewed", 0)).transpose()?.or(trusted_for);
    let terms = Terms {
        renew_every: ms("every", 50)?,
        trusted_until: trusted_for.map(|trusted_for| Instant::now() + trusted_for),
        margin: ms("margin", 0)?,
        grace: ms("grace", 30_000)?,
    };
    let spec = Spec {
        program: command[0].clone(),
        args: command[1..].to_vec(),
        env: setting("instance").map(|value| ("ONUS_INSTANCE".to_owned(), value)).into_iter().collect(),
        inherits: true,
        folder: std::env::current_dir()?,
        passing: if setting("passing").is_some() { Passing::AllToStderr } else { Passing::AsItIs },
        trampoline: Trampoline::of_this_program()?,
    };
    let waiting = Waiting::spawn(spec)?;
    append(&folder, "pid", &waiting.pid().to_string());
    if let Some(parked) = setting("park") {
        // Held before the command is started, until the file is there.
        while !folder.join(&parked).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let child = match waiting.start() {
        Ok(child) => child,
        Err(error) => {
            append(&folder, "report", &format!("not started: {error}"));
            return Ok(error.exit_code());
        }
    };
    append(&folder, "started", "yes");
    let (asked, told) = (folder.clone(), folder.clone());
    let hooks = Hooks {
        renew: Box::new(move |progress| renew(&asked, progress, renewed_for)),
        tell: Box::new(move |what| append(&told, "told", &format!("{what:?}"))),
    };
    let report = supervise(child, &terms, hooks)?;
    append(&folder, "tail", &report.tail);
    append(&folder, "report", &format!("{:?}", report.exit));
    append(&folder, "report", &format!("stopped {:?}", report.stopped));
    append(&folder, "report", &format!("interrupted {:?}", report.interrupted));
    append(&folder, "report", &format!("left {:?}", report.left));
    append(&folder, "report", "over");
    report.rest.finish();
    Ok(0)
}

fn errand(words: impl Iterator<Item = OsString>) -> Fallible<u8> {
    let (before, command) = split(words);
    let folder = PathBuf::from(before.first().ok_or("which folder?")?);
    let setting = |name: &str| {
        let words = before.iter().filter_map(|word| word.to_str()?.split_once('='));
        words.filter(|(this, _)| *this == name).map(|(_, value)| value.to_owned()).next_back()
    };
    let ms = |name: &str, default: u64| -> Fallible<Duration> {
        Ok(Duration::from_millis(setting(name).map_or(Ok(default), |value| value.parse())?))
    };
    let errand = Errand {
        argv: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        env: std::env::vars_os().filter(|(name, _)| name == "PATH").collect(),
        folder: folder.clone(),
        limit: ms("limit", 600_000)?,
        grace: ms("grace", 30_000)?,
    };
    let interrupts = Interrupts::hold()?;
    let (mut log, mut heard) = (Log::default(), 0);
    let mut hear = |bytes: &[u8]| {
        log.push(bytes);
        heard += bytes.len();
    };
    let asked = folder.clone();
    let mut renewing = move || renew(&asked, false, None);
    let renew: Option<&mut dyn FnMut() -> Renewal> =
        if setting("renew").is_some() { Some(&mut renewing) } else { None };
    let ended = errand.run(&mut hear, Watch { renew, interrupts: Some(&interrupts) })?;
    append(&folder, "heard", &heard.to_string());
    std::fs::write(folder.join("log"), log.bytes())?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    append(&folder, "peak", peak.trim().trim_end_matches(" kB"));
    append(&folder, "interrupted", &format!("{:?}", interrupts.signal()));
    append(&folder, "fenced", &format!("{:?}", ended.fenced));
    append(&folder, "outcome", &format!("{:?}", ended.outcome));
    Ok(0)
}

/// What the file says. `hang` hangs until it says something else.
fn renew(folder: &Path, progress: bool, trusted_for: Option<Duration>) -> Renewal {
    append(folder, "renewals", if progress { "progress" } else { "silence" });
    loop {
        let says = std::fs::read_to_string(folder.join("renew")).unwrap_or_default();
        match says.trim() {
            "" | "kept" => return Renewal::Kept { next_in: Duration::from_millis(50), trusted_for },
            "ended" => return Renewal::Ended,
            "fenced" => return Renewal::Fenced { why: "superseded by agent:b".to_owned() },
            "down" => return Renewal::Unavailable { why: "no store".to_owned() },
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn append(folder: &Path, name: &str, line: &str) {
    let file = File::options().append(true).create(true).open(folder.join(name));
    if let Ok(mut file) = file {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}
