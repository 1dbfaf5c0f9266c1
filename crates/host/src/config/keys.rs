//! Every key with one value: what it may be, who may set it, and what it does.

use onus_core::actor::ActorName;
use onus_core::landing::{DepsMet, LandStyle};
use onus_core::policy::{AcrossWorktrees, GuardPeople, ScopeMode, Unclaimed};
use onus_core::scope::{Scope, ScopeError};
use onus_core::task::is_word;
use onus_core::time::Span;
use onus_store::{mask, may_hold_a_password};

use crate::strictness::Strictness;

/// What a value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
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
    /// One on a line.
    Globs,
    /// One on a line.
    Words,
    /// A command's words, one on a line.
    Argv,
    /// The same, in which placeholders stand for what it is about.
    Template,
    Switch,
    /// What an hour costs, by actor: one on a line.
    Rates,
}

impl Kind {
    pub fn is_list(self) -> bool {
        matches!(self, Kind::Globs | Kind::Words | Kind::Argv | Kind::Template | Kind::Rates)
    }

    /// What stands between the items of a list in the environment.
    pub(super) fn separator(self) -> Option<char> {
        match self {
            Kind::Globs | Kind::Words => Some(':'),
            // An actor's name has a colon.
            Kind::Rates => Some(','),
            _ => None,
        }
    }

