use onus_core::actor::ActorName;
use onus_core::refusal::Refusal;
use onus_core::task::{Origin, Priority, State, TaskType};
use onus_store::Filter;

use crate::args::{parse, parse_priority, within};
use crate::context::Context;
use crate::listing::Listing;

/// List unfinished tasks, by priority, then age
///
/// Each with its holder, or with what is in its way. Titles are cut to the width of the terminal (or to COLUMNS); in a
/// pipe nothing is cut. Ad-hoc tasks, which agents' hooks open for edits without a task, are only counted, unless you ask for
/// them or for one actor's tasks.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Include done, dropped and ad-hoc tasks
    #[arg(long)]
    all: bool,
    /// Only ad-hoc tasks
    #[arg(long)]
    ad_hoc: bool,
    /// Only tasks in this state: proposed, open, in_progress, blocked, review, done, failed or dropped; repeatable
    #[arg(long = "state", value_name = "STATE", value_parser = parse::<State>, value_delimiter = ',')]
    states: Vec<State>,
    /// Only tasks of this type: epic, feature, story, task or bug
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse::<TaskType>)]
    kind: Option<TaskType>,
    /// Only tasks of this priority
    #[arg(short, long, value_name = "P0..P4", value_parser = parse_priority)]
    priority: Option<Priority>,
    /// Only tasks with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only tasks this person is accountable for
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    owner: Option<ActorName>,
    /// Only tasks held by this actor
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    holder: Option<ActorName>,
    /// Only tasks you hold
    #[arg(long, conflicts_with = "holder")]
    mine: bool,
    /// Only tasks in this part of the project
    #[arg(long, value_name = "WORD")]
    area: Option<String>,
    /// Only tasks planned for this sprint or milestone
    #[arg(long, value_name = "WORD")]
    iteration: Option<String>,
    /// The task with this origin, finished or not
    #[arg(long, value_name = "CHANNEL:REF", value_parser = parse::<Origin>)]
    origin: Option<Origin>,
    #[command(flatten)]
    page: PageArgs,
    /// Continue after the page that returned this cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct PageArgs {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = within(1_u64, 10_000))]
    pub(super) limit: u64,
}

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let (mut engine, identity) = context.host.reader()?;
    let holder = match (args.mine, &identity) {
        (false, _) => args.holder,
        (true, Some(identity)) => Some(identity.actor.clone()),
        (true, None) => return Err(Refusal::usage("--mine needs an identity: add --as ACTOR")),
    };
    let is_broad = args.all || args.origin.is_some() || holder.is_some();
    let filter = Filter {
        kept_for: None,
        waiting: false,
        ad_hoc: if args.ad_hoc { Some(true) } else { Some(false).filter(|_| !is_broad) },
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
    let (cursor, limit) = (args.cursor.as_deref(), args.page.limit);
    let mut listing = Listing::new(&context.out);
    let looked =
        engine.list_in_sheets(identity.as_ref(), &filter, cursor, limit, &mut |tasks| listing.sheet(tasks));
    listing.end(looked)
}
