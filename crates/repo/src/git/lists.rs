//! Reads what git lists about files with `-z`. Paths are bytes.

use std::collections::BTreeMap;

/// How git records a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: String,
    pub(crate) object: String,
}

impl Entry {
    pub(crate) fn new(mode: &str, object: &str) -> Entry {
        Entry { mode: mode.to_owned(), object: object.to_owned() }
    }

    pub(crate) fn is_submodule(&self) -> bool {
        self.mode == "160000"
    }
}

/// A changed path, and what each side has there.
pub(crate) struct RawChange<'a> {
    pub(crate) old: Option<Entry>,
    pub(crate) new: Option<Entry>,
    pub(crate) status: u8,
    pub(crate) path: &'a [u8],
}

/// `:MODE MODE OBJECT OBJECT STATUS<nul>PATH<nul>`, as `--raw` prints it.
pub(crate) fn raw_changes(out: &[u8]) -> impl Iterator<Item = RawChange<'_>> {
    let mut fields = out.split(|byte| *byte == 0);
    let side = |mode: &str, object: &str| (mode != "000000").then(|| Entry::new(mode, object));
    std::iter::from_fn(move || {
        let head = std::str::from_utf8(fields.next()?.strip_prefix(b":")?).ok()?;
        let [was, is, old, new, status] = head.split(' ').collect::<Vec<&str>>()[..] else { return None };
        let (old, new) = (side(was, old), side(is, new));
        Some(RawChange { old, new, status: *status.as_bytes().first()?, path: fields.next()? })
    })
}

/// `WORD WORD …<tab>PATH<nul>`: the words, and the path.
pub(crate) fn listed(out: &[u8]) -> impl Iterator<Item = (Vec<&str>, &[u8])> {
    out.split(|byte| *byte == 0).filter_map(|line| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let words = std::str::from_utf8(&line[..tab]).ok()?.split_ascii_whitespace();
        Some((words.collect(), &line[tab + 1..]))
    })
}

/// The input of `update-index -z --index-info`. Removals come first, since a file may have become a folder.
pub(crate) fn index_info(entries: &BTreeMap<Vec<u8>, Option<Entry>>, no_object: &str) -> Vec<u8> {
    let line = |head: String, path: &[u8]| [head.as_bytes(), b"\t", path, b"\0"].concat();
    let removed = entries.iter().filter(|(_, entry)| entry.is_none());
    let removed = removed.map(|(path, _)| line(format!("0 {no_object} 0"), path));
    let added = entries.iter().filter_map(|(path, entry)| {
        entry.as_ref().map(|entry| line(format!("{} {} 0", entry.mode, entry.object), path))
    });
    removed.chain(added).flatten().collect()
}
