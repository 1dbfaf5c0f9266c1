//! One transaction: its connection, its clock, and the helpers that every statement goes through.
//!
//! Every statement has its project as its first parameter. The helpers put it there, so no statement can
//! forget it.

use tokio_postgres::{Row, SimpleQueryMessage};

use onus_core::time::{ClockDomain, Moment};

use crate::rows::{Cells, Decoded, Expect};
use crate::{Clock, Result, StoreError};

use super::address::Address;
use super::blocker::{AdvisoryLock, with_blocker};
use super::connection::{Connection, Value};
use super::failed;

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One snapshot.
    Read,
    /// Concurrent with other writes, but not with one that is alone.
    Write,
    Alone,
}

/// How much of the lock on reservations a transaction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScopeLock {
    Free,
    Shared,
    Exclusive,
}

/// One of a project's advisory locks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lock {
    /// Shared by every write; a rebuild takes it exclusively.
    Whole,
    Graph,
    Scopes,
    /// Shared by listeners.
    Watched,
}

impl Lock {
    /// The number of a project's lock, spread over the whole range.
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

/// The number of a named lock. If two names have the same number, they only wait for one another.
pub(super) fn key_of(name: &str) -> i64 {
    let digest = onus_core::text::digest(&[0; 16], &format!("onus lock {name}"));
    let first = digest.get(..16).unwrap_or_default();
    // Negative: a lock with a positive number is a writer's mark.
    (u64::from_str_radix(first, 16).unwrap_or_default() | 1 << 63).cast_signed()
}

/// The upper bits of every lock that is a writer's mark.
pub(super) const MARK: i64 = 0x6f6e;

/// Leaves a writer's mark: the last number given to an event when the writer begins. All its own will be
/// higher.
fn leave_mark() -> String {
    format!("pg_advisory_xact_lock_shared(({MARK}::bigint << 48) | (SELECT last_value FROM onus.event_seq))")
}

/// Asks for the number up to which no event can still be added: the last one given out, but no higher than
/// the lowest mark of the current writers. In this order: a writer that begins in between has only higher
/// numbers. Each answer is one number or nothing.
///
/// Anybody who may connect can take a lock with a mark's number. It counts unless its session is known to be
/// unable to add an event, even as another role that it may assume: in doubt, followers wait.
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

/// An event, identified by its place and content.
#[derive(Clone, Debug)]
pub(super) struct LastEvent {
    pub(super) stream: String,
    pub(super) version: i64,
    pub(super) hash: String,
}

/// The statement that begins a transaction, and its first query: the time, and the transaction's number, by
/// which its outcome can be asked for later. The isolation level is explicit: a database may have a different
/// default, and then everything read after a lock would be from before it.
fn beginning(mode: Mode) -> (&'static str, String) {
    const WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
    let first = |lock: &str| {
        let mark = leave_mark();
        // Evaluated in this order: the time is read once the lock is held.
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
    /// None: the transaction has not begun.
    pub(super) xid: Option<i64>,
    /// The clock as read with the last lock, until somebody asks for it.
    pub(super) read_with_lock: Option<Moment>,
    pub(super) last_reading: Moment,
    /// Whether the transaction may have waited for something since `last_reading`.
    pub(super) has_waited: bool,
    pub(super) is_write: bool,
    /// If there is one, somebody may wait for it; and it shows whether the transaction was committed.
    pub(super) last_event: Option<LastEvent>,
    pub(super) scopes: ScopeLock,
    /// `scopes` and `last_event` as each savepoint found them.
    pub(super) parts: Vec<(ScopeLock, Option<LastEvent>)>,
    /// An error from where none could be returned. The transaction cannot be committed.
    pub(super) broken: Option<StoreError>,
}

impl<'a> Session<'a> {
    /// A transaction. It begins with its first statement, in the same round trip.
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
            scopes: ScopeLock::Free,
            parts: Vec::new(),
            broken: None,
        }
    }

