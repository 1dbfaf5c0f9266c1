use onus_core::ids::TaskRef;
use onus_core::seat::SeatName;
use onus_engine::LogOf;
use onus_store::{Access, Store as _};
use serde_json::json;

use crate::args::parse;
use crate::context::Context;
use crate::story;

/// Show what happened to a task, or to the whole project, one line per event
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task; default: the whole project
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
    /// What happened to this seat
    #[arg(long, value_name = "NAME", conflicts_with = "task", value_parser = parse::<SeatName>)]
    seat: Option<SeatName>,
    /// Show at most this many, the newest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    /// Keep printing events as they happen, until interrupted (with --json: one document per line)
    #[arg(short, long)]
    follow: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let of = match (&args.task, &args.seat) {
        (Some(task), _) => LogOf::Task(task),
        (None, Some(seat)) => LogOf::Seat(seat),
        (None, None) => LogOf::All,
    };
    // Before the first query, so that nothing after it is missed.
    let mut watch = if args.follow { Some(engine.store().watch()?) } else { None };
    // A follower continues from the last event, so it is shown none that an earlier one could still precede.
    let mut looked = match watch {
        Some(_) => engine.follow(identity.as_ref(), of, 0, true, args.limit)?,
        None => engine.log(identity.as_ref(), of, 0, true, args.limit)?,
    };
    loop {
        let page = &looked.value;
        if context.out.json {
            let events: Vec<_> = page.records.iter().map(onus_core::chain::Record::to_json).collect();
            // While following, silence is not a document.
            if !(args.follow && events.is_empty()) {
                context.out.document(json!({ "events": events, "texts": page.texts }), &looked.notices);
            }
        } else {
            for record in &page.records {
                context.out.prose(&story::line(&context.out, page, record, of == LogOf::All));
            }
        }
        let Some(watch) = &mut watch else {
            context.out.notices(&looked.notices);
            return Ok(());
        };
        let after = page.last_seq;
        // A full page may not be the last.
        if (page.records.len() as u64) < args.limit {
            watch.wait(None, &[])?;
            if engine.store().is_frozen() {
                engine = context.host.engine(Access::Read)?;
                *watch = engine.store().watch()?;
            }
        }
        looked = engine.follow(None, of, after, false, args.limit)?;
    }
}
