//! PostgreSQL: one database for many machines and many projects.
//!
//! Everything that `decide` depends on is locked before it is read, so READ COMMITTED is enough: each
//! statement sees what was committed when it began, and a row that had to be waited for is read in its
//! current version. What a transaction has locked, nobody else changes before the commit.
//!
//! # The locks, in the order in which they are taken
//!
//! 1. **whole**, shared by every write, taken with `BEGIN`. A rebuild takes it exclusively.
//! 2. **key**: the idempotency key, if there is one. Two requests with one key run one after the other;
//!    the second finds the first one's result.
//! 3. **seat**: the row of the seat that is taken or released, or under whose token a command is run.
//! 4. **project**: the project's row, to append to its stream (a new actor, a seal) or to number a task or a new seat.
//! 5. **graph**: to change edges, or to follow them for a decision (cycles, reset, retry); also for what must be
//!    one task's alone (a unique reference, a task's own branch).
//! 6. **task rows**: all that one request may change, in one statement, ordered by uid. Two transactions
//!    agree on that order whatever they know of the graph. (Uids grow with time, and a dependency is mostly
//!    older than its dependent, so this is nearly always upstream first. But what is upstream changes with the
//!    graph; uids do not.)
//! 7. **scopes**: exclusive to begin or widen a reservation, shared to move a deadline. After this lock, no
//!    request waits for a task's row.
//! 8. **lease rows** of the caller's other leases, for signs of life; skipped if another transaction has
//!    them. Then **instance**.
//!
//! A transaction that has to take a lock out of this order (a batch whose requests name different tasks, two
//! commands of one instance of which one registers its process first) may deadlock with another one that
//! does; the server then ends one of them (40P01), which is run again from the beginning. `Write::lock_tasks`
//! lets a batch lock all tasks it names at once.
//!
//! # The races, one by one
//!
//! - *Two claims of one task.* Both lock its row; the second reads it as the first left it, and is refused.
//! - *Two `claim --next` at once.* Each takes the first row of the index that nobody has locked
//!   (`SKIP LOCKED`). A skipped row may become free again (its claimer was refused, or its dependency's `done` only
//!   changed a counter): a request that finds nothing else looks once more, this time waiting for locks,
//!   before it reports that there is nothing.
//! - *Two dependencies of one task finish at once.* Each locks the dependent task and changes its counter
//!   relatively: the second subtracts from what the first wrote.
//! - *`dep add` during `done`.* Adding an edge locks both its ends. If `done` was first, the new edge finds
//!   its upstream end met; if the edge was first, `done` finds it among its dependents. An edge changes only
//!   while both its ends are locked, so `done`, which holds its own row, needs no graph lock to know its
//!   edges. It reads its neighbours, locks them all, and reads them again: if there is a new one, it is run
//!   again.
//! - *A→B during B→A.* Edges change under the graph lock: the second follows the first one's edge and finds
//!   the cycle.
//! - *A claim during a reset upstream.* Reset locks the whole closure, the claim its own row, in which
//!   `unmet` counts its unmet dependencies. The second sees the first: the reset a live lease, the claim an
//!   unmet dependency.
//! - *Two overlapping scopes.* Both take the scope lock before they look for rivals; the second sees the
//!   first one's rows.
//! - *A renewal during a claim that finds its scope lapsed.* The claim reads deadlines under the exclusive
//!   scope lock, the renewal moves its own under the shared one, and each reads the clock once it has the
//!   lock. If the claim was first and found the lease lapsed, the renewal's clock is later still: it is late,
//!   and makes the whole check that a claim makes.
//! - *Limits on leases without a TTL* are counted under the scope lock, too.
//! - *Task numbers* are taken under the project's row: one by one, without gaps.
//! - *One origin, twice.* The second insert violates the unique key (23505) and is run again: it finds the
//!   task.
//! - *A sign of life during a takeover.* It changes only a lease that has not ended, according to the row
//!   once that is locked. It takes no lock on the task, so a request that ends a lease may have judged an
//!   older row: it ends only a lease that was not renewed since, or else is run again.
//!
//! # Time
//!
//! The server's `clock_timestamp()` decides. It is read after the last lock that a decision waited for: much
//! can happen while a request waits. All moments have one clock domain, `postgres/<database>/`; ticks of
//! clients' machines are never mixed in. (`Lease::liveness` says which clock binds whom.)
//!
//! # The order of events
//!
//! `seq` comes from a sequence, so that writers do not queue for it. It grows within a stream, whose row is
//! locked, but an event may be committed after one with a higher number. So each write leaves a mark when it
//! begins: a lock, held until it ends, whose number is the last one given to an event so far. The write's own
//! numbers are all higher. A follower of the ledger reads how far numbers were given out, then the lowest
//! mark that is held, then takes its snapshot: up to the lower of the two, every event is in the snapshot or
//! never comes. Events up to there are *settled*, and a follower that continues from the last event is shown
//! no others (`EventQuery::settled`). A lock is released after its transaction becomes visible, so nothing is
//! missed. A mark counts only if its session belongs to a role that could add events: a stranger's lock
//! silences nobody.
//!
//! # News
//!
//! `NOTIFY` inside a transaction makes commits queue behind one another. So it is sent after the commit, and
//! only if somebody listens: listeners share a lock. A writer may die in between, so a waiter also polls now
//! and then.
//!
//! # A commit whose outcome is unknown
//!
//! If the connection is lost before the server has answered `COMMIT`, the store asks about the transaction
//! over a new one. The transaction's number shows whether it is over (`pg_xact_status`), but not whether it
//! was committed: a server that crashed, or a standby that took over, reuses numbers that never reached its
//! disk. An event of the transaction in the ledger does show it. If the event is there, the transaction was
//! applied, and is acknowledged once the standbys that the server waits for have it as well
//! ([`AWAIT_STANDBYS`]; the session that should have waited may have been ended). If not, nothing was
//! applied, and it is run again. A transaction without an event changes only signs of life; it is run again
//! in either case, and the second run's answer counts. An outcome that cannot be determined in time is
//! reported as unknown.

