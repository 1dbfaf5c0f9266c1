//! A mail, in the format of RFC 5322 (822).
//!
//! **A thread is one ask.** The reference is the Message-ID of the mail that began the thread: the first in `References`, else
//! `In-Reply-To`, else the mail's own. So a reply finds the task of the mail it answers, in whatever order the two are delivered,
//! without a look at the store. A reply never changes the task's text.
//!
//! A mail that repeats a header which RFC 5322 allows once is refused: a reader that takes the first and a reader that takes the
//! last would see two different mails. Of an HTML-only mail the text is kept. Attachments are named, not kept.

use std::borrow::Cow;

use mail_parser::decoders::html::html_to_text;
use mail_parser::{
    Address, HeaderForm, HeaderName, HeaderValue, Message, MessageParser, MimeHeaders as _, PartType,
};
use onus_core::quote::visible_line;

use crate::ask::{Ask, Fault, Found, MAX_LINK_BYTES, Raw};

/// The most parts of a mail. The parser nests mails inside mails, so this bounds their depth.
const MAX_PARTS: usize = 1_000;
/// How many attachments are named, and how much of each name.
const MAX_NAMED: usize = 20;
const MAX_NAME_CHARS: usize = 100;

pub(crate) fn ask(bytes: &[u8]) -> Result<Ask, Fault> {
    const PART: &[u8] = b"content-type";
    let parts = bytes.windows(PART.len()).filter(|window| window.eq_ignore_ascii_case(PART)).count();
    if parts > MAX_PARTS {
        return Err(Fault::new("Content-Type", format!("the mail has more than {MAX_PARTS} parts")));
    }
    let mail = MessageParser::default().parse(bytes).filter(|mail| !mail.parts.is_empty());
    let mail = mail.ok_or_else(|| Fault::whole("not a mail message: no headers"))?;
    let own = one_id(&mail, HeaderName::MessageId, "Message-ID")?;
    let own = own.ok_or_else(|| Fault::missing("Message-ID"))?;
    let references = ids(&mail, HeaderName::References, "References")?;
    let answered = ids(&mail, HeaderName::InReplyTo, "In-Reply-To")?;
    let root = references.into_iter().chain(answered).next().filter(|root| root.text != own.text);
    let is_reply = root.is_some();
    let subject = once(&mail, HeaderName::Subject, "Subject", HeaderForm::Text)?;
    let subject = subject.and_then(|value| value.as_text().map(str::to_owned));
    let subject = subject.filter(|text| !text.trim().is_empty()).ok_or_else(|| Fault::missing("Subject"))?;
    let link = link(&mail, &own);
    let raw = Raw {
        body: Some(Found::new("body", body(&mail))),
        author: author(&mail)?,
        link,
        is_reply,
        ..Raw::new("mail", root.unwrap_or(own), Found::new("Subject", subject))
    };
    raw.ask()
}

/// The value of a header that may occur once.
fn once<'m>(
    mail: &'m Message<'_>,
    header: HeaderName<'static>,
    name: &str,
    form: HeaderForm,
) -> Result<Option<HeaderValue<'m>>, Fault> {
    let mut values = mail.header_as(header, form);
    match values.len() {
        0 | 1 => Ok(values.pop()),
        count => Err(Fault::new(name, format!("it is there {count} times"))),
    }
}

/// The ids in a header, as `<id>`.
fn ids(mail: &Message<'_>, header: HeaderName<'static>, name: &str) -> Result<Vec<Found>, Fault> {
    let texts: Vec<Cow<'_, str>> = match once(mail, header, name, HeaderForm::MessageIds)? {
        Some(HeaderValue::Text(text)) => vec![text],
        Some(HeaderValue::TextList(texts)) => texts,
        _ => Vec::new(),
    };
    let id = |text: Cow<'_, str>| {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '\u{fffd}');
        if text.is_empty() || text.contains(is_odd) {
            return Err(Fault::new(name, "it is not a message id, such as <1@mail.example>"));
        }
        Ok(Found::new(name, format!("<{text}>")))
    };
    texts.into_iter().map(id).collect()
}

fn one_id(mail: &Message<'_>, header: HeaderName<'static>, name: &str) -> Result<Option<Found>, Fault> {
    let mut found = ids(mail, header, name)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        count => Err(Fault::new(name, format!("it names {count} mails"))),
    }
}

/// The sender that the mail claims. It is not verified.
fn author(mail: &Message<'_>) -> Result<Option<Found>, Fault> {
    let Some(HeaderValue::Address(from)) = once(mail, HeaderName::From, "From", HeaderForm::Addresses)?
    else {
        return Ok(None);
    };
    let addresses: Vec<_> = match &from {
        Address::List(list) => list.iter().collect(),
        Address::Group(groups) => groups.iter().flat_map(|group| &group.addresses).collect(),
    };
    let shown =
        addresses.iter().take(MAX_NAMED).filter_map(|address| match (&address.name, &address.address) {
            (Some(name), Some(address)) => Some(format!("{name} <{address}>")),
            (Some(one), None) | (None, Some(one)) => Some(one.to_string()),
            (None, None) => None,
        });
    Ok(Some(Found::new("From", shown.collect::<Vec<_>>().join(", "))))
}

/// A link to a list's archive (RFC 5064), or else to the mail itself (RFC 2392).
fn link(mail: &Message<'_>, own: &Found) -> Option<Found> {
    let archived = mail.header_as("Archived-At", HeaderForm::Raw);
    let archived = archived.first().and_then(HeaderValue::as_text).map(|text| {
        let text = text.trim();
        text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text)
    });
    if let Some(archived) =
        archived.filter(|text| text.starts_with("https://") && text.len() <= MAX_LINK_BYTES)
    {
        return Some(Found::new("Archived-At", archived));
    }
    let id = own.text.trim_start_matches('<').trim_end_matches('>');
    let mut link = "mid:".to_owned();
    for byte in id.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~@+=$".contains(&byte) {
            true => link.push(char::from(byte)),
            false => link.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(Found::new("Message-ID", link)).filter(|link| link.text.len() <= MAX_LINK_BYTES)
}

/// The text of the mail, and the names of its attachments.
fn body(mail: &Message<'_>) -> String {
    let texts = mail.text_bodies().filter_map(|part| match &part.body {
        PartType::Text(text) => Some(Cow::Borrowed(text.as_ref())),
        PartType::Html(html) => Some(Cow::Owned(html_to_text(html))),
        _ => None,
    });
    let mut body = String::new();
    for text in texts {
        body.push_str(text.trim());
        body.push_str("\n\n");
    }
    let name = |part: &mail_parser::MessagePart<'_>| match part.attachment_name() {
        Some(name) => {
            let short: String = name.chars().take(MAX_NAME_CHARS).collect();
            visible_line(&short)
        }
        None => "one without a name".to_owned(),
    };
    let named: Vec<String> = mail.attachments().take(MAX_NAMED).map(name).collect();
    if !named.is_empty() {
        let more = mail.attachment_count().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        body.push_str(&format!("[attachments, not kept: {}{more}]", named.join(", ")));
    }
    body
}
