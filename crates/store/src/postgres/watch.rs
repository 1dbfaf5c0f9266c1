//! Waiting for what others commit: `LISTEN`, and a look now and then.
//!
//! **Heard is not seen.** A notification only says when to look. What counts is whether there is an event that this watch
//! has not counted yet: beyond what is settled (no event can come there any more), and not among those that were seen there.
//! So each commit is told once, also one that is committed after another with a higher number. What was seen and is not
//! settled is told once more when it is: who follows in the order of numbers sees it only then, and nobody else tells of a
//! writer that ended without a word. As long as there is such an event, a look comes soon.
//!
//! **Where nothing is heard**: a writer that died between its commit and its word, a connection that was lost. Then a look
//! every [`SILENCE`] finds what there is; a lost connection is made again, soon at first, later every second.
//!
//! The connection is driven on this thread, together with what else is waited for: nothing wakes up while nothing happens.

use std::future::Future as _;
use std::os::fd::BorrowedFd;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::Client;

use crate::{Result, Watch, Woken};

use super::blocker::{AdvisoryLock, named};
use super::connection::runtime;
use super::session::{Lock, lowest, settled_up_to};
use super::{Address, PostgresStore, failed};

/// How long a watch trusts that it would have heard.
const SILENCE: Duration = Duration::from_secs(30);

/// How soon to look whether what was seen is settled.
const UNSETTLED: Duration = Duration::from_millis(250);

/// How soon a lost connection is made again.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Where a project's commits are told.
pub(super) fn channel(project: uuid::Uuid) -> String {
    format!("onus_{}", project.simple())
}

/// Tells those who listen, if there are any, that something was committed. It is no part of any transaction, and need not
/// last: if it fails, they see it later. Listeners share the lock: who gets it alone has nobody to tell. What is told is not
/// worth a sync of the log.
pub(super) const TELL: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')::text \
    WHERE NOT pg_try_advisory_xact_lock($2)";

/// What ended a sleep: news or the end of its time, one of the others, or the connection's end.
enum Heard {
    News,
    Other,
    Lost,
}

/// A connection that listens.
struct Listener {
    client: Client,
    news: UnboundedReceiver<()>,
    driver: tokio::task::JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

pub(super) struct PostgresWatch {
    runtime: Runtime,
    address: Address,
    project: uuid::Uuid,
    listener: Option<Listener>,
    /// The number up to which no event can come any more, and those beyond it that were seen.
    settled: i64,
    seen: Vec<i64>,
    pause: Duration,
}

impl std::fmt::Debug for PostgresWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresWatch").field("address", &self.address.shown()).finish_non_exhaustive()
    }
}

pub(super) fn watch(store: &PostgresStore) -> Result<PostgresWatch> {
    let mut watch = PostgresWatch {
        runtime: runtime()?,
        address: store.address.clone(),
        project: store.project,
        listener: None,
        settled: 0,
        seen: Vec::new(),
        pause: MIN_PAUSE,
    };
    // Listening comes before the first look.
    watch.listener = Some(watch.listen()?);
    watch.count()?;
    Ok(watch)
}

impl PostgresWatch {
    fn listen(&self) -> Result<Listener> {
        let (channel, lock) = (channel(self.project), Lock::Watched.key(self.project));
        let listening = self.runtime.block_on(async {
            let (heard, news) = unbounded_channel();
            let (client, driver) = self.address.connect(Some(heard)).await?;
            let listen = format!("LISTEN {channel}; SELECT pg_advisory_lock_shared({lock})");
            let listening = client.batch_execute(&listen).await;
            listening.map_err(|error| failed(error.into(), &self.address))?;
            Ok(Listener { client, news, driver })
        });
        listening.map_err(|error| named(error, &self.address, AdvisoryLock { key: lock, shared: true }))
    }

