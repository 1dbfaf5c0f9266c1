//! One text of each statement for both stores, translated at compile time.
//!
//! A text numbers its parameters `?1`, `?2`, …, as SQLite does. In PostgreSQL the first parameter of every
//! statement is the project, `$1`, so they become `$2`, `$3`, …. Text in `{braces}` is for PostgreSQL only
//! (mostly the project), text in `[brackets]` for SQLite only (mostly which index to use). Neither is nested.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// The placeholder of a parameter, for statements built at run time.
    pub(crate) fn mark(self, number: usize) -> String {
        match self {
            Dialect::Sqlite => format!("?{number}"),
            Dialect::Postgres => format!("${}", number + 1),
        }
    }
}

/// A statement in both dialects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql<'a> {
    pub(crate) sqlite: &'a str,
    pub(crate) postgres: &'a str,
}

impl<'a> Sql<'a> {
    /// A statement that only one store uses, or that was built in its dialect.
    pub(crate) const fn only(text: &'a str) -> Sql<'a> {
        Sql { sqlite: text, postgres: text }
    }

    pub(crate) const fn of(self, dialect: Dialect) -> &'a str {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
        }
    }
}

/// Concatenates the parts of a statement.
macro_rules! sql {
    ($($part:expr),+ $(,)?) => {{
        use $crate::rows::sql::{Dialect, Sql, as_text, filled, translate};
        const PARTS: &[&str] = &[$($part),+];
        const SQLITE: [u8; translate(PARTS, Dialect::Sqlite, &mut [])] = filled(PARTS, Dialect::Sqlite);
        const POSTGRES: [u8; translate(PARTS, Dialect::Postgres, &mut [])] = filled(PARTS, Dialect::Postgres);
        const { Sql { sqlite: as_text(&SQLITE), postgres: as_text(&POSTGRES) } }
    }};
}
pub(crate) use sql;

/// Writes as much as there is room for, and counts the length of the whole.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(out: &'a mut [u8]) -> Writer<'a> {
        Writer { out, length: 0 }
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    const fn byte(&mut self, byte: u8) {
        if self.length < self.out.len() {
            self.out[self.length] = byte;
        }
        self.length += 1;
    }

    pub(crate) const fn text(&mut self, text: &str) {
        let mut at = 0;
        while at < text.len() {
            self.byte(text.as_bytes()[at]);
            at += 1;
        }
    }

    pub(crate) const fn number(&mut self, number: usize) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.byte(b'0' + (number % 10) as u8);
    }
}

/// Writes a statement in one dialect. Returns its length.
pub(crate) const fn translate(parts: &[&str], dialect: Dialect, out: &mut [u8]) -> usize {
    let is_postgres = matches!(dialect, Dialect::Postgres);
    let mut writer = Writer::new(out);
    let (mut part, mut is_others) = (0, false);
    while part < parts.len() {
        let text = parts[part].as_bytes();
        let mut at = 0;
        while at < text.len() {
            match text[at] {
                b'{' => is_others = !is_postgres,
                b'[' => is_others = is_postgres,
                b'}' | b']' => is_others = false,
                _ if is_others => {}
                b'?' if is_postgres => {
                    let mut number = 0;
                    while at + 1 < text.len() && text[at + 1].is_ascii_digit() {
                        number = number * 10 + (text[at + 1] - b'0') as usize;
                        at += 1;
                    }
                    writer.byte(b'$');
                    writer.number(number + 1);
                }
                byte => writer.byte(byte),
            }
            at += 1;
        }
        part += 1;
    }
    writer.length()
}

pub(crate) const fn filled<const N: usize>(parts: &[&str], dialect: Dialect) -> [u8; N] {
    let mut out = [0; N];
    translate(parts, dialect, &mut out);
    out
}

/// Statements stay valid UTF-8: the translation removes and inserts only at ASCII characters.
pub(crate) const fn as_text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_translated_into_both_dialects() {
        const COLUMNS: &str = "uid, number";
        let one: Sql<'static> = sql!(
            "SELECT ",
            COLUMNS,
            " FROM task[ INDEXED BY task_ready] WHERE {project = $1 AND }uid = ?1 AND number > ?12{::bigint}"
        );
        assert_eq!(
            one.sqlite,
            "SELECT uid, number FROM task INDEXED BY task_ready WHERE uid = ?1 AND number > ?12"
        );
        assert_eq!(
            one.postgres,
            "SELECT uid, number FROM task WHERE project = $1 AND uid = $2 AND number > $13::bigint"
        );
    }
}
