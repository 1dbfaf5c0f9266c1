//! Free text: titles, bodies, notes and reasons. It is stored next to its event, which has only
//! `sha256(salt ‖ text)`: erasing text and salt leaves the chain intact, and the text cannot be guessed from it.

use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::ids::{Uid, Version, shortened};
use crate::refusal::Refusal;

crate::spelled! {
    /// Names a text of an event.
    Field {
        Title = "title",
        Body = "body",
        Note = "note",
        Reason = "reason",
        Acceptance = "acceptance",
        /// Who asked for the task, in the words of the ask's channel. It does not name an actor.
        Author = "author",
    }
}

impl Field {
    /// The most bytes a text of this field may have.
    pub fn max_bytes(self) -> usize {
        match self {
            Field::Title | Field::Acceptance | Field::Author => 500,
            Field::Body => 256 * 1024,
            Field::Note => 64 * 1024,
            Field::Reason => 4 * 1024,
        }
    }

    /// Returns the text without surrounding white space, if it is acceptable.
    pub fn check(self, text: &str) -> Result<String, Refusal> {
        let name = self.as_str();
        let text = text.trim();
        if text.is_empty() {
            return Err(Refusal::usage(format!("the {name} is empty: write something")));
        }
        if text.len() > self.max_bytes() {
            return Err(Refusal::usage(format!(
                "the {name} is {} bytes long; the limit is {}",
                text.len(),
                self.max_bytes()
            )));
        }
        if text.contains('\0') {
            return Err(Refusal::usage(format!("the {name} contains a NUL character: remove it")));
        }
        let one_line_only = match self {
            Field::Title => Some("the title has several lines: keep the first, and put the rest in the body"),
            Field::Acceptance => Some("an acceptance line is one line: add each by itself"),
            Field::Author => Some("the author is one line"),
            Field::Body | Field::Note | Field::Reason => None,
        };
        match one_line_only.filter(|_| text.contains(['\n', '\r'])) {
            Some(message) => Err(Refusal::usage(message)),
            None => Ok(text.to_owned()),
        }
    }
}

impl FromStr for Field {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        Field::ALL.iter().copied().find(|field| field.as_str() == text).ok_or_else(|| {
            Refusal::usage(format!(
                "'{}' is not a text: use title, body, note, reason, acceptance or author",
                shortened(text)
            ))
        })
    }
}

/// Identifies a text: one field of one event of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextKey {
    pub stream: Uid,
    pub version: Version,
    pub field: Field,
}

/// Keeps a short text from being guessed by its digest.
pub type Salt = [u8; 16];

/// The digest that the event has of a text.
pub fn digest(salt: &Salt, text: &str) -> String {
    hex(&Sha256::new().chain_update(salt).chain_update(text.as_bytes()).finalize())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        text
    })
}

/// What is shown where a text was erased.
pub const REDACTED: &str = "[redacted]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_clean() {
        assert_eq!(Field::Title.check("  Fix it \n"), Ok("Fix it".to_owned()));
        for bad in ["", "   ", "a\0b", "two\nlines", &"x".repeat(501)] {
            assert!(Field::Title.check(bad).is_err(), "{bad:?}");
        }
        assert!(Field::Body.check(&"x".repeat(1 << 20)).is_err());
        assert!(Field::Note.check("two\nlines").is_ok());
        assert!(Field::Acceptance.check("two\nlines").is_err());
        for field in Field::ALL {
            assert_eq!(field.as_str().parse(), Ok(*field));
        }
    }

    #[test]
    fn the_digest_depends_on_salt_and_text() {
        assert_ne!(digest(&[0; 16], "a"), digest(&[1; 16], "a"));
        assert_ne!(digest(&[0; 16], "a"), digest(&[0; 16], "b"));
        assert_eq!(hex(&[0x0f, 0xa0]), "0fa0");
    }
}