    fn ask<T: tokio_postgres::types::FromSqlOwned>(
        &self,
        sql: &str,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Vec<T>> {
        let Some(listener) = &self.listener else {
            return Err(self.address.fails("the connection was lost"));
        };
        let rows = self.runtime.block_on(listener.client.query(sql, values));
        rows.and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect())
            .map_err(|error| failed(error.into(), &self.address))
    }

    /// Counts what is there as seen.
    fn count(&mut self) -> Result<()> {
        let Some(listener) = &self.listener else {
            return Err(self.address.fails("the connection was lost"));
        };
        let answers = self.runtime.block_on(listener.client.simple_query(&settled_up_to()));
        self.settled = lowest(&answers.map_err(|error| failed(error.into(), &self.address))?);
        self.seen = self
            .ask("SELECT seq FROM event WHERE project = $1 AND seq > $2", &[&self.project, &self.settled])?;
        Ok(())
    }

    /// Whether there is an event that was not counted.
    fn has_changed(&mut self) -> Result<bool> {
        let new: Vec<i64> = self.ask(
            "SELECT seq FROM event WHERE project = $1 AND seq > $2 AND NOT seq = ANY($3) LIMIT 1",
            &[&self.project, &self.settled, &self.seen],
        )?;
        if new.is_empty() && self.seen.is_empty() {
            return Ok(false);
        }
        let seen = std::mem::take(&mut self.seen);
        self.count()?;
        Ok(!new.is_empty() || seen.iter().any(|seq| *seq <= self.settled))
    }

    /// Looks, over a new connection if the old one is lost. None: there is none now.
    fn look(&mut self) -> Option<bool> {
        if self.listener.is_none() {
            self.listener = self.listen().ok();
        }
        self.listener.as_ref()?;
        match self.has_changed() {
            Ok(changed) => {
                self.pause = MIN_PAUSE;
                Some(changed)
            }
            Err(_) => {
                self.listener = None;
                None
            }
        }
    }
}

impl Watch for PostgresWatch {
    fn wait(&mut self, until: Option<Instant>, also: &[BorrowedFd<'_>]) -> Result<Woken> {
        loop {
            let pause = match self.look() {
                Some(true) => return Ok(Woken::Committed),
                Some(false) if self.seen.is_empty() => SILENCE,
                Some(false) => UNSETTLED,
                None => {
                    let next = (self.pause * 2).min(MAX_PAUSE);
                    std::mem::replace(&mut self.pause, next)
                }
            };
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let pause = left.map_or(pause, |left| left.min(pause));
            let listener = &mut self.listener;
            let woken = self.runtime.block_on(async {
                let mut others = Vec::new();
                for fd in also {
                    // What cannot be waited for has something to say at any time, as poll(2) has it.
                    #[allow(
                        deprecated,
                        reason = "its successor is unsafe; a borrowed descriptor stays open here"
                    )]
                    let watched = AsyncFd::with_interest(*fd, Interest::READABLE);
                    match watched {
                        Ok(fd) => others.push(fd),
                        Err(_) => return Heard::Other,
                    }
                }
                let mut time_over = std::pin::pin!(tokio::time::sleep(pause));
                std::future::poll_fn(|context| {
                    if others.iter().any(|fd| fd.poll_read_ready(context).is_ready()) {
                        return Poll::Ready(Heard::Other);
                    }
                    if let Some(Poll::Ready(news)) =
                        listener.as_mut().map(|listener| listener.news.poll_recv(context))
                    {
                        return Poll::Ready(if news.is_some() { Heard::News } else { Heard::Lost });
                    }
                    time_over.as_mut().poll(context).map(|()| Heard::News)
                })
                .await
            });
            match woken {
                Heard::Other => return Ok(Woken::Other),
                Heard::Lost => self.listener = None,
                Heard::News => {}
            }
            // All that was heard until now is for one look.
            if let Some(listener) = &mut self.listener {
                while listener.news.try_recv().is_ok() {}
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Woken::TimeOver);
            }
        }
    }
}
