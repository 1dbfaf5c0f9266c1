//! The queries that both stores answer alike: the list of all of them, and those about tasks, texts and
//! requests. Each function implements the method of that name in [`crate::Read`].

use onus_core::actor::ActorName;
use onus_core::apply::Project;
use onus_core::ids::{Number, TaskRef, Uid, Version};
use onus_core::task::{Origin, Priority, State, Task};
use onus_core::text::TextKey;

use crate::{After, Filter, KeptRequest, Result, StoreError, StoredText};

use super::columns::{PROJECT_COLUMNS, REQUEST_COLUMNS, SELECT_TASK_ROWS, SELECT_TASKS, SELECT_TEXTS};
use super::sql::sql;
use super::{Ask as _, Dialect, Sql, Statements, Value, decode, values};

/// How many tasks an ambiguous reference may list.
const CANDIDATES: i64 = 10;

/// The methods that both stores share, for their `impl Read`, in a module that uses all of the crate root.
macro_rules! shared_reads {
    () => {
        fn walk_ready(
            &mut self,
            asker: Option<&ActorName>,
            tier: Tier,
            due_ms: i64,
            visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
        ) -> Result<()> {
            let visit = &mut |session: &mut Self, task| visit(session, task);
            $crate::rows::graph::walk_ready(self, asker, tier, due_ms, visit)
        }

        $crate::rows::delegate! { $crate::rows::read =>
            fn project() -> Project;
            fn resolve(reference: &TaskRef) -> Vec<Uid>;
            fn task(uid: Uid) -> Option<Task>;
            fn task_by_origin(origin: &Origin) -> Option<Uid>;
            fn list(filter: &Filter, after: Option<After>, limit: u64) -> Vec<Task>;
            fn count_by_state() -> Vec<(State, u64)>;
            fn count_ad_hoc() -> u64;
            fn text(key: TextKey) -> Option<StoredText>;
            fn same_texts(stream: Uid, words: &str) -> Vec<TextKey>;
            fn texts(stream: Uid, version: Version) -> Vec<StoredText>;
            fn last_number() -> Number;
            fn request(actor: &ActorName, key: &str) -> Option<KeptRequest>;
            fn requests() -> Vec<(ActorName, String, KeptRequest)>;
        }
        $crate::rows::delegate! { $crate::rows::lease =>
            fn lease(task: Uid, token: Token) -> Option<Lease>;
            fn latest_lease_of(task: Uid, actor: &ActorName, instance: &InstanceId) -> Option<Lease>;
            fn open_leases(limit: u64) -> Vec<(Task, Lease)>;
            fn held_by(actor: &ActorName, instance: &InstanceId) -> Vec<(Uid, Token)>;
            fn leases_ended_by(actor: &ActorName, instance: &InstanceId, since_ms: i64) -> Vec<Lease>;
            fn leases_lost_by(actor: &ActorName, instance: &InstanceId) -> Vec<Lease>;
            fn rescues(state: Option<RescueState>, limit: u64) -> Vec<Lease>;
            fn losses() -> Vec<Loss>;
            fn touched_in(worktree: Option<&WorktreeId>) -> Vec<Glob>;
            fn leases_in(worktree: &WorktreeId) -> Vec<Lease>;
            fn held_above(task: Uid, token: Token, actor: &ActorName) -> bool;
            fn indefinite_leases(actor: &ActorName) -> (u64, u64);
            fn scope_of(task: Uid, token: Token) -> Reservations;
            fn scope_len(task: Uid, token: Token) -> usize;
        }
        $crate::rows::delegate! { $crate::rows::actor =>
            fn actor(name: &ActorName) -> Option<Actor>;
            fn alias(name: &ActorName) -> Option<ActorName>;
            fn actors() -> Vec<Actor>;
            fn aliases() -> Vec<(ActorName, ActorName)>;
            fn instance(actor: &ActorName, instance: &InstanceId) -> Option<KnownInstance>;
            fn instances(limit: u64) -> Vec<KnownInstance>;
            fn instances_of(process: &Process, limit: u64) -> Vec<KnownInstance>;
            fn running_parts(actor: &ActorName, instance: &InstanceId) -> Vec<KnownInstance>;
        }
        $crate::rows::delegate! { $crate::rows::news =>
            fn notes_left_on(lease: &Lease, since_ms: i64) -> Vec<NoteLeft>;
            fn wishes_for(task: Uid, since_ms: i64) -> Vec<Wish>;
            fn notices_for(actor: &ActorName, instance: &InstanceId) -> Vec<PendingNotice>;
            fn notices() -> Vec<PendingNotice>;
        }
        $crate::rows::delegate! { $crate::rows::graph =>
            fn next_due(after_ms: i64) -> Option<i64>;
            fn neighbours(task: Uid, direction: Direction) -> Vec<Uid>;
            fn neighbour_numbers(task: Uid, direction: Direction) -> Vec<Number>;
            fn closure(task: Uid, direction: Direction) -> Vec<Uid>;
            fn edges(finished: bool) -> Vec<(Uid, Uid)>;
            fn waits_for(task: Uid) -> Vec<Uid>;
            fn does_wait_for(task: Uid, other: Uid) -> bool;
            fn unmet(task: Uid, limit: u64) -> Vec<Task>;
            fn children(task: Uid) -> Vec<Number>;
            fn unfinished_children(task: Uid, limit: u64) -> Vec<Task>;
        }
        $crate::rows::delegate! { $crate::rows::seat =>
            fn seat(uid: Uid) -> Option<Seat>;
            fn seat_named(name: &SeatName) -> Option<Seat>;
            fn seats(which: Seats, limit: u64) -> Vec<Seat>;
            fn last_seat() -> Number;
        }
        $crate::rows::delegate! { $crate::rows::stretch =>
            fn work_in(window: Window, after: Option<&WorkRow>, limit: u64) -> Vec<WorkRow>;
            fn stretches_of(task: Uid, token: Token) -> Vec<Recorded>;
            fn finished_in(window: Window, after: Option<&Finished>, limit: u64) -> Vec<Finished>;
        }
        $crate::rows::delegate! { $crate::rows::usage =>
            fn usage_in(window: Window, after: Option<&Used>, limit: u64) -> Vec<Used>;
            fn usage_of(task: Uid, token: Token) -> Vec<UsageRow>;
        }
        $crate::rows::delegate! { $crate::rows::commit =>
            fn commits_of(task: Uid) -> Vec<CommitRow>;
            fn commits_under(task: Uid, token: Token) -> Vec<CommitRow>;
            fn commit_made(commit: &CommitId) -> Vec<CommitRow>;
        }
        $crate::rows::delegate! { $crate::rows::judgement =>
            fn judgements_of(task: Uid, limit: u64) -> Vec<JudgementRow>;
            fn to_land(limit: u64) -> Vec<Task>;
            fn branched(limit: u64) -> Vec<Task>;
            fn task_of_branch(branch: &str) -> Option<Task>;
        }
        $crate::rows::delegate! { $crate::rows::ledger =>
            fn events(query: &EventQuery) -> Vec<Record>;
            fn event(stream: Uid, version: Version) -> Option<Record>;
            fn notes(task: Uid) -> Vec<Record>;
            fn count_events() -> u64;
            fn ledger_page(after: Option<&(String, u64)>, limit: u64) -> Vec<LedgerLine>;
            fn stray_text() -> Option<(String, u64)>;
            fn head(stream: &str) -> Option<StreamHead>;
            fn walk_heads(visit: &mut dyn FnMut(StreamHead) -> Result<()>) -> ();
        }
    };
}
pub(crate) use shared_reads;

