mod shell;
mod usage;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_agents::hook::{Answer, Dialect, HookEvent, MAX_PAYLOAD, Payload, Unread};
use onus_agents::{InstanceSource, of_conversation};
use onus_core::actor::{InstanceId, KnownBy};
use onus_core::command::{ChangedFiles, Command, Guard, Presence};
use onus_core::commit::Extent;
use onus_core::decide::MAX_GLOBS;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::{Glob, Touched};
use onus_core::session::Reading;
use onus_engine::{AnyEngine, Conversation, Files, HookCall, Identity, Reply, Request};
use onus_os::process;
use onus_store::Access;

use crate::output::{Output, note};
use crate::{primer, wording};
use onus_host::{Checkout, Host, env};
use onus_repo::Named;

use words::{joined, said};

pub(super) use words::{is_answer, is_unwritable, refused, told};

/// How long a hook waits for other writers. It must be shorter than the harness waits for its hook; Codex waits at most
/// 3 s at the end of a session.
const PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(2);

/// Answer an agent's hook: the harness calls it at every start, edit, tool call and end
///
/// `onus setup` configures it. It reads the harness's JSON from stdin, works out the event, and answers in the harness's
/// own format. It refuses edits to paths that another holds. Its own failures never stop the agent: whatever goes wrong
/// here, the agent continues.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The harness that calls
    #[arg(value_parser = ["claude", "codex", "gemini"])]
    agent: String,
}

pub(crate) fn run(args: &Args) -> u8 {
    let Some(dialect) = Dialect::named(&args.agent) else { return 0 };
    let mut text = Vec::new();
    if let Err(error) = std::io::stdin().lock().take(MAX_PAYLOAD).read_to_end(&mut text) {
        note(&format!("onus hook: cannot read the payload: {error}"));
        return 0;
    }
    let payload = match Payload::read(&text) {
        Ok(payload) => payload,
        Err(Unread::OtherEvent) => return 0,
        Err(Unread::Broken(why)) => {
            note(&format!("onus hook: invalid payload: {why}"));
            return 0;
        }
    };
    let answer = match answer(dialect, &payload) {
        Ok(answer) => answer,
        Err(refusal) => passed(&payload, &refusal),
    };
    if let Some(document) = answer.write(dialect, &payload.event) {
        Output::new(true, "never").line(&document.to_string());
    }
    0
}

/// The answer after a problem: it is reported once, when the conversation begins, and the agent continues.
fn passed(payload: &Payload, refusal: &Refusal) -> Answer {
    let next =
        refusal.next.iter().find_map(wording::step).map(|step| format!(" ({step})")).unwrap_or_default();
    let message = format!("onus is inactive here: {}{next}", refusal.message);
    if refusal.code != Code::NoStore {
        note(&message);
    }
    let is_told =
        payload.moment == HookEvent::Start && (refusal.code != Code::NoStore || has_hooks_here(payload));
    Answer { warning: is_told.then_some(message), ..Answer::default() }
}

/// Whether this folder was set up, so that a missing store is worth mentioning.
fn has_hooks_here(payload: &Payload) -> bool {
    let Some(folder) = &payload.folder else { return false };
    let root = onus_repo::discover(folder).map_or_else(|| folder.clone(), |place| place.root);
    [".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json"]
        .iter()
        .any(|file| std::fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains("onus hook")))
}

fn answer(dialect: Dialect, payload: &Payload) -> Result<Answer, Refusal> {
    let is_edit = payload.moment == HookEvent::BeforeTool;
    let changes_nothing = payload.files.is_empty() && !payload.is_partial && !payload.is_shell;
    if is_edit && changes_nothing || payload.moment == HookEvent::PartBegins {
        return Ok(Answer::default());
    }
    let host = Host::new(payload.folder.as_deref().filter(|folder| folder.is_dir()), None)?;
    // If there are more files than can be judged, `unjudged` refuses the call as a whole.
    let files = guarded(&host, &payload.files[..payload.files.len().min(MAX_GLOBS)]);
    let unjudged = unjudged(payload);
    if is_edit && files.is_empty() && unjudged.is_none() && !payload.is_shell {
        return Ok(Answer::default());
    }
    let mut hook = Hook::new(dialect, payload, &host)?;
    hook.removed = guarded(&host, &payload.removed).into_values().flatten().collect();
    let patience = if payload.moment == HookEvent::End { PATIENCE_AT_THE_END } else { PATIENCE };
    let open = |access| host.engine_within(access, host.config.store_wait().min(patience));
    let mut engine = match open(Access::Write) {
        // The files that a command names can be judged, and the command remembered, without writing to the store.
        Err(refusal) if is_unwritable(&refusal) && payload.is_shell && (files.is_empty() || !is_edit) => {
            open(Access::Read)?
        }
        Err(refusal) if is_edit && is_unwritable(&refusal) && unjudged.is_none() => {
            let mut engine = open(Access::Read)?;
            return hook.in_each(files, |hook, paths| hook.by_snapshot(&mut engine, &paths, &refusal));
        }
        engine => engine?,
    };
    let outcome = match unjudged {
        // There is a store, so another holder may have reserved the file.
        Some(refusal) => Ok(Answer { refusal: Some(refused(&refusal)), ..Answer::default() }),
        None if is_edit => hook.before_tool(&mut engine, payload, files),
        None => hook.after_all(&mut engine, payload, files),
    };
    // The process ends with this answer: `Context::run_with` says what this saves.
    std::mem::forget(engine);
    outcome
}

