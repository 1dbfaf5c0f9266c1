//! What a call answers: the document that `--json` prints for the same command, and a line for whoever reads text.
//!
//! Answers to changes are whole. What can grow without end is cut, and says so: the bodies in a list, the notes of a
//! task, the leases of others.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use onus_core::refusal::{Code, Refusal};
use onus_engine::{self as engine, Identity, Looked, Notice, Page, Reply, StatusView, TaskView};

/// How much of a body a list shows.
const MAX_BODY: usize = 280;
/// How many notes of a task, the latest, and how many leases of each kind are shown.
const MAX_NOTES: usize = 20;
const MAX_HELD: usize = 20;

/// A document, and the same in a few words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    value: Value,
    text: String,
}

impl Answer {
    fn new(value: Value, text: String, notices: &[Notice]) -> Answer {
        let (mut value, mut text) = (value, text);
        if let (Value::Object(object), false) = (&mut value, notices.is_empty()) {
            object.insert("notices".to_owned(), json!(notices));
        }
        for notice in notices {
            text.push_str(&format!("\nnotice: {}", line(&notice.message)));
        }
        Answer { value, text }
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::structured(self.value);
        result.content = vec![ContentBlock::text(self.text)];
        result
    }
}

/// A refusal, as the command line's `--json` has it.
pub(super) fn refused(refusal: &Refusal) -> CallToolResult {
    let mut text = refusal.message.clone();
    for candidate in &refusal.candidates {
        text.push_str(&format!("\ncandidate: {}", line(candidate)));
    }
    for step in &refusal.next {
        text.push_str(&format!("\nnext: {}", line(step)));
    }
    let mut result = CallToolResult::structured_error(json!({ "error": refusal }));
    result.content = vec![ContentBlock::text(text)];
    result
}

pub(super) fn unexpected() -> Refusal {
    Refusal::new(Code::Unexpected, "the engine gave another kind of answer than was asked for")
}

/// The answer to a change: the task, or the task with its lease.
pub(super) fn changed(reply: &Reply, past: &str) -> Result<Answer, Refusal> {
    let (task, value) = match &reply.answer {
        engine::Answer::Task(task) => (task, json!(task)),
        engine::Answer::Lease { task, lease, renewed, takeover } => {
            (task, json!({ "task": task, "lease": lease, "renewed": renewed, "takeover": takeover }))
        }
        _ => return Err(unexpected()),
    };
    let text = format!("{} {past}: {}", task.id, line(&task.title));
    Ok(Answer::new(value, text, &reply.notices))
}

pub(super) fn claimed(reply: &Reply) -> Result<Answer, Refusal> {
    let engine::Answer::Lease { lease, renewed, takeover, .. } = &reply.answer else {
        return Err(unexpected());
    };
    let token = lease.as_ref().map_or(0, |lease| lease.token);
    let how = match (renewed, takeover) {
        (true, _) => "is still yours",
        (_, true) => "is yours, taken over",
        _ => "is yours",
    };
    changed(reply, &format!("{how} (token {token})"))
}

pub(super) fn ready(looked: &Looked<Page>) -> Answer {
    let tasks = &looked.value.tasks;
    let lines: Vec<String> = tasks
        .iter()
        .map(|task| {
            let lapsed = if task.takeover == Some(true) { " (its holder's lease lapsed)" } else { "" };
            format!("{} {} {}{lapsed}", task.id, task.priority, line(&task.title))
        })
        .collect();
    let text = if lines.is_empty() { "nothing is ready".to_owned() } else { lines.join("\n") };
    let tasks: Vec<Value> = tasks.iter().map(in_a_list).collect();
    Answer::new(json!({ "tasks": tasks }), text, &looked.notices)
}

/// Without what is empty, and with the beginning of its body.
fn in_a_list(task: &TaskView) -> Value {
    let mut value = json!(task);
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !is_empty(value));
        if let Some(Value::String(body)) = fields.get_mut("body")
            && let Some((end, _)) = body.char_indices().nth(MAX_BODY)
        {
            body.truncate(end);
            body.push('…');
        }
    }
    value
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

pub(super) fn show(looked: &Looked<TaskView>) -> Answer {
    let task = &looked.value;
    let holder = match &task.lease {
        Some(lease) if lease.live => format!(", held by {} ({})", lease.actor, lease.instance),
        Some(lease) => format!(", lease of {} lapsed", lease.actor),
        None => String::new(),
    };
    let text = format!("{} {}{holder}: {}", task.id, task.state, line(&task.title));
    let mut value = json!(task);
    let left_out = value.get_mut("notes").and_then(Value::as_array_mut).map_or(0, |notes| {
        let left_out = notes.len().saturating_sub(MAX_NOTES);
        notes.drain(..left_out);
        left_out
    });
    if left_out > 0 {
        value["earlier_notes"] = json!(left_out);
    }
    Answer::new(value, text, &looked.notices)
}

pub(super) fn status(identity: &Identity, looked: &Looked<StatusView>) -> Answer {
    let status = &looked.value;
    let yours = if status.yours.is_empty() { "nothing".to_owned() } else { status.yours.join(", ") };
    let mut text = format!("you are {} and hold {yours}", identity.actor);
    let lists = [
        ("held", &status.held),
        ("lapsed", &status.lapsed),
        ("stale", &status.stale),
        ("stalled", &status.stalled),
    ];
    let mut value = json!(status);
    for (name, list) in lists {
        for held in list.iter().take(MAX_HELD) {
            text.push_str(&format!("\n{name}: {} {}", held.id, line(&held.message)));
        }
        if list.len() > MAX_HELD {
            text.push_str(&format!("\n{name}: and {} more", list.len() - MAX_HELD));
            if let Some(Value::Array(shown)) = value.get_mut(name) {
                shown.truncate(MAX_HELD);
            }
            value[format!("more_{name}")] = json!(list.len() - MAX_HELD);
        }
    }
    Answer::new(value, text, &looked.notices)
}

/// A text of somebody else's on a line of ours.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
