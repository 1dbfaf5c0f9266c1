//! The answer to a call, in two forms: a document and a text. Some clients pass only the one to their model, some only the
//! other, so each is complete by itself. Each is short, because models pay for it: a change answers with what changed, not with
//! everything that is known about the task.
//!
//! Everything that can grow without limit is truncated, and says so: bodies, the notes of a task, the leases of others.
//!
//! **Texts of others are data.** In the document, JSON strings delimit them; but clients pass it to their model as it is, so
//! hidden characters are shown as escapes there, too. In the text they are quoted.

use std::collections::BTreeMap;

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use onus_core::actor;
use onus_core::event::MovedBy;
use onus_core::quote::{self, visible, visible_line};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::NoteKind;
use onus_core::time::{SECOND_MS, Span};
use onus_core::transition::Verb;
use onus_engine::{
    self as engine, AwaitedView, ConflictView, ForecastView, HeldView, Identity, KeptView, LeaseView,
    NoteView, Notice, Page, Reply, StatusView, TaskView, WithNotices,
};

use onus_core::gate::Verdict;
use onus_host::Host;
use onus_host::gates::{GateOutcome, Round};

use super::wording;

/// How many bytes of a body or a note a claim shows.
const CLAIMED_BYTES: usize = 600;
/// How many bytes of a body or a note `show` shows.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// How many bytes of a gate's output are shown.
const GATE_BYTES: usize = 2 * 1024;
/// How many of a task's latest notes are shown.
const MAX_NOTES: usize = 20;
const MAX_GLOBS: usize = 20;
/// How many tasks each list of `status` shows.
const MAX_NAMED: usize = 10;
/// How many of a task's dependents, and how many of its parts, are shown.
const MAX_LINKS: usize = 100;

/// An answer as a document and as a short text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    value: Value,
    text: String,
}

impl Answer {
    fn new(mut value: Value, mut text: String, notices: &[Notice]) -> Answer {
        let notices: Vec<_> = notices.iter().map(|notice| notice.worded(&wording::step)).collect();
        if let (Value::Object(object), false) = (&mut value, notices.is_empty()) {
            object.insert("notices".to_owned(), json!(notices));
        }
        for notice in &notices {
            text.push_str(&format!("\nnotice: {}", visible_line(&notice.message)));
            if !notice.next.is_empty() {
                text.push_str(&format!("; next: {}", visible_line(&notice.next.join(", or "))));
            }
        }
        Answer { value, text }
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::structured(shown(self.value));
        result.content = vec![ContentBlock::text(visible(&self.text))];
        result
    }
}

/// A refusal, as the command line's `--json` prints it, with this server's steps.
pub(super) fn refused(refusal: &Refusal) -> CallToolResult {
    let said = refusal.worded(wording::step);
    let mut text = visible_line(&refusal.message);
    for candidate in &refusal.candidates {
        text.push_str(&format!("\ncandidate: {}", visible_line(candidate)));
    }
    for step in &said.next {
        text.push_str(&format!("\nnext: {}", visible_line(step)));
    }
    let mut result = CallToolResult::structured_error(shown(json!({ "error": said })));
    result.content = vec![ContentBlock::text(text)];
    result
}

pub(super) fn unexpected() -> Refusal {
    Refusal::new(Code::Unexpected, "the engine's answer does not match the request")
}

/// Adds a field to a document, if there is a value for it.
fn put(document: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let Some(value) = value {
        document[name] = json!(value);
    }
}

/// The answer to a change: the task and its state now.
pub(super) fn changed(reply: &Reply, past: &str) -> Result<Answer, Refusal> {
    let (engine::Answer::Task(task)
    | engine::Answer::Asked { task, .. }
    | engine::Answer::Lease { task, .. }) = &reply.answer
    else {
        return Err(unexpected());
    };
    let mut value = json!({ "id": task.id, "title": task.title, "state": task.state });
    let past = if reply.unchanged { "is unchanged" } else { past };
    let mut text = format!("{} {past}: {}", task.id, quote::title(&task.title));
    put(&mut value, "unchanged", reply.unchanged.then_some(true));
    put(&mut value, "existing", reply.existing.then_some(true));
    if reply.existing {
        text.push_str(" (it was there already)");
    }
    Ok(Answer::new(value, text, &reply.notices))
}

