//! Who is calling (P12). Nobody is anonymous, and an agent never passes for a person.
//!
//! The actor, first hit wins: `--as`; `ONUS_ACTOR`; the harness (by a registered process above the caller, or by the
//! variables it sets); configuration; on a terminal, the user. The terminal comes last because agents' shells run in
//! pseudo-terminals too. Under a harness a person's name is refused, however it was asked for.
//!
//! The instance, first hit wins: a person is one instance everywhere; `ONUS_INSTANCE`; the registered process; the
//! harness's own conversation variable; else the folder. Variables do not survive from one shell call of an agent to
//! the next, so each step works without those before it.
//!
//! **Through a server** ([`Client`]) it is always an agent that calls. What the client calls itself names the actor after
//! the harness, and neither the configuration nor the terminal is asked: they say who started the client. The connection
//! is the instance where nothing else tells.

mod harness;
pub mod hook;
pub mod setup;
mod user;

use std::path::Path;

use onus_core::actor::{ActorName, InstanceId, KnownBy};
use onus_core::refusal::{Code, Refusal};
use onus_store::KnownInstance;

pub use harness::{HARNESSES, Harness, KnownHarness};
pub use user::user_name;

/// Everything that may tell who is calling.
pub struct Clues<'a> {
    /// `--as`.
    pub flag: Option<&'a str>,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The nearest registered process at or above the caller.
    pub registered: Option<&'a KnownInstance>,
    /// From the user's configuration.
    pub configured: Option<&'a str>,
    /// Whether somebody sits at a terminal, and the user's name.
    pub terminal_user: Option<String>,
    /// The folder the caller works in.
    pub worktree: &'a Path,
    /// The program at the other end, if this is a server.
    pub client: Option<Client<'a>>,
}

/// A program that asks a server of ours.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// What it calls itself.
    pub name: &'a str,
    /// What tells this connection from every other.
    pub connection: &'a str,
}

impl std::fmt::Debug for Clues<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clues").field("flag", &self.flag).finish_non_exhaustive()
    }
}

/// Who it is, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub actor: ActorName,
    pub named_by: NamedBy,
    pub instance: InstanceId,
    pub known_by: KnownBy,
}

/// What told the actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// `--as`.
    Flag,
    /// `ONUS_ACTOR`.
    Variable,
    /// A registered process at or above the caller.
    Process,
    /// The variables that this program sets, or its hook.
    Harness(String),
    Configuration,
    /// The user at a terminal.
    Terminal,
}

/// A conversation, and the part of it that acts, as a harness's hook names them. The environment comes first, as everywhere:
/// a harness that was started for a task acts as whoever it was started as.
pub fn of_conversation(
    env: &dyn Fn(&str) -> Option<String>,
    harness: &str,
    conversation: &str,
    part: Option<&str>,
) -> Result<(Who, Option<InstanceId>), Refusal> {
    let none = Clues {
        flag: None,
        env,
        registered: None,
        configured: None,
        terminal_user: None,
        worktree: Path::new(""),
        client: None,
    };
    let (actor, named_by) = actor(&none, Some(&Harness { name: harness.to_owned(), conversation: None }))?;
    if actor.is_person() {
        return Err(person_refused(&actor, harness));
    }
    let named = env("ONUS_INSTANCE").filter(|text| !text.is_empty());
    let known_by = if named.is_some() { KnownBy::Name } else { KnownBy::Harness };
    let source = if named.is_some() { "ONUS_INSTANCE" } else { "the conversation" };
    let instance: InstanceId =
        named.as_deref().unwrap_or(conversation).parse().map_err(|refusal: Refusal| {
            Refusal::new(Code::Identity, format!("{source}: {}", refusal.message))
        })?;
    let part = part.map(|part| format!("{instance}/{part}").parse()).transpose()?;
    Ok((Who { actor, named_by, instance, known_by }, part))
}

