//! What agents' harnesses tell their hooks, and what they understand as an answer.
//!
//! A hook is a program that the harness starts at certain moments, with a JSON document on stdin. The documents differ in
//! their words more than in kind; [`Payload::read`] brings them into one shape, [`Answer::write`] converts the answer back. Harnesses
//! change often, so both are forgiving: unknown fields and events are ignored, and anything may be missing.
//!
//! **What is named counts.** Edit tools name their files. Of a shell's command only what stands there literally is read (`shell/`); what
//! else it writes is not guessed, but noticed afterwards.
//!
//! **Only what is needed decides.** The content of an edit may be anything, and a payload may be cut off: what can be judged is
//! judged (`scan.rs`). In a path, what cannot be shown becomes U+FFFD, and that name is what is reserved; if the
//! end of a payload is missing, and perhaps a file with it, the payload says so ([`Payload::is_partial`]).

mod patch;
mod scan;
pub mod shell;
pub mod usage;

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use onus_core::quote::visible;

use scan::{Raw, members};

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

    /// Whether a process of it runs one conversation after another, and never two at once.
    pub fn runs_one_at_a_time(self) -> bool {
        crate::KnownHarness::called(self.name()).is_some_and(|harness| harness.one_at_a_time)
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
    /// A tool has done its work.
    AfterTool,
    /// A tool was used and came to nothing: whatever it was about to change is as it was.
    ToolFailed,
    /// A person asked for something: the agent's turn.
    TurnBegins,
    TurnOver,
    /// A person is asked whether a tool may be used.
    Asks,
    PartBegins,
    PartOver,
    End,
}

impl Moment {
    fn of(event: &str) -> Option<Moment> {
        Some(match event {
            "SessionStart" => Moment::Start,
            "PreToolUse" | "BeforeTool" => Moment::BeforeTool,
            "PostToolUse" | "AfterTool" => Moment::AfterTool,
            "PostToolUseFailure" => Moment::ToolFailed,
            "UserPromptSubmit" | "BeforeAgent" => Moment::TurnBegins,
            "Stop" | "StopFailure" | "Interrupt" | "AfterAgent" => Moment::TurnOver,
            "PermissionRequest" | "Notification" => Moment::Asks,
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
    /// The files that the tool is about to change, has changed, or failed to change.
    pub files: Vec<PathBuf>,
    /// Of these, the ones that it removes, where it says so.
    pub removed: Vec<PathBuf>,
    /// The payload ends before all of them were named.
    pub is_partial: bool,
    /// Whether the tool is a shell.
    pub is_shell: bool,
    /// The files that the shell's command names literally as what it writes.
    pub writes: Vec<PathBuf>,
    /// Which use of a tool this is, if the harness tells.
    pub use_id: Option<String>,
    /// How long the tool ran, if the harness tells.
    pub ran_ms: Option<i64>,
    /// Where the harness keeps what was said: of the conversation, or of the part that the moment is about.
    pub transcript: Option<PathBuf>,
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
            spoken,
            spoken_by_part,
            note,
        ] = fields;
        let text_of = |field: Option<Raw<'_>>| field.and_then(Raw::string).filter(|text| !text.is_empty());
        let event = text_of(event).ok_or_else(|| broken("it has no hook_event_name"))?;
        let moment = match Moment::of(&event).ok_or(Unread::OtherEvent)? {
            Moment::AfterTool if response.is_some_and(says_that_it_failed) => Moment::ToolFailed,
            // There are notifications of other kinds.
            Moment::Asks if event == "Notification" && !text_of(note).is_some_and(|kind| asks(&kind)) => {
                return Err(Unread::OtherEvent);
            }
            moment => moment,
        };
        let conversation = text_of(conversation).ok_or_else(|| broken("it has no session_id"))?;
        let tool = text_of(tool);
        let is_shell = tool.as_deref().is_some_and(|tool| SHELLS.contains(&tool));
        let named = match (moment, input) {
            (Moment::BeforeTool | Moment::AfterTool, Some(input)) if is_shell => command(input),
            _ => shell::Named::default(),
        };
        let (files, is_partial) = match (moment, tool, input) {
            _ if is_shell => (named.patched, false),
            (Moment::BeforeTool, Some(tool), Some(input)) => edited(&tool, input),
            // The tool that was not named may be one that edits.
            (Moment::BeforeTool, ..) => (Vec::new(), !document.is_whole),
            (Moment::AfterTool | Moment::ToolFailed, Some(tool), Some(input)) => {
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
            transcript: text_of(if moment == Moment::PartOver { spoken_by_part } else { spoken })
                .map(PathBuf::from),
        })
    }
}

/// Whether a notification of this kind is a permission prompt: Claude Code's, Gemini CLI's.
fn asks(kind: &str) -> bool {
    matches!(kind, "permission_prompt" | "ToolPermission")
}

/// Whether a tool's answer is that it came to nothing. Claude Code has an event of its own for that; Gemini CLI says it in a field, Codex
/// in the first line of what the tool printed.
fn says_that_it_failed(response: Raw<'_>) -> bool {
    let has_error = members(response, ["error"]).is_some_and(|[error]| error.is_some_and(|it| !it.is_null()));
    let printed = response.string().unwrap_or_default();
    let code = printed.strip_prefix("Exit code: ").and_then(|rest| rest.lines().next());
    has_error || code.is_some_and(|code| code.trim() != "0")
}

/// The tools that run commands: Claude Code's and Codex's, older ones of Codex, Gemini CLI's.
const SHELLS: [&str; 4] = ["Bash", "shell", "exec_command", "run_shell_command"];

/// What the command of a shell names, as seen from the conversation's folder.
fn command(input: Raw<'_>) -> shell::Named {
    let fields = members(input, ["command", "cmd", "workdir", "directory", "dir_path"]).unwrap_or_default();
    let [command, other, folders @ ..] = fields;
    let Some(command) = command.or(other) else { return shell::Named::default() };
    let mut named = match command.string() {
        Some(text) => shell::named(&text),
        // An argv: of a shell with its command, or of a program.
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

/// The files that a tool changes, and whether some may be missing. A tool that is not known changes none that we could tell.
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
    /// With something more for the agent to know.
    pub fn also(mut self, context: Option<String>) -> Answer {
        self.context = match (self.context, context) {
            (Some(first), Some(more)) => Some(format!("{}\n{more}", first.trim_end())),
            (first, more) => first.or(more),
        };
        self
    }

    /// The document for stdout; None: silence, with which everything goes on as if we were not there. A tool is never
    /// *approved*: that would overrule what the person allowed. Nothing in it is hidden from whoever reads it.
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
