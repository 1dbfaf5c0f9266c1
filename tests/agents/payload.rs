//! What each harness tells its hooks, field by field as it documents them.

use std::path::Path;

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Claude,
    Codex,
    Gemini,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Claude, Kind::Codex, Kind::Gemini];

/// What happened, in no harness's words.
#[derive(Clone, Debug)]
pub(crate) enum Event<'a> {
    /// `startup`, `resume`, `clear` or `compact`.
    Start(&'a str),
    BeforeEdit(&'a [&'a Path]),
    AfterEdit(&'a [&'a Path]),
    /// The edit came to nothing, as when the text to replace is not there.
    EditFailed(&'a [&'a Path]),
    BeforeTool(&'a str),
    AfterTool(&'a str),
    ToolFailed(&'a str),
    /// A command, and which use of the shell it is.
    BeforeShell(&'a str, &'a str),
    AfterShell(&'a str, &'a str),
    Prompt,
    TurnOver,
    /// A person is asked whether a tool may be used.
    Asks(&'a str),
    PartBegins,
    PartOver,
    End(&'a str),
}

/// Of which conversation, and which part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From<'a> {
    pub(crate) conversation: &'a str,
    pub(crate) part: Option<&'a str>,
    pub(crate) folder: &'a Path,
    /// Turns so far.
    pub(crate) turn: u32,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Claude => "claude",
            Kind::Codex => "codex",
            Kind::Gemini => "gemini",
        }
    }

    /// The tool by which it writes one file.
    pub(crate) fn edit_tool(self) -> &'static str {
        match self {
            Kind::Claude => "Edit",
            Kind::Codex => "apply_patch",
            Kind::Gemini => "replace",
        }
    }

    pub(crate) fn shell_tool(self) -> &'static str {
        match self {
            Kind::Claude | Kind::Codex => "Bash",
            Kind::Gemini => "run_shell_command",
        }
    }

    /// None: this harness has no such event.
    pub(crate) fn event_name(self, event: &Event<'_>) -> Option<&'static str> {
        Some(match (event, self) {
            (Event::Start(_), _) => "SessionStart",
            (Event::BeforeEdit(_) | Event::BeforeTool(_) | Event::BeforeShell(..), Kind::Gemini) => {
                "BeforeTool"
            }
            (Event::BeforeEdit(_) | Event::BeforeTool(_) | Event::BeforeShell(..), _) => "PreToolUse",
            (Event::EditFailed(_), Kind::Claude) => "PostToolUseFailure",
            (
                Event::AfterTool(_) | Event::AfterEdit(_) | Event::AfterShell(..) | Event::EditFailed(_),
                Kind::Gemini,
            ) => "AfterTool",
            (Event::AfterTool(_) | Event::AfterEdit(_) | Event::AfterShell(..) | Event::EditFailed(_), _) => {
                "PostToolUse"
            }
            (Event::Prompt, Kind::Gemini) => "BeforeAgent",
            (Event::Prompt, _) => "UserPromptSubmit",
            (Event::TurnOver, Kind::Gemini) => "AfterAgent",
            (Event::TurnOver, _) => "Stop",
            (Event::Asks(_), Kind::Gemini) => "Notification",
            (Event::Asks(_), _) => "PermissionRequest",
            (Event::PartBegins, Kind::Claude | Kind::Codex) => "SubagentStart",
            (Event::PartOver, Kind::Claude | Kind::Codex) => "SubagentStop",
            (Event::End(_), _) => "SessionEnd",
            (Event::ToolFailed(_), Kind::Claude) => "PostToolUseFailure",
            // Gemini's sub-agents have no events of their own; it and Codex have none for tools that failed.
            (Event::ToolFailed(_), _) | (Event::PartBegins | Event::PartOver, Kind::Gemini) => return None,
        })
    }

    /// The document on the hook's stdin.
    pub(crate) fn payload(self, event: &Event<'_>, from: From<'_>) -> Option<Value> {
        let mut fields = self.common(from);
        fields.insert("hook_event_name".into(), json!(self.event_name(event)?));
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        match event {
            Event::Start(source) => {
                put("source", json!(source));
                if self != Kind::Gemini {
                    put("model", json!("a-model"));
                }
            }
            Event::BeforeEdit(files) => {
                put("tool_name", json!(self.edit_tool()));
                put("tool_input", self.edit(files));
                self.put_use(from, &mut put);
            }
            Event::AfterEdit(files) | Event::EditFailed(files) => {
                put("tool_name", json!(self.edit_tool()));
                put("tool_input", self.edit(files));
                let is_done = matches!(event, Event::AfterEdit(_));
                match self {
                    Kind::Claude if !is_done => put("error", json!("String to replace not found in file.")),
                    _ => put("tool_response", self.edit_response(is_done)),
                };
                self.put_use(from, &mut put);
            }
            Event::BeforeTool(tool) => {
                put("tool_name", json!(tool));
                put("tool_input", self.input(tool));
                self.put_use(from, &mut put);
            }
            Event::AfterTool(tool) => {
                put("tool_name", json!(tool));
                put("tool_input", self.input(tool));
                put("tool_response", self.response());
                self.put_use(from, &mut put);
            }
            Event::BeforeShell(command, id) | Event::AfterShell(command, id) => {
                put("tool_name", json!(self.shell_tool()));
                put("tool_input", json!({ "command": command, "description": "Run it" }));
                if matches!(event, Event::AfterShell(..)) {
                    put("tool_response", self.response());
                }
                self.put_use(from, &mut put);
                if self != Kind::Gemini {
                    put("tool_use_id", json!(id));
                }
            }
            Event::ToolFailed(tool) => {
                put("tool_name", json!(tool));
                put("tool_input", self.input(tool));
                put("error", json!("String to replace not found in file."));
                self.put_use(from, &mut put);
            }
            Event::Prompt => {
                put("prompt", json!("go on, please"));
                self.put_turn(from, &mut put);
            }
            Event::TurnOver => match self {
                Kind::Gemini => {
                    put("prompt", json!("go on, please"));
                    put("prompt_response", json!("That is done."));
                    put("stop_hook_active", json!(false));
                }
                Kind::Claude | Kind::Codex => {
                    put("stop_hook_active", json!(false));
                    put("last_assistant_message", json!("That is done."));
                    self.put_turn(from, &mut put);
                }
            },
            Event::Asks(tool) if self == Kind::Gemini => {
                put("notification_type", json!("ToolPermission"));
                put("message", json!("Tool asks for permission"));
                put("details", json!({ "type": "exec", "title": tool }));
            }
            Event::Asks(tool) => {
                put("tool_name", json!(tool));
                put("tool_input", self.input(tool));
                self.put_turn(from, &mut put);
            }
            Event::PartBegins => self.put_turn(from, &mut put),
            Event::PartOver => {
                put("stop_hook_active", json!(false));
                put("agent_transcript_path", json!("/transcripts/part.jsonl"));
                put("last_assistant_message", json!("My part is done."));
                self.put_turn(from, &mut put);
            }
            Event::End(reason) => {
                put("reason", json!(reason));
            }
        }
        Some(Value::Object(fields))
    }

    fn common(self, from: From<'_>) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("session_id", json!(from.conversation));
        put("transcript_path", json!(format!("/transcripts/{}.jsonl", from.conversation)));
        put("cwd", json!(from.folder));
        match self {
            Kind::Claude => {
                put("permission_mode", json!("acceptEdits"));
            }
            Kind::Codex => {
                put("permission_mode", json!("default"));
                put("model", json!("a-model"));
            }
            Kind::Gemini => {
                put("timestamp", json!("2026-03-01T10:00:00.000Z"));
            }
        }
        if let Some(part) = from.part {
            put("agent_id", json!(part));
            put("agent_type", json!("general-purpose"));
        }
        fields
    }

    fn put_turn(self, from: From<'_>, put: &mut dyn FnMut(&str, Value) -> Option<Value>) {
        if self == Kind::Codex {
            put("turn_id", json!(format!("turn-{}", from.turn)));
        }
    }

    fn put_use(self, from: From<'_>, put: &mut dyn FnMut(&str, Value) -> Option<Value>) {
        if self != Kind::Gemini {
            put("tool_use_id", json!("toolu_01A"));
        }
        self.put_turn(from, put);
    }

    fn edit(self, files: &[&Path]) -> Value {
        match self {
            Kind::Claude => json!({
                "file_path": files[0], "old_string": "before", "new_string": "after", "replace_all": false,
            }),
            Kind::Gemini => json!({
                "file_path": files[0], "instruction": "say it better", "old_string": "before", "new_string": "after",
            }),
            Kind::Codex => {
                let hunk = |file: &&Path| {
                    format!("*** Update File: {}\n@@\n-before\n+after\n", file.to_str().unwrap())
                };
                let hunks: String = files.iter().map(hunk).collect();
                json!({ "command": format!("*** Begin Patch\n{hunks}*** End Patch\n") })
            }
        }
    }

    /// What an edit answers, as each was heard to.
    fn edit_response(self, is_done: bool) -> Value {
        match (self, is_done) {
            (Kind::Claude, _) => json!({ "filePath": "f", "structuredPatch": [], "userModified": false }),
            (Kind::Codex, true) => json!(
                "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM f\n"
            ),
            (Kind::Codex, false) => {
                json!("Exit code: 1\nWall time: 0 seconds\nOutput:\nFailed to find expected lines\n")
            }
            (Kind::Gemini, true) => {
                json!({ "llmContent": "Successfully modified file", "returnDisplay": {}, "error": null })
            }
            (Kind::Gemini, false) => json!({
                "llmContent": "Failed to edit, 0 occurrences found", "returnDisplay": "Failed to edit",
                "error": { "message": "Failed to edit, 0 occurrences found", "type": "edit_no_occurrence_found" },
            }),
        }
    }

    fn input(self, tool: &str) -> Value {
        if tool == self.shell_tool() {
            json!({ "command": "echo before > notes.txt", "description": "Write a file" })
        } else {
            json!({ "file_path": "src/lib.rs", "offset": 1 })
        }
    }

    fn response(self) -> Value {
        match self {
            Kind::Claude => json!({ "stdout": "ok", "stderr": "", "interrupted": false }),
            Kind::Codex => json!("ok"),
            Kind::Gemini => json!({ "llmContent": "ok", "returnDisplay": "ok" }),
        }
    }

    /// What it sets in the shells that it starts. Some versions do not name the conversation; a sub-agent of Codex is a thread of
    /// its own.
    pub(crate) fn shell_env(
        self,
        conversation: &str,
        part: Option<&str>,
        names_it: bool,
    ) -> Map<String, Value> {
        let mut env = Map::new();
        match self {
            Kind::Claude => {
                env.insert("CLAUDECODE".into(), json!("1"));
                env.insert("CLAUDE_CODE_ENTRYPOINT".into(), json!("cli"));
                if names_it {
                    env.insert("CLAUDE_CODE_SESSION_ID".into(), json!(conversation));
                }
            }
            Kind::Codex => {
                env.insert("CODEX_THREAD_ID".into(), json!(part.unwrap_or(conversation)));
                if names_it {
                    env.insert("CODEX_SESSION_ID".into(), json!(conversation));
                }
            }
            Kind::Gemini => {
                env.insert("GEMINI_CLI".into(), json!("1"));
            }
        }
        env
    }

    /// What it sets for the MCP servers that it starts: what was true when it started them.
    pub(crate) fn server_env(self, conversation: &str) -> Map<String, Value> {
        match self {
            Kind::Claude => self.shell_env(conversation, None, true),
            Kind::Codex => Map::new(),
            Kind::Gemini => self.shell_env(conversation, None, false),
        }
    }

    /// What it calls itself to them.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Kind::Claude => "claude-code",
            Kind::Codex => "codex-mcp-client",
            Kind::Gemini => "gemini-cli-mcp-client",
        }
    }

    /// What it says in each call about where the call comes from.
    pub(crate) fn call_meta(self, conversation: &str, part: Option<&str>) -> Value {
        match self {
            Kind::Claude => json!({ "claudecode/toolUseId": "toolu_01A", "progressToken": 1 }),
            Kind::Codex => json!({
                "callId": "exec-1", "progressToken": 1, "sessionId": conversation,
                "threadId": part.unwrap_or(conversation), "windowId": format!("{conversation}:0"),
            }),
            Kind::Gemini => json!({ "progressToken": "1ef9e9f4" }),
        }
    }

    /// What it sets for its hooks.
    pub(crate) fn hook_env(self, conversation: &str, folder: &Path) -> Map<String, Value> {
        let mut env = Map::new();
        match self {
            Kind::Claude => {
                env.insert("CLAUDE_PROJECT_DIR".into(), json!(folder));
            }
            Kind::Codex => {}
            Kind::Gemini => {
                env.insert("GEMINI_PROJECT_DIR".into(), json!(folder));
                env.insert("GEMINI_SESSION_ID".into(), json!(conversation));
                env.insert("GEMINI_CWD".into(), json!(folder));
            }
        }
        env
    }
}
