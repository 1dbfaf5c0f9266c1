//! The hook protocols of agents' harnesses: reads what they pass to hooks, and writes the answers that they understand.
//!
//! A hook is a program that the harness starts at certain moments, with a JSON document on stdin. The documents differ in
//! wording more than in kind: [`Payload::read`] converts them to one form, [`Answer::write`] converts the answer back. Harnesses
//! change often, so both are forgiving: unknown fields and events are ignored, and anything may be missing.
//!
//! **Only named files count.** Edit tools name their files. Of a shell command only literal file names are read (`shell/`); what
//! else it writes is not guessed, but noticed afterwards.
//!
//! **Only the needed fields are parsed.** The content of an edit may be anything, and a payload may be cut off: as much as possible is
//! read nevertheless (`scan.rs`). In a path, invalid characters become U+FFFD, and that name is reserved. If the
//! end of a payload is missing, and perhaps a file with it, [`Payload::is_partial`] says so.

mod patch;
mod scan;
pub mod shell;
pub mod usage;

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use onus_core::quote::visible;

use scan::{Raw, members};

/// The most that is read of a payload, which contains the contents of a file to be written.
pub const MAX_PAYLOAD: u64 = 32 << 20;

onus_core::spelled! {
    /// A harness that has hooks, by its name in `agent:NAME`.
    Dialect {
        /// Claude Code, whose hooks Codex adopted.
        Claude = "claude",
        Codex = "codex",
        Gemini = "gemini",
    }
}

impl Dialect {
    /// Whether the agent can be told something before a tool besides a refusal.
    pub fn hears_before_a_tool(self) -> bool {
        self != Dialect::Gemini
    }

    /// Whether one of its processes never runs two conversations at once.
    pub fn runs_one_at_a_time(self) -> bool {
        crate::KnownHarness::called(self.as_str()).is_some_and(|harness| harness.one_at_a_time)
    }
}

/// The moments that matter to onus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A conversation begins, continues in another process, or is cleared.
    Start,
    /// A tool is about to be used.
    BeforeTool,
    /// A tool was used successfully.
    AfterTool,
    /// A tool failed, and changed nothing.
    ToolFailed,
    /// A person sent a prompt, so the agent's turn begins.
    TurnBegins,
    TurnOver,
    /// A person is asked whether a tool may be used.
    Asks,
    PartBegins,
    PartOver,
    End,
}

impl HookEvent {
    fn of(event: &str) -> Option<HookEvent> {
        Some(match event {
            "SessionStart" => HookEvent::Start,
            "PreToolUse" | "BeforeTool" => HookEvent::BeforeTool,
            "PostToolUse" | "AfterTool" => HookEvent::AfterTool,
            "PostToolUseFailure" => HookEvent::ToolFailed,
            "UserPromptSubmit" | "BeforeAgent" => HookEvent::TurnBegins,
            "Stop" | "StopFailure" | "Interrupt" | "AfterAgent" => HookEvent::TurnOver,
            "PermissionRequest" | "Notification" => HookEvent::Asks,
            "SubagentStart" => HookEvent::PartBegins,
            "SubagentStop" => HookEvent::PartOver,
            "SessionEnd" => HookEvent::End,
            _ => return None,
        })
    }
}

/// What a harness passed to its hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The harness's own name for the event, for the answer.
    pub event: String,
    pub moment: HookEvent,
    pub conversation: String,
    /// The sub-agent that the moment is about, if any.
    pub sub_agent: Option<String>,
    pub folder: Option<PathBuf>,
    /// The files that the tool is about to change, has changed, or failed to change.
    pub files: Vec<PathBuf>,
    /// Of these, the ones that it removes, as far as it says so.
    pub removed: Vec<PathBuf>,
    /// The payload may end before all of them are named.
    pub is_partial: bool,
    /// Whether the tool is a shell.
    pub is_shell: bool,
    /// The files that the shell command writes by literal names.
    pub writes: Vec<PathBuf>,
    /// The id of this tool use, if the harness reports it.
    pub use_id: Option<String>,
    /// How long the tool ran, if the harness reports it.
    pub ran_ms: Option<i64>,
    /// The transcript of the conversation, or of the sub-agent that the moment is about.
    pub transcript: Option<PathBuf>,
}

