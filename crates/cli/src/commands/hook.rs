use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_agents::hook::{Answer, Dialect, MAX_PAYLOAD, Moment, Payload, Unread};
use onus_agents::of_conversation;
use onus_core::actor::KnownBy;
use onus_core::command::{Command, Guard, Presence};
use onus_core::refusal::{Code, Refusal};
use onus_engine::{Ancestry, Call, Conversation, Engine, Identity, Notice, Reply, Request, process};
use onus_store::{Access, AnyStore};

use crate::context::{Context, env};
use crate::output::{Output, note};
use crate::{primer, scopes};

/// How long a hook waits for other writers: less than a harness waits for its hook.
const PATIENCE: Duration = Duration::from_secs(3);

/// For agents' hooks: called by the harness at each start, edit, tool call and end
///
/// `onus setup` configures it. It reads the harness's JSON from stdin, knows the event from it, and answers in the harness's
/// own words. It never stands in an agent's way because of itself: whatever goes wrong here, the agent goes on. What
/// another holds is refused.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which harness calls
    #[arg(value_parser = ["claude", "codex", "gemini"])]
    agent: String,
}

pub(crate) fn run(args: &Args) -> u8 {
    let Some(dialect) = Dialect::of(&args.agent) else { return 0 };
    let mut text = Vec::new();
    if let Err(error) = std::io::stdin().lock().take(MAX_PAYLOAD).read_to_end(&mut text) {
        note(&format!("onus hook: the payload cannot be read: {error}"));
        return 0;
    }
    let payload = match Payload::read(&text) {
        Ok(payload) => payload,
        Err(Unread::OtherEvent) => return 0,
        Err(Unread::Broken(why)) => {
            note(&format!("onus hook: that is not a payload: {why}"));
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

/// What went wrong is said when the conversation begins, once; the agent goes on.
fn passed(payload: &Payload, refusal: &Refusal) -> Answer {
    let next = refusal.next.first().map(|step| format!(" ({step})")).unwrap_or_default();
    let message = format!("onus protects nothing here now: {}{next}", refusal.message);
    if refusal.code != Code::NoStore {
        note(&message);
    }
    let is_told = payload.moment == Moment::Start && (refusal.code != Code::NoStore || is_set_up(payload));
    Answer { warning: is_told.then_some(message), ..Answer::default() }
}

/// Whether this very folder was set up, so that a missing store is worth a word.
fn is_set_up(payload: &Payload) -> bool {
    let Some(folder) = &payload.folder else { return false };
    let root = onus_repo::discover(folder).map_or_else(|| folder.clone(), |place| place.root);
    [".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json"]
        .iter()
        .any(|file| std::fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains("onus hook")))
}

fn answer(dialect: Dialect, payload: &Payload) -> Result<Answer, Refusal> {
    let is_edit = payload.moment == Moment::BeforeTool;
    if is_edit && payload.files.is_empty() || payload.moment == Moment::PartBegins {
        return Ok(Answer::default());
    }
    let context = Context::new(payload.folder.as_deref().filter(|folder| folder.is_dir()), None, true)?;
    let paths = guarded(&context, &payload.files);
    if is_edit && paths.is_empty() {
        return Ok(Answer::default());
    }
    let hook = Hook::new(dialect, payload, &context)?;
    let mut engine = context.engine_within(Access::Write, context.config.store_wait().min(PATIENCE))?;
    let outcome = hook.answer(&mut engine, payload.moment, paths);
    // The process ends with this answer.
    std::mem::forget(engine);
    outcome
}

/// One call of a hook.
struct Hook<'a> {
    context: &'a Context,
    dialect: Dialect,
    conversation: Conversation,
    known_by: KnownBy,
}

impl<'a> Hook<'a> {
    fn new(dialect: Dialect, payload: &Payload, context: &'a Context) -> Result<Hook<'a>, Refusal> {
        let (who, sub_agent) =
            of_conversation(&env, dialect.name(), &payload.conversation, payload.sub_agent.as_deref())?;
        // A harness that was started by `onus run` is that instance, and its process is known.
        let process = if who.known_by == KnownBy::Name { None } else { process::launcher() };
        let conversation = Conversation { actor: who.actor, instance: who.instance, sub_agent, process };
        Ok(Hook { context, dialect, conversation, known_by: who.known_by })
    }

    fn answer(
        &self,
        engine: &mut Engine<AnyStore>,
        moment: Moment,
        paths: Vec<String>,
    ) -> Result<Answer, Refusal> {
        let mut call = engine.call(&self.conversation, &paths)?;
        match moment {
            Moment::BeforeTool if call.is_settled => Ok(Answer::default()),
            Moment::BeforeTool => self.guard(engine, &call, paths),
            Moment::Start => {
                let reply = self.run(engine, &call, Command::Presence(Presence::Here))?;
                let identity = self.identity(&call);
                let mut text = primer::primer(engine, Some(&identity), false)?;
                text.extend(told(&reply.notices));
                Ok(Answer { context: Some(text), ..Answer::default() })
            }
            Moment::AfterTool | Moment::TurnBegins | Moment::PartBegins if call.is_settled => {
                Ok(Answer::default())
            }
            Moment::AfterTool | Moment::TurnBegins | Moment::PartBegins => {
                let reply = self.run(engine, &call, Command::Presence(Presence::Here))?;
                Ok(Answer { context: told(&reply.notices), ..Answer::default() })
            }
            Moment::TurnOver => {
                self.run(engine, &call, Command::Presence(Presence::TurnOver)).map(|_| Answer::default())
            }
            Moment::PartOver | Moment::End => {
                if let (Moment::PartOver, Some(part)) = (moment, &self.conversation.sub_agent) {
                    call.instance = part.clone();
                } else if moment == Moment::PartOver {
                    return Ok(Answer::default());
                }
                self.run(engine, &call, Command::Presence(Presence::Gone)).map(|_| Answer::default())
            }
        }
    }

    fn guard(
        &self,
        engine: &mut Engine<AnyStore>,
        call: &Call,
        paths: Vec<String>,
    ) -> Result<Answer, Refusal> {
        let place = self.context.place.as_ref();
        let guard = Guard {
            paths,
            process: self.conversation.process.clone(),
            worktree: place.map(|place| place.root.to_string_lossy().into_owned()),
            branch: place.and_then(|place| place.branch.clone()),
            is_heard: self.dialect.hears_before_a_tool(),
            is_brief: true,
        };
        match self.run(engine, call, Command::Guard(guard)) {
            Ok(reply) => {
                let mut context = told(&reply.notices).unwrap_or_default();
                if let onus_engine::Answer::Guarded { task: Some(task), adopted: true } = &reply.answer {
                    let id = &task.id;
                    context = format!(
                        "You hold no task, so onus opened {id} for your edits; it ends with this conversation. If this is planned \
                         work: onus release {id}, then onus claim the task it belongs to.\n{context}"
                    );
                }
                let context =
                    Some(context).filter(|text| !text.is_empty() && self.dialect.hears_before_a_tool());
                Ok(Answer { context, ..Answer::default() })
            }
            Err(refusal) if is_answer(&refusal) => {
                if let Some(conflict) = &refusal.conflict {
                    let by = (&self.conversation.actor, &call.instance);
                    // Whoever has it learns of it if this works; the refusal stands in any case.
                    let _ = engine.record_wish(by, &conflict.task, &conflict.path);
                }
                Ok(Answer { refusal: Some(refused(&refusal)), ..Answer::default() })
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn identity(&self, call: &Call) -> Identity {
        Identity {
            actor: self.conversation.actor.clone(),
            instance: call.instance.clone(),
            known_by: self.known_by,
            token: None,
            ancestry: Ancestry::Own,
        }
    }

    /// Carries out a command, after the process was registered if it must be; one commit.
    fn run(&self, engine: &mut Engine<AnyStore>, call: &Call, command: Command) -> Result<Reply, Refusal> {
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
        batch.push(Request { identity: self.identity(call), command, key: None });
        let unexpected = || Refusal::new(Code::Unexpected, "there was no answer");
        engine.execute(&batch).pop().ok_or_else(unexpected)?
    }
}

/// Whether the agent is meant, not the state of the store.
fn is_answer(refusal: &Refusal) -> bool {
    matches!(refusal.exit_code(), 4..=6)
}

fn refused(refusal: &Refusal) -> String {
    let mut text = format!("onus: {}", refusal.message);
    for step in &refusal.next {
        text.push_str(&format!("\n  next: {step}"));
    }
    if refusal.conflict.is_some() {
        text.push_str("\nDo not work around this: the file is another's for now.");
    }
    text
}

fn told(notices: &[Notice]) -> Option<String> {
    let lines: Vec<String> = notices.iter().map(|notice| format!("onus: {}", notice.message)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The files that lie in the repository, from its root. What lies elsewhere, or in git's own folder, is nobody's.
fn guarded(context: &Context, files: &[PathBuf]) -> Vec<String> {
    let Some(place) = &context.place else { return Vec::new() };
    let mut paths: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let file = scopes::plain(&real(&context.folder.join(file)));
            // Of this worktree or of another one of the same repository, which may lie inside this one.
            let there = nearest_folder(&file).and_then(onus_repo::discover).filter(|there| {
                let is_gits = there.root.iter().any(|name| name == ".git");
                there.store == place.store && file.starts_with(&there.root) && !is_gits
            });
            let inside = match there {
                Some(there) => file.strip_prefix(&there.root).ok()?.to_str()?.to_owned(),
                None => scopes::path_in_repository(context, &file).ok()?,
            };
            let first = Path::new(&inside).components().next();
            let is_ours =
                first.is_some_and(|first| [".git", ".onus"].map(OsStr::new).contains(&first.as_os_str()));
            (!is_ours).then_some(inside)
        })
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The file that would be written: links on the way, and one in its own place, are followed, also to what is not there yet.
fn real(file: &Path) -> PathBuf {
    const MAX_LINKS: usize = 40;
    let (mut at, mut rest, mut links) = (file.to_owned(), Vec::<OsString>::new(), 0);
    loop {
        if let Ok(found) = at.canonicalize() {
            return rest.iter().rev().fold(found, |path, name| path.join(name));
        }
        match (at.read_link(), at.parent(), at.file_name()) {
            (Ok(target), Some(parent), _) if links < MAX_LINKS => {
                links += 1;
                at = parent.join(target);
            }
            (_, Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                at = parent.to_owned();
            }
            _ => return file.to_owned(),
        }
    }
}

fn nearest_folder(file: &Path) -> Option<&Path> {
    file.ancestors().skip(1).find(|folder| folder.is_dir())
}
