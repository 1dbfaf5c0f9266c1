//! The ledger as a story: one line per event. A new kind of event without a line does not compile.

use std::collections::BTreeMap;

use onus_core::chain::Record;
use onus_core::event::Body;
use onus_core::gate::Run;
use onus_core::ids::Uid;
use onus_core::landing::{LandStyle, Obstruction};
use onus_core::lease::{LapseCause, LeaseEnd};
use onus_core::quote::{self, and_more, counted};
use onus_core::rescue::RescueState;
use onus_core::scope::Scope;
use onus_core::session::{Corrected, Usage, UsageSource};
use onus_core::stretch::{Stretch, Worked};
use onus_core::task::{NoteKind, State};
use onus_core::text::REDACTED;
use onus_core::time::Span;
use onus_engine::LogPage;

use crate::edited;
use crate::output::{Output, escape_line};
use crate::render::{grouped, local_time};

pub(crate) fn line(out: &Output, page: &LogPage, record: &Record, with_id: bool) -> String {
    let place = match (&record.task, with_id) {
        (Some(uid), true) => format!("{} ", page.ids.get(uid).map_or(uid.as_str(), String::as_str)),
        (None, true) => "project ".to_owned(),
        (_, false) => String::new(),
    };
    let empty = BTreeMap::new();
    let texts = page.texts.get(&record.uid).unwrap_or(&empty);
    // The texts of an edit are shown together with what they replaced.
    let is_compared = page.before.contains_key(&record.uid);
    let words: Vec<String> = record
        .text_digests()
        .into_iter()
        .filter(|_| !is_compared)
        .map(|(field, _)| texts.get(field.as_str()).map_or(REDACTED.to_owned(), |text| first_line(text)))
        .collect();
    let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(" / ")) };
    format!(
        "{} {place}{} {} {}{words}",
        out.dim(&local_time(&record.at)),
        out.dim(&format!("v{}", record.version)),
        escape_line(&actor_of(record)),
        escape_line(&what(page, record)),
    )
}

/// A person is one instance everywhere; an agent's conversations must be distinguishable.
fn actor_of(record: &Record) -> String {
    match record.actor.starts_with("human:") {
        true => record.actor.clone(),
        false => format!("{} ({})", record.actor, record.instance),
    }
}

pub(crate) fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first: String = lines.next().unwrap_or_default().chars().take(200).collect();
    let more = if first.len() < text.len() { " …" } else { "" };
    format!("{}{more}", escape_line(&first))
}

/// The other tasks that an event names.
pub(crate) fn others<'a>(page: &LogPage, uids: impl IntoIterator<Item = &'a Uid>) -> String {
    let ids = uids.into_iter().map(Uid::to_string);
    ids.map(|uid| page.ids.get(&uid).cloned().unwrap_or(uid)).collect::<Vec<_>>().join(", ")
}

fn globs(scope: &Scope) -> String {
    let shown: Vec<String> = scope.globs().iter().take(3).map(ToString::to_string).collect();
    and_more(&shown, scope.globs().len())
}

/// How much work was done under the lease that an event ends.
fn worked<'a>(lease: impl Into<Option<&'a LeaseEnd>>) -> String {
    lease.into().map(|lease| format!(" after {} of work", Span::from_ms(lease.active_ms))).unwrap_or_default()
}

/// How much work a correction takes away.
fn taken(less: &[Stretch]) -> String {
    Span::from_ms(Worked::of(less).active_ms).to_string()
}

