//! What an edit changed, in words: the old and the new value, if both are short and were not erased.

use onus_core::chain::Record;
use onus_core::task::Facts;
use onus_core::text::{Field, REDACTED};
use onus_core::time::rfc3339;
use onus_engine::{LogPage, TaskBefore};

use crate::output::escape_line;
use crate::render::local_time;
use crate::story::{first_line, others};

/// The longest title or body that is shown beside its replacement, in characters.
const SHORT: usize = 60;

/// What an edit changed in a task's fields and texts, in the order of `onus edit --help`.
pub(crate) fn changes(
    page: &LogPage,
    record: &Record,
    before: &TaskBefore,
    facts: &Facts,
    (title, body): (bool, bool),
) -> Vec<String> {
    let old = &before.facts;
    let has = |field: Field| record.text_digests().iter().any(|(other, _)| *other == field);
    let now = |field: Field| page.texts.get(&record.uid)?.get(field.as_str()).map(String::as_str);
    let mut said = Vec::new();
    if title {
        said.push(text("title", before.title.as_deref(), now(Field::Title)));
    }
    if body {
        said.push(match (before.has_body, has(Field::Body)) {
            (_, false) => "cleared the body".to_owned(),
            (false, true) => {
                format!("added a body: {}", now(Field::Body).map_or(REDACTED.to_owned(), first_line))
            }
            (true, true) => text("body", before.body.as_deref(), now(Field::Body)),
        });
    }
    let mut value = |name: &str, old: Option<String>, new: Option<String>| {
        said.extend(match (old, new) {
            (old, new) if old == new => None,
            (Some(old), Some(new)) => Some(format!("changed the {name} from {old} to {new}")),
            (None, Some(new)) => Some(format!("set the {name} to {new}")),
            (Some(old), None) => Some(format!("cleared the {name}, which was {old}")),
            (None, None) => None,
        });
    };
    value("type", Some(old.kind.as_str().to_owned()), Some(facts.kind.as_str().to_owned()));
    value("priority", Some(old.priority.as_str().to_owned()), Some(facts.priority.as_str().to_owned()));
    value("tier", Some(old.required_tier.to_string()), Some(facts.required_tier.to_string()));
    value(
        "owner",
        old.owner.as_ref().map(ToString::to_string),
        facts.owner.as_ref().map(ToString::to_string),
    );
    value("area", old.area.clone(), facts.area.clone());
    value("iteration", old.iteration.clone(), facts.iteration.clone());
    let parent = |facts: &Facts| facts.parent.map(|parent| others(page, [&parent]));
    value("parent", parent(old), parent(facts));
    value("scope mode", Some(old.mode.as_str().to_owned()), Some(facts.mode.as_str().to_owned()));
    let start = |facts: &Facts| facts.not_before_ms.map(|ms| local_time(&rfc3339(ms)));
    value("earliest start", start(old), start(facts));
    let attempts = |facts: &Facts| facts.max_attempts.map(|most| most.to_string());
    value("limit on attempts", attempts(old), attempts(facts));
    let globs = |facts: &Facts| facts.scope.globs().iter().map(ToString::to_string).collect::<Vec<_>>();
    let refs =
        |facts: &Facts| facts.refs.iter().map(|(system, id)| format!("{system}:{id}")).collect::<Vec<_>>();
    let related = |facts: &Facts| facts.relates.iter().map(|uid| others(page, [uid])).collect::<Vec<_>>();
    for (name, old, new) in [
        ("tag", Vec::from_iter(old.tags.iter().cloned()), Vec::from_iter(facts.tags.iter().cloned())),
        ("reference", refs(old), refs(facts)),
        ("constraint", old.constraints.words(), facts.constraints.words()),
        ("related task", related(old), related(facts)),
        ("declared path", globs(old), globs(facts)),
    ] {
        let only = |of: &[String], not_of: &[String]| {
            of.iter().filter(|one| !not_of.contains(one)).cloned().collect::<Vec<_>>()
        };
        for (verb, some) in [("added", only(&new, &old)), ("removed", only(&old, &new))] {
            match some.as_slice() {
                [] => {}
                [one] => said.push(format!("{verb} the {name} {one}")),
                many => said.push(format!("{verb} the {name}s {}", many.join(", "))),
            }
        }
    }
    said
}

fn text(name: &str, old: Option<&str>, new: Option<&str>) -> String {
    let is_short = |text: &&str| text.chars().count() <= SHORT && !text.contains('\n');
    let quoted = |text: &str| format!("'{}'", escape_line(text));
    match (old.filter(is_short), new) {
        (Some(old), Some(new)) if is_short(&new) => {
            format!("changed the {name} from {} to {}", quoted(old), quoted(new))
        }
        (_, new) => format!("changed the {name} to: {}", new.map_or(REDACTED.to_owned(), first_line)),
    }
}
