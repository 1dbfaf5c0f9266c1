//! The tree that an index stands for, read from the index file.
//!
//! Git keeps the ids of trees in its index (the extension `TREE`), and writes them before it runs a commit's last hooks. Git itself
//! would parse every entry to get there: half of what a hook costs in a repository of 50,000 files. Skipping the entries takes a fifth
//! of that. The format is git's own, documented and stable (gitformat-index).
//!
//! **This is a shortcut, never an authority.** Whatever is not as expected (an index that is split or sparse, another hash, a tree
//! that the index does not have whole) gives no answer, and then git is asked to read the index.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of an object's id, and of the checksum at the end. An index with longer ones is not understood.
const ID: usize = 20;

/// Bytes of an entry before its name.
const FIXED: usize = 42 + ID;

/// In an entry's flags: two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;

/// In an entry's flags: how long its name is, or that it is longer than this can say.
const NAME_LENGTH: u16 = 0x0fff;

/// No extensions that are read are larger.
const MAX_EXTENSIONS: u64 = 64 * 1024 * 1024;

/// The id of the tree that would be written from this index, if the index has it.
pub(super) fn tree_of(index: &Path) -> Option<String> {
    let mut file = BufReader::with_capacity(64 * 1024, File::open(index).ok()?);
    let header: [u8; 12] = take(&mut file)?;
    let version = u32::from_be_bytes(header[4..8].try_into().ok()?);
    let entries = u32::from_be_bytes(header[8..].try_into().ok()?);
    if &header[..4] != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    for _ in 0..entries {
        skip_entry(&mut file, version)?;
    }
    let mut rest = Vec::new();
    file.take(MAX_EXTENSIONS).read_to_end(&mut rest).ok()?;
    root(extensions(&rest)?, entries)
}

fn take<const N: usize>(file: &mut impl Read) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes).ok().map(|()| bytes)
}

fn skip_entry(file: &mut BufReader<File>, version: u32) -> Option<()> {
    let fixed: [u8; FIXED] = take(file)?;
    let flags = u16::from_be_bytes([fixed[FIXED - 2], fixed[FIXED - 1]]);
    let mut before_name = FIXED;
    if flags & EXTENDED != 0 {
        take::<2>(file)?;
        before_name += 2;
    }
    if version == 4 {
        // How much of the previous name is repeated, seven bits per byte; then the rest of the name.
        while take::<1>(file)?[0] & 0x80 != 0 {}
        return file.skip_until(0).ok().map(drop);
    }
    let (name, read) = match flags & NAME_LENGTH {
        NAME_LENGTH => {
            let read = file.skip_until(0).ok()?;
            (read.checked_sub(1)?, read)
        }
        name => (usize::from(name), 0),
    };
    // One to eight zeros end an entry, at a multiple of eight.
    let length = (before_name + name + 8) & !7;
    file.seek_relative(i64::try_from(length - before_name - read).ok()?).ok()
}

/// What the extension `TREE` says. None: there is none, or there are others that change what the entries mean.
fn extensions(rest: &[u8]) -> Option<&[u8]> {
    let mut left = rest.get(..rest.len().checked_sub(ID)?)?;
    let mut tree = None;
    while let Some((header, after)) = left.split_first_chunk::<8>() {
        let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let (data, next) = after.split_at_checked(usize::try_from(length).ok()?)?;
        match &header[..4] {
            b"TREE" => tree = Some(data),
            // Those with small letters must be understood: a split or a sparse index.
            name if !name.first().is_some_and(u8::is_ascii_uppercase) => return None,
            _ => {}
        }
        left = next;
    }
    tree.filter(|_| left.is_empty())
}

/// The tree of the whole index: the first of the trees, which has no name. Only one that covers every entry is valid.
fn root(trees: &[u8], entries: u32) -> Option<String> {
    let after_name = trees.strip_prefix(b"\0")?;
    let end = after_name.iter().position(|byte| *byte == b'\n')?;
    let (covered, _) = std::str::from_utf8(&after_name[..end]).ok()?.split_once(' ')?;
    let id = after_name.get(end + 1..end + 1 + ID)?;
    (covered.parse() == Ok(entries)).then(|| id.iter().map(|byte| format!("{byte:02x}")).collect())
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
            names in prop::collection::btree_set("([a-c]{1,3}/){0,3}x[a-zäé ]{1,40}", 1..40),
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
            prop_assert_eq!(tree_of(&folder.path().join(".git/index")), Some(tree));
        }
    }

    #[test]
    fn a_name_that_its_flags_cannot_measure_is_skipped() {
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
