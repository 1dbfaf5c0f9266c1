//! The reads that this store does in its own way.

use tokio_postgres::Row;

use crate::rows::columns::{INSTANCE_COLUMNS, LEASE_COLUMNS, TEXT_COLUMNS};
use crate::rows::graph::NEEDS;
use crate::rows::read::{no_project, shared_reads};
use crate::rows::sql::sql;
use crate::rows::{self, Cells, Decoded, decode};
use crate::rows::{lease, news};
use crate::*;

use super::connection::Value;
use super::rows::{caller, to_sql};
use super::session::Session;
use super::{scope, search};

/// The texts of some versions, and the numbers of a task's dependencies.
const DETAILS: &str = sql!(
    "SELECT ",
    TEXT_COLUMNS,
    ", NULL::bigint AS number FROM text WHERE project = $1 AND stream = $2 AND version = ANY($3) \
     UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, number FROM (",
    NEEDS,
    ") AS needs"
)
.postgres;

fn details(rows: &[Row]) -> Decoded<Details> {
    let mut details = Details::default();
    for row in rows {
        let mut cells = Cells::of(row);
        if cells.is_null() {
            cells.skip(5);
            details.needs.push(cells.get()?);
        } else {
            details.texts.push(rows::stored_text(&mut cells)?);
        }
    }
    details.needs.sort_unstable();
    Ok(details)
}

/// Whether a holder has lost a lease and whether notices wait for it, which is rare; and, in further columns, the
/// leases that it holds. At least one row.
const HELD_AND_NEWS: &str = sql!(
    "SELECT has_lost, has_notices, ",
    LEASE_COLUMNS,
    " FROM (SELECT EXISTS (SELECT 1 FROM loss WHERE project = $1 AND actor = $2 AND instance = $3) AS has_lost, \
     EXISTS (SELECT 1 FROM notice WHERE project = $1 AND actor = $2 AND instance = $3) AS has_notices) AS news \
     LEFT JOIN lease ON project = $1 AND actor = $2 AND instance = $3 AND ended_how IS NULL ORDER BY acquired_at_ms, task"
)
.postgres;

/// In one statement, unlike the shared query. `lock` is how the losses are locked.
fn leases_lost(lock: &str) -> String {
    format!(
        "SELECT {LEASE_COLUMNS} FROM lease WHERE project = $1 AND (task, token) IN (SELECT task, token FROM loss \
         WHERE project = $1 AND actor = $2 AND instance = $3 ORDER BY task, token LIMIT $4{lock}) ORDER BY task, token"
    )
}

fn versions(shown: &Shown) -> Vec<i64> {
    shown.versions.iter().map(|version| to_sql(version.0)).collect()
}

fn decoded<T>(rows: &[Row], mut decode: impl FnMut(&mut Cells<'_>) -> Decoded<T>) -> Result<Vec<T>> {
    Ok(rows.iter().map(|row| decode(&mut Cells::of(row))).collect::<Decoded<_>>()?)
}

impl Read for Session<'_> {
    shared_reads!();

    fn now(&mut self) -> Moment {
        self.clock_now()
    }

    fn caller(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<CallerRows> {
        let instance_columns: Vec<String> =
            INSTANCE_COLUMNS.split(", ").map(|column| format!("instance.{column}")).collect();
        let sql = format!(
            "SELECT project.uid, prefix, created_at_ms, project.version, project.head, named.name, \
             actor.name, tier, actor.registered_at_ms, {} FROM project \
             CROSS JOIN (SELECT COALESCE((SELECT alias.actor FROM alias WHERE alias.project = $1 AND alias = $2), $2) \
                 COLLATE \"C\" AS name) AS named \
             LEFT JOIN actor ON actor.project = $1 AND actor.name = named.name \
             LEFT JOIN instance ON instance.project = $1 AND instance.actor = named.name AND instance.instance = $3 \
             WHERE project.project = $1",
            instance_columns.join(", ")
        );
        self.one(&sql, &[&actor.as_str(), &instance.as_str()], caller)?.ok_or_else(no_project)
    }

    /// In one round trip, or two if there is news.
    fn closing(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
        since_ms: Option<i64>,
        shown: Option<&Shown>,
        _: &[Lease],
    ) -> Result<ClosingRows> {
        let (actor, instance) = (actor.as_str(), instance.as_str());
        let (losses, notices, latest, wishes) =
            (to_sql(LOSSES), to_sql(NOTICES), to_sql(LATEST), to_sql(WISHES));
        let (uid, versions) =
            shown.map_or_else(Default::default, |shown| (shown.task.to_string(), versions(shown)));
        let holder: [Value<'_>; 2] = [&actor, &instance];
        let of_losses: [Value<'_>; 3] = [&actor, &instance, &losses];
        let of_notices: [Value<'_>; 3] = [&actor, &instance, &notices];
        let of_notes: [Value<'_>; 4] = [&actor, &instance, &since_ms, &latest];
        let of_wishes: [Value<'_>; 4] = [&actor, &instance, &since_ms, &wishes];
        let of_shown: [Value<'_>; 2] = [&uid, &versions];
        let mut questions: Vec<(&str, &[Value<'_>])> = vec![(HELD_AND_NEWS, &holder)];
        if since_ms.is_some() {
            questions.push((news::NOTES_LEFT.postgres, &of_notes));
            questions.push((news::WISHES_LEFT.postgres, &of_wishes));
        }
        if shown.is_some() {
            questions.push((DETAILS, &of_shown));
        }
        let mut answers = self.query_all(&questions)?.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let mut has_news = false;
        let held = decoded(&next(), |cells| {
            has_news = cells.get::<bool>()? | cells.get::<bool>()?;
            if cells.is_null() { Ok(None) } else { rows::lease(cells).map(Some) }
        })?;
        let held = held.into_iter().flatten().collect();
        let (notes, wishes) = match since_ms {
            Some(_) => (decoded(&next(), decode::note_left)?, decoded(&next(), decode::wish)?),
            None => (Vec::new(), Vec::new()),
        };
        let details = shown.map(|_| details(&next())).transpose()?;
        let (mut lost, mut notices) = (Vec::new(), Vec::new());
        if has_news {
            // Of several requests of one holder at once, one is told.
            let lock = if self.is_write { " FOR UPDATE SKIP LOCKED" } else { "" };
            let (leases_lost, notices_left) =
                (leases_lost(lock), format!("{}{lock}", news::NOTICES_LEFT.postgres));
            let asked: [(&str, &[Value<'_>]); 2] = [(&leases_lost, &of_losses), (&notices_left, &of_notices)];
            let mut answers = self.query_all(&asked)?.into_iter();
            lost = decoded(&answers.next().unwrap_or_default(), rows::lease)?;
            notices = decoded(&answers.next().unwrap_or_default(), decode::pending_notice)?;
        }
        Ok(ClosingRows { held, lost, notes, wishes, notices, details })
    }

    /// In one round trip.
    fn leases_held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>> {
        lease::leases_held_by(self, actor, instance)
    }

    fn details(&mut self, shown: &Shown) -> Result<Details> {
        let rows = self.rows(DETAILS, &[&shown.task.to_string(), &versions(shown)])?;
        Ok(details(&rows)?)
    }

    fn scopes_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Reservation)>> {
        scope::scopes_near(self, scope)
    }

    fn search(&mut self, words: &[String], ad_hoc: bool, limit: u64) -> Result<Vec<Uid>> {
        search::search(self, words, ad_hoc, limit)
    }
}
