//! How events and their changes become rows.

use std::collections::BTreeSet;

use rusqlite::{Params, params};

use onus_core::actor::ActorName;
use onus_core::apply::{Change, Project};
use onus_core::chain::Record;
use onus_core::event::Event;
use onus_core::ids::{Number, Token, Uid};
use onus_core::lease::Pulse;
use onus_core::task::Task;
use onus_core::text::{Field, Salt, TextKey};

use crate::{KeptRequest, KnownInstance, Read as _, Result, StoreError, Write};

use super::failed;
use super::maintain::SCRUB;
use super::read::Session;
use super::rows::{
    INSERT_LEASE, INSERT_TASK, MOVE_TASK, UPDATE_TASK, moved, to_sql, updated, with_lease, with_task,
};

impl Session<'_> {
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        let run = || self.connection.prepare_cached(sql)?.execute(params);
        run().map_err(|error| failed(&error, self.path))
    }

    /// A change to a row that must be there.
    fn run_on_one(&self, sql: &str, params: impl Params) -> Result<()> {
        match self.run(sql, params)? {
            1 => Ok(()),
            _ => Err(StoreError::Damaged("a row that the ledger speaks of is missing".to_owned())),
        }
    }

    /// An edge counts for its upstream end while its downstream end is unfinished, and for that one while the upstream
    /// end is not met.
    fn add_deps(&self, task: Uid, on: &BTreeSet<Uid>) -> Result<()> {
        for upstream in on {
            let ends = [task.to_string(), upstream.to_string()];
            if self.run("INSERT OR IGNORE INTO dep (task, needs) VALUES (?1, ?2)", [&ends[0], &ends[1]])? > 0
            {
                self.count_edge(&ends, 1)?;
            }
        }
        Ok(())
    }

    fn remove_deps(&self, task: Uid, on: &BTreeSet<Uid>) -> Result<()> {
        for upstream in on {
            let ends = [task.to_string(), upstream.to_string()];
            if self.run("DELETE FROM dep WHERE task = ?1 AND needs = ?2", [&ends[0], &ends[1]])? > 0 {
                self.count_edge(&ends, -1)?;
            }
        }
        Ok(())
    }

    fn count_edge(&self, [task, upstream]: &[String; 2], more: i64) -> Result<()> {
        self.run(
            "UPDATE task SET unmet = unmet + ?3 \
             WHERE uid = ?1 AND EXISTS (SELECT 1 FROM task WHERE uid = ?2 AND met = 0)",
            params![task, upstream, more],
        )?;
        self.run(
            "UPDATE task SET open_dependents = open_dependents + ?3 \
             WHERE uid = ?2 AND EXISTS (SELECT 1 FROM task WHERE uid = ?1 AND finished = 0)",
            params![task, upstream, more],
        )
        .map(drop)
    }

    fn index(&self, key: TextKey, indexed: bool) -> Result<()> {
        let place = params![key.stream.to_string(), to_sql(key.version.0), key.field.as_str(), indexed];
        let text = self.one(
            "SELECT id, body FROM text WHERE stream = ?1 AND version = ?2 AND field = ?3 AND indexed = NOT ?4",
            place,
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        )?;
        let Some((id, body)) = text else { return Ok(()) };
        if indexed {
            self.run("INSERT INTO search (rowid, body) VALUES (?1, ?2)", params![id, body])?;
        } else {
            self.run(
                "INSERT INTO search (search, rowid, body) VALUES ('delete', ?1, ?2)",
                params![id, body],
            )?;
        }
        self.run_on_one("UPDATE text SET indexed = ?2 WHERE id = ?1", params![id, indexed])
    }
}

