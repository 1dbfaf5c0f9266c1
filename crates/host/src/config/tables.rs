//! Configuration tables of a project. Each is a line of [`TABLES`], a typed field of [`Tables`], and a function that reads the
//! one into the other, and refuses what it does not know with its position.
//!
//! They describe the project, so they belong to the repository: a user's own file has none.

use std::collections::BTreeMap;

use onus_core::gate::Gate;
use onus_core::scope::{AreaName, Glob};
use onus_core::task::{MAX_SCOPE, is_word};
use onus_intake::{Channel, FieldPath, Paths};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::Fault;
use super::gate::gates;
use super::keys::nearest;

/// A kind of table.
#[derive(Debug)]
pub struct Table {
    /// The first word of its header.
    pub name: &'static str,
    /// How its header is written.
    pub form: &'static str,
    pub about: &'static str,
    pub(super) read: Reader,
}

/// How a table is read.
#[derive(Debug)]
pub(super) enum Reader {
    /// One table by name: `[area.NAME]`.
    ByName(fn(&mut Tables, &DeTable<'_>) -> Result<(), Fault>),
    /// A list of them: `[[gate]]`.
    List(fn(&mut Tables, &Spanned<DeValue<'_>>) -> Result<(), Fault>),
}

/// The content of a file's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    pub areas: BTreeMap<AreaName, Area>,
    /// By the channel's name.
    pub intake: BTreeMap<String, IntakeChannel>,
    /// In the order of the file.
    pub gates: Vec<Gate>,
}

pub const TABLES: &[Table] = &[
    Table {
        name: "area",
        form: "area.NAME",
        about: "a name for some paths: area:NAME stands for them wherever a glob is taken, and may be a task's area",
        read: Reader::ByName(areas),
    },
    Table {
        name: "intake",
        form: "intake.NAME",
        about: "a channel that asks come by: whether it is trusted, and where its JSON has which field",
        read: Reader::ByName(intake),
    },
    Table {
        name: "gate",
        form: "[gate]",
        about: "a check that tasks must pass: a command, a person's word or a review, before work, for done or for landing",
        read: Reader::List(gates),
    },
];

/// A named part of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Globs, as they are written.
    pub paths: Vec<String>,
}

/// A channel of intake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeChannel {
    /// Whether its asks become tasks without anybody accepting them.
    pub trust: bool,
    /// The paths of its JSON fields; None for a channel that is built in.
    pub paths: Option<Paths>,
}

fn areas(tables: &mut Tables, table: &DeTable<'_>) -> Result<(), Fault> {
    for (name, content) in table {
        let area: AreaName = name
            .get_ref()
            .parse()
            .map_err(|_| Fault::at(name, "an area's name has 1 to 64 letters, digits and - _ . /"))?;
        let Some(fields) = content.get_ref().as_table() else {
            return Err(Fault::at(
                name,
                "an area is a table: write [area.NAME], and below it paths = [\"src/**\"]",
            ));
        };
        only(fields, "area.NAME", &["paths"])?;
        let Some(paths) = fields.get("paths") else {
            return Err(Fault::at(name, "an area needs paths, such as paths = [\"src/**\"]"));
        };
        let paths = strings(paths, "paths must be a list of globs, such as [\"src/**\"]")?;
        if paths.is_empty() || paths.len() > MAX_SCOPE {
            return Err(Fault::at(name, format!("an area has 1 to {MAX_SCOPE} globs")));
        }
        for (path, text) in &paths {
            glob(path, text)?;
        }
        let paths = paths.into_iter().map(|(_, text)| text).collect();
        tables.areas.insert(area, Area { paths });
    }
    Ok(())
}

/// The keys of a channel's table besides `trust`.
const PATHS: [&str; 8] = ["reference", "title", "body", "link", "author", "labels", "type", "priority"];

fn intake(tables: &mut Tables, table: &DeTable<'_>) -> Result<(), Fault> {
    for (name, content) in table {
        let channel = name.get_ref();
        // In an origin, the channel's name ends at the first colon.
        if !is_word(channel) || channel.contains(':') {
            return Err(Fault::at(
                name,
                "a channel's name has 1 to 64 bytes, without spaces, commas and colons",
            ));
        }
        let Some(fields) = content.get_ref().as_table() else {
            return Err(Fault::at(name, "a channel is a table: write [intake.NAME], and the keys below it"));
        };
        let known: Vec<&'static str> = PATHS.into_iter().chain(["trust"]).collect();
        only(fields, "intake.NAME", &known)?;
        let trust = flag(fields, "trust")?;
        let paths = match Channel::named(channel) {
            Some(_) => {
                if let Some((field, _)) = fields.iter().find(|(field, _)| field.get_ref() != "trust") {
                    return Err(Fault::at(
                        field,
                        "onus knows what this channel delivers: only trust can be set",
                    ));
                }
                None
            }
            None => Some(paths(name, fields)?),
        };
        tables.intake.insert(channel.to_string(), IntakeChannel { trust, paths });
    }
    Ok(())
}

fn paths(name: &Spanned<impl Sized>, fields: &DeTable<'_>) -> Result<Paths, Fault> {
    let optional = |field: &str| -> Result<Option<FieldPath>, Fault> {
        let Some(value) = fields.get(field) else { return Ok(None) };
        let DeValue::String(text) = value.get_ref() else {
            return Err(Fault::at(value, "it must be a field path in quotes, such as \"ticket.id\""));
        };
        text.parse().map(Some).map_err(|why: String| Fault::at(value, why))
    };
    let needed = |field: &str| {
        let wanted = "a channel of your own needs reference and title: where its JSON has them";
        optional(field)?.ok_or_else(|| Fault::at(name, wanted))
    };
    Ok(Paths {
        reference: needed("reference")?,
        title: needed("title")?,
        body: optional("body")?,
        link: optional("link")?,
        author: optional("author")?,
        labels: optional("labels")?,
        kind: optional("type")?,
        priority: optional("priority")?,
    })
}

/// Refuses an unknown field. `form`: the table, as people write it.
pub(super) fn only(fields: &DeTable<'_>, form: &str, known: &[&'static str]) -> Result<(), Fault> {
    match fields.keys().find(|field| !known.contains(&&**field.get_ref())) {
        Some(field) => {
            let hint = match nearest(field.get_ref(), known.iter().copied()) {
                Some(near) => format!("the nearest is {near}"),
                None => format!("use {}", known.join(", ")),
            };
            Err(Fault::at(field, format!("unknown key in [{form}]; {hint}")))
        }
        None => Ok(()),
    }
}

/// A field that is true or false; false if it is missing.
pub(super) fn flag(fields: &DeTable<'_>, name: &str) -> Result<bool, Fault> {
    match fields.get(name).map(|value| (value, value.get_ref())) {
        None => Ok(false),
        Some((_, DeValue::Boolean(flag))) => Ok(*flag),
        Some((value, _)) => Err(Fault::at(value, format!("{name} must be true or false, without quotes"))),
    }
}

pub(super) fn glob(place: &Spanned<DeValue<'_>>, text: &str) -> Result<Glob, Fault> {
    let wanted = "it must be a glob from the repository's root, such as \"src/**\"";
    text.parse().map_err(|_| Fault::at(place, wanted))
}

/// The items of a list of strings, each with its position.
pub(super) fn strings<'t>(
    value: &'t Spanned<DeValue<'_>>,
    wanted: &str,
) -> Result<Vec<(&'t Spanned<DeValue<'t>>, String)>, Fault> {
    let DeValue::Array(items) = value.get_ref() else { return Err(Fault::at(value, wanted)) };
    let strings = items.iter().map(|item| match item.get_ref() {
        DeValue::String(text) => Ok((item, text.clone().into_owned())),
        _ => Err(Fault::at(item, wanted)),
    });
    strings.collect()
}
