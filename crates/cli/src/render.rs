//! Tasks and leases as people read them.

use std::collections::BTreeSet;

use anstyle::Style;

use onus_core::decide::ObstacleKind;
use onus_core::event::MovedBy;
use onus_core::lease::LapseCause;
use onus_core::quote::{NAME_BYTES, and_more, quoted};
use onus_core::task::{NoteKind, Priority, State};
use onus_core::time::{SECOND_MS, Span, parse_rfc3339};
use onus_engine::{AcceptanceView, ForecastView, LeaseView, NoteView, ReservationView, TaskView};

use crate::output::{Output, escape, escape_line, state_style};
use crate::table::{Aside, Row, table};

/// `1,203,453`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Prints which branches will conflict, if any will.
pub(crate) fn forecast(out: &Output, forecast: &ForecastView) {
    if forecast.conflicts.is_empty() && forecast.incomplete.is_none() {
        return;
    }
    out.prose("");
    out.prose(&out.bold("conflicts to come"));
    for conflict in &forecast.conflicts {
        let holder = conflict.holder.as_ref().map(|holder| format!(", {holder}")).unwrap_or_default();
        let branch = escape_line(&conflict.branch);
        out.prose(&format!("  {} ({branch}{holder})", out.bold(&conflict.task)));
        out.prose(&format!("    {}", escape_line(&conflict.message())));
    }
    if let Some(why) = &forecast.incomplete {
        out.prose(&out.dim(&format!("  {}", escape_line(&incomplete(why.clone())))));
    }
}

/// Why a forecast is incomplete, in words.
pub(crate) fn incomplete(why: String) -> String {
    format!("not every conflict to come is known: {why}")
}

/// A moment in local time: the time of day if it is today, otherwise with the date.
pub(crate) fn local_time(rfc3339: &str) -> String {
    let Some(stamp) = parse_rfc3339(rfc3339).and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()) else {
        return rfc3339.to_owned();
    };
    let zone = jiff::tz::TimeZone::system();
    let (at, now) = (stamp.to_zoned(zone.clone()), jiff::Timestamp::now().to_zoned(zone));
    let format = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    at.strftime(format).to_string()
}

/// How long ago that was.
pub(crate) fn age(rfc3339: &str) -> String {
    let then = parse_rfc3339(rfc3339).unwrap_or_default();
    Span::from_ms((jiff::Timestamp::now().as_millisecond() - then).max(0)).to_string()
}

pub(crate) fn seconds(s: i64) -> String {
    Span::from_ms(s * SECOND_MS).to_string()
}

/// A lease as part of a sentence.
pub(crate) fn lease(lease: &LeaseView) -> String {
    // A person is one instance everywhere.
    let who = match lease.actor.starts_with("human:") {
        true => lease.actor.clone(),
        false => format!("{} ({})", lease.actor, escape_line(&lease.instance)),
    };
    if let Some(cause) = lease.lapsed_by {
        return format!("{who}, lapsed: {}", lapse(cause));
    }
    match (&lease.process, lease.expires_in_s) {
        (Some(_), Some(s)) if lease.resting => format!("{who}, its turn is over, {} left", seconds(s)),
        (Some(process), _) => format!("{who}, while process {} lives", process.pid),
        (None, Some(s)) => format!("{who}, {} left", seconds(s)),
        (None, None) if lease.stale => format!("{who}, stale"),
        (None, None) => who,
    }
}

fn lapse(cause: LapseCause) -> &'static str {
    match cause {
        LapseCause::ProcessDied => "its process died",
        LapseCause::Rebooted => "its machine restarted",
        LapseCause::Ttl => "no sign of life in time",
        LapseCause::MaxHold => "maximum hold reached",
    }
}

