//! Anchors: how a store finds the few globs that a new one can overlap, without looking at the others.
//!
//! A glob's anchor is the part of it that is the same for every path it matches: the folders before its first
//! special character, with their `/` (`src/auth/` of `src/auth/*.rs`, nothing of `**/*.rs`), or the whole path if
//! it has no special character. **Two globs can match a common path only if their anchors meet:** they are
//! equal, or one is a folder (or nothing) that the other begins with.
//!
//! Braces allow several such parts. `each` follows them: `{src,tests}/auth/*.rs` has the anchors `src/auth/` and
//! `tests/auth/`. Every path it matches begins with one of them, and the glob has a row in the index for each.
//!
//! So, in an index of anchors in byte order, everything that can meet a glob lies
//!
//! - from each of its own anchors up to [`range_end`], exclusive: one range;
//! - at each of their [`ancestors`]: as many point look-ups as the anchor has folders.

use super::pattern::{Pattern, Step};

/// The most anchors that a glob may have. A glob with more ways through its braces keeps only the anchor before them.
pub const MAX_ANCHORS: usize = 16;

/// The most bytes of an anchor that a store indexes: servers limit the size of index entries.
pub const MAX_ANCHOR_BYTES: usize = 1024;

/// An anchor short enough to be indexed: the path itself, or the deepest folder above it that is short enough. A folder above
/// an anchor is also an anchor, only less selective.
pub(super) fn bounded(path: &str) -> &str {
    if path.len() <= MAX_ANCHOR_BYTES {
        return path;
    }
    let within = |(at, _): &(usize, &str)| *at < MAX_ANCHOR_BYTES;
    path.match_indices('/').take_while(within).last().map_or("", |(at, _)| &path[..=at])
}

/// Whether globs with these anchors can match a common path.
pub fn meet(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.starts_with(short) && (short.len() == long.len() || is_folder(short))
}

/// The anchors above this one, the shortest first: `""`, `src/`, `src/auth/` for `src/auth/login.rs`.
pub fn ancestors(anchor: &str) -> impl Iterator<Item = &str> {
    let folders = anchor.match_indices('/').map(|(at, _)| &anchor[..=at]);
    std::iter::once("").chain(folders).filter(move |above| above.len() < anchor.len())
}

/// Where the anchors end that meet this one and are not above it. `None`: at the end of the index.
pub fn range_end(anchor: &str) -> Option<String> {
    match anchor.strip_suffix('/') {
        // The character after `/`.
        Some(folder) => Some(format!("{folder}0")),
        None if anchor.is_empty() => None,
        None => Some(format!("{anchor}\0")),
    }
}

/// The anchors of a pattern that follows `base`, sorted, none above another.
pub(super) fn each(base: &str, pattern: &Pattern) -> Vec<String> {
    let mut anchors = Vec::new();
    let mut ways = vec![(0, base.to_owned())];
    while let Some((mut at, mut read)) = ways.pop() {
        loop {
            match pattern.step(at) {
                Step::Char(c) => {
                    read.push(c);
                    at += 1;
                }
                Step::Jump(there) => at = there,
                Step::Fork(there) => {
                    ways.push((there, read.clone()));
                    at += 1;
                }
                Step::End => break,
                Step::One | Step::Class(_) | Step::Run | Step::Deep | Step::Folders => {
                    read.truncate(read.rfind('/').map_or(0, |slash| slash + 1));
                    break;
                }
            }
            if ways.len() + anchors.len() >= MAX_ANCHORS {
                return vec![base.to_owned()];
            }
        }
        anchors.push(read);
    }
    anchors.sort_unstable();
    anchors.dedup_by(|below, above| meet(above, below));
    anchors
}

fn is_folder(anchor: &str) -> bool {
    anchor.is_empty() || anchor.ends_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_meets_what_is_in_it_and_what_it_is_in() {
        for (one, other, answer) in [
            ("", "", true),
            ("", "src/", true),
            ("src/", "src/auth/", true),
            ("src/", "src/a.rs", true),
            ("src/a.rs", "src/a.rs", true),
            ("src/a", "src/a/", false),
            ("src/a", "src/ab", false),
            ("src/a/", "src/b/", false),
            ("src", "src/", false),
        ] {
            assert_eq!(meet(one, other), answer, "{one} × {other}");
            assert_eq!(meet(other, one), answer, "{other} × {one}");
        }
    }

    #[test]
    fn a_long_path_is_indexed_by_the_deepest_folder_that_is_short_enough() {
        let folder = format!("{}/", "d".repeat(MAX_ANCHOR_BYTES - 1));
        assert_eq!(bounded(&folder), folder);
        assert_eq!(bounded(&format!("{folder}x")), folder);
        assert_eq!(bounded(&format!("a/{folder}x")), "a/");
        assert_eq!(bounded(&"é".repeat(MAX_ANCHOR_BYTES)), "");
    }

    #[test]
    fn ancestors_are_the_folders_above() {
        let of = |anchor| ancestors(anchor).collect::<Vec<_>>();
        assert_eq!(of(""), Vec::<&str>::new());
        assert_eq!(of("a"), [""]);
        assert_eq!(of("src/"), [""]);
        assert_eq!(of("src/auth/"), ["", "src/"]);
        assert_eq!(of("src/auth/login.rs"), ["", "src/", "src/auth/"]);
    }

    #[test]
    fn an_index_finds_exactly_the_anchors_that_meet() {
        let index = ["", "a", "a/", "a/b", "a/b/", "a/b/c", "a0", "ab", "ab/", "a/\u{10ffff}", "b/", "é/x"];
        for mine in index {
            for row in index {
                let in_range = row >= mine && range_end(mine).is_none_or(|end| row < end.as_str());
                let found = in_range || ancestors(mine).any(|above| above == row);
                assert_eq!(found, meet(mine, row), "{mine} finds {row}");
            }
        }
    }
}
