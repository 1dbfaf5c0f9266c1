//! Running the git program: the one way, for all of onus.
//!
//! **A repository's configuration is not a way in.** Git runs what its configuration names: hooks, a file system
//! monitor, a pager, a command for ssh; and it fetches missing objects from wherever the repository says. So
//! every call switches these off, and reaches no network (a fetch that the user asked for apart, [`Call::reaching_out`]); the repository was found by the rules of `discover.rs`, and
//! its owner was checked ([`Repository::new`]), since `--git-dir` skips git's own check.
//!
//! Arguments are an argv, never a shell string; anything that is not a constant follows `--end-of-options` or `--`. Every
//! call ([`Call`]) has a time limit, and a limit on its output.

mod changes;
mod look;
mod merge_tree;
mod seals;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::discover::Place;
use crate::owner::Foreign;

pub(crate) use changes::with_trailers;
pub use changes::{Made, Staged, Staging, add_trailers, head_commit, pushed};
pub use look::{are_committed, uncommitted};
pub(crate) use look::{dirty, drivers, filters};
pub(crate) use merge_tree::{MergeTree, merge_tree};
pub use seals::{SEALS, anchor, anchored, show};

/// The longest that a call may take. All of these are small; a disk may be slow.
const LIMIT: Duration = Duration::from_secs(60);

/// The most that a call may answer.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub struct GitError(pub String);

impl std::fmt::Display for GitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "git failed: {}", self.0)
    }
}

impl std::error::Error for GitError {}

/// A repository that belongs to the user, or that the user told git to trust.
#[derive(Clone, Debug)]
pub struct Repository {
    common_dir: PathBuf,
}

impl Repository {
    /// None outside git.
    pub fn new(place: &Place) -> Result<Option<Repository>, Foreign> {
        place.check_owner()?;
        Ok(place.common_dir.clone().map(|common_dir| Repository { common_dir }))
    }

    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// A call that concerns no checkout.
    pub(crate) fn call<'a>(&self) -> Call<'a> {
        Call::new(hardened()).words(&["--git-dir"]).word(&self.common_dir)
    }

    /// The same, where the user's wish about signing is to be seen.
    pub(crate) fn call_with_signing<'a>(&self) -> Call<'a> {
        let command = with_settings(settings_but("commit.gpgSign="));
        Call::new(command).words(&["--git-dir"]).word(&self.common_dir)
    }
}

/// What a hook or an alias may have set: the repository, index, objects and configuration of somebody else's errand.
const ELSEWHERE: [&str; 17] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
];

/// Settings that override a repository's own configuration.
const SETTINGS: [&str; 7] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // A repository was found by our own rules, which are stricter.
    "safe.bareRepository=all",
];

/// Git with nothing of the repository's that could run or reach out.
fn hardened() -> Command {
    with_settings(SETTINGS.iter().map(|setting| OsString::from(*setting)))
}

fn settings_but(setting: &str) -> impl Iterator<Item = OsString> {
    SETTINGS.iter().filter(move |it| !it.starts_with(setting)).map(|it| OsString::from(*it))
}

