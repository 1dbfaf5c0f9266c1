//! Every key with one value: which values it takes, who may set it, and what it does.

use onus_core::actor::ActorName;
use onus_core::landing::{DepsMet, LandStyle};
use onus_core::policy::{AcrossWorktrees, GuardPeople, ScopeMode, Unclaimed};
use onus_core::scope::{Scope, ScopeError};
use onus_core::task::is_word;
use onus_core::time::Span;
use onus_store::{mask, may_hold_a_password};

use crate::strictness::Strictness;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Actor,
    Span,
    Count,
    Flag,
    Color,
    ScopeMode,
    Unclaimed,
    GuardPeople,
    LandStyle,
    DepsMet,
    AcrossWorktrees,
    /// One per line.
    Globs,
    /// One per line.
    Words,
    /// A command's words, one per line.
    Argv,
    /// A command's words with placeholders, one per line.
    Template,
    Switch,
    /// What an hour costs, by actor: one per line.
    Rates,
}

impl Kind {
    pub fn is_list(self) -> bool {
        matches!(self, Kind::Globs | Kind::Words | Kind::Argv | Kind::Template | Kind::Rates)
    }

    /// The separator of a list's items in the environment.
    pub(super) fn separator(self) -> Option<char> {
        match self {
            Kind::Globs | Kind::Words => Some(':'),
            // An actor's name contains a colon.
            Kind::Rates => Some(','),
            _ => None,
        }
    }

    /// Describes valid values, for a refusal.
    pub(super) fn wanted(self) -> &'static str {
        match self {
            Kind::Text => "text without control characters",
            Kind::Actor => "human:NAME, agent:NAME or ci:NAME",
            Kind::Span => "a duration such as 90s, 15m or 2h",
            Kind::Count => "a whole number",
            Kind::Flag => "true or false",
            Kind::Color => "auto, always or never",
            Kind::ScopeMode => "strict, warn or off",
            Kind::Unclaimed => "adopt, warn or refuse",
            Kind::GuardPeople => "warn, refuse or off",
            Kind::LandStyle => "merge, squash or rebase",
            Kind::DepsMet => "done or landed",
            Kind::AcrossWorktrees => "tell, refuse or ignore",
            Kind::Switch => "on or off",
            Kind::Rates => "a list of actors and amounts, such as [\"human:ada=90.50\"]",
            Kind::Argv => "a command as a list of words, such as [\"make\", \"deps\"]",
            Kind::Template => {
                "a command as a list of words, with no placeholders but {branch}, {target}, {id} and {title}"
            }
            Kind::Words => "a list of words, such as [\"jira\"]",
            Kind::Globs => "a list of globs, such as [\"docs/**\", \"*.lock\"]",
        }
    }
}

#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub env: &'static str,
    pub default: Option<&'static str>,
    pub kind: Kind,
    /// Whether a repository may set it for everybody.
    pub shared: bool,
    /// Which value counts if the user's own file and the repository's disagree.
    pub strictness: Strictness,
    pub about: &'static str,
}

/// The address of the store, the one key that may contain a password.
pub(super) const STORE: &str = "store.path";

