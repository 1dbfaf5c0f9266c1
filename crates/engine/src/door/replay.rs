//! Idempotency (P8): a key applies one request once. What is kept names what was made and holds no text; the answer to
//! a replay is rendered anew.

use serde::Serialize as _;

use onus_core::command::{Act, Command};
use onus_core::ids::{Token, Uid};
use onus_core::refusal::{Code, Refusal};
use onus_core::text::{Salt, digest};
use onus_core::time::rfc3339;
use onus_store::KeptRequest;

use super::{Door, Made, Outcome, Result};
use crate::Reply;

/// The most bytes an idempotency key may have.
const MAX_KEY: usize = 200;

impl Door<'_> {
    pub(super) fn fingerprint(&self, salt: &Salt, task: Option<Uid>) -> String {
        let command = &self.request.command;
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::new(&mut text);
        // Plain data: serializing it into memory cannot fail.
        let _ = command.serialize(&mut writer);
        // What an added task became was not part of the request.
        let named = task.filter(|_| {
            matches!(command, Command::OnTask { .. } | Command::Reset { .. } | Command::Retry { .. })
        });
        let text = String::from_utf8_lossy(&text);
        digest(
            salt,
            &format!("{} {text} {}", command.verb(), named.map(|uid| uid.to_string()).unwrap_or_default()),
        )
    }

    pub(super) fn replay(&mut self, key: &str) -> Result<Option<Reply>> {
        if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
            return Err(
                Refusal::usage(format!("a key has 1 to {MAX_KEY} bytes and no control characters")).into()
            );
        }
        let actor = self.caller.actor.clone();
        let Some(kept) = self.write.request(&actor, key)? else { return Ok(None) };
        let named = match &self.request.command {
            Command::OnTask { task: Some(reference), .. }
            | Command::Reset { task: Some(reference), .. }
            | Command::Retry { task: Some(reference), .. } => Some(self.resolve(reference)?),
            _ => kept.task,
        };
        let same_verb = kept.verb == self.request.command.verb();
        let Some(digest) = &kept.digest else {
            // Whether this is the same request cannot be told: applying or dropping it could both be wrong.
            return Err(Refusal::new(
                Code::KeyReused,
                format!("{actor} used the key '{key}' for a request whose text was erased since"),
            )
            .next("look whether it was applied, then use a new key")
            .into());
        };
        if !same_verb || *digest != self.fingerprint(&kept.salt, named) {
            return Err(Refusal::new(
                Code::KeyReused,
                format!(
                    "{actor} used the key '{key}' for another request ({}), at {}",
                    kept.verb,
                    rfc3339(kept.at_ms)
                ),
            )
            .next("use a new key for a new request")
            .into());
        }
        let made = match &self.request.command {
            Command::Add(_) | Command::Retry { .. } => Made::Task,
            Command::AddPlan(plan) => Made::Tasks(self.planned_again(plan, kept.task)?),
            Command::Reset { .. } => Made::Reset(Vec::new()),
            Command::OnTask { act, .. } if !act.gives_lease() => Made::Task,
            Command::OnTask { .. } | Command::ClaimNext(_) => Made::Lease { renewed: false, takeover: false },
            Command::RegisterActor { actor, .. }
            | Command::SetTier { actor, .. }
            | Command::AddAlias { actor, .. } => Made::Actor(self.known_actor(actor)?),
            Command::RegisterInstance { actor, instance, .. } => {
                match self.write.instance(actor, instance)? {
                    Some(known) => Made::Instance(known),
                    None => Made::Actor(self.known_actor(actor)?),
                }
            }
            Command::Guard(_) => Made::Guarded { adopted: false },
            Command::Presence(_) => Made::Present(Vec::new()),
            Command::RecordSeal { .. } => Made::Sealed,
        };
        if let (Some(uid), Some(token)) = (kept.task, kept.token) {
            self.check_still_current(uid, token)?;
        }
        let outcome = Outcome { task: kept.task, token: kept.token, ..Outcome::of(made) };
        self.reply(outcome, true).map(Some)
    }

    /// Exit 5 unless the lease that a replayed request got is still the task's current one.
    pub(super) fn check_still_current(&mut self, uid: Uid, token: Token) -> Result<()> {
        let lease = self.write.lease(uid, token)?;
        let task = self.write.task(uid)?;
        let fenced = task.as_ref().map(|task| task.fenced_token).unwrap_or_default();
        let lease = lease.filter(|lease| lease.is_usable(fenced));
        let current = task.is_some_and(|task| task.token == token);
        if let Some(lease) = lease.filter(|_| current) {
            // The key is the actor's, the lease one instance's: another must not take it for its own.
            if lease.is_held_by(&self.caller.actor, &self.caller.instance) {
                return Ok(());
            }
            return self.on_task(uid, &Act::Renew { ttl_ms: None, progress: false }, None).map(drop);
        }
        let id = self.write.task(uid)?.map(|task| self.project.prefix.id(task.number)).unwrap_or_default();
        Err(Refusal::new(
            Code::Fenced,
            format!("this request was applied before, but the lease it got (token {token}) is gone"),
        )
        .next(format!("onus log {id}   # what happened"))
        .next(format!("onus claim {id}   # begin anew, under a new key"))
        .task(id)
        .into())
    }

    pub(super) fn keep(&mut self, key: &str, outcome: &Outcome) -> Result<()> {
        let salt = (self.outside.new_salt)();
        let request = KeptRequest {
            digest: Some(self.fingerprint(&salt, outcome.task)),
            salt,
            verb: self.request.command.verb().to_owned(),
            task: outcome.task,
            token: outcome.token,
            at_ms: self.now.wall_ms,
        };
        Ok(self.write.keep_request(&self.caller.actor.clone(), key, &request)?)
    }
}
