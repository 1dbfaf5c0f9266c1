//! The loop that sees everything a supervisor sees, in one order.
//!
//! Threads block on one source each and send what they find as an [`Event`]: one for signals, one for the
//! child's state, one for each stream of output, one that renews, one that passes messages to a person (whose terminal may be
//! slow). Only the loop keeps state and decides; between two events it sleeps until something is due, and it never waits for
//! anything else.
//!
//! **Renewing** may block for seconds on a busy store, so it happens on its own thread, one request at a time. A renewal
//! that hangs does not delay noticing that the command exited.
//!
//! **Trust.** A lease with a deadline is trusted from the *start* of the request that renewed it (when the store answered
//! is unknown), and the command is stopped a margin before that time is over, as if it were fenced: at the
//! deadline another holder may begin, and there must not be two. A lease without a deadline (bound to our own process, on this
//! machine's store) is live while we live; in that case an unreachable store is no reason to stop anything. The clock
//! is the monotonic one, which stops while the machine sleeps, as the local store's does.
//!
//! **Fenced** means that somebody else holds the task: the whole group gets TERM (and CONT, since a stopped process cannot end),
//! and KILL after the grace period. **Ended** means that the command ended the lease itself (`onus done`): it may finish, and
//! there is nothing left to renew.
//!
//! **When the command exits, the run is over.** Remaining members of its group get TERM, then KILL after the
//! grace period: the lease under which they worked ends now, and somebody else may reserve its scope in a moment. To leave a
//! service behind, start it in a session of its own. The child is not reaped (`waitpid`) before
//! that: its unreaped pid keeps the group's id from being reused.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onus_os::stat::{self, Stat};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use crate::output::{Rest, Seen, pass_on};
use crate::signals;
use crate::spawn::Child;
use crate::tail::Tail;

/// How often to check whether the group is empty, after the command exited.
const LOOK: Duration = Duration::from_millis(20);
/// How long a killed process may take to go. One in an uninterruptible system call may take for ever.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// How long to wait for the end of the output before the report is made without it.
const DRAIN: Duration = Duration::from_secs(5);
/// After this time the command is continued, if stopping ourselves had no effect.
const RESUME_AFTER: Duration = Duration::from_millis(200);
/// The longest sleep of the loop.
const LONGEST_SLEEP: Duration = Duration::from_secs(3_600);

/// The terms of a run.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The time until the first renewal of the lease.
    pub renew_every: Duration,
    /// Until when the lease is trusted. None: as long as this process lives.
    pub trusted_until: Option<Instant>,
    /// How long before that the command is stopped.
    pub margin: Duration,
    /// The time between TERM and KILL.
    pub grace: Duration,
}

/// The outcome of renewing the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is still ours. `trusted_for` counts from the start of the request; None: as long as this process lives.
    Kept { next_in: Duration, trusted_for: Option<Duration> },
    /// Its holder ended it. There is nothing left to renew, and nobody else holds the task.
    Ended,
    /// It is no longer ours.
    Fenced { why: String },
    /// The store could not be reached.
    Unavailable { why: String },
}

/// Callbacks to the caller of the supervisor.
pub struct Hooks {
    /// Renews the lease, on a thread of its own. The argument: whether there was output since the last call.
    pub renew: Box<dyn FnMut(bool) -> Renewal + Send>,
    /// Passes a message to a person, on a thread of its own.
    pub tell: Box<dyn FnMut(Message) + Send>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// Messages for a person while the command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The store cannot be reached; the command continues. Sent once per outage.
    Unavailable(String),
    /// The lease is lost: the command is being stopped.
    Stopping(Stop),
    /// The command exited and left these processes in its group, which are being ended: pid and name.
    LeftBehind(Vec<(u32, String)>),
    /// The grace period is over: KILL.
    Killing,
}

/// Why a command was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    Fenced {
        why: String,
    },
    /// The lease could not be renewed before its deadline came too close.
    Untrusted {
        why: Option<String>,
    },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// How a run went.
#[derive(Debug)]
pub struct Report {
    pub exit: Exit,
    /// Why the supervisor stopped it, if it did.
    pub stopped: Option<Stop>,
    /// The signal by which somebody asked it to end: sent to us, or by a key at the terminal that the command had.
    pub interrupted: Option<Signal>,
    /// The last lines of its output, both streams; empty if that went to a terminal.
    pub tail: String,
    /// Members of its group that not even KILL ended in time: pid and name.
    pub left: Vec<(u32, String)>,
    /// Output that waits for the reader of ours.
    pub rest: Rest,
}