pub(crate) fn project(session: &mut dyn Statements) -> Result<Project> {
    session
        .one(sql!("SELECT ", PROJECT_COLUMNS, " FROM project{ WHERE project = $1}"), &[], decode::project)?
        .ok_or_else(no_project)
}

pub(crate) fn no_project() -> StoreError {
    StoreError::Damaged("it has no project".to_owned())
}

/// A text greater than every ASCII text that begins with `start`.
fn beyond(start: &str) -> String {
    format!("{start}\u{7f}")
}

pub(crate) fn resolve(session: &mut dyn Statements, reference: &TaskRef) -> Result<Vec<Uid>> {
    match reference {
        TaskRef::Number(number) => {
            session.uids(sql!("SELECT uid FROM task WHERE {project = $1 AND }number = ?1"), values![*number])
        }
        TaskRef::Id { prefix, number } => session.uids(
            sql!(
                "SELECT uid FROM task WHERE {project = $1 AND }number = ?1 \
                 AND EXISTS (SELECT 1 FROM project WHERE {project.project = $1 AND }prefix = ?2)"
            ),
            values![*number, prefix.as_str()],
        ),
        TaskRef::Part(part) => {
            let start = TaskRef::hyphenated_start(part);
            let end = TaskRef::hyphenated_end_reversed(part);
            let (after_start, after_end) = (beyond(&start), beyond(&end));
            session.uids(
                sql!(
                    "SELECT uid FROM (SELECT uid FROM task \
                     WHERE {project = $1 AND }uid >= ?1 AND uid < ?2 LIMIT ?5) AS by_start \
                     UNION SELECT uid FROM (SELECT uid FROM task \
                     WHERE {project = $1 AND }uid_reversed >= ?3 AND uid_reversed < ?4 LIMIT ?5) AS by_end LIMIT ?5"
                ),
                values![start, after_start, end, after_end, CANDIDATES],
            )
        }
        TaskRef::External { system, reference } => session.uids(
            sql!(
                "SELECT task FROM ref WHERE {project = $1 AND }system = ?1 AND reference = ?2 \
                 ORDER BY task LIMIT ?3"
            ),
            values![system.as_str(), reference.as_str(), CANDIDATES],
        ),
    }
}

