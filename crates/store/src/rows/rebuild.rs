//! Derives every row from the ledger again (P5), to compare the rows or to repair them.
//!
//! The ledger is read stream by stream, and each stream is folded in memory. The folds of a page say which
//! rows the tables must have for a range of streams; the rows of that range are compared with them, cell by
//! cell. When everything has been compared, the rows that differ are deleted and inserted again.
//!
//! A rebuild first compares within a snapshot, while others write. Only if something differs does it compare
//! again, now excluding other writers, and repair. A rebuild that is killed has changed nothing.
//!
//! **A row is a witness.** Its head names the last event that it has seen. If the ledger has no such event,
//! it is the ledger that was damaged: a tail was cut off, or an event replaced. Rebuilding the row would
//! destroy the only evidence inside the store, so the rebuild is refused.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::apply::{Misplaced, ProjectFold, SeatFold, TaskFold};
use onus_core::chain::Record;
use onus_core::ids::Version;
use onus_core::text::{Field, TextKey};

use crate::{Finding, Progress, Rebuilt, Result, StoreError};

use super::columns::{PROJECT_COLUMNS, lease_values, task_values};
use super::seat::seat_values;
use super::sql::sql;
use super::tables::{
    ACTOR, ALIAS, COMMITS, DEPS, JUDGEMENTS, LEASES, REFS, RowValues, SCOPES, SEATS, STRETCHES, TASKS, Table,
    USAGE, is_same,
};
use super::write::PUT_PROJECT;
use super::{
    Ask as _, Cells, Sql, Statements, Value, commit, decode, judgement, ledger, near, stretch, usage, values,
};

/// How many events are read at a time.
const PAGE: u64 = 5_000;

/// Greater than any text.
const END: &str = "\u{10ffff}";

/// The place of a text, as in its row.
pub(crate) type TextPlace = (String, i64, String);

const PROJECT: &str = "project";
/// The name of the search index in a report.
const SEARCH: &str = "search";

/// Every table that is compared, in the order of a report: without its name here, its rows would not be repaired.
const REPORTED: [&str; 14] = [
    PROJECT,
    ACTOR.name,
    ALIAS.name,
    TASKS.name,
    SEATS.name,
    LEASES.name,
    STRETCHES.name,
    USAGE.name,
    COMMITS.name,
    JUDGEMENTS.name,
    DEPS.name,
    REFS.name,
    SCOPES.name,
    SEARCH,
];

/// The first event of a seat's stream.
pub(crate) const SEAT_CREATED: &str = "seat.created";

/// Whether to only compare, or to repair as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Compare,
    Mend,
}

