use std::path::Path;

use onus_core::lease::Process;

use super::*;
use crate::identify;

fn process(pid: u32) -> Process {
    Process {
        machine: "m".into(),
        boot: "b".into(),
        pid_ns: "p".into(),
        time_ns: "t".into(),
        pid,
        start: u64::from(pid),
        unique: false,
    }
}

/// A conversation of process 1.
fn live(actor: &str, name: &str) -> KnownInstance {
    let known = KnownInstance::seen(actor.parse().unwrap(), name.parse().unwrap(), 0);
    KnownInstance { process: Some(process(1)), registered_at_ms: Some(1), ..known }
}

fn over(actor: &str, name: &str) -> KnownInstance {
    KnownInstance { ended_at_ms: Some(2), ..live(actor, name) }
}

#[derive(Default)]
struct Case<'a> {
    env: &'a [(&'a str, &'a str)],
    above: Vec<KnownInstance>,
    /// Known, but not by a process above.
    elsewhere: Vec<KnownInstance>,
    client: Option<(&'a str, Option<&'a str>)>,
    flag: Option<&'a str>,
}

impl Case<'_> {
    /// Looks up what the store would return, then applies the rule.
    fn who(&self) -> Result<(String, String, InstanceSource), Refusal> {
        let env =
            |name: &str| self.env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let client =
            self.client.map(|(name, conversation)| Client { name, connection: "mcp-70-8", conversation });
        let said =
            self.flag.map(str::to_owned).or_else(|| env("ONUS_ACTOR")).and_then(|name| name.parse().ok());
        let known = |(actor, instance): &(ActorName, InstanceId)| {
            let all = self.above.iter().chain(&self.elsewhere);
            all.into_iter().find(|known| known.actor == *actor && known.instance == *instance).cloned()
        };
        let named = named_conversations(&env, said.as_ref(), client);
        let registry =
            Registry { of_process: self.above.clone(), named: named.iter().filter_map(known).collect() };
        let clues = Clues {
            flag: self.flag,
            env: &env,
            registry: &registry,
            configured: None,
            terminal_user: Some("alice".to_owned()),
            worktree: Path::new("/w/t"),
            client,
        };
        identify(&clues).map(|who| (who.actor.to_string(), who.instance.to_string(), who.told_by))
    }

    fn is(&self, actor: &str, instance: &str, told_by: InstanceSource) {
        assert_eq!(self.who(), Ok((actor.to_owned(), instance.to_owned(), told_by)));
    }

    fn refused(&self, candidates: &[&str]) {
        let refusal = self.who().unwrap_err();
        assert_eq!((refusal.code, refusal.exit_code()), (Code::Identity, 2));
        assert_eq!(refusal.candidates, candidates);
        assert_eq!(refusal.next, [Step::NameInstance]);
    }
}

const CLAUDE: (&str, &str) = ("CLAUDECODE", "1");

#[test]
fn a_call_that_names_its_conversation_is_that_conversations() {
    // One process serves every terminal, and its server has no variable at all.
    let above = || vec![live("agent:codex", "one"), live("agent:codex", "two")];
    for name in ["one", "two"] {
        Case { above: above(), client: Some(("codex-mcp-client", Some(name))), ..Case::default() }.is(
            "agent:codex",
            name,
            InstanceSource::Request,
        );
    }
    // Without hooks, the call still names its conversation, whatever started the client.
    let claude = vec![live("agent:claude", "outer")];
    Case { above: claude, env: &[CLAUDE], client: Some(("codex", Some("x"))), ..Case::default() }.is(
        "agent:codex",
        "x",
        InstanceSource::Request,
    );
    // Its hooks registered another actor, which the server's environment does not show.
    let zed = vec![live("agent:zed", "one")];
    Case { above: zed, client: Some(("codex", Some("one"))), ..Case::default() }.is(
        "agent:zed",
        "one",
        InstanceSource::Request,
    );
    let named = [("ONUS_ACTOR", "agent:zed"), ("ONUS_INSTANCE", "i")];
    Case { above: above(), env: &named, client: Some(("codex", Some("one"))), ..Case::default() }.is(
        "agent:zed",
        "i",
        InstanceSource::Name,
    );
}

