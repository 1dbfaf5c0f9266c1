//! How events and their changes become rows.

use std::collections::BTreeSet;

use onus_core::actor::{ActorName, Tier};
use onus_core::apply::{Change, Project};
use onus_core::chain::Record;
use onus_core::event::Event;
use onus_core::ids::{Number, Token, Uid};
use onus_core::lease::{Lease, Pulse};
use onus_core::task::Task;
use onus_core::text::{Field, Salt, TextKey};

use crate::{KeptRequest, KnownInstance, Patience, Reach, Read, Result, StoreError, Write};

use super::connection::Must;
use super::maintain::SCRUB;
use super::rows::{
    self, Columns, INSERT_LEASE, INSERT_TASK, INSTANCE_COLUMNS, MOVE_TASK, UPDATE_TASK, to_sql, with_lease,
    with_task,
};
use super::search::vector;
use super::session::{LastEvent, Lock, Scopes, Session};

impl Session<'_> {
    /// An edge counts for its upstream end while its downstream end is unfinished, and for that one while the upstream
    /// end is not met.
    fn add_deps(&mut self, task: Uid, on: &BTreeSet<Uid>) -> Result<()> {
        for upstream in on {
            let ends = [task.to_string(), upstream.to_string()];
            let added = self.run(
                "INSERT INTO dep (project, task, needs) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                &[&ends[0], &ends[1]],
            )?;
            if added > 0 {
                self.count_edge(&ends, 1)?;
            }
        }
        Ok(())
    }

    fn remove_deps(&mut self, task: Uid, on: &BTreeSet<Uid>) -> Result<()> {
        for upstream in on {
            let ends = [task.to_string(), upstream.to_string()];
            let removed = self.run(
                "DELETE FROM dep WHERE project = $1 AND task = $2 AND needs = $3",
                &[&ends[0], &ends[1]],
            )?;
            if removed > 0 {
                self.count_edge(&ends, -1)?;
            }
        }
        Ok(())
    }

    fn count_edge(&mut self, [task, upstream]: &[String; 2], more: i64) -> Result<()> {
        self.run(
            "UPDATE task SET unmet = unmet + $4 WHERE project = $1 AND uid = $2 \
             AND EXISTS (SELECT 1 FROM task AS up WHERE up.project = $1 AND up.uid = $3 AND NOT up.met)",
            &[task, upstream, &more],
        )?;
        self.run(
            "UPDATE task SET open_dependents = open_dependents + $4 WHERE project = $1 AND uid = $3 \
             AND EXISTS (SELECT 1 FROM task AS down WHERE down.project = $1 AND down.uid = $2 \
             AND NOT down.finished)",
            &[task, upstream, &more],
        )
        .map(drop)
    }

    fn index(&mut self, key: TextKey, indexed: bool) -> Result<()> {
        self.run_later(
            "UPDATE text SET indexed = $5 WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4 \
             AND indexed <> $5",
            &[&key.stream.to_string(), &to_sql(key.version.0), &key.field.as_str(), &indexed],
            Must::Run,
        )
    }

    /// Changes the pulse of a lease that has not ended, or was not renewed more often than this. Any other is to be
    /// looked at again.
    fn set_pulse(&mut self, task: Uid, token: Token, pulse: &Pulse, renewed: Option<u64>) -> Result<()> {
        self.known.forget_lease(task, token);
        let (deadline, renewed) = (pulse.deadline.as_ref(), renewed.map(to_sql));
        self.run_later(
            "UPDATE lease SET last_wall_ms = $4, last_tick_ms = $5, last_domain = $6, renewals = $7, \
             deadline_wall_ms = $8, deadline_tick_ms = $9, deadline_domain = $10, progress_wall_ms = $11, \
             progress_tick_ms = $12, progress_domain = $13, resting = $14 \
             WHERE project = $1 AND task = $2 AND token = $3 \
             AND CASE WHEN $15::bigint IS NULL THEN ended_how IS NULL ELSE renewals <= $15 END",
            &[
                &task.to_string(),
                &to_sql(token.0),
                &pulse.last.wall_ms,
                &pulse.last.tick_ms,
                &pulse.last.domain.as_str(),
                &to_sql(pulse.renewals),
                &deadline.map(|deadline| deadline.wall_ms),
                &deadline.map(|deadline| deadline.tick_ms),
                &deadline.map(|deadline| deadline.domain.as_str()),
                &pulse.progress.wall_ms,
                &pulse.progress.tick_ms,
                &pulse.progress.domain.as_str(),
                &pulse.resting,
                &renewed,
            ],
            Must::ChangeOneOrAgain,
        )
    }

    /// One event as it stands in a ledger.
    pub(super) fn insert_event(
        &mut self,
        stream: &str,
        record: &Record,
        at_ms: i64,
        hash: &str,
    ) -> Result<()> {
        let mut payload = String::new();
        onus_core::chain::write_canonical(&record.payload, &mut payload);
        self.run_later(
            "INSERT INTO event (project, uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, \
             prev, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            &[
                &record.uid,
                &stream,
                &to_sql(record.version),
                &record.kind,
                &record.actor,
                &record.instance,
                &record.token.map(to_sql),
                &at_ms,
                &record.cause,
                &payload,
                &record.prev,
                &hash,
            ],
            Must::Run,
        )?;
        self.last_event = Some(LastEvent {
            stream: stream.to_owned(),
            version: to_sql(record.version),
            hash: hash.to_owned(),
        });
        Ok(())
    }

    pub(super) fn insert_text(
        &mut self,
        (stream, version, field): (&str, u64, &str),
        salt: &[u8],
        text: &str,
    ) -> Result<()> {
        // What may ever be looked for; whether it is now, the column says.
        let words = matches!(field, "title" | "body" | "note").then(|| vector(text));
        self.known.forget_texts();
        self.run_later(
            "INSERT INTO text (project, stream, version, field, salt, body, words) \
             VALUES ($1, $2, $3, $4, $5, $6, $7::text::tsvector)",
            &[&stream, &to_sql(version), &field, &salt, &text, &words],
            Must::Run,
        )
    }
}

