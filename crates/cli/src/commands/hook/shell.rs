//! Writes through a shell: the files that a command names are judged before it runs, and what it changed is looked at
//! afterwards.
//!
//! The worktree remembers which commands run in it (`onus_repo::calls`); the engine decides who is told what, and which
//! files join whose work. Nothing here stops an agent: what cannot be remembered, read or reported now is left to the next
//! moment.

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_agents::KnownHarness;
use onus_agents::hook::{Answer, HookEvent, Payload};
use onus_core::command::{Command, FileChange, Look, Runner};
use onus_core::lease::Seen;
use onus_core::quote;
use onus_core::refusal::Refusal;
use onus_dispatch::group;
use onus_engine::{AnyEngine, Files, HookCall};
use onus_os::{clock, process};
use onus_repo::calls::{Calls, Closed, Ends, ToolUse, home};
use onus_repo::{Place, changed_since, checkouts, discover};

use super::{Hook, joined, refused, said};

/// The most files that join a conversation's work after one command.
const MAX_JOINING: usize = 200;

/// The most processes of a dead program that are named.
const MAX_LEFT: usize = 5;

impl Hook<'_> {
    /// Refuses a command that names a file of another holder as one it writes.
    pub(super) fn named_by_a_command(
        &self,
        engine: &mut AnyEngine,
        names: &[String],
    ) -> Result<Answer, Refusal> {
        let refusal = engine.reserved_by_another(&self.conversation, names)?;
        if let Some(refusal) = &refusal {
            self.record_wish(engine, &self.conversation.instance, refusal);
        }
        Ok(Answer { refusal: refusal.as_ref().map(refused), ..Answer::default() })
    }

    /// A command is about to run. Returns what the agent should know.
    pub(super) fn command_begins(
        &mut self,
        engine: &mut AnyEngine,
        payload: &Payload,
    ) -> Result<Option<String>, Refusal> {
        let host = self.host;
        let Some((place, (root, _))) = host.place.as_ref().and_then(|place| Some((place, home(place)?)))
        else {
            return Ok(None);
        };
        self.go_to(&root);
        let call = engine.call(&self.conversation, &[], Files::ToChange)?;
        let reserved = engine.touched_in(self.conversation.worktree.as_ref())?;
        let Some(mut calls) = open(place, true) else { return Ok(None) };
        let remark = self.left_running(&mut calls, payload.moment);
        let process = self.conversation.process.clone().or_else(process::launcher);
        calls.begin(self.tool(&call, payload), process, reserved);
        Ok(self.begun(engine, &call, place, calls, remark, payload.moment))
    }

    /// An edit tool is about to write files of this worktree, which the conversation has reserved.
    pub(super) fn edit_begins(
        &self,
        engine: &mut AnyEngine,
        call: &HookCall,
        payload: &Payload,
        paths: Vec<String>,
    ) -> Option<String> {
        let own = self.host.place.as_ref()?;
        let there = self.checkout.path.as_ref().filter(|path| Path::new(path) != own.root);
        let there = there.and_then(|path| discover(Path::new(path)));
        let place = there.as_ref().unwrap_or(own);
        let mut calls = open(place, true)?;
        let remark = self.left_running(&mut calls, payload.moment);
        calls.begin_edit(self.tool(call, payload), paths);
        self.begun(engine, call, place, calls, remark, payload.moment)
    }

    fn begun(
        &self,
        engine: &mut AnyEngine,
        call: &HookCall,
        place: &Place,
        calls: Calls,
        remark: Option<String>,
        moment: HookEvent,
    ) -> Option<String> {
        let (changes, lingering) = (calls.pending().to_vec(), calls.callers().to_vec());
        calls.close();
        self.report(engine, call, place, Found { changes, lingering, remark, ..Found::default() }, moment)
    }

    /// Looks at what tools have changed, at any other moment. None if nothing was found that concerns anybody.
    ///
    /// An edit ends where its files are. Any other call may have begun in any worktree: a shell stays in the folder it changed
    /// to, and not every use of a tool has an end of its own.
    pub(super) fn tools_end(
        &mut self,
        engine: &mut AnyEngine,
        call: &HookCall,
        payload: &Payload,
        files: &BTreeMap<PathBuf, Vec<String>>,
    ) -> Option<Option<String>> {
        let own = self.host.place.as_ref()?;
        let is_of_an_edit =
            matches!(payload.moment, HookEvent::AfterTool | HookEvent::ToolFailed) && !payload.is_shell;
        let places = match is_of_an_edit {
            true => {
                let others = files.keys().filter(|root| **root != own.root);
                iter::once(own.clone()).chain(others.filter_map(|root| discover(root))).collect()
            }
            false => checkouts(own),
        };
        let mut found = None;
        for (at, place) in places.iter().enumerate() {
            if let Some(told) = self.ends_in(engine, call, payload, (place, at == 0)) {
                found = Some(joined(found.flatten(), told));
            }
        }
        found
    }

    /// The same for one worktree; `is_own` if the agent is in it.
    fn ends_in(
        &mut self,
        engine: &mut AnyEngine,
        call: &HookCall,
        payload: &Payload,
        (place, is_own): (&Place, bool),
    ) -> Option<Option<String>> {
        let tool = self.tool(call, payload);
        let ends = match payload.moment {
            HookEvent::AfterTool | HookEvent::ToolFailed => Ends::This,
            // A sub-agent may continue in the background when the conversation's turn is over.
            HookEvent::PartOver | HookEvent::TurnOver | HookEvent::TurnBegins => Ends::Part,
            _ => Ends::Conversation,
        };
        let mut calls = open(place, false)?;
        let remark = if is_own { self.left_running(&mut calls, payload.moment) } else { None };
        let closed = calls.end(&tool, ends, payload.is_shell && is_own);
        if payload.moment == HookEvent::End {
            calls.forget(&tool.by);
        }
        let mut found = Found {
            changes: calls.pending().to_vec(),
            lingering: calls.callers().to_vec(),
            remark,
            ..Found::default()
        };
        calls.close();
        if let Some(closed) = closed {
            self.look_at_tree(place, &tool.by, &closed, &mut found);
        }
        if found.changes.is_empty() && found.joining.is_empty() && found.remark.is_none() {
            return None;
        }
        self.go_to(&home(place)?.0);
        Some(self.report(engine, call, place, found, payload.moment))
    }

    /// Finds what a command changed among the files that nobody watched.
    fn look_at_tree(&self, place: &Place, by: &Runner, closed: &Closed, found: &mut Found) {
        let budget = self.host.config.tree_budget();
        if budget == Duration::ZERO {
            return;
        }
        let span = (closed.started_ms, clock::now().wall_ms);
        let Some(seen) = changed_since(place, span, budget) else { return };
        let is_slow = seen.is_err();
        let seen = seen.unwrap_or_default();
        let is_quiet = seen.changed.is_empty() && Some(&seen.missing) == closed.missing.as_ref();
        if is_quiet && is_slow == closed.was_told_slow {
            return;
        }
        let Some(mut calls) = open(place, false) else { return };
        if calls.is_news_that_slow(by, is_slow) {
            let slow = format!(
                "onus: git could not list what changed here within {} ms, so only files that were already reserved are compared \
                 after commands",
                budget.as_millis()
            );
            found.remark = joined(found.remark.take(), Some(slow));
        }
        if !is_slow {
            // A file that was missing at the first look may have been missing for a long time.
            let before = calls.missing(seen.missing);
            let is_new = |file: &String| before.as_ref().is_some_and(|before| !before.contains(file));
            let removed = seen.removed.into_iter().filter(is_new);
            let is_edited = |file: &String| closed.edited.contains(file);
            let changed: Vec<String> =
                seen.changed.into_iter().chain(removed).filter(|file| !is_edited(file)).collect();
            let unknown = changed.iter().filter(|path| !calls.knows(path)).cloned().collect::<Vec<_>>();
            let changes: Vec<FileChange> = unknown
                .iter()
                .map(|path| FileChange { path: path.clone(), suspects: closed.runners.clone() })
                .collect();
            calls.found(&changes);
            calls.watch(unknown);
            found.changes.extend(changes);
            if closed.is_alone() {
                found.joining = changed;
            }
        }
        calls.close();
    }

    /// Forgets the commands of dead programs, and names those that still run: whoever works here now should know.
    fn left_running(&self, calls: &mut Calls, moment: HookEvent) -> Option<String> {
        if !self.is_heard(moment) {
            return None;
        }
        let dead = calls.forget_dead(|process| {
            matches!(process::observe(process), Seen::Dead | Seen::EarlierBoot { .. })
        });
        let lines = dead.iter().filter_map(|runner| {
            let name = runner.actor.as_str().strip_prefix("agent:")?;
            let variables = KnownHarness::called(name)?.conversation;
            let entries: Vec<String> =
                variables.iter().map(|variable| format!("{variable}={}", runner.conversation)).collect();
            let left = group::carriers(&entries);
            let named: Vec<String> = left
                .iter()
                .take(MAX_LEFT)
                .map(|(pid, comm)| format!("{} (pid {pid})", quote::name(comm)))
                .collect();
            (!named.is_empty()).then(|| {
                format!(
                    "onus: {} ({}) died, but a command of it still runs and may write here: {}",
                    runner.actor,
                    quote::name(runner.conversation.as_str()),
                    named.join(", ")
                )
            })
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Whether the agent reads the answer at this moment.
    fn is_heard(&self, moment: HookEvent) -> bool {
        match moment {
            HookEvent::BeforeTool => self.dialect.hears_before_a_tool(),
            HookEvent::Start | HookEvent::AfterTool | HookEvent::ToolFailed | HookEvent::TurnBegins => true,
            HookEvent::Asks
            | HookEvent::PartBegins
            | HookEvent::PartOver
            | HookEvent::TurnOver
            | HookEvent::End => false,
        }
    }

    /// Tells everyone concerned. Returns what the agent itself should know, if it reads the answer at this moment.
    fn report(
        &self,
        engine: &mut AnyEngine,
        call: &HookCall,
        place: &Place,
        mut found: Found,
        moment: HookEvent,
    ) -> Option<String> {
        let is_heard = self.is_heard(moment);
        let more = found.joining.len().saturating_sub(MAX_JOINING);
        found.joining.truncate(MAX_JOINING);
        let joining = self.asking(call, std::mem::take(&mut found.joining), is_heard);
        let look = Look { changes: found.changes, lingering: found.lingering, joining };
        let mut context = None;
        if !look.changes.is_empty() || !look.joining.paths.is_empty() {
            let changes = look.changes.clone();
            let outcome = match engine.is_concerned_by(&self.conversation, &call.instance, &look) {
                Ok(true) => self.run(engine, call, Command::Look(look)).map(Some),
                Ok(false) => Ok(None),
                Err(refusal) => Err(refusal),
            };
            // What could not be reported now is reported later.
            let reply = outcome.ok()?;
            context = reply.as_ref().and_then(said);
            if let (false, Some(mut calls)) = (changes.is_empty(), open(place, false)) {
                calls.told(&changes);
                calls.close();
            }
        }
        let remark = (more > 0)
            .then(|| format!("onus: {more} more files that changed while your command ran are not reserved"));
        let lines: Vec<String> = [context, remark, found.remark].into_iter().flatten().collect();
        (is_heard && !lines.is_empty()).then(|| lines.join("\n"))
    }

    fn tool(&self, call: &HookCall, payload: &Payload) -> ToolUse {
        let by = Runner {
            actor: self.conversation.actor.clone(),
            conversation: self.conversation.instance.clone(),
            instance: call.instance.clone(),
        };
        ToolUse { by, part: payload.sub_agent.clone(), id: payload.use_id.clone() }
    }
}

/// What a look found.
#[derive(Debug, Default)]
struct Found {
    changes: Vec<FileChange>,
    lingering: Vec<Runner>,
    joining: Vec<String>,
    remark: Option<String>,
}

/// The worktree's record of the commands that run in it.
fn open(place: &Place, creates: bool) -> Option<Calls> {
    Calls::open(place, clock::now().wall_ms, creates)
}
