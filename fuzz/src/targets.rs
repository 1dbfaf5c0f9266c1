//! One function for each thing that is read from outside.

use std::path::PathBuf;

use onus_agents::hook::{Payload, shell};
use onus_core::actor::{ActorName, InstanceId};
use onus_core::commit::{CommitId, is_branch_of, resolved_by};
use onus_core::gate::{Demand, Gate, GateKey, GateKind, Judgement, JudgementRow, Stage, Verdict, Why};
use onus_core::ids::{TaskRef, Uid, Version};
use onus_core::landing::{Intent, Landed, Landing, Obstruction};
use onus_core::quote;
use onus_core::scope::{Glob, overlap};
use onus_core::task::{Origin, is_word};
use onus_core::text::Field;
use onus_core::time::{MAX_DURATION_MS, Span};
use onus_intake::{Channel, Mapper, Paths};
use onus_sim::oracle::{matches, spelled_out};

use crate::texts::{Cast, assert_one_command, assert_quoted, assert_visible, quotations};

/// References to tasks: what is understood means the same when it is written again.
pub fn reference(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(reference) = text.parse::<TaskRef>()
        // A part of a uid is shown without its hyphens: all digits, it would be a number.
        && !matches!(reference, TaskRef::Part(_))
    {
        assert_eq!(reference.to_string().parse::<TaskRef>().ok(), Some(reference));
    }
}

/// Durations are bounded, never negative, and readable.
pub fn duration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(span) = text.parse::<Span>() {
        assert!((0..=MAX_DURATION_MS).contains(&span.ms));
        assert!(!span.to_string().is_empty());
    }
}

/// Names of actors and instances, and origins: kept as they were written, in JSON too.
pub fn name(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let json = serde_json::Value::String(text.clone().into_owned());
    let actor = text.parse::<ActorName>().ok();
    assert_eq!(serde_json::from_value::<ActorName>(json.clone()).ok(), actor);
    assert!(actor.is_none_or(|actor| actor.as_str() == text && !text.chars().any(char::is_whitespace)));
    let instance = text.parse::<InstanceId>().ok();
    assert!(instance.is_none_or(|instance| instance.as_str() == text));
    let origin = text.parse::<Origin>().ok();
    assert_eq!(serde_json::from_value::<Origin>(json).ok(), origin);
    // Some channels make no difference between letters by their case.
    assert!(origin.is_none_or(|origin| {
        let is_settled = origin.as_str().parse().as_ref() == Ok(&origin);
        origin.as_str().eq_ignore_ascii_case(&text) && is_settled && !text.chars().any(char::is_control)
    }));
}

/// Paths on which two globs are tried.
const PATHS: [&str; 20] = [
    "a",
    "b",
    "x",
    "a/b",
    "a/x",
    "a/b/c",
    "a/b/x",
    "b/x",
    "b/a",
    "x/y/z",
    "src/a.rs",
    "src/b/mod.rs",
    "src/auth/mod.rs",
    "Cargo.lock",
    ".git",
    "a/.x",
    "docs/a.md",
    "docs/b/c.md",
    "ab",
    "ba/c",
];

/// Two globs, one on a line: whether they meet, against a matcher that tries everything.
pub fn glob(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let globs: Vec<Glob> = text.lines().take(2).filter_map(|line| line.parse().ok()).collect();
    for glob in &globs {
        assert_eq!(glob.as_str().parse::<Glob>().as_ref(), Ok(glob), "a glob is read again as it was");
        // Classes and escapes are not the naive matcher's; nor are ways that many braces leave open.
        if glob.as_str().contains(['[', '\\']) || glob.as_str().matches('{').count() > 4 {
            continue;
        }
        let ways = spelled_out(glob.as_str());
        for path in PATHS {
            let naive = ways.iter().any(|way| matches(way, path));
            assert_eq!(glob.matches(path), naive, "{glob} and {path}");
        }
    }
    if let [left, right] = globs.as_slice() {
        let one = |glob: &Glob| [glob.clone()];
        match overlap(&one(left), &one(right), &[]) {
            Ok(Some(witness)) => {
                assert!(
                    left.matches(&witness.path) && right.matches(&witness.path),
                    "no witness: {}",
                    witness.path
                );
            }
            Ok(None) => {
                let both = |path: &&str| left.matches(path) && right.matches(path);
                assert_eq!(PATHS.iter().find(|path| both(path)), None, "{left} and {right} meet");
            }
            // Too complex to compare: refused, never granted.
            Err(_) => {}
        }
        assert_eq!(
            overlap(&one(left), &one(right), &[]).is_ok_and(|found| found.is_some()),
            overlap(&one(right), &one(left), &[]).is_ok_and(|found| found.is_some()),
            "{left} and {right} meet one way only"
        );
    }
}

