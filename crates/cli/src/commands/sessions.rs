use onus_core::actor::ActorName;
use onus_core::ids::TaskRef;
use onus_core::session::UsageSource;
use onus_engine::{SessionQuery, SessionView, UsageView};
use onus_store::Window;
use serde_json::json;

use crate::args::{parse, within};
use crate::calendar::Days;
use crate::context::Context;
use crate::grid::{Column, Grid, Kind};
use crate::hours;
use crate::output::escape_line;
use crate::render::{grouped, local_time};

/// List work sessions, the newest first
///
/// A session is the work under one lease; WS-3#2 is the second lease of WS-3. Worked is the sum of its stretches; held is the
/// time from the claim to its end. Waited is the time at permission prompts, as agents' hooks report it, and in review: neither is
/// work.
#[derive(clap::Args, Debug)]
#[command(mut_arg("since", |since| Days::starting(since, "7d")))]
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
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = within(1_u64, 10_000))]
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
    out.show(json!({ "sessions": sessions }), &looked.notices, || {
        if sessions.is_empty() {
            return out.dim("(none)");
        }
        let used: Vec<String> = sessions.iter().flat_map(used).collect();
        let gap = if used.is_empty() { "" } else { "\n\n" };
        format!("{}{gap}{}", table(sessions).text(out), used.join("\n"))
    });
    Ok(())
}

/// Columns that no session has anything for are left out.
fn table(sessions: &[SessionView]) -> Grid {
    let has_waited = sessions.iter().any(|session| session.waiting_seconds.is_some());
    let has_commits = sessions.iter().any(|session| !session.commits.is_empty());
    let columns: [(bool, Column<SessionView>); 9] = [
        (true, ("session", Kind::Word, |session| session.session.clone())),
        (true, ("actor", Kind::Word, |session| escape_line(&session.actor))),
        (true, ("began", Kind::Word, |session| local_time(&session.started_at))),
        (true, ("worked", Kind::Number, |session| hours::clock(session.worked_seconds))),
        (
            has_waited,
            ("waited", Kind::Number, |session| session.waiting_seconds.map(hours::clock).unwrap_or_default()),
        ),
        (true, ("held", Kind::Number, |session| hours::clock(session.held_seconds))),
        (has_commits, ("commits", Kind::Number, |session| session.commits.len().to_string())),
        (true, ("outcome", Kind::Word, outcome)),
        (true, ("title", Kind::Title, |session| escape_line(&session.title))),
    ];
    let shown = columns.into_iter().filter_map(|(is_shown, column)| is_shown.then_some(column));
    Grid::of(&shown.collect::<Vec<_>>(), sessions)
}

fn outcome(session: &SessionView) -> String {
    match session.outcome {
        Some(_) if session.waits => "in review".to_owned(),
        Some(how) => how.as_str().replace('_', " "),
        None if !session.live => "lapsed".to_owned(),
        None if session.waits => "asks".to_owned(),
        None => "running".to_owned(),
    }
}

/// What a session used, one line per model.
fn used(session: &SessionView) -> Vec<String> {
    let said = |usage: &UsageView| {
        let tokens = |count: Option<u64>, what: &str| count.map(|count| format!("{} {what}", grouped(count)));
        let facts = [
            tokens(usage.tokens_in, "tokens in"),
            tokens(usage.tokens_cached.filter(|cached| *cached > 0), "of them cached"),
            tokens(usage.tokens_out, "out"),
            usage.cost.map(|cost| format!("{cost:.2} {}", usage.currency.as_deref().unwrap_or_default())),
            Some(usage.source)
                .filter(|source| *source != UsageSource::Actual)
                .map(|source| source.to_string()),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        let model = usage.model.as_deref().map_or_else(|| "a model".to_owned(), escape_line);
        format!("{} used {model}: {}", session.session, facts.join(", "))
    };
    session.usage.iter().map(said).collect()
}
