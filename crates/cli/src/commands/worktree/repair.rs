//! What was interrupted or moved: `worktree repair` puts it right, and `doctor` reports it.

use std::path::PathBuf;

use onus_core::ids::TaskRef;
use onus_core::quote::counted;
use onus_core::refusal::{Code, Refusal, Step};
use onus_repo::worktrees::{Journal, Settled, Whereabouts, Worktrees};
use onus_store::{Access, Finding};
use serde_json::json;

use super::view::{All, Seen};
use crate::commands::doctor::{WORKTREE, finding, mendable};
use crate::context::Context;
use crate::output::{path_line, path_text};
use crate::wording;

pub(super) fn run(context: &Context, paths: &[PathBuf]) -> super::super::Result {
    let worktrees = context.host.worktrees()?;
    let in_place = check_named(context, &worktrees, paths)?;
    let mut settled: Vec<String> = settle(context, &worktrees)?.iter().map(ToString::to_string).collect();
    settled.extend(in_place);
    let root = worktrees.root(context.host.config.worktrees().root.as_deref())?;
    let folder = &context.host.folder;
    let named: Vec<PathBuf> = paths
        .iter()
        .map(|path| folder.join(path))
        .chain(context.host.place.iter().map(|place| place.root.clone()))
        .collect();
    let moved = worktrees.moved(&root, &named);
    if !moved.is_empty() {
        worktrees.repair(&moved)?;
    }
    if context.out.json {
        let document = json!({
            "settled": settled,
            "moved": moved.iter().map(|path| path_text(path)).collect::<Vec<_>>(),
        });
        context.out.document(document, &[]);
        return Ok(());
    }
    settled.iter().for_each(|settled| context.out.line(settled));
    moved
        .iter()
        .for_each(|path| context.out.line(&format!("git knows again where it is: {}", path_line(path))));
    let missing: Vec<PathBuf> = worktrees
        .list()
        .unwrap_or_default()
        .into_iter()
        .filter(|linked| linked.is_missing)
        .map(|linked| linked.path)
        .collect();
    for path in &missing {
        context.out.line(&format!(
            "{} is missing: name the folder that it was moved to, or let git forget it: git worktree prune",
            path_line(path)
        ));
    }
    if settled.is_empty() && moved.is_empty() && missing.is_empty() {
        context.out.line("nothing to repair: no work was interrupted, and no worktree was moved");
    }
    Ok(())
}

/// Refuses folders that are not worktrees of this repository, before anything is done. Returns a line for each that is
/// already where git expects it.
fn check_named(context: &Context, worktrees: &Worktrees, paths: &[PathBuf]) -> Result<Vec<String>, Refusal> {
    let mut in_place = Vec::new();
    for path in paths {
        let name = path_line(path);
        let refuse = |code, why: &str| {
            Err(Refusal::new(code, format!("{name} {why}: nothing was repaired")).next(Step::Worktrees))
        };
        match worktrees.whereabouts(&context.host.folder.join(path)) {
            Whereabouts::Moved => {}
            Whereabouts::InPlace => in_place.push(format!("{name}: it is where git has it")),
            Whereabouts::Copy => {
                return refuse(Code::NotAllowed, "is a copy of a worktree that is still in its place");
            }
            Whereabouts::Foreign => {
                return refuse(Code::NotAllowed, "is not a worktree of this repository");
            }
            Whereabouts::Nowhere => return refuse(Code::NotFound, "does not exist"),
        }
    }
    Ok(in_place)
}

/// Finishes or undoes what was interrupted.
fn settle(context: &Context, worktrees: &Worktrees) -> Result<Vec<Settled>, Refusal> {
    let is_recorded = |journal: &Journal| {
        let recorded = || {
            let task: TaskRef = journal.task.as_deref()?.parse().ok()?;
            let task = context.host.engine(Access::Read).ok()?.show(None, Some(&task)).ok()?.value;
            Some(task.branch.is_some() && task.branch == journal.branch)
        };
        recorded().unwrap_or(false)
    };
    worktrees.settle(&is_recorded)
}

/// What `doctor` says about worktrees: what was finished or undone just now, and what is found.
pub(crate) fn findings(context: &Context, fix: bool) -> Result<(Vec<String>, Vec<Finding>), Refusal> {
    let Ok(worktrees) = context.host.worktrees() else { return Ok(Default::default()) };
    let worktrees = worktrees.with_short_wait();
    let settled = match fix {
        true => settle(context, &worktrees)?.iter().map(|settled| format!("worktree {settled}")).collect(),
        false => Vec::new(),
    };
    let all = All::new(context, &worktrees, false)?;
    let interrupted = all.interrupted.iter().map(|journal| {
        let id = journal.id.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
        mendable(WORKTREE, format!("{id}making or removing {} was interrupted", path_text(&journal.path)))
    });
    let next = |seen: &Seen| {
        let step = seen.next().as_ref().and_then(wording::step);
        step.map(|step| format!("; next: {}", wording::without_comment(&step))).unwrap_or_default()
    };
    // The findings about landings already say that the main checkout is behind.
    let is_said = |seen: &Seen| seen.linked.is_main && seen.behind.is_some();
    let attention =
        all.seen.iter().filter(|seen| seen.holders.is_empty() && seen.next().is_some() && !is_said(seen));
    let mut news: Vec<String> = attention
        .map(|seen| format!("{}: {}{}", path_text(&seen.linked.path), seen.facts().join(", "), next(seen)))
        .collect();
    news.extend(all.busy.iter().map(|why| format!("what was interrupted is not known: {why}")));
    news.extend(all.branches.iter().map(|(branch, unlanded)| {
        format!("branch {branch}: {unlanded} unlanded, checked out nowhere; next: git log HEAD..{branch}")
    }));
    if news.is_empty() && all.seen.len() > 1 {
        let worktrees = counted(all.seen.len() as u64 - 1, "worktree");
        news.push(format!("{worktrees}, each with a live holder"));
    }
    let news = news.into_iter().map(|what| finding(WORKTREE, true, what));
    Ok((settled, interrupted.chain(news).collect()))
}
