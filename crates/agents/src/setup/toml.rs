//! Puts entries into TOML files and removes them. A table is added at the end of the text and removed by its
//! lines, so that the rest is not even rewritten; only an entry inside someone's inline value is edited in place.

use std::ops::Range;

use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::compare::{self, differences, runs_onus};
use super::markdown::line_end;
use super::{Broken, Difference};

fn parsed(text: &str) -> Result<Document<String>, Broken> {
    Document::parse(text.to_owned()).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        // The parser's own message may quote the text, so it is not shown.
        Broken { line, why: "not TOML".into() }
    })
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn broken(text: &str, item: &Item, why: impl Into<String>) -> Broken {
    Broken { line: item.span().map_or(1, |span| line_at(text, span.start)), why: why.into() }
}

fn table_in<'a>(
    text: &str,
    table: &'a dyn TableLike,
    name: &str,
) -> Result<Option<(&'a Item, &'a dyn TableLike)>, Broken> {
    match table.get(name) {
        None => Ok(None),
        Some(item) => match item.as_table_like() {
            Some(inner) => Ok(Some((item, inner))),
            None => Err(broken(text, item, format!("{name} is not a table"))),
        },
    }
}

/// Appends lines to a text, after an empty one.
fn appended(text: &str, lines: &[String]) -> Result<String, Broken> {
    let end = line_end(text);
    let mut longer = text.to_owned();
    if !text.is_empty() {
        if !text.ends_with('\n') {
            longer.push_str(end);
        }
        longer.push_str(end);
    }
    for line in lines {
        longer.push_str(line);
        longer.push_str(end);
    }
    parsed(&longer).map(|_| longer)
}

/// Makes an edit that cannot be made by whole lines. The library writes plain line endings, so others are restored.
fn edited(text: &str, edit: impl FnOnce(&mut DocumentMut)) -> Result<String, Broken> {
    let mut document = parsed(&text.replace("\r\n", "\n"))?.into_mut();
    edit(&mut document);
    let plain = document.to_string();
    Ok(if text.contains("\r\n") { plain.replace('\n', "\r\n") } else { plain })
}

/// An item as a JSON value, for comparison.
fn plain(item: &Item) -> serde_json::Value {
    if let Some(table) = item.as_table_like() {
        return table.iter().map(|(name, inner)| (name.to_owned(), plain(inner))).collect();
    }
    match item {
        Item::Value(Value::String(text)) => text.value().as_str().into(),
        Item::Value(Value::Array(list)) => {
            list.iter().map(|value| plain(&Item::Value(value.clone()))).collect()
        }
        // Other types do not occur in our entries.
        other => other.to_string().trim().into(),
    }
}

/// The entry with our server's name, and its line.
fn server_in(text: &str) -> Result<Option<(usize, serde_json::Value)>, Broken> {
    let document = parsed(text)?;
    let Some((_, servers)) = table_in(text, document.as_table(), "mcp_servers")? else { return Ok(None) };
    let Some((item, _)) = table_in(text, servers, "onus")? else { return Ok(None) };
    Ok(Some((item.span().map_or(1, |span| line_at(text, span.start)), plain(item))))
}

/// The lines of our server, as they are added and shown to people.
pub fn server_lines() -> Vec<String> {
    let variables = Value::Array(Array::from_iter(VARIABLES)).to_string();
    vec![
        "[mcp_servers.onus]".to_owned(),
        "command = \"onus\"".to_owned(),
        "args = [\"mcp\"]".to_owned(),
        format!("env_vars = {}", variables.trim()),
    ]
}

/// The variables that the server inherits: the caller's identity, the store, and how to reach it.
const VARIABLES: [&str; 8] = [
    "ONUS_ACTOR",
    "ONUS_INSTANCE",
    "ONUS_TASK",
    "ONUS_TOKEN",
    "ONUS_STORE",
    "ONUS_STORE_WAIT",
    "ONUS_PROJECT",
    "PGPASSWORD",
];

/// Our server's entry, as a value.
fn server() -> serde_json::Value {
    let mut server = compare::server();
    server["env_vars"] = VARIABLES.into_iter().collect();
    server
}

/// The text with our MCP server. Another entry of that name is replaced.
pub fn with_server(text: &str) -> Result<String, Broken> {
    match compared_server(text)? {
        Some(differences) if differences.is_empty() => return Ok(text.to_owned()),
        Some(_) => return with_server(&without_entry(text)?),
        None => {}
    }
    let document = parsed(text)?;
    if !matches!(document.get("mcp_servers"), Some(Item::Value(_))) {
        return appended(text, &server_lines());
    }
    edited(text, |document| {
        let mut server = InlineTable::new();
        server.insert("command", "onus".into());
        server.insert("args", Value::Array(Array::from_iter(["mcp"])));
        server.insert("env_vars", Value::Array(Array::from_iter(VARIABLES)));
        if let Some(servers) = document["mcp_servers"].as_inline_table_mut() {
            servers.insert("onus", Value::InlineTable(server));
        }
    })
}

