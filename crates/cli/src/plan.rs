//! Plan files: a whole plan as TOML or JSON, read into the tasks that the engine creates together.
//!
//! Tasks refer to one another by names that mean something only in the file. Any other reference is to an existing task,
//! such as `ON-3`. One that is neither goes to the engine as a name, because the engine words that refusal best. Nothing
//! is guessed: an unknown field is refused, with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use onus_core::actor::Tier;
use onus_core::command::{NewTask, PlannedTask, Schedule, TaskLink};
use onus_core::constraint::Constraints;
use onus_core::gate::GateKey;
use onus_core::ids::shortened;
use onus_core::lease::Mode;
use onus_core::plan::of_entry;
use onus_core::refusal::Refusal;
use onus_core::scope::{Areas, Scope};
use onus_core::task::Facts;

use crate::args::{bounded_text, parse_schedule, text_or_stdin};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(alias = "tasks")]
    task: Vec<Entry>,
}

/// One task of the plan.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a task: a table with a title")]
struct Entry {
    name: Option<String>,
    title: String,
    body: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    priority: Option<String>,
    tier: Option<i64>,
    owner: Option<String>,
    area: Option<String>,
    iteration: Option<String>,
    #[serde(default)]
    tags: BTreeSet<String>,
    #[serde(default)]
    refs: BTreeMap<String, String>,
    #[serde(default)]
    constraints: Vec<String>,
    #[serde(default)]
    gates: Vec<String>,
    #[serde(default)]
    acceptance: Vec<String>,
    parent: Option<String>,
    #[serde(default)]
    deps: Vec<String>,
    #[serde(default)]
    relates: Vec<String>,
    /// Globs from the repository's root.
    #[serde(default)]
    scope: Vec<String>,
    #[serde(default)]
    shared: bool,
    /// A text, or one of TOML's own dates and times.
    not_before: Option<toml::Value>,
    max_attempts: Option<u64>,
    origin: Option<String>,
    #[serde(default)]
    propose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Toml,
    Json,
}

/// What is reserved, and which globs an area stands for.
type Meant = Result<(Scope, Areas), Refusal>;

/// Resolves the globs, areas and gates of a plan, in the same way as those of options.
pub(crate) struct Scoping<'a> {
    pub(crate) scope: &'a dyn Fn(&[String]) -> Meant,
    /// The label of a task's area.
    pub(crate) area: &'a dyn Fn(Option<String>) -> Result<Option<String>, Refusal>,
    /// The gates of these keys, which the project must define.
    pub(crate) gates: &'a dyn Fn(Vec<GateKey>) -> Result<BTreeSet<GateKey>, Refusal>,
}

/// The plan in a file, or on standard input if the path is `-`.
pub(crate) fn read(file: &Path, scoping: &Scoping<'_>) -> Result<Vec<PlannedTask>, Refusal> {
    if file == Path::new("-") {
        let text = text_or_stdin("-".to_owned())?;
        let format = if text.trim_start().starts_with('{') { Format::Json } else { Format::Toml };
        return parse(&text, format, "standard input", scoping);
    }
    let name = crate::output::path_text(file);
    let format = match file.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Format::Toml,
        Some("json") => Format::Json,
        _ => {
            return Err(Refusal::usage(format!(
                "{name} is not a plan file: its name must end in .toml or .json"
            )));
        }
    };
    let opened =
        std::fs::File::open(file).map_err(|error| Refusal::usage(format!("cannot read {name}: {error}")))?;
    parse(&bounded_text(&name, opened, ": split the plan")?, format, &name, scoping)
}

fn parse(text: &str, format: Format, name: &str, scoping: &Scoping<'_>) -> Result<Vec<PlannedTask>, Refusal> {
    if format == Format::Json && !text.trim_start().starts_with('{') {
        return Err(Refusal::usage(format!(
            "{name} is not a plan file: write {{\"tasks\": [{{\"title\": \"…\"}}, …]}}"
        )));
    }
    let file: File = match format {
        Format::Json => serde_json::from_str(text)
            .map_err(|error| Refusal::usage(format!("{name} is not a plan file: {error}")))?,
        Format::Toml => toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
            Refusal::usage(format!("{name}{line}: {}", error.message().replace('\n', "; ")))
        })?,
    };
    let names: BTreeSet<String> = file.task.iter().filter_map(|entry| entry.name.clone()).collect();
    let titles: Vec<PlannedTask> = file.task.iter().map(Entry::titled).collect();
    let planned = file.task.into_iter().enumerate().map(|(index, entry)| {
        entry.planned(&names, scoping).map_err(|refusal| of_entry(&titles, index, refusal))
    });
    planned.collect()
}

