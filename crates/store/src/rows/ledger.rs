//! Reads the ledger: events, their texts, and the heads of the streams.

use onus_core::chain::Record;
use onus_core::ids::{Uid, Version};
use onus_core::seal::StreamHead;

use crate::{EventQuery, LedgerLine, LooseText, Result, StoreError};

use super::columns::{SELECT_EVENTS, SELECT_TEXTS};
use super::sql::sql;
use super::{Ask as _, Cells, Statements, Unreadable, Value, decode, values};

/// How many heads are read at a time.
const HEADS: i64 = 5_000;

/// The positions of stream and version in [`SELECT_EVENTS`] and [`SELECT_TEXTS`].
const PLACE_OF_EVENT: (usize, usize) = (2, 3);
const PLACE_OF_TEXT: (usize, usize) = (0, 1);

pub(crate) fn events(session: &mut dyn Statements, query: &EventQuery) -> Result<Vec<Record>> {
    let project = session.stream().to_owned();
    // Within a stream, `version` and `seq` grow together, so its index leads to the place to continue from.
    // Its events are also committed in order: appending locks the stream's row.
    const OF_STREAM: &str = " WHERE {project = $1 AND }stream = ?1 AND seq > ?2 \
        AND version > COALESCE((SELECT version FROM event AS last WHERE {last.project = $1 AND }last.seq = ?2 \
        AND last.stream = ?1), 0) ORDER BY version ";
    const OF_ALL: &str = " WHERE {project = $1 AND }seq > ?1 AND seq <= ?2 ORDER BY seq ";
    let (sql, values) = match query.stream {
        Some(stream) => {
            let sql = match query.newest {
                true => sql!(SELECT_EVENTS, OF_STREAM, "DESC LIMIT ?3"),
                false => sql!(SELECT_EVENTS, OF_STREAM, "LIMIT ?3"),
            };
            (sql, [Value::from(stream), query.after_seq.into(), query.limit.into()])
        }
        None => {
            let end = if query.settled { session.settled()? } else { i64::MAX };
            let sql = match query.newest {
                true => sql!(SELECT_EVENTS, OF_ALL, "DESC LIMIT ?3"),
                false => sql!(SELECT_EVENTS, OF_ALL, "LIMIT ?3"),
            };
            (sql, [Value::from(query.after_seq), end.into(), query.limit.into()])
        }
    };
    let mut records = session.all(sql, &values, |cells| decode::record(cells, &project))?;
    if query.newest {
        records.reverse();
    }
    Ok(records)
}

pub(crate) fn event(session: &mut dyn Statements, stream: Uid, version: Version) -> Result<Option<Record>> {
    let project = session.stream().to_owned();
    session.one(
        sql!(SELECT_EVENTS, " WHERE {project = $1 AND }stream = ?1 AND version = ?2"),
        values![stream, version],
        |cells| decode::record(cells, &project),
    )
}

pub(crate) fn notes(session: &mut dyn Statements, task: Uid) -> Result<Vec<Record>> {
    let project = session.stream().to_owned();
    session.all(
        sql!(
            SELECT_EVENTS,
            " WHERE {project = $1 AND }stream = ?1 \
             AND payload{::jsonb} -> 'texts' -> 'note' IS NOT NULL ORDER BY version"
        ),
        values![task],
        |cells| decode::record(cells, &project),
    )
}

pub(crate) fn count_events(session: &mut dyn Statements) -> Result<u64> {
    session.number(sql!("SELECT COUNT(*) FROM event{ WHERE project = $1}"), &[])
}

/// The error for an event or text that onus did not write, named by its place.
fn tampered(cells: &Cells<'_>, (stream, version): (usize, usize), why: &Unreadable) -> StoreError {
    let (stream, version) = cells.place(stream, version);
    StoreError::Tampered { stream, version, why: format!("it is unreadable: {}", why.0) }
}

