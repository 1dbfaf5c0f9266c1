//! Parameters of statements and cells of rows, for any driver.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use onus_core::actor::{ActorName, InstanceId, Tier};
use onus_core::chain::write_canonical;
use onus_core::ids::{Number, Token, Uid, Version};
use onus_core::sight::Mark;
use onus_core::text::{Field, Salt};
use onus_core::time::{ClockDomain, Moment};

use crate::StoreError;

/// A parameter of a statement, or a cell of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Bool(bool),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl Value<'_> {
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Integer(number) => Value::Integer(number),
            Value::Bool(is) => Value::Bool(is),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
        }
    }
}

/// The values of a statement, in the order of its parameters.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::rows::Value::from($value)),*] };
}
pub(crate) use values;

macro_rules! value_from {
    ($($type:ty: $value:ident => $made:expr;)*) => {
        $(impl<'a> From<$type> for Value<'a> {
            fn from($value: $type) -> Value<'a> {
                $made
            }
        })*
    };
}

value_from! {
    i64: number => Value::Integer(number);
    u8: number => Value::Integer(number.into());
    u32: number => Value::Integer(number.into());
    // Integers are signed in both stores; our counters never get that large.
    u64: number => Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    bool: is => Value::Bool(is);
    &'a str: text => Value::Text(Cow::Borrowed(text));
    &'a String: text => Value::Text(Cow::Borrowed(text));
    String: text => Value::Text(Cow::Owned(text));
    &'a [u8]: bytes => Value::Bytes(Cow::Borrowed(bytes));
    &'a Salt: salt => Value::Bytes(Cow::Borrowed(salt));
    Uid: uid => Value::Text(Cow::Owned(uid.to_string()));
    Number: number => number.0.into();
    Token: token => token.0.into();
    Version: version => version.0.into();
    Tier: tier => tier.0.into();
    Field: field => Value::Text(Cow::Borrowed(field.as_str()));
    &'a ActorName: name => name.as_str().into();
    &'a InstanceId: instance => instance.as_str().into();
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Value<'a> {
        value.map_or(Value::Null, Into::into)
    }
}

/// Why a row cannot be decoded.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    pub(crate) fn because(why: impl Display) -> Unreadable {
        Unreadable(why.to_string())
    }
}

impl From<Unreadable> for StoreError {
    fn from(Unreadable(why): Unreadable) -> StoreError {
        StoreError::Damaged(format!("a row is unreadable: {why}"))
    }
}

pub(crate) type Decoded<T> = Result<T, Unreadable>;

/// A row of an answer. Cells are addressed by position: looking up a name costs more than reading the value.
pub(crate) trait Row {
    /// The number of cells.
    fn len(&self) -> usize;
    /// A cell of any type, borrowed; text that is not valid UTF-8 comes as bytes.
    fn value(&self, at: usize) -> Decoded<Value<'_>>;

    fn integer(&self, at: usize) -> Decoded<Option<i64>> {
        match self.value(at)? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number)),
            _ => Err(not("a number", at)),
        }
    }

    /// SQLite's booleans are numbers.
    fn bool(&self, at: usize) -> Decoded<Option<bool>> {
        match self.value(at)? {
            Value::Null => Ok(None),
            Value::Bool(is) => Ok(Some(is)),
            Value::Integer(number) => Ok(Some(number != 0)),
            _ => Err(not("true or false", at)),
        }
    }

    fn text(&self, at: usize) -> Decoded<Option<&str>> {
        match self.value(at)? {
            Value::Null => Ok(None),
            Value::Text(Cow::Borrowed(text)) => Ok(Some(text)),
            _ => Err(not("a text", at)),
        }
    }

    fn bytes(&self, at: usize) -> Decoded<Option<&[u8]>> {
        match self.value(at)? {
            Value::Null => Ok(None),
            Value::Bytes(Cow::Borrowed(bytes)) => Ok(Some(bytes)),
            _ => Err(not("bytes", at)),
        }
    }

    /// A text, with invalid parts replaced.
    fn lossy(&self, at: usize) -> String {
        match self.value(at) {
            Ok(Value::Text(text)) => text.into_owned(),
            Ok(Value::Bytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => String::new(),
        }
    }
}

/// A value of a wrong type is found only when it is read.
fn not(wanted: &str, at: usize) -> Unreadable {
    Unreadable(format!("value {at} is not {wanted}"))
}

/// A type that a cell can be read as.
pub(crate) trait Cell<'a>: Sized {
    fn read(row: &'a dyn Row, at: usize) -> Decoded<Option<Self>>;
}

