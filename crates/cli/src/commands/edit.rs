use onus_core::actor::{ActorName, Tier};
use onus_core::command::{Act, Edit};
use onus_core::ids::{TaskRef, Version};
use onus_core::lease::Mode;
use onus_core::refusal::Refusal;
use onus_core::scope::Glob;
use onus_core::task::{Priority, TaskType};

use crate::args::{ForceArgs, Key, Target, parse, parse_schedule, text_or_stdin};
use crate::context::Context;

/// Change a task's fields; what is not named stays
///
/// While another holds the task live, agents may not edit it; people may.
/// An empty value clears --area, --iteration, --owner, --parent, --not-before, --max-attempts and a --ref
/// (`--ref jira:`).
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// What is to be done, in a line
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The details (- reads standard input)
    #[arg(short = 'd', long = "body", value_name = "TEXT")]
    body: Option<String>,
    /// epic, feature, story, task or bug
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse::<TaskType>)]
    kind: Option<TaskType>,
    /// P0 (first) to P4
    #[arg(short, long, value_name = "P0..P4", value_parser = parse::<Priority>)]
    priority: Option<Priority>,
    /// The tier an actor needs to claim it; only people may lower it
    #[arg(long, value_name = "0..3", value_parser = parse::<Tier>)]
    tier: Option<Tier>,
    /// The accountable person (human:NAME), who need not be the holder
    #[arg(long, value_name = "ACTOR")]
    owner: Option<String>,
    /// The part of the project it belongs to
    #[arg(long, value_name = "WORD")]
    area: Option<String>,
    /// The sprint or milestone it is planned for
    #[arg(long, value_name = "WORD")]
    iteration: Option<String>,
    /// Add a tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Remove a tag; may be repeated
    #[arg(long = "untag", value_name = "TAG")]
    untags: Vec<String>,
    /// The same thing elsewhere, such as jira:WEB-7; may be repeated
    #[arg(long = "ref", value_name = "SYSTEM:ID", value_parser = super::add::parse_ref)]
    refs: Vec<(String, String)>,
    /// The task it is a part of
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// A task worth reading beside it; may be repeated
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    relate: Vec<TaskRef>,
    /// Take such a link away; may be repeated
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    unrelate: Vec<TaskRef>,
    /// Paths that whoever claims it from now on reserves: a glob from the repository's root; may be repeated
    #[arg(long = "scope", value_name = "GLOB")]
    scope: Vec<String>,
    /// Take such a glob away, named as `show` has it; may be repeated
    #[arg(long = "unscope", value_name = "GLOB")]
    unscope: Vec<String>,
    /// exclusive, or shared with others that share their paths, too
    #[arg(long = "scope-mode", value_name = "MODE", value_parser = parse::<Mode>)]
    mode: Option<Mode>,
    /// Not ready before this time, local date, or so long from now
    #[arg(long, value_name = "WHEN")]
    not_before: Option<String>,
    /// How often it may be tried again after it failed
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
    let owner = match args.owner.map(clearable) {
        Some(Some(name)) => Some(Some(name.parse::<ActorName>()?)),
        Some(None) => Some(None),
        None => None,
    };
    let edit = Edit {
        title: args.title,
        body: args.body.map(text_or_stdin).transpose()?,
        kind: args.kind,
        priority: args.priority,
        required_tier: args.tier,
        area: args.area.map(clearable),
        iteration: args.iteration.map(clearable),
        owner,
        add_tags: args.tags,
        remove_tags: args.untags,
        refs: args.refs.into_iter().map(|(system, id)| (system, clearable(id))).collect(),
        parent: match args.parent.map(clearable) {
            Some(Some(id)) => Some(Some(id.parse::<TaskRef>()?)),
            Some(None) => Some(None),
            None => None,
        },
        relate: args.relate,
        unrelate: args.unrelate,
        add_scope: crate::scopes::scope(context, &args.scope)?,
        remove_scope: args.unscope.iter().map(|glob| glob.parse::<Glob>()).collect::<Result<_, _>>()?,
        mode: args.mode,
        not_before: match args.not_before.map(clearable) {
            Some(Some(when)) => Some(Some(parse_schedule(&when).map_err(Refusal::usage)?)),
            Some(None) => Some(None),
            None => None,
        },
        max_attempts: match args.max_attempts.map(clearable) {
            Some(Some(count)) => Some(Some(count.parse().map_err(|_| {
                Refusal::usage(format!("'{}' is not a number", onus_core::ids::shortened(&count)))
            })?)),
            Some(None) => Some(None),
            None => None,
        },
        if_version: args.if_version.map(Version),
    };
    let nothing = Edit { if_version: edit.if_version, ..Edit::default() };
    if edit == nothing {
        return Err(Refusal::usage("nothing to change was named: see onus help edit"));
    }
    super::act(context, args.target, Act::Edit(edit), Some(&args.force), args.key, "changed")
}
