//! Changes one key in one file. Comments, order and everything else stay as they are.
//!
//! Nothing is written that would be refused when it is read: the new text is parsed first. The file is replaced atomically, and a
//! repository's file is never reached through a link that leaves its work tree. Concurrent edits of one file are serialized by a
//! lock on its folder, since the file itself is replaced.

use std::fs::File;
use std::path::{Path, PathBuf};

use onus_agents::setup::files::{Bounds, Seen, look, make_folders, write};
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::AreaName;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

use super::file::Layer;
use super::keys::{Key, Kind, check};
use super::{SHARED_FILE, key, user_file};
use crate::Host;
use crate::gates::Preset;

/// Whose file is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Repository,
    User,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    pub file: PathBuf,
    /// The file is new.
    pub created: bool,
    /// The key's new value, as in the file.
    pub value: Option<serde_json::Value>,
}

/// The position of a key in a file.
struct KeyPlace {
    tables: Vec<String>,
    last: String,
    of: Named,
}

enum Named {
    Key(&'static Key),
    /// The globs of an area.
    Area,
}

fn named(name: &str, owner: Owner) -> Result<KeyPlace, Refusal> {
    if let Some(rest) = name.strip_prefix("area.") {
        let area: AreaName = rest.strip_suffix(".paths").unwrap_or(rest).parse()?;
        if owner == Owner::User {
            return Err(Refusal::usage(format!(
                "areas say what a project is: they are set in its {SHARED_FILE}, not in the user's file"
            )));
        }
        let tables = vec!["area".to_owned(), area.to_string()];
        return Ok(KeyPlace { tables, last: "paths".to_owned(), of: Named::Area });
    }
    let key = key(name)?;
    if owner == Owner::Repository && !key.shared {
        return Err(Refusal::usage(format!(
            "{} belongs to a user, not a repository: set it in the user's file",
            key.name
        )));
    }
    let (section, last) = key.name.split_once('.').unwrap_or(("", key.name));
    Ok(KeyPlace { tables: vec![section.to_owned()], last: last.to_owned(), of: Named::Key(key) })
}

/// Sets a key. A list takes any number of values, everything else one.
pub fn set(host: &Host, owner: Owner, name: &str, values: &[String]) -> Result<Edited, Refusal> {
    let place = named(name, owner)?;
    let value = match place.of {
        Named::Key(key) => value_of(key, values)?,
        Named::Area => Value::from_iter(values.iter().map(String::as_str)),
    };
    let shown = as_json(&value);
    edit(host, owner, |document| {
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for (depth, name) in place.tables.iter().enumerate() {
            let is_last = depth + 1 == place.tables.len();
            let item = table.entry(name).or_insert_with(|| {
                let mut made = Table::new();
                // No [area] header is written above [area.auth].
                made.set_implicit(!is_last);
                Item::Table(made)
            });
            table =
                item.as_table_like_mut().ok_or_else(|| Refusal::usage(format!("{name} is not a table")))?;
        }
        match table.get_mut(&place.last).and_then(Item::as_value_mut) {
            Some(old) => {
                // Keeps a comment after it.
                let decor = old.decor().clone();
                *old = value.clone();
                *old.decor_mut() = decor;
            }
            None => {
                table.insert(&place.last, Item::Value(value.clone()));
            }
        }
        Ok(())
    })
    .map(|edited| Edited { value: Some(shown), ..edited })
}

/// Adds gates at the end of the project's file.
pub(crate) fn add_gates(host: &Host, gates: &[Preset]) -> Result<Edited, Refusal> {
    edit(host, Owner::Repository, |document| {
        let list = document.as_table_mut().entry("gate").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        let list = list.as_array_of_tables_mut();
        let list =
            list.ok_or_else(|| Refusal::usage(format!("gate is not a list of tables in {SHARED_FILE}")))?;
        for gate in gates {
            let mut table = Table::new();
            table.insert("key", Item::Value(Value::from(gate.key)));
            table.insert("title", Item::Value(Value::from(gate.title)));
            table.insert("run", Item::Value(Value::from_iter(gate.run.iter().map(String::as_str))));
            list.push(table);
        }
        Ok(())
    })
}

/// Removes a key, and its table if that becomes empty.
pub fn unset(host: &Host, owner: Owner, name: &str) -> Result<Edited, Refusal> {
    let place = named(name, owner)?;
    edit(host, owner, |document| {
        if take(document.as_table_mut(), &place.tables, &place.last) {
            return Ok(());
        }
        let file = if owner == Owner::User { "the user's file" } else { SHARED_FILE };
        Err(Refusal::new(Code::NotFound, format!("{name} is not set in {file}")))
    })
}

/// Removes a key. Returns whether it was there.
fn take(table: &mut dyn TableLike, tables: &[String], last: &str) -> bool {
    let Some((first, rest)) = tables.split_first() else { return table.remove(last).is_some() };
    let Some(inner) = table.get_mut(first).and_then(Item::as_table_like_mut) else { return false };
    let was_there = take(inner, rest, last);
    // An empty table is removed, too, unless it has a comment.
    let is_bare = inner.is_empty()
        && table.get(first).and_then(Item::as_table).is_none_or(|table| {
            let above = table.decor().prefix().and_then(|above| above.as_str()).unwrap_or_default();
            !above.contains('#')
        });
    if was_there && is_bare {
        table.remove(first);
    }
    was_there
}

fn value_of(key: &Key, values: &[String]) -> Result<Value, Refusal> {
    let text = match (key.kind, values) {
        (kind, items) if kind.is_list() => items.join("\n"),
        (_, [one]) => one.clone(),
        _ => return Err(Refusal::usage(format!("{} takes one value: {}", key.name, key.kind.wanted()))),
    };
    if values.iter().any(|value| value.contains('\n')) {
        return Err(Refusal::usage(format!("{} must be {}", key.name, key.kind.wanted())));
    }
    check(key, &text).map_err(|why| Refusal::usage(format!("{}: {why}", key.name)))?;
    Ok(match key.kind {
        Kind::Globs | Kind::Words | Kind::Argv | Kind::Template | Kind::Rates => {
            Value::from_iter(values.iter().map(String::as_str))
        }
        Kind::Flag => Value::from(text == "true"),
        Kind::Count => match text.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => return Err(Refusal::usage(format!("{}: that is too large", key.name))),
        },
        _ => Value::from(text),
    })
}

