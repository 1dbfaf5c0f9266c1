use onus_core::ids::TaskRef;
use onus_core::seat::SeatName;
use onus_engine::LogScope;
use onus_store::{Access, EventQuery, Store as _};
use serde_json::json;

use crate::args::{parse, within};
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
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = within(1_u64, 100_000))]
    limit: u64,
    /// Keep printing events as they happen, until interrupted (with --json: one document per line)
    #[arg(short, long)]
    follow: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let of = match (&args.task, &args.seat) {
        (Some(task), _) => LogScope::Task(task),
        (None, Some(seat)) => LogScope::Seat(seat),
        (None, None) => LogScope::All,
    };
    // The watch begins before the first query, so that no later event is missed.
    let mut watch = if args.follow { Some(engine.store().watch()?) } else { None };
    // A follower continues from the last event shown, so no event is shown while an earlier one may still come.
    let first = EventQuery { newest: true, settled: args.follow, limit: args.limit, ..EventQuery::default() };
    let mut looked = engine.events(identity.as_ref(), of, &first)?;
    loop {
        let page = &looked.value;
        if context.out.json {
            let events: Vec<_> = page.records.iter().map(onus_core::chain::Record::to_json).collect();
            // A follower gets no document for an empty page.
            if !(args.follow && events.is_empty()) {
                context.out.document(json!({ "events": events, "texts": page.texts }), &looked.notices);
            }
        } else {
            for record in &page.records {
                context.out.prose(&story::line(&context.out, page, record, of == LogScope::All));
            }
        }
        let Some(watch) = &mut watch else {
            context.out.notices(&looked.notices);
            return Ok(());
        };
        let after = page.last_seq;
        // After a full page there may be more, so the next one is read without waiting.
        if (page.records.len() as u64) < args.limit {
            watch.wait(None, &[])?;
            if engine.store().is_frozen() {
                engine = context.host.engine(Access::Read)?;
                *watch = engine.store().watch()?;
            }
        }
        let next = EventQuery { after_seq: after, newest: false, ..first.clone() };
        looked = engine.events(None, of, &next)?;
    }
}