/// Compares every row with the ledger, and repairs what differs if that is the purpose.
pub(crate) fn run(
    session: &mut dyn Statements,
    purpose: Purpose,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt> {
    let total = ledger::count_events(session)?;
    check_witnesses(session)?;
    let mut comparison = Comparison { session, differing: BTreeMap::new(), mending: Mending::default() };
    let events = comparison.walk(&mut |done| progress(Progress { done, total }))?;
    if purpose == Purpose::Mend {
        std::mem::take(&mut comparison.mending).apply(comparison.session)?;
    }
    comparison.counts(purpose)?;
    progress(Progress { done: total, total });
    let changed = comparison.report();
    let tasks = session.number(sql!("SELECT COUNT(*) FROM task{ WHERE project = $1}"), &[])?;
    Ok(Rebuilt { events, tasks, changed })
}

/// The finding of [`crate::Store::check`] about the rows.
pub(crate) fn finding(compared: Result<Rebuilt>) -> Result<Finding> {
    let name = "rows";
    match compared.map(|rebuilt| rebuilt.changed) {
        Ok(none) if none.is_empty() => {
            Ok(Finding { name, ok: true, detail: "match the ledger".to_owned(), mendable: true })
        }
        Ok(differing) => {
            let counts: Vec<String> =
                differing.iter().map(|(table, rows)| format!("{rows} of {table}")).collect();
            let detail = format!("{} differ from the ledger", counts.join(", "));
            Ok(Finding { name, ok: false, detail, mendable: true })
        }
        // The rows do not show which of the two is right.
        Err(error @ StoreError::Tampered { .. }) => {
            Ok(Finding { name, ok: false, detail: error.to_string(), mendable: false })
        }
        Err(error) => Err(error),
    }
}

/// Refuses if a row has seen an event that the ledger does not have, or if more numbers were assigned than
/// the ledger has tasks, or seats: some were removed with all their events.
fn check_witnesses(session: &mut dyn Statements) -> Result<()> {
    let contradicted = session.one(
        sql!(
            "SELECT row.uid, row.version, event.hash IS NULL, (SELECT COALESCE(MAX(version), 0) + 1 \
                 FROM event AS last WHERE {last.project = $1 AND }last.stream = row.uid) \
             FROM (SELECT uid, version, head FROM task{ WHERE project = $1} \
                 UNION ALL SELECT uid, version, head FROM seat{ WHERE project = $1} \
                 UNION ALL SELECT uid, version, head FROM project{ WHERE project = $1}) AS row \
             LEFT JOIN event ON {event.project = $1 AND }event.stream = row.uid AND event.version = row.version \
             WHERE event.hash IS DISTINCT FROM row.head LIMIT 1"
        ),
        &[],
        |cells| {
            let (stream, version) = cells.place(0, 1);
            cells.skip(2);
            let (is_missing, next): (bool, u64) = (cells.get()?, cells.get()?);
            Ok(match is_missing {
                true => (stream, next, "its row has seen it, but it is missing"),
                false => (stream, version, "its row has seen a different event in its place"),
            })
        },
    )?;
    if let Some((stream, version, why)) = contradicted {
        return Err(StoreError::Tampered { stream, version, why: why.to_owned() });
    }
    const CREATED: &str = "(SELECT COUNT(*) FROM event WHERE {event.project = $1 AND }kind = ";
    let counted = session.one(
        sql!(
            "SELECT uid, version, last_number, ",
            CREATED,
            "'task.created'), last_seat, ",
            CREATED,
            "'seat.created') FROM project{ WHERE project = $1}"
        ),
        &[],
        |cells| {
            let (stream, version): (String, u64) = (cells.get()?, cells.get()?);
            let tasks: (&str, u64, u64) = ("tasks", cells.get()?, cells.get()?);
            Ok((stream, version, [tasks, ("seats", cells.get()?, cells.get()?)]))
        },
    )?;
    let Some((stream, version, counts)) = counted else { return Ok(()) };
    match counts.into_iter().find(|(_, given, there)| given > there) {
        Some((what, given, there)) => {
            let why = format!(
                "{given} numbers were assigned to {what}, but the ledger has {there} {what}: some were removed"
            );
            Err(StoreError::Tampered { stream, version, why })
        }
        None => Ok(()),
    }
}

enum Fold {
    Project(ProjectFold),
    Seat(SeatFold),
    Task(TaskFold),
}

impl Fold {
    fn of(first: &Record) -> Fold {
        match first.task {
            Some(_) if first.kind == SEAT_CREATED => Fold::Seat(SeatFold::default()),
            Some(_) => Fold::Task(TaskFold::default()),
            None => Fold::Project(ProjectFold::default()),
        }
    }

    /// Adds one event, if it follows the one before it.
    fn add(&mut self, record: &Record, previous: Option<&Record>) -> std::result::Result<(), String> {
        let (version, hash) = previous.map_or((0, ""), |previous| (previous.version, previous.hash.as_str()));
        if record.version != version + 1 {
            return Err(format!("event {} is missing before it", version + 1));
        }
        if record.prev != hash || record.hash != record.expected_hash() {
            return Err("its hash does not match".to_owned());
        }
        let event = record.to_event().map_err(|error| error.to_string())?;
        let misplaced = |error: Misplaced| error.to_string();
        match self {
            Fold::Project(fold) => fold.add(&event).map_err(misplaced),
            Fold::Seat(fold) => fold.add(&event).map_err(misplaced),
            Fold::Task(fold) => fold.add(&event).map_err(misplaced),
        }
    }
}

/// Rows to delete and to insert. All deletions come first: two rows may have swapped places.
#[derive(Default)]
struct Mending {
    out: Vec<(&'static Table, RowValues)>,
    put: Vec<(&'static Table, RowValues)>,
    project: Option<RowValues>,
    texts: Vec<(TextPlace, bool)>,
}

impl Mending {
    fn apply(self, session: &mut dyn Statements) -> Result<()> {
        let dialect = session.dialect();
        let out = self.out.into_iter().map(|(table, key)| (table.delete(dialect), key));
        let put = self.put.into_iter().map(|(table, row)| (table.insert(dialect), row));
        for (sql, values) in out.chain(put) {
            session.run(Sql::only(&sql), &values)?;
        }
        if let Some(project) = self.project {
            session.run(PUT_PROJECT, &project)?;
        }
        if self.texts.is_empty() { Ok(()) } else { session.mend_index(&self.texts) }
    }
}

struct Comparison<'a> {
    session: &'a mut dyn Statements,
    /// The keys of the rows that differ, by table.
    differing: BTreeMap<&'static str, BTreeSet<RowValues>>,
    mending: Mending,
}

impl Comparison<'_> {
    fn differs(&mut self, table: &'static str, key: RowValues) {
        self.differing.entry(table).or_default().insert(key);
    }

    fn report(&self) -> Vec<(String, u64)> {
        let count =
            |table: &&'static str| Some(((*table).to_owned(), self.differing.get(table)?.len() as u64));
        REPORTED.iter().filter_map(count).collect()
    }

    /// Folds the whole ledger, and compares. Returns the number of events.
    fn walk(&mut self, report: &mut dyn FnMut(u64)) -> Result<u64> {
        let (mut after, mut events) = ((String::new(), 0), 0);
        let mut current: Option<(String, Fold, Record)> = None;
        // The folds of complete streams, and the first stream of their range.
        let (mut whole, mut from) = (Vec::new(), String::new());
        loop {
            let page = ledger::events_page(self.session, (&after.0, after.1), PAGE)?;
            let Some((stream, last)) = page.last() else { break };
            after = (stream.clone(), last.version);
            events += page.len() as u64;
            let mut until = None;
            for (stream, record) in page {
                let (mut fold, previous) = match current.take() {
                    Some((name, fold, previous)) if name == stream => (fold, Some(previous)),
                    finished => {
                        if let Some((name, fold, _)) = finished {
                            whole.push(fold);
                            until = Some(name);
                        }
                        (Fold::of(&record), None)
                    }
                };
                fold.add(&record, previous.as_ref()).map_err(|why| StoreError::Tampered {
                    stream: stream.clone(),
                    version: record.version,
                    why,
                })?;
                current = Some((stream, fold, record));
            }
            if let Some(until) = until {
                self.compare(std::mem::take(&mut whole), &from, &until)?;
                // The smallest possible stream after that one.
                from = format!("{until}\u{1}");
            }
            report(events);
        }
        whole.extend(current.map(|(_, fold, _)| fold));
        self.compare(whole, &from, END)?;
        Ok(events)
    }

    /// Compares the rows of a range of streams.
    fn compare(&mut self, folds: Vec<Fold>, from: &str, until: &str) -> Result<()> {
        let (mut tasks, mut seats) = (Vec::new(), Vec::new());
        for fold in folds {
            match fold {
                Fold::Project(fold) => self.compare_project(&fold)?,
                Fold::Seat(fold) => {
                    seats.extend(fold.seat);
                    tasks.push(fold.held);
                }
                Fold::Task(fold) => tasks.push(fold),
            }
        }
        let range = (from, until);
        let rows = tasks.iter().filter_map(|fold| fold.task.as_ref()).map(|task| owned(task_values(task)));
        self.compare_table(&TASKS, range, rows)?;
        self.compare_table(&SEATS, range, seats.iter().map(|seat| owned(seat_values(seat))))?;
        let leases = tasks.iter().flat_map(|fold| fold.leases.values());
        self.compare_table(&LEASES, range, leases.map(|lease| owned(lease_values(lease))))?;
        let stretches = tasks.iter().flat_map(|fold| &fold.stretches);
        self.compare_table(&STRETCHES, range, stretches.map(|row| owned(stretch::row_values(row))))?;
        let usage = tasks.iter().flat_map(|fold| &fold.usage);
        self.compare_table(&USAGE, range, usage.map(|row| owned(usage::row_values(row))))?;
        let commits = tasks.iter().flat_map(|fold| &fold.commits);
        self.compare_table(&COMMITS, range, commits.map(|row| owned(commit::row_values(row))))?;
        let judgements = tasks.iter().flat_map(|fold| &fold.judgements);
        self.compare_table(&JUDGEMENTS, range, judgements.map(|row| owned(judgement::row_values(row))))?;
        self.compare_table(&DEPS, range, tasks.iter().flat_map(dep_rows))?;
        self.compare_table(&REFS, range, tasks.iter().flat_map(ref_rows))?;
        self.compare_table(&SCOPES, range, tasks.iter().flat_map(scope_rows))?;
        self.compare_texts(range, &tasks.iter().flat_map(|fold| fold.indexed.iter().copied()).collect())
    }

    fn compare_project(&mut self, fold: &ProjectFold) -> Result<()> {
        let everything = ("", END);
        let actors = fold.actors.values();
        let rows = actors
            .map(|actor| owned([Value::from(&actor.name), actor.tier.into(), actor.registered_at_ms.into()]));
        self.compare_table(&ACTOR, everything, rows)?;
        let aliases = fold.aliases.iter().map(|(alias, actor)| owned([alias.into(), actor.into()]));
        self.compare_table(&ALIAS, everything, aliases)?;
        let Some(project) = &fold.project else { return Ok(()) };
        let expected = owned([
            project.uid.into(),
            project.prefix.as_str().into(),
            project.created_at_ms.into(),
            project.version.into(),
            project.head.as_str().into(),
        ]);
        let mut is_there = false;
        let sql = sql!("SELECT ", PROJECT_COLUMNS, " FROM project{ WHERE project = $1}");
        self.session.ask(sql, &[], &mut |row| {
            is_there = expected
                .iter()
                .enumerate()
                .all(|(at, value)| is_same(value, &row.value(at).unwrap_or(Value::Null)));
            Ok(false)
        })?;
        if !is_there {
            // The head has been checked as a witness; the rest of the row is repaired.
            self.differs(PROJECT, Vec::new());
            self.mending.project = Some(expected);
        }
        Ok(())
    }

    fn compare_table(
        &mut self,
        table: &'static Table,
        (from, until): (&str, &str),
        rows: impl Iterator<Item = RowValues>,
    ) -> Result<()> {
        let places = table.places();
        let key_of = |row: &RowValues| -> RowValues { places.iter().map(|at| row[*at].clone()).collect() };
        let mut expected: BTreeMap<RowValues, RowValues> = rows.map(|row| (key_of(&row), row)).collect();
        let (mut wrong, mut out, mut put) = (Vec::new(), Vec::new(), Vec::new());
        let select = table.select(self.session.dialect());
        self.session.ask(Sql::only(&select), values![from, until], &mut |row| {
            let there: RowValues =
                (0..row.len()).map(|at| row.value(at).unwrap_or(Value::Null).into_owned()).collect();
            let key = key_of(&there);
            // What nobody can read is not worth carrying over.
            let is_readable = table.name != "lease" || decode::lease(&mut Cells::of(row)).is_ok();
            let right = expected.remove(&key).map(|mut right| {
                if is_readable {
                    table.carry_over(&mut right, &there);
                }
                right
            });
            if right.as_ref().is_some_and(|right| right.iter().zip(&there).all(|(r, t)| is_same(r, t))) {
                return Ok(true);
            }
            out.push((table, key.clone()));
            wrong.push(key);
            put.extend(right.map(|right| (table, right)));
            Ok(true)
        })?;
        for (key, right) in expected {
            wrong.push(key);
            put.push((table, right));
        }
        wrong.into_iter().for_each(|key| self.differs(table.name, key));
        self.mending.out.extend(out);
        self.mending.put.extend(put);
        Ok(())
    }

    /// Compares which texts are searchable, and whether the index has their words.
    fn compare_texts(&mut self, (from, until): (&str, &str), indexed: &BTreeSet<TextKey>) -> Result<()> {
        let mut wrong = Vec::new();
        let sql = sql!(
            "SELECT stream, version, field, indexed, {words IS NOT NULL}[true] FROM text \
             WHERE {project = $1 AND }stream >= ?1 AND stream <= ?2"
        );
        self.session.ask(sql, values![from, until], &mut |row| {
            let mut cells = Cells::of(row);
            let place: TextPlace = (row.lossy(0), row.integer(1)?.unwrap_or_default(), row.lossy(2));
            cells.skip(4);
            let has_words: bool = cells.get()?;
            let should_be = key_of(&place).is_some_and(|key| indexed.contains(&key));
            if !is_same(&Value::Bool(should_be), &row.value(3).unwrap_or(Value::Null))
                || (should_be && !has_words)
            {
                wrong.push((place, should_be));
            }
            Ok(true)
        })?;
        for (place, should_be) in wrong {
            let (stream, version, field) = place.clone();
            self.differs(SEARCH, vec![stream.into(), version.into(), field.into()]);
            self.mending.texts.push((place, should_be));
        }
        Ok(())
    }

    /// Compares the counters of each row, and the last numbers.
    fn counts(&mut self, purpose: Purpose) -> Result<()> {
        const UNMET: &str = "(SELECT COUNT(*) FROM dep JOIN task AS up ON {up.project = $1 AND }up.uid = dep.needs \
            WHERE {dep.project = $1 AND }dep.task = task.uid AND NOT up.met)";
        const OPEN_CHILDREN: &str = "(SELECT COUNT(*) FROM task AS child \
            WHERE {child.project = $1 AND }child.parent = task.uid AND NOT child.finished)";
        const OPEN_DEPENDENTS: &str = "(SELECT COUNT(*) FROM dep JOIN task AS down \
            ON {down.project = $1 AND }down.uid = dep.task \
            WHERE {dep.project = $1 AND }dep.needs = task.uid AND NOT down.finished)";
        const MISCOUNTED: &str = " WHERE {project = $1 AND }(unmet, open_children, open_dependents) <> (";
        let wrong = self.session.all(
            sql!("SELECT uid FROM task", MISCOUNTED, UNMET, ", ", OPEN_CHILDREN, ", ", OPEN_DEPENDENTS, ")"),
            &[],
            |cells| cells.get::<String>(),
        )?;
        let is_wrong = !wrong.is_empty();
        wrong.into_iter().for_each(|uid| self.differs(TASKS.name, vec![uid.into()]));
        if is_wrong && purpose == Purpose::Mend {
            self.session.run(
                sql!(
                    "UPDATE task SET unmet = ",
                    UNMET,
                    ", open_children = ",
                    OPEN_CHILDREN,
                    ", open_dependents = ",
                    OPEN_DEPENDENTS,
                    MISCOUNTED,
                    UNMET,
                    ", ",
                    OPEN_CHILDREN,
                    ", ",
                    OPEN_DEPENDENTS,
                    ")"
                ),
                &[],
            )?;
        }
        const LAST: &str = "(SELECT COALESCE(MAX(number), 0) FROM task{ WHERE task.project = $1})";
        const LAST_SEAT: &str = "(SELECT COALESCE(MAX(number), 0) FROM seat{ WHERE seat.project = $1})";
        let is_wrong = self.session.number(
            sql!(
                "SELECT COUNT(*) FROM project WHERE {project = $1 AND }(last_number, last_seat) <> (",
                LAST,
                ", ",
                LAST_SEAT,
                ")"
            ),
            &[],
        )?;
        if is_wrong > 0 {
            self.differs(PROJECT, Vec::new());
            if purpose == Purpose::Mend {
                self.session.run(
                    sql!(
                        "UPDATE project SET last_number = ",
                        LAST,
                        ", last_seat = ",
                        LAST_SEAT,
                        "{ WHERE project = $1}"
                    ),
                    &[],
                )?;
            }
        }
        Ok(())
    }
}

fn owned<const N: usize>(row: [Value<'_>; N]) -> RowValues {
    row.into_iter().map(Value::into_owned).collect()
}

fn dep_rows(fold: &TaskFold) -> impl Iterator<Item = RowValues> {
    let task = fold.task.as_ref().map(|task| task.uid);
    fold.deps.iter().map(move |upstream| owned([task.into(), (*upstream).into()]))
}

fn ref_rows(fold: &TaskFold) -> impl Iterator<Item = RowValues> {
    fold.task.iter().flat_map(|task| {
        let refs = task.facts.refs.iter();
        refs.map(|(system, reference)| {
            owned([task.uid.into(), system.as_str().into(), reference.as_str().into()])
        })
    })
}

fn scope_rows(fold: &TaskFold) -> impl Iterator<Item = RowValues> {
    fold.scopes.iter().flat_map(|(token, scope)| {
        let lease = fold.leases.get(token);
        let task = lease.map(|lease| lease.task);
        let held = lease.is_some_and(|lease| lease.ended.is_none());
        near::rows_of(scope).map(move |row| {
            owned([
                task.into(),
                (*token).into(),
                row.glob.into(),
                row.anchor.into(),
                row.kind.into(),
                row.worktree.into(),
                row.area.into(),
                row.part.into(),
                row.changed.into(),
                held.into(),
            ])
        })
    })
}

/// The text at a place, if the place is a valid one.
fn key_of((stream, version, field): &TextPlace) -> Option<TextKey> {
    let (stream, field) = (stream.parse().ok()?, field.parse::<Field>().ok()?);
    Some(TextKey { stream, version: Version(u64::try_from(*version).ok()?), field })
}
