use std::io::IsTerminal as _;

use onus_core::actor::Tier;
use onus_core::command::{Act, Command, Edit};
use onus_core::constraint::{Constraint, ConstraintKind};
use onus_core::gate::GateKey;
use onus_core::ids::{TaskRef, Version};
use onus_core::lease::Mode;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::{Priority, TaskType};

use crate::args::{ForceArgs, Key, Target, parse, parse_priority, parse_schedule, text_or_stdin};
use crate::context::Context;
use crate::editor;
use onus_host::target;

/// Change a task's fields; the others stay as they are
///
/// On a terminal and without options, it opens the title and body in your editor (VISUAL, or else EDITOR, or else vi).
///
/// While another actor has a live lease, agents may not edit the task; people may. A new constraint binds the
/// current holder at once; a lifted one still binds the work done under its lease. Agents may only tighten constraints.
/// An empty value clears --body, --area, --iteration, --owner, --parent, --not-before, --max-attempts or a --ref
/// (`--ref jira:`).
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// What to do, in one line
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The details (- reads standard input)
    #[arg(short = 'd', long = "body", value_name = "TEXT")]
    body: Option<String>,
    /// Clear the details
    #[arg(long, conflicts_with = "body")]
    no_body: bool,
    /// epic, feature, story, task or bug
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse::<TaskType>)]
    kind: Option<TaskType>,
    /// P0 or 0 (most urgent) to P4
    #[arg(short, long, value_name = "P0..P4", value_parser = parse_priority)]
    priority: Option<Priority>,
    /// The tier an actor needs to claim it; only people may lower it
    #[arg(long, value_name = "0..3", value_parser = parse::<Tier>)]
    tier: Option<Tier>,
    /// The person accountable for it (human:NAME); anyone may hold it
    #[arg(long, value_name = "ACTOR")]
    owner: Option<String>,
    /// The part of the project it belongs to
    #[arg(long, value_name = "WORD")]
    area: Option<String>,
    /// The sprint or milestone it is planned for
    #[arg(long, value_name = "WORD")]
    iteration: Option<String>,
    /// Add a tag; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Remove a tag; repeatable
    #[arg(long = "untag", value_name = "TAG")]
    untags: Vec<String>,
    /// Its id in another system, such as jira:WEB-7; repeatable
    #[arg(long = "ref", value_name = "SYSTEM:ID", value_parser = super::add::parse_ref)]
    refs: Vec<(String, String)>,
    /// Remove its id in another system, such as jira; repeatable
    #[arg(long = "unref", value_name = "SYSTEM")]
    unrefs: Vec<String>,
    /// Add a line that must be true before it counts as accepted; repeatable
    #[arg(long, value_name = "TEXT")]
    acceptance: Vec<String>,
    /// What its holder may not do: read_only, no_delete, no_land, max_files=N or max_lines=N; repeatable
    #[arg(long = "constraint", value_name = "CONSTRAINT", value_parser = parse::<Constraint>)]
    constraints: Vec<Constraint>,
    /// Lift a constraint, such as max_files; people only; repeatable
    #[arg(long = "no-constraint", value_name = "NAME", value_parser = parse::<ConstraintKind>)]
    no_constraints: Vec<ConstraintKind>,
    /// A gate it must pass in addition to those for all tasks: the key of a `[[gate]]` in onus.toml; repeatable
    #[arg(long = "gate", value_name = "KEY", value_parser = parse::<GateKey>)]
    gates: Vec<GateKey>,
    /// Remove a gate that the task names; people only; repeatable
    #[arg(long = "no-gate", value_name = "KEY", value_parser = parse::<GateKey>)]
    no_gates: Vec<GateKey>,
    /// The task it is part of
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Add a related task; repeatable
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    relate: Vec<TaskRef>,
    /// Remove a related task; repeatable
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    unrelate: Vec<TaskRef>,
    /// Add paths that later holders reserve: a glob from the repository's root; repeatable
    #[arg(long = "scope", value_name = "GLOB")]
    scope: Vec<String>,
    /// Remove a glob, written as `show` prints it; repeatable
    #[arg(long = "unscope", value_name = "GLOB")]
    unscope: Vec<String>,
    /// exclusive, or shared with other tasks that also share their paths
    #[arg(long = "scope-mode", value_name = "MODE", value_parser = parse::<Mode>)]
    mode: Option<Mode>,
    /// Not ready before this time, local date, or duration from now
    #[arg(long, value_name = "WHEN")]
    not_before: Option<String>,
    /// How often it may be retried after failing
    #[arg(long, value_name = "N")]
    max_attempts: Option<String>,
    /// Refuse if the task is no longer at this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let clearable = |text: String| Some(text).filter(|text| !text.is_empty());
    let (add_scope, add_scope_areas) = context.scope(&args.scope)?;
    let area = args
        .area
        .map(clearable)
        .map(|label| onus_host::scopes::area_label(&context.host, label))
        .transpose()?;
    let edit = Edit {
        link: None,
        title: args.title,
        body: match args.body.map(text_or_stdin).transpose()? {
            Some(text) => Some(clearable(text)),
            None => args.no_body.then_some(None),
        },
        kind: args.kind,
        priority: args.priority,
        required_tier: args.tier,
        area,
        iteration: args.iteration.map(clearable),
        owner: parsed_or_cleared(args.owner, |name| name.parse())?,
        add_tags: args.tags,
        remove_tags: args.untags,
        refs: args
            .refs
            .into_iter()
            .map(|(system, id)| (system, clearable(id)))
            .chain(args.unrefs.into_iter().map(|system| (system, None)))
            .collect(),
        constraints: args.constraints.into_iter().collect(),
        lift: args.no_constraints.into_iter().collect(),
        add_gates: context.host.known_gates(args.gates)?,
        remove_gates: args.no_gates.into_iter().collect(),
        defined: Vec::new(),
        acceptance: args.acceptance,
        parent: parsed_or_cleared(args.parent, |id| id.parse())?,
        relate: args.relate,
        unrelate: args.unrelate,
        add_scope,
        add_scope_areas,
        remove_scope: onus_host::scopes::unreserved(&context.host, &args.unscope)?,
        mode: args.mode,
        not_before: parsed_or_cleared(args.not_before, |when| parse_schedule(when).map_err(Refusal::usage))?,
        max_attempts: parsed_or_cleared(args.max_attempts, |count| {
            let wrong = || format!("'{}' is not a number", onus_core::ids::shortened(count));
            count.parse().map_err(|_| Refusal::usage(wrong()))
        })?,
        if_version: args.if_version.map(Version),
    };
    let nothing = Edit { if_version: edit.if_version, ..Edit::default() };
    let is_at_terminal =
        || !context.out.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if edit == nothing && is_at_terminal() {
        return in_editor(context, args.target, edit.if_version, &args.force, args.key);
    }
    if edit == nothing {
        return Err(Refusal::usage("no change given").next(Step::HelpOn("edit")));
    }
    super::act(context, args.target, Act::Edit(edit), Some(&args.force), args.key, "changed")
}

