//! Who is calling (P12). Nobody is anonymous, and an agent never passes for a person.
//!
//! The actor (the first match wins): `--as`; `ONUS_ACTOR`; the harness (by a registered process above the caller, or by the
//! variables it sets); configuration; on a terminal, the user. The terminal comes last because agents' shells run in
//! pseudo-terminals too. Under a harness a person's name is refused, however it was asked for.
//!
//! The instance: `instance.rs` has the rule. Variables do not survive from one shell call of an agent to the next, so
//! each call is identified on its own.
//!
//! **Through a server** ([`Client`]) the caller is always an agent. After the harness, the name the client gives itself
//! decides; the configuration and the terminal do not count, since they say who started the client. The connection
//! is the instance if nothing else identifies it.

mod harness;
pub mod hook;
mod instance;
pub mod setup;
mod user;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use onus_core::actor::KnownInstance;
use onus_core::actor::{ActorName, InstanceId, KnownBy};
use onus_core::refusal::{CallerKind, Code, Refusal, Step};
use sha2::{Digest as _, Sha256};

pub use harness::{HARNESSES, Harness, KnownHarness, conversation_of_request};
pub use instance::{InstanceSource, Registry, named_conversations};
pub use user::user_name;

/// Everything that may identify the caller.
pub struct Clues<'a> {
    /// `--as`.
    pub flag: Option<&'a str>,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// What the store knows about the processes above the caller, and about the conversations that the caller may be.
    pub registry: &'a Registry,
    /// From the user's configuration.
    pub configured: Option<&'a str>,
    /// The user's name, if there is a terminal.
    pub terminal_user: Option<String>,
    /// The folder the caller works in.
    pub worktree: &'a Path,
    /// The program at the other end, if this is a server.
    pub client: Option<Client<'a>>,
}

/// A client of one of our servers.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Its name for itself.
    pub name: &'a str,
    /// A name that is unique to this connection.
    pub connection: &'a str,
    /// The conversation that this call comes from, if the call names it.
    pub conversation: Option<&'a str>,
}

impl std::fmt::Debug for Clues<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clues").field("flag", &self.flag).finish_non_exhaustive()
    }
}

/// The caller's identity, and how it was identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub actor: ActorName,
    pub named_by: ActorSource,
    pub instance: InstanceId,
    pub told_by: InstanceSource,
}

impl Who {
    pub fn known_by(&self) -> KnownBy {
        self.told_by.known_by()
    }
}

/// How the actor was identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorSource {
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

/// The identity of a conversation, and of the part of it that acts, as a harness's hook names them. The environment comes first,
/// as everywhere: a harness that was started for a task acts under the identity it was given.
pub fn of_conversation(
    env: &dyn Fn(&str) -> Option<String>,
    harness: &str,
    conversation: &str,
    part: Option<&str>,
) -> Result<(Who, Option<InstanceId>), Refusal> {
    let none = Clues {
        flag: None,
        env,
        registry: &Registry::default(),
        configured: None,
        terminal_user: None,
        worktree: Path::new(""),
        client: None,
    };
    let harness = Harness { name: harness.to_owned(), conversation: None };
    let (actor, named_by) = actor(&none, Some(&harness), None)?;
    if actor.is_person() {
        return Err(person_refused(&actor, &harness.name));
    }
    let named = env("ONUS_INSTANCE").filter(|text| !text.is_empty());
    let told_by = if named.is_some() { InstanceSource::Name } else { InstanceSource::Request };
    let source = if named.is_some() { "ONUS_INSTANCE" } else { "the conversation" };
    let instance: InstanceId =
        named.as_deref().unwrap_or(conversation).parse().map_err(|refusal: Refusal| {
            Refusal::new(Code::Identity, format!("{source}: {}", refusal.message))
        })?;
    let part = part.map(|part| format!("{instance}/{part}").parse()).transpose()?;
    Ok((Who { actor, named_by, instance, told_by }, part))
}

