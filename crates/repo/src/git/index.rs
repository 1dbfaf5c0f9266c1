//! The tree that an index stands for, read from the index file.
//!
//! Git keeps the ids of trees in its index (the extension `TREE`), and writes them before it runs a commit's last hooks. Git itself
//! would parse every entry to get there: half of what a hook costs in a repository of 50,000 files. The extensions are at the end of
//! the file, so they are looked for from there, and the entries are not read at all. The format is git's own, documented and stable
//! (gitformat-index).
//!
//! **This is a shortcut, never an authority.** Where the extensions begin is not written in the file. What is taken for `TREE` has to
//! be one in every byte: the extensions after it end where the file does, its trees fill it to the last byte, and the first of
//! them covers as many entries as the index has. Whatever is not so (an index that is split or sparse, another hash, a tree that the
//! index does not have whole) gives no answer, and then git is asked to read the index.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes of an object's id, and of the checksum at the end. An index with longer ones is not understood.
const ID: usize = 20;

/// How much of the file's end is read at first. The trees of some thousand folders are in it.
const END: u64 = 128 * 1024;

/// No extensions that are read are larger.
const MAX_END: u64 = 16 * 1024 * 1024;

/// The id of the tree that would be written from this index, if the index has it.
pub(super) fn tree_of(index: &Path) -> Option<String> {
    tree_from(index, END)
}

/// The same, with how much of the file's end is read at first.
fn tree_from(index: &Path, mut size: u64) -> Option<String> {
    let mut file = File::open(index).ok()?;
    let mut header = [0; 12];
    file.read_exact(&mut header).ok()?;
    let version = u32::from_be_bytes(header[4..8].try_into().ok()?);
    let entries = u32::from_be_bytes(header[8..].try_into().ok()?);
    if &header[..4] != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let length = file.metadata().ok()?.len();
    let mut end = Vec::new();
    loop {
        let start = length.saturating_sub(size).max(header.len() as u64);
        end.clear();
        file.seek(SeekFrom::Start(start)).ok()?;
        (&file).take(size).read_to_end(&mut end).ok()?;
        match tree_in(&end, entries) {
            None if start > header.len() as u64 && size < MAX_END => size *= 8,
            found => return found,
        }
    }
}

/// The tree of the whole index, from the end of its file.
fn tree_in(end: &[u8], entries: u32) -> Option<String> {
    let extensions = end.get(..end.len().checked_sub(ID)?)?;
    let at = |start: usize| extension(&extensions[start..]).filter(|(name, _, _)| name == b"TREE");
    let starts = (0..extensions.len().saturating_sub(8)).rev().filter(|start| extensions[*start] == b'T');
    starts
        .filter_map(at)
        .filter(|(_, _, after)| are_extensions(after))
        .find_map(|(_, trees, _)| root(trees, entries))
}

