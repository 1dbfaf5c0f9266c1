//! Waiting for a task: a claim that is tried again when something has changed.
//!
//! What stands in a claim's way can end in three ways, and a waiter attends to all of them at once, in one sleep:
//!
//! - **somebody commits**: a task is added, released, finished, unblocked. The store's [`Watch`] tells;
//! - **a process dies**, and the lease bound to it lapses at once. The kernel tells, by a pidfd;
//! - **a time comes**: a lease's deadline or maximum hold, the end of a reservation, a schedule. [`wake_at`] says which
//!   is first.
//!
//! **Attend, then look, then sleep.** Each of the three is attended to *before* the look whose emptiness sends the waiter
//! to sleep; so nothing can fall between look and sleep:
//!
//! - a commit after the watch last spoke ends the next sleep, also if it came before the look (then one look is spent in
//!   vain) and also if it came between look and sleep;
//! - a process that died before its pidfd was opened is not attended to: it is dead to the look that follows;
//! - a time that came before [`wake_at`] was asked is not attended to: it has come for the look that follows;
//! - a lease or a reservation that nobody attends to, because it began after that, began with a commit;
//! - when the waiter's own time is over it does not ask whether to look: its last look is the claim itself, so that
//!   what changed at that very instant is still had, and the refusal, if it is one, is of that instant.
//!
//! **Looking is a read.** After a commit every waiter wakes, and most find nothing: only one that sees a task it could
//! take goes to the door and queues with the writers. Whether it gets the task is decided there, in one transaction as
//! ever; who comes second waits on. Which of the waiters gets it is nobody's promise.
//!
//! **A waiter costs nothing while nothing happens**, and little when much does: after a look in vain it rests for a
//! multiple of the processor time that it took, so that many waiters beside busy writers leave them the processor. It
//! holds no transaction, no lock and no task; any signal may end it. It gives no sign of life, and its instance is not
//! registered by waiting. Where signals are not the way (a server waits for many), `stop` ends it: from when that has
//! something to say, no new try is begun.
//!
//! A refusal that waiting cannot cure (no such task, finished, too low a tier) is the answer at once, at the beginning
//! and whenever it comes to that.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use onus_core::actor::Tier;
use onus_core::command::{Act, Command, Terms};
use onus_core::ids::{TaskRef, Token};
use onus_core::lease::{Lease, Liveness, Process, Seen};
use onus_core::refusal::{Code, Refusal};
use onus_core::task::Task;
use onus_core::time::Moment;
use onus_store::{Read, Store, StoreError, Watch};

use crate::door::resolve;
use crate::{Engine, Identity, Reply, Request, process};

/// How many processes' ends are attended to; a process may have only so many files open.
const MAX_ENDS: usize = 256;

/// How many reserved tasks are looked at for the first that ends.
const MAX_TASKS: usize = 500;

/// How soon to look again when something changes without telling: a process whose end cannot be attended to, more
/// tasks than are looked at, a store that was busy.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The longest sleep. What another clock decides (a deadline of an earlier boot, by wall time) may come unannounced.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// A waiter rests for so many times the processor time that it spent in vain, and no longer than this.
const REST: u32 = 20;
const MAX_REST: Duration = Duration::from_millis(500);

/// What could be had by waiting, when the door said no.
fn waiting_may_help(refusal: &Refusal) -> bool {
    matches!(
        refusal.code,
        Code::Nothing | Code::Held | Code::Kept | Code::Scope | Code::Unmet | Code::NotYet | Code::Busy
    )
}

/// What a waiter attends to beside commits.
#[derive(Debug)]
struct Attention {
    /// When to look again, whatever happens.
    at: Instant,
    ends: Vec<(Process, OwnedFd)>,
}

/// What may end by itself and so let the waiter have its task, from one snapshot.
#[derive(Debug, Default)]
struct InTheWay {
    leases: Vec<(Lease, Seen)>,
    tasks: Vec<Task>,
    /// When the next schedule is due, in wall time.
    due_ms: Option<i64>,
    /// There is more than was looked at.
    more: bool,
}

impl<S: Store> Engine<S> {
    /// Like [`Engine::run`], but what is refused for now is tried again until it is granted or the time is over.
    /// `begun` is called once, when the waiting begins, with what was refused. As soon as `stop` has something to say
    /// the waiting ends with what was refused last.
    pub fn run_or_wait(
        &mut self,
        request: &Request,
        patience: Duration,
        stop: Option<BorrowedFd<'_>>,
        begun: &mut dyn FnMut(&Refusal),
    ) -> Result<Reply, Refusal> {
        let until = Instant::now().checked_add(patience);
        let mut watch = self.store.watch()?;
        let mut refusal = match self.run(request) {
            Err(refusal) if waiting_may_help(&refusal) => refusal,
            answer => return answer,
        };
        begun(&refusal);
        let mut ends = Vec::new();
        let mut spent = None;
        loop {
            let looked = self
                .attend(request, &refusal, ends)
                .and_then(|attention| Ok((attention, self.is_worth_a_try(request, &refusal)?)));
            let (attention, is_worth_a_try) = match looked {
                // A server that is away for a moment: nothing was asked of it yet.
                Err(away) if away.code == Code::Unavailable => {
                    (Attention { at: Instant::now() + LOOK_AGAIN, ends: Vec::new() }, false)
                }
                looked => looked?,
            };
            self.check_bound(request)?;
            if is_worth_a_try {
                if stop.is_some_and(has_spoken) {
                    return Err(refusal);
                }
                refusal = match self.run(request) {
                    Err(refusal) if waiting_may_help(&refusal) => refusal,
                    answer => return answer,
                };
            }
            rest(spent, until);
            spent = Some(processor_time());
            sleep(&mut *watch, until, &attention, stop)?;
            ends = attention.ends;
            if stop.is_some_and(has_spoken) {
                return Err(refusal);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                self.check_bound(request)?;
                return self.run(request);
            }
        }
    }

