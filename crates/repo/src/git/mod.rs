//! Runs the git program. All of onus calls git through this module.
//!
//! **A repository's configuration must not take control.** Git runs what its configuration names: hooks, a file system
//! monitor, a pager, a command for ssh; and it fetches missing objects from wherever the repository says. So
//! every call switches these off and uses no network, except for a fetch that the user asked for ([`Call::reaching_out`]). The
//! repository was found by the rules of `discover.rs`, and its owner was checked ([`Repository::new`]), since `--git-dir` skips git's
//! own check.
//!
//! Arguments are an argv, never a shell string; anything that is not a constant follows `--end-of-options` or `--`. Every
//! call ([`Call`]) has a time limit, and a limit on its output.
//!
//! Git changes to its folder itself (`-C`): if the child had to do that between fork and exec, the standard library could not start
//! it by `posix_spawn`, and would copy this process first. A git hook pays for that with every commit.

pub(crate) mod changes;
mod index;
mod lists;
mod look;
mod made;
mod merge_tree;
mod seals;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::discover::Place;
use crate::owner::Foreign;

pub(crate) use changes::with_trailers;
pub use changes::{Listing, Staged, Staging, add_trailers, named_by, pushed};
pub(crate) use lists::{Entry, index_info, listed, raw_changes};
pub use look::{adrift, are_committed, uncommitted};
pub(crate) use look::{dirty, drivers, filters, overlooked, status};
pub use made::{Describing, JudgedCommit, Made, describe};
pub(crate) use merge_tree::{MergeTree, merge_tree};
pub use seals::{SEALS, anchor, anchored, show};

/// The default time limit of a call. Most calls are small, but a disk may be slow.
const LIMIT: Duration = Duration::from_secs(60);

/// The longest output of a call, in bytes.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("git failed: {0}")]
pub struct GitError(pub String);

impl GitError {
    fn late(limit: Duration) -> GitError {
        GitError(format!("{LATE} {} ms", limit.as_millis()))
    }

    /// Whether git did not answer in time, so that asking again would take as long.
    pub(crate) fn is_late(&self) -> bool {
        self.0.starts_with(LATE)
    }
}

const LATE: &str = "it took longer than";

impl From<Foreign> for GitError {
    fn from(foreign: Foreign) -> GitError {
        GitError(foreign.to_string())
    }
}

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

    /// The repository of a checkout; an error outside git.
    pub(crate) fn of_checkout(place: &Place) -> Result<Repository, GitError> {
        Repository::new(place)?.ok_or_else(not_a_checkout)
    }

    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// A call that needs no checkout.
    pub(crate) fn call<'a>(&self) -> Call<'a> {
        Call::new(hardened()).words(&["--git-dir"]).word(&self.common_dir)
    }

    /// A call that sees the configured `commit.gpgSign`.
    pub(crate) fn call_with_signing<'a>(&self) -> Call<'a> {
        let command = with_settings(settings_but("commit.gpgSign="));
        Call::new(command).words(&["--git-dir"]).word(&self.common_dir)
    }

    /// The object that a name such as `main^{tree}` resolves to, if any.
    pub(crate) fn resolve(&self, name: &str) -> Option<String> {
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", name];
        self.call().words(&words).line().ok()
    }
}

fn not_a_checkout() -> GitError {
    GitError("this is not a checkout".to_owned())
}

/// The git dir of a checkout; an error outside git.
pub(crate) fn git_dir_of(place: &Place) -> Result<&Path, GitError> {
    place.git_dir.as_deref().ok_or_else(not_a_checkout)
}

/// Variables that a hook or an alias may have set: the repository, index, objects and configuration of another git command.
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
    // The repository was found by our own rules, which are stricter.
    "safe.bareRepository=all",
];

/// Git with everything off by which a repository could run something or use the network.
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
            // Since git 2.45. Older ones fetch nothing either, since no protocol is allowed.
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
        // A group of its own, so that its children can be killed with it.
        .process_group(0);
    command
}

/// One call of git: where, with which arguments, and its time limit.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    command: Command,
    input: Option<&'a [u8]>,
    limit: Duration,
}

