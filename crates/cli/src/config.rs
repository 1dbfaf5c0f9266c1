//! Configuration: flags > environment > the repository's `onus.toml` > the user's file > defaults.
//!
//! Each key is one line of [`KEYS`]; what is not there is not understood. Identity and the store's address belong to
//! a user and a machine, never to a repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::policy::{Policy, ScopeMode, Unclaimed};
use onus_core::refusal::Refusal;
use onus_core::scope::{Scope, ScopeError};
use onus_core::time::Span;
use onus_store::Address;

/// What a value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Span,
    Count,
    Flag,
    Color,
    ScopeMode,
    Unclaimed,
    /// One on a line.
    Globs,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) env: &'static str,
    pub(crate) default: Option<&'static str>,
    pub(crate) kind: Kind,
    /// Whether a repository may set it for everybody.
    pub(crate) shared: bool,
    pub(crate) about: &'static str,
}

pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "identity.actor",
        env: "ONUS_ACTOR",
        default: None,
        kind: Kind::Text,
        shared: false,
        about: "who you are, where no flag and no harness tells: human:NAME, agent:NAME or ci:NAME",
    },
    Key {
        name: "store.path",
        env: "ONUS_STORE",
        default: None,
        kind: Kind::Text,
        shared: false,
        about: "the store's file or postgres://USER@HOST/DATABASE; without it, the repository's own file",
    },
    Key {
        name: "project.name",
        env: "ONUS_PROJECT",
        default: None,
        kind: Kind::Text,
        shared: true,
        about: "which project of a PostgreSQL store this is, so that all clones agree",
    },
    Key {
        name: "store.wait",
        env: "ONUS_STORE_WAIT",
        default: Some("10s"),
        kind: Kind::Span,
        shared: false,
        about: "how long a write waits for other writers, or for the server, before exit 8",
    },
    Key {
        name: "lease.ttl",
        env: "ONUS_LEASE_TTL",
        default: Some("60m"),
        kind: Kind::Span,
        shared: true,
        about: "how long an agent's lease lives without a sign of life",
    },
    Key {
        name: "lease.max_hold",
        env: "ONUS_LEASE_MAX_HOLD",
        default: Some("8h"),
        kind: Kind::Span,
        shared: true,
        about: "how long an agent may hold a task at all (0: no limit)",
    },
    Key {
        name: "lease.stale_after",
        env: "ONUS_LEASE_STALE_AFTER",
        default: Some("8h"),
        kind: Kind::Span,
        shared: true,
        about: "after how long without a sign of life a person's lease is marked stale",
    },
    Key {
        name: "lease.keep",
        env: "ONUS_LEASE_KEEP",
        default: Some("60m"),
        kind: Kind::Span,
        shared: true,
        about: "how long a task that was handed off or rejected is kept for one actor",
    },
    Key {
        name: "lease.indefinite_per_actor",
        env: "ONUS_LEASE_INDEFINITE_PER_ACTOR",
        default: Some("1"),
        kind: Kind::Count,
        shared: true,
        about: "leases without a TTL that one agent may hold",
    },
    Key {
        name: "lease.indefinite_per_store",
        env: "ONUS_LEASE_INDEFINITE_PER_STORE",
        default: Some("5"),
        kind: Kind::Count,
        shared: true,
        about: "leases without a TTL that all agents may hold together",
    },
    Key {
        name: "lease.stalled_after",
        env: "ONUS_LEASE_STALLED_AFTER",
        default: Some("2h"),
        kind: Kind::Span,
        shared: true,
        about: "after how long without progress an agent that shows signs of life is called stalled",
    },
    Key {
        name: "retry.max_attempts",
        env: "ONUS_RETRY_MAX_ATTEMPTS",
        default: Some("3"),
        kind: Kind::Count,
        shared: true,
        about: "how often a failed task may be tried again, unless the task says otherwise",
    },
    Key {
        name: "scope.mode",
        env: "ONUS_SCOPE_MODE",
        default: Some("strict"),
        kind: Kind::ScopeMode,
        shared: true,
        about: "what happens when two leases want a common path: strict refuses, warn says so, off does not look",
    },
    Key {
        name: "scope.shared",
        env: "ONUS_SCOPE_SHARED",
        default: None,
        kind: Kind::Globs,
        shared: true,
        about: "globs of paths that never collide, such as lock files: a list; in the environment with : between them",
    },
    Key {
        name: "guard.unclaimed",
        env: "ONUS_GUARD_UNCLAIMED",
        default: Some("adopt"),
        kind: Kind::Unclaimed,
        shared: true,
        about: "when an agent changes a file and holds no task: adopt opens one for it, warn says so, refuse refuses",
    },
    Key {
        name: "force.needs_link",
        env: "ONUS_FORCE_NEEDS_LINK",
        default: Some("false"),
        kind: Kind::Flag,
        shared: true,
        about: "whether an override must link a decision or an approval",
    },
    Key {
        name: "seal.signers",
        env: "ONUS_SEAL_SIGNERS",
        default: None,
        kind: Kind::Text,
        shared: false,
        about: "an ssh allowed_signers file; with it, verify --seal accepts only files signed by someone in it",
    },
    Key {
        name: "ui.color",
        env: "ONUS_UI_COLOR",
        default: Some("auto"),
        kind: Kind::Color,
        shared: false,
        about: "auto, always or never; NO_COLOR is kept too",
    },
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Env(&'static str),
    File(PathBuf),
    Default,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Env(name) => write!(f, "environment {name}"),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, Source)>,
}

