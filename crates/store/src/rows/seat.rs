//! Seats as rows. Their leases are in the table of all leases.

use onus_core::ids::{Number, Uid};
use onus_core::seat::{Seat, SeatName};

use crate::{Result, Seats};

use super::columns::{joined, made};
use super::sql::{Sql, sql};
use super::value::{Cells, Decoded, Value};
use super::{Ask as _, Expect, Statements, values};

pub(crate) const SEAT_COLUMNS: &str =
    "uid, number, name, version, head, created_at_ms, created_by, updated_at_ms, token, leased";

const SELECT_SEATS: &str = made!(joined(&["SELECT ", SEAT_COLUMNS, " FROM seat"], ""));

const INSERT_SEAT: Sql<'static> = sql!(
    "INSERT INTO seat ({project, }",
    SEAT_COLUMNS,
    ") VALUES ({$1, }?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
);

/// In the order of [`SEAT_COLUMNS`].
pub(super) fn seat_values(seat: &Seat) -> [Value<'_>; 10] {
    [
        seat.uid.into(),
        seat.number.into(),
        seat.name.as_str().into(),
        seat.version.into(),
        seat.head.as_str().into(),
        seat.created_at_ms.into(),
        (&seat.created_by).into(),
        seat.updated_at_ms.into(),
        seat.token.into(),
        seat.leased.into(),
    ]
}

pub(crate) fn decode(cells: &mut Cells<'_>) -> Decoded<Seat> {
    Ok(Seat {
        uid: cells.parsed()?,
        number: cells.get()?,
        name: cells.parsed()?,
        version: cells.get()?,
        head: cells.get()?,
        created_at_ms: cells.get()?,
        created_by: cells.parsed()?,
        updated_at_ms: cells.get()?,
        token: cells.get()?,
        leased: cells.get()?,
    })
}

pub(crate) fn seat(session: &mut dyn Statements, uid: Uid) -> Result<Option<Seat>> {
    session.one(sql!(SELECT_SEATS, " WHERE {project = $1 AND }uid = ?1"), values![uid], decode)
}

pub(crate) fn seat_named(session: &mut dyn Statements, name: &SeatName) -> Result<Option<Seat>> {
    session.one(sql!(SELECT_SEATS, " WHERE {project = $1 AND }name = ?1"), values![name.as_str()], decode)
}

pub(crate) fn seats(session: &mut dyn Statements, which: Seats, limit: u64) -> Result<Vec<Seat>> {
    let sql = match which {
        Seats::All => sql!(SELECT_SEATS, "{ WHERE project = $1} ORDER BY name LIMIT ?1"),
        Seats::Leased => sql!(SELECT_SEATS, " WHERE {project = $1 AND }leased ORDER BY name LIMIT ?1"),
    };
    session.all(sql, values![limit], decode)
}

pub(crate) fn last_seat(session: &mut dyn Statements) -> Result<Number> {
    session.number(sql!("SELECT last_seat FROM project{ WHERE project = $1}"), &[]).map(Number)
}

pub(super) fn put(session: &mut dyn Statements, seat: &Seat) -> Result<()> {
    if seat.version.0 == 1 {
        return session.run_later(INSERT_SEAT, &seat_values(seat), Expect::Success);
    }
    session.run_later(
        sql!(
            "UPDATE seat SET version = ?2, head = ?3, updated_at_ms = ?4, token = ?5, leased = ?6 \
             WHERE {project = $1 AND }uid = ?1"
        ),
        values![seat.uid, seat.version, seat.head.as_str(), seat.updated_at_ms, seat.token, seat.leased,],
        Expect::OneRow,
    )
}