pub(crate) fn task(session: &mut dyn Statements, uid: Uid) -> Result<Option<Task>> {
    session.one(sql!(SELECT_TASK_ROWS, " WHERE {project = $1 AND }uid = ?1"), values![uid], decode::task)
}

pub(crate) fn task_by_origin(session: &mut dyn Statements, origin: &Origin) -> Result<Option<Uid>> {
    session.one(
        sql!("SELECT uid FROM task WHERE {project = $1 AND }origin = ?1"),
        values![origin.as_str()],
        |cells| cells.parsed(),
    )
}

/// Lists tasks by priority, then number. Reads a range of the index for each priority, so that a late page
/// costs no more than the first.
pub(crate) fn list(
    session: &mut dyn Statements,
    filter: &Filter,
    after: Option<After>,
    limit: u64,
) -> Result<Vec<Task>> {
    let (sql, conditions) = filtered(session.dialect(), filter);
    let priorities = Priority::ALL.iter().copied();
    let mut tasks = Vec::new();
    for priority in priorities
        .filter(|priority| after.is_none_or(|after| *priority >= after.priority))
        .filter(|priority| filter.priority.is_none_or(|only| only == *priority))
    {
        let left = limit - tasks.len() as u64;
        if left == 0 {
            break;
        }
        let last = after.filter(|after| after.priority == priority).map_or(Number(0), |after| after.number);
        let first = [Value::from(priority.as_str()), last.into(), left.into()];
        let all: Vec<Value<'_>> = first.into_iter().chain(conditions.iter().cloned()).collect();
        tasks.extend(session.all(Sql::only(&sql), &all, decode::task)?);
    }
    Ok(tasks)
}

