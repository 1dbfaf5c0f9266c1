pub(crate) mod behind;
mod findings;
mod report;
mod tidy;

pub(crate) use findings::findings;

use std::time::{Duration, Instant};

use onus_core::command::{Act, Command};
use onus_core::gate::GateKey;
use onus_core::ids::TaskRef;
use onus_core::landing::LandStyle;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::State;
use onus_core::transition::Verb;
use onus_dispatch::Interrupts;
use onus_host::landing::{Candidate, Landings, Report, Running, Seated, Until};
use onus_repo::landing::Lander;
use onus_store::{Access, Store as _, Watch, Woken};
use serde_json::json;
use tidy::Tidied;

use crate::args::{ForceArgs, Target, parse_ms, text_or_stdin};
use crate::context::Context;
use crate::output::{escape_line, note};

/// Bring a task's branch into its target branch, if the result passes its gates
///
/// The merge is computed without a checkout. The gates of stage 'land' in the target's own onus.toml run on the merged result.
/// Then the target moves, once, or nothing does. One landing at a time per target.
///
/// A holder lands its task and finishes it (-m says what was done). Anyone may land a task that is done or approved. If it
/// conflicts, nothing moves: a holder keeps its task, a done task is open again, kept for whoever did it. If the target
/// is checked out, that checkout is brought forward, unless its own changes are in the way; they are never touched.
///
/// Settings: land.style, land.union, land.remote, land.pr, deps.met.
#[derive(clap::Args, Debug)]
#[command(mut_arg("task", |id| Target::by_default(id, "ONUS_TASK, the one whose worktree you are in, or the one you hold")))]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The branch to land in; default: the one that the task's branch was made for
    #[arg(long, value_name = "BRANCH")]
    onto: Option<String>,
    /// A commit with both as its parents (the default, unless land.style says otherwise)
    #[arg(long, group = "style")]
    merge: bool,
    /// One commit with everything that the branch changes
    #[arg(long, group = "style")]
    squash: bool,
    /// Each commit of the branch again, on top of the target
    #[arg(long, group = "style")]
    rebase: bool,
    /// For a task you hold: what was done; it is finished when it has landed (- reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Land everything that is done and has still to land, in the order of dependencies
    #[arg(long, conflicts_with_all = ["message", "via"])]
    queue: bool,
    /// With --queue: keep running, and land what is approved from now on; Ctrl-C ends it
    #[arg(long, conflicts_with = "check")]
    watch: bool,
    /// Only check whether it would land: merge and run the gates, and move nothing. With --queue no gate is run: it says what
    /// would land, in which order, and what would conflict
    #[arg(long, conflicts_with = "via")]
    check: bool,
    /// Push the branch and open a pull request by the command in land.pr, instead of landing here
    #[arg(long, value_name = "HOW", value_parser = ["pr"])]
    via: Option<String>,
    /// How long to wait while somebody else lands in the same target (90s, 15m, 2h)
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_ms)]
    wait: i64,
    /// Keep the task's branch and worktree; otherwise both are removed, ignored files included, once landed
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    force: ForceArgs,
}

impl Args {
    fn style(&self) -> Option<LandStyle> {
        match (self.merge, self.squash, self.rebase) {
            (true, _, _) => Some(LandStyle::Merge),
            (_, true, _) => Some(LandStyle::Squash),
            (_, _, true) => Some(LandStyle::Rebase),
            _ => None,
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.wait.unsigned_abs())
    }
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    if args.watch && !args.queue {
        return Err(Refusal::usage("only a queue is watched: use --queue --watch").next(Step::HelpOn("land")));
    }
    if args.queue && args.target.task.is_some() {
        return Err(Refusal::usage("--queue lands everything that waits: name no task with it"));
    }
    if !args.check {
        resume(context);
    }
    if args.queue {
        return queue(context, &args);
    }
    let named = context.host.target_or_here(args.target.task.clone())?;
    if args.via.is_some() {
        return pull_request(context, &args, named.as_ref());
    }
    one(context, &args, named.as_ref())
}