#[derive(Debug)]
enum Event {
    Signal(Signal),
    Stopped(i32),
    Exited(io::Result<Exit>),
    Output(usize, Seen),
    /// A stream of output, or the thread that passes messages on, has ended.
    Closed,
    Renewed {
        asked: Instant,
        renewal: Renewal,
    },
}

/// Supervises a command to its end, and to the end of its group.
pub fn supervise(child: Child, terms: &Terms, hooks: Hooks) -> io::Result<Report> {
    let (events, happened) = sync_channel(64);
    let Hooks { renew, tell } = hooks;
    let to_loop = events.clone();
    child.signals.tell(move |signal| to_loop.send(Event::Signal(signal)).is_ok())?;
    let renewer = Renewer::start(renew, events.clone())?;
    watch(child.leader.pid, events.clone())?;
    let mut rest = Rest::default();
    let (told, telling) = channel();
    rest.add(start_telling(tell, telling, events.clone())?);
    let mut run = Run {
        renew_at: Some(Instant::now() + terms.renew_every),
        trusted_until: terms.trusted_until,
        renewer,
        child,
        terms,
        told: Some(told),
        progress: false,
        unavailable: None,
        exit: None,
        stopped: None,
        interrupted: None,
        ending: None,
        asked_to_stop: false,
        resume_at: None,
        tail: Tail::default(),
        open: 1,
        rest,
    };
    let (over, over_said) = io::pipe()?;
    for (number, passage) in std::mem::take(&mut run.child.passages).into_iter().enumerate() {
        let Some(passage) = passage else { continue };
        let events = events.clone();
        // Fails if the loop has ended before the output, which does not matter.
        let tell = move |seen| {
            let _ = events.send(match seen {
                Some(seen) => Event::Output(number, seen),
                None => Event::Closed,
            });
        };
        run.rest.add(pass_on(passage, over.try_clone()?.into(), tell)?);
        run.open += 1;
    }
    drop((events, over));
    let (exit, left) = run.until_the_group_is_gone(&happened)?;
    drop(over_said);
    run.told = None;
    run.until_the_output_is_there(&happened);
    Ok(run.report(exit, left))
}

