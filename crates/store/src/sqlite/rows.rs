//! Between rows and domain types. One list of columns a table, used for reading, writing and rebuilding.

use std::sync::LazyLock;

use rusqlite::{Row, RowIndex, named_params};

use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::ids::{Number, Token, Version};
use onus_core::lease::{Ended, Grant, Lease, LeaseEnd, Pulse};
use onus_core::task::{Facts, Kept, Task};
use onus_core::text::{Salt, TextKey};
use onus_core::time::{ClockDomain, Moment, rfc3339};

use crate::StoredText;

/// Where a column stands in a list of columns. By name, SQLite would compare its way along the list for each value of
/// each row; a wrong name does not compile.
const fn position(columns: &str, name: &str) -> usize {
    let (columns, name) = (columns.as_bytes(), name.as_bytes());
    let (mut position, mut start, mut end) = (0, 0, 0);
    loop {
        if end == columns.len() || columns[end] == b',' {
            if is_at(columns, start, end, name) {
                return position;
            }
            assert!(end < columns.len(), "there is no such column");
            position += 1;
            start = end + ", ".len();
            end = start;
        } else {
            end += 1;
        }
    }
}

const fn is_at(text: &[u8], start: usize, end: usize, word: &[u8]) -> bool {
    let mut i = 0;
    while i < word.len() && start + i < end && text[start + i] == word[i] {
        i += 1;
    }
    i == word.len() && start + i == end
}

macro_rules! of_task {
    ($name:literal) => {
        const { position(TASK_COLUMNS, $name) }
    };
}

macro_rules! of_lease {
    ($name:literal) => {
        const { position(LEASE_COLUMNS, $name) }
    };
}

macro_rules! of_event {
    ($name:literal) => {
        const { position(EVENT_COLUMNS, $name) }
    };
}

pub(super) const TASK_COLUMNS: &str = "number, uid, uid_reversed, version, head, state, type, priority, \
    required_tier, area, iteration, owner, tags, refs, title_version, body_version, origin, created_at_ms, \
    created_by, updated_at_ms, token, leased, opened_token, kept_actor, kept_wall_ms, kept_tick_ms, kept_domain, \
    kept_version, submitter";

const TASK_VALUES: &str = ":number, :uid, :uid_reversed, :version, :head, :state, :type, :priority, \
    :required_tier, :area, :iteration, :owner, :tags, :refs, :title_version, :body_version, :origin, \
    :created_at_ms, :created_by, :updated_at_ms, :token, :leased, :opened_token, :kept_actor, :kept_wall_ms, \
    :kept_tick_ms, :kept_domain, :kept_version, :submitter";

/// What never changes in a task's row: number, uid, origin and how it was created.
const TASK_UPDATES: &str = "version = excluded.version, head = excluded.head, state = excluded.state, \
    type = excluded.type, priority = excluded.priority, required_tier = excluded.required_tier, \
    area = excluded.area, iteration = excluded.iteration, owner = excluded.owner, tags = excluded.tags, \
    refs = excluded.refs, title_version = excluded.title_version, body_version = excluded.body_version, \
    updated_at_ms = excluded.updated_at_ms, token = excluded.token, leased = excluded.leased, \
    opened_token = excluded.opened_token, kept_actor = excluded.kept_actor, \
    kept_wall_ms = excluded.kept_wall_ms, kept_tick_ms = excluded.kept_tick_ms, \
    kept_domain = excluded.kept_domain, kept_version = excluded.kept_version, submitter = excluded.submitter";

pub(super) static UPSERT_TASK: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO task ({TASK_COLUMNS}) VALUES ({TASK_VALUES}) ON CONFLICT (number) DO UPDATE SET {TASK_UPDATES}"
    )
});

pub(super) fn insert_task_into(table: &str) -> String {
    format!("INSERT INTO {table} ({TASK_COLUMNS}) VALUES ({TASK_VALUES})")
}

