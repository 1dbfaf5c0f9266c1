//! Between rows and domain types.

use std::error::Error;
use std::str::FromStr;
use std::sync::LazyLock;

use rusqlite::types::FromSql;
use rusqlite::{Row, named_params};
use serde::de::DeserializeOwned;

use onus_core::actor::Tier;
use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::ids::{Number, Token, Version};
use onus_core::lease::{Ended, Grant, Lease, LeaseEnd, Pulse};
use onus_core::task::{Counts, Facts, Kept, Task};
use onus_core::text::{Salt, TextKey};
use onus_core::time::{ClockDomain, Moment, rfc3339};

use crate::StoredText;
pub(super) use crate::columns::{EVENT_COLUMNS, LEASE_COLUMNS, TASK_COLUMNS};
use crate::columns::{TASK_COUNTS, TASK_ENDS, changes, moves};

/// The values that [`UPDATE_TASK`] takes, of all.
pub(super) fn updated<'a, 'b>(values: &'a [&'b dyn rusqlite::ToSql]) -> &'a [&'b dyn rusqlite::ToSql] {
    &values[..values.len() - TASK_COUNTS]
}

/// The values that [`MOVE_TASK`] takes.
pub(super) fn moved<'a, 'b>(values: &'a [&'b dyn rusqlite::ToSql]) -> &'a [&'b dyn rusqlite::ToSql] {
    &values[..values.len() - TASK_COUNTS - TASK_ENDS]
}

/// To prepare, an `UPDATE` costs a third of what an upsert does, and nearly every change is to a task that exists.
pub(super) static UPDATE_TASK: LazyLock<String> = LazyLock::new(|| update_task(changes));

pub(super) static MOVE_TASK: LazyLock<String> = LazyLock::new(|| update_task(moves));

fn update_task(changes: impl Fn(&str) -> bool) -> String {
    let changes: Vec<String> = TASK_COLUMNS
        .split(", ")
        .enumerate()
        .filter(|(_, column)| changes(column))
        .map(|(index, column)| format!("{column} = ?{}", index + 1))
        .collect();
    format!("UPDATE task SET {} WHERE number = ?1", changes.join(", "))
}

pub(super) static INSERT_TASK: LazyLock<String> = LazyLock::new(|| insert_task_into("task"));

pub(super) fn insert_task_into(table: &str) -> String {
    insert_into(table, TASK_COLUMNS)
}

fn insert_into(table: &str, columns: &str) -> String {
    let marks = vec!["?"; columns.split(", ").count()].join(", ");
    format!("INSERT INTO {table} ({columns}) VALUES ({marks})")
}

/// Hands the values to `run` as parameters in the order of the columns: SQLite looks names up one by one.
fn in_order<R>(
    columns: &str,
    named: &[(&str, &dyn rusqlite::ToSql)],
    run: impl FnOnce(&[&dyn rusqlite::ToSql]) -> R,
) -> R {
    debug_assert!(columns.split(", ").eq(named.iter().map(|(name, _)| *name)), "{columns}");
    run(&named.iter().map(|(_, value)| *value).collect::<Vec<_>>())
}

