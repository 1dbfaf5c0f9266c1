//! Entries put into JSON files and taken out of them again. Everything else in the text stays as it is, byte by byte:
//! comments, order, indentation, line ends.

use std::collections::BTreeMap;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value, json};

use super::compare::{self, differences, runs_onus, shown};
use super::{Broken, Difference};

/// What a file's reader understands beyond plain JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Strict,
    /// Comments, but no trailing commas.
    Comments,
}

/// One hook: the group under its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub event: &'static str,
    /// None: whatever the event is about.
    pub matcher: Option<&'static str>,
    /// What the agent calls it in its own lists, where it has names.
    pub name: Option<&'static str>,
    pub command: String,
    /// In the agent's own unit.
    pub timeout: u64,
}

impl Hook {
    fn group(&self) -> Value {
        let mut handler = Map::new();
        if let Some(name) = self.name {
            handler.insert("name".into(), name.into());
        }
        handler.insert("type".into(), "command".into());
        handler.insert("command".into(), self.command.clone().into());
        handler.insert("timeout".into(), self.timeout.into());
        let mut group = Map::new();
        if let Some(matcher) = self.matcher {
            group.insert("matcher".into(), matcher.into());
        }
        group.insert("hooks".into(), json!([handler]));
        Value::Object(group)
    }

    /// Our hook, in the order that people write it in: a map sorts its keys.
    fn input(&self) -> CstInputValue {
        let text = |text: &str| CstInputValue::String(text.to_owned());
        let mut handler = Vec::new();
        if let Some(name) = self.name {
            handler.push(("name".to_owned(), text(name)));
        }
        handler.push(("type".to_owned(), text("command")));
        handler.push(("command".to_owned(), text(&self.command)));
        handler.push(("timeout".to_owned(), CstInputValue::Number(self.timeout.to_string())));
        let mut group = Vec::new();
        if let Some(matcher) = self.matcher {
            group.push(("matcher".to_owned(), text(matcher)));
        }
        group.push(("hooks".to_owned(), CstInputValue::Array(vec![CstInputValue::Object(handler)])));
        CstInputValue::Object(group)
    }
}

/// A file that is there but says nothing is the same as one that says `{}`.
fn or_empty(text: &str) -> &str {
    if text.trim().is_empty() { "{}\n" } else { text }
}

