use clap::Subcommand;
use onus_core::actor::ActorName;
use onus_core::command::Command;
use onus_core::ids::TaskRef;
use onus_core::timesheet::Calendar;
use onus_engine::{Billing, By, SheetPart, SheetQuery, SheetRow, SheetView};
use serde_json::{json, to_value};

use crate::args::{Key, one_of, parse};
use crate::calendar::{Days, clock};
use crate::context::Context;
use crate::grid::{Column, Grid, Kind, tags, text};
use crate::hours;
use crate::ics;
use crate::output::escape_line;
use crate::progress::shown;
use crate::render::local_time;

/// Show hours: the sums of what was recorded as work
///
/// Nobody types hours: they are added up from work sessions. People's and agents' stand side by side. A session across midnight
/// counts for both days. Work that is going on and not recorded yet is listed below the table, and not counted.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(mut_arg("since", |since| Days::starting(since, "monday")))]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// A row for each of these, in this order; repeatable. tag: all tags of a task together; parent: the outermost task that it
    /// is a part of. Default: actor, task, day
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = one_of(BY))]
    by: Vec<By>,
    #[command(flatten)]
    days: Days,
    /// Only this actor's
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    actor: Option<ActorName>,
    /// Only this task and its parts
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    under: Option<TaskRef>,
    /// Only tasks with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Name every stretch behind the sums, with the event that records it and its hash
    #[arg(long)]
    explain: bool,
    /// For a spreadsheet; formulas in titles are made harmless
    #[arg(long, group = "format")]
    csv: bool,
    /// As Markdown
    #[arg(long, group = "format")]
    md: bool,
    /// As iCalendar: every stretch is an event
    #[arg(long, group = "format", conflicts_with = "explain")]
    ics: bool,
}

#[derive(Subcommand, Debug)]
enum Sub {
    Seal(Seal),
}

/// Keep a month's hours as they are now
///
/// The sums of each actor become an event. What is recorded or corrected later shows beside them as a correction. A ledger seal
/// (onus ledger seal) anchors it outside the store.
#[derive(clap::Args, Debug)]
struct Seal {
    /// The month: 2026-10
    #[arg(long, value_name = "MONTH")]
    month: String,
    /// The time zone in which days begin. Default: this system's
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    #[command(flatten)]
    key: Key,
}

const BY: &[(&str, By)] = &[
    ("actor", By::Actor),
    ("task", By::Task),
    ("day", By::Day),
    ("week", By::Week),
    ("area", By::Area),
    ("tag", By::Tag),
    ("parent", By::Parent),
];

/// Seals a month, and shows its hours.
fn seal(context: &Context, args: Seal) -> super::Result {
    let (calendar, zone) = Days::month(&args.month, args.zone)?;
    let command = Command::SealTimesheet {
        month: args.month.clone(),
        zone,
        since_ms: calendar.start_ms(),
        until_ms: calendar.end_ms(),
    };
    let reply = context.run(command, args.key.key)?;
    let (mut engine, _) = context.host.reader()?;
    let sheet = engine.timesheet(None, &by_actor(calendar), None, &mut |_| {})?.value;
    context.out.reply(&reply, json!({ "sealed": sheet.sealed }), || {
        let lines: Vec<String> = std::iter::once(format!("sealed the hours of {}", args.month))
            .chain(sheet.sealed.iter().flat_map(|sealed| &sealed.actors).map(|actor| {
                format!("  {} {}", escape_line(&actor.actor), hours::clock(actor.sealed_seconds))
            }))
            .collect();
        lines.join("\n")
    });
    Ok(())
}

/// Everyone's hours on these days, one row per actor.
pub(super) fn by_actor(calendar: Calendar) -> SheetQuery {
    let by = vec![By::Actor];
    SheetQuery { calendar, by, actor: None, under: None, tag: None, billing: Billing::default() }
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    if let Some(Sub::Seal(args)) = args.command {
        return seal(context, args);
    }
    let mut by: Vec<By> = Vec::new();
    for wanted in args.by {
        if !by.contains(&wanted) {
            by.push(wanted);
        }
    }
    if by.is_empty() {
        by = vec![By::Actor, By::Task, By::Day];
    }
    let query = SheetQuery {
        calendar: args.days.calendar("monday")?,
        by,
        actor: args.actor,
        under: args.under,
        tag: args.tag,
        billing: context.host.config.billing(),
    };
    let out = &context.out;
    let (mut engine, identity) = context.host.reader()?;
    let mut parts = Vec::new();
    let mut keep = |part: SheetPart| parts.push(part);
    let told: Option<&mut dyn FnMut(SheetPart)> =
        if args.explain || args.ics { Some(&mut keep) } else { None };
    let looked =
        shown("days", out.json, |progress| engine.timesheet(identity.as_ref(), &query, told, progress))?;
    let sheet = &looked.value;
    if out.json {
        let mut value = to_value(sheet).unwrap_or_default();
        if args.explain {
            value["stretches"] = json!(parts);
        }
        out.document(value, &looked.notices);
        return Ok(());
    }
    if args.ics {
        out.file(&ics::calendar(&parts, |id| title_of(sheet, id)));
    } else if args.csv {
        out.line(&csv_grid(sheet, &query.by).csv());
    } else {
        let grid = hours_of(sheet, &query.by);
        if args.md {
            out.line(&grid.markdown());
        } else if sheet.rows.is_empty() {
            out.line(&out.dim("(no hours)"));
        } else {
            out.line(&grid.text(out));
        }
        out.line("");
        totals(sheet).iter().for_each(|line| out.line(line));
        if args.explain {
            let zone = args.days.zone()?;
            out.line("");
            for part in &parts {
                out.line(&format!(
                    "{} {}  {:>9}  {}  {}  event {} {}",
                    part.day,
                    clock(&part.start, &zone),
                    hours::clock(part.seconds),
                    escape_line(&part.actor),
                    part.session,
                    part.version,
                    part.hash,
                ));
            }
        }
    }
    out.notices(&looked.notices);
    Ok(())
}