/// Why a payload was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// An event that does not matter to onus.
    OtherEvent,
    /// It is invalid, for this reason.
    Broken(String),
}

impl Payload {
    pub fn read(text: &[u8]) -> Result<Payload, Unread> {
        const FIELDS: [&str; 12] = [
            "hook_event_name",
            "session_id",
            "agent_id",
            "cwd",
            "tool_name",
            "tool_input",
            "tool_response",
            "tool_use_id",
            "duration_ms",
            "transcript_path",
            "agent_transcript_path",
            "notification_type",
        ];
        let broken = |what: &str| Unread::Broken(what.to_owned());
        let document = Raw::document(text);
        let fields = members(document, FIELDS).ok_or_else(|| broken("it is not a JSON object"))?;
        let [
            event,
            conversation,
            sub_agent,
            folder,
            tool,
            input,
            response,
            use_id,
            ran,
            transcript,
            part_transcript,
            note,
        ] = fields;
        let text_of = |field: Option<Raw<'_>>| field.and_then(Raw::string).filter(|text| !text.is_empty());
        let event = text_of(event).ok_or_else(|| broken("it has no hook_event_name"))?;
        let moment = match HookEvent::of(&event).ok_or(Unread::OtherEvent)? {
            HookEvent::AfterTool if response.is_some_and(says_that_it_failed) => HookEvent::ToolFailed,
            // Only some notifications ask for permission.
            HookEvent::Asks if event == "Notification" && !text_of(note).is_some_and(|kind| asks(&kind)) => {
                return Err(Unread::OtherEvent);
            }
            moment => moment,
        };
        let conversation = text_of(conversation).ok_or_else(|| broken("it has no session_id"))?;
        let tool = text_of(tool);
        let is_shell = tool.as_deref().is_some_and(|tool| SHELLS.contains(&tool));
        let named = match (moment, input) {
            (HookEvent::BeforeTool | HookEvent::AfterTool, Some(input)) if is_shell => command(input),
            _ => shell::Named::default(),
        };
        let (files, is_partial) = match (moment, tool, input) {
            _ if is_shell => (named.patched, false),
            (HookEvent::BeforeTool, Some(tool), Some(input)) => edited(&tool, input),
            // The missing tool may be one that edits.
            (HookEvent::BeforeTool, ..) => (Vec::new(), !document.is_whole),
            (HookEvent::AfterTool | HookEvent::ToolFailed, Some(tool), Some(input)) => {
                (edited(&tool, input).0, false)
            }
            _ => (Vec::new(), false),
        };
        let removed = input.map(patch::removed).unwrap_or_default();
        let is_removed = |file: &&PathBuf| removed.iter().any(|name| file.ends_with(name));
        let removed = files.iter().filter(is_removed).cloned().collect();
        Ok(Payload {
            event,
            moment,
            conversation,
            sub_agent: text_of(sub_agent),
            folder: text_of(folder).map(PathBuf::from),
            removed,
            files,
            is_partial,
            is_shell,
            writes: named.written,
            use_id: text_of(use_id),
            ran_ms: ran.and_then(Raw::literal).and_then(|ran| ran.parse().ok()),
            transcript: text_of(if moment == HookEvent::PartOver { part_transcript } else { transcript })
                .map(PathBuf::from),
        })
    }
}

/// Whether a notification of this kind is a permission prompt: Claude Code's, Gemini CLI's.
fn asks(kind: &str) -> bool {
    matches!(kind, "permission_prompt" | "ToolPermission")
}

/// Whether a tool's response reports a failure. Claude Code has an event of its own for that; Gemini CLI has a field, Codex the
/// first line of the tool's output.
fn says_that_it_failed(response: Raw<'_>) -> bool {
    let has_error = members(response, ["error"]).is_some_and(|[error]| error.is_some_and(|it| !it.is_null()));
    let printed = response.string().unwrap_or_default();
    let code = printed.strip_prefix("Exit code: ").and_then(|rest| rest.lines().next());
    has_error || code.is_some_and(|code| code.trim() != "0")
}