pub fn identify(clues: &Clues<'_>) -> Result<Who, Refusal> {
    let harness = harness::detect(clues.env);
    let above = clues.registry.above(harness.as_ref(), clues.client);
    let above = above.first().copied();
    let agent_above = above.filter(|known| !known.actor.is_person());
    let (actor, named_by) = actor(clues, harness.as_ref(), above)?;
    if actor.is_person() && (harness.is_some() || agent_above.is_some() || clues.client.is_some()) {
        let harness = harness
            .map(|harness| harness.name)
            .or(agent_above.map(|known| known.actor.to_string()))
            .or(clues.client.map(|client| harness::of_client(client.name)));
        return Err(person_refused(&actor, &harness.unwrap_or_default()));
    }
    let (instance, told_by) = instance::instance(clues, harness.as_ref(), &actor)?;
    Ok(Who { actor, named_by, instance, told_by })
}

fn person_refused(actor: &ActorName, harness: &str) -> Refusal {
    Refusal::new(
        Code::Identity,
        format!(
            "{actor} is a person's name, but this runs under {harness}: an agent acts under its own name"
        ),
    )
    .next(Step::UseOwnName)
}

fn actor(
    clues: &Clues<'_>,
    harness: Option<&Harness>,
    above: Option<&KnownInstance>,
) -> Result<(ActorName, ActorSource), Refusal> {
    let named = |source: &str, text: &str| {
        text.parse::<ActorName>()
            .map_err(|refusal| Refusal::new(Code::Identity, format!("{source}: {}", refusal.message)))
    };
    let of_client = |client: Client<'_>| {
        let name = harness::of_client(client.name);
        Ok((named("the client", &format!("agent:{name}"))?, ActorSource::Harness(name)))
    };
    if let Some(flag) = clues.flag {
        return Ok((named("--as", flag)?, ActorSource::Flag));
    }
    if let Some(text) = (clues.env)("ONUS_ACTOR").filter(|text| !text.is_empty()) {
        return Ok((named("ONUS_ACTOR", &text)?, ActorSource::Variable));
    }
    // The call names its conversation. The process above may belong to another harness, which started the client.
    if let Some((client, conversation)) = clues.client.and_then(|client| Some((client, client.conversation?)))
    {
        let mut known = clues.registry.of_process.iter().filter(|known| !known.actor.is_person());
        return match known.find(|known| known.instance.as_str() == conversation) {
            Some(known) => Ok((known.actor.clone(), ActorSource::Process)),
            None => of_client(client),
        };
    }
    // A person's registered terminal shows who started the client, not who calls through it.
    if let Some(known) = above.filter(|known| clues.client.is_none() || !known.actor.is_person()) {
        return Ok((known.actor.clone(), ActorSource::Process));
    }
    if let Some(harness) = harness {
        let by = ActorSource::Harness(harness.name.clone());
        return Ok((named("the harness", &format!("agent:{}", harness.name))?, by));
    }
    if let Some(client) = clues.client {
        return of_client(client);
    }
    if let Some(configured) = clues.configured {
        return Ok((named("identity.actor in the configuration", configured)?, ActorSource::Configuration));
    }
    if let Some(user) = &clues.terminal_user {
        return Ok((named("the user's name", &format!("human:{user}"))?, ActorSource::Terminal));
    }
    Err(Refusal::new(Code::Identity, "cannot tell who you are, and every change must name its actor")
        .next(Step::Identify(CallerKind::Agent))
        .next(Step::Identify(CallerKind::Person))
        .next(Step::Identify(CallerKind::Pipeline)))
}