fn parsed(text: &str, dialect: Dialect) -> Result<(CstRootNode, CstObject), Broken> {
    let options = ParseOptions {
        allow_comments: dialect == Dialect::Comments,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let root = CstRootNode::parse(text, &options).map_err(|error| {
        let why = match dialect {
            Dialect::Strict => format!("not JSON: {}", error.kind()),
            Dialect::Comments => format!("not JSON with comments: {}", error.kind()),
        };
        Broken { line: error.line_display(), why }
    })?;
    // The tree has a place for comments whether they are allowed or not.
    if dialect == Dialect::Strict
        && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
    {
        return Err(Broken {
            line: error.line(),
            why: "not JSON: this file may not contain comments".into(),
        });
    }
    match root.object_value() {
        Some(object) => Ok((root, object)),
        None => Err(Broken { line: 1, why: "the top level is not an object".into() }),
    }
}

/// What a file says, for looking at it only. None: it cannot be read.
pub(super) fn value(text: &str, dialect: Dialect) -> Option<Value> {
    parsed(or_empty(text), dialect).ok()?.0.value()?.to_serde_value()
}

/// The line that a part of the text begins on.
fn line_of(node: &CstNode) -> usize {
    let mut breaks = 0;
    let mut at = node.clone();
    loop {
        breaks +=
            at.previous_siblings().map(|before| before.to_string().matches('\n').count()).sum::<usize>();
        match at.parent() {
            Some(parent) => at = parent.into(),
            None => return breaks + 1,
        }
    }
}

/// A property's value. The same name twice is refused: readers differ in which of the two they believe.
fn value_of(object: &CstObject, name: &str) -> Result<Option<CstNode>, Broken> {
    let mut found =
        object.properties().into_iter().filter(|prop| prop.decoded_name().as_deref() == Some(name));
    let Some(first) = found.next() else { return Ok(None) };
    if let Some(second) = found.next() {
        return Err(Broken { line: line_of(&second.into()), why: format!("{name} occurs twice") });
    }
    Ok(first.value())
}

fn object_in(object: &CstObject, name: &str) -> Result<Option<CstObject>, Broken> {
    match value_of(object, name)? {
        None => Ok(None),
        Some(node) => match node.as_object() {
            Some(inner) => Ok(Some(inner)),
            None => Err(Broken { line: line_of(&node), why: format!("{name} is not an object") }),
        },
    }
}

fn array_in(object: &CstObject, name: &str) -> Result<Option<CstArray>, Broken> {
    match value_of(object, name)? {
        None => Ok(None),
        Some(node) => match node.as_array() {
            Some(inner) => Ok(Some(inner)),
            None => Err(Broken { line: line_of(&node), why: format!("{name} is not an array") }),
        },
    }
}

/// The object under a name, made if it is not there.
fn object_made(object: &CstObject, name: &str) -> Result<CstObject, Broken> {
    match object_in(object, name)? {
        Some(inner) => Ok(inner),
        None => Ok(object.object_value_or_set(name)),
    }
}

fn array_made(object: &CstObject, name: &str) -> Result<CstArray, Broken> {
    match array_in(object, name)? {
        Some(inner) => Ok(inner),
        None => Ok(object.array_value_or_set(name)),
    }
}

fn take_out(object: &CstObject, name: &str) {
    if let Some(prop) = object.get(name) {
        prop.remove();
    }
}

/// The handlers of an event that run us, each with its group.
fn ours(event: &CstArray, mark: &str) -> Vec<(CstObject, CstArray, CstNode)> {
    let mut found = Vec::new();
    for group in event.elements().iter().filter_map(CstNode::as_object) {
        let Some(handlers) = group.array_value("hooks") else { continue };
        for handler in handlers.elements() {
            let value = handler.to_serde_value().unwrap_or_default();
            if value["command"].as_str().is_some_and(|command| command.contains(mark)) {
                found.push((group.clone(), handlers.clone(), handler));
            }
        }
    }
    found
}

/// Takes our handlers out of an event, and the groups that they leave empty.
fn without_ours(event: &CstArray, mark: &str) -> bool {
    let found = ours(event, mark);
    for (group, handlers, handler) in &found {
        handler.clone().remove();
        if handlers.elements().is_empty() {
            group.clone().remove();
        }
    }
    !found.is_empty()
}

/// Refuses a name that occurs twice anywhere in an entry of ours.
fn only_once(node: &CstNode) -> Result<(), Broken> {
    if let Some(object) = node.as_object() {
        let mut names = std::collections::BTreeSet::new();
        for prop in object.properties() {
            let name = prop.decoded_name().unwrap_or_default();
            if !names.insert(name.clone()) {
                let why = format!("{} occurs twice", shown(&name));
                return Err(Broken { line: line_of(&prop.into()), why });
            }
            prop.value().as_ref().map_or(Ok(()), only_once)?;
        }
    }
    node.as_array().iter().flat_map(CstArray::elements).try_for_each(|element| only_once(&element))
}

/// How an event's hook differs from ours. None: nothing there runs us.
fn compared_hook(
    event: &CstArray,
    name: &str,
    wanted: Option<&Hook>,
    mark: &str,
) -> Result<Option<Vec<Difference>>, Broken> {
    let ours = ours(event, mark);
    let at = format!("hooks.{}", shown(name));
    let differs = |node: CstNode, what| vec![Difference { line: line_of(&node), what }];
    for (group, ..) in &ours {
        only_once(&group.clone().into())?;
    }
    Ok(match (wanted, ours.as_slice()) {
        (_, []) => None,
        (None, [(.., handler), ..]) => {
            Some(differs(handler.clone(), format!("{at} is not an event that onus answers")))
        }
        (Some(hook), [(group, ..)]) => {
            let is = group.to_serde_value().unwrap_or_default();
            let differences = differences(&at, &hook.group(), &is).into_iter();
            let line = line_of(&group.clone().into());
            Some(differences.map(|what| Difference { line, what }).collect())
        }
        (Some(_), [_, (.., second), ..]) => {
            Some(differs(second.clone(), format!("{at} runs onus more than once")))
        }
    })
}

/// Every hook of ours under its event, once. Hooks of ours that are not asked for any more are taken out.
pub fn with_hooks(text: &str, dialect: Dialect, hooks: &[Hook], mark: &str) -> Result<String, Broken> {
    let (root, top) = parsed(or_empty(text), dialect)?;
    if compared_hooks(text, dialect, hooks, mark)?.is_some_and(|differences| differences.is_empty()) {
        return Ok(text.to_owned());
    }
    let all = object_made(&top, "hooks")?;
    for prop in all.properties() {
        let Some(name) = prop.decoded_name() else { continue };
        let wanted = hooks.iter().any(|hook| hook.event == name);
        if let Some(event) = prop.array_value().filter(|_| !wanted)
            && without_ours(&event, mark)
            && event.elements().is_empty()
        {
            prop.remove();
        }
    }
    for hook in hooks {
        let event = array_made(&all, hook.event)?;
        if compared_hook(&event, hook.event, Some(hook), mark)?.is_none_or(|found| !found.is_empty()) {
            without_ours(&event, mark);
            event.append(hook.input());
        }
    }
    Ok(root.to_string())
}

/// None of our hooks, nor what only they were in.
pub fn without_hooks(text: &str, dialect: Dialect, mark: &str) -> Result<String, Broken> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let (root, top) = parsed(text, dialect)?;
    let Some(all) = object_in(&top, "hooks")? else { return Ok(text.to_owned()) };
    let mut took = false;
    for prop in all.properties() {
        let Some(event) = prop.array_value() else { continue };
        if without_ours(&event, mark) {
            took = true;
            if event.elements().is_empty() {
                prop.remove();
            }
        }
    }
    if took && all.properties().is_empty() {
        take_out(&top, "hooks");
    }
    Ok(if took { root.to_string() } else { text.to_owned() })
}

