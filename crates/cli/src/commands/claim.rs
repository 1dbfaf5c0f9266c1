use std::io::IsTerminal as _;
use std::time::Duration;

use onus_core::command::{Act, Command, Terms};
use onus_core::refusal::Refusal;
use onus_core::time::Span;
use onus_engine::process;

use crate::args::{Key, Target, force_of, parse_ms};
use crate::context::{Context, target};
use crate::output::{escape_line, note};
use crate::render;

/// Take a task: it is yours alone until you end it or your lease lapses
///
/// Claiming what you hold renews it. Claiming a task whose lease lapsed takes it over. With --wait it sleeps until there
/// is something to take: when another process changes the store, a holder's process dies, or a lease or reservation ends.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The best task that you may take
    #[arg(long, conflicts_with = "task")]
    next: bool,
    /// If there is nothing to take now, or the task is held or kept, wait up to this long for it (90s, 15m, 2h)
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    wait: Option<i64>,
    #[command(flatten)]
    terms: TermArgs,
    /// Hold it, but do not start yet
    #[arg(long)]
    reserve: bool,
    /// Why, kept with the lease
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// People only: override a rule, such as the tier it needs. Always with --reason, and recorded
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
    /// How long the lease lives without a sign of life (90s, 15m, 2h); if not given, lease.ttl. 0: no limit, with
    /// --reason. A person's lease has no TTL
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    ttl: Option<i64>,
    /// Paths to reserve with it, beside those that the task declares: a glob from the repository's root; may be repeated
    #[arg(long = "scope", value_name = "GLOB")]
    scope: Vec<String>,
    /// Share these paths with others that share them, too
    #[arg(long)]
    shared: bool,
    /// Bind the lease to this process: it lives as long as the process, and no longer
    #[arg(long, value_name = "PID")]
    bind: Option<u32>,
}

impl TermArgs {
    pub(super) fn terms(&self, context: &Context) -> Result<Terms, Refusal> {
        Ok(Terms {
            ttl_ms: self.ttl,
            scope: crate::scopes::scope(context, &self.scope)?,
            shared: self.shared,
            process: self.bind.map(process::identify).transpose()?,
            worktree: context.place.as_ref().map(|place| place.root.to_string_lossy().into_owned()),
            branch: context.place.as_ref().and_then(|place| place.branch.clone()),
            ..Terms::default()
        })
    }
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let terms = Terms { reserve: args.reserve, reason: args.reason.clone(), ..args.terms.terms(context)? };
    let command = if args.next {
        Command::ClaimNext(terms)
    } else {
        let force = force_of(args.force, args.reason.as_ref(), args.link.as_ref());
        Command::OnTask { task: target(args.target.task)?, act: Act::Claim(terms), force }
    };
    let reply = match args.wait {
        None | Some(0) => context.run(command, args.key.key)?,
        Some(wait_ms) => {
            let patience = Duration::from_millis(wait_ms.unsigned_abs());
            let watched = !context.out.json && std::io::stderr().is_terminal();
            context.run_or_wait(command, args.key.key, patience, &mut |refusal| {
                if watched {
                    let what = refusal.task.as_deref().unwrap_or("a task");
                    note(&format!("waiting for {what}, {} at most …", Span::from_ms(wait_ms)));
                }
            })?
        }
    };
    print(context, &reply)
}

pub(super) fn print(context: &Context, reply: &onus_engine::Reply) -> super::Result {
    let onus_engine::Answer::Lease { renewed, takeover, .. } = reply.answer else {
        return Err(super::unexpected());
    };
    super::print_lease(context, reply, |task| {
        let how = match (renewed, takeover) {
            (true, _) => "is still yours",
            (_, true) => "is yours, taken over",
            _ => "is yours",
        };
        let lease = task.lease.as_ref();
        let token = lease.map_or(0, |lease| lease.token);
        let left = lease.and_then(|lease| match (&lease.process, lease.expires_in_s) {
            (Some(process), _) => Some(format!(", while process {} lives", process.pid)),
            (None, Some(s)) => Some(format!(", for {}", render::seconds(s))),
            (None, None) => None,
        });
        format!("{} {how} (token {token}{}): {}", task.id, left.unwrap_or_default(), escape_line(&task.title))
    })
}
