//! A message in a chat: `channel`, `id` (or `ts`) and `text`; optionally `author` (or `user`) and `link` (or `permalink`). In a
//! thread (`thread` or `thread_ts`) the message that began it is the ask.

use serde_json::Value;

use crate::ask::{Ask, Fault, Found, Raw};
use crate::json::{id, need, need_id, text};

/// How much of a message's first line becomes the title.
const TITLE_CHARS: usize = 120;

pub(crate) fn ask(document: &Value) -> Result<Ask, Fault> {
    let room = need_id(document, "channel")?;
    if room.text.contains('/') {
        return Err(room.fault("the name of a channel has no slash"));
    }
    let own = first(document, ["id", "ts"], id)?.ok_or_else(|| Fault::missing("id"))?;
    let thread = first(document, ["thread", "thread_ts"], id)?;
    let is_reply = thread.as_ref().is_some_and(|thread| thread.text != own.text);
    let asked = thread.unwrap_or(own);
    let said = need(document, "text")?;
    let line = said.text.trim().lines().next().unwrap_or_default();
    let is_whole = line.chars().nth(TITLE_CHARS).is_none();
    let mut title: String = line.chars().take(TITLE_CHARS).collect();
    if !is_whole {
        title.push('…');
    }
    // If the title has the whole first line, the body does not repeat it.
    let rest = if is_whole { said.text.trim().get(line.len()..).unwrap_or_default() } else { &said.text };
    let reference = Found::new(asked.field.clone(), format!("{}/{}", room.text, asked.text));
    let raw = Raw {
        body: Some(Found::new(said.field.clone(), rest)),
        author: first(document, ["author", "user"], text)?,
        link: first(document, ["link", "permalink"], text)?,
        is_reply,
        ..Raw::new("chat", reference, Found::new(said.field.clone(), title))
    };
    raw.ask()
}

/// The first of two fields that exists.
fn first(
    document: &Value,
    fields: [&str; 2],
    read: fn(&Value, &str) -> Result<Option<Found>, Fault>,
) -> Result<Option<Found>, Fault> {
    match read(document, fields[0])? {
        Some(found) => Ok(Some(found)),
        None => read(document, fields[1]),
    }
}