fn title_of(sheet: &SheetView, id: &str) -> String {
    let row = sheet.rows.iter().find(|row| row.task.as_deref() == Some(id));
    row.and_then(|row| row.title.clone()).unwrap_or_default()
}

/// The columns that identify a row.
fn keys(by: &[By]) -> Vec<Column<SheetRow>> {
    let columns = |by: &By| -> &'static [Column<SheetRow>] {
        match by {
            By::Actor => &[("actor", Kind::Word, |row| text(&row.actor))],
            By::Task => {
                &[("task", Kind::Word, |row| text(&row.task)), ("title", Kind::Title, |row| text(&row.title))]
            }
            By::Day => &[("day", Kind::Word, |row| text(&row.day))],
            By::Week => &[("week", Kind::Word, |row| text(&row.week))],
            By::Area => &[("area", Kind::Word, |row| text(&row.area))],
            By::Tag => &[("tags", Kind::Word, |row| tags(&row.tags))],
            By::Parent => &[
                ("parent", Kind::Word, |row| text(&row.parent)),
                ("parent title", Kind::Title, |row| text(&row.parent_title)),
            ],
        }
    };
    by.iter().flat_map(columns).copied().collect()
}

/// The table for people. An actor is either a person or not, so if rows are by actor, one column of hours is enough.
pub(super) fn hours_of(sheet: &SheetView, by: &[By]) -> Grid {
    let is_by_actor = by.contains(&By::Actor);
    let is_billed = sheet.rows.iter().any(|row| row.billable_seconds.is_some());
    let is_priced = sheet.rows.iter().any(|row| row.amount.is_some());
    let mut columns = keys(by);
    if is_by_actor {
        columns.push(("hours", Kind::Number, |row| hours::clock(row.seconds)));
    } else {
        columns.push(("people", Kind::Number, |row| hours::clock(row.people_seconds)));
        columns.push(("agents", Kind::Number, |row| hours::clock(row.agent_seconds)));
    }
    if is_billed {
        let billable = |row: &SheetRow| hours::clock(row.billable_seconds.unwrap_or_default());
        columns.push(("billable", Kind::Number, billable));
    }
    if is_priced {
        columns.push(("amount", Kind::Number, |row| format!("{:.2}", row.amount.unwrap_or_default())));
    }
    Grid::of(&columns, &sheet.rows)
}

/// The table for programs: seconds, to the millisecond.
fn csv_grid(sheet: &SheetView, by: &[By]) -> Grid {
    fn number(value: Option<f64>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let sums: [Column<SheetRow>; 5] = [
        ("seconds", Kind::Number, |row| row.seconds.to_string()),
        ("people_seconds", Kind::Number, |row| row.people_seconds.to_string()),
        ("agent_seconds", Kind::Number, |row| row.agent_seconds.to_string()),
        ("billable_seconds", Kind::Number, |row| number(row.billable_seconds)),
        ("amount", Kind::Number, |row| number(row.amount)),
    ];
    Grid::of(&[keys(by).as_slice(), &sums].concat(), &sheet.rows)
}

/// The totals. People's and agents' hours are not added up: an hour of one is not an hour of the other.
pub(super) fn totals(sheet: &SheetView) -> Vec<String> {
    let mut lines = vec![format!(
        "people {}, agents {} ({} to {})",
        hours::spoken(sheet.people_seconds),
        hours::spoken(sheet.agent_seconds),
        sheet.since,
        sheet.until
    )];
    if let Some(sealed) = &sheet.sealed {
        lines.push(format!("sealed {} by {}", local_time(&sealed.sealed_at), escape_line(&sealed.by)));
        for actor in sealed.actors.iter().filter(|actor| actor.correction_seconds != 0.0) {
            lines.push(format!(
                "{} had {}: {} since, as corrections",
                escape_line(&actor.actor),
                hours::clock(actor.sealed_seconds),
                hours::clock(actor.correction_seconds)
            ));
        }
    }
    for actor in &sheet.actors {
        let name = escape_line(&actor.actor);
        if actor.wall_seconds < actor.seconds {
            lines.push(format!(
                "{name} worked on several tasks at once: {} by the clock",
                hours::spoken(actor.wall_seconds)
            ));
        }
        if actor.pending_seconds > 0.0 {
            lines.push(format!(
                "{name} is still at work: {} not recorded yet",
                hours::spoken(actor.pending_seconds)
            ));
        }
    }
    lines
}
