use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use onus_core::actor::{ActorName, Tier};
use onus_core::command::{Command, NewTask, Schedule, TaskLink};
use onus_core::constraint::Constraint;
use onus_core::gate::GateKey;
use onus_core::ids::TaskRef;
use onus_core::lease::Mode;
use onus_core::quote::counted;
use onus_core::refusal::Refusal;
use onus_core::task::{Facts, Origin, Priority, TaskType};
use onus_engine::Answer;
use serde_json::json;

use crate::args::{Key, parse, parse_priority, parse_schedule, text_or_stdin};
use crate::context::Context;
use crate::output::escape_line;
use crate::plan::Scoping;
use onus_host::scopes::area_label;

/// Add a task, or a whole plan
///
/// The task starts open, for anyone with a high enough tier to claim. One --origin means one task: adding it again returns
/// the task that exists.
///
/// --file reads a plan: `[[task]]` tables in TOML, or {"tasks": [...]} in JSON, with fields named after the options here
/// (title, body, type, priority, tier, owner, area, iteration, tags, refs, scope, constraints, acceptance, parent,
/// deps, relates, gates, not_before, max_attempts, origin, propose). Give a task a `name`, and the parent, deps and relates of others in the plan can refer
/// to it; refer to existing tasks by id. Either the whole plan is added or none of it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What to do, in one line. `-` reads standard input: the first line is the title, the rest the body
    #[arg(required_unless_present = "file")]
    title: Option<String>,
    /// Add the tasks of a plan, .toml or .json (- reads standard input)
    #[arg(long, value_name = "PLAN", conflicts_with_all = NOT_WITH_FILE)]
    file: Option<PathBuf>,
    /// Show what would be added, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The details (- reads standard input)
    #[arg(short = 'd', long = "body", value_name = "TEXT")]
    body: Option<String>,
    /// One condition for accepting the task, in one line; repeatable
    #[arg(long, value_name = "TEXT")]
    acceptance: Vec<String>,
    #[command(flatten)]
    facts: FactArgs,
    #[command(flatten)]
    links: LinkArgs,
    /// Where the request came from; the same origin always gives the same task
    #[arg(long, value_name = "CHANNEL:REF", value_parser = parse::<Origin>)]
    origin: Option<Origin>,
    /// Only propose it: someone must accept it before it can be claimed
    #[arg(long)]
    propose: bool,
    #[command(flatten)]
    key: Key,
}

/// The options that describe a single task, so that none of them goes with --file.
const NOT_WITH_FILE: [&str; 22] = [
    "title",
    "body",
    "kind",
    "priority",
    "tier",
    "owner",
    "area",
    "iteration",
    "tags",
    "refs",
    "scope",
    "shared",
    "constraints",
    "gates",
    "acceptance",
    "max_attempts",
    "parent",
    "deps",
    "relates",
    "not_before",
    "origin",
    "propose",
];

#[derive(clap::Args, Debug)]
pub(crate) struct FactArgs {
    /// epic, feature, story, task (the default) or bug
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse::<TaskType>)]
    kind: Option<TaskType>,
    /// P0 or 0 (most urgent) to P4; default P2
    #[arg(short, long, value_name = "P0..P4", value_parser = parse_priority)]
    priority: Option<Priority>,
    /// The tier an actor needs to claim it, 0 to 3; default 1
    #[arg(long, value_name = "0..3", value_parser = parse::<Tier>)]
    tier: Option<Tier>,
    /// The person accountable for it (human:NAME); anyone may hold it
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    owner: Option<ActorName>,
    /// The part of the project it belongs to
    #[arg(long, value_name = "WORD")]
    area: Option<String>,
    /// The sprint or milestone it is planned for
    #[arg(long, value_name = "WORD")]
    iteration: Option<String>,
    /// A tag; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Its id in another system, such as jira:WEB-7, which also names the task; repeatable
    #[arg(long = "ref", value_name = "SYSTEM:ID", value_parser = parse_ref)]
    refs: Vec<(String, String)>,
    /// Paths its holder reserves: a glob from the repository's root; repeatable
    #[arg(long = "scope", value_name = "GLOB")]
    scope: Vec<String>,
    /// What its holder may not do: read_only, no_delete, no_land, max_files=N or max_lines=N; repeatable
    #[arg(long = "constraint", value_name = "CONSTRAINT", value_parser = parse::<Constraint>)]
    constraints: Vec<Constraint>,
    /// A gate it must pass in addition to those for all tasks: the key of a `[[gate]]` in onus.toml; repeatable
    #[arg(long = "gate", value_name = "KEY", value_parser = parse::<GateKey>)]
    gates: Vec<GateKey>,
    /// Share the --scope paths with other tasks that also share them
    #[arg(long)]
    shared: bool,
    /// How often it may be retried after failing; default: retry.max_attempts
    #[arg(long, value_name = "N")]
    max_attempts: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct LinkArgs {
    /// The task it is part of; a parent is not ready until its parts are finished
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    parent: Option<TaskRef>,
    /// A task that must be done first; repeatable
    #[arg(long = "dep", value_name = "ID", value_parser = parse::<TaskRef>)]
    deps: Vec<TaskRef>,
    /// A related task; repeatable
    #[arg(long = "relate", value_name = "ID", value_parser = parse::<TaskRef>)]
    relates: Vec<TaskRef>,
    /// Not ready before this time, local date, or duration from now
    #[arg(long, value_name = "WHEN", value_parser = parse_schedule)]
    not_before: Option<Schedule>,
}

