//! The columns of each table, in one list for reading, writing and rebuilding, in every store; and the values
//! of a task's or a lease's row, in the order of its list.

use onus_core::lease::Lease;
use onus_core::stretch::{Stretch, Work};
use onus_core::task::{State, Task};

use super::sql::{Sql, Writer, sql};
use super::value::Value;

/// A text written by a function at compile time.
macro_rules! made {
    ($write:ident($($argument:expr),+)) => {{
        const TEXT: [u8; $write($($argument),+, &mut [])] = {
            let mut out = [0; $write($($argument),+, &mut [])];
            $write($($argument),+, &mut out);
            out
        };
        $crate::rows::sql::as_text(&TEXT)
    }};
}
pub(super) use made;

#[rustfmt::skip]
pub(crate) const TASK: [&str; 57] = [
    "number", "uid", "uid_reversed", "version", "head", "state", "type", "priority", "required_tier",
    "area", "iteration", "owner", "tags", "refs", "link", "title_version", "body_version", "word_version", "origin",
    "created_at_ms", "created_by", "updated_at_ms", "started_at_ms", "completed_at_ms", "acceptance", "token", "leased", "opened_token", "kept_actor",
    "kept_wall_ms", "kept_tick_ms", "kept_domain", "kept_version", "submitter", "dropped_from", "parent", "relates",
    "not_before_ms", "max_attempts", "scope", "scope_areas", "mode", "constraints", "gates", "ad_hoc", "attempts", "effort_ms", "fenced_token", "branch", "branch_name", "landing", "landed", "met",
    "finished", "unmet", "open_children", "open_dependents",
];

#[rustfmt::skip]
pub(crate) const LEASE: [&str; 42] = [
    "holds", "task", "token", "actor", "instance", "tier", "acquired_at_ms", "tick_ms", "domain", "ttl_ms",
    "max_hold_ms", "process", "worktree", "worktree_id", "branch", "mode", "constraints", "reserve", "handoff_version", "version",
    "active_ms", "stretches", "waited_ms", "last_wall_ms", "last_tick_ms",
    "last_domain", "progress_wall_ms", "progress_tick_ms", "progress_domain", "renewals",
    "deadline_wall_ms", "deadline_tick_ms", "deadline_domain", "resting", "working", "waiting",
    "reviewed_at_ms", "ended_how", "ended_at_ms", "ended_version", "rescue", "rescue_version",
];

pub(crate) const TASK_COLUMNS: &str = made!(joined(&TASK, ", "));
pub(crate) const LEASE_COLUMNS: &str = made!(joined(&LEASE, ", "));

pub(crate) const EVENT_COLUMNS: &str =
    "seq, uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, prev, hash";

/// A row of what a lease reserves; there is one for each anchor of its glob.
pub(crate) const SCOPE_COLUMNS: &str = "task, token, glob, kind, area, worktree, part, changed";

pub(crate) const TEXT_COLUMNS: &str = "stream, version, field, salt, body";

pub(crate) const INSTANCE_COLUMNS: &str = "actor, instance, machine, boot, pid_ns, time_ns, pid, start, seen_at_ms, \
    pgid, in_turn, wants_task, wants_path, wants_worktree, wants_at_ms, registered_at_ms, ended_at_ms, read";

pub(crate) const NOTICE_COLUMNS: &str = "actor, instance, task, token, kind, path, by_actor, by_instance, by_task, \
    worktree, branch, at_ms";

pub(crate) const PROJECT_COLUMNS: &str = "uid, prefix, created_at_ms, version, head";

pub(crate) const REQUEST_COLUMNS: &str = "digest, salt, verb, task, token, at_ms";

pub(crate) const SELECT_TASKS: &str = made!(joined(&["SELECT ", TASK_COLUMNS, " FROM task"], ""));
pub(crate) const SELECT_LEASES: &str = made!(joined(&["SELECT ", LEASE_COLUMNS, " FROM lease"], ""));
pub(crate) const SELECT_INSTANCES: &str = made!(joined(&["SELECT ", INSTANCE_COLUMNS, " FROM instance"], ""));
pub(crate) const SELECT_EVENTS: &str = made!(joined(&["SELECT ", EVENT_COLUMNS, " FROM event"], ""));
pub(crate) const SELECT_TEXTS: &str = made!(joined(&["SELECT ", TEXT_COLUMNS, " FROM text"], ""));
pub(crate) const SELECT_NOTICES: &str = made!(joined(&["SELECT ", NOTICE_COLUMNS, " FROM notice"], ""));