pub fn without_server(text: &str) -> Result<String, Broken> {
    match server_in(text)? {
        None => Ok(text.to_owned()),
        Some((_, entry)) if runs_onus(&entry) => without_entry(text),
        Some((line, _)) => {
            let why = "mcp_servers.onus is another server: rename or remove it".to_owned();
            Err(Broken { line, why })
        }
    }
}

/// The text without the entry of our server's name, removed by its lines if it has lines of its own.
fn without_entry(text: &str) -> Result<String, Broken> {
    let document = parsed(text)?;
    if let Some(Item::Table(table)) = document.get("mcp_servers").and_then(|servers| servers.get("onus"))
        && table.span().is_some()
        && !table.is_dotted()
    {
        let mut ranges = Vec::new();
        ranges_of(table, &mut ranges);
        let shorter = without_ranges(text, ranges);
        // Only if that removed all of the entry, and nothing else.
        let others = |text: &str| -> Result<serde_json::Value, Broken> {
            let mut all = plain(parsed(text)?.as_item());
            if let Some(servers) = all.get_mut("mcp_servers").and_then(serde_json::Value::as_object_mut) {
                servers.remove("onus");
            }
            Ok(all)
        };
        let same = |shorter: &str| {
            Ok::<bool, Broken>(server_in(shorter)?.is_none() && others(shorter)? == others(text)?)
        };
        if same(&shorter).unwrap_or(false) {
            return Ok(shorter);
        }
    }
    edited(text, |document| {
        let servers = document.get_mut("mcp_servers").and_then(Item::as_table_like_mut);
        if let Some(servers) = servers {
            servers.remove("onus");
            if servers.is_empty() {
                document.remove("mcp_servers");
            }
        }
    })
}

/// The range of each header of a table: from the header to the end of its last value.
fn ranges_of(table: &Table, ranges: &mut Vec<Range<usize>>) {
    if let Some(span) = table.span() {
        let values = table.iter().filter_map(|(_, item)| item.as_value().and_then(Value::span));
        let end = values.map(|value| value.end).max().unwrap_or(span.end);
        ranges.push(span.start..end.max(span.end));
    }
    for (_, item) in table.iter() {
        if let Item::Table(inner) = item {
            ranges_of(inner, ranges);
        }
    }
}

/// The text without some of its lines and an empty line before them.
fn without_ranges(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    ranges.sort_by_key(|range| range.start);
    let mut shorter = text.to_owned();
    for range in ranges.into_iter().rev() {
        let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at + 1);
        let before = &text[..start];
        let line_before = before.strip_suffix("\r\n").or(before.strip_suffix('\n')).unwrap_or(before);
        let empty_before = line_before.ends_with('\n') || line_before.is_empty();
        let start = if empty_before { line_before.len() } else { start };
        shorter.replace_range(start..end, "");
    }
    shorter
}

/// How the entry with our server's name differs from what would be written. None if there is none.
pub fn compared_server(text: &str) -> Result<Option<Vec<Difference>>, Broken> {
    let Some((line, entry)) = server_in(text)? else { return Ok(None) };
    Ok(Some(differences("mcp_servers.onus", line, &server(), &entry)))
}

pub fn is_anothers_server(text: &str) -> Result<bool, Broken> {
    Ok(server_in(text)?.is_some_and(|(_, entry)| !runs_onus(&entry)))
}

const ROOTS: (&str, &str) = ("sandbox_workspace_write", "writable_roots");

fn quoted(path: &str) -> String {
    Value::from(path).to_string()
}

/// The lines that make a folder writable, as they are added and shown to people.
pub fn root_lines(path: &str) -> Vec<String> {
    vec![format!("[{}]", ROOTS.0), format!("{} = [{}]", ROOTS.1, quoted(path))]
}

fn root_in(document: &Document<String>, text: &str, path: &str) -> Result<Option<bool>, Broken> {
    let Some((_, sandbox)) = table_in(text, document.as_table(), ROOTS.0)? else { return Ok(None) };
    match sandbox.get(ROOTS.1) {
        None => Ok(Some(false)),
        Some(item) => match item.as_array() {
            Some(roots) => Ok(Some(roots.iter().any(|root| root.as_str() == Some(path)))),
            None => Err(broken(text, item, format!("{} is not an array", ROOTS.1))),
        },
    }
}

