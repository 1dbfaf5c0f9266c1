//! Between rows and domain types.

use std::str::FromStr;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

use onus_core::actor::{Actor, Tier};
use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::ids::{Number, Token, Version};
use onus_core::lease::{Ended, Grant, Lease, LeaseEnd, Process, Pulse};
use onus_core::seal::StreamHead;
use onus_core::task::{Counts, Facts, Kept, Task};
use onus_core::text::{Salt, TextKey};
use onus_core::time::{ClockDomain, Moment, rfc3339};

pub(super) use crate::columns::{EVENT_COLUMNS, LEASE_COLUMNS, TASK_COLUMNS};
use crate::columns::{changes, moves};
pub(super) use crate::sqlite::rows::to_sql;
use crate::{CallerRows, KeptRequest, KnownInstance, StoredText, Wanted};

use super::Broken;
use super::connection::Value;

type Result<T> = std::result::Result<T, Broken>;

/// Which columns of a task a statement takes: all, or the uid first and then what changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    All,
    Changes,
    Moves,
}

impl Columns {
    fn have(self, column: &str) -> bool {
        match self {
            Columns::All => true,
            Columns::Changes => changes(column),
            Columns::Moves => moves(column),
        }
    }
}

pub(super) static UPDATE_TASK: LazyLock<String> = LazyLock::new(|| update_task(Columns::Changes));
pub(super) static MOVE_TASK: LazyLock<String> = LazyLock::new(|| update_task(Columns::Moves));

/// `$1` is the project, `$2` the uid.
fn update_task(columns: Columns) -> String {
    let changes: Vec<String> = TASK_COLUMNS
        .split(", ")
        .filter(|column| columns.have(column))
        .zip(3..)
        .map(|(column, index)| format!("{column} = ${index}"))
        .collect();
    format!("UPDATE task SET {} WHERE project = $1 AND uid = $2", changes.join(", "))
}

pub(super) static INSERT_TASK: LazyLock<String> = LazyLock::new(|| insert_into("task", TASK_COLUMNS));
pub(super) static INSERT_LEASE: LazyLock<String> = LazyLock::new(|| insert_into("lease", LEASE_COLUMNS));

fn insert_into(table: &str, columns: &str) -> String {
    let marks: Vec<String> =
        (2..).take(columns.split(", ").count()).map(|index| format!("${index}")).collect();
    format!("INSERT INTO {table} (project, {columns}) VALUES ($1, {})", marks.join(", "))
}