/// What is there of our hooks. None: nothing.
pub fn compared_hooks(
    text: &str,
    dialect: Dialect,
    hooks: &[Hook],
    mark: &str,
) -> Result<Option<Vec<Difference>>, Broken> {
    let (_root, top) = parsed(or_empty(text), dialect)?;
    let Some(all) = object_in(&top, "hooks")? else { return Ok(None) };
    let mut there = BTreeMap::new();
    for prop in all.properties() {
        let name = prop.decoded_name().unwrap_or_default();
        let wanted = hooks.iter().find(|hook| hook.event == name);
        if wanted.is_some() {
            // Asked for, so it has to be what it should be.
            array_in(&all, &name)?;
        }
        if let Some(event) = prop.array_value()
            && let Some(differences) = compared_hook(&event, &name, wanted, mark)?
        {
            there.insert(name, differences);
        }
    }
    if there.is_empty() {
        return Ok(None);
    }
    let line = line_of(&all.into());
    let missing = hooks.iter().filter(|hook| !there.contains_key(hook.event));
    let missing: Vec<Difference> = missing
        .map(|hook| Difference { line, what: format!("hooks.{} does not run onus", hook.event) })
        .collect();
    Ok(Some(there.into_values().flatten().chain(missing).collect()))
}

/// The entry that has our server's name.
struct Server {
    root: CstRootNode,
    top: CstObject,
    servers: CstObject,
    line: usize,
    entry: Value,
}

fn server_in(text: &str, dialect: Dialect) -> Result<Option<Server>, Broken> {
    let (root, top) = parsed(or_empty(text), dialect)?;
    let Some(servers) = object_in(&top, "mcpServers")? else { return Ok(None) };
    let Some(node) = value_of(&servers, "onus")? else { return Ok(None) };
    only_once(&node)?;
    let entry = node.to_serde_value().unwrap_or_default();
    Ok(Some(Server { root, top, servers, line: line_of(&node), entry }))
}

/// Our MCP server among the others. What has its name and is not it, is made it.
pub fn with_server(text: &str, dialect: Dialect) -> Result<String, Broken> {
    if compared_server(text, dialect)?.is_some_and(|differences| differences.is_empty()) {
        return Ok(text.to_owned());
    }
    let (root, top) = parsed(or_empty(text), dialect)?;
    let entry = CstInputValue::Object(vec![
        ("command".to_owned(), CstInputValue::String("onus".into())),
        ("args".to_owned(), CstInputValue::Array(vec![CstInputValue::String("mcp".into())])),
    ]);
    let servers = object_made(&top, "mcpServers")?;
    match servers.get("onus") {
        Some(there) => there.set_value(entry),
        None => drop(servers.append("onus", entry)),
    }
    Ok(root.to_string())
}