/// Finishes what earlier landings left, whatever becomes of this one: checkouts that stayed behind, worktrees that were not
/// removed. If that fails, it is no reason not to land.
fn resume(context: &Context) {
    let Some(Ok(Some(lander))) = context.host.place.as_ref().map(Lander::of) else { return };
    drop(lander.bring_all_forward());
    if let Ok(mut engine) = context.host.engine(Access::Read) {
        let mut tidied = Tidied::default();
        tidy::tidy_leftovers(context, &lander.with_short_wait(), &mut engine, &mut tidied);
        tidied.lines().iter().for_each(|line| note(line));
    }
}

fn landings<'h>(context: &'h Context, args: &Args) -> Result<Landings<'h>, Refusal> {
    let mut landings = Landings::of(&context.host, None, args.onto.as_deref(), args.style())?;
    landings.force = args.force.force();
    landings.keeps = args.keep;
    Ok(landings)
}

/// The lander for a task's target, and the task as a candidate.
fn landing_of<'h>(
    context: &'h Context,
    args: &Args,
    named: Option<&TaskRef>,
) -> Result<(Landings<'h>, Candidate), Refusal> {
    let mut landings = landings(context, args)?;
    let candidate = landings.candidate(named)?;
    if args.onto.is_none() {
        landings.target = landings.target_of(&candidate);
    }
    if landings.target == candidate.branch {
        let (id, branch) = (candidate.id(), onus_core::quote::name(&candidate.branch));
        let message = format!("{branch} is the branch of {id} itself: it cannot land in itself");
        return Err(Refusal::usage(message)
            .task(id)
            .next(Step::plain("name the branch that it is to land in")));
    }
    Ok((landings, candidate))
}

fn one(context: &Context, args: &Args, named: Option<&TaskRef>) -> super::ExitCode {
    let (mut landings, mut candidate) = landing_of(context, args, named)?;
    let id = candidate.id().to_owned();
    let message = args.message.clone().map(text_or_stdin).transpose()?;
    let is_held = candidate.state() == State::InProgress;
    let is_mine = candidate.holder().is_none_or(|holder| holder == landings.identity.actor.to_string());
    let finish = (is_held && is_mine && !args.check).then(|| finishing(&id, message)).transpose()?;
    if let Some(finish) = finish.clone() {
        // A task that cannot be finished must not land, so this is checked before anything is merged or run.
        context.rehearse(finish, None)?;
    }
    let seated = take_seat(&mut landings, args.patience())?;
    // Settles what a killed lander left, and what happened while we waited.
    let (notices, left) = landings.settle()?;
    context.out.notices(&notices);
    // Another task's landing that cannot be settled now moves nothing: it is reported, and this landing continues.
    for refusal in left {
        if refusal.task.as_deref() == Some(id.as_str()) {
            return Err(refusal);
        }
        note(&format!("onus: {}", refusal.message));
    }
    if !args.check {
        resume(context);
    }
    candidate = landings.candidate(Some(&id.parse()?))?;
    let interrupts = super::hold_interrupts()?;
    let mut run = |running: &Running<'_>| report::run_gate(context, running, &interrupts);
    let until = if args.check { Until::Checked } else { Until::Landed };
    let report = landings.land_all(&seated, vec![candidate], until, &mut run);
    drop(seated);
    let mut report = match report {
        Ok(report) => report,
        Err(refusal) => return stopped(context, &interrupts, refusal),
    };
    drop(interrupts);
    if let Some(refused) = report.refused.pop() {
        return Err(refused.refusal);
    }
    if let Some(gate) = &report.red {
        return Err(red(&landings.target, gate));
    }
    let mut reply = None;
    if let Some(finish) = finish {
        match context.run(finish, None) {
            Ok(done) => reply = Some(done),
            // It has landed all the same: whoever took the task meanwhile finishes it.
            Err(refusal) if !report.landed.is_empty() => {
                note(&format!("onus: it has landed, but you did not finish it: {}", refusal.message));
            }
            Err(refusal) => return Err(refusal),
        }
    }
    let tidied = tidy(context, args, &mut landings, &report);
    report::print(context, &landings, &report, &tidied, args.check, reply.as_ref(), None);
    Ok(0)
}

