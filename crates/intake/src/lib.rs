//! Asks from outside: bytes in, an [`Ask`] or the faulty field out.
//!
//! A *channel* is how an ask reaches a project: a mail, a tracker's issue, a message in a chat, any JSON. Each has one mapper, a
//! plain function that reads what the channel delivers and returns what a task needs: the channel's own *reference*, by which
//! the same ask is recognised again, a link back, a title, a body, the author, and a type, priority and labels if they are
//! stated plainly. Everything else stays in the channel: an ask refers to the channel's record and is not a copy of it.
//!
//! **Nothing here is trusted.** Anyone may have written a delivery. Sizes and depths are bounded, nothing is fetched, no text is
//! run or followed. A record that contradicts itself, such as a mail with two Message-IDs or an issue whose address names
//! another number, is refused, and the refusal names the field. An author is a quotation, never an actor.
//!
//! **The reference decides which task it is** (P8), so it depends on the delivered bytes alone: never on what is already known,
//! on the order of deliveries, or on the clock. Two concurrent deliveries of one ask find the same task.
//!
//! | file | story |
//! | --- | --- |
//! | `ask.rs` | what every mapper returns, and its limits |
//! | `json.rs` | fields of a JSON document, by their paths |
//! | `labels.rs` | what labels, and names of types and priorities, mean here |
//! | `mail.rs` | RFC 822 |
//! | `trackers.rs`, `jira.rs` | issues of GitHub, GitLab and Jira, from their APIs and webhooks |
//! | `chat.rs` | a message |
//! | `paths.rs` | any JSON, by field paths that a project configures |

mod ask;
mod chat;
mod jira;
mod json;
mod labels;
mod mail;
mod paths;
mod trackers;

pub use ask::{Ask, Fault, MAX_JSON_BYTES, MAX_MAIL_BYTES, MAX_TEXT_BYTES, Plain};
pub use paths::{FieldPath, Paths};

use serde_json::Value;

onus_core::spelled! {
    /// The built-in channels.
    Channel {
        /// Typed on a command line.
        Cli = "cli",
        /// Plain text: the first line is the title.
        Stdin = "stdin",
        /// Plain text in a file.
        File = "file",
        Mail = "mail",
        Github = "github",
        Gitlab = "gitlab",
        Jira = "jira",
        Chat = "chat",
    }
}

/// Reads the bytes that a channel delivers.
#[derive(Clone, Copy, Debug)]
pub enum Mapper<'a> {
    Mail,
    Json(fn(&Value) -> Result<Ask, Fault>),
    /// A channel that a project configures, by its name.
    Paths(&'a str, &'a Paths),
}

impl<'a> Mapper<'a> {
    /// The mapper of a channel. Plain text has none, because its reference is not in the text.
    pub fn of(channel: Channel) -> Option<Mapper<'a>> {
        Some(match channel {
            Channel::Cli | Channel::Stdin | Channel::File => return None,
            Channel::Mail => Mapper::Mail,
            Channel::Github => Mapper::Json(trackers::github),
            Channel::Gitlab => Mapper::Json(trackers::gitlab),
            Channel::Jira => Mapper::Json(jira::ask),
            Channel::Chat => Mapper::Json(chat::ask),
        })
    }

    pub fn read(self, bytes: &[u8]) -> Result<Ask, Fault> {
        if bytes.len() > self.max_bytes() {
            return Err(Fault::too_large(self.max_bytes()));
        }
        match self {
            Mapper::Mail => mail::ask(bytes),
            Mapper::Json(ask) => ask(&json::document(bytes)?),
            Mapper::Paths(name, paths) => paths.ask(name, &json::document(bytes)?),
        }
    }

    /// The most bytes of one delivery.
    pub fn max_bytes(self) -> usize {
        match self {
            Mapper::Mail => MAX_MAIL_BYTES,
            _ => MAX_JSON_BYTES,
        }
    }
}