/// Hands these columns of a task to `run`.
pub(super) fn with_task<R>(task: &Task, columns: Columns, run: impl FnOnce(&[Value<'_>]) -> R) -> R {
    let uid = task.uid.to_string();
    let reversed: String = uid.chars().rev().collect();
    let (facts, kept) = (&task.facts, task.kept.as_ref());
    let json = |text: serde_json::Result<String>| text.unwrap_or_default();
    let owned: [(&str, Box<dyn tokio_postgres::types::ToSql + Sync + '_>); 43] = [
        ("number", Box::new(to_sql(task.number.0))),
        ("uid", Box::new(uid.clone())),
        ("uid_reversed", Box::new(reversed)),
        ("version", Box::new(to_sql(task.version.0))),
        ("head", Box::new(&task.head)),
        ("state", Box::new(task.state.as_str())),
        ("type", Box::new(facts.kind.as_str())),
        ("priority", Box::new(facts.priority.as_str())),
        ("required_tier", Box::new(i64::from(facts.required_tier.0))),
        ("area", Box::new(&facts.area)),
        ("iteration", Box::new(&facts.iteration)),
        ("owner", Box::new(facts.owner.as_ref().map(|owner| owner.as_str()))),
        ("tags", Box::new(json(serde_json::to_string(&facts.tags)))),
        ("refs", Box::new(json(serde_json::to_string(&facts.refs)))),
        ("title_version", Box::new(to_sql(task.title_version.0))),
        ("body_version", Box::new(task.body_version.map(|version| to_sql(version.0)))),
        ("origin", Box::new(task.origin.as_ref().map(|origin| origin.as_str()))),
        ("created_at_ms", Box::new(task.created_at_ms)),
        ("created_by", Box::new(task.created_by.as_str())),
        ("updated_at_ms", Box::new(task.updated_at_ms)),
        ("token", Box::new(to_sql(task.token.0))),
        ("leased", Box::new(task.leased)),
        ("opened_token", Box::new(to_sql(task.opened_token.0))),
        ("kept_actor", Box::new(kept.map(|kept| kept.actor.as_str()))),
        ("kept_wall_ms", Box::new(kept.map(|kept| kept.until.wall_ms))),
        ("kept_tick_ms", Box::new(kept.map(|kept| kept.until.tick_ms))),
        ("kept_domain", Box::new(kept.map(|kept| kept.until.domain.as_str()))),
        ("kept_version", Box::new(kept.map(|kept| to_sql(kept.version.0)))),
        ("submitter", Box::new(task.submitter.as_ref().map(|actor| actor.as_str()))),
        ("parent", Box::new(facts.parent.map(|uid| uid.to_string()))),
        ("relates", Box::new(json(serde_json::to_string(&facts.relates)))),
        ("not_before_ms", Box::new(facts.not_before_ms)),
        ("max_attempts", Box::new(facts.max_attempts.map(to_sql))),
        ("scope", Box::new(json(serde_json::to_string(&facts.scope)))),
        ("mode", Box::new(facts.mode.as_str())),
        ("ad_hoc", Box::new(facts.ad_hoc)),
        ("attempts", Box::new(to_sql(task.attempts))),
        ("fenced_token", Box::new(to_sql(task.fenced_token.0))),
        ("met", Box::new(task.is_met())),
        ("finished", Box::new(task.state.is_finished())),
        ("unmet", Box::new(to_sql(task.counts.unmet))),
        ("open_children", Box::new(to_sql(task.counts.open_children))),
        ("open_dependents", Box::new(to_sql(task.counts.open_dependents))),
    ];
    debug_assert!(TASK_COLUMNS.split(", ").eq(owned.iter().map(|(name, _)| *name)), "{TASK_COLUMNS}");
    let mut values: Vec<Value<'_>> = if columns == Columns::All { Vec::new() } else { vec![&uid] };
    values
        .extend(owned.iter().filter(|(name, _)| columns.have(name)).map(|(_, value)| &**value as Value<'_>));
    run(&values)
}

pub(super) fn with_lease<R>(lease: &Lease, run: impl FnOnce(&[Value<'_>]) -> R) -> R {
    let (grant, pulse, ended) = (&lease.grant, &lease.pulse, lease.ended.as_ref());
    let deadline = pulse.deadline.as_ref();
    let named: [(&str, Box<dyn tokio_postgres::types::ToSql + Sync + '_>); 36] = [
        ("task", Box::new(lease.task.to_string())),
        ("token", Box::new(to_sql(lease.token.0))),
        ("actor", Box::new(lease.actor.as_str())),
        ("instance", Box::new(lease.instance.as_str())),
        ("tier", Box::new(i64::from(grant.tier.0))),
        ("acquired_at_ms", Box::new(lease.acquired_at_ms)),
        ("tick_ms", Box::new(grant.tick_ms)),
        ("domain", Box::new(grant.domain.as_str())),
        ("ttl_ms", Box::new(grant.ttl_ms)),
        ("max_hold_ms", Box::new(grant.max_hold_ms)),
        ("process", Box::new(grant.process.as_ref().and_then(|process| serde_json::to_string(process).ok()))),
        ("worktree", Box::new(&grant.worktree)),
        ("branch", Box::new(&grant.branch)),
        ("mode", Box::new(grant.mode.as_str())),
        ("reserve", Box::new(grant.reserve)),
        ("handoff_version", Box::new(grant.handoff_version.map(|version| to_sql(version.0)))),
        ("version", Box::new(to_sql(lease.version.0))),
        ("active_wall_ms", Box::new(lease.active_from.wall_ms)),
        ("active_tick_ms", Box::new(lease.active_from.tick_ms)),
        ("active_domain", Box::new(lease.active_from.domain.as_str())),
        ("active_before_s", Box::new(lease.active_before_s)),
        ("last_wall_ms", Box::new(pulse.last.wall_ms)),
        ("last_tick_ms", Box::new(pulse.last.tick_ms)),
        ("last_domain", Box::new(pulse.last.domain.as_str())),
        ("progress_wall_ms", Box::new(pulse.progress.wall_ms)),
        ("progress_tick_ms", Box::new(pulse.progress.tick_ms)),
        ("progress_domain", Box::new(pulse.progress.domain.as_str())),
        ("renewals", Box::new(to_sql(pulse.renewals))),
        ("deadline_wall_ms", Box::new(deadline.map(|deadline| deadline.wall_ms))),
        ("deadline_tick_ms", Box::new(deadline.map(|deadline| deadline.tick_ms))),
        ("deadline_domain", Box::new(deadline.map(|deadline| deadline.domain.as_str()))),
        ("resting", Box::new(pulse.resting)),
        ("ended_how", Box::new(ended.map(|ended| ended.how.as_str()))),
        ("ended_at_ms", Box::new(ended.map(|ended| ended.at_ms))),
        ("ended_version", Box::new(ended.map(|ended| to_sql(ended.version.0)))),
        ("ended_active_s", Box::new(ended.map(|ended| ended.end.active_s))),
    ];
    debug_assert!(LEASE_COLUMNS.split(", ").eq(named.iter().map(|(name, _)| *name)), "{LEASE_COLUMNS}");
    run(&named.iter().map(|(_, value)| &**value as Value<'_>).collect::<Vec<_>>())
}

/// The cells of a row, in the order of its list of columns.
pub(super) struct Cells<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Cells<'a> {
    pub(super) fn of(row: &'a Row) -> Cells<'a> {
        Cells { row, next: 0 }
    }

    fn get<T: FromSqlOwned>(&mut self) -> Result<T> {
        self.next += 1;
        Ok(self.row.try_get(self.next - 1)?)
    }

    fn text(&mut self) -> Result<&'a str> {
        self.next += 1;
        Ok(self.row.try_get(self.next - 1)?)
    }

    fn skip(&mut self) {
        self.next += 1;
    }

    fn unsigned(&mut self) -> Result<u64> {
        unsigned(self.get()?)
    }

    fn optional_unsigned(&mut self) -> Result<Option<u64>> {
        self.get::<Option<i64>>()?.map(unsigned).transpose()
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<T> {
        parsed(self.text()?)
    }

    fn optional<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<Option<T>> {
        self.get::<Option<String>>()?.map(|text| parsed(&text)).transpose()
    }

    fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_str(self.text()?).map_err(|error| Broken::Value(error.to_string()))
    }

    fn tier(&mut self) -> Result<Tier> {
        tier(self.get()?)
    }

    fn moment(&mut self) -> Result<Moment> {
        Ok(Moment {
            wall_ms: self.get()?,
            tick_ms: self.get()?,
            domain: ClockDomain::from_stored(self.get()?),
        })
    }

    fn optional_moment(&mut self) -> Result<Option<Moment>> {
        let Some(wall_ms) = self.get::<Option<i64>>()? else {
            self.next += 2;
            return Ok(None);
        };
        Ok(Some(Moment { wall_ms, tick_ms: self.get()?, domain: ClockDomain::from_stored(self.get()?) }))
    }
}

pub(super) fn task(row: &Row) -> Result<Task> {
    let mut cells = Cells::of(row);
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
            required_tier: cells.tier()?,
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

pub(super) fn lease(row: &Row) -> Result<Lease> {
    let mut cells = Cells::of(row);
    let (task, token) = (cells.parsed()?, Token(cells.unsigned()?));
    let (actor, instance, tier, acquired_at_ms) =
        (cells.parsed()?, cells.parsed()?, cells.tier()?, cells.get()?);
    let grant = Grant {
        tier,
        tick_ms: cells.get()?,
        domain: ClockDomain::from_stored(cells.get()?),
        ttl_ms: cells.get()?,
        max_hold_ms: cells.get()?,
        process: match cells.get::<Option<String>>()? {
            Some(text) => {
                Some(serde_json::from_str(&text).map_err(|error| Broken::Value(error.to_string()))?)
            }
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

pub(super) fn project(row: &Row) -> Result<Project> {
    let mut cells = Cells::of(row);
    Ok(Project {
        uid: cells.parsed()?,
        prefix: cells.parsed()?,
        created_at_ms: cells.get()?,
        version: Version(cells.unsigned()?),
        head: cells.get()?,
    })
}

/// An event as it is stored, readable or not: its hash will tell.
pub(super) fn record(row: &Row, project: &str) -> Result<Record> {
    let mut cells = Cells::of(row);
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
        payload: {
            let text: String = cells.get()?;
            serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
        },
        prev: cells.get()?,
        hash: cells.get()?,
    })
}

pub(super) fn stored_text(row: &Row) -> Result<StoredText> {
    let mut cells = Cells::of(row);
    Ok(StoredText {
        key: TextKey { stream: cells.parsed()?, version: Version(cells.unsigned()?), field: cells.parsed()? },
        salt: salt(cells.get()?)?,
        text: cells.get()?,
    })
}

pub(super) const INSTANCE_COLUMNS: &str = "actor, instance, machine, boot, pid_ns, time_ns, pid, start, seen_at_ms, \
    pgid, wants_task, wants_path, wants_at_ms";

pub(super) fn known_instance(row: &Row) -> Result<KnownInstance> {
    instance(&mut Cells::of(row))
}

fn instance(cells: &mut Cells<'_>) -> Result<KnownInstance> {
    let (actor, instance) = (cells.parsed()?, cells.parsed()?);
    let [machine, boot, pid_ns, time_ns]: [Option<String>; 4] =
        [cells.get()?, cells.get()?, cells.get()?, cells.get()?];
    let (pid, start) = (cells.get::<Option<i64>>()?, cells.optional_unsigned()?);
    let process = match (machine, boot, pid_ns, time_ns, pid, start) {
        (Some(machine), Some(boot), Some(pid_ns), Some(time_ns), Some(pid), Some(start)) => {
            Some(Process { machine, boot, pid_ns, time_ns, pid: small(pid)?, start })
        }
        _ => None,
    };
    let seen_at_ms = cells.get()?;
    let group = cells.get::<Option<i64>>()?.map(small).transpose()?;
    let (task, path, at_ms) =
        (cells.optional()?, cells.get::<Option<String>>()?, cells.get::<Option<i64>>()?);
    let wants = match (task, path, at_ms) {
        (Some(task), Some(path), Some(at_ms)) => Some(Wanted { task, path, at_ms }),
        _ => None,
    };
    Ok(KnownInstance { actor, instance, process, group, seen_at_ms, wants })
}

pub(super) fn kept_request(row: &Row) -> Result<KeptRequest> {
    let mut cells = Cells::of(row);
    Ok(KeptRequest {
        digest: cells.get()?,
        salt: salt(cells.get()?)?,
        verb: cells.get()?,
        task: cells.optional()?,
        token: cells.optional_unsigned()?.map(Token),
        at_ms: cells.get()?,
    })
}

/// The project, the name that the caller has, and what is known of that.
pub(super) fn caller(row: &Row) -> Result<CallerRows> {
    const INSTANCE: usize = 9;
    let mut cells = Cells { row, next: 5 };
    let (name, known) = (cells.parsed()?, cells.optional()?);
    let actor = match known {
        Some(name) => Some(Actor { name, tier: cells.tier()?, registered_at_ms: cells.get()? }),
        None => None,
    };
    let is_known = row.try_get::<_, Option<&str>>(INSTANCE)?.is_some();
    let instance = is_known.then(|| instance(&mut Cells { row, next: INSTANCE })).transpose()?;
    Ok(CallerRows { project: project(row)?, name, actor, instance })
}

pub(super) fn number(row: &Row) -> Result<Number> {
    Ok(Number(unsigned(row.try_get(0)?)?))
}

pub(super) fn actor(row: &Row) -> Result<Actor> {
    let mut cells = Cells::of(row);
    Ok(Actor { name: cells.parsed()?, tier: cells.tier()?, registered_at_ms: cells.get()? })
}

pub(super) fn stream_head(row: &Row) -> Result<StreamHead> {
    let mut cells = Cells::of(row);
    Ok(StreamHead { uid: cells.get()?, version: cells.unsigned()?, hash: cells.get()? })
}

fn tier(number: i64) -> Result<Tier> {
    u8::try_from(number).map(Tier).map_err(|error| Broken::Value(error.to_string()))
}

fn small(number: i64) -> Result<u32> {
    u32::try_from(number).map_err(|error| Broken::Value(error.to_string()))
}

pub(super) fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|error| Broken::Value(error.to_string()))
}

fn salt(bytes: Vec<u8>) -> Result<Salt> {
    Salt::try_from(bytes.as_slice()).map_err(|error| Broken::Value(error.to_string()))
}

pub(super) fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error: T::Err| Broken::Value(error.to_string()))
}