/// Edits as each harness tells its hook of them. `@` marks places where the guard has no need to look.
const EDITS: [&str; 7] = [
    r#"{"session_id":"s","transcript_path":@,"cwd":"/w","permission_mode":@,"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"/w/src/a.rs","content":@},"tool_use_id":"u-1"}"#,
    r#"{"x":@,"session_id":"s","agent_id":"p","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"old_string":@,"new_string":@,"file_path":"/w/src/a.rs"}}"#,
    r#"{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"MultiEdit","tool_input":{"edits":[@,{"old_string":@}],"file_path":"/w/a b.rs"}}"#,
    r#"{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"NotebookEdit","tool_input":{"new_source":@,"notebook_path":"/w/n.ipynb"}}"#,
    r#"{"session_id":"s","timestamp":@,"cwd":"/w","hook_event_name":"BeforeTool","tool_name":"write_file","tool_input":{"content":@,"file_path":"a.rs"}}"#,
    r#"{"session_id":"s","cwd":"/w","hook_event_name":"BeforeTool","tool_name":"replace","mcp_context":@,"tool_input":{"file_path":"a.rs","instruction":@}}"#,
    r#"{"session_id":"s","cwd":"/w","model":@,"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"why":@,"command":"*** Begin Patch\n*** Update File: a.rs\n*** End Patch"},"turn_id":@}"#,
];

/// Bytes as a JSON value of some outline, whatever is in it: a string that ends where it should, or brackets.
fn outlines(bytes: &[u8]) -> [Vec<u8>; 3] {
    let mut string = vec![b'"'];
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match (byte, rest.as_slice().is_empty()) {
            (b'"', _) => string.push(b'\''),
            (b'\\', false) => string.extend([b'\\', *rest.next().unwrap_or(&b'\\')]),
            (b'\\', true) => {}
            (byte, _) => string.push(*byte),
        }
    }
    string.push(b'"');
    let (mut brackets, mut open) = (Vec::new(), Vec::new());
    for byte in bytes {
        match byte % 4 {
            0 => {
                brackets.push(b'[');
                open.push(b']');
            }
            1 => {
                brackets.extend(b"{\"file_path\":");
                open.push(b'}');
            }
            _ => {}
        }
    }
    let scalar = bytes.iter().copied().filter(u8::is_ascii_alphanumeric);
    brackets.push(b'0');
    brackets.extend(open.into_iter().rev());
    [string, brackets, std::iter::once(b'0').chain(scalar).collect()]
}

/// What harnesses tell their hooks: forgiving, never more files than were named, and what the guard does not need decides
/// nothing.
pub fn hook(bytes: &[u8]) {
    if let Ok(payload) = Payload::read(bytes) {
        assert!(!payload.conversation.is_empty() && !payload.event.is_empty());
        assert!(payload.files.len() <= bytes.len());
    }
    for edit in EDITS {
        // The transcript is not the guard's to read.
        let read = |text: &[u8]| Payload::read(text).map(|payload| Payload { transcript: None, ..payload });
        let plain = read(edit.replace('@', "null").as_bytes());
        assert!(plain.as_ref().is_ok_and(|payload| payload.files.len() == 1), "{edit}: {plain:?}");
        for value in outlines(bytes) {
            let mut text = Vec::new();
            for (index, part) in edit.split('@').enumerate() {
                if index > 0 {
                    text.extend(&value);
                }
                text.extend(part.as_bytes());
            }
            assert_eq!(read(&text), plain, "{}", String::from_utf8_lossy(&text));
        }
    }
}

/// Commands for a shell: whatever they are, they are read; quoted, they name nothing but themselves.
pub fn shell(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).replace('\0', "");
    let found = shell::named(&text);
    assert!(found.patched.len() + found.written.len() <= text.len());
    if let Ok(quoted) = shlex::try_quote(&text) {
        assert_eq!(shell::named(&format!("echo {quoted}; grep -e {quoted} x")), shell::Named::default());
        let target = shell::named(&format!("echo x > {quoted}")).written;
        let expected = if text.is_empty() { vec![] } else { vec![PathBuf::from(&text)] };
        assert_eq!(target, expected, "{text:?}");
    }
}

/// Texts of others in a sentence and in a command: see [`crate::texts`]. What is short enough is read back whole.
pub fn text(bytes: &[u8]) {
    let cast = Cast::of(bytes);
    let (one, two) = (cast.text(0), cast.text(1));
    for most in [0, 7, 60, 10_000] {
        let shown = format!("ON-1 {} and {}.", quote::quoted(one, most), quote::quoted(two, most));
        assert_quoted(&shown, cast.texts());
        assert!(shown.len() <= "ON-1  and .".len() + 2 * (most + "«»…".len()), "{shown}");
        let back = quotations(&shown);
        assert_eq!(back.len(), 2, "{shown}");
        if most == 10_000 && one.len() < 1_000 {
            assert_eq!(back[0], (one.to_owned(), false));
        }
    }
    let named = quote::name(one);
    assert_quoted(&named, cast.texts());
    assert!(
        named.starts_with('«') || named == one && !named.contains([' ', '\'', '"', '`', '$', ';', '<']),
        "{named}"
    );
    assert_quoted(&quote::title(two), cast.texts());
    for text in cast.texts() {
        assert_visible(&quote::visible(text));
        assert_visible(&quote::visible_line(text));
        assert!(!quote::visible_line(text).contains(['\n', '\t']));
        if let Some(word) = quote::shell_word(text) {
            assert_one_command(
                &format!("onus scope rm --task ON-1 {word}"),
                &["onus", "scope", "rm", "--task", "ON-1", text],
            );
        }
    }
}