/// Hands a task's columns to `run`. (They borrow from values made here.)
pub(super) fn with_task<R>(task: &Task, run: impl FnOnce(&[&dyn rusqlite::ToSql]) -> R) -> R {
    let uid = task.uid.to_string();
    let reversed: String = uid.chars().rev().collect();
    let facts = &task.facts;
    let kept = task.kept.as_ref();
    let named = named_params! {
        "number": to_sql(task.number.0),
        "uid": uid,
        "uid_reversed": reversed,
        "version": to_sql(task.version.0),
        "head": task.head,
        "state": task.state.as_str(),
        "type": facts.kind.as_str(),
        "priority": facts.priority.as_str(),
        "required_tier": facts.required_tier.0,
        "area": facts.area,
        "iteration": facts.iteration,
        "owner": facts.owner.as_ref().map(|owner| owner.as_str()),
        "tags": serde_json::to_string(&facts.tags).unwrap_or_default(),
        "refs": serde_json::to_string(&facts.refs).unwrap_or_default(),
        "title_version": to_sql(task.title_version.0),
        "body_version": task.body_version.map(|version| to_sql(version.0)),
        "origin": task.origin.as_ref().map(|origin| origin.as_str()),
        "created_at_ms": task.created_at_ms,
        "created_by": task.created_by.as_str(),
        "updated_at_ms": task.updated_at_ms,
        "token": to_sql(task.token.0),
        "leased": task.leased,
        "opened_token": to_sql(task.opened_token.0),
        "kept_actor": kept.map(|kept| kept.actor.as_str()),
        "kept_wall_ms": kept.map(|kept| kept.until.wall_ms),
        "kept_tick_ms": kept.map(|kept| kept.until.tick_ms),
        "kept_domain": kept.map(|kept| kept.until.domain.as_str()),
        "kept_version": kept.map(|kept| to_sql(kept.version.0)),
        "submitter": task.submitter.as_ref().map(|actor| actor.as_str()),
        "parent": facts.parent.map(|uid| uid.to_string()),
        "relates": serde_json::to_string(&facts.relates).unwrap_or_default(),
        "not_before_ms": facts.not_before_ms,
        "max_attempts": facts.max_attempts.map(to_sql),
        "scope": serde_json::to_string(&facts.scope).unwrap_or_default(),
        "mode": facts.mode.as_str(),
        "ad_hoc": facts.ad_hoc,
        "attempts": to_sql(task.attempts),
        "fenced_token": to_sql(task.fenced_token.0),
        "met": task.is_met(),
        "finished": task.state.is_finished(),
        "unmet": to_sql(task.counts.unmet),
        "open_children": to_sql(task.counts.open_children),
        "open_dependents": to_sql(task.counts.open_dependents),
    };
    in_order(TASK_COLUMNS, named, run)
}

/// The cells of a row, in the order of its list of columns: looking each up by its name would cost more than reading.
struct Cells<'a, 'b> {
    row: &'a Row<'b>,
    next: usize,
}

impl Cells<'_, '_> {
    fn get<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    fn skip(&mut self) {
        self.next += 1;
    }

    fn unsigned(&mut self) -> rusqlite::Result<u64> {
        u64::try_from(self.get::<i64>()?).map_err(unreadable)
    }

    fn optional_unsigned(&mut self) -> rusqlite::Result<Option<u64>> {
        self.get::<Option<i64>>()?.map(|value| u64::try_from(value).map_err(unreadable)).transpose()
    }

    fn parsed<T: FromStr<Err: Error + Send + Sync + 'static>>(&mut self) -> rusqlite::Result<T> {
        parsed(self.get_str()?)
    }

    fn get_str(&mut self) -> rusqlite::Result<&str> {
        self.next += 1;
        self.row.get_ref(self.next - 1)?.as_str().map_err(unreadable)
    }

    fn optional<T: FromStr<Err: Error + Send + Sync + 'static>>(&mut self) -> rusqlite::Result<Option<T>> {
        self.get::<Option<String>>()?.map(|text| parsed(&text)).transpose()
    }

    fn json<T: DeserializeOwned>(&mut self) -> rusqlite::Result<T> {
        serde_json::from_str(self.get_str()?).map_err(unreadable)
    }

    /// What is not JSON is kept as a string.
    fn loose_json(&mut self) -> rusqlite::Result<serde_json::Value> {
        let text: String = self.get()?;
        Ok(serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text)))
    }

    /// Three cells: wall, tick and domain; None if the first is.
    fn optional_moment(&mut self) -> rusqlite::Result<Option<Moment>> {
        let Some(wall_ms) = self.get::<Option<i64>>()? else {
            self.next += 2;
            return Ok(None);
        };
        Ok(Some(Moment { wall_ms, tick_ms: self.get()?, domain: ClockDomain::from_stored(self.get()?) }))
    }

    fn moment(&mut self) -> rusqlite::Result<Moment> {
        Ok(Moment {
            wall_ms: self.get()?,
            tick_ms: self.get()?,
            domain: ClockDomain::from_stored(self.get()?),
        })
    }
}

