//! The loop that sees everything a supervisor sees, in one order.
//!
//! Threads wait for what can only be waited for, and send what they found as an [`Event`]: one for signals, one for the
//! child's state, one for each stream of output, one that renews, one that tells (whoever reads what is told may be
//! slow). The loop alone knows what has happened and decides; between two events it sleeps until the next moment at
//! which something is due. It never waits for anything else.
//!
//! **Renewing** may block for seconds on a busy store, so it happens on its own thread, one request at a time. A renewal
//! that hangs keeps nobody from noticing that the command exited.
//!
//! **Trust.** A lease with a deadline is trusted from the *start* of the request that renewed it (when the answer was
//! given cannot be known), and the command is stopped a margin before that time is over, as if it were fenced: at the
//! deadline another may begin, and there must not be two. A lease without a deadline (bound to our own process, on this
//! machine's store) is live while we live; then a store that cannot be reached is no reason to stop anything. The clock
//! is the monotonic one, which stops while the machine sleeps, as the local store's does.
//!
//! **Fenced** means that somebody else holds the task: TERM to the whole group (and CONT: a stopped process cannot end),
//! KILL after the grace. **Ended** means that the command ended the lease itself (`onus done`): it may finish in
//! peace, there is just nothing to renew.
//!
//! **When the command exits, the run is over.** Members of its group that are still there get TERM, then KILL after the
//! grace: the lease under which they worked ends now, and its scope may be another's in a moment. To leave a
//! service behind, start it in a session of its own. The child is not reaped (`waitpid`) before
//! that: its unreaped pid keeps the group's id from being given to strangers.

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

/// How often it is looked whether the group is empty, while that is waited for.
const LOOK: Duration = Duration::from_millis(20);
/// How long a killed process may take to go. One in the middle of a system call that cannot be interrupted takes longer
/// than anybody can wait.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// How long the end of the output is waited for before the report is made without it.
const DRAIN: Duration = Duration::from_secs(5);
/// After which the command goes on if stopping ourselves did not stop us.
const UNSTOPPED: Duration = Duration::from_millis(200);
/// No timer is set for longer; the loop looks around and sleeps again.
const LONGEST_SLEEP: Duration = Duration::from_secs(3_600);

/// The terms of a run.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// After what time the lease is renewed first.
    pub renew_every: Duration,
    /// Until when the lease is to be trusted. None: as long as this process lives.
    pub trusted_until: Option<Instant>,
    /// How long before that the command is stopped.
    pub margin: Duration,
    /// How long after TERM, KILL follows.
    pub grace: Duration,
}

/// What came of renewing the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is ours still. `trusted_for`: counted from when it was asked for; None: as long as this process lives.
    Kept { next_in: Duration, trusted_for: Option<Duration> },
    /// Its holder ended it. There is nothing left to renew, and nobody else's claim to respect.
    Ended,
    /// It is not ours any more.
    Fenced { why: String },
    /// That cannot be known now.
    Unavailable { why: String },
}

/// What the supervisor asks and tells its caller.
pub struct Hooks {
    /// Renews the lease, on a thread of its own. Told whether there was output since the last time.
    pub renew: Box<dyn FnMut(bool) -> Renewal + Send>,
    /// What a person should know while it happens, on a thread of its own.
    pub tell: Box<dyn FnMut(Told) + Send>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// Things a person should know while they happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The store cannot be reached; the command goes on. Said once, until it can be again.
    Unavailable(String),
    /// The lease is lost: the command is being stopped.
    Stopping(Stop),
    /// The command exited and left these processes in its group, which are being ended: pid and name.
    LeftBehind(Vec<(u32, String)>),
    /// The grace is over: KILL.
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
    /// If it was us who ended it.
    pub stopped: Option<Stop>,
    /// The signal by which somebody wanted it to end: sent to us, or by a key at the terminal that the command had.
    pub interrupted: Option<Signal>,
    /// The last lines of its output, both streams; empty if that went to a terminal.
    pub tail: String,
    /// Members of its group that not even KILL ended in time: pid and name.
    pub left: Vec<(u32, String)>,
    /// Output that waits for whoever reads ours.
    pub rest: Rest,
}