    /// Begins the transaction together with its first query. If the server closed an idle connection, this
    /// connects again, once: nothing had been sent.
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
                error => Err(with_blocker(
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
        let now = self.set_time(now_ms);
        self.read_with_lock = Some(now);
        Ok(rows)
    }

    /// Begins the transaction if it has not begun: for statements that are not sent together with the
    /// beginning.
    fn ensure_begun(&mut self) -> Result<()> {
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
        let all = with_project(&project, values);
        if self.xid.is_none() {
            return self.begin(Some((sql, &all)));
        }
        self.connection.query(sql, &all).map_err(|failure| failed(failure, self.address))
    }

    /// Several queries in one round trip.
    pub(super) fn query_all(&mut self, questions: &[(&str, &[Value<'_>])]) -> Result<Vec<Vec<Row>>> {
        self.ensure_ready()?;
        let project = self.project;
        let questions: Vec<(&str, Vec<Value<'_>>)> =
            questions.iter().map(|(sql, values)| (*sql, with_project(&project, values))).collect();
        self.connection.query_all(&questions).map_err(|failure| failed(failure, self.address))
    }

    /// A change whose outcome nobody waits for: it is sent with the next statement.
    pub(super) fn run_later(&mut self, sql: &str, values: &[Value<'_>], expect: Expect) -> Result<()> {
        self.ensure_ready()?;
        let project = self.project;
        let all = with_project(&project, values);
        self.connection.execute_later(sql, &all, expect).map_err(|failure| failed(failure, self.address))
    }

    pub(super) fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        self.ensure_ready()?;
        let project = self.project;
        let all = with_project(&project, values);
        self.connection.execute(sql, &all).map_err(|failure| failed(failure, self.address))
    }

    pub(super) fn number(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        Ok(self.one(sql, values, |cells| cells.get())?.unwrap_or_default())
    }

    /// A statement without parameters or an answer.
    pub(super) fn batch(&mut self, sql: &str) -> Result<()> {
        self.ensure_ready()?;
        self.connection.batch(sql).map_err(|failure| failed(failure, self.address))
    }

    fn check(&mut self) -> Result<()> {
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Checks that nothing has failed, and that the transaction has begun.
    fn ensure_ready(&mut self) -> Result<()> {
        self.check()?;
        self.ensure_begun()
    }

    // ---- time

    /// The deciding clock: the server's, except in simulations. Read again, unless it was just read with a
    /// lock.
    pub(super) fn clock_now(&mut self) -> Moment {
        if let Some(clock) = self.clock {
            return clock();
        }
        if let Err(error) = self.ensure_begun() {
            self.broken = Some(error);
            return self.last_reading.clone();
        }
        if let Some(now) = self.read_with_lock.take() {
            return now;
        }
        let read = self.connection.query(&format!("SELECT {NOW_MS}"), &[]);
        match read.and_then(|rows| Ok(rows.first().map(|row| row.try_get(0)).transpose()?)) {
            Ok(wall_ms) => self.set_time(wall_ms.unwrap_or(self.last_reading.wall_ms)),
            Err(failure) => {
                self.broken = Some(failed(failure, self.address));
                self.last_reading.clone()
            }
        }
    }

    /// Discards the last clock reading, since time passes during a wait.
    pub(super) fn may_wait(&mut self) {
        self.read_with_lock = None;
        self.has_waited = true;
    }

    pub(super) fn set_time(&mut self, wall_ms: i64) -> Moment {
        // Within a transaction, time never goes back, even if the server's clock is set back.
        let wall_ms = wall_ms.max(self.last_reading.wall_ms);
        self.has_waited = false;
        self.last_reading = Moment::new(wall_ms, wall_ms, self.domain.clone());
        self.last_reading.clone()
    }

    // ---- the order of events

    /// The number up to which no event can still be added. What is read afterwards is in a new snapshot.
    pub(super) fn settled(&mut self) -> Result<i64> {
        self.ensure_ready()?;
        let ask = settled_up_to();
        let sql = if self.is_write {
            ask
        } else {
            // A snapshot from before this query could miss what was committed in between.
            format!("COMMIT; {ask}; COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        };
        let answers = self.connection.simple(&sql).map_err(|failure| failed(failure, self.address))?;
        Ok(lowest(&answers))
    }

    // ---- advisory locks

    /// Waits for one of the project's locks, and reads the clock once it is held.
    pub(super) fn lock(&mut self, lock: Lock, shared: bool) -> Result<()> {
        self.lock_number(lock.key(self.project), shared)
    }

    pub(super) fn lock_number(&mut self, key: i64, shared: bool) -> Result<()> {
        self.ensure_ready()?;
        let how = if shared { "pg_advisory_xact_lock_shared" } else { "pg_advisory_xact_lock" };
        // The clock is read outside the part that waits.
        let sql = format!("WITH had AS MATERIALIZED (SELECT {how}($1)) SELECT {NOW_MS} FROM had");
        let rows = self.connection.query(&sql, &[&key]).map_err(|failure| {
            with_blocker(failed(failure, self.address), self.address, AdvisoryLock { key, shared })
        })?;
        if let Some(wall_ms) = rows.first().and_then(|row| row.try_get(0).ok()) {
            let now = self.set_time(wall_ms);
            self.read_with_lock = Some(now);
        }
        Ok(())
    }
}

/// The parameters of a statement: the project comes first.
fn with_project<'v>(project: &'v uuid::Uuid, values: &[Value<'v>]) -> Vec<Value<'v>> {
    let project: Value<'v> = project;
    std::iter::once(project).chain(values.iter().copied()).collect()
}

/// The lowest number in all answers.
pub(super) fn lowest(answers: &[SimpleQueryMessage]) -> i64 {
    let numbers = answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    numbers.min().unwrap_or_default()
}

/// The server's current time, not the transaction's: milliseconds since 1970.
pub(super) const NOW_MS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
