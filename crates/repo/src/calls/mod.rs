//! Remembers which shell commands of agents run in a worktree and what its reserved files looked like, so that a change is noticed
//! and attributed to the right runner.
//!
//! **Between two events the set of running commands is constant.** Whenever a command begins or ends, all watched files are compared
//! with their remembered state, and their current state is remembered. So a change that is found happened while exactly the
//! commands ran that are open here: they are its suspects. Edit tools name their files: while an edit is open its files are skipped,
//! and when it ends their current state is remembered.
//!
//! **Findings are kept until they are reported.** The lock is held only to examine files and to record the findings; the store is
//! used afterwards. If a hook dies in between, the next one reports its findings.
//!
//! A command whose end is never reported (refused by a person, failed, in the background) is closed by the next command or turn of
//! its conversation, or when its process is gone.

mod file;
mod print;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use onus_core::command::{FileChange, Runner};
use onus_core::lease::Process;

use crate::discover::{Place, real, worktree};
use crate::last::{How, Last};
use print::Print;

pub(crate) use file::Locked;
pub(crate) use print::TICK_MS;

/// The name of the file, in the worktree's own git directory.
const NAME: &str = "onus-calls";

/// Bounds on what is remembered.
const MAX_CALLS: usize = 200;
const MAX_WATCHED: usize = 5_000;
const MAX_PENDING: usize = 1_000;
const MAX_CALLERS: usize = 50;
const MAX_MISSING: usize = 500;
const MAX_EDITED: usize = 1_000;

/// A use of a tool by a conversation, or by a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    pub by: Runner,
    /// The sub-agent.
    pub part: Option<String>,
    /// The harness's id for this use, if it reports one.
    pub id: Option<String>,
}

impl ToolUse {
    fn is_same_part(&self, other: &ToolUse) -> bool {
        self.is_same_conversation(&other.by) && self.part == other.part
    }

    fn is_same_conversation(&self, runner: &Runner) -> bool {
        is_same(&self.by, runner)
    }
}

/// Whether two runners are one conversation.
fn is_same(one: &Runner, other: &Runner) -> bool {
    one.actor == other.actor && one.conversation == other.conversation
}

/// A running command.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Call {
    tool: ToolUse,
    /// The harness that runs it.
    process: Option<Process>,
    started_ms: i64,
    /// Other runners whose commands ran meanwhile.
    beside: Vec<Runner>,
    /// Files that edit tools of others wrote meanwhile. This command did not change them, whoever has reserved them now.
    #[serde(default)]
    edited: Vec<String>,
}

/// A running edit tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Edit {
    tool: ToolUse,
    files: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    calls: Vec<Call>,
    edits: Vec<Edit>,
    /// The runners that have run commands here.
    callers: Vec<Runner>,
    /// Changes that were not reported yet.
    pending: Vec<FileChange>,
    /// Tracked files that were missing when the tree was last examined, if it ever was.
    missing: Option<Vec<String>>,
    /// The conversations that were told that the tree is too large to be examined.
    told_slow: Vec<Runner>,
}

/// One or more commands that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The start of the first.
    pub started_ms: i64,
    /// All runners whose commands ran meanwhile, including its own conversation.
    pub runners: Vec<Runner>,
    /// Files that edit tools of others wrote meanwhile.
    pub edited: Vec<String>,
    /// Tracked files that were missing when the tree was last examined, if it ever was.
    pub missing: Option<Vec<String>>,
    /// Whether its conversation was told that the tree cannot be examined.
    pub was_told_slow: bool,
}

impl Closed {
    /// Whether only one conversation ran commands.
    pub fn is_alone(&self) -> bool {
        self.runners.len() == 1
    }
}

/// Which of a conversation's tool uses an event ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The one that it is about; if uses have no ids, all of that part.
    This,
    /// All of that part.
    Part,
    /// All of the conversation.
    Conversation,
}

/// The memory of one worktree, locked.
#[derive(Debug)]
pub struct Calls {
    file: Locked,
    root: PathBuf,
    /// Where the contents of watched files are kept.
    last: Option<Last>,
    head: Head,
    /// The state of the watched files as JSON, not parsed yet: most events do not need it.
    unread: String,
    /// The same, once it was parsed.
    read: Option<BTreeMap<String, Print>>,
    is_changed: bool,
    now_ms: i64,
}

impl Calls {
    /// Opens the memory; None outside git, or if that fails. `creates`: creates it if there is none yet.
    pub fn open(place: &Place, now_ms: i64, creates: bool) -> Option<Calls> {
        let (root, git_dir) = home(place)?;
        let mut file = Locked::open(&git_dir.join(NAME), creates)?;
        let (head, unread) = file.read();
        let head = serde_json::from_str(&head).unwrap_or_default();
        let last = Last::of(place);
        Some(Calls { file, root, last, head, unread, read: None, is_changed: false, now_ms })
    }