#[test]
fn a_request_names_a_conversation_only_by_the_fields_of_its_own_harness() {
    let fields = |name: &str| match name {
        "sessionId" => Some("root".to_owned()),
        "threadId" => Some("part".to_owned()),
        _ => None,
    };
    assert_eq!(conversation_of(&fields, "codex-mcp-client").as_deref(), Some("root"));
    assert_eq!(
        conversation_of(&|name: &str| fields(name).filter(|_| name == "threadId"), "codex"),
        Some("part".into())
    );
    assert_eq!(conversation_of(&|_: &str| Some(String::new()), "codex"), None);
    for other in ["claude-code", "gemini-cli-mcp-client", "opencode", "x"] {
        assert_eq!(conversation_of(&fields, other), None, "{other}");
    }
}

fn conversation_of(fields: &dyn Fn(&str) -> Option<String>, client: &str) -> Option<String> {
    crate::conversation_of_request(client, fields)
}

#[test]
fn a_variable_is_believed_about_a_live_conversation_of_that_very_process() {
    let above = || vec![live("agent:codex", "one"), live("agent:codex", "two"), over("agent:codex", "old")];
    let by = |session: &'static str| [("CODEX_SESSION_ID", session)];
    Case { above: above(), env: &by("two"), ..Case::default() }.is(
        "agent:codex",
        "two",
        InstanceSource::Variable,
    );
    // A sub-agent's shell also has the name of its own thread.
    let part = [("CODEX_SESSION_ID", "two"), ("CODEX_THREAD_ID", "part")];
    Case { above: above(), env: &part, ..Case::default() }.is("agent:codex", "two", InstanceSource::Variable);
    for stale in [by("old"), by("never heard of"), [("CODEX_THREAD_ID", "part")]] {
        Case { above: above(), env: &stale, ..Case::default() }.refused(&["one", "two"]);
    }
    // A conversation of another process is not believed here.
    let other = KnownInstance { process: Some(process(2)), ..live("agent:codex", "far") };
    Case { above: above(), elsewhere: vec![other], env: &by("far"), ..Case::default() }
        .refused(&["one", "two"]);
}

#[test]
fn a_stale_variable_does_not_beat_what_hooks_said_last() {
    // After /clear the server keeps the variable of the previous conversation.
    let server = [CLAUDE, ("CLAUDE_CODE_SESSION_ID", "a")];
    let client = Some(("claude-code", None));
    let cleared = vec![live("agent:claude", "b"), over("agent:claude", "a")];
    Case { above: cleared, env: &server, client, ..Case::default() }.is(
        "agent:claude",
        "b",
        InstanceSource::OnlyOne,
    );
    // The same if the end of the first was never reported, since it runs one conversation at a time.
    let unreported = vec![live("agent:claude", "b"), live("agent:claude", "a")];
    Case { above: unreported, env: &server, client, ..Case::default() }.is(
        "agent:claude",
        "b",
        InstanceSource::OnlyOne,
    );
    // It returned to the first.
    let back = vec![live("agent:claude", "a"), live("agent:claude", "b")];
    Case { above: back, env: &server, client, ..Case::default() }.is(
        "agent:claude",
        "a",
        InstanceSource::Variable,
    );
    Case { above: vec![over("agent:claude", "a")], env: &server, client, ..Case::default() }.refused(&[]);
}

#[test]
fn without_a_variable_it_is_the_only_live_conversation_or_nobody() {
    let gemini = [("GEMINI_CLI", "1")];
    Case { above: vec![live("agent:gemini", "g")], env: &gemini, ..Case::default() }.is(
        "agent:gemini",
        "g",
        InstanceSource::OnlyOne,
    );
    let codex = || vec![live("agent:codex", "one"), live("agent:codex", "two")];
    Case { above: codex(), client: Some(("codex", None)), ..Case::default() }.refused(&["one", "two"]);
    Case { above: codex(), ..Case::default() }.refused(&["one", "two"]);
    let one = vec![live("agent:codex", "one"), over("agent:codex", "two")];
    Case { above: one, ..Case::default() }.is("agent:codex", "one", InstanceSource::OnlyOne);
}