/// A table of tasks.
pub(crate) fn tasks(out: &Output, tasks: &[TaskView]) -> String {
    let plain = Style::new();
    let urgent = |task: &TaskView| if task.priority == Priority::P0 { plain.bold() } else { plain };
    let rows: Vec<Row> = tasks
        .iter()
        .map(|task| Row {
            cells: vec![
                (task.id.clone(), plain.bold()),
                (task.priority.to_string(), urgent(task)),
                (task.kind.to_string(), plain),
                (task.state.spoken().to_owned(), state_style(task.state)),
            ],
            title: escape_line(&task.title),
            aside: aside(task),
        })
        .collect();
    table(out, &rows)
}

/// Who holds a task, or why it cannot be claimed.
fn aside(task: &TaskView) -> Option<Aside> {
    if let Some(held) = &task.lease {
        return Some(Aside::Whole(lease(held)));
    }
    let not_ready = task.not_ready.as_ref()?;
    let said = task.last_word.as_ref().filter(|_| matches!(task.state, State::Blocked | State::Failed));
    Some(match (not_ready.kind, said, &task.not_before) {
        (ObstacleKind::Schedule, _, Some(at)) => Aside::Whole(format!("starts {}", local_time(at))),
        (_, Some(word), _) => Aside::Cut(format!("{}: {}", escape_line(&word.actor), first_line(&word.text))),
        // The column of states says the same.
        (ObstacleKind::State, None, _) if task.state.spoken() == not_ready.message => return None,
        _ => Aside::Whole(escape_line(&not_ready.message)),
    })
}

fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = escape_line(lines.next().unwrap_or_default());
    if lines.next().is_some() { format!("{first} …") } else { first }
}

/// What was said with the last step: the next holder should read it first.
pub(crate) fn last_word(out: &Output, word: &NoteView) -> Vec<String> {
    let did = word.moved_by.map_or("noted", |moved_by| match moved_by {
        MovedBy::Accepted => "accepted it",
        MovedBy::Blocked => "marked it blocked",
        MovedBy::Unblocked => "unblocked it",
        MovedBy::Submitted => "submitted it",
        MovedBy::Approved => "approved it",
        MovedBy::Rejected => "rejected it",
        MovedBy::Done => "finished it",
        MovedBy::Failed => "gave it up",
        MovedBy::Dropped => "dropped it",
        MovedBy::Reopened => "reopened it",
        MovedBy::Reset => "reset it",
        MovedBy::Retried => "opened it again",
        MovedBy::Released => "released it",
        MovedBy::Assigned => "assigned it",
        MovedBy::HandedOff => "handed it over",
        MovedBy::FailedLanding => "could not land it",
    });
    let end = if word.text.is_empty() { "" } else { ":" };
    let head = format!("  {} {did}, {} ago{end}", escape_line(&word.actor), age(&word.at));
    std::iter::once(out.dim(&head)).chain(quotation(&word.text)).collect()
}

/// The latest commits made for a task.
fn commits(task: &TaskView) -> String {
    const MOST: usize = 5;
    let all = task.commits.as_deref().unwrap_or_default();
    let latest: Vec<&str> =
        all.iter().rev().take(MOST).map(|made| made.commit.get(..10).unwrap_or(&made.commit)).collect();
    and_more(&latest, all.len())
}

/// Where a task's work landed, or has still to land: a task that is done has not landed by itself.
fn landing(task: &TaskView) -> Option<String> {
    let target = escape_line(task.landed_in.as_ref().or(task.target.as_ref())?);
    match (task.landing.as_deref(), &task.landed) {
        (Some("begun"), _) => Some(format!("in {target}: under way")),
        (Some(_), _) => Some(format!("in {target}, not yet; next: onus land {}", task.id)),
        (None, Some(commit)) => Some(format!("in {target} as {}", commit.get(..10).unwrap_or(commit))),
        (None, None) if task.landed_in.is_some() => {
            Some("nothing: its branch has no commit of its own".to_owned())
        }
        (None, None) => None,
    }
}

