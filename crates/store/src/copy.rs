//! Copies a project from one store into another.
//!
//! The ledger is read in the order in which it was written, and each event is applied to the new store as the
//! engine applied it to the old one: event, texts, rows. What is not history follows: signs of life,
//! instances, losses, notices, kept requests. An interrupted copy has the beginning of the ledger, and the
//! next run continues from there. At the end the heads of all streams are compared, and the new rows with the
//! new ledger.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::ActorName;
use onus_core::apply::{apply_to_project, apply_to_seat, apply_to_task};
use onus_core::chain::Record;
use onus_core::event::Body;
use onus_core::ids::Version;
use onus_core::lease::{Lease, Liveness, Process, Seen};
use onus_core::text::{Field, Salt, TextKey};

use crate::{EventQuery, MANY, Progress, Result, Seats, Store, StoreError, StoredText, Write};

/// Events copied per transaction.
const PAGE: u64 = 500;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub events: u64,
    pub tasks: u64,
    pub instances: u64,
    pub requests: u64,
}

/// The tasks and seats with a live lease, and their holders.
pub fn live_leases<S: Store>(
    store: &mut S,
    observe: &dyn Fn(&Process) -> Seen,
) -> Result<Vec<(String, String)>> {
    store.read(|read| {
        let (now, prefix) = (read.now(), read.project()?.prefix);
        let tasks = read.open_leases(MANY)?.into_iter();
        let mut held: Vec<(String, Lease)> =
            tasks.map(|(task, lease)| (prefix.id(task.number), lease)).collect();
        for seat in read.seats(Seats::Leased, MANY)? {
            let lease = read.lease(seat.uid, seat.token)?;
            held.extend(lease.map(|lease| (seat.name.spoken(), lease)));
        }
        held.retain(|(_, lease)| {
            let seen = lease.grant.process.as_ref().map_or(Seen::Unseen, observe);
            lease.liveness(&now, seen) == Liveness::Live
        });
        Ok(held.into_iter().map(|(id, lease)| (id, lease.actor.to_string())).collect())
    })
}

/// Copies everything in `from` to `to`, which is empty or has the beginning of the same ledger.
pub fn copy<F: Store, T: Store>(
    from: &mut F,
    to: &mut T,
    progress: &mut dyn FnMut(Progress),
) -> Result<Copied> {
    let mut done = to.read(|read| read.count_events())?;
    let total = from.read(|read| read.count_events())?;
    let mut after_seq = skip(from, done)?;
    let mut copied = Copied::default();
    loop {
        let query = EventQuery { after_seq, limit: PAGE, settled: true, ..EventQuery::default() };
        let page = from.read(|read| {
            let project = read.project()?.uid;
            let mut page = Vec::new();
            for record in read.events(&query)? {
                let stream = match &record.task {
                    Some(uid) => uid.parse().map_err(|_| unreadable(&record))?,
                    None => project,
                };
                let texts = read.texts(stream, Version(record.version))?;
                page.push((record, texts));
            }
            Ok(page)
        })?;
        let Some((last, _)) = page.last() else { break };
        after_seq = last.seq;
        to.write(|write| page.iter().try_for_each(|(record, texts)| put(write, record, texts)))?;
        done += page.len() as u64;
        progress(Progress { done, total: total.max(done) });
    }
    // Signs of life belong to the last events: copy them only if no event is missing.
    compare(from, to)?;
    put_unrecorded(from, to, &mut copied)?;
    compare(from, to)?;
    let rebuilt = to.rebuild(&mut |_| {})?;
    if !rebuilt.changed.is_empty() {
        return Err(StoreError::Damaged(format!(
            "the copy's rows differ from its ledger: {:?}",
            rebuilt.changed
        )));
    }
    Ok(Copied { events: rebuilt.events, tasks: rebuilt.tasks, ..copied })
}

fn unreadable(record: &Record) -> StoreError {
    StoreError::Tampered {
        stream: record.task.clone().unwrap_or_default(),
        version: record.version,
        why: "it cannot be read".to_owned(),
    }
}

/// The sequence number of the `count`th event.
fn skip<S: Store>(from: &mut S, mut count: u64) -> Result<u64> {
    let mut after_seq = 0;
    while count > 0 {
        let query =
            EventQuery { after_seq, limit: count.min(10_000), settled: true, ..EventQuery::default() };
        let page = from.read(|read| read.events(&query))?;
        let Some(last) = page.last() else {
            return Err(StoreError::Damaged("the copy has more events than the original".to_owned()));
        };
        after_seq = last.seq;
        count -= page.len() as u64;
    }
    Ok(after_seq)
}

