//! Restores what an earlier holder left uncommitted into a task's new worktree. This is the last step, after the worktree is
//! recorded: what cannot be restored is reported, and costs neither the worktree nor the claim.

use std::path::{Path, PathBuf};

use onus_core::command::Act;
use onus_core::commit::Extent;
use onus_core::ids::TaskRef;
use onus_core::quote::{self, counted};
use onus_core::refusal::{Refusal, Step};
use onus_core::rescue::RescueState;
use onus_engine::{Notice, NoticeKind, RescueView, TaskView};
use onus_repo::rescue::{self as kept, Restored};
use onus_repo::{Place, Repository, discover};
use serde_json::{Value, json};

use super::super::rescue::{at, failed, why_not};
use super::making::Holder;
use crate::context::Context;
use crate::output::{escape_line, path_line, path_text};

/// The most files that are named to people.
const MOST_NAMED: usize = 5;

/// What was restored, and what was not.
#[derive(Debug, Default)]
pub(crate) struct Laid {
    of: Option<RescueView>,
    brought: Restored,
    pub(crate) notices: Vec<Notice>,
}

impl Laid {
    /// None if the task has no rescue.
    pub(crate) fn document(&self) -> Option<Value> {
        let of = self.of.as_ref()?;
        let texts = |paths: &[PathBuf]| paths.iter().map(|path| path_text(path)).collect::<Vec<_>>();
        let Restored { written, removed, same, uncommitted, committed, only_staged } = &self.brought;
        let staged = only_staged.iter().map(|(path, _)| path.clone());
        let left: Vec<PathBuf> = uncommitted.iter().chain(committed).cloned().chain(staged).collect();
        Some(json!({
            "token": of.token,
            "actor": of.actor,
            "written": texts(written),
            "removed": texts(removed),
            "same": texts(same),
            "left": texts(&left),
        }))
    }

    /// The line for people, below the worktree's.
    pub(crate) fn line(&self) -> Option<String> {
        let of = self.of.as_ref()?;
        let files: Vec<&PathBuf> = self.brought.written.iter().chain(&self.brought.removed).collect();
        let names: Vec<String> = files.iter().take(MOST_NAMED).map(|path| path_line(path)).collect();
        let more = if files.len() > names.len() { ", …" } else { "" };
        let n = files.len();
        let from = escape_line(&of.actor);
        (n > 0).then(|| {
            format!("  rescued:  {} of {from}: {}{more}", counted(n as u64, "file"), names.join(", "))
        })
    }
}

/// Restores the task's last rescue. `uncommitted` counts the uncommitted changes of a worktree that already existed.
pub(super) fn restore_exactly(
    context: &Context,
    task: &TaskView,
    path: &Path,
    uncommitted: usize,
    holder: &dyn Holder,
) -> Laid {
    let note = |message: String| Notice::new(NoticeKind::Rescue, Some(task.id.clone()), message);
    let nothing = |why: &str| note(format!("nothing was restored: {why}"));
    let with = |notice| Laid { notices: vec![notice], ..Laid::default() };
    let of = match last(context, task) {
        Ok(Some(of)) => of,
        Ok(None) => return with(nothing(&format!("{} has no rescued files", task.id))),
        Err(refusal) => return with(nothing(&refusal.message)),
    };
    if of.state == RescueState::Due.as_str() {
        let why = format!("what {} left uncommitted is still to be kept", quote::name(&of.actor));
        return with(nothing(&why).next(Step::MendStore));
    }
    let mut laid = Laid::default();
    let not = if uncommitted > 0 {
        Some("nothing was restored: the worktree was there, with uncommitted changes in it".to_owned())
    } else {
        match laid_out(context, &of, path, holder, &mut laid.brought) {
            Ok(()) if laid.brought.is_refused() => Some(format!("not restored: {}", why_not(&laid.brought))),
            Ok(()) => None,
            Err(refusal) => Some(format!("not everything was restored: {}", refusal.message)),
        }
    };
    laid.notices.extend(not.map(|message| note(message).next(Step::Rescued(task.id.clone()))));
    laid.of = Some(of);
    laid
}

/// The task's last rescue that is kept or due.
fn last(context: &Context, task: &TaskView) -> Result<Option<RescueView>, Refusal> {
    let (mut engine, identity) = context.host.reader()?;
    let task: TaskRef = task.uid.parse()?;
    let all = engine.rescues(identity.as_ref(), Some(&task), None)?.value;
    let is = |view: &RescueView, state: RescueState| view.state == state.as_str();
    Ok(all.into_iter().rfind(|view| is(view, RescueState::Kept) || is(view, RescueState::Due)))
}

fn laid_out(
    context: &Context,
    of: &RescueView,
    path: &Path,
    holder: &dyn Holder,
    brought: &mut Restored,
) -> Result<(), Refusal> {
    let place = discover(path).ok_or_else(|| failed("the worktree is gone"))?;
    let repository = Repository::new(&place)?.ok_or_else(|| failed("the worktree is gone"))?;
    for at in at(&repository, of)? {
        let files = kept::files_of(&repository, &at.commit).map_err(failed)?;
        if !holder.is_person() && !files.is_empty() {
            reserve(context, &place, files.iter().map(|file| file.path.as_path()), holder)?;
        }
        // In a clean worktree on the same commit, everything is restored exactly, with the index.
        let one = match kept::restore_exactly(&place, &at.commit) {
            Ok(_) => {
                let (written, removed) = files.into_iter().partition::<Vec<_>, _>(|file| file.is_there);
                let paths = |files: Vec<kept::FileOf>| files.into_iter().map(|file| file.path).collect();
                Restored { written: paths(written), removed: paths(removed), ..Restored::default() }
            }
            Err(_) => kept::bring_back_what_fits(&place, &at.commit).map_err(failed)?,
        };
        brought.written.extend(one.written);
        brought.removed.extend(one.removed);
        brought.same.extend(one.same);
        brought.uncommitted.extend(one.uncommitted);
        brought.committed.extend(one.committed);
    }
    Ok(())
}

/// Reserves the files for an agent, which may write only what nobody else has reserved.
fn reserve<'a>(
    context: &Context,
    place: &Place,
    files: impl Iterator<Item = &'a Path>,
    holder: &dyn Holder,
) -> Result<(), Refusal> {
    let files: Vec<PathBuf> = files.map(|file| place.root.join(file)).collect();
    let (paths, touched) = context.host.touched(&files)?;
    holder.act(Act::Touch { paths, touched, extent: Extent::default() }).map(drop)
}
