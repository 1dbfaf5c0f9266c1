//! How things are named: uids, numbers, tokens, versions, and the references people type.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::refusal::{Code, Refusal, Step};
use crate::task::{MAX_REF_BYTES, is_word};

/// Implements what follows from the `FromStr` of a checked text: `as_str`, `Display` and the conversions that serde uses.
macro_rules! checked_text {
    ($name:ident) => {
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = crate::refusal::Refusal;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(checked: $name) -> String {
                checked.0
            }
        }
    };
}
pub(crate) use checked_text;

/// The identity of a task, a seat, an event or a project: a UUIDv7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub uuid::Uuid);

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for Uid {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        uuid::Uuid::parse_str(text).map(Uid)
    }
}

/// The number in a task's id (`142` in `ON-142`). Unique in its project, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Number(pub u64);

/// A lease's fencing token. For one task it only grows; 0 means that none was ever granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

impl Token {
    pub fn next(self) -> Token {
        Token(self.0 + 1)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many events a stream has; also the position of one event in its stream. The first is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The letters before a task's number: 1 to 10 of A–Z and 0–9, beginning with a letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix(String);

impl Prefix {
    pub const MAX_LEN: usize = 10;
    /// The id people say, such as `ON-142`.
    pub fn id(&self, number: Number) -> String {
        format!("{}-{}", self.0, number.0)
    }

    /// A prefix for a folder: the initials of a name of several words, else its first two letters.
    pub fn suggest(folder: &str) -> Prefix {
        let words: Vec<&str> = folder
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|w| w.starts_with(|c: char| c.is_ascii_alphabetic()))
            .collect();
        let letters: String = match words.as_slice() {
            [] => "T".to_owned(),
            [word] => word.chars().take(2).collect(),
            many => many.iter().filter_map(|w| w.chars().next()).take(4).collect(),
        };
        Prefix(letters.to_ascii_uppercase())
    }
}

impl FromStr for Prefix {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let upper = text.to_ascii_uppercase();
        let fits = (1..=Self::MAX_LEN).contains(&upper.len())
            && upper.starts_with(|c: char| c.is_ascii_uppercase())
            && upper.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
        if !fits {
            return Err(Refusal::usage(format!(
                "'{}' is not a prefix: use 1 to {} letters and digits, beginning with a letter (for example ON)",
                text.escape_debug(),
                Self::MAX_LEN
            )));
        }
        Ok(Prefix(upper))
    }
}

checked_text!(Prefix);

/// A task as a user named it. It is resolved to the uid before anything is compared or stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskRef {
    /// `142`, or `ON-142` of this project.
    Number(Number),
    /// `XY-7`, where `XY` may be another project's prefix: the store compares it.
    Id { prefix: String, number: Number },
    /// Lower-case hexadecimal digits of a uid without hyphens: its start, its end, or all of it.
    Part(String),
    /// `jira:WEB-7`: the task's name in another system.
    External { system: String, reference: String },
}

impl TaskRef {
    /// The fewest characters of a uid that name a task.
    pub const MIN_PART: usize = 4;

    /// The start of a hyphenated uid that `part` spells.
    pub fn hyphenated_start(part: &str) -> String {
        hyphenated(part.chars(), [8, 12, 16, 20])
    }

    /// The reverse of the end of a hyphenated uid that `part` spells.
    pub fn hyphenated_end_reversed(part: &str) -> String {
        hyphenated(part.chars().rev(), [12, 16, 20, 24])
    }
}

/// These digits, with a hyphen before each of these places.
fn hyphenated(digits: impl Iterator<Item = char>, hyphens: [usize; 4]) -> String {
    let mut text = String::with_capacity(36);
    for (i, c) in digits.enumerate() {
        if hyphens.contains(&i) {
            text.push('-');
        }
        text.push(c);
    }
    text
}

/// A whole uid: the canonical spelling.
impl From<Uid> for TaskRef {
    fn from(uid: Uid) -> TaskRef {
        TaskRef::Part(uid.0.simple().to_string())
    }
}

impl Serialize for TaskRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for TaskRef {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let bad = || {
            Refusal::usage(format!(
                "'{}' does not name a task: use its number (142), its id (ON-142), its uid, the first or last {} or more characters of the uid, or its id in another system (jira:WEB-7)",
                shortened(text),
                Self::MIN_PART
            ))
        };
        if let Some((system, reference)) = text.split_once(':') {
            return external(system, reference).ok_or_else(bad);
        }
        if text.is_empty() || text.len() > 64 || !text.is_ascii() {
            return Err(bad());
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return parse_number(text).map(TaskRef::Number).ok_or_else(bad);
        }
        if let Some((prefix, digits)) = text.rsplit_once('-')
            && let Ok(prefix) = prefix.parse::<Prefix>()
            && let Some(number) = parse_number(digits)
            && !ends_a_uid(text, digits)
        {
            return Ok(TaskRef::Id { prefix: prefix.into(), number });
        }
        let part: String = text.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        let fits = (Self::MIN_PART..=32).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
        if fits { Ok(TaskRef::Part(part)) } else { Err(bad()) }
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskRef::Number(number) => write!(f, "{}", number.0),
            TaskRef::Id { prefix, number } => write!(f, "{prefix}-{}", number.0),
            TaskRef::Part(part) => f.write_str(part),
            TaskRef::External { system, reference } => write!(f, "{system}:{reference}"),
        }
    }
}

