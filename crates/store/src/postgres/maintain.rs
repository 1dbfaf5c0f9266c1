//! Health and tidying.

use crate::rows::rebuild::{Purpose, finding, run};
use crate::rows::write::SCRUB;
use crate::{Finding, Result, StoreError};

use super::connection::Failure;
use super::rebuild::LONG;
use super::schema::{IS_OPEN, single};
use super::session::{Mode, NOW_MS, Session};
use super::{PostgresStore, failed};

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
        |cells| cells.get::<String>(),
    )?;
    let access = access(session)?;
    let rows = finding(run(session, Purpose::Compare, &mut |_| {}))?;
    let scrub = must_scrub(session)?;
    Ok(vec![
        Finding {
            name: "database",
            ok: true,
            detail: format!("{}, PostgreSQL {}", session.address.shown(), version.unwrap_or_default()),
            mendable: false,
        },
        access,
        rows,
        Finding {
            name: "erased texts",
            ok: !scrub,
            detail: match scrub {
                true => {
                    "the server's files may still contain erased text: the owner of the tables can remove it"
                        .to_owned()
                }
                false => "none are left in the tables".to_owned(),
            },
            mendable: true,
        },
    ])
}

/// Whether only the roles that work with the store may connect: any other could take its locks.
fn access(session: &mut Session<'_>) -> Result<Finding> {
    let open = session.one(
        &format!("SELECT quote_ident(current_database()) FROM project WHERE project = $1 AND ({IS_OPEN})"),
        &[],
        |cells| cells.get::<String>(),
    )?;
    Ok(Finding {
        name: crate::ACCESS,
        ok: open.is_none(),
        detail: match open {
            Some(database) => format!(
                "any role of the server may connect, and take the locks that writers wait for. The database's owner can \
                 change that: REVOKE CONNECT ON DATABASE {database} FROM PUBLIC; \
                 GRANT CONNECT ON DATABASE {database} TO onus_app;"
            ),
            None => "only roles with permission may connect".to_owned(),
        },
        mendable: false,
    })
}

fn must_scrub(session: &mut Session<'_>) -> Result<bool> {
    Ok(session.number("SELECT COUNT(*) FROM chore WHERE project = $1 AND name = $2", &[&SCRUB])? > 0)
}

/// Removes erased texts from the server's files. No statement sees an erased row, but its bytes stay in the
/// table's file until that is rewritten, which only the owner of the tables may do. False: it has to be done
/// later, or by the owner.
pub(super) fn tidy(store: &mut PostgresStore) -> Result<bool> {
    let mut session = store.session(Mode::Read);
    let scrub = must_scrub(&mut session);
    store.connection.rollback();
    if !scrub? {
        return Ok(true);
    }
    let address = store.address.clone();
    let fail = |failure: Failure| failed(failure, &address);
    let connection = &mut store.connection;
    let owns = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'onus.text'::regclass";
    if single(connection, &address, owns, &[])? != Some(true) {
        return Ok(false);
    }
    // An erasure while this runs leaves a chore of its own: only older chores are done with.
    let since: Option<i64> = single(connection, &address, &format!("SELECT {NOW_MS}"), &[])?;
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
