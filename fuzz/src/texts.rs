//! Texts of others, and what must hold of every place where they are shown: nothing breaks out of its quotation, nothing is
//! hidden, and a suggested command is one command with the words that were meant.
//!
//! The reader of quotations here is not the writer's: it is told only what [`onus_core::quote`] promises.

use std::time::Duration;

use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command, NewTask, TaskLink, Terms};
use onus_core::policy::Policy;
use onus_engine::{Ancestry, Engine, Identity, Request, TaskView};
use onus_store::SqliteStore;

/// One input as the texts of one scene. A unit separator parts them; there may be fewer than there are roles.
#[derive(Clone, Debug)]
pub struct Cast {
    texts: Vec<String>,
}

impl Cast {
    pub fn of(bytes: &[u8]) -> Cast {
        let text = String::from_utf8_lossy(bytes);
        Cast { texts: text.split('\u{1f}').map(str::to_owned).collect() }
    }

    /// The text for a role.
    pub fn text(&self, role: usize) -> &str {
        &self.texts[role % self.texts.len()]
    }

    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

/// What is hidden, from and to: controls, and what Unicode lets a reader ignore. Written down once more, by their codes.
const HIDDEN: [(u32, u32); 21] = [
    (0, 0x1f),
    (0x7f, 0x9f),
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0e),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfff8),
    (0xfff9, 0xfffb),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe007f),
    (0xe0080, 0xe0fff),
];

fn is_seen(c: char) -> bool {
    !HIDDEN.iter().any(|(from, to)| (*from..=*to).contains(&u32::from(c)))
}

/// Nothing hidden but line breaks and tabs.
///
/// # Panics
///
/// If there is.
#[track_caller]
pub fn assert_visible(text: &str) {
    let hidden = text.chars().find(|c| !is_seen(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(hidden, None, "hidden in {text:?}");
}

/// Everything between « and », read back; true: it was cut.
///
/// # Panics
///
/// If the delimiters do not stand in pairs, or an escape means nothing.
#[track_caller]
pub fn quotations(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['«', '»']) {
        let inside = rest[at..].strip_prefix('«');
        assert!(inside.is_some(), "an end without a beginning in {text:?}");
        let inside = inside.unwrap_or_default();
        let end = inside.find(['«', '»']).filter(|end| inside[*end..].starts_with('»'));
        assert!(end.is_some(), "a beginning without an end in {text:?}");
        let (quoted, after) = inside.split_at(end.unwrap_or_default());
        assert!(!quoted.contains('\n'), "a quotation over two lines in {text:?}");
        rest = &after['»'.len_utf8()..];
        found.push((unescaped(quoted), rest.starts_with('…')));
    }
    found
}

#[track_caller]
fn unescaped(quoted: &str) -> String {
    let (mut text, mut rest) = (String::new(), quoted);
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let code = escape.strip_prefix("u{").and_then(|code| code.split_once('}'));
        let (c, after) = match (escape.chars().next(), code) {
            (Some('\\'), _) => (Some('\\'), &escape[1..]),
            (Some('n'), _) => (Some('\n'), &escape[1..]),
            (Some('t'), _) => (Some('\t'), &escape[1..]),
            (_, Some((code, after))) => (u32::from_str_radix(code, 16).ok().and_then(char::from_u32), after),
            _ => (None, ""),
        };
        assert!(c.is_some(), "an escape that means nothing in {quoted:?}");
        text.extend(c);
        rest = after;
    }
    text.push_str(rest);
    text
}

/// A text for an agent or a person: each quotation is one of these texts, or the beginning of one, nothing is hidden, and
/// none of them stands there by itself if it could be more than one plain word.
///
/// # Panics
///
/// If not.
#[track_caller]
pub fn assert_quoted(shown: &str, texts: &[String]) {
    assert_visible(shown);
    for (quoted, is_cut) in quotations(shown) {
        let is_theirs = texts.iter().any(|text| {
            // Titles are shown without the spaces around them.
            [text.as_str(), text.trim()]
                .iter()
                .any(|text| if is_cut { text.starts_with(&quoted) } else { *text == quoted })
        });
        assert!(is_theirs, "{quoted:?} is nobody's, in {shown:?}");
    }
    // The sentence around them is ours: what begins a tag of the harness is in none.
    let ours = outside(shown);
    assert!(!ours.contains("</") && !ours.contains("<system"), "a tag in {shown:?}");
}

/// What is not quoted.
pub fn outside(shown: &str) -> String {
    shown.split('«').map(|part| part.split_once('»').map_or(part, |(_, after)| after)).collect()
}

