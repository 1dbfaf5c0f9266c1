use onus_core::quote::counted;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::rescue::RescueState;
use onus_engine::{AnyEngine, RescueView};
use onus_repo::rescue::KeptAt;
use onus_store::{ACCESS, Access, Finding, Store as _, StoreError, filesystem_of};
use serde_json::json;

use crate::context::Context;
use crate::output::escape_line;
use crate::wording;
use onus_host::StoreAt;

use super::ledger::intact;

/// Checks that are not about the store: whatever they find, nothing is damaged.
const AGENTS: &str = "agents";
pub(super) const WORKTREE: &str = "worktree";
const GUARD: &str = "guard";
pub(super) const LANDING: &str = "landing";

/// Check the store, the ledger and the leases, and say how to fix what is wrong
///
/// It also checks onus's entries in agents' configuration, and whether the agents run its hooks. Exits with 0 if all is well, 6 if
/// the only problem is an entry that differs from what 'onus setup' writes or is not trusted, a worktree or a landing that was interrupted, or a checkout that lacks what landed, 8 if anything else is wrong.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Repair what can be repaired without losing anything: rows, search index, log, interrupted worktrees and landings
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let at = context.host.store_at()?;
    let mut findings = match &at {
        StoreAt::File(path) => vec![file_system(path)],
        StoreAt::Server { .. } => Vec::new(),
    };
    let mut fixed = Vec::new();
    let mut trouble = None;
    let access = if args.fix { Access::Write } else { Access::Read };
    match context.host.engine(access) {
        Ok(mut engine) => {
            if args.fix {
                fixed = fix(&mut engine)?;
                fixed.extend(finish_rescues(context, &mut engine));
            }
            findings.extend(checked(&mut engine));
            findings.push(ledger(&mut engine));
            let held = leases(&mut engine);
            findings.extend(held.unwrap_or_else(|refusal| vec![of_refusal("leases", &refusal)]));
            findings.extend(
                rescues(context, &mut engine).unwrap_or_else(|refusal| vec![of_refusal("rescues", &refusal)]),
            );
            let (mended, landings) = super::land::findings(context, &mut engine, args.fix);
            fixed.extend(mended);
            findings.extend(landings);
            match super::worktree::findings(context, args.fix) {
                Ok((settled, worktrees)) => {
                    fixed.extend(settled);
                    findings.extend(worktrees);
                }
                Err(refusal) => {
                    findings.push(finding(WORKTREE, true, format!("not looked at: {}", refusal.message)))
                }
            }
        }
        Err(refusal) => {
            findings.push(of_refusal("store", &refusal));
            trouble = Some(refusal);
        }
    }
    let differing = super::setup::differing(context)?;
    if !differing.is_empty() {
        let what: Vec<&str> = differing.iter().map(|(what, _)| what.as_str()).collect();
        findings.push(finding(AGENTS, false, what.join("; ")));
    }
    let lacking = context.host.place.as_ref().map(super::guard::lacking).unwrap_or_default();
    if !lacking.is_empty() {
        findings.push(finding(GUARD, false, format!("git's hooks lack it: {}", lacking.join(", "))));
    }
    // A lapsed or stale lease is news, not damage.
    let ok = findings.iter().all(|finding| finding.ok);
    if context.out.json {
        let checks: Vec<_> = findings
            .iter()
            .map(|f| json!({ "name": f.name, "ok": f.ok, "detail": f.detail, "mendable": f.mendable }))
            .collect();
        let mut report = json!({ "ok": ok, "checks": checks, "fixed": fixed });
        if !ok {
            let refusal = trouble.unwrap_or_else(|| in_short(&findings, args.fix, &differing));
            report["error"] = json!(wording::refusal(&without_doctor(refusal)));
        }
        context.out.document(report, &[]);
    } else {
        for what in &fixed {
            context.out.prose(&format!("fixed: {what}"));
        }
        let tell = |step: &Step| {
            if let Some(next) = wording::step(step) {
                context.out.prose(&format!("     next: {next}"));
            }
        };
        for f in &findings {
            let mark = match (f.ok, f.name) {
                // Worktrees and landings are mentioned only if there is something to know about them.
                (true, WORKTREE | LANDING) => "note".to_owned(),
                (true, _) => context.out.good("ok  "),
                (false, _) => context.out.bad("BAD "),
            };
            context.out.prose(&format!("{mark} {:<13} {}", f.name, escape_line(&f.detail)));
            if !f.ok && f.mendable && !args.fix {
                tell(&Step::MendStore);
            }
            if f.name == AGENTS {
                repairs(&differing).iter().for_each(&tell);
            }
            if f.name == GUARD {
                tell(&Step::InstallGuard);
            }
        }
    }
    let is_damaged =
        |finding: &Finding| !finding.ok && !matches!(finding.name, AGENTS | GUARD | WORKTREE | LANDING);
    Ok(match findings.iter().any(is_damaged) {
        true => Code::Damaged.exit_code(),
        false if ok => 0,
        false => Code::Unmet.exit_code(),
    })
}

