//! The one table that says which state may follow which, and who may do it (P4). Every interface goes through it.
//!
//! What an event then makes of a task's row is in `apply.rs`; the test `the_fold_goes_where_the_table_says` compares both.

use crate::task::{State, words};

words! {
    /// What can be done to a task's state.
    Verb("verb") {
        Accept = "accept",
        Claim = "claim",
        Takeover = "takeover",
        Release = "release",
        Lapse = "lapse",
        Handoff = "handoff",
        Block = "block",
        Unblock = "unblock",
        Submit = "submit",
        Approve = "approve",
        Reject = "reject",
        Done = "done",
        Fail = "fail",
        Drop = "drop",
        Reopen = "reopen",
        Reset = "reset",
        Retry = "retry",
    }
}

impl Verb {
    /// The past participle, for a sentence: the task "cannot be …".
    pub fn participle(self) -> &'static str {
        match self {
            Verb::Accept => "accepted",
            Verb::Claim => "claimed",
            Verb::Takeover => "taken over",
            Verb::Release => "released",
            Verb::Lapse => "swept",
            Verb::Handoff => "assigned or handed off",
            Verb::Block => "blocked",
            Verb::Unblock => "unblocked",
            Verb::Submit => "submitted",
            Verb::Approve => "approved",
            Verb::Reject => "rejected",
            Verb::Done => "finished",
            Verb::Fail => "marked as failed",
            Verb::Drop => "dropped",
            Verb::Reopen => "reopened",
            Verb::Reset => "reset",
            Verb::Retry => "retried",
        }
    }

    /// Whether the verb can finish a task, or make a finished one unfinished: its neighbours count that.
    pub fn may_finish_or_reopen(self) -> bool {
        let changes = |from: &State| {
            Transition::of(*from, self).is_some_and(|cell| cell.to.is_finished() != from.is_finished())
        };
        State::ALL.iter().any(changes)
    }

    /// Whether the verb claims an unheld, ready task first, so that small work takes one command.
    pub fn claims_first(self) -> bool {
        matches!(self, Verb::Done | Verb::Submit | Verb::Fail)
    }
}

/// Who may take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Anyone, while nobody else holds a live lease.
    Anyone,
    /// Whoever has the task's current token.
    Holder,
    /// An actor that held no lease on the task since it was last opened.
    Reviewer,
    /// onus itself, when a lease has lapsed.
    Sweeper,
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    pub to: State,
    pub party: Party,
}

impl Transition {
    /// The table. None: the verb is not possible from that state.
    pub fn of(from: State, verb: Verb) -> Option<Transition> {
        use Party::{Anyone, Holder, Reviewer, Sweeper};
        use State::{Blocked, Done, Dropped, Failed, InProgress, Open, Proposed, Review};
        let (to, party) = match (from, verb) {
            (Proposed, Verb::Accept) => (Open, Anyone),
            (Proposed, Verb::Drop) => (Dropped, Anyone),

            (Open, Verb::Handoff) => (Open, Anyone),
            (Open, Verb::Claim) => (InProgress, Anyone),
            (Open, Verb::Block) => (Blocked, Anyone),
            (Open, Verb::Drop) => (Dropped, Anyone),

            (InProgress, Verb::Release) => (Open, Holder),
            (InProgress, Verb::Lapse) => (Open, Sweeper),
            (InProgress, Verb::Handoff) => (Open, Holder),
            (InProgress, Verb::Takeover) => (InProgress, Anyone),
            (InProgress, Verb::Block) => (Blocked, Holder),
            (InProgress, Verb::Submit) => (Review, Holder),
            (InProgress, Verb::Done) => (Done, Holder),
            (InProgress, Verb::Fail) => (Failed, Holder),
            (InProgress, Verb::Drop) => (Dropped, Holder),
            (InProgress, Verb::Reset) => (Open, Anyone),

            (Blocked, Verb::Unblock) => (Open, Anyone),
            (Blocked, Verb::Fail) => (Failed, Anyone),
            (Blocked, Verb::Drop) => (Dropped, Anyone),
            (Blocked, Verb::Reset) => (Open, Anyone),

            (Review, Verb::Reject) => (Open, Anyone),
            (Review, Verb::Approve) => (Done, Reviewer),
            (Review, Verb::Fail) => (Failed, Anyone),
            (Review, Verb::Drop) => (Dropped, Anyone),
            (Review, Verb::Reset) => (Open, Anyone),

            (Failed, Verb::Drop) => (Dropped, Anyone),
            (Failed, Verb::Reset) => (Open, Anyone),
            (Failed, Verb::Retry) => (Open, Anyone),

            (Done, Verb::Reopen) => (Open, Anyone),
            (Done, Verb::Reset) => (Open, Anyone),
            (Dropped, Verb::Reopen) => (Open, Anyone),
            _ => return None,
        };
        Some(Transition { to, party })
    }
}