/// Whole rows. In SQLite, preparing each name in a statement costs as much as reading its value, so its tables
/// have their columns in the order of these lists (a test compares them) and `*` selects them.
pub(crate) const SELECT_TASK_ROWS: &str = made!(joined(&["SELECT [*]{", TASK_COLUMNS, "} FROM task"], ""));
pub(crate) const SELECT_LEASE_ROWS: &str = made!(joined(&["SELECT [*]{", LEASE_COLUMNS, "} FROM lease"], ""));
pub(crate) const SELECT_INSTANCE_ROWS: &str =
    made!(joined(&["SELECT [*]{", INSTANCE_COLUMNS, "} FROM instance"], ""));

/// A lease's sign of life: written beside the ledger while the lease is live.
pub(crate) const PULSE: [&str; 13] = [
    "last_wall_ms",
    "last_tick_ms",
    "last_domain",
    "progress_wall_ms",
    "progress_tick_ms",
    "progress_domain",
    "renewals",
    "deadline_wall_ms",
    "deadline_tick_ms",
    "deadline_domain",
    "resting",
    "working",
    "waiting",
];

/// Columns of a task that never change: number, uid, origin and how it was created.
const TASK_CONSTANTS: [&str; 6] = ["number", "uid", "uid_reversed", "origin", "created_at_ms", "created_by"];

/// Counters of a task's neighbours. They change only relatively, so no update sets them.
pub(crate) const TASK_COUNTS: [&str; 3] = ["unmet", "open_children", "open_dependents"];

/// Columns that most events change. SQLite rewrites each index that a changed column *might* be in, and
/// preparing a column costs more than writing it, so this list has only those that are needed.
const TASK_MOVES: [&str; 18] = [
    "word_version",
    "version",
    "head",
    "state",
    "updated_at_ms",
    "started_at_ms",
    "token",
    "leased",
    "opened_token",
    "kept_actor",
    "kept_wall_ms",
    "kept_tick_ms",
    "kept_domain",
    "kept_version",
    "submitter",
    "attempts",
    "effort_ms",
    "fenced_token",
];

/// The columns of a task that an event may change.
const CHANGES: [bool; TASK.len()] = {
    let mut changes = [true; TASK.len()];
    let mut at = 0;
    while at < TASK.len() {
        changes[at] = !is_among(TASK[at], &TASK_CONSTANTS) && !is_among(TASK[at], &TASK_COUNTS);
        at += 1;
    }
    changes
};

/// The columns changed by an event that neither finishes nor edits the task.
const MOVES: [bool; TASK.len()] = {
    let mut moves = [true; TASK.len()];
    let mut at = 0;
    while at < TASK.len() {
        moves[at] = is_among(TASK[at], &TASK_MOVES);
        at += 1;
    }
    moves
};

/// Preparing an `UPDATE` costs a third of preparing an upsert, and nearly every change is to an existing
/// task.
pub(crate) const UPDATE_TASK: Sql<'static> =
    sql!("UPDATE task SET ", made!(assignments(&CHANGES)), " WHERE {project = $1 AND }number = ?1");

pub(crate) const MOVE_TASK: Sql<'static> =
    sql!("UPDATE task SET ", made!(assignments(&MOVES)), " WHERE {project = $1 AND }number = ?1");

pub(crate) const INSERT_TASK: Sql<'static> =
    sql!("INSERT INTO task {(project, ", TASK_COLUMNS, ") }VALUES ({$1, }", made!(marks(TASK.len())), ")");

pub(crate) const INSERT_LEASE: Sql<'static> =
    sql!("INSERT INTO lease {(project, ", LEASE_COLUMNS, ") }VALUES ({$1, }", made!(marks(LEASE.len())), ")");

/// The values of [`UPDATE_TASK`].
pub(crate) fn changes_of(task: &Task) -> Vec<Value<'_>> {
    chosen(task, &CHANGES)
}

/// The values of [`MOVE_TASK`].
pub(crate) fn moves_of(task: &Task) -> Vec<Value<'_>> {
    chosen(task, &MOVES)
}