/// The verdicts of gates, and the end of the output of each that failed.
pub(super) fn gates(host: &Host, round: &Round, came: &[GateOutcome], notices: &[Notice]) -> Answer {
    let id = &round.task.view.id;
    let mut lines = Vec::new();
    let mut documents = Vec::new();
    for GateOutcome { gate, result } in came {
        let (document, line) = match result {
            Ok((verdict, run)) => {
                let log = host.gate_log(run).filter(|_| *verdict == Verdict::Failed).unwrap_or_default();
                let log = String::from_utf8_lossy(&log[log.len().saturating_sub(GATE_BYTES)..]).into_owned();
                let output = (!log.is_empty()).then_some(&log);
                let value =
                    json!({ "key": gate.key, "verdict": verdict, "exit": run.exit, "output": output });
                let output =
                    output.map(|log| format!("; its output ends: {}", quote::quoted(log, GATE_BYTES)));
                (value, format!("gate {} {verdict}{}", gate.key, output.unwrap_or_default()))
            }
            Err(refusal) => {
                let value = json!({ "key": gate.key, "verdict": null, "error": refusal.message });
                (value, format!("gate {} was not judged: {}", gate.key, refusal.message))
            }
        };
        documents.push(document);
        lines.push(line);
    }
    let passed = came.iter().all(|came| matches!(came.result, Ok((Verdict::Passed, _))));
    let for_judges: Vec<&str> = round.for_judges.iter().map(|gate| gate.key.as_str()).collect();
    if came.is_empty() {
        lines.push(round.nothing_to_run());
    }
    if !for_judges.is_empty() {
        lines.push(format!("for a person or a reviewer to pass: {}", for_judges.join(", ")));
    }
    let mut value = json!({ "id": id, "passed": passed, "gates": documents, "for_judges": for_judges });
    let next: Vec<String> = after(round, came).iter().filter_map(wording::step).collect();
    if !next.is_empty() {
        lines.extend(next.iter().map(|step| format!("next: {step}")));
        value["next"] = json!(next);
    }
    Answer::new(value, lines.join("\n"), notices)
}

/// What to do after gates were run.
fn after(round: &Round, came: &[GateOutcome]) -> Vec<Step> {
    let id = &round.task.view.id;
    let refused = came.iter().filter_map(|came| came.result.as_ref().err());
    let mut steps: Vec<Step> = refused.flat_map(|refusal| refusal.next.clone()).collect();
    let failed = came.iter().any(|came| matches!(came.result, Ok((Verdict::Failed, _))));
    if failed {
        steps.push(Step::plain("mend what failed"));
        steps.push(Step::RunGates(id.clone()));
    } else if steps.is_empty() && !round.for_judges.is_empty() {
        steps.push(Step::verb(Verb::Submit, id));
    }
    steps
}

/// The answer to a claim: what is to be done, and the terms of the lease.
pub(super) fn claimed(reply: &Reply) -> Result<Answer, Refusal> {
    let engine::Answer::Lease { task, lease: Some(lease), renewed, takeover } = &reply.answer else {
        return Err(unexpected());
    };
    let how = match (renewed, takeover) {
        (true, _) => "is still yours",
        (_, true) => "is yours, taken over",
        _ => "is yours",
    };
    let mut text = format!("{} {how} ({}): {}", task.id, terms(lease), quote::title(&task.title));
    let mut value = json!({
        "task": { "id": task.id, "title": task.title, "state": task.state },
        "lease": lease_in_short(lease),
    });
    put(&mut value, "renewed", renewed.then_some(true));
    put(&mut value, "takeover", takeover.then_some(true));
    // A caller that renews already knows the task.
    if *renewed {
        return Ok(Answer::new(value, text, &reply.notices));
    }
    value["task"]["type"] = json!(task.kind);
    value["task"]["priority"] = json!(task.priority);
    if let Some(word) = &task.last_word {
        value["task"]["last_word"] = note_in_short(word, CLAIMED_BYTES);
        text.push_str(&format!("\nlast word: {}", note_line(word, CLAIMED_BYTES)));
    }
    if let Some(body) = &task.body {
        let (beginning, is_cut) = beginning(body, CLAIMED_BYTES);
        value["task"]["body"] = json!(beginning);
        text.push_str(&format!("\nbody: {}", quote::quoted(body, CLAIMED_BYTES)));
        if let Some(step) = wording::step(&Step::show(&task.id)).filter(|_| is_cut) {
            text.push_str(&format!("\nnext: {step}"));
            value["next"] = json!([step]);
        }
    }
    Ok(Answer::new(value, text, &reply.notices))
}

