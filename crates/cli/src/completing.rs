//! What a shell offers when Tab is pressed. A short script (`onus completions`) passes the words typed so far, and this
//! module finds what fits: commands and options in the parser; tasks, actors and keys in the store and the configuration.
//!
//! The store is opened only if it is needed, and only for reading. If anything fails, nothing is offered and no error is
//! shown: somebody is typing.

use clap::CommandFactory as _;

use onus_core::gate::Gate;
use onus_core::refusal::Refusal;
use onus_core::task::{Priority, State, TaskType};
use onus_host::Host;
use onus_host::config::KEYS;
use onus_intake::Channel;
use onus_store::Filter;

use crate::cli::Cli;
use crate::output::{Output, escape_line};
use crate::table::shortened;

/// The hidden command that the completion scripts call.
pub(crate) const NAME: &str = "__complete";

/// The most tasks that are offered.
const MAX_TASKS: u64 = 200;
/// The longest description of an offer, in columns.
const ABOUT: usize = 60;

/// A value to offer, and its description.
type Offer = (String, String);

/// What the parser does not know and must be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Tasks in these states; without any, all tasks or all unfinished ones. By id, or by bare number.
    Tasks {
        states: &'static [State],
        all: bool,
        numbers: bool,
    },
    Actors,
    /// The gates that the project defines.
    Gates,
}

/// Prints what the last of these words may be completed to.
pub(crate) fn run(words: impl Iterator<Item = std::ffi::OsString>) {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut command = Cli::command();
    command.build();
    let mut look_up = |want| looked_up(want).unwrap_or_default();
    let offers = offers(&command, &words, &mut look_up);
    let out = Output::new(false, "never");
    let lines: Vec<String> = offers
        .into_iter()
        .map(|(value, about)| {
            format!("{value}\t{}", shortened(&escape_line(&about), ABOUT)).trim_end().to_owned()
        })
        .collect();
    if !lines.is_empty() {
        out.line(&lines.join("\n"));
    }
}

fn looked_up(want: Want) -> Result<Vec<Offer>, Refusal> {
    let host = Host::new(None, None)?;
    match want {
        Want::Gates => {
            let about =
                |gate: &Gate| gate.title.clone().unwrap_or_else(|| format!("{}, {}", gate.kind, gate.stage));
            Ok(host.config.gates().iter().map(|gate| (gate.key.to_string(), about(gate))).collect())
        }
        Want::Actors => {
            let actors = host.reader()?.0.actors()?.into_iter();
            Ok(actors.map(|actor| (actor.name, format!("tier {}", actor.tier))).collect())
        }
        Want::Tasks { states, all, numbers } => {
            let filter = Filter {
                states: states.to_vec(),
                finished: all,
                ad_hoc: Some(false).filter(|_| !all),
                ..Filter::default()
            };
            let page = host.reader()?.0.list(None, &filter, None, MAX_TASKS)?.value;
            let offer = |number: u64, id: String| if numbers { number.to_string() } else { id };
            Ok(page.tasks.into_iter().map(|task| (offer(task.number, task.id), task.title)).collect())
        }
    }
}

/// Everything that fits the last word.
fn offers(root: &clap::Command, words: &[String], look_up: &mut dyn FnMut(Want) -> Vec<Offer>) -> Vec<Offer> {
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let (mut command, mut positional, mut pending, mut only_values) = (root, 0, None, false);
    for word in before {
        if pending.take().is_some() {
            continue;
        }
        match word.as_str() {
            "--" if !only_values => only_values = true,
            option if option.starts_with('-') && option.len() > 1 && !only_values => {
                pending = option_of(command, option).filter(|_| !option.contains('='));
            }
            name => match command.find_subcommand(name).filter(|_| positional == 0) {
                Some(sub) => command = sub,
                None => positional += 1,
            },
        }
    }
    let fitting = |offers: Vec<Offer>, start: &str, head: &str| -> Vec<Offer> {
        let fits = |value: &str| value.to_lowercase().starts_with(&start.to_lowercase());
        offers
            .into_iter()
            .filter(|(value, _)| fits(value))
            .map(|(value, about)| (format!("{head}{value}"), about))
            .collect()
    };
    if let Some(arg) = pending {
        return fitting(values(command, (arg, 0), current, look_up), current, "");
    }
    if let Some((option, value)) =
        current.split_once('=').filter(|_| current.starts_with("--") && !only_values)
    {
        let found = option_of(command, option).map(|arg| values(command, (arg, 0), value, look_up));
        return fitting(found.unwrap_or_default(), value, &format!("{option}="));
    }
    if current.starts_with('-') && !only_values {
        return fitting(options(command), current, "");
    }
    let mut offers = Vec::new();
    if positional == 0 {
        let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        offers.extend(subs.map(|sub| (sub.get_name().to_owned(), about(sub.get_about()))));
    }
    // The last positional argument may take several values.
    let last = || command.get_positionals().last().filter(|arg| takes_several(arg));
    if let Some(arg) = command.get_positionals().nth(positional).or_else(last) {
        offers.extend(values(command, (arg, positional), current, look_up));
    }
    fitting(offers, current, "")
}

