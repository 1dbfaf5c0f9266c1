//! Configuration: flags > environment > the repository's `onus.toml` > the user's file > defaults.
//!
//! If a repository's file and a user's own disagree about something that can be strict, the stricter value counts
//! ([`Strictness`]): a clone from anywhere cannot loosen its user's settings. To be looser in one place, a user sets the
//! environment variable.
//!
//! Each key with one value is an entry of [`KEYS`]; each structured table is an entry of [`TABLES`] with a typed reader. Anything
//! else is refused, with its position. Identity and the store's address belong to a user and a machine, never to a repository.
//!
//! | file | story |
//! | --- | --- |
//! | `keys.rs` | the keys, and their valid values |
//! | `tables.rs` | tables of a project, such as its areas |
//! | `gate.rs` | the table of checks that tasks must pass |
//! | `file.rs` | parses one file, or refuses it with line and column |
//! | `edit.rs` | changes one key in one file, and nothing else |
//! | `places.rs` | where the user's files are |

mod edit;
mod file;
mod gate;
mod keys;
mod places;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::gate::Gate;
use onus_core::ids::shortened;
use onus_core::landing::{DepsMet, LandStyle};
use onus_core::policy::{AcrossWorktrees, GuardPeople, Policy, ScopeMode, Unclaimed};
use onus_core::refusal::{Refusal, Step};
use onus_core::scope::{AreaName, Scope};
use onus_core::time::Span;
use onus_engine::Billing;
use onus_intake::{Channel, Mapper};
use onus_repo::approval::Definition;
use onus_repo::rescue::Limits;

use crate::strictness::{Settled, Strictness};

use file::{Layer, Settings};
use keys::{check, globs, nearest, shown};

pub(crate) use edit::add_gates;
pub use edit::{Edited, Owner, set, unset};
pub use keys::{KEYS, Key, Kind};
pub use places::{state_folder, user_file};
pub use tables::{Area, IntakeChannel, TABLES, Table, Tables};

/// The repository's own configuration file, at its root.
pub const SHARED_FILE: &str = "onus.toml";

/// The most names that a refusal lists.
const MAX_NAMED: usize = 20;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Env(&'static str),
    File(PathBuf),
    /// The intersection of two files' values.
    Files(PathBuf, PathBuf),
    Default,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Env(name) => write!(f, "environment {name}"),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Files(one, other) => write!(f, "{} and {}", one.display(), other.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

impl Source {
    /// Whether the value comes from this file.
    pub fn is_of(&self, file: &Path) -> bool {
        match self {
            Source::File(one) => one == file,
            Source::Files(one, other) => one == file || other == file,
            Source::Env(_) | Source::Default => false,
        }
    }
}

/// The key of this name, or a refusal that suggests the nearest.
pub fn key(name: &str) -> Result<&'static Key, Refusal> {
    Key::named(name).ok_or_else(|| {
        let forms = TABLES.iter().map(|table| table.form);
        let near = nearest(name, KEYS.iter().map(|key| key.name).chain(forms));
        let near = near.map(|near| format!("; the nearest is {near}"));
        Refusal::usage(format!("unknown key '{}'{}", shortened(name), near.unwrap_or_default()))
            .next(Step::HelpOn("config"))
    })
}

/// How tasks' branches land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandSettings {
    pub style: LandStyle,
    /// Files to which everyone only adds lines.
    pub union: Scope,
    /// The remote that has the target, if it is not here.
    pub remote: Option<String>,
    /// The command that opens a pull request.
    pub pr: Option<Definition>,
}

/// How tasks' worktrees are made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeSettings {
    pub root: Option<String>,
    pub target: Option<String>,
    pub fetch: bool,
    pub setup: Option<Definition>,
}

#[derive(Clone, Debug)]
pub struct Config {
    values: BTreeMap<&'static str, (String, Source)>,
    /// Values that do not count because another is stricter.
    looser: BTreeMap<&'static str, Vec<(String, Source)>>,
    tables: Tables,
    /// The repository's file, which defines the tables.
    shared: Option<PathBuf>,
}

/// The gates that the text of an `onus.toml` defines, which landing reads from the target's tree.
pub fn gates_in(text: &str) -> Result<Vec<Gate>, Refusal> {
    Ok(Layer::Repository(Path::new("")).parse(text)?.tables.gates)
}

/// Checks that the text of an `onus.toml` is valid: an invalid one that lands stops everybody.
pub fn check_text(text: &str) -> Result<(), Refusal> {
    Layer::Repository(Path::new("")).parse(text).map(drop)
}