impl Config {
    /// Reads all layers. A file that is not there is no error; one that cannot be understood is.
    pub(crate) fn load(
        repository: Option<&Path>,
        user: Option<&Path>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, Refusal> {
        let mut values = BTreeMap::new();
        for key in KEYS {
            if let Some(default) = key.default {
                values.insert(key.name, (default.to_owned(), Source::Default));
            }
        }
        for (file, is_shared) in [(user, false), (repository, true)] {
            let Some(file) = file else { continue };
            for (key, value) in read_file(file, is_shared)? {
                values.insert(key.name, (value, Source::File(file.to_owned())));
            }
        }
        for key in KEYS {
            if let Some(value) = env(key.env).filter(|value| !value.is_empty()) {
                let value = if key.kind == Kind::Globs { value.replace(':', "\n") } else { value };
                check(key, &value).map_err(|why| Refusal::usage(format!("{}: {why}", key.env)))?;
                values.insert(key.name, (value, Source::Env(key.env)));
            }
        }
        Ok(Config { values })
    }

    pub(crate) fn get(&self, name: &str) -> Option<(&str, &Source)> {
        self.values.get(name).map(|(value, source)| (value.as_str(), source))
    }

    /// The same as it may be shown: an address without its password.
    pub(crate) fn shown(&self, name: &str) -> Option<(String, &Source)> {
        self.get(name).map(|(value, source)| (Address::mask(value), source))
    }

    fn text(&self, name: &str) -> &str {
        self.get(name).map_or("", |(value, _)| value)
    }

    fn span_ms(&self, name: &str) -> i64 {
        self.text(name).parse::<Span>().map_or(0, |span| span.ms)
    }

    fn count(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            ttl_ms: self.span_ms("lease.ttl"),
            max_hold_ms: self.span_ms("lease.max_hold"),
            stale_after_ms: self.span_ms("lease.stale_after"),
            stalled_after_ms: self.span_ms("lease.stalled_after"),
            max_attempts: self.count("retry.max_attempts"),
            keep_ms: self.span_ms("lease.keep"),
            indefinite_per_actor: self.count("lease.indefinite_per_actor"),
            indefinite_per_store: self.count("lease.indefinite_per_store"),
            scope_mode: self.text("scope.mode").parse().unwrap_or(ScopeMode::Strict),
            scope_shared: globs(self.text("scope.shared")).unwrap_or_default(),
            unclaimed: self.text("guard.unclaimed").parse().unwrap_or(Unclaimed::Adopt),
            force_needs_link: self.text("force.needs_link") == "true",
        }
    }

    pub(crate) fn store_wait(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.span_ms("store.wait")).unwrap_or_default())
    }

    pub(crate) fn color(&self) -> &str {
        self.text("ui.color")
    }
}

/// One glob on a line.
fn globs(text: &str) -> Result<Scope, ScopeError> {
    text.lines().filter(|line| !line.is_empty()).map(str::parse).collect()
}

fn check(key: &Key, value: &str) -> Result<(), String> {
    let fits = match key.kind {
        Kind::Text => !value.chars().any(char::is_control),
        Kind::Span => {
            let span = value.parse::<Span>().map_err(|refusal| refusal.message)?;
            if span.ms == 0 && key.name == "lease.ttl" {
                return Err("a lease that lapses at once helps nobody; for one without a limit use --ttl 0"
                    .to_owned());
            }
            true
        }
        Kind::Count => value.parse::<u64>().is_ok(),
        Kind::Flag => matches!(value, "true" | "false"),
        Kind::Color => matches!(value, "auto" | "always" | "never"),
        Kind::ScopeMode => value.parse::<ScopeMode>().is_ok(),
        Kind::Unclaimed => value.parse::<Unclaimed>().is_ok(),
        Kind::Globs => {
            globs(value).map_err(|error| error.to_string())?;
            true
        }
    };
    let wanted = match key.kind {
        Kind::Text | Kind::Span | Kind::Globs => "text without control characters",
        Kind::Count => "a whole number",
        Kind::Flag => "true or false",
        Kind::Color => "auto, always or never",
        Kind::ScopeMode => "strict, warn or off",
        Kind::Unclaimed => "adopt, warn or refuse",
    };
    if fits { Ok(()) } else { Err(format!("'{}' is not {wanted}", onus_core::ids::shortened(value))) }
}

