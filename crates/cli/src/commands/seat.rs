use std::time::Duration;

use clap::Subcommand;
use onus_core::command::{Command, SeatAct, SeatTerms};
use onus_core::ids::{Token, Version};
use onus_core::refusal::Refusal;
use onus_core::seat::SeatName;
use onus_core::text::Field;
use onus_engine::{Answer, Reply, SeatView};
use onus_os::process;
use onus_store::Access;
use serde_json::json;

use crate::args::{Key, force_of, parse, parse_ms};
use crate::context::Context;
use crate::output::escape_line;
use crate::render;

/// Roles that one holder has at a time, such as landing on a branch
///
/// A seat is a lease without a task: for other parts of onus, and for scripts that must run once. It works like
/// a task's lease: tokens, lapse, takeover. Taking a new name creates the seat: a role in lower case (dispatch), or a role
/// and what it is for (land:main).
///
/// Without a command, it lists the seats.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// Take a seat: it is yours alone until you release it or your lease lapses
    ///
    /// Taking what you hold renews it. Taking a seat whose lease lapsed takes it over.
    Take(Take),
    /// Renew your lease: a sign of life. Renewing never shortens a lease
    Renew {
        /// The seat
        #[arg(value_name = "NAME", value_parser = parse::<SeatName>)]
        seat: SeatName,
        /// Keep it for at least this long from now (90s, 15m, 2h)
        #[arg(long, value_name = "TIME", value_parser = parse_ms)]
        ttl: Option<i64>,
        #[command(flatten)]
        token: TokenArg,
        #[command(flatten)]
        key: Key,
    },
    /// Release a seat that you hold
    Release {
        /// The seat
        #[arg(value_name = "NAME", value_parser = parse::<SeatName>)]
        seat: SeatName,
        #[command(flatten)]
        token: TokenArg,
        #[command(flatten)]
        key: Key,
    },
    /// Take over a seat whose lease lapsed
    ///
    /// A live lease is refused: its holder is trusted to be working. From then on the old holder's token is dead.
    Takeover {
        /// The seat
        #[arg(value_name = "NAME", value_parser = parse::<SeatName>)]
        seat: SeatName,
        /// Why
        #[arg(long, value_name = "TEXT", required = true)]
        reason: String,
        #[command(flatten)]
        terms: TermArgs,
        /// People only: revoke a live lease. Recorded
        #[arg(long)]
        force: bool,
        /// A decision or approval that allows it
        #[arg(long, value_name = "URL", requires = "force")]
        link: Option<String>,
        #[command(flatten)]
        key: Key,
    },
    /// Check whether you hold a seat at this moment
    ///
    /// Exit 0 if your lease is live, 4 if another holds it, 5 if you were superseded, 6 if your lease has lapsed, 7 if nobody
    /// holds it.
    Check {
        /// The seat
        #[arg(value_name = "NAME", value_parser = parse::<SeatName>)]
        seat: SeatName,
        #[command(flatten)]
        token: TokenArg,
    },
    /// List every seat that was ever taken, and who holds it
    List,
    /// Show one seat
    Show {
        /// The seat
        #[arg(value_name = "NAME", value_parser = parse::<SeatName>)]
        seat: SeatName,
    },
    /// Erase the reason beside an event of a seat for good
    Redact {
        /// The seat
        #[arg(value_name = "NAME", value_parser = parse::<SeatName>)]
        seat: SeatName,
        /// Which event's text: its version, as `onus log --seat NAME` shows it (v3 is 3)
        #[arg(value_name = "VERSION", value_parser = super::redact::parse_version)]
        version: u64,
        /// Why (it stays in the ledger)
        #[arg(long, value_name = "TEXT", required = true)]
        reason: String,
        /// People only: erase it although another has superseded you on this seat; the override is recorded
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        key: Key,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct Take {
    /// A role (dispatch), or a role and what it is for (land:main)
    #[arg(value_name = "NAME", value_parser = parse::<SeatName>)]
    seat: SeatName,
    #[command(flatten)]
    terms: TermArgs,
    /// If another holds it, wait up to this long for it (90s, 15m, 2h)
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    wait: Option<i64>,
    /// Why, kept with the lease
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    key: Key,
}

#[derive(clap::Args, Debug)]
pub(crate) struct TermArgs {
    /// How long the lease lasts without a sign of life (90s, 15m, 2h); default: lease.ttl. 0 means no limit and
    /// needs --reason. A person's lease has no TTL
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    ttl: Option<i64>,
    /// Bind the lease to this process: it ends when the process does
    #[arg(long, value_name = "PID")]
    bind: Option<u32>,
}

impl TermArgs {
    fn terms(&self, context: &Context, reason: Option<String>) -> Result<SeatTerms, Refusal> {
        Ok(SeatTerms {
            ttl_ms: self.ttl,
            process: self.bind.map(process::identify).transpose()?,
            reason,
            worktree: context.host.worktree(),
            branch: context.host.branch(),
        })
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct TokenArg {
    /// The token of your lease. Without it: ONUS_TOKEN, unless that is a task's (ONUS_TASK)
    #[arg(long, value_name = "N")]
    token: Option<u64>,
}

pub(crate) fn run(context: &Context, action: Option<Action>) -> super::Result {
    match action.unwrap_or(Action::List) {
        Action::Take(take) => run_take(context, take),
        Action::Renew { seat, ttl, token, key } => {
            let command = Command::OnSeat { seat, act: SeatAct::Renew { ttl_ms: ttl }, force: None };
            print_lease(context, &context.run_presenting(token.token.map(Token), command, key.key)?)
        }
        Action::Release { seat, token, key } => {
            let command = Command::OnSeat { seat, act: SeatAct::Release, force: None };
            let reply = context.run_presenting(token.token.map(Token), command, key.key)?;
            print(context, &reply, |seat| format!("seat {} is free", escape_line(&seat.name)))
        }
        Action::Takeover { seat, reason, terms, force, link, key } => {
            let force = force_of(force, Some(&reason), link.as_ref());
            let act = SeatAct::Takeover(terms.terms(context, Some(reason))?);
            print_lease(context, &context.run(Command::OnSeat { seat, act, force }, key.key)?)
        }
        Action::Check { seat, token } => run_check(context, &seat, token.token),
        Action::List => run_list(context),
        Action::Show { seat } => run_show(context, &seat),
        Action::Redact { seat, version, reason, force, key } => {
            let force = force_of(force, Some(&reason), None);
            let act = SeatAct::Redact { version: Version(version), fields: vec![Field::Reason], reason };
            let command = Command::OnSeat { seat, act, force };
            super::redact::erase(context, command, key.key, |reply| {
                let Answer::Seat { seat, .. } = &reply.answer else { return Err(super::unexpected()) };
                let said = format!("seat {}: the text of event {version} is erased", escape_line(&seat.name));
                Ok((json!(seat), said))
            })
        }
    }
}

fn run_take(context: &Context, args: Take) -> super::Result {
    let terms = args.terms.terms(context, args.reason)?;
    let what = args.seat.spoken();
    let command = Command::OnSeat { seat: args.seat, act: SeatAct::Take(terms), force: None };
    let reply = match args.wait {
        None | Some(0) => context.run(command, args.key.key)?,
        Some(wait_ms) => {
            let patience = Duration::from_millis(wait_ms.unsigned_abs());
            context.run_or_wait(command, args.key.key, patience, &mut |_| {
                super::claim::note_waiting(context, &what, wait_ms);
            })?
        }
    };
    print_lease(context, &reply)
}

fn run_check(context: &Context, seat: &SeatName, token: Option<u64>) -> super::Result {
    let mut engine = context.host.engine(Access::Read)?;
    let mut identity = context.host.identity(&mut engine)?;
    if let Some(token) = token {
        identity.token = Some((None, Token(token)));
    }
    let looked = engine.check_seat(&identity, seat)?;
    let value = json!({ "seat": looked.value, "lease": looked.value.lease });
    context.out.show(value, &looked.notices, || held(&looked.value, "is yours"));
    Ok(())
}

fn run_list(context: &Context) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.seats(identity.as_ref())?;
    context.out.show(json!({ "seats": looked.value }), &looked.notices, || match looked.value.as_slice() {
        [] => "no seat was ever taken".to_owned(),
        seats => seats.iter().map(line).collect::<Vec<_>>().join("\n"),
    });
    Ok(())
}

fn run_show(context: &Context, name: &SeatName) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.seat(identity.as_ref(), name)?;
    let seat = &looked.value;
    context.out.show(seat, &looked.notices, || {
        let mut lines = vec![line(seat)];
        let reason = seat.lease.as_ref().and_then(|lease| lease.reason.as_ref());
        lines.extend(reason.map(|reason| format!("  why      {}", escape_line(reason))));
        lines.push(format!("  token    {}", seat.token));
        let created = render::local_time(&seat.created_at);
        lines.push(format!("  created  {created} by {}", escape_line(&seat.created_by)));
        lines.join("\n")
    });
    Ok(())
}

fn line(seat: &SeatView) -> String {
    let holder = seat.lease.as_ref().map_or_else(|| "nobody holds it".to_owned(), render::lease);
    format!("{}  {holder}", escape_line(&seat.name))
}

fn held(seat: &SeatView, how: &str) -> String {
    let lease = seat.lease.as_ref();
    let left = lease.map(super::claim::left).unwrap_or_default();
    format!("seat {} {how} (token {}{left})", escape_line(&seat.name), seat.token)
}

fn print(context: &Context, reply: &Reply, prose: impl FnOnce(&SeatView) -> String) -> super::Result {
    let Answer::Seat { seat, renewed, takeover } = &reply.answer else { return Err(super::unexpected()) };
    let value = json!({ "seat": seat, "lease": seat.lease, "renewed": renewed, "takeover": takeover });
    context.out.reply(reply, value, || prose(seat));
    Ok(())
}

fn print_lease(context: &Context, reply: &Reply) -> super::Result {
    let Answer::Seat { renewed, takeover, .. } = reply.answer else { return Err(super::unexpected()) };
    print(context, reply, |seat| held(seat, super::claim::how(renewed, takeover)))
}
