//! What scopes accept as a path: relative to the repository's root, `/` between segments, no segment empty, `.` or `..`.
//! Everything that matches or is given as an example is such a path.
//!
//! Git's paths are bytes, globs are characters. What cannot be shown becomes U+FFFD: callers convert bytes that are not UTF-8
//! lossily, and control characters are replaced here. Two oddly named files may then look the same, and reserving one reserves
//! the other. That refuses too much, never too little.

use std::borrow::Cow;

use super::{Fault, ScopeError};

/// Stands for whatever cannot be shown.
pub(super) const UNSHOWN: char = char::REPLACEMENT_CHARACTER;

/// The most bytes a path may have: what Linux allows.
pub const MAX_PATH_BYTES: usize = 4096;

/// What was read of the current segment: enough to know whether the whole can still be a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Start,
    Dot,
    DotDot,
    Name,
}

impl Progress {
    /// The progress after one more character. None: no path continues like that.
    pub(super) fn after(self, c: char) -> Option<Progress> {
        match (self, c) {
            (Progress::Name, '/') => Some(Progress::Start),
            (_, '/') => None,
            (Progress::Start, '.') => Some(Progress::Dot),
            (Progress::Dot, '.') => Some(Progress::DotDot),
            _ => Some(Progress::Name),
        }
    }
}

/// The path as globs see it. None: the text is not a path.
pub(super) fn seen(text: &str) -> Option<Cow<'_, str>> {
    let is_path = text.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
    is_path.then(|| shown(text))
}

/// The normalized spelling of a path: `./a//b` is `a/b`. A `..` is refused, not resolved, because where it leads depends on
/// symbolic links.
pub(super) fn normal(text: &str) -> Result<Cow<'_, str>, ScopeError> {
    let refuse = |fault| Err(ScopeError::not_a_path(text, fault));
    if text.len() > MAX_PATH_BYTES {
        return refuse(Fault::TooLong { bytes: text.len(), max: MAX_PATH_BYTES });
    }
    if text.contains('\0') {
        return refuse(Fault::Control);
    }
    let path = match seen(text) {
        Some(path) => path,
        None if text.starts_with('/') => return refuse(Fault::Absolute),
        None if text.split('/').any(|segment| segment == "..") => return refuse(Fault::Dots),
        None => {
            let segments: Vec<&str> =
                text.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
            if segments.is_empty() {
                return refuse(Fault::Empty);
            }
            if matches!(text.rsplit('/').next(), Some("" | ".")) {
                return refuse(Fault::Folder);
            }
            Cow::Owned(shown(&segments.join("/")).into_owned())
        }
    };
    // Each control character grew to the three bytes of U+FFFD.
    if path.len() > MAX_PATH_BYTES {
        return refuse(Fault::TooLong { bytes: path.len(), max: MAX_PATH_BYTES });
    }
    Ok(path)
}

fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(text.chars().map(|c| if c.is_control() { UNSHOWN } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}