fn read_file(file: &Path, is_shared: bool) -> Result<Vec<(&'static Key, String)>, Refusal> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Refusal::usage(format!("{} cannot be read: {error}", file.display()))),
    };
    let refuse = |why: String| Err(Refusal::usage(format!("{}: {why}", file.display())));
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return refuse(error.to_string()),
    };
    let mut found = Vec::new();
    for (section, content) in &table {
        let Some(content) = content.as_table() else {
            return refuse(format!("'{section}' stands alone: keys are written under a [section]"));
        };
        for (name, value) in content {
            let name = format!("{section}.{name}");
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
                return refuse(format!("there is no key {name}; there are {}", known.join(", ")));
            };
            if is_shared && !key.shared {
                return refuse(format!(
                    "{name} belongs to a user, not to a repository: set it in the user's file"
                ));
            }
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                toml::Value::Array(list) if key.kind == Kind::Globs => {
                    let lines: Option<Vec<&str>> = list.iter().map(toml::Value::as_str).collect();
                    match lines {
                        Some(lines) => lines.join("\n"),
                        None => return refuse(format!("{name} must be a list of strings")),
                    }
                }
                _ => return refuse(format!("{name} must be a string, a number, or true or false")),
            };
            if let Err(why) = check(key, &value) {
                return refuse(format!("{name}: {why}"));
            }
            found.push((key, value));
        }
    }
    Ok(found)
}

/// The user's own file.
pub(crate) fn user_file(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("onus").join("config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(repository: &str, user: &str, env: &[(&str, &str)]) -> Result<Config, Refusal> {
        let folder = std::env::temp_dir().join(format!(
            "onus-config-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let (shared, own) = (folder.join("onus.toml"), folder.join("config.toml"));
        std::fs::write(&shared, repository).unwrap();
        std::fs::write(&own, user).unwrap();
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let config = Config::load(Some(&shared), Some(&own), &env);
        std::fs::remove_dir_all(folder).unwrap();
        config
    }

    #[test]
    fn each_layer_overrides_the_one_below() {
        let user = "[lease]\nttl = \"10m\"\nkeep = \"5m\"\n";
        let shared = "[lease]\nttl = \"20m\"\n";
        let config = load(shared, user, &[]).unwrap();
        assert_eq!(config.policy().ttl_ms, 20 * 60_000);
        assert_eq!(config.policy().keep_ms, 5 * 60_000);
        assert_eq!(config.policy().max_hold_ms, 8 * 3_600_000);
        let config = load(shared, user, &[("ONUS_LEASE_TTL", "30m")]).unwrap();
        assert_eq!(config.policy().ttl_ms, 30 * 60_000);
        assert_eq!(
            config.get("lease.ttl").map(|(_, source)| source.clone()),
            Some(Source::Env("ONUS_LEASE_TTL"))
        );
    }

    #[test]
    fn whatever_stands_in_a_file_is_read_or_refused() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("onus.toml");
        onus_fuzz::run(&corpus, 2_000, |bytes| {
            std::fs::write(&file, bytes).unwrap();
            if let Ok(config) = Config::load(Some(&file), None, &|_| None) {
                assert!(config.policy().ttl_ms > 0);
            }
        });
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (shared, needle) in [
            ("[lease]\nttl = \"soon\"\n", "lease.ttl"),
            ("[lease]\ntttl = \"1m\"\n", "lease.tttl"),
            ("[identity]\nactor = \"human:a\"\n", "belongs to a user"),
            ("lease = 3\n", "section"),
            ("[lease\n", "TOML"),
            ("[lease]\nindefinite_per_actor = -1\n", "whole number"),
        ] {
            let refusal = load(shared, "", &[]).unwrap_err();
            assert!(
                refusal.message.contains(needle) && refusal.message.contains("onus.toml"),
                "{}",
                refusal.message
            );
        }
        assert!(load("", "", &[("ONUS_LEASE_TTL", "-1m")]).is_err());
    }
}
