//! What `/proc` says about processes. Without `/proc` (macOS) nothing is known.

use std::io::Read as _;
use std::sync::OnceLock;

use rustix::process::Pid;

/// One process, as `/proc/PID/stat` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    /// The program's name, as far as the kernel keeps it.
    pub comm: String,
    pub(crate) state: char,
    pub parent: u32,
    pub group: u32,
    pub(crate) threads: u64,
    /// In the kernel's clock ticks since boot. Together with the pid it identifies one process of this boot.
    pub start: u64,
}

impl Stat {
    /// Whether it has ended, even if its parent has not noticed yet. The state is the main thread's: while other threads run,
    /// so does the process.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

/// Reads `/proc/PID/stat`. `of`: a pid, or `self`.
pub fn stat(of: &str) -> Option<Stat> {
    // A single read, because every command does this for each of its ancestors.
    let mut text = [0; 2_048];
    let length = std::fs::File::open(format!("/proc/{of}/stat")).ok()?.read(&mut text).ok()?;
    // The program's name is in parentheses and may contain anything.
    let name_end = text[..length].iter().rposition(|byte| *byte == b')')?;
    let name_start = text[..name_end].iter().position(|byte| *byte == b'(')?;
    let head = std::str::from_utf8(&text[..name_start]).ok()?;
    let tail = std::str::from_utf8(&text[name_end + 1..length]).ok()?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    Some(Stat {
        pid: head.trim_end().parse().ok()?,
        comm: String::from_utf8_lossy(&text[name_start + 1..name_end]).into_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Every visible process.
pub fn all() -> impl Iterator<Item = Stat> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| stat(&pid))
}

/// Every visible process that has not ended.
pub fn running() -> impl Iterator<Item = Stat> {
    all().filter(|stat| !stat.has_ended())
}

/// The members of a process group that have not ended.
pub fn members(group: Pid) -> Vec<Stat> {
    let group = number(group);
    running().filter(|stat| stat.group == group).collect()
}

/// Whether the environment that a process was started with has this entry (`NAME=value`).
pub fn was_started_with(pid: u32, entry: &str) -> std::io::Result<bool> {
    let environment = std::fs::read(format!("/proc/{pid}/environ"))?;
    Ok(environment.split(|byte| *byte == 0).any(|line| line == entry.as_bytes()))
}

/// Whether `/proc` shows this process's own pid namespace. After `unshare -p` alone it shows the outer one.
pub fn is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| stat("self").is_some_and(|stat| stat.pid == number(rustix::process::getpid())))
}

pub fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

pub fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
