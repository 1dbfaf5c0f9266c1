mod hold;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant};

use onus_core::command::Terms;
use onus_core::constraint::Constraint;
use onus_core::ids::TaskRef;
use onus_core::lease::EndKind;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::time::Span;
use onus_core::transition::Verb;
use onus_dispatch::{Exit, Hooks, Message, Passing, Report, SpawnError, Spec, Stop, Trampoline, Waiting};
use onus_engine::{Notice, TaskView};
use serde_json::json;

use crate::args::{one_of, parse, parse_ms};
use crate::context::Context;
use crate::output::{self, escape_line, note};
use crate::wording;
use onus_host::Host;

use super::worktree::making::{WithWorktree, make};
use super::worktree::without_place;
use hold::{End, Hold};
use onus_host::worktree_env;
use onus_repo::worktrees::Info;

/// Run a command under a task's lease, and end the lease according to its result
///
/// The lease is bound to this process and renewed from it, whatever the command is busy with. The command runs in its own
/// process group, with ONUS_TASK, ONUS_ACTOR, ONUS_INSTANCE and ONUS_TOKEN in its environment; signals are forwarded
/// to it. If it ends the lease itself (onus done, submit, …), onus leaves it at that.
///
/// If the command succeeds, the task is done, submitted or released, as asked, and the exit code is 0. If it fails, so
/// does the task, with the last lines of the output as the note (at most 40 lines and 8 KiB, visible to everyone who can
/// read the store; run.keep_output = false keeps none), and the exit code is the command's own (128 plus the signal's
/// number if it was killed). If a signal to onus ended it, the task is released. If another holder gets the task or the
/// lease runs out, the command is stopped and the exit code is 5. Until the command starts, exit codes are as usual.
///
/// When the command exits, processes it left in its group are ended too. If onus is killed, so is the command.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task: 142, ON-142, its uid, the first or last 4 or more characters of the uid, or its id in another
    /// system (jira:WEB-7)
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>, required_unless_present = "next")]
    task: Option<TaskRef>,
    /// Take the best task that is ready for you
    #[arg(long, conflicts_with = "task")]
    next: bool,
    /// How often a sign of life is expected (90s, 15m, 2h); default: lease.ttl. The lease lasts as long as this
    /// process
    #[arg(long, value_name = "TIME", value_parser = some_ms)]
    ttl: Option<i64>,
    /// Paths to reserve besides those the task declares: a glob from the repository's root; repeatable
    #[arg(long = "scope", value_name = "GLOB")]
    scope: Vec<String>,
    /// Share the --scope paths with other leases that also share them
    #[arg(long)]
    shared: bool,
    /// What the command may not do, in addition to the task's own constraints: read_only, no_delete, no_land,
    /// max_files=N or max_lines=N; repeatable
    #[arg(long = "constraint", value_name = "CONSTRAINT", value_parser = parse::<Constraint>)]
    constraints: Vec<Constraint>,
    /// What becomes of the task when the command succeeds
    #[arg(long, value_name = "END", default_value = "done", value_parser = one_of(ON_SUCCESS))]
    on_success: Verb,
    /// How long the command may take to end when asked to, before it is killed
    #[arg(long, value_name = "TIME", value_parser = parse_ms, default_value = "10s")]
    grace: i64,
    /// What was done; noted if the command succeeds
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Run the command in a worktree of the task's own, which is made first, or in the one that has its branch. ONUS_WORKTREE
    /// and ONUS_PORT_BASE say where and with which ports
    #[arg(long)]
    worktree: bool,
    #[command(flatten)]
    with: WithWorktree,
    /// Why; recorded with the lease
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The command and its arguments; run directly, without a shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const ON_SUCCESS: &[(&str, Verb)] =
    &[("done", Verb::Done), ("submit", Verb::Submit), ("release", Verb::Release)];

fn some_ms(text: &str) -> Result<i64, String> {
    match parse_ms(text)? {
        0 => Err("this lease lasts as long as its process: there is no limit to switch off".to_owned()),
        ms => Ok(ms),
    }
}

