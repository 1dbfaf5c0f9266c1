//! Finds what is uncommitted in a worktree, using a copy of its index.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, FileTimes};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::scope::Scope;

use super::spool::{self, Spool};
use super::{LeftOut, What, Why, beneath};
use crate::discover::Place;
use crate::git::{Call, Entry, GitError, Repository, filters, git_dir_of, listed, raw_changes};

/// The longest that git may take to list the filters.
const LIMIT: Duration = Duration::from_secs(60);

/// Up to this many files are named to git; if there are more, git lists all files.
const MOST_NAMED: usize = 500;

/// Git examines every file whose state it does not know for certain, and writes only that one index.
const SETTINGS: [&str; 8] = [
    "core.trustctime=true",
    "core.checkStat=default",
    "core.splitIndex=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.quotePath=false",
    // A rescue survives a power cut.
    "core.fsync=all",
    "core.precomposeUnicode=false",
];

/// What differs from the commit. Paths are bytes, relative to the root.
#[derive(Debug, Default)]
pub(super) struct Dirt {
    /// What is staged; None is a deletion.
    pub(super) staged: BTreeMap<Vec<u8>, Option<Entry>>,
    /// The sides of conflicts, by stage.
    pub(super) stages: BTreeMap<(u8, Vec<u8>), Entry>,
    /// Files that were added with `--intent-to-add` only.
    pub(super) intended: BTreeSet<Vec<u8>>,
    /// Files that may differ from the index on disk.
    pub(super) suspects: BTreeSet<Vec<u8>>,
    /// The index entry of a path, unless it is a conflict.
    pub(super) index: BTreeMap<Vec<u8>, Entry>,
    /// Files on disk that differ from the index. Filled in by [`super::object::spool`].
    pub(super) on_disk: BTreeMap<Vec<u8>, Option<Entry>>,
    pub(super) left_out: Vec<LeftOut>,
}

impl Dirt {
    pub(super) fn is_clean(&self) -> bool {
        self.staged.is_empty()
            && self.stages.is_empty()
            && self.intended.is_empty()
            && self.on_disk.is_empty()
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let staged = self.staged.keys().chain(self.stages.keys().map(|(_, path)| path));
        let all: BTreeSet<&Vec<u8>> = staged.chain(self.intended.iter()).chain(self.on_disk.keys()).collect();
        all.into_iter().map(|path| path_of(path).to_owned()).collect()
    }
}

pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// An examination of one worktree.
pub(super) struct Look<'p> {
    pub(super) place: &'p Place,
    git_dir: &'p Path,
    /// A private folder for the copies of the index and of files.
    pub(super) folder: Spool,
    filters: Vec<String>,
    /// The commit that is checked out. None if nothing was committed yet.
    pub(super) head: Option<String>,
    pub(super) empty_tree: String,
    /// Whether the file system stores which files are executable.
    pub(super) has_modes: bool,
}

