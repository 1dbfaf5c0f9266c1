use std::path::PathBuf;

use jiff::tz::TimeZone;
use onus_core::actor::ActorName;
use onus_core::refusal::Refusal;
use onus_engine::{
    AwaitedView, CostBy, CostRow, CostView, DayView, FlowView, Notice, Percentiles, RoundGate, RoundRow,
    RoundView, StandupView, UsageView,
};
use serde::Serialize;

use crate::args::{one_of, parse};
use crate::bars;
use crate::calendar::{Days, clock};
use crate::context::Context;
use crate::grid::{Column, Grid, Kind, markdown, tags, text};
use crate::output::{Output, escape_line};
use crate::progress::shown;
use crate::render::grouped;
use crate::{hours, wording};

/// Reports for people, to be pasted into a chat as they are
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Report {
    /// What was done, is in progress, is blocked or waits for you
    #[command(mut_arg("since", |since| Days::starting(since, "yesterday")))]
    Standup(Form),
    Actor(OneActor),
    Flow(Flow),
    Cost(Cost),
    /// Who did which task on which branch, what conflicted, what it passed, and where it landed
    ///
    /// One row for each task with a branch of its own on which something happened in this time.
    #[command(mut_arg("since", |since| Days::starting(since, "yesterday")))]
    Round(Form),
}

/// The days of a report, and how it is written.
#[derive(clap::Args, Debug)]
pub(crate) struct Form {
    #[command(flatten)]
    days: Days,
    /// As Markdown
    #[arg(long)]
    md: bool,
}

/// How one actor's day went
#[derive(clap::Args, Debug)]
#[command(mut_arg("since", |since| Days::starting(since, "today")))]
pub(crate) struct OneActor {
    /// The actor: human:NAME, agent:NAME or ci:NAME
    #[arg(value_name = "ACTOR", value_parser = parse::<ActorName>)]
    actor: ActorName,
    #[command(flatten)]
    form: Form,
}

/// How long finished tasks took, and how many there were each week
///
/// Lead time runs from the request to done, cycle time from the start of work to done. Percentiles are exact to 1 %. Waiting is
/// the part of the cycle in which nobody held the task: review, a block, or waiting for somebody to take it.
#[derive(clap::Args, Debug)]
#[command(mut_arg("since", |since| Days::starting(since, "83d")))]
pub(crate) struct Flow {
    #[command(flatten)]
    form: Form,
    /// Also draw it into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Sessions' model usage: tokens and money
///
/// As far as it was recorded, by agents' hooks or by onus session record. What nobody reported is left empty: it is unknown, not zero.
#[derive(clap::Args, Debug)]
#[command(mut_arg("since", |since| Days::starting(since, "29d")))]
pub(crate) struct Cost {
    /// A row for each of these; tag: all tags of a task together
    #[arg(long, value_name = "WHAT", default_value = "task", value_parser = one_of(COST_BY))]
    by: CostBy,
    #[command(flatten)]
    form: Form,
}

const COST_BY: &[(&str, CostBy)] =
    &[("task", CostBy::Task), ("tag", CostBy::Tag), ("actor", CostBy::Actor), ("model", CostBy::Model)];

pub(crate) fn run(context: &Context, command: Report) -> super::Result {
    match command {
        Report::Standup(args) => standup(context, &args),
        Report::Actor(args) => actor(context, &args),
        Report::Flow(args) => flow(context, &args),
        Report::Cost(args) => cost(context, &args),
        Report::Round(args) => round(context, &args),
    }
}

/// A page of headings with lines below them.
struct Page<'a> {
    out: &'a Output,
    md: bool,
    lines: Vec<String>,
}

