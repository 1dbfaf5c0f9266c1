//! Health and tidying.

use crate::{Finding, Result, StoreError};

use super::connection::Trouble;
use super::rebuild::LONG;
use super::session::{Mode, NOW_MS, Session};
use super::{PostgresStore, failed, rebuild};

/// The chore of making erased texts unreadable in the server's files.
pub(super) const SCRUB: &str = "scrub";

pub(super) fn check(store: &mut PostgresStore) -> Result<Vec<Finding>> {
    let mut session = store.session(Mode::Read);
    let outcome = findings(&mut session);
    store.connection.rollback();
    outcome
}

fn findings(session: &mut Session<'_>) -> Result<Vec<Finding>> {
    let version = session.one(
        "SELECT current_setting('server_version') FROM project WHERE project = $1",
        &[],
        |row| Ok(row.try_get::<_, String>(0)?),
    )?;
    let rows = crate::sqlite::maintain::rows_problem(rebuild::differing(session))?;
    let scrub = must_scrub(session)?;
    Ok(vec![
        Finding {
            name: "database",
            ok: true,
            detail: format!("{}, PostgreSQL {}", session.address.shown(), version.unwrap_or_default()),
            mendable: false,
        },
        rows,
        Finding {
            name: "erased texts",
            ok: !scrub,
            detail: match scrub {
                true => "the server's files may still hold erased words: the owner of the tables ends that"
                    .to_owned(),
                false => "none are left in the tables".to_owned(),
            },
            mendable: true,
        },
    ])
}

fn must_scrub(session: &mut Session<'_>) -> Result<bool> {
    Ok(session.number("SELECT COUNT(*) FROM chore WHERE project = $1 AND name = $2", &[&SCRUB])? > 0)
}

/// An erased row is gone for every statement, but its bytes lie in the table's file until that is written anew. Only the
/// owner of the tables may do so; false: somebody else has to.
pub(super) fn tidy(store: &mut PostgresStore) -> Result<bool> {
    let mut session = store.session(Mode::Read);
    let scrub = must_scrub(&mut session);
    store.connection.rollback();
    if !scrub? {
        return Ok(true);
    }
    let address = store.address.clone();
    let fail = |trouble: Trouble| failed(trouble, &address);
    let connection = &mut store.connection;
    let is_owner: bool = connection
        .query("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'onus.text'::regclass", &[])
        .and_then(|rows| Ok(rows.first().map_or(Ok(false), |row| row.try_get(0))?))
        .map_err(fail)?;
    if !is_owner {
        return Ok(false);
    }
    // What is erased while this runs leaves word of its own: only older word is taken back.
    let since: Option<i64> = connection
        .query(&format!("SELECT {NOW_MS}"), &[])
        .and_then(|rows| Ok(rows.first().map(|row| row.try_get(0)).transpose()?))
        .map_err(fail)?;
    connection.batch("SET statement_timeout = 0").map_err(fail)?;
    connection.set_patience(LONG);
    let written = connection.batch("VACUUM (FULL) onus.text");
    connection.set_patience(address.patience());
    connection.batch(&address.settings()).map_err(fail)?;
    match written.map_err(fail) {
        Err(StoreError::Busy { .. }) => return Ok(false),
        written => written?,
    }
    connection
        .execute(
            "DELETE FROM chore WHERE project = $1 AND name = $2 AND since_ms <= $3",
            &[&store.project, &SCRUB, &since],
        )
        .map_err(fail)?;
    Ok(true)
}
