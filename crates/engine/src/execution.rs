//! From requests to a transaction and back: what is committed, what is rolled back, and what is tried again.

use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_store::{Ending, Store, StoreError, Write};

use crate::landing::Unsettled;
use crate::orphans::Orphan;
use crate::request::{Stop, UnitOfWork};
use crate::view::{Notice, NoticeKind};
use crate::{Engine, Outside, Reply, Request};

type Answers = Vec<Result<Reply, Refusal>>;

/// What one transaction came to.
enum Attempt {
    Answered(Answers),
    /// A dead holder's processes must be ended before its task is granted to another: then all is tried again.
    Met(Orphan),
    /// A landing that was begun must be settled before its task is changed: then all is tried again.
    Begun(Unsettled),
}

/// How many landings are settled for one batch: more are begun only while it waits.
const MOST_SETTLED: usize = 100;

/// What becomes of what a batch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Keep,
    /// Only its answer is wanted.
    Rehearse,
}

impl<S: Store> Engine<S> {
    /// n requests, one durable commit; the answers in the same order.
    pub fn execute(&mut self, batch: &[Request]) -> Vec<Result<Reply, Refusal>> {
        self.transact(batch, Purpose::Keep).unwrap_or_else(|error| {
            let refusal = Refusal::from(error);
            batch.iter().map(|_| Err(refusal.clone())).collect()
        })
    }

    /// One request, one commit.
    pub fn run(&mut self, request: &Request) -> Result<Reply, Refusal> {
        only(self.transact(std::slice::from_ref(request), Purpose::Keep)?)
    }

    /// What the answer to a request would be now. Everything is done as [`Engine::run`] does it, then undone.
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

    /// One request by itself, as far as it is decided inside a transaction.
    pub(crate) fn attempt_one(&mut self, request: &Request) -> Result<Reply, Refusal> {
        only(self.attempt(std::slice::from_ref(request), Purpose::Keep)?)
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
                Attempt::Met(orphan) => {
                    let ended = (outside.end_orphan)(&orphan).into_iter();
                    remarks
                        .extend(ended.map(|message| {
                            Notice::new(NoticeKind::Info, Some(orphan.task.clone()), message)
                        }));
                    ended_groups.push(orphan.group);
                }
                Attempt::Begun(unsettled) => {
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
        // One alone needs no savepoint: if it is refused, the whole transaction is undone with it.
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
                    // It was to show for the one before it, too, that its caller lives.
                    if life == SignOfLife::Given
                        && let Some(request) = owed.take()
                    {
                        self.live_on(request)?;
                    }
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Orphan(orphan)) => return Ok(Ending::RollBack(Attempt::Met(orphan))),
                Err(Stop::Unsettled(begun)) => return Ok(Ending::RollBack(Attempt::Begun(begun))),
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

    /// The sign of life that an earlier request owes. Nothing is decided by it.
    fn live_on(&mut self, request: &Request) -> Result<(), StoreError> {
        match self.unit_of_work(request).and_then(|work| work.live_on()) {
            Err(Stop::Failed(error)) => Err(error),
            Ok(()) | Err(Stop::Refused(_) | Stop::Orphan(_) | Stop::Unsettled(_)) => Ok(()),
        }
    }
}

/// Whether a request of a batch shows at its own end that its caller lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignOfLife {
    Given,
    /// The next request is the same caller's and gives it for both. A sign of life locks what is reserved; given in between,
    /// two callers would each keep the other from the reservation that its second request asks for.
    Owed,
}

impl SignOfLife {
    fn of(request: &Request, rest: &[Request]) -> SignOfLife {
        let same = |next: &Request| {
            next.identity.actor == request.identity.actor
                && next.identity.instance == request.identity.instance
        };
        // What came of the work is noted where it came of it.
        let waits = !request.command.is_progress() && rest.first().is_some_and(same);
        if waits { SignOfLife::Owed } else { SignOfLife::Given }
    }
}