fn takes_several(arg: &clap::Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
        || matches!(arg.get_action(), clap::ArgAction::Append)
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// The option that a word names, if it takes a value. Of several short options in one word, only the last can.
fn option_of<'a>(command: &'a clap::Command, word: &str) -> Option<&'a clap::Arg> {
    let word = word.split('=').next().unwrap_or(word);
    let named = |arg: &&clap::Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short() == word.chars().next_back(),
    };
    command.get_arguments().find(named).filter(|arg| arg.get_action().takes_values())
}

fn options(command: &clap::Command) -> Vec<Offer> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())))).collect()
}

/// The values an argument may have; `before` counts the positional words before it.
fn values(
    command: &clap::Command,
    (arg, before): (&clap::Arg, usize),
    current: &str,
    look_up: &mut dyn FnMut(Want) -> Vec<Offer>,
) -> Vec<Offer> {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let about = |value: &clap::builder::PossibleValue| about(value.get_help());
        return possible.iter().map(|value| (value.get_name().to_owned(), about(value))).collect();
    }
    let plain = |words: &mut dyn Iterator<Item = &'static str>| {
        words.map(|word| (word.to_owned(), String::new())).collect()
    };
    let name = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    match name.unwrap_or_default() {
        "ID" | "ON" | "[ID] TEXT" => look_up(tasks_for(command, current)),
        // The task may be omitted, so the first word can be either.
        "[ID] GATE" => {
            let mut offers = look_up(Want::Gates);
            if before == 0 {
                offers.extend(look_up(tasks_for(command, current)));
            }
            offers
        }
        "KEY" if matches!(arg.get_long(), Some("gate" | "no-gate")) => look_up(Want::Gates),
        "ACTOR" => look_up(Want::Actors),
        "STATE" => plain(&mut State::ALL.iter().map(|state| state.as_str())),
        "TYPE" => plain(&mut TaskType::ALL.iter().map(|kind| kind.as_str())),
        "P0..P4" => plain(&mut Priority::ALL.iter().map(|priority| priority.as_str())),
        "0..3" => plain(&mut ["0", "1", "2", "3"].into_iter()),
        "MODE" => plain(&mut ["exclusive", "shared"].into_iter()),
        // A configuration key. The idempotency key of `--key` cannot be guessed.
        "KEY" if arg.is_positional() => plain(&mut KEYS.iter().map(|key| key.name)),
        // A project may have channels of its own.
        "CHANNEL" => plain(&mut Channel::ALL.iter().map(|channel| channel.as_str())),
        "COMMAND" if command.get_name() == "help" => {
            let root = Cli::command();
            let shown = root.get_subcommands().filter(|sub| !sub.is_hide_set());
            shown.map(|sub| (sub.get_name().to_owned(), about(sub.get_about()))).collect()
        }
        _ => Vec::new(),
    }
}

fn tasks_for(command: &clap::Command, current: &str) -> Want {
    let numbers = !current.is_empty() && current.bytes().all(|byte| byte.is_ascii_digit());
    let (states, all) = wanted_states(command.get_name());
    Want::Tasks { states, all, numbers }
}

