use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command, NewTask, Terms};
use onus_core::ids::Prefix;
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_core::task::{Facts, Priority};
use onus_core::transition::Verb;
use onus_engine::{Answer, Engine, Identity, Request, TaskView, new_uid};
use onus_os::{clock, process};
use onus_store::{Access, SqliteStore, Store as _};
use serde_json::json;

use super::report::standup_page;
use super::timesheet::{by_actor, hours_of, totals};
use crate::calendar::Days;
use crate::context::Context;
use crate::output::{note, path_line};
use crate::story;
use crate::temporary::temporary_folder;

/// See onus work: three workers, one killed halfway, nothing lost
///
/// Everything is real (processes, kill -9, the store) and happens in a temporary folder.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Keep the folder so that you can look around in it
    #[arg(long)]
    keep: bool,
    /// Be one of the workers
    #[arg(long, hide = true, value_name = "ACTOR", requires = "store")]
    worker: Option<String>,
    #[arg(long, hide = true, value_name = "FILE")]
    store: Option<PathBuf>,
    /// How long each piece of work takes
    #[arg(long, hide = true, value_name = "MS", default_value_t = 60)]
    work_ms: u64,
}

const TASKS: &[(&str, Priority)] = &[
    ("Rotate the signing key", Priority::P0),
    ("Fix the flaky login test", Priority::P1),
    ("Paginate the audit endpoint", Priority::P1),
    ("Cache the dependency graph", Priority::P2),
    ("Document the retry policy", Priority::P2),
    ("Drop the unused feature flag", Priority::P2),
    ("Trim the start-up log", Priority::P3),
    ("Rename the staging bucket", Priority::P3),
];

const WAIT: Duration = Duration::from_secs(10);
/// The longest that a step of the demo may take.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    if let (Some(worker), Some(store)) = (&args.worker, &args.store) {
        return work(worker, store, Duration::from_millis(args.work_ms));
    }
    let folder = temporary_folder("demo")
        .map_err(|error| unexpected(&format!("cannot make a temporary folder: {error}")))?;
    let outcome = show(context, folder.path());
    if args.keep {
        let folder = folder.keep();
        let word = folder.to_str().and_then(onus_core::quote::shell_word);
        note(&match word {
            Some(word) => format!("kept: onus -C {word} status"),
            None => format!("kept in {}", path_line(&folder)),
        });
    }
    outcome
}

fn unexpected(why: &str) -> Refusal {
    Refusal::new(Code::Unexpected, format!("the demo failed: {why}"))
}

fn identity(actor: &str, instance: &str) -> Result<Identity, Refusal> {
    Ok(Identity::own(actor.parse()?, instance.parse()?, KnownBy::Name))
}