impl Entry {
    /// The entry with nothing but its name and title, by which a refusal names it.
    fn titled(&self) -> PlannedTask {
        PlannedTask { name: self.name.clone(), task: NewTask::titled(self.title.clone()) }
    }

    fn planned(self, names: &BTreeSet<String>, scoping: &Scoping<'_>) -> Result<PlannedTask, Refusal> {
        let plain = Facts::default();
        let (scope, scope_areas) = (scoping.scope)(&self.scope)?;
        let facts = Facts {
            kind: self.kind.map(|text| text.parse()).transpose()?.unwrap_or(plain.kind),
            priority: self.priority.map(|text| text.parse()).transpose()?.unwrap_or(plain.priority),
            required_tier: self.tier.map(tier).transpose()?.unwrap_or(plain.required_tier),
            area: (scoping.area)(self.area)?,
            iteration: self.iteration,
            owner: self.owner.map(|text| text.parse()).transpose()?,
            tags: self.tags,
            refs: self.refs,
            constraints: Constraints::try_from(self.constraints)?,
            gates: (scoping.gates)(self.gates.iter().map(|key| key.parse()).collect::<Result<_, _>>()?)?,
            max_attempts: self.max_attempts,
            scope,
            scope_areas,
            mode: if self.shared { Mode::Shared } else { Mode::Exclusive },
            ..plain
        };
        let link = |text: String| match text.parse() {
            Ok(reference) if !names.contains(&text) => TaskLink::Task(reference),
            _ => TaskLink::Planned(text),
        };
        let task = NewTask {
            title: self.title,
            body: self.body,
            facts,
            acceptance: self.acceptance,
            parent: self.parent.map(link),
            deps: self.deps.into_iter().map(link).collect(),
            relates: self.relates.into_iter().map(link).collect(),
            not_before: self.not_before.map(schedule).transpose()?,
            origin: self.origin.map(|text| text.parse()).transpose()?,
            author: None,
            propose: self.propose,
        };
        Ok(PlannedTask { name: self.name, task })
    }
}

fn tier(number: i64) -> Result<Tier, Refusal> {
    number.to_string().parse()
}

fn schedule(value: toml::Value) -> Result<Schedule, Refusal> {
    let text = match value {
        toml::Value::String(text) => text,
        toml::Value::Datetime(at) => at.to_string(),
        other => {
            return Err(Refusal::usage(format!("'{}' is not a time", shortened(&other.to_string()))));
        }
    };
    parse_schedule(&text).map_err(|message| Refusal::usage(format!("not_before: {message}")))
}

#[cfg(test)]
mod tests {
    use onus_core::ids::TaskRef;
    use onus_core::task::{Priority, TaskType};

    use super::*;

    fn parsed(text: &str, format: Format) -> Result<Vec<PlannedTask>, Refusal> {
        let scoping = Scoping {
            scope: &|globs| {
                let scope = globs.iter().map(|glob| glob.parse()).collect::<Result<_, _>>()?;
                Ok((scope, Areas::default()))
            },
            area: &Ok,
            gates: &|keys| Ok(keys.into_iter().collect()),
        };
        parse(text, format, "plan", &scoping)
    }

    const FULL: &str = r#"
        [[task]]
        name = "epic"
        title = "Release 2"
        type = "epic"

        [[task]]
        name = "api"
        title = "The API"
        body = "With pages."
        priority = "P1"
        tier = 2
        tags = ["web", "api"]
        parent = "epic"
        deps = ["ON-3", "cafe", "12", "jira:WEB-6"]
        relates = ["epic"]
        not_before = 2027-01-01T00:00:00Z
        max_attempts = 5
        scope = ["api/**", "Cargo.lock"]
        shared = true
        origin = "mail:7"
        owner = "human:ann"
        area = "web"
        iteration = "7"
        constraints = ["no_land", "max_files=5", "max_files=3"]
        acceptance = ["pages work", "it is fast"]
        propose = true
        [task.refs]
        jira = "WEB-7"
    "#;

