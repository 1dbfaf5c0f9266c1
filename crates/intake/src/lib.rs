//! Asks from outside: bytes in, an [`Ask`] or the field that is wrong out.
//!
//! A *channel* is how an ask reaches a project: a mail, a tracker's issue, a message in a chat, any JSON. Each has one mapper, a
//! plain function that reads what the channel delivers and gives what a task needs: the channel's own *reference*, by which the
//! same ask is known again, a link back, a title, a body, who asked, and what it plainly says of type, priority and labels.
//! Everything else stays where it is: an ask refers to the channel's record, it is not a copy of it.
//!
//! **Nobody here is believed.** Anyone may have written what is read. Sizes and depths are bounded, nothing is fetched, no
//! text is run or followed. A record that contradicts itself, such as a mail with two Message-IDs or an issue whose address names
//! another number, is refused and the field is named. An author is a quotation, never an actor.
//!
//! **The reference decides which task it is** (P8), so it is a function of the delivered bytes alone: never of what is known
//! already, of the order of deliveries, or of the clock. Two deliveries of one ask that race find the same task.
//!
//! | file | story |
//! | --- | --- |
//! | `ask.rs` | what every mapper gives, and the limits it is held to |
//! | `json.rs` | fields of a JSON document, by their paths |
//! | `labels.rs` | what labels, and names of types and priorities, mean here |
//! | `mail.rs` | RFC 822 |
//! | `trackers.rs`, `jira.rs` | issues of GitHub, GitLab and Jira, as their APIs and webhooks tell of them |
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

/// The channels that onus knows by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Typed on a command line.
    Cli,
    /// Plain text: the first line is the title.
    Stdin,
    /// The same in a file.
    File,
    Mail,
    Github,
    Gitlab,
    Jira,
    Chat,
}

impl Channel {
    pub const ALL: [Channel; 8] = [
        Channel::Cli,
        Channel::Stdin,
        Channel::File,
        Channel::Mail,
        Channel::Github,
        Channel::Gitlab,
        Channel::Jira,
        Channel::Chat,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Channel::Cli => "cli",
            Channel::Stdin => "stdin",
            Channel::File => "file",
            Channel::Mail => "mail",
            Channel::Github => "github",
            Channel::Gitlab => "gitlab",
            Channel::Jira => "jira",
            Channel::Chat => "chat",
        }
    }

    pub fn named(name: &str) -> Option<Channel> {
        Channel::ALL.into_iter().find(|channel| channel.as_str() == name)
    }
}

/// What reads the bytes that a channel delivers.
#[derive(Clone, Copy, Debug)]
pub enum Mapper<'a> {
    Mail,
    Github,
    Gitlab,
    Jira,
    Chat,
    /// A channel that a project configures, by its name.
    Paths(&'a str, &'a Paths),
}

impl<'a> Mapper<'a> {
    /// The mapper of a channel that has one. Plain text has none: its reference is not in it.
    pub fn of(channel: Channel) -> Option<Mapper<'a>> {
        match channel {
            Channel::Cli | Channel::Stdin | Channel::File => None,
            Channel::Mail => Some(Mapper::Mail),
            Channel::Github => Some(Mapper::Github),
            Channel::Gitlab => Some(Mapper::Gitlab),
            Channel::Jira => Some(Mapper::Jira),
            Channel::Chat => Some(Mapper::Chat),
        }
    }

    pub fn read(self, bytes: &[u8]) -> Result<Ask, Fault> {
        if bytes.len() > self.max_bytes() {
            return Err(Fault::too_large(self.max_bytes()));
        }
        match self {
            Mapper::Mail => mail::ask(bytes),
            Mapper::Github => trackers::github(&json::document(bytes)?),
            Mapper::Gitlab => trackers::gitlab(&json::document(bytes)?),
            Mapper::Jira => jira::ask(&json::document(bytes)?),
            Mapper::Chat => chat::ask(&json::document(bytes)?),
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
