//! Running the git program. Arguments are an argv, never a shell string.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where seals are anchored: a chain of commits, each with one seal.
pub const SEALS: &str = "refs/onus/seals";

#[derive(Debug)]
pub struct GitError(pub String);

impl std::fmt::Display for GitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "git failed: {}", self.0)
    }
}

impl std::error::Error for GitError {}

/// What a hook or an alias may have set: the repository, index and objects of somebody else's errand.
const ELSEWHERE: [&str; 10] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
];

fn git(common_dir: &Path, args: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, GitError> {
    let mut command = Command::new("git");
    // Who commits an anchor is recorded in the seal; git only needs a name to go on.
    command
        .arg("--git-dir")
        .arg(common_dir)
        .args(args)
        .envs([
            ("GIT_AUTHOR_NAME", "onus"),
            ("GIT_AUTHOR_EMAIL", "onus@localhost"),
            ("GIT_COMMITTER_NAME", "onus"),
            ("GIT_COMMITTER_EMAIL", "onus@localhost"),
        ])
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in ELSEWHERE {
        command.env_remove(name);
    }
    let fail = |error: std::io::Error| GitError(error.to_string());
    let mut child = command.spawn().map_err(fail)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(input).map_err(fail)?;
    }
    let output = child.wait_with_output().map_err(fail)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(GitError(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn line(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Keeps files as a new commit on top of `reference`, without touching any checkout or index. Returns the commit.
pub fn anchor(
    common_dir: &Path,
    reference: &str,
    files: &[(&str, &str)],
    message: &str,
) -> Result<String, GitError> {
    let mut tree = String::new();
    for (name, content) in files {
        let blob = line(git(common_dir, &["hash-object", "-w", "--stdin"], Some(content.as_bytes()))?);
        tree.push_str(&format!("100644 blob {blob}\t{name}\n"));
    }
    let tree = line(git(common_dir, &["mktree"], Some(tree.as_bytes()))?);
    let parent = git(common_dir, &["rev-parse", "--verify", "--quiet", reference], None).ok().map(line);
    let mut args = vec!["-c", "commit.gpgsign=false", "commit-tree", &tree, "-m", message];
    args.extend(parent.iter().flat_map(|parent| ["-p", parent.as_str()]));
    let commit = line(git(common_dir, &args, None)?);
    // Compare and swap: a seal that another made meanwhile is not lost.
    let old = parent.unwrap_or_else(|| "0".repeat(commit.len()));
    git(common_dir, &["update-ref", reference, &commit, &old], None)?;
    Ok(commit)
}

/// The commits on `reference`, newest first; none if there is no such reference.
pub fn anchored(common_dir: &Path, reference: &str) -> Result<Vec<String>, GitError> {
    let known = line(git(common_dir, &["for-each-ref", "--format=%(refname)", reference], None)?);
    if known.is_empty() {
        return Ok(Vec::new());
    }
    // A reference whose commits are gone is an error: what was anchored must not vanish silently.
    let out = git(common_dir, &["rev-list", reference, "--"], None)?;
    Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
}

/// One file of a commit.
pub fn show(common_dir: &Path, commit: &str, file: &str) -> Result<String, GitError> {
    let out = git(common_dir, &["cat-file", "blob", &format!("{commit}:{file}")], None)?;
    String::from_utf8(out).map_err(|error| GitError(error.to_string()))
}
