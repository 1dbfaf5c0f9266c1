//! What a conversation used of models: its harness's transcript, read on from where the last reading stopped, when a turn, a part or
//! the conversation is over.
//!
//! The transcript is a file that a payload names. It is opened only if it is a regular file of this user's and no link, a bounded
//! part of it is read, and nothing of it is kept but numbers and the model's name. Whatever is wrong with it, the hook goes on.

use onus_agents::hook::usage::{Cursor, read};
use onus_agents::hook::{Moment, Payload};
use onus_core::actor::InstanceId;
use onus_core::session::{Answered, Reading};
use onus_engine::Engine;
use onus_os::clock;
use onus_repo::open_own;
use onus_store::AnyStore;

use super::Hook;

impl Hook<'_> {
    /// None: there is nothing to read, or it cannot be read.
    pub(super) fn read_transcript(
        &self,
        engine: &mut Engine<AnyStore>,
        payload: &Payload,
    ) -> Option<(InstanceId, Reading)> {
        let conversation = &self.conversation;
        let (reader, whole) = match (payload.moment, &conversation.sub_agent) {
            (Moment::TurnOver | Moment::End, _) => (conversation.instance.clone(), None),
            (Moment::PartOver, Some(part)) => (part.clone(), Some(conversation.instance.clone())),
            _ => return None,
        };
        let path = payload.transcript.as_deref().filter(|path| path.is_absolute())?;
        let name = path.file_name()?.to_string_lossy();
        let (mut file, size) = open_own(path).ok()?;
        let from = engine.read_so_far(&conversation.actor, &reader).ok()?;
        let cursor: Cursor =
            from.as_deref().and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default();
        let (used, next) = read(self.dialect, &mut file, (&name, size), cursor).ok()?;
        let cursor = serde_json::to_string(&next).ok()?;
        if from.as_ref() == Some(&cursor) {
            return None;
        }
        let now_ms = clock::now().wall_ms;
        let answers = used.into_iter().map(|used| Answered {
            age_ms: now_ms.saturating_sub(used.at_ms.unwrap_or(now_ms)).max(0),
            usage: used.usage,
        });
        Some((reader, Reading { answers: answers.collect(), from, cursor, whole }))
    }
}
