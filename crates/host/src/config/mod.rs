//! Configuration: flags > environment > the repository's `onus.toml` > the user's file > defaults.
//!
//! Where a repository and a user's own file disagree about something that can be strict, the stricter counts
//! ([`Strictness`]): a clone from anywhere cannot loosen what its user wants. To be looser in one place, a user sets it in the
//! environment.
//!
//! Each key with one value is a line of [`KEYS`], each table with structure a line of [`TABLES`] and a typed reader; what is not
//! there is refused, with its place. Identity and the store's address belong to a user and a machine, never to a repository.
//!
//! | file | story |
//! | --- | --- |
//! | `keys.rs` | the keys, and what their values may be |
//! | `tables.rs` | tables that a project fills, such as its areas |
//! | `gate.rs` | one of them: the checks that its tasks must pass |
//! | `file.rs` | one file: read, understood, or refused with line and column |
//! | `edit.rs` | one key in one file, changed with everything else left as it is |
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
use keys::{check, globs, is_near, nearest, shown};

pub(crate) use edit::add_gates;
pub use edit::{Edited, Owner, set, unset};
pub use keys::{KEYS, Key, Kind};
pub use places::{state_folder, user_file};
pub use tables::{Area, IntakeChannel, TABLES, Table, Tables};

/// The repository's own settings, at its root.
pub const SHARED_FILE: &str = "onus.toml";

/// How many names a refusal lists.
const MAX_NAMED: usize = 20;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Env(&'static str),
    File(PathBuf),
    /// What both have in common.
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
    /// Whether this file has a say in it.
    pub fn is_of(&self, file: &Path) -> bool {
        match self {
            Source::File(one) => one == file,
            Source::Files(one, other) => one == file || other == file,
            Source::Env(_) | Source::Default => false,
        }
    }
}

/// The key of this name, or the nearest in a refusal.
pub fn key(name: &str) -> Result<&'static Key, Refusal> {
    Key::named(name).ok_or_else(|| {
        let forms = TABLES.iter().map(|table| table.form);
        let near = nearest(name, KEYS.iter().map(|key| key.name).chain(forms));
        let near = near.filter(|near| is_near(name, near)).map(|near| format!("; the nearest is {near}"));
        Refusal::usage(format!("unknown key '{}'{}", shortened(name), near.unwrap_or_default()))
            .next(Step::HelpOn("config"))
    })
}

/// How tasks' branches land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandSettings {
    pub style: LandStyle,
    /// Files to which everyone only adds.
    pub union: Scope,
    /// Where the target is, if not here.
    pub remote: Option<String>,
    /// What opens a pull request.
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
    /// What was said, too, and does not count because it is looser.
    looser: BTreeMap<&'static str, Vec<(String, Source)>>,
    tables: Tables,
    /// The repository's file, which defines the tables.
    shared: Option<PathBuf>,
}

/// The gates that this text of an `onus.toml` defines: landing reads them from the target's tree.
pub fn gates_in(text: &str) -> Result<Vec<Gate>, Refusal> {
    Ok(Layer::Repository(Path::new("")).parse(text)?.tables.gates)
}

/// Whether this text of an `onus.toml` can be understood: what lands there stops everybody if not.
pub fn check_text(text: &str) -> Result<(), Refusal> {
    Layer::Repository(Path::new("")).parse(text).map(drop)
}

/// The files to which everyone only adds, as this text of an `onus.toml` names them: what lands is decided by the target's own.
pub fn union_in(text: &str) -> Result<Scope, Refusal> {
    let parsed = Layer::Repository(Path::new("")).parse(text)?;
    let said =
        parsed.values.iter().find(|(key, _)| key.name == "land.union").map(|(_, value)| value.as_str());
    Ok(globs(said.unwrap_or_default()).unwrap_or_default())
}

impl Config {
    /// Reads all layers: the file of the folder `repository`, the user's, the environment. A file that is not there is no
    /// error; one that cannot be understood is.
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
            // No table may be in more than one of them.
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

    /// Lays a file's value over what is there: a default, or what the user's own file says.
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

    /// What a file says about a key, and does not count because another is stricter.
    pub fn looser(&self, name: &str) -> &[(String, Source)] {
        self.looser.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn get(&self, name: &str) -> Option<(&str, &Source)> {
        self.values.get(name).map(|(value, source)| (value.as_str(), source))
    }

    /// The same as it may be shown: without a password.
    pub fn shown(&self, name: &str) -> Option<(String, &Source)> {
        self.get(name).map(|(value, source)| (shown(name, value), source))
    }

    /// What the project defines by name, and the file that does.
    pub fn tables(&self) -> (&Tables, Option<&Path>) {
        (&self.tables, self.shared.as_deref())
    }

    pub fn defines_areas(&self) -> bool {
        !self.tables.areas.is_empty()
    }

    /// An area, and the globs that it stands for, as they are written in the file.
    pub fn area(&self, name: &str) -> Result<(&AreaName, &[String]), Refusal> {
        let areas = &self.tables.areas;
        if let Some((area, Area { paths })) = areas.iter().find(|(area, _)| area.as_str() == name) {
            return Ok((area, paths));
        }
        let said = format!("unknown area '{}'", shortened(name));
        let Some(near) = nearest(name, areas.keys().map(AreaName::as_str)) else {
            return Err(Refusal::usage(format!(
                "{said}: {SHARED_FILE} defines none; write [area.NAME] there, and below it paths = [\"src/**\"]"
            )));
        };
        let known: Vec<&str> = areas.keys().take(MAX_NAMED).map(AreaName::as_str).collect();
        let more = if areas.len() > MAX_NAMED { ", …" } else { "" };
        Err(Refusal::usage(format!("{said}; the nearest is {near}; defined: {}{more}", known.join(", "))))
    }

    /// The checks that tasks must pass here.
    pub fn gates(&self) -> &[Gate] {
        &self.tables.gates
    }

    /// What the project says about a channel that asks come by.
    pub fn intake(&self, channel: &str) -> Option<&IntakeChannel> {
        self.tables.intake.get(channel)
    }

    /// What reads what a channel delivers (None: plain text, its reference beside it), and whether its asks are trusted.
    pub fn channel<'a>(&'a self, name: &'a str) -> Result<(Option<Mapper<'a>>, bool), Refusal> {
        let table = self.intake(name);
        let trusted = table.is_some_and(|table| table.trust);
        match (Channel::named(name), table.and_then(|table| table.paths.as_ref())) {
            (Some(channel), _) => Ok((Mapper::of(channel), trusted)),
            (None, Some(paths)) => Ok((Some(Mapper::Paths(name, paths)), trusted)),
            (None, None) => {
                let known = Channel::ALL.map(Channel::as_str).into_iter().chain(self.own_channels());
                Err(Refusal::usage(format!(
                    "unknown channel '{}': use one of {}, or define it in {SHARED_FILE}, as [intake.NAME] with reference and title",
                    shortened(name),
                    known.collect::<Vec<_>>().join(", ")
                )))
            }
        }
    }