/// A command as it is suggested: a shell reads it as these words and as nothing else.
///
/// # Panics
///
/// If not.
#[track_caller]
pub fn assert_one_command(command: &str, words: &[&str]) {
    let read: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(shlex::split(command), Some(read), "{command:?}");
    assert_visible(command);
    assert!(!command.contains('\n'), "{command:?}");
    let mut chars = command.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\\') => drop(chars.next()),
            (Some('"'), '\\') => drop(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, c) => assert!(!";|&$`()<>*?[{!#~".contains(c), "{c:?} means something in {command:?}"),
            (Some('"'), c) => assert!(!"$`!".contains(c), "{c:?} means something in {command:?}"),
            _ => {}
        }
    }
    assert_eq!(quote, None, "{command:?}");
}

/// A caller by name.
///
/// # Panics
///
/// If that is no name.
#[allow(clippy::unwrap_used, reason = "names that are written here")]
pub fn caller(actor: &str, instance: &str) -> Identity {
    Identity {
        actor: actor.parse().unwrap(),
        instance: instance.parse().unwrap(),
        known_by: KnownBy::Name,
        token: None,
        ancestry: Ancestry::Own,
    }
}

/// An empty store in a folder, and the engine over it.
///
/// # Panics
///
/// If there can be none.
#[allow(clippy::unwrap_used, reason = "a scene that cannot be set fails the test")]
pub fn engine(folder: &std::path::Path) -> Engine<SqliteStore> {
    let by = caller("human:a", "person");
    let uid = |n| onus_core::ids::Uid(uuid::Uuid::from_u128(n));
    let (file, prefix) = (folder.join("onus.db"), "ON".parse().unwrap());
    let who = (&by.actor, &by.instance);
    let store = SqliteStore::create(&file, &prefix, uid(1), uid(2), who, Duration::from_secs(9)).unwrap();
    Engine::new(store, Policy::default())
}

/// A request without ceremony.
pub fn request(identity: &Identity, command: Command) -> Request {
    Request { identity: identity.clone(), command, key: None }
}

/// A task that is held and has a note, as it is rendered: something to put other texts into.
///
/// # Panics
///
/// If there can be none.
#[allow(clippy::unwrap_used, reason = "a scene that cannot be set fails the test")]
pub fn sample() -> TaskView {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(folder.path());
    let holder = caller("agent:a", "a-1");
    let other = NewTask { acceptance: vec!["a line".to_owned()], ..NewTask::titled("another") };
    let new = NewTask { acceptance: vec!["a line".to_owned()], ..NewTask::titled("a task") };
    engine.run(&request(&holder, Command::Add(new))).unwrap();
    let dep = TaskLink::Task("ON-1".parse().unwrap());
    engine.run(&request(&holder, Command::Add(NewTask { deps: vec![dep], ..other }))).unwrap();
    let task: Option<onus_core::ids::TaskRef> = Some("ON-1".parse().unwrap());
    for act in [Act::Claim(Terms::default()), Act::note("a note")] {
        engine.run(&request(&holder, Command::OnTask { task: task.clone(), act, force: None })).unwrap();
    }
    engine.show(Some(&holder), task.as_ref()).unwrap().value
}

/// The sample with a cast's texts in every place where others write.
pub fn dressed(sample: &TaskView, cast: &Cast) -> TaskView {
    let mut task = sample.clone();
    let text = |role: usize| cast.text(role).to_owned();
    task.title = text(0);
    task.body = Some(text(1));
    task.area = Some(text(2));
    task.tags = [text(3)].into();
    task.refs = [(text(4), text(5))].into();
    task.origin = Some(text(6));
    task.scope = vec![text(7)];
    let word = task.notes.as_ref().and_then(|notes| notes.first()).cloned();
    task.last_word = word.map(|word| onus_engine::NoteView { event: "task.rejected".to_owned(), ..word });
    for note in task.notes.iter_mut().chain(&mut task.decisions).flatten().chain(&mut task.last_word) {
        (note.text, note.actor, note.instance) = (text(8), text(9), text(10));
        note.link = Some(text(5));
    }
    task.acceptance.iter_mut().for_each(|line| line.text = text(8));
    task.linked.iter_mut().flatten().for_each(|(_, linked)| linked.title = text(0));
    if let Some(lease) = &mut task.lease {
        lease.instance = text(11);
        lease.worktree = Some(text(12));
        lease.branch = Some(text(13));
        lease.scope = vec![text(14)];
        lease.reason = Some(text(15));
    }
    task
}
