//! The command line: its commands, and the flags that all of them have.

use std::path::PathBuf;

use clap::{Args, FromArgMatches as _, Parser, Subcommand};

use crate::commands as c;

/// onus decides who holds a piece of work, proves it, and keeps the record.
#[derive(Parser, Debug)]
#[command(name = "onus", version, disable_help_subcommand = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Describes the arguments of one command to the parser.
type Describe = fn(clap::Command) -> clap::Command;

const COMMON: &[(&str, Describe)] = &[
    ("add", c::add::Args::augment_args),
    ("ready", c::ready::Args::augment_args),
    ("claim", c::claim::Args::augment_args),
    ("note", c::note::Args::augment_args),
    ("done", c::done::Args::augment_args),
    ("release", c::release::Args::augment_args),
    ("show", c::show::Args::augment_args),
    ("status", c::status::Args::augment_args),
    ("list", c::list::Args::augment_args),
    ("renew", c::renew::Args::augment_args),
    ("hook", c::hook::Args::augment_args),
];

impl Cli {
    /// Parses a call of one of the commonest commands with a parser that knows no other: describing all of them
    /// takes longer than the rest of a short call. None for everything else, help and mistakes included:
    /// what cannot be parsed here is parsed, and answered, by the whole parser.
    pub(crate) fn try_parse_common() -> Option<Cli> {
        let words = std::env::args_os().skip(1);
        let named = words.filter_map(|word| word.into_string().ok()).find(|word| !word.starts_with('-'))?;
        let (name, describe) = COMMON.iter().find(|(name, _)| *name == named)?;
        let parser = Global::augment_args(clap::Command::new("onus").disable_help_subcommand(true))
            .subcommand(describe(clap::Command::new(name)));
        Cli::from_arg_matches(&parser.try_get_matches().ok()?).ok()
    }
}

#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Print one JSON document on stdout, also on failure
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// Who acts: human:NAME, agent:NAME or ci:NAME
    #[arg(long = "as", global = true, value_name = "ACTOR", help_heading = "Everywhere")]
    pub(crate) as_actor: Option<String>,
    /// Act as if started in this folder
    #[arg(short = 'C', global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Add(c::add::Args),
    Ready(c::ready::Args),
    Claim(c::claim::Args),
    Note(c::note::Args),
    #[command(visible_aliases = ["close", "complete"])]
    Done(c::done::Args),
    Release(c::release::Args),
    Show(c::show::Args),
    Status(c::status::Args),

    Init(c::init::Args),
    List(c::list::Args),
    Search(c::search::Args),
    Why(c::why::Args),
    Graph(c::graph::Args),
    Dep(c::dep::Args),
    Scope(c::scope::Args),
    Touch(c::touch::Args),
    Edit(c::edit::Args),
    Renew(c::renew::Args),
    Run(c::run::Args),
    Handoff(c::handoff::Args),
    Takeover(c::takeover::Args),
    Accept(c::accept::Args),
    Block(c::block::Args),
    Unblock(c::unblock::Args),
    Submit(c::submit::Args),
    Approve(c::approve::Args),
    Reject(c::reject::Args),
    Fail(c::fail::Args),
    Drop(c::drop::Args),
    Reopen(c::reopen::Args),
    Retry(c::retry::Args),
    Reset(c::reset::Args),
    Log(c::log::Args),
    Ledger(c::ledger::Args),
    Redact(c::redact::Args),
    Actor(c::actor::Args),
    Instance(c::instance::Args),
    Setup(c::setup::Args),
    Mcp(c::mcp::Args),
    Config(c::config::Args),
    Doctor(c::doctor::Args),
    Backup(c::backup::Args),
    Store(c::store::Args),
    Whoami(c::whoami::Args),
    Prime(c::prime::Args),
    Hook(c::hook::Args),
    Completions(c::completions::Args),
    Man(c::man::Args),
    Demo(c::demo::Args),
    Help(c::help::Args),
}
