//! What can be asked of a snapshot.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use tokio_postgres::Row;

use onus_core::actor::{Actor, ActorName, InstanceId, Tier};
use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::ids::{Number, TaskRef, Token, Uid, Version};
use onus_core::lease::{Lease, Process};
use onus_core::scope::{Glob, Scope};
use onus_core::seal::StreamHead;
use onus_core::task::{Origin, Priority, State, Task};
use onus_core::text::TextKey;
use onus_core::time::Moment;

use crate::sqlite::graph::rank;
use crate::{
    After, CallerRows, Direction, EventQuery, Filter, KeptRequest, KnownInstance, LedgerLine, LooseText,
    Read, Result, StoreError, StoredText,
};

use super::Broken;
use super::connection::Value;
use super::graph::NEEDS;
use super::rows::{
    self, EVENT_COLUMNS, INSTANCE_COLUMNS, LEASE_COLUMNS, TASK_COLUMNS, parsed, to_sql, unsigned,
};
use super::session::{Session, key_of};

/// How many tasks an ambiguous reference may list.
const CANDIDATES: i64 = 10;

/// How many heads are read at a time.
const HEADS: i64 = 5_000;

/// The smallest text that no text beginning with `start` reaches.
fn beyond(start: &str) -> String {
    format!("{start}\u{7f}")
}

const TEXT_COLUMNS: &str = "stream, version, field, salt, body";

/// What a task's picture needs beside its row: texts of some versions, and the numbers of what it depends on.
static PICTURE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {TEXT_COLUMNS}, NULL::bigint AS number FROM text \
         WHERE project = $1 AND stream = $2 AND version = ANY($3) \
         UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, number FROM ({NEEDS}) AS needs"
    )
});

struct Picture {
    uid: String,
    versions: Vec<i64>,
}

impl Picture {
    fn of(task: &Task, lease: Option<&Lease>) -> Picture {
        let versions: BTreeSet<Version> = [Some(task.title_version), task.body_version]
            .into_iter()
            .chain([task.kept.as_ref().map(|kept| kept.version), lease.map(|lease| lease.version)])
            .chain([lease.and_then(|lease| lease.grant.handoff_version)])
            .flatten()
            .collect();
        Picture {
            uid: task.uid.to_string(),
            versions: versions.into_iter().map(|version| to_sql(version.0)).collect(),
        }
    }
}

impl Session<'_> {
    fn learn_picture(&mut self, task: Uid, picture: &Picture, rows: &[Row]) -> Result<()> {
        let (mut texts, mut needs) = (Vec::new(), Vec::new());
        for row in rows {
            let mut read = || {
                match row.try_get::<_, Option<i64>>("number")? {
                    Some(number) => needs.push(Number(unsigned(number)?)),
                    None => texts.push(rows::stored_text(row)?),
                }
                Ok(())
            };
            read().map_err(Broken::into_error)?;
        }
        needs.sort_unstable();
        let versions: Vec<Version> =
            picture.versions.iter().filter_map(|version| u64::try_from(*version).ok()).map(Version).collect();
        self.known.fetched(task, &versions, texts, needs);
        Ok(())
    }
}