/// Everything about one task.
pub(crate) fn card(out: &Output, task: &TaskView) -> String {
    let mut lines = vec![format!("{}  {}", out.bold(&task.id), out.bold(&escape_line(&task.title)))];
    let state = out.state(task.state);
    lines.push(format!("  {state} · {} · {} · tier {}", task.kind, task.priority, task.required_tier));
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            lines.push(format!("  {name:<10}  {}", escape_line(&value)));
        }
    };
    fact("uid", Some(task.uid.clone()));
    fact("held by", task.lease.as_ref().map(lease));
    fact("token", task.lease.as_ref().map(|lease| lease.token.to_string()));
    fact("why", task.lease.as_ref().and_then(|lease| lease.reason.clone()));
    fact("handoff", task.lease.as_ref().and_then(|lease| lease.handoff_reason.clone()));
    fact("worked", Some(task.effort_ms).filter(|ms| *ms > 0).map(|ms| Span::from_ms(ms).to_string()));
    let held_in = task.lease.as_ref().and_then(|lease| lease.worktree.clone());
    fact("worktree", held_in.or_else(|| task.worktree.clone()));
    let lands_in = task.target.as_ref().map(|target| format!(", for {target}")).unwrap_or_default();
    fact("branch", task.branch.as_ref().map(|branch| format!("{branch}{lands_in}")));
    fact(
        "kept for",
        task.kept_for.as_ref().map(|kept| {
            let why = kept.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{} for {} more{why}", kept.actor, seconds(kept.expires_in_s))
        }),
    );
    let links = [
        ("part of", task.parent.iter().collect::<Vec<_>>()),
        ("needs", task.deps.iter().collect()),
        ("parts", task.children.iter().flatten().collect()),
        ("unblocks", task.blocks.iter().flatten().collect()),
        ("relates", task.relates.iter().collect()),
    ];
    for (name, ids) in links {
        for (index, id) in ids.iter().enumerate().take(MAX_LINKS) {
            fact(if index == 0 { name } else { "" }, Some(link(task, id)));
        }
        let more = ids.len().saturating_sub(MAX_LINKS);
        fact("", Some(more).filter(|more| *more > 0).map(|more| format!("and {more} more")));
    }
    fact("scope", Some(task.scope.join(", ")));
    let is_new = |row: &&ReservationView| !row.changed && !task.scope.contains(&row.glob);
    fact("reserves", task.lease.as_ref().map(|lease| globs(lease.reservations.iter().filter(is_new))));
    fact(
        "changed",
        task.lease.as_ref().map(|lease| globs(lease.reservations.iter().filter(|row| row.changed))),
    );
    let held = task.lease.as_ref().map(|lease| &lease.constraints);
    fact("commits", Some(commits(task)));
    fact(if task.landing.is_some() { "lands" } else { "landed" }, landing(task));
    fact("limits", Some(held.unwrap_or(&task.constraints).join(", ")));
    fact("not before", task.not_before.as_deref().map(local_time));
    fact("attempts", Some(task.attempts).filter(|n| *n > 0).map(|n| n.to_string()));
    fact("owner", task.owner.clone());
    fact("area", task.area.clone());
    fact("iteration", task.iteration.clone());
    fact("tags", Some(task.tags.iter().cloned().collect::<Vec<_>>().join(", ")));
    fact(
        "refs",
        Some(task.refs.iter().map(|(system, id)| format!("{system}:{id}")).collect::<Vec<_>>().join(", ")),
    );
    fact("origin", task.origin.clone());
    fact("link", task.link.clone());
    fact("asked by", task.author.as_ref().map(|author| quoted(author, NAME_BYTES)));
    fact("created", Some(format!("{} by {}", local_time(&task.created_at), task.created_by)));
    fact("started", task.started_at.as_deref().map(local_time));
    fact("done", task.completed_at.as_deref().map(local_time));
    fact("version", Some(task.version.to_string()));
    if let Some(word) = task.last_word.as_ref().filter(|_| !task.state.is_finished()) {
        lines.push(String::new());
        lines.extend(last_word(out, word));
    }
    if let Some(body) = &task.body {
        lines.push(String::new());
        lines.extend(quotation(body));
    }
    if !task.acceptance.is_empty() {
        lines.push(String::new());
        lines.extend(task.acceptance.iter().map(acceptance));
    }
    // The last word is shown above.
    let above = task.last_word.as_ref().filter(|_| !task.state.is_finished()).map(|word| word.version);
    for note in task.notes.iter().flatten().filter(|note| Some(note.version) != above) {
        lines.push(String::new());
        let link = note.link.as_ref().map(|link| format!(" {}", escape_line(link))).unwrap_or_default();
        let heading = format!("  {} {}{}{link}", local_time(&note.at), escape_line(&note.actor), said(note));
        lines.push(out.dim(&heading));
        lines.extend(quotation(&note.text));
    }
    lines.join("\n")
}

