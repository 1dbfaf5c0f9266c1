//! What labels, and trackers' names of types and priorities, mean here. Only plain names count; with any other name the task
//! has the default.

use std::collections::BTreeSet;

use onus_core::task::{MAX_TAGS, Priority, TaskType, is_word};

pub(crate) fn kind(name: &str) -> Option<TaskType> {
    match name.trim().to_lowercase().as_str() {
        "epic" => Some(TaskType::Epic),
        "feature" | "new feature" | "enhancement" => Some(TaskType::Feature),
        "story" | "user story" => Some(TaskType::Story),
        "task" | "sub-task" | "subtask" => Some(TaskType::Task),
        "bug" | "defect" => Some(TaskType::Bug),
        _ => None,
    }
}

pub(crate) fn priority(name: &str) -> Option<Priority> {
    match name.trim().to_lowercase().as_str() {
        "p0" | "highest" | "blocker" => Some(Priority::P0),
        "p1" | "high" | "critical" => Some(Priority::P1),
        "p2" | "medium" | "major" => Some(Priority::P2),
        "p3" | "low" | "minor" => Some(Priority::P3),
        "p4" | "lowest" | "trivial" => Some(Priority::P4),
        _ => None,
    }
}

/// The priority that a label such as `P1` names. A label that is only a word, such as `high`, may mean anything.
pub(crate) fn labelled_priority(labels: &[String]) -> Option<Priority> {
    labels
        .iter()
        .find_map(|label| Priority::parse_spoken(label.trim()).ok().filter(|_| label.trim().len() == 2))
}

/// Turns labels into tags: spaces become hyphens. Labels that still are not tags are left out, and so is everything beyond
/// [`MAX_TAGS`].
pub(crate) fn tags(labels: &[String]) -> BTreeSet<String> {
    let tag = |label: &String| {
        let words: Vec<&str> = label.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
        Some(words.join("-")).filter(|tag| is_word(tag))
    };
    labels.iter().filter_map(tag).take(MAX_TAGS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_tag_or_left_out() {
        let labels = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let long = "x".repeat(65);
        let tags = tags(&labels(&["good first issue", "a, b", "", "  ", "a\u{7}", &long, "area/auth"]));
        assert_eq!(tags.into_iter().collect::<Vec<_>>(), ["a-b", "area/auth", "good-first-issue"]);
        let many: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        assert_eq!(super::tags(&many).len(), MAX_TAGS);
        assert_eq!(labelled_priority(&labels(&["high", "1", "p1"])), Some(Priority::P1));
        assert_eq!(labelled_priority(&labels(&["high", "1"])), None);
    }
}