/// Hands a task's columns to `run`. (They borrow from values made here.)
pub(super) fn with_task<R>(task: &Task, run: impl FnOnce(&[(&str, &dyn rusqlite::ToSql)]) -> R) -> R {
    let uid = task.uid.to_string();
    let reversed: String = uid.chars().rev().collect();
    let facts = &task.facts;
    let kept = task.kept.as_ref();
    run(named_params! {
        ":number": to_sql(task.number.0),
        ":uid": uid,
        ":uid_reversed": reversed,
        ":version": to_sql(task.version.0),
        ":head": task.head,
        ":state": task.state.as_str(),
        ":type": facts.kind.as_str(),
        ":priority": facts.priority.as_str(),
        ":required_tier": facts.required_tier.0,
        ":area": facts.area,
        ":iteration": facts.iteration,
        ":owner": facts.owner.as_ref().map(|owner| owner.as_str()),
        ":tags": serde_json::to_string(&facts.tags).unwrap_or_default(),
        ":refs": serde_json::to_string(&facts.refs).unwrap_or_default(),
        ":title_version": to_sql(task.title_version.0),
        ":body_version": task.body_version.map(|version| to_sql(version.0)),
        ":origin": task.origin.as_ref().map(|origin| origin.as_str()),
        ":created_at_ms": task.created_at_ms,
        ":created_by": task.created_by.as_str(),
        ":updated_at_ms": task.updated_at_ms,
        ":token": to_sql(task.token.0),
        ":leased": task.leased,
        ":opened_token": to_sql(task.opened_token.0),
        ":kept_actor": kept.map(|kept| kept.actor.as_str()),
        ":kept_wall_ms": kept.map(|kept| kept.until.wall_ms),
        ":kept_tick_ms": kept.map(|kept| kept.until.tick_ms),
        ":kept_domain": kept.map(|kept| kept.until.domain.as_str()),
        ":kept_version": kept.map(|kept| to_sql(kept.version.0)),
        ":submitter": task.submitter.as_ref().map(|actor| actor.as_str()),
    })
}

pub(super) fn task(row: &Row<'_>) -> rusqlite::Result<Task> {
    let kept = match row.get::<_, Option<String>>(of_task!("kept_actor"))? {
        Some(actor) => Some(Kept {
            actor: parsed(&actor)?,
            until: moment(row, of_task!("kept_wall_ms"), of_task!("kept_tick_ms"), of_task!("kept_domain"))?,
            version: Version(unsigned(row, of_task!("kept_version"))?),
        }),
        None => None,
    };
    Ok(Task {
        uid: text(row, of_task!("uid"))?,
        number: Number(unsigned(row, of_task!("number"))?),
        version: Version(unsigned(row, of_task!("version"))?),
        head: row.get(of_task!("head"))?,
        state: text(row, of_task!("state"))?,
        facts: Facts {
            kind: text(row, of_task!("type"))?,
            priority: text(row, of_task!("priority"))?,
            required_tier: onus_core::actor::Tier(row.get(of_task!("required_tier"))?),
            area: row.get(of_task!("area"))?,
            iteration: row.get(of_task!("iteration"))?,
            owner: optional(row, of_task!("owner"))?,
            tags: json(row, of_task!("tags"))?,
            refs: json(row, of_task!("refs"))?,
        },
        title_version: Version(unsigned(row, of_task!("title_version"))?),
        body_version: optional_unsigned(row, of_task!("body_version"))?.map(Version),
        origin: optional(row, of_task!("origin"))?,
        created_at_ms: row.get(of_task!("created_at_ms"))?,
        created_by: text(row, of_task!("created_by"))?,
        updated_at_ms: row.get(of_task!("updated_at_ms"))?,
        token: Token(unsigned(row, of_task!("token"))?),
        leased: row.get(of_task!("leased"))?,
        opened_token: Token(unsigned(row, of_task!("opened_token"))?),
        kept,
        submitter: optional(row, of_task!("submitter"))?,
    })
}

pub(super) const LEASE_COLUMNS: &str = "task, token, actor, instance, tier, acquired_at_ms, tick_ms, domain, \
    ttl_ms, max_hold_ms, process, worktree, branch, mode, reserve, handoff_version, version, active_wall_ms, \
    active_tick_ms, active_domain, active_before_s, last_wall_ms, last_tick_ms, last_domain, renewals, \
    deadline_wall_ms, deadline_tick_ms, deadline_domain, ended_how, ended_at_ms, ended_version, ended_active_s";

pub(super) static INSERT_LEASE: LazyLock<String> = LazyLock::new(|| insert_lease_into("lease"));