pub fn identify(clues: &Clues<'_>) -> Result<Who, Refusal> {
    let harness = harness::detect(clues.env);
    let agent_above = clues.registered.filter(|known| !known.actor.is_person());
    let (actor, named_by) = actor(clues, harness.as_ref())?;
    if actor.is_person() && (harness.is_some() || agent_above.is_some() || clues.client.is_some()) {
        let harness = harness
            .map(|harness| harness.name)
            .or(agent_above.map(|known| known.actor.to_string()))
            .or(clues.client.map(|client| harness::of_client(client.name)));
        return Err(person_refused(&actor, &harness.unwrap_or_default()));
    }
    let (instance, known_by) = instance(clues, harness.as_ref(), &actor)?;
    Ok(Who { actor, named_by, instance, known_by })
}

/// The conversations that harnesses' own variables name, for the actors that the harnesses are. There are several when one
/// was started from another's shell.
pub fn conversation_variables(env: &dyn Fn(&str) -> Option<String>) -> Vec<(ActorName, InstanceId)> {
    let named = |harness: &KnownHarness| {
        let conversation = env(harness.conversation?)?;
        Some((format!("agent:{}", harness.name).parse().ok()?, conversation.parse().ok()?))
    };
    HARNESSES.iter().filter_map(named).collect()
}

fn person_refused(actor: &ActorName, harness: &str) -> Refusal {
    Refusal::new(
        Code::Identity,
        format!(
            "{actor} is a person's name, and this runs under {harness}: an agent acts under its own name"
        ),
    )
    .next("leave out --as and ONUS_ACTOR, or set ONUS_ACTOR=agent:NAME")
}

fn actor(clues: &Clues<'_>, harness: Option<&Harness>) -> Result<(ActorName, NamedBy), Refusal> {
    let named = |source: &str, text: &str| {
        text.parse::<ActorName>()
            .map_err(|refusal| Refusal::new(Code::Identity, format!("{source}: {}", refusal.message)))
    };
    if let Some(flag) = clues.flag {
        return Ok((named("--as", flag)?, NamedBy::Flag));
    }
    if let Some(text) = (clues.env)("ONUS_ACTOR").filter(|text| !text.is_empty()) {
        return Ok((named("ONUS_ACTOR", &text)?, NamedBy::Variable));
    }
    // A person's registered terminal says who started the client, not who asks through it.
    if let Some(known) = clues.registered.filter(|known| clues.client.is_none() || !known.actor.is_person()) {
        return Ok((known.actor.clone(), NamedBy::Process));
    }
    if let Some(harness) = harness {
        let by = NamedBy::Harness(harness.name.clone());
        return Ok((named("the harness", &format!("agent:{}", harness.name))?, by));
    }
    if let Some(client) = clues.client {
        let name = harness::of_client(client.name);
        return Ok((named("the client", &format!("agent:{name}"))?, NamedBy::Harness(name)));
    }
    if let Some(configured) = clues.configured {
        return Ok((named("identity.actor in the configuration", configured)?, NamedBy::Configuration));
    }
    if let Some(user) = &clues.terminal_user {
        return Ok((named("the user's name", &format!("human:{user}"))?, NamedBy::Terminal));
    }
    Err(Refusal::new(Code::Identity, "it is not clear who is calling, and every change names its actor")
        .next("agents: set ONUS_ACTOR=agent:NAME (and ONUS_INSTANCE, one a conversation)")
        .next("people: run it in a terminal, or set identity.actor = \"human:NAME\" in the user's configuration")
        .next("CI: set ONUS_ACTOR=ci:NAME"))
}