/// The answer to a touch: which files the lease reserves now, by their paths in the repository.
pub(super) fn touched(reply: &Reply, paths: &[String]) -> Result<Answer, Refusal> {
    let engine::Answer::Lease { task, lease: Some(lease), .. } = &reply.answer else {
        return Err(unexpected());
    };
    let names: Vec<String> = paths.iter().take(MAX_GLOBS).map(|path| quote::name(path)).collect();
    let text = format!("{}: yours to change: {}", task.id, quote::and_more(&names, paths.len()));
    let value = json!({ "id": task.id, "touched": paths, "lease": { "token": lease.token } });
    Ok(Answer::new(value, text, &reply.notices))
}

/// The beginning of a text, and whether there is more.
fn beginning(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    (format!("{}…", &text[..text.floor_char_boundary(most)]), true)
}

/// The terms of a lease, as a part of a sentence.
fn terms(lease: &LeaseView) -> String {
    let until = match (&lease.process, lease.expires_in_s) {
        (Some(_), Some(s)) if lease.resting => {
            format!(", its turn is over, {} left", Span::from_ms(s * SECOND_MS))
        }
        (Some(_), _) => ", while its process lives".to_owned(),
        (None, Some(s)) => format!(", {} left", Span::from_ms(s * SECOND_MS)),
        (None, None) => String::new(),
    };
    format!("token {}{until}", lease.token)
}

/// A lease without what only programs need: processes, clocks, counters.
fn lease_in_short(lease: &LeaseView) -> Value {
    let (actor, instance) = (&lease.actor, &lease.instance);
    let mut value = json!({ "actor": actor, "instance": instance, "token": lease.token, "live": lease.live });
    let expires_in_s = lease.expires_in_s.filter(|_| lease.process.is_none() || lease.resting);
    put(&mut value, "expires_in_s", expires_in_s);
    let globs: Vec<_> = lease.scope.iter().take(MAX_GLOBS).collect();
    put(&mut value, "scope", (!globs.is_empty()).then_some(&globs));
    put(&mut value, "more_scope", Some(lease.scope.len() - globs.len()).filter(|more| *more > 0));
    put(&mut value, "reason", lease.reason.as_ref());
    put(&mut value, "handoff_reason", lease.handoff_reason.as_ref());
    put(&mut value, "lapsed_by", lease.lapsed_by);
    value
}

/// A note, with its author. Its event and its kind are left out if it is a plain progress note.
fn note_in_short(note: &NoteView, most: usize) -> Value {
    let mut value = json!({ "actor": note.actor, "at": note.at, "text": beginning(&note.text, most).0 });
    put(&mut value, "event", Some(&note.event).filter(|event| *event != "note.added"));
    put(&mut value, "kind", Some(note.kind).filter(|kind| *kind != NoteKind::Progress));
    put(&mut value, "link", note.link.as_ref());
    value
}

fn note_line(note: &NoteView, most: usize) -> String {
    let said = match (note.moved_by, note.kind) {
        (None, NoteKind::Progress) => "noted".to_owned(),
        (None, kind) => kind.to_string(),
        (Some(moved_by), _) => moved(moved_by).to_owned(),
    };
    let link = note.link.as_ref().map(|link| format!(" ({})", quote::name(link))).unwrap_or_default();
    format!("{said} by {}{link}: {}", quote::name(&note.actor), quote::quoted(&note.text, most))
}

fn moved(by: MovedBy) -> &'static str {
    match by {
        MovedBy::Accepted => "accepted",
        MovedBy::Blocked => "blocked",
        MovedBy::Unblocked => "unblocked",
        MovedBy::Submitted => "submitted",
        MovedBy::Approved => "approved",
        MovedBy::Rejected => "rejected",
        MovedBy::Done => "done",
        MovedBy::Failed => "given up",
        MovedBy::Dropped => "dropped",
        MovedBy::Reopened => "reopened",
        MovedBy::Reset => "reset",
        MovedBy::Retried => "opened again",
        MovedBy::Released => "released",
        MovedBy::Assigned => "assigned",
        MovedBy::HandedOff => "handed off",
        MovedBy::FailedLanding => "not landed",
    }
}