pub const KEYS: &[Key] = &[
    Key::of_user("identity.actor", "ONUS_ACTOR", Kind::Actor)
        .about("who you are if no flag or harness says so: human:NAME, agent:NAME or ci:NAME"),
    Key::of_user(STORE, "ONUS_STORE", Kind::Text)
        .about("the store's file or postgres://USER@HOST/DATABASE; default: the repository's own file"),
    Key::shared("project.name", "ONUS_PROJECT", Kind::Text)
        .about("which project of a PostgreSQL store this is, so that all clones agree"),
    Key::of_user("store.wait", "ONUS_STORE_WAIT", Kind::Span)
        .default("10s")
        .about("how long a write waits for other writers, or for the server, before exit 8"),
    Key::shared("lease.ttl", "ONUS_LEASE_TTL", Kind::Span)
        .stricter(Strictness::Less)
        .default("60m")
        .about("how long an agent's lease lasts without a sign of life"),
    Key::shared("lease.max_hold", "ONUS_LEASE_MAX_HOLD", Kind::Span)
        .stricter(Strictness::LessButNotZero)
        .default("8h")
        .about("the longest an agent may hold a task (0: no limit)"),
    Key::shared("lease.stale_after", "ONUS_LEASE_STALE_AFTER", Kind::Span)
        .stricter(Strictness::Less)
        .default("8h")
        .about("after how long without a sign of life a person's lease is marked stale"),
    Key::shared("lease.keep", "ONUS_LEASE_KEEP", Kind::Span)
        .default("60m")
        .about("how long a task is kept for one actor after a handoff or rejection"),
    Key::shared("lease.indefinite_per_actor", "ONUS_LEASE_INDEFINITE_PER_ACTOR", Kind::Count)
        .stricter(Strictness::Less)
        .default("1")
        .about("how many leases without a TTL one agent may hold"),
    Key::shared("lease.indefinite_per_store", "ONUS_LEASE_INDEFINITE_PER_STORE", Kind::Count)
        .stricter(Strictness::Less)
        .default("5")
        .about("how many leases without a TTL all agents together may hold"),
    Key::shared("lease.unique_machines", "ONUS_LEASE_UNIQUE_MACHINES", Kind::Flag)
        .stricter(Strictness::Before(&["false", "true"]))
        .default("false")
        .about(
            "set to true if running machines are never cloned: then, on PostgreSQL, a death seen on \
             the holder's machine ends its lease at once",
        ),
    Key::shared("lease.stalled_after", "ONUS_LEASE_STALLED_AFTER", Kind::Span)
        .stricter(Strictness::Less)
        .default("2h")
        .about("after how long without progress an agent that shows signs of life is called stalled"),
    Key::shared("sessions.idle", "ONUS_SESSIONS_IDLE", Kind::Span).default("30m").about(
        "the longest silence that counts as work, for people and for agents whose turns are not known",
    ),
    Key::shared("sessions.people", "ONUS_SESSIONS_PEOPLE", Kind::Switch)
        .stricter(Strictness::Before(&["off", "on"]))
        .default("on")
        .about("whether people's work is recorded: off keeps no hours of theirs"),
    Key::shared("timesheet.billable", "ONUS_TIMESHEET_BILLABLE", Kind::Words).about(
        "tags, and ids of tasks, whose hours are paid for: of tasks with such a tag, and of such \
             tasks with all their parts",
    ),
    Key::of_user("timesheet.rates", "ONUS_TIMESHEET_RATES", Kind::Rates).about(
        "what an hour of an actor's work costs: a list such as [\"human:ada=90.50\"]; in the \
             environment separated by commas",
    ),
    Key::shared("retry.max_attempts", "ONUS_RETRY_MAX_ATTEMPTS", Kind::Count)
        .stricter(Strictness::Less)
        .default("3")
        .about("how often a failed task may be retried, unless the task says otherwise"),
    Key::of_user("run.keep_output", "ONUS_RUN_KEEP_OUTPUT", Kind::Flag)
        .default("true")
        .about("whether onus run keeps the last lines of a failed command's output as a note"),
    Key::shared("scope.mode", "ONUS_SCOPE_MODE", Kind::ScopeMode)
        .stricter(Strictness::Before(&["strict", "warn", "off"]))
        .default("strict")
        .about(
            "what happens when two leases want the same path: strict refuses, warn warns, off does not check",
        ),
    Key::shared("scope.shared", "ONUS_SCOPE_SHARED", Kind::Globs).stricter(Strictness::Common).about(
        "globs of paths that never conflict, such as lock files: a list; in the environment \
             separated by :",
    ),
    Key::shared("scope.across_worktrees", "ONUS_SCOPE_ACROSS_WORKTREES", Kind::AcrossWorktrees)
        .stricter(Strictness::Before(&["refuse", "tell", "ignore"]))
        .default("tell")
        .about(
            "what happens when two leases touch one file in two worktrees: tell tells both holders, \
             refuse refuses the second, ignore says nothing",
        ),
    Key::shared("guard.unclaimed", "ONUS_GUARD_UNCLAIMED", Kind::Unclaimed)
        .stricter(Strictness::Before(&["refuse", "adopt", "warn"]))
        .default("adopt")
        .about(
            "what happens when an agent without a task changes a file: adopt claims the task whose worktree \
             it is in, or opens an ad-hoc task; warn warns, refuse refuses",
        ),
    Key::shared("guard.people", "ONUS_GUARD_PEOPLE", Kind::GuardPeople)
        .stricter(Strictness::Before(&["refuse", "warn", "off"]))
        .default("warn")
        .about(
            "what happens when a person commits or pushes what another has reserved: warn warns, \
             refuse refuses, off says nothing",
        ),
    Key::shared("guard.token_trailer", "ONUS_GUARD_TOKEN_TRAILER", Kind::Flag)
        .stricter(Strictness::Before(&["true", "false"]))
        .default("false")
        .about("whether commits carry Onus-Token beside Onus-Task"),
    Key::of_user("guard.tree_budget", "ONUS_GUARD_TREE_BUDGET", Kind::Span).default("200ms").about(
        "how long git may take to list what an agent's command changed, at most 5s (0: it is not asked)",
    ),
    Key::of_user("rescue.max_file", "ONUS_RESCUE_MAX_FILE", Kind::Count)
        .default("32")
        .about("MiB, at most 48: a larger uncommitted file is not kept when its holder loses the task"),
    Key::of_user("rescue.max_total", "ONUS_RESCUE_MAX_TOTAL", Kind::Count)
        .default("256")
        .about("MiB: how much is kept of one lease at most, the smallest files first"),
    Key::of_user("worktree.root", "ONUS_WORKTREE_ROOT", Kind::Text).about(
        "the folder in which REPOSITORY.onus/ with tasks' worktrees is made; default: beside the \
             repository",
    ),
    Key::shared("worktree.target", "ONUS_WORKTREE_TARGET", Kind::Text).about(
        "the branch that tasks' branches begin at and are to land in; default: origin's main \
             branch, else the main checkout's",
    ),
    Key::of_user("worktree.fetch", "ONUS_WORKTREE_FETCH", Kind::Flag)
        .default("false")
        .about("whether the target is fetched from origin before a worktree is made"),
    Key::shared("worktree.setup", "ONUS_WORKTREE_SETUP", Kind::Argv).about(
        "a command that makes a new worktree ready, once a person has approved it (onus trust); \
             in the environment one word per line",
    ),
    Key::shared("worktree.setup_env", "ONUS_WORKTREE_SETUP_ENV", Kind::Words)
        .about("variables that the set-up command gets besides those that every program needs"),
    Key::shared("worktree.setup_timeout", "ONUS_WORKTREE_SETUP_TIMEOUT", Kind::Span)
        .default("10m")
        .about("how long the set-up command may take"),
    Key::shared("land.style", "ONUS_LAND_STYLE", Kind::LandStyle).default("merge").about(
        "how a task's branch becomes part of its target: merge (a commit with both as parents; \
             the default), squash (one commit), rebase (each commit again)",
    ),
    Key::shared("land.union", "ONUS_LAND_UNION", Kind::Globs).about(
        "globs of files to which everyone only adds lines: where two sides conflict in one, the \
             lines of both are kept; what lands goes by the target's own onus.toml",
    ),
    Key::shared("land.remote", "ONUS_LAND_REMOTE", Kind::Text)
        .about("the remote whose branch is the target: it is fetched before each landing, and pushed to"),
    Key::shared("land.pr", "ONUS_LAND_PR", Kind::Template).about(
        "a command that opens a pull request for a pushed branch, once a person has approved it \
             (onus trust): {branch}, {target}, {id} and {title} stand for the task's",
    ),
    Key::shared("deps.met", "ONUS_DEPS_MET", Kind::DepsMet).about(
        "when a task with a branch of its own counts as done for those that depend on it: done or \
             landed; default: landed where [land] is configured",
    ),
    Key::shared("refs.unique", "ONUS_REFS_UNIQUE", Kind::Words)
        .about("systems such as jira in which a reference is one task's only"),
    Key::shared("force.needs_link", "ONUS_FORCE_NEEDS_LINK", Kind::Flag)
        .stricter(Strictness::Before(&["true", "false"]))
        .default("false")
        .about("whether every override must link to a decision or approval"),
    Key::of_user("seal.signers", "ONUS_SEAL_SIGNERS", Kind::Text).about(
        "an ssh allowed_signers file; with it, verify --seal accepts only files signed by someone in it",
    ),
    Key::of_user("ui.color", "ONUS_UI_COLOR", Kind::Color)
        .default("auto")
        .about("auto, always or never; NO_COLOR is honoured too"),
];

