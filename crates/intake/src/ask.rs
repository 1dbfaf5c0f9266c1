//! What every mapper returns, and its limits.

use std::collections::BTreeSet;
use std::fmt;

use onus_core::command::NewTask;
use onus_core::refusal::Refusal;
use onus_core::task::{Facts, MAX_REF_BYTES, Origin, Priority, TaskType};
use onus_core::text::Field;

/// The most bytes of a JSON delivery. In memory a document may take about ten times as much.
pub const MAX_JSON_BYTES: usize = 16 << 20;
/// The most bytes of a mail, whose attachments are not kept.
pub const MAX_MAIL_BYTES: usize = 40 << 20;
/// The most bytes of plain text.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// The most bytes of a link.
pub(crate) const MAX_LINK_BYTES: usize = 500;

/// A request for work, as a channel delivered it, within the limits of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The channel, and the channel's own reference.
    pub origin: Origin,
    /// Where the ask can be read in the channel.
    pub link: Option<String>,
    pub title: String,
    pub body: Option<String>,
    /// Who asked, in the channel's words.
    pub author: Option<String>,
    pub kind: Option<TaskType>,
    pub priority: Option<Priority>,
    pub labels: BTreeSet<String>,
    /// The tracker and its reference, if it is a tracker's issue.
    pub tracked: Option<(String, String)>,
    /// It replies to the ask that the origin names, and does not repeat that ask's text.
    pub is_reply: bool,
}

/// The problem of a field that is not there.
const MISSING: &str = "missing";

/// Why an ask cannot be read: a field, by the channel's name for it, and its problem. Without a field it is the whole delivery's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub field: String,
    pub problem: String,
}

impl Fault {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Fault {
        Fault { field: field.into(), problem: problem.into() }
    }

    pub(crate) fn missing(field: impl Into<String>) -> Fault {
        Fault::new(field, MISSING)
    }

    /// A problem of the whole delivery.
    pub(crate) fn whole(problem: impl Into<String>) -> Fault {
        Fault::new("", problem)
    }

    /// A delivery with more bytes than are accepted.
    pub fn too_large(most: usize) -> Fault {
        Fault::whole(format!("it has more than {most} bytes"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.field.as_str(), self.problem.as_str()) {
            ("", problem) => f.write_str(problem),
            (field, MISSING) => write!(f, "{field} is missing"),
            (field, problem) => write!(f, "{field}: {problem}"),
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::usage(fault.to_string())
    }
}

/// A text, and the field in which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) field: String,
    pub(crate) text: String,
}

impl Found {
    pub(crate) fn new(field: impl Into<String>, text: impl Into<String>) -> Found {
        Found { field: field.into(), text: text.into() }
    }

    pub(crate) fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault::new(self.field.clone(), problem)
    }
}

/// What a mapper found, before the limits are checked.
#[derive(Clone, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) channel: &'a str,
    pub(crate) reference: Found,
    pub(crate) title: Found,
    pub(crate) body: Option<Found>,
    pub(crate) link: Option<Found>,
    pub(crate) author: Option<Found>,
    pub(crate) kind: Option<TaskType>,
    pub(crate) priority: Option<Priority>,
    pub(crate) labels: BTreeSet<String>,
    pub(crate) is_tracked: bool,
    pub(crate) is_reply: bool,
}