/// Reports why nothing landed. After an interrupt, the exit code is that of the signal.
fn stopped(context: &Context, interrupts: &Interrupts, refusal: Refusal) -> super::ExitCode {
    match interrupts.signal() {
        Some(signal) => {
            crate::output::refuse(context.out.json, &refusal);
            Ok(super::by_signal(signal))
        }
        None => Err(refusal),
    }
}

/// Removes the worktrees and branches of what landed now, and those that an earlier lander left.
fn tidy(context: &Context, args: &Args, landings: &mut Landings<'_>, report: &Report) -> Tidied {
    if args.check {
        return Tidied::default();
    }
    let lander = landings.lander.clone();
    let mut tidied = match args.keep {
        true => Tidied::default(),
        false => tidy::tidy(context, &lander, report),
    };
    landings.tidied();
    tidy::tidy_leftovers(context, &lander, &mut landings.engine, &mut tidied);
    tidied
}

/// The command that finishes a task when its holder lands it.
fn finishing(id: &str, message: Option<String>) -> Result<Command, Refusal> {
    let Some(message) = message else {
        let text = format!("{id} is in progress: landing finishes it, so say what was done");
        return Err(Refusal::usage(text).next(Step::plain("repeat it with -m 'what was done'")));
    };
    let act = Act::moved(Verb::Done, Some(message));
    Ok(Command::OnTask { task: Some(id.parse()?), act, force: None })
}

/// Pushes the branch and opens a pull request for it. Its landing is recognised later, by the target's content.
fn pull_request(context: &Context, args: &Args, named: Option<&TaskRef>) -> super::ExitCode {
    let (mut landings, candidate) = landing_of(context, args, named)?;
    let opened = landings.open_pull_request(&candidate)?;
    let value = json!({
        "task": candidate.id(), "branch": candidate.branch, "target": landings.target,
        "remote": opened.remote, "link": opened.link,
    });
    context.out.show(value, &[], || {
        let link = opened.link.map(|link| format!(": {}", escape_line(&link))).unwrap_or_default();
        let (branch, remote) = (escape_line(&candidate.branch), escape_line(&opened.remote));
        format!("{}: pushed {branch} to {remote} and opened a pull request{link}", candidate.id())
    });
    Ok(0)
}

fn take_seat(landings: &mut Landings<'_>, patience: Duration) -> Result<Seated, Refusal> {
    let target = landings.target.clone();
    landings.take_seat(patience, &mut |refusal| {
        note(&format!("onus: {}: waiting for my turn to land in {target}", refusal.message));
    })
}

/// The refusal for a target on which a gate fails without any task's work.
fn red(target: &str, gate: &GateKey) -> Refusal {
    let message = format!(
        "{target} is red: gate {gate} failed on {target} alone, so nothing lands and nobody is sent back"
    );
    Refusal::new(Code::Gate, message).next(Step::plain(format!("fix {target} first, then land again")))
}

fn queue(context: &Context, args: &Args) -> super::ExitCode {
    let mut landings = landings(context, args)?;
    if args.check {
        return check_queue(context, &mut landings);
    }
    let mut watch = match args.watch {
        true => Some(landings.engine.store().watch()?),
        false => None,
    };
    let mut in_vain = 0;
    loop {
        let code = land_waiting(context, args, &mut landings);
        let Some(watch) = &mut watch else { return code };
        if matches!(code, Ok(code) if code > super::SIGNALLED) {
            return code;
        }
        in_vain = if matches!(code, Ok(0)) { 0 } else { in_vain + 1 };
        if let Err(refusal) = code {
            crate::output::refuse(context.out.json, &refusal);
        }
        wait_for_work(&mut landings, watch.as_mut(), in_vain)?;
        resume(context);
    }
}

