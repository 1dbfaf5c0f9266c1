//! Waiting for a task: a claim that is tried again when something has changed.
//!
//! An obstacle to a claim can go away in three ways, and a waiter watches for all of them at once, in one
//! sleep:
//!
//! - **someone commits**: a task is added, released, finished, unblocked. The store's [`Watch`] reports it;
//! - **a process dies**, and the lease bound to it lapses at once. The kernel reports it, through a pidfd;
//! - **a time comes**: a lease's deadline or maximum hold, the end of a reservation, a schedule. [`wake_at`]
//!   returns the first.
//!
//! **Attend, then look, then sleep.** The waiter begins to attend to each of the three *before* the look that
//! finds nothing and sends it to sleep, so nothing can be missed between look and sleep:
//!
//! - a commit after the watch's last report ends the next sleep, even if it came before the look (then one
//!   look is wasted) or between look and sleep;
//! - a process that died before its pidfd was opened is not attended to: the look that follows sees it dead;
//! - a time that came before [`wake_at`] was computed is not attended to: the look that follows sees it;
//! - a lease or a reservation that began too late to be attended to began with a commit;
//! - what is attended to does not depend on why the last try was refused: when one obstacle goes away, the
//!   next one is already attended to;
//! - when the waiter's own time is up it does not check whether a try is worthwhile: its last look is the
//!   claim itself, so that a change at that very instant still counts, and the refusal, if any, is of that
//!   instant.
//!
//! **Looking is a read.** After a commit every waiter wakes, and most find nothing: only one that sees a task
//! it could claim tries and queues with the writers. That transaction decides whether it gets the task, as
//! always; the second one keeps waiting. Which of the waiters gets it is not promised.
//!
//! **A waiter costs nothing while nothing happens**, and little when much does: after a look that found
//! nothing it pauses for a multiple of the processor time that it took, so that many waiters leave the
//! processor to busy writers. It holds no transaction, no lock and no task; any signal may end it. It gives
//! no sign of life, and waiting does not register its instance. If signals cannot be used (a server waits for
//! many), `stop` ends it: once that is readable, no new try begins.
//!
//! A refusal that waiting cannot fix (no such task, finished, too low a tier) is the answer at once, at the
//! beginning and at any later try.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use onus_core::actor::{KnownBy, Tier};
use onus_core::command::{Act, Command, SeatAct, Terms};
use onus_core::decide::{opens_at, reservations_of};
use onus_core::ids::TaskRef;
use onus_core::lease::{Lease, Liveness, Process, Seen};
use onus_core::refusal::{Code, Refusal};
use onus_core::seat::SeatName;
use onus_core::task::Task;
use onus_core::time::Moment;
use onus_os::process;
use onus_store::{Store, StoreError, Watch};

use crate::request::resolve;
use crate::snapshot::Snapshot;
use crate::{Engine, Identity, Reply, Request};

/// How many processes are watched; a process may have only so many files open.
const MAX_ENDS: usize = 256;

/// How many reserved tasks are read to find the first whose reservation ends.
const MAX_TASKS: usize = 500;

/// How soon to look again if something may change unnoticed: a process whose end cannot be watched, more
/// tasks than were read, a store that was busy.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The longest sleep. What another clock decides (a deadline of an earlier boot, by wall time) may come
/// unannounced.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// A waiter rests for this multiple of the processor time that it spent in vain, but no longer than this.
const REST: u32 = 20;
const MAX_REST: Duration = Duration::from_millis(500);

/// Whether waiting may help after this refusal.
fn waiting_may_help(refusal: &Refusal) -> bool {
    matches!(
        refusal.code,
        Code::Nothing | Code::Held | Code::Kept | Code::Scope | Code::Unmet | Code::NotYet | Code::Busy
    )
}

/// What a waiter attends to besides commits.
#[derive(Debug)]
struct Attention {
    /// When to look again, whatever happens.
    at: Instant,
    ends: Vec<(Process, OwnedFd)>,
}

