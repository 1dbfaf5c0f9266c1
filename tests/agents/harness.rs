//! An agent's harness, played by `harness.py`: a process of its own that starts hooks and shells.

use std::cell::{Cell, RefCell};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::agents::payload::{Event, From, Kind};
use crate::support::{ONUS, Ran, Sandbox};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/agents/harness.py");

/// A conversation, or a part of one, in a harness's process.
#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) kind: Kind,
    pub(crate) conversation: String,
    part: Option<String>,
    player: Rc<Player>,
    pub(crate) folder: PathBuf,
    /// Added to the environment of hooks and shells alike: what was set before the harness was started.
    env: Map<String, Value>,
    names_conversation: bool,
    /// Whether it calls the hooks that its configuration names, and no others.
    reads_configuration: bool,
    turn: Cell<u32>,
}

/// What a hook answered.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Why the tool is not to be used.
    pub(crate) refusal: Option<String>,
    /// What the agent is told.
    pub(crate) context: Option<String>,
    /// What the person is told.
    pub(crate) warning: Option<String>,
    pub(crate) ran: Ran,
}

impl Verdict {
    #[track_caller]
    pub(crate) fn allowed(&self) -> &Verdict {
        assert_eq!(self.refusal, None, "{self:?}");
        self
    }

    /// The reason of a refusal.
    #[track_caller]
    pub(crate) fn refused(&self) -> &str {
        self.refusal.as_deref().unwrap_or_else(|| panic!("that should have been refused: {self:?}"))
    }

    /// Nothing was said to anybody.
    #[track_caller]
    pub(crate) fn silent(&self) {
        assert_eq!(self.ran.stdout, "", "{self:?}");
    }

    /// What the agent is told; nothing is the empty text.
    pub(crate) fn told(&self) -> &str {
        self.context.as_deref().unwrap_or_default()
    }
}

/// How a shell is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shell {
    pub(crate) pty: bool,
    /// A program in front of it, such as a sandbox.
    pub(crate) under: Vec<String>,
    pub(crate) env: Map<String, Value>,
}

impl Harness {
    pub(crate) fn new(kind: Kind, sandbox: &Sandbox, conversation: &str) -> Harness {
        Harness::of(kind, sandbox.path(), conversation, Rc::new(Player::start(sandbox)))
    }

    pub(crate) fn claude(sandbox: &Sandbox, conversation: &str) -> Harness {
        Harness::new(Kind::Claude, sandbox, conversation)
    }

    pub(crate) fn codex(sandbox: &Sandbox, conversation: &str) -> Harness {
        Harness::new(Kind::Codex, sandbox, conversation)
    }

    pub(crate) fn gemini(sandbox: &Sandbox, conversation: &str) -> Harness {
        Harness::new(Kind::Gemini, sandbox, conversation)
    }

    fn of(kind: Kind, folder: &Path, conversation: &str, player: Rc<Player>) -> Harness {
        Harness {
            kind,
            conversation: conversation.to_owned(),
            part: None,
            player,
            folder: folder.to_owned(),
            env: Map::new(),
            names_conversation: true,
            reads_configuration: false,
            turn: Cell::new(1),
        }
    }

    /// A version that does not say in its shells which conversation it is.
    pub(crate) fn nameless(mut self) -> Harness {
        self.names_conversation = false;
        self
    }

    /// One that calls what stands in its configuration, as `onus setup` wrote it.
    pub(crate) fn set_up(mut self) -> Harness {
        self.reads_configuration = true;
        self
    }

    /// The command that its configuration names for an event, if it names one.
    fn configured(&self, event: &str, tool: Option<&str>) -> Option<String> {
        let file = match self.kind {
            Kind::Claude => ".claude/settings.json",
            Kind::Codex => ".codex/hooks.json",
            Kind::Gemini => ".gemini/settings.json",
        };
        let text = std::fs::read_to_string(self.folder.join(file)).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        let groups = settings["hooks"][event].as_array().cloned().unwrap_or_default();
        let fits = |group: &&Value| match (group["matcher"].as_str(), tool) {
            (Some(matcher), Some(tool)) => {
                regex::Regex::new(&format!("^(?:{matcher})$")).unwrap().is_match(tool)
            }
            _ => true,
        };
        let commands: Vec<&str> =
            groups.iter().filter(fits).map(|group| group["hooks"][0]["command"].as_str().unwrap()).collect();
        assert!(commands.len() < 2, "{event} calls onus twice: {commands:?}");
        commands.first().map(|command| (*command).to_owned())
    }