    /// The channels that a project added to those that onus knows by itself.
    pub fn own_channels(&self) -> impl Iterator<Item = &str> {
        let own = self.tables.intake.iter().filter(|(_, channel)| channel.paths.is_some());
        own.map(|(name, _)| name.as_str())
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
            unique_machines: self.text("lease.unique_machines") == "true",
            refs_unique: self.text("refs.unique").lines().map(str::to_lowercase).collect(),
            force_needs_link: self.text("force.needs_link") == "true",
            deps_met: self.deps_met(),
        }
    }

    /// Whether tasks land here, and whether those who depend on one wait for that.
    fn deps_met(&self) -> Option<DepsMet> {
        let said = self.get("deps.met").and_then(|(value, _)| value.parse().ok());
        let is_said = |key: &&str| self.get(key).is_some_and(|(_, source)| *source != Source::Default);
        let lands = ["land.style", "land.union", "land.remote", "land.pr"].iter().any(is_said);
        said.or(lands.then_some(DepsMet::Landed)).filter(|met| lands || *met == DepsMet::Landed)
    }

    /// How tasks' branches land here.
    pub fn landing(&self) -> LandSettings {
        let said = |name| self.get(name).map(|(value, _)| value.to_owned());
        let argv = said("land.pr").map(|value| value.lines().map(str::to_owned).collect::<Vec<_>>());
        LandSettings {
            style: self.text("land.style").parse().unwrap_or(LandStyle::Merge),
            union: globs(self.text("land.union")).unwrap_or_default(),
            remote: said("land.remote"),
            pr: argv.filter(|argv| !argv.is_empty()).map(|argv| Definition {
                kind: onus_repo::approval::Kind::PullRequest,
                name: "pr".to_owned(),
                argv,
                env: BTreeSet::new(),
                folder: String::new(),
                timeout_ms: 120_000,
            }),
        }
    }

    /// Which hours are paid for, and how much.
    pub fn billing(&self) -> Billing {
        let billable =
            self.get("timesheet.billable").map(|(value, _)| value.lines().map(str::to_owned).collect());
        Billing { billable, rates: self.text("timesheet.rates").lines().filter_map(keys::rate).collect() }
    }

    pub fn keeps_output(&self) -> bool {
        self.text("run.keep_output") == "true"
    }

    /// What a project and its user say about worktrees.
    pub fn worktrees(&self) -> WorktreeSettings {
        let said = |name| self.get(name).map(|(value, _)| value.to_owned());
        let words = |name| said(name).map(|value| value.lines().map(str::to_owned).collect::<Vec<_>>());
        let setup = words("worktree.setup").filter(|argv| !argv.is_empty()).map(|argv| Definition {
            kind: onus_repo::approval::Kind::SetUp,
            name: "setup".to_owned(),
            argv,
            env: words("worktree.setup_env").unwrap_or_default().into_iter().collect(),
            folder: String::new(),
            timeout_ms: u64::try_from(self.span_ms("worktree.setup_timeout")).unwrap_or_default(),
        });
        WorktreeSettings {
            root: said("worktree.root"),
            target: said("worktree.target"),
            fetch: self.text("worktree.fetch") == "true",
            setup,
        }
    }

    pub fn store_wait(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.span_ms("store.wait")).unwrap_or_default())
    }

    /// How long a look at the tree may take. Zero: none is taken. An agent waits for it.
    pub fn tree_budget(&self) -> Duration {
        let budget_ms = u64::try_from(self.span_ms("guard.tree_budget")).unwrap_or_default();
        Duration::from_millis(budget_ms).min(Duration::from_secs(5))
    }

    /// What happens when a person commits what is another's.
    pub fn guard_people(&self) -> GuardPeople {
        self.text("guard.people").parse().unwrap_or(GuardPeople::Warn)
    }

    /// Whether commits say under which token they were made.
    pub fn has_token_trailer(&self) -> bool {
        self.text("guard.token_trailer") == "true"
    }

    /// What is too large to be kept when a holder left it uncommitted.
    pub fn rescue_limits(&self) -> Limits {
        let bytes = |key| self.count(key).saturating_mul(1 << 20);
        // Git's answer to one question has an end.
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
            // The same text in a target's tree: it says which gates bind others.
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