pub(super) fn insert_lease_into(table: &str) -> String {
    let values: Vec<String> = LEASE_COLUMNS.split(", ").map(|name| format!(":{}", name.trim())).collect();
    format!("INSERT INTO {table} ({LEASE_COLUMNS}) VALUES ({})", values.join(", "))
}

pub(super) fn with_lease<R>(lease: &Lease, run: impl FnOnce(&[(&str, &dyn rusqlite::ToSql)]) -> R) -> R {
    let (grant, pulse, ended) = (&lease.grant, &lease.pulse, lease.ended.as_ref());
    let deadline = pulse.deadline.as_ref();
    run(named_params! {
        ":task": lease.task.to_string(),
        ":token": to_sql(lease.token.0),
        ":actor": lease.actor.as_str(),
        ":instance": lease.instance.as_str(),
        ":tier": grant.tier.0,
        ":acquired_at_ms": lease.acquired_at_ms,
        ":tick_ms": grant.tick_ms,
        ":domain": grant.domain.as_str(),
        ":ttl_ms": grant.ttl_ms,
        ":max_hold_ms": grant.max_hold_ms,
        ":process": grant.process.as_ref().and_then(|process| serde_json::to_string(process).ok()),
        ":worktree": grant.worktree,
        ":branch": grant.branch,
        ":mode": grant.mode.as_str(),
        ":reserve": grant.reserve,
        ":handoff_version": grant.handoff_version.map(|version| to_sql(version.0)),
        ":version": to_sql(lease.version.0),
        ":active_wall_ms": lease.active_from.wall_ms,
        ":active_tick_ms": lease.active_from.tick_ms,
        ":active_domain": lease.active_from.domain.as_str(),
        ":active_before_s": lease.active_before_s,
        ":last_wall_ms": pulse.last.wall_ms,
        ":last_tick_ms": pulse.last.tick_ms,
        ":last_domain": pulse.last.domain.as_str(),
        ":renewals": to_sql(pulse.renewals),
        ":deadline_wall_ms": deadline.map(|deadline| deadline.wall_ms),
        ":deadline_tick_ms": deadline.map(|deadline| deadline.tick_ms),
        ":deadline_domain": deadline.map(|deadline| deadline.domain.as_str()),
        ":ended_how": ended.map(|ended| ended.how.as_str()),
        ":ended_at_ms": ended.map(|ended| ended.at_ms),
        ":ended_version": ended.map(|ended| to_sql(ended.version.0)),
        ":ended_active_s": ended.map(|ended| ended.end.active_s),
    })
}

pub(super) fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let renewals = unsigned(row, of_lease!("renewals"))?;
    let last = moment(row, of_lease!("last_wall_ms"), of_lease!("last_tick_ms"), of_lease!("last_domain"))?;
    let ended = match row.get::<_, Option<String>>(of_lease!("ended_how"))? {
        Some(how) => Some(Ended {
            how: parsed(&how)?,
            at_ms: row.get(of_lease!("ended_at_ms"))?,
            version: Version(unsigned(row, of_lease!("ended_version"))?),
            end: LeaseEnd {
                renewals,
                last_sign_ms: last.wall_ms,
                active_s: row.get(of_lease!("ended_active_s"))?,
            },
        }),
        None => None,
    };
    let deadline = match row.get::<_, Option<i64>>(of_lease!("deadline_wall_ms"))? {
        Some(_) => Some(moment(
            row,
            of_lease!("deadline_wall_ms"),
            of_lease!("deadline_tick_ms"),
            of_lease!("deadline_domain"),
        )?),
        None => None,
    };
    let process = match row.get::<_, Option<String>>(of_lease!("process"))? {
        Some(text) => Some(serde_json::from_str(&text).map_err(unreadable)?),
        None => None,
    };
    Ok(Lease {
        task: text(row, of_lease!("task"))?,
        token: Token(unsigned(row, of_lease!("token"))?),
        actor: text(row, of_lease!("actor"))?,
        instance: text(row, of_lease!("instance"))?,
        grant: Grant {
            tier: onus_core::actor::Tier(row.get(of_lease!("tier"))?),
            tick_ms: row.get(of_lease!("tick_ms"))?,
            domain: ClockDomain::from_stored(row.get(of_lease!("domain"))?),
            ttl_ms: row.get(of_lease!("ttl_ms"))?,
            max_hold_ms: row.get(of_lease!("max_hold_ms"))?,
            process,
            worktree: row.get(of_lease!("worktree"))?,
            branch: row.get(of_lease!("branch"))?,
            mode: text(row, of_lease!("mode"))?,
            reserve: row.get(of_lease!("reserve"))?,
            handoff_version: optional_unsigned(row, of_lease!("handoff_version"))?.map(Version),
        },
        acquired_at_ms: row.get(of_lease!("acquired_at_ms"))?,
        version: Version(unsigned(row, of_lease!("version"))?),
        active_from: moment(
            row,
            of_lease!("active_wall_ms"),
            of_lease!("active_tick_ms"),
            of_lease!("active_domain"),
        )?,
        active_before_s: row.get(of_lease!("active_before_s"))?,
        pulse: Pulse { last, renewals, deadline },
        ended,
    })
}