mod address;
mod blocker;
mod connection;
mod locks;
mod maintain;
mod open;
mod read;
mod rebuild;
mod rows;
mod schema;
mod scope;
mod search;
mod session;
mod watch;
mod wire;
mod write;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio_postgres::error::{Severity, SqlState};

use onus_core::time::ClockDomain;

use crate::{Clock, Ending, Finding, Progress, Read, Rebuilt, Result, Store, StoreError, Watch, Write};

pub use address::Address;
use connection::{Connection, Failure, Value};
use session::{LastEvent, Lock, Mode, Session};

/// The longest pause before a transaction that lost to another is run again.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// Once this is committed, the standbys that the server waits for, if any, have everything before it. A
/// transaction that changes nothing would not wait for them, although its answer may report what another one
/// did.
const AWAIT_STANDBYS: &str = "SELECT pg_logical_emit_message(true, 'onus', '') \
                     WHERE current_setting('synchronous_standby_names') <> ''";

/// The minimum time for which the outcome of a commit is asked for.
const MIN_ASKING: Duration = Duration::from_secs(5);

pub struct PostgresStore {
    connection: Connection,
    address: Address,
    /// How long to wait for a lock before giving up.
    wait: Duration,
    clock: Option<Clock>,
    domain: ClockDomain,
    project: uuid::Uuid,
    /// The uid of the project's own stream.
    stream: String,
    jitter: u64,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("address", &self.address.shown())
            .field("project", &self.stream)
            .finish_non_exhaustive()
    }
}

/// The outcome of a transaction.
enum Ended {
    /// As its work decided: committed or rolled back.
    AsTold,
    /// Not applied: it can be run again.
    Again(StoreError),
}