impl<'p> Look<'p> {
    pub(super) fn new(place: &'p Place) -> Result<Look<'p>, GitError> {
        let fail = |error: std::io::Error| GitError(error.to_string());
        let (repository, git_dir) = (Repository::of_checkout(place)?, git_dir_of(place)?);
        let ours = repository.common_dir().join("onus");
        let folder = Spool::new(&ours).map_err(fail)?;
        copy_index(&git_dir.join("index"), &folder.path().join("index")).map_err(fail)?;
        let filters = filters(&repository, LIMIT)?;
        let mut look =
            Look { place, git_dir, folder, filters, head: None, empty_tree: String::new(), has_modes: true };
        look.empty_tree =
            look.call().words(&["hash-object", "-t", "tree", "-w", "--stdin"]).input(b"").line()?;
        let head = look.call().words(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).outcome()?;
        let text = String::from_utf8_lossy(&head.out).trim().to_owned();
        look.head = Some(text).filter(|_| head.status.success());
        let modes = ["config", "--type=bool", "--get", "core.fileMode"];
        look.has_modes = look.call().words(&modes).line().ok().as_deref() != Some("false");
        Ok(look)
    }

    /// A call of git in that worktree, with the copy of its index.
    pub(super) fn call<'a>(&self) -> Call<'a> {
        self.call_with("index")
    }

    /// A call of git in that worktree, with another index in the private folder.
    pub(super) fn call_with<'a>(&self, index: &str) -> Call<'a> {
        let call = Call::in_worktree(&self.place.root, self.git_dir).without(&self.filters);
        let call =
            call.env("GIT_INDEX_FILE", self.folder.path().join(index)).env("GIT_LITERAL_PATHSPECS", "1");
        SETTINGS.iter().fold(call, |call, setting| call.words(&["-c", setting]))
    }

    /// What to compare with: the commit, or the empty tree.
    pub(super) fn base(&self) -> &str {
        self.head.as_ref().unwrap_or(&self.empty_tree)
    }

    /// A call of git in that worktree with its own index, which it may write.
    pub(super) fn call_on_own_index<'a>(&self) -> Call<'a> {
        let call = Call::in_worktree(&self.place.root, self.git_dir).without(&self.filters);
        let settings = SETTINGS.iter().filter(|setting| !setting.starts_with("core.splitIndex"));
        let call = call.env("GIT_LITERAL_PATHSPECS", "1");
        settings.fold(call, |call, setting| call.words(&["-c", setting]))
    }

    /// The null object, in the repository's hash length.
    pub(super) fn no_object(&self) -> String {
        "0".repeat(self.empty_tree.len())
    }

    pub(super) fn uncommitted(&self, what: What<'_>) -> Result<Dirt, GitError> {
        let named = named(what);
        let ask = |words: &[&str]| {
            let call = self.call().words(words).words(&["--"]);
            named.iter().flatten().fold(call, |call, name| call.word(name)).run()
        };
        let wanted = |path: &[u8]| is_wanted(what, path);
        let mut dirt = Dirt::default();
        // Without the last option, a file added with `--intent-to-add` would look like a staged empty file.
        let raw = ["--raw", "-z", "--no-renames", "--no-abbrev", "--ita-invisible-in-index"];
        let staged =
            ask(
                &[&["diff-index", "--cached", "--ignore-submodules=none"], &raw[..], &[self.base()]].concat()
            )?;
        for change in raw_changes(&staged).filter(|change| wanted(change.path)) {
            // A conflict has no single content in the index; its sides are listed below.
            if change.status != b'U' {
                dirt.staged.insert(change.path.to_vec(), change.new);
            }
        }
        for (words, path) in listed(&ask(&["ls-files", "-z", "-s", "-v"])?).filter(|(_, path)| wanted(path)) {
            let [tag, mode, object, stage] = words[..] else { continue };
            let (entry, path) = (Entry::new(mode, object), path.to_vec());
            match stage.parse() {
                Ok(0) => {
                    // Flagged files may differ, although git was told to skip them. A file that is not checked out is absent.
                    let is_sparse = tag.eq_ignore_ascii_case("S");
                    let is_there = || {
                        beneath::kind(&self.place.root, path_of(&path))
                            .is_ok_and(|kind| kind != beneath::Kind::Absent)
                    };
                    let is_flagged = tag.starts_with(|tag: char| tag.is_ascii_lowercase());
                    if !entry.is_submodule() && (is_flagged && !is_sparse || is_sparse && is_there()) {
                        dirt.suspects.insert(path.clone());
                    }
                    dirt.index.insert(path, entry);
                }
                Ok(stage) => drop(dirt.stages.insert((stage, path), entry)),
                Err(_) => {}
            }
        }
        let on_disk = ask(&[&["diff-files", "--ignore-submodules=all"], &raw[..]].concat())?;
        for change in raw_changes(&on_disk).filter(|change| wanted(change.path)) {
            if change.status == b'A' {
                dirt.intended.insert(change.path.to_vec());
                dirt.index.remove(change.path);
            }
            dirt.suspects.insert(change.path.to_vec());
        }
        let others = ask(&["ls-files", "-z", "--others", "--exclude-standard"])?;
        for path in others.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            match path.strip_suffix(b"/") {
                // Git lists a nested repository by its folder alone.
                Some(folder) if is_near(what, folder) => dirt
                    .left_out
                    .push(LeftOut { path: path_of(folder).to_owned(), why: Why::NestedRepository }),
                Some(_) => {}
                None if wanted(path) => drop(dirt.suspects.insert(path.to_vec())),
                None => {}
            }
        }
        Ok(dirt)
    }
}

/// The names of the wanted files, if the scope consists of a few single files.
fn named(what: What<'_>) -> Option<Vec<String>> {
    let What::Scope(scope) = what else { return None };
    let names: Option<Vec<String>> =
        scope.globs().iter().map(|glob| glob.path().map(str::to_owned)).collect();
    names.filter(|names| !names.is_empty() && names.len() <= MOST_NAMED)
}

fn is_wanted(what: What<'_>, path: &[u8]) -> bool {
    match what {
        What::All => true,
        // A name that is not UTF-8 is reserved by its lossy form.
        What::Scope(scope) => scope.covers(&String::from_utf8_lossy(path)),
    }
}

/// Whether something in a folder may be wanted.
fn is_near(what: What<'_>, folder: &[u8]) -> bool {
    let below = |scope: &Scope| {
        let folder = format!("{}/", String::from_utf8_lossy(folder));
        scope
            .globs()
            .iter()
            .any(|glob| glob.anchor().starts_with(&folder) || folder.starts_with(glob.anchor()))
    };
    match what {
        What::All => true,
        What::Scope(scope) => below(scope),
    }
}

/// Copies the index with its time, which tells git which files it must compare by content.
fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut index = match File::open(from) {
        Ok(index) => index,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let modified = index.metadata()?.modified()?;
    let mut copy = spool::create(to)?;
    std::io::copy(&mut index, &mut copy)?;
    copy.set_times(FileTimes::new().set_modified(modified))
}
