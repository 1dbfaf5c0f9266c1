//! What a conversation used of models. When a turn, a part or the conversation is over, its harness's transcript is read from
//! where the last reading stopped.
//!
//! The transcript is a file that a payload names. It is opened only if it is a regular file of this user's and not a link; only
//! a bounded part of it is read, and only numbers and the model's name are kept. If anything is wrong with it, the hook
//! continues without it.

use onus_agents::hook::usage::{Cursor, read};
use onus_agents::hook::{HookEvent, Payload};
use onus_core::actor::InstanceId;
use onus_core::session::{Answered, Reading};
use onus_engine::AnyEngine;
use onus_os::clock;
use onus_repo::open_own;

use super::Hook;

impl Hook<'_> {
    /// The instance, and what it used since the last reading. None if there is nothing to read, or it cannot be read.
    pub(super) fn read_transcript(
        &self,
        engine: &mut AnyEngine,
        payload: &Payload,
    ) -> Option<(InstanceId, Reading)> {
        let conversation = &self.conversation;
        let (reader, whole) = match (payload.moment, &conversation.sub_agent) {
            (HookEvent::TurnOver | HookEvent::End, _) => (conversation.instance.clone(), None),
            (HookEvent::PartOver, Some(part)) => (part.clone(), Some(conversation.instance.clone())),
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