impl PostgresStore {
    /// The address without its password.
    pub fn address(&self) -> &str {
        self.address.shown()
    }

    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    fn session(&mut self, mode: Mode) -> Session<'_> {
        Session::new(
            &mut self.connection,
            (&self.address, self.project, &self.stream),
            (self.clock.as_ref(), &self.domain),
            mode,
        )
    }

    /// Runs a transaction once. Returns the answer and the outcome.
    fn attempt<R>(
        &mut self,
        work: &mut impl FnMut(&mut dyn Write) -> Result<Ending<R>>,
    ) -> Result<(R, Ended)> {
        let mut session = self.session(Mode::Write);
        let outcome = work(&mut session).and_then(|answer| session.broken.take().map_or(Ok(answer), Err));
        let (last_event, xid) = (session.last_event.take(), session.xid);
        let answer = match outcome {
            Ok(Ending::Commit(answer)) => answer,
            Ok(Ending::RollBack(answer)) => {
                self.connection.rollback();
                return Ok((answer, Ended::AsTold));
            }
            Err(error) => {
                self.connection.rollback();
                return Err(error);
            }
        };
        // No statement was sent: there is nothing to commit.
        let Some(xid) = xid else { return Ok((answer, Ended::AsTold)) };
        let (channel, listening) = (watch::channel(self.project), Lock::Watched.key(self.project));
        let tell: (&str, &[Value<'_>]) = (watch::NOTIFY, &[&channel, &listening]);
        let committed = match &last_event {
            Some(_) => self.connection.commit("COMMIT", Some(tell)),
            None => self.connection.commit(&format!("{AWAIT_STANDBYS}; COMMIT"), None),
        };
        let committed = match committed {
            Ok(committed) => committed,
            Err(failure) => {
                self.connection.rollback();
                return Err(failed(failure, &self.address));
            }
        };
        let ended = match committed {
            Ok(()) => Ended::AsTold,
            Err(Failure::Server(error)) if is_refusal(&error) => {
                self.connection.rollback();
                Ended::Again(failed(error.into(), &self.address))
            }
            Err(_) => self.ask_for_outcome(xid, last_event.as_ref())?,
        };
        Ok((answer, ended))
    }

    /// Determines the outcome of a transaction whose commit was not answered; `last` is the last event that
    /// it wrote.
    fn ask_for_outcome(&mut self, xid: i64, last: Option<&LastEvent>) -> Result<Ended> {
        let until = Instant::now() + self.wait.max(MIN_ASKING);
        let mut pause = Duration::from_millis(20);
        while Instant::now() < until {
            if let Ok(Some(ended)) = self.reconnect().and_then(|()| self.outcome(xid, last)) {
                return Ok(ended);
            }
            // It is still running, because the server has not noticed the lost connection yet; or the server
            // cannot be reached.
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
        Err(StoreError::Unknown {
            place: PathBuf::from(self.address.shown()),
            why: "the connection was lost at the commit".to_owned(),
        })
    }

    /// The outcome of a transaction. None: it is still running, or this server does not know.
    fn outcome(&mut self, xid: i64, last: Option<&LastEvent>) -> Result<Option<Ended>> {
        let status = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_xact_status($1::text::xid8) END";
        let is_over = match self.connection.query(status, &[&xid.to_string()]) {
            Ok(rows) => {
                let status: Option<&str> = rows.first().and_then(|row| row.try_get(0).ok());
                matches!(status, Some("committed" | "aborted"))
            }
            // As far as this server knows, the number was never given out: the transaction is not here, and
            // never will be.
            Err(Failure::Server(error)) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => true,
            Err(failure) => return Err(failed(failure, &self.address)),
        };
        if !is_over {
            return Ok(None);
        }
        let Some(event) = last else { return Ok(Some(Ended::Again(StoreError::Again))) };
        let sql = "SELECT 1 FROM event WHERE project = $1 AND stream = $2 AND version = $3 AND hash = $4";
        let found = self.connection.query(sql, &[&self.project, &event.stream, &event.version, &event.hash]);
        let is_there = found.and_then(|rows| {
            if !rows.is_empty() {
                self.connection.batch(AWAIT_STANDBYS)?;
            }
            Ok(!rows.is_empty())
        });
        let is_there = is_there.map_err(|failure| failed(failure, &self.address))?;
        Ok(Some(if is_there { Ended::AsTold } else { Ended::Again(StoreError::Again) }))
    }

    fn reconnect(&mut self) -> Result<()> {
        self.connection = Connection::open(&self.address)?;
        Ok(())
    }

    /// Sleeps a little longer with each attempt, and never equally long for two writers.
    fn pause(&mut self, attempt: u32) {
        self.jitter = self.jitter.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let most = (Duration::from_millis(2) * 2_u32.saturating_pow(attempt.min(8))).min(MAX_PAUSE);
        std::thread::sleep(most.mul_f64((self.jitter >> 33) as f64 / f64::from(u32::MAX / 2)));
    }
}

impl Store for PostgresStore {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        let mut session = self.session(Mode::Read);
        let outcome = work(&mut session);
        let broken = session.broken.take();
        let ended = match self.connection.is_open() {
            true => self.connection.commit("COMMIT", None).and_then(|committed| committed),
            false => Ok(()),
        };
        let answer = outcome?;
        match (broken, ended) {
            (Some(error), _) => Err(error),
            (None, Err(failure)) => Err(failed(failure, &self.address)),
            (None, Ok(())) => Ok(answer),
        }
    }

    fn transact<R>(&mut self, mut work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R> {
        let began = Instant::now();
        let mut attempt = 0;
        loop {
            let error = match self.attempt(&mut work) {
                Ok((answer, Ended::AsTold)) => return Ok(answer),
                Ok((_, Ended::Again(error))) => error,
                Err(error) => error,
            };
            if !matches!(error, StoreError::Again) {
                return Err(error);
            }
            if began.elapsed() > self.wait {
                return Err(StoreError::Busy { pid: None, waited: began.elapsed() });
            }
            self.pause(attempt);
            attempt += 1;
        }
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        rebuild::rebuild(self, progress)
    }

    fn backup(&mut self, _to: &std::path::Path, _progress: &mut dyn FnMut(Progress)) -> Result<()> {
        Err(StoreError::NotSupported(
            "back up a PostgreSQL store with the server's own tools (pg_dump)".to_owned(),
        ))
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        maintain::check(self)
    }

    fn tidy(&mut self) -> Result<bool> {
        maintain::tidy(self)
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        Ok(Box::new(watch::watch(self)?))
    }
}

/// Whether the server itself refused the commit. A pooler's message about a server that it lost, or a
/// server's about its own shutdown, does not say what became of the commit.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|said| {
        let code = said.code().code();
        said.parsed_severity() == Some(Severity::Error) && !code.starts_with("08") && !code.starts_with("57P")
    })
}