pub fn without_server(text: &str, dialect: Dialect) -> Result<String, Broken> {
    let Some(server) = server_in(text, dialect)? else { return Ok(text.to_owned()) };
    if !runs_onus(&server.entry) {
        let why = "mcpServers.onus is another server: rename or remove it".to_owned();
        return Err(Broken { line: server.line, why });
    }
    take_out(&server.servers, "onus");
    if server.servers.properties().is_empty() {
        take_out(&server.top, "mcpServers");
    }
    Ok(server.root.to_string())
}

/// What is there under our server's name. None: nothing.
pub fn compared_server(text: &str, dialect: Dialect) -> Result<Option<Vec<Difference>>, Broken> {
    let Some(Server { line, mut entry, .. }) = server_in(text, dialect)? else { return Ok(None) };
    if let Some(entry) = entry.as_object_mut() {
        // Agents' own commands write these out, and mean what is meant without them.
        entry.retain(|name, value| {
            !(name == "type" && value == "stdio" || name == "env" && *value == json!({}))
        });
    }
    let differences = differences("mcpServers.onus", &compare::server(), &entry).into_iter();
    Ok(Some(differences.map(|what| Difference { line, what }).collect()))
}

pub fn is_anothers_server(text: &str, dialect: Dialect) -> Result<bool, Broken> {
    Ok(server_in(text, dialect)?.is_some_and(|server| !runs_onus(&server.entry)))
}

/// A list of strings down a path of objects.
fn list_at(top: &CstObject, path: &[&str]) -> Result<Option<CstArray>, Broken> {
    let Some((last, outer)) = path.split_last() else { return Ok(None) };
    let mut at = top.clone();
    for name in outer {
        match object_in(&at, name)? {
            Some(inner) => at = inner,
            None => return Ok(None),
        }
    }
    array_in(&at, last)
}

fn holds(list: &CstArray, item: &str) -> Option<CstNode> {
    list.elements().into_iter().find(|node| node.to_serde_value().is_some_and(|value| value == item))
}

pub fn with_item(text: &str, dialect: Dialect, path: &[&str], item: &str) -> Result<String, Broken> {
    let (root, top) = parsed(or_empty(text), dialect)?;
    if let Some(list) = list_at(&top, path)?
        && holds(&list, item).is_some()
    {
        return Ok(text.to_owned());
    }
    let Some((last, outer)) = path.split_last() else { return Ok(text.to_owned()) };
    let mut at = top;
    for name in outer {
        at = object_made(&at, name)?;
    }
    array_made(&at, last)?.append(CstInputValue::String(item.to_owned()));
    Ok(root.to_string())
}

pub fn without_item(text: &str, dialect: Dialect, path: &[&str], item: &str) -> Result<String, Broken> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let (root, top) = parsed(text, dialect)?;
    let Some(list) = list_at(&top, path)? else { return Ok(text.to_owned()) };
    let Some(node) = holds(&list, item) else { return Ok(text.to_owned()) };
    node.remove();
    // What only held this is taken out with it, from the inside outwards.
    let mut empty = list.elements().is_empty();
    for depth in (0..path.len()).rev() {
        if !empty {
            break;
        }
        let mut at = top.clone();
        for name in &path[..depth] {
            match at.object_value(name) {
                Some(inner) => at = inner,
                None => break,
            }
        }
        take_out(&at, path[depth]);
        empty = at.properties().is_empty();
    }
    Ok(root.to_string())
}

pub fn has_item(text: &str, dialect: Dialect, path: &[&str], item: &str) -> Result<bool, Broken> {
    let (_root, top) = parsed(or_empty(text), dialect)?;
    Ok(list_at(&top, path)?.is_some_and(|list| holds(&list, item).is_some()))
}

/// Whether a text says nothing: what is left of a file that was all ours.
pub fn is_empty(text: &str) -> bool {
    text.trim().is_empty() || text.split_whitespace().collect::<String>() == "{}"
}
