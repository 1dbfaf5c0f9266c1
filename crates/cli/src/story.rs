//! The ledger as a story: a line an event.

use std::collections::BTreeMap;

use serde_json::Value;

use onus_core::chain::Record;
use onus_core::text::REDACTED;
use onus_core::time::Span;
use onus_engine::LogPage;

use crate::output::{Output, escape_line};
use crate::render::{local_time, seconds};

pub(crate) fn line(out: &Output, page: &LogPage, record: &Record, with_id: bool) -> String {
    let place = match (&record.task, with_id) {
        (Some(uid), true) => format!("{} ", page.ids.get(uid).map_or(uid.as_str(), String::as_str)),
        (None, true) => "project ".to_owned(),
        (_, false) => String::new(),
    };
    let empty = BTreeMap::new();
    let texts = page.texts.get(&record.uid).unwrap_or(&empty);
    let words: Vec<String> = record
        .text_digests()
        .into_iter()
        .map(|(field, _)| texts.get(field.as_str()).map_or(REDACTED.to_owned(), |text| first_line(text)))
        .collect();
    let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(" / ")) };
    // A person is one instance everywhere; agents' conversations must be told apart.
    let instance = match record.actor.starts_with("human:") {
        true => String::new(),
        false => format!(" ({})", escape_line(&record.instance)),
    };
    format!(
        "{} {place}{} {}{instance} {}{words}",
        out.dim(&local_time(&record.at)),
        out.dim(&format!("v{}", record.version)),
        record.actor,
        what(page, record),
    )
}

fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first: String = lines.next().unwrap_or_default().chars().take(200).collect();
    let more = if first.len() < text.len() { " …" } else { "" };
    format!("{}{more}", escape_line(&first))
}

/// The tasks that an event names beside its own.
fn others(page: &LogPage, payload: &Value) -> String {
    let uids = payload.get("on").and_then(Value::as_array);
    let ids = uids.into_iter().flatten().filter_map(Value::as_str);
    ids.map(|uid| page.ids.get(uid).map_or(uid, String::as_str)).collect::<Vec<_>>().join(", ")
}

fn globs(payload: &Value) -> String {
    let globs = payload.get("scope").and_then(Value::as_array);
    let globs: Vec<String> = globs.into_iter().flatten().filter_map(Value::as_str).map(escape_line).collect();
    match globs.as_slice() {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        few => few.join(", "),
    }
}

fn what(page: &LogPage, record: &Record) -> String {
    let payload = &record.payload;
    let text = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| payload.get(name).and_then(Value::as_i64);
    let token = record.token.map(|token| format!(" (token {token})")).unwrap_or_default();
    let worked_s = payload.get("lease").and_then(|lease| lease.get("active_s")).and_then(Value::as_i64);
    let worked = worked_s.map(|s| format!(" after {}", seconds(s))).unwrap_or_default();
    let kept_for =
        || payload.get("kept_for").and_then(|kept| kept.get("actor")).and_then(Value::as_str).unwrap_or("");
    match record.kind.as_str() {
        "project.created" => format!("created the project, prefix {}", text("prefix")),
        "actor.registered" => {
            format!("registered {} at tier {}", text("actor"), number("tier").unwrap_or_default())
        }
        "actor.aliased" => format!("made {} an alias of {}", text("alias"), text("actor")),
        "actor.tier_set" => format!("set {} to tier {}", text("actor"), number("tier").unwrap_or_default()),
        "ledger.sealed" => format!("sealed {} streams", number("streams").unwrap_or_default()),
        "task.created" if text("state") == "proposed" => "proposed it".to_owned(),
        "task.created" => "created it".to_owned(),
        "task.edited" => "edited it".to_owned(),
        "task.accepted" => "accepted it".to_owned(),
        "task.started" => format!("started it{token}"),
        "task.blocked" => format!("blocked it{worked}"),
        "task.unblocked" => "unblocked it".to_owned(),
        "task.submitted" => format!("submitted it for review{worked}"),
        "task.approved" => "approved it".to_owned(),
        "task.rejected" => format!("rejected it, kept for {}", kept_for()),
        "task.done" => format!("finished it{worked}"),
        "task.failed" => format!("gave it up as failed{worked}"),
        "task.dropped" => format!("dropped it{worked}"),
        "task.reopened" => "reopened it".to_owned(),
        "task.reset" => format!("put it back to open by a reset{worked}"),
        "task.retried" => format!("opened it again, attempt {}", number("attempt").unwrap_or_default()),
        "scope.added" => format!("reserved {}", globs(payload)),
        "scope.removed" => format!("no longer reserves {}", globs(payload)),
        "dep.added" => format!("made it depend on {}", others(page, payload)),
        "dep.removed" => format!("made it no longer depend on {}", others(page, payload)),
        "note.added" => "noted".to_owned(),
        "lease.acquired" => {
            let grant = payload.get("grant");
            let ttl = grant.and_then(|grant| grant.get("ttl_ms")).and_then(Value::as_i64);
            let bound = grant.and_then(|grant| grant.get("process")).and_then(|process| process.get("pid"));
            let terms = match (bound, ttl) {
                (Some(pid), _) => format!(", bound to process {pid}"),
                (None, Some(ms)) => format!(", ttl {}", Span::from_ms(ms)),
                (None, None) => String::new(),
            };
            format!("claimed it{token}{terms}")
        }
        "lease.renewed" => format!("came back after a lapse{token}"),
        "lease.released" => format!("released it{worked}"),
        "lease.lapsed" => format!("found its lease lapsed ({}){token}{worked}", text("cause")),
        "lease.taken_over" => format!("ended the lapsed lease before it ({}){token}{worked}", text("cause")),
        "lease.revoked" => format!("revoked its lease by force{token}{worked}"),
        "lease.handed_off" => format!("handed it to {}{worked}", kept_for()),
        "rule.overridden" => format!("overrode the rule '{}'", text("rule")),
        "text.redacted" => format!("erased text of event {}", number("version").unwrap_or_default()),
        other => other.to_owned(),
    }
}
