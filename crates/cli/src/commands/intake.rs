use std::io::Read as _;
use std::path::Path;

use onus_core::command::{Command, Intake};
use onus_core::refusal::Refusal;
use onus_engine::{Answer, Reply, Request, TaskView};
use onus_intake::{Ask, Channel, Fault, MAX_TEXT_BYTES, Mapper, Plain};
use onus_repo::name_of;
use onus_store::Access;
use serde_json::{Value, json};

use crate::args::Key;
use crate::context::Context;
use crate::lines::{Line, Lines};
use crate::output::{Output, escape_line};
use crate::wording;

/// Take in an ask from outside: one task per ask, however often it is delivered
///
/// CHANNEL says where the ask comes from and how it is read:
///
///   cli     TITLE is the ask, and --ref its reference
///   stdin   plain text on standard input: the first line is the title; --ref is its reference
///   file    the same in a file; its reference is its path, or --ref
///   mail    one mail (RFC 822); a reply finds the task of the mail that began its thread
///   github  an issue, as GitHub's API or webhook sends it; gitlab and jira likewise
///   chat    a message: {"channel", "id", "text"}, and if there are any "author", "link", "thread"
///   NAME    any JSON, by the field paths of [intake.NAME] in onus.toml
///
/// Channel and reference are the task's origin. If a task has that origin, it is the answer and
/// nothing changes, unless --refresh asks to record what differs by now. A new task is proposed,
/// for somebody to accept, unless [intake.CHANNEL] has trust = true. The author is kept as a
/// quotation, never as an actor. Nothing is fetched; attachments are named, not kept.
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// cli, stdin, file, mail, github, gitlab, jira, chat, or a channel of onus.toml
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// The title for cli, else the file to read; default: standard input (-)
    #[arg(value_name = "TITLE|FILE")]
    input: Option<String>,
    /// For cli, stdin and file: what the ask is called where it comes from
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// For cli: the details
    #[arg(short = 'd', long = "body", value_name = "TEXT")]
    body: Option<String>,
    /// For cli, stdin and file: where the ask can be read
    #[arg(long, value_name = "URL")]
    link: Option<String>,
    /// For cli, stdin and file: who asked, in any words
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
    /// If the task exists, record what differs by now: title, body, link and new labels
    #[arg(long)]
    refresh: bool,
    /// Read JSON Lines from standard input, one ask per line, and print one JSON answer per line. A line that fails is answered
    /// with its error, and the next one is read; the exit code is that of the first failure
    #[arg(long, conflicts_with_all = ["input", "dry_run", "key"])]
    follow: bool,
    /// Show what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    key: Key,
}

/// How the asks of a channel become tasks in this project.
struct Door<'a> {
    /// None for plain text.
    mapper: Option<Mapper<'a>>,
    trusted: bool,
    refresh: bool,
}

impl Door<'_> {
    fn command(&self, ask: Ask) -> Command {
        let is_reply = ask.is_reply;
        Command::Intake(Intake { new: ask.into_task(!self.trusted), refresh: self.refresh, is_reply })
    }
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    let door = door(context, &args)?;
    if args.follow {
        let Some(mapper) = door.mapper.filter(|mapper| !matches!(mapper, Mapper::Mail)) else {
            let message = format!("--follow reads JSON Lines, which {} does not deliver", args.channel);
            return Err(Refusal::usage(message));
        };
        return follow(context, &door, mapper);
    }
    let ask = match door.mapper {
        Some(mapper) => bytes(context, &args, mapper.max_bytes())?.and_then(|bytes| mapper.read(&bytes)),
        None => plain(context, &args)?,
    };
    let ask = ask.map_err(|fault| said(&args.channel, fault))?;
    let (command, key) = (door.command(ask), args.key.key.clone());
    let reply = if args.dry_run { context.rehearse(command, key)? } else { context.take_in(command, key)? };
    let (task, changed) = asked(&reply)?;
    let mut value = json!(task);
    value["changed"] = json!(changed);
    if args.dry_run {
        value["dry_run"] = json!(true);
    }
    context.out.reply(&reply, value, || {
        let what = changed.join(", ");
        let would = if args.dry_run { "would be " } else { "" };
        let how = match (reply.existing, changed.is_empty(), door.trusted) {
            (true, true, _) => "already exists".to_owned(),
            (true, false, _) => format!("{would}refreshed ({what})"),
            (false, _, true) => format!("{would}added"),
            (false, _, false) => format!("{would}proposed"),
        };
        format!("{} {how}: {}", task.id, escape_line(&task.title))
    });
    Ok(0)
}

fn door<'a>(context: &'a Context, args: &'a Args) -> Result<Door<'a>, Refusal> {
    let (mapper, trusted) = context.host.config.channel(&args.channel)?;
    let is_cli = args.channel == Channel::Cli.as_str();
    let beside = [
        ("--ref", "reference", args.reference.is_some() && mapper.is_some()),
        ("--link", "link", args.link.is_some() && mapper.is_some()),
        ("--author", "author", args.author.is_some() && mapper.is_some()),
        ("--body", "body", args.body.is_some() && !is_cli),
    ];
    if let Some((option, what, _)) = beside.into_iter().find(|(.., is_given)| *is_given) {
        return Err(Refusal::usage(format!(
            "{} does not take {option}: its messages have their own {what}",
            args.channel
        )));
    }
    Ok(Door { mapper, trusted, refresh: args.refresh })
}