/// Stopping the command begins this much earlier, so that even KILL comes before the lease's deadline.
const BEFORE_DEADLINE: Duration = Duration::from_secs(5);

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let mut words = args.command.into_iter();
    let program = words.next().ok_or_else(|| Refusal::usage("name a command after --"))?;
    // A program that is certainly missing is not worth a claim; any other problem shows when it is started.
    if !onus_dispatch::is_there(&program, &context.host.folder) {
        return Err(not_started(&SpawnError::NotFound(program)));
    }
    let prepared = args.with.prepared(context, args.worktree)?;
    let (scope, scope_areas) = context.scope(&args.scope)?;
    let mut terms = Terms {
        ttl_ms: args.ttl,
        reason: args.reason,
        scope,
        scope_areas,
        shared: args.shared,
        constraints: args.constraints.into_iter().collect(),
        ..context.host.terms()
    };
    if prepared.is_some() {
        terms = without_place(terms);
    }
    // Rules are overridden with `claim`: `run` forces nothing, and offers no way to.
    let (hold, claimed) =
        Hold::claim(context, args.task, terms).map_err(|refusal| Refusal { overridable: None, ..refusal })?;
    let claimed = context.with_asides(claimed);
    if !context.out.json {
        let title = super::task_of(&claimed)?.title.clone();
        note(&format!("onus: {} is yours (token {}): {}", hold.id, hold.token, escape_line(&title)));
        context.out.notices(&claimed.notices);
    }
    let mut env = hold.environment();
    let folder = match prepared {
        Some(prepared) => {
            let made = make(context, prepared, &claimed, &hold)?;
            if !context.out.json {
                made.lines().iter().for_each(|line| note(line));
            }
            context.out.notices(&made.reply.notices);
            env.extend(worktree_env(&made.path, made.port_base));
            made.path
        }
        None => {
            let place = context.host.place.as_ref();
            let ports = place.and_then(|place| Info::of(place.git_dir.as_deref()?)?.port_base);
            env.extend(ports.map(|base| ("ONUS_PORT_BASE".to_owned(), base.to_string())));
            context.host.folder.clone()
        }
    };
    let grace = Duration::from_millis(u64::try_from(args.grace).unwrap_or_default());
    let name = name_of(&program);
    let spec = Spec {
        program,
        args: words.collect(),
        env,
        inherits: true,
        folder,
        passing: if context.out.json { Passing::AllToStderr } else { Passing::AsItIs },
        trampoline: Trampoline::of_this_program().map_err(|error| unexpected(&error))?,
    };
    let started = Instant::now();
    let report = match supervise(&hold, spec, grace) {
        Ok(report) => report,
        Err(refusal) => {
            // The command never started, or it was killed because its end could not be observed.
            let why = format!("{name} was not run: {}", refusal.message);
            if let Err(also) = hold.end(&context.host, Verb::Release, Some(why)) {
                note(&format!("onus: could not release {}: {}", hold.id, also.message));
            }
            return Err(refusal);
        }
    };
    let took = Span::from_ms(i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX)).to_string();
    let how = How::of(&report, args.on_success);
    let kept = context.host.config.keeps_output().then_some(report.tail.as_str());
    let ended = end(&context.host, &hold, &how, how.note(&name, &took, kept, args.message));
    // The lease has ended: from here on, only the reader of our output is waiting.
    let Report { rest, .. } = report;
    rest.finish();
    answer(context, &hold, &how, ended?, &claimed.notices, &took)
}

fn unexpected(error: &std::io::Error) -> Refusal {
    Refusal::new(Code::Unexpected, format!("cannot supervise the command: {error}"))
}

fn not_started(error: &SpawnError) -> Refusal {
    match error {
        SpawnError::NotFound(_) | SpawnError::NotExecutable { .. } => Refusal::usage(error.to_string()),
        SpawnError::NotTheMainThread | SpawnError::System(_) => {
            Refusal::new(Code::Unexpected, error.to_string())
        }
    }
}

/// The command's name in a note: the program alone, because arguments may contain what does not belong in a ledger.
fn name_of(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program);
    escape_line(&onus_core::ids::shortened(&name.to_string_lossy()))
}