impl Write for Session<'_> {
    /// `BEGIN IMMEDIATE` has locked every row already.
    fn lock_task(&mut self, uid: Uid) -> Result<Option<Task>> {
        self.task(uid)
    }

    fn lock_project(&mut self) -> Result<Project> {
        self.project()
    }

    fn next_number(&mut self) -> Result<Number> {
        let last = self.one("SELECT last_number FROM project", [], |row| row.get::<_, i64>(0))?;
        Ok(Number(u64::try_from(last.unwrap_or_default()).unwrap_or_default() + 1))
    }

    fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> Result<()> {
        let record = Record::as_written(event);
        let mut payload = String::new();
        onus_core::chain::write_canonical(&record.payload, &mut payload);
        let stream = record.task.as_deref().unwrap_or(self.project);
        self.run(
            "INSERT INTO event (uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, prev, hash) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                record.uid,
                stream,
                to_sql(record.version),
                record.kind,
                record.actor,
                record.instance,
                record.token.map(to_sql),
                event.at_ms,
                record.cause,
                payload,
                record.prev,
                event.hash,
            ],
        )?;
        for (field, salt, text) in texts {
            self.run(
                "INSERT INTO text (stream, version, field, salt, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![stream, to_sql(record.version), field.as_str(), salt.as_slice(), text],
            )?;
        }
        Ok(())
    }

    fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::PutProject(project) => {
                let values = params![
                    project.uid.to_string(),
                    project.prefix.as_str(),
                    project.created_at_ms,
                    to_sql(project.version.0),
                    project.head,
                ];
                self.run(
                    "INSERT INTO project (id, uid, prefix, created_at_ms, version, head, last_number) \
                     VALUES (1, ?1, ?2, ?3, ?4, ?5, 0) \
                     ON CONFLICT (id) DO UPDATE SET version = excluded.version, head = excluded.head",
                    values,
                )
                .map(drop)
            }
            Change::PutActor(actor) => self
                .run(
                    "INSERT INTO actor (name, tier, registered_at_ms) VALUES (?1, ?2, ?3)",
                    params![actor.name.as_str(), actor.tier.0, actor.registered_at_ms],
                )
                .map(drop),
            Change::SetTier { actor, tier } => {
                self.run_on_one("UPDATE actor SET tier = ?2 WHERE name = ?1", params![actor.as_str(), tier.0])
            }
            Change::PutAlias { alias, actor } => self
                .run(
                    "INSERT INTO alias (alias, actor) VALUES (?1, ?2) \
                     ON CONFLICT (alias) DO UPDATE SET actor = excluded.actor",
                    params![alias.as_str(), actor.as_str()],
                )
                .map(drop),
            Change::NumberTaken(number) => {
                self.run_on_one("UPDATE project SET last_number = MAX(last_number, ?1)", [to_sql(number.0)])
            }
            Change::PutTask(task) => {
                with_task(task, |values| match self.run(&UPDATE_TASK, updated(values))? {
                    0 => self.run(&INSERT_TASK, values).map(drop),
                    _ => Ok(()),
                })
            }
            Change::MoveTask(task) => with_task(task, |values| self.run_on_one(&MOVE_TASK, moved(values))),
            Change::OpenLease(lease) => with_lease(lease, |values| self.run(&INSERT_LEASE, values)).map(drop),
            Change::ReviveLease { task, token, active_from, active_before_s, pulse } => {
                self.run_on_one(
                    "UPDATE lease SET active_wall_ms = ?3, active_tick_ms = ?4, active_domain = ?5, \
                     active_before_s = ?6, ended_how = NULL, ended_at_ms = NULL, ended_version = NULL, \
                     ended_active_s = NULL WHERE task = ?1 AND token = ?2",
                    params![
                        task.to_string(),
                        to_sql(token.0),
                        active_from.wall_ms,
                        active_from.tick_ms,
                        active_from.domain.as_str(),
                        active_before_s,
                    ],
                )?;
                self.hold(*task, *token, true)?;
                self.pulse(*task, *token, pulse)
            }
            Change::StartLease { task, token } => self.run_on_one(
                "UPDATE lease SET reserve = 0 WHERE task = ?1 AND token = ?2",
                params![task.to_string(), to_sql(token.0)],
            ),
            Change::EndLease { task, token, ended } => {
                self.pulse(*task, *token, &Pulse::of_ended(&ended.end))?;
                self.hold(*task, *token, false)?;
                self.run_on_one(
                    "UPDATE lease SET ended_how = ?3, ended_at_ms = ?4, ended_version = ?5, ended_active_s = ?6 \
                     WHERE task = ?1 AND token = ?2",
                    params![
                        task.to_string(),
                        to_sql(token.0),
                        ended.how.as_str(),
                        ended.at_ms,
                        to_sql(ended.version.0),
                        ended.end.active_s,
                    ],
                )
            }
            Change::AddDeps { task, on } => self.add_deps(*task, on),
            Change::RemoveDeps { task, on } => self.remove_deps(*task, on),
            Change::Met { task, met } => self
                .run(
                    "UPDATE task SET unmet = unmet + ?2 WHERE uid IN (SELECT task FROM dep WHERE needs = ?1)",
                    params![task.to_string(), if *met { -1 } else { 1 }],
                )
                .map(drop),
            Change::Finished { task, finished } => self
                .run(
                    "UPDATE task SET open_dependents = open_dependents + ?2 \
                     WHERE uid IN (SELECT needs FROM dep WHERE task = ?1)",
                    params![task.to_string(), if *finished { -1 } else { 1 }],
                )
                .map(drop),
            Change::CountChildren { parent, more } => self.run_on_one(
                "UPDATE task SET open_children = open_children + ?2 WHERE uid = ?1",
                params![parent.to_string(), more],
            ),
            Change::AddScope { task, token, scope } => self.reserve(*task, *token, scope),
            Change::RemoveScope { task, token, scope } => self.unreserve(*task, *token, scope),
            Change::Index(key) => self.index(*key, true),
            Change::Unindex(key) => self.index(*key, false),
        }
    }

    fn pulse(&mut self, task: Uid, token: Token, pulse: &Pulse) -> Result<()> {
        let deadline = pulse.deadline.as_ref();
        self.run_on_one(
            "UPDATE lease SET last_wall_ms = ?3, last_tick_ms = ?4, last_domain = ?5, renewals = ?6, \
             deadline_wall_ms = ?7, deadline_tick_ms = ?8, deadline_domain = ?9, progress_wall_ms = ?10, \
             progress_tick_ms = ?11, progress_domain = ?12, resting = ?13 WHERE task = ?1 AND token = ?2",
            params![
                task.to_string(),
                to_sql(token.0),
                pulse.last.wall_ms,
                pulse.last.tick_ms,
                pulse.last.domain.as_str(),
                to_sql(pulse.renewals),
                deadline.map(|deadline| deadline.wall_ms),
                deadline.map(|deadline| deadline.tick_ms),
                deadline.map(|deadline| deadline.domain.as_str()),
                pulse.progress.wall_ms,
                pulse.progress.tick_ms,
                pulse.progress.domain.as_str(),
                pulse.resting,
            ],
        )
    }

    fn put_instance(&mut self, known: &KnownInstance) -> Result<()> {
        let (process, wants) = (known.process.as_ref(), known.wants.as_ref());
        self.run(
            "REPLACE INTO instance VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            params![
                known.actor.as_str(),
                known.instance.as_str(),
                process.map(|process| &process.machine),
                process.map(|process| &process.boot),
                process.map(|process| &process.pid_ns),
                process.map(|process| &process.time_ns),
                process.map(|process| process.pid),
                process.map(|process| to_sql(process.start)),
                known.seen_at_ms,
                known.group,
                wants.map(|wants| wants.task.to_string()),
                wants.map(|wants| &wants.path),
                wants.map(|wants| wants.at_ms),
            ],
        )
        .map(drop)
    }

    fn keep_request(&mut self, actor: &ActorName, key: &str, request: &KeptRequest) -> Result<()> {
        self.run(
            "INSERT INTO request (actor, key, digest, salt, verb, task, token, at_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                actor.as_str(),
                key,
                request.digest,
                request.salt.as_slice(),
                request.verb,
                request.task.map(|uid| uid.to_string()),
                request.token.map(|token| to_sql(token.0)),
                request.at_ms,
            ],
        )
        .map(drop)
    }

    fn erase(&mut self, key: TextKey) -> Result<()> {
        let stream = key.stream.to_string();
        self.run_on_one(
            "DELETE FROM text WHERE stream = ?1 AND version = ?2 AND field = ?3",
            params![stream, to_sql(key.version.0), key.field.as_str()],
        )?;
        // The request that wrote it has its event's time: both were stamped in the same transaction. One that has no
        // event's time wrote nothing, as an ask that came twice: it may have been made of the same words.
        self.run(
            "UPDATE request SET digest = NULL WHERE task = ?1 \
             AND (at_ms = (SELECT at_ms FROM event WHERE stream = ?1 AND version = ?2) \
             OR NOT EXISTS (SELECT 1 FROM event WHERE stream = ?1 AND event.at_ms = request.at_ms))",
            params![stream, to_sql(key.version.0)],
        )?;
        // A plan speaks of many tasks and is kept with the first it made. One that names what was there may repeat its
        // words, and only what has an origin can be named so.
        self.run(
            "UPDATE request SET digest = NULL WHERE verb = 'add --file' \
             AND (at_ms = (SELECT at_ms FROM event WHERE stream = ?1 AND version = ?2) \
             OR EXISTS (SELECT 1 FROM task WHERE uid = ?1 AND origin IS NOT NULL))",
            params![stream, to_sql(key.version.0)],
        )?;
        // Whoever is killed before the files are scrubbed leaves word that they must be.
        let now = self.now().wall_ms;
        self.run("INSERT OR IGNORE INTO chore (name, since_ms) VALUES (?1, ?2)", params![SCRUB, now])
            .map(drop)
    }

    fn savepoint(&mut self) -> Result<()> {
        self.run("SAVEPOINT part", []).map(drop)
    }

    fn release(&mut self) -> Result<()> {
        self.run("RELEASE part", []).map(drop)
    }

    fn undo(&mut self) -> Result<()> {
        self.run("ROLLBACK TO part", [])?;
        self.release()
    }
}