/// The events after a place, ordered by stream and version, each with its stream.
pub(super) fn events_page(
    session: &mut dyn Statements,
    (stream, version): (&str, u64),
    limit: u64,
) -> Result<Vec<(String, Record)>> {
    let project = session.stream().to_owned();
    let page = session.all(
        sql!(
            SELECT_EVENTS,
            " WHERE {project = $1 AND }(stream, version) > (?1, ?2) ORDER BY stream, version LIMIT ?3"
        ),
        values![stream, version, limit],
        |cells| Ok(decode::record(cells, &project).map_err(|why| tampered(cells, PLACE_OF_EVENT, &why))),
    )?;
    page.into_iter()
        .map(|record| {
            let record = record?;
            Ok((record.task.clone().unwrap_or_else(|| project.clone()), record))
        })
        .collect()
}

pub(crate) fn ledger_page(
    session: &mut dyn Statements,
    after: Option<&(String, u64)>,
    limit: u64,
) -> Result<Vec<LedgerLine>> {
    let after = after.map_or(("", 0), |(stream, version)| (stream.as_str(), *version));
    let page = events_page(session, after, limit)?;
    let mut lines: Vec<LedgerLine> =
        page.into_iter().map(|(stream, record)| LedgerLine { stream, record, texts: Vec::new() }).collect();
    let Some(last) = lines.last() else { return Ok(lines) };
    // Every text in this range, even one beside an event that names none: an added text must not go
    // unnoticed.
    let texts = session.all(
        sql!(
            SELECT_TEXTS,
            " WHERE {project = $1 AND }(stream, version) > (?1, ?2) AND (stream, version) <= (?3, ?4) \
             ORDER BY stream, version, field"
        ),
        values![after.0, after.1, &last.stream, last.record.version],
        |cells| {
            let mut read = || {
                let place: (String, u64) = (cells.get()?, cells.get()?);
                Ok((place, LooseText { field: cells.get()?, salt: cells.get()?, text: cells.get()? }))
            };
            Ok(read().map_err(|why| tampered(cells, PLACE_OF_TEXT, &why)))
        },
    )?;
    let mut at = 0;
    for text in texts {
        let ((stream, version), text) = text?;
        let place = (&stream, version);
        while lines.get(at).is_some_and(|line| (&line.stream, line.record.version) < place) {
            at += 1;
        }
        // A text without an event belongs to no line: see `stray_text`.
        if let Some(line) = lines.get_mut(at).filter(|line| (&line.stream, line.record.version) == place) {
            line.texts.push(text);
        }
    }
    Ok(lines)
}

pub(crate) fn stray_text(session: &mut dyn Statements) -> Result<Option<(String, u64)>> {
    let (stream, version) = PLACE_OF_TEXT;
    session.one(
        sql!(
            "SELECT stream, version FROM text WHERE {project = $1 AND }NOT EXISTS (SELECT 1 FROM event \
             WHERE {event.project = $1 AND }event.stream = text.stream AND event.version = text.version) LIMIT 1"
        ),
        &[],
        |cells| Ok(cells.place(stream, version)),
    )
}

pub(crate) fn head(session: &mut dyn Statements, stream: &str) -> Result<Option<StreamHead>> {
    let sql = match stream == session.stream() {
        true => sql!("SELECT uid, version, head FROM project WHERE {project = $1 AND }uid = ?1"),
        false => sql!(
            "SELECT uid, version, head FROM task WHERE {project = $1 AND }uid = ?1 \
             UNION ALL SELECT uid, version, head FROM seat WHERE {project = $1 AND }uid = ?1"
        ),
    };
    session.one(sql, values![stream], decode::stream_head)
}

pub(crate) fn walk_heads(
    session: &mut dyn Statements,
    visit: &mut dyn FnMut(StreamHead) -> Result<()>,
) -> Result<()> {
    let mut after = String::new();
    loop {
        let heads = session.all(
            sql!(
                "SELECT uid, version, head FROM (SELECT uid, version, head FROM task{ WHERE project = $1} UNION ALL \
                 SELECT uid, version, head FROM seat{ WHERE project = $1} UNION ALL \
                 SELECT uid, version, head FROM project{ WHERE project = $1}) AS streams WHERE uid > ?1 \
                 ORDER BY uid LIMIT ?2"
            ),
            values![&after, HEADS],
            decode::stream_head,
        )?;
        let Some(last) = heads.last() else { return Ok(()) };
        after = last.uid.clone();
        heads.into_iter().try_for_each(&mut *visit)?;
    }
}