/// A key's value without secrets. The store's address is masked unless it is plainly a path; any other value, if it looks like a
/// misplaced address.
pub(super) fn shown(name: &str, value: &str) -> String {
    if name == STORE || may_hold_a_password(value) { mask(value) } else { value.to_owned() }
}

/// An actor and what an hour of its work costs, in hundredths: `human:ada=90.50`.
pub(super) fn rate(line: &str) -> Option<(ActorName, i64)> {
    let (actor, amount) = line.split_once('=')?;
    let (whole, part) = amount.trim().split_once('.').unwrap_or((amount.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || part.len() > 2 || !digits(whole) || !digits(part) {
        return None;
    }
    let hundredths: i64 = format!("{whole}{part:0<2}").parse().ok()?;
    Some((actor.trim().parse().ok()?, hundredths))
}

/// Parses globs, one per line.
pub(super) fn globs(text: &str) -> Result<Scope, ScopeError> {
    text.lines().filter(|line| !line.is_empty()).map(str::parse).collect()
}

/// The placeholders in the command that opens a pull request.
const PLACEHOLDERS: [&str; 4] = ["branch", "target", "id", "title"];

/// Refuses an unknown placeholder, which would be passed to the command literally. Other braces belong to the command.
fn known_placeholders(value: &str) -> Result<(), String> {
    let is_of_a_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let words = value.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(word, _)| word));
    let mut words = words.filter(|word| !word.is_empty() && word.chars().all(is_of_a_word));
    match words.find(|word| !PLACEHOLDERS.contains(word)) {
        Some(unknown) => {
            let known = PLACEHOLDERS.map(|word| format!("{{{word}}}")).join(", ");
            let unknown = onus_core::quote::visible_line(unknown);
            Err(format!("unknown placeholder {{{unknown}}}; there are {known}"))
        }
        None => Ok(()),
    }
}