macro_rules! cell {
    ($($type:ty: $how:ident;)*) => {
        $(impl<'a> Cell<'a> for $type {
            fn read(row: &'a dyn Row, at: usize) -> Decoded<Option<$type>> {
                row.$how(at)
            }
        })*
    };
    ($($type:ty: $of:ty => $made:expr;)*) => {
        $(impl<'a> Cell<'a> for $type {
            fn read(row: &'a dyn Row, at: usize) -> Decoded<Option<$type>> {
                <$of>::read(row, at)?.map($made).transpose()
            }
        })*
    };
}

cell! {
    i64: integer;
    bool: bool;
    &'a str: text;
    &'a [u8]: bytes;
}

cell! {
    u8: i64 => |number| u8::try_from(number).map_err(Unreadable::because);
    u32: i64 => |number| u32::try_from(number).map_err(Unreadable::because);
    u64: i64 => |number| u64::try_from(number).map_err(Unreadable::because);
    String: &'a str => |text| Ok(text.to_owned());
    Vec<u8>: &'a [u8] => |bytes| Ok(bytes.to_owned());
    Salt: &'a [u8] => |bytes| Salt::try_from(bytes).map_err(Unreadable::because);
    Number: u64 => |number| Ok(Number(number));
    Token: u64 => |number| Ok(Token(number));
    Version: u64 => |number| Ok(Version(number));
    Tier: u8 => |number| Ok(Tier(number));
    ClockDomain: String => |text| Ok(ClockDomain::from_stored(text));
}

/// The cells of a row, read one after the other, in the order of its list of columns.
pub(crate) struct Cells<'a> {
    row: &'a dyn Row,
    next: usize,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(row: &'a dyn Row) -> Cells<'a> {
        Cells { row, next: 0 }
    }

    pub(crate) fn optional<T: Cell<'a>>(&mut self) -> Decoded<Option<T>> {
        self.next += 1;
        T::read(self.row, self.next - 1)
    }

    pub(crate) fn get<T: Cell<'a>>(&mut self) -> Decoded<T> {
        self.optional()?.ok_or_else(|| Unreadable("a value is missing".to_owned()))
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.row.value(self.next), Ok(Value::Null) | Err(_))
    }

    pub(crate) fn skip(&mut self, cells: usize) {
        self.next += cells;
    }

    /// The stream and version of an event or a text, as far as a damaged row can be read.
    pub(crate) fn place(&self, stream: usize, version: usize) -> (String, u64) {
        let version = self.row.integer(version).ok().flatten().unwrap_or_default();
        (self.row.lossy(stream), u64::try_from(version).unwrap_or_default())
    }

    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self) -> Decoded<T> {
        self.get::<&str>()?.parse().map_err(Unreadable::because)
    }

    pub(crate) fn optional_parsed<T: FromStr<Err: Display>>(&mut self) -> Decoded<Option<T>> {
        self.optional::<&str>()?.map(|text| text.parse().map_err(Unreadable::because)).transpose()
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Decoded<T> {
        serde_json::from_str(self.get()?).map_err(Unreadable::because)
    }

    pub(crate) fn optional_json<T: DeserializeOwned>(&mut self) -> Decoded<Option<T>> {
        self.optional::<&str>()?
            .map(|text| serde_json::from_str(text).map_err(Unreadable::because))
            .transpose()
    }

    /// What an event is hashed by. Text that is not JSON as this project writes it is kept as a string, so that no hash fits: of
    /// two values under one key, another reader would take the other.
    pub(crate) fn payload(&mut self) -> Decoded<serde_json::Value> {
        let text: &str = self.get()?;
        let mut canonical = String::with_capacity(text.len());
        let value = serde_json::from_str(text).ok().filter(|value| {
            write_canonical(value, &mut canonical);
            canonical == text
        });
        Ok(value.unwrap_or_else(|| serde_json::Value::String(text.to_owned())))
    }

    pub(crate) fn mark(&mut self) -> Decoded<Mark> {
        self.optional::<String>().map(Mark::from)
    }

    pub(crate) fn moment(&mut self) -> Decoded<Moment> {
        Ok(Moment::new(self.get()?, self.get()?, self.get()?))
    }

    /// Reads three cells: wall, tick and domain; None if the first is null.
    pub(crate) fn optional_moment(&mut self) -> Decoded<Option<Moment>> {
        let Some(wall_ms) = self.optional()? else {
            self.skip(2);
            return Ok(None);
        };
        Ok(Some(Moment::new(wall_ms, self.get()?, self.get()?)))
    }
}