    /// Begins to attend to what may change without a commit. What has changed before is for the look that follows.
    fn attend(
        &mut self,
        request: &Request,
        refusal: &Refusal,
        before: Vec<(Process, OwnedFd)>,
    ) -> Result<Attention, Refusal> {
        let observe = &self.outside.observe;
        let (now, in_the_way) = self.store.read(|read| {
            let now = read.now();
            Ok((now, in_the_way(read, request, refusal, observe)?))
        })?;
        let asked_at = Instant::now();
        let at = wake_at(&in_the_way, &now).and_then(|at| {
            let left_ms = u64::try_from(at.since_ms(&now)).unwrap_or_default();
            asked_at.checked_add(Duration::from_millis(left_ms))
        });
        let mut processes: Vec<Process> = in_the_way
            .leases
            .iter()
            .filter(|(_, seen)| *seen == Seen::Alive)
            .filter_map(|(lease, _)| lease.grant.process.clone())
            .chain(terms(request).and_then(|terms| terms.process.clone()))
            .collect();
        processes.sort_by_key(|process| (process.pid, process.start));
        processes.dedup();
        let (ends, unattended) = ends_of(processes, before);
        let uncertain = unattended || in_the_way.more || refusal.code == Code::Busy;
        let again = asked_at + if uncertain { LOOK_AGAIN } else { MAX_SLEEP };
        Ok(Attention { at: at.map_or(again, |at| at.min(again)), ends })
    }

    /// A read that keeps those who would be refused from the writers' queue. Yes costs a try, a wrong no a task: where
    /// it cannot tell, it says yes.
    fn is_worth_a_try(&mut self, request: &Request, refusal: &Refusal) -> Result<bool, Refusal> {
        if request.key.is_some() {
            // Another may have been granted it under the same key.
            return Ok(true);
        }
        match (&request.command, refusal.code) {
            (Command::ClaimNext(_), Code::Nothing) => {
                Ok(!self.ready(Some(&request.identity), 1)?.value.tasks.is_empty())
            }
            (Command::OnTask { task: Some(task), .. }, Code::Held | Code::Kept) => {
                let observe = &self.outside.observe;
                Ok(self.store.read(|read| is_free_for(read, task, &request.identity, observe))?)
            }
            _ => Ok(true),
        }
    }

    /// A lease for a process that died while it was waited for would lapse with its grant.
    fn check_bound(&self, request: &Request) -> Result<(), Refusal> {
        match terms(request).and_then(|terms| terms.process.as_ref()) {
            Some(process) if (self.outside.observe)(process) == Seen::Dead => Err(Refusal::usage(format!(
                "process {} ended while this waited for a task to bind to it",
                process.pid
            ))),
            _ => Ok(()),
        }
    }
}

/// The first time at which something may end by itself that stands in the waiter's way: a lease by its deadline or its
/// maximum hold, a reservation, a schedule.
fn wake_at(in_the_way: &InTheWay, now: &Moment) -> Option<Moment> {
    let leases = in_the_way.leases.iter().filter_map(|(lease, seen)| lease.lapses_at(now, *seen));
    let reservations = in_the_way.tasks.iter().filter_map(|task| Some(task.kept.as_ref()?.until.clone()));
    // What has come is for the look: it would wake the waiter again and again.
    let schedule = in_the_way.due_ms.map(|due_ms| now.plus(due_ms - now.wall_ms));
    leases
        .chain(reservations)
        .chain(schedule)
        .filter(|at| !at.has_come(now))
        .reduce(|first, at| first.earlier(at, now))
}