fn external(system: &str, reference: &str) -> Option<TaskRef> {
    let fits = is_word(system) && is_reference(reference);
    fits.then(|| TaskRef::External { system: system.to_lowercase(), reference: reference.to_owned() })
}

/// Whether a text can be a reference in another system. The system's own name is a lower-case word.
pub fn is_reference(text: &str) -> bool {
    (1..=MAX_REF_BYTES).contains(&text.len()) && text.trim() == text && !text.chars().any(char::is_control)
}

/// Whether a text that looks like an id is the end of a uid: `abc-` and the twelve digits of its last group.
fn ends_a_uid(text: &str, digits: &str) -> bool {
    digits.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

fn parse_number(digits: &str) -> Option<Number> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let value: i64 = if all_digits { digits.parse().ok()? } else { return None };
    u64::try_from(value).ok().map(Number)
}

/// At most 40 characters of something a user typed, escaped, for an error message.
pub fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect::<String>().escape_debug().to_string();
    if text.chars().count() > 40 {
        short.push('…');
    }
    short
}

/// The one error for a reference that names nothing.
pub fn no_such_task(reference: &TaskRef) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no task '{reference}' here")).next(Step::ListTasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_always_the_number() {
        assert_eq!("1234".parse(), Ok(TaskRef::Number(Number(1234))));
        assert_eq!("0007".parse(), Ok(TaskRef::Number(Number(7))));
    }

    #[test]
    fn ids_are_understood_in_any_case() {
        let id = TaskRef::Id { prefix: "ON".into(), number: Number(142) };
        assert_eq!("ON-142".parse(), Ok(id.clone()));
        assert_eq!("on-142".parse(), Ok(id));
    }

    #[test]
    fn an_id_wins_over_a_part_of_a_uid_that_looks_like_one() {
        assert_eq!("abc-12".parse(), Ok(TaskRef::Id { prefix: "ABC".into(), number: Number(12) }));
    }

    #[test]
    fn twelve_digits_after_a_hyphen_end_a_uid() {
        assert_eq!("abc-012345678901".parse(), Ok(TaskRef::Part("abc012345678901".into())));
        assert_eq!("abc-12345678901".parse::<TaskRef>().unwrap().to_string(), "ABC-12345678901");
        assert_eq!("ON-123456789012".parse::<TaskRef>().unwrap().to_string(), "ON-123456789012");
    }

    #[test]
    fn parts_of_a_uid_are_told_by_their_digits_alone() {
        assert_eq!("0193a2b4-7C".parse(), Ok(TaskRef::Part("0193a2b47c".into())));
        assert_eq!("beef".parse(), Ok(TaskRef::Part("beef".into())));
        for bad in
            ["bee", "", "xyzw", "ON-", "-5", "ON-99999999999999999999", "99999999999999999999", "ünïcode"]
        {
            assert_eq!(bad.parse::<TaskRef>().unwrap_err().code, Code::Usage, "{bad}");
        }
    }

    #[test]
    fn what_has_a_colon_is_a_reference_in_another_system() {
        let of = |system: &str, reference: &str| {
            Ok(TaskRef::External { system: system.to_owned(), reference: reference.to_owned() })
        };
        assert_eq!("jira:WEB-7".parse(), of("jira", "WEB-7"));
        assert_eq!("GH:123".parse(), of("gh", "123"), "systems are words in lower case");
        assert_eq!("github:acme/web#12".parse(), of("github", "acme/web#12"));
        assert_eq!("url:https://x.example/1?a=b".parse(), of("url", "https://x.example/1?a=b"));
        for bad in
            [":", "jira:", ":7", "ji ra:7", "jira: 7", "jira:7\n", &format!("jira:{}", "x".repeat(201))]
        {
            assert_eq!(bad.parse::<TaskRef>().unwrap_err().code, Code::Usage, "{bad}");
        }
    }

    #[test]
    fn hyphens_are_put_where_a_uid_has_them() {
        let uid = "0193a2b4-7c11-7abc-8def-0123456789ab";
        let bare = uid.replace('-', "");
        let reversed: String = uid.chars().rev().collect();
        for n in 1..=32 {
            assert!(uid.starts_with(&TaskRef::hyphenated_start(&bare[..n])));
            assert!(reversed.starts_with(&TaskRef::hyphenated_end_reversed(&bare[32 - n..])));
        }
    }

    #[test]
    fn a_prefix_is_suggested_from_the_folder() {
        for (folder, prefix) in [("onus", "ON"), ("my-web-app", "MWA"), ("a", "A"), ("2024", "T"), ("", "T")]
        {
            assert_eq!(Prefix::suggest(folder).as_str(), prefix, "{folder}");
        }
    }
}
