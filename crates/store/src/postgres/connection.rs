//! A connection, driven on the thread that uses it: statements are prepared once, and those whose answers nobody waits for are
//! sent together with the next one that somebody does.
//!
//! **Nothing waits for ever.** The server ends a statement that takes too long; if not even that comes back, as from a
//! server that was stopped, or from a commit whose standby is away, the connection is given up.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::{join, join_all};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Connection as Driver, Error, Row, SimpleQueryMessage, Statement};

use crate::{Result, StoreError};

use super::Address;

pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// How long the goodbye may take.
const PARTING: Duration = Duration::from_millis(200);

/// So many changes wait at most to be sent: groups of them are sent at once, in their order.
const MOST_WAITING: usize = 24;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server, or the way to it, said so.
    Said(Error),
    /// Nothing came back.
    Silence,
    /// The server did something else than it was asked for.
    Wrong(StoreError),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Said(error)
    }
}

type Answer<T> = std::result::Result<T, Trouble>;

/// What must be true of a statement that is sent later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Must {
    /// Nothing: it cannot fail but by an error.
    Run,
    /// It changes the one row that the ledger speaks of.
    ChangeOne,
    /// It changes one row, or the transaction is run again.
    ChangeOneOrAgain,
}

/// A change that is sent with the next statement whose answer is waited for.
#[derive(Debug)]
struct Later {
    sql: String,
    values: Vec<Encoded>,
    must: Must,
}

impl Later {
    /// The table that it changes.
    fn table(&self) -> Option<&str> {
        let mut words = self.sql.split_ascii_whitespace();
        match words.next()? {
            "UPDATE" => words.next(),
            // INSERT INTO, DELETE FROM
            _ => words.nth(1),
        }
    }
}

/// Changes of different tables, as one statement.
#[derive(Debug)]
struct Group {
    statement: Statement,
    values: Vec<Encoded>,
    /// What must be true of each that is counted, in the order of the answer's columns.
    musts: Vec<Must>,
}

impl Group {
    async fn run(&self, client: &Client) -> std::result::Result<Vec<Row>, Error> {
        let values: Vec<Value<'_>> = self.values.iter().map(|value| value as Value<'_>).collect();
        client.query(&self.statement, &values).await
    }
}

/// The text of one statement that makes all these changes, and counts those that must be counted. They do not see one another, and
/// none of them changes a table that another changes.
fn together(changes: &[Later]) -> String {
    let (mut parts, mut counts, mut before) = (Vec::new(), Vec::new(), 0);
    for (n, change) in changes.iter().enumerate() {
        let returning = if change.must == Must::Run { "" } else { " RETURNING 1" };
        if change.must != Must::Run {
            counts.push(format!("(SELECT COUNT(*) FROM part{n})"));
        }
        parts.push(format!("part{n} AS ({}{returning})", renumbered(&change.sql, before)));
        before += change.values.len();
    }
    let counts = if counts.is_empty() { "1".to_owned() } else { counts.join(", ") };
    format!("WITH {} SELECT {counts}", parts.join(", "))
}

/// The same statement with the numbers of its parameters beginning after those before it.
fn renumbered(sql: &str, before: usize) -> String {
    let mut pieces = sql.split('$');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = piece[..digits].parse().unwrap_or_default();
        text.push_str(&format!("${}{}", number + before, &piece[digits..]));
    }
    text
}

/// A value as it goes over the wire.
#[derive(Debug)]
struct Encoded(Option<BytesMut>);

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_kind: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

pub(super) struct Connection {
    runtime: Runtime,
    /// None: it was given up.
    client: Option<Client>,
    driver: JoinHandle<()>,
    statements: HashMap<String, Statement>,
    patience: Duration,
    waiting: Vec<Later>,
    /// Whether a transaction has begun and not ended.
    is_open: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without its client the driver takes leave of the server, and ends.
        if self.client.take().is_some() {
            let driver = &mut self.driver;
            let _ = self.runtime.block_on(async { tokio::time::timeout(PARTING, driver).await });
        }
    }
}

/// What drives a thread's connections.
pub(super) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StoreError::Unexpected(format!("a connection cannot be driven: {error}")))
}

/// Keeps a connection going until it ends, and hands notifications on.
pub(super) fn drive<S, T>(mut connection: Driver<S, T>, heard: Option<UnboundedSender<()>>) -> JoinHandle<()>
where
    Driver<S, T>: Send + 'static,
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    tokio::spawn(async move {
        loop {
            match std::future::poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(_))) => {
                    if heard.as_ref().is_some_and(|heard| heard.send(()).is_err()) {
                        return;
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        }
    })
}