#[test]
fn a_variable_counts_where_no_hook_ever_spoke() {
    let codex = [("CODEX_SESSION_ID", "root"), ("CODEX_THREAD_ID", "part")];
    Case { env: &codex, ..Case::default() }.is("agent:codex", "root", InstanceSource::VariableAlone);
    // In a sandbox no process above is visible, but what is known about the conversation counts.
    Case { env: &codex, elsewhere: vec![live("agent:codex", "root")], ..Case::default() }.is(
        "agent:codex",
        "root",
        InstanceSource::VariableAlone,
    );
    Case { env: &codex, elsewhere: vec![over("agent:codex", "root")], ..Case::default() }.refused(&[]);
}

#[test]
fn of_two_harnesses_in_a_sandbox_it_is_the_one_started_last() {
    let env = [CLAUDE, ("CLAUDE_CODE_SESSION_ID", "outer"), ("CODEX_THREAD_ID", "inner")];
    let inner = KnownInstance { process: Some(process(2)), ..live("agent:codex", "inner") };
    let elsewhere = vec![live("agent:claude", "outer"), inner];
    Case { env: &env, elsewhere, ..Case::default() }.is("agent:codex", "inner", InstanceSource::Variable);
}

#[test]
fn a_shell_and_the_server_of_a_client_without_hooks_are_one_instance() {
    let above = || vec![live("agent:opencode", "mcp-70-8")];
    let client = Some(("opencode", None));
    Case { above: above(), client, ..Case::default() }.is(
        "agent:opencode",
        "mcp-70-8",
        InstanceSource::Connection,
    );
    let shell = [("OPENCODE", "1")];
    Case { above: above(), env: &shell, ..Case::default() }.is(
        "agent:opencode",
        "mcp-70-8",
        InstanceSource::Connection,
    );
    // A person's terminal below the same program, and another agent's shell there, are other instances.
    Case { above: above(), ..Case::default() }.is("human:alice", "person", InstanceSource::Person);
    Case { above: above(), env: &[("CURSOR_AGENT", "1")], ..Case::default() }.is(
        "agent:cursor",
        "worktree:/w/t",
        InstanceSource::Folder,
    );
    // Another connection of the same program does not count for this one.
    let other = vec![live("agent:opencode", "mcp-71-9")];
    Case { above: other, client, ..Case::default() }.is(
        "agent:opencode",
        "mcp-70-8",
        InstanceSource::Connection,
    );
    // Once a hook was heard, a connection no longer counts.
    let both = vec![live("agent:gemini", "mcp-70-8"), live("agent:gemini", "g")];
    Case { above: both, client: Some(("gemini-cli", None)), ..Case::default() }.is(
        "agent:gemini",
        "g",
        InstanceSource::OnlyOne,
    );
}

#[test]
fn a_person_is_untouched_by_what_agents_registered() {
    let above = vec![live("agent:codex", "one"), live("agent:codex", "two")];
    let refusal = Case { above, flag: Some("human:alice"), ..Case::default() }.who().unwrap_err();
    assert_eq!(refusal.code, Code::Identity, "an agent's shell is no person's terminal");
    Case::default().is("human:alice", "person", InstanceSource::Person);
    Case { above: vec![live("human:bob", "terminal")], ..Case::default() }.is(
        "human:bob",
        "person",
        InstanceSource::Person,
    );
}

#[test]
fn whether_a_hook_ever_spoke_is_about_that_agent() {
    let heard = |of_process: Vec<KnownInstance>, named: Vec<KnownInstance>, instance: &str| {
        let registry = Registry { of_process, named };
        registry.has_heard_a_hook(&"agent:codex".parse().unwrap(), &instance.parse().unwrap())
    };
    assert!(!heard(vec![], vec![], "a"));
    assert!(!heard(vec![live("agent:codex", "mcp-70-8")], vec![], "mcp-70-8"), "a connection is no hook");
    assert!(!heard(vec![live("agent:claude", "outer")], vec![], "a"), "another's hooks");
    assert!(heard(vec![live("agent:codex", "b")], vec![], "a"), "its process runs hooks");
    assert!(heard(vec![], vec![live("agent:codex", "a")], "a"));
    assert!(!heard(vec![], vec![live("agent:codex", "b")], "a"));
}
