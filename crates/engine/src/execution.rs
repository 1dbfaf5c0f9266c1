//! From requests to a transaction and back: what is committed, what is rolled back, and what is tried again.

use onus_core::command::{Act, Command};
use onus_core::ids::Uid;
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_store::{Ending, Store, StoreError, Write};

use crate::landing::Unsettled;
use crate::orphans::Orphan;
use crate::request::{Stop, UnitOfWork};
use crate::view::{Notice, NoticeKind};
use crate::{Engine, Identity, Outside, Reply, Request};

type Answers = Vec<Result<Reply, Refusal>>;

/// The result of one transaction.
enum Attempt {
    Answered(Answers),
    /// A dead holder's processes must be ended before its task is granted to another: then the batch is tried
    /// again.
    Orphan(Orphan),
    /// A landing that was begun must be settled before its task is changed: then the batch is tried again.
    Unsettled(Unsettled),
}

/// How many landings are settled for one batch: there are more only if others begin new ones meanwhile.
const MOST_SETTLED: usize = 100;

/// What to do with the changes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Keep,
    /// Discard them: only the answer is wanted.
    Rehearse,
}

impl<S: Store> Engine<S> {
    /// Runs n requests with one durable commit; the answers are in the same order.
    pub fn execute(&mut self, batch: &[Request]) -> Vec<Result<Reply, Refusal>> {
        self.transact(batch, Purpose::Keep).unwrap_or_else(|error| {
            let refusal = Refusal::from(error);
            batch.iter().map(|_| Err(refusal.clone())).collect()
        })
    }

    /// Runs one request with one commit.
    pub fn run(&mut self, request: &Request) -> Result<Reply, Refusal> {
        only(self.transact(std::slice::from_ref(request), Purpose::Keep)?)
    }

    /// Returns what the answer to a request would be now. Everything is done as [`Engine::run`] does it, then
    /// undone.
    pub fn rehearse(&mut self, request: &Request) -> Result<Reply, Refusal> {
        only(self.transact(std::slice::from_ref(request), Purpose::Rehearse)?)
    }

    fn transact(&mut self, batch: &[Request], purpose: Purpose) -> Result<Answers, StoreError> {
        let mut answers = self.attempt(batch, purpose)?;
        if purpose == Purpose::Keep {
            for (request, answer) in batch.iter().zip(&mut answers) {
                self.make_way(request, answer);
                if let Ok(reply) = answer {
                    let due = std::mem::take(&mut reply.due);
                    reply.notices.extend(self.rescue(&request.identity, &due));
                    reply.notices.extend(self.kept_before(&request.command, reply));
                }
            }
        }
        Ok(answers)
    }

    /// Runs one request without what follows its transaction: no yielding, no rescues.
    pub(crate) fn attempt_one(&mut self, request: &Request) -> Result<Reply, Refusal> {
        only(self.attempt(std::slice::from_ref(request), Purpose::Keep)?)
    }

    /// The same for an act of the engine itself, in the name of a caller but without its token.
    pub(crate) fn attempt_act(&mut self, by: &Identity, task: Uid, act: Act) -> Result<Reply, Refusal> {
        let command = Command::OnTask { task: Some(task.into()), act, force: None };
        let identity = Identity { token: None, ..by.clone() };
        self.attempt_one(&Request { identity, command, key: None })
    }

    fn attempt(&mut self, batch: &[Request], purpose: Purpose) -> Result<Answers, StoreError> {
        let (mut ended_groups, mut remarks) = (Vec::new(), Vec::new());
        let mut settled = 0;
        loop {
            let (policy, outside) = (&self.policy, &mut self.outside);
            let attempt = self.store.transact(|write| {
                let mut batch = Batch { write, policy, outside, ended_groups: &ended_groups, purpose, batch };
                batch.attempt()
            })?;
            match attempt {
                Attempt::Answered(mut answers) => {
                    for reply in answers.iter_mut().flatten() {
                        reply.notices.extend(remarks.iter().cloned());
                    }
                    return Ok(answers);
                }
                Attempt::Orphan(orphan) => {
                    let ended = (outside.end_orphan)(&orphan).into_iter();
                    remarks
                        .extend(ended.map(|message| {
                            Notice::new(NoticeKind::Info, Some(orphan.task.clone()), message)
                        }));
                    ended_groups.push(orphan.group);
                }
                Attempt::Unsettled(unsettled) => {
                    let by = batch.first().map(|request| &request.identity);
                    let told = match by.filter(|_| settled < MOST_SETTLED) {
                        Some(by) => self.settle(by, &unsettled),
                        None => Err(Refusal::new(
                            Code::Busy,
                            format!("{} is landed again and again", unsettled.id),
                        )),
                    };
                    settled += 1;
                    match told {
                        Ok(notice) => remarks.push(notice),
                        Err(refusal) => return Ok(batch.iter().map(|_| Err(refusal.clone())).collect()),
                    }
                }
            }
        }
    }
}