    #[test]
    fn a_plan_says_everything_that_add_can_say() {
        let plan = parsed(FULL, Format::Toml).unwrap();
        assert_eq!((plan.len(), plan[0].task.facts.kind), (2, TaskType::Epic));
        let NewTask { facts, parent, deps, relates, not_before, origin, propose, body, .. } = &plan[1].task;
        assert_eq!(
            (facts.priority, facts.required_tier, facts.max_attempts),
            (Priority::P1, Tier(2), Some(5))
        );
        assert_eq!(facts.refs["jira"], "WEB-7");
        assert_eq!((facts.scope.globs().len(), facts.mode), (2, Mode::Shared));
        assert_eq!((facts.area.as_deref(), facts.iteration.as_deref()), (Some("web"), Some("7")));
        assert!(facts.owner.is_some() && facts.tags.len() == 2 && *propose && origin.is_some());
        assert_eq!(body.as_deref(), Some("With pages."));
        assert_eq!(*parent, Some(TaskLink::Planned("epic".into())));
        assert_eq!(*relates, [TaskLink::Planned("epic".into())]);
        let on = |text: &str| TaskLink::Task(text.parse::<TaskRef>().unwrap());
        assert_eq!(*deps, [on("ON-3"), on("cafe"), on("12"), on("jira:WEB-6")]);
        assert_eq!(facts.constraints.words(), ["no_land", "max_files=3"]);
        assert_eq!(plan[1].task.acceptance, ["pages work", "it is fast"]);
        assert_eq!(*not_before, Some(Schedule::At { ms: 1_798_761_600_000 }));
    }

    #[test]
    fn json_says_the_same() {
        let value: toml::Value =
            toml::from_str(&FULL.replace("2027-01-01T00:00:00Z", "\"2027-01-01T00:00:00Z\"")).unwrap();
        let text = serde_json::to_string(&value).unwrap();
        let plan = parsed(FULL, Format::Toml).unwrap();
        assert_eq!(parsed(&text, Format::Json).unwrap(), plan);
        assert_eq!(parsed(&text.replacen("task", "tasks", 1), Format::Json).unwrap(), plan);
    }

    #[test]
    fn a_name_of_the_plan_comes_before_a_part_of_a_uid() {
        let text = "[[task]]\nname = \"cafe\"\ntitle = \"a\"\n[[task]]\ntitle = \"b\"\ndeps = [\"cafe\", \"no such\"]\n";
        let plan = parsed(text, Format::Toml).unwrap();
        assert_eq!(
            plan[1].task.deps,
            [TaskLink::Planned("cafe".into()), TaskLink::Planned("no such".into())]
        );
    }

    #[test]
    fn whatever_stands_in_a_plan_is_read_or_refused() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/plan");
        onus_fuzz::run(&corpus, 4_000, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            for format in [Format::Toml, Format::Json] {
                let _ = parsed(&text, format);
            }
        });
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let refused = |text: &str, format| parsed(text, format).unwrap_err().message;
        for (text, format, expected) in [
            ("[[task]]\ntitle = \"a\"\ntitel = \"b\"\n", Format::Toml, "plan, line 3: unknown field `titel`"),
            ("[[task]]\nname = \"a\"\n", Format::Toml, "missing field `title`"),
            ("[[task]]\ntitle = \"a\n", Format::Toml, "plan, line 2"),
            (
                "[[task]]\ntitle = \"a\"\npriority = \"P9\"\n",
                Format::Toml,
                "task 1 of the plan ('a'): 'P9' is not a priority",
            ),
            ("[[task]]\ntitle = \"a\"\ntier = 9\n", Format::Toml, "task 1 of the plan ('a'): '9'"),
            ("[[task]]\ntitle = \"a\"\nnot_before = 9\n", Format::Toml, "'9' is not a time"),
            ("[[task]]\ntitle = \"a\"\nnot_before = \"soon\"\n", Format::Toml, "not_before: write a time"),
            (
                "[[task]]\nname = \"x\"\ntitle = \"a\"\norigin = \"y\"\n",
                Format::Toml,
                "('x'): 'y' is not an origin",
            ),
            (
                "[[task]]\ntitle = \"a\"\nconstraints = [\"no_rest\"]\n",
                Format::Toml,
                "task 1 of the plan ('a'): 'no_rest' is not a constraint",
            ),
            ("[plan]\n", Format::Toml, "unknown field `plan`"),
            ("", Format::Toml, "missing field `task`"),
            ("{\"tasks\":[{\"title\":\"a\",\n\"x\":1}]}", Format::Json, "unknown field `x`"),
            ("{\"tasks\":[{\"title\":\"a\",\n\"x\":1}]}", Format::Json, "line 2"),
            ("[{\"title\":\"a\"}]", Format::Json, "write {\"tasks\""),
            ("{\"tasks\":[{\"title\":\"a\"}]} more", Format::Json, "trailing characters"),
        ] {
            let message = refused(text, format);
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }
}