    /// Forgets commands whose harness is gone. Returns whose they were.
    pub fn forget_dead(&mut self, is_dead: impl Fn(&Process) -> bool) -> Vec<Runner> {
        let is_over = |call: &Call| call.process.as_ref().is_some_and(&is_dead);
        let mut dead = Vec::new();
        self.head.calls.iter().filter(|call| is_over(call)).for_each(|call| add(&mut dead, &call.tool.by));
        if !dead.is_empty() {
            // Compared while they are still open, so that they are suspects of what changed.
            self.compare();
            self.head.calls.retain(|call| !is_over(call));
            self.is_changed = true;
        }
        dead
    }

    /// Records that a command is about to run. `reserved`: the files that anybody has touched in this worktree, sorted.
    pub fn begin(&mut self, tool: ToolUse, process: Option<Process>, reserved: Vec<String>) {
        self.compare();
        if self.watched().len() + reserved.len() > MAX_WATCHED {
            self.watched().retain(|path, _| reserved.binary_search(path).is_ok());
        }
        self.watch(reserved);
        let by = tool.by.clone();
        self.head.calls.retain(|call| !call.tool.is_same_part(&tool));
        let mut beside = Vec::new();
        for call in self.head.calls.iter_mut().filter(|call| !call.tool.is_same_conversation(&by)) {
            add(&mut beside, &call.tool.by);
            add(&mut call.beside, &by);
        }
        self.head.calls.push(Call { tool, process, started_ms: self.now_ms, beside, edited: Vec::new() });
        let over = self.head.calls.len().saturating_sub(MAX_CALLS);
        self.head.calls.drain(..over);
        self.head.callers.retain(|caller| !is_same(caller, &by));
        self.head.callers.push(by);
        let over = self.head.callers.len().saturating_sub(MAX_CALLERS);
        self.head.callers.drain(..over);
        self.is_changed = true;
    }

    /// Records that an edit tool is about to write files that its conversation has reserved.
    pub fn begin_edit(&mut self, tool: ToolUse, files: Vec<String>) {
        self.catch_up(&tool);
        self.head.edits.push(Edit { tool, files });
        let over = self.head.edits.len().saturating_sub(MAX_CALLS);
        self.head.edits.drain(..over);
        self.is_changed = true;
    }

    /// On any other event of a conversation, checks what its running commands did so far.
    pub fn catch_up(&mut self, tool: &ToolUse) {
        if self.head.calls.iter().any(|call| call.tool.is_same_conversation(&tool.by)) {
            self.compare();
        }
    }

    /// Records that tool uses have ended. `is_shell`: the event is about a command. Returns the commands among them.
    pub fn end(&mut self, tool: &ToolUse, ends: Ends, is_shell: bool) -> Option<Closed> {
        let is_over = |open: &ToolUse| match ends {
            Ends::Conversation => open.is_same_conversation(&tool.by),
            Ends::Part => open.is_same_part(tool),
            // One with another id may still be running.
            Ends::This => {
                open.is_same_part(tool) && (open.id == tool.id || open.id.is_none() || tool.id.is_none())
            }
        };
        let (edits, open): (Vec<Edit>, _) = self.head.edits.drain(..).partition(|edit| is_over(&edit.tool));
        self.head.edits = open;
        if !edits.is_empty() {
            let files: Vec<String> = edits.into_iter().flat_map(|edit| edit.files).collect();
            for call in self.head.calls.iter_mut().filter(|call| !call.tool.is_same_conversation(&tool.by)) {
                let room = MAX_EDITED.saturating_sub(call.edited.len());
                call.edited.extend(files.iter().take(room).cloned());
            }
            self.accept(files, &tool.by);
        }
        if is_shell || self.head.calls.iter().any(|call| call.tool.is_same_conversation(&tool.by)) {
            self.compare();
        }
        let (closed, open): (Vec<Call>, _) = self.head.calls.drain(..).partition(|call| is_over(&call.tool));
        self.head.calls = open;
        let mut runners = vec![tool.by.clone()];
        for call in &closed {
            call.beside.iter().for_each(|runner| add(&mut runners, runner));
            self.is_changed = true;
        }
        let started_ms = closed.iter().map(|call| call.started_ms).min()?;
        let edited = closed.into_iter().flat_map(|call| call.edited).collect();
        let was_told_slow = self.head.told_slow.iter().any(|told| is_same(told, &tool.by));
        Some(Closed { started_ms, runners, edited, missing: self.head.missing.clone(), was_told_slow })
    }

    /// Removes a conversation that is over from the callers.
    pub fn forget(&mut self, runner: &Runner) {
        let before = self.head.callers.len();
        self.head.callers.retain(|caller| !is_same(caller, runner));
        self.is_changed |= self.head.callers.len() != before;
    }

    /// Changes that were not reported yet.
    pub fn pending(&self) -> &[FileChange] {
        &self.head.pending
    }

    /// The runners that have run commands here.
    pub fn callers(&self) -> &[Runner] {
        &self.head.callers
    }

    /// Removes changes that have been reported.
    pub fn told(&mut self, changes: &[FileChange]) {
        self.head.pending.retain(|pending| !changes.contains(pending));
        self.is_changed = true;
    }

    /// Whether a file is watched, so that its changes are noticed without examining the tree, or is being edited.
    pub fn knows(&mut self, path: &str) -> bool {
        let is_edited = self.head.edits.iter().any(|edit| edit.files.iter().any(|file| file == path));
        is_edited || self.watched().contains_key(path)
    }