/// Writes one event, with its texts and changes.
fn put(write: &mut dyn Write, record: &Record, texts: &[StoredText]) -> Result<()> {
    let event = record.to_event().map_err(|error| StoreError::Damaged(error.to_string()))?;
    let texts: Vec<(Field, Salt, String)> =
        texts.iter().map(|stored| (stored.key.field, stored.salt, stored.text.clone())).collect();
    let misplaced = |error: onus_core::apply::Misplaced| StoreError::Damaged(error.to_string());
    let changes = match event.task {
        Some(uid) => match (write.task(uid)?, &event.body) {
            (None, body) if !matches!(body, Body::TaskCreated { .. }) => {
                apply_to_seat(write.seat(uid)?.as_ref(), &event).map_err(misplaced)?
            }
            (task, _) => apply_to_task(task.as_ref(), &event).map_err(misplaced)?,
        },
        None => {
            let before = if event.version.0 > 1 { Some(write.project()?) } else { None };
            apply_to_project(before.as_ref(), &event).map_err(misplaced)?
        }
    };
    write.append(&event, &texts)?;
    changes.iter().try_for_each(|change| write.apply(change))?;
    if let (Some(stream), Body::TextRedacted { version, fields, .. }) = (event.task, &event.body) {
        for field in fields {
            let key = TextKey { stream, version: *version, field: *field };
            // The text is still here if an earlier, interrupted copy took it before it was erased in the old
            // store.
            if write.text(key)?.is_some() {
                write.erase(key)?;
            }
        }
    }
    Ok(())
}

/// Copies what is not history.
fn put_unrecorded<F: Store, T: Store>(from: &mut F, to: &mut T, copied: &mut Copied) -> Result<()> {
    let (leases, instances, requests) =
        from.read(|read| Ok((read.unended_leases()?, read.instances(MANY)?, read.requests()?)))?;
    let (losses, notices) = from.read(|read| Ok((read.losses()?, read.notices()?)))?;
    copied.instances = instances.len() as u64;
    copied.requests = requests.len() as u64;
    to.write(|write| {
        // The other leases have the pulse of their event, or the one that an earlier attempt copied.
        let copied: BTreeMap<_, _> =
            write.unended_leases()?.into_iter().map(|lease| (lease.key(), lease)).collect();
        let beating = leases.iter().filter(|lease| {
            copied.get(&lease.key()).is_none_or(|there| there.pulse.renewals < lease.pulse.renewals)
        });
        let pulses: Vec<_> = beating.map(|lease| (lease.task, lease.token, lease.pulse.clone())).collect();
        write.pulse(&pulses)?;
        instances.iter().try_for_each(|known| write.put_instance(known))?;
        losses.iter().try_for_each(|loss| write.put_loss(loss))?;
        notices.iter().try_for_each(|notice| write.put_notice(notice))?;
        // One query instead of one per request.
        let kept: BTreeSet<(ActorName, String)> =
            write.requests()?.into_iter().map(|(actor, key, _)| (actor, key)).collect();
        let missing = requests.iter().filter(|(actor, key, _)| !kept.contains(&(actor.clone(), key.clone())));
        missing.into_iter().try_for_each(|(actor, key, request)| write.keep_request(actor, key, request))
    })
}

/// Checks that both have the same heads: nobody has written to the old store since it was copied.
pub fn compare<F: Store, T: Store>(from: &mut F, to: &mut T) -> Result<()> {
    let (old, new) = (from.read(|read| read.heads())?, to.read(|read| read.heads())?);
    match old.iter().zip(&new).find(|(old, new)| old != new) {
        None if old.len() == new.len() => Ok(()),
        other => {
            let stream = other.map_or_else(|| "a stream".to_owned(), |(old, _)| old.uid.clone());
            Err(StoreError::Damaged(format!(
                "the old store changed during the copy ({stream}): run the copy again, and it will continue"
            )))
        }
    }
}

/// The name of a project whose copy is not complete.
#[cfg(feature = "postgres")]
pub(crate) fn unfinished(name: &str, uid: onus_core::ids::Uid) -> String {
    format!("{name} (copying {uid})")
}
