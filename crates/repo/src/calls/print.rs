//! A fingerprint of a file, so that a change is noticed without reading the file again.
//!
//! Size, times and inode show most changes without opening anything. Two cases need the content: a write within the same tick of the
//! file system's clock, and one that leaves the content as it was. So the digest of a small file is kept, too.

use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::files::open;

/// The largest file whose content is compared.
const MAX_CONTENT: u64 = 1 << 20;

/// How far a file system's clock may be behind.
pub(crate) const TICK_MS: i64 = 10;

/// The file system's metadata, the content's digest, and whether a later change might not show in the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Print(Option<Stat>, Option<u64>, bool);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stat(u32, u64, i64, i64, u64);

impl Stat {
    fn of(metadata: &Metadata) -> Stat {
        let ns = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
        Stat(
            // Only the file type: permissions are not content.
            metadata.mode() & 0o170_000,
            metadata.size(),
            ns(metadata.mtime(), metadata.mtime_nsec()),
            ns(metadata.ctime(), metadata.ctime_nsec()),
            metadata.ino(),
        )
    }
}

impl Print {
    pub(super) fn take(path: &Path, now_ms: i64) -> Print {
        let Some(metadata) = path.symlink_metadata().ok() else { return Print::default() };
        let stat = Stat::of(&metadata);
        let is_read = metadata.is_file() && metadata.len() <= MAX_CONTENT;
        let digest = is_read.then(|| digest(path)).flatten();
        Print(Some(stat), digest, stat.3 / 1_000_000 + TICK_MS >= now_ms)
    }

    /// Takes the current fingerprint. Returns whether the content changed.
    pub(super) fn changed(&mut self, path: &Path, now_ms: i64) -> bool {
        let Print(stat, digest, is_racy) = self;
        let now = path.symlink_metadata().ok().map(|metadata| Stat::of(&metadata));
        if now == *stat && !(*is_racy && digest.is_some()) {
            return false;
        }
        let new = Print::take(path, now_ms);
        let is_same = match (digest.as_ref(), new.1.as_ref()) {
            (Some(old), Some(new)) => old == new,
            _ => *stat == new.0,
        };
        *self = new;
        !is_same
    }
}

fn digest(path: &Path) -> Option<u64> {
    let (file, _) = open(path, OFlags::NOFOLLOW).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_CONTENT + 1).read_to_end(&mut bytes).ok()?;
    Sha256::digest(&bytes).first_chunk().map(|first| u64::from_le_bytes(*first))
}