fn with_settings(settings: impl Iterator<Item = OsString>) -> Command {
    let mut command = Command::new("git");
    for name in ELSEWHERE {
        command.env_remove(name);
    }
    command
        .envs([
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            // Git knows this one since 2.45; without a protocol that is allowed, older ones fetch nothing either.
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("LC_ALL", "C"),
        ])
        .arg("--no-pager")
        .args(settings.flat_map(|setting| [OsString::from("-c"), setting]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts is ended with it.
        .process_group(0);
    command
}

/// One call of git: where, with which words, and for how long at most.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    command: Command,
    input: Option<&'a [u8]>,
    limit: Duration,
}

/// How a call ended that may say no: what it printed, and its status.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl<'a> Call<'a> {
    fn new(command: Command) -> Call<'a> {
        Call { command, input: None, limit: LIMIT }
    }

    /// In a checkout, whose owner is checked first.
    pub(crate) fn at(place: &Place) -> Result<Call<'a>, GitError> {
        place.check_owner().map_err(|foreign| GitError(foreign.to_string()))?;
        let git_dir = place.git_dir.as_deref();
        let git_dir = git_dir.ok_or_else(|| GitError("this is not a checkout".to_owned()))?;
        Ok(Call::in_worktree(&place.root, git_dir))
    }

    /// In a worktree whose owner was checked before.
    pub(crate) fn in_worktree(root: &Path, git_dir: &Path) -> Call<'a> {
        let mut command = hardened();
        command.current_dir(root);
        Call::new(command).words(&["--git-dir"]).word(git_dir).words(&["--work-tree"]).word(root)
    }

    /// The same, where git is to run its hooks: those of a folder, or as it is configured.
    pub(crate) fn at_with_hooks(place: &Place, hooks: Option<&Path>) -> Result<Call<'a>, GitError> {
        place.check_owner().map_err(|foreign| GitError(foreign.to_string()))?;
        let hooks = hooks.map(|folder| {
            let mut setting = OsString::from("core.hooksPath=");
            setting.push(folder);
            setting
        });
        let mut command = with_settings(settings_but("core.hooksPath=").chain(hooks));
        command.current_dir(&place.root);
        Ok(Call::new(command))
    }

    /// In a checkout of the user's, to write files there as the user's own git would: with the user's attributes.
    pub(crate) fn in_checkout(place: &Place) -> Result<Call<'a>, GitError> {
        place.check_owner().map_err(|foreign| GitError(foreign.to_string()))?;
        let mut command = with_settings(settings_but("core.attributesFile="));
        command.current_dir(&place.root);
        Ok(Call::new(command))
    }

    /// In a folder of our own.
    pub(crate) fn scratch(folder: &Path) -> Call<'a> {
        let mut command = hardened();
        command.current_dir(folder);
        Call::new(command)
    }

    pub(crate) fn words(mut self, words: &[&str]) -> Call<'a> {
        self.command.args(words);
        self
    }

    pub(crate) fn word(mut self, word: impl AsRef<OsStr>) -> Call<'a> {
        self.command.arg(word);
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Call<'a> {
        self.command.env(name, value);
        self
    }

    /// Where it runs, and where what it starts puts its files.
    pub(crate) fn within(mut self, folder: &Path) -> Call<'a> {
        self.command.current_dir(folder);
        self
    }

    /// With these values, whatever is configured.
    pub(crate) fn overriding(self, values: &[(String, impl AsRef<OsStr>)]) -> Call<'a> {
        let call = self.env("GIT_CONFIG_COUNT", values.len().to_string());
        values.iter().enumerate().fold(call, |call, (n, (key, value))| {
            call.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value)
        })
    }

    /// For what commits in the user's name: now, not when somebody else's errand was.
    pub(crate) fn by_user(mut self) -> Call<'a> {
        self.command.env_remove("GIT_AUTHOR_DATE").env_remove("GIT_COMMITTER_DATE");
        self
    }

    /// For what commits: who asked for it is recorded in the ledger, git only needs a name to go on.
    pub(crate) fn by_onus(mut self) -> Call<'a> {
        self.command.envs([
            ("GIT_AUTHOR_NAME", "onus"),
            ("GIT_AUTHOR_EMAIL", "onus@localhost"),
            ("GIT_COMMITTER_NAME", "onus"),
            ("GIT_COMMITTER_EMAIL", "onus@localhost"),
        ]);
        self
    }

    /// What it reads from its standard input.
    pub(crate) fn input(mut self, input: &'a [u8]) -> Call<'a> {
        self.input = Some(input);
        self
    }

    /// It inherits the lock on this file, and keeps it if its caller dies.
    pub(crate) fn holding(mut self, lock: &File) -> Result<Call<'a>, GitError> {
        let lock = lock.try_clone().map_err(|error| GitError(error.to_string()))?;
        self.command.stdin(Stdio::from(lock));
        Ok(self)
    }

    /// It may reach the network as far as the user's own git would, and asks nobody for a password.
    pub(crate) fn reaching_out(mut self) -> Call<'a> {
        match std::env::var_os("GIT_ALLOW_PROTOCOL") {
            Some(allowed) => self.command.env("GIT_ALLOW_PROTOCOL", allowed),
            None => self.command.env_remove("GIT_ALLOW_PROTOCOL"),
        };
        self.command.envs([
            ("GIT_ASKPASS", "false"),
            ("SSH_ASKPASS", "false"),
            ("SSH_ASKPASS_REQUIRE", "force"),
        ]);
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Call<'a> {
        self.limit = limit;
        self
    }

    /// What it prints, if it succeeds.
    pub(crate) fn run(self) -> Result<Vec<u8>, GitError> {
        let outcome = self.outcome()?;
        if outcome.status.success() { Ok(outcome.out) } else { Err(GitError(outcome.err)) }
    }

    /// The one line that it prints, if it succeeds.
    pub(crate) fn line(self) -> Result<String, GitError> {
        self.run().map(|out| String::from_utf8_lossy(&out).trim().to_owned())
    }

    /// For calls that answer with their status.
    pub(crate) fn outcome(mut self) -> Result<Outcome, GitError> {
        let mut tries = TRIES;
        loop {
            let outcome = run(&mut self.command, self.input, self.limit)?;
            tries -= 1;
            if tries == 0 || outcome.status.success() || !is_half_made(&outcome.err) {
                return Ok(outcome);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// How often, and after which pause, a call is made again that met a worktree in the making: a second in all.
const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// Git makes a worktree's folder file by file, and another git that reads them meanwhile gives up, having done nothing.
fn is_half_made(err: &str) -> bool {
    err.contains("failed to read ") && err.contains("/commondir")
}

/// Whether git itself would work in a checkout or bare repository that another user owns.
pub(crate) fn calls_safe(root: &Path) -> bool {
    let mut command = hardened();
    // It must not go up and call another one safe.
    command.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root));
    command.arg("-C").arg(root);
    Call::new(command).words(&["rev-parse", "--git-dir"]).run().is_ok()
}

fn run(command: &mut Command, input: Option<&[u8]>, limit: Duration) -> Result<Outcome, GitError> {
    let fail = |error: std::io::Error| GitError(error.to_string());
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().map_err(fail)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (done, all_done) = mpsc::channel();
    std::thread::scope(|scope| {
        // Each pipe has its own thread: a full one must not keep the others waiting.
        scope.spawn(move || {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // Git may have ended before it had read everything: its answer says why.
                drop(stdin.write_all(input));
            }
        });
        let (out_done, err_done) = (done.clone(), done);
        let out = scope.spawn(move || read_pipe(stdout, out_done));
        let err = scope.spawn(move || read_pipe(stderr, err_done));
        let deadline = Instant::now() + limit;
        let ended = (0..2)
            .try_for_each(|_| all_done.recv_timeout(deadline.saturating_duration_since(Instant::now())));
        if ended.is_err() {
            end(&mut child);
        }
        let status = child.wait().map_err(fail)?;
        let (out, err) = (joined(out)?, joined(err)?);
        if ended.is_err() {
            return Err(GitError(format!("it took longer than {} ms", limit.as_millis())));
        }
        if out.len() as u64 > MAX_ANSWER {
            return Err(GitError("its output is too long".to_owned()));
        }
        Ok(Outcome { status, out, err: String::from_utf8_lossy(&err).trim().to_owned() })
    })
}