/// The states of the tasks that a command is for; without any, whether it is for all tasks or only unfinished ones.
fn wanted_states(command: &str) -> (&'static [State], bool) {
    match command {
        "accept" => (&[State::Proposed], false),
        "unblock" => (&[State::Blocked], false),
        "approve" | "reject" => (&[State::Review], false),
        "retry" => (&[State::Failed], false),
        "land" => (&[State::InProgress, State::Done], false),
        "reopen" => (&[State::Done, State::Dropped], false),
        "claim" | "run" => (&[State::Open, State::InProgress], false),
        "show" | "log" | "sessions" | "timesheet" | "graph" | "redact" | "reset" => (&[], true),
        _ => (&[], false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is offered for a line, and what was looked up; a lookup always finds the same few values.
    fn offered(line: &str) -> (Vec<String>, Option<Want>) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut command = Cli::command();
        command.build();
        let mut wanted = None;
        let mut look_up = |want| {
            wanted = Some(want);
            if want == Want::Gates {
                return vec![("tests".to_owned(), "all tests pass".to_owned())];
            }
            vec![
                ("ON-1".to_owned(), "a title".to_owned()),
                ("agent:a".to_owned(), String::new()),
                ("14".to_owned(), String::new()),
            ]
        };
        let found = offers(&command, &words, &mut look_up);
        (found.into_iter().map(|(value, _)| value).collect(), wanted)
    }

    fn tasks(states: &'static [State], all: bool, numbers: bool) -> Option<Want> {
        Some(Want::Tasks { states, all, numbers })
    }

    #[test]
    fn each_place_is_offered_what_may_stand_there() {
        for (line, expected, wanted) in [
            ("take", vec!["takeover"], None),
            ("dep a", vec!["add"], None),
            ("list --st", vec!["--state"], None),
            ("list --state bl", vec!["blocked"], None),
            ("list --state=bl", vec!["--state=blocked"], None),
            ("add x -t b", vec!["bug"], None),
            ("add x --json -p P1", vec!["P1"], None),
            ("--as ag", vec!["agent:a"], Some(Want::Actors)),
            ("--as agent:a claim on", vec!["ON-1"], tasks(&[State::Open, State::InProgress], false, false)),
            ("show O", vec!["ON-1"], tasks(&[], true, false)),
            ("ls --state", vec!["--state"], None),
            ("done ON-1 1", vec!["14"], tasks(&[], false, true)),
            ("approve O", vec!["ON-1"], tasks(&[State::Review], false, false)),
            ("land O", vec!["ON-1"], tasks(&[State::InProgress, State::Done], false, false)),
            ("note ON-1 O", vec!["ON-1"], tasks(&[], false, false)),
            ("dep add ON-1 O", vec!["ON-1"], tasks(&[], false, false)),
            ("handoff ON-1 --to ag", vec!["agent:a"], Some(Want::Actors)),
            ("config get lease.tt", vec!["lease.ttl"], None),
            ("claim --key l", vec![], None),
            ("gate run ON-1 t", vec!["tests"], Some(Want::Gates)),
            ("gate run t", vec!["tests"], tasks(&[State::Open, State::InProgress], false, false)),
            ("gate log O", vec!["ON-1"], tasks(&[], true, false)),
            ("gate pass ON-1 t", vec!["tests"], Some(Want::Gates)),
            ("gate fail ON-1 t", vec!["tests"], Some(Want::Gates)),
            ("gate show ON-1 O", vec![], Some(Want::Gates)),
            ("add x --gate t", vec!["tests"], Some(Want::Gates)),
            ("edit ON-1 --gate=t", vec!["--gate=tests"], Some(Want::Gates)),
            ("edit ON-1 --no-gate t", vec!["tests"], Some(Want::Gates)),
            ("completions ba", vec!["bash"], None),
            ("help ta", vec!["takeover"], None),
            ("add --file pl", vec![], None),
            ("frobnicate x --y z", vec![], None),
        ] {
            assert_eq!(offered(line), (expected.into_iter().map(str::to_owned).collect(), wanted), "{line}");
        }
        assert!(offered("").0.contains(&"status".to_owned()));
        assert!(!offered("").0.contains(&NAME.to_owned()));
    }

    #[test]
    fn every_value_that_names_a_task_or_an_actor_is_looked_up() {
        fn walk(command: &clap::Command, found: &mut usize) {
            for arg in command.get_arguments() {
                let names = arg.get_value_names().unwrap_or_default();
                let is_looked_up =
                    names.iter().any(|name| ["ID", "ON", "ACTOR", "STATE", "TYPE"].contains(&name.as_str()));
                if is_looked_up {
                    let mut look_up = |_| vec![("x".to_owned(), String::new())];
                    assert!(
                        !values(command, (arg, 0), "", &mut look_up).is_empty(),
                        "{} {}",
                        command.get_name(),
                        arg.get_id()
                    );
                    *found += 1;
                }
            }
            command.get_subcommands().for_each(|sub| walk(sub, found));
        }
        let mut found = 0;
        walk(&Cli::command(), &mut found);
        assert!(found > 40, "{found}");
    }
}
