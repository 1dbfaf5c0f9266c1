//! What agents' harnesses tell their hooks, and what they understand as an answer.
//!
//! A hook is a program that the harness starts at certain moments, with a JSON document on stdin. The documents differ in
//! words more than in kind; [`Payload::read`] brings them to one shape, [`Answer::write`] brings the answer back. Both are
//! as forgiving as the harnesses change often: fields that are not known are left alone, an event that is not known is
//! none of ours, and what is missing is missing.
//!
//! **Only edit tools' paths count.** What a shell command would write is not guessed: shell strings are never parsed.

mod patch;

use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// The most that is read of a payload: the contents of a file to be written are in it.
pub const MAX_PAYLOAD: u64 = 32 << 20;

/// A harness that has hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Claude Code, and Codex, which took its hooks over.
    Claude,
    Codex,
    Gemini,
}

impl Dialect {
    pub const ALL: [Dialect; 3] = [Dialect::Claude, Dialect::Codex, Dialect::Gemini];

    /// The harness's name: `agent:NAME` acts.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Claude => "claude",
            Dialect::Codex => "codex",
            Dialect::Gemini => "gemini",
        }
    }

    /// Whether its agent is told anything before a tool but that it may not use it.
    pub fn hears_before_a_tool(self) -> bool {
        self != Dialect::Gemini
    }

    pub fn of(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }
}

/// The moments that mean something to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A conversation begins, goes on in another process, or is cleared.
    Start,
    /// A tool is about to be used.
    BeforeTool,
    AfterTool,
    /// A person asked for something: the agent's turn.
    TurnBegins,
    TurnOver,
    PartBegins,
    PartOver,
    End,
}

impl Moment {
    fn of(event: &str) -> Option<Moment> {
        Some(match event {
            "SessionStart" => Moment::Start,
            "PreToolUse" | "BeforeTool" => Moment::BeforeTool,
            "PostToolUse" | "PostToolUseFailure" | "AfterTool" => Moment::AfterTool,
            "UserPromptSubmit" | "BeforeAgent" => Moment::TurnBegins,
            "Stop" | "StopFailure" | "Interrupt" | "AfterAgent" => Moment::TurnOver,
            "SubagentStart" => Moment::PartBegins,
            "SubagentStop" => Moment::PartOver,
            "SessionEnd" => Moment::End,
            _ => return None,
        })
    }
}

/// What a harness said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// As the harness spells it, for the answer.
    pub event: String,
    pub moment: Moment,
    pub conversation: String,
    /// The part of the conversation that works by itself, if the moment is one of such a part's.
    pub sub_agent: Option<String>,
    pub folder: Option<PathBuf>,
    /// The files that the tool is about to change.
    pub files: Vec<PathBuf>,
}

/// Why a payload is none of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// An event that means nothing to us.
    OtherEvent,
    /// What is wrong with it.
    Broken(String),
}

impl Payload {
    pub fn read(text: &[u8]) -> Result<Payload, Unread> {
        let broken = |what: &str| Unread::Broken(what.to_owned());
        let value: Value = serde_json::from_slice(text)
            .map_err(|error| Unread::Broken(format!("it is not JSON: {error}")))?;
        let fields = value.as_object().ok_or_else(|| broken("it is not a JSON object"))?;
        let text_of = |name: &str| {
            fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let event = text_of("hook_event_name").ok_or_else(|| broken("it has no hook_event_name"))?;
        let moment = Moment::of(&event).ok_or(Unread::OtherEvent)?;
        let conversation = text_of("session_id").ok_or_else(|| broken("it has no session_id"))?;
        let files = match (moment, text_of("tool_name"), fields.get("tool_input")) {
            (Moment::BeforeTool, Some(tool), Some(Value::Object(input))) => edited(&tool, input),
            _ => Vec::new(),
        };
        Ok(Payload {
            event,
            moment,
            conversation,
            sub_agent: text_of("agent_id"),
            folder: text_of("cwd").map(PathBuf::from),
            files,
        })
    }
}

/// The files that a tool changes. A tool that is not known changes none that we could tell.
fn edited(tool: &str, input: &Map<String, Value>) -> Vec<PathBuf> {
    let named = |field: &str| input.get(field).and_then(Value::as_str).map(PathBuf::from);
    match tool {
        // Claude Code; write_file and replace are Gemini CLI's.
        "Edit" | "Write" | "MultiEdit" | "write_file" | "replace" => named("file_path").into_iter().collect(),
        "NotebookEdit" => named("notebook_path").into_iter().collect(),
        "apply_patch" => ["command", "input", "patch"]
            .into_iter()
            .filter_map(|field| input.get(field))
            .flat_map(patch::files)
            .collect(),
        _ => Vec::new(),
    }
}

/// What the harness is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The tool is not to be used, and why.
    pub refusal: Option<String>,
    /// What the agent should know.
    pub context: Option<String>,
    /// What the person in front of it should know.
    pub warning: Option<String>,
}

impl Answer {
    /// The document for stdout; None: silence, with which everything goes on as if we were not there. A tool is never
    /// *approved*: that would overrule what the person allowed.
    pub fn write(&self, dialect: Dialect, event: &str) -> Option<Value> {
        let mut answer = Map::new();
        let mut specific = Map::new();
        if let Some(reason) = &self.refusal {
            match dialect {
                Dialect::Claude | Dialect::Codex => {
                    specific.insert("permissionDecision".into(), json!("deny"));
                    specific.insert("permissionDecisionReason".into(), json!(reason));
                }
                Dialect::Gemini => {
                    answer.insert("decision".into(), json!("deny"));
                    answer.insert("reason".into(), json!(reason));
                }
            }
        }
        if let Some(context) = &self.context {
            specific.insert("additionalContext".into(), json!(context));
        }
        if !specific.is_empty() {
            specific.insert("hookEventName".into(), json!(event));
            answer.insert("hookSpecificOutput".into(), Value::Object(specific));
        }
        if let Some(warning) = &self.warning {
            answer.insert("systemMessage".into(), json!(warning));
        }
        (!answer.is_empty()).then_some(Value::Object(answer))
    }
}

#[cfg(test)]
mod tests;
