//! One function for each thing that is read from outside.

use onus_agents::hook::Payload;
use onus_core::actor::{ActorName, InstanceId};
use onus_core::ids::TaskRef;
use onus_core::scope::{Glob, overlap};
use onus_core::task::Origin;
use onus_core::time::{MAX_DURATION_MS, Span};
use onus_sim::oracle::{matches, spelled_out};

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
    assert!(origin.is_none_or(|origin| origin.as_str() == text && !text.chars().any(char::is_control)));
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

/// What harnesses tell their hooks: forgiving, and never more files than were named.
pub fn hook(bytes: &[u8]) {
    if let Ok(payload) = Payload::read(bytes) {
        assert!(!payload.conversation.is_empty() && !payload.event.is_empty());
        assert!(payload.files.len() <= bytes.len());
    }
}