/// Obstacles to the waiter's claim that may end by themselves, from one snapshot.
#[derive(Debug, Default)]
struct Obstacles {
    leases: Vec<(Lease, Seen)>,
    /// Tasks that a reservation or a schedule may keep from the waiter.
    tasks: Vec<Task>,
    /// When the next schedule of a task that is not in `tasks` is due, in wall time.
    due_ms: Option<i64>,
    /// There are more than were read.
    more: bool,
}

impl<S: Store> Engine<S> {
    /// Like [`Engine::run`], but tries again what is refused for now, until it is granted or the time is
    /// over. `begun` is called once, with the refusal, when the waiting begins. As soon as `stop` is
    /// readable, the waiting ends with the last refusal.
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
        self.remember_wish(request, &refusal);
        begun(&refusal);
        let mut ends = Vec::new();
        let mut spent = None;
        loop {
            let looked = self
                .attend(request, ends)
                .and_then(|attention| Ok((attention, self.is_worth_a_try(request, &refusal)?)));
            let (mut attention, is_worth_a_try) = match looked {
                // A server that is away for a moment: nothing was requested of it yet.
                Err(away) if away.code == Code::Unavailable => {
                    (Attention { at: Instant::now() + LOOK_AGAIN, ends: Vec::new() }, false)
                }
                looked => looked?,
            };
            self.check_bound(request)?;
            if is_worth_a_try {
                if stop.is_some_and(is_readable) {
                    return Err(refusal);
                }
                refusal = match self.run(request) {
                    Err(refusal) if waiting_may_help(&refusal) => refusal,
                    answer => return answer,
                };
            }
            if refusal.code == Code::Busy {
                attention.at = attention.at.min(Instant::now() + LOOK_AGAIN);
            }
            rest(spent, until);
            spent = Some(processor_time());
            sleep(&mut *watch, until, &attention, stop)?;
            ends = attention.ends;
            if stop.is_some_and(is_readable) {
                return Err(refusal);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                self.check_bound(request)?;
                return self.run(request);
            }
        }
    }

    /// Begins to attend to what may change without a commit. What has changed before, the look that follows
    /// sees.
    fn attend(&mut self, request: &Request, before: Vec<(Process, OwnedFd)>) -> Result<Attention, Refusal> {
        let (now, obstacles) = self.query(|snapshot| {
            let obstacles = match &request.command {
                Command::OnTask { task: Some(reference), .. } => {
                    snapshot.obstacles_to_task(request, reference)?
                }
                Command::OnSeat { seat, .. } => snapshot.obstacles_to_seat(seat)?,
                _ => snapshot.obstacles_to_any(request)?,
            };
            Ok((snapshot.now.clone(), obstacles))
        })?;
        let asked_at = Instant::now();
        let at = wake_at(&obstacles, &now).and_then(|at| {
            let left_ms = u64::try_from(at.left_ms(&now)).unwrap_or_default();
            asked_at.checked_add(Duration::from_millis(left_ms))
        });
        let mut processes: Vec<Process> = obstacles
            .leases
            .iter()
            .filter(|(_, seen)| *seen == Seen::Alive)
            .filter_map(|(lease, _)| lease.grant.process.clone())
            .chain(bound_to(request).cloned())
            .collect();
        processes.sort_by_key(|process| (process.pid, process.start));
        processes.dedup();
        let (ends, unattended) = ends_of(processes, before);
        let again = asked_at + if unattended || obstacles.more { LOOK_AGAIN } else { MAX_SLEEP };
        Ok(Attention { at: at.map_or(again, |at| at.min(again)), ends })
    }

    /// Whether the request could succeed now. This read keeps requests that would be refused out of the
    /// writers' queue. A wrong yes costs a try, a wrong no a task: in doubt, the answer is yes.
    fn is_worth_a_try(&mut self, request: &Request, refusal: &Refusal) -> Result<bool, Refusal> {
        if request.key.is_some() {
            // Another process may have been granted it under the same key.
            return Ok(true);
        }
        match (&request.command, refusal.code) {
            (Command::ClaimNext(terms), Code::Nothing) => {
                let asker = Some(&request.identity);
                self.query(|snapshot| Ok(!snapshot.all_ready(asker, 1, terms)?.is_empty()))
            }
            (Command::OnTask { task: Some(task), .. }, Code::Held | Code::Kept) => {
                self.query(|snapshot| Ok(snapshot.is_free_for(task, &request.identity)?))
            }
            (Command::OnSeat { seat, .. }, Code::Held) => self.query(|snapshot| {
                let Some(seat) = snapshot.read.seat_named(seat)? else { return Ok(true) };
                Ok(!snapshot.is_held_by_another(&seat.as_task(), &request.identity)?)
            }),
            _ => Ok(true),
        }
    }

    /// Refuses if the process that the lease is to be bound to died meanwhile: the lease would lapse as soon
    /// as it is granted.
    fn check_bound(&self, request: &Request) -> Result<(), Refusal> {
        match bound_to(request) {
            Some(process) if (self.outside.observe)(process) == Seen::Dead => Err(Refusal::usage(format!(
                "process {} ended while this waited for a lease to bind to it",
                process.pid
            ))),
            _ => Ok(()),
        }
    }
}

