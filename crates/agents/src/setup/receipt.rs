//! Records a file as it was before it was written, so that it can be restored. One receipt per file, readable only by its user.

use std::fs;
use std::path::{Path, PathBuf};

use onus_core::refusal::Refusal;
use onus_core::text::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::files;

/// A text can grow sixfold when it is escaped.
const MAX_BYTES: u64 = 8 * files::MAX_BYTES;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) path: String,
    /// None if it did not exist.
    pub(super) before: Option<String>,
    /// The hash of the text that was written.
    pub(super) after: String,
    /// The agents whose entries are in it.
    pub(super) agents: Vec<String>,
    /// The folders that were made for it, outermost first.
    pub(super) made: Vec<PathBuf>,
}

pub(super) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn place(folder: &Path, real: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let name = hex(&Sha256::digest(real.as_os_str().as_bytes())[..16]);
    folder.join(format!("{name}.json"))
}

/// The receipt of a file. An unreadable one counts as missing: entries can be removed by their content.
pub(super) fn load(folder: &Path, real: &Path) -> Option<Receipt> {
    let mut receipt: Receipt =
        serde_json::from_slice(&files::read_own(&place(folder, real), MAX_BYTES)?).ok()?;
    // Whatever it says, only folders that contain the file may be removed.
    receipt.made.retain(|made| real.starts_with(made) && real != made);
    (receipt.path == real.to_string_lossy()).then_some(receipt)
}

/// Saves a receipt. Returns the folders that were made for it.
pub(super) fn save(folder: &Path, real: &Path, receipt: &Receipt) -> Result<Vec<PathBuf>, Refusal> {
    let place = place(folder, real);
    let made = files::make_folders(&place)?;
    let text = serde_json::to_string(receipt).unwrap_or_default();
    match files::write(&place, &text, 0o600) {
        Ok(()) => Ok(made),
        Err(refusal) => {
            files::remove_folders(&made);
            Err(refusal)
        }
    }
}

/// Deletes a receipt, and the folder if it was the last one.
pub(super) fn forget(folder: &Path, real: &Path) -> Result<(), Refusal> {
    files::remove(&place(folder, real))?;
    let _ = fs::remove_dir(folder);
    Ok(())
}