/// How a call ended: its status, and what it printed.
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

    /// A call in a checkout, whose owner is checked first.
    pub(crate) fn at(place: &Place) -> Result<Call<'a>, GitError> {
        place.check_owner()?;
        Ok(Call::in_worktree(&place.root, git_dir_of(place)?))
    }

    /// A call in a worktree whose owner was checked before.
    pub(crate) fn in_worktree(root: &Path, git_dir: &Path) -> Call<'a> {
        let call = Call::new(hardened()).within(root);
        call.words(&["--git-dir"]).word(git_dir).words(&["--work-tree"]).word(root)
    }

    /// A call in a checkout that runs hooks: those in a folder, or as configured.
    pub(crate) fn at_with_hooks(place: &Place, hooks: Option<&Path>) -> Result<Call<'a>, GitError> {
        place.check_owner()?;
        let hooks = hooks.map(|folder| {
            let mut setting = OsString::from("core.hooksPath=");
            setting.push(folder);
            setting
        });
        let command = with_settings(settings_but("core.hooksPath=").chain(hooks));
        Ok(Call::new(command).within(&place.root))
    }

    /// A call in a user's checkout that writes files as the user's own git would: with the user's attributes.
    pub(crate) fn in_checkout(place: &Place) -> Result<Call<'a>, GitError> {
        place.check_owner()?;
        Ok(Call::new(with_settings(settings_but("core.attributesFile="))).within(&place.root))
    }

    /// A call in a folder of onus's own.
    pub(crate) fn scratch(folder: &Path) -> Call<'a> {
        Call::new(hardened()).within(folder)
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

    /// Sets the folder in which git and the programs that it starts run.
    pub(crate) fn within(self, folder: &Path) -> Call<'a> {
        self.words(&["-C"]).word(folder)
    }

    /// Overrides configuration values.
    pub(crate) fn overriding(self, values: &[(String, impl AsRef<OsStr>)]) -> Call<'a> {
        let call = self.env("GIT_CONFIG_COUNT", values.len().to_string());
        values.iter().enumerate().fold(call, |call, (n, (key, value))| {
            call.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value)
        })
    }

    /// Commits in the user's name, now: dates that another git command set are ignored.
    pub(crate) fn by_user(mut self) -> Call<'a> {
        self.command.env_remove("GIT_AUTHOR_DATE").env_remove("GIT_COMMITTER_DATE");
        self
    }

    /// Commits in the name of onus. The ledger records who requested it; git only needs some name.
    pub(crate) fn by_onus(mut self) -> Call<'a> {
        self.command.envs([
            ("GIT_AUTHOR_NAME", "onus"),
            ("GIT_AUTHOR_EMAIL", "onus@localhost"),
            ("GIT_COMMITTER_NAME", "onus"),
            ("GIT_COMMITTER_EMAIL", "onus@localhost"),
        ]);
        self
    }

    /// Sets its standard input.
    pub(crate) fn input(mut self, input: &'a [u8]) -> Call<'a> {
        self.input = Some(input);
        self
    }

    /// Lets git inherit the lock on this file, and keep it if this process dies.
    pub(crate) fn holding(mut self, lock: &File) -> Result<Call<'a>, GitError> {
        let lock = lock.try_clone().map_err(|error| GitError(error.to_string()))?;
        self.command.stdin(Stdio::from(lock));
        Ok(self)
    }

    /// Allows the network, as far as the user's own git does, but never a prompt for a password.
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

    /// Returns what it prints, if it succeeds.
    pub(crate) fn run(self) -> Result<Vec<u8>, GitError> {
        self.start()?.printed()
    }

    /// Returns what it prints as trimmed text, if it succeeds.
    pub(crate) fn line(self) -> Result<String, GitError> {
        self.run().map(|out| String::from_utf8_lossy(&out).trim().to_owned())
    }

    /// Returns how it ended, for calls whose exit status is an answer.
    pub(crate) fn outcome(self) -> Result<Outcome, GitError> {
        self.start()?.outcome()
    }

    /// Starts git, for a caller that has other things to do meanwhile.
    pub(crate) fn start(mut self) -> Result<Running<'a>, GitError> {
        let child = self.spawn()?;
        Ok(Running { call: self, child })
    }

    fn spawn(&mut self) -> Result<Child, GitError> {
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        self.command.spawn().map_err(|error| GitError(error.to_string()))
    }
}

/// A call of git under way. Its time limit counts from when its answer is waited for.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    call: Call<'a>,
    child: Child,
}

