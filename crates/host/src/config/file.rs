//! Reads one configuration file with a size limit, and parses it or refuses it with a position.
//!
//! A refusal names the file, the line and the column, and what to write. It quotes nothing from a repository's file: agents
//! read refusals, too, and the file's content may be a stranger's.

use std::ops::Range;
use std::path::{Path, PathBuf};

use onus_core::refusal::Refusal;
use onus_repo::{Unreadable, read_inside, read_small};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SHARED_FILE;
use super::keys::{KEYS, Key, Kind, check, nearest};
use super::tables::{Reader, TABLES, Table, Tables};

/// A configuration file.
#[derive(Clone, Copy)]
pub(super) enum Layer<'a> {
    /// The user's own.
    User(&'a Path),
    /// The one that everybody who works in this repository shares, and that anybody may have written.
    Repository(&'a Path),
}

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) values: Vec<(&'static Key, String)>,
    pub(super) tables: Tables,
}

fn of_a_project(place: &Spanned<impl Sized>, form: &str) -> Fault {
    Fault::at(place, format!("[{form}] says what a project is: write it in its {SHARED_FILE}"))
}

/// What is wrong in a file, and where.
#[derive(Debug)]
pub(super) struct Fault {
    place: Range<usize>,
    why: String,
}

impl Fault {
    pub(super) fn at<T>(place: &Spanned<T>, why: impl Into<String>) -> Fault {
        Fault { place: place.span(), why: why.into() }
    }
}

impl Layer<'_> {
    pub(super) fn path(self) -> PathBuf {
        match self {
            Layer::User(file) => file.to_owned(),
            Layer::Repository(root) => root.join(SHARED_FILE),
        }
    }

    pub(super) fn read(self) -> Result<Settings, Refusal> {
        let text = match self {
            Layer::User(file) => read_small(file),
            Layer::Repository(root) => read_inside(root, &self.path()),
        };
        match text {
            Ok(text) => self.parse(&text),
            Err(Unreadable::Missing) => Ok(Settings::default()),
            Err(why) => Err(Refusal::usage(format!("cannot use {}: {why}", self.name()))),
        }
    }

    /// Parses text as if it were in the file.
    pub(super) fn parse(self, text: &str) -> Result<Settings, Refusal> {
        self.understand(text).map_err(|Fault { place, why }| {
            let before = text.get(..place.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            Refusal::usage(format!("{}:{line}:{column}: {why}", self.name()))
        })
    }

    fn name(self) -> String {
        onus_core::quote::visible_line(&self.path().to_string_lossy())
    }

    fn understand(self, text: &str) -> Result<Settings, Fault> {
        let table = DeTable::parse(text).map_err(|error| {
            let why = match error.message() {
                // The parser's own wording.
                message if message.starts_with("duplicate key") => {
                    "it is set twice: remove one of the two, or put both into one table"
                }
                message if self.is_own() => message,
                _ => "not valid TOML",
            };
            Fault { place: error.span().unwrap_or_default(), why: why.to_owned() }
        })?;
        let mut settings = Settings::default();
        for (section, content) in table.get_ref() {
            self.section(section.get_ref(), section, content, &mut settings)?;
        }
        Ok(settings)
    }

    fn section(
        self,
        name: &str,
        place: &Spanned<impl Sized>,
        content: &Spanned<DeValue<'_>>,
        settings: &mut Settings,
    ) -> Result<(), Fault> {
        let table = TABLES.iter().find(|table| table.name == name);
        let sections = || KEYS.iter().filter_map(|key| key.name.split_once('.')).map(|(section, _)| section);
        if table.is_none() && !sections().any(|section| section == name) {
            let near = nearest(name, sections().chain(TABLES.iter().map(|table| table.name)));
            let Some(near) = near else { return Err(Fault::at(place, "unknown table")) };
            let list =
                TABLES.iter().find(|table| table.name == near && matches!(table.read, Reader::List(_)));
            let near = list.map_or(near, |table| table.form);
            return Err(Fault::at(place, format!("unknown table; the nearest is [{near}]")));
        }
        if let Some(Table { form, read: Reader::List(read), .. }) = table {
            return match self.is_own() {
                true => Err(of_a_project(place, form)),
                false => read(&mut settings.tables, content),
            };
        }
        let Some(content) = content.get_ref().as_table() else {
            let form = table.map_or(name, |table| table.form);
            return Err(Fault::at(place, format!("it is a table: write [{form}], and the keys below it")));
        };
        match table {
            Some(Table { form, .. }) if self.is_own() => Err(of_a_project(place, form)),
            Some(Table { read: Reader::ByName(read), .. }) => read(&mut settings.tables, content),
            Some(Table { read: Reader::List(_), .. }) | None => {
                for (key, value) in content {
                    let full = format!("{name}.{}", key.get_ref());
                    let key = self.key(&full).map_err(|why| Fault::at(key, why))?;
                    let value = self.value(key, value.get_ref()).map_err(|why| Fault::at(value, why))?;
                    settings.values.push((key, value));
                }
                Ok(())
            }
        }
    }

    /// The key of this name, if it may be set here.
    pub(super) fn key(self, name: &str) -> Result<&'static Key, String> {
        let Some(key) = Key::named(name) else {
            let near = nearest(name, KEYS.iter().map(|key| key.name));
            let near = near.map(|near| format!("; the nearest is {near}")).unwrap_or_default();
            return Err(format!("unknown key{near}"));
        };
        if !self.is_own() && !key.shared {
            let why = "belongs to a user, not a repository: set it in the user's file";
            return Err(format!("{} {why}", key.name));
        }
        Ok(key)
    }

    fn value(self, key: &Key, value: &DeValue<'_>) -> Result<String, String> {
        let wanted = || format!("{} must be {}", key.name, key.kind.wanted());
        let text = match (key.kind, value) {
            (Kind::Count | Kind::Span, DeValue::Integer(number)) => number.to_string(),
            (Kind::Flag, DeValue::Boolean(flag)) => flag.to_string(),
            (kind, DeValue::Array(items)) if kind.is_list() => {
                let lines: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
                let lines = lines.ok_or_else(wanted)?;
                if lines.iter().any(|line| line.contains('\n')) {
                    return Err(wanted());
                }
                lines.join("\n")
            }
            (Kind::Count | Kind::Flag, DeValue::String(_)) => {
                return Err(format!("{}, without quotes", wanted()));
            }
            (Kind::Count | Kind::Flag, _) => return Err(wanted()),
            (kind, _) if kind.is_list() => return Err(wanted()),
            (_, DeValue::String(text)) => text.clone().into_owned(),
            _ => return Err(format!("{}, in quotes", wanted())),
        };
        match check(key, &text) {
            Ok(()) => Ok(text),
            Err(why) if self.is_own() => Err(format!("{}: {why}", key.name)),
            Err(_) => Err(wanted()),
        }
    }

    /// Whether it is the user's own, so that its content may be shown.
    fn is_own(self) -> bool {
        matches!(self, Layer::User(_))
    }
}