pub(super) fn ready(looked: &WithNotices<Page>) -> Answer {
    let tasks = &looked.value.tasks;
    let lines: Vec<String> = tasks
        .iter()
        .map(|task| {
            let lapsed = if task.takeover == Some(true) { " (its holder's lease has lapsed)" } else { "" };
            format!("{} {} {} {}{lapsed}", task.id, task.priority, task.kind, quote::title(&task.title))
        })
        .collect();
    let text = match wording::step(&Step::Status).filter(|_| lines.is_empty()) {
        Some(next) => format!("nothing is ready\nnext: {next}"),
        None => lines.join("\n"),
    };
    let in_short = |task: &TaskView| {
        let mut value =
            json!({ "id": task.id, "priority": task.priority, "type": task.kind, "title": task.title });
        put(&mut value, "takeover", task.takeover.filter(|takeover| *takeover));
        value
    };
    let tasks: Vec<Value> = tasks.iter().map(in_short).collect();
    Answer::new(json!({ "tasks": tasks }), text, &looked.notices)
}

/// Whether a field's value says nothing that its absence would not say.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(_) | Value::Bool(true) => false,
    }
}

/// The fields of a task's document that are only for programs: its other names, and what is nearly always the same.
const FOR_PROGRAMS: [&str; 5] = ["uid", "number", "updated_at", "scope_mode", "required_tier"];

pub(super) fn show(looked: &WithNotices<TaskView>) -> Answer {
    let task = &looked.value;
    let mut value = json!(task);
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, value| !is_empty(value) && !FOR_PROGRAMS.contains(&name.as_str()));
    }
    for (name, told) in [("blocks", "more_blocks"), ("children", "more_children")] {
        let left_out = value.get_mut(name).and_then(Value::as_array_mut).map_or(0, |ids| {
            let left_out = ids.len().saturating_sub(MAX_LINKS);
            ids.truncate(MAX_LINKS);
            left_out
        });
        put(&mut value, told, Some(left_out).filter(|count| *count > 0));
    }
    put(&mut value, "lease", task.lease.as_ref().map(lease_in_short));
    put(&mut value, "last_word", task.last_word.as_ref().map(|word| note_in_short(word, MAX_ANSWER_BYTES)));
    put(&mut value, "body", task.body.as_ref().map(|body| beginning(body, MAX_ANSWER_BYTES).0));
    let (notes, earlier) = latest(task.notes.as_deref());
    let (decisions, earlier_decisions) = latest(task.decisions.as_deref());
    for (name, latest, told, earlier) in [
        ("notes", notes, "earlier_notes", earlier),
        ("decisions", decisions, "earlier_decisions", earlier_decisions),
    ] {
        let shown: Vec<Value> = latest.iter().map(|note| note_in_short(note, MAX_ANSWER_BYTES)).collect();
        put(&mut value, name, Some(shown).filter(|notes| !notes.is_empty()));
        put(&mut value, told, Some(earlier).filter(|count| *count > 0));
    }
    Answer::new(value, card(task, notes, earlier), &looked.notices)
}

/// The latest notes, and how many earlier ones are left out.
fn latest(notes: Option<&[NoteView]>) -> (&[NoteView], usize) {
    let notes = notes.unwrap_or_default();
    let earlier = notes.len().saturating_sub(MAX_NOTES);
    (&notes[earlier..], earlier)
}