impl<'a> Raw<'a> {
    /// Only what every ask has.
    pub(crate) fn new(channel: &'a str, reference: Found, title: Found) -> Raw<'a> {
        Raw {
            channel,
            reference,
            title,
            body: None,
            link: None,
            author: None,
            kind: None,
            priority: None,
            labels: BTreeSet::new(),
            is_tracked: false,
            is_reply: false,
        }
    }

    pub(crate) fn ask(self) -> Result<Ask, Fault> {
        let reference = self.reference.text.trim();
        let origin = format!("{}:{reference}", self.channel).parse().map_err(|_| {
            let most = Origin::MAX_LEN - self.channel.len() - 1;
            self.reference.fault(format!(
                "a reference has 1 to {most} bytes, all on one line, without control characters"
            ))
        })?;
        let tracked = Some((self.channel.to_owned(), reference.to_owned()));
        let tracked = tracked.filter(|_| self.is_tracked && reference.len() <= MAX_REF_BYTES);
        let title = one_line(&self.title.text, Field::Title.max_bytes());
        checked(Field::Title, &self.title.field, &title)?;
        let optional = |field: Field, found: Option<Found>, clean: fn(&str) -> String| {
            let text = found.map(|found| (clean(&found.text), found.field));
            let text = text.filter(|(text, _)| !text.is_empty());
            text.map(|(text, name)| checked(field, &name, &text).map(|()| text)).transpose()
        };
        let body = optional(Field::Body, self.body, |text| text.replace("\r\n", "\n").trim().to_owned())?;
        let author = optional(Field::Author, self.author, |text| one_line(text, Field::Author.max_bytes()))?;
        let link = self.link.filter(|link| !link.text.trim().is_empty());
        Ok(Ask {
            origin,
            link: link.map(|link| checked_link(&link)).transpose()?,
            title,
            body,
            author,
            kind: self.kind,
            priority: self.priority,
            labels: self.labels,
            tracked,
            is_reply: self.is_reply,
        })
    }
}

impl Ask {
    /// The task that it asks for.
    pub fn into_task(self, propose: bool) -> NewTask {
        let plain = Facts::default();
        let facts = Facts {
            kind: self.kind.unwrap_or(plain.kind),
            priority: self.priority.unwrap_or(plain.priority),
            tags: self.labels,
            refs: self.tracked.into_iter().collect(),
            link: self.link,
            ..plain
        };
        NewTask {
            body: self.body,
            facts,
            origin: Some(self.origin),
            author: self.author,
            propose,
            ..NewTask::titled(self.title)
        }
    }
}

/// An ask in plain text, whose reference is given separately.
#[derive(Clone, Debug, Default)]
pub struct Plain<'a> {
    pub reference: &'a str,
    pub title: &'a str,
    pub body: Option<&'a str>,
    pub link: Option<&'a str>,
    pub author: Option<&'a str>,
}

impl<'a> Plain<'a> {
    /// The first line of a text is the title, the rest the body.
    pub fn text(reference: &'a str, text: &'a str) -> Plain<'a> {
        let (title, body) = text.trim_start().split_once('\n').unwrap_or((text, ""));
        Plain { reference, title, body: Some(body), ..Plain::default() }
    }

    pub fn ask(&self, channel: &str) -> Result<Ask, Fault> {
        let found = |field: &str, text: Option<&str>| text.map(|text| Found::new(field, text));
        let (reference, title) = (Found::new("reference", self.reference), Found::new("title", self.title));
        let raw = Raw {
            body: found("body", self.body),
            link: found("link", self.link),
            author: found("author", self.author),
            ..Raw::new(channel, reference, title)
        };
        raw.ask()
    }
}

/// Checks a text against the limits of a task's field. `name`: the channel's name for it.
fn checked(field: Field, name: &str, text: &str) -> Result<(), Fault> {
    if text.is_empty() {
        return Err(Fault::new(name, "empty"));
    }
    if text.len() > field.max_bytes() {
        let problem = format!("it has {} bytes; the limit of a {field} is {}", text.len(), field.max_bytes());
        return Err(Fault::new(name, problem));
    }
    if text.contains('\0') {
        return Err(Fault::new(name, "it contains a NUL character"));
    }
    Ok(())
}

/// A text on one line, truncated if it is too long. A title is only a name: the channel has the whole text.
fn one_line(text: &str, most: usize) -> String {
    const CUT: &str = "…";
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    if line.len() > most {
        line.truncate(line.floor_char_boundary(most - CUT.len()));
        line.push_str(CUT);
    }
    line
}

