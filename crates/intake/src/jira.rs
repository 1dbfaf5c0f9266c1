//! Issues of Jira: the object of the REST API (version 2 or 3), or a webhook's payload with the same object as `issue`.
//!
//! A key such as `WEB-7` is unique only within one site, so the reference has the site before it, taken from the issue's `self`.
//! The key alone is kept as the task's reference in Jira, by which people name it.

use serde_json::Value;

use crate::ask::{Ask, Fault, Found, Raw, host};
use crate::json::{at, is_object, kind as kind_of, names, need, text};
use crate::labels;

pub(crate) fn ask(document: &Value) -> Result<Ask, Fault> {
    let prefix = if is_object(document, "issue") { "issue." } else { "" };
    let field = |name: &str| format!("{prefix}{name}");
    let (key, own) = (need(document, &field("key"))?, need(document, &field("self"))?);
    if !is_key(&key.text) {
        return Err(key.fault("it is not the key of an issue, such as WEB-7"));
    }
    host(&own)?;
    let base = own.text.trim().split_once("/rest/").map(|(base, _)| base);
    let base = base.ok_or_else(|| own.fault("it is not the address of an issue in Jira's API"))?;
    let site = base.split_once("://").map_or(base, |(_, site)| site).to_ascii_lowercase();
    let author = match text(document, &field("fields.reporter.displayName"))? {
        Some(reporter) => Some(reporter),
        None => text(document, &field("fields.creator.displayName"))?,
    };
    let labels = names(document, &field("fields.labels"), &[])?;
    let reference = Found::new(key.field.clone(), format!("{site}/{}", key.text));
    let raw = Raw {
        body: description(document, &field("fields.description"))?,
        link: Some(Found::new(own.field, format!("{base}/browse/{}", key.text))),
        author,
        kind: text(document, &field("fields.issuetype.name"))?.and_then(|name| labels::kind(&name.text)),
        priority: text(document, &field("fields.priority.name"))?
            .and_then(|name| labels::priority(&name.text)),
        labels: labels::tags(&labels),
        ..Raw::new("jira", reference, need(document, &field("fields.summary"))?)
    };
    Ok(Ask { tracked: Some(("jira".to_owned(), key.text)), ..raw.ask()? })
}

fn is_key(key: &str) -> bool {
    key.len() <= 100
        && key.split_once('-').is_some_and(|(project, number)| {
            project.starts_with(|c: char| c.is_ascii_uppercase())
                && project.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_')
                && !number.is_empty()
                && number.bytes().all(|digit| digit.is_ascii_digit())
        })
}

/// The description: a text, or the text of a document in Atlassian's format.
fn description(document: &Value, path: &str) -> Result<Option<Found>, Fault> {
    match at(document, path)? {
        Some(node @ Value::Object(_)) => {
            let mut text = String::new();
            write(node, &mut text);
            Ok(Some(Found::new(path, text)))
        }
        Some(Value::String(_)) | None => text(document, path),
        Some(other) => {
            Err(Fault::new(path, format!("expected a string or a document, found {}", kind_of(other))))
        }
    }
}

/// Writes the text of a node. The parser has bounded the depth of nodes.
fn write(node: &Value, text: &mut String) {
    let said = |name: &str| node.get("attrs").and_then(|attrs| attrs.get(name)).and_then(Value::as_str);
    match node.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text" => text.push_str(node.get("text").and_then(Value::as_str).unwrap_or_default()),
        "hardBreak" => text.push('\n'),
        "mention" | "emoji" | "status" | "date" => text.push_str(said("text").unwrap_or_default()),
        "inlineCard" | "blockCard" => text.push_str(said("url").unwrap_or_default()),
        name => {
            if name == "listItem" {
                text.push_str("- ");
            }
            for child in node.get("content").and_then(Value::as_array).into_iter().flatten() {
                write(child, text);
            }
            let is_block = matches!(name, "paragraph" | "heading" | "codeBlock" | "rule" | "tableRow");
            if is_block && !text.ends_with("\n\n") {
                text.push('\n');
            }
        }
    }
}
