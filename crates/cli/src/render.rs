//! Tasks and leases as people read them.

use onus_core::task::State;
use onus_core::time::{SECOND_MS, Span, parse_rfc3339};
use onus_engine::{LeaseView, TaskView};

use crate::output::{Output, escape, escape_line};

/// A moment in local time: the time of day if it is today, else with its date.
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

/// A lease in half a sentence.
pub(crate) fn lease(lease: &LeaseView) -> String {
    let who = format!("{} ({})", lease.actor, escape_line(&lease.instance));
    if let Some(cause) = lease.lapsed_by {
        return format!("{who}, lapsed ({})", cause.as_str().replace('_', " "));
    }
    match (&lease.process, lease.expires_in_s) {
        (Some(process), _) => format!("{who}, while process {} lives", process.pid),
        (None, Some(s)) => format!("{who}, {} left", seconds(s)),
        (None, None) if lease.stale => format!("{who}, stale"),
        (None, None) => who,
    }
}

/// A table of tasks.
pub(crate) fn tasks(out: &Output, tasks: &[TaskView]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    for task in tasks {
        let holder = match (&task.lease, &task.kept_for) {
            (Some(held), _) => lease(held),
            (None, Some(kept)) => format!("kept for {}", kept.actor),
            (None, None) => String::new(),
        };
        table.add_row(vec![
            task.id.clone(),
            task.priority.to_string(),
            task.state.to_string(),
            escape_line(&task.title),
            holder,
        ]);
    }
    let text = table.trim_fmt();
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    if lines.is_empty() { out.dim("(none)") } else { lines.join("\n") }
}

/// Everything about one task.
pub(crate) fn card(out: &Output, task: &TaskView) -> String {
    let mut lines = vec![format!("{}  {}", out.bold(&task.id), out.bold(&escape_line(&task.title)))];
    let state = match task.state {
        State::Done => out.good(task.state.as_str()),
        State::Failed | State::Blocked => out.bad(task.state.as_str()),
        state => state.to_string(),
    };
    lines.push(format!("  {state} · {} · {} · tier {}", task.kind, task.priority, task.required_tier));
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            lines.push(format!("  {name:<9} {}", escape_line(&value)));
        }
    };
    fact("uid", Some(task.uid.clone()));
    fact("held by", task.lease.as_ref().map(lease));
    fact("token", task.lease.as_ref().map(|lease| lease.token.to_string()));
    fact("why", task.lease.as_ref().and_then(|lease| lease.reason.clone()));
    fact("handed on", task.lease.as_ref().and_then(|lease| lease.handoff_reason.clone()));
    fact("worktree", task.lease.as_ref().and_then(|lease| lease.worktree.clone()));
    fact(
        "kept for",
        task.kept_for.as_ref().map(|kept| {
            let why = kept.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{}, {} more{why}", kept.actor, seconds(kept.expires_in_s))
        }),
    );
    fact("part of", task.parent.clone());
    fact(
        "needs",
        Some(task.deps.join(", ")).filter(|deps| !deps.is_empty()).map(|deps| match task.unmet {
            0 => format!("{deps} (all done)"),
            unmet => format!("{deps} ({unmet} not done)"),
        }),
    );
    fact("parts", Some(task.open_children).filter(|n| *n > 0).map(|n| format!("{n} not finished")));
    fact("unblocks", Some(task.open_dependents).filter(|n| *n > 0).map(|n| n.to_string()));
    fact("relates", Some(task.relates.join(", ")));
    fact("scope", Some(task.scope.join(", ")));
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
    fact("created", Some(format!("{} by {}", local_time(&task.created_at), task.created_by)));
    fact("version", Some(task.version.to_string()));
    if let Some(body) = &task.body {
        lines.push(String::new());
        lines.extend(escape(body).lines().map(|line| format!("  {line}")));
    }
    for note in task.notes.iter().flatten() {
        lines.push(String::new());
        let what = if note.kind == "note.added" { String::new() } else { format!(" ({})", note.kind) };
        lines.push(out.dim(&format!("  {} {}{what}", local_time(&note.at), note.actor)));
        lines.extend(escape(&note.text).lines().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}