/// What stands in the way of this request: on one task if that is held or kept, else anywhere.
fn in_the_way(
    read: &mut dyn Read,
    request: &Request,
    refusal: &Refusal,
    observe: &dyn Fn(&Process) -> Seen,
) -> Result<InTheWay, StoreError> {
    let see = |lease: Lease| {
        let seen = lease.grant.process.as_ref().map_or(Seen::Unseen, observe);
        (lease, seen)
    };
    if let (Command::OnTask { task: Some(reference), .. }, Code::Held | Code::Kept) =
        (&request.command, refusal.code)
    {
        let Some(task) = task_named(read, reference)? else { return Ok(InTheWay::default()) };
        let lease = current_lease(read, &task)?;
        let leases = lease.map(see).into_iter().collect();
        return Ok(InTheWay { leases, tasks: vec![task], ..InTheWay::default() });
    }
    let tier = tier_of(read, &request.identity)?;
    let now_ms = read.now().wall_ms;
    let mut tasks = Vec::new();
    read.walk_ready(tier, now_ms, &mut |_, task| {
        tasks.push(task);
        Ok(tasks.len() < MAX_TASKS)
    })?;
    let due_ms = read.next_due(now_ms)?;
    // A person's lease is not handed out when it lapses.
    let leases = read.open_leases(u64::from(u32::MAX))?.into_iter().map(|(_, lease)| lease);
    let leases = leases.filter(|lease| !lease.actor.is_person()).map(see).collect();
    Ok(InTheWay { leases, more: tasks.len() == MAX_TASKS, tasks, due_ms })
}

fn tier_of(read: &mut dyn Read, identity: &Identity) -> Result<Tier, StoreError> {
    let name = read.alias(&identity.actor)?.unwrap_or_else(|| identity.actor.clone());
    Ok(read.actor(&name)?.map_or(Tier::DEFAULT, |actor| actor.tier))
}

fn task_named(read: &mut dyn Read, reference: &TaskRef) -> Result<Option<Task>, StoreError> {
    let project = read.project()?;
    match resolve(read, &project, reference) {
        Ok(uid) => read.task(uid),
        // The door says it better.
        Err(stop) => stop.of_reader().map(|_| None),
    }
}

fn current_lease(read: &mut dyn Read, task: &Task) -> Result<Option<Lease>, StoreError> {
    let lease = if task.token > Token(0) { read.lease(task.uid, task.token)? } else { None };
    Ok(lease.filter(|lease| lease.ended.is_none()))
}

/// Whether nobody holds a task live, and it is kept for nobody else.
fn is_free_for(
    read: &mut dyn Read,
    reference: &TaskRef,
    identity: &Identity,
    observe: &dyn Fn(&Process) -> Seen,
) -> Result<bool, StoreError> {
    let Some(task) = task_named(read, reference)? else { return Ok(true) };
    let now = read.now();
    let name = read.alias(&identity.actor)?.unwrap_or_else(|| identity.actor.clone());
    let lease = current_lease(read, &task)?;
    let is_held = lease.is_some_and(|lease| {
        let seen = lease.grant.process.as_ref().map_or(Seen::Unseen, observe);
        lease.liveness(&now, seen) == Liveness::Live
    });
    let is_kept = task.kept.is_some_and(|kept| kept.actor != name && !kept.until.has_come(&now));
    Ok(!is_held && !is_kept)
}

fn terms(request: &Request) -> Option<&Terms> {
    match &request.command {
        Command::ClaimNext(terms) | Command::OnTask { act: Act::Claim(terms) | Act::Takeover(terms), .. } => {
            Some(terms)
        }
        _ => None,
    }
}

/// What tells the end of each process; those that are attended to already are kept. True: of some nothing tells.
fn ends_of(processes: Vec<Process>, mut open: Vec<(Process, OwnedFd)>) -> (Vec<(Process, OwnedFd)>, bool) {
    let mut unattended = processes.len() > MAX_ENDS;
    let mut ends = Vec::with_capacity(processes.len().min(MAX_ENDS));
    for process in processes.into_iter().take(MAX_ENDS) {
        let known = open.iter().position(|(other, _)| *other == process).map(|place| open.swap_remove(place));
        match known.or_else(|| process::end_of(&process).map(|end| (process, end))) {
            Some(end) => ends.push(end),
            // It died a moment ago, and the look that follows sees it; or there is nothing to attend to.
            None => unattended = true,
        }
    }
    (ends, unattended)
}

fn sleep(
    watch: &mut dyn Watch,
    until: Option<Instant>,
    attention: &Attention,
    stop: Option<BorrowedFd<'_>>,
) -> Result<(), StoreError> {
    let until = until.map_or(attention.at, |until| until.min(attention.at));
    let ends = attention.ends.iter().map(|(_, end)| end.as_fd());
    let also: Vec<BorrowedFd<'_>> = ends.chain(stop).collect();
    watch.wait(Some(until), &also)?;
    Ok(())
}

/// Whether a file has something to say, now.
fn has_spoken(file: BorrowedFd<'_>) -> bool {
    let mut ears = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    poll(&mut ears, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && !ears[0].revents().is_empty()
}

/// After a look in vain, before the next sleep. `spent_before`: the processor time when the waiter went to sleep.
fn rest(spent_before: Option<Duration>, until: Option<Instant>) {
    let Some(spent_before) = spent_before else { return };
    let rest = (processor_time().saturating_sub(spent_before) * REST).min(MAX_REST);
    let left = until.map_or(rest, |until| until.saturating_duration_since(Instant::now()));
    std::thread::sleep(rest.min(left));
}

/// What this process had of the processor so far.
fn processor_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}
