//! Idempotency (P8): a key applies one request once. The kept record refers to the result and contains no
//! text; the answer to a replay is rendered again.

use serde::Serialize as _;

use onus_core::command::{Act, Command, Guard, SeatAct};
use onus_core::decide::Need;
use onus_core::ids::{TaskRef, Token, Uid};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::text::{Salt, digest};
use onus_core::time::Span;
use onus_core::transition::Verb;
use onus_store::{EventQuery, KeptRequest, StoreError};

use super::{Effect, Outcome, Result, Stop, UnitOfWork};
use crate::Reply;

/// The maximum length of an idempotency key, in bytes.
const MAX_KEY: usize = 200;

impl UnitOfWork<'_> {
    /// The digest of a request. It covers what was requested, not how it was spelled: tasks by their uids,
    /// actors by their own names, sets in one order. `task`: the task that the request is about, or that it
    /// created.
    fn fingerprint(&mut self, salt: &Salt, task: Option<Uid>) -> Result<String> {
        let mut command = self.request.command.clone();
        for reference in command.named_tasks_mut() {
            *reference = self.resolve(reference)?.into();
        }
        for actor in command.named_actors_mut() {
            if let Some(name) = self.write.alias(actor)? {
                *actor = name;
            }
        }
        command.sort_sets();
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::new(&mut text);
        // Plain data: serializing it into memory cannot fail.
        let _ = command.serialize(&mut writer);
        // The task that a request created was not part of the request.
        let named = task.filter(|_| {
            matches!(
                command.itself(),
                Command::OnTask { .. } | Command::Reset { .. } | Command::Retry { .. } | Command::Undo { .. }
            )
        });
        // Whoever names no task means the one that it holds then, which may be another the next time.
        let held = match command.itself() {
            Command::OnTask { task: None, .. }
            | Command::Reset { task: None, .. }
            | Command::Retry { task: None, .. }
            | Command::Undo { task: None, .. } => " held",
            _ => "",
        };
        let text = String::from_utf8_lossy(&text);
        let named = named.map(|uid| uid.to_string()).unwrap_or_default();
        Ok(digest(salt, &format!("{} {text} {named}{held}", command.verb())))
    }

    /// The digest of a request that may differ from the one that was applied under its key. None: it names a
    /// task that does not exist, so it differs.
    fn fingerprint_again(&mut self, kept: &KeptRequest) -> Result<Option<String>> {
        let named = match self.request.command.itself() {
            Command::OnTask { task: Some(reference), .. }
            | Command::Reset { task: Some(reference), .. }
            | Command::Retry { task: Some(reference), .. }
            | Command::Undo { task: Some(reference), .. } => match self.resolve(reference) {
                Err(Stop::Refused(_)) if self.was_named_by(kept.task, reference)? => Ok(kept.task),
                resolved => resolved.map(Some),
            },
            _ => Ok(kept.task),
        };
        match named.and_then(|named| self.fingerprint(&kept.salt, named)) {
            Ok(digest) => Ok(Some(digest)),
            Err(Stop::Refused(refusal)) if refusal.code == Code::NotFound => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    /// Whether the task once had this reference in another system. A request may remove the very reference by
    /// which it names its task.
    fn was_named_by(&mut self, task: Option<Uid>, reference: &TaskRef) -> Result<bool> {
        let (Some(task), TaskRef::External { system, reference }) = (task, reference) else {
            return Ok(false);
        };
        let all = EventQuery { stream: Some(task), limit: u64::from(u32::MAX), ..EventQuery::default() };
        let events = self.write.events(&all)?;
        Ok(events.iter().any(|record| record.payload["facts"]["refs"][system.as_str()] == reference.as_str()))
    }

    pub(super) fn replay(&mut self, key: &str) -> Result<Option<Reply>> {
        if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
            return Err(
                Refusal::usage(format!("a key has 1 to {MAX_KEY} bytes and no control characters")).into()
            );
        }
        let actor = self.caller.actor.clone();
        self.write.lock_key(&actor, key)?;
        let Some(kept) = self.write.request(&actor, key)? else { return Ok(None) };
        let same_verb = kept.verb == self.request.command.verb();
        let Some(digest) = &kept.digest else {
            // It is impossible to tell whether this is the same request: both applying and dropping it could
            // be wrong.
            return Err(Refusal::new(
                Code::KeyReused,
                format!(
                    "{actor} already used the key '{key}', for a request whose text has since been erased"
                ),
            )
            .next(Step::LogAll)
            .next(Step::NewKey)
            .into());
        };
        if !same_verb || Some(digest) != self.fingerprint_again(&kept)?.as_ref() {
            return Err(Refusal::new(
                Code::KeyReused,
                format!(
                    "{actor} already used the key '{key}' for another request ({}), {} ago",
                    kept.verb.replace('_', " "),
                    Span::from_ms(self.now.wall_ms - kept.at_ms)
                ),
            )
            .next(Step::NewKey)
            .into());
        }
        let effect = match self.request.command.itself() {
            Command::Add(_) | Command::Retry { .. } => Effect::Task,
            Command::Intake(_) => Effect::Asked(Vec::new()),
            Command::AddPlan(plan) => Effect::Tasks(self.planned_again(plan, kept.task)?),
            Command::Reset { .. } => Effect::Reset(Vec::new()),
            Command::Undo { .. } => Effect::Undone { undone: Vec::new(), what: None },
            Command::OnTask { act, .. } if !act.gives_lease() => Effect::Task,
            Command::OnTask { .. } | Command::ClaimNext(_) => {
                Effect::Lease { renewed: false, takeover: false }
            }
            Command::OnSeat { act, .. } => {
                Effect::Seat { renewed: matches!(act, SeatAct::Renew { .. }), takeover: false }
            }
            Command::Seated { .. } => {
                return Err(Refusal::new(Code::Unexpected, "a seat within a seat").into());
            }
            Command::RegisterActor { actor, .. }
            | Command::SetTier { actor, .. }
            | Command::AddAlias { actor, .. } => Effect::Actor(self.known_actor(actor)?),
            Command::RegisterInstance { actor, instance, .. } => {
                match self.write.instance(actor, instance)? {
                    Some(known) => Effect::Instance(known),
                    None => Effect::Actor(self.known_actor(actor)?),
                }
            }
            Command::Guard(guard) => Effect::Guarded { adopted: false, is_shown: !guard.is_brief },
            Command::Look(_) => Effect::Guarded { adopted: false, is_shown: false },
            Command::Presence(_) | Command::Used(_) | Command::Changed(_) | Command::Committed(_) => {
                Effect::Present(Vec::new())
            }
            Command::SealTimesheet { .. } | Command::RecordSeal { .. } => Effect::Sealed,
        };
        if let (Some(uid), Some(token)) = (kept.task, kept.token) {
            self.check_still_current(uid, token)?;
        }
        self.check_still_reserved(kept.task)?;
        let outcome = Outcome { task: kept.task, token: kept.token, ..Outcome::of(effect) };
        let rows = self.closing(outcome.shown())?;
        self.reply(outcome, &rows, true).map(Some)
    }

    /// Exit 5 unless the lease that a replayed request obtained is still the task's current one, and live:
    /// the caller takes the answer for a lease that it holds. A lapsed one may continue, but by a request
    /// that checks it.
    pub(super) fn check_still_current(&mut self, uid: Uid, token: Token) -> Result<()> {
        let lease = self.write.lease(uid, token)?;
        if lease.as_ref().is_some_and(|lease| !lease.is_of_a_task()) {
            return self.check_seat_still_current(uid, token);
        }
        let task = self.write.task(uid)?;
        let id = task.as_ref().map(|task| self.project.prefix.id(task.number)).unwrap_or_default();
        let fenced = task.as_ref().map(|task| task.fenced_token).unwrap_or_default();
        let is_current = task.is_some_and(|task| task.token == token);
        let usable = lease.filter(|lease| is_current && lease.is_usable(fenced));
        let gone = |how: &str| {
            let message =
                format!("this request was applied before, but the lease it got (token {token}) {how}");
            Refusal::new(Code::Fenced, message).task(id.as_str())
        };
        match usable {
            None => Err(gone("is gone").next(Step::log(&id)).next(Step::NewKey).into()),
            Some(lease) if !self.is_live(&lease, None) => Err(gone("has since lapsed")
                .next(Step::verb(Verb::Claim, &id))
                .next(Step::NewKey)
                .next(Step::log(&id))
                .into()),
            // The key is the actor's, but the lease one instance's: another instance must not take it for its
            // own.
            Some(lease) if !lease.is_held_by(&self.caller.actor, &self.caller.instance) => {
                self.on_task(uid, &Act::Renew { ttl_ms: None, progress: false }, None).map(drop)
            }
            Some(_) => Ok(()),
        }
    }

    /// Refuses to repeat that files are the caller's to change, if that is no longer so, or if the caller's turn has been over since:
    /// its files may be given to another at any moment, and a replay is no sign of life.
    fn check_still_reserved(&mut self, task: Option<Uid>) -> Result<()> {
        let (Command::Guard(Guard { paths, touched, .. })
        | Command::OnTask { act: Act::Touch { paths, touched, .. }, .. }) = self.request.command.itself()
        else {
            return Ok(());
        };
        let Some(task) = task.map(|uid| self.write.task(uid)).transpose()?.flatten() else { return Ok(()) };
        let lease = self.write.lease(task.uid, task.token)?;
        let reserved = self.write.scope_of(task.uid, task.token)?;
        let shared = &self.policy.scope_shared;
        let has = |path: &String| reserved.holds(path, touched.worktree.as_ref()) || shared.covers(path);
        if lease.is_some_and(|lease| !lease.pulse.resting) && paths.iter().all(has) {
            return Ok(());
        }
        let id = self.project.prefix.id(task.number);
        let message = format!(
            "this request was applied before, but the files that {id} got by it may have gone to another since"
        );
        Err(Refusal::new(Code::Changed, message).task(id).next(Step::NewKey).into())
    }

    /// The same for a seat.
    fn check_seat_still_current(&mut self, uid: Uid, token: Token) -> Result<()> {
        let seat = self.write.seat(uid)?.ok_or_else(|| StoreError::Damaged("a seat vanished".to_owned()))?;
        // By the holder, not by the token: the key is the actor's, but the lease one instance's.
        self.caller.token = Some(token).filter(|token| *token != seat.token);
        match self.check_seat(&seat, Need::LiveLease) {
            Err(Stop::Refused(refusal)) => {
                let message = format!(
                    "this request was applied before, but the lease it got (token {token}) is not live any more: {}",
                    refusal.message
                );
                Err(Refusal { code: Code::Fenced, message, ..refusal }.next(Step::NewKey).into())
            }
            checked => checked,
        }
    }

    pub(super) fn keep(&mut self, key: &str, outcome: &Outcome) -> Result<()> {
        let salt = (self.outside.new_salt)();
        let request = KeptRequest {
            digest: Some(self.fingerprint(&salt, outcome.task)?),
            salt,
            verb: self.request.command.verb().to_owned(),
            task: outcome.task,
            token: outcome.token,
            at_ms: self.now.wall_ms,
        };
        Ok(self.write.keep_request(&self.caller.actor.clone(), key, &request)?)
    }
}
