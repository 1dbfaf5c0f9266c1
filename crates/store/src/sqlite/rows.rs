//! Values and rows for SQLite's driver.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

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

    fn value(&self, at: usize) -> Decoded<Value<'_>> {
        Ok(match self.get_ref(at).map_err(Unreadable::because)? {
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.into(),
                Err(_) => bytes.into(),
            },
            ValueRef::Blob(bytes) => bytes.into(),
            ValueRef::Null => Value::Null,
            ValueRef::Real(_) => return Err(Unreadable(format!("value {at} is a fraction"))),
        })
    }
}