/// The instance of a caller that is known only by its folder: another folder is another instance. Characters that an instance's
/// name cannot have are percent-encoded; a name that is too long is replaced by a digest of the whole and its end.
fn of_folder(folder: &Path) -> Result<InstanceId, Refusal> {
    const KIND: &str = "worktree:";
    let name = escaped(folder.as_os_str().as_bytes());
    let most = InstanceId::MAX_LEN - KIND.len();
    if name.len() <= most {
        return format!("{KIND}{name}").parse();
    }
    // `%-` cannot be part of an escaped name.
    let digest = Sha256::digest(folder.as_os_str().as_bytes());
    let short = format!("%-{:032x}-", u128::from_be_bytes(std::array::from_fn(|at| digest[at])));
    let tail = name.len() - (most - short.len());
    let tail = (tail..=name.len()).find(|at| name.is_char_boundary(*at)).unwrap_or(name.len());
    format!("{KIND}{short}{}", &name[tail..]).parse()
}

fn escaped(bytes: &[u8]) -> String {
    let mut name = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_whitespace() || onus_core::quote::is_hidden(c) || c == '%' {
                let mut utf8 = [0; 4];
                c.encode_utf8(&mut utf8).bytes().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
            } else {
                name.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
    }
    name
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

    /// Calls through a server, on a person's terminal, by a client of this name.
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
        let registry =
            Registry { of_process: registered.into_iter().cloned().collect(), ..Registry::default() };
        let clues = Clues {
            flag,
            env: &env,
            registry: &registry,
            configured,
            terminal_user: terminal.then(|| "alice".to_owned()),
            worktree: Path::new("/w/t"),
            client: client.map(|name| Client { name, connection: "mcp-7-8", conversation: None }),
        };
        identify(&clues).map(|who| (who.actor.to_string(), who.instance.to_string(), who.known_by()))
    }

    fn is(actor: &str, instance: &str, known_by: KnownBy) -> Result<(String, String, KnownBy), Refusal> {
        Ok((actor.to_owned(), instance.to_owned(), known_by))
    }

    fn registered(actor: &str) -> KnownInstance {
        KnownInstance::seen(actor.parse().unwrap(), "conv-9".parse().unwrap(), 0)
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

    fn in_folder(bytes: &[u8]) -> String {
        of_folder(Path::new(std::ffi::OsStr::from_bytes(bytes))).unwrap().to_string()
    }

    #[test]
    fn another_folder_is_another_instance() {
        assert_eq!(in_folder(b"/w/a_b"), "worktree:/w/a_b");
        assert_eq!(in_folder("/w/ä b\u{a0}%".as_bytes()), "worktree:/w/ä%20b%C2%A0%25");
        assert_eq!(in_folder(b"/w/a\xff"), "worktree:/w/a%FF");
        let long = |end: &str| in_folder(format!("/w/{}{end}", "deep/".repeat(60)).as_bytes());
        assert!(long("x").len() <= InstanceId::MAX_LEN && long("x").ends_with("deep/x"));
        let other = in_folder(format!("/v/{}x", "deep/".repeat(60)).as_bytes());
        assert_ne!(long("x"), other, "they end alike");
    }

    /// Characters that are escaped, and those that escapes consist of.
    const TELLING: &[u8] = b" _\t\n%0259AFa-/\xc3\xa4\xff";

    proptest::proptest! {
        #[test]
        fn no_two_folders_are_one_instance(
            one in folder(), at: proptest::sample::Index, byte in proptest::sample::select(TELLING), two in folder()
        ) {
            let mut beside = one.clone();
            *at.get_mut(&mut beside) = byte;
            for two in [beside, two] {
                proptest::prop_assert_eq!(one == two, in_folder(&one) == in_folder(&two), "{:?} {:?}", one, two);
            }
        }
    }

    /// Short and long folder names.
    fn folder() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
        use proptest::prelude::*;
        let byte = prop_oneof![
            4 => proptest::sample::select(TELLING),
            1 => any::<u8>().prop_map(|byte| byte.max(1)),
        ];
        let few = proptest::collection::vec(byte.clone(), 1..4);
        let many = (proptest::collection::vec(byte, 1..4), 100_usize..250)
            .prop_map(|(end, long)| [vec![b'a'; long], end].concat());
        prop_oneof![4 => few, 1 => many]
    }
}
