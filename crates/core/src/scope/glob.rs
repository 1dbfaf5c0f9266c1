//! A glob: a text that was checked once and then matches paths.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::parse::{Parsed, parse};
use super::path::{self, MAX_PATH_BYTES};
use super::pattern::Pattern;
use super::{Fault, ScopeError, anchor, head};

/// The most bytes a glob may have, unless it is a plain path ([`MAX_PATH_BYTES`]).
pub const MAX_GLOB_BYTES: usize = 1024;

/// A pattern for paths of the repository. See [`super`] for what the characters mean.
///
/// Two globs are equal if their texts are: anchor and pattern follow from the text, and a plain path has only one. They sort by
/// anchor, then by text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct Glob {
    anchor: String,
    text: String,
    /// What follows the anchor. None: the anchor is the whole path.
    pub(super) pattern: Option<Box<Pattern>>,
}

impl Glob {
    /// The glob of one path, whatever characters it has. The path is normalized: `./a//b` is `a/b`.
    pub fn literal(path: &str) -> Result<Glob, ScopeError> {
        path::normal(path).map(|path| Glob::of_path(path.into_owned()))
    }

    fn of_path(path: String) -> Glob {
        Glob { text: escaped(&path).into_owned(), anchor: path, pattern: None }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part that all matching paths begin with, in whole folders; see [`super::anchor`].
    pub fn anchor(&self) -> &str {
        &self.anchor
    }

    /// The anchors that a store indexes: every matching path begins with one of these.
    pub fn anchors(&self) -> Vec<String> {
        match &self.pattern {
            None => vec![anchor::bounded(&self.anchor).to_owned()],
            Some(pattern) => anchor::each(&self.anchor, pattern),
        }
    }

    /// What the last name of all matching paths begins with; see [`head`](fn@head).
    pub fn head(&self) -> &str {
        match &self.pattern {
            None => self.anchor.rsplit('/').next().unwrap_or_default(),
            Some(_) => head(&self.text),
        }
    }

    /// The path, if the glob has no special characters.
    pub fn path(&self) -> Option<&str> {
        self.pattern.is_none().then_some(self.anchor.as_str())
    }

    /// Whether it matches this normalized path. It never matches what is not a path.
    pub fn matches(&self, path: &str) -> bool {
        path::seen(path).is_some_and(|path| self.admits(&path, &mut Budget::unlimited()))
    }

    /// Like [`matches`](Glob::matches), for a text that is known to be a path.
    pub(super) fn admits(&self, path: &str, budget: &mut Budget) -> bool {
        match &self.pattern {
            None => self.anchor == path,
            Some(pattern) => path
                .strip_prefix(self.anchor.as_str())
                .is_some_and(|rest| rest.ends_with(&pattern.tail) && pattern.matches(rest, budget)),
        }
    }

    /// Whether a common path is possible, judged by how all matching paths of each begin and end.
    pub(super) fn may_meet(&self, other: &Glob) -> bool {
        let begin_alike = |one: &str, two: &str| one.starts_with(two) || two.starts_with(one);
        let end_alike = |one: &str, two: &str| one.ends_with(two) || two.ends_with(one);
        anchor::meet(&self.anchor, &other.anchor)
            && end_alike(self.tail(), other.tail())
            && begin_alike(self.head(), other.head())
    }

    fn tail(&self) -> &str {
        self.pattern.as_ref().map_or(&self.anchor, |pattern| &pattern.tail)
    }
}

/// The text of the glob that matches this path.
fn escaped(path: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '\\' | '*' | '?' | '[' | '{' | '}');
    if !path.starts_with('!') && !path.contains(special) {
        return Cow::Borrowed(path);
    }
    let mut text = String::with_capacity(path.len() + 8);
    for (at, c) in path.char_indices() {
        if special(c) || at == 0 && c == '!' {
            text.push('\\');
        }
        text.push(c);
    }
    Cow::Owned(text)
}

impl FromStr for Glob {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Glob, ScopeError> {
        let refuse = |fault| ScopeError::not_a_glob(text, fault);
        let too_long = |max| refuse(Fault::TooLong { bytes: text.len(), max });
        // Even a path of nothing but backslashes, each escaped, has no more bytes than that.
        if text.len() > 2 * MAX_PATH_BYTES {
            return Err(too_long(MAX_PATH_BYTES));
        }
        // A trailing `/` means everything in the folder.
        let text = if text.ends_with('/') { format!("{text}**") } else { text.to_owned() };
        match parse(&text).map_err(refuse)? {
            Parsed { anchor, pattern: None } if anchor.len() > MAX_PATH_BYTES => {
                Err(too_long(MAX_PATH_BYTES))
            }
            Parsed { anchor, pattern: None } => Ok(Glob::of_path(anchor)),
            Parsed { pattern: Some(_), .. } if text.len() > MAX_GLOB_BYTES => Err(too_long(MAX_GLOB_BYTES)),
            Parsed { anchor, pattern } => Ok(Glob { text, anchor, pattern: pattern.map(Box::new) }),
        }
    }
}

impl TryFrom<String> for Glob {
    type Error = ScopeError;

    fn try_from(text: String) -> Result<Glob, ScopeError> {
        text.parse()
    }
}

impl From<Glob> for String {
    fn from(glob: Glob) -> String {
        glob.text
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({:?})", self.text)
    }
}

impl AsRef<Glob> for Glob {
    fn as_ref(&self) -> &Glob {
        self
    }
}