/// The answer to a batch of one.
fn only(answers: Answers) -> Result<Reply, Refusal> {
    let unanswered = || StoreError::Unexpected("a request was not answered".to_owned());
    answers.into_iter().next().unwrap_or_else(|| Err(unanswered().into()))
}

/// Requests inside their transaction.
struct Batch<'a> {
    write: &'a mut dyn Write,
    policy: &'a Policy,
    outside: &'a mut Outside,
    /// Process groups that were ended for this batch.
    ended_groups: &'a [u32],
    purpose: Purpose,
    batch: &'a [Request],
}

impl Batch<'_> {
    fn attempt(&mut self) -> Result<Ending<Attempt>, StoreError> {
        // A single request needs no savepoint: if it is refused, the whole transaction is undone with it.
        let is_alone = self.batch.len() == 1;
        let (mut answers, mut owed) = (Vec::with_capacity(self.batch.len()), None);
        for (at, request) in self.batch.iter().enumerate() {
            let life = SignOfLife::of(request, &self.batch[at + 1..]);
            if !is_alone {
                self.write.savepoint()?;
            }
            match self.unit_of_work(request).and_then(|work| work.run(life)) {
                Ok(reply) => {
                    if !is_alone {
                        self.write.release()?;
                    }
                    owed = Some(request).filter(|_| life == SignOfLife::Owed);
                    answers.push(Ok(reply));
                }
                Err(Stop::Refused(refusal)) if is_alone => {
                    return Ok(Ending::RollBack(Attempt::Answered(vec![Err(refusal)])));
                }
                Err(Stop::Refused(refusal)) => {
                    self.write.undo()?;
                    answers.push(Err(refusal));
                    // It was to give the sign of life for the request before it, too.
                    if life == SignOfLife::Given
                        && let Some(request) = owed.take()
                    {
                        self.give_owed_sign(request)?;
                    }
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Orphan(orphan)) => return Ok(Ending::RollBack(Attempt::Orphan(orphan))),
                Err(Stop::Unsettled(begun)) => return Ok(Ending::RollBack(Attempt::Unsettled(begun))),
            }
        }
        let answered = Attempt::Answered(answers);
        Ok(match self.purpose {
            Purpose::Keep => Ending::Commit(answered),
            Purpose::Rehearse => Ending::RollBack(answered),
        })
    }

    fn unit_of_work<'d>(&'d mut self, request: &'d Request) -> Result<UnitOfWork<'d>, Stop> {
        UnitOfWork::new(self.write, self.policy, self.outside, request, self.ended_groups, self.purpose)
    }

    /// Gives the sign of life that an earlier request owes. Nothing is decided by it.
    fn give_owed_sign(&mut self, request: &Request) -> Result<(), StoreError> {
        match self.unit_of_work(request).and_then(|work| work.give_owed_sign()) {
            Err(Stop::Failed(error)) => Err(error),
            Ok(()) | Err(Stop::Refused(_) | Stop::Orphan(_) | Stop::Unsettled(_)) => Ok(()),
        }
    }
}

/// Whether a request of a batch gives its caller's sign of life at its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignOfLife {
    Given,
    /// The next request is the same caller's and gives it for both. A sign of life locks what is reserved;
    /// given in between, two callers would each keep the other from the reservation that its second request
    /// needs.
    Owed,
}

impl SignOfLife {
    fn of(request: &Request, rest: &[Request]) -> SignOfLife {
        let same = |next: &Request| {
            next.identity.actor == request.identity.actor
                && next.identity.instance == request.identity.instance
        };
        // Progress is recorded with the request that made it.
        let waits = !request.command.is_progress() && rest.first().is_some_and(same);
        if waits { SignOfLife::Owed } else { SignOfLife::Given }
    }
}
