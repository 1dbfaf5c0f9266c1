//! The programs that run agents, told by the variables they set in the shells they start.

/// A known program: `name` becomes `agent:NAME`.
#[derive(Clone, Copy, Debug)]
pub struct KnownHarness {
    pub name: &'static str,
    /// Any of these, not empty, means that it runs us.
    pub markers: &'static [&'static str],
    /// The variable that names the conversation, where there is one.
    pub conversation: Option<&'static str>,
}

/// Markers that an editor also sets in people's terminals are left out on purpose.
pub const HARNESSES: &[KnownHarness] = &[
    KnownHarness {
        name: "claude",
        markers: &["CLAUDECODE", "CLAUDE_CODE_SESSION_ID"],
        conversation: Some("CLAUDE_CODE_SESSION_ID"),
    },
    KnownHarness {
        name: "codex",
        markers: &["CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"],
        conversation: Some("CODEX_THREAD_ID"),
    },
    KnownHarness { name: "gemini", markers: &["GEMINI_CLI"], conversation: None },
    KnownHarness { name: "opencode", markers: &["OPENCODE"], conversation: None },
    KnownHarness { name: "cursor", markers: &["CURSOR_AGENT"], conversation: None },
    KnownHarness { name: "augment", markers: &["AUGMENT_AGENT"], conversation: None },
    KnownHarness { name: "goose", markers: &["GOOSE_TERMINAL"], conversation: None },
    KnownHarness { name: "cline", markers: &["CLINE_ACTIVE"], conversation: None },
];

/// The variable by which any other program may say its name.
const GENERIC: &str = "AI_AGENT";

/// The program that runs us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Harness {
    pub name: String,
    pub conversation: Option<String>,
}

pub(crate) fn detect(env: &dyn Fn(&str) -> Option<String>) -> Option<Harness> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let known = HARNESSES.iter().find(|harness| harness.markers.iter().any(|marker| set(marker).is_some()));
    if let Some(harness) = known {
        return Some(Harness {
            name: harness.name.to_owned(),
            conversation: harness.conversation.and_then(set),
        });
    }
    Some(Harness { name: spelled(&set(GENERIC)?), conversation: None })
}

/// The name of the harness whose program calls itself so to a server: a known one's, such as `claude` for `claude-code`,
/// else its own, spelled as an actor's name can be.
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

/// As an actor's name can be spelled.
fn spelled(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .take(40)
        .collect()
}