pub(super) fn project(row: &Row<'_>) -> rusqlite::Result<Project> {
    Ok(Project {
        uid: text(row, "uid")?,
        prefix: text(row, "prefix")?,
        created_at_ms: row.get("created_at_ms")?,
        version: Version(unsigned(row, "version")?),
        head: row.get("head")?,
    })
}

pub(super) const EVENT_COLUMNS: &str =
    "seq, uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, prev, hash";

/// An event as it is stored. What is not JSON is kept as a string: its hash will not match.
pub(super) fn record(row: &Row<'_>, project: &str) -> rusqlite::Result<Record> {
    let stream: String = row.get(of_event!("stream"))?;
    let payload: String = row.get(of_event!("payload"))?;
    Ok(Record {
        seq: unsigned(row, of_event!("seq"))?,
        uid: row.get(of_event!("uid"))?,
        task: Some(stream).filter(|stream| stream != project),
        version: unsigned(row, of_event!("version"))?,
        kind: row.get(of_event!("kind"))?,
        actor: row.get(of_event!("actor"))?,
        instance: row.get(of_event!("instance"))?,
        token: optional_unsigned(row, of_event!("token"))?,
        at: rfc3339(row.get(of_event!("at_ms"))?),
        cause: row.get(of_event!("cause"))?,
        payload: serde_json::from_str(&payload).unwrap_or(serde_json::Value::String(payload)),
        prev: row.get(of_event!("prev"))?,
        hash: row.get(of_event!("hash"))?,
    })
}

pub(super) fn stored_text(row: &Row<'_>) -> rusqlite::Result<StoredText> {
    Ok(StoredText {
        key: TextKey {
            stream: text(row, "stream")?,
            version: Version(unsigned(row, "version")?),
            field: text(row, "field")?,
        },
        salt: salt(row, "salt")?,
        text: row.get("body")?,
    })
}

pub(super) fn salt(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Salt> {
    let bytes: Vec<u8> = row.get(column)?;
    Salt::try_from(bytes.as_slice()).map_err(unreadable)
}

pub(super) fn moment(row: &Row<'_>, wall: usize, tick: usize, domain: usize) -> rusqlite::Result<Moment> {
    Ok(Moment {
        wall_ms: row.get(wall)?,
        tick_ms: row.get(tick)?,
        domain: ClockDomain::from_stored(row.get(domain)?),
    })
}

/// SQLite's integers are signed; ours that count things never reach the sign.
pub(super) fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(unreadable)
}

pub(super) fn optional_unsigned(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Option<u64>> {
    row.get::<_, Option<i64>>(column)?.map(|value| u64::try_from(value).map_err(unreadable)).transpose()
}

pub(super) fn text<T: std::str::FromStr>(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    parsed(&row.get::<_, String>(column)?)
}

pub(super) fn optional<T: std::str::FromStr>(
    row: &Row<'_>,
    column: impl RowIndex,
) -> rusqlite::Result<Option<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get::<_, Option<String>>(column)?.map(|text| parsed(&text)).transpose()
}

pub(super) fn parsed<T: std::str::FromStr>(text: &str) -> rusqlite::Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().map_err(unreadable)
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<T> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(unreadable)
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}
