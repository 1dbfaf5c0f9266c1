//! What an agent is told when its conversation begins. Every word costs each agent of each conversation: short, and
//! nothing that it can find out when it needs it.

use onus_core::refusal::Refusal;
use onus_engine::{Engine, Identity, TaskView};
use onus_store::AnyStore;

use crate::output::escape_line;
use crate::render;

/// How many of its tasks, and of those that are ready, an agent is told.
const HELD: usize = 3;
const READY: usize = 3;
/// How many bytes of a title, of a name and of a note: whatever people write, the whole stays under 600 tokens, at four
/// bytes a token.
const TITLE: usize = 60;
const NAME: usize = 40;
const NOTE: usize = 120;

const LOOP: &str = "\
Loop: `onus ready` -> `onus claim ID` (or `--next`) -> work -> `onus note ID 'what I found'` -> `onus done ID -m 'what was done'`. \
Not finished? `onus release ID`, or `onus block ID -m 'on what'`.
Files are reserved as you edit them. If an edit or a command is refused, somebody else holds it: do not work around it. \
Do what the message says, or take other work.
Exit codes: 0 done, 2 usage, 3 not found, 4 held by another, 5 your lease is gone (stop, keep your work), 6 not allowed, \
7 nothing to do, 8 store trouble. `--json` everywhere. More: `onus prime --full`.
";

const FULL: &str = include_str!("../../../docs/contract.md");

pub(crate) fn primer(
    engine: &mut Engine<AnyStore>,
    identity: Option<&Identity>,
    full: bool,
) -> Result<String, Refusal> {
    let mut text = String::from(
        "Work in this repository is coordinated by onus: one holder a task, no two on one file.\n",
    );
    match identity {
        Some(identity) => {
            let instance = shortened(identity.instance.as_str(), TITLE);
            text.push_str(&format!("You are {} (instance {instance}).", identity.actor));
            text.push_str(&held(engine, identity)?);
        }
        None => text.push_str("It is not clear who you are: set ONUS_ACTOR=agent:NAME, and ONUS_INSTANCE, one a conversation.\n"),
    }
    let page = engine.ready(identity, READY as u64)?.value;
    let ready: Vec<String> = page.tasks.iter().map(|task| format!("{} {}", task.id, title(task))).collect();
    text.push_str(&if ready.is_empty() {
        "Nothing is ready now.\n".to_owned()
    } else {
        format!("Ready: {}.\n", ready.join("; "))
    });
    text.push_str(LOOP);
    if full {
        text.push('\n');
        text.push_str(FULL);
    }
    Ok(text)
}

/// What it holds, how long still, and what its predecessor left word of.
fn held(engine: &mut Engine<AnyStore>, identity: &Identity) -> Result<String, Refusal> {
    let status = engine.status(Some(identity))?;
    let yours = &status.value.yours;
    if yours.is_empty() {
        return Ok(" You hold nothing.\n".to_owned());
    }
    let mut text = String::from(" You hold:\n");
    for id in yours.iter().take(HELD) {
        let task = engine.show(Some(identity), Some(&id.parse()?))?.value;
        let lease = task.lease.as_ref();
        let left = match lease {
            Some(lease) if !lease.live => format!("LAPSED: onus claim {id} first"),
            Some(lease) if lease.process.is_some() && !lease.resting => {
                "while this conversation runs".to_owned()
            }
            Some(lease) => {
                lease.expires_in_s.map_or("no limit".to_owned(), |s| format!("{} left", render::seconds(s)))
            }
            None => String::new(),
        };
        text.push_str(&format!("- {id} {} ({left})\n", title(&task)));
        let own = identity.instance.to_string();
        let last = task.notes.iter().flatten().rev().find(|note| note.instance != own);
        if let Some(note) = last {
            let (by, words) = (shortened(&note.actor, NAME), shortened(&note.text, NOTE));
            text.push_str(&format!("  last note, {by}: \"{words}\"\n"));
        }
    }
    if yours.len() > HELD {
        text.push_str(&format!("- and {} more: onus status\n", yours.len() - HELD));
    }
    Ok(text)
}

/// When there is nothing to tell but what is wrong.
pub(crate) fn without_store(refusal: &Refusal) -> String {
    let next = refusal.next.first().map(|step| format!(" ({step})")).unwrap_or_default();
    format!(
        "onus cannot be used here now: {}{next}. Work on; nothing is reserved.\n",
        escape_line(&refusal.message)
    )
}

fn title(task: &TaskView) -> String {
    shortened(&task.title, TITLE)
}

/// On one line, and no more bytes than this.
fn shortened(text: &str, most: usize) -> String {
    let line = escape_line(text.trim());
    if line.len() <= most {
        return line;
    }
    let end = (0..=most).rev().find(|at| line.is_char_boundary(*at)).unwrap_or_default();
    format!("{}…", &line[..end])
}
