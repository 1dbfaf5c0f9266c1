use onus_core::refusal::{Code, Refusal};
use onus_store::{Access, AnyStore, Finding, Store as _, StoreError, filesystem_of};
use serde_json::json;

use crate::context::{Context, StoreAt};
use crate::output::escape_line;

/// Check the store, the ledger and the leases; say what to do about what is wrong
///
/// Exit 0 if all is well, 8 if something is not.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Mend what can be mended without losing anything: rows, search index, log
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let at = context.store_at()?;
    let mut findings = match &at {
        StoreAt::File(path) => vec![file_system(path)],
        StoreAt::Server { .. } => Vec::new(),
    };
    let mut fixed = Vec::new();
    let mut trouble = None;
    let access = if args.fix { Access::Write } else { Access::Read };
    match at.open(access, context.config.store_wait()) {
        Ok(store) => {
            let mut engine = onus_engine::Engine::new(store, context.config.policy());
            if args.fix {
                fixed = fix(&mut engine)?;
            }
            findings.extend(checked(&mut engine));
            findings.push(ledger(&mut engine));
            let held = leases(&mut engine);
            findings.extend(held.unwrap_or_else(|refusal| vec![of_refusal("leases", &refusal)]));
        }
        Err(refusal) => {
            findings.push(of_refusal("store", &refusal));
            trouble = Some(refusal);
        }
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
            report["error"] = json!(trouble.unwrap_or_else(|| in_short(&findings, args.fix)));
        }
        context.out.document(report, &[]);
    } else {
        for what in &fixed {
            context.out.line(&format!("mended: {what}"));
        }
        for f in &findings {
            let mark = if f.ok { context.out.good("ok  ") } else { context.out.bad("BAD ") };
            context.out.line(&format!("{mark} {:<13} {}", f.name, escape_line(&f.detail)));
            if !f.ok && f.mendable && !args.fix {
                context.out.line("     next: onus doctor --fix");
            }
        }
    }
    Ok(if ok { 0 } else { 8 })
}

/// What is wrong as one error, for programs that look no further.
fn in_short(findings: &[Finding], fixed: bool) -> Refusal {
    let bad: Vec<&Finding> = findings.iter().filter(|finding| !finding.ok).collect();
    let names: Vec<&str> = bad.iter().map(|finding| finding.name).collect();
    let refusal = Refusal::new(Code::Damaged, format!("not well: {}", names.join(", ")));
    if !fixed && bad.iter().any(|finding| finding.mendable) {
        refusal.next("onus doctor --fix")
    } else {
        refusal.next("restore the last copy that 'onus backup' made, and keep the damaged file")
    }
}

fn of_refusal(name: &'static str, refusal: &Refusal) -> Finding {
    finding(name, false, format!("{}; {}", refusal.message, refusal.next.join("; ")))
}

fn finding(name: &'static str, ok: bool, detail: String) -> Finding {
    Finding { name, ok, detail, mendable: false }
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

fn checked(engine: &mut onus_engine::Engine<AnyStore>) -> Vec<Finding> {
    engine.store().check().unwrap_or_else(|error| vec![of_refusal("database", &error.into())])
}

/// Mends what can be mended. What cannot is left to the findings that follow.
fn fix(engine: &mut onus_engine::Engine<AnyStore>) -> Result<Vec<String>, Refusal> {
    let before = checked(engine);
    let mut fixed = Vec::new();
    match engine.store().rebuild(&mut |_| {}) {
        Ok(rebuilt) => {
            let changed = rebuilt.changed.iter();
            fixed.extend(changed.map(|(table, rows)| format!("{rows} rows of {table}, from the ledger")));
        }
        Err(error @ (StoreError::ReadOnly(_) | StoreError::Busy { .. } | StoreError::Full)) => {
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

fn ledger(engine: &mut onus_engine::Engine<AnyStore>) -> Finding {
    match engine.verify(&[], &mut |_| {}) {
        Ok(verified) => finding(
            "ledger",
            true,
            format!("{} events of {} tasks are whole", verified.events, verified.tasks),
        ),
        Err(refusal) => finding("ledger", false, refusal.message),
    }
}

fn leases(engine: &mut onus_engine::Engine<AnyStore>) -> Result<Vec<Finding>, Refusal> {
    let status = engine.status(None)?.value;
    let mut findings = Vec::new();
    for held in status.lapsed.iter().chain(&status.stale).chain(&status.stalled) {
        let next = held.next.as_ref().map(|next| format!("; next: {next}")).unwrap_or_default();
        findings.push(finding("lease", true, format!("{}: {}{next}", held.id, held.message)));
    }
    if findings.is_empty() {
        findings.push(finding(
            "leases",
            true,
            format!("{} live, none lapsed, stale or stalled", status.held.len()),
        ));
    }
    Ok(findings)
}