impl Running<'_> {
    /// Returns what it prints, if it succeeds.
    pub(crate) fn printed(self) -> Result<Vec<u8>, GitError> {
        let outcome = self.outcome()?;
        if outcome.status.success() { Ok(outcome.out) } else { Err(GitError(outcome.err)) }
    }

    pub(crate) fn outcome(mut self) -> Result<Outcome, GitError> {
        let mut tries = TRIES;
        loop {
            let outcome = wait_for(&mut self.child, self.call.input, self.call.limit)?;
            tries -= 1;
            if tries == 0 || outcome.status.success() || !is_half_made(&outcome.err) {
                return Ok(outcome);
            }
            std::thread::sleep(PAUSE);
            self.child = self.call.spawn()?;
        }
    }
}

/// Retries for a call that met a half-made worktree, and the pause between them: a second in all.
const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// Whether git failed because of a half-made worktree. Git makes a worktree's folder file by file; another git that reads it
/// meanwhile fails, having done nothing.
fn is_half_made(err: &str) -> bool {
    err.contains("failed to read ") && err.contains("/commondir")
}

/// Whether git itself accepts a checkout or bare repository that another user owns.
pub(crate) fn git_trusts(root: &Path) -> bool {
    let mut command = hardened();
    // Git must not search the folders above, and judge another repository.
    command.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root));
    command.arg("-C").arg(root);
    Call::new(command).words(&["rev-parse", "--git-dir"]).run().is_ok()
}

fn wait_for(child: &mut Child, input: Option<&[u8]>, limit: Duration) -> Result<Outcome, GitError> {
    let fail = |error: std::io::Error| GitError(error.to_string());
    let exchanged = exchange(child, input.unwrap_or_default(), Instant::now() + limit);
    if !matches!(exchanged, Ok(Some(_))) {
        end(child);
    }
    let status = child.wait().map_err(fail)?;
    let Some((out, err)) = exchanged.map_err(fail)? else {
        return Err(GitError::late(limit));
    };
    if out.len() > MAX_ANSWER {
        return Err(GitError("its output is too long".to_owned()));
    }
    Ok(Outcome { status, out, err: String::from_utf8_lossy(&err).trim().to_owned() })
}

/// Writes a child's input and reads what it prints and what it complains of, whichever is possible next, until it has closed both
/// outputs. None: the deadline passed. What exceeds [`MAX_ANSWER`] is read and dropped, so that the writer is not stuck.
fn exchange(
    child: &mut Child,
    mut input: &[u8],
    deadline: Instant,
) -> std::io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut stdin = child.stdin.take();
    let mut outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    let mut read = [Vec::new(), Vec::new()];
    for fd in stdin.iter().map(AsFd::as_fd).chain(outputs.iter().flatten().map(AsFd::as_fd)) {
        fcntl_setfl(fd, OFlags::NONBLOCK)?;
    }
    while outputs.iter().any(Option::is_some) {
        let now = Instant::now();
        if now >= deadline {
            return Ok(None);
        }
        let left = Timespec::try_from(deadline - now).map_err(std::io::Error::other)?;
        let reading = outputs.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> =
            reading.chain(stdin.iter().map(|fd| PollFd::new(fd, PollFlags::OUT))).collect();
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(fds);
        if let Some(pipe) = &mut stdin {
            match pipe.write(input) {
                Ok(written) => input = &input[written..],
                Err(error) if is_passing(&error) => {}
                // Git ended before it had read everything: its answer says why.
                Err(_) => input = &[],
            }
            if input.is_empty() {
                stdin = None;
            }
        }
        for (output, read) in outputs.iter_mut().zip(&mut read) {
            if output.as_ref().is_some_and(|fd| !drain(fd, read)) {
                *output = None;
            }
        }
    }
    let [out, err] = read;
    Ok(Some((out, err)))
}

/// Reads all that a pipe has now. Returns whether more may come.
fn drain(pipe: &OwnedFd, bytes: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 * 1024];
    loop {
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                let room = (MAX_ANSWER + 1).saturating_sub(bytes.len());
                bytes.extend(&buffer[..count.min(room)]);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

/// Ends git and what it started: one of them could keep a pipe open for ever.
fn end(child: &Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // It may have ended meanwhile.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// A path, quoted as git reads it in a list of paths.
pub(crate) fn quoted(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut text = "\"".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            0x20..=0x7e => text.push(char::from(*byte)),
            byte => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text + "\""
}

/// The mode of folders that git makes in a shared repository. None if it is not shared beyond the user's umask, or unknown.
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
    // Readers may enter the folders, and new files inside belong to the same group.
    Some(0o2000 | files | (files & 0o444) >> 2)
}
