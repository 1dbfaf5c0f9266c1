//! What both stores have in common: statements, columns, decoding, the rebuild. Their tables are the same, so each statement is written once and
//! translated into both dialects ([`sql`]); rows are read and written by one list of columns per table
//! ([`columns`], [`decode`]); and queries ([`read`], [`graph`], [`ledger`]), changes ([`mod@write`]) and the
//! rebuild ([`rebuild`]) are implemented once.
//!
//! A store adds only what really differs: how it is reached and locked, its clock, its search index, and the
//! statements that save a round trip. The trait [`Statements`] is what a store has to provide.

pub(crate) mod actor;
pub(crate) mod columns;
pub(crate) mod commit;
pub(crate) mod decode;
pub(crate) mod graph;
pub(crate) mod judgement;
pub(crate) mod lease;
pub(crate) mod ledger;
pub(crate) mod near;
pub(crate) mod news;
pub(crate) mod read;
pub(crate) mod rebuild;
pub(crate) mod seat;
pub(crate) mod sql;
pub(crate) mod stretch;
mod tables;
pub(crate) mod usage;
mod value;
pub(crate) mod write;

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Reservations, Scope};
use onus_core::text::{Salt, TextKey};

use crate::{Result, StoreError};

#[cfg(feature = "postgres")]
pub(crate) use decode::{lease, project, stored_text, task};
pub(crate) use sql::{Dialect, Sql};
pub(crate) use value::{Cells, Decoded, Row, Unreadable, Value, values};

/// Methods of a store's session, each implemented by the function of that name in a module below.
macro_rules! delegate {
    ($module:path => $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(fn $name(&mut self, $($argument: $type),*) -> Result<$answer> {
            use $module as shared;
            shared::$name(self, $($argument),*)
        })+
    };
}
pub(crate) use delegate;

/// What must be true of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Nothing: only an error is a failure.
    Success,
    /// It changes exactly the row that the ledger names.
    OneRow,
    /// It changes this many rows, or the transaction is run again.
    RowsOrRetry(u64),
}

pub(crate) fn missing_row() -> StoreError {
    StoreError::Damaged("a row that the ledger names is missing".to_owned())
}

/// One transaction of a store, as statements see it.
pub(crate) trait Statements {
    fn dialect(&self) -> Dialect;
    /// The uid of the project's own stream.
    fn stream(&self) -> &str;
    /// Passes each row of the answer to `visit`, which returns whether to continue.
    fn ask(
        &mut self,
        sql: Sql<'_>,
        values: &[Value<'_>],
        visit: &mut dyn FnMut(&dyn Row) -> Result<bool>,
    ) -> Result<()>;
    /// Makes a change, and returns how many rows it changed.
    fn run(&mut self, sql: Sql<'_>, values: &[Value<'_>]) -> Result<u64>;
    /// Makes a change whose outcome nobody waits for: it may be sent with the next statement.
    fn run_later(&mut self, sql: Sql<'_>, values: &[Value<'_>], expect: Expect) -> Result<()>;

    /// The number up to which no event can still be added.
    fn settled(&mut self) -> Result<i64>;
    /// Adds rows for what a lease reserves.
    fn reserve(&mut self, task: Uid, token: Token, reservations: &Reservations) -> Result<()>;
    fn unreserve(&mut self, task: Uid, token: Token, scope: &Scope) -> Result<()>;
    /// Stores a text beside an event.
    fn put_text(&mut self, place: (&str, u64, &str), salt: &Salt, text: &str) -> Result<()>;
    /// Makes a text searchable, or not.
    fn index(&mut self, key: TextKey, indexed: bool) -> Result<()>;
    /// Makes these texts searchable or not, whatever the index contains now.
    fn mend_index(&mut self, texts: &[(rebuild::TextPlace, bool)]) -> Result<()>;
}

/// Queries of a transaction.
pub(crate) trait Ask: Statements {
    fn all<T>(
        &mut self,
        sql: Sql<'_>,
        values: &[Value<'_>],
        mut decode: impl FnMut(&mut Cells<'_>) -> Decoded<T>,
    ) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.ask(sql, values, &mut |row| {
            rows.push(decode(&mut Cells::of(row))?);
            Ok(true)
        })?;
        Ok(rows)
    }

    fn one<T>(
        &mut self,
        sql: Sql<'_>,
        values: &[Value<'_>],
        mut decode: impl FnMut(&mut Cells<'_>) -> Decoded<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.ask(sql, values, &mut |row| {
            found = Some(decode(&mut Cells::of(row))?);
            Ok(false)
        })?;
        Ok(found)
    }

    fn number(&mut self, sql: Sql<'_>, values: &[Value<'_>]) -> Result<u64> {
        Ok(self.one(sql, values, |cells| cells.get())?.unwrap_or_default())
    }

    fn uids(&mut self, sql: Sql<'_>, values: &[Value<'_>]) -> Result<Vec<Uid>> {
        self.all(sql, values, |cells| cells.parsed())
    }

    /// Changes a row that must exist.
    fn run_on_one(&mut self, sql: Sql<'_>, values: &[Value<'_>]) -> Result<()> {
        match self.run(sql, values)? {
            1 => Ok(()),
            _ => Err(missing_row()),
        }
    }
}

impl<S: Statements + ?Sized> Ask for S {}