/// An ask in plain text, whose reference is given separately.
fn plain(context: &Context, args: &Args) -> Result<Result<Ask, Fault>, Refusal> {
    let missing = |what: &str| Refusal::usage(format!("{}: {what}", args.channel));
    let text;
    let named;
    let reference = match (&args.reference, Channel::named(&args.channel), &args.input) {
        (Some(reference), ..) => reference,
        (None, Some(Channel::File), Some(path)) => {
            let host = &context.host;
            named = name_of(host.place.as_ref(), &host.folder, Path::new(path)).map_err(|_| {
                missing("the file is not one of the project's, so its path is no reference: give --ref")
            })?;
            &named
        }
        _ => {
            return Err(missing(
                "the reference is missing: give --ref, the ask's name in the system that it comes from",
            ));
        }
    };
    let mut plain = match (Channel::named(&args.channel), &args.input) {
        (Some(Channel::Cli), Some(title)) => Plain { title, body: args.body.as_deref(), ..Plain::default() },
        (Some(Channel::Cli), None) => return Err(missing("the title is missing")),
        (Some(Channel::Stdin), Some(_)) => {
            return Err(missing("it reads standard input: for a file, the channel is file"));
        }
        (Some(Channel::File), None) => return Err(missing("name the file")),
        _ => {
            let bytes = bytes(context, args, MAX_TEXT_BYTES)?.map_err(|fault| said(&args.channel, fault))?;
            text = String::from_utf8(bytes).map_err(|_| missing("it is not UTF-8 text"))?;
            Plain::text(reference, text.trim_start_matches('\u{feff}'))
        }
    };
    plain.reference = reference;
    plain.link = args.link.as_deref();
    plain.author = args.author.as_deref();
    Ok(plain.ask(&args.channel))
}

/// Reads a delivery from a file or standard input. One byte more than allowed is read, to notice what is too long.
fn bytes(context: &Context, args: &Args, most: usize) -> Result<Result<Vec<u8>, Fault>, Refusal> {
    let input = args.input.as_deref();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = match input {
        None | Some("-") => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        Some(path) => std::fs::File::open(context.host.folder.join(Path::new(path)))
            .and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    let name = input.filter(|path| *path != "-").map_or_else(|| "standard input".to_owned(), escape_line);
    read.map_err(|error| Refusal::usage(format!("cannot read {name}: {error}")))?;
    if bytes.len() > most {
        return Ok(Err(Fault::too_large(most)));
    }
    Ok(Ok(bytes))
}

fn said(channel: &str, fault: Fault) -> Refusal {
    Refusal::usage(format!("{channel}: {fault}"))
}

fn asked(reply: &Reply) -> Result<(&TaskView, &[String]), Refusal> {
    match &reply.answer {
        Answer::Asked { task, changed } => Ok((task, changed)),
        _ => Err(super::unexpected()),
    }
}

/// Answers line by line, each in a transaction of its own. An error in one line is that line's answer.
fn follow(context: &Context, door: &Door<'_>, mapper: Mapper<'_>) -> super::ExitCode {
    let mut engine = context.host.engine(Access::Write)?;
    let identity = context.host.identity(&mut engine)?;
    let out = Output::of_documents();
    let mut lines = Lines::new(std::io::stdin().lock(), mapper.max_bytes());
    let mut first_failure = 0;
    while let Some(line) =
        lines.next_line().map_err(|error| Refusal::usage(format!("cannot read standard input: {error}")))?
    {
        let number = lines.number();
        let ask = match &line {
            Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
            Line::Whole(bytes) => mapper.read(bytes),
            Line::TooLong => Err(Fault::too_large(mapper.max_bytes())),
        };
        let reply = ask.map_err(Refusal::from).and_then(|ask| {
            let request = Request { identity: identity.clone(), command: door.command(ask), key: None };
            if number == 1 { engine.take_in(&request) } else { engine.take_in_next(&request) }
        });
        match reply.and_then(|reply| answer(number, &reply)) {
            Ok((document, notices)) => out.document(document, &notices),
            Err(refusal) => {
                out.document(json!({ "line": number, "error": wording::refusal(&refusal) }), &[]);
                if first_failure == 0 {
                    first_failure = refusal.exit_code();
                }
            }
        }
    }
    Ok(first_failure)
}

fn answer(line: u64, reply: &Reply) -> Result<(Value, Vec<onus_engine::Notice>), Refusal> {
    let (task, changed) = asked(reply)?;
    let document = json!({ "line": line, "task": task, "existing": reply.existing, "changed": changed });
    Ok((document, reply.notices.clone()))
}
