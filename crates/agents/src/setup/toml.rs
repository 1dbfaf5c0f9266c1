//! Entries put into TOML files and taken out of them again. A table is added at the end of the text and taken out by its
//! lines, so that the rest of it is not even written anew; only what stands inside somebody's inline value is edited there.

use std::ops::Range;

use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::{Broken, State};

fn parsed(text: &str) -> Result<Document<String>, Broken> {
    Document::parse(text.to_owned()).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        Broken { line, why: format!("not TOML: {}", error.message()) }
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

fn line_end(text: &str) -> &'static str {
    if text.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" }
}

/// The text with more lines at its end, after an empty one.
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

/// Edits that cannot be made by whole lines. The library writes plain line ends: others are put back.
fn edited(text: &str, edit: impl FnOnce(&mut DocumentMut)) -> Result<String, Broken> {
    let mut document = parsed(&text.replace("\r\n", "\n"))?.into_mut();
    edit(&mut document);
    let plain = document.to_string();
    Ok(if text.contains("\r\n") { plain.replace('\n', "\r\n") } else { plain })
}

fn is_our_server(server: &dyn TableLike) -> bool {
    let program = server.get("command").and_then(Item::as_str).unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let args = server.get("args").and_then(Item::as_array);
    matches!(program, "onus" | "onus.exe")
        && args.is_some_and(|args| args.iter().any(|word| word.as_str() == Some("mcp")))
}

/// The lines of our server, as they are added, and as people are shown them.
pub fn server_lines() -> Vec<String> {
    ["[mcp_servers.onus]", "command = \"onus\"", "args = [\"mcp\"]"].map(str::to_owned).into()
}

/// Our MCP server among the others. One that runs `onus mcp` already, somehow, is left as it is.
pub fn with_server(text: &str) -> Result<String, Broken> {
    if state_of_server(text)? == State::Present {
        return Ok(text.to_owned());
    }
    let document = parsed(text)?;
    if !matches!(document.get("mcp_servers"), Some(Item::Value(_))) {
        return appended(text, &server_lines());
    }
    edited(text, |document| {
        let mut server = InlineTable::new();
        server.insert("command", "onus".into());
        server.insert("args", Value::Array(Array::from_iter(["mcp"])));
        if let Some(servers) = document["mcp_servers"].as_inline_table_mut() {
            servers.insert("onus", Value::InlineTable(server));
        }
    })
}

pub fn without_server(text: &str) -> Result<String, Broken> {
    if state_of_server(text)? != State::Present {
        return Ok(text.to_owned());
    }
    let document = parsed(text)?;
    match document.get("mcp_servers").and_then(|servers| servers.get("onus")) {
        Some(Item::Table(table)) if table.span().is_some() && !table.is_dotted() => {
            let mut ranges = Vec::new();
            ranges_of(table, &mut ranges);
            Ok(without_ranges(text, ranges))
        }
        _ => edited(text, |document| {
            let servers = document.get_mut("mcp_servers").and_then(Item::as_table_like_mut);
            if let Some(servers) = servers {
                servers.remove("onus");
                if servers.is_empty() {
                    document.remove("mcp_servers");
                }
            }
        }),
    }
}

/// What each header of a table has below it: from the header to the end of its last value.
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

/// The text without some of its lines; an empty line before them goes with them.
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

pub fn state_of_server(text: &str) -> Result<State, Broken> {
    let document = parsed(text)?;
    let Some((_, servers)) = table_in(text, document.as_table(), "mcp_servers")? else {
        return Ok(State::Missing);
    };
    match table_in(text, servers, "onus")? {
        None => Ok(State::Missing),
        Some((_, server)) if is_our_server(server) => Ok(State::Present),
        Some((item, _)) => {
            Err(broken(text, item, "mcp_servers.onus is another server: rename it or take it out"))
        }
    }
}

const ROOTS: (&str, &str) = ("sandbox_workspace_write", "writable_roots");

fn quoted(path: &str) -> String {
    Value::from(path).to_string()
}

/// The lines that make a folder writable, as they are added, and as people are shown them.
pub fn root_lines(path: &str) -> Vec<String> {
    vec![format!("[{}]", ROOTS.0), format!("{} = [{}]", ROOTS.1, quoted(path))]
}

fn has_root(document: &Document<String>, text: &str, path: &str) -> Result<Option<bool>, Broken> {
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
    match has_root(&parsed(text)?, text, path)? {
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
    if has_root(&parsed(text)?, text, path)? != Some(true) {
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

pub fn state_of_root(text: &str, path: &str) -> Result<State, Broken> {
    let found = has_root(&parsed(text)?, text, path)? == Some(true);
    Ok(if found { State::Present } else { State::Missing })
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
            assert_eq!(state_of_server(&with), Ok(State::Present));
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
        assert_eq!(state_of_server(&with), Ok(State::Present), "{with}");
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
            assert_eq!(state_of_root(&with, "/r/.git/onus"), Ok(State::Present), "{with}");
            assert_eq!(with_root(&with, "/r/.git/onus").unwrap(), with);
            assert_eq!(without_root(&with, "/r/.git/onus").unwrap().trim_end(), text.trim_end(), "{with}");
        }
    }

    #[test]
    fn what_is_broken_is_named_with_its_line() {
        let line = |text: &str| with_server(text).unwrap_err().line;
        assert_eq!(line("a = 1\nb = \n"), 2);
        assert_eq!(line("a = 1\n\nmcp_servers = 3\n"), 3);
        assert_eq!(line("[mcp_servers.x]\ncommand = \"x\"\n[mcp_servers.onus]\ncommand = \"other\"\n"), 3);
        assert_eq!(with_root("[sandbox_workspace_write]\nwritable_roots = 1\n", "/x").unwrap_err().line, 2);
    }
}
