//! Which commands of agents' shells run in a worktree, and what its reserved files looked like: so that a change is noticed, and not
//! put down to somebody else.
//!
//! **Between two moments the set of running commands is constant.** Whenever a command begins or ends, all watched files are compared
//! with what they looked like, and remembered as they are now. So whatever is found changed, changed while exactly those commands
//! ran that are open here: they are its suspects. Edit tools name their files: while an edit is open, its files are left out, and when
//! it ends they are remembered as they are.
//!
//! **What was found is kept until it is told.** The lock is held only to look at files and to write down what was seen; the store is
//! asked afterwards. A hook that dies in between leaves what it found to the next one.
//!
//! A command whose end is never reported (refused by a person, failed, in the background) is closed by the next command or turn of
//! its conversation, or when its process is gone.

mod file;
mod print;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use onus_core::command::{FileChange, Party};
use onus_core::lease::Process;

use crate::discover::{Place, worktree};
use crate::last::{How, Last};
use print::Print;

pub(crate) use file::Locked;
pub(crate) use print::TICK_MS;

/// The file, in the worktree's own git directory.
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
pub struct Use {
    pub by: Party,
    /// The sub-agent.
    pub part: Option<String>,
    /// What the harness calls this use, if it tells.
    pub id: Option<String>,
}

impl Use {
    fn is_by(&self, other: &Use) -> bool {
        self.is_of(&other.by) && self.part == other.part
    }

    fn is_of(&self, party: &Party) -> bool {
        is_same(&self.by, party)
    }
}

/// Whether two parties are one conversation.
fn is_same(one: &Party, other: &Party) -> bool {
    one.actor == other.actor && one.conversation == other.conversation
}

/// A command that runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Call {
    tool: Use,
    /// The harness that runs it.
    process: Option<Process>,
    started_ms: i64,
    /// Others whose commands ran meanwhile.
    beside: Vec<Party>,
    /// What edit tools of others wrote meanwhile: that was not this command, whoever has the files now.
    #[serde(default)]
    edited: Vec<String>,
}

/// An edit tool at work.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Edit {
    tool: Use,
    files: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    calls: Vec<Call>,
    edits: Vec<Edit>,
    /// Who has run commands here.
    callers: Vec<Party>,
    /// What changed and was not told yet.
    pending: Vec<FileChange>,
    /// Tracked files that were missing when the tree was last looked at, if it ever was.
    missing: Option<Vec<String>>,
    /// The conversations that were told that the tree is too large to be looked at.
    told_slow: Vec<Party>,
}

/// A command, or several, that are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// When the first began.
    pub started_ms: i64,
    /// All whose commands ran meanwhile, its own conversation among them.
    pub parties: Vec<Party>,
    /// Files that edit tools of others wrote meanwhile.
    pub edited: Vec<String>,
    /// The tracked files that were missing when the tree was last looked at, if it ever was.
    pub missing: Option<Vec<String>>,
    /// Whether its conversation was told that the tree cannot be looked at.
    pub was_told_slow: bool,
}

impl Closed {
    /// Whether only one conversation ran commands.
    pub fn is_alone(&self) -> bool {
        self.parties.len() == 1
    }
}

/// Which of a conversation's uses of tools a moment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The one that it is about; where uses have no names, all of that part.
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
    /// What the watched files looked like, as it is written, and once it was read. Most moments need none of it.
    unread: String,
    read: Option<BTreeMap<String, Print>>,
    is_changed: bool,
    now_ms: i64,
}

impl Calls {
    /// None: outside git, or it cannot be had. `creates`: also where nothing is remembered yet.
    pub fn open(place: &Place, now_ms: i64, creates: bool) -> Option<Calls> {
        let (root, git_dir) = home(place)?;
        let mut file = Locked::open(&git_dir.join(NAME), creates)?;
        let (head, unread) = file.read();
        let head = serde_json::from_str(&head).unwrap_or_default();
        let last = Last::of(place);
        Some(Calls { file, root, last, head, unread, read: None, is_changed: false, now_ms })
    }