    /// Watches more files, and keeps their contents.
    pub fn watch(&mut self, files: Vec<String>) {
        self.watch_as(files, How::Seen, &[]);
    }

    fn watch_as(&mut self, files: Vec<String>, how: How, by: &[Runner]) {
        let (root, now_ms) = (self.root.clone(), self.now_ms);
        let watched = self.watched();
        let mut new = Vec::new();
        for file in files {
            if watched.len() < MAX_WATCHED && !watched.contains_key(&file) {
                let print = Print::take(&root.join(&file), now_ms);
                watched.insert(file.clone(), print);
                new.push(file);
            }
        }
        self.is_changed |= !new.is_empty();
        self.keep(&new, how, by);
    }

    /// Keeps the current contents of files. Failures are ignored: the agents continue.
    fn keep(&self, files: &[String], how: How, by: &[Runner]) {
        let Some(last) = &self.last else { return };
        let by: Vec<_> =
            by.iter().map(|runner| (runner.actor.clone(), runner.conversation.clone())).collect();
        for file in files {
            let _ = last.keep(file, (how, by.clone()), self.now_ms);
        }
    }

    /// Remembers the current state of files that their holder edited.
    fn accept(&mut self, files: Vec<String>, by: &Runner) {
        let watched = self.watched();
        for file in &files {
            watched.remove(file);
        }
        self.watch_as(files, How::Edited, std::slice::from_ref(by));
        self.is_changed = true;
    }

    /// Remembers which tracked files are missing now. Returns those that were missing when the tree was last examined, if it ever was.
    pub fn missing(&mut self, now: Vec<String>) -> Option<Vec<String>> {
        let now: Vec<String> = now.into_iter().take(MAX_MISSING).collect();
        self.is_changed |= self.head.missing.as_ref() != Some(&now);
        self.head.missing.replace(now)
    }

    /// Adds changes to be reported.
    pub fn found(&mut self, changes: &[FileChange]) {
        let room = MAX_PENDING.saturating_sub(self.head.pending.len());
        self.head.pending.extend(changes.iter().take(room).cloned());
        self.is_changed |= !changes.is_empty();
    }

    /// Whether a runner has still to be told that the tree cannot be examined. Remembers that it was.
    pub fn is_news_that_slow(&mut self, runner: &Runner, is_slow: bool) -> bool {
        let is_told = self.head.told_slow.iter().any(|told| is_same(told, runner));
        match (is_slow, is_told) {
            (true, false) => self.head.told_slow.push(runner.clone()),
            (false, true) => self.head.told_slow.retain(|told| !is_same(told, runner)),
            _ => return false,
        }
        let over = self.head.told_slow.len().saturating_sub(MAX_CALLERS);
        self.head.told_slow.drain(..over);
        self.is_changed = true;
        is_slow
    }

    /// Compares all watched files with their remembered state, and remembers the current one.
    fn compare(&mut self) {
        let mut suspects = Vec::new();
        self.head.calls.iter().for_each(|call| add(&mut suspects, &call.tool.by));
        let (root, now_ms) = (self.root.clone(), self.now_ms);
        let edited: Vec<String> = self.head.edits.iter().flat_map(|edit| edit.files.clone()).collect();
        let mut changed = Vec::new();
        let mut is_retaken = false;
        for (path, print) in self.watched() {
            if edited.contains(path) {
                continue;
            }
            let before = print.clone();
            if print.changed(&root.join(path), now_ms) {
                changed.push(path.clone());
            }
            is_retaken |= before != *print;
        }
        self.is_changed |= is_retaken;
        self.keep(&changed, How::Changed, &suspects);
        for path in changed {
            let change = FileChange { path, suspects: suspects.clone() };
            if self.head.pending.len() < MAX_PENDING && !self.head.pending.contains(&change) {
                self.head.pending.push(change);
            }
        }
    }

    fn watched(&mut self) -> &mut BTreeMap<String, Print> {
        self.read.get_or_insert_with(|| serde_json::from_str(&self.unread).unwrap_or_default())
    }

    /// Writes the file if anything changed, and releases the lock.
    pub fn close(mut self) {
        if !self.is_changed {
            return;
        }
        let Ok(head) = serde_json::to_string(&self.head) else { return };
        let watched = match &self.read {
            Some(read) => serde_json::to_string(read).unwrap_or_default(),
            None => std::mem::take(&mut self.unread),
        };
        self.file.write(&head, &watched);
    }
}

fn add(runners: &mut Vec<Runner>, runner: &Runner) {
    if !runners.iter().any(|known| is_same(known, runner)) {
        runners.push(runner.clone());
    }
}

/// The root that files are named relative to, and the git directory of that worktree. A submodule's files belong to its superproject.
pub fn home(place: &Place) -> Option<(PathBuf, PathBuf)> {
    let outer = if place.is_submodule() { place.root.parent().and_then(worktree) } else { None };
    let place = outer.as_ref().unwrap_or(place);
    Some((real(&place.root), place.git_dir.clone()?))
}