/// Splits an extension off: its name, what it says, and what follows.
fn extension(bytes: &[u8]) -> Option<([u8; 4], &[u8], &[u8])> {
    let (header, after) = bytes.split_first_chunk::<8>()?;
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let (data, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
    Some(([header[0], header[1], header[2], header[3]], data, after))
}

/// Whether these are extensions to the end, and none that changes what the entries mean: those have names with small letters.
fn are_extensions(mut bytes: &[u8]) -> bool {
    while let Some((name, _, after)) = extension(bytes) {
        if !name.iter().all(u8::is_ascii_uppercase) {
            return false;
        }
        bytes = after;
    }
    bytes.is_empty()
}

/// The tree of the whole index: the first of the trees, which has no name. Only one that covers every entry is valid.
fn root(trees: &[u8], entries: u32) -> Option<String> {
    let mut left = trees;
    let (root, mut unread) = tree(&mut left).filter(|(root, _)| root.name.is_empty())?;
    while unread > 0 {
        let (_, below) = tree(&mut left)?;
        unread = (unread - 1).checked_add(below)?;
    }
    let is_whole = left.is_empty() && root.covered == Some(entries);
    root.id.filter(|_| is_whole).map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A tree of the extension `TREE`. One that the index does not have whole covers nothing that is known, and has no id.
struct Tree<'a> {
    name: &'a [u8],
    covered: Option<u32>,
    id: Option<&'a [u8]>,
}

/// Splits a tree off, `NAME<nul>COVERED SUBTREES<newline>ID`, and returns it with the number of its subtrees, which follow.
fn tree<'a>(left: &mut &'a [u8]) -> Option<(Tree<'a>, usize)> {
    let nul = left.iter().position(|byte| *byte == 0)?;
    let (name, after) = (&left[..nul], &left[nul + 1..]);
    let newline = after.iter().position(|byte| *byte == b'\n')?;
    let (covered, below) = std::str::from_utf8(&after[..newline]).ok()?.split_once(' ')?;
    let covered: i64 = covered.parse().ok()?;
    let (id, rest) = match covered >= 0 {
        true => after[newline + 1..].split_at_checked(ID).map(|(id, rest)| (Some(id), rest))?,
        false => (None, &after[newline + 1..]),
    };
    *left = rest;
    Some((Tree { name, covered: covered.try_into().ok(), id }, below.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::super::Call;
    use super::*;

    /// A repository whose index is in one of git's formats.
    fn repository(settings: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| Call::scratch(folder.path()).words(words).run().unwrap();
        git(&[&["init", "-q"], settings].concat());
        folder
    }

    fn git(folder: &Path, words: &[&str]) -> String {
        Call::scratch(folder).words(words).by_onus().line().unwrap()
    }

    /// As git leaves the index for a commit's hooks. Writing the tree brings the index's own up to date.
    fn tree_by_git(folder: &Path) -> String {
        let tree = git(folder, &["write-tree"]);
        git(folder, &["read-tree", &tree]);
        tree
    }

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn the_tree_is_the_one_that_git_would_commit(
            version in prop::sample::select(vec!["2", "4"]),
            is_extended in any::<bool>(),
            names in prop::collection::btree_set("([a-c]{1,3}/|TREE/){0,3}(x|TREE)[a-zTREäé ]{1,40}", 1..40),
            size in prop::sample::select(vec![1, 30, 300, END]),
        ) {
            let folder = repository(&[]);
            for name in &names {
                write(folder.path(), name, name);
            }
            git(folder.path(), &["add", "."]);
            git(folder.path(), &["update-index", "--index-version", version]);
            let tree = tree_by_git(folder.path());
            if is_extended {
                git(folder.path(), &["update-index", "--skip-worktree", names.iter().next().unwrap()]);
                // That makes the index forget its trees, and this remember them.
                git(folder.path(), &["write-tree"]);
            }
            prop_assert_eq!(tree_from(&folder.path().join(".git/index"), size), Some(tree));
        }
    }

    #[test]
    fn a_long_name_is_no_obstacle() {
        for version in ["2", "4"] {
            let folder = repository(&[]);
            let long = format!("{}/{}", vec!["d".repeat(200); 25].join("/"), "x");
            let blob = git(folder.path(), &["hash-object", "-w", "-t", "blob", "/dev/null"]);
            for name in ["a", &long, "z"] {
                git(
                    folder.path(),
                    &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{name}")],
                );
            }
            git(folder.path(), &["update-index", "--index-version", version]);
            let tree = tree_by_git(folder.path());
            assert_eq!(tree_of(&folder.path().join(".git/index")), Some(tree), "{version}");
        }
    }

    #[test]
    fn what_the_index_does_not_have_is_left_to_git() {
        let folder = repository(&[]);
        let index = folder.path().join(".git/index");
        assert_eq!(tree_of(&index), None, "no index");
        write(folder.path(), "a/b", "1");
        write(folder.path(), "c", "1");
        git(folder.path(), &["add", "."]);
        assert_eq!(tree_of(&index), None, "no tree yet");
        let tree = tree_by_git(folder.path());
        assert_eq!(tree_of(&index), Some(tree));
        write(folder.path(), "a/b", "2");
        git(folder.path(), &["add", "."]);
        assert_eq!(tree_of(&index), None, "a tree of before");
        tree_by_git(folder.path());
        write(folder.path(), "later", "");
        git(folder.path(), &["add", "--intent-to-add", "later"]);
        assert_eq!(tree_of(&index), None, "an entry that is in no tree");
        git(folder.path(), &["rm", "-q", "--cached", "later"]);
        tree_by_git(folder.path());
        assert!(tree_of(&index).is_some());
        git(folder.path(), &["update-index", "--split-index"]);
        assert_eq!(tree_of(&index), None, "a split index");
        git(folder.path(), &["update-index", "--no-split-index"]);
        tree_by_git(folder.path());
        let whole = fs::read(&index).unwrap();
        for cut in 1..whole.len().min(200) {
            fs::write(&index, &whole[..whole.len() - cut]).unwrap();
            assert_eq!(tree_of(&index), None, "cut by {cut}");
        }
        for at in 0..12 {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            fs::write(&index, changed).unwrap();
            assert_eq!(tree_of(&index), None, "changed at {at}");
        }
    }

    #[test]
    fn longer_ids_are_left_to_git() {
        let folder = repository(&["--object-format=sha256"]);
        for n in 0..20 {
            write(folder.path(), &format!("d{n}/f"), &n.to_string());
        }
        git(folder.path(), &["add", "."]);
        tree_by_git(folder.path());
        assert_eq!(tree_of(&folder.path().join(".git/index")), None);
    }
}