#[derive(Debug)]
enum Event {
    Signal(Signal),
    Stopped(i32),
    Exited(io::Result<Exit>),
    Output(usize, Seen),
    /// A stream of output, or what is told, is at its end.
    Closed,
    Renewed {
        asked: Instant,
        renewal: Renewal,
    },
}

/// Sees a command through to its end, and the end of its group.
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
        // The loop may have ended before the output did: then nobody needs to know.
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

/// Tells the child's stops and its exit, and leaves it unreaped.
fn watch(pid: Pid, events: SyncSender<Event>) -> io::Result<()> {
    let wait = move |options| rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
    let run = move || {
        loop {
            let status = wait(WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT);
            let event = match status {
                Ok(Some(status)) if status.stopped() => {
                    // Only looked at so far: taken now, or it would be seen for ever.
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

/// Renews when it is asked to, on its own thread, one request at a time.
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
    mut tell: Box<dyn FnMut(Told) + Send>,
    telling: Receiver<Told>,
    events: SyncSender<Event>,
) -> io::Result<JoinHandle<()>> {
    let run = move || {
        telling.iter().for_each(&mut tell);
        let _ = events.send(Event::Closed);
    };
    std::thread::Builder::new().name("tell".to_owned()).spawn(run)
}

/// The group gets time until `kill_at`, then KILL; and then time until it is given up.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Asked { kill_at: Instant },
    Killed { give_up_at: Instant },
}

struct Run<'a> {
    child: Child,
    terms: &'a Terms,
    told: Option<Sender<Told>>,
    renewer: Renewer,
    /// None: there is nothing to renew any more.
    renew_at: Option<Instant>,
    trusted_until: Option<Instant>,
    progress: bool,
    /// Why the store could not be asked, as long as that is so.
    unavailable: Option<String>,
    exit: Option<Exit>,
    stopped: Option<Stop>,
    interrupted: Option<Signal>,
    ending: Option<Ending>,
    /// Somebody asked for the command to be stopped (Ctrl-Z), through us.
    asked_to_stop: bool,
    resume_at: Option<Instant>,
    tail: Tail,
    /// Streams that are not at their end.
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
                    // Only now is it known that nobody will need the terminal again.
                    self.take_terminal_back();
                }
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// What the command wrote was written before it exited; it is only a matter of reading it. Unless whoever
    /// reads our output does not: then the report is made without the rest.
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

    fn tell(&self, what: Told) {
        if let Some(told) = &self.told {
            // Whoever tells went away: there is nobody to be told.
            let _ = told.send(what);
        }
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.renew_at()) {
            self.renewer.busy = true;
            // It takes one request at a time, and is not busy: this cannot block.
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
            self.tell(Told::Killing);
        }
        if due(self.resume_at) {
            self.resume();
        }
    }

    /// How long nothing is due.
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

    /// Only what runs can be stopped.
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
                // What exited meanwhile is not stopped: whoever ends its lease will be told the same.
                if self.stopped.is_none() && self.exit.is_none() {
                    self.stop(Stop::Fenced { why });
                }
            }
            Renewal::Unavailable { why } => {
                if self.unavailable.is_none() {
                    self.tell(Told::Unavailable(why.clone()));
                }
                self.unavailable = Some(why);
                self.renew_at = Some(now + self.terms.renew_every / 4);
            }
        }
    }

    fn stop(&mut self, why: Stop) {
        self.ask_to_end();
        self.tell(Told::Stopping(why.clone()));
        self.stopped = Some(why);
    }

    fn end_what_was_left(&mut self, members: &[Stat]) {
        if self.ending.is_none() {
            self.ask_to_end();
            self.tell(Told::LeftBehind(named(members)));
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

    /// The command was stopped. If that is job control, so do we ([`crate::terminal`]); if somebody stopped it for
    /// reasons of their own, they will continue it.
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
            // Everything stops here until we are continued; if this stops us at all.
            signals::stop_own_group();
            self.resume_at = Some(Instant::now() + UNSTOPPED);
        }
    }

    /// Goes on, with the terminal if it is ours to lend.
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
        // A key at the terminal reaches the command, not us. One that cleans up before it ends says so by its exit code.
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
