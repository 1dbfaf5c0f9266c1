//! One transaction: its connection, its clock, and the helpers that every statement goes through.
//!
//! Each statement names its project as its first parameter, put there by the helpers: no statement can forget it.

use tokio_postgres::{Row, SimpleQueryMessage};

use onus_core::time::{ClockDomain, Moment};

use crate::rows::{Cells, Decoded, Expect};
use crate::{Clock, Result, StoreError};

use super::address::Address;
use super::blocker::{AdvisoryLock, named};
use super::connection::{Connection, Value};
use super::failed;

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One snapshot.
    Read,
    /// Beside every other write, never beside one that is alone.
    Write,
    Alone,
}

/// What a transaction holds of the lock on reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scopes {
    Free,
    Steady,
    Locked,
}

/// Which of a project's advisory locks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lock {
    /// Shared by every write; a rebuild has it alone.
    Whole,
    Graph,
    Scopes,
    /// Shared by those who listen.
    Watched,
}

impl Lock {
    /// The number of a project's lock, spread over all there are.
    pub(super) fn key(self, project: uuid::Uuid) -> i64 {
        let number = match self {
            Lock::Whole => "whole",
            Lock::Graph => "graph",
            Lock::Scopes => "scopes",
            Lock::Watched => "watched",
        };
        key_of(&format!("{project} {number}"))
    }
}

/// A number for a lock that has a name. Two names with one number only wait for one another.
pub(super) fn key_of(name: &str) -> i64 {
    let digest = onus_core::text::digest(&[0; 16], &format!("onus lock {name}"));
    let first = digest.get(..16).unwrap_or_default();
    // Negative: what is not is a writer's mark.
    (u64::from_str_radix(first, 16).unwrap_or_default() | 1 << 63).cast_signed()
}

/// What the locks that are writers' marks have in their upper bits.
pub(super) const MARK: i64 = 0x6f6e;

/// Leaves a writer's mark: the number that events had reached when it began. All of its own will be higher.
fn leave_mark() -> String {
    format!("pg_advisory_xact_lock_shared(({MARK}::bigint << 48) | (SELECT last_value FROM onus.event_seq))")
}

/// The number up to which no event can come any more: what was given out, but not beyond the lowest mark of those who are
/// at work. In this order: who has begun in between has only higher numbers. One number each, or nothing.
///
/// Anybody who may connect can take a lock with a mark's number. It counts unless it is known to be held by a session that
/// could not add an event, not even as another role that it may become: where the two are in doubt, followers wait.
pub(super) fn settled_up_to() -> String {
    format!(
        "SELECT last_value FROM onus.event_seq; \
         SELECT pg_stat_clear_snapshot(); \
         WITH writer AS MATERIALIZED \
             (SELECT oid FROM pg_roles WHERE has_any_column_privilege(oid, 'onus.event', 'INSERT')), \
         stranger AS MATERIALIZED (SELECT pid FROM pg_stat_activity AS session WHERE usesysid IS NOT NULL \
             AND NOT EXISTS (SELECT 1 FROM writer WHERE pg_has_role(session.usesysid, writer.oid, 'MEMBER'))) \
         SELECT MIN(((classid::bigint & 65535) << 32) | objid::bigint) FROM pg_locks WHERE locktype = 'advisory' \
         AND objsubid = 1 AND classid::bigint >> 16 = {MARK} \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND pid IS NOT NULL AND NOT EXISTS (SELECT 1 FROM stranger WHERE stranger.pid = pg_locks.pid)"
    )
}

/// An event by its place and its content.
#[derive(Clone, Debug)]
pub(super) struct LastEvent {
    pub(super) stream: String,
    pub(super) version: i64,
    pub(super) hash: String,
}

/// The words that begin a transaction, and what is asked first: the time, and the transaction's number, by which its outcome
/// can be asked for later. The isolation is said: what a database has as its default may be another, and then everything that
/// is read after a lock would be from before it.
fn beginning(mode: Mode) -> (&'static str, String) {
    const WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
    let first = |lock: &str| {
        let mark = leave_mark();
        // Evaluated in this order: the time is that of when the lock is had.
        format!(
            "SELECT {lock}($1)::text, {mark}::text, {NOW_MS} AS now_ms, pg_current_xact_id()::text::bigint AS xid"
        )
    };
    match mode {
        Mode::Read => (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            format!("SELECT {NOW_MS} AS now_ms, 0::bigint AS xid WHERE $1::bigint IS NOT NULL"),
        ),
        Mode::Write => (WRITE, first("pg_advisory_xact_lock_shared")),
        Mode::Alone => (WRITE, first("pg_advisory_xact_lock")),
    }
}

