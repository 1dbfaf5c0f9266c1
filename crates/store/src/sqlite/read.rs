//! What can be asked of a snapshot.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

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

use crate::{
    After, Direction, EventQuery, Filter, KeptRequest, KnownInstance, LedgerLine, LooseText, Read, Result,
    StoreError, StoredText, Wanted,
};

use super::graph::rank;
use super::rows::{self, EVENT_COLUMNS, LEASE_COLUMNS, TASK_COLUMNS, parsed, to_sql, unsigned};
use super::{Clock, failed};

/// How many tasks an ambiguous reference may list.
const CANDIDATES: u32 = 10;

/// One transaction, for reading and, inside [`crate::Store::write`], for writing.
pub(super) struct Session<'a> {
    pub(super) connection: &'a Connection,
    pub(super) path: &'a Path,
    pub(super) clock: &'a Clock,
    pub(super) project: &'a str,
}

impl Session<'_> {
    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let run = || self.connection.prepare_cached(sql)?.query_row(params, map).optional();
        run().map_err(|error| failed(&error, self.path))
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let run = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare_cached(sql)?.query_map(params, map)?.collect()
        };
        run().map_err(|error| failed(&error, self.path))
    }

    fn each<T>(
        &self,
        sql: &str,
        map: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
        visit: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let fail = |error: rusqlite::Error| failed(&error, self.path);
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        let mut rows = statement.query([]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            visit(map(row).map_err(fail)?)?;
        }
        Ok(())
    }

    /// One page over tasks by priority, then number: a range of the index for each priority, so that a page far in
    /// costs no more than the first.
    fn by_priority(
        &self,
        after: Option<After>,
        limit: u64,
        mut page: impl FnMut(&Self, Priority, i64, u64) -> Result<Vec<Task>>,
    ) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for priority in
            Priority::ALL.iter().copied().filter(|p| after.is_none_or(|after| *p >= after.priority))
        {
            let left = limit - tasks.len() as u64;
            if left == 0 {
                break;
            }
            let number =
                after.filter(|after| after.priority == priority).map_or(0, |after| to_sql(after.number.0));
            tasks.extend(page(self, priority, number, left)?);
        }
        Ok(tasks)
    }

    pub(super) fn uids(&self, sql: &str, params: impl Params) -> Result<Vec<Uid>> {
        self.all(sql, params, |row| parsed(&row.get::<_, String>(0)?))
    }

    pub(super) fn number(&self, sql: &str, params: impl Params) -> Result<u64> {
        let count = self.one(sql, params, |row| row.get::<_, i64>(0))?.unwrap_or_default();
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

/// The smallest text that no text beginning with `start` reaches.
fn beyond(start: &str) -> String {
    format!("{start}\u{7f}")
}

impl Read for Session<'_> {
    fn now(&mut self) -> Moment {
        (self.clock)()
    }

    fn project(&mut self) -> Result<Project> {
        self.one("SELECT uid, prefix, created_at_ms, version, head FROM project", [], rows::project)?
            .ok_or_else(|| StoreError::Damaged("it has no project".to_owned()))
    }

    fn resolve(&mut self, reference: &TaskRef) -> Result<Vec<Uid>> {
        match reference {
            TaskRef::Number(number) => {
                self.uids("SELECT uid FROM task WHERE number = ?1", [to_sql(number.0)])
            }
            TaskRef::Id { prefix, number } => self.uids(
                "SELECT uid FROM task WHERE number = ?1 AND EXISTS (SELECT 1 FROM project WHERE prefix = ?2)",
                params![to_sql(number.0), prefix],
            ),
            TaskRef::Part(part) => {
                let start = TaskRef::hyphenated_start(part);
                let end = TaskRef::hyphenated_end_reversed(part);
                self.uids(
                    "SELECT uid FROM (SELECT uid FROM task WHERE uid >= ?1 AND uid < ?2 LIMIT ?5) \
                     UNION SELECT uid FROM \
                     (SELECT uid FROM task WHERE uid_reversed >= ?3 AND uid_reversed < ?4 LIMIT ?5) \
                     LIMIT ?5",
                    params![start, beyond(&start), end, beyond(&end), CANDIDATES],
                )
            }
        }
    }

    fn task(&mut self, uid: Uid) -> Result<Option<Task>> {
        self.one(&format!("SELECT {TASK_COLUMNS} FROM task WHERE uid = ?1"), [uid.to_string()], rows::task)
    }

    fn task_by_origin(&mut self, origin: &Origin) -> Result<Option<Uid>> {
        Ok(self.uids("SELECT uid FROM task WHERE origin = ?1", [origin.as_str()])?.pop())
    }

    fn lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>> {
        self.one(
            &format!("SELECT {LEASE_COLUMNS} FROM lease WHERE task = ?1 AND token = ?2"),
            params![task.to_string(), to_sql(token.0)],
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
            // Those that have not ended are in an index of their own, so that beginning a lease writes one index.
            &format!(
                "SELECT {LEASE_COLUMNS} FROM lease WHERE task = ?1 AND token = (SELECT MAX(token) FROM ( \
                 SELECT MAX(token) AS token FROM lease INDEXED BY lease_holder \
                 WHERE task = ?1 AND actor = ?2 AND instance = ?3 AND ended_how IS NOT NULL \
                 UNION ALL SELECT token FROM lease \
                 WHERE task = ?1 AND actor = ?2 AND instance = ?3 AND ended_how IS NULL))"
            ),
            params![task.to_string(), actor.as_str(), instance.as_str()],
            rows::lease,
        )
    }

    fn leases_held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>> {
        // The index alone tells which they are; to read one is a statement that nearly every command has prepared.
        let held = self.all(
            "SELECT task, token FROM lease WHERE actor = ?1 AND instance = ?2 AND ended_how IS NULL",
            params![actor.as_str(), instance.as_str()],
            |row| Ok((rows::text(row, "task")?, Token(unsigned(row, "token")?))),
        )?;
        let mut leases = Vec::with_capacity(held.len());
        for (task, token) in held {
            leases.extend(self.lease(task, token)?);
        }
        leases.sort_by_key(|lease| (lease.acquired_at_ms, lease.task));
        Ok(leases)
    }

    fn open_leases(&mut self, limit: u64) -> Result<Vec<(Task, Lease)>> {
        let leases = self.all(
            &format!(
                "SELECT {LEASE_COLUMNS} FROM lease INDEXED BY lease_unended WHERE ended_how IS NULL LIMIT ?1"
            ),
            [to_sql(limit)],
            rows::lease,
        )?;
        let mut pairs = Vec::with_capacity(leases.len());
        for lease in leases {
            pairs.extend(self.task(lease.task)?.map(|task| (task, lease)));
        }
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
                "SELECT {LEASE_COLUMNS} FROM lease WHERE actor = ?1 AND instance = ?2 AND ended_at_ms >= ?3 \
                 AND ended_how IN ('taken_over', 'revoked', 'reset', 'lapsed') ORDER BY ended_at_ms LIMIT 20"
            ),
            params![actor.as_str(), instance.as_str(), since_ms],
            rows::lease,
        )
    }

    fn held_above(&mut self, task: Uid, token: Token, actor: &ActorName) -> Result<bool> {
        Ok(self.number(
            "SELECT EXISTS (SELECT 1 FROM lease WHERE task = ?1 AND actor = ?2 AND token > ?3)",
            params![task.to_string(), actor.as_str(), to_sql(token.0)],
        )? > 0)
    }

    fn indefinite_leases(&mut self, actor: &ActorName) -> Result<(u64, u64)> {
        const UNBOUNDED: &str = "FROM lease INDEXED BY lease_unended WHERE ended_how IS NULL AND ttl_ms IS NULL \
            AND actor NOT LIKE 'human:%'";
        let own = self.number(&format!("SELECT COUNT(*) {UNBOUNDED} AND actor = ?1"), [actor.as_str()])?;
        Ok((own, self.number(&format!("SELECT COUNT(*) {UNBOUNDED}"), [])?))
    }

    fn walk_ready(
        &mut self,
        tier: Tier,
        due_ms: i64,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<()> {
        self.merge_ready(tier, due_ms, visit)
    }

    fn next_due(&mut self, after_ms: i64) -> Result<Option<i64>> {
        self.first_due(after_ms)
    }

    fn beside(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>> {
        self.uids_beside(task, direction)
    }

    fn numbers_beside(&mut self, task: Uid, direction: Direction) -> Result<Vec<Number>> {
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
        let mut sql = format!("SELECT {TASK_COLUMNS} FROM task WHERE priority = ? AND number > ?");
        let mut values: Vec<Box<dyn rusqlite::ToSql>> = Vec::new();
        let mut narrow = |condition: &str, value: Option<String>| {
            if let Some(value) = value {
                sql.push_str(condition);
                values.push(Box::new(value));
            }
        };
        narrow(" AND type = ?", filter.kind.map(|kind| kind.to_string()));
        narrow(" AND owner = ?", filter.owner.as_ref().map(ToString::to_string));
        narrow(" AND area = ?", filter.area.clone());
        narrow(" AND iteration = ?", filter.iteration.clone());
        narrow(" AND origin = ?", filter.origin.as_ref().map(|origin| origin.as_str().to_owned()));
        narrow(" AND EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)", filter.tag.clone());
        narrow(
            " AND leased = 1 AND uid IN \
             (SELECT task FROM lease INDEXED BY lease_unended WHERE ended_how IS NULL AND actor = ?)",
            filter.holder.as_ref().map(ToString::to_string),
        );
        if !filter.states.is_empty() {
            let marks = vec!["?"; filter.states.len()].join(", ");
            sql.push_str(&format!(" AND state IN ({marks})"));
            values.extend(filter.states.iter().map(|state| Box::new(state.as_str()) as Box<_>));
        } else if !filter.finished {
            sql.push_str(" AND finished = 0");
        }
        sql.push_str(" ORDER BY number LIMIT ?");
        self.by_priority(after, limit, |session, priority, number, left| {
            if filter.priority.is_some_and(|only| only != priority) {
                return Ok(Vec::new());
            }
            let (priority, left) = (priority.as_str(), to_sql(left));
            let mut all: Vec<&dyn rusqlite::ToSql> = vec![&priority, &number];
            all.extend(values.iter().map(AsRef::as_ref));
            all.push(&left);
            session.all(&sql, all.as_slice(), rows::task)
        })
    }

    fn count_by_state(&mut self) -> Result<Vec<(State, u64)>> {
        self.all("SELECT state, COUNT(*) AS tasks FROM task GROUP BY state", [], |row| {
            Ok((rows::text(row, "state")?, unsigned(row, "tasks")?))
        })
    }

    fn search(&mut self, words: &[String], limit: u64) -> Result<Vec<Uid>> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        // Each word may stand in another text of the task: title, body or a note.
        let hits = (1..=words.len()).map(|i| {
            format!(
                "SELECT text.stream AS task, MIN(search.rank) AS score FROM search JOIN text ON text.id = search.rowid \
                 WHERE search MATCH ?{i} GROUP BY text.stream"
            )
        });
        let sql = format!(
            "SELECT task FROM ({}) GROUP BY task HAVING COUNT(*) = {} ORDER BY SUM(score), task LIMIT {limit}",
            hits.collect::<Vec<_>>().join(" UNION ALL "),
            words.len()
        );
        let phrases = words.iter().map(|word| format!("\"{}\"*", word.replace('"', "\"\"")));
        self.uids(&sql, rusqlite::params_from_iter(phrases))
    }

    fn text(&mut self, key: TextKey) -> Result<Option<StoredText>> {
        self.one(
            "SELECT stream, version, field, salt, body FROM text WHERE stream = ?1 AND version = ?2 AND field = ?3",
            params![key.stream.to_string(), to_sql(key.version.0), key.field.as_str()],
            rows::stored_text,
        )
    }

    fn texts(&mut self, stream: Uid, version: Version) -> Result<Vec<StoredText>> {
        self.all(
            "SELECT stream, version, field, salt, body FROM text WHERE stream = ?1 AND version = ?2",
            params![stream.to_string(), to_sql(version.0)],
            rows::stored_text,
        )
    }

    fn events(&mut self, query: &EventQuery) -> Result<Vec<Record>> {
        let project = self.project;
        let order = if query.newest { "DESC" } else { "ASC" };
        let of_stream = if query.stream.is_some() { "stream = ?1 AND" } else { "?1 IS NULL AND" };
        // Within a stream, `version` and `seq` grow together: its index leads to the place from where one goes on.
        let on = match query.stream {
            Some(_) => {
                "AND version > COALESCE((SELECT version FROM event WHERE seq = ?2 AND stream = ?1), 0)"
            }
            None => "",
        };
        let by = if query.stream.is_some() { "version" } else { "seq" };
        let mut records = self.all(
            &format!(
                "SELECT {EVENT_COLUMNS} FROM event WHERE {of_stream} seq > ?2 {on} ORDER BY {by} {order} LIMIT ?3"
            ),
            params![query.stream.map(|uid| uid.to_string()), to_sql(query.after_seq), to_sql(query.limit)],
            |row| rows::record(row, project),
        )?;
        if query.newest {
            records.reverse();
        }
        Ok(records)
    }

    fn event(&mut self, stream: Uid, version: Version) -> Result<Option<Record>> {
        let project = self.project;
        self.one(
            &format!("SELECT {EVENT_COLUMNS} FROM event WHERE stream = ?1 AND version = ?2"),
            params![stream.to_string(), to_sql(version.0)],
            |row| rows::record(row, project),
        )
    }

    fn notes(&mut self, task: Uid) -> Result<Vec<Record>> {
        let project = self.project;
        self.all(
            &format!(
                "SELECT {EVENT_COLUMNS} FROM event \
                 WHERE stream = ?1 AND json_extract(payload, '$.texts.note') IS NOT NULL ORDER BY version"
            ),
            [task.to_string()],
            |row| rows::record(row, project),
        )
    }

    fn count_events(&mut self) -> Result<u64> {
        self.number("SELECT COUNT(*) FROM event", [])
    }

    fn ledger_page(&mut self, after: Option<&(String, u64)>, limit: u64) -> Result<Vec<LedgerLine>> {
        let project = self.project;
        let (stream, version) =
            after.map_or(("", 0), |(stream, version)| (stream.as_str(), to_sql(*version)));
        let lines = self.all(
            &format!(
                "SELECT {EVENT_COLUMNS} FROM event WHERE (stream, version) > (?1, ?2) \
                 ORDER BY stream, version LIMIT ?3"
            ),
            params![stream, version, to_sql(limit)],
            |row| {
                let line = rows::record(row, project).and_then(|record| {
                    Ok(LedgerLine { stream: row.get("stream")?, record, texts: Vec::new() })
                });
                line.map_or_else(|error| unreadable(row, &error).map(Err), |line| Ok(Ok(line)))
            },
        )?;
        let mut lines = lines.into_iter().collect::<Result<Vec<LedgerLine>>>()?;
        let Some(last) = lines.last() else { return Ok(lines) };
        // Every text in this stretch, also one beside an event that names none: nobody may slip one in.
        let texts = self.all(
            "SELECT stream, version, field, salt, body FROM text \
             WHERE (stream, version) > (?1, ?2) AND (stream, version) <= (?3, ?4) ORDER BY stream, version, field",
            params![stream, version, last.stream, to_sql(last.record.version)],
            |row| {
                let text = || {
                    let text = LooseText { field: row.get(2)?, salt: row.get(3)?, text: row.get(4)? };
                    Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, text))
                };
                text().map_or_else(|error| unreadable(row, &error).map(Err), |text| Ok(Ok(text)))
            },
        )?;
        let mut at = 0;
        for text in texts {
            let (stream, version, text) = text?;
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
            "SELECT stream, version FROM text WHERE NOT EXISTS (SELECT 1 FROM event \
             WHERE event.stream = text.stream AND event.version = text.version) LIMIT 1",
            [],
            place_of,
        )
    }

    fn head(&mut self, stream: &str) -> Result<Option<StreamHead>> {
        let table = if stream == self.project { "project" } else { "task" };
        self.one(&format!("SELECT uid, version, head FROM {table} WHERE uid = ?1"), [stream], stream_head)
    }

    fn walk_heads(&mut self, visit: &mut dyn FnMut(StreamHead) -> Result<()>) -> Result<()> {
        self.each(
            "SELECT uid, version, head FROM task UNION ALL SELECT uid, version, head FROM project ORDER BY uid",
            stream_head,
            visit,
        )
    }

    fn actor(&mut self, name: &ActorName) -> Result<Option<Actor>> {
        self.one("SELECT name, tier, registered_at_ms FROM actor WHERE name = ?1", [name.as_str()], actor)
    }

    fn alias(&mut self, name: &ActorName) -> Result<Option<ActorName>> {
        self.one("SELECT actor FROM alias WHERE alias = ?1", [name.as_str()], |row| rows::text(row, "actor"))
    }

    fn actors(&mut self) -> Result<Vec<Actor>> {
        self.all("SELECT name, tier, registered_at_ms FROM actor ORDER BY name", [], actor)
    }

    fn aliases(&mut self) -> Result<Vec<(ActorName, ActorName)>> {
        self.all("SELECT alias, actor FROM alias ORDER BY alias", [], |row| {
            Ok((rows::text(row, "alias")?, rows::text(row, "actor")?))
        })
    }

    fn instance(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Option<KnownInstance>> {
        self.one(
            "SELECT * FROM instance \
             WHERE actor = ?1 AND instance = ?2",
            params![actor.as_str(), instance.as_str()],
            known_instance,
        )
    }

    fn instances(&mut self, limit: u64) -> Result<Vec<KnownInstance>> {
        self.all(
            "SELECT * FROM instance \
             ORDER BY seen_at_ms DESC, actor, instance LIMIT ?1",
            [to_sql(limit)],
            known_instance,
        )
    }

    fn instance_of(&mut self, process: &Process) -> Result<Option<KnownInstance>> {
        self.one(
            "SELECT * FROM instance \
             WHERE pid = ?1 AND start = ?2 AND boot = ?3 AND pid_ns = ?4 AND time_ns = ?5 ORDER BY seen_at_ms DESC LIMIT 1",
            params![process.pid, to_sql(process.start), process.boot, process.pid_ns, process.time_ns],
            known_instance,
        )
    }

    fn wanting(&mut self, task: Uid, since_ms: i64) -> Result<Vec<KnownInstance>> {
        self.all(
            "SELECT * FROM instance WHERE wants_task = ?1 AND wants_at_ms >= ?2 ORDER BY wants_at_ms LIMIT 20",
            params![task.to_string(), since_ms],
            known_instance,
        )
    }

    fn request(&mut self, actor: &ActorName, key: &str) -> Result<Option<KeptRequest>> {
        self.one(
            "SELECT digest, salt, verb, task, token, at_ms FROM request WHERE actor = ?1 AND key = ?2",
            params![actor.as_str(), key],
            kept_request,
        )
    }

    fn requests(&mut self) -> Result<Vec<(ActorName, String, KeptRequest)>> {
        self.all("SELECT * FROM request ORDER BY actor, key", [], |row| {
            Ok((rows::text(row, "actor")?, row.get("key")?, kept_request(row)?))
        })
    }
}

