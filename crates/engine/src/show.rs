//! What `show` adds to a task's record: its notes and decisions, and the linked tasks by title.

use std::collections::BTreeMap;

use serde::Serialize;

use onus_core::chain::Record;
use onus_core::commit::CommitRow;
use onus_core::event::{Body, MovedBy};
use onus_core::ids::{Number, TaskRef, Version};
use onus_core::task::{NoteKind, State, Task};
use onus_core::text::Field;
use onus_core::time::rfc3339;
use onus_store::{Direction, Result};

use crate::snapshot::Snapshot;
use crate::view::{TaskView, Texts};

/// How many linked tasks are shown by title: an epic may have thousands of parts.
const MAX_LINKED: usize = 200;

/// A task that another one names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkedView {
    pub title: String,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteView {
    pub version: u64,
    pub kind: NoteKind,
    /// The event that it came with: `note.added`, `task.done`, …
    pub event: String,
    pub actor: String,
    pub instance: String,
    pub at: String,
    pub text: String,
    pub link: Option<String>,
    /// How that event moved the task on, for interfaces that word it.
    #[serde(skip)]
    pub moved_by: Option<MovedBy>,
}

/// A commit that was made for a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommitView {
    pub commit: String,
    pub actor: String,
    /// Of the lease that it was made under.
    pub token: u64,
    pub at: String,
}

impl NoteView {
    /// The text that came with an event.
    pub(crate) fn of(record: Record, text: String) -> NoteView {
        let (kind, link) = kind_of(&record);
        let moved_by = record.body().ok().and_then(|body| body.moved_by());
        NoteView {
            version: record.version,
            kind,
            event: record.kind,
            actor: record.actor,
            instance: record.instance,
            at: record.at,
            text,
            link,
            moved_by,
        }
    }
}

impl Snapshot<'_> {
    /// Everything that `show` shows of a task.
    pub(crate) fn shown_task(&mut self, task: &Task) -> Result<TaskView> {
        let mut view = self.task_view(task)?;
        let notes = self.notes(task)?;
        let blocks = self.read.neighbour_numbers(task.uid, Direction::Downstream)?;
        let children = self.read.children(task.uid)?;
        let [blocks, children] = [blocks, children]
            .map(|numbers| numbers.into_iter().map(|number| self.id(number)).collect::<Vec<String>>());
        let mut linked = BTreeMap::new();
        let named = view.parent.iter().chain(&view.deps).chain(&blocks).chain(&children).chain(&view.relates);
        for id in named.take(MAX_LINKED) {
            if let Some(link) = self.linked(id)? {
                linked.insert(id.clone(), link);
            }
        }
        view.decisions = Some(notes.iter().filter(|note| note.kind == NoteKind::Decision).cloned().collect());
        view.notes = Some(notes);
        view.commits = Some(self.commits(task)?);
        (view.blocks, view.children, view.linked) = (Some(blocks), Some(children), Some(linked));
        Ok(view)
    }

    fn commits(&mut self, task: &Task) -> Result<Vec<CommitView>> {
        let rows = self.read.commits_of(task.uid)?.into_iter();
        let view = |row: CommitRow| CommitView {
            commit: row.commit.to_string(),
            actor: row.actor.to_string(),
            token: row.token.0,
            at: rfc3339(row.at_ms),
        };
        Ok(rows.map(view).collect())
    }

    fn linked(&mut self, id: &str) -> Result<Option<LinkedView>> {
        let number = id.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        let Some(number) = number else { return Ok(None) };
        let Some(uid) = self.read.resolve(&TaskRef::Number(Number(number)))?.pop() else { return Ok(None) };
        let Some(task) = self.task(uid)? else { return Ok(None) };
        Ok(Some(LinkedView { title: self.title(&task)?, state: task.state }))
    }

    fn notes(&mut self, task: &Task) -> Result<Vec<NoteView>> {
        let mut notes = Vec::new();
        for record in self.read.notes(task.uid)? {
            let texts = self.read.texts(task.uid, Version(record.version))?;
            let text = Texts(&texts).or_redacted(Version(record.version), Field::Note);
            notes.push(NoteView::of(record, text));
        }
        Ok(notes)
    }
}

/// The kind of a note. A text that came with a verb is the resolution if the verb says that the work is done.
fn kind_of(record: &Record) -> (NoteKind, Option<String>) {
    match record.body() {
        Ok(Body::NoteAdded { kind, link }) => (kind, link),
        Ok(Body::TaskDone { .. } | Body::TaskSubmitted { .. }) => (NoteKind::Resolution, None),
        _ => (NoteKind::Progress, None),
    }
}