impl<'a> Page<'a> {
    fn new(out: &'a Output, md: bool, title: &str) -> Page<'a> {
        let title = if md { format!("## {}", markdown(title)) } else { out.bold(title) };
        Page { out, md, lines: vec![title] }
    }

    fn heading(&mut self, text: &str) {
        let text = if self.md { format!("### {}", markdown(text)) } else { self.out.bold(text) };
        self.lines.extend([String::new(), text]);
    }

    /// In Markdown, an empty line separates a heading from what follows.
    fn gap(&mut self) {
        if self.md && self.lines.last().is_some_and(|line| line.starts_with('#')) {
            self.lines.push(String::new());
        }
    }

    /// A line: a word of ours, then text that others wrote.
    fn item(&mut self, mark: &str, text: &str) {
        self.gap();
        self.lines.push(match (self.md, mark) {
            (true, "") => format!("- {}", markdown(text)),
            (true, mark) => format!("- **{}** {}", mark.trim(), markdown(text)),
            (false, "") => format!("  {text}"),
            (false, mark) => format!("  {mark} {text}"),
        });
    }

    /// Lines whose columns must stay aligned.
    fn drawing(&mut self, lines: &[String]) {
        self.gap();
        let fence = self.md.then(|| "```".to_owned());
        self.lines.extend(fence.clone());
        self.lines.extend(lines.iter().map(|line| format!("  {line}")));
        self.lines.extend(fence);
    }

    fn table(&mut self, grid: &Grid) {
        let table = if self.md { grid.markdown() } else { grid.text(self.out) };
        self.lines.extend([String::new(), table, String::new()]);
    }

    fn text(self) -> String {
        self.lines.join("\n")
    }
}

/// Prints a report: a document for programs, or a page. Markdown is not wrapped: the program that shows it does that.
fn print(
    out: &Output,
    form: &Form,
    (value, notices): (impl Serialize, &[Notice]),
    page: impl FnOnce() -> String,
) -> super::Result {
    if form.md && !out.json {
        out.line(&page());
        out.notices(notices);
    } else {
        out.show(value, notices, page);
    }
    Ok(())
}

fn standup(context: &Context, form: &Form) -> super::Result {
    let (calendar, zone) = (form.days.calendar("yesterday")?, form.days.zone()?);
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.standup(identity.as_ref(), &calendar)?;
    let (out, standup) = (&context.out, &looked.value);
    print(out, form, (standup.worded(&wording::step), &looked.notices), || {
        standup_page(out, form.md, standup, &zone)
    })
}

pub(super) fn standup_page(out: &Output, md: bool, standup: &StandupView, zone: &TimeZone) -> String {
    let mut page = Page::new(out, md, &format!("Standup: since {}", standup.since));
    let (people, others): (Vec<_>, Vec<_>) =
        standup.actors.iter().partition(|entry| entry.actor.starts_with("human:"));
    for person in people.into_iter().chain(others) {
        let hours = match person.worked_seconds {
            none if none < 1.0 => String::new(),
            seconds => format!(", {}", hours::spoken(seconds)),
        };
        page.heading(&format!("{}{hours}", escape_line(&person.actor)));
        for task in &person.done {
            page.item("done ", &format!("{} {}", task.id, escape_line(&task.title)));
        }
        for work in &person.in_progress {
            let since = clock(&work.since, zone);
            let state = if work.live { format!("since {since}") } else { "lapsed".to_owned() };
            page.item("doing", &format!("{} {} ({state})", work.id, escape_line(&work.title)));
        }
        if person.done.is_empty() && person.in_progress.is_empty() {
            page.item("", "worked, nothing finished yet");
        }
    }
    // A task that waits for the caller is listed only once.
    let others = |list: &[AwaitedView]| -> Vec<AwaitedView> {
        list.iter().filter(|waits| waits.awaited.is_none()).cloned().collect()
    };
    for (title, list) in [
        ("Blocked", others(&standup.blocked)),
        ("In review", others(&standup.review)),
        ("Waiting for you", standup.waiting_for_you.clone()),
    ] {
        if !list.is_empty() {
            page.heading(title);
            list.iter().for_each(|waits| page.item("", &awaited(waits)));
        }
    }
    if standup.actors.is_empty() {
        page.item("", "nothing was done");
    }
    page.text()
}

fn awaited(waits: &AwaitedView) -> String {
    let said = match &waits.last_word {
        Some(word) if word.text.trim().is_empty() => {
            format!("{}, without a reason", escape_line(&word.actor))
        }
        Some(word) => {
            let first = word.text.lines().next().unwrap_or_default();
            format!("{}: {}", escape_line(&word.actor), escape_line(first))
        }
        None => escape_line(&waits.message),
    };
    format!("{} {} ({said})", waits.id, escape_line(&waits.title))
}

fn actor(context: &Context, args: &OneActor) -> super::Result {
    let form = &args.form;
    let (calendar, zone) = (form.days.calendar("today")?, form.days.zone()?);
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.day(identity.as_ref(), &args.actor, &calendar)?;
    let (out, view) = (&context.out, &looked.value);
    print(out, form, (view, &looked.notices), || day_page(out, form.md, view, &zone))
}

fn day_page(out: &Output, md: bool, view: &DayView, zone: &TimeZone) -> String {
    let mut page = Page::new(out, md, &day_title(view));
    let mut day = String::new();
    for entry in &view.entries {
        if entry.day != day {
            page.heading(&entry.day);
            day.clone_from(&entry.day);
        }
        let span = format!("{}–{}", clock(&entry.start, zone), clock(&entry.end, zone));
        let worked = hours::spoken(entry.worked_seconds);
        page.item(&format!("{span}  {worked:<9}"), &format!("{} {}", entry.task, escape_line(&entry.title)));
    }
    if view.entries.is_empty() {
        page.item("", "no recorded work");
    }
    if !view.done.is_empty() {
        page.heading("Done");
        for task in &view.done {
            page.item("", &format!("{} {}", task.id, escape_line(&task.title)));
        }
    }
    page.text()
}

fn day_title(view: &DayView) -> String {
    let days = match view.since == view.until {
        true => view.since.clone(),
        false => format!("{} to {}", view.since, view.until),
    };
    let wall = match view.wall_seconds < view.worked_seconds {
        true => format!(", {} by the clock", hours::spoken(view.wall_seconds)),
        false => String::new(),
    };
    format!("{}: {}, {}{wall}", escape_line(&view.actor), days, hours::spoken(view.worked_seconds))
}

fn flow(context: &Context, args: &Flow) -> super::Result {
    let calendar = args.form.days.calendar("83d")?;
    let (mut engine, identity) = context.host.reader()?;
    let looked =
        shown("days", context.out.json, |progress| engine.flow(identity.as_ref(), &calendar, progress))?;
    let (out, view) = (&context.out, &looked.value);
    if let Some(file) = &args.svg {
        let drawn = bars::svg(&title(view), &weeks(view));
        std::fs::write(file, drawn)
            .map_err(|error| Refusal::usage(format!("cannot write {}: {error}", file.display())))?;
    }
    print(out, &args.form, (view, &looked.notices), || flow_page(out, args.form.md, view))
}

fn flow_page(out: &Output, md: bool, view: &FlowView) -> String {
    let mut page = Page::new(out, md, &title(view));
    page.item("lead time, asked to done:     ", &percentiles(&view.lead));
    page.item("cycle time, started to done:  ", &percentiles(&view.cycle));
    let all = view.worked_seconds + view.idle_seconds + view.waiting_seconds;
    if all > 0.0 {
        page.heading("Where the cycle went");
        let parts = [
            ("worked".to_owned(), view.worked_seconds / all * 100.0),
            ("held, not worked".to_owned(), view.idle_seconds / all * 100.0),
            ("waiting".to_owned(), view.waiting_seconds / all * 100.0),
        ];
        page.drawing(&bars::lines(&parts, |percent| format!("{percent:.0} %")));
    }
    page.heading("Done each week");
    page.drawing(&bars::lines(&weeks(view), |done| format!("{done:.0}")));
    page.text()
}

fn round(context: &Context, form: &Form) -> super::Result {
    let calendar = form.days.calendar("yesterday")?;
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.round(identity.as_ref(), &calendar)?;
    let (out, view) = (&context.out, &looked.value);
    print(out, form, (view, &looked.notices), || round_page(out, form.md, view))
}

const ROUND: &[Column<RoundRow>] = &[
    ("task", Kind::Word, |row| row.task.clone()),
    ("title", Kind::Title, |row| escape_line(&row.title)),
    ("who", Kind::Word, who),
    ("branch", Kind::Word, |row| escape_line(&row.branch)),
    ("state", Kind::Word, |row| row.state.spoken().to_owned()),
    ("conflict lines", Kind::Word, |row| conflicts(by_hand(row), to_resolve(row), row.resolved_lines)),
    ("gates", Kind::Word, |row| row.gates.iter().map(gate_word).collect::<Vec<_>>().join(", ")),
    ("landed", Kind::Word, landed),
];

fn round_page(out: &Output, md: bool, view: &RoundView) -> String {
    let mut page = Page::new(out, md, &format!("Round: {} to {}", view.since, view.until));
    if view.rows.is_empty() {
        page.item("", "nothing happened on a task with a branch of its own");
    } else {
        page.table(&Grid::of(ROUND, &view.rows));
    }
    let (mended, left) =
        view.rows.iter().fold((0, 0), |(mended, left), row| (mended + by_hand(row), left + to_resolve(row)));
    let lines = conflicts(mended, left, view.resolved_lines);
    let sum = format!("{} of {} landed; conflict lines: {lines}", view.landed, view.rows.len());
    page.item("", &sum);
    page.text()
}

/// Conflicting lines of a task that has landed since, so somebody resolved them.
fn by_hand(row: &RoundRow) -> u64 {
    if row.landed.is_some() { row.conflict_lines } else { 0 }
}

fn to_resolve(row: &RoundRow) -> u64 {
    row.conflict_lines - by_hand(row)
}

/// Lines that two sides changed differently: resolved by people, still to be resolved, and kept from both sides by the
/// project's rule.
fn conflicts(by_hand: u64, to_resolve: u64, kept: u64) -> String {
    let said = [(by_hand, "by hand"), (to_resolve, "to resolve"), (kept, "kept from both")];
    let said: Vec<String> =
        said.iter().filter(|(lines, _)| *lines > 0).map(|(lines, how)| format!("{lines} {how}")).collect();
    if said.is_empty() { "0".to_owned() } else { said.join(", ") }
}

/// Where a task landed, and the beginning of the commit's digest.
fn landed(row: &RoundRow) -> String {
    let at = |commit: &String| format!("{} {}", escape_line(&row.target), &commit[..10]);
    row.landed.as_ref().map(at).unwrap_or_default()
}

/// Everyone who held a task, one after the other.
fn who(row: &RoundRow) -> String {
    let actors: Vec<String> = row.actors.iter().map(|actor| escape_line(actor)).collect();
    match (actors.as_slice(), row.leases) {
        ([_], 2) => format!("{} (claimed it twice)", actors[0]),
        ([_], times) if times > 2 => format!("{} (claimed it {times} times)", actors[0]),
        (actors, _) => actors.join(", then "),
    }
}

fn gate_word(gate: &RoundGate) -> String {
    match (gate.passed, gate.flaky) {
        (true, false) => gate.gate.clone(),
        (true, true) => format!("{} (flaky)", gate.gate),
        (false, _) => format!("{} (failed)", gate.gate),
    }
}

fn cost(context: &Context, args: &Cost) -> super::Result {
    let calendar = args.form.days.calendar("29d")?;
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.cost(identity.as_ref(), &calendar, args.by)?;
    let (out, view) = (&context.out, &looked.value);
    print(out, &args.form, (view, &looked.notices), || cost_page(out, args.form.md, view, args.by))
}

/// What was used; an unknown value is an empty cell.
const USED: &[Column<CostRow>] = &[
    ("tokens in", Kind::Number, |row| count(row.usage.tokens_in)),
    ("out", Kind::Number, |row| count(row.usage.tokens_out)),
    ("cached", Kind::Number, |row| count(row.usage.tokens_cached)),
    ("cost", Kind::Number, |row| price(&row.usage).unwrap_or_default()),
    ("source", Kind::Word, |row| row.usage.source.to_string()),
];

fn count(count: Option<u64>) -> String {
    count.map(grouped).unwrap_or_default()
}

fn cost_page(out: &Output, md: bool, view: &CostView, by: CostBy) -> String {
    let named: &[Column<CostRow>] = match by {
        CostBy::Task => {
            &[("task", Kind::Word, |row| text(&row.task)), ("title", Kind::Title, |row| text(&row.title))]
        }
        CostBy::Tag => &[("tags", Kind::Word, |row| tags(&row.tags))],
        CostBy::Actor => &[("actor", Kind::Word, |row| text(&row.actor))],
        CostBy::Model => &[("model", Kind::Word, |row| text(&row.usage.model))],
    };
    let mut page = Page::new(out, md, &format!("Cost: {} to {}", view.since, view.until));
    if view.rows.is_empty() {
        page.item("", "nothing was recorded");
    } else {
        page.table(&Grid::of(&[named, USED].concat(), &view.rows));
        for total in view.totals.iter().filter_map(price) {
            page.item("", &format!("{total} in all"));
        }
        for each in view.per_done.iter().filter_map(price) {
            page.item("", &format!("{each} for each of {} finished tasks", view.done));
        }
    }
    page.text()
}

fn price(usage: &UsageView) -> Option<String> {
    Some(format!("{:.2} {}", usage.cost?, usage.currency.as_deref().unwrap_or_default()))
}

fn title(view: &FlowView) -> String {
    format!("Flow: {} done, {} to {}", view.done, view.since, view.until)
}

fn weeks(view: &FlowView) -> Vec<(String, f64)> {
    #[allow(clippy::cast_precision_loss, reason = "counts of a human size fit")]
    let count = |done: u64| done as f64;
    view.weeks.iter().map(|week| (week.week.clone(), count(week.done))).collect()
}

fn percentiles(of: &Percentiles) -> String {
    let said =
        [("half within", of.p50_seconds), ("85 % within", of.p85_seconds), ("95 % within", of.p95_seconds)];
    let said: Vec<String> =
        said.into_iter().filter_map(|(name, seconds)| Some(format!("{name} {}", long(seconds?)))).collect();
    if said.is_empty() { "nothing was finished".to_owned() } else { said.join(", ") }
}

/// A lead time, in which a day is a calendar day and not a working day.
fn long(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "seconds of a human time fit")]
    let ms = (seconds * 1_000.0) as i64;
    onus_core::time::Span::from_ms(ms).to_string()
}
