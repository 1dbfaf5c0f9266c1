//! Values and rows for SQLite's driver.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Type, ValueRef};

use crate::rows::{Decoded, Row, Unreadable, Value};

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Bool(is) => ValueRef::Integer((*is).into()),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Row for rusqlite::Row<'_> {
    fn len(&self) -> usize {
        self.as_ref().column_count()
    }

    fn value(&self, at: usize) -> Value<'_> {
        match self.get_ref(at) {
            Ok(ValueRef::Integer(number)) => Value::Integer(number),
            Ok(ValueRef::Text(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Text(Cow::Borrowed(text)),
                Err(_) => Value::Bytes(Cow::Borrowed(bytes)),
            },
            Ok(ValueRef::Blob(bytes)) => Value::Bytes(Cow::Borrowed(bytes)),
            // No column of a strict table holds a fraction.
            Ok(ValueRef::Null | ValueRef::Real(_)) | Err(_) => Value::Null,
        }
    }

    fn integer(&self, at: usize) -> Decoded<Option<i64>> {
        match cell(self, at)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            other => Err(not(Type::Integer, &other, at)),
        }
    }

    /// SQLite's booleans are numbers.
    fn bool(&self, at: usize) -> Decoded<Option<bool>> {
        Ok(self.integer(at)?.map(|number| number != 0))
    }

    fn text(&self, at: usize) -> Decoded<Option<&str>> {
        match cell(self, at)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(Unreadable::because),
            other => Err(not(Type::Text, &other, at)),
        }
    }

    fn bytes(&self, at: usize) -> Decoded<Option<&[u8]>> {
        match cell(self, at)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            other => Err(not(Type::Blob, &other, at)),
        }
    }

    fn lossy(&self, at: usize) -> String {
        let bytes = self.get_ref(at).ok().and_then(|cell| cell.as_bytes().ok()).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

fn cell<'a>(row: &'a rusqlite::Row<'_>, at: usize) -> Decoded<ValueRef<'a>> {
    row.get_ref(at).map_err(Unreadable::because)
}

/// SQLite stores any value it is given; a wrong type is found only when the value is read.
fn not(wanted: Type, found: &ValueRef<'_>, at: usize) -> Unreadable {
    Unreadable(format!("value {at} is {}, not {wanted}", found.data_type()))
}
