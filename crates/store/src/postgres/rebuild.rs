//! Rebuilding every row from the ledger (P5).
//!
//! The ledger is read stream by stream; each is folded in memory, compared with its rows, and what differs is written
//! anew, all in one transaction that has the project alone: others wait meanwhile, or give up when their time is over.
//! A rebuild that is killed has changed nothing.
//!
//! **A row is a witness.** Its head says which event it has seen last. If the ledger has no such event, the ledger is what
//! was damaged, and rebuilding the row would destroy the only evidence inside the store: it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use onus_core::apply::{ProjectFold, TaskFold};
use onus_core::ids::{Token, Uid};
use onus_core::lease::Lease;
use onus_core::task::Task;
use onus_core::text::TextKey;

use crate::near::rows_of;
use crate::sqlite::rebuild::{Fold, add};
use crate::{Progress, Rebuilt, Result, StoreError};

use super::rows::{
    self, Columns, EVENT_COLUMNS, INSERT_LEASE, INSERT_TASK, LEASE_COLUMNS, TASK_COLUMNS, UPDATE_TASK,
    parsed, to_sql, unsigned, with_lease, with_task,
};
use super::session::{Mode, Session};
use super::{PostgresStore, failed};

/// The longest that one statement of a rebuild may take.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3_600);

/// How many events are read at a time.
const PAGE: i64 = 5_000;

/// The tables whose rows follow from the ledger, as a report lists them.
const TABLES: [&str; 8] = ["project", "actor", "alias", "task", "lease", "dep", "scope", "search"];

pub(super) fn rebuild(store: &mut PostgresStore, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
    let mut session = store.session(Mode::Alone);
    session.connection.set_patience(LONG);
    let outcome = session.say("SET LOCAL statement_timeout = 0").and_then(|()| {
        let mut comparison = Comparison { session: &mut session, mends: true, changed: BTreeMap::new() };
        let events = comparison.run(progress)?;
        let changed = comparison.report();
        let tasks = session.number("SELECT COUNT(*) FROM task WHERE project = $1", &[])?;
        Ok(Rebuilt { events, tasks, changed })
    });
    let ended = match outcome.is_ok() {
        true => store.connection.commit("COMMIT", None).and_then(|committed| committed),
        false => {
            store.connection.rollback();
            Ok(())
        }
    };
    store.connection.set_patience(store.address.patience());
    let rebuilt = outcome?;
    ended.map_err(|trouble| failed(trouble, &store.address))?;
    Ok(rebuilt)
}

/// What a rebuild would change, from one snapshot and without changing it: how many rows differ, by table.
pub(super) fn differing(session: &mut Session<'_>) -> Result<Vec<(String, u64)>> {
    let mut comparison = Comparison { session, mends: false, changed: BTreeMap::new() };
    comparison.run(&mut |_| {})?;
    Ok(comparison.report())
}

