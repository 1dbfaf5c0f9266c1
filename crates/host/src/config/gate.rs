//! Reads `[[gate]]` tables: the checks that a project's tasks must pass.

use std::collections::BTreeSet;

use onus_core::actor::ActorName;
use onus_core::gate::{Applies, Gate, GateCommand, GateKey, GateKind, MAX_GATES, Stage};
use onus_core::scope::{AreaName, Scope};
use onus_core::task::{MAX_SCOPE, TaskType, is_word};
use onus_core::text::Field;
use onus_core::time::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::Fault;
use super::tables::{Tables, flag, glob, only, strings};

const FORM: &str = "[gate]";
const FIELDS: [&str; 16] = [
    "key",
    "title",
    "kind",
    "stage",
    "run",
    "shell",
    "timeout",
    "folder",
    "env",
    "types",
    "tags",
    "areas",
    "paths",
    "only_named",
    "tests",
    "by",
];
/// Fields that only gates have that are run.
const OF_COMMANDS: [&str; 5] = ["run", "shell", "timeout", "folder", "env"];
const DEFAULT_TIMEOUT_MS: u64 = 10 * 60 * 1000;
/// Names that `onus trust` uses for other commands of a repository.
const TAKEN: [&str; 2] = ["setup", "pr"];

pub(super) fn gates(tables: &mut Tables, value: &Spanned<DeValue<'_>>) -> Result<(), Fault> {
    let DeValue::Array(items) = value.get_ref() else {
        return Err(Fault::at(
            value,
            "each gate is a table of a list: write [[gate]], and its keys below it",
        ));
    };
    if items.len() > MAX_GATES {
        return Err(Fault::at(value, format!("a project has at most {MAX_GATES} gates")));
    }
    for item in items.iter() {
        let Some(fields) = item.get_ref().as_table() else {
            return Err(Fault::at(item, "each gate is a table: write [[gate]], and its keys below it"));
        };
        let gate = Fields { fields, item }.gate()?;
        if tables.gates.iter().any(|other| other.key == gate.key) {
            let place = fields.get("key").unwrap_or(item);
            return Err(Fault::at(place, "two gates have this key: each needs its own"));
        }
        tables.gates.push(gate);
    }
    Ok(())
}

struct Fields<'t, 'v> {
    fields: &'t DeTable<'v>,
    item: &'t Spanned<DeValue<'v>>,
}

impl<'t, 'v> Fields<'t, 'v> {
    fn gate(&self) -> Result<Gate, Fault> {
        only(self.fields, FORM, &FIELDS)?;
        let Some(key) = self.text("key", "key must be text in quotes, such as \"tests\"")? else {
            return Err(Fault::at(self.item, "a gate needs a key, such as key = \"tests\""));
        };
        let named =
            "a gate's key has 1 to 64 lower-case letters, digits and - _ . and begins with a letter or digit";
        let parsed: GateKey = key.1.parse().map_err(|_| Fault::at(key.0, named))?;
        if TAKEN.contains(&parsed.as_str()) {
            return Err(Fault::at(key.0, "another command has this name: give the gate another key"));
        }
        let kind = self.word(
            "kind",
            GateKind::Command,
            "kind must be \"command\", \"manual\", \"review\" or \"red-green\"",
        )?;
        let stage = self.word("stage", Stage::Done, "stage must be \"before\", \"done\" or \"land\"")?;
        self.belongs(kind, stage)?;
        Ok(Gate {
            key: parsed,
            title: self.title()?,
            kind,
            stage,
            command: if kind.is_run() { Some(self.command()?) } else { None },
            tests: self.scope("tests")?,
            by: self.by()?,
            applies: self.applies()?,
        })
    }

    /// Refuses fields that a gate of this kind cannot have, and the lack of those that it needs.
    fn belongs(&self, kind: GateKind, stage: Stage) -> Result<(), Fault> {
        let found = |name: &&str| self.fields.get(*name);
        if let Some(place) = OF_COMMANDS.iter().find_map(found).filter(|_| !kind.is_run()) {
            return Err(Fault::at(
                place,
                "nothing is run for a gate of this kind: a person or a reviewer passes it",
            ));
        }
        if let Some(place) = self.fields.get("tests").filter(|_| kind != GateKind::RedGreen) {
            return Err(Fault::at(place, "only a gate of kind \"red-green\" has tests"));
        }
        if let Some(place) = self.fields.get("by").filter(|_| kind != GateKind::Manual) {
            return Err(Fault::at(place, "only a gate of kind \"manual\" says by whom it is passed"));
        }
        let work = matches!(kind, GateKind::RedGreen | GateKind::Review);
        if work && stage == Stage::Before {
            let place = self.fields.get("stage").unwrap_or(self.item);
            return Err(Fault::at(
                place,
                "a gate of this kind needs work to judge: its stage is \"done\" or \"land\"",
            ));
        }
        if kind == GateKind::RedGreen && self.fields.get("tests").is_none() {
            return Err(Fault::at(
                self.item,
                "a red-green gate says which files are tests, such as tests = [\"tests/**\"]",
            ));
        }
        Ok(())
    }