fn supervise(hold: &Hold, spec: Spec, grace: Duration) -> Result<Report, Refusal> {
    let waiting = Waiting::spawn(spec).map_err(|error| not_started(&error))?;
    // This is recorded before the command runs, so that everything it starts can be found.
    hold.register(waiting.pid())?;
    let child = waiting.start().map_err(|error| not_started(&error))?;
    let terms = onus_dispatch::Terms {
        renew_every: hold.renew_every,
        trusted_until: hold.trusted_until,
        margin: grace + BEFORE_DEADLINE,
        grace,
    };
    let (renewing, id) = (hold.clone(), hold.id.clone());
    let hooks = Hooks {
        renew: Box::new(move |progress| renewing.renew(progress)),
        tell: Box::new(move |what| note(&format!("onus: {}", told(&id, &what)))),
    };
    onus_dispatch::supervise(child, &terms, hooks).map_err(|error| unexpected(&error))
}

fn told(id: &str, what: &Message) -> String {
    match what {
        Message::Unavailable(why) => {
            format!("cannot renew the lease of {id} now ({why}); the command keeps running")
        }
        Message::Stopping(Stop::Fenced { why }) => format!("stopping the command: {why}"),
        Message::Stopping(Stop::Untrusted { why }) => {
            let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("stopping the command: the lease of {id} is running out{why}")
        }
        Message::LeftBehind(left) => {
            let left: Vec<String> =
                left.iter().map(|(pid, name)| format!("{} ({pid})", onus_core::quote::name(name))).collect();
            format!("the command exited but left {} running: ending it", left.join(", "))
        }
        Message::Killing => "the command does not end: killing it".to_owned(),
    }
}

/// How the run ended, as far as the task is concerned.
#[derive(Debug)]
enum How {
    Succeeded(Verb),
    Failed(Exit),
    /// Somebody interrupted it: the task is unfinished, not failed.
    Interrupted(i32, Exit),
    Stopped(Stop),
}

impl How {
    fn of(report: &Report, on_success: Verb) -> How {
        match (&report.stopped, report.interrupted, report.exit) {
            (Some(stop), _, _) => How::Stopped(stop.clone()),
            (None, Some(signal), exit) => How::Interrupted(signal.as_raw(), exit),
            (None, None, Exit::Code(0)) => How::Succeeded(on_success),
            (None, None, exit) => How::Failed(exit),
        }
    }

    fn verb(&self) -> Verb {
        match self {
            How::Succeeded(verb) => *verb,
            How::Failed(_) => Verb::Fail,
            How::Interrupted(..) | How::Stopped(_) => Verb::Release,
        }
    }

    /// The note on the task; `kept` is the part of the command's output to keep.
    fn note(&self, name: &str, took: &str, kept: Option<&str>, message: Option<String>) -> String {
        match self {
            How::Succeeded(_) => message.unwrap_or_else(|| format!("{name} succeeded after {took}")),
            How::Failed(exit) => {
                let how = match exit {
                    Exit::Code(code) => format!("failed with exit code {code}"),
                    Exit::Signal(signal) => {
                        format!("was killed by {}", onus_dispatch::signal_name(*signal))
                    }
                };
                let mut text = format!("{name} {how} after {took}");
                if let Some(tail) = kept.filter(|tail| !tail.trim().is_empty()) {
                    text.push_str("\n\nThe last lines of its output:\n\n");
                    text.push_str(tail);
                }
                text
            }
            How::Interrupted(signal, _) => {
                format!("{name} was interrupted by {} after {took}", onus_dispatch::signal_name(*signal))
            }
            How::Stopped(Stop::Fenced { why } | Stop::Untrusted { why: Some(why) }) => {
                format!("{name} was stopped after {took}: {why}")
            }
            How::Stopped(Stop::Untrusted { why: None }) => {
                format!("{name} was stopped after {took}: its lease ran out")
            }
        }
    }