/// Reports when the child is stopped and when it exits, and leaves it unreaped.
fn watch(pid: Pid, events: SyncSender<Event>) -> io::Result<()> {
    let wait = move |options| rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
    let run = move || {
        loop {
            let status = wait(WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT);
            let event = match status {
                Ok(Some(status)) if status.stopped() => {
                    // Consumes the stop, which was only peeked at, or it would be reported for ever.
                    let _ = wait(WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                    Event::Stopped(status.stopping_signal().unwrap_or_default())
                }
                Ok(status) => Event::Exited(
                    status
                        .as_ref()
                        .and_then(exit_of)
                        .ok_or_else(|| io::Error::other("the system did not say how the command ended")),
                ),
                Err(error) => Event::Exited(Err(error.into())),
            };
            let is_last = matches!(event, Event::Exited(_));
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    };
    std::thread::Builder::new().name("child".to_owned()).spawn(run).map(drop)
}

fn exit_of(status: &WaitIdStatus) -> Option<Exit> {
    let by_signal = status.terminating_signal().map(Exit::Signal);
    by_signal.or_else(|| status.exit_status().map(Exit::Code))
}

/// Renews on request, on its own thread, one request at a time.
struct Renewer {
    ask: SyncSender<bool>,
    busy: bool,
}

impl Renewer {
    fn start(
        mut renew: Box<dyn FnMut(bool) -> Renewal + Send>,
        events: SyncSender<Event>,
    ) -> io::Result<Renewer> {
        let (ask, asked) = sync_channel(1);
        let run = move || {
            while let Ok(progress) = asked.recv() {
                let asked = Instant::now();
                let renewal = renew(progress);
                if events.send(Event::Renewed { asked, renewal }).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("renew".to_owned()).spawn(run)?;
        Ok(Renewer { ask, busy: false })
    }
}

fn start_telling(
    mut tell: Box<dyn FnMut(Message) + Send>,
    telling: Receiver<Message>,
    events: SyncSender<Event>,
) -> io::Result<JoinHandle<()>> {
    let run = move || {
        telling.iter().for_each(&mut tell);
        let _ = events.send(Event::Closed);
    };
    std::thread::Builder::new().name("tell".to_owned()).spawn(run)
}

/// The group has time until `kill_at`, then gets KILL, and is given up at `give_up_at`.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Asked { kill_at: Instant },
    Killed { give_up_at: Instant },
}

struct Run<'a> {
    child: Child,
    terms: &'a Terms,
    told: Option<Sender<Message>>,
    renewer: Renewer,
    /// None if there is nothing left to renew.
    renew_at: Option<Instant>,
    trusted_until: Option<Instant>,
    progress: bool,
    /// Why the store cannot be reached, during an outage.
    unavailable: Option<String>,
    exit: Option<Exit>,
    stopped: Option<Stop>,
    interrupted: Option<Signal>,
    ending: Option<Ending>,
    /// Somebody stopped the command (Ctrl-Z) through us.
    asked_to_stop: bool,
    resume_at: Option<Instant>,
    tail: Tail,
    /// The number of streams that have not ended.
    open: usize,
    rest: Rest,
}

impl Run<'_> {
    fn until_the_group_is_gone(
        &mut self,
        happened: &Receiver<Event>,
    ) -> io::Result<(Exit, Vec<(u32, String)>)> {
        loop {
            self.do_what_is_due();
            if let Some(exit) = self.exit {
                let members = stat::members(self.child.leader.pid);
                if members.is_empty() || self.has_given_up() {
                    return Ok((exit, named(&members)));
                }
                self.end_what_was_left(&members);
            }
            match happened.recv_timeout(self.sleep()) {
                Ok(Event::Exited(exit)) => {
                    self.exit = Some(exit?);
                    // The command will not need the terminal again.
                    self.take_terminal_back();
                }
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Reads the rest of the output, all of which the command wrote before it exited. If the reader of our output is
    /// too slow, the report is made without the rest.
    fn until_the_output_is_there(&mut self, happened: &Receiver<Event>) {
        let until = Instant::now() + DRAIN;
        while self.open > 0 {
            match happened.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Output(stream, seen)) => self.tail.push(stream, &seen.bytes, seen.cut),
                Ok(Event::Closed) => self.open -= 1,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn report(mut self, exit: Exit, left: Vec<(u32, String)>) -> Report {
        self.child.leader.reap();
        Report {
            exit,
            stopped: self.stopped,
            interrupted: self.interrupted,
            tail: self.tail.text(),
            left,
            rest: self.rest,
        }
    }

    fn tell(&self, what: Message) {
        if let Some(told) = &self.told {
            // Fails if that thread has ended, which does not matter.
            let _ = told.send(what);
        }
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.renew_at()) {
            self.renewer.busy = true;
            // Cannot block, since the renewer is not busy.
            let _ = self.renewer.ask.send(std::mem::take(&mut self.progress));
        }
        if due(self.stop_at()) {
            self.stop(Stop::Untrusted { why: self.unavailable.clone() });
        }
        if let Some(Ending::Asked { kill_at }) = self.ending
            && kill_at <= now
        {
            self.child.leader.signal_group(Signal::KILL);
            self.ending = Some(Ending::Killed { give_up_at: now + AFTER_KILL });
            self.tell(Message::Killing);
        }
        if due(self.resume_at) {
            self.resume();
        }
    }

    /// The time until something is due.
    fn sleep(&self) -> Duration {
        let end_at = self.ending.map(|ending| match ending {
            Ending::Asked { kill_at: at } | Ending::Killed { give_up_at: at } => at,
        });
        let now = Instant::now();
        let next = [self.renew_at(), self.stop_at(), end_at, self.resume_at].into_iter().flatten().min();
        let sleep = next.map_or(LONGEST_SLEEP, |at| at.saturating_duration_since(now)).min(LONGEST_SLEEP);
        if self.exit.is_some() { sleep.min(LOOK) } else { sleep }
    }

    fn renew_at(&self) -> Option<Instant> {
        self.renew_at.filter(|_| !self.renewer.busy && self.stopped.is_none())
    }

    /// When to stop the command because its lease is no longer trusted, if it still runs.
    fn stop_at(&self) -> Option<Instant> {
        let until = self.trusted_until.filter(|_| self.stopped.is_none() && self.exit.is_none())?;
        Some(until.checked_sub(self.terms.margin).unwrap_or(until))
    }

    fn has_given_up(&self) -> bool {
        matches!(self.ending, Some(Ending::Killed { give_up_at }) if give_up_at <= Instant::now())
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Signal(signal) => self.forward(signal),
            Event::Stopped(signal) => self.child_stopped(signal),
            Event::Output(stream, seen) => {
                self.progress = true;
                self.tail.push(stream, &seen.bytes, seen.cut);
            }
            Event::Closed => self.open -= 1,
            Event::Renewed { asked, renewal } => self.renewed(asked, renewal),
            Event::Exited(_) => {}
        }
    }

    fn renewed(&mut self, asked: Instant, renewal: Renewal) {
        self.renewer.busy = false;
        let now = Instant::now();
        match renewal {
            Renewal::Kept { next_in, trusted_for } => {
                self.unavailable = None;
                self.trusted_until = trusted_for.map(|trusted_for| asked + trusted_for);
                self.renew_at = Some(now + next_in);
            }
            Renewal::Ended => {
                self.renew_at = None;
                self.trusted_until = None;
            }
            Renewal::Fenced { why } => {
                self.renew_at = None;
                // A command that exited meanwhile is not stopped; ending its lease will report the same.
                if self.stopped.is_none() && self.exit.is_none() {
                    self.stop(Stop::Fenced { why });
                }
            }
            Renewal::Unavailable { why } => {
                if self.unavailable.is_none() {
                    self.tell(Message::Unavailable(why.clone()));
                }
                self.unavailable = Some(why);
                self.renew_at = Some(now + self.terms.renew_every / 4);
            }
        }
    }

    fn stop(&mut self, why: Stop) {
        self.ask_to_end();
        self.tell(Message::Stopping(why.clone()));
        self.stopped = Some(why);
    }

    fn end_what_was_left(&mut self, members: &[Stat]) {
        if self.ending.is_none() {
            self.ask_to_end();
            self.tell(Message::LeftBehind(named(members)));
        }
    }

    fn ask_to_end(&mut self) {
        if self.ending.is_none() {
            self.child.leader.signal_group(Signal::TERM);
            self.child.leader.signal_group(Signal::CONT);
            self.ending = Some(Ending::Asked { kill_at: Instant::now() + self.terms.grace });
        }
    }

    fn forward(&mut self, signal: Signal) {
        let ends = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal);
        if ends {
            self.interrupted.get_or_insert(signal);
        }
        if signal == Signal::CONT {
            return self.resume();
        }
        self.asked_to_stop |= signal == Signal::TSTP;
        self.child.leader.signal_group(signal);
        if ends {
            // A stopped command cannot end.
            self.child.leader.signal_group(Signal::CONT);
        }
    }

    /// Handles a stopped command. If that is job control, we stop, too ([`crate::terminal`]); if somebody stopped it for
    /// other reasons, they will continue it.
    fn child_stopped(&mut self, signal: i32) {
        let group = self.child.leader.pid;
        let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        let mut had_terminal = false;
        if let Some(terminal) = &mut self.child.terminal {
            had_terminal = terminal.is_lent_to(group);
            if wants_terminal {
                terminal.lends_from_now();
                terminal.lend(group);
                if terminal.is_lent_to(group) {
                    return self.child.leader.signal_group(Signal::CONT);
                }
            }
        }
        if wants_terminal || had_terminal || std::mem::take(&mut self.asked_to_stop) {
            // Blocks until we are continued, if it stops us at all.
            signals::stop_own_group();
            self.resume_at = Some(Instant::now() + RESUME_AFTER);
        }
    }

    /// Continues the command, and lends it the terminal if we have it.
    fn resume(&mut self) {
        self.resume_at = None;
        let group = self.child.leader.pid;
        if let Some(terminal) = &mut self.child.terminal {
            terminal.lend(group);
        }
        self.child.leader.signal_group(Signal::CONT);
    }

    fn take_terminal_back(&mut self) {
        let group = self.child.leader.pid;
        let Some(terminal) = &mut self.child.terminal else { return };
        if !terminal.is_lent_to(group) {
            return;
        }
        let killed_by = match self.exit {
            Some(Exit::Signal(signal)) => Signal::from_named_raw(signal),
            _ => None,
        };
        // A key at the terminal reaches the command, not us. A command that cleans up first reports the signal in its exit code.
        let key = match self.exit {
            Some(Exit::Code(code)) => Signal::from_named_raw(code - 128),
            _ => killed_by,
        };
        if let Some(key @ (Signal::INT | Signal::QUIT)) = key {
            self.interrupted.get_or_insert(key);
        }
        terminal.take_back(group, killed_by.is_some());
    }
}

fn named(members: &[Stat]) -> Vec<(u32, String)> {
    members.iter().map(|stat| (stat.pid, stat.comm.clone())).collect()
}