pub(super) fn task(row: &Row<'_>) -> rusqlite::Result<Task> {
    let mut cells = Cells { row, next: 0 };
    let number = Number(cells.unsigned()?);
    let uid = cells.parsed()?;
    cells.skip();
    let mut task = Task {
        number,
        uid,
        version: Version(cells.unsigned()?),
        head: cells.get()?,
        state: cells.parsed()?,
        facts: Facts {
            kind: cells.parsed()?,
            priority: cells.parsed()?,
            required_tier: Tier(cells.get()?),
            area: cells.get()?,
            iteration: cells.get()?,
            owner: cells.optional()?,
            tags: cells.json()?,
            refs: cells.json()?,
            ..Facts::default()
        },
        title_version: Version(cells.unsigned()?),
        body_version: cells.optional_unsigned()?.map(Version),
        origin: cells.optional()?,
        created_at_ms: cells.get()?,
        created_by: cells.parsed()?,
        updated_at_ms: cells.get()?,
        token: Token(cells.unsigned()?),
        leased: cells.get()?,
        opened_token: Token(cells.unsigned()?),
        kept: match (cells.optional()?, cells.optional_moment()?, cells.optional_unsigned()?) {
            (Some(actor), Some(until), Some(version)) => {
                Some(Kept { actor, until, version: Version(version) })
            }
            _ => None,
        },
        submitter: cells.optional()?,
        attempts: 0,
        fenced_token: Token(0),
        counts: Counts::default(),
    };
    task.facts.parent = cells.optional()?;
    task.facts.relates = cells.json()?;
    task.facts.not_before_ms = cells.get()?;
    task.facts.max_attempts = cells.optional_unsigned()?;
    task.facts.scope = cells.json()?;
    task.facts.mode = cells.parsed()?;
    task.facts.ad_hoc = cells.get()?;
    task.attempts = cells.unsigned()?;
    task.fenced_token = Token(cells.unsigned()?);
    cells.skip();
    cells.skip();
    task.counts = Counts {
        unmet: cells.unsigned()?,
        open_children: cells.unsigned()?,
        open_dependents: cells.unsigned()?,
    };
    Ok(task)
}

pub(super) static INSERT_LEASE: LazyLock<String> = LazyLock::new(|| insert_lease_into("lease"));

pub(super) fn insert_lease_into(table: &str) -> String {
    insert_into(table, LEASE_COLUMNS)
}

pub(super) fn with_lease<R>(lease: &Lease, run: impl FnOnce(&[&dyn rusqlite::ToSql]) -> R) -> R {
    let (grant, pulse, ended) = (&lease.grant, &lease.pulse, lease.ended.as_ref());
    let deadline = pulse.deadline.as_ref();
    let named = named_params! {
        "task": lease.task.to_string(),
        "token": to_sql(lease.token.0),
        "actor": lease.actor.as_str(),
        "instance": lease.instance.as_str(),
        "tier": grant.tier.0,
        "acquired_at_ms": lease.acquired_at_ms,
        "tick_ms": grant.tick_ms,
        "domain": grant.domain.as_str(),
        "ttl_ms": grant.ttl_ms,
        "max_hold_ms": grant.max_hold_ms,
        "process": grant.process.as_ref().and_then(|process| serde_json::to_string(process).ok()),
        "worktree": grant.worktree,
        "branch": grant.branch,
        "mode": grant.mode.as_str(),
        "reserve": grant.reserve,
        "handoff_version": grant.handoff_version.map(|version| to_sql(version.0)),
        "version": to_sql(lease.version.0),
        "active_wall_ms": lease.active_from.wall_ms,
        "active_tick_ms": lease.active_from.tick_ms,
        "active_domain": lease.active_from.domain.as_str(),
        "active_before_s": lease.active_before_s,
        "last_wall_ms": pulse.last.wall_ms,
        "last_tick_ms": pulse.last.tick_ms,
        "last_domain": pulse.last.domain.as_str(),
        "progress_wall_ms": pulse.progress.wall_ms,
        "progress_tick_ms": pulse.progress.tick_ms,
        "progress_domain": pulse.progress.domain.as_str(),
        "renewals": to_sql(pulse.renewals),
        "deadline_wall_ms": deadline.map(|deadline| deadline.wall_ms),
        "deadline_tick_ms": deadline.map(|deadline| deadline.tick_ms),
        "deadline_domain": deadline.map(|deadline| deadline.domain.as_str()),
        "resting": pulse.resting,
        "ended_how": ended.map(|ended| ended.how.as_str()),
        "ended_at_ms": ended.map(|ended| ended.at_ms),
        "ended_version": ended.map(|ended| to_sql(ended.version.0)),
        "ended_active_s": ended.map(|ended| ended.end.active_s),
    };
    in_order(LEASE_COLUMNS, named, run)
}