fn kept_request(row: &Row<'_>) -> rusqlite::Result<KeptRequest> {
    Ok(KeptRequest {
        digest: row.get("digest")?,
        salt: rows::salt(row, "salt")?,
        verb: row.get("verb")?,
        task: rows::optional(row, "task")?,
        token: rows::optional_unsigned(row, "token")?.map(Token),
        at_ms: row.get("at_ms")?,
    })
}

/// Where an event or a text stands, as well as that can be said of one that was damaged.
fn place_of(row: &Row<'_>) -> rusqlite::Result<(String, u64)> {
    let stream = String::from_utf8_lossy(row.get_ref("stream")?.as_bytes().unwrap_or_default()).into_owned();
    Ok((stream, u64::try_from(row.get::<_, i64>("version")?).unwrap_or_default()))
}

/// What no onus wrote, named by its place.
fn unreadable(row: &Row<'_>, error: &rusqlite::Error) -> rusqlite::Result<StoreError> {
    let (stream, version) = place_of(row)?;
    Ok(StoreError::Tampered { stream, version, why: format!("it cannot be read: {error}") })
}

fn stream_head(row: &Row<'_>) -> rusqlite::Result<StreamHead> {
    Ok(StreamHead { uid: row.get("uid")?, version: unsigned(row, "version")?, hash: row.get("head")? })
}

fn actor(row: &Row<'_>) -> rusqlite::Result<Actor> {
    Ok(Actor {
        name: rows::text(row, "name")?,
        tier: Tier(row.get("tier")?),
        registered_at_ms: row.get("registered_at_ms")?,
    })
}

fn known_instance(row: &Row<'_>) -> rusqlite::Result<KnownInstance> {
    let process = match row.get::<_, Option<u32>>("pid")? {
        Some(pid) => Some(Process {
            machine: row.get("machine")?,
            boot: row.get("boot")?,
            pid_ns: row.get("pid_ns")?,
            time_ns: row.get("time_ns")?,
            pid,
            start: unsigned(row, "start")?,
        }),
        None => None,
    };
    Ok(KnownInstance {
        actor: rows::text(row, "actor")?,
        instance: rows::text(row, "instance")?,
        process,
        group: row.get("pgid")?,
        seen_at_ms: row.get("seen_at_ms")?,
        wants: match rows::optional(row, "wants_task")? {
            Some(task) => Some(Wanted { task, path: row.get("wants_path")?, at_ms: row.get("wants_at_ms")? }),
            None => None,
        },
    })
}