impl Write for Session<'_> {
    fn lock_task(&mut self, uid: Uid) -> Result<Option<Task>> {
        self.lock_row(uid)
    }

    fn lock_project(&mut self) -> Result<Project> {
        self.may_wait();
        self.one(
            "SELECT uid, prefix, created_at_ms, version, head FROM project WHERE project = $1 FOR NO KEY UPDATE",
            &[],
            rows::project,
        )?
        .ok_or_else(|| StoreError::Damaged("it has no project".to_owned()))
    }

    fn lock_graph(&mut self) -> Result<()> {
        self.lock(Lock::Graph, false)
    }

    fn lock_tasks(&mut self, tasks: &[Uid], reach: Reach) -> Result<()> {
        self.lock_rows(tasks, reach)
    }

    fn lock_scopes(&mut self) -> Result<()> {
        self.lock_reservations(Scopes::Locked).map(drop)
    }

    fn steady_scopes(&mut self) -> Result<bool> {
        self.lock_reservations(Scopes::Steady)?;
        Ok(true)
    }

    fn lock_lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>> {
        self.lock_lease_row(task, token)
    }

    fn walk_free(
        &mut self,
        tier: Tier,
        due_ms: i64,
        patience: Patience,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<bool> {
        self.walk_unlocked(tier, due_ms, patience, visit)
    }

    fn next_number(&mut self) -> Result<Number> {
        self.may_wait();
        let last =
            self.number("SELECT last_number FROM project WHERE project = $1 FOR NO KEY UPDATE", &[])?;
        Ok(Number(last + 1))
    }

    fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> Result<()> {
        let record = Record::as_written(event);
        let stream = record.task.clone().unwrap_or_else(|| self.stream.to_owned());
        self.insert_event(&stream, &record, event.at_ms, &event.hash)?;
        for (field, salt, text) in texts {
            self.insert_text((&stream, record.version, field.as_str()), salt, text)?;
        }
        Ok(())
    }

    fn apply(&mut self, change: &Change) -> Result<()> {
        self.known.learn(change);
        match change {
            Change::PutProject(project) => self.run_later(
                "UPDATE project SET version = $2, head = $3 WHERE project = $1",
                &[&to_sql(project.version.0), &project.head],
                Must::ChangeOne,
            ),
            Change::PutActor(actor) => self
                .run(
                    "INSERT INTO actor (project, name, tier, registered_at_ms) VALUES ($1, $2, $3, $4)",
                    &[&actor.name.as_str(), &i64::from(actor.tier.0), &actor.registered_at_ms],
                )
                .map(drop),
            Change::SetTier { actor, tier } => self.run_on_one(
                "UPDATE actor SET tier = $3 WHERE project = $1 AND name = $2",
                &[&actor.as_str(), &i64::from(tier.0)],
            ),
            Change::PutAlias { alias, actor } => self
                .run(
                    "INSERT INTO alias (project, alias, actor) VALUES ($1, $2, $3) \
                     ON CONFLICT (project, alias) DO UPDATE SET actor = excluded.actor",
                    &[&alias.as_str(), &actor.as_str()],
                )
                .map(drop),
            Change::NumberTaken(number) => self.run_on_one(
                "UPDATE project SET last_number = GREATEST(last_number, $2) WHERE project = $1",
                &[&to_sql(number.0)],
            ),
            Change::PutTask(task) => {
                if task.version.0 > 1
                    && with_task(task, Columns::Changes, |values| self.run(&UPDATE_TASK, values))? > 0
                {
                    return Ok(());
                }
                with_task(task, Columns::All, |values| self.run_later(&INSERT_TASK, values, Must::Run))
            }
            Change::MoveTask(task) => {
                with_task(task, Columns::Moves, |values| self.run_later(&MOVE_TASK, values, Must::ChangeOne))
            }
            Change::OpenLease(lease) => {
                with_lease(lease, |values| self.run_later(&INSERT_LEASE, values, Must::Run))
            }
            Change::ReviveLease { task, token, active_from, active_before_s, pulse } => {
                self.run_on_one(
                    "UPDATE lease SET active_wall_ms = $4, active_tick_ms = $5, active_domain = $6, \
                     active_before_s = $7, ended_how = NULL, ended_at_ms = NULL, ended_version = NULL, \
                     ended_active_s = NULL WHERE project = $1 AND task = $2 AND token = $3",
                    &[
                        &task.to_string(),
                        &to_sql(token.0),
                        &active_from.wall_ms,
                        &active_from.tick_ms,
                        &active_from.domain.as_str(),
                        active_before_s,
                    ],
                )?;
                self.hold(*task, *token, true)?;
                self.pulse(*task, *token, pulse)
            }
            Change::StartLease { task, token } => self.run_on_one(
                "UPDATE lease SET reserve = false WHERE project = $1 AND task = $2 AND token = $3",
                &[&task.to_string(), &to_sql(token.0)],
            ),
            Change::EndLease { task, token, ended } => {
                // Judged by a row from before a renewal, it must be judged again.
                let end = &ended.end;
                self.set_pulse(*task, *token, &Pulse::of_ended(end), Some(end.renewals))?;
                self.hold(*task, *token, false)?;
                self.run_later(
                    "UPDATE lease SET ended_how = $4, ended_at_ms = $5, ended_version = $6, ended_active_s = $7 \
                     WHERE project = $1 AND task = $2 AND token = $3",
                    &[
                        &task.to_string(),
                        &to_sql(token.0),
                        &ended.how.as_str(),
                        &ended.at_ms,
                        &to_sql(ended.version.0),
                        &ended.end.active_s,
                    ],
                    Must::ChangeOne,
                )
            }
            Change::AddDeps { task, on } => self.add_deps(*task, on),
            Change::RemoveDeps { task, on } => self.remove_deps(*task, on),
            Change::Met { task, met } => self
                .run(
                    "UPDATE task SET unmet = unmet + $3 WHERE project = $1 \
                     AND uid IN (SELECT dep.task FROM dep WHERE dep.project = $1 AND dep.needs = $2)",
                    &[&task.to_string(), &if *met { -1_i64 } else { 1 }],
                )
                .map(drop),
            Change::Finished { task, finished } => self
                .run(
                    "UPDATE task SET open_dependents = open_dependents + $3 WHERE project = $1 \
                     AND uid IN (SELECT dep.needs FROM dep WHERE dep.project = $1 AND dep.task = $2)",
                    &[&task.to_string(), &if *finished { -1_i64 } else { 1 }],
                )
                .map(drop),
            Change::CountChildren { parent, more } => self.run_on_one(
                "UPDATE task SET open_children = open_children + $3 WHERE project = $1 AND uid = $2",
                &[&parent.to_string(), more],
            ),
            Change::AddScope { task, token, scope } => self.reserve(*task, *token, scope),
            Change::RemoveScope { task, token, scope } => self.unreserve(*task, *token, scope),
            Change::Index(key) => self.index(*key, true),
            Change::Unindex(key) => self.index(*key, false),
        }
    }

    /// Whoever ended the lease meanwhile was first: the whole request is looked at again.
    fn pulse(&mut self, task: Uid, token: Token, pulse: &Pulse) -> Result<()> {
        self.set_pulse(task, token, pulse, None)
    }

    fn put_instance(&mut self, known: &KnownInstance) -> Result<()> {
        let (process, wants) = (known.process.as_ref(), known.wants.as_ref());
        self.run_later(
            &format!(
                "INSERT INTO instance (project, {INSTANCE_COLUMNS}) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
                 ON CONFLICT (project, actor, instance) DO UPDATE SET machine = excluded.machine, boot = excluded.boot, \
                 pid_ns = excluded.pid_ns, time_ns = excluded.time_ns, pid = excluded.pid, start = excluded.start, \
                 seen_at_ms = excluded.seen_at_ms, pgid = excluded.pgid, wants_task = excluded.wants_task, \
                 wants_path = excluded.wants_path, wants_at_ms = excluded.wants_at_ms"
            ),
            &[
                &known.actor.as_str(),
                &known.instance.as_str(),
                &process.map(|process| &process.machine),
                &process.map(|process| &process.boot),
                &process.map(|process| &process.pid_ns),
                &process.map(|process| &process.time_ns),
                &process.map(|process| i64::from(process.pid)),
                &process.map(|process| to_sql(process.start)),
                &known.seen_at_ms,
                &known.group.map(i64::from),
                &wants.map(|wants| wants.task.to_string()),
                &wants.map(|wants| &wants.path),
                &wants.map(|wants| wants.at_ms),
            ],
            Must::Run,
        )
    }

    fn keep_request(&mut self, actor: &ActorName, key: &str, request: &KeptRequest) -> Result<()> {
        self.run_later(
            "INSERT INTO request (project, actor, key, digest, salt, verb, task, token, at_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            &[
                &actor.as_str(),
                &key,
                &request.digest,
                &request.salt.as_slice(),
                &request.verb,
                &request.task.map(|uid| uid.to_string()),
                &request.token.map(|token| to_sql(token.0)),
                &request.at_ms,
            ],
            Must::Run,
        )
    }

    fn erase(&mut self, key: TextKey) -> Result<()> {
        let (stream, version) = (key.stream.to_string(), to_sql(key.version.0));
        self.known.forget_texts();
        self.run_on_one(
            "DELETE FROM text WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4",
            &[&stream, &version, &key.field.as_str()],
        )?;
        // As in SQLite: the request that wrote it has its event's time; one that has no event's time wrote nothing, and
        // may have been made of the same words.
        self.run(
            "UPDATE request SET digest = NULL WHERE project = $1 AND task = $2 \
             AND (at_ms = (SELECT at_ms FROM event WHERE event.project = $1 AND stream = $2 AND version = $3) \
             OR NOT EXISTS (SELECT 1 FROM event WHERE event.project = $1 AND stream = $2 AND event.at_ms = request.at_ms))",
            &[&stream, &version],
        )?;
        self.run(
            "UPDATE request SET digest = NULL WHERE project = $1 AND verb = 'add --file' \
             AND (at_ms = (SELECT at_ms FROM event WHERE event.project = $1 AND stream = $2 AND version = $3) \
             OR EXISTS (SELECT 1 FROM task WHERE task.project = $1 AND uid = $2 AND origin IS NOT NULL))",
            &[&stream, &version],
        )?;
        let now = self.now().wall_ms;
        self.run(
            "INSERT INTO chore (project, name, since_ms) VALUES ($1, $2, $3) \
             ON CONFLICT (project, name) DO UPDATE SET since_ms = excluded.since_ms",
            &[&SCRUB, &now],
        )
        .map(drop)
    }

    fn savepoint(&mut self) -> Result<()> {
        self.parts.push((self.scopes, self.last_event.clone()));
        self.say("SAVEPOINT part")
    }

    fn release(&mut self) -> Result<()> {
        self.parts.pop();
        self.say("RELEASE part")
    }

    /// What was locked in the part is free again.
    fn undo(&mut self) -> Result<()> {
        if let Some(found) = self.parts.pop() {
            (self.scopes, self.last_event) = found;
        }
        self.known.forget();
        self.say("ROLLBACK TO part; RELEASE part")
    }
}
