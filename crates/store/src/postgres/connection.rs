//! A connection, driven on the thread that uses it. Statements are prepared once, and changes whose outcome
//! nobody waits for are sent together with the next statement whose answer is needed.
//!
//! **Nothing waits for ever.** The server ends a statement that takes too long; if even that does not happen,
//! as with a server that was stopped, or a commit whose standby is away, the connection is given up.

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

use crate::rows::{Expect, missing_row};
use crate::{Result, StoreError};

use super::Address;

pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// How long closing the connection may take.
const PARTING: Duration = Duration::from_millis(200);

/// At most this many changes are deferred; then they are sent at once, in order.
const MOST_WAITING: usize = 24;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server or the connection reported an error.
    Server(Error),
    /// Nothing came back.
    TimedOut,
    /// The server did not do what was asked.
    Store(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Server(error)
    }
}

type Outcome<T> = std::result::Result<T, Failure>;

/// A change that is sent with the next statement whose answer is needed.
#[derive(Debug)]
struct Deferred {
    statement: Statement,
    values: Vec<Encoded>,
    expect: Expect,
}

impl Deferred {
    async fn run(&self, client: &Client) -> std::result::Result<u64, Error> {
        let values: Vec<Value<'_>> = self.values.iter().map(|value| value as Value<'_>).collect();
        client.execute(&self.statement, &values).await
    }
}

/// A value in its wire format.
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
    /// None: the connection was given up.
    client: Option<Client>,
    driver: JoinHandle<()>,
    statements: HashMap<String, Statement>,
    patience: Duration,
    waiting: Vec<Deferred>,
    /// Whether a transaction has begun and not ended.
    is_open: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without its client the driver says goodbye to the server, and ends.
        if self.client.take().is_some() {
            let driver = &mut self.driver;
            let _ = self.runtime.block_on(async { tokio::time::timeout(PARTING, driver).await });
        }
    }
}

/// The runtime that drives a thread's connections.
pub(super) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StoreError::Unexpected(format!("a connection cannot be driven: {error}")))
}

/// Drives a connection until it ends, and reports notifications to `heard`.
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