    /// Forgets commands whose harness is gone. Returns whose they were.
    pub fn forget_dead(&mut self, is_dead: impl Fn(&Process) -> bool) -> Vec<Party> {
        let is_over = |call: &Call| call.process.as_ref().is_some_and(&is_dead);
        let mut dead = Vec::new();
        self.head.calls.iter().filter(|call| is_over(call)).for_each(|call| add(&mut dead, &call.tool.by));
        if !dead.is_empty() {
            // What they did meanwhile was done while they were open.
            self.compare();
            self.head.calls.retain(|call| !is_over(call));
            self.is_changed = true;
        }
        dead
    }

    /// A command is about to run. `reserved`: the files that anybody has touched in this worktree, in order.
    pub fn begin(&mut self, tool: Use, process: Option<Process>, reserved: Vec<String>) {
        self.compare();
        if self.watched().len() + reserved.len() > MAX_WATCHED {
            self.watched().retain(|path, _| reserved.binary_search(path).is_ok());
        }
        self.watch(reserved);
        let by = tool.by.clone();
        self.head.calls.retain(|call| !call.tool.is_by(&tool));
        let mut beside = Vec::new();
        for call in self.head.calls.iter_mut().filter(|call| !call.tool.is_of(&by)) {
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

    /// An edit tool is about to write files that its conversation has reserved.
    pub fn begin_edit(&mut self, tool: Use, files: Vec<String>) {
        self.catch_up(&tool);
        self.head.edits.push(Edit { tool, files });
        let over = self.head.edits.len().saturating_sub(MAX_CALLS);
        self.head.edits.drain(..over);
        self.is_changed = true;
    }

    /// A conversation speaks again. What its commands did so far is looked at.
    pub fn catch_up(&mut self, tool: &Use) {
        if self.head.calls.iter().any(|call| call.tool.is_of(&tool.by)) {
            self.compare();
        }
    }

    /// Uses of tools are over. `is_shell`: the moment is about a command. Returns the commands among them.
    pub fn end(&mut self, tool: &Use, ends: Ends, is_shell: bool) -> Option<Closed> {
        let is_over = |open: &Use| match ends {
            Ends::Conversation => open.is_of(&tool.by),
            Ends::Part => open.is_by(tool),
            // One with another name may run beside it.
            Ends::This => open.is_by(tool) && (open.id == tool.id || open.id.is_none() || tool.id.is_none()),
        };
        let (edits, open): (Vec<Edit>, _) = self.head.edits.drain(..).partition(|edit| is_over(&edit.tool));
        self.head.edits = open;
        if !edits.is_empty() {
            let files: Vec<String> = edits.into_iter().flat_map(|edit| edit.files).collect();
            for call in self.head.calls.iter_mut().filter(|call| !call.tool.is_of(&tool.by)) {
                let room = MAX_EDITED.saturating_sub(call.edited.len());
                call.edited.extend(files.iter().take(room).cloned());
            }
            self.accept(files, &tool.by);
        }
        if is_shell || self.head.calls.iter().any(|call| call.tool.is_of(&tool.by)) {
            self.compare();
        }
        let (closed, open): (Vec<Call>, _) = self.head.calls.drain(..).partition(|call| is_over(&call.tool));
        self.head.calls = open;
        let mut parties = vec![tool.by.clone()];
        for call in &closed {
            call.beside.iter().for_each(|party| add(&mut parties, party));
            self.is_changed = true;
        }
        let started_ms = closed.iter().map(|call| call.started_ms).min()?;
        let edited = closed.into_iter().flat_map(|call| call.edited).collect();
        let was_told_slow = self.head.told_slow.iter().any(|told| is_same(told, &tool.by));
        Some(Closed { started_ms, parties, edited, missing: self.head.missing.clone(), was_told_slow })
    }

    /// A conversation is over.
    pub fn forget(&mut self, party: &Party) {
        let before = self.head.callers.len();
        self.head.callers.retain(|caller| !is_same(caller, party));
        self.is_changed |= self.head.callers.len() != before;
    }

    /// What changed and was not told yet.
    pub fn pending(&self) -> &[FileChange] {
        &self.head.pending
    }

    /// Who has run commands here.
    pub fn callers(&self) -> &[Party] {
        &self.head.callers
    }

    /// These have been told.
    pub fn told(&mut self, changes: &[FileChange]) {
        self.head.pending.retain(|pending| !changes.contains(pending));
        self.is_changed = true;
    }

    /// Whether a file is known, so that its changes are noticed without looking at the tree; or being edited.
    pub fn knows(&mut self, path: &str) -> bool {
        let is_edited = self.head.edits.iter().any(|edit| edit.files.iter().any(|file| file == path));
        is_edited || self.watched().contains_key(path)
    }

    /// Remembers what more files look like, and what is in them.
    pub fn watch(&mut self, files: Vec<String>) {
        self.watch_as(files, How::Seen, &[]);
    }

    fn watch_as(&mut self, files: Vec<String>, how: How, by: &[Party]) {
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

    /// Keeps what is in files now. What cannot be kept is not: the agents go on.
    fn keep(&self, files: &[String], how: How, by: &[Party]) {
        let Some(last) = &self.last else { return };
        let by: Vec<_> = by.iter().map(|party| (party.actor.clone(), party.conversation.clone())).collect();
        for file in files {
            let _ = last.keep(file, (how, by.clone()), self.now_ms);
        }
    }

    /// Files are as their holder made them.
    fn accept(&mut self, files: Vec<String>, by: &Party) {
        let watched = self.watched();
        for file in &files {
            watched.remove(file);
        }
        self.watch_as(files, How::Edited, std::slice::from_ref(by));
        self.is_changed = true;
    }

    /// Remembers which tracked files are missing now. Returns those that were when the tree was last looked at, if it ever was.
    pub fn missing(&mut self, now: Vec<String>) -> Option<Vec<String>> {
        let now: Vec<String> = now.into_iter().take(MAX_MISSING).collect();
        self.is_changed |= self.head.missing.as_ref() != Some(&now);
        self.head.missing.replace(now)
    }

    /// More that changed, to be told.
    pub fn found(&mut self, changes: &[FileChange]) {
        let room = MAX_PENDING.saturating_sub(self.head.pending.len());
        self.head.pending.extend(changes.iter().take(room).cloned());
        self.is_changed |= !changes.is_empty();
    }

    /// Whether it is news to somebody that the tree cannot be looked at.
    pub fn is_news_that_slow(&mut self, party: &Party, is_slow: bool) -> bool {
        let is_told = self.head.told_slow.iter().any(|told| is_same(told, party));
        match (is_slow, is_told) {
            (true, false) => self.head.told_slow.push(party.clone()),
            (false, true) => self.head.told_slow.retain(|told| !is_same(told, party)),
            _ => return false,
        }
        let over = self.head.told_slow.len().saturating_sub(MAX_CALLERS);
        self.head.told_slow.drain(..over);
        self.is_changed = true;
        is_slow
    }

    /// Compares all watched files with what they looked like, and remembers what they look like.
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

    /// Writes down what is to be remembered, and lets others in.
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

fn add(parties: &mut Vec<Party>, party: &Party) {
    if !parties.iter().any(|known| is_same(known, party)) {
        parties.push(party.clone());
    }
}

/// The root from which files are named, and the git directory of that worktree: a submodule's files are its superproject's.
pub fn home(place: &Place) -> Option<(PathBuf, PathBuf)> {
    let outer = if place.is_submodule() { place.root.parent().and_then(worktree) } else { None };
    let place = outer.as_ref().unwrap_or(place);
    Some((real(&place.root), place.git_dir.clone()?))
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