/// Waits for an answer, but not for ever.
async fn within<T>(patience: Duration, work: impl Future<Output = T>) -> Answer<T> {
    tokio::time::timeout(patience, work).await.map_err(|_| Trouble::Silence)
}

impl Connection {
    pub(super) fn open(address: &Address) -> Result<Connection> {
        let runtime = runtime()?;
        match runtime.block_on(address.connect(None)) {
            Ok((client, driver)) => Ok(Connection {
                runtime,
                client: Some(client),
                driver,
                statements: HashMap::new(),
                patience: address.patience(),
                waiting: Vec::new(),
                is_open: false,
            }),
            Err(error) => {
                // A name that is still being looked up is not waited for.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.as_ref().is_none_or(Client::is_closed)
    }

    /// For what takes its time.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn prepared(&mut self, sql: &str) -> Answer<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.ask(self.patience, async |client| client.prepare(sql).await)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs `work` on the client. Whoever hears nothing for too long gives the connection up.
    fn ask<T>(
        &mut self,
        patience: Duration,
        work: impl AsyncFnOnce(&Client) -> std::result::Result<T, Error>,
    ) -> Answer<T> {
        let Some(client) = &self.client else { return Err(Trouble::Silence) };
        let answered = self.runtime.block_on(within(patience, work(client)));
        if matches!(answered, Err(Trouble::Silence)) {
            self.driver.abort();
            self.client = None;
        }
        Ok(answered??)
    }

    /// Sends what waits to be sent, and then this, at once.
    fn ask_after<T>(
        &mut self,
        patience: Duration,
        work: impl AsyncFnOnce(&Client) -> std::result::Result<T, Error>,
    ) -> Answer<T> {
        let groups = self.groups()?;
        let (earlier, answer) = self.ask(patience, async |client| {
            let earlier = join_all(groups.iter().map(|group| group.run(client)));
            // Each is sent when it is first looked at, in this order.
            Ok(join(earlier, work(client)).await)
        })?;
        check(&groups, earlier)?;
        Ok(answer?)
    }

    /// What waits to be sent, in as few statements as possible.
    fn groups(&mut self) -> Answer<Vec<Group>> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut groups = Vec::new();
        while !waiting.is_empty() {
            let is_again =
                |at: &usize| waiting[..*at].iter().any(|change| change.table() == waiting[*at].table());
            let end = (1..waiting.len()).find(is_again).unwrap_or(waiting.len());
            let rest = waiting.split_off(end);
            groups.push(Group {
                statement: self.prepared(&together(&waiting))?,
                musts: waiting.iter().map(|change| change.must).filter(|must| *must != Must::Run).collect(),
                values: waiting.into_iter().flat_map(|change| change.values).collect(),
            });
            waiting = rest;
        }
        Ok(groups)
    }

    pub(super) fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Answer<Vec<Row>> {
        let statement = self.prepared(sql)?;
        self.ask_after(self.patience, async |client| client.query(&statement, values).await)
    }

    /// Two questions at once.
    pub(super) fn query_both(
        &mut self,
        one: (&str, &[Value<'_>]),
        other: (&str, &[Value<'_>]),
    ) -> Answer<(Vec<Row>, Vec<Row>)> {
        let statements = (self.prepared(one.0)?, self.prepared(other.0)?);
        self.ask_after(self.patience, async |client| {
            let (first, second) =
                join(client.query(&statements.0, one.1), client.query(&statements.1, other.1)).await;
            Ok((first?, second?))
        })
    }

    pub(super) fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Answer<u64> {
        let statement = self.prepared(sql)?;
        self.ask_after(self.patience, async |client| client.execute(&statement, values).await)
    }

    /// To be sent with the next one.
    pub(super) fn execute_later(&mut self, sql: &str, values: &[Value<'_>], must: Must) -> Answer<()> {
        let statement = self.prepared(sql)?;
        let mut encoded = Vec::with_capacity(values.len());
        for (value, kind) in values.iter().zip(statement.params()) {
            let mut bytes = BytesMut::new();
            encoded.push(match value.to_sql_checked(kind, &mut bytes) {
                Ok(IsNull::No) => Encoded(Some(bytes)),
                Ok(IsNull::Yes) => Encoded(None),
                Err(error) => return Err(Trouble::Wrong(StoreError::Unexpected(error.to_string()))),
            });
        }
        self.waiting.push(Later { sql: sql.to_owned(), values: encoded, must });
        if self.waiting.len() >= MOST_WAITING { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Answer<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.ask_after(self.patience, async |_| Ok(()))
    }

    /// Statements without parameters or answer.
    pub(super) fn batch(&mut self, sql: &str) -> Answer<()> {
        self.ask_after(self.patience, async |client| client.batch_execute(sql).await)
    }

    pub(super) fn simple(&mut self, sql: &str) -> Answer<Vec<SimpleQueryMessage>> {
        self.ask_after(self.patience, async |client| client.simple_query(sql).await)
    }

    /// Begins a transaction by these words, and asks a first question in it, and a second one if there is one.
    pub(super) fn begin(
        &mut self,
        words: &str,
        (sql, values): (&str, &[Value<'_>]),
        second: Option<(&str, &[Value<'_>])>,
    ) -> Answer<(Vec<Row>, Vec<Row>)> {
        // Whatever a transaction before it left, by an error or a panic, ends first.
        if self.is_open {
            self.rollback();
        }
        let statement = self.prepared(sql)?;
        let second = match second {
            Some((sql, values)) => Some((self.prepared(sql)?, values)),
            None => None,
        };
        self.is_open = true;
        self.ask(self.patience, async |client| {
            let after = async {
                match &second {
                    Some((statement, values)) => client.query(statement, values).await,
                    None => Ok(Vec::new()),
                }
            };
            let first = join(client.batch_execute(words), client.query(&statement, values));
            let ((begun, first), after) = join(first, after).await;
            begun?;
            Ok((first?, after?))
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Ends a transaction without committing it. On a connection that is gone there is nothing left to undo.
    pub(super) fn rollback(&mut self) {
        self.waiting.clear();
        self.is_open =
            self.ask(self.patience, async |client| client.batch_execute("ROLLBACK").await).is_err();
    }

    /// Commits by these words, and says what comes after it in the same round trip. What waits is sent with it, except where it must be known
    /// before. Whether the commit was answered is one thing, whether there was anything left to commit another.
    pub(super) fn commit(&mut self, words: &str, then: Option<(&str, &[Value<'_>])>) -> Answer<Answer<()>> {
        if self.waiting.iter().any(|later| later.must != Must::Run) {
            self.flush()?;
        }
        let then = match then {
            Some((sql, values)) => Some((self.prepared(sql)?, values)),
            None => None,
        };
        let groups = self.groups()?;
        self.is_open = false;
        let answered = self.ask(self.patience, async |client| {
            let earlier = join_all(groups.iter().map(|group| group.run(client)));
            let commit = client.batch_execute(words);
            let after = async {
                if let Some((statement, values)) = &then {
                    // Those who are told so would have seen it later.
                    let _ = client.query(statement, values).await;
                }
            };
            let (earlier, (commit, ())) = join(earlier, join(commit, after)).await;
            Ok((earlier, commit))
        });
        let (earlier, commit) = match answered {
            Ok(answered) => answered,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if let Err(error) = commit {
            return Ok(Err(error.into()));
        }
        // After an error COMMIT ends a transaction without committing it.
        check(&groups, earlier)?;
        Ok(Ok(()))
    }
}

/// Whether what was sent earlier did what it must.
fn check(groups: &[Group], outcomes: Vec<std::result::Result<Vec<Row>, Error>>) -> Answer<()> {
    for (group, rows) in groups.iter().zip(outcomes) {
        let rows = rows?;
        for (n, must) in group.musts.iter().enumerate() {
            let changed: Option<i64> = rows.first().map(|row| row.try_get(n)).transpose()?;
            match (must, changed) {
                (_, Some(1)) => {}
                (Must::ChangeOneOrAgain, _) => return Err(Trouble::Wrong(StoreError::Again)),
                (Must::Run | Must::ChangeOne, _) => {
                    let what = "a row that the ledger speaks of is missing".to_owned();
                    return Err(Trouble::Wrong(StoreError::Damaged(what)));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(sql: &str, values: usize, must: Must) -> Later {
        Later { sql: sql.to_owned(), values: (0..values).map(|_| Encoded(None)).collect(), must }
    }

    #[test]
    fn changes_become_one_statement_with_parameters_of_its_own() {
        let changes = [
            later("INSERT INTO event (a, b) VALUES ($1, $2::text)", 2, Must::Run),
            later("UPDATE task SET a = $3 WHERE b = $1 AND c = $2", 3, Must::ChangeOne),
            later("DELETE FROM scope WHERE a = $1", 1, Must::ChangeOneOrAgain),
        ];
        assert_eq!(
            together(&changes),
            "WITH part0 AS (INSERT INTO event (a, b) VALUES ($1, $2::text)), \
             part1 AS (UPDATE task SET a = $5 WHERE b = $3 AND c = $4 RETURNING 1), \
             part2 AS (DELETE FROM scope WHERE a = $6 RETURNING 1) \
             SELECT (SELECT COUNT(*) FROM part1), (SELECT COUNT(*) FROM part2)"
        );
        let tables: Vec<_> = changes.iter().map(Later::table).collect();
        assert_eq!(tables, [Some("event"), Some("task"), Some("scope")]);
    }
}
