//! What a hook tells an agent: refusals, notices, and that a task was opened for its edits.

use onus_core::refusal::{Code, Refusal};
use onus_engine::{Notice, Reply};

use crate::wording;

/// Whether the store can be read but not written now.
pub(in crate::commands) fn is_unwritable(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Busy | Code::ReadOnly)
}

/// Whether the refusal is about what the agent does rather than about the state of the store.
pub(in crate::commands) fn is_answer(refusal: &Refusal) -> bool {
    matches!(refusal.exit_code(), 4..=6)
}

pub(in crate::commands) fn refused(refusal: &Refusal) -> String {
    let mut text = format!("onus: {}", refusal.message);
    for step in refusal.next.iter().filter_map(wording::step) {
        text.push_str(&format!("\n  next: {step}"));
    }
    if refusal.conflict.is_some() {
        text.push_str("\nDo not work around this: another task has reserved this file.");
    }
    text
}

/// What an agent is told about its files: the notices, and that a task was opened for them.
pub(super) fn said(reply: &Reply) -> Option<String> {
    let news = told(&reply.notices);
    match &reply.answer {
        onus_engine::Answer::Guarded { task: Some(task), adopted: true } => {
            let (id, news) = (&task.id, news.unwrap_or_default());
            Some(format!(
                "You hold no task, so onus opened {id} for your edits; it ends with this conversation. If this is planned \
                 work: onus release {id}, then onus claim the task it belongs to.\n{news}"
            ))
        }
        _ => news,
    }
}

pub(in crate::commands) fn told(notices: &[Notice]) -> Option<String> {
    let lines: Vec<String> =
        notices.iter().map(|notice| format!("onus: {}", wording::notice_line(notice))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

pub(super) fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}\n{other}")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use onus_agents::hook::{Answer, Dialect};
    use onus_core::quote::name;
    use onus_core::refusal::Step;
    use onus_engine::NoticeKind;
    use onus_fuzz::texts::{Cast, assert_quoted, assert_visible};

    use super::*;

    #[test]
    fn nothing_that_others_wrote_breaks_out_of_a_hooks_answer() {
        onus_fuzz::run(&onus_fuzz::corpus("text"), onus_fuzz::execs(2_000), |bytes| {
            let cast = Cast::of(bytes);
            let message = format!(
                "{} is reserved by ON-1, held by agent:a ({})",
                name(cast.text(0)),
                name(cast.text(1))
            );
            let refusal = Refusal::new(Code::Scope, message.clone()).next(Step::TakeAnother);
            let notice = Notice::new(NoticeKind::Wanted, None, message).next(Step::Status);
            // Text that was composed elsewhere and never quoted must at least be visible.
            let raw = Refusal::new(Code::Damaged, cast.text(2));
            let answer = Answer {
                refusal: Some(refused(&refusal)),
                context: told(&[notice.clone(), notice]),
                warning: Some(raw.message.clone()),
            };
            for &dialect in Dialect::ALL {
                let written = answer.write(dialect, "PreToolUse").unwrap_or_default();
                let specific = &written["hookSpecificOutput"];
                let reason = specific["permissionDecisionReason"].as_str().or(written["reason"].as_str());
                assert_quoted(reason.unwrap_or_default(), cast.texts());
                assert_eq!(reason.unwrap_or_default().lines().count(), 2, "{written}");
                let context = specific["additionalContext"].as_str().unwrap_or_default();
                assert_quoted(context, cast.texts());
                assert_eq!(context.lines().count(), 2, "{written}");
                assert_visible(written["systemMessage"].as_str().unwrap_or_default());
            }
        });
    }
}