fn is_argv(value: &str) -> bool {
    !value.lines().any(|word| word.chars().any(char::is_control))
}

pub(super) fn check(key: &Key, value: &str) -> Result<(), String> {
    let fits = match key.kind {
        Kind::Text => !value.chars().any(char::is_control),
        Kind::Actor => value.parse::<ActorName>().is_ok(),
        Kind::Span => {
            let span = value.parse::<Span>().map_err(|refusal| refusal.message)?;
            if span.ms == 0 && key.name == "lease.ttl" {
                return Err(
                    "a lease that lapses at once is useless; for one without a limit use --ttl 0".to_owned()
                );
            }
            true
        }
        Kind::Count => value.parse::<u64>().is_ok(),
        Kind::Flag => matches!(value, "true" | "false"),
        Kind::Color => matches!(value, "auto" | "always" | "never"),
        Kind::ScopeMode => value.parse::<ScopeMode>().is_ok(),
        Kind::Unclaimed => value.parse::<Unclaimed>().is_ok(),
        Kind::GuardPeople => value.parse::<GuardPeople>().is_ok(),
        Kind::LandStyle => value.parse().is_ok_and(LandStyle::is_a_choice),
        Kind::DepsMet => value.parse::<DepsMet>().is_ok(),
        Kind::AcrossWorktrees => value.parse::<AcrossWorktrees>().is_ok(),
        Kind::Switch => matches!(value, "on" | "off"),
        Kind::Rates => value.lines().all(|line| rate(line).is_some()),
        Kind::Words => value.lines().all(is_word),
        Kind::Argv => is_argv(value),
        Kind::Template => {
            known_placeholders(value)?;
            is_argv(value)
        }
        Kind::Globs => {
            globs(value).map_err(|error| error.to_string())?;
            true
        }
    };
    let (said, wanted) = (onus_core::ids::shortened(value), key.kind.wanted());
    match fits {
        true => Ok(()),
        false if key.name == STORE || may_hold_a_password(value) => Err(format!("not {wanted}")),
        false => Err(format!("'{said}' is not {wanted}")),
    }
}

impl Key {
    /// A key that only a user may set, for themselves.
    const fn of_user(name: &'static str, env: &'static str, kind: Kind) -> Key {
        let strictness = Strictness::Neither;
        Key { name, env, default: None, kind, shared: false, strictness, about: "" }
    }

    /// A key that a repository may set for everybody.
    const fn shared(name: &'static str, env: &'static str, kind: Kind) -> Key {
        Key { shared: true, ..Key::of_user(name, env, kind) }
    }

    const fn stricter(self, strictness: Strictness) -> Key {
        Key { strictness, ..self }
    }

    const fn default(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    const fn about(self, about: &'static str) -> Key {
        Key { about, ..self }
    }

    pub fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The items of a value that is a list.
    pub fn items(&self, value: &str) -> Option<Vec<String>> {
        self.kind.is_list().then(|| value.lines().map(str::to_owned).collect())
    }
}

/// The known name that was probably meant: the one with the smallest edit distance, if the name is a plausible misspelling, or a
/// part, of it.
pub(super) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name: String = name.chars().take(64).collect();
    let distance = |known: &str| strsim::damerau_levenshtein(&name, known);
    let near = known.into_iter().min_by_key(|known| distance(known))?;
    (near.contains(&name) || distance(near) <= near.len() / 3).then_some(near)
}
