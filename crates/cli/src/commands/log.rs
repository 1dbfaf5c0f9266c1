use onus_core::ids::TaskRef;
use onus_store::{Access, Store as _};
use serde_json::json;

use crate::args::parse;
use crate::context::Context;
use crate::story;

/// What happened, a line an event: to a task, or to everything
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task; without it, everything that happened in the project
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
    /// At most this many, the newest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    /// Go on as things happen, until interrupted (with --json: one document a line)
    #[arg(short, long)]
    follow: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.reader()?;
    let task = args.task;
    // Before the first look: what happens after it is heard.
    let mut watch = if args.follow { Some(engine.store().watch()?) } else { None };
    // Who follows goes on from the last event: it is shown none that another could still come before.
    let mut looked = match watch {
        Some(_) => engine.follow(identity.as_ref(), task.as_ref(), 0, true, args.limit)?,
        None => engine.log(identity.as_ref(), task.as_ref(), 0, true, args.limit)?,
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
                context.out.line(&story::line(&context.out, page, record, task.is_none()));
            }
        }
        let Some(watch) = &mut watch else {
            context.out.notices(&looked.notices);
            return Ok(());
        };
        let after = page.last_seq;
        // After a full page there may be more.
        if (page.records.len() as u64) < args.limit {
            watch.wait(None, &[])?;
            if engine.store().is_frozen() {
                engine = context.engine(Access::Read)?;
                *watch = engine.store().watch()?;
            }
        }
        looked = engine.follow(None, task.as_ref(), after, false, args.limit)?;
    }
}