    /// The exit code of `onus run`, unless the lease turns out to be another's.
    fn exit_code(&self) -> u8 {
        let of = |exit: &Exit| match exit {
            Exit::Code(code) => *code,
            Exit::Signal(signal) => 128 + signal,
        };
        let code = match self {
            How::Succeeded(_) => 0,
            How::Failed(exit) => of(exit),
            How::Interrupted(signal, exit) if of(exit) == 0 => 128 + signal,
            How::Interrupted(_, exit) => of(exit),
            How::Stopped(_) => Code::Fenced.exit_code().into(),
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// What the store finally recorded.
struct Ended {
    outcome: &'static str,
    notices: Vec<Notice>,
    /// Why that is not what the command's success or failure called for.
    error: Option<Refusal>,
}

fn end(host: &Host, hold: &Hold, how: &How, text: String) -> Result<Ended, Refusal> {
    let verb = how.verb();
    match hold.end(host, verb, Some(text)) {
        Ok(End::Now(reply)) => {
            let kind = match verb {
                Verb::Done => EndKind::Done,
                Verb::Submit => EndKind::Submitted,
                Verb::Fail => EndKind::Failed,
                _ => EndKind::Released,
            };
            let error = match how {
                How::Stopped(stop) => Some(ran_out(hold, stop)),
                _ => None,
            };
            Ok(Ended { outcome: kind.as_str(), notices: reply.notices, error })
        }
        Ok(End::Before(kind)) => Ok(Ended { outcome: kind.as_str(), notices: Vec::new(), error: None }),
        Ok(End::Fenced(refusal)) => {
            Ok(Ended { outcome: "fenced", notices: Vec::new(), error: Some(refusal) })
        }
        // A rule forbids it. The task is released rather than left to a process that is gone.
        Err(refusal) if verb != Verb::Release && refusal.exit_code() == Code::NotAllowed.exit_code() => {
            hold.end(host, Verb::Release, Some(format!("{verb} was refused: {}", refusal.message)))?;
            Ok(Ended { outcome: EndKind::Released.as_str(), notices: Vec::new(), error: Some(refusal) })
        }
        Err(refusal) => Err(refusal),
    }
}

/// The refusal for a command that was stopped because its lease had ended or was about to.
fn ran_out(hold: &Hold, stop: &Stop) -> Refusal {
    let why = match stop {
        Stop::Fenced { why } | Stop::Untrusted { why: Some(why) } => why.clone(),
        Stop::Untrusted { why: None } => format!("the lease of {} ran out", hold.id),
    };
    Refusal::new(Code::Fenced, format!("the command was stopped: {why}"))
        .task(&hold.id)
        .next(Step::Run(hold.id.clone()))
}

fn answer(
    context: &Context,
    hold: &Hold,
    how: &How,
    ended: Ended,
    earlier: &[Notice],
    took: &str,
) -> Result<u8, Refusal> {
    let task = hold.task()?;
    let code = ended.error.as_ref().map_or_else(|| how.exit_code(), Refusal::exit_code);
    if context.out.json {
        let mut document = json!({
            "task": task, "outcome": ended.outcome, "exit_code": code,
            "instance": hold.identity.instance.as_str(), "token": hold.token,
        });
        if let Some(error) = &ended.error {
            document["error"] = json!(wording::refusal(error));
        }
        let notices: Vec<Notice> = earlier.iter().chain(&ended.notices).cloned().collect();
        context.out.document(document, &notices);
        return Ok(code);
    }
    context.out.notices(&ended.notices);
    match &ended.error {
        Some(refusal) => {
            output::refuse(false, refusal);
        }
        None => note(&format!("onus: {}", last_line(&task, how, ended.outcome, took))),
    }
    Ok(code)
}

fn last_line(task: &TaskView, how: &How, outcome: &str, took: &str) -> String {
    let why = match how {
        How::Failed(Exit::Code(code)) => format!(" (exit code {code})"),
        How::Failed(Exit::Signal(signal)) => format!(" (killed by {})", onus_dispatch::signal_name(*signal)),
        How::Interrupted(signal, _) => format!(" (interrupted by {})", onus_dispatch::signal_name(*signal)),
        How::Succeeded(_) | How::Stopped(_) => String::new(),
    };
    format!("{} {outcome} after {took}{why}: {}", task.id, escape_line(&task.title))
}