fn as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Integer(number) => serde_json::json!(number.value()),
        Value::Boolean(flag) => serde_json::json!(flag.value()),
        Value::Array(items) => strings(items).into(),
        other => serde_json::json!(other.as_str().unwrap_or_default()),
    }
}

fn strings(items: &Array) -> Vec<serde_json::Value> {
    items.iter().filter_map(Value::as_str).map(Into::into).collect()
}

fn edit(
    host: &Host,
    owner: Owner,
    change: impl Fn(&mut DocumentMut) -> Result<(), Refusal>,
) -> Result<Edited, Refusal> {
    match owner {
        Owner::Repository => {
            let root = host.shared_folder();
            let (file, bounds) = (root.join(SHARED_FILE), Bounds::Tree(root.to_owned()));
            edit_at(&file, Layer::Repository(root), &bounds, 0o644, change)
        }
        Owner::User => {
            let file = user_file().ok_or_else(|| {
                Refusal::usage("there is no place for a user's file: neither XDG_CONFIG_HOME nor HOME is set")
            })?;
            edit_at(&file, Layer::User(&file), &Bounds::Own, 0o600, change)
        }
    }
}

fn edit_at(
    file: &Path,
    layer: Layer<'_>,
    bounds: &Bounds,
    mode: u32,
    change: impl Fn(&mut DocumentMut) -> Result<(), Refusal>,
) -> Result<Edited, Refusal> {
    let edited = || {
        let seen = look(file, bounds)?;
        let after = changed(file, layer, seen.text.as_deref().unwrap_or_default(), &change)?;
        Ok::<_, Refusal>((seen, after))
    };
    // The first pass makes sure that no folders are made for a change that is refused.
    let (Seen { real, .. }, _) = edited()?;
    make_folders(&real)?;
    let _lock = lock_folder(&real);
    let (Seen { real, text }, after) = edited()?;
    if text.as_deref() != Some(after.as_str()) {
        write(&real, &after, mode)?;
    }
    Ok(Edited { file: file.to_owned(), created: text.is_none(), value: None })
}

/// Waits until nobody else edits a file in this folder. None if the file system has no such locks.
fn lock_folder(file: &Path) -> Option<File> {
    let folder = File::open(file.parent()?).ok()?;
    folder.lock().ok()?;
    Some(folder)
}

/// A file's text after a change.
fn changed(
    file: &Path,
    layer: Layer<'_>,
    before: &str,
    change: impl Fn(&mut DocumentMut) -> Result<(), Refusal>,
) -> Result<String, Refusal> {
    // A file that cannot be parsed is refused, with the position, before it is changed.
    layer.parse(before)?;
    let mut document: DocumentMut =
        before.parse().map_err(|_| Refusal::usage(format!("{} cannot be edited", file.display())))?;
    change(&mut document)?;
    let after = document.to_string();
    layer.parse(&after)?;
    if after.len() as u64 > onus_repo::MAX_BYTES {
        return Err(Refusal::usage(format!("{} would be too large", file.display())));
    }
    Ok(after)
}
