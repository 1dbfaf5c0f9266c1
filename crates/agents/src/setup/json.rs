//! Entries put into JSON files and taken out of them again. Everything else in the text stays as it is, byte by byte:
//! comments, order, indentation, line ends.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value, json};

use super::{Broken, State};

/// What a file's reader understands beyond plain JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Strict,
    /// Comments, but no trailing commas.
    Comments,
}

/// One hook: the group that stands under its event.
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
        return Err(Broken { line: error.line(), why: "not JSON: its reader knows no comments".into() });
    }
    match root.object_value() {
        Some(object) => Ok((root, object)),
        None => Err(Broken { line: 1, why: "the top level is not an object".into() }),
    }
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
        return Err(Broken { line: line_of(&second.into()), why: format!("{name} stands there twice") });
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

/// The handlers of an event that run us, each with the group it stands in.
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

fn stands(event: &CstArray, hook: &Hook, mark: &str) -> bool {
    match ours(event, mark).as_slice() {
        [(group, ..)] => group.to_serde_value() == Some(hook.group()),
        _ => false,
    }
}

/// Every hook of ours under its event, once. Hooks of ours that are not asked for any more are taken out.
pub fn with_hooks(text: &str, dialect: Dialect, hooks: &[Hook], mark: &str) -> Result<String, Broken> {
    let (root, top) = parsed(or_empty(text), dialect)?;
    if state_of_hooks(text, dialect, hooks, mark)? == State::Present {
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
        if !stands(&event, hook, mark) {
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

pub fn state_of_hooks(text: &str, dialect: Dialect, hooks: &[Hook], mark: &str) -> Result<State, Broken> {
    let (_root, top) = parsed(or_empty(text), dialect)?;
    let Some(all) = object_in(&top, "hooks")? else { return Ok(State::Missing) };
    let mut found = 0;
    for prop in all.properties() {
        let name = prop.decoded_name().unwrap_or_default();
        if hooks.iter().any(|hook| hook.event == name) {
            // Asked for, so it has to be what it should be.
            array_in(&all, &name)?;
        }
        found += prop.array_value().map_or(0, |event| ours(&event, mark).len());
    }
    let standing = hooks
        .iter()
        .filter(|hook| all.array_value(hook.event).is_some_and(|event| stands(&event, hook, mark)))
        .count();
    Ok(match (found, standing == hooks.len() && found == hooks.len()) {
        (0, _) => State::Missing,
        (_, true) => State::Present,
        (_, false) => State::Changed,
    })
}

/// Whether a server's entry runs `onus mcp`, with whatever else it says beside that.
fn is_our_server(entry: &Value) -> bool {
    let program = entry["command"].as_str().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let args = entry["args"].as_array();
    matches!(program, "onus" | "onus.exe") && args.is_some_and(|args| args.iter().any(|word| word == "mcp"))
}

fn server(text: &str, dialect: Dialect) -> Result<Option<(CstRootNode, CstObject, CstObject)>, Broken> {
    let (root, top) = parsed(or_empty(text), dialect)?;
    let Some(servers) = object_in(&top, "mcpServers")? else { return Ok(None) };
    let Some(node) = value_of(&servers, "onus")? else { return Ok(None) };
    if !is_our_server(&node.to_serde_value().unwrap_or_default()) {
        let why = "mcpServers.onus is another server: rename it or take it out".to_owned();
        return Err(Broken { line: line_of(&node), why });
    }
    Ok(Some((root, top, servers)))
}

/// Our MCP server among the others. One that runs `onus mcp` already, somehow, is left as it is.
pub fn with_server(text: &str, dialect: Dialect) -> Result<String, Broken> {
    if server(text, dialect)?.is_some() {
        return Ok(text.to_owned());
    }
    let (root, top) = parsed(or_empty(text), dialect)?;
    let entry = vec![
        ("command".to_owned(), CstInputValue::String("onus".into())),
        ("args".to_owned(), CstInputValue::Array(vec![CstInputValue::String("mcp".into())])),
    ];
    object_made(&top, "mcpServers")?.append("onus", CstInputValue::Object(entry));
    Ok(root.to_string())
}

pub fn without_server(text: &str, dialect: Dialect) -> Result<String, Broken> {
    let Some((root, top, servers)) = server(text, dialect)? else { return Ok(text.to_owned()) };
    take_out(&servers, "onus");
    if servers.properties().is_empty() {
        take_out(&top, "mcpServers");
    }
    Ok(root.to_string())
}

pub fn state_of_server(text: &str, dialect: Dialect) -> Result<State, Broken> {
    Ok(if server(text, dialect)?.is_some() { State::Present } else { State::Missing })
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

pub fn state_of_item(text: &str, dialect: Dialect, path: &[&str], item: &str) -> Result<State, Broken> {
    let (_root, top) = parsed(or_empty(text), dialect)?;
    let found = list_at(&top, path)?.is_some_and(|list| holds(&list, item).is_some());
    Ok(if found { State::Present } else { State::Missing })
}

/// Whether a text says nothing: what is left of a file that was all ours.
pub fn is_empty(text: &str) -> bool {
    text.trim().is_empty() || text.split_whitespace().collect::<String>() == "{}"
}
