//! The command line: its commands, and the flags they all share.

use std::path::PathBuf;

use clap::{Args, FromArgMatches as _, Parser, Subcommand};

use crate::args::{MoveArgs, Optional};
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

const PARSED_ALONE: &[(&str, Describe)] = &[
    ("add", c::add::Args::augment_args),
    ("ready", c::ready::Args::augment_args),
    ("claim", c::claim::Args::augment_args),
    ("note", c::note::Args::augment_args),
    ("done", MoveArgs::augment_args),
    ("release", MoveArgs::augment_args),
    ("show", c::show::Args::augment_args),
    ("status", c::status::Args::augment_args),
    ("list", c::list::Args::augment_args),
    ("renew", c::renew::Args::augment_args),
    ("hook", c::hook::Args::augment_args),
    ("guard", Optional::<c::guard::Action>::augment_args),
];

impl Cli {
    /// Parses one of the commonest commands with a parser that knows only that command: describing all commands
    /// makes a whole claim 27 % more expensive (4.87 million instructions against 3.84). Returns None for everything
    /// else, including help and mistakes: the full parser handles those and words the errors.
    pub(crate) fn try_parse_common() -> Option<Cli> {
        let words = std::env::args_os().skip(1);
        let named = words.filter_map(|word| word.into_string().ok()).find(|word| !word.starts_with('-'))?;
        let (name, describe) = PARSED_ALONE.iter().find(|(name, _)| *name == named)?;
        let parser = Global::augment_args(clap::Command::new("onus").disable_help_subcommand(true))
            .subcommand(describe(clap::Command::new(name)));
        Cli::from_arg_matches(&parser.try_get_matches().ok()?).ok()
    }
}

#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Print exactly one JSON document on stdout, even on failure
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// The actor to act as: human:NAME, agent:NAME or ci:NAME
    #[arg(long = "as", global = true, value_name = "ACTOR", help_heading = "Everywhere")]
    pub(crate) as_actor: Option<String>,
    /// Act as if started in this folder
    #[arg(short = 'C', global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    #[command(visible_alias = "create")]
    Add(c::add::Args),
    Ready(c::ready::Args),
    #[command(visible_alias = "start")]
    Claim(c::claim::Args),
    #[command(visible_alias = "comment")]
    Note(c::note::Args),
    Show(c::show::Args),
    Status(c::status::Args),

    Init(c::init::Args),
    Intake(c::intake::Args),
    #[command(visible_alias = "ls")]
    List(c::list::Args),
    Blocked(c::blocked::Args),
    Stale(c::stale::Args),
    Search(c::search::Args),
    Why(c::why::Args),
    Graph(c::graph::Args),
    Dep(Optional<c::dep::Action>),
    Scope(Optional<c::scope::Action>),
    Worktree(Optional<c::worktree::Action>),
    Land(c::land::Args),
    #[command(subcommand)]
    Gate(c::gate::Action),
    Touch(c::touch::Args),
    Edit(c::edit::Args),
    Undo(c::undo::Args),
    Tick(c::tick::Args),
    Renew(c::renew::Args),
    Run(c::run::Args),
    #[command(flatten)]
    Pass(c::passing::Pass),
    Takeover(c::takeover::Args),
    Rescue(Optional<c::rescue::Action>),
    Seat(Optional<c::seat::Action>),
    #[command(flatten)]
    Move(c::moves::Move),
    Reset(c::reset::Args),
    Log(c::log::Args),
    Sessions(c::sessions::Args),
    #[command(subcommand)]
    Session(c::session::Session),
    Timesheet(c::timesheet::Args),
    #[command(subcommand)]
    Report(c::report::Report),
    #[command(subcommand)]
    Ledger(c::ledger::Verb),
    Redact(c::redact::Args),
    Actor(Optional<c::actor::Verb>),
    Instance(Optional<c::instance::Verb>),
    Setup(c::setup::Args),
    Mcp(c::mcp::Args),
    Config(Optional<c::config::Verb>),
    Trust(Optional<c::trust::Action>),
    Doctor(c::doctor::Args),
    Backup(c::backup::Args),
    #[command(subcommand)]
    Store(c::store::Verb),
    Whoami(c::whoami::Args),
    Prime(c::prime::Args),
    Guard(Optional<c::guard::Action>),
    Hook(c::hook::Args),
    Completions(c::completions::Args),
    Man(c::man::Args),
    Demo(c::demo::Args),
    Help(c::help::Args),
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use onus_core::refusal::Step;

    use super::Cli;
    use crate::wording;

    #[test]
    fn every_step_is_a_command_that_exists_or_no_command() {
        let mut commands = 0;
        for step in onus_fuzz::steps() {
            let Some(said) = wording::step(&step) else { continue };
            let command = said.split("   #").next().unwrap();
            if command.starts_with("onus ") {
                let words = shlex::split(command).unwrap();
                assert!(Cli::try_parse_from(words).is_ok(), "{step:?}: {command}");
                commands += 1;
            } else {
                assert!(!matches!(step, Step::Do(..)), "{step:?}: {said}");
            }
            assert!(!said.contains("force"), "{step:?}: {said}");
        }
        assert!(commands > 40, "{commands}");
    }
}