fn chosen<'a>(task: &'a Task, which: &[bool; TASK.len()]) -> Vec<Value<'a>> {
    let kept = task_values(task).into_iter().zip(which).filter(|(_, kept)| **kept);
    [task.number.into()].into_iter().chain(kept.map(|(value, _)| value)).collect()
}

/// The open stretch of a lease, as its row has it.
pub(crate) fn working(work: &Work) -> Option<String> {
    work.open.as_ref().map(json)
}

/// The ended stretches of a lease that are not recorded yet, as its row has them, and how long a person was
/// waited for.
pub(crate) fn waiting(stretches: &[Stretch], waited_ms: i64) -> String {
    json(&(stretches, waited_ms))
}

pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Puts each value in the place of its column.
fn in_order<'a, const N: usize>(columns: &[&str; N], named: [(&str, Value<'a>); N]) -> [Value<'a>; N] {
    debug_assert!(columns.iter().eq(named.iter().map(|(name, _)| name)), "{columns:?}");
    named.map(|(_, value)| value)
}

pub(crate) fn task_values(task: &Task) -> [Value<'_>; TASK.len()] {
    let (facts, kept) = (&task.facts, task.kept.as_ref());
    let named = [
        ("number", task.number.into()),
        ("uid", task.uid.into()),
        ("uid_reversed", task.uid.to_string().chars().rev().collect::<String>().into()),
        ("version", task.version.into()),
        ("head", task.head.as_str().into()),
        ("state", task.state.as_str().into()),
        ("type", facts.kind.as_str().into()),
        ("priority", facts.priority.as_str().into()),
        ("required_tier", facts.required_tier.into()),
        ("area", facts.area.as_deref().into()),
        ("iteration", facts.iteration.as_deref().into()),
        ("owner", facts.owner.as_ref().into()),
        ("tags", json(&facts.tags).into()),
        ("refs", json(&facts.refs).into()),
        ("link", facts.link.as_deref().into()),
        ("title_version", task.title_version.into()),
        ("body_version", task.body_version.into()),
        ("word_version", task.word_version.into()),
        ("origin", task.origin.as_ref().map(|origin| origin.as_str()).into()),
        ("created_at_ms", task.created_at_ms.into()),
        ("created_by", (&task.created_by).into()),
        ("updated_at_ms", task.updated_at_ms.into()),
        ("started_at_ms", task.started_at_ms.into()),
        ("completed_at_ms", task.completed_at_ms.into()),
        ("acceptance", json(&task.acceptance).into()),
        ("token", task.token.into()),
        ("leased", task.leased.into()),
        ("opened_token", task.opened_token.into()),
        ("kept_actor", kept.map(|kept| &kept.actor).into()),
        ("kept_wall_ms", kept.map(|kept| kept.until.wall_ms).into()),
        ("kept_tick_ms", kept.map(|kept| kept.until.tick_ms).into()),
        ("kept_domain", kept.map(|kept| kept.until.domain.as_str()).into()),
        ("kept_version", kept.map(|kept| kept.version).into()),
        ("submitter", task.submitter.as_ref().into()),
        ("dropped_from", task.dropped_from.map(State::as_str).into()),
        ("parent", facts.parent.into()),
        ("relates", json(&facts.relates).into()),
        ("not_before_ms", facts.not_before_ms.into()),
        ("max_attempts", facts.max_attempts.into()),
        ("scope", json(&facts.scope).into()),
        ("scope_areas", json(&facts.scope_areas).into()),
        ("mode", facts.mode.as_str().into()),
        ("constraints", json(&facts.constraints).into()),
        ("gates", Some(&facts.gates).filter(|gates| !gates.is_empty()).map(json).into()),
        ("ad_hoc", facts.ad_hoc.into()),
        ("attempts", task.attempts.into()),
        ("effort_ms", task.effort_ms.into()),
        ("fenced_token", task.fenced_token.into()),
        ("branch", task.branch.as_ref().map(json).into()),
        ("branch_name", task.branch.as_ref().map(|own| own.branch.as_str()).into()),
        ("landing", Some(&task.landing).filter(|landing| !landing.is_settled()).map(json).into()),
        ("landed", task.landing.landed.as_ref().map(json).into()),
        ("met", task.is_met().into()),
        ("finished", task.state.is_finished().into()),
        ("unmet", task.counts.unmet.into()),
        ("open_children", task.counts.open_children.into()),
        ("open_dependents", task.counts.open_dependents.into()),
    ];
    in_order(&TASK, named)
}