/// The first time at which an obstacle may end by itself: a lease by its deadline or its maximum hold, a
/// reservation, a schedule.
fn wake_at(obstacles: &Obstacles, now: &Moment) -> Option<Moment> {
    let leases = obstacles.leases.iter().filter_map(|(lease, seen)| lease.lapses_at(now, *seen));
    let tasks = obstacles.tasks.iter().filter_map(|task| opens_at(task, now));
    let schedule = obstacles.due_ms.map(|due_ms| now.plus(due_ms - now.wall_ms));
    leases
        .chain(tasks)
        .chain(schedule)
        // A time that has come is for the look: it would wake the waiter again and again.
        .filter(|at| !at.has_come(now))
        .reduce(|first, at| first.earlier(at, now))
}

impl Snapshot<'_> {
    /// Possible obstacles to a claim of one task, whatever it was last refused for: its lease, its
    /// reservation, its schedule, and the leases that reserve paths it needs. A dependency ends with a
    /// commit.
    fn obstacles_to_task(&mut self, request: &Request, reference: &TaskRef) -> Result<Obstacles, StoreError> {
        let Some(task) = self.task_named(reference)? else { return Ok(Obstacles::default()) };
        let last = self.last_lease(&task)?;
        let mut scope = match terms(request) {
            Some(terms) => reservations_of(&task, terms).0.scope(),
            None => task.facts.scope.clone(),
        };
        if let Some(lease) = &last
            && lease.is_held_by(&self.actor_behind(&request.identity.actor)?, &request.identity.instance)
        {
            // The waiter's own lease: after a lapse it gets back everything it had, or nothing.
            scope.extend(Vec::from(self.scope_of(task.uid, lease.token)?.scope()));
        }
        let rivals = self.near(&task, &scope)?.rivals.into_iter().map(|rival| rival.lease);
        let leases = last.into_iter().filter(|lease| lease.ended.is_none()).chain(rivals);
        let leases = leases.map(|lease| self.with_seen(lease)).collect();
        Ok(Obstacles { leases, tasks: vec![task], ..Obstacles::default() })
    }

    /// Possible obstacles to taking a seat: its lease.
    fn obstacles_to_seat(&mut self, name: &SeatName) -> Result<Obstacles, StoreError> {
        let seat = self.read.seat_named(name)?;
        let lease = seat.map(|seat| self.lease_of_seat(&seat)).transpose()?.flatten();
        let leases = lease.into_iter().map(|lease| self.with_seen(lease)).collect();
        Ok(Obstacles { leases, ..Obstacles::default() })
    }

    /// Possible obstacles to a claim of any task: every lease, since it keeps its task or paths that others
    /// need; every reservation and every schedule.
    fn obstacles_to_any(&mut self, request: &Request) -> Result<Obstacles, StoreError> {
        let tier = self.asker(Some(&request.identity))?.map_or(Tier::DEFAULT, |actor| actor.tier);
        let mut tasks = Vec::new();
        self.read.walk_ready(None, tier, self.now.wall_ms, &mut |_, task| {
            tasks.push(task);
            Ok(tasks.len() < MAX_TASKS)
        })?;
        let more = tasks.len() == MAX_TASKS;
        let due_ms = self.read.next_due(self.now.wall_ms)?;
        let mut leases = Vec::new();
        for (task, lease) in self.read.open_leases(u64::from(u32::MAX))? {
            tasks.push(task);
            leases.push(self.with_seen(lease));
        }
        Ok(Obstacles { leases, tasks, due_ms, more })
    }

    fn with_seen(&self, lease: Lease) -> (Lease, Seen) {
        let seen = self.seen(&lease);
        (lease, seen)
    }

    fn task_named(&mut self, reference: &TaskRef) -> Result<Option<Task>, StoreError> {
        match resolve(self.read, self.project, reference) {
            Ok(uid) => self.task(uid),
            // The claim's own refusal explains it better.
            Err(stop) => stop.of_reader().map(|_| None),
        }
    }

    fn is_held_by_another(&mut self, task: &Task, identity: &Identity) -> Result<bool, StoreError> {
        let name = self.actor_behind(&identity.actor)?;
        let lease = self.last_lease(task)?.filter(|lease| lease.ended.is_none());
        Ok(lease.is_some_and(|lease| {
            // Claimed meanwhile by the waiter itself, in another process: its claim only renews the lease.
            let is_own =
                lease.is_held_by(&name, &identity.instance) && identity.known_by != KnownBy::Worktree;
            !is_own && self.liveness(&lease) == Liveness::Live
        }))
    }

    /// Whether nobody else holds a task live, and it is kept for nobody else.
    fn is_free_for(&mut self, reference: &TaskRef, identity: &Identity) -> Result<bool, StoreError> {
        let Some(task) = self.task_named(reference)? else { return Ok(true) };
        let name = self.actor_behind(&identity.actor)?;
        let is_held = self.is_held_by_another(&task, identity)?;
        let is_kept = task.kept.is_some_and(|kept| kept.actor != name && !kept.until.has_come(self.now));
        Ok(!is_held && !is_kept)
    }
}