/// The statement that lists the tasks of one priority after a number, up to a limit (these are its first
/// three parameters), and the values of its other parameters.
fn filtered(dialect: Dialect, filter: &Filter) -> (String, Vec<Value<'_>>) {
    const LISTED: Sql<'static> =
        sql!(SELECT_TASKS, " WHERE {project = $1 AND }priority = ?1 AND number > ?2");
    const TAG: Sql<'static> = sql!(
        " AND EXISTS (SELECT 1 FROM [json_each(tags)]{jsonb_array_elements_text(tags::jsonb) AS tag (value)} \
         WHERE value = "
    );
    const HOLDER: Sql<'static> = sql!(
        " AND leased AND uid IN (SELECT task FROM lease[ INDEXED BY lease_unended] \
         WHERE {lease.project = $1 AND }ended_how IS NULL AND actor = "
    );
    let conditions: [(Sql<'_>, Value<'_>, &str); 9] = [
        (Sql::only(" AND type = "), filter.kind.map(|kind| kind.as_str()).into(), ""),
        (Sql::only(" AND owner = "), filter.owner.as_ref().into(), ""),
        (Sql::only(" AND area = "), filter.area.as_deref().into(), ""),
        (Sql::only(" AND iteration = "), filter.iteration.as_deref().into(), ""),
        (Sql::only(" AND origin = "), filter.origin.as_ref().map(|origin| origin.as_str()).into(), ""),
        (TAG, filter.tag.as_deref().into(), ")"),
        (HOLDER, filter.holder.as_ref().into(), ")"),
        (Sql::only(" AND kept_actor = "), filter.kept_for.as_ref().into(), ""),
        (Sql::only(" AND ad_hoc = "), filter.ad_hoc.into(), ""),
    ];
    let (mut sql, mut values) = (LISTED.of(dialect).to_owned(), Vec::new());
    let next = |values: &[Value<'_>]| dialect.mark(values.len() + 4);
    for (before, value, behind) in conditions.into_iter().filter(|(_, value, _)| *value != Value::Null) {
        sql.push_str(&format!("{}{}{behind}", before.of(dialect), next(&values)));
        values.push(value);
    }
    if !filter.states.is_empty() {
        let mut marks = Vec::new();
        for state in &filter.states {
            marks.push(next(&values));
            values.push(state.as_str().into());
        }
        sql.push_str(&format!(" AND state IN ({})", marks.join(", ")));
    } else if !filter.finished {
        sql.push_str(" AND NOT finished");
    }
    if filter.waiting {
        sql.push_str(" AND (state = 'blocked' OR (state = 'open' AND (unmet > 0 OR open_children > 0)))");
    }
    sql.push_str(&format!(" ORDER BY number LIMIT {}", dialect.mark(3)));
    (sql, values)
}

pub(crate) fn count_by_state(session: &mut dyn Statements) -> Result<Vec<(State, u64)>> {
    session.all(
        sql!("SELECT state, COUNT(*) FROM task WHERE {project = $1 AND }NOT ad_hoc GROUP BY state"),
        &[],
        |cells| Ok((cells.parsed()?, cells.get()?)),
    )
}

pub(crate) fn count_ad_hoc(session: &mut dyn Statements) -> Result<u64> {
    session.number(sql!("SELECT COUNT(*) FROM task WHERE {project = $1 AND }ad_hoc AND NOT finished"), &[])
}

pub(crate) fn text(session: &mut dyn Statements, key: TextKey) -> Result<Option<StoredText>> {
    session.one(
        sql!(SELECT_TEXTS, " WHERE {project = $1 AND }stream = ?1 AND version = ?2 AND field = ?3"),
        values![key.stream, key.version, key.field],
        decode::stored_text,
    )
}

pub(crate) fn same_texts(session: &mut dyn Statements, stream: Uid, words: &str) -> Result<Vec<TextKey>> {
    session.all(
        sql!("SELECT version, field FROM text WHERE {project = $1 AND }stream = ?1 AND body = ?2 ORDER BY version, field"),
        values![stream, words],
        |cells| Ok(TextKey { stream, version: cells.get()?, field: cells.parsed()? }),
    )
}

pub(crate) fn texts(session: &mut dyn Statements, stream: Uid, version: Version) -> Result<Vec<StoredText>> {
    session.all(
        sql!(SELECT_TEXTS, " WHERE {project = $1 AND }stream = ?1 AND version = ?2"),
        values![stream, version],
        decode::stored_text,
    )
}

pub(crate) fn last_number(session: &mut dyn Statements) -> Result<Number> {
    session.number(sql!("SELECT last_number FROM project{ WHERE project = $1}"), &[]).map(Number)
}

pub(crate) fn request(
    session: &mut dyn Statements,
    actor: &ActorName,
    key: &str,
) -> Result<Option<KeptRequest>> {
    session.one(
        sql!("SELECT ", REQUEST_COLUMNS, " FROM request WHERE {project = $1 AND }actor = ?1 AND key = ?2"),
        values![actor, key],
        decode::kept_request,
    )
}

pub(crate) fn requests(session: &mut dyn Statements) -> Result<Vec<(ActorName, String, KeptRequest)>> {
    session.all(
        sql!(
            "SELECT actor, key, ",
            REQUEST_COLUMNS,
            " FROM request{ WHERE project = $1} ORDER BY actor, key"
        ),
        &[],
        |cells| Ok((cells.parsed()?, cells.get()?, decode::kept_request(cells)?)),
    )
}