/// The tools that run commands: of Claude Code and Codex, of older versions of Codex, and of Gemini CLI.
const SHELLS: [&str; 4] = ["Bash", "shell", "exec_command", "run_shell_command"];

/// The files that a shell command names, relative to the conversation's folder.
fn command(input: Raw<'_>) -> shell::Named {
    let fields = members(input, ["command", "cmd", "workdir", "directory", "dir_path"]).unwrap_or_default();
    let [command, other, folders @ ..] = fields;
    let Some(command) = command.or(other) else { return shell::Named::default() };
    let mut named = match command.string() {
        Some(text) => shell::named(&text),
        // An argv, either of a shell with its command or of a program.
        None => {
            let words: Vec<String> = command.elements().filter_map(Raw::string).collect();
            match words.as_slice() {
                [_, flags, text] if flags.starts_with('-') && flags.ends_with('c') => shell::named(text),
                words => shell::named_by_argv(words),
            }
        }
    };
    let folder = folders.into_iter().flatten().find_map(Raw::string).filter(|folder| !folder.is_empty());
    if let Some(folder) = folder.map(PathBuf::from) {
        for file in named.patched.iter_mut().chain(&mut named.written) {
            *file = folder.join(&*file);
        }
    }
    named
}

/// The files that a tool changes, and whether some may be missing. None for an unknown tool.
fn edited(tool: &str, input: Raw<'_>) -> (Vec<PathBuf>, bool) {
    let named = |field: &str| {
        let [path] = members(input, [field]).unwrap_or_default();
        let file = path.and_then(Raw::string).map(PathBuf::from);
        let is_partial = file.is_none() && !input.is_whole;
        (file.into_iter().collect(), is_partial)
    };
    match tool {
        // Claude Code; write_file and replace are Gemini CLI's.
        "Edit" | "Write" | "MultiEdit" | "write_file" | "replace" => named("file_path"),
        "NotebookEdit" => named("notebook_path"),
        "apply_patch" => {
            let patches = members(input, ["command", "input", "patch"]).unwrap_or_default();
            (patches.into_iter().flatten().flat_map(patch::files).collect(), !input.is_whole)
        }
        _ => (Vec::new(), false),
    }
}

/// The answer to a harness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Refuses the use of a tool, with this reason.
    pub refusal: Option<String>,
    /// What the agent should know.
    pub context: Option<String>,
    /// What the person in front of it should know.
    pub warning: Option<String>,
}

impl Answer {
    /// Adds something that the agent should know.
    pub fn also(mut self, context: Option<String>) -> Answer {
        self.context = match (self.context, context) {
            (Some(first), Some(more)) => Some(format!("{}\n{more}", first.trim_end())),
            (first, more) => first.or(more),
        };
        self
    }

    /// The document for stdout; None for no output, so that the harness continues as if there were no hook. A tool is never
    /// *approved*: that would override what the person allowed. It contains no invisible characters.
    pub fn write(&self, dialect: Dialect, event: &str) -> Option<Value> {
        let mut answer = Map::new();
        let mut specific = Map::new();
        if let Some(reason) = &self.refusal {
            match dialect {
                Dialect::Claude | Dialect::Codex => {
                    specific.insert("permissionDecision".into(), json!("deny"));
                    specific.insert("permissionDecisionReason".into(), json!(visible(reason)));
                }
                Dialect::Gemini => {
                    answer.insert("decision".into(), json!("deny"));
                    answer.insert("reason".into(), json!(visible(reason)));
                }
            }
        }
        if let Some(context) = &self.context {
            specific.insert("additionalContext".into(), json!(visible(context)));
        }
        if !specific.is_empty() {
            specific.insert("hookEventName".into(), json!(event));
            answer.insert("hookSpecificOutput".into(), Value::Object(specific));
        }
        if let Some(warning) = &self.warning {
            answer.insert("systemMessage".into(), json!(visible(warning)));
        }
        (!answer.is_empty()).then_some(Value::Object(answer))
    }
}

#[cfg(test)]
mod tests;