/// The state that a reopened task returns to. Dropping a task circumvents nothing: a proposal that nobody accepted is a
/// proposal again, and a failed task has still failed, so that trying again counts as an attempt.
pub fn reopened(dropped_from: Option<State>) -> State {
    match dropped_from {
        Some(state @ (State::Proposed | State::Failed)) => state,
        _ => State::Open,
    }
}

/// The verbs that people and agents may use from a state, for refusals that teach.
pub fn verbs_from(state: State) -> Vec<Verb> {
    let by_callers = |verb: &Verb| *verb != Verb::Lapse && Transition::of(state, *verb).is_some();
    Verb::ALL.iter().copied().filter(by_callers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The design's table, row by row: the code cannot change without changing the contract here.
    #[test]
    fn the_table_is_the_designs() {
        let rows: &[(State, &[(&str, State)])] = &[
            (State::Proposed, &[("accept", State::Open), ("drop", State::Dropped)]),
            (
                State::Open,
                &[
                    ("claim", State::InProgress),
                    ("handoff", State::Open),
                    ("block", State::Blocked),
                    ("drop", State::Dropped),
                ],
            ),
            (
                State::InProgress,
                &[
                    ("takeover", State::InProgress),
                    ("release", State::Open),
                    ("lapse", State::Open),
                    ("handoff", State::Open),
                    ("block", State::Blocked),
                    ("submit", State::Review),
                    ("done", State::Done),
                    ("fail", State::Failed),
                    ("drop", State::Dropped),
                    ("reset", State::Open),
                ],
            ),
            (
                State::Blocked,
                &[
                    ("unblock", State::Open),
                    ("fail", State::Failed),
                    ("drop", State::Dropped),
                    ("reset", State::Open),
                ],
            ),
            (
                State::Review,
                &[
                    ("approve", State::Done),
                    ("reject", State::Open),
                    ("fail", State::Failed),
                    ("drop", State::Dropped),
                    ("reset", State::Open),
                ],
            ),
            (State::Done, &[("reopen", State::Open), ("reset", State::Open)]),
            (State::Failed, &[("drop", State::Dropped), ("reset", State::Open), ("retry", State::Open)]),
            (State::Dropped, &[("reopen", State::Open)]),
        ];
        assert_eq!(rows.len(), State::ALL.len());
        for (from, cells) in rows {
            let got: Vec<(&str, State)> = Verb::ALL
                .iter()
                .filter_map(|verb| Transition::of(*from, *verb).map(|cell| (verb.as_str(), cell.to)))
                .collect();
            assert_eq!(got, *cells, "from {from}");
        }
    }

    #[test]
    fn reopening_is_neither_an_acceptance_nor_a_retry() {
        for from in State::ALL.iter().filter(|from| Transition::of(**from, Verb::Drop).is_some()) {
            let keeps = matches!(from, State::Proposed | State::Failed);
            assert_eq!(reopened(Some(*from)), if keeps { *from } else { State::Open }, "{from}");
        }
        assert_eq!(reopened(None), State::Open, "a finished one");
    }

    #[test]
    fn only_a_holder_ends_work_in_progress() {
        for verb in
            [Verb::Release, Verb::Handoff, Verb::Block, Verb::Submit, Verb::Done, Verb::Fail, Verb::Drop]
        {
            assert_eq!(
                Transition::of(State::InProgress, verb).map(|cell| cell.party),
                Some(Party::Holder),
                "{verb}"
            );
        }
    }
}