/// A task as text: one line per fact.
fn card(task: &TaskView, notes: &[NoteView], earlier: usize) -> String {
    let head = format!("{} {} {} {}", task.id, task.state.spoken(), task.priority, task.kind);
    let mut lines = vec![format!("{head}: {}", quote::title(&task.title))];
    let mut fact = |name: &str, value: Option<String>| {
        lines.extend(value.filter(|value| !value.is_empty()).map(|value| format!("{name}: {value}")));
    };
    let lease = task.lease.as_ref();
    let holder = |lease: &LeaseView| actor::spoken(&lease.actor, &lease.instance);
    let live = lease.filter(|lease| lease.lapsed_by.is_none());
    fact("held by", live.map(|lease| format!("{}, {}", holder(lease), terms(lease))));
    let lapsed = lease.and_then(|lease| Some((holder(lease), lease.lapsed_by?)));
    fact("lapsed", lapsed.map(|(holder, cause)| format!("{holder}, {}", cause.as_str().replace('_', " "))));
    let left = |kept: &KeptView| Span::from_ms(kept.expires_in_s * SECOND_MS);
    fact("kept for", task.kept_for.as_ref().map(|kept| format!("{}, {} left", kept.actor, left(kept))));
    fact("last word", task.last_word.as_ref().map(|word| note_line(word, MAX_ANSWER_BYTES)));
    let unmet = if task.unmet > 0 { format!(" ({} not done)", task.unmet) } else { String::new() };
    let needs = Some(task.deps.join(", ")).filter(|needs| !needs.is_empty());
    fact("needs", needs.map(|needs| needs + &unmet));
    fact("part of", task.parent.clone());
    fact("scope", Some(names(&task.scope)));
    fact("tags", Some(names(&task.tags)));
    fact("owner", task.owner.clone());
    fact("body", task.body.as_deref().map(|body| quote::quoted(body, MAX_ANSWER_BYTES)));
    for line in &task.acceptance {
        let mark = if line.ticked { "x" } else { " " };
        fact(
            "acceptance",
            Some(format!("[{mark}] {}. {}", line.line, quote::quoted(&line.text, MAX_ANSWER_BYTES))),
        );
    }
    // Decisions are shown even if they are not among the latest notes.
    let (decisions, _) = latest(task.decisions.as_deref());
    let is_noted = |decision: &NoteView| notes.iter().any(|note| note.version == decision.version);
    for note in decisions.iter().filter(|decision| !is_noted(decision)) {
        fact("decision", Some(note_line(note, MAX_ANSWER_BYTES)));
    }
    fact("notes", Some(earlier).filter(|n| *n > 0).map(|n| format!("{n} earlier ones are left out")));
    lines.extend(notes.iter().map(|note| format!("note: {}", note_line(note, MAX_ANSWER_BYTES))));
    lines.join("\n")
}

fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(|name| quote::name(name)).collect::<Vec<_>>().join(", ")
}

/// A task in a list of `status`, as a document and as a line.
fn entry(
    (id, title, message): (&str, &str, &str),
    word: Option<&NoteView>,
    next: Option<&String>,
) -> (Value, String) {
    let mut value = json!({ "id": id, "title": title, "message": message });
    let mut line = format!("{id} {}: {}", quote::title(title), visible_line(message));
    if let Some(word) = word {
        value["last_word"] = note_in_short(word, CLAIMED_BYTES);
        line.push_str(&format!("; {}", note_line(word, CLAIMED_BYTES)));
    }
    if let Some(next) = next {
        value["next"] = json!(next);
        line.push_str(&format!("; next: {}", visible_line(next)));
    }
    (value, line)
}

pub(super) fn status(
    identity: &Identity,
    looked: &WithNotices<StatusView>,
    forecast: &ForecastView,
) -> Answer {
    let status = looked.value.worded(&wording::step);
    let yours = if status.yours.is_empty() { "nothing".to_owned() } else { status.yours.join(", ") };
    let mut text = format!("you are {} and hold {yours}", identity.actor);
    let mut value = json!({ "actor": identity.actor, "instance": identity.instance, "yours": status.yours });
    let counts: BTreeMap<&String, &u64> = status.counts.iter().filter(|(_, count)| **count > 0).collect();
    if !counts.is_empty() {
        let spoken: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
        text.push_str(&format!("\ntasks: {}", spoken.join(", ")));
        value["counts"] = json!(counts);
    }
    let held = |list: &[HeldView<String>]| -> Vec<(Value, String)> {
        let entries = list.iter();
        entries.map(|held| entry((&held.id, &held.title, &held.message), None, held.next.as_ref())).collect()
    };
    let awaited = |list: &[AwaitedView<String>]| -> Vec<(Value, String)> {
        let entries = list.iter().map(|waits| {
            entry((&waits.id, &waits.title, &waits.message), waits.last_word.as_ref(), waits.next.as_ref())
        });
        entries.collect()
    };
    let lists = [
        ("waiting_for_you", awaited(&status.waiting_for_you)),
        ("held", held(&status.held)),
        ("lapsed", held(&status.lapsed)),
        ("stale", held(&status.stale)),
        ("stalled", held(&status.stalled)),
        ("review", awaited(&status.review)),
        ("blocked", awaited(&status.blocked)),
        ("conflicts_to_come", forecast.conflicts.iter().map(conflict).collect()),
    ];
    for (name, entries) in lists.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        let (more, spoken) = (entries.len().saturating_sub(MAX_NAMED), name.replace('_', " "));
        let (values, lines): (Vec<Value>, Vec<String>) = entries.into_iter().take(MAX_NAMED).unzip();
        value[name] = json!(values);
        lines.iter().for_each(|line| text.push_str(&format!("\n{spoken}: {line}")));
        if more > 0 {
            value[format!("more_{name}")] = json!(more);
            text.push_str(&format!("\n{spoken}: and {more} more"));
        }
    }
    Answer::new(value, text, &looked.notices)
}

