//! A conversation and its sub-agents, its *parts*: one holder to everybody else, but several writers among themselves.
//!
//! They never refuse one another what they hold, with one exception: two parts do not write one file at a time. A file that a
//! running part has touched is refused to its siblings. A conversation knows what it asked of its parts, so between it and a
//! part nothing is refused; the one that touches the other's file only gets a notice.
//!
//! A part is **running** if it has touched a file, its end was not reported, and its conversation's turn is not over. Not every
//! harness reports when a part stops, but no part outlives a turn unseen: when the turn is over, all parts count as ended. A
//! part that continues in the background is running again with its next edit.

use crate::actor::InstanceId;

/// How the owner of a file is related to the instance that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    Itself,
    /// The conversation that the asker is a part of.
    Whole,
    /// A part of the conversation that asks.
    Part,
    /// Another part of the same conversation.
    Sibling,
    /// Another conversation, or none: the leases' reservations decide.
    Stranger,
}

/// The answer to a part, or a conversation, that asks for a file of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    Free,
    /// Free, with a notice whose file it is.
    Told,
    Refused,
}

/// How `owner` is related to `asker`. `whole`: the conversation of the asker, or the asker itself.
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

/// The table. None: they are strangers, and the leases' reservations decide.
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
