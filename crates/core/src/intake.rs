//! Asks from outside: what a later delivery of one changes.
//!
//! The same origin is the same task (P8), so a second delivery finds the first one's task and changes nothing. Only on request
//! does it record what has changed in the channel, as one edit: the title, the body, the link, and new labels. What the team
//! decides about a task (its type, priority, area, owner) is set once; no channel resets it.

use crate::command::{Edit, NewTask};
use crate::task::{Facts, words};

words! {
    /// What a delivery may change in an existing task.
    AskField("field of an ask") {
        Title = "title",
        Body = "body",
        Link = "link",
        Tags = "tags",
    }
}

/// The current text of a task's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Absent,
    Text(String),
    /// It was erased. A channel must not restore it.
    Erased,
}

/// What a delivery changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    pub edit: Edit,
    /// The fields that the edit changes. Empty: there is nothing to record.
    pub changed: Vec<AskField>,
    /// Fields that the channel still has, and that are not restored because they were erased here.
    pub erased: Vec<AskField>,
}

/// What has to change in a task so that it says what its ask says now.
pub fn refreshed(facts: &Facts, title: &Kept, body: &Kept, ask: &NewTask) -> Refreshed {
    let mut refreshed = Refreshed::default();
    match title {
        Kept::Erased => refreshed.erased.push(AskField::Title),
        Kept::Text(title) if title == ask.title.trim() => {}
        Kept::Text(_) | Kept::Absent => {
            refreshed.edit.title = Some(ask.title.clone());
            refreshed.changed.push(AskField::Title);
        }
    }
    let said = ask.body.as_deref().map(str::trim).filter(|text| !text.is_empty());
    match (body, said) {
        (Kept::Erased, _) => refreshed.erased.push(AskField::Body),
        (Kept::Text(body), Some(said)) if body == said => {}
        (Kept::Absent, None) => {}
        (_, said) => {
            refreshed.edit.body = Some(said.map(str::to_owned));
            refreshed.changed.push(AskField::Body);
        }
    }
    if ask.facts.link.is_some() && ask.facts.link != facts.link {
        refreshed.edit.link = Some(ask.facts.link.clone());
        refreshed.changed.push(AskField::Link);
    }
    // Tags that the channel does not have may have been added here: they stay.
    let new: Vec<String> = ask.facts.tags.difference(&facts.tags).cloned().collect();
    if !new.is_empty() {
        refreshed.edit.add_tags = new;
        refreshed.changed.push(AskField::Tags);
    }
    refreshed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Priority, TaskType};

    fn ask(title: &str, body: Option<&str>, link: Option<&str>, tags: &[&str]) -> NewTask {
        NewTask {
            body: body.map(str::to_owned),
            facts: Facts {
                link: link.map(str::to_owned),
                tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
                ..Facts::default()
            },
            ..NewTask::titled(title)
        }
    }

    fn text(text: &str) -> Kept {
        Kept::Text(text.to_owned())
    }

    #[test]
    fn what_is_the_same_is_not_recorded_again() {
        let same = ask(" a ", Some("b\n"), Some("https://x/1"), &["t"]);
        let facts = Facts {
            tags: ["t".to_owned(), "ours".to_owned()].into(),
            priority: Priority::P0,
            kind: TaskType::Bug,
            ..same.facts.clone()
        };
        assert_eq!(refreshed(&facts, &text("a"), &text("b"), &same), Refreshed::default());
        let silent = ask("a", Some("  "), None, &[]);
        assert_eq!(refreshed(&facts, &text("a"), &Kept::Absent, &silent), Refreshed::default());
    }

    #[test]
    fn what_differs_is_one_edit_and_the_teams_own_decisions_stay() {
        let now = ask("new", None, Some("https://x/2"), &["t", "u"]);
        let facts = Facts { tags: ["t".to_owned(), "ours".to_owned()].into(), ..Facts::default() };
        let Refreshed { edit, changed, erased } = refreshed(&facts, &text("old"), &text("gone"), &now);
        assert_eq!(changed, AskField::ALL);
        assert_eq!(erased, []);
        let expected = Edit {
            title: Some("new".to_owned()),
            body: Some(None),
            link: Some(now.facts.link.clone()),
            add_tags: vec!["u".to_owned()],
            ..Edit::default()
        };
        assert_eq!(edit, expected);
    }

    #[test]
    fn no_channel_brings_back_what_was_erased() {
        let again = ask("secret", Some("secret"), None, &[]);
        let Refreshed { edit, changed, erased } =
            refreshed(&Facts::default(), &Kept::Erased, &Kept::Erased, &again);
        assert_eq!((edit, changed), (Edit::default(), Vec::new()));
        assert_eq!(erased, [AskField::Title, AskField::Body]);
    }
}
