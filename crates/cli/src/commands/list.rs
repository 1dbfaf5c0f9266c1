use onus_core::actor::ActorName;
use onus_core::refusal::Refusal;
use onus_core::task::{Origin, Priority, State, TaskType};
use onus_engine::{Looked, Page};
use onus_store::Filter;
use serde_json::json;

use crate::args::parse;
use crate::context::Context;
use crate::output::note;
use crate::render;

/// List tasks: unfinished ones, by priority, then age
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Done and dropped ones too
    #[arg(long)]
    all: bool,
    /// Only in this state: proposed, open, in_progress, blocked, review, done, failed or dropped; may be repeated
    #[arg(long = "state", value_name = "STATE", value_parser = parse::<State>, value_delimiter = ',')]
    states: Vec<State>,
    /// Only of this type: epic, feature, story, task or bug
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse::<TaskType>)]
    kind: Option<TaskType>,
    /// Only of this priority
    #[arg(short, long, value_name = "P0..P4", value_parser = parse::<Priority>)]
    priority: Option<Priority>,
    /// Only with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only those that this person is accountable for
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    owner: Option<ActorName>,
    /// Held by this actor
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    holder: Option<ActorName>,
    /// Held by you
    #[arg(long, conflicts_with = "holder")]
    mine: bool,
    /// Only of this part of the project
    #[arg(long, value_name = "WORD")]
    area: Option<String>,
    /// Only planned for this sprint or milestone
    #[arg(long, value_name = "WORD")]
    iteration: Option<String>,
    /// The one that came from there, finished or not
    #[arg(long, value_name = "CHANNEL:REF", value_parser = parse::<Origin>)]
    origin: Option<Origin>,
    #[command(flatten)]
    page: PageArgs,
    /// Go on after the page that gave this cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct PageArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) limit: u64,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.reader()?;
    let holder = match (args.mine, &identity) {
        (false, _) => args.holder,
        (true, Some(identity)) => Some(identity.actor.clone()),
        (true, None) => return Err(Refusal::usage("--mine needs to know who you are: add --as ACTOR")),
    };
    let filter = Filter {
        states: args.states,
        finished: args.all || args.origin.is_some(),
        kind: args.kind,
        priority: args.priority,
        tag: args.tag,
        owner: args.owner,
        area: args.area,
        iteration: args.iteration,
        origin: args.origin,
        holder,
    };
    let looked = engine.list(identity.as_ref(), &filter, args.cursor.as_deref(), args.page.limit)?;
    print(context, &looked);
    Ok(())
}

pub(super) fn print(context: &Context, looked: &Looked<Page>) {
    let page = &looked.value;
    if context.out.json {
        let mut value = json!({ "tasks": page.tasks });
        if let Some(cursor) = &page.cursor {
            value["cursor"] = json!(cursor);
        }
        return context.out.document(value, &looked.notices);
    }
    context.out.line(&render::tasks(&context.out, &page.tasks));
    if let Some(cursor) = &page.cursor {
        note(&format!("more: --cursor {cursor}"));
    }
    context.out.notices(&looked.notices);
}
