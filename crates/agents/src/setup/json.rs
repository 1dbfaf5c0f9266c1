//! Puts entries into JSON files and removes them. Everything else in the text stays as it is, byte for byte:
//! comments, order, indentation, line endings.

use std::collections::BTreeMap;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value, json};

use super::compare::{self, differences, runs_onus, shown};
use super::{Broken, Difference};

/// What a file's reader accepts beyond plain JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonSyntax {
    Strict,
    /// Comments, but no trailing commas.
    Comments,
}

/// One hook, which is a group under its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub event: &'static str,
    /// None for every tool.
    pub matcher: Option<&'static str>,
    /// Its name in the agent's own lists, if the agent has names for hooks.
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
}

/// The keys of our entries, in the order in which they are written: a map would sort them.
const ORDER: [&str; 7] = ["matcher", "hooks", "name", "type", "command", "args", "timeout"];

/// An entry of ours, to be written.
fn input(entry: &Value) -> CstInputValue {
    match entry {
        Value::Object(map) => {
            let fields = ORDER.iter().filter_map(|name| Some(((*name).to_owned(), input(map.get(*name)?))));
            CstInputValue::Object(fields.collect())
        }
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        other => CstInputValue::String(other.as_str().unwrap_or_default().to_owned()),
    }
}

/// Treats an empty file like `{}`.
fn or_empty(text: &str) -> &str {
    if text.trim().is_empty() { "{}\n" } else { text }
}

fn parsed(text: &str, syntax: JsonSyntax) -> Result<(CstRootNode, CstObject), Broken> {
    let options = ParseOptions {
        allow_comments: syntax == JsonSyntax::Comments,
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
        let why = match syntax {
            JsonSyntax::Strict => format!("not JSON: {}", error.kind()),
            JsonSyntax::Comments => format!("not JSON with comments: {}", error.kind()),
        };
        Broken { line: error.line_display(), why }
    })?;
    // The parser accepts comments even if they are not allowed.
    if syntax == JsonSyntax::Strict
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

/// The value of a text, for reading only. None if it is invalid.
pub(super) fn value(text: &str, syntax: JsonSyntax) -> Option<Value> {
    parsed(or_empty(text), syntax).ok()?.0.value()?.to_serde_value()
}

/// The line that a node begins on.
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

/// A property's value. A duplicate name is refused, since readers differ in which of the two counts.
fn value_of(object: &CstObject, name: &str) -> Result<Option<CstNode>, Broken> {
    let mut found =
        object.properties().into_iter().filter(|prop| prop.decoded_name().as_deref() == Some(name));
    let Some(first) = found.next() else { return Ok(None) };
    if let Some(second) = found.next() {
        return Err(Broken { line: line_of(&second.into()), why: format!("{name} occurs twice") });
    }
    Ok(first.value())
}

/// A property's value, which must be of this kind.
fn kind_in<T>(
    object: &CstObject,
    name: &str,
    (kind, of_kind): (&str, fn(&CstNode) -> Option<T>),
) -> Result<Option<T>, Broken> {
    let Some(node) = value_of(object, name)? else { return Ok(None) };
    let broken = || Broken { line: line_of(&node), why: format!("{name} is not {kind}") };
    of_kind(&node).map(Some).ok_or_else(broken)
}

fn object_in(object: &CstObject, name: &str) -> Result<Option<CstObject>, Broken> {
    kind_in(object, name, ("an object", CstNode::as_object))
}

fn array_in(object: &CstObject, name: &str) -> Result<Option<CstArray>, Broken> {
    kind_in(object, name, ("an array", CstNode::as_array))
}

/// The object under a name, created if it is missing.
fn object_made(object: &CstObject, name: &str) -> Result<CstObject, Broken> {
    Ok(object_in(object, name)?.unwrap_or_else(|| object.object_value_or_set(name)))
}

fn array_made(object: &CstObject, name: &str) -> Result<CstArray, Broken> {
    Ok(array_in(object, name)?.unwrap_or_else(|| object.array_value_or_set(name)))
}