/// Ends git and what it started: a pipe that one of them kept open would be read for ever.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // One that has ended already has ended.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// All that comes, up to the bound; what follows is let go, so that the writer is not stuck.
fn read_pipe(pipe: Option<impl Read>, done: mpsc::Sender<()>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let outcome = pipe.map_or(Ok(0), |mut pipe| {
        pipe.by_ref().take(MAX_ANSWER + 1).read_to_end(&mut bytes)?;
        std::io::copy(&mut pipe, &mut std::io::sink())
    });
    // Nobody listens any more if the time was over.
    let _ = done.send(());
    outcome.map(|_| bytes)
}

fn joined(reader: std::thread::ScopedJoinHandle<'_, std::io::Result<Vec<u8>>>) -> Result<Vec<u8>, GitError> {
    match reader.join() {
        Ok(outcome) => outcome.map_err(|error| GitError(error.to_string())),
        Err(_) => Err(GitError("its output could not be read".to_owned())),
    }
}

/// The mode of folders that git makes in this repository. None: it shares them with nobody beyond what the user's mask
/// says, or that cannot be told.
pub fn shared_folder_mode(repository: &Repository) -> Option<u32> {
    let value = repository.call().words(&["config", "--get", "core.sharedRepository"]).line().ok()?;
    let files = match value.as_str() {
        "umask" | "false" | "0" | "no" | "off" => return None,
        "group" | "true" | "1" | "yes" | "on" => 0o660,
        "all" | "world" | "everybody" | "2" => 0o664,
        octal => {
            u32::from_str_radix(octal, 8).ok().filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)?
        }
    };
    // Whoever may read may enter, and what is made inside belongs to the same group.
    Some(0o2000 | files | (files & 0o444) >> 2)
}
