//! What the end-to-end tests stand on: a sandbox with a real store, and the real binary run in it.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod git;
mod program;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub use self::git::{below, git, git_in, write};
pub use self::program::{copy_of_program, program};

/// The binary under test.
pub const ONUS: &str = env!("CARGO_BIN_EXE_onus");

/// A temporary folder with a store in it, and nothing of the environment around it.
pub struct Sandbox {
    folder: TempDir,
    /// The server that has the store instead.
    server: Option<String>,
    /// Which project of it, where the user says so.
    project: Option<String>,
}

/// Who calls: an actor and its instance.
#[derive(Clone, Debug)]
pub struct As {
    pub actor: String,
    pub instance: String,
}

pub fn agent(name: &str) -> As {
    As { actor: format!("agent:{name}"), instance: format!("{name}-1") }
}

pub fn human(name: &str) -> As {
    As { actor: format!("human:{name}"), instance: "unused".into() }
}

/// The binary, in a folder, with a clean environment.
pub fn onus_in(folder: &Path, home: &Path) -> Command {
    let mut command = Command::new(ONUS);
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    command
}

/// Runs a command with `--json`, before what is not onus's own to read.
pub fn json_of(mut command: Command, args: &[&str]) -> Ran {
    let (own, rest) = args.split_at(args.iter().position(|word| *word == "--").unwrap_or(args.len()));
    Ran::of(command.args(own).arg("--json").args(rest).output().unwrap())
}

/// Runs a command with this on its standard input. One that refuses before it has read everything closes the pipe: that is its right.
pub fn fed(command: &mut Command, input: impl AsRef<[u8]>) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    Ran::of(child.wait_with_output().unwrap())
}

/// What one run of the binary gave.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        Ran {
            // A signal is not an exit code: shells show 128 + its number.
            code: output.status.code().unwrap_or_else(|| {
                use std::os::unix::process::ExitStatusExt as _;
                128 + output.status.signal().unwrap_or_default()
            }),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The one JSON document on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON document ({error}): {self:?}"))
    }

    #[track_caller]
    pub fn ok(&self) -> &Ran {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// The refusal of a `--json` run, after checking its exit code.
    #[track_caller]
    pub fn refused(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        self.json()["error"].clone()
    }
}

impl Sandbox {
    /// A folder outside git with a fresh store whose tasks are called `ON-1`, `ON-2`, ….
    pub fn new() -> Sandbox {
        let sandbox = Sandbox::empty();
        sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
        sandbox
    }

    /// A folder without a store.
    pub fn empty() -> Sandbox {
        let folder = tempfile::Builder::new().prefix("onus-test-").tempdir().unwrap();
        Sandbox { folder, server: None, project: None }
    }

    /// A folder whose project, of this name, is on a server.
    pub fn on_server(address: &str, project: &str) -> Sandbox {
        let sandbox = Sandbox { server: Some(address.to_owned()), ..Sandbox::empty() };
        let config = format!("[project]\nname = \"{project}\"\n");
        std::fs::write(sandbox.path().join("onus.toml"), config).unwrap();
        sandbox
    }

    /// Another folder, without a store, whose project is where this one's is.
    pub fn like(&self) -> Sandbox {
        Sandbox { server: self.server.clone(), project: self.project.clone(), ..Sandbox::empty() }
    }

    pub fn is_on_server(&self) -> bool {
        self.server.is_some()
    }

    /// The same project by another address, as the user says.
    pub fn by(&mut self, address: &str) {
        self.server = Some(address.to_owned());
        let config = std::fs::read_to_string(self.path().join("onus.toml")).unwrap();
        self.project = config.split('"').nth(1).map(str::to_owned);
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn database(&self) -> PathBuf {
        self.path().join(".onus").join("onus.db")
    }

    /// The binary, in this folder, with a clean environment but for who calls.
    pub fn command(&self, who: &As) -> Command {
        let mut command = self.anonymous();
        command.env("ONUS_ACTOR", &who.actor).env("ONUS_INSTANCE", &who.instance);
        command
    }

    /// The same, with nobody calling.
    pub fn anonymous(&self) -> Command {
        let mut command = onus_in(self.path(), &self.path().join("home"));
        command
            .envs(self.server.as_ref().map(|address| ("ONUS_STORE", address)))
            .envs(self.project.as_ref().map(|project| ("ONUS_PROJECT", project)));
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, who: &As, args: &[&str]) -> Ran {
        Ran::of(self.command(who).args(args).output().unwrap())
    }

    pub fn json(&self, who: &As, args: &[&str]) -> Ran {
        json_of(self.command(who), args)
    }

    /// Adds a task and returns its id.
    #[track_caller]
    pub fn add(&self, title: &str) -> String {
        let ran = self.json(&human("founder"), &["add", title]);
        ran.ok().json()["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub fn show(&self, id: &str) -> Value {
        self.json(&human("founder"), &["show", id]).ok().json()
    }

    /// The ledger verifies, and a rebuild changes nothing.
    #[track_caller]
    pub fn is_whole(&self) {
        let verified = self.json(&human("founder"), &["ledger", "verify"]).ok().json();
        assert_eq!(verified["ok"], true);
        let rebuilt = self.json(&human("founder"), &["ledger", "rebuild"]).ok().json();
        assert_eq!(rebuilt["changed"], serde_json::json!({}), "{rebuilt}");
    }

    /// Everything that happened, oldest first.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let log = self.json(&human("founder"), &["log", "-n", "100000"]).ok().json();
        log["events"].as_array().unwrap().clone()
    }
}

/// Looks again until something is there; fails after a generous time.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited too long for {what}");
}

/// Whether the files that tests compare with are to be written (`ONUS_UPDATE=1`) rather than compared.
pub fn updates() -> bool {
    std::env::var_os("ONUS_UPDATE").is_some_and(|set| set == "1")
}

/// Compares a text with a file of the repository, or writes it there.
#[track_caller]
pub fn is_written(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if updates() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if written == text {
        return;
    }
    let differs = written.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or_else(|| written.lines().count().min(text.lines().count()));
    panic!(
        "{file} is not what the program says, from line {}:\n  there: {:?}\n  now:   {:?}\nONUS_UPDATE=1 cargo test writes it",
        line + 1,
        written.lines().nth(line),
        text.lines().nth(line)
    );
}
