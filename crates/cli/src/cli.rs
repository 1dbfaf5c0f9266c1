//! The command line: its commands, and the flags that all of them have.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
    Edit(c::edit::Args),
    Renew(c::renew::Args),
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
    Log(c::log::Args),
    Ledger(c::ledger::Args),
    Redact(c::redact::Args),
    Actor(c::actor::Args),
    Instance(c::instance::Args),
    Config(c::config::Args),
    Doctor(c::doctor::Args),
    Backup(c::backup::Args),
    Completions(c::completions::Args),
    Man(c::man::Args),
    Demo(c::demo::Args),
    Help(c::help::Args),
}
