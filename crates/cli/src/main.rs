//! onus, the binary: a thin skin over the engine. It parses, asks and prints; it never decides.

mod args;
mod bars;
mod calendar;
mod cli;
mod commands;
mod completing;
mod context;
mod drawing;
mod edited;
mod editor;
mod grid;
mod hours;
mod ics;
mod lines;
mod listing;
mod manual;
mod output;
mod plan;
mod primer;
mod progress;
mod render;
mod signing;
mod story;
mod table;
mod temporary;
mod wording;
mod wrap;

use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_store::may_hold_a_password;

use cli::{Cli, Command};
use context::Context;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        output::note(&format!("onus: unexpected: {panic}"));
        std::process::exit(1);
    }));
    // The hidden commands come before anything else: `onus run` starts this program again as the trampoline to its command,
    // and a gate's command runs below this program as its warden.
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == onus_dispatch::trampoline::NAME => onus_dispatch::trampoline::run(words),
        Some(word) if word == onus_dispatch::warden::NAME => onus_dispatch::warden::run(words),
        Some(word) if word == completing::NAME => {
            completing::run(words);
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(run()),
    }
}

fn run() -> u8 {
    // Known before anything is parsed, so that a usage error is answered in JSON too.
    let json = std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json");
    let cli = match Cli::try_parse_common().map_or_else(Cli::try_parse, Ok) {
        Ok(cli) => cli,
        // A harness reads exit 2 as "block this", but a hook that is called wrongly is no reason to stop an agent.
        Err(error) if is_hook() => {
            output::note(&rendered(&error));
            return Code::Unexpected.exit_code();
        }
        Err(error) => {
            return match meant(&error) {
                Some(refusal) => output::refuse(json, &refusal),
                None => usage(&tamed(error), json),
            };
        }
    };
    let Some(command) = cli.command else {
        let out = output::Output::new(json, "auto");
        if json {
            return output::refuse(true, &Refusal::usage("name a command").next(Step::Help));
        }
        out.prose(commands::help::overview(false).trim_end());
        return 0;
    };
    if let Command::Hook(args) = command {
        return commands::hook::run(&args);
    }
    if let Command::Guard(args) = &command
        && let Some(code) = commands::guard::run_hook(args.action.as_ref())
    {
        return code;
    }
    if let Some(folder) = cli.global.folder.as_deref().and_then(Path::to_str).and_then(quote::shell_word) {
        wording::FOLDER.get_or_init(|| folder);
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

/// Words that people try, the command that comes closest, and how it differs.
const OTHER_WORDS: &[(&str, &str, &str)] = &[
    ("rm", "drop", "nothing is ever removed; a task that will not be done is dropped"),
    ("remove", "drop", "nothing is ever removed; a task that will not be done is dropped"),
    ("delete", "drop", "nothing is ever removed; a task that will not be done is dropped"),
    ("cancel", "drop", "a task that will not be done is dropped"),
    ("update", "edit", "a task's fields are edited"),
    ("open", "reopen", "a finished task is reopened; a new one is added"),
    ("stop", "release", "a task that is given back unfinished is released"),
    ("pause", "release", "a task that is given back unfinished is released"),
    ("unclaim", "release", "a task that is given back unfinished is released"),
    ("next", "claim", "the best ready task is claimed with --next"),
    ("take", "claim", "a task is claimed"),
    ("history", "log", "the log says what happened"),
    ("find", "search", "tasks are searched by words"),
    ("depend", "dep", "dependencies are added with dep add"),
    ("version", "help", "--version shows it"),
];

/// The refusal for a word that is not a command but is often tried as one.
fn meant(error: &clap::Error) -> Option<Refusal> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // After a command that has subcommands, the parser's own suggestion is better.
    let commands = Cli::command();
    let before = std::env::args_os().skip(1).take_while(|before| before != word.as_str());
    if before.into_iter().any(|before| commands.find_subcommand(&before).is_some()) {
        return None;
    }
    let (word, command, why) = OTHER_WORDS.iter().find(|(other, ..)| other == word)?;
    let help = if *command == "help" { Step::Help } else { Step::HelpOn(command) };
    Some(Refusal::usage(format!("there is no command '{word}': {why}")).next(help))
}

/// The parser's error, without the parts that must not be shown.
fn tamed(mut error: clap::Error) -> clap::Error {
    // A message does not repeat overlong input.
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        if let Some(ContextValue::String(text)) = error.get(kind)
            && text.len() > 200
        {
            let short = onus_core::ids::shortened(text);
            error.insert(kind, ContextValue::String(short));
            error.remove(ContextKind::Suggested);
        }
    }
    // For an unknown option, the parser suggests to pass it as another argument.
    if error.get(ContextKind::InvalidArg).is_some_and(|arg| arg.to_string().starts_with('-')) {
        error.remove(ContextKind::Suggested);
    }
    // `claim --for 2h` must not suggest `--force`: no refusal teaches how to override it (P11).
    if error.get(ContextKind::SuggestedArg).is_some_and(|arg| arg.to_string().contains("--force")) {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    error
}

/// The parser's message, unless it repeats an argument that may be an address with a password.
fn rendered(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_repeated = |word: &str| {
        let value = word.split_once('=').filter(|_| word.starts_with("--")).map_or(word, |(_, value)| value);
        let beginning: String = value.chars().take(12).collect();
        may_hold_a_password(value) && text.contains(&beginning)
    };
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if words.any(|word| is_repeated(&word)) {
        return "error: invalid arguments; they are not repeated here, because they seem to contain an address"
            .to_owned();
    }
    said_once(error, text.trim_end())
}

/// Shortens a message that quotes the invalid value twice: the option's name is enough the first time.
fn said_once(error: &clap::Error, text: &str) -> String {
    let (Some(value), Some(arg)) = (error.get(ContextKind::InvalidValue), error.get(ContextKind::InvalidArg))
    else {
        return text.to_owned();
    };
    let twice = text.strip_prefix(&format!("error: invalid value '{value}' for '{arg}': "));
    let Some(rest) = twice.filter(|rest| rest.starts_with(&format!("'{value}'"))) else {
        return text.to_owned();
    };
    match arg.to_string().split(' ').next().filter(|name| name.starts_with('-')) {
        Some(option) => format!("error: {option}: {rest}"),
        None => format!("error: {rest}"),
    }
}

/// Prints what the parser returned: help and version are answers, everything else exits with 2.
fn usage(error: &clap::Error, json: bool) -> u8 {
    let out = output::Output::new(json, "auto");
    match error.kind() {
        ErrorKind::DisplayHelp if std::env::args_os().len() <= 2 + usize::from(json) => {
            out.prose_answer("help", commands::help::overview(false).trim_end());
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
            let text = rendered(error);
            // The error alone, without the usage text that people see below it.
            let message = text.strip_prefix("error: ").unwrap_or(&text);
            let message = message.split("\n\nUsage:").next().unwrap_or(message).trim();
            output::refuse(true, &Refusal::new(Code::Usage, message).next(Step::Help))
        }
        _ => {
            let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
            output::note(&as_a_refusal(&rendered(error), &command_meant(words)));
            Code::Usage.exit_code()
        }
    }
}

/// The parser's message in the form of every other refusal: what is wrong, then what to do, without empty lines.
fn as_a_refusal(text: &str, command: &str) -> String {
    let line = |line: &str| match line.strip_prefix("Usage: ") {
        _ if line.is_empty() || line.starts_with("For more information") => None,
        Some(usage) => Some(format!("  usage: {usage}")),
        None => Some(line.strip_prefix("error: ").map_or(line.to_owned(), |what| format!("onus: {what}"))),
    };
    let mut lines: Vec<String> = text.lines().filter_map(line).collect();
    lines.push(format!("  next: {command} --help"));
    lines.join("\n")
}

/// The command that these words name, as far as they are understood.
fn command_meant(words: impl Iterator<Item = String>) -> String {
    let (mut command, mut path) = (Cli::command(), "onus".to_owned());
    // The word after one of these is its value.
    let options = ["--as", "-C"];
    let mut is_value = false;
    let words = words.filter(|word| {
        let is_word = !std::mem::replace(&mut is_value, options.contains(&word.as_str()));
        is_word && !word.starts_with('-')
    });
    for word in words {
        let Some(inner) = command.find_subcommand(&word).cloned() else { break };
        path.push_str(&format!(" {}", inner.get_name()));
        command = inner;
    }
    path
}

fn dispatch(context: &Context, command: Command) -> Result<u8, Refusal> {
    use commands as c;
    match command {
        Command::Ready(args) => return c::ready::run(context, args),
        Command::List(args) => return c::list::run(context, args),
        Command::Search(args) => return c::search::run(context, args),
        Command::Blocked(args) => return c::blocked::run(context, args),
        Command::Doctor(args) => return c::doctor::run(context, args),
        Command::Run(args) => return c::run::run(context, args),
        Command::Land(args) => return c::land::run(context, args),
        Command::Gate(args) => return c::gate::run(context, args),
        Command::Show(args) => return c::show::run(context, args),
        Command::Move(step) => return c::moves::run(context, step),
        Command::Setup(args) => return c::setup::run(context, args),
        Command::Guard(args) => return c::guard::run(context, args.action),
        Command::Intake(args) => return c::intake::run(context, args),
        Command::Add(args) => c::add::run(context, args),
        Command::Claim(args) => c::claim::run(context, args),
        Command::Note(args) => c::note::run(context, args),
        Command::Status(args) => c::status::run(context, args),
        Command::Init(args) => c::init::run(context, args),
        Command::Stale(args) => c::stale::run(context, args),
        Command::Undo(args) => c::undo::run(context, args),
        Command::Why(args) => c::why::run(context, args),
        Command::Graph(args) => c::graph::run(context, args),
        Command::Dep(args) => c::dep::run(context, args.action),
        Command::Scope(args) => c::scope::run(context, args.action),
        Command::Worktree(args) => c::worktree::run(context, args.action),
        Command::Trust(args) => c::trust::run(context, args.action),
        Command::Touch(args) => c::touch::run(context, args),
        Command::Tick(args) => c::tick::run(context, args),
        Command::Edit(args) => c::edit::run(context, args),
        Command::Renew(args) => c::renew::run(context, args),
        Command::Pass(pass) => c::passing::run(context, pass),
        Command::Takeover(args) => c::takeover::run(context, args),
        Command::Rescue(args) => c::rescue::run(context, args.action),
        Command::Seat(args) => c::seat::run(context, args.action),
        Command::Reset(args) => c::reset::run(context, args),
        Command::Log(args) => c::log::run(context, args),
        Command::Session(args) => c::session::run(context, args),
        Command::Sessions(args) => c::sessions::run(context, args),
        Command::Timesheet(args) => c::timesheet::run(context, args),
        Command::Report(args) => c::report::run(context, args),
        Command::Ledger(args) => c::ledger::run(context, args),
        Command::Redact(args) => c::redact::run(context, args),
        Command::Actor(args) => c::actor::run(context, args.action),
        Command::Instance(args) => c::instance::run(context, args.action),
        Command::Mcp(args) => c::mcp::run(context, args),
        Command::Config(args) => c::config::run(context, args.action),
        Command::Whoami(args) => c::whoami::run(context, args),
        Command::Prime(args) => c::prime::run(context, args),
        // Handled before the context existed.
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