    /// Started by somebody who had this set.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Harness {
        self.env.insert(name.to_owned(), json!(value));
        self
    }

    /// Started in another folder.
    pub(crate) fn at(mut self, folder: &Path) -> Harness {
        self.folder = folder.to_owned();
        self
    }

    /// A sub-agent: another part of the same conversation, in the same process.
    pub(crate) fn sub_agent(&self, id: &str) -> Harness {
        let part = self.beside(&self.conversation);
        Harness { part: Some(id.to_owned()), ..part }
    }

    /// Another conversation in the same process, as after `/clear`.
    pub(crate) fn beside(&self, conversation: &str) -> Harness {
        let other = Harness::of(self.kind, &self.folder, conversation, Rc::clone(&self.player));
        Harness { env: self.env.clone(), names_conversation: self.names_conversation, ..other }
    }

    /// Another harness, started from one of this one's shells.
    pub(crate) fn nested(&self, kind: Kind, conversation: &str) -> Harness {
        let name = format!("{}-{conversation}", kind.name());
        self.player.ask(&json!({
            "do": "nest", "name": name, "cwd": self.folder, "env": self.shell_env(&Shell::default()),
        }));
        let player = Player::Nested { outer: Rc::clone(&self.player), name };
        Harness::of(kind, &self.folder, conversation, Rc::new(player))
    }

    // ---- hooks

    pub(crate) fn start(&self) -> Verdict {
        self.started_by("startup")
    }

    pub(crate) fn started_by(&self, source: &str) -> Verdict {
        self.hook(&Event::Start(source))
    }

    /// What the hook says before a file is written. The path is from the folder in which the harness runs.
    pub(crate) fn edit(&self, file: impl AsRef<Path>) -> Verdict {
        self.edit_all(&[file.as_ref()])
    }

    /// Several at once, where the harness can; absolute paths, as harnesses have them, but for patches.
    pub(crate) fn edit_all(&self, files: &[&Path]) -> Verdict {
        let absolute: Vec<PathBuf> = files.iter().map(|file| self.folder.join(file)).collect();
        let files = match self.kind {
            Kind::Codex => files.to_vec(),
            Kind::Claude | Kind::Gemini => absolute.iter().map(PathBuf::as_path).collect(),
        };
        self.hook(&Event::BeforeEdit(&files))
    }

    /// What the hook says after a file was written.
    pub(crate) fn edited(&self, file: impl AsRef<Path>) -> Verdict {
        self.hook(&Event::AfterEdit(&[&self.folder.join(file)]))
    }

    /// The same after an edit that came to nothing.
    pub(crate) fn edit_failed(&self, file: impl AsRef<Path>) -> Verdict {
        self.hook(&Event::EditFailed(&[&self.folder.join(file)]))
    }

    pub(crate) fn before_tool(&self, tool: &str) -> Verdict {
        self.hook(&Event::BeforeTool(tool))
    }

    pub(crate) fn after_tool(&self, tool: &str) -> Verdict {
        self.hook(&Event::AfterTool(tool))
    }

    pub(crate) fn tool_failed(&self, tool: &str) -> Verdict {
        self.hook(&Event::ToolFailed(tool))
    }

    /// What the hook says before a command is run.
    pub(crate) fn before_shell(&self, command: &str) -> Verdict {
        self.hook(&Event::BeforeShell(command, "toolu_02B"))
    }

    pub(crate) fn after_shell(&self, command: &str) -> Verdict {
        self.hook(&Event::AfterShell(command, "toolu_02B"))
    }

    /// A command between its hooks: what the agent hears afterwards.
    #[track_caller]
    pub(crate) fn command(&self, command: &str) -> Verdict {
        self.before_shell(command).allowed();
        let ran = self.shell(command);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
        self.after_shell(command)
    }

    pub(crate) fn prompt(&self) -> Verdict {
        self.turn.set(self.turn.get() + 1);
        self.hook(&Event::Prompt)
    }

    pub(crate) fn turn_over(&self) -> Verdict {
        self.hook(&Event::TurnOver)
    }

    /// A person is asked whether it may use a tool.
    pub(crate) fn asks(&self, tool: &str) -> Verdict {
        self.hook(&Event::Asks(tool))
    }

    pub(crate) fn part_begins(&self) -> Verdict {
        self.hook(&Event::PartBegins)
    }

    pub(crate) fn part_over(&self) -> Verdict {
        self.hook(&Event::PartOver)
    }

    /// The conversation is over, but the process lives on, as after `/clear`.
    pub(crate) fn end_by(&self, reason: &str) -> Option<Verdict> {
        self.kind.event_name(&Event::End(reason))?;
        Some(self.hook(&Event::End(reason)))
    }

    /// The person leaves: the hook, if this harness has one for that, and then the process is gone.
    pub(crate) fn end(self) {
        let reason = if self.kind == Kind::Gemini { "exit" } else { "prompt_input_exit" };
        if let Some(verdict) = self.end_by(reason) {
            verdict.allowed().silent();
        }
        self.player.leave();
    }

    /// Without a word.
    pub(crate) fn kill(self) {
        self.player.kill();
    }

    #[track_caller]
    fn hook(&self, event: &Event<'_>) -> Verdict {
        let payload = self.kind.payload(event, self.from()).unwrap();
        let name = self.kind.event_name(event).unwrap();
        if !self.reads_configuration {
            return self.hook_with(payload.to_string(), Some(name));
        }
        match self.configured(name, payload["tool_name"].as_str()) {
            Some(command) => self.hook_under(payload.to_string(), Some(name), &[], &command),
            None => {
                let ran = Ran { code: 0, stdout: String::new(), stderr: String::new() };
                Verdict { refusal: None, context: None, warning: None, ran }
            }
        }
    }

    fn from(&self) -> From<'_> {
        From {
            conversation: &self.conversation,
            part: self.part.as_deref(),
            folder: &self.folder,
            turn: self.turn.get(),
        }
    }

    /// A payload as this harness makes it, to be changed.
    pub(crate) fn payload(&self, event: &Event<'_>) -> Value {
        self.kind.payload(event, self.from()).unwrap()
    }

    /// Calls the hook with any text, and checks what holds for every answer: it never blocks by exit code, and stdout is
    /// nothing or one document that this harness understands.
    #[track_caller]
    pub(crate) fn hook_with(&self, payload: impl AsRef<[u8]>, event: Option<&str>) -> Verdict {
        self.hook_under(payload, event, &[], &format!("onus hook {}", self.kind.name()))
    }

    #[track_caller]
    pub(crate) fn hook_under(
        &self,
        payload: impl AsRef<[u8]>,
        event: Option<&str>,
        under: &[&str],
        command: &str,
    ) -> Verdict {
        let mut env = self.env.clone();
        env.extend(self.kind.hook_env(&self.conversation, &self.folder));
        let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
        let payload: String =
            payload.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        let ran = self.player.ran(&json!({
            "do": "hook", "command": command, "payload": payload, "env": env, "cwd": self.folder, "under": under,
        }));
        assert_ne!(ran.code, 2, "exit 2 stops the agent: {ran:?}");
        if ran.stdout.is_empty() {
            return Verdict { refusal: None, context: None, warning: None, ran };
        }
        assert_eq!(ran.code, 0, "with an answer goes exit 0: {ran:?}");
        let document = ran.json();
        let specific = &document["hookSpecificOutput"];
        if !specific.is_null() {
            assert_eq!(specific["hookEventName"].as_str(), event, "{ran:?}");
        }
        assert_ne!(specific["permissionDecision"], "allow", "never approved: {ran:?}");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let refusal = match self.kind {
            Kind::Gemini => (document["decision"] == "deny").then(|| text(&document["reason"]).unwrap()),
            Kind::Claude | Kind::Codex => (specific["permissionDecision"] == "deny")
                .then(|| text(&specific["permissionDecisionReason"]).unwrap()),
        };
        let (context, warning) = (text(&specific["additionalContext"]), text(&document["systemMessage"]));
        Verdict { refusal, context, warning, ran }
    }

    // ---- MCP servers

    /// Starts a server and says hello, as harnesses do when they begin.
    pub(crate) fn server(&self, name: &str) -> Server<'_> {
        let server = Server { of: self, name: name.to_owned() };
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": self.kind.client(), "version": "1" },
        } });
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
        server.lines(&[hello, initialized, list]);
        server
    }

    // ---- shells

    /// One call of the shell tool: a new shell, and nothing in it of the one before.
    pub(crate) fn shell(&self, command: &str) -> Ran {
        self.shell_in(&Shell::default(), command)
    }

    pub(crate) fn shell_in(&self, shell: &Shell, command: &str) -> Ran {
        self.player.ran(&json!({
            "do": "shell", "command": command, "env": self.shell_env(shell), "cwd": self.folder,
            "pty": shell.pty, "under": shell.under,
        }))
    }

    fn shell_env(&self, shell: &Shell) -> Map<String, Value> {
        let mut env = self.env.clone();
        env.extend(self.kind.shell_env(&self.conversation, self.part.as_deref(), self.names_conversation));
        env.extend(shell.env.clone());
        env
    }

    /// The answer of a command that must succeed.
    #[track_caller]
    pub(crate) fn json(&self, command: &str) -> Value {
        self.shell(&format!("{command} --json")).ok().json()
    }

    /// Who its shell is to onus.
    #[track_caller]
    pub(crate) fn whoami(&self) -> (String, String) {
        self.whoami_in(&Shell::default())
    }

    #[track_caller]
    pub(crate) fn whoami_in(&self, shell: &Shell) -> (String, String) {
        who(&self.shell_in(shell, "onus whoami --json"))
    }

    /// Who it should be.
    pub(crate) fn who(&self) -> (String, String) {
        (format!("agent:{}", self.kind.name()), self.conversation.clone())
    }

    /// The pid of the process that runs it.
    #[track_caller]
    pub(crate) fn pid(&self) -> u64 {
        // The shell stays, as it has more to do: its parent is the harness.
        self.shell("echo $PPID; true").ok().stdout.trim().parse().unwrap()
    }
}