/// Checks that a link leads to a web page or a mail, and to nothing else.
fn checked_link(link: &Found) -> Result<String, Fault> {
    let text = link.text.trim();
    if text.len() > MAX_LINK_BYTES {
        return Err(link.fault(format!("a link has at most {MAX_LINK_BYTES} bytes")));
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(link.fault("a link has no spaces and no control characters"));
    }
    if !text.starts_with("mid:") {
        host(link)?;
    }
    Ok(text.to_owned())
}

/// The host of a web address, in lower case, and without the default port.
pub(crate) fn host(link: &Found) -> Result<String, Fault> {
    let text = link.text.trim();
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or_else(|| link.fault("it must be a web address: https://…"))?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // An address with a user before the host (`https://a@b`) leads elsewhere than it seems to.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    if host.is_empty() || !host.chars().all(is_plain) {
        return Err(link.fault("its host must be a plain name, without a user"));
    }
    let host = host.to_ascii_lowercase();
    // With its default port it is the same server.
    let usual = if text.starts_with("https") { ":443" } else { ":80" };
    let host = host.strip_suffix(usual).unwrap_or(&host);
    Ok(host.strip_suffix('.').unwrap_or(host).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(reference: &str, title: &str) -> Raw<'static> {
        Raw::new("x", Found::new("r", reference), Found::new("t", title))
    }

    #[test]
    fn a_long_title_is_cut_and_a_long_body_refused_by_its_name() {
        let ask = raw("1", &format!("a\r\n b\t{}", "é".repeat(600))).ask().unwrap();
        assert!(ask.title.starts_with("a b é") && ask.title.ends_with("é…"), "{}", ask.title);
        assert!(ask.title.len() <= 500);
        let long = Found::new("issue.body", "x".repeat(10 << 20));
        let fault = Raw { body: Some(long), ..raw("1", "t") }.ask().unwrap_err();
        assert_eq!(fault.to_string(), "issue.body: it has 10485760 bytes; the limit of a body is 262144");
        let whole = Found::new("b", "x".repeat(256 * 1024));
        assert!(Raw { body: Some(whole), ..raw("1", "t") }.ask().is_ok());
    }

    #[test]
    fn what_no_task_can_have_is_refused_by_its_name() {
        for (raw, field) in [
            (raw("", "t"), "r"),
            (raw("a\nb", "t"), "r"),
            (raw(&"x".repeat(499), "t"), "r"),
            (raw("1", " \n"), "t"),
            (raw("1", "a\0b"), "t"),
            (Raw { body: Some(Found::new("b", "a\0b")), ..raw("1", "t") }, "b"),
            (Raw { author: Some(Found::new("a", "a\0b")), ..raw("1", "t") }, "a"),
        ] {
            assert_eq!(raw.ask().unwrap_err().field, field);
        }
        for link in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "https://a@b/",
            "https://a b/",
            "https://x/\u{7}",
            &format!("https://x/{}", "y".repeat(500)),
        ] {
            let fault = Raw { link: Some(Found::new("l", link)), ..raw("1", "t") }.ask().unwrap_err();
            assert_eq!(fault.field, "l", "{link}");
        }
        let links = ["https://x.example:8080/a?b#c", "http://[::1]/x", "mid:a%40b"];
        for link in links {
            assert!(Raw { link: Some(Found::new("l", link)), ..raw("1", "t") }.ask().is_ok(), "{link}");
        }
    }

    #[test]
    fn the_first_line_of_a_text_is_its_title() {
        let ask = Plain::text("7", "\nfix it\r\n\r\nnow\r\nplease\r\n").ask("stdin").unwrap();
        assert_eq!((ask.title.as_str(), ask.body.as_deref()), ("fix it", Some("now\nplease")));
        assert_eq!(ask.origin.as_str(), "stdin:7");
        assert_eq!(Plain::text("7", "one").ask("stdin").unwrap().body, None);
    }
}
