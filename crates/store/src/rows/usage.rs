//! What sessions used of models: one row per event that reports it. Each public function implements the
//! method of that name in [`crate::Read`].

use onus_core::ids::{Token, Uid};
use onus_core::session::{Cost, Usage, UsageRow};

use crate::{Result, Used, Window};

use super::sql::sql;
use super::stretch::facts;
use super::value::{Cells, Decoded};
use super::{Ask as _, Sql, Statements, Value, values};

pub(super) const COLUMNS: &str = "task, version, token, actor, at_ms, model, tokens_in, tokens_out, tokens_cached, source, \
    cost_micros, currency";

pub(super) const INSERT: Sql<'static> = sql!(
    "INSERT INTO usage ({project, }",
    COLUMNS,
    ") VALUES ({$1, }?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
);

pub(super) fn row_values(row: &UsageRow) -> [Value<'_>; 12] {
    let (usage, cost) = (&row.usage, row.usage.cost.as_ref());
    [
        row.task.into(),
        row.version.into(),
        row.token.into(),
        (&row.actor).into(),
        row.at_ms.into(),
        usage.model.as_deref().into(),
        usage.tokens_in.into(),
        usage.tokens_out.into(),
        usage.tokens_cached.into(),
        usage.source.as_str().into(),
        cost.map(|cost| cost.micros).into(),
        cost.map(|cost| cost.currency.as_str()).into(),
    ]
}

fn decoded(cells: &mut Cells<'_>) -> Decoded<UsageRow> {
    Ok(UsageRow {
        task: cells.parsed()?,
        version: cells.get()?,
        token: cells.get()?,
        actor: cells.parsed()?,
        at_ms: cells.get()?,
        usage: Usage {
            model: cells.optional()?,
            tokens_in: cells.optional()?,
            tokens_out: cells.optional()?,
            tokens_cached: cells.optional()?,
            source: cells.parsed()?,
            cost: match (cells.optional()?, cells.optional()?) {
                (Some(micros), Some(currency)) => Some(Cost { micros, currency }),
                _ => None,
            },
        },
    })
}

pub(crate) fn usage_in(
    session: &mut dyn Statements,
    window: Window,
    after: Option<&Used>,
    limit: u64,
) -> Result<Vec<Used>> {
    let after = after.map(|last| &last.usage);
    session.all(
        sql!(
            "SELECT usage.task, usage.version, usage.token, usage.actor, at_ms, model, tokens_in, tokens_out, \
             tokens_cached, source, cost_micros, currency, task.number, task.parent, task.area, task.tags \
             FROM usage[ INDEXED BY usage_at] JOIN task ON {task.project = $1 AND }task.uid = usage.task \
             WHERE {usage.project = $1 AND }at_ms >= ?1 AND at_ms < ?2 \
             AND (at_ms, usage.task, usage.version) > (?1, ?3, ?4) \
             ORDER BY at_ms, usage.task, usage.version LIMIT ?5"
        ),
        values![
            after.map_or(window.since_ms, |last| last.at_ms),
            window.until_ms,
            after.map(|last| last.task.to_string()).unwrap_or_default(),
            after.map_or(0, |last| last.version.0),
            limit,
        ],
        |cells| Ok(Used { usage: decoded(cells)?, task: facts(cells)? }),
    )
}

pub(crate) fn usage_of(session: &mut dyn Statements, task: Uid, token: Token) -> Result<Vec<UsageRow>> {
    session.all(
        sql!(
            "SELECT ",
            COLUMNS,
            " FROM usage WHERE {project = $1 AND }task = ?1 AND token = ?2 ORDER BY version"
        ),
        values![task, token],
        decoded,
    )
}