/// What is written again is read as it was.
fn is_kept<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
) -> Option<T> {
    let read: T = serde_json::from_slice(bytes).ok()?;
    let again = serde_json::to_vec(&read).ok().and_then(|text| serde_json::from_slice(&text).ok());
    assert_eq!(again.as_ref(), Some(&read));
    Some(read)
}

/// Texts that landing reads: rows and payloads, keys of gates, hashes, names of branches and messages of commits.
pub fn landing(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    is_kept::<Intent>(bytes);
    is_kept::<Landed>(bytes);
    is_kept::<Landing>(bytes);
    is_kept::<Obstruction>(bytes);
    if let Some(judgement) = is_kept::<Judgement>(bytes) {
        judged(judgement);
    }
    if let Ok(key) = text.parse::<GateKey>() {
        assert!(key.as_str() == text && !text.starts_with(['-', '.']) && !text.contains(['/', ' ', '\n']));
    }
    if let Ok(commit) = text.parse::<CommitId>() {
        assert!(commit.as_str().eq_ignore_ascii_case(&text) && commit.as_str().starts_with(commit.short()));
    }
    let resolved = resolved_by(&text);
    assert!(resolved.len() <= 10);
    for task in &resolved {
        let id = task.to_string();
        assert!(matches!(task, TaskRef::Id { .. }) && text.to_ascii_uppercase().contains(&id), "{id}");
    }
    // The last part of a name is never another task's.
    if is_branch_of(&text, "ON-1") {
        assert!(!is_branch_of(&text, "ON-12") && text.is_char_boundary("onus/ON-1".len()));
    }
}

/// A judgement counts for the gate, the definition and the tree that it names, and for no other.
fn judged(judgement: Judgement) {
    let gate = |key: GateKey| Gate {
        key,
        title: None,
        kind: GateKind::Manual,
        stage: Stage::Done,
        command: None,
        tests: Default::default(),
        by: Default::default(),
        applies: Default::default(),
    };
    let (asked, Ok(actor)) = (gate(judgement.gate.clone()), "human:a".parse()) else { return };
    let row = |judgement: &Judgement, verdict| JudgementRow {
        task: Uid(uuid::Uuid::nil()),
        version: Version(1),
        verdict,
        actor: ActorName::clone(&actor),
        at_ms: 0,
        judgement: judgement.clone(),
    };
    let demand = |tree: Option<String>| Demand { tree, ..Demand::default() };
    let right = Judgement { definition: asked.digest(), ..judgement.clone() };
    let here = demand(judgement.tree.clone());
    assert_eq!(here.standing(&asked, &[row(&right, Verdict::Passed)]), None);
    assert_eq!(here.standing(&asked, &[row(&right, Verdict::Failed)]), Some(Why::Failed));
    let elsewhere = demand(Some(format!("{}x", judgement.tree.clone().unwrap_or_default())));
    assert_eq!(elsewhere.standing(&asked, &[row(&right, Verdict::Passed)]), Some(Why::Stale));
    if judgement.definition != right.definition {
        assert_eq!(here.standing(&asked, &[row(&judgement, Verdict::Passed)]), Some(Why::Stale));
    }
}

/// Asks from outside, to every mapper: what is read keeps a task's limits, and says the same when it is read again.
pub fn intake(bytes: &[u8]) {
    let path = |text: &str| text.parse().ok();
    let (Some(reference), Some(title)) = (path("ticket.id"), path("ticket.head.line")) else { return };
    let paths = Paths {
        reference,
        title,
        body: path("ticket.notes.0.text"),
        link: path("ticket.url"),
        author: path("ticket.by"),
        labels: path("ticket.marks"),
        kind: path("ticket.kind"),
        priority: path("ticket.level"),
    };
    let mut mappers: Vec<Mapper<'_>> = vec![Mapper::Paths("desk", &paths)];
    mappers.extend(Channel::ALL.iter().copied().filter_map(Mapper::of));
    for mapper in mappers {
        let read = mapper.read(bytes);
        assert_eq!(read, mapper.read(bytes), "the same bytes are the same ask");
        match read {
            Ok(ask) => {
                let new = ask.into_task(true);
                assert_eq!(Field::Title.check(&new.title).as_ref(), Ok(&new.title));
                for (field, text) in [(Field::Body, &new.body), (Field::Author, &new.author)] {
                    assert_eq!(text.as_ref().map(|text| field.check(text)).transpose().as_ref(), Ok(text));
                }
                let link = new.facts.link.unwrap_or_default();
                let leads = ["https://", "http://", "mid:"].iter().any(|scheme| link.starts_with(scheme));
                assert!(link.is_empty() || leads, "{link}");
                assert!(new.facts.tags.iter().all(|tag| is_word(tag)));
            }
            Err(fault) => assert!(!fault.problem.is_empty(), "{fault:?}"),
        }
    }
}