/// The longest that a watcher waits before it tries again what could not land, or looks at a remote again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Waits for a commit to the store. After failed attempts it waits longer each time, unless other tasks wait to land by
/// then: an attempt itself writes to the store, so a task that cannot land would be tried without pause.
fn wait_for_work(landings: &mut Landings<'_>, watch: &mut dyn Watch, in_vain: u32) -> Result<(), Refusal> {
    // A remote can move without a commit to the store.
    let until = landings.remote().map(|_| Instant::now() + LONGEST_PAUSE);
    if in_vain == 0 {
        watch.wait(until, &[])?;
        return Ok(());
    }
    let not_before = Instant::now() + Duration::from_secs(1 << in_vain.min(6)).min(LONGEST_PAUSE);
    let before = waiting(landings)?;
    // Passes over our own writes.
    watch.wait(Some(Instant::now()), &[])?;
    let mut has_news = false;
    loop {
        let woken = watch.wait(if has_news { Some(not_before) } else { until }, &[])?;
        has_news |= woken == Woken::Committed;
        if woken == Woken::Committed && waiting(landings)? != before {
            return Ok(());
        }
        let now = Instant::now();
        if has_news && now >= not_before || until.is_some_and(|until| now >= until) {
            return Ok(());
        }
    }
}

/// The tasks that wait to land, and where their branches are.
fn waiting(landings: &mut Landings<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let queued = landings.queued()?;
    let candidates = queued.candidates.iter().map(|it| (it.id().to_owned(), it.head.to_string()));
    Ok(candidates.chain(queued.left.iter().map(|(id, _)| (id.clone(), String::new()))).collect())
}

/// Reports which waiting tasks would land.
fn check_queue(context: &Context, landings: &mut Landings<'_>) -> super::ExitCode {
    if landings.queued()?.is_empty() {
        return Err(nothing_waits(landings));
    }
    let report = landings.check_queue()?;
    report::print(context, landings, &report, &Tidied::default(), true, None, None);
    Ok(report.refused.first().map_or(0, |refused| refused.refusal.exit_code()))
}

fn nothing_waits(landings: &Landings<'_>) -> Refusal {
    let message = format!("nothing waits to land in {}", landings.target);
    Refusal::new(Code::Nothing, message).next(Step::Status)
}

/// If nothing waits, a watcher continues, and any other caller is refused.
fn nothing(args: &Args, landings: &Landings<'_>) -> super::ExitCode {
    if args.watch { Ok(0) } else { Err(nothing_waits(landings)) }
}

/// Lands what waits now, if anything does.
fn land_waiting(context: &Context, args: &Args, landings: &mut Landings<'_>) -> super::ExitCode {
    if landings.queued()?.is_empty() && landings.engine.unsettled()?.is_empty() {
        return nothing(args, landings);
    }
    let seated = take_seat(landings, args.patience())?;
    let (notices, left) = landings.settle()?;
    context.out.notices(&notices);
    let interrupts = super::hold_interrupts()?;
    let mut run = |running: &Running<'_>| report::run_gate(context, running, &interrupts);
    let report = landings.land_queue(&seated, &mut run);
    drop(seated);
    let mut report = match report {
        Ok(report) => report,
        Err(refusal) => return stopped(context, &interrupts, refusal),
    };
    // A watcher that was interrupted ends after it has reported what it did.
    let signal = interrupts.signal().filter(|_| args.watch);
    drop(interrupts);
    report.refuse(left);
    // The lander that held the seat before us may have landed everything.
    if report.is_empty() && notices.is_empty() {
        return signal.map_or_else(|| nothing(args, landings), |signal| Ok(super::by_signal(signal)));
    }
    let tidied = tidy(context, args, landings, &report);
    let red = report.red.as_ref().map(|gate| red(&landings.target, gate));
    report::print(context, landings, &report, &tidied, false, None, red.as_ref());
    if let (Some(summary), false) = (report::summary(&report), context.out.json) {
        context.out.prose(&summary);
    }
    let first = report.refused.first().map(|refused| &refused.refusal);
    let code = red.as_ref().or(first).map_or(0, Refusal::exit_code);
    Ok(signal.map_or(code, super::by_signal))
}