/// A server of a harness's process. It keeps the environment that it was started with.
#[derive(Debug)]
pub(crate) struct Server<'a> {
    of: &'a Harness,
    name: String,
}

impl Server<'_> {
    fn lines(&self, lines: &[Value]) -> Vec<Value> {
        let mut env = self.of.env.clone();
        env.extend(self.of.kind.server_env(&self.of.conversation));
        let answer = self.of.player.ask(&json!({
            "do": "mcp", "name": self.name, "command": "onus mcp", "lines": lines, "env": env, "cwd": self.of.folder,
        }));
        answer["answers"].as_array().unwrap().clone()
    }

    /// A call by a conversation of the same process: the text of its answer, and whether it was refused.
    pub(crate) fn call(&self, by: &Harness, tool: &str, arguments: Value) -> (String, bool) {
        let meta = by.kind.call_meta(&by.conversation, by.part.as_deref());
        self.call_with(meta, tool, arguments)
    }

    /// The same with whatever metadata.
    pub(crate) fn call_with(&self, meta: Value, tool: &str, arguments: Value) -> (String, bool) {
        let params = json!({ "_meta": meta, "name": tool, "arguments": arguments });
        let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let answers = self.lines(&[request]);
        let result = &answers[0]["result"];
        (result.to_string(), result["isError"] == true)
    }
}