/// Waits for an answer, but only so long.
async fn within<T>(patience: Duration, work: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(patience, work).await.map_err(|_| Failure::TimedOut)
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
                // Do not wait for a name lookup that is still running.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.as_ref().is_none_or(Client::is_closed)
    }

    /// For operations that take long.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn prepared(&mut self, sql: &str) -> Outcome<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.ask(self.patience, async |client| client.prepare(sql).await)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn prepared_too<'q>(
        &mut self,
        query: Option<(&str, &'q [Value<'q>])>,
    ) -> Outcome<Option<(Statement, &'q [Value<'q>])>> {
        query.map(|(sql, values)| Ok((self.prepared(sql)?, values))).transpose()
    }

    /// Runs `work` on the client. Without an answer in time, the connection is given up.
    fn ask<T>(
        &mut self,
        patience: Duration,
        work: impl AsyncFnOnce(&Client) -> std::result::Result<T, Error>,
    ) -> Outcome<T> {
        let Some(client) = &self.client else { return Err(Failure::TimedOut) };
        let answered = self.runtime.block_on(within(patience, work(client)));
        if matches!(answered, Err(Failure::TimedOut)) {
            self.driver.abort();
            self.client = None;
        }
        Ok(answered??)
    }

    /// Sends the deferred changes and then `work`, in one round trip.
    fn ask_after<T>(
        &mut self,
        patience: Duration,
        work: impl AsyncFnOnce(&Client) -> std::result::Result<T, Error>,
    ) -> Outcome<T> {
        let waiting = std::mem::take(&mut self.waiting);
        let (earlier, answer) = self.ask(patience, async |client| {
            let earlier = join_all(waiting.iter().map(|change| change.run(client)));
            // Each future is sent when it is first polled, in this order.
            Ok(join(earlier, work(client)).await)
        })?;
        check(&waiting, earlier)?;
        Ok(answer?)
    }

    pub(super) fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Outcome<Vec<Row>> {
        let statement = self.prepared(sql)?;
        self.ask_after(self.patience, async |client| client.query(&statement, values).await)
    }

    /// Several queries in one round trip.
    pub(super) fn query_all(&mut self, questions: &[(&str, Vec<Value<'_>>)]) -> Outcome<Vec<Vec<Row>>> {
        let mut asked = Vec::with_capacity(questions.len());
        for (sql, values) in questions {
            asked.push((self.prepared(sql)?, values));
        }
        self.ask_after(self.patience, async |client| {
            let answers = asked.iter().map(|(statement, values)| client.query(statement, values));
            join_all(answers).await.into_iter().collect()
        })
    }

    pub(super) fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Outcome<u64> {
        let statement = self.prepared(sql)?;
        self.ask_after(self.patience, async |client| client.execute(&statement, values).await)
    }

    /// Defers a change: it is sent with the next statement.
    pub(super) fn execute_later(&mut self, sql: &str, values: &[Value<'_>], expect: Expect) -> Outcome<()> {
        let statement = self.prepared(sql)?;
        let mut encoded = Vec::with_capacity(values.len());
        for (value, kind) in values.iter().zip(statement.params()) {
            let mut bytes = BytesMut::new();
            encoded.push(match value.to_sql_checked(kind, &mut bytes) {
                Ok(IsNull::No) => Encoded(Some(bytes)),
                Ok(IsNull::Yes) => Encoded(None),
                Err(error) => return Err(Failure::Store(StoreError::Unexpected(error.to_string()))),
            });
        }
        self.waiting.push(Deferred { statement, values: encoded, expect });
        if self.waiting.len() >= MOST_WAITING { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Outcome<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.ask_after(self.patience, async |_| Ok(()))
    }

    /// Statements without parameters or answers.
    pub(super) fn batch(&mut self, sql: &str) -> Outcome<()> {
        self.ask_after(self.patience, async |client| client.batch_execute(sql).await)
    }

    pub(super) fn simple(&mut self, sql: &str) -> Outcome<Vec<SimpleQueryMessage>> {
        self.ask_after(self.patience, async |client| client.simple_query(sql).await)
    }

    /// Begins a transaction with `words`, followed by one or two queries in the same round trip.
    pub(super) fn begin(
        &mut self,
        words: &str,
        (sql, values): (&str, &[Value<'_>]),
        second: Option<(&str, &[Value<'_>])>,
    ) -> Outcome<(Vec<Row>, Vec<Row>)> {
        // First end what an earlier transaction left open because of an error or a panic.
        if self.is_open {
            self.rollback();
        }
        let statement = self.prepared(sql)?;
        let second = self.prepared_too(second)?;
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

    /// Ends a transaction without committing it. If the connection is gone, there is nothing left to undo.
    pub(super) fn rollback(&mut self) {
        self.waiting.clear();
        self.is_open =
            self.ask(self.patience, async |client| client.batch_execute("ROLLBACK").await).is_err();
    }

    /// Commits with `words`, then runs `then`, in one round trip. Deferred changes are sent along, except
    /// those whose outcome must be known before the commit. The outer result says whether there was anything
    /// left to commit, the inner one whether the commit was answered.
    pub(super) fn commit(&mut self, words: &str, then: Option<(&str, &[Value<'_>])>) -> Outcome<Outcome<()>> {
        if self.waiting.iter().any(|change| change.expect != Expect::Success) {
            self.flush()?;
        }
        let then = self.prepared_too(then)?;
        let waiting = std::mem::take(&mut self.waiting);
        self.is_open = false;
        let answered = self.ask(self.patience, async |client| {
            let earlier = join_all(waiting.iter().map(|change| change.run(client)));
            let commit = client.batch_execute(words);
            let after = async {
                if let Some((statement, values)) = &then {
                    // If this fails, listeners see the commit later.
                    let _ = client.query(statement, values).await;
                }
            };
            let (earlier, (commit, ())) = join(earlier, join(commit, after)).await;
            Ok((earlier, commit))
        });
        let (earlier, commit) = match answered {
            Ok(answered) => answered,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Err(error) = commit {
            return Ok(Err(error.into()));
        }
        // After an error, COMMIT ends a transaction without committing it.
        check(&waiting, earlier)?;
        Ok(Ok(()))
    }
}

/// Checks that the deferred changes did what they had to.
fn check(changes: &[Deferred], outcomes: Vec<std::result::Result<u64, Error>>) -> Outcome<()> {
    for (change, changed) in changes.iter().zip(outcomes) {
        match (change.expect, changed?) {
            (Expect::Success, _) | (Expect::OneRow, 1) => {}
            (Expect::RowsOrRetry(wanted), changed) if changed == wanted => {}
            (Expect::RowsOrRetry(_), _) => return Err(Failure::Store(StoreError::Again)),
            (Expect::OneRow, _) => {
                return Err(Failure::Store(missing_row()));
            }
        }
    }
    Ok(())
}