pub(super) fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let mut cells = Cells { row, next: 0 };
    let (task, token) = (cells.parsed()?, Token(cells.unsigned()?));
    let (actor, instance) = (cells.parsed()?, cells.parsed()?);
    let tier = Tier(cells.get()?);
    let acquired_at_ms = cells.get()?;
    let grant = Grant {
        tier,
        tick_ms: cells.get()?,
        domain: ClockDomain::from_stored(cells.get()?),
        ttl_ms: cells.get()?,
        max_hold_ms: cells.get()?,
        process: match cells.get::<Option<String>>()? {
            Some(text) => Some(serde_json::from_str(&text).map_err(unreadable)?),
            None => None,
        },
        worktree: cells.get()?,
        branch: cells.get()?,
        mode: cells.parsed()?,
        reserve: cells.get()?,
        handoff_version: cells.optional_unsigned()?.map(Version),
    };
    let version = Version(cells.unsigned()?);
    let (active_from, active_before_s) = (cells.moment()?, cells.get()?);
    let pulse = Pulse {
        last: cells.moment()?,
        progress: cells.moment()?,
        renewals: cells.unsigned()?,
        deadline: cells.optional_moment()?,
        resting: cells.get()?,
    };
    let ended = match cells.optional()? {
        Some(how) => Some(Ended {
            how,
            at_ms: cells.get()?,
            version: Version(cells.unsigned()?),
            end: LeaseEnd {
                renewals: pulse.renewals,
                last_sign_ms: pulse.last.wall_ms,
                active_s: cells.get()?,
            },
        }),
        None => None,
    };
    Ok(Lease {
        task,
        token,
        actor,
        instance,
        grant,
        acquired_at_ms,
        version,
        active_from,
        active_before_s,
        pulse,
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

/// An event as it is stored, readable or not: its hash will tell.
pub(super) fn record(row: &Row<'_>, project: &str) -> rusqlite::Result<Record> {
    let mut cells = Cells { row, next: 0 };
    Ok(Record {
        seq: cells.unsigned()?,
        uid: cells.get()?,
        task: Some(cells.get::<String>()?).filter(|stream| stream != project),
        version: cells.unsigned()?,
        kind: cells.get()?,
        actor: cells.get()?,
        instance: cells.get()?,
        token: cells.optional_unsigned()?,
        at: rfc3339(cells.get()?),
        cause: cells.get()?,
        payload: cells.loose_json()?,
        prev: cells.get()?,
        hash: cells.get()?,
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

pub(super) fn salt(row: &Row<'_>, column: &str) -> rusqlite::Result<Salt> {
    let bytes: Vec<u8> = row.get(column)?;
    Salt::try_from(bytes.as_slice()).map_err(unreadable)
}

/// SQLite's integers are signed; ours that count things never reach the sign.
pub(crate) fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(unreadable)
}

pub(super) fn optional_unsigned(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    row.get::<_, Option<i64>>(column)?.map(|value| u64::try_from(value).map_err(unreadable)).transpose()
}

pub(super) fn text<T: FromStr<Err: Error + Send + Sync + 'static>>(
    row: &Row<'_>,
    column: &str,
) -> rusqlite::Result<T> {
    parsed(&row.get::<_, String>(column)?)
}

pub(super) fn optional<T: FromStr<Err: Error + Send + Sync + 'static>>(
    row: &Row<'_>,
    column: &str,
) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<String>>(column)?.map(|text| parsed(&text)).transpose()
}

pub(super) fn parsed<T: FromStr<Err: Error + Send + Sync + 'static>>(text: &str) -> rusqlite::Result<T> {
    text.parse().map_err(unreadable)
}

fn unreadable(error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}