fn take_out(object: &CstObject, name: &str) {
    if let Some(prop) = object.get(name) {
        prop.remove();
    }
}

/// The handlers of an event that run onus, each with its group.
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

/// Removes our handlers from every event but these, and events that become empty. Returns whether there were any.
fn without_events(all: &CstObject, mark: &str, but: &[Hook]) -> bool {
    let mut took = false;
    for prop in all.properties() {
        let name = prop.decoded_name();
        let others =
            prop.array_value().filter(|_| but.iter().all(|hook| Some(hook.event) != name.as_deref()));
        if let Some(event) = others.filter(|event| without_ours(event, mark)) {
            took = true;
            if event.elements().is_empty() {
                prop.remove();
            }
        }
    }
    took
}

/// Removes our handlers from an event, and groups that become empty. Returns whether there were any.
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

/// How an event's hook differs from ours. None if nothing there runs onus.
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
            Some(differences(&at, line_of(&group.clone().into()), &hook.group(), &is))
        }
        (Some(_), [_, (.., second), ..]) => {
            Some(differs(second.clone(), format!("{at} runs onus more than once")))
        }
    })
}

/// The text with each of our hooks under its event, once, and without our hooks for other events.
pub fn with_hooks(text: &str, syntax: JsonSyntax, hooks: &[Hook], mark: &str) -> Result<String, Broken> {
    let (root, top) = parsed(or_empty(text), syntax)?;
    if compared_hooks(text, syntax, hooks, mark)?.is_some_and(|differences| differences.is_empty()) {
        return Ok(text.to_owned());
    }
    let all = object_made(&top, "hooks")?;
    without_events(&all, mark, hooks);
    for hook in hooks {
        let event = array_made(&all, hook.event)?;
        if compared_hook(&event, hook.event, Some(hook), mark)?.is_none_or(|found| !found.is_empty()) {
            without_ours(&event, mark);
            event.append(input(&hook.group()));
        }
    }
    Ok(root.to_string())
}

/// The text without our hooks, and without containers that become empty.
pub fn without_hooks(text: &str, syntax: JsonSyntax, mark: &str) -> Result<String, Broken> {
    let (root, top) = parsed(or_empty(text), syntax)?;
    let Some(all) = object_in(&top, "hooks")? else { return Ok(text.to_owned()) };
    let took = without_events(&all, mark, &[]);
    if took && all.properties().is_empty() {
        take_out(&top, "hooks");
    }
    Ok(if took { root.to_string() } else { text.to_owned() })
}