/// The process that the lease is to be bound to.
fn bound_to(request: &Request) -> Option<&Process> {
    match &request.command {
        Command::OnSeat { act: SeatAct::Take(terms) | SeatAct::Takeover(terms), .. } => {
            terms.process.as_ref()
        }
        _ => terms(request).and_then(|terms| terms.process.as_ref()),
    }
}

fn terms(request: &Request) -> Option<&Terms> {
    match &request.command {
        Command::ClaimNext(terms) | Command::OnTask { act: Act::Claim(terms) | Act::Takeover(terms), .. } => {
            Some(terms)
        }
        _ => None,
    }
}

/// A pidfd for each process; those that are already open are kept. True: some could not be opened.
fn ends_of(processes: Vec<Process>, mut open: Vec<(Process, OwnedFd)>) -> (Vec<(Process, OwnedFd)>, bool) {
    let mut unattended = processes.len() > MAX_ENDS;
    let mut ends = Vec::with_capacity(processes.len().min(MAX_ENDS));
    for process in processes.into_iter().take(MAX_ENDS) {
        let known = open.iter().position(|(other, _)| *other == process).map(|place| open.swap_remove(place));
        match known.or_else(|| process::end_of(&process).map(|end| (process, end))) {
            Some(end) => ends.push(end),
            // It died a moment ago, and the look that follows sees that; or its end cannot be watched.
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

/// Whether a descriptor is readable now.
fn is_readable(file: BorrowedFd<'_>) -> bool {
    let mut ears = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    poll(&mut ears, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && !ears[0].revents().is_empty()
}

/// Pauses after a look in vain, before the next sleep. `spent_before`: the processor time when the waiter
/// went to sleep.
fn rest(spent_before: Option<Duration>, until: Option<Instant>) {
    let Some(spent_before) = spent_before else { return };
    let rest = (processor_time().saturating_sub(spent_before) * REST).min(MAX_REST);
    let left = until.map_or(rest, |until| until.saturating_duration_since(Instant::now()));
    std::thread::sleep(rest.min(left));
}

/// The processor time that this process has used so far.
fn processor_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}