fn instance(
    clues: &Clues<'_>,
    harness: Option<&Harness>,
    actor: &ActorName,
) -> Result<(InstanceId, KnownBy), Refusal> {
    if actor.is_person() {
        return Ok((InstanceId::person(), KnownBy::Person));
    }
    if let Some(text) = (clues.env)("ONUS_INSTANCE").filter(|text| !text.is_empty()) {
        let instance = text.parse().map_err(|refusal: Refusal| {
            Refusal::new(Code::Identity, format!("ONUS_INSTANCE: {}", refusal.message))
        })?;
        return Ok((instance, KnownBy::Name));
    }
    if let Some(known) = clues.registered.filter(|known| known.actor == *actor) {
        return Ok((known.instance.clone(), KnownBy::Ancestor));
    }
    if let Some(conversation) = harness.and_then(|harness| harness.conversation.clone())
        && let Ok(instance) = conversation.parse()
    {
        return Ok((instance, KnownBy::Harness));
    }
    if let Some(client) = clues.client {
        return Ok((client.connection.parse()?, KnownBy::Name));
    }
    let folder: String = clues
        .worktree
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c })
        .collect();
    let tail = folder.len().saturating_sub(InstanceId::MAX_LEN - "worktree:".len());
    let tail = (tail..=folder.len()).find(|at| folder.is_char_boundary(*at)).unwrap_or(folder.len());
    Ok((format!("worktree:{}", &folder[tail..]).parse()?, KnownBy::Worktree))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(
        flag: Option<&str>,
        env: &[(&str, &str)],
        registered: Option<&KnownInstance>,
        configured: Option<&str>,
        terminal: bool,
    ) -> Result<(String, String, KnownBy), Refusal> {
        who_of(None, flag, env, registered, configured, terminal)
    }

    /// Through a server, on a person's terminal, by a client of this name.
    fn through(
        client: &str,
        flag: Option<&str>,
        env: &[(&str, &str)],
        registered: Option<&KnownInstance>,
    ) -> Result<(String, String, KnownBy), Refusal> {
        who_of(Some(client), flag, env, registered, Some("human:c"), true)
    }

    fn who_of(
        client: Option<&str>,
        flag: Option<&str>,
        env: &[(&str, &str)],
        registered: Option<&KnownInstance>,
        configured: Option<&str>,
        terminal: bool,
    ) -> Result<(String, String, KnownBy), Refusal> {
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let clues = Clues {
            flag,
            env: &env,
            registered,
            configured,
            terminal_user: terminal.then(|| "alice".to_owned()),
            worktree: Path::new("/w/t"),
            client: client.map(|name| Client { name, connection: "mcp-7-8" }),
        };
        identify(&clues).map(|who| (who.actor.to_string(), who.instance.to_string(), who.known_by))
    }

    fn is(actor: &str, instance: &str, known_by: KnownBy) -> Result<(String, String, KnownBy), Refusal> {
        Ok((actor.to_owned(), instance.to_owned(), known_by))
    }

    fn registered(actor: &str) -> KnownInstance {
        KnownInstance {
            actor: actor.parse().unwrap(),
            instance: "conv-9".parse().unwrap(),
            process: None,
            group: None,
            seen_at_ms: 0,
            wants: None,
        }
    }

    #[test]
    fn the_first_clue_wins() {
        let env = [("ONUS_ACTOR", "agent:b"), ("ONUS_INSTANCE", "i")];
        assert_eq!(
            who(Some("agent:a"), &env, None, Some("human:c"), true),
            is("agent:a", "i", KnownBy::Name)
        );
        assert_eq!(who(None, &env, None, Some("human:c"), true), is("agent:b", "i", KnownBy::Name));
        assert_eq!(who(None, &[], None, Some("human:c"), true), is("human:c", "person", KnownBy::Person));
        assert_eq!(who(None, &[], None, None, true), is("human:alice", "person", KnownBy::Person));
        assert_eq!(who(None, &[], None, None, false).unwrap_err().code, Code::Identity);
    }

    #[test]
    fn a_person_is_one_instance_in_all_terminals() {
        let env = [("ONUS_INSTANCE", "tab-2")];
        assert_eq!(who(Some("human:a"), &env, None, None, true), is("human:a", "person", KnownBy::Person));
    }

    #[test]
    fn an_agent_in_a_pseudo_terminal_is_not_a_person() {
        let codex = [("CODEX_THREAD_ID", "t-1")];
        assert_eq!(who(None, &codex, None, None, true), is("agent:codex", "t-1", KnownBy::Harness));
        let gemini = [("GEMINI_CLI", "1")];
        assert_eq!(
            who(None, &gemini, None, Some("human:c"), true),
            is("agent:gemini", "worktree:/w/t", KnownBy::Worktree)
        );
    }

    #[test]
    fn under_a_harness_a_persons_name_is_refused_however_it_was_asked_for() {
        for harness in HARNESSES {
            for marker in harness.markers {
                let by_flag = who(Some("human:a"), &[(*marker, "1")], None, None, true);
                let by_env = who(None, &[(*marker, "1"), ("ONUS_ACTOR", "human:a")], None, None, true);
                assert_eq!(by_flag.unwrap_err().code, Code::Identity, "{marker}");
                assert_eq!(by_env.unwrap_err().code, Code::Identity, "{marker}");
            }
        }
        let above = registered("agent:x");
        assert_eq!(who(Some("human:a"), &[], Some(&above), None, true).unwrap_err().code, Code::Identity);
    }

    #[test]
    fn a_registered_ancestor_tells_actor_and_instance() {
        let above = registered("agent:x");
        assert_eq!(who(None, &[], Some(&above), None, true), is("agent:x", "conv-9", KnownBy::Ancestor));
        // Another actor below it is not that instance.
        assert_eq!(
            who(Some("agent:y"), &[], Some(&above), None, true),
            is("agent:y", "worktree:/w/t", KnownBy::Worktree)
        );
    }

    #[test]
    fn through_a_server_it_is_an_agent_by_the_clients_name_and_the_connection() {
        for (client, actor) in [
            ("claude-code", "agent:claude"),
            ("codex-mcp-client", "agent:codex"),
            ("gemini-cli-mcp-client", "agent:gemini"),
            ("Cursor", "agent:cursor"),
            ("clinedorf", "agent:clinedorf"),
            ("My Bot/2 \u{1f916}", "agent:my-bot-2"),
            ("  ", "agent:mcp"),
        ] {
            assert_eq!(through(client, None, &[], None), is(actor, "mcp-7-8", KnownBy::Name), "{client}");
        }
    }

    #[test]
    fn through_a_server_the_clues_before_the_client_win() {
        let codex = [("CODEX_THREAD_ID", "t-1")];
        assert_eq!(through("x", None, &codex, None), is("agent:codex", "t-1", KnownBy::Harness));
        let gemini = [("GEMINI_CLI", "1")];
        assert_eq!(through("x", None, &gemini, None), is("agent:gemini", "mcp-7-8", KnownBy::Name));
        let above = registered("agent:y");
        assert_eq!(through("x", None, &codex, Some(&above)), is("agent:y", "conv-9", KnownBy::Ancestor));
        let named = [("ONUS_ACTOR", "agent:z"), ("ONUS_INSTANCE", "i")];
        assert_eq!(through("x", None, &named, Some(&above)), is("agent:z", "i", KnownBy::Name));
        assert_eq!(through("x", Some("ci:a"), &[], Some(&above)), is("ci:a", "mcp-7-8", KnownBy::Name));
    }

    #[test]
    fn nobody_is_a_person_through_a_server() {
        let by_env = through("x", None, &[("ONUS_ACTOR", "human:a")], None);
        assert_eq!(by_env.unwrap_err().code, Code::Identity);
        assert_eq!(through("x", Some("human:a"), &[], None).unwrap_err().code, Code::Identity);
        let terminal = registered("human:a");
        assert_eq!(through("x", None, &[], Some(&terminal)), is("agent:x", "mcp-7-8", KnownBy::Name));
    }
}
