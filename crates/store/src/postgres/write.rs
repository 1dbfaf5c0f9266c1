//! The writes and locks that this store does in its own way.

use crate::rows::columns::{PROJECT_COLUMNS, waiting, working};
use crate::rows::read::no_project;
use crate::rows::sql::sql;
use crate::rows::write::{self, shared_writes};
use crate::rows::{self, Expect, delegate};
use crate::*;

use super::rows::to_sql;
use super::session::{LastEvent, Lock, ScopeLock, Session, key_of};

impl Write for Session<'_> {
    shared_writes!();

    delegate! { super::locks =>
        fn lock_task(uid: Uid) -> Option<Task>;
        fn lock_seat(name: &SeatName) -> Option<Seat>;
        fn lock_tasks(tasks: &[Uid], reach: Reach) -> ();
        fn lock_leases(leases: &[(Uid, Token)]) -> Vec<Lease>;
        fn first_ready(asker: &ActorName, tier: Tier, due_ms: i64, on_locked: OnLocked, fits: Fits<'_>)
            -> (Option<Task>, bool);
    }

    fn lock_project(&mut self) -> Result<Project> {
        self.may_wait();
        let sql = sql!("SELECT ", PROJECT_COLUMNS, " FROM project WHERE project = $1 FOR NO KEY UPDATE");
        self.one(sql.postgres, &[], rows::project)?.ok_or_else(no_project)
    }

    fn lock_graph(&mut self) -> Result<()> {
        self.lock(Lock::Graph, false)
    }

    fn lock_scopes(&mut self) -> Result<()> {
        self.lock_reservations(ScopeLock::Exclusive).map(drop)
    }

    fn lock_deadlines(&mut self) -> Result<bool> {
        self.lock_reservations(ScopeLock::Shared)?;
        Ok(true)
    }

    fn has_waited(&self) -> bool {
        self.has_waited
    }

    fn lock_key(&mut self, actor: &ActorName, key: &str) -> Result<()> {
        self.lock_number(key_of(&format!("{} key {actor} {key}", self.project)), false)
    }

    fn next_number(&mut self) -> Result<Number> {
        self.may_wait();
        let last =
            self.number("SELECT last_number FROM project WHERE project = $1 FOR NO KEY UPDATE", &[])?;
        Ok(Number(last + 1))
    }

    fn next_seat(&mut self) -> Result<Number> {
        self.may_wait();
        let last = self.number("SELECT last_seat FROM project WHERE project = $1 FOR NO KEY UPDATE", &[])?;
        Ok(Number(last + 1))
    }

    fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> Result<()> {
        write::append(self, event, texts)?;
        self.last_event = Some(LastEvent {
            stream: event.task.map_or_else(|| self.stream.to_owned(), |uid| uid.to_string()),
            version: to_sql(event.version.0),
            hash: event.hash.clone(),
        });
        Ok(())
    }

    /// In one statement, however many pulses there are.
    fn pulse(&mut self, pulses: &[(Uid, Token, Pulse)]) -> Result<()> {
        if pulses.is_empty() {
            return Ok(());
        }
        fn column<T>(pulses: &[(Uid, Token, Pulse)], of: impl Fn(&Pulse) -> T) -> Vec<T> {
            pulses.iter().map(|(_, _, pulse)| of(pulse)).collect()
        }
        fn of_deadline<T>(pulses: &[(Uid, Token, Pulse)], of: impl Fn(&Moment) -> T) -> Vec<Option<T>> {
            column(pulses, |pulse| pulse.deadline.as_ref().map(&of))
        }
        let domain = |moment: &Moment| moment.domain.as_str().to_owned();
        self.run_later(
            "UPDATE lease SET last_wall_ms = p.last_wall_ms, last_tick_ms = p.last_tick_ms, \
             last_domain = p.last_domain, renewals = p.renewals, deadline_wall_ms = p.deadline_wall_ms, \
             deadline_tick_ms = p.deadline_tick_ms, deadline_domain = p.deadline_domain, \
             progress_wall_ms = p.progress_wall_ms, progress_tick_ms = p.progress_tick_ms, \
             progress_domain = p.progress_domain, resting = p.resting, working = p.working, waiting = p.waiting \
             FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], \
             $9::bigint[], $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::boolean[], $15::text[], $16::text[]) \
             AS p (task, token, last_wall_ms, last_tick_ms, last_domain, renewals, deadline_wall_ms, \
             deadline_tick_ms, deadline_domain, progress_wall_ms, progress_tick_ms, progress_domain, resting, working, waiting) \
             WHERE lease.project = $1 AND lease.task = p.task AND lease.token = p.token AND lease.ended_how IS NULL \
             AND lease.renewals < p.renewals",
            &[
                &pulses.iter().map(|(task, ..)| task.to_string()).collect::<Vec<_>>(),
                &pulses.iter().map(|(_, token, _)| to_sql(token.0)).collect::<Vec<_>>(),
                &column(pulses, |pulse| pulse.last.wall_ms),
                &column(pulses, |pulse| pulse.last.tick_ms),
                &column(pulses, |pulse| domain(&pulse.last)),
                &column(pulses, |pulse| to_sql(pulse.renewals)),
                &of_deadline(pulses, |deadline| deadline.wall_ms),
                &of_deadline(pulses, |deadline| deadline.tick_ms),
                &of_deadline(pulses, domain),
                &column(pulses, |pulse| pulse.progress.wall_ms),
                &column(pulses, |pulse| pulse.progress.tick_ms),
                &column(pulses, |pulse| domain(&pulse.progress)),
                &column(pulses, |pulse| pulse.resting),
                &column(pulses, |pulse| working(&pulse.work)),
                &column(pulses, |pulse| waiting(&pulse.work.waiting, pulse.work.waited_ms)),
            ],
            Expect::RowsOrRetry(pulses.len() as u64),
        )
    }

    fn erase(&mut self, key: TextKey) -> Result<()> {
        let now_ms = self.now().wall_ms;
        write::erase(self, key, now_ms)
    }

    fn savepoint(&mut self) -> Result<()> {
        self.parts.push((self.scopes, self.last_event.clone()));
        self.batch("SAVEPOINT part")
    }

    fn release(&mut self) -> Result<()> {
        self.parts.pop();
        self.batch("RELEASE part")
    }

    /// Locks taken since the savepoint are released.
    fn undo(&mut self) -> Result<()> {
        if let Some(found) = self.parts.pop() {
            (self.scopes, self.last_event) = found;
        }
        self.batch("ROLLBACK TO part; RELEASE part")
    }
}