/// All problems as one error, for programs that read nothing else.
fn in_short(findings: &[Finding], fixed: bool, differing: &[(String, Step)]) -> Refusal {
    let bad: Vec<&Finding> =
        findings.iter().filter(|finding| !finding.ok && finding.name != AGENTS).collect();
    if bad.is_empty() {
        let refusal = Refusal::new(
            Code::Unmet,
            "the agents' configuration differs from what onus sets up, or is not trusted",
        );
        return repairs(differing).into_iter().fold(refusal, Refusal::next);
    }
    let is_mendable = !fixed && bad.iter().any(|finding| finding.mendable);
    for (name, message) in [
        (WORKTREE, "making or removing a worktree was interrupted"),
        (LANDING, "what landed is not where it belongs yet, or a landing was interrupted"),
        (GUARD, "the guard is missing in some of git's hooks"),
    ] {
        if bad.iter().all(|finding| finding.name == name) {
            let refusal = Refusal::new(Code::Unmet, message);
            return match name {
                GUARD => refusal.next(Step::InstallGuard),
                _ if is_mendable => refusal.next(Step::MendStore),
                _ => refusal,
            };
        }
    }
    let names: Vec<&str> = bad.iter().map(|finding| finding.name).collect();
    let refusal = Refusal::new(Code::Damaged, format!("problems found: {}", names.join(", ")));
    // Nothing is damaged: the database's owner decides who may connect.
    if let [Finding { name: ACCESS, detail, .. }] = bad.as_slice() {
        return Refusal::new(Code::NotAllowed, refusal.message).next(Step::plain(detail.clone()));
    }
    refusal.next(if is_mendable { Step::MendStore } else { Step::RestoreBackup })
}