/// A conflict to come, as a document and as a line.
fn conflict(conflict: &ConflictView) -> (Value, String) {
    let with = conflict.with.task.as_ref().unwrap_or(&conflict.with.branch);
    let value = json!({ "task": conflict.task, "with": with, "files": conflict.files });
    (value, visible(&format!("{} {}", conflict.task, conflict.message())))
}

/// A document without hidden characters.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text)),
        Value::Array(items) => items.into_iter().map(shown).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (visible(&name), shown(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use onus_fuzz::texts::{Cast, assert_quoted, assert_visible, dressed, sample};

    use super::*;

    fn assert_shown(value: &Value) {
        match value {
            Value::String(text) => assert_visible(text),
            Value::Array(items) => items.iter().for_each(assert_shown),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                assert_visible(name);
                assert_shown(value);
            }),
            _ => {}
        }
    }

    /// Checks both parts of an answer: a text with this many lines, and a document.
    #[track_caller]
    fn assert_answer(result: &CallToolResult, lines: impl Into<Option<usize>>, cast: &Cast) {
        let value = serde_json::to_value(result).unwrap();
        let text = value["content"][0]["text"].as_str().unwrap();
        assert_quoted(text, cast.texts());
        if let Some(lines) = lines.into() {
            assert_eq!(text.lines().count(), lines, "{text}");
        }
        assert_shown(&value["structuredContent"]);
    }

    #[test]
    fn nothing_that_others_wrote_breaks_out_of_an_answer() {
        let sample = sample();
        let facts =
            |task: &TaskView| card(task, task.notes.as_deref().unwrap_or_default(), 0).lines().count();
        let most = facts(&dressed(&sample, &Cast::of(b"x")));
        onus_fuzz::run(&onus_fuzz::corpus("text"), onus_fuzz::execs(2_000), |bytes| {
            let cast = Cast::of(bytes);
            let task = dressed(&sample, &cast);
            let message = format!("{} is reserved by ON-1", quote::name(cast.text(2)));
            let notice =
                Notice::new(onus_engine::NoticeKind::Wanted, None, message.clone()).next(Step::Status);
            let looked = WithNotices { value: task.clone(), notices: vec![notice] };
            // One line per fact that is not empty, and one for the notice.
            assert_answer(&show(&looked).into_result(), facts(&task) + 1, &cast);
            assert!(facts(&task) <= most);
            let lease = task.lease.clone().map(Box::new);
            let held = Box::new(task.clone());
            let answer = engine::Answer::Lease { task: held, lease, renewed: false, takeover: false };
            let reply = Reply {
                answer,
                replayed: false,
                existing: false,
                unchanged: false,
                notices: Vec::new(),
                due: Vec::new(),
            };
            assert_answer(&claimed(&reply).unwrap().into_result(), None, &cast);
            assert_answer(&changed(&reply, "noted").unwrap().into_result(), 1, &cast);
            assert_answer(&touched(&reply, &[cast.text(3).to_owned()]).unwrap().into_result(), 1, &cast);
            let page = Page { tasks: vec![task.clone(), task.clone()], cursor: None };
            assert_answer(&ready(&WithNotices { value: page, notices: Vec::new() }).into_result(), 2, &cast);
            let refusal = Refusal::new(Code::Scope, message).next(Step::TakeAnother);
            assert_answer(&refused(&refusal), 2, &cast);
        });
    }
}