struct Comparison<'a, 's> {
    session: &'a mut Session<'s>,
    mends: bool,
    changed: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Comparison<'_, '_> {
    fn differs(&mut self, table: &'static str, row: impl ToString) {
        self.changed.entry(table).or_default().insert(row.to_string());
    }

    fn report(&self) -> Vec<(String, u64)> {
        let count = |table: &&'static str| Some(((*table).to_owned(), self.changed.get(table)?.len() as u64));
        TABLES.iter().filter_map(count).collect()
    }

    fn run(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<u64> {
        let total = self.session.number("SELECT COUNT(*) FROM event WHERE project = $1", &[])?;
        // Before anything is mended: a row that contradicts the ledger is the only evidence.
        self.hear_witnesses()?;
        let project = self.session.stream.to_owned();
        let (mut after, mut events) = ((String::new(), 0_i64), 0);
        let mut current: Option<(String, Fold, onus_core::chain::Record)> = None;
        let mut whole: Vec<Fold> = Vec::new();
        loop {
            let page = self.session.all(
                &format!(
                    "SELECT {EVENT_COLUMNS} FROM event WHERE project = $1 AND (stream, version) > ($2, $3) \
                     ORDER BY stream, version LIMIT $4"
                ),
                &[&after.0, &after.1, &PAGE],
                |row| Ok((row.try_get::<_, String>("stream")?, rows::record(row, &project)?)),
            )?;
            let Some((stream, last)) = page.last() else { break };
            after = (stream.clone(), to_sql(last.version));
            events += page.len() as u64;
            for (stream, record) in page {
                let (mut fold, previous) = match current.take() {
                    Some((name, fold, previous)) if name == stream => (fold, Some(previous)),
                    finished => {
                        whole.extend(finished.map(|(_, fold, _)| fold));
                        let fresh = match record.task {
                            Some(_) => Fold::Task(TaskFold::default()),
                            None => Fold::Project(ProjectFold::default()),
                        };
                        (fresh, None)
                    }
                };
                add(&mut fold, &record, previous.as_ref()).map_err(|why| StoreError::Tampered {
                    stream: stream.clone(),
                    version: record.version,
                    why,
                })?;
                current = Some((stream, fold, record));
            }
            self.compare(std::mem::take(&mut whole))?;
            progress(Progress { done: events, total });
        }
        whole.extend(current.map(|(_, fold, _)| fold));
        self.compare(whole)?;
        self.strays()?;
        self.counts()?;
        progress(Progress { done: total, total });
        Ok(events)
    }

    fn compare(&mut self, folds: Vec<Fold>) -> Result<()> {
        let mut tasks = Vec::new();
        for fold in folds {
            match fold {
                Fold::Project(fold) => self.compare_project(&fold)?,
                Fold::Task(fold) => tasks.push(fold),
            }
        }
        if tasks.is_empty() { Ok(()) } else { self.compare_tasks(&tasks) }
    }

    fn compare_project(&mut self, fold: &ProjectFold) -> Result<()> {
        use crate::Read as _;
        let there = self.session.project()?;
        if let Some(project) = fold.project.as_ref().filter(|project| **project != there) {
            // Its head is a witness; the rest of it is mended.
            self.differs("project", project.uid);
            if self.mends {
                self.session.run(
                    "UPDATE project SET prefix = $2, created_at_ms = $3, version = $4, head = $5 WHERE project = $1",
                    &[
                        &project.prefix.as_str(),
                        &project.created_at_ms,
                        &to_sql(project.version.0),
                        &project.head,
                    ],
                )?;
            }
        }
        let actors: BTreeMap<_, _> =
            self.session.actors()?.into_iter().map(|actor| (actor.name.clone(), actor)).collect();
        for name in differing_keys(&fold.actors, &actors) {
            self.differs("actor", &name);
            if !self.mends {
                continue;
            }
            self.session.run("DELETE FROM actor WHERE project = $1 AND name = $2", &[&name.as_str()])?;
            if let Some(actor) = fold.actors.get(&name) {
                self.session.run(
                    "INSERT INTO actor (project, name, tier, registered_at_ms) VALUES ($1, $2, $3, $4)",
                    &[&actor.name.as_str(), &i64::from(actor.tier.0), &actor.registered_at_ms],
                )?;
            }
        }
        let aliases: BTreeMap<_, _> = self.session.aliases()?.into_iter().collect();
        for alias in differing_keys(&fold.aliases, &aliases) {
            self.differs("alias", &alias);
            if !self.mends {
                continue;
            }
            self.session.run("DELETE FROM alias WHERE project = $1 AND alias = $2", &[&alias.as_str()])?;
            if let Some(actor) = fold.aliases.get(&alias) {
                self.session.run(
                    "INSERT INTO alias (project, alias, actor) VALUES ($1, $2, $3)",
                    &[&alias.as_str(), &actor.as_str()],
                )?;
            }
        }
        Ok(())
    }

    fn compare_tasks(&mut self, folds: &[TaskFold]) -> Result<()> {
        let uids: Vec<String> =
            folds.iter().filter_map(|fold| Some(fold.task.as_ref()?.uid.to_string())).collect();
        let mut there = self.there(&uids)?;
        for fold in folds {
            let Some(task) = &fold.task else { continue };
            let rows = there.remove(&task.uid).unwrap_or_default();
            self.compare_row(task, rows.task.as_ref(), rows.ends)?;
            self.compare_leases(task.uid, fold, &rows)?;
            self.compare_edges(task.uid, fold, &rows)?;
            self.compare_texts(task.uid, fold, &rows)?;
        }
        Ok(())
    }

    fn compare_row(&mut self, task: &Task, there: Option<&Task>, ends: Ends) -> Result<()> {
        let mut expected = task.clone();
        if let Some(there) = there {
            // What rows count of their neighbours is counted anew at the end.
            expected.counts = there.counts;
            if *there == expected && ends == Ends::of(task) {
                return Ok(());
            }
        }
        self.differs("task", task.uid);
        if !self.mends {
            return Ok(());
        }
        match there {
            Some(there) if there.number == task.number && there.origin == task.origin => {
                with_task(&expected, Columns::Changes, |values| self.session.run(&UPDATE_TASK, values))
                    .map(drop)
            }
            _ => {
                self.session
                    .run("DELETE FROM task WHERE project = $1 AND uid = $2", &[&task.uid.to_string()])?;
                with_task(&expected, Columns::All, |values| self.session.run(&INSERT_TASK, values)).map(drop)
            }
        }
    }

    fn compare_leases(&mut self, task: Uid, fold: &TaskFold, rows: &Rows) -> Result<()> {
        let mut leases = fold.leases.clone();
        for (token, lease) in &mut leases {
            // Not history, and carried over: the pulse of each lease that has not ended.
            if let Some(there) =
                rows.leases.get(token).filter(|there| there.ended.is_none() && lease.ended.is_none())
            {
                lease.pulse = there.pulse.clone();
            }
        }
        for token in differing_keys(&leases, &rows.leases) {
            self.differs("lease", format!("{task} {token}"));
            if !self.mends {
                continue;
            }
            self.session.run(
                "DELETE FROM lease WHERE project = $1 AND task = $2 AND token = $3",
                &[&task.to_string(), &to_sql(token.0)],
            )?;
            if let Some(lease) = leases.get(&token) {
                with_lease(lease, |values| self.session.run(&INSERT_LEASE, values))?;
            }
        }
        let mut scopes: BTreeMap<ScopeKey, bool> = BTreeMap::new();
        for (token, scope) in &fold.scopes {
            let held = fold.leases.get(token).is_some_and(|lease| lease.ended.is_none());
            scopes.extend(rows_of(scope).map(|(glob, anchor)| ((*token, glob.to_owned(), anchor), held)));
        }
        for key in differing_keys(&scopes, &rows.scopes) {
            let (token, glob, anchor) = (to_sql(key.0.0), &key.1, &key.2);
            self.differs("scope", format!("{task} {token} {glob} {anchor}"));
            if !self.mends {
                continue;
            }
            self.session.run(
                "DELETE FROM scope WHERE project = $1 AND task = $2 AND token = $3 AND glob = $4 AND anchor = $5",
                &[&task.to_string(), &token, glob, anchor],
            )?;
            if let Some(held) = scopes.get(&key) {
                self.session.run(
                    "INSERT INTO scope (project, task, token, glob, anchor, held) VALUES ($1, $2, $3, $4, $5, $6)",
                    &[&task.to_string(), &token, glob, anchor, held],
                )?;
            }
        }
        Ok(())
    }

    fn compare_edges(&mut self, task: Uid, fold: &TaskFold, rows: &Rows) -> Result<()> {
        for upstream in fold.deps.symmetric_difference(&rows.deps) {
            self.differs("dep", format!("{task} {upstream}"));
            if !self.mends {
                continue;
            }
            let sql = if fold.deps.contains(upstream) {
                "INSERT INTO dep (project, task, needs) VALUES ($1, $2, $3)"
            } else {
                "DELETE FROM dep WHERE project = $1 AND task = $2 AND needs = $3"
            };
            self.session.run(sql, &[&task.to_string(), &upstream.to_string()])?;
        }
        Ok(())
    }

    fn compare_texts(&mut self, task: Uid, fold: &TaskFold, rows: &Rows) -> Result<()> {
        for ((version, field), (indexed, has_words)) in &rows.texts {
            let should_be = fold.indexed.iter().any(|TextKey { version: at, field: of, .. }| {
                to_sql(at.0) == *version && of.as_str() == field
            });
            if *indexed == should_be && (*has_words || !should_be) {
                continue;
            }
            self.differs("search", format!("{task} {version} {field}"));
            if !self.mends {
                continue;
            }
            let place = [&task.to_string() as super::connection::Value<'_>, version, field];
            let body = self.session.one(
                "SELECT body FROM text WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4",
                &place,
                |row| Ok(row.try_get::<_, String>(0)?),
            )?;
            let words = super::search::vector(&body.unwrap_or_default());
            self.session.run(
                "UPDATE text SET indexed = $5, words = $6::text::tsvector \
                 WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4",
                &[place[0], place[1], place[2], &should_be, &words],
            )?;
        }
        Ok(())
    }

    /// The rows of these tasks.
    fn there(&mut self, uids: &[String]) -> Result<BTreeMap<Uid, Rows>> {
        let uids = uids.to_vec();
        let mut there: BTreeMap<Uid, Rows> = BTreeMap::new();
        let tasks = self.session.all(
            &format!("SELECT {TASK_COLUMNS} FROM task WHERE project = $1 AND uid = ANY($2)"),
            &[&uids],
            |row| {
                // One that cannot be read is one that differs.
                Ok((
                    rows::task(row).ok(),
                    Ends { met: row.try_get("met")?, finished: row.try_get("finished")? },
                ))
            },
        )?;
        for (task, ends) in tasks {
            let Some(task) = task else { continue };
            let rows = there.entry(task.uid).or_default();
            rows.ends = ends;
            rows.task = Some(task);
        }
        for lease in self.session.all(
            &format!("SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 AND task = ANY($2)"),
            &[&uids],
            rows::lease,
        )? {
            there.entry(lease.task).or_default().leases.insert(lease.token, lease);
        }
        for (task, token, glob, anchor, held) in self.session.all(
            "SELECT task, token, glob, anchor, held FROM scope WHERE project = $1 AND task = ANY($2)",
            &[&uids],
            |row| {
                let token = Token(unsigned(row.try_get(1)?)?);
                Ok((
                    parsed::<Uid>(row.try_get(0)?)?,
                    token,
                    row.try_get(2)?,
                    row.try_get(3)?,
                    row.try_get(4)?,
                ))
            },
        )? {
            there.entry(task).or_default().scopes.insert((token, glob, anchor), held);
        }
        for (task, needs) in self.session.all(
            "SELECT task, needs FROM dep WHERE project = $1 AND task = ANY($2)",
            &[&uids],
            |row| Ok((parsed::<Uid>(row.try_get(0)?)?, parsed::<Uid>(row.try_get(1)?)?)),
        )? {
            there.entry(task).or_default().deps.insert(needs);
        }
        for (task, version, field, indexed, has_words) in self.session.all(
            "SELECT stream, version, field, indexed, words IS NOT NULL FROM text WHERE project = $1 AND stream = ANY($2)",
            &[&uids],
            |row| {
                Ok((parsed::<Uid>(row.try_get(0)?)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?))
            },
        )? {
            there.entry(task).or_default().texts.insert((version, field), (indexed, has_words));
        }
        Ok(there)
    }

    /// Refuses if a row has seen an event that the ledger does not have.
    fn hear_witnesses(&mut self) -> Result<()> {
        let contradicted = self.session.one(
            "SELECT row.uid, row.version, event.hash IS NULL, \
                 (SELECT COALESCE(MAX(version), 0) + 1 FROM event AS last WHERE last.project = $1 AND last.stream = row.uid) \
             FROM (SELECT uid, version, head FROM task WHERE project = $1 \
                 UNION ALL SELECT uid, version, head FROM project WHERE project = $1) AS row \
             LEFT JOIN event ON event.project = $1 AND event.stream = row.uid AND event.version = row.version \
             WHERE event.hash IS DISTINCT FROM row.head LIMIT 1",
            &[],
            |row| {
                let stream: String = row.try_get(0)?;
                Ok(match row.try_get(2)? {
                    true => (stream, row.try_get::<_, i64>(3)?, "its row has seen it, and it is missing"),
                    false => (stream, row.try_get(1)?, "its row has seen another in its place"),
                })
            },
        )?;
        match contradicted {
            None => Ok(()),
            Some((stream, version, why)) => Err(StoreError::Tampered {
                stream,
                version: u64::try_from(version).unwrap_or_default(),
                why: why.to_owned(),
            }),
        }
    }

    /// Rows of tasks that there are not.
    fn strays(&mut self) -> Result<()> {
        for table in ["lease", "dep", "scope"] {
            let of_nobody = format!(
                "FROM {table} WHERE project = $1 AND NOT EXISTS \
                 (SELECT 1 FROM task WHERE task.project = $1 AND task.uid = {table}.task)"
            );
            let found: Vec<String> =
                self.session
                    .all(&format!("SELECT DISTINCT task {of_nobody}"), &[], |row| Ok(row.try_get(0)?))?;
            for task in &found {
                self.differs(table, task);
            }
            if self.mends && !found.is_empty() {
                self.session.run(&format!("DELETE {of_nobody}"), &[])?;
            }
        }
        Ok(())
    }

    /// What each row counts of its neighbours, and the last number.
    fn counts(&mut self) -> Result<()> {
        const COUNTED: &str = "(SELECT task.uid, \
            (SELECT COUNT(*) FROM dep JOIN task AS up ON up.project = $1 AND up.uid = dep.needs \
                WHERE dep.project = $1 AND dep.task = task.uid AND NOT up.met) AS unmet, \
            (SELECT COUNT(*) FROM dep JOIN task AS down ON down.project = $1 AND down.uid = dep.task \
                WHERE dep.project = $1 AND dep.needs = task.uid AND NOT down.finished) AS open_dependents, \
            (SELECT COUNT(*) FROM task AS child WHERE child.project = $1 AND child.parent = task.uid \
                AND NOT child.finished) AS open_children \
            FROM task WHERE task.project = $1) AS counted";
        const DIFFERS: &str = "task.project = $1 AND task.uid = counted.uid \
            AND (task.unmet, task.open_dependents, task.open_children) \
            <> (counted.unmet, counted.open_dependents, counted.open_children)";
        let wrong: Vec<String> = self.session.all(
            &format!("SELECT task.uid FROM task, {COUNTED} WHERE {DIFFERS}"),
            &[],
            |row| Ok(row.try_get(0)?),
        )?;
        for uid in &wrong {
            self.differs("task", uid);
        }
        if self.mends && !wrong.is_empty() {
            self.session.run(
                &format!(
                    "UPDATE task SET unmet = counted.unmet, open_dependents = counted.open_dependents, \
                     open_children = counted.open_children FROM {COUNTED} WHERE {DIFFERS}"
                ),
                &[],
            )?;
        }
        const LAST: &str = "(SELECT COALESCE(MAX(number), 0) FROM task WHERE task.project = $1)";
        let project = self.session.stream.to_owned();
        let is_wrong = self.session.number(
            &format!("SELECT COUNT(*) FROM project WHERE project = $1 AND last_number <> {LAST}"),
            &[],
        )?;
        if is_wrong > 0 {
            self.differs("project", project);
            if self.mends {
                self.session
                    .run(&format!("UPDATE project SET last_number = {LAST} WHERE project = $1"), &[])?;
            }
        }
        Ok(())
    }
}

/// A token, a glob and one of its anchors.
type ScopeKey = (Token, String, String);

/// What a task's row says that follows from its state.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Ends {
    met: bool,
    finished: bool,
}

impl Ends {
    fn of(task: &Task) -> Ends {
        Ends { met: task.is_met(), finished: task.state.is_finished() }
    }
}

/// The rows of one task.
#[derive(Default)]
struct Rows {
    task: Option<Task>,
    ends: Ends,
    leases: BTreeMap<Token, Lease>,
    scopes: BTreeMap<ScopeKey, bool>,
    deps: BTreeSet<Uid>,
    /// Which are searchable, and whether the index has their words.
    texts: BTreeMap<(i64, String), (bool, bool)>,
}

/// The keys under which the two do not have the same.
fn differing_keys<K: Ord + Clone, V: PartialEq>(expected: &BTreeMap<K, V>, there: &BTreeMap<K, V>) -> Vec<K> {
    let keys: BTreeSet<&K> = expected.keys().chain(there.keys()).collect();
    keys.into_iter().filter(|key| expected.get(key) != there.get(key)).cloned().collect()
}