/// The new value of a field, if one is given; an empty one clears the field.
fn parsed_or_cleared<T>(
    text: Option<String>,
    parse: impl FnOnce(&str) -> Result<T, Refusal>,
) -> Result<Option<Option<T>>, Refusal> {
    text.map(|text| if text.is_empty() { Ok(None) } else { parse(&text).map(Some) }).transpose()
}

/// Edits title and body in the user's editor. A change that somebody else makes meanwhile is not overwritten.
fn in_editor(
    context: &Context,
    on: Target,
    if_version: Option<Version>,
    force: &ForceArgs,
    key: Key,
) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let task = engine.show(identity.as_ref(), target(on.task)?.as_ref())?.value;
    // An editor may be open for hours: the store is closed meanwhile.
    drop(engine);
    let draft = editor::edit(&task.id, &task.title, task.body.as_deref())?;
    let edit = Edit {
        title: Some(&draft.title).filter(|title| **title != task.title).cloned(),
        body: Some(&draft.body).filter(|body| **body != task.body).cloned(),
        if_version: Some(if_version.unwrap_or(Version(task.version))),
        ..Edit::default()
    };
    if edit.title.is_none() && edit.body.is_none() {
        return Err(Refusal::new(Code::Nothing, format!("{} was left as it is", task.id)).task(&task.id));
    }
    let command =
        Command::OnTask { task: Some(task.uid.parse()?), act: Act::Edit(edit), force: force.force() };
    match context.run(command, key.key) {
        Ok(reply) => super::print_task(context, &reply, "changed"),
        Err(refusal) => Err(draft.kept(refusal)),
    }
}