    fn command(&self) -> Result<GateCommand, Fault> {
        let argv: Vec<String> = match (
            self.fields.get("run"),
            self.text("shell", "shell must be a line of shell in quotes")?,
        ) {
            (Some(_), Some((shell, _))) => return Err(Fault::at(shell, "a gate has run or shell, not both")),
            (Some(run), None) => {
                let wanted = "run must be a list of words, such as [\"cargo\", \"test\"]; for a line of shell write shell = \"…\"";
                strings(run, wanted)?.into_iter().map(|(_, word)| word).collect()
            }
            (None, Some((_, line))) => vec!["sh".to_owned(), "-c".to_owned(), line],
            (None, None) => {
                return Err(Fault::at(
                    self.item,
                    "a gate that is run needs a command, such as run = [\"cargo\", \"test\"]",
                ));
            }
        };
        // For a shell command, its line is checked.
        let says = if argv.first().is_some_and(|first| first == "sh") { argv.last() } else { argv.first() };
        if says.is_none_or(|word| word.trim().is_empty()) {
            let place = self.fields.get("run").or_else(|| self.fields.get("shell")).unwrap_or(self.item);
            return Err(Fault::at(place, "its command is empty"));
        }
        let timeout_ms = match self.fields.get("timeout") {
            None => DEFAULT_TIMEOUT_MS,
            Some(value) => {
                let wanted = "timeout must be a duration from 1s to 24h, such as \"15m\"";
                let span = value.get_ref().as_str().and_then(|text| text.parse::<Span>().ok());
                let ms = span.and_then(|span| u64::try_from(span.ms).ok());
                ms.filter(|ms| (1_000..=86_400_000).contains(ms)).ok_or_else(|| Fault::at(value, wanted))?
            }
        };
        let folder = self.text("folder", "folder must be a folder of the repository in quotes")?;
        Ok(GateCommand {
            argv,
            env: self.words("env", "env must be a list of names of variables", |name| {
                (!name.is_empty() && name.len() <= 64).then(|| name.to_owned())
            })?,
            folder: folder.map(|(_, folder)| folder).filter(|folder| folder != ".").unwrap_or_default(),
            timeout_ms,
        })
    }

    fn applies(&self) -> Result<Applies, Fault> {
        let types = "types must be a list of \"epic\", \"feature\", \"story\", \"task\" or \"bug\"";
        Ok(Applies {
            only_named: flag(self.fields, "only_named")?,
            types: self.words("types", types, |word| word.parse::<TaskType>().ok())?,
            tags: self.words("tags", "tags must be a list of tags", |word| {
                is_word(word).then(|| word.to_owned())
            })?,
            areas: self.words("areas", "areas must be a list of names of areas", |word| {
                word.parse::<AreaName>().ok().map(|area| area.to_string())
            })?,
            paths: self.scope("paths")?,
        })
    }

    fn by(&self) -> Result<BTreeSet<ActorName>, Fault> {
        self.words("by", "by must be a list of actors, such as [\"human:ada\", \"agent:reviewer\"]", |word| {
            word.parse().ok()
        })
    }

    fn title(&self) -> Result<Option<String>, Fault> {
        let Some((place, title)) = self.text("title", "title must be text in quotes")? else {
            return Ok(None);
        };
        let checked = Field::Title
            .check(&title)
            .map_err(|_| Fault::at(place, "a title is one line of at most 500 characters"))?;
        Ok(Some(checked))
    }

    fn scope(&self, name: &str) -> Result<Scope, Fault> {
        let Some(value) = self.fields.get(name) else { return Ok(Scope::default()) };
        let wanted = format!("{name} must be a list of globs, such as [\"src/**\"]");
        let globs = strings(value, &wanted)?;
        if globs.is_empty() || globs.len() > MAX_SCOPE {
            return Err(Fault::at(value, format!("{name} has 1 to {MAX_SCOPE} globs")));
        }
        globs.iter().map(|(place, text)| glob(place, text)).collect()
    }

    fn text(&self, name: &str, wanted: &str) -> Result<Option<(&'t Spanned<DeValue<'v>>, String)>, Fault> {
        match self.fields.get(name) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::String(text) => Ok(Some((value, text.clone().into_owned()))),
                _ => Err(Fault::at(value, wanted)),
            },
        }
    }

    fn word<T: std::str::FromStr>(&self, name: &str, default: T, wanted: &str) -> Result<T, Fault> {
        match self.text(name, wanted)? {
            None => Ok(default),
            Some((place, text)) => text.parse().map_err(|_| Fault::at(place, wanted)),
        }
    }

    fn words<T: Ord>(
        &self,
        name: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<BTreeSet<T>, Fault> {
        let Some(value) = self.fields.get(name) else { return Ok(BTreeSet::new()) };
        let words = strings(value, wanted)?;
        if words.is_empty() || words.len() > MAX_SCOPE {
            return Err(Fault::at(value, format!("{name} has 1 to {MAX_SCOPE} items")));
        }
        let read = |(place, word): (&Spanned<DeValue<'_>>, String)| {
            read(&word).ok_or_else(|| Fault::at(place, wanted))
        };
        words.into_iter().map(read).collect()
    }
}
