//! onus, the binary: a thin skin over the engine. It parses, asks, prints; it never decides.

mod args;
mod cli;
mod commands;
mod config;
mod context;
mod drawing;
mod output;
mod plan;
mod primer;
mod progress;
mod render;
mod scopes;
mod signing;
mod story;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use onus_core::refusal::{Code, Refusal};

use cli::{Cli, Command};
use context::Context;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        output::note(&format!("onus: unexpected: {panic}"));
        std::process::exit(1);
    }));
    // Before anything else: `onus run` starts us once more to become its command.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == onus_dispatch::trampoline::NAME) {
        return onus_dispatch::trampoline::run(words);
    }
    ExitCode::from(run())
}

fn run() -> u8 {
    // Known before anything is parsed: also a usage error is answered in JSON.
    let json = std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json");
    let cli = match Cli::try_parse_common().map_or_else(Cli::try_parse, Ok) {
        Ok(cli) => cli,
        // To a harness exit 2 means "do not do that": a hook that is called wrongly is no reason to stop an agent.
        Err(error) if is_hook() => {
            output::note(&output::escape(error.render().to_string().trim_end()));
            return Code::Unexpected.exit_code();
        }
        Err(error) => return usage(&tamed(error), json),
    };
    let Some(command) = cli.command else {
        let out = output::Output::new(json, "auto");
        if json {
            return output::refuse(true, &Refusal::usage("name a command: see onus help"));
        }
        out.line(commands::help::overview(false).trim_end());
        return 0;
    };
    if let Command::Hook(args) = command {
        return commands::hook::run(&args);
    }
    let context = Context::new(cli.global.folder.as_deref(), cli.global.as_actor, json);
    if let (Command::Prime(_), Err(refusal)) = (&command, &context) {
        return commands::prime::run_without_context(json, refusal);
    }
    match context.and_then(|context| dispatch(&context, command)) {
        Ok(code) => code,
        Err(refusal) => output::refuse(json, &refusal),
    }
}

fn is_hook() -> bool {
    let is_help = std::env::args_os().any(|word| word == "--help" || word == "-h");
    !is_help && std::env::args_os().nth(1).is_some_and(|word| word == "hook")
}

/// The parser's error, without what must not be in one.
fn tamed(mut error: clap::Error) -> clap::Error {
    // A message does not repeat a flood.
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        if let Some(ContextValue::String(text)) = error.get(kind)
            && text.len() > 200
        {
            let short = onus_core::ids::shortened(text);
            error.insert(kind, ContextValue::String(short));
            error.remove(ContextKind::Suggested);
        }
    }
    // A slip such as `claim --for 2h` is not answered with the flag that overrides: no refusal teaches that (P11).
    if error.get(ContextKind::SuggestedArg).is_some_and(|arg| arg.to_string().contains("--force")) {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    error
}

/// What the parser says: help and version are answers, the rest is exit 2.
fn usage(error: &clap::Error, json: bool) -> u8 {
    let out = output::Output::new(json, "auto");
    match error.kind() {
        ErrorKind::DisplayHelp if std::env::args_os().len() <= 2 + usize::from(json) => {
            out.answer("help", commands::help::overview(false).trim_end());
            0
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion if json => {
            let name = if error.kind() == ErrorKind::DisplayHelp { "help" } else { "version" };
            out.answer(name, error.render().to_string().trim_end());
            0
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            0
        }
        _ if json => {
            let text = error.render().to_string();
            // What is wrong, without the usage that people are shown below it.
            let message = text.strip_prefix("error: ").unwrap_or(&text);
            let message = message.split("\n\nUsage:").next().unwrap_or(message).trim();
            output::refuse(true, &Refusal::new(Code::Usage, message).next("onus help --all"))
        }
        _ => {
            output::note(&output::escape(error.render().to_string().trim_end()));
            Code::Usage.exit_code()
        }
    }
}

fn dispatch(context: &Context, command: Command) -> Result<u8, Refusal> {
    use commands as c;
    match command {
        Command::Doctor(args) => return c::doctor::run(context, args),
        Command::Run(args) => return c::run::run(context, args),
        Command::Setup(args) => return c::setup::run(context, args),
        Command::Add(args) => c::add::run(context, args),
        Command::Ready(args) => c::ready::run(context, args),
        Command::Claim(args) => c::claim::run(context, args),
        Command::Note(args) => c::note::run(context, args),
        Command::Done(args) => c::done::run(context, args),
        Command::Release(args) => c::release::run(context, args),
        Command::Show(args) => c::show::run(context, args),
        Command::Status(args) => c::status::run(context, args),
        Command::Init(args) => c::init::run(context, args),
        Command::List(args) => c::list::run(context, args),
        Command::Search(args) => c::search::run(context, args),
        Command::Why(args) => c::why::run(context, args),
        Command::Graph(args) => c::graph::run(context, args),
        Command::Dep(args) => c::dep::run(context, args),
        Command::Scope(args) => c::scope::run(context, args),
        Command::Touch(args) => c::touch::run(context, args),
        Command::Edit(args) => c::edit::run(context, args),
        Command::Renew(args) => c::renew::run(context, args),
        Command::Handoff(args) => c::handoff::run(context, args),
        Command::Takeover(args) => c::takeover::run(context, args),
        Command::Accept(args) => c::accept::run(context, args),
        Command::Block(args) => c::block::run(context, args),
        Command::Unblock(args) => c::unblock::run(context, args),
        Command::Submit(args) => c::submit::run(context, args),
        Command::Approve(args) => c::approve::run(context, args),
        Command::Reject(args) => c::reject::run(context, args),
        Command::Fail(args) => c::fail::run(context, args),
        Command::Drop(args) => c::drop::run(context, args),
        Command::Reopen(args) => c::reopen::run(context, args),
        Command::Retry(args) => c::retry::run(context, args),
        Command::Reset(args) => c::reset::run(context, args),
        Command::Log(args) => c::log::run(context, args),
        Command::Ledger(args) => c::ledger::run(context, args),
        Command::Redact(args) => c::redact::run(context, args),
        Command::Actor(args) => c::actor::run(context, args),
        Command::Instance(args) => c::instance::run(context, args),
        Command::Mcp(args) => c::mcp::run(context, args),
        Command::Config(args) => c::config::run(context, args),
        Command::Whoami(args) => c::whoami::run(context, args),
        Command::Prime(args) => c::prime::run(context, args),
        // Handled before there was a context.
        Command::Hook(_) => Ok(()),
        Command::Backup(args) => c::backup::run(context, args),
        Command::Store(args) => c::store::run(context, args),
        Command::Completions(args) => c::completions::run(context, args),
        Command::Man(args) => c::man::run(context, args),
        Command::Demo(args) => c::demo::run(context, args),
        Command::Help(args) => c::help::run(context, args),
    }?;
    Ok(0)
}