/// The refusal of a call that cannot be judged, because its files may be reserved by another: the payload is incomplete, or
/// the call changes more files than can be judged before the harness gives up on its hook.
fn unjudged(payload: &Payload) -> Option<Refusal> {
    let (message, next) = if payload.is_partial {
        let most = MAX_PAYLOAD >> 20;
        (
            format!(
                "this call is larger than {most} MiB or was cut off, so onus cannot tell which files it changes"
            ),
            "write less in one call",
        )
    } else if payload.files.len() > MAX_GLOBS {
        let files = payload.files.len();
        (
            format!("this call changes {files} files; onus checks at most {MAX_GLOBS} at once"),
            "change fewer files in one call",
        )
    } else {
        return None;
    };
    Some(Refusal::new(Code::Limit, message).next(Step::plain(next)))
}

/// One hook call.
struct Hook<'a> {
    host: &'a Host,
    dialect: Dialect,
    conversation: Conversation,
    known_by: KnownBy,
    /// The worktree of the files in question.
    checkout: Checkout,
    /// The instance, and what its transcript says it used; recorded together with the end of its turn.
    reading: Option<(InstanceId, Reading)>,
    /// The files that the call says it removes.
    removed: BTreeSet<String>,
}

impl<'a> Hook<'a> {
    fn new(dialect: Dialect, payload: &Payload, host: &'a Host) -> Result<Hook<'a>, Refusal> {
        let (who, sub_agent) =
            of_conversation(&env, dialect.as_str(), &payload.conversation, payload.sub_agent.as_deref())?;
        // A harness that `onus run` started is that run's instance, whose process is already known.
        let process = if who.told_by == InstanceSource::Name { None } else { process::launcher() };
        let known_by = who.known_by();
        let conversation = Conversation {
            actor: who.actor,
            instance: who.instance,
            sub_agent,
            process,
            worktree: None,
            branch: None,
            is_alone: dialect.runs_one_at_a_time(),
        };
        Ok(Hook {
            host,
            dialect,
            conversation,
            known_by,
            checkout: Checkout::default(),
            removed: BTreeSet::new(),
            reading: None,
        })
    }

    /// Makes this the worktree of the files in question.
    fn go_to(&mut self, root: &Path) {
        self.checkout = self.host.checkout(root);
        self.conversation.worktree = self.checkout.id.clone();
        self.conversation.branch = self.checkout.branch.clone();
    }

    /// Asks about the files of each worktree in turn. If one of them is refused, the whole call is.
    fn in_each(
        &mut self,
        files: BTreeMap<PathBuf, Vec<String>>,
        mut ask: impl FnMut(&Hook<'a>, Vec<String>) -> Result<Answer, Refusal>,
    ) -> Result<Answer, Refusal> {
        let mut whole = Answer::default();
        for (root, paths) in files {
            self.go_to(&root);
            let Answer { refusal, context, warning } = ask(self, paths)?;
            if refusal.is_some() {
                return Ok(Answer { refusal, ..Answer::default() });
            }
            whole.context = joined(whole.context, context);
            whole.warning = joined(whole.warning, warning);
        }
        Ok(whole)
    }

    /// A tool is about to be used. The whole call is judged before any of it is remembered.
    fn before_tool(
        &mut self,
        engine: &mut AnyEngine,
        payload: &Payload,
        files: BTreeMap<PathBuf, Vec<String>>,
    ) -> Result<Answer, Refusal> {
        let named = guarded(self.host, &payload.writes[..payload.writes.len().min(MAX_GLOBS)]);
        let judged = self.in_each(named, |hook, names| hook.named_by_a_command(engine, &names))?;
        if judged.refusal.is_some() {
            return Ok(judged);
        }
        let mut calls = Vec::with_capacity(files.len());
        let answer = self.in_each(files.clone(), |hook, paths| {
            let call = engine.call(&hook.conversation, &paths, Files::ToChange)?;
            calls.push(call.clone());
            match call.is_settled {
                true => Ok(Answer::default()),
                false => hook.guard(engine, &call, paths),
            }
        })?;
        if answer.refusal.is_some() {
            return Ok(answer);
        }
        if payload.is_shell {
            return Ok(answer.also(self.command_begins(engine, payload)?));
        }
        let mut calls = calls.into_iter();
        let begun = self.in_each(files, |hook, paths| {
            let context = calls.next().and_then(|call| hook.edit_begins(engine, &call, payload, paths));
            Ok(Answer { context, ..Answer::default() })
        })?;
        Ok(answer.also(begun.context))
    }

    /// Any other moment. The changes that commands made are handled first.
    fn after_all(
        &mut self,
        engine: &mut AnyEngine,
        payload: &Payload,
        files: BTreeMap<PathBuf, Vec<String>>,
    ) -> Result<Answer, Refusal> {
        let mut call = engine.call(&self.conversation, &[], Files::Changed)?;
        if payload.moment == HookEvent::Asks {
            return self.answer(engine, payload.moment, call, Vec::new());
        }
        if let Some(ran_ms) = payload.ran_ms.filter(|_| call.is_asked) {
            // This must come before any other sign of life, which would end the wait for a person's answer.
            self.run(engine, &call, Command::Presence(Presence::ToolOver { ran_ms }))?;
            call = engine.call(&self.conversation, &[], Files::Changed)?;
        }
        self.reading = self.read_transcript(engine, payload);
        let found = self.tools_end(engine, &call, payload, &files);
        let answer = if payload.moment == HookEvent::AfterTool && !files.is_empty() {
            self.in_each(files, |hook, paths| {
                let call = engine.call(&hook.conversation, &paths, Files::Changed)?;
                hook.answer(engine, payload.moment, call, paths)
            })?
        } else {
            if found.is_some() {
                call = engine.call(&self.conversation, &[], Files::Changed)?;
            }
            self.answer(engine, payload.moment, call, Vec::new())?
        };
        Ok(answer.also(found.flatten()))
    }

    fn answer(
        &self,
        engine: &mut AnyEngine,
        moment: HookEvent,
        mut call: HookCall,
        paths: Vec<String>,
    ) -> Result<Answer, Refusal> {
        match moment {
            HookEvent::BeforeTool => Ok(Answer::default()),
            HookEvent::Start => {
                self.host.adopt_here();
                self.host.tell_of_conflicts(engine);
                let reply = self.run(engine, &call, Command::Presence(Presence::Here))?;
                let identity = self.identity(&call);
                let mut text = primer::primer(engine, Some(&identity), false)?;
                text.extend(told(&reply.notices));
                Ok(Answer { context: Some(text), ..Answer::default() })
            }
            HookEvent::AfterTool | HookEvent::ToolFailed | HookEvent::PartBegins if call.is_settled => {
                Ok(Answer::default())
            }
            HookEvent::AfterTool if !paths.is_empty() => {
                let worktree = self.conversation.worktree.clone();
                let changed = Command::Changed(ChangedFiles { paths, worktree });
                let reply = self.run(engine, &call, changed)?;
                Ok(Answer { context: told(&reply.notices), ..Answer::default() })
            }
            HookEvent::AfterTool | HookEvent::ToolFailed | HookEvent::TurnBegins | HookEvent::PartBegins => {
                let begins = moment == HookEvent::TurnBegins;
                if begins {
                    self.host.tell_of_conflicts(engine);
                }
                let presence = if begins { Presence::TurnBegun } else { Presence::Here };
                let reply = self.run(engine, &call, Command::Presence(presence))?;
                Ok(Answer { context: told(&reply.notices), ..Answer::default() })
            }
            HookEvent::Asks => {
                self.run(engine, &call, Command::Presence(Presence::Asks)).map(|_| Answer::default())
            }
            HookEvent::TurnOver => {
                self.run(engine, &call, Command::Presence(Presence::TurnOver)).map(|_| Answer::default())
            }
            HookEvent::PartOver | HookEvent::End => {
                if let (HookEvent::PartOver, Some(part)) = (moment, &self.conversation.sub_agent) {
                    call.instance = part.clone();
                } else if moment == HookEvent::PartOver {
                    return Ok(Answer::default());
                }
                self.run(engine, &call, Command::Presence(Presence::Gone)).map(|_| Answer::default())
            }
        }
    }

    fn guard(&self, engine: &mut AnyEngine, call: &HookCall, paths: Vec<String>) -> Result<Answer, Refusal> {
        let guard = self.asking(call, paths, self.dialect.hears_before_a_tool());
        let asked = guard.paths.clone();
        match self.run(engine, call, Command::Guard(guard)) {
            Ok(reply) => {
                let context = said(&reply).filter(|_| self.dialect.hears_before_a_tool());
                Ok(Answer { context, ..Answer::default() })
            }
            // A path or glob that cannot be compared may be reserved.
            Err(refusal) if is_answer(&refusal) || refusal.code == Code::Usage => {
                self.record_wish(engine, &call.instance, &refusal);
                Ok(Answer { refusal: Some(refused(&refusal)), ..Answer::default() })
            }
            Err(refusal) if is_unwritable(&refusal) => self.by_snapshot(engine, &asked, &refusal),
            Err(refusal) => Err(refusal),
        }
    }

    /// Has the holder told what was refused because of it. If this fails, it is not told; the call is refused in any case.
    fn record_wish(&self, engine: &mut AnyEngine, by: &InstanceId, refusal: &Refusal) {
        if let Some(conflict) = &refusal.conflict {
            let (by, worktree) = ((&self.conversation.actor, by), self.conversation.worktree.as_ref());
            let _ = engine.record_wish(by, &conflict.task, Some(&conflict.path), worktree);
        }
    }

    /// The question whether this conversation may change these files here.
    fn asking(&self, call: &HookCall, paths: Vec<String>, is_heard: bool) -> Guard {
        let removed = paths.iter().filter(|path| self.removed.contains(*path)).cloned().collect();
        Guard {
            extent: Extent { removed, tally: None },
            paths,
            process: self.conversation.process.clone(),
            worktree: self.checkout.path.clone(),
            branch: self.checkout.branch.clone(),
            touched: Touched {
                worktree: self.conversation.worktree.clone(),
                // A part that holds the lease itself shares it with no other part.
                part: self.conversation.sub_agent.clone().filter(|part| *part != call.instance),
            },
            whole: self.conversation.sub_agent.as_ref().map(|_| self.conversation.instance.clone()),
            is_heard,
            is_brief: true,
        }
    }

    /// Judges files when the store cannot be written in time. What others have reserved is still refused; everything else
    /// passes without being reserved, and the person in front of the agent is warned. If the store can never be written, that
    /// was reported at the start.
    fn by_snapshot(
        &self,
        engine: &mut AnyEngine,
        paths: &[String],
        trouble: &Refusal,
    ) -> Result<Answer, Refusal> {
        if let Some(refusal) = engine.reserved_by_another(&self.conversation, paths)? {
            return Ok(Answer { refusal: Some(refused(&refusal)), ..Answer::default() });
        }
        if trouble.code == Code::ReadOnly {
            return Ok(Answer::default());
        }
        let warning = format!(
            "onus: {}. This edit collides with nobody and was let through, but the file is not reserved: another may change it, too.",
            trouble.message
        );
        Ok(Answer { warning: Some(warning), ..Answer::default() })
    }

    fn identity(&self, call: &HookCall) -> Identity {
        Identity::own(self.conversation.actor.clone(), call.instance.clone(), self.known_by)
    }

    /// Runs a command in one commit, together with registering the process and recording usage if they are due.
    fn run(&self, engine: &mut AnyEngine, call: &HookCall, command: Command) -> Result<Reply, Refusal> {
        let Conversation { actor, instance, process, .. } = &self.conversation;
        let mut batch = Vec::with_capacity(2);
        if let (true, Some(process)) = (call.registers, process) {
            let register = Command::RegisterInstance {
                actor: actor.clone(),
                instance: instance.clone(),
                process: process.clone(),
                group: None,
            };
            batch.push(Request { identity: self.identity(call), command: register, key: None });
        }
        let is_over = matches!(command, Command::Presence(Presence::TurnOver | Presence::Gone));
        if let Some((reader, reading)) = self.reading.as_ref().filter(|_| is_over) {
            let identity = Identity { instance: reader.clone(), ..self.identity(call) };
            batch.push(Request { identity, command: Command::Used(reading.clone()), key: None });
        }
        batch.push(Request { identity: self.identity(call), command, key: None });
        let unexpected = || Refusal::new(Code::Unexpected, "there was no answer");
        engine.execute(&batch).pop().ok_or_else(unexpected)?
    }
}

/// The files inside the repository, by the root of their worktree, which may not be the one that the agent is in. Files
/// elsewhere or in git's own folder are not guarded.
fn guarded(host: &Host, files: &[PathBuf]) -> BTreeMap<PathBuf, Vec<String>> {
    let Some(place) = &host.place else { return BTreeMap::new() };
    let mut found: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        match onus_repo::locate(Some(place), &host.folder, file) {
            // A name that is not a valid path cannot be a file's; the call is judged by its other files.
            Ok(Named { name, root }) if Glob::literal(&name).is_ok() => {
                found.entry(root).or_default().insert(name);
            }
            _ => {}
        }
    }
    found.into_iter().map(|(root, names)| (root, Vec::from_iter(names))).collect()
}
