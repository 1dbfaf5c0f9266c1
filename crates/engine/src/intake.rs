//! Asks from outside that were taken in before.

use onus_core::command::Command;
use onus_core::refusal::Refusal;
use onus_store::Store;

use crate::view::Notice;
use crate::{Answer, Engine, Identity, Reply, Request};

impl<S: Store> Engine<S> {
    /// Takes an ask in. A known one of which nothing new is to be recorded is only looked up: a delivery that
    /// changes nothing writes nothing and waits for nobody. Channels deliver the same ask many times.
    pub fn take_in(&mut self, request: &Request) -> Result<Reply, Refusal> {
        self.take_in_for(request, Some(&request.identity))
    }

    /// The same for one of many asks delivered at once: the caller gets its news when something is written,
    /// not with each look-up. On a server that saves half of the round trips.
    pub fn take_in_next(&mut self, request: &Request) -> Result<Reply, Refusal> {
        self.take_in_for(request, None)
    }

    fn take_in_for(&mut self, request: &Request, hears: Option<&Identity>) -> Result<Reply, Refusal> {
        match self.known(request, hears)? {
            Some(reply) => Ok(reply),
            // If somebody else takes the same ask in meanwhile, its task is found under the lock.
            None => self.run(request),
        }
    }

    fn known(&mut self, request: &Request, hears: Option<&Identity>) -> Result<Option<Reply>, Refusal> {
        let Request { command: Command::Intake(intake), key: None, .. } = request else {
            return Ok(None);
        };
        let Some(origin) = intake.new.origin.as_ref().filter(|_| !intake.refresh) else { return Ok(None) };
        let looked = self.ask(hears, |snapshot| {
            let uid = snapshot.read.task_by_origin(origin)?;
            let task = uid.map(|uid| snapshot.read.task(uid)).transpose()?.flatten();
            Ok(task.map(|task| snapshot.task_view(&task)).transpose()?)
        })?;
        let Some(task) = looked.value else { return Ok(None) };
        let mut notices = looked.notices;
        notices.extend(intake.is_reply.then(|| Notice::info(replied(&task.id))));
        let answer = Answer::Asked { task: Box::new(task), changed: Vec::new() };
        Ok(Some(Reply {
            answer,
            replayed: false,
            existing: true,
            unchanged: false,
            notices,
            due: Vec::new(),
        }))
    }
}

/// The notice about a delivery that only replies to an ask.
pub(crate) fn replied(id: &str) -> String {
    format!("it is a reply: its ask is {id}, which stays as it is")
}
