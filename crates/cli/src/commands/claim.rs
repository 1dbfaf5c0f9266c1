use std::io::IsTerminal as _;
use std::time::Duration;

use onus_core::command::{Act, Command, Terms};
use onus_core::constraint::Constraint;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::time::Span;
use onus_os::process;

use crate::args::{Key, Target, force_of, parse, parse_ms};
use crate::context::Context;
use crate::output::{escape_line, note};
use crate::render;
use onus_host::target;

use super::worktree::making::{self, ClaimWorktree};

/// Take a task: it is yours alone until you finish it, give it up or your lease lapses
///
/// Claiming a task you hold renews your lease. Claiming a task whose lease has lapsed takes it over. With --wait, onus
/// sleeps until there is something to take: until another process changes the store, a holder's process dies, or a lease
/// or reservation ends.
#[derive(clap::Args, Debug)]
#[command(mut_arg("task", |id| Target::by_default(id, "ONUS_TASK, or else the one task you hold, whose lease is renewed")))]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Take the best task that is ready for you
    #[arg(long, conflicts_with = "task")]
    next: bool,
    /// If there is nothing to take now, or another has the task, wait up to this long (90s, 15m, 2h)
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    wait: Option<i64>,
    #[command(flatten)]
    terms: TermArgs,
    #[command(flatten)]
    place: ClaimWorktree,
    /// Hold it without starting work yet
    #[arg(long)]
    reserve: bool,
    /// Why; recorded with the lease
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// People only: override a rule, such as the tier it needs. Needs --reason; the override is recorded
    #[arg(long, requires = "reason", conflicts_with = "next")]
    force: bool,
    /// A decision or approval that allows the override
    #[arg(long, value_name = "URL", requires = "force")]
    link: Option<String>,
    #[command(flatten)]
    key: Key,
}

#[derive(clap::Args, Debug)]
pub(crate) struct TermArgs {
    /// How long the lease lasts without a sign of life (90s, 15m, 2h); default: lease.ttl. 0 means no limit and
    /// needs --reason. A person's lease has no TTL
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    ttl: Option<i64>,
    /// Paths to reserve besides those the task declares: a glob from the repository's root; repeatable
    #[arg(long = "scope", value_name = "GLOB")]
    scope: Vec<String>,
    /// Share the --scope paths with other leases that also share them
    #[arg(long)]
    shared: bool,
    /// What you will not do, besides what the task forbids: read_only, no_delete, no_land, max_files=N or max_lines=N;
    /// repeatable
    #[arg(long = "constraint", value_name = "CONSTRAINT", value_parser = parse::<Constraint>)]
    constraints: Vec<Constraint>,
    /// Bind the lease to this process: it ends when the process does
    #[arg(long, value_name = "PID")]
    bind: Option<u32>,
}

impl TermArgs {
    pub(super) fn terms(&self, context: &Context) -> Result<Terms, Refusal> {
        let (scope, scope_areas) = context.scope(&self.scope)?;
        Ok(Terms {
            ttl_ms: self.ttl,
            scope,
            scope_areas,
            shared: self.shared,
            constraints: self.constraints.iter().copied().collect(),
            process: self.bind.map(process::identify).transpose()?,
            ..context.host.terms()
        })
    }
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let terms = Terms { reserve: args.reserve, reason: args.reason.clone(), ..args.terms.terms(context)? };
    let (terms, prepared) = args.place.prepare(context, terms)?;
    let command = if args.next {
        Command::ClaimNext(terms)
    } else {
        let force = force_of(args.force, args.reason.as_ref(), args.link.as_ref());
        Command::OnTask { task: target(args.target.task)?, act: Act::Claim(terms), force }
    };
    let names_none = matches!(&command, Command::OnTask { task: None, .. });
    let reply = match args.wait {
        None | Some(0) => context.run(command, args.key.key).map_err(|mut refusal| {
            // A caller that names no task and holds none probably wants any task.
            if names_none && refusal.code == Code::Usage && refusal.next.first() == Some(&Step::Ready) {
                refusal.next.insert(0, Step::ClaimNext);
            }
            refusal
        })?,
        Some(wait_ms) => {
            let patience = Duration::from_millis(wait_ms.unsigned_abs());
            context.run_or_wait(command, args.key.key, patience, &mut |refusal| {
                note_waiting(context, refusal.task.as_deref().unwrap_or("a task"), wait_ms);
            })?
        }
    };
    making::answer(context, prepared, &reply)
}

/// Tells a person at a terminal that the command is waiting.
pub(super) fn note_waiting(context: &Context, what: &str, wait_ms: i64) {
    if !context.out.json && std::io::stderr().is_terminal() {
        note(&format!("waiting for {what}, {} at most …", Span::from_ms(wait_ms)));
    }
}

/// How long a lease lasts, for the text after its token.
pub(super) fn left(lease: &onus_engine::LeaseView) -> String {
    match (&lease.process, lease.expires_in_s) {
        (Some(process), _) => format!(", while process {} lives", process.pid),
        (None, Some(s)) => format!(", for {}", render::seconds(s)),
        (None, None) => String::new(),
    }
}

pub(super) fn print(context: &Context, reply: &onus_engine::Reply) -> super::Result {
    let onus_engine::Answer::Lease { renewed, takeover, .. } = reply.answer else {
        return Err(super::unexpected());
    };
    super::print_lease(context, reply, |task| line(task, how(renewed, takeover)))
}

pub(super) fn how(renewed: bool, takeover: bool) -> &'static str {
    match (renewed, takeover) {
        (true, _) => "is still yours",
        (_, true) => "is yours, taken over",
        _ => "is yours",
    }
}

/// One line that says whose a task is now, and for how long.
pub(super) fn line(task: &onus_engine::TaskView, how: &str) -> String {
    let lease = task.lease.as_ref();
    let token = lease.map_or(0, |lease| lease.token);
    let left = lease.map(left).unwrap_or_default();
    format!("{} {how} (token {token}{left}): {}", task.id, escape_line(&task.title))
}