pub(super) fn parse_ref(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((system, id)) if !system.is_empty() => Ok((system.to_owned(), id.to_owned())),
        _ => Err("write SYSTEM:ID, such as jira:WEB-7".to_owned()),
    }
}

impl FactArgs {
    fn facts(self, context: &Context) -> Result<Facts, Refusal> {
        let plain = Facts::default();
        let (scope, scope_areas) = context.scope(&self.scope)?;
        Ok(Facts {
            kind: self.kind.unwrap_or(plain.kind),
            priority: self.priority.unwrap_or(plain.priority),
            required_tier: self.tier.unwrap_or(plain.required_tier),
            area: area_label(&context.host, self.area)?,
            iteration: self.iteration,
            owner: self.owner,
            tags: self.tags.into_iter().collect::<BTreeSet<_>>(),
            refs: self.refs.into_iter().collect::<BTreeMap<_, _>>(),
            scope,
            scope_areas,
            constraints: self.constraints.into_iter().collect(),
            gates: context.host.known_gates(self.gates)?,
            mode: if self.shared { Mode::Shared } else { Mode::Exclusive },
            max_attempts: self.max_attempts,
            ..plain
        })
    }
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    match (&args.file, &args.title) {
        (Some(file), _) => add_plan(context, file, args.dry_run, args.key.key.clone()),
        (None, Some(title)) => add_one(context, title.clone(), args),
        (None, None) => Err(Refusal::usage("give a title, or a plan with --file")),
    }
}

fn add_plan(context: &Context, file: &Path, dry_run: bool, key: Option<String>) -> super::Result {
    let scoping = Scoping {
        scope: &|globs| context.scope(globs),
        area: &|label| area_label(&context.host, label),
        gates: &|keys| context.host.known_gates(keys),
    };
    let plan = crate::plan::read(file, &scoping)?;
    let names: Vec<Option<String>> = plan.iter().map(|planned| planned.name.clone()).collect();
    let command = Command::AddPlan(plan);
    let reply = if dry_run { context.rehearse(command, key)? } else { context.run(command, key)? };
    let Answer::Tasks(tasks) = &reply.answer else { return Err(super::unexpected()) };
    let named: BTreeMap<&String, &String> =
        names.iter().zip(tasks).filter_map(|(name, task)| Some((name.as_ref()?, &task.id))).collect();
    let mut value = json!({ "tasks": tasks, "names": named });
    if dry_run {
        value["dry_run"] = json!(true);
    }
    context.out.reply(&reply, value, || {
        let lines = names.iter().zip(tasks).map(|(name, task)| {
            let name = name.as_ref().map(|name| format!("{} → ", escape_line(name))).unwrap_or_default();
            format!("{name}{}: {}", task.id, escape_line(&task.title))
        });
        let how = if dry_run { "would be added" } else { "added" };
        lines.chain([format!("{} {how}", counted(tasks.len() as u64, "task"))]).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

fn add_one(context: &Context, title: String, args: Args) -> super::Result {
    if title == "-" && args.body.as_deref() == Some("-") {
        return Err(Refusal::usage(
            "title and body cannot both be read from standard input: '-' for the title takes both",
        ));
    }
    let (title, rest) = if title == "-" {
        let text = text_or_stdin(title)?;
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        (first.to_owned(), Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty()))
    } else {
        (title, None)
    };
    let body = args.body.map(text_or_stdin).transpose()?.or(rest);
    let LinkArgs { parent, deps, relates, not_before } = args.links;
    let new = NewTask {
        title,
        body,
        facts: args.facts.facts(context)?,
        acceptance: args.acceptance,
        parent: parent.map(TaskLink::Task),
        deps: deps.into_iter().map(TaskLink::Task).collect(),
        relates: relates.into_iter().map(TaskLink::Task).collect(),
        not_before,
        origin: args.origin,
        author: None,
        propose: args.propose,
    };
    let command = Command::Add(new);
    let reply = match args.dry_run {
        true => context.rehearse(command, args.key.key)?,
        false => context.run(command, args.key.key)?,
    };
    let task = super::task_of(&reply)?;
    let mut value = json!(task);
    if args.dry_run {
        value["dry_run"] = json!(true);
    }
    context.out.reply(&reply, value, || {
        let how = match (reply.existing, args.dry_run, args.propose) {
            (true, _, _) => "already exists",
            (false, true, false) => "would be added",
            (false, true, true) => "would be proposed",
            (false, false, false) => "added",
            (false, false, true) => "proposed",
        };
        format!("{} {how}: {}", task.id, escape_line(&task.title))
    });
    Ok(())
}
