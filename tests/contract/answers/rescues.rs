//! What holders left uncommitted, and what was brought back.

use super::*;

/// What was kept of holders' uncommitted work, or is still to be kept.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RescuesAnswer {
    rescues: Vec<RescueView>,
    #[serde(flatten)]
    beside: Beside,
}

/// A rescue with its files, or the contents that are kept of a file.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum RescueShowAnswer {
    Rescue(Box<RescueShown>),
    File(FileShown),
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RescueShown {
    #[serde(flatten)]
    rescue: RescueView,
    files: Vec<RescuedFile>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RescuedFile {
    path: String,
    /// Which of the rescue's commits has it.
    #[serde(rename = "ref")]
    reference: String,
    deleted: bool,
    /// Something else was staged than what was on disk.
    staged_otherwise: bool,
    /// It was a conflict that nobody had resolved.
    conflict: bool,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FileShown {
    file: String,
    /// The newest first.
    versions: Vec<FileVersion>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FileVersion {
    /// The beginning of its content's digest.
    version: String,
    at: String,
    bytes: u64,
    /// How it came to be seen, for people.
    how: String,
    /// The file has this content now.
    there: bool,
}

/// What was brought back.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum RescueRestoreAnswer {
    Task(Box<TaskRestored>),
    File(FileRestored),
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct TaskRestored {
    task: String,
    token: u64,
    written: Vec<String>,
    removed: Vec<String>,
    /// What was there already.
    same: Vec<String>,
    /// Content that was in the index alone, and is not written.
    only_staged: Vec<OnlyStaged>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct OnlyStaged {
    path: String,
    /// What git calls it.
    object: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FileRestored {
    file: String,
    version: String,
    bytes: u64,
    how: String,
}