/// How our hooks in the text differ from what would be written. None if there are none.
pub fn compared_hooks(
    text: &str,
    syntax: JsonSyntax,
    hooks: &[Hook],
    mark: &str,
) -> Result<Option<Vec<Difference>>, Broken> {
    let (_root, top) = parsed(or_empty(text), syntax)?;
    let Some(all) = object_in(&top, "hooks")? else { return Ok(None) };
    let mut there = BTreeMap::new();
    for prop in all.properties() {
        let name = prop.decoded_name().unwrap_or_default();
        let wanted = hooks.iter().find(|hook| hook.event == name);
        if wanted.is_some() {
            // A wanted event must be an array.
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

/// The entry with our server's name.
struct Server {
    root: CstRootNode,
    top: CstObject,
    servers: CstObject,
    line: usize,
    entry: Value,
}

fn server_in(text: &str, syntax: JsonSyntax) -> Result<Option<Server>, Broken> {
    let (root, top) = parsed(or_empty(text), syntax)?;
    let Some(servers) = object_in(&top, "mcpServers")? else { return Ok(None) };
    let Some(node) = value_of(&servers, "onus")? else { return Ok(None) };
    only_once(&node)?;
    let entry = node.to_serde_value().unwrap_or_default();
    Ok(Some(Server { root, top, servers, line: line_of(&node), entry }))
}

/// The text with our MCP server. Another entry of that name is replaced.
pub fn with_server(text: &str, syntax: JsonSyntax) -> Result<String, Broken> {
    if compared_server(text, syntax)?.is_some_and(|differences| differences.is_empty()) {
        return Ok(text.to_owned());
    }
    let (root, top) = parsed(or_empty(text), syntax)?;
    let entry = input(&compare::server());
    let servers = object_made(&top, "mcpServers")?;
    match servers.get("onus") {
        Some(there) => there.set_value(entry),
        None => drop(servers.append("onus", entry)),
    }
    Ok(root.to_string())
}

pub fn without_server(text: &str, syntax: JsonSyntax) -> Result<String, Broken> {
    let Some(server) = server_in(text, syntax)? else { return Ok(text.to_owned()) };
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

/// How the entry with our server's name differs from what would be written. None if there is none.
pub fn compared_server(text: &str, syntax: JsonSyntax) -> Result<Option<Vec<Difference>>, Broken> {
    let Some(Server { line, mut entry, .. }) = server_in(text, syntax)? else { return Ok(None) };
    if let Some(entry) = entry.as_object_mut() {
        // Agents' own commands write these defaults explicitly.
        entry.retain(|name, value| {
            !(name == "type" && value == "stdio" || name == "env" && *value == json!({}))
        });
    }
    Ok(Some(differences("mcpServers.onus", line, &compare::server(), &entry)))
}

pub fn is_anothers_server(text: &str, syntax: JsonSyntax) -> Result<bool, Broken> {
    Ok(server_in(text, syntax)?.is_some_and(|server| !runs_onus(&server.entry)))
}

/// The object at a path of objects.
fn object_at(top: &CstObject, path: &[&str]) -> Result<Option<CstObject>, Broken> {
    let inner = |at: Option<CstObject>, name: &&str| at.map_or(Ok(None), |at| object_in(&at, name));
    path.iter().try_fold(Some(top.clone()), inner)
}

/// The list at a path of objects.
fn list_at(top: &CstObject, path: &[&str]) -> Result<Option<CstArray>, Broken> {
    let Some((last, outer)) = path.split_last() else { return Ok(None) };
    object_at(top, outer)?.map_or(Ok(None), |object| array_in(&object, last))
}

fn holds(list: &CstArray, item: &str) -> Option<CstNode> {
    list.elements().into_iter().find(|node| node.to_serde_value().is_some_and(|value| value == item))
}

pub fn with_item(text: &str, syntax: JsonSyntax, path: &[&str], item: &str) -> Result<String, Broken> {
    let (root, top) = parsed(or_empty(text), syntax)?;
    let there = list_at(&top, path)?.is_some_and(|list| holds(&list, item).is_some());
    let Some((last, outer)) = path.split_last().filter(|_| !there) else { return Ok(text.to_owned()) };
    let at = outer.iter().try_fold(top, |at, name| object_made(&at, name))?;
    array_made(&at, last)?.append(CstInputValue::String(item.to_owned()));
    Ok(root.to_string())
}

pub fn without_item(text: &str, syntax: JsonSyntax, path: &[&str], item: &str) -> Result<String, Broken> {
    let (root, top) = parsed(or_empty(text), syntax)?;
    let Some(list) = list_at(&top, path)? else { return Ok(text.to_owned()) };
    let Some(node) = holds(&list, item) else { return Ok(text.to_owned()) };
    node.remove();
    // Containers that become empty are removed, too, innermost first.
    let mut empty = list.elements().is_empty();
    for depth in (0..path.len()).rev() {
        let Some(at) = object_at(&top, &path[..depth])?.filter(|_| empty) else { break };
        take_out(&at, path[depth]);
        empty = at.properties().is_empty();
    }
    Ok(root.to_string())
}

pub fn has_item(text: &str, syntax: JsonSyntax, path: &[&str], item: &str) -> Result<bool, Broken> {
    let (_root, top) = parsed(or_empty(text), syntax)?;
    Ok(list_at(&top, path)?.is_some_and(|list| holds(&list, item).is_some()))
}

/// Whether a text has no content, like what is left of a file that was all ours.
pub fn is_empty(text: &str) -> bool {
    text.trim().is_empty() || text.split_whitespace().collect::<String>() == "{}"
}