pub fn with_root(text: &str, path: &str) -> Result<String, Broken> {
    match root_in(&parsed(text)?, text, path)? {
        Some(true) => Ok(text.to_owned()),
        None => appended(text, &root_lines(path)),
        Some(false) => edited(text, |document| {
            let Some(sandbox) = document.get_mut(ROOTS.0).and_then(Item::as_table_like_mut) else { return };
            let roots = sandbox.entry(ROOTS.1).or_insert(Item::Value(Value::Array(Array::new())));
            if let Some(roots) = roots.as_array_mut() {
                roots.push(path);
            }
        }),
    }
}

pub fn without_root(text: &str, path: &str) -> Result<String, Broken> {
    if root_in(&parsed(text)?, text, path)? != Some(true) {
        return Ok(text.to_owned());
    }
    edited(text, |document| {
        let Some(sandbox) = document.get_mut(ROOTS.0).and_then(Item::as_table_like_mut) else { return };
        let Some(roots) = sandbox.get_mut(ROOTS.1).and_then(Item::as_array_mut) else { return };
        roots.retain(|root| root.as_str() != Some(path));
        if roots.is_empty() {
            sandbox.remove(ROOTS.1);
            if sandbox.is_empty() {
                document.remove(ROOTS.0);
            }
        }
    })
}

pub fn has_root(text: &str, path: &str) -> Result<bool, Broken> {
    Ok(root_in(&parsed(text)?, text, path)? == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str =
        "# mine\nmodel = \"o\"\n\n[mcp_servers.docs] # keep\ncommand = \"docs\"\nargs = [\n  \"a\",\n]\n";

    #[test]
    fn a_server_is_added_at_the_end_and_taken_out_by_its_lines() {
        for text in [
            "",
            OTHERS,
            "a = 1",
            "[mcp_servers]\n",
            "mcp_servers.docs.command = \"d\"\n",
            "# only\r\n[t]\r\na = 1\r\n",
        ] {
            let with = with_server(text).unwrap();
            assert!(with.starts_with(text), "{with}");
            assert_eq!(compared_server(&with), Ok(Some(Vec::new())));
            assert_eq!(with_server(&with).unwrap(), with);
            let without = without_server(&with).unwrap();
            let line =
                if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
            assert_eq!(without, line, "{with}");
        }
    }

    #[test]
    fn what_others_wrote_around_our_table_stays() {
        let with = with_server(OTHERS).unwrap();
        let theirs = format!(
            "{with}startup_timeout_sec = 20\n\n[mcp_servers.onus.env]\nA = \"1\"\n\n# the next\n[other]\nb = 2\n"
        );
        assert_eq!(without_server(&theirs).unwrap(), format!("{OTHERS}\n# the next\n[other]\nb = 2\n"));
    }

    #[test]
    fn an_inline_table_is_edited_where_it_stands() {
        let text = "mcp_servers = { docs = { command = \"d\" } } # all\r\nb = 1\r\n";
        let with = with_server(text).unwrap();
        assert_eq!(compared_server(&with), Ok(Some(Vec::new())), "{with}");
        assert!(with.contains("# all\r\nb = 1\r\n"), "{with}");
        assert_eq!(without_server(&with).unwrap(), text);
    }

    #[test]
    fn a_writable_root_joins_those_that_are_there() {
        for text in [
            "",
            "[sandbox_workspace_write]\nnetwork_access = true # yes\n",
            "[sandbox_workspace_write]\nwritable_roots = [\"/a\"] # mine\n",
        ] {
            let with = with_root(text, "/r/.git/onus").unwrap();
            assert_eq!(has_root(&with, "/r/.git/onus"), Ok(true), "{with}");
            assert_eq!(with_root(&with, "/r/.git/onus").unwrap(), with);
            assert_eq!(without_root(&with, "/r/.git/onus").unwrap().trim_end(), text.trim_end(), "{with}");
        }
    }

    #[test]
    fn what_is_broken_is_named_with_its_line() {
        let line = |text: &str| with_server(text).unwrap_err().line;
        assert_eq!(line("a = 1\nb = \n"), 2);
        assert_eq!(line("a = 1\n\nmcp_servers = 3\n"), 3);
        let others = "[mcp_servers.x]\ncommand = \"x\"\n[mcp_servers.onus]\ncommand = \"other\"\n";
        assert_eq!(without_server(others).unwrap_err().line, 3);
        assert_eq!(with_root("[sandbox_workspace_write]\nwritable_roots = 1\n", "/x").unwrap_err().line, 2);
    }
}