impl Read for Session<'_> {
    fn now(&mut self) -> Moment {
        self.clock_now()
    }

    fn project(&mut self) -> Result<Project> {
        self.one(
            "SELECT uid, prefix, created_at_ms, version, head FROM project WHERE project = $1",
            &[],
            rows::project,
        )?
        .ok_or_else(|| StoreError::Damaged("it has no project".to_owned()))
    }

    fn caller(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<CallerRows> {
        let instance_columns: Vec<String> =
            INSTANCE_COLUMNS.split(", ").map(|column| format!("instance.{column}")).collect();
        let sql = format!(
            "SELECT project.uid, prefix, created_at_ms, project.version, project.head, named.name, \
             actor.name, tier, registered_at_ms, {} FROM project \
             CROSS JOIN (SELECT COALESCE((SELECT alias.actor FROM alias WHERE alias.project = $1 AND alias = $2), $2) \
                 COLLATE \"C\" AS name) AS named \
             LEFT JOIN actor ON actor.project = $1 AND actor.name = named.name \
             LEFT JOIN instance ON instance.project = $1 AND instance.actor = named.name AND instance.instance = $3 \
             WHERE project.project = $1",
            instance_columns.join(", ")
        );
        self.one(&sql, &[&actor.as_str(), &instance.as_str()], rows::caller)?
            .ok_or_else(|| StoreError::Damaged("it has no project".to_owned()))
    }

    fn ahead(&mut self, task: &Task, lease: Option<&Lease>) -> Result<()> {
        if self.known.needs(task.uid).is_some() {
            return Ok(());
        }
        let picture = Picture::of(task, lease);
        let rows = self.rows(&PICTURE, &[&picture.uid, &picture.versions])?;
        self.learn_picture(task.uid, &picture, &rows)
    }

    fn resolve(&mut self, reference: &TaskRef) -> Result<Vec<Uid>> {
        match reference {
            TaskRef::Number(number) => {
                self.uids("SELECT uid FROM task WHERE project = $1 AND number = $2", &[&to_sql(number.0)])
            }
            TaskRef::Id { prefix, number } => self.uids(
                "SELECT uid FROM task WHERE project = $1 AND number = $2 \
                 AND EXISTS (SELECT 1 FROM project WHERE project.project = $1 AND prefix = $3)",
                &[&to_sql(number.0), &prefix.as_str()],
            ),
            TaskRef::Part(part) => {
                let start = TaskRef::hyphenated_start(part);
                let end = TaskRef::hyphenated_end_reversed(part);
                self.uids(
                    "(SELECT uid FROM task WHERE project = $1 AND uid >= $2 AND uid < $3 LIMIT $6) UNION \
                     (SELECT uid FROM task WHERE project = $1 AND uid_reversed >= $4 AND uid_reversed < $5 LIMIT $6) \
                     LIMIT $6",
                    &[&start, &beyond(&start), &end, &beyond(&end), &CANDIDATES],
                )
            }
        }
    }

    fn task(&mut self, uid: Uid) -> Result<Option<Task>> {
        if let Some(task) = self.known.tasks.get(&uid) {
            return Ok(Some(task.clone()));
        }
        self.one(
            &format!("SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND uid = $2"),
            &[&uid.to_string()],
            rows::task,
        )
    }

    fn task_by_origin(&mut self, origin: &Origin) -> Result<Option<Uid>> {
        Ok(self.uids("SELECT uid FROM task WHERE project = $1 AND origin = $2", &[&origin.as_str()])?.pop())
    }

    fn lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>> {
        if let Some(lease) = self.known.lease(task, token) {
            return Ok(Some(lease.clone()));
        }
        self.one(
            &format!("SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 AND task = $2 AND token = $3"),
            &[&task.to_string(), &to_sql(token.0)],
            rows::lease,
        )
    }

    fn latest_lease_of(
        &mut self,
        task: Uid,
        actor: &ActorName,
        instance: &InstanceId,
    ) -> Result<Option<Lease>> {
        self.one(
            &format!(
                "SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 AND task = $2 AND actor = $3 AND instance = $4 \
                 ORDER BY token DESC LIMIT 1"
            ),
            &[&task.to_string(), &actor.as_str(), &instance.as_str()],
            rows::lease,
        )
    }

    fn leases_held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>> {
        let sql = format!(
            "SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 AND actor = $2 AND instance = $3 \
             AND ended_how IS NULL"
        );
        let asked: &[Value<'_>] = &[&actor.as_str(), &instance.as_str()];
        let shown = self.known.begun().map(|(task, lease)| (task.uid, Picture::of(task, Some(lease))));
        let rows = match shown {
            Some((task, picture)) => {
                let (rows, of_picture) =
                    self.both((&sql, asked), (&PICTURE, &[&picture.uid, &picture.versions]))?;
                self.learn_picture(task, &picture, &of_picture)?;
                rows
            }
            None => self.rows(&sql, asked)?,
        };
        let leases = rows.iter().map(rows::lease).collect::<std::result::Result<Vec<_>, Broken>>();
        let mut leases = leases.map_err(Broken::into_error)?;
        leases.sort_by_key(|lease| (lease.acquired_at_ms, lease.task));
        Ok(leases)
    }

    fn open_leases(&mut self, limit: u64) -> Result<Vec<(Task, Lease)>> {
        let leases = self.all(
            &format!(
                "SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 AND ended_how IS NULL \
                 ORDER BY actor, instance LIMIT $2"
            ),
            &[&to_sql(limit)],
            rows::lease,
        )?;
        let uids: Vec<String> = leases.iter().map(|lease| lease.task.to_string()).collect();
        let tasks: std::collections::BTreeMap<Uid, Task> = self
            .all(
                &format!("SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND uid = ANY($2)"),
                &[&uids],
                rows::task,
            )?
            .into_iter()
            .map(|task| (task.uid, task))
            .collect();
        let mut pairs: Vec<(Task, Lease)> =
            leases.into_iter().filter_map(|lease| Some((tasks.get(&lease.task)?.clone(), lease))).collect();
        pairs.sort_by_key(|(task, _)| rank(task));
        Ok(pairs)
    }

    fn leases_lost_by(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
        since_ms: i64,
    ) -> Result<Vec<Lease>> {
        self.all(
            &format!(
                "SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 AND actor = $2 AND instance = $3 \
                 AND ended_at_ms >= $4 AND ended_how IN ('taken_over', 'revoked', 'reset', 'lapsed') \
                 ORDER BY ended_at_ms LIMIT 20"
            ),
            &[&actor.as_str(), &instance.as_str(), &since_ms],
            rows::lease,
        )
    }

    fn held_above(&mut self, task: Uid, token: Token, actor: &ActorName) -> Result<bool> {
        Ok(self.number(
            "SELECT COUNT(*) FROM lease WHERE project = $1 AND task = $2 AND actor = $3 AND token > $4",
            &[&task.to_string(), &actor.as_str(), &to_sql(token.0)],
        )? > 0)
    }

    fn indefinite_leases(&mut self, actor: &ActorName) -> Result<(u64, u64)> {
        const UNBOUNDED: &str = "FROM lease WHERE project = $1 AND ended_how IS NULL AND ttl_ms IS NULL \
            AND actor NOT LIKE 'human:%'";
        let own = self.number(&format!("SELECT COUNT(*) {UNBOUNDED} AND actor = $2"), &[&actor.as_str()])?;
        Ok((own, self.number(&format!("SELECT COUNT(*) {UNBOUNDED}"), &[])?))
    }

    fn walk_ready(
        &mut self,
        tier: Tier,
        due_ms: i64,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<()> {
        self.merge_ready(tier, due_ms, &mut |session, task| visit(session, task))
    }

    fn next_due(&mut self, after_ms: i64) -> Result<Option<i64>> {
        self.first_due(after_ms)
    }

    fn beside(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>> {
        self.uids_beside(task, direction)
    }

    fn numbers_beside(&mut self, task: Uid, direction: Direction) -> Result<Vec<Number>> {
        if let (Some(numbers), Direction::Upstream) = (self.known.needs(task), direction) {
            return Ok(numbers.clone());
        }
        self.numbers_of(task, direction)
    }

    fn closure(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>> {
        self.closure_of(task, direction)
    }

    fn edges(&mut self, finished: bool) -> Result<Vec<(Uid, Uid)>> {
        self.all_edges(finished)
    }

    fn waits_for(&mut self, task: Uid) -> Result<Vec<Uid>> {
        self.waited_for_by(task)
    }

    fn does_wait_for(&mut self, task: Uid, other: Uid) -> Result<bool> {
        self.is_waited_for(task, other)
    }

    fn scopes_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Glob)>> {
        self.held_near(scope)
    }

    fn scope_of(&mut self, task: Uid, token: Token) -> Result<Scope> {
        self.reserved_by(task, token)
    }

    fn scope_len(&mut self, task: Uid, token: Token) -> Result<usize> {
        self.count_reserved_by(task, token)
    }

    fn unmet(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>> {
        self.unmet_of(task, limit)
    }

    fn unfinished_children(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>> {
        self.unfinished_children_of(task, limit)
    }

    fn list(&mut self, filter: &Filter, after: Option<After>, limit: u64) -> Result<Vec<Task>> {
        let mut conditions = String::new();
        let mut values: Vec<Box<dyn tokio_postgres::types::ToSql + Sync>> = Vec::new();
        let mut narrow = |condition: &str, value: Option<String>| {
            if let Some(value) = value {
                values.push(Box::new(value));
                // Project, priority, number and the limit come first.
                conditions.push_str(&condition.replace('?', &format!("${}", values.len() + 4)));
            }
        };
        narrow(" AND type = ?", filter.kind.map(|kind| kind.to_string()));
        narrow(" AND owner = ?", filter.owner.as_ref().map(ToString::to_string));
        narrow(" AND area = ?", filter.area.clone());
        narrow(" AND iteration = ?", filter.iteration.clone());
        narrow(" AND origin = ?", filter.origin.as_ref().map(|origin| origin.as_str().to_owned()));
        narrow(
            " AND EXISTS (SELECT 1 FROM jsonb_array_elements_text(tags::jsonb) AS tag WHERE tag = ?)",
            filter.tag.clone(),
        );
        narrow(
            " AND leased AND uid IN \
             (SELECT task FROM lease WHERE lease.project = $1 AND ended_how IS NULL AND actor = ?)",
            filter.holder.as_ref().map(ToString::to_string),
        );
        if !filter.states.is_empty() {
            let states: Vec<String> = filter.states.iter().map(|state| state.to_string()).collect();
            values.push(Box::new(states));
            conditions.push_str(&format!(" AND state = ANY(${})", values.len() + 4));
        } else if !filter.finished {
            conditions.push_str(" AND NOT finished");
        }
        let sql = format!(
            "SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND priority = $2 AND number > $3{conditions} \
             ORDER BY number LIMIT $4"
        );
        let mut tasks = Vec::new();
        for priority in
            Priority::ALL.iter().copied().filter(|p| after.is_none_or(|after| *p >= after.priority))
        {
            let left = to_sql(limit - tasks.len() as u64);
            if left == 0 {
                break;
            }
            if filter.priority.is_some_and(|only| only != priority) {
                continue;
            }
            let number =
                after.filter(|after| after.priority == priority).map_or(0, |after| to_sql(after.number.0));
            let name = priority.as_str();
            let mut all: Vec<Value<'_>> = vec![&name, &number, &left];
            all.extend(values.iter().map(|value| &**value as Value<'_>));
            tasks.extend(self.all(&sql, &all, rows::task)?);
        }
        Ok(tasks)
    }

    fn count_by_state(&mut self) -> Result<Vec<(State, u64)>> {
        self.all("SELECT state, COUNT(*) FROM task WHERE project = $1 GROUP BY state", &[], |row| {
            Ok((parsed(row.try_get(0)?)?, unsigned(row.try_get(1)?)?))
        })
    }

    fn search(&mut self, words: &[String], limit: u64) -> Result<Vec<Uid>> {
        self.find(words, limit)
    }

    fn text(&mut self, key: TextKey) -> Result<Option<StoredText>> {
        if let Some(known) = self.known.text(key) {
            return Ok(known);
        }
        self.one(
            &format!("SELECT {TEXT_COLUMNS} FROM text WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4"),
            &[&key.stream.to_string(), &to_sql(key.version.0), &key.field.as_str()],
            rows::stored_text,
        )
    }

    fn texts(&mut self, stream: Uid, version: Version) -> Result<Vec<StoredText>> {
        self.all(
            &format!("SELECT {TEXT_COLUMNS} FROM text WHERE project = $1 AND stream = $2 AND version = $3"),
            &[&stream.to_string(), &to_sql(version.0)],
            rows::stored_text,
        )
    }

    fn events(&mut self, query: &EventQuery) -> Result<Vec<Record>> {
        let (project, after, limit) = (self.stream, to_sql(query.after_seq), to_sql(query.limit));
        let order = if query.newest { "DESC" } else { "ASC" };
        let mut records = match query.stream {
            // A stream's own events are committed in their order: its row is locked by who appends.
            Some(stream) => self.all(
                &format!(
                    "SELECT {EVENT_COLUMNS} FROM event WHERE project = $1 AND stream = $2 AND seq > $3 \
                     AND version > COALESCE((SELECT version FROM event AS last WHERE last.project = $1 \
                     AND last.seq = $3 AND last.stream = $2), 0) ORDER BY version {order} LIMIT $4"
                ),
                &[&stream.to_string(), &after, &limit],
                |row| rows::record(row, project),
            )?,
            None => {
                let end = if query.settled { self.settled()? } else { i64::MAX };
                self.all(
                    &format!(
                        "SELECT {EVENT_COLUMNS} FROM event WHERE project = $1 AND seq > $2 AND seq <= $3 \
                         ORDER BY seq {order} LIMIT $4"
                    ),
                    &[&after, &end, &limit],
                    |row| rows::record(row, project),
                )?
            }
        };
        if query.newest {
            records.reverse();
        }
        Ok(records)
    }

    fn event(&mut self, stream: Uid, version: Version) -> Result<Option<Record>> {
        let project = self.stream;
        self.one(
            &format!("SELECT {EVENT_COLUMNS} FROM event WHERE project = $1 AND stream = $2 AND version = $3"),
            &[&stream.to_string(), &to_sql(version.0)],
            |row| rows::record(row, project),
        )
    }

    fn notes(&mut self, task: Uid) -> Result<Vec<Record>> {
        let project = self.stream;
        self.all(
            &format!(
                "SELECT {EVENT_COLUMNS} FROM event WHERE project = $1 AND stream = $2 \
                 AND payload::jsonb #> '{{texts,note}}' IS NOT NULL ORDER BY version"
            ),
            &[&task.to_string()],
            |row| rows::record(row, project),
        )
    }

    fn count_events(&mut self) -> Result<u64> {
        self.number("SELECT COUNT(*) FROM event WHERE project = $1", &[])
    }

    fn ledger_page(&mut self, after: Option<&(String, u64)>, limit: u64) -> Result<Vec<LedgerLine>> {
        let project = self.stream;
        let (stream, version) =
            after.map_or(("", 0), |(stream, version)| (stream.as_str(), to_sql(*version)));
        let mut lines = self.all(
            &format!(
                "SELECT {EVENT_COLUMNS} FROM event WHERE project = $1 AND (stream, version) > ($2, $3) \
                 ORDER BY stream, version LIMIT $4"
            ),
            &[&stream, &version, &to_sql(limit)],
            |row| {
                let record = rows::record(row, project)?;
                Ok(LedgerLine { stream: row.try_get("stream")?, record, texts: Vec::new() })
            },
        )?;
        let Some(last) = lines.last() else { return Ok(lines) };
        // Every text in this stretch, also one beside an event that names none: nobody may slip one in.
        let texts = self.all(
            &format!(
                "SELECT {TEXT_COLUMNS} FROM text WHERE project = $1 AND (stream, version) > ($2, $3) \
                 AND (stream, version) <= ($4, $5) ORDER BY stream, version, field"
            ),
            &[&stream, &version, &last.stream.clone(), &to_sql(last.record.version)],
            |row| {
                let text = LooseText { field: row.try_get(2)?, salt: row.try_get(3)?, text: row.try_get(4)? };
                Ok((row.try_get::<_, String>(0)?, row.try_get::<_, i64>(1)?, text))
            },
        )?;
        let mut at = 0;
        for (stream, version, text) in texts {
            let place = (&stream, version);
            while lines.get(at).is_some_and(|line| (&line.stream, to_sql(line.record.version)) < place) {
                at += 1;
            }
            // One without an event is not of this stretch: see `stray_text`.
            if let Some(line) =
                lines.get_mut(at).filter(|line| (&line.stream, to_sql(line.record.version)) == place)
            {
                line.texts.push(text);
            }
        }
        Ok(lines)
    }

    fn stray_text(&mut self) -> Result<Option<(String, u64)>> {
        self.one(
            "SELECT stream, version FROM text WHERE project = $1 AND NOT EXISTS (SELECT 1 FROM event \
             WHERE event.project = $1 AND event.stream = text.stream AND event.version = text.version) LIMIT 1",
            &[],
            |row| Ok((row.try_get(0)?, unsigned(row.try_get(1)?)?)),
        )
    }

    fn head(&mut self, stream: &str) -> Result<Option<StreamHead>> {
        let table = if stream == self.stream { "project" } else { "task" };
        self.one(
            &format!("SELECT uid, version, head FROM {table} WHERE project = $1 AND uid = $2"),
            &[&stream],
            rows::stream_head,
        )
    }

    fn walk_heads(&mut self, visit: &mut dyn FnMut(StreamHead) -> Result<()>) -> Result<()> {
        let mut after = String::new();
        loop {
            let heads = self.all(
                "SELECT uid, version, head FROM (SELECT uid, version, head FROM task WHERE project = $1 UNION ALL \
                 SELECT uid, version, head FROM project WHERE project = $1) AS streams WHERE uid > $2 \
                 ORDER BY uid LIMIT $3",
                &[&after, &HEADS],
                rows::stream_head,
            )?;
            let Some(last) = heads.last() else { return Ok(()) };
            after = last.uid.clone();
            heads.into_iter().try_for_each(&mut *visit)?;
        }
    }

    fn actor(&mut self, name: &ActorName) -> Result<Option<Actor>> {
        self.one(
            "SELECT name, tier, registered_at_ms FROM actor WHERE project = $1 AND name = $2",
            &[&name.as_str()],
            rows::actor,
        )
    }

    fn alias(&mut self, name: &ActorName) -> Result<Option<ActorName>> {
        self.one("SELECT actor FROM alias WHERE project = $1 AND alias = $2", &[&name.as_str()], |row| {
            parsed(row.try_get(0)?)
        })
    }

    fn actors(&mut self) -> Result<Vec<Actor>> {
        self.all(
            "SELECT name, tier, registered_at_ms FROM actor WHERE project = $1 ORDER BY name",
            &[],
            rows::actor,
        )
    }

    fn aliases(&mut self) -> Result<Vec<(ActorName, ActorName)>> {
        self.all("SELECT alias, actor FROM alias WHERE project = $1 ORDER BY alias", &[], |row| {
            Ok((parsed(row.try_get(0)?)?, parsed(row.try_get(1)?)?))
        })
    }

    fn instance(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Option<KnownInstance>> {
        self.one(
            &format!(
                "SELECT {INSTANCE_COLUMNS} FROM instance WHERE project = $1 AND actor = $2 AND instance = $3"
            ),
            &[&actor.as_str(), &instance.as_str()],
            rows::known_instance,
        )
    }

    fn instances(&mut self, limit: u64) -> Result<Vec<KnownInstance>> {
        self.all(
            &format!(
                "SELECT {INSTANCE_COLUMNS} FROM instance WHERE project = $1 \
                 ORDER BY seen_at_ms DESC, actor, instance LIMIT $2"
            ),
            &[&to_sql(limit)],
            rows::known_instance,
        )
    }

    fn instance_of(&mut self, process: &Process) -> Result<Option<KnownInstance>> {
        self.one(
            &format!(
                "SELECT {INSTANCE_COLUMNS} FROM instance WHERE project = $1 AND pid = $2 AND start = $3 AND boot = $4 \
                 AND pid_ns = $5 AND time_ns = $6 ORDER BY seen_at_ms DESC LIMIT 1"
            ),
            &[
                &i64::from(process.pid),
                &to_sql(process.start),
                &process.boot,
                &process.pid_ns,
                &process.time_ns,
            ],
            rows::known_instance,
        )
    }

    fn wanting(&mut self, task: Uid, since_ms: i64) -> Result<Vec<KnownInstance>> {
        self.all(
            &format!(
                "SELECT {INSTANCE_COLUMNS} FROM instance WHERE project = $1 AND wants_task = $2 AND wants_at_ms >= $3 \
                 ORDER BY wants_at_ms LIMIT 20"
            ),
            &[&task.to_string(), &since_ms],
            rows::known_instance,
        )
    }

    /// In a write the key is locked first: of two that ask with one key, the second finds what the first did.
    fn request(&mut self, actor: &ActorName, key: &str) -> Result<Option<KeptRequest>> {
        if self.is_write {
            self.lock_key(key_of(&format!("{} key {actor} {key}", self.project)), false)?;
        }
        self.one(
            "SELECT digest, salt, verb, task, token, at_ms FROM request WHERE project = $1 AND actor = $2 AND key = $3",
            &[&actor.as_str(), &key],
            rows::kept_request,
        )
    }

    fn requests(&mut self) -> Result<Vec<(ActorName, String, KeptRequest)>> {
        self.all(
            "SELECT digest, salt, verb, task, token, at_ms, actor, key FROM request WHERE project = $1 \
             ORDER BY actor, key",
            &[],
            |row| Ok((parsed(row.try_get("actor")?)?, row.try_get("key")?, rows::kept_request(row)?)),
        )
    }
}