    /// What to write instead of a value that does not fit.
    pub(super) fn wanted(self) -> &'static str {
        match self {
            Kind::Text => "text without control characters",
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
    /// Which counts where the user's own file says something else than the repository's.
    pub strictness: Strictness,
    pub about: &'static str,
}

/// Where the store is: the one key that may hold a password.
pub(super) const STORE: &str = "store.path";

pub const KEYS: &[Key] = &[
    Key {
        name: "identity.actor",
        env: "ONUS_ACTOR",
        default: None,
        kind: Kind::Text,
        shared: false,
        strictness: Strictness::Neither,
        about: "who you are if no flag or harness says so: human:NAME, agent:NAME or ci:NAME",
    },
    Key {
        name: STORE,
        env: "ONUS_STORE",
        default: None,
        kind: Kind::Text,
        shared: false,
        strictness: Strictness::Neither,
        about: "the store's file or postgres://USER@HOST/DATABASE; default: the repository's own file",
    },
    Key {
        name: "project.name",
        env: "ONUS_PROJECT",
        default: None,
        kind: Kind::Text,
        shared: true,
        strictness: Strictness::Neither,
        about: "which project of a PostgreSQL store this is, so that all clones agree",
    },
    Key {
        name: "store.wait",
        env: "ONUS_STORE_WAIT",
        default: Some("10s"),
        kind: Kind::Span,
        shared: false,
        strictness: Strictness::Neither,
        about: "how long a write waits for other writers, or for the server, before exit 8",
    },
    Key {
        name: "lease.ttl",
        env: "ONUS_LEASE_TTL",
        default: Some("60m"),
        kind: Kind::Span,
        shared: true,
        strictness: Strictness::Less,
        about: "how long an agent's lease lasts without a sign of life",
    },
    Key {
        name: "lease.max_hold",
        env: "ONUS_LEASE_MAX_HOLD",
        default: Some("8h"),
        kind: Kind::Span,
        shared: true,
        strictness: Strictness::LessButNotZero,
        about: "the longest an agent may hold a task (0: no limit)",
    },
    Key {
        name: "lease.stale_after",
        env: "ONUS_LEASE_STALE_AFTER",
        default: Some("8h"),
        kind: Kind::Span,
        shared: true,
        strictness: Strictness::Less,
        about: "after how long without a sign of life a person's lease is marked stale",
    },
    Key {
        name: "lease.keep",
        env: "ONUS_LEASE_KEEP",
        default: Some("60m"),
        kind: Kind::Span,
        shared: true,
        strictness: Strictness::Neither,
        about: "how long a task is kept for one actor after a handoff or rejection",
    },
    Key {
        name: "lease.indefinite_per_actor",
        env: "ONUS_LEASE_INDEFINITE_PER_ACTOR",
        default: Some("1"),
        kind: Kind::Count,
        shared: true,
        strictness: Strictness::Less,
        about: "how many leases without a TTL one agent may hold",
    },
    Key {
        name: "lease.indefinite_per_store",
        env: "ONUS_LEASE_INDEFINITE_PER_STORE",
        default: Some("5"),
        kind: Kind::Count,
        shared: true,
        strictness: Strictness::Less,
        about: "how many leases without a TTL all agents together may hold",
    },
    Key {
        name: "lease.unique_machines",
        env: "ONUS_LEASE_UNIQUE_MACHINES",
        default: Some("false"),
        kind: Kind::Flag,
        shared: true,
        strictness: Strictness::Before(&["false", "true"]),
        about: "set to true if running machines are never cloned: then, on PostgreSQL, a death seen on the holder's machine \
                ends its lease at once",
    },
    Key {
        name: "lease.stalled_after",
        env: "ONUS_LEASE_STALLED_AFTER",
        default: Some("2h"),
        kind: Kind::Span,
        shared: true,
        strictness: Strictness::Less,
        about: "after how long without progress an agent that shows signs of life is called stalled",
    },
    Key {
        name: "sessions.idle",
        env: "ONUS_SESSIONS_IDLE",
        default: Some("30m"),
        kind: Kind::Span,
        shared: true,
        strictness: Strictness::Neither,
        about: "the longest silence that counts as work, for people and for agents whose turns are not known",
    },
    Key {
        name: "sessions.people",
        env: "ONUS_SESSIONS_PEOPLE",
        default: Some("on"),
        kind: Kind::Switch,
        shared: true,
        strictness: Strictness::Before(&["off", "on"]),
        about: "whether people's work is recorded: off keeps no hours of theirs",
    },
    Key {
        name: "timesheet.billable",
        env: "ONUS_TIMESHEET_BILLABLE",
        default: None,
        kind: Kind::Words,
        shared: true,
        strictness: Strictness::Neither,
        about: "tags, and ids of tasks, whose hours are paid for: of tasks with such a tag, and of such tasks with all their parts",
    },
    Key {
        name: "timesheet.rates",
        env: "ONUS_TIMESHEET_RATES",
        default: None,
        kind: Kind::Rates,
        shared: false,
        strictness: Strictness::Neither,
        about: "what an hour of an actor's work costs: a list such as [\"human:ada=90.50\"]; in the environment separated by commas",
    },
    Key {
        name: "retry.max_attempts",
        env: "ONUS_RETRY_MAX_ATTEMPTS",
        default: Some("3"),
        kind: Kind::Count,
        shared: true,
        strictness: Strictness::Less,
        about: "how often a failed task may be retried, unless the task says otherwise",
    },
    Key {
        name: "run.keep_output",
        env: "ONUS_RUN_KEEP_OUTPUT",
        default: Some("true"),
        kind: Kind::Flag,
        shared: false,
        strictness: Strictness::Neither,
        about: "whether onus run keeps the last lines of a failed command's output as a note",
    },
    Key {
        name: "scope.mode",
        env: "ONUS_SCOPE_MODE",
        default: Some("strict"),
        kind: Kind::ScopeMode,
        shared: true,
        strictness: Strictness::Before(&["strict", "warn", "off"]),
        about: "what happens when two leases want the same path: strict refuses, warn warns, off does not check",
    },
    Key {
        name: "scope.shared",
        env: "ONUS_SCOPE_SHARED",
        default: None,
        kind: Kind::Globs,
        shared: true,
        strictness: Strictness::Common,
        about: "globs of paths that never conflict, such as lock files: a list; in the environment separated by :",
    },
    Key {
        name: "scope.across_worktrees",
        env: "ONUS_SCOPE_ACROSS_WORKTREES",
        default: Some("tell"),
        kind: Kind::AcrossWorktrees,
        shared: true,
        strictness: Strictness::Before(&["refuse", "tell", "ignore"]),
        about: "what happens when two leases touch one file in two worktrees: tell tells both holders, refuse refuses the \
                second, ignore says nothing",
    },
    Key {
        name: "guard.unclaimed",
        env: "ONUS_GUARD_UNCLAIMED",
        default: Some("adopt"),
        kind: Kind::Unclaimed,
        shared: true,
        strictness: Strictness::Before(&["refuse", "adopt", "warn"]),
        about: "what happens when an agent without a task changes a file: adopt opens a task, warn warns, refuse refuses",
    },
    Key {
        name: "guard.people",
        env: "ONUS_GUARD_PEOPLE",
        default: Some("warn"),
        kind: Kind::GuardPeople,
        shared: true,
        strictness: Strictness::Before(&["refuse", "warn", "off"]),
        about: "what happens when a person commits or pushes what another has reserved: warn warns, refuse refuses, off says nothing",
    },
    Key {
        name: "guard.token_trailer",
        env: "ONUS_GUARD_TOKEN_TRAILER",
        default: Some("false"),
        kind: Kind::Flag,
        shared: true,
        strictness: Strictness::Before(&["true", "false"]),
        about: "whether commits carry Onus-Token beside Onus-Task",
    },
    Key {
        name: "guard.tree_budget",
        env: "ONUS_GUARD_TREE_BUDGET",
        default: Some("200ms"),
        kind: Kind::Span,
        shared: false,
        strictness: Strictness::Neither,
        about: "how long git may take to list what an agent's command changed, at most 5s (0: it is not asked)",
    },
    Key {
        name: "rescue.max_file",
        env: "ONUS_RESCUE_MAX_FILE",
        default: Some("32"),
        kind: Kind::Count,
        shared: false,
        strictness: Strictness::Neither,
        about: "MiB, at most 48: a larger uncommitted file is not kept when its holder loses the task",
    },
    Key {
        name: "rescue.max_total",
        env: "ONUS_RESCUE_MAX_TOTAL",
        default: Some("256"),
        kind: Kind::Count,
        shared: false,
        strictness: Strictness::Neither,
        about: "MiB: how much is kept of one lease at most, the smallest files first",
    },
    Key {
        name: "worktree.root",
        env: "ONUS_WORKTREE_ROOT",
        default: None,
        kind: Kind::Text,
        shared: false,
        strictness: Strictness::Neither,
        about: "the folder in which REPOSITORY.onus/ with tasks' worktrees is made; default: beside the repository",
    },
    Key {
        name: "worktree.target",
        env: "ONUS_WORKTREE_TARGET",
        default: None,
        kind: Kind::Text,
        shared: true,
        strictness: Strictness::Neither,
        about: "the branch that tasks' branches begin at and are to land in; default: origin's main branch, else the main \
                checkout's",
    },
    Key {
        name: "worktree.fetch",
        env: "ONUS_WORKTREE_FETCH",
        default: Some("false"),
        kind: Kind::Flag,
        shared: false,
        strictness: Strictness::Neither,
        about: "whether the target is fetched from origin before a worktree is made",
    },
    Key {
        name: "worktree.setup",
        env: "ONUS_WORKTREE_SETUP",
        default: None,
        kind: Kind::Argv,
        shared: true,
        strictness: Strictness::Neither,
        about: "a command that makes a new worktree ready, once a person has approved it (onus trust); in the environment \
                one word per line",
    },
    Key {
        name: "worktree.setup_env",
        env: "ONUS_WORKTREE_SETUP_ENV",
        default: None,
        kind: Kind::Words,
        shared: true,
        strictness: Strictness::Neither,
        about: "variables that the set-up command gets besides those that every program needs",
    },
    Key {
        name: "worktree.setup_timeout",
        env: "ONUS_WORKTREE_SETUP_TIMEOUT",
        default: Some("10m"),
        kind: Kind::Span,
        shared: true,
        strictness: Strictness::Neither,
        about: "how long the set-up command may take",
    },
    Key {
        name: "land.style",
        env: "ONUS_LAND_STYLE",
        default: Some("merge"),
        kind: Kind::LandStyle,
        shared: true,
        strictness: Strictness::Neither,
        about: "how a task's branch becomes part of its target: merge (a commit with both as parents; the default), squash (one \
                commit), rebase (each commit again)",
    },
    Key {
        name: "land.union",
        env: "ONUS_LAND_UNION",
        default: None,
        kind: Kind::Globs,
        shared: true,
        strictness: Strictness::Neither,
        about: "globs of files to which everyone only adds lines: where two sides conflict in one, the lines of both are kept; what \
                lands goes by the target's own onus.toml",
    },
    Key {
        name: "land.remote",
        env: "ONUS_LAND_REMOTE",
        default: None,
        kind: Kind::Text,
        shared: true,
        strictness: Strictness::Neither,
        about: "the remote whose branch is the target: it is fetched before each landing, and pushed to",
    },
    Key {
        name: "land.pr",
        env: "ONUS_LAND_PR",
        default: None,
        kind: Kind::Template,
        shared: true,
        strictness: Strictness::Neither,
        about: "a command that opens a pull request for a pushed branch, once a person has approved it (onus trust): {branch}, \
                {target}, {id} and {title} stand for the task's",
    },
    Key {
        name: "deps.met",
        env: "ONUS_DEPS_MET",
        default: None,
        kind: Kind::DepsMet,
        shared: true,
        strictness: Strictness::Neither,
        about: "when a task with a branch of its own counts as done for those that depend on it: done or landed; default: landed \
                where [land] is configured",
    },
    Key {
        name: "refs.unique",
        env: "ONUS_REFS_UNIQUE",
        default: None,
        kind: Kind::Words,
        shared: true,
        strictness: Strictness::Neither,
        about: "systems such as jira in which a reference is one task's only",
    },
    Key {
        name: "force.needs_link",
        env: "ONUS_FORCE_NEEDS_LINK",
        default: Some("false"),
        kind: Kind::Flag,
        shared: true,
        strictness: Strictness::Before(&["true", "false"]),
        about: "whether every override must link to a decision or approval",
    },
    Key {
        name: "seal.signers",
        env: "ONUS_SEAL_SIGNERS",
        default: None,
        kind: Kind::Text,
        shared: false,
        strictness: Strictness::Neither,
        about: "an ssh allowed_signers file; with it, verify --seal accepts only files signed by someone in it",
    },
    Key {
        name: "ui.color",
        env: "ONUS_UI_COLOR",
        default: Some("auto"),
        kind: Kind::Color,
        shared: false,
        strictness: Strictness::Neither,
        about: "auto, always or never; NO_COLOR is honoured too",
    },
];

/// A key's value as it may be shown. Where a store is said to be, only what is plainly a path stays as it is; elsewhere what
/// looks like an address that went astray does not.
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

/// One glob on a line.
pub(super) fn globs(text: &str) -> Result<Scope, ScopeError> {
    text.lines().filter(|line| !line.is_empty()).map(str::parse).collect()
}

/// What stands for something in the command that opens a pull request.
const PLACEHOLDERS: [&str; 4] = ["branch", "target", "id", "title"];

/// Refuses what looks like one and is none: the command would be run with the word itself. Other braces are the command's own.
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
        Kind::LandStyle => value.parse::<LandStyle>().is_ok_and(|style| style != LandStyle::Elsewhere),
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
    pub fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The items of a value that is a list.
    pub fn items(&self, value: &str) -> Option<Vec<String>> {
        self.kind.is_list().then(|| value.lines().map(str::to_owned).collect())
    }
}

/// Of these names the one that was probably meant: with the fewest letters to change.
pub(super) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name: String = name.chars().take(64).collect();
    known.into_iter().min_by_key(|known| strsim::damerau_levenshtein(&name, known))
}

/// Whether one may have been meant by the other: a slip, or a part of it.
pub(super) fn is_near(name: &str, known: &str) -> bool {
    let name: String = name.chars().take(64).collect();
    known.contains(&name) || strsim::damerau_levenshtein(&name, known) <= known.len() / 3
}