/// The steps that repair agents' configuration, each once.
fn repairs(differing: &[(String, Step)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (_, step) in differing {
        if !steps.contains(step) {
            steps.push(step.clone());
        }
    }
    steps
}

/// Removes the step `onus doctor`, which `onus doctor` itself must not suggest.
fn without_doctor(mut refusal: Refusal) -> Refusal {
    refusal.next.retain(|step| *step != Step::CheckStore);
    refusal
}

fn of_refusal(name: &'static str, refusal: &Refusal) -> Finding {
    let refusal = without_doctor(refusal.clone());
    let steps = refusal.next.iter().filter_map(wording::step);
    let said: Vec<String> = std::iter::once(refusal.message).chain(steps).collect();
    finding(name, false, said.join("; "))
}

pub(super) fn finding(name: &'static str, ok: bool, detail: String) -> Finding {
    Finding { name, ok, detail, mendable: false }
}

/// A problem that `--fix` can repair.
pub(super) fn mendable(name: &'static str, detail: String) -> Finding {
    Finding { name, ok: false, detail, mendable: true }
}

fn file_system(path: &std::path::Path) -> Finding {
    match filesystem_of(path.parent().unwrap_or(path)) {
        Some(kind) => finding(
            "file system",
            false,
            format!("{kind} is not safe for the store: set ONUS_STORE to a local path"),
        ),
        None => finding("file system", true, format!("{} is on a local file system", path.display())),
    }
}

fn checked(engine: &mut AnyEngine) -> Vec<Finding> {
    engine.store().check().unwrap_or_else(|error| vec![of_refusal("database", &error.into())])
}

/// Repairs what can be repaired; the findings that follow report the rest.
fn fix(engine: &mut AnyEngine) -> Result<Vec<String>, Refusal> {
    let before = checked(engine);
    let mut fixed = Vec::new();
    match engine.store().rebuild(&mut |_| {}) {
        Ok(rebuilt) => {
            let changed = rebuilt.changed.iter();
            fixed.extend(
                changed.map(|(table, rows)| format!("{} of {table}, from the ledger", counted(*rows, "row"))),
            );
        }
        Err(
            error @ (StoreError::ReadOnly(_)
            | StoreError::Busy { .. }
            | StoreError::Blocked { .. }
            | StoreError::Full),
        ) => {
            return Err(error.into());
        }
        Err(_) => {}
    }
    let _ = engine.store().tidy();
    let after = checked(engine);
    let mended = before
        .iter()
        .filter(|old| !old.ok && old.name != "rows")
        .filter(|old| after.iter().any(|new| new.name == old.name && new.ok));
    fixed.extend(mended.map(|old| format!("{}: {}", old.name, old.detail)));
    Ok(fixed)
}

/// Finishes the rescues of commands that were interrupted, and removes what they left.
fn finish_rescues(context: &Context, engine: &mut AnyEngine) -> Vec<String> {
    let due = |engine: &mut AnyEngine| {
        engine.rescues(None, None, Some(RescueState::Due)).map_or(0, |due| due.value.len())
    };
    let left = context.host.place.as_ref().map(onus_repo::rescue::tidy).unwrap_or_default();
    let mut fixed: Vec<String> =
        left.iter().map(|folder| format!("{}: left by a rescue that was killed", folder.display())).collect();
    if let (Ok(all), Ok(Some(repository))) = (engine.rescues(None, None, None), context.host.repository()) {
        for (task, at) in dropped_but_there(context, &all.value) {
            let is_gone = onus_repo::rescue::forget(&repository, &at).is_ok();
            fixed.extend(is_gone.then(|| format!("{task}: {}, which was dropped", at.reference)));
        }
    }
    let before = due(engine);
    if before == 0 {
        return fixed;
    }
    // Without an identity nothing can be recorded; the findings that follow name the rescues that are due.
    let Ok(identity) = context.host.identity(engine) else { return fixed };
    let told = engine.finish_rescues(&identity).unwrap_or_default();
    let done = before.saturating_sub(due(engine));
    let done = (done > 0).then(|| format!("{done} interrupted rescues, finished"));
    fixed.extend(done.into_iter().chain(told.iter().map(wording::notice_line)));
    fixed
}

/// Dropped rescues that git still has: the command was interrupted between the record and git.
fn dropped_but_there(context: &Context, all: &[RescueView]) -> Vec<(String, KeptAt)> {
    let Ok(Some(repository)) = context.host.repository() else { return Vec::new() };
    let there = onus_repo::rescue::list(&repository).unwrap_or_default();
    let dropped = all.iter().filter(|view| view.state == RescueState::Dropped.as_str());
    let left = dropped.flat_map(|view| {
        let is_of = |at: &&KeptAt| view.kept.iter().any(|kept| kept.commit == at.commit);
        there.iter().filter(is_of).map(|at| (view.task.clone(), at.clone())).collect::<Vec<_>>()
    });
    left.collect()
}

/// Finds rescues that are due (interrupted, or on another machine) and dropped ones that git still has.
fn rescues(context: &Context, engine: &mut AnyEngine) -> Result<Vec<Finding>, Refusal> {
    let all = engine.rescues(None, None, None)?.value;
    let is = |view: &RescueView, state: RescueState| view.state == state.as_str();
    let is_local = matches!(context.host.store_at()?, StoreAt::File(_));
    let mut findings = Vec::new();
    for folder in context.host.place.as_ref().map(onus_repo::rescue::left_behind).unwrap_or_default() {
        let detail = format!("{} has copies of files, left by a rescue that was killed", folder.display());
        findings.push(mendable("rescue", detail));
    }
    for view in all.iter().filter(|view| is(view, RescueState::Due)) {
        let worktree = view.worktree.as_deref().unwrap_or_default();
        // With a store on a server, the worktree may be on another machine, where the rescue is finished.
        let is_here = std::path::Path::new(worktree).is_dir();
        let detail = format!(
            "{}: what {} left uncommitted in {worktree} is still to be kept{}",
            view.task,
            view.actor,
            match (is_here, is_local) {
                (true, _) => "",
                (false, true) =>
                    "; its folder is not there: `git worktree repair` in it if it was moved, `git worktree prune` if it was \
                     deleted, then onus doctor --fix",
                (false, false) => ", on the machine where that is",
            }
        );
        findings.push(Finding { mendable: is_here, ..finding("rescue", !is_here, detail) });
    }
    let kept = all.iter().filter(|view| is(view, RescueState::Kept)).count();
    if kept > 0 {
        findings.push(finding("rescues", true, format!("{kept} kept; next: onus rescue list")));
    }
    for (task, at) in dropped_but_there(context, &all) {
        findings.push(mendable("rescue", format!("{task}: {} was dropped and is still there", at.reference)));
    }
    Ok(findings)
}

fn ledger(engine: &mut AnyEngine) -> Finding {
    match engine.verify(&[], &mut |_| {}) {
        Ok(verified) => finding("ledger", true, intact(&verified)),
        Err(refusal) => finding("ledger", false, refusal.message),
    }
}

fn leases(engine: &mut AnyEngine) -> Result<Vec<Finding>, Refusal> {
    let status = engine.status(None)?.value;
    let news = |name: &'static str, of: &str, message: &str, next: Option<&Step>| {
        let next = next.and_then(wording::step).map(|next| format!("; next: {next}"));
        finding(name, true, format!("{of}: {message}{}", next.unwrap_or_default()))
    };
    let leases = status.lapsed.iter().chain(&status.stale).chain(&status.stalled);
    let leases = leases.map(|held| news("lease", &held.id, &held.message, held.next.as_ref()));
    let seats = status.seats.iter().filter(|seat| seat.needs_attention);
    let seats = seats.map(|seat| news("seat", &seat.name, &seat.message, seat.next.as_ref()));
    let mut findings: Vec<Finding> = leases.chain(seats).collect();
    if findings.is_empty() {
        findings.push(finding(
            "leases",
            true,
            format!("{} live, none lapsed, stale or stalled", status.held.len()),
        ));
    }
    Ok(findings)
}
