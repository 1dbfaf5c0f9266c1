//! What waits for one actor in particular: only that actor can move it on.

use serde::Serialize;

use crate::actor::ActorName;
use crate::task::{State, Task};
use crate::time::Moment;
use crate::transition::Verb;

/// What an actor is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// Continue the task, which was handed to them or sent back.
    Claim,
    /// Approve or reject it.
    Review,
    /// Accept, unblock or retry it, or drop it.
    Decision,
}

impl Awaited {
    /// The first verb that the actor would use.
    pub fn verb(self, state: State) -> Verb {
        match (self, state) {
            (Awaited::Claim, _) => Verb::Claim,
            (Awaited::Review, _) => Verb::Approve,
            (Awaited::Decision, State::Proposed) => Verb::Accept,
            (Awaited::Decision, State::Failed) => Verb::Retry,
            (Awaited::Decision, _) => Verb::Unblock,
        }
    }
}

/// The person accountable for a task: its owner, or else the person who created it.
pub fn accountable(task: &Task) -> Option<&ActorName> {
    task.facts.owner.as_ref().or(Some(&task.created_by).filter(|creator| creator.is_person()))
}

/// What a task expects of this actor. A task without an accountable person concerns every person; only tasks that are kept for
/// them wait for agents. `worked_on_it`: nobody reviews their own work.
pub fn awaited(task: &Task, actor: &ActorName, worked_on_it: bool, now: &Moment) -> Option<Awaited> {
    let concerns = accountable(task).map_or(actor.is_person(), |person| person == actor);
    match task.state {
        State::Open => {
            let waits_for_others = task.counts.unmet > 0 || task.counts.open_children > 0;
            let kept = task.kept.as_ref().filter(|_| !task.leased && !waits_for_others)?;
            (kept.actor == *actor && !kept.until.has_come(now)).then_some(Awaited::Claim)
        }
        State::Review => {
            let worked_on_it = worked_on_it || task.submitter.as_ref() == Some(actor);
            (concerns && !worked_on_it).then_some(Awaited::Review)
        }
        State::Proposed | State::Blocked | State::Failed => concerns.then_some(Awaited::Decision),
        State::InProgress | State::Done | State::Dropped => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Number, Uid, Version};
    use crate::task::{Counts, Facts, Kept};
    use crate::time::ClockDomain;

    fn name(text: &str) -> ActorName {
        text.parse().unwrap()
    }

    fn now() -> Moment {
        Moment::new(1_000, 1_000, ClockDomain::new("m", "b", "t"))
    }

    fn task(state: State, owner: Option<&str>, creator: &str) -> Task {
        let facts = Facts { owner: owner.map(name), ..Facts::default() };
        Task::created(Uid(uuid::Uuid::from_u128(1)), Number(1), (&name(creator), 0), state, facts)
    }

    #[test]
    fn a_decision_is_its_owners_else_its_creators_else_any_persons() {
        for (owner, creator, waits_for) in [
            (Some("human:ann"), "human:bob", vec!["human:ann"]),
            (None, "human:bob", vec!["human:bob"]),
            (None, "agent:a", vec!["human:ann", "human:bob"]),
        ] {
            for state in [State::Proposed, State::Blocked, State::Failed] {
                let task = task(state, owner, creator);
                let all = ["human:ann", "human:bob", "agent:a"];
                let found = all.into_iter().filter(|who| awaited(&task, &name(who), false, &now()).is_some());
                assert_eq!(found.collect::<Vec<_>>(), waits_for, "{state} {owner:?} {creator}");
            }
        }
    }

    #[test]
    fn nobody_is_asked_to_review_their_own_work() {
        let mut task = task(State::Review, None, "agent:a");
        assert_eq!(awaited(&task, &name("human:ann"), false, &now()), Some(Awaited::Review));
        assert_eq!(awaited(&task, &name("human:ann"), true, &now()), None);
        task.submitter = Some(name("human:ann"));
        assert_eq!(awaited(&task, &name("human:ann"), false, &now()), None);
        assert_eq!(awaited(&task, &name("human:bob"), false, &now()), Some(Awaited::Review));
    }

    #[test]
    fn what_is_kept_waits_for_one_actor_while_it_is_kept() {
        let mut task = task(State::Open, Some("human:ann"), "human:ann");
        let kept = |until_ms| Kept {
            actor: name("agent:a"),
            until: Moment::new(until_ms, until_ms, ClockDomain::new("m", "b", "t")),
            version: Version(2),
        };
        task.kept = Some(kept(2_000));
        assert_eq!(awaited(&task, &name("agent:a"), true, &now()), Some(Awaited::Claim));
        assert_eq!(awaited(&task, &name("human:ann"), false, &now()), None);
        // Nobody can claim it before what it waits for is done.
        for counts in
            [Counts { unmet: 1, ..Counts::default() }, Counts { open_children: 1, ..Counts::default() }]
        {
            let waits = Task { counts, ..task.clone() };
            assert_eq!(awaited(&waits, &name("agent:a"), true, &now()), None);
        }
        task.kept = Some(kept(1_000));
        assert_eq!(awaited(&task, &name("agent:a"), true, &now()), None);
    }

    #[test]
    fn what_is_asked_for_first_is_possible_from_there() {
        for (awaited, state) in [
            (Awaited::Claim, State::Open),
            (Awaited::Review, State::Review),
            (Awaited::Decision, State::Proposed),
            (Awaited::Decision, State::Blocked),
            (Awaited::Decision, State::Failed),
        ] {
            assert!(
                crate::transition::Transition::of(state, awaited.verb(state)).is_some(),
                "{awaited:?} {state}"
            );
        }
    }
}