/// Each glob of these rows once, up to a limit.
fn globs<'a>(rows: impl Iterator<Item = &'a ReservationView>) -> String {
    let files: BTreeSet<&str> = rows.map(|row| row.glob.as_str()).collect();
    let more = files.len().saturating_sub(MAX_LINKS);
    let mut shown: Vec<String> = files.into_iter().take(MAX_LINKS).map(str::to_owned).collect();
    shown.extend((more > 0).then(|| format!("and {more} more")));
    shown.join(", ")
}

/// The most links of one kind, or globs, that are listed.
const MAX_LINKS: usize = 20;

/// Another task, with its title and state if they are known.
fn link(task: &TaskView, id: &str) -> String {
    match task.linked.iter().find_map(|linked| linked.get(id)) {
        Some(linked) => format!("{id} ({}) {}", linked.state.spoken(), linked.title),
        None => id.to_owned(),
    }
}

fn acceptance(line: &AcceptanceView) -> String {
    let mark = if line.ticked { "x" } else { " " };
    let by =
        line.ticked_by.as_ref().map(|by| format!("  (ticked by {})", escape_line(by))).unwrap_or_default();
    format!("  [{mark}] {}. {}{by}", line.line, escape_line(&line.text))
}

/// The kind of a note; for a progress note, the step it was written with, such as `released`.
fn said(note: &NoteView) -> String {
    match (note.kind, note.event.rsplit_once('.')) {
        (NoteKind::Progress, None | Some(("note", _))) => String::new(),
        (NoteKind::Progress, Some((_, verb))) => format!(" ({})", escape_line(&verb.replace('_', " "))),
        (kind, _) => format!(" ({kind})"),
    }
}

/// The lines of a text, each with a mark in front, so that none passes for a line of ours.
fn quotation(text: &str) -> Vec<String> {
    escape(text).lines().map(|line| format!("  | {line}").trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use onus_fuzz::texts::{Cast, assert_visible, dressed, sample};

    use super::*;

    #[test]
    fn nothing_that_others_wrote_paints_over_the_terminal_or_passes_for_a_line_of_ours() {
        let (mut out, sample) = (Output::new(false, "never"), sample());
        out.width = None;
        let ours = |card: &str| card.lines().filter(|line| !line.starts_with("  |")).count();
        let most = ours(&card(&out, &dressed(&sample, &Cast::of(b"x"))));
        onus_fuzz::run(&onus_fuzz::corpus("text"), onus_fuzz::execs(2_000), |bytes| {
            let task = dressed(&sample, &Cast::of(bytes));
            let card = card(&out, &task);
            assert_visible(&card);
            assert!(ours(&card) <= most, "{card}");
            let table = tasks(&out, &[task.clone(), task]);
            assert_visible(&table);
            assert_eq!(table.lines().count(), 2, "{table}");
        });
    }
}
