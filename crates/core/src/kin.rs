//! A conversation and its sub-agents, its *parts*: one holder to everybody else, and several hands among themselves.
//!
//! They never block one another out of what they hold, with one exception: two parts do not write one file at a time. A file
//! that a running part is on is refused to its siblings. A conversation knows what it asked its parts for, so between it
//! and a part nobody is refused; whoever touches the other's file is told so, in that answer.
//!
//! **Running** is a part that has touched a file and whose end nobody reported, while its conversation's turn goes on. Not
//! every harness tells when a part stops, but none of them outlives a turn unseen: when the turn is over, all parts count
//! as ended. One that works on in the background runs again with its next edit.

use crate::actor::InstanceId;

/// What the owner of a file is to whoever asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    Itself,
    /// The conversation that the asker is a part of.
    Whole,
    /// A part of the conversation that asks.
    Part,
    /// Another part of the same conversation.
    Sibling,
    /// Another conversation, or no conversation at all: what the leases reserve decides.
    Stranger,
}

/// How a part, or its conversation, is answered that asks for a file of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    Free,
    /// Free, and told whose file it is.
    Told,
    Refused,
}

/// `whole`: the conversation of the asker, or the asker itself.
pub fn kin(whole: &InstanceId, asker: &InstanceId, owner: &InstanceId) -> Kin {
    if asker == owner {
        Kin::Itself
    } else if owner == whole {
        if whole.has_part(asker) { Kin::Whole } else { Kin::Stranger }
    } else if !whole.has_part(owner) {
        Kin::Stranger
    } else if asker == whole {
        Kin::Part
    } else if whole.has_part(asker) {
        Kin::Sibling
    } else {
        Kin::Stranger
    }
}

/// The table. None: they are strangers, and what the leases reserve decides.
pub fn within(kin: Kin, is_running: bool) -> Option<Within> {
    match kin {
        Kin::Itself => Some(Within::Free),
        Kin::Whole => Some(Within::Told),
        Kin::Part if is_running => Some(Within::Told),
        Kin::Sibling if is_running => Some(Within::Refused),
        Kin::Part | Kin::Sibling => Some(Within::Free),
        Kin::Stranger => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> InstanceId {
        text.parse().unwrap()
    }

    #[test]
    fn kin_are_a_conversation_and_its_parts() {
        for (whole, asker, owner, expected) in [
            ("c", "c", "c", Kin::Itself),
            ("c", "c/1", "c/1", Kin::Itself),
            ("c", "c/1", "c", Kin::Whole),
            ("c", "c", "c/1", Kin::Part),
            ("c", "c/1", "c/2", Kin::Sibling),
            ("c", "c/ü/1", "c/ü/2", Kin::Sibling),
            ("c", "c/1", "d", Kin::Stranger),
            ("c", "c", "d/1", Kin::Stranger),
            ("c", "c", "c2", Kin::Stranger),
            ("c", "c", "cc/1", Kin::Stranger),
            ("c/1", "c/1", "c/2", Kin::Stranger),
            ("c/1", "c/1", "c", Kin::Stranger),
        ] {
            assert_eq!(
                kin(&id(whole), &id(asker), &id(owner)),
                expected,
                "{asker} asks for what {owner} has"
            );
        }
    }

    #[test]
    fn only_a_running_sibling_is_in_the_way() {
        for (kin, running, ended) in [
            (Kin::Itself, Some(Within::Free), Some(Within::Free)),
            (Kin::Whole, Some(Within::Told), Some(Within::Told)),
            (Kin::Part, Some(Within::Told), Some(Within::Free)),
            (Kin::Sibling, Some(Within::Refused), Some(Within::Free)),
            (Kin::Stranger, None, None),
        ] {
            assert_eq!((within(kin, true), within(kin, false)), (running, ended), "{kin:?}");
        }
    }
}