fn used(usage: &Usage) -> String {
    let tokens =
        |count: Option<u64>, what: &str| count.map(|count| format!("{} tokens {what}", grouped(count)));
    let said = [
        usage.model.clone(),
        tokens(usage.tokens_in, "in"),
        tokens(usage.tokens_out, "out"),
        tokens(usage.tokens_cached, "cached"),
        usage.cost.as_ref().map(ToString::to_string),
        Some(usage.source)
            .filter(|source| *source == UsageSource::Estimated)
            .map(|source| source.to_string()),
    ];
    said.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The holder whose lease an event ends, if the page shows its claim.
fn holder(page: &LogPage, record: &Record) -> Option<String> {
    let claim = |other: &&Record| {
        other.task == record.task
            && other.token == record.token
            && matches!(other.body(), Ok(Body::LeaseAcquired { .. }))
    };
    page.records.iter().find(claim).map(actor_of)
}

/// The holder whose lease an event ends, why the lease had lapsed, and how much work was done under it.
fn lapsed_holder(page: &LogPage, record: &Record, cause: LapseCause, end: &LeaseEnd) -> String {
    let holder = holder(page, record).unwrap_or_else(|| "a holder".to_owned());
    let why = match cause {
        LapseCause::ProcessDied => "whose process had died",
        LapseCause::Rebooted => "whose machine had restarted",
        LapseCause::Ttl => "whose lease had run out",
        LapseCause::MaxHold => "who had reached the maximum hold",
    };
    let token = record.token.map(|token| format!("token {token}, ")).unwrap_or_default();
    format!("{holder}, {why} ({token}{} of work)", Span::from_ms(end.active_ms))
}

/// What a person did against a rule.
fn overrode(rule: &str) -> String {
    let what = match rule {
        "fence" => return "acted although superseded".to_owned(),
        "kept" => "that it was kept for another",
        "tier" => "its required tier",
        "reviewer" => "that somebody else must approve it",
        "dependencies" => "its unmet dependencies",
        "parts" => "its unfinished parts",
        "schedule" => "its start time",
        "reset" => "its live lease",
        "max_attempts" => "its limit of retries",
        "gate" => "who may judge its gate",
        "gates" => "its missing gates",
        "constraints" => "its constraints",
        other => return format!("overrode the rule '{other}'"),
    };
    format!("overrode {what}")
}

fn what(page: &LogPage, record: &Record) -> String {
    let token = record.token.map(|token| format!(" (token {token})")).unwrap_or_default();
    let body = match record.body() {
        Ok(body) => body,
        Err(_) => {
            return format!("recorded something that this version of onus cannot read: {}", record.kind);
        }
    };
    match &body {
        Body::ProjectCreated { uid: _, prefix } => format!("created the project, prefix {prefix}"),
        Body::ActorRegistered { actor, tier } => format!("registered {actor} at tier {tier}"),
        Body::ActorAliased { actor, alias } => format!("made {alias} an alias of {actor}"),
        Body::ActorTierSet { actor, tier } => format!("set {actor} to tier {tier}"),
        Body::LedgerSealed { root: _, streams, previous: _ } => format!("sealed {streams} streams"),
        Body::TimesheetSealed { month, .. } => format!("sealed the hours of {month}"),
        Body::SeatCreated { number: _, name } => format!("created the seat {name}"),
        Body::TaskCreated { state: State::Proposed, .. } => "proposed it".to_owned(),
        Body::TaskCreated { .. } => "created it".to_owned(),
        Body::TaskEdited { facts, title, body } => match page.before.get(&record.uid) {
            Some(before) => edited::changes(page, record, before, facts, (*title, *body)).join(", "),
            None => "edited it".to_owned(),
        },
        Body::TaskAccepted {} => "accepted it".to_owned(),
        Body::TaskStarted {} => format!("started it{token}"),
        Body::TaskBlocked { lease } => format!("blocked it{}", worked(lease)),
        Body::TaskUnblocked {} => "unblocked it".to_owned(),
        Body::TaskSubmitted { lease } => format!("submitted it for review{}", worked(lease)),
        Body::TaskApproved { .. } => "approved it".to_owned(),
        Body::TaskRejected { kept_for: Some(kept) } => format!("rejected it, kept for {}", kept.actor),
        Body::TaskRejected { kept_for: None } => "rejected it".to_owned(),
        Body::TaskDone { lease, .. } => format!("finished it{}", worked(lease)),
        Body::TaskFailed { lease } => format!("gave it up as failed{}", worked(lease)),
        Body::TaskDropped { lease } => format!("dropped it{}", worked(lease)),
        Body::TaskReopened {} => "reopened it".to_owned(),
        Body::TaskReset { lease } => format!("reset it to open{}", worked(lease)),
        Body::TaskRetried { attempt } => format!("opened it again (retry {attempt})"),
        Body::ScopeAdded { scope, areas, touched: None } if !areas.is_empty() => {
            let names: Vec<&str> = areas.iter().map(|(area, _)| area.as_str()).collect();
            format!("reserved {} (area {})", globs(scope), names.join(", "))
        }
        Body::ScopeAdded { scope, touched: Some(_), .. } => format!("touched {}", globs(scope)),
        Body::ScopeAdded { scope, .. } => format!("reserved {}", globs(scope)),
        Body::ScopeRemoved { scope } => format!("no longer reserves {}", globs(scope)),
        Body::ScopeYielded { scope, worktree: _ } => format!("got {}, as its turn was over", globs(scope)),
        Body::ScopeChanged { scope, worktree: _ } => format!("changed {}", globs(scope)),
        Body::DepAdded { on } => format!("made it depend on {}", others(page, on)),
        Body::DepRemoved { on } => format!("made it no longer depend on {}", others(page, on)),
        Body::NoteAdded { kind, link } => {
            let what = match kind {
                NoteKind::Progress | NoteKind::Resolution => "noted".to_owned(),
                NoteKind::Finding => "noted a finding".to_owned(),
                NoteKind::Decision => "noted a decision".to_owned(),
            };
            link.as_ref().map_or(what.clone(), |link| format!("{what} ({link})"))
        }
        Body::AcceptanceAdded {} => "added an acceptance line".to_owned(),
        Body::AcceptanceTicked { line } => format!("ticked acceptance line {line}"),
        Body::AcceptanceUnticked { line } => format!("took back the tick of acceptance line {line}"),
        Body::LeaseAcquired { grant, .. } => {
            let terms = match (&grant.process, grant.ttl_ms) {
                (Some(process), _) => format!(", bound to process {}", process.pid),
                (None, Some(ms)) => format!(", TTL {}", Span::from_ms(ms)),
                (None, None) => String::new(),
            };
            let bounds = match grant.constraints.is_empty() {
                true => String::new(),
                false => format!(", {}", grant.constraints.words().join(", ")),
            };
            format!("claimed it{token}{terms}{bounds}")
        }
        Body::LeaseAttached { worktree, branch, .. } => {
            let branch = branch.as_ref().map(|branch| format!(" on {branch}")).unwrap_or_default();
            format!("moved the work to {worktree}{branch}{token}")
        }
        Body::RescueDue { worktree, .. } => {
            format!("began to keep what was left uncommitted in {}{token}", quote::name(worktree))
        }
        Body::RescueKept { kept, .. } => {
            let files = kept.iter().map(|kept| kept.files).sum::<u64>();
            format!("kept {}{token}", counted(files, "uncommitted file"))
        }
        Body::RescueSettled { outcome: RescueState::Gone, .. } => {
            format!("found no worktree to keep files of{token}")
        }
        Body::RescueSettled { .. } => format!("found nothing uncommitted{token}"),
        Body::RescueDropped { .. } => format!("dropped the files that were kept{token}"),
        Body::TaskBranched(own) => {
            format!("works on branch {}, to be merged into {}", own.branch, own.target)
        }
        Body::LeaseRenewed { .. } => format!("renewed its lapsed lease{token}"),
        Body::LeaseReleased { lease } => format!("released it{}", worked(lease)),
        Body::LeaseLapsed { cause, lease } => {
            format!("ended the lease of {}", lapsed_holder(page, record, *cause, lease))
        }
        Body::LeaseTakenOver { cause, lease } => {
            format!("took over from {}", lapsed_holder(page, record, *cause, lease))
        }
        Body::LeaseRevoked { lease, link: _ } => {
            let whose = holder(page, record);
            let what = whose.map_or("the live lease".to_owned(), |holder| format!("the lease of {holder}"));
            format!("revoked {what}{}{token}", worked(lease))
        }
        Body::LeaseHandedOff { kept_for, lease: None } => format!("assigned it to {}", kept_for.actor),
        Body::LeaseHandedOff { kept_for, lease } => {
            format!("handed it to {}{}", kept_for.actor, worked(lease))
        }
        Body::SessionRecorded { usage } => format!("recorded what its session used: {}", used(usage)),
        Body::CommitMade { commit } => format!("made commit {}{token}", commit.short()),
        Body::SessionCorrected { what: Corrected::Reassigned, from, to, less } => {
            let to = to.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("corrected a session{token}: {} of {from} were {to}'s", taken(less))
        }
        Body::SessionCorrected { from, less, .. } => {
            format!("corrected a session{token}: {} of {from} do not count", taken(less))
        }
        Body::GatePassed(judgement) => {
            let flaky = if judgement.flaky { ", which had failed on the same files before" } else { "" };
            match &judgement.run {
                Some(run) => format!("ran gate {}: it passed{flaky}{}{token}", judgement.gate, ran(run)),
                None => format!("passed gate {}{flaky}{token}", judgement.gate),
            }
        }
        Body::GateFailed(judgement) => match &judgement.run {
            Some(run) => format!("ran gate {}: it failed{}{token}", judgement.gate, ran(run)),
            None => format!("failed gate {}{token}", judgement.gate),
        },
        Body::LandingIntended(intent) => {
            format!("began to land {} in {}{token}", intent.commit.short(), quote::name(&intent.target))
        }
        Body::LandingWithdrawn { commit } => format!("withdrew the landing of {}", commit.short()),
        Body::LandingFailed { target, why, kept_for, .. } => {
            let why = match why {
                Obstruction::Conflict { count: 1, .. } => "1 file conflicts".to_owned(),
                Obstruction::Conflict { count, .. } => format!("{count} files conflict"),
                Obstruction::Gates { gates } => {
                    let gates: Vec<&str> = gates.iter().map(|gate| gate.as_str()).collect();
                    format!("{} failed on the merged result", gates.join(", "))
                }
            };
            let kept = kept_for.as_ref().map(|kept| format!("; it is kept for {}", kept.actor));
            format!("could not land it in {}: {why}{}", quote::name(target), kept.unwrap_or_default())
        }
        Body::TaskLanded(landed) if landed.style == LandStyle::Nothing => {
            format!(
                "found nothing to land in {}: its branch has no commit of its own",
                quote::name(&landed.target)
            )
        }
        Body::TaskLanded(landed) if landed.style == LandStyle::Elsewhere => {
            format!("found it in {}, at {}", quote::name(&landed.target), landed.commit.short())
        }
        Body::TaskLanded(landed) => {
            let lines = match landed.resolved_lines {
                0 => String::new(),
                1 => ", 1 conflicting line kept from both sides".to_owned(),
                lines => format!(", {lines} conflicting lines kept from both sides"),
            };
            format!("landed in {} as {}{lines}", quote::name(&landed.target), landed.commit.short())
        }
        Body::RuleOverridden { rule, link: _ } => overrode(rule),
        Body::TextRedacted { version, fields: _ } => format!("erased text from event {version}"),
    }
}

/// How the command of a gate ended.
fn ran(run: &Run) -> String {
    let took = Span::from_ms(run.duration_ms);
    match (run.timed_out, run.exit) {
        (true, _) => format!(" (ran out of time after {took})"),
        (false, Some(0)) => format!(" (took {took})"),
        (false, Some(code)) => format!(" (exit code {code}, took {took})"),
        (false, None) => format!(" (was ended, took {took})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_event_of_a_newer_version_has_a_line_too() {
        let record = |kind: &str, payload: Value| Record {
            seq: 1,
            uid: String::new(),
            task: None,
            version: 7,
            kind: kind.to_owned(),
            actor: "agent:a".to_owned(),
            instance: "a-1".to_owned(),
            token: None,
            at: "2026-01-02T03:04:05.000Z".to_owned(),
            cause: None,
            payload,
            prev: String::new(),
            hash: String::new(),
        };
        let (out, page) = (
            Output::new(false, "never"),
            LogPage {
                records: Vec::new(),
                texts: BTreeMap::new(),
                ids: BTreeMap::new(),
                before: BTreeMap::new(),
                last_seq: 0,
            },
        );
        let told = |kind: &str, payload: Value| line(&out, &page, &record(kind, payload), false);
        let unknown = "agent:a (a-1) recorded something that this version of onus cannot read: ";
        assert!(told("task.teleported", json!({ "to": 3 })).ends_with(&format!("{unknown}task.teleported")));
        assert!(
            told("task.retried", json!({ "attempt": "first" })).ends_with(&format!("{unknown}task.retried"))
        );
        assert!(told("task.retried", json!({ "attempt": 2 })).ends_with("opened it again (retry 2)"));
    }
}
