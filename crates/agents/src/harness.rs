//! The programs that run agents, recognised by the variables they set in the shells they start, and by the name they give
//! themselves as clients of a server.

/// A known harness: `name` becomes `agent:NAME`.
#[derive(Clone, Copy, Debug)]
pub struct KnownHarness {
    pub name: &'static str,
    /// Variables of which any, if not empty, means that it runs us.
    pub markers: &'static [&'static str],
    /// The variables that name the conversation. The first that is set counts: a sub-agent has its own name in a later one.
    pub conversation: &'static [&'static str],
    /// The fields of a request to a server that name its conversation. The first that is set counts.
    pub request: &'static [&'static str],
    /// Whether its hooks report which process runs which conversation.
    pub has_hooks: bool,
    /// Whether one of its processes never runs two conversations at once.
    pub one_at_a_time: bool,
}

const UNKNOWN: KnownHarness = KnownHarness {
    name: "",
    markers: &[],
    conversation: &[],
    request: &[],
    has_hooks: false,
    one_at_a_time: false,
};

/// Markers that an editor also sets in people's terminals are left out on purpose.
pub const HARNESSES: &[KnownHarness] = &[
    KnownHarness {
        name: "claude",
        markers: &["CLAUDECODE", "CLAUDE_CODE_SESSION_ID"],
        conversation: &["CLAUDE_CODE_SESSION_ID"],
        has_hooks: true,
        one_at_a_time: true,
        ..UNKNOWN
    },
    // One background process serves the conversations of all terminals. Its sub-agents are threads of their own in the
    // session that they belong to.
    KnownHarness {
        name: "codex",
        markers: &["CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"],
        conversation: &["CODEX_SESSION_ID", "CODEX_THREAD_ID"],
        request: &["sessionId", "threadId"],
        has_hooks: true,
        ..UNKNOWN
    },
    KnownHarness {
        name: "gemini",
        markers: &["GEMINI_CLI"],
        has_hooks: true,
        one_at_a_time: true,
        ..UNKNOWN
    },
    KnownHarness { name: "opencode", markers: &["OPENCODE"], ..UNKNOWN },
    KnownHarness { name: "cursor", markers: &["CURSOR_AGENT"], ..UNKNOWN },
    KnownHarness { name: "augment", markers: &["AUGMENT_AGENT"], ..UNKNOWN },
    KnownHarness { name: "goose", markers: &["GOOSE_TERMINAL"], ..UNKNOWN },
    KnownHarness { name: "cline", markers: &["CLINE_ACTIVE"], ..UNKNOWN },
];

/// The variable by which any other harness may give its name.
const GENERIC: &str = "AI_AGENT";

/// The harness that runs us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Harness {
    pub name: String,
    pub conversation: Option<String>,
}

impl KnownHarness {
    pub fn called(name: &str) -> Option<&'static KnownHarness> {
        HARNESSES.iter().find(|harness| harness.name == name)
    }

    /// The known harness whose client has this name.
    pub fn of_client(name: &str) -> Option<&'static KnownHarness> {
        KnownHarness::called(&of_client(name))
    }

    /// The conversation that its variables name.
    pub(crate) fn conversation_in(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        self.conversation.iter().find_map(|name| env(name).filter(|value| !value.is_empty()))
    }
}

/// The conversation that a client's request names, if that client's harness does so. `field` returns a text field of the request's
/// metadata.
pub fn conversation_of_request(client: &str, field: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let harness = KnownHarness::of_client(client)?;
    harness.request.iter().find_map(|name| field(name).filter(|value| !value.is_empty()))
}

pub(crate) fn detect(env: &dyn Fn(&str) -> Option<String>) -> Option<Harness> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let known = HARNESSES.iter().find(|harness| harness.markers.iter().any(|marker| set(marker).is_some()));
    if let Some(harness) = known {
        return Some(Harness { name: harness.name.to_owned(), conversation: harness.conversation_in(env) });
    }
    Some(Harness { name: spelled(&set(GENERIC)?), conversation: None })
}

/// The harness of a client with this name: a known one, such as `claude` for `claude-code`, else its own name, reduced to the
/// characters of an actor's name.
pub(crate) fn of_client(name: &str) -> String {
    let name = spelled(&name.trim().to_lowercase());
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_of = |harness: &&KnownHarness| {
        let rest = name.strip_prefix(harness.name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    match HARNESSES.iter().find(is_of) {
        Some(harness) => harness.name.to_owned(),
        None if name.is_empty() => "mcp".to_owned(),
        None => name.to_owned(),
    }
}

/// Reduces a name to the characters of an actor's name.
fn spelled(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .take(40)
        .collect()
}
