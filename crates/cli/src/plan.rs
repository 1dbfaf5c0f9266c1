//! Plan files: a whole plan as TOML or JSON, read into the tasks that the engine creates together.
//!
//! Tasks speak of one another by names that mean something in the file alone. What is not a name of the plan is the
//! reference of a task that exists, such as `ON-3`; what is neither goes to the engine as a name, which knows best what was
//! meant. Nothing is guessed: an unknown field is refused, with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;

use onus_core::actor::Tier;
use onus_core::command::{NewTask, PlannedTask, Schedule, TaskLink};
use onus_core::ids::shortened;
use onus_core::lease::Mode;
use onus_core::plan::of_entry;
use onus_core::refusal::Refusal;
use onus_core::scope::Glob;
use onus_core::task::Facts;

use crate::args::{parse_schedule, text_or_stdin};

/// The most bytes that a plan may have.
const MAX_BYTES: u64 = 1 << 20;

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

/// The plan in a file, or in standard input if that is `-`.
pub(crate) fn read(file: &Path) -> Result<Vec<PlannedTask>, Refusal> {
    if file == Path::new("-") {
        let text = text_or_stdin("-".to_owned())?;
        let format = if text.trim_start().starts_with('{') { Format::Json } else { Format::Toml };
        return parse(&text, format, "standard input");
    }
    let name = crate::output::path_text(file);
    let format = match file.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Format::Toml,
        Some("json") => Format::Json,
        _ => return Err(Refusal::usage(format!("{name} is no plan: its name must end in .toml or .json"))),
    };
    parse(&bounded(file, &name)?, format, &name)
}

fn bounded(file: &Path, name: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Refusal::usage(format!("{name} cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Refusal::usage(format!("{name} has more than {MAX_BYTES} bytes: divide the plan")));
    }
    String::from_utf8(bytes).map_err(|_| Refusal::usage(format!("{name} is not UTF-8 text")))
}

fn parse(text: &str, format: Format, name: &str) -> Result<Vec<PlannedTask>, Refusal> {
    if format == Format::Json && !text.trim_start().starts_with('{') {
        return Err(Refusal::usage(format!(
            "{name} is no plan: write {{\"tasks\": [{{\"title\": \"…\"}}, …]}}"
        )));
    }
    let file: File = match format {
        Format::Json => serde_json::from_str(text)
            .map_err(|error| Refusal::usage(format!("{name} is no plan: {error}")))?,
        Format::Toml => toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
            Refusal::usage(format!("{name}{line}: {}", error.message().replace('\n', "; ")))
        })?,
    };
    let names: BTreeSet<String> = file.task.iter().filter_map(|entry| entry.name.clone()).collect();
    let titles: Vec<PlannedTask> = file.task.iter().map(Entry::titled).collect();
    let planned = file
        .task
        .into_iter()
        .enumerate()
        .map(|(index, entry)| entry.planned(&names).map_err(|refusal| of_entry(&titles, index, refusal)));
    planned.collect()
}

impl Entry {
    /// What a refusal calls it by.
    fn titled(&self) -> PlannedTask {
        PlannedTask { name: self.name.clone(), task: NewTask::titled(self.title.clone()) }
    }

    fn planned(self, names: &BTreeSet<String>) -> Result<PlannedTask, Refusal> {
        let plain = Facts::default();
        let facts = Facts {
            kind: self.kind.map(|text| text.parse()).transpose()?.unwrap_or(plain.kind),
            priority: self.priority.map(|text| text.parse()).transpose()?.unwrap_or(plain.priority),
            required_tier: self.tier.map(tier).transpose()?.unwrap_or(plain.required_tier),
            area: self.area,
            iteration: self.iteration,
            owner: self.owner.map(|text| text.parse()).transpose()?,
            tags: self.tags,
            refs: self.refs,
            max_attempts: self.max_attempts,
            scope: self.scope.iter().map(|glob| glob.parse::<Glob>()).collect::<Result<_, _>>()?,
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
            parent: self.parent.map(link),
            deps: self.deps.into_iter().map(link).collect(),
            relates: self.relates.into_iter().map(link).collect(),
            not_before: self.not_before.map(schedule).transpose()?,
            origin: self.origin.map(|text| text.parse()).transpose()?,
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
        deps = ["ON-3", "cafe", "12"]
        relates = ["epic"]
        not_before = 2027-01-01T00:00:00Z
        max_attempts = 5
        scope = ["api/**", "Cargo.lock"]
        shared = true
        origin = "mail:7"
        owner = "human:ann"
        area = "web"
        iteration = "7"
        propose = true
        [task.refs]
        jira = "WEB-7"
    "#;

    #[test]
    fn a_plan_says_everything_that_add_can_say() {
        let plan = parse(FULL, Format::Toml, "plan.toml").unwrap();
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
        assert_eq!(*deps, [on("ON-3"), on("cafe"), on("12")]);
        assert_eq!(*not_before, Some(Schedule::At { ms: 1_798_761_600_000 }));
    }

    #[test]
    fn json_says_the_same() {
        let value: toml::Value =
            toml::from_str(&FULL.replace("2027-01-01T00:00:00Z", "\"2027-01-01T00:00:00Z\"")).unwrap();
        let text = serde_json::to_string(&value).unwrap();
        let plan = parse(FULL, Format::Toml, "plan.toml").unwrap();
        assert_eq!(parse(&text, Format::Json, "plan.json").unwrap(), plan);
        assert_eq!(parse(&text.replacen("task", "tasks", 1), Format::Json, "plan.json").unwrap(), plan);
    }

    #[test]
    fn a_name_of_the_plan_comes_before_a_part_of_a_uid() {
        let text = "[[task]]\nname = \"cafe\"\ntitle = \"a\"\n[[task]]\ntitle = \"b\"\ndeps = [\"cafe\", \"no such\"]\n";
        let plan = parse(text, Format::Toml, "plan.toml").unwrap();
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
                let _ = parse(&text, format, "plan");
            }
        });
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let refused = |text: &str, format| parse(text, format, "plan").unwrap_err().message;
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