/// Actor and instance in an answer of `whoami --json`.
#[track_caller]
pub(crate) fn who(ran: &Ran) -> (String, String) {
    let value = ran.ok().json();
    let text = |name: &str| value[name].as_str().unwrap().to_owned();
    (text("actor"), text("instance"))
}

/// The process, or the way to it.
#[derive(Debug)]
enum Player {
    Outermost(RefCell<Option<Running>>),
    Nested { outer: Rc<Player>, name: String },
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// None: it was told that nothing more will come.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Player {
    fn start(sandbox: &Sandbox) -> Player {
        let programs = Path::new(ONUS).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path)));
        let mut child = Command::new("python3")
            .arg(PROGRAM)
            .current_dir(sandbox.path())
            .env_clear()
            .env("PATH", path.unwrap())
            .env("HOME", sandbox.path().join("home"))
            .env("TZ", "UTC")
            // On a machine that has other work to do, too.
            .env("ONUS_GUARD_TREE_BUDGET", "5s")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (requests, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Player::Outermost(RefCell::new(Some(Running { child, requests, answers })))
    }

    #[track_caller]
    fn ask(&self, request: &Value) -> Value {
        match self {
            Player::Nested { outer, name } => {
                outer.ask(&json!({ "do": "relay", "to": name, "request": request }))
            }
            Player::Outermost(running) => {
                let mut running = running.borrow_mut();
                let running = running.as_mut().unwrap_or_else(|| panic!("this harness is gone"));
                let requests = running.requests.as_mut().unwrap();
                requests.write_all(format!("{request}\n").as_bytes()).unwrap();
                requests.flush().unwrap();
                let mut line = String::new();
                running.answers.read_line(&mut line).unwrap();
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
            }
        }
    }

    #[track_caller]
    fn ran(&self, request: &Value) -> Ran {
        let answer = self.ask(request);
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        let code = i32::try_from(answer["code"].as_i64().unwrap()).unwrap();
        Ran { code, stdout: text("stdout"), stderr: text("stderr") }
    }

    /// Its stdin ends, and it does.
    fn leave(&self) {
        match self {
            Player::Nested { outer, name } => {
                outer.ask(&json!({ "do": "relay", "to": name, "request": { "do": "leave" } }));
            }
            Player::Outermost(running) => {
                let mut running = running.borrow_mut().take().unwrap();
                drop(running.requests.take());
                running.child.wait().unwrap();
            }
        }
    }

    fn kill(&self) {
        let Player::Outermost(running) = self else { panic!("only the outermost can be killed here") };
        drop(running.borrow_mut().take().unwrap());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