/// The files to which everyone only adds lines, from the text of an `onus.toml`: for a landing, the target's own decides.
pub fn union_in(text: &str) -> Result<Scope, Refusal> {
    let parsed = Layer::Repository(Path::new("")).parse(text)?;
    let said =
        parsed.values.iter().find(|(key, _)| key.name == "land.union").map(|(_, value)| value.as_str());
    Ok(globs(said.unwrap_or_default()).unwrap_or_default())
}

impl Config {
    /// Reads all layers: the file of the folder `repository`, the user's, the environment. A missing file is not an error; an
    /// invalid one is.
    pub fn load(
        repository: Option<&Path>,
        user: Option<&Path>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, Refusal> {
        let mut config = Config {
            values: BTreeMap::new(),
            looser: BTreeMap::new(),
            tables: Tables::default(),
            shared: repository.map(|root| root.join(SHARED_FILE)),
        };
        for key in KEYS {
            if let Some(default) = key.default {
                config.values.insert(key.name, (default.to_owned(), Source::Default));
            }
        }
        for file in user.map(Layer::User).into_iter().chain(repository.map(Layer::Repository)) {
            let Settings { values, tables } = file.read()?;
            for (key, value) in values {
                config.lay(key, value, file.path());
            }
            // Only the repository's file may have tables.
            if let Layer::Repository(_) = file {
                config.tables = tables;
            }
        }
        for key in KEYS {
            if let Some(value) = env(key.env).filter(|value| !value.is_empty()) {
                let value = key.kind.separator().map_or(value.clone(), |mark| value.replace(mark, "\n"));
                check(key, &value).map_err(|why| Refusal::usage(format!("{}: {why}", key.env)))?;
                config.looser.remove(key.name);
                config.values.insert(key.name, (value, Source::Env(key.env)));
            }
        }
        Ok(config)
    }

    /// Adds a file's value on top of a default or the user's own value.
    fn lay(&mut self, key: &'static Key, value: String, file: PathBuf) {
        let Some((own, Source::File(from))) = self.values.get(key.name).filter(|(own, _)| *own != value)
        else {
            self.values.insert(key.name, (value, Source::File(file)));
            return;
        };
        let settled = key.strictness.settle(own, &value);
        let both = Source::Files(from.clone(), file.clone());
        let (own, repository) = ((own.clone(), Source::File(from.clone())), (value, Source::File(file)));
        let (counts, looser) = match settled {
            Settled::Own => (own, vec![repository]),
            Settled::Repository if key.strictness == Strictness::Neither => (repository, Vec::new()),
            Settled::Repository => (repository, vec![own]),
            Settled::Both(common) => ((common, both), vec![own, repository]),
        };
        self.values.insert(key.name, counts);
        if !looser.is_empty() {
            self.looser.insert(key.name, looser);
        }
    }

    /// The values of a key that do not count because another is stricter.
    pub fn looser(&self, name: &str) -> &[(String, Source)] {
        self.looser.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn get(&self, name: &str) -> Option<(&str, &Source)> {
        self.values.get(name).map(|(value, source)| (value.as_str(), source))
    }

    /// A value without a password, so that it may be shown.
    pub fn shown(&self, name: &str) -> Option<(String, &Source)> {
        self.get(name).map(|(value, source)| (shown(name, value), source))
    }

    /// The project's tables, and the file that defines them.
    pub fn tables(&self) -> (&Tables, Option<&Path>) {
        (&self.tables, self.shared.as_deref())
    }

    pub fn defines_areas(&self) -> bool {
        !self.tables.areas.is_empty()
    }

    /// An area and its globs, as written in the file.
    pub fn area(&self, name: &str) -> Result<(&AreaName, &[String]), Refusal> {
        let areas = &self.tables.areas;
        if let Some((area, Area { paths })) = areas.iter().find(|(area, _)| area.as_str() == name) {
            return Ok((area, paths));
        }
        let said = format!("unknown area '{}'", shortened(name));
        if areas.is_empty() {
            return Err(Refusal::usage(format!(
                "{said}: {SHARED_FILE} defines none; write [area.NAME] there, and below it paths = [\"src/**\"]"
            )));
        }
        let near = nearest(name, areas.keys().map(AreaName::as_str));
        let near = near.map(|near| format!("; the nearest is {near}")).unwrap_or_default();
        let known: Vec<&str> = areas.keys().take(MAX_NAMED).map(AreaName::as_str).collect();
        let more = if areas.len() > MAX_NAMED { ", …" } else { "" };
        Err(Refusal::usage(format!("{said}{near}; defined: {}{more}", known.join(", "))))
    }

    /// The checks that tasks must pass here.
    pub fn gates(&self) -> &[Gate] {
        &self.tables.gates
    }

    /// The mapper for what a channel delivers (None for plain text with a separate reference), and whether its asks are trusted.
    pub fn channel<'a>(&'a self, name: &'a str) -> Result<(Option<Mapper<'a>>, bool), Refusal> {
        let table = self.tables.intake.get(name);
        let trusted = table.is_some_and(|table| table.trust);
        match (Channel::named(name), table.and_then(|table| table.paths.as_ref())) {
            (Some(channel), _) => Ok((Mapper::of(channel), trusted)),
            (None, Some(paths)) => Ok((Some(Mapper::Paths(name, paths)), trusted)),
            (None, None) => {
                let own = self.tables.intake.iter().filter(|(_, channel)| channel.paths.is_some());
                let known = Channel::ALL.iter().map(|channel| channel.as_str());
                let known = known.chain(own.map(|(name, _)| name.as_str()));
                Err(Refusal::usage(format!(
                    "unknown channel '{}': use one of {}, or define it in {SHARED_FILE}, as [intake.NAME] with reference and title",
                    shortened(name),
                    known.collect::<Vec<_>>().join(", ")
                )))
            }
        }
    }

    fn text(&self, name: &str) -> &str {
        self.get(name).map_or("", |(value, _)| value)
    }

    fn said(&self, name: &str) -> Option<String> {
        self.get(name).map(|(value, _)| value.to_owned())
    }

    /// The items of a list.
    fn words(&self, name: &str) -> Option<Vec<String>> {
        self.get(name).map(|(value, _)| value.lines().map(str::to_owned).collect())
    }

    fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    fn duration(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.span_ms(name)).unwrap_or_default())
    }

    fn span_ms(&self, name: &str) -> i64 {
        self.text(name).parse::<Span>().map_or(0, |span| span.ms)
    }

    fn count(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }

    pub fn policy(&self) -> Policy {
        Policy {
            ttl_ms: self.span_ms("lease.ttl"),
            max_hold_ms: self.span_ms("lease.max_hold"),
            stale_after_ms: self.span_ms("lease.stale_after"),
            stalled_after_ms: self.span_ms("lease.stalled_after"),
            max_attempts: self.count("retry.max_attempts"),
            idle_ms: self.span_ms("sessions.idle"),
            records_people: self.text("sessions.people") != "off",
            keep_ms: self.span_ms("lease.keep"),
            indefinite_per_actor: self.count("lease.indefinite_per_actor"),
            indefinite_per_store: self.count("lease.indefinite_per_store"),
            scope_mode: self.text("scope.mode").parse().unwrap_or(ScopeMode::Strict),
            scope_shared: globs(self.text("scope.shared")).unwrap_or_default(),
            across_worktrees: self.text("scope.across_worktrees").parse().unwrap_or(AcrossWorktrees::Tell),
            unclaimed: self.text("guard.unclaimed").parse().unwrap_or(Unclaimed::Adopt),
            unique_machines: self.is_on("lease.unique_machines"),
            refs_unique: self.text("refs.unique").lines().map(str::to_lowercase).collect(),
            force_needs_link: self.is_on("force.needs_link"),
            deps_met: self.deps_met(),
        }
    }

    /// When a dependency counts as met; None if tasks do not land here.
    fn deps_met(&self) -> Option<DepsMet> {
        let said = self.get("deps.met").and_then(|(value, _)| value.parse().ok());
        let is_said = |key: &Key| self.get(key.name).is_some_and(|(_, source)| *source != Source::Default);
        let lands = KEYS.iter().filter(|key| key.name.starts_with("land.")).any(is_said);
        said.or(lands.then_some(DepsMet::Landed)).filter(|met| lands || *met == DepsMet::Landed)
    }

    /// How tasks' branches land here.
    pub fn landing(&self) -> LandSettings {
        LandSettings {
            style: self.text("land.style").parse().unwrap_or(LandStyle::Merge),
            union: globs(self.text("land.union")).unwrap_or_default(),
            remote: self.said("land.remote"),
            pr: self.words("land.pr").filter(|argv| !argv.is_empty()).map(|argv| Definition {
                kind: onus_repo::approval::Kind::PullRequest,
                name: "pr".to_owned(),
                argv,
                env: BTreeSet::new(),
                folder: String::new(),
                timeout_ms: 120_000,
            }),
        }
    }

    /// Which hours are billable, and at what rate.
    pub fn billing(&self) -> Billing {
        let rates = self.text("timesheet.rates").lines().filter_map(keys::rate).collect();
        Billing { billable: self.words("timesheet.billable"), rates }
    }

    pub fn keeps_output(&self) -> bool {
        self.is_on("run.keep_output")
    }

    /// How worktrees are made here.
    pub fn worktrees(&self) -> WorktreeSettings {
        let setup = self.words("worktree.setup").filter(|argv| !argv.is_empty()).map(|argv| Definition {
            kind: onus_repo::approval::Kind::SetUp,
            name: "setup".to_owned(),
            argv,
            env: self.words("worktree.setup_env").unwrap_or_default().into_iter().collect(),
            folder: String::new(),
            timeout_ms: u64::try_from(self.span_ms("worktree.setup_timeout")).unwrap_or_default(),
        });
        WorktreeSettings {
            root: self.said("worktree.root"),
            target: self.said("worktree.target"),
            fetch: self.is_on("worktree.fetch"),
            setup,
        }
    }

    pub fn store_wait(&self) -> Duration {
        self.duration("store.wait")
    }

    /// How long examining the tree may take while an agent waits. Zero: it is not examined.
    pub fn tree_budget(&self) -> Duration {
        self.duration("guard.tree_budget").min(Duration::from_secs(5))
    }

    /// What happens when a person commits what somebody else has reserved.
    pub fn guard_people(&self) -> GuardPeople {
        self.text("guard.people").parse().unwrap_or(GuardPeople::Warn)
    }

    /// Whether commits name the token under which they were made.
    pub fn has_token_trailer(&self) -> bool {
        self.is_on("guard.token_trailer")
    }

    /// The size limits of a rescue.
    pub fn rescue_limits(&self) -> Limits {
        let bytes = |key| self.count(key).saturating_mul(1 << 20);
        // The output of one call of git is limited, so a file must be smaller than that.
        Limits { max_file: bytes("rescue.max_file").min(48 << 20), max_total: bytes("rescue.max_total") }
    }

    pub fn color(&self) -> &str {
        self.text("ui.color")
    }
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
        let config = Config::load(Some(&folder), Some(&own), &env);
        std::fs::remove_dir_all(folder).unwrap();
        config
    }

    /// The engine's own tests, and everything else without a configuration, begin with the core's defaults.
    #[test]
    fn without_a_configuration_the_policy_is_the_cores_default() {
        assert_eq!(load("", "", &[]).unwrap().policy(), Policy::default());
    }

    #[test]
    fn each_layer_overrides_the_one_below() {
        let user = "[lease]\nttl = \"30m\"\nkeep = \"5m\"\nmax_hold = \"1h\"\n";
        let shared = "[lease]\nttl = \"20m\"\nkeep = \"9m\"\n";
        let config = load(shared, user, &[]).unwrap();
        assert_eq!(config.policy().ttl_ms, 20 * 60_000);
        assert_eq!(config.policy().keep_ms, 9 * 60_000);
        assert_eq!(config.policy().max_hold_ms, 3_600_000);
        let config = load(shared, "", &[]).unwrap();
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
            if let Ok(config) = Config::load(Some(folder.path()), None, &|_| None) {
                assert!(config.policy().ttl_ms > 0);
            }
            // The same text in a target's tree, where it defines the gates for others.
            let text = String::from_utf8_lossy(bytes);
            let gates = gates_in(&text).unwrap_or_default();
            assert!(gates.len() <= onus_core::gate::MAX_GATES);
            for gate in &gates {
                assert_eq!(gate.kind.is_run(), gate.command.is_some(), "{gate:?}");
                let command = gate.command.as_ref();
                assert!(
                    command.is_none_or(|run| !run.argv.is_empty() && run.timeout_ms >= 1_000),
                    "{gate:?}"
                );
                assert_eq!(gates.iter().filter(|other| other.key == gate.key).count(), 1, "{gate:?}");
                assert_eq!(gates_in(&text).unwrap().iter().find(|it| it.key == gate.key), Some(gate));
            }
            let _ = union_in(&text);
        });
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (shared, needle) in [
            ("[lease]\nttl = \"soon\"\n", "lease.ttl"),
            ("[lease]\ntttl = \"1m\"\n", "onus.toml:2:1: unknown key; the nearest is lease.ttl"),
            ("[identity]\nactor = \"human:a\"\n", "belongs to a user"),
            ("lease = 3\n", "it is a table: write [lease]"),
            ("[project]\n[lease\n", "onus.toml:2:"),
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