/// What an error of the server or of the connection means to the user.
fn failed(failure: Failure, address: &Address) -> StoreError {
    let error = match failure {
        Failure::Server(error) => error,
        Failure::TimedOut => return address.fails("it no longer answers"),
        Failure::Store(error) => return error,
    };
    let Some(said) = error.as_db_error() else { return address.fails(address::message_of(&error)) };
    let code = said.code();
    match code {
        // Another transaction was preferred, or was first with the same key: when run again, this one sees
        // what the other did.
        &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::UNIQUE_VIOLATION => StoreError::Again,
        &SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED => {
            StoreError::Busy { pid: None, waited: address.wait() }
        }
        &SqlState::DISK_FULL => StoreError::Full,
        &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly(PathBuf::from(address.shown())),
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => {
            StoreError::Damaged(said.message().to_owned())
        }
        &SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME => {
            StoreError::Missing(PathBuf::from(address.shown()))
        }
        // 08: connection, 28: authentication, 3D: no such database, 53: resources, 57P: the server stops or
        // starts.
        _ if ["08", "28", "3D", "53", "57"].iter().any(|class| code.code().starts_with(class))
            || *code == SqlState::INSUFFICIENT_PRIVILEGE =>
        {
            address.fails(said.message())
        }
        _ => StoreError::Unexpected(format!("{} ({})", said.message(), code.code())),
    }
}
