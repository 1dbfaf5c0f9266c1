//! Records what the user agreed to for a clone, where a repository cannot write: in the user's own state folder, one
//! file per consent, named by the hash of its content, readable only by the user. It is bound to the clone's own folder:
//! a new folder at the same path is another clone.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use onus_core::chain::write_canonical;
use onus_core::text::hex;
use rustix::fs::OFlags;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::files::{if_there, open, private_folder, replace};

/// What the user agreed to in a clone.
#[derive(Clone, Debug)]
pub struct Consents {
    folder: PathBuf,
    clone: Value,
}

impl Consents {
    /// `state` is the user's state folder, `to` the kind of consent, `clone` the common git dir of all the clone's worktrees, or
    /// outside git the folder itself.
    pub fn of(state: &Path, to: &str, clone: &Path) -> io::Result<Consents> {
        let real = clone.canonicalize()?;
        let folder = real.metadata()?;
        let born = folder.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let clone = json!({
            "path": hex(real.as_os_str().as_encoded_bytes()),
            "inode": folder.ino(),
            "born_ns": born.map(|born| born.as_nanos().to_string()),
        });
        Ok(Consents { folder: state.join(to), clone })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path and content of a consent's file.
    pub(crate) fn record(&self, about: &Value) -> (PathBuf, String) {
        let text = canonical(&json!({ "clone": self.clone, "about": about }));
        (self.folder.join(hash(&text)), text)
    }

    pub fn is_given(&self, about: &Value) -> bool {
        let (path, text) = self.record(about);
        read_own(&path, text.len()).is_some_and(|kept| kept == text.as_bytes())
    }

    pub fn give(&self, about: &Value) -> io::Result<()> {
        let (path, text) = self.record(about);
        private_folder(&self.folder)?;
        replace(&path, &self.folder, text.as_bytes(), 0o600)
    }

    /// Takes a consent back; succeeds if there is none.
    pub fn take_back(&self, about: &Value) -> io::Result<()> {
        if_there(std::fs::remove_file(self.record(about).0))
    }
}

pub(crate) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

pub(crate) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Reads at most `max` + 1 bytes of a regular file that belongs to the user and that nobody else may write.
fn read_own(path: &Path, max: usize) -> Option<Vec<u8>> {
    let (file, meta) = open(path, OFlags::NOFOLLOW).ok()?;
    let own = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
    let mut bytes = Vec::new();
    own.then(|| file.take(max as u64 + 1).read_to_end(&mut bytes).ok())??;
    Some(bytes)
}