pub(super) struct Session<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) address: &'a Address,
    pub(super) project: uuid::Uuid,
    /// The same as text: the uid of the project's own stream.
    pub(super) stream: &'a str,
    pub(super) clock: Option<&'a Clock>,
    pub(super) domain: &'a ClockDomain,
    mode: Mode,
    /// None: it has not begun.
    pub(super) xid: Option<i64>,
    /// The clock as it was read with the last lock, until somebody asks.
    pub(super) read_with_lock: Option<Moment>,
    pub(super) last_reading: Moment,
    /// Whether something may have been waited for since.
    pub(super) has_waited: bool,
    pub(super) is_write: bool,
    /// If one was written, somebody may wait for it; and it shows whether the transaction was committed.
    pub(super) last_event: Option<LastEvent>,
    pub(super) scopes: Scopes,
    /// The two as each part that was begun found them.
    pub(super) parts: Vec<(Scopes, Option<LastEvent>)>,
    /// An error where none could be returned. The transaction cannot be committed.
    pub(super) broken: Option<StoreError>,
}

impl<'a> Session<'a> {
    /// A transaction. It begins with the first thing that is asked in it, in one round trip.
    pub(super) fn new(
        connection: &'a mut Connection,
        (address, project, stream): (&'a Address, uuid::Uuid, &'a str),
        (clock, domain): (Option<&'a Clock>, &'a ClockDomain),
        mode: Mode,
    ) -> Session<'a> {
        Session {
            connection,
            address,
            project,
            stream,
            clock,
            domain,
            mode,
            xid: None,
            read_with_lock: None,
            last_reading: Moment::new(0, 0, domain.clone()),
            has_waited: true,
            is_write: mode != Mode::Read,
            last_event: None,
            scopes: Scopes::Free,
            parts: Vec::new(),
            broken: None,
        }
    }

    /// Begins, if it has not begun, and asks this. A server that went while nobody spoke to it is spoken to again, once: nothing
    /// had been said.
    fn begin(&mut self, first: Option<(&str, &[Value<'_>])>) -> Result<Vec<Row>> {
        let (words, question) = beginning(self.mode);
        let whole = Lock::Whole.key(self.project);
        let asked: (&str, &[Value<'_>]) = (&question, &[&whole]);
        if self.connection.is_closed() {
            *self.connection = Connection::open(self.address)?;
        }
        let begun = match self.connection.begin(words, asked, first) {
            Err(failure) => match failed(failure, self.address) {
                StoreError::Unavailable { .. } => {
                    *self.connection = Connection::open(self.address)?;
                    self.connection
                        .begin(words, asked, first)
                        .map_err(|failure| failed(failure, self.address))
                }
                error => Err(named(
                    error,
                    self.address,
                    AdvisoryLock { key: whole, shared: self.mode != Mode::Alone },
                )),
            },
            Ok(begun) => Ok(begun),
        };
        let (begun, rows) = begun?;
        let row =
            begun.first().ok_or_else(|| StoreError::Unexpected("the server gave no time".to_owned()))?;
        let read = |row: &Row| Ok((row.try_get("now_ms")?, row.try_get("xid")?));
        let (now_ms, xid) =
            read(row).map_err(|error: tokio_postgres::Error| failed(error.into(), self.address))?;
        self.xid = Some(xid);
        let now = self.read(now_ms);
        self.read_with_lock = Some(now);
        Ok(rows)
    }

    /// Before anything that is not asked with the beginning.
    fn begun(&mut self) -> Result<()> {
        if self.xid.is_none() {
            self.begin(None)?;
        }
        Ok(())
    }

    pub(super) fn all<T>(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        mut decode: impl FnMut(&mut Cells<'_>) -> Decoded<T>,
    ) -> Result<Vec<T>> {
        let rows = self.rows(sql, values)?;
        rows.iter().map(|row| Ok(decode(&mut Cells::of(row))?)).collect()
    }

    pub(super) fn one<T>(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        decode: impl FnOnce(&mut Cells<'_>) -> Decoded<T>,
    ) -> Result<Option<T>> {
        let rows = self.rows(sql, values)?;
        Ok(rows.first().map(|row| decode(&mut Cells::of(row))).transpose()?)
    }

    pub(super) fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.check()?;
        let project = self.project;
        let mut all: Vec<Value<'_>> = vec![&project];
        all.extend(values);
        if self.xid.is_none() {
            return self.begin(Some((sql, &all)));
        }
        self.connection.query(sql, &all).map_err(|failure| failed(failure, self.address))
    }

    /// Several questions in one round trip.
    pub(super) fn at_once(&mut self, questions: &[(&str, &[Value<'_>])]) -> Result<Vec<Vec<Row>>> {
        self.ready()?;
        let project = self.project;
        let questions: Vec<(&str, Vec<Value<'_>>)> = questions
            .iter()
            .map(|(sql, values)| {
                let project: Value<'_> = &project;
                (*sql, std::iter::once(project).chain(values.iter().copied()).collect())
            })
            .collect();
        self.connection.query_all(&questions).map_err(|failure| failed(failure, self.address))
    }

    /// A change whose outcome nobody waits for: it is sent with the next statement.
    pub(super) fn run_later(&mut self, sql: &str, values: &[Value<'_>], expect: Expect) -> Result<()> {
        self.ready()?;
        let project = self.project;
        let mut all: Vec<Value<'_>> = vec![&project];
        all.extend(values);
        self.connection.execute_later(sql, &all, expect).map_err(|failure| failed(failure, self.address))
    }

    pub(super) fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        self.ready()?;
        let project = self.project;
        let mut all: Vec<Value<'_>> = vec![&project];
        all.extend(values);
        self.connection.execute(sql, &all).map_err(|failure| failed(failure, self.address))
    }

    pub(super) fn number(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        Ok(self.one(sql, values, |cells| cells.get())?.unwrap_or_default())
    }

    /// A statement without parameters or answer.
    pub(super) fn say(&mut self, sql: &str) -> Result<()> {
        self.ready()?;
        self.connection.batch(sql).map_err(|failure| failed(failure, self.address))
    }

    fn check(&mut self) -> Result<()> {
        match self.broken.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Nothing is wrong, and it has begun.
    fn ready(&mut self) -> Result<()> {
        self.check()?;
        self.begun()
    }

    // ---- time

    /// The deciding clock: the server's, except in simulations. Read again, unless it was just read with a lock.
    pub(super) fn clock_now(&mut self) -> Moment {
        if let Some(clock) = self.clock {
            return clock();
        }
        if let Err(error) = self.begun() {
            self.broken = Some(error);
            return self.last_reading.clone();
        }
        if let Some(now) = self.read_with_lock.take() {
            return now;
        }
        let read = self.connection.query(&format!("SELECT {NOW_MS}"), &[]);
        match read.and_then(|rows| Ok(rows.first().map(|row| row.try_get(0)).transpose()?)) {
            Ok(wall_ms) => self.read(wall_ms.unwrap_or(self.last_reading.wall_ms)),
            Err(failure) => {
                self.broken = Some(failed(failure, self.address));
                self.last_reading.clone()
            }
        }
    }

    /// Time passes while one waits: what was read before is no longer the time.
    pub(super) fn may_wait(&mut self) {
        self.read_with_lock = None;
        self.has_waited = true;
    }

    pub(super) fn read(&mut self, wall_ms: i64) -> Moment {
        // One transaction's time does not go back, whatever is done to the server's clock meanwhile.
        let wall_ms = wall_ms.max(self.last_reading.wall_ms);
        self.has_waited = false;
        self.last_reading = Moment::new(wall_ms, wall_ms, self.domain.clone());
        self.last_reading.clone()
    }

    // ---- the order of events

    /// The number up to which no event can come any more. What is read after it is a new snapshot.
    pub(super) fn settled(&mut self) -> Result<i64> {
        self.ready()?;
        let ask = settled_up_to();
        let sql = if self.is_write {
            ask
        } else {
            // A snapshot from before the question could miss what was committed in between.
            format!("COMMIT; {ask}; COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        };
        let answers = self.connection.simple(&sql).map_err(|failure| failed(failure, self.address))?;
        Ok(lowest(&answers))
    }

    // ---- advisory locks

    /// Waits for one of the project's locks, and reads the clock once it is had.
    pub(super) fn lock(&mut self, lock: Lock, shared: bool) -> Result<()> {
        self.lock_number(lock.key(self.project), shared)
    }

    pub(super) fn lock_number(&mut self, key: i64, shared: bool) -> Result<()> {
        self.ready()?;
        let how = if shared { "pg_advisory_xact_lock_shared" } else { "pg_advisory_xact_lock" };
        // The clock is read above what has waited.
        let sql = format!("WITH had AS MATERIALIZED (SELECT {how}($1)) SELECT {NOW_MS} FROM had");
        let rows = self.connection.query(&sql, &[&key]).map_err(|failure| {
            named(failed(failure, self.address), self.address, AdvisoryLock { key, shared })
        })?;
        if let Some(wall_ms) = rows.first().and_then(|row| row.try_get(0).ok()) {
            let now = self.read(wall_ms);
            self.read_with_lock = Some(now);
        }
        Ok(())
    }
}

/// The lowest number of all answers.
pub(super) fn lowest(answers: &[SimpleQueryMessage]) -> i64 {
    let numbers = answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    numbers.min().unwrap_or_default()
}

/// The server's clock, not the transaction's: milliseconds since 1970.
pub(super) const NOW_MS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
