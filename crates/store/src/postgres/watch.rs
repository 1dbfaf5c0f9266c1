//! Waits for others' commits: `LISTEN`, and polling now and then.
//!
//! **A notification is only a hint to look.** What counts is whether there is an event that this watch has
//! not counted yet: beyond the settled ones (where no event can be added any more), and not among those
//! already seen there. So each commit is reported once, even one that follows a commit with a higher number.
//! An event that was seen before it was settled is reported once more when it is settled: a follower that
//! reads in the order of numbers sees it only then, and a writer that ended silently notifies nobody. As long
//! as there is such an event, the next look comes soon.
//!
//! **Without notifications**, because a writer died after its commit or the connection was lost, a look every
//! [`SILENCE`] finds what there is. A lost connection is opened again, soon at first, later every second.
//!
//! The connection is driven on this thread, together with the other descriptors: nothing wakes up while
//! nothing happens.

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

use super::blocker::{AdvisoryLock, with_blocker};
use super::connection::runtime;
use super::session::{Lock, lowest, settled_up_to};
use super::{Address, PostgresStore, failed};

/// How long a watch relies on notifications.
const SILENCE: Duration = Duration::from_secs(30);

/// How soon to look whether a seen event is settled.
const UNSETTLED: Duration = Duration::from_millis(250);

/// The pauses before a lost connection is opened again.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The channel on which a project's commits are announced.
pub(super) fn channel(project: uuid::Uuid) -> String {
    format!("onus_{}", project.simple())
}

/// Notifies the listeners, if there are any, that something was committed. Not part of the transaction, and
/// need not be durable (or worth a sync of the log): if it fails, listeners see the commit later. Listeners
/// share the lock: if it can be taken exclusively, there are none.
pub(super) const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')::text \
    WHERE NOT pg_try_advisory_xact_lock($2)";

/// What ended a sleep: a notification or the end of its time, another descriptor, or the end of the
/// connection.
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
    /// The number up to which no event can still be added, and the events beyond it that were seen.
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
    // Listen before the first look.
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
        listening
            .map_err(|error| with_blocker(error, &self.address, AdvisoryLock { key: lock, shared: true }))
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

    /// Counts all current events as seen.
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

    /// Looks for new events, over a new connection if the old one is lost. None: the server cannot be reached
    /// now.
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
                    // Like poll(2), treat a descriptor that cannot be waited for as always ready.
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
            // One look is enough for all notifications so far.
            if let Some(listener) = &mut self.listener {
                while listener.news.try_recv().is_ok() {}
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Woken::TimedOut);
            }
        }
    }
}
