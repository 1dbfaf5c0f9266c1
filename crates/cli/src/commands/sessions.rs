use onus_core::actor::ActorName;
use onus_core::ids::TaskRef;
use onus_engine::SessionQuery;
use onus_store::Window;
use serde_json::json;

use crate::args::parse;
use crate::calendar::Days;
use crate::context::Context;
use crate::grid::{Grid, Kind};
use crate::hours;
use crate::output::escape_line;
use crate::render::local_time;

/// List work sessions, the newest first
///
/// A session is the work under one lease; WS-3#2 is the second lease of WS-3. Worked is the sum of its stretches; held is the
/// time from the claim to its end. How long it waited for a person is not known: no agent reports it yet.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only this task's, whenever they were
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
    /// Only this actor's
    #[arg(long, value_name = "ACTOR", conflicts_with = "task", value_parser = parse::<ActorName>)]
    actor: Option<ActorName>,
    #[command(flatten)]
    days: Days,
    /// Show at most this many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let calendar = args.days.calendar("7d")?;
    let query = SessionQuery {
        window: Window { since_ms: calendar.start_ms(), until_ms: calendar.end_ms() },
        actor: args.actor,
        task: args.task,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    };
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.sessions(identity.as_ref(), &query)?;
    let (out, sessions) = (&context.out, &looked.value);
    if out.json {
        out.document(json!({ "sessions": sessions }), &looked.notices);
        return Ok(());
    }
    if sessions.is_empty() {
        out.line(&out.dim("(none)"));
    } else {
        let mut grid = Grid::new(vec![
            ("session", Kind::Word),
            ("actor", Kind::Word),
            ("began", Kind::Word),
            ("worked", Kind::Number),
            ("held", Kind::Number),
            ("commits", Kind::Number),
            ("outcome", Kind::Word),
            ("title", Kind::Title),
        ]);
        for session in sessions {
            let outcome = match session.outcome {
                Some(how) => how.as_str().replace('_', " "),
                None if session.live => "goes on".to_owned(),
                None => "lapsed".to_owned(),
            };
            grid.push(vec![
                session.session.clone(),
                escape_line(&session.actor),
                local_time(&session.started_at),
                hours::clock(session.worked_seconds),
                hours::clock(session.held_seconds),
                session.commits.len().to_string(),
                outcome,
                escape_line(&session.title),
            ]);
        }
        out.line(&grid.text(out));
    }
    out.notices(&looked.notices);
    Ok(())
}
