//! Any JSON, by field paths that a project configures: `reference = "ticket.id"`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::ask::{Ask, Fault, Raw};
use crate::json::{id, names, need, need_id, text};
use crate::labels;

/// The path of a field: names of fields, and numbers of items, with points between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    const MAX_BYTES: usize = 200;
    const MAX_STEPS: usize = 16;
}

impl FromStr for FieldPath {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldPath, String> {
        let is_step =
            |step: &str| !step.is_empty() && !step.chars().any(|c| c.is_control() || c.is_whitespace());
        let fits = text.len() <= Self::MAX_BYTES
            && text.split('.').count() <= Self::MAX_STEPS
            && text.split('.').all(is_step);
        if !fits {
            return Err(format!(
                "a field path is 1 to {} names with points between them, such as \"ticket.id\"",
                Self::MAX_STEPS
            ));
        }
        Ok(FieldPath(text.to_owned()))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The paths of an ask's fields in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    pub reference: FieldPath,
    pub title: FieldPath,
    pub body: Option<FieldPath>,
    pub link: Option<FieldPath>,
    pub author: Option<FieldPath>,
    pub labels: Option<FieldPath>,
    /// Names such as `bug`, and `P1` or `high`.
    pub kind: Option<FieldPath>,
    pub priority: Option<FieldPath>,
}

impl Paths {
    pub(crate) fn ask(&self, channel: &str, document: &Value) -> Result<Ask, Fault> {
        let optional = |path: &Option<FieldPath>| match path {
            Some(path) => text(document, &path.0),
            None => Ok(None),
        };
        let labels = match &self.labels {
            Some(path) => names(document, &path.0, &["name", "title"])?,
            None => Vec::new(),
        };
        let priority = match &self.priority {
            Some(path) => id(document, &path.0)?,
            None => None,
        };
        let raw = Raw {
            body: optional(&self.body)?,
            link: optional(&self.link)?,
            author: optional(&self.author)?,
            kind: optional(&self.kind)?.and_then(|found| labels::kind(&found.text)),
            priority: priority.and_then(|found| labels::priority(&found.text)),
            labels: labels::tags(&labels),
            ..Raw::new(channel, need_id(document, &self.reference.0)?, need(document, &self.title.0)?)
        };
        raw.ask()
    }
}