pub(crate) fn lease_values(lease: &Lease) -> [Value<'_>; LEASE.len()] {
    let (grant, pulse, ended) = (&lease.grant, &lease.pulse, lease.ended.as_ref());
    let deadline = pulse.deadline.as_ref();
    let named = [
        ("holds", lease.holds.as_str().into()),
        ("task", lease.task.into()),
        ("token", lease.token.into()),
        ("actor", (&lease.actor).into()),
        ("instance", (&lease.instance).into()),
        ("tier", grant.tier.into()),
        ("acquired_at_ms", lease.acquired_at_ms.into()),
        ("tick_ms", grant.tick_ms.into()),
        ("domain", grant.domain.as_str().into()),
        ("ttl_ms", grant.ttl_ms.into()),
        ("max_hold_ms", grant.max_hold_ms.into()),
        ("process", grant.process.as_ref().map(json).into()),
        ("worktree", grant.worktree.as_deref().into()),
        ("worktree_id", grant.worktree_id.as_ref().map(|id| id.as_str()).into()),
        ("branch", grant.branch.as_deref().into()),
        ("mode", grant.mode.as_str().into()),
        ("constraints", json(&grant.constraints).into()),
        ("reserve", grant.reserve.into()),
        ("handoff_version", grant.handoff_version.into()),
        ("version", lease.version.into()),
        ("active_ms", lease.worked.active_ms.into()),
        ("stretches", lease.worked.stretches.into()),
        ("waited_ms", lease.worked.waited_ms.into()),
        ("last_wall_ms", pulse.last.wall_ms.into()),
        ("last_tick_ms", pulse.last.tick_ms.into()),
        ("last_domain", pulse.last.domain.as_str().into()),
        ("progress_wall_ms", pulse.progress.wall_ms.into()),
        ("progress_tick_ms", pulse.progress.tick_ms.into()),
        ("progress_domain", pulse.progress.domain.as_str().into()),
        ("renewals", pulse.renewals.into()),
        ("deadline_wall_ms", deadline.map(|deadline| deadline.wall_ms).into()),
        ("deadline_tick_ms", deadline.map(|deadline| deadline.tick_ms).into()),
        ("deadline_domain", deadline.map(|deadline| deadline.domain.as_str()).into()),
        ("resting", pulse.resting.into()),
        ("working", working(&pulse.work).into()),
        ("waiting", waiting(&pulse.work.waiting, pulse.work.waited_ms).into()),
        ("reviewed_at_ms", lease.reviewed_at_ms.into()),
        ("ended_how", ended.map(|ended| ended.how.as_str()).into()),
        ("ended_at_ms", ended.map(|ended| ended.at_ms).into()),
        ("ended_version", ended.map(|ended| ended.version).into()),
        ("rescue", lease.rescue.map(|rescue| rescue.state.as_str()).into()),
        ("rescue_version", lease.rescue.map(|rescue| rescue.version).into()),
    ];
    in_order(&LEASE, named)
}

/// Texts, one after the other, with something between them.
pub(super) const fn joined(texts: &[&str], between: &str, out: &mut [u8]) -> usize {
    let mut writer = Writer::new(out);
    let mut at = 0;
    while at < texts.len() {
        writer.text(if at > 0 { between } else { "" });
        writer.text(texts[at]);
        at += 1;
    }
    writer.length()
}

/// The placeholders of this many parameters.
const fn marks(count: usize, out: &mut [u8]) -> usize {
    let mut writer = Writer::new(out);
    let mut at = 0;
    while at < count {
        writer.text(if at > 0 { ", ?" } else { "?" });
        writer.number(at + 1);
        at += 1;
    }
    writer.length()
}

/// Assignments of new values to some columns of a task; `?1` is the task's number.
const fn assignments(which: &[bool; TASK.len()], out: &mut [u8]) -> usize {
    let mut writer = Writer::new(out);
    let (mut at, mut number) = (0, 1);
    while at < TASK.len() {
        if which[at] {
            number += 1;
            writer.text(if number > 2 { ", " } else { "" });
            writer.text(TASK[at]);
            writer.text(" = ?");
            writer.number(number);
        }
        at += 1;
    }
    writer.length()
}

const fn is_among(name: &str, names: &[&str]) -> bool {
    let mut at = 0;
    while at < names.len() {
        if is_same(name.as_bytes(), names[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
