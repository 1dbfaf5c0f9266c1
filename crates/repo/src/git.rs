//! Running the git program: the one way, for all of onus.
//!
//! **A repository's configuration is not a way in.** Git runs what its configuration names: hooks, a file system
//! monitor, a pager, a command for ssh; and it fetches missing objects from wherever the repository says. So
//! every call switches these off, and reaches no network; the repository was found by the rules of `discover.rs`, and
//! its owner was checked ([`Repository::new`]), since `--git-dir` skips git's own check.
//!
//! Arguments are an argv, never a shell string; anything that is not a constant follows `--end-of-options` or `--`. Every
//! call has a time limit, and a limit on its output.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::discover::Place;
use crate::owner::Foreign;

/// Where seals are anchored: a chain of commits, each with one seal.
pub const SEALS: &str = "refs/onus/seals";

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
        .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts is ended with it.
        .process_group(0);
    command
}

/// Whether git itself would work in a checkout or bare repository that another user owns.
pub(crate) fn calls_safe(root: &Path) -> bool {
    let mut command = hardened();
    // It must not go up and call another one safe.
    command.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root));
    command.arg("-C").arg(root).args(["rev-parse", "--git-dir"]);
    run(command, None, LIMIT).is_ok()
}

fn git(repository: &Repository, args: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, GitError> {
    let mut command = hardened();
    // Who commits an anchor is recorded in the seal; git only needs a name to go on.
    command.arg("--git-dir").arg(&repository.common_dir).args(args).envs([
        ("GIT_AUTHOR_NAME", "onus"),
        ("GIT_AUTHOR_EMAIL", "onus@localhost"),
        ("GIT_COMMITTER_NAME", "onus"),
        ("GIT_COMMITTER_EMAIL", "onus@localhost"),
    ]);
    run(command, input, LIMIT)
}

fn run(mut command: Command, input: Option<&[u8]>, limit: Duration) -> Result<Vec<u8>, GitError> {
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
        if status.success() {
            Ok(out)
        } else {
            Err(GitError(String::from_utf8_lossy(&err).trim().to_owned()))
        }
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

/// Whether each of these files, named from the checkout's root, is in HEAD, in the index and on disk byte for byte the same, or
/// in none of them. What git would only call unchanged (by its time stamps, a filter, a flag in the index) does not count, and
/// no filter is run: whoever asks goes by it when a file is given to another.
pub fn are_committed(place: &Place, files: &[String]) -> Result<Vec<bool>, GitError> {
    place.check_owner().map_err(|foreign| GitError(foreign.to_string()))?;
    let Some(git_dir) = &place.git_dir else { return Err(GitError("this is not a checkout".to_owned())) };
    let git = |args: &[&str], files: &[&str]| {
        let mut command = hardened();
        command.env("GIT_LITERAL_PATHSPECS", "1").arg("-C").arg(&place.root);
        command.arg("--git-dir").arg(git_dir).arg("--work-tree").arg(&place.root);
        command.args(args).arg("--").args(files);
        run(command, None, LOOK_LIMIT)
    };
    let all: Vec<&str> = files.iter().map(String::as_str).collect();
    let head = entries(&git(&["ls-tree", "-z", "--full-tree", "HEAD"], &all)?);
    let index = entries(&git(&["ls-files", "-z", "--stage"], &all)?);
    let is_there = |file: &&&str| place.root.join(file).symlink_metadata().is_ok();
    let (there, absent): (Vec<&str>, Vec<&str>) = all.iter().partition(|file| is_there(file));
    let plain: Vec<&str> =
        there.iter().copied().filter(|file| mode_on_disk(&place.root.join(file)).is_some()).collect();
    let hashes = match plain.is_empty() {
        true => String::new(),
        false => line(git(&["hash-object", "--no-filters"], &plain)?),
    };
    let hashes: BTreeMap<&str, &str> = plain.iter().copied().zip(hashes.lines()).collect();
    let is_committed = |file: &&str| match (head.get(*file), index.get(*file)) {
        (None, None) => absent.contains(file),
        (Some(head), Some(index)) => {
            let on_disk = mode_on_disk(&place.root.join(file)).zip(hashes.get(file));
            on_disk.is_some_and(|(mode, hash)| {
                // `mode type hash` of a tree, `mode hash stage` of the index.
                *head == [format!("{mode} blob {hash}")] && *index == [format!("{mode} {hash} 0")]
            })
        }
        _ => false,
    };
    Ok(all.iter().map(is_committed).collect())
}

/// The longest that somebody who wants a file waits for git to look at it.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// How git records a file of this kind. None: it is a link, a folder, or something else that is not written to.
fn mode_on_disk(path: &Path) -> Option<&'static str> {
    let metadata = path.symlink_metadata().ok().filter(Metadata::is_file)?;
    Some(if metadata.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" })
}

/// What git lists of each path: `WHAT<tab>PATH<nul>`. A path that is a folder there is listed by what is in it, or as a tree.
fn entries(listed: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in listed.split(|byte| *byte == 0) {
        if let Some((what, path)) = String::from_utf8_lossy(entry).split_once('\t') {
            entries.entry(path.to_owned()).or_default().push(what.to_owned());
        }
    }
    entries
}

/// The mode of folders that git makes in this repository. None: it shares them with nobody beyond what the user's mask
/// says, or that cannot be told.
pub fn shared_folder_mode(repository: &Repository) -> Option<u32> {
    let value = line(git(repository, &["config", "--get", "core.sharedRepository"], None).ok()?);
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

fn line(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Keeps files as a new commit on top of `reference`, without touching any checkout or index. Returns the commit.
pub fn anchor(
    repository: &Repository,
    reference: &str,
    files: &[(&str, &str)],
    message: &str,
) -> Result<String, GitError> {
    let mut tree = String::new();
    for (name, content) in files {
        let args = ["hash-object", "-w", "--no-filters", "--stdin"];
        let blob = line(git(repository, &args, Some(content.as_bytes()))?);
        tree.push_str(&format!("100644 blob {blob}\t{name}\n"));
    }
    let tree = line(git(repository, &["mktree"], Some(tree.as_bytes()))?);
    let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", reference];
    let parent = git(repository, &args, None).ok().map(line);
    let mut args = vec!["commit-tree", &tree, "-m", message];
    args.extend(parent.iter().flat_map(|parent| ["-p", parent.as_str()]));
    let commit = line(git(repository, &args, None)?);
    // Compare and swap: a seal that another made meanwhile is not lost.
    let old = parent.unwrap_or_else(|| "0".repeat(commit.len()));
    git(repository, &["update-ref", "--end-of-options", reference, &commit, &old], None)?;
    Ok(commit)
}

/// The commits on `reference`, newest first; none if there is no such reference.
pub fn anchored(repository: &Repository, reference: &str) -> Result<Vec<String>, GitError> {
    let args = ["for-each-ref", "--format=%(refname)", "--end-of-options", reference];
    if line(git(repository, &args, None)?).is_empty() {
        return Ok(Vec::new());
    }
    // A reference whose commits are gone is an error: what was anchored must not vanish silently.
    let out = git(repository, &["rev-list", "--end-of-options", reference, "--"], None)?;
    Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
}

/// What of a worktree differs from its commit: paths from its root, and whether each is there. Ignored files are left out, and what
/// is in submodules.
pub(crate) fn dirty(
    repository: &Repository,
    (root, git_dir): (&Path, &Path),
    limit: Duration,
) -> Result<Vec<(PathBuf, bool)>, GitError> {
    let deadline = Instant::now() + limit;
    let mut command = hardened();
    command.arg("--git-dir").arg(git_dir).arg("--work-tree").arg(root).current_dir(root);
    let filters = filters(repository, limit)?;
    // A program that converts files is not run: whatever it would make of them, they changed.
    command.env("GIT_CONFIG_COUNT", filters.len().to_string());
    for (n, key) in filters.iter().enumerate() {
        let value = if key.ends_with(".required") { "false" } else { "" };
        command.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value);
    }
    command.args(["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"]);
    command.args(["--ignore-submodules=all", "--no-ahead-behind"]);
    let out = run(command, None, deadline.saturating_duration_since(Instant::now()))?;
    let entries = out.split(|byte| *byte == 0).filter_map(|entry| {
        let path = Path::new(OsStr::from_bytes(entry.get(3..)?));
        // A repository inside this one is not ours.
        (!entry.ends_with(b"/")).then(|| (path.to_owned(), root.join(path).symlink_metadata().is_ok()))
    });
    Ok(entries.collect())
}

/// The keys of all programs that convert files.
fn filters(repository: &Repository, limit: Duration) -> Result<Vec<String>, GitError> {
    let mut command = hardened();
    command.arg("--git-dir").arg(&repository.common_dir);
    command.args([
        "config",
        "-z",
        "--name-only",
        "--get-regexp",
        r"^filter\..*\.(clean|process|smudge|required)$",
    ]);
    match run(command, None, limit) {
        Ok(out) => {
            let keys = out.split(|byte| *byte == 0).filter(|key| !key.is_empty());
            Ok(keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect())
        }
        // Without a message: there are none.
        Err(GitError(why)) if why.is_empty() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// One file of a commit.
pub fn show(repository: &Repository, commit: &str, file: &str) -> Result<String, GitError> {
    let out = git(repository, &["cat-file", "blob", "--end-of-options", &format!("{commit}:{file}")], None)?;
    String::from_utf8(out).map_err(|error| GitError(error.to_string()))
}