/// A worker: claims the next task, bound to this process, works on it and finishes it, until no task is left.
fn work(actor: &str, store: &Path, work: Duration) -> super::Result {
    let store = SqliteStore::open(store, Access::Write, WAIT)?;
    let mut engine = Engine::new(store, Policy::default());
    let name = actor.rsplit(':').next().unwrap_or(actor);
    let identity = identity(actor, &format!("{name}-1"))?;
    let terms = Terms { process: Some(process::identify(std::process::id())?), ..Terms::default() };
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        let claim =
            Request { identity: identity.clone(), command: Command::ClaimNext(terms.clone()), key: None };
        let task = match engine.run(&claim) {
            Ok(reply) => match reply.answer {
                Answer::Lease { task, .. } => task,
                _ => return Err(unexpected("a claim gave no lease")),
            },
            Err(refusal) if refusal.code == Code::Nothing => {
                let busy = engine.status(None)?.value.held.iter().any(|held| held.lease.live);
                if !busy {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            Err(refusal) => return Err(refusal),
        };
        std::thread::sleep(work);
        let act = Act::moved(Verb::Done, Some("done in the demo".to_owned()));
        let done = Command::OnTask { task: Some(task.id.parse()?), act, force: None };
        engine.run(&Request { identity: identity.clone(), command: done, key: None })?;
    }
    Err(unexpected("a worker ran out of time"))
}

fn show(context: &Context, folder: &Path) -> super::Result {
    let out = &context.out;
    let say = |text: &str| {
        if !out.json {
            out.line(text);
        }
    };
    let path = folder.join(".onus").join("onus.db");
    let person = identity("human:you", "person")?;
    let now = clock::now().wall_ms;
    let prefix: Prefix = "DEMO".parse()?;
    let by = (&person.actor, &person.instance);
    let store = SqliteStore::create(&path, &prefix, new_uid(now), new_uid(now), by, WAIT)?;
    let mut engine = Engine::new(store, Policy::default());
    for (title, priority) in TASKS {
        let facts = Facts { priority: *priority, ..Facts::default() };
        let new = NewTask { facts, ..NewTask::titled(*title) };
        engine.run(&Request { identity: person.clone(), command: Command::Add(new), key: None })?;
    }
    say(&out.bold(&format!("{} tasks, three workers: agent:ada, agent:bob and agent:cyd", TASKS.len())));

    // Bob is slow, so that he holds a task when he is killed.
    let mut bob = worker("agent:bob", &path, LIMIT)?;
    let held = wait_for("bob to claim a task", || held_by(&mut engine, "agent:bob"))?;
    say(&format!("agent:bob holds {} ({}), bound to process {}", held.id, held.title, bob.id()));
    let mut others = [
        worker("agent:ada", &path, Duration::from_millis(60))?,
        worker("agent:cyd", &path, Duration::from_millis(90))?,
    ];
    wait_for("the others to finish something", || Ok(done(&mut engine)?.first().cloned()))?;
    bob.kill().map_err(|error| unexpected(&error.to_string()))?;
    let killed = Instant::now();
    bob.wait().map_err(|error| unexpected(&error.to_string()))?;
    say(&format!("kill -9 {}: agent:bob is gone, in the middle of {}", bob.id(), held.id));
    wait_for("every task to be done", || Ok((done(&mut engine)?.len() == TASKS.len()).then_some(())))?;
    let took = killed.elapsed();
    for other in &mut others {
        let status = other.wait().map_err(|error| unexpected(&error.to_string()))?;
        if !status.success() {
            return Err(unexpected(&format!("a worker ended with {status}")));
        }
    }
    say(&format!("all {} tasks are done, without waiting for a timeout", TASKS.len()));
    read_up(&mut engine, &person)?;
    say("");
    say(&out.bold(&format!("the story of {}", held.id)));
    let page = engine.log(None, Some(&held.id.parse()?), 0, true, 100)?.value;
    for record in &page.records {
        say(&format!("  {}", story::line(out, &page, record, false)));
    }
    say("");
    let verified = engine.verify(&[], &mut |_| {})?;
    let rebuilt = engine.store().rebuild(&mut |_| {})?;
    if !rebuilt.changed.is_empty() {
        return Err(unexpected("the rows differed from what the ledger says"));
    }
    say(&format!(
        "ledger verified: {} events, {} tasks; rebuilding every row from it changed nothing",
        verified.events, verified.tasks
    ));
    let (calendar, zone) = Days::lately()?;
    let query = by_actor(calendar.clone());
    let sheet = engine.timesheet(None, &query, None, &mut |_| {})?.value;
    say("");
    say(&out.bold("hours, which nobody typed"));
    say(&hours_of(&sheet, &query.by).text(out));
    totals(&sheet).iter().for_each(|line| say(line));
    say("");
    say(&standup_page(out, false, &engine.standup(None, &calendar)?.value, &zone));
    if out.json {
        out.document(
            json!({
                "ok": true, "tasks": TASKS.len(), "events": verified.events, "taken_over": held.id,
                "finished_after_kill_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            }),
            &[],
        );
    }
    Ok(())
}

/// The person's own task: reading what the others did.
fn read_up(engine: &mut Engine<SqliteStore>, person: &Identity) -> super::Result {
    let mut run = |command| engine.run(&Request { identity: person.clone(), command, key: None });
    let Answer::Task(task) = run(Command::Add(NewTask::titled("Read what was done")))?.answer else {
        return Err(unexpected("adding a task gave none"));
    };
    let mut on = |act| run(Command::OnTask { task: Some(task.id.parse()?), act, force: None });
    on(Act::Claim(Terms::default()))?;
    std::thread::sleep(Duration::from_millis(20));
    on(Act::moved(Verb::Done, Some("all is well".to_owned()))).map(drop)
}

fn worker(actor: &str, store: &Path, work: Duration) -> Result<Child, Refusal> {
    let program = std::env::current_exe().map_err(|error| unexpected(&error.to_string()))?;
    Program::new(program)
        .args(["demo", "--worker", actor, "--work-ms", &work.as_millis().to_string(), "--store"])
        .arg(store)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| unexpected(&format!("cannot start a worker: {error}")))
}

fn held_by(engine: &mut Engine<SqliteStore>, actor: &str) -> Result<Option<TaskView>, Refusal> {
    let filter = onus_store::Filter { holder: Some(actor.parse()?), ..Default::default() };
    Ok(engine.list(None, &filter, None, 1)?.value.tasks.pop())
}

fn done(engine: &mut Engine<SqliteStore>) -> Result<Vec<TaskView>, Refusal> {
    let filter = onus_store::Filter { states: vec![onus_core::task::State::Done], ..Default::default() };
    Ok(engine.list(None, &filter, None, 100)?.value.tasks)
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>, Refusal>) -> Result<T, Refusal> {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        if let Some(found) = look()? {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(unexpected(&format!("waited too long for {what}")))
}
