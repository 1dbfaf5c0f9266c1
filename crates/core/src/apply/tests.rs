use std::collections::BTreeMap;

use super::*;
use crate::actor::Tier;
use crate::event::KeptFor;
use crate::ids::Number;
use crate::lease::{Grant, LapseCause, Mode};
use crate::task::Facts;
use crate::time::ClockDomain;
use crate::transition::{Transition, Verb};

fn task(state: State) -> Task {
    let by = "human:h".parse().unwrap();
    Task {
        version: Version(7),
        token: Token(3),
        leased: state == State::InProgress,
        ..Task::created(Uid(uuid::Uuid::nil()), Number(1), (&by, 0), state, Facts::default())
    }
}

/// The events that record each verb.
fn events(verb: Verb) -> Vec<Body> {
    let domain = ClockDomain::new("m", "b", "t");
    let end = || LeaseEnd { renewals: 0, last_sign_ms: 0, active_ms: 0 };
    let cause = LapseCause::Ttl;
    let acquired = || Body::LeaseAcquired {
        grant: Grant {
            tier: Tier(1),
            tick_ms: 0,
            domain: domain.clone(),
            ttl_ms: None,
            max_hold_ms: None,
            process: None,
            worktree: None,
            worktree_id: None,
            branch: None,
            mode: Mode::Exclusive,
            constraints: Default::default(),
            reserve: false,
            handoff_version: None,
        },
        scope: Scope::default(),
        own_clock: None,
        areas: Default::default(),
        touched: None,
    };
    let kept_for = || KeptFor {
        actor: "agent:a".parse().unwrap(),
        until_wall_ms: 0,
        until_tick_ms: 0,
        domain: domain.clone(),
    };
    vec![match verb {
        Verb::Accept => Body::TaskAccepted {},
        Verb::Claim => acquired(),
        Verb::Takeover => return vec![Body::LeaseTakenOver { cause, lease: end() }, acquired()],
        Verb::Release => Body::LeaseReleased { lease: end() },
        Verb::Lapse => Body::LeaseLapsed { cause, lease: end() },
        Verb::Handoff => Body::LeaseHandedOff { kept_for: kept_for(), lease: Some(end()) },
        Verb::Block => Body::TaskBlocked { lease: None },
        Verb::Unblock => Body::TaskUnblocked {},
        Verb::Submit => Body::TaskSubmitted { lease: end() },
        Verb::Approve => Body::TaskApproved { awaits_landing: None },
        Verb::Reject => Body::TaskRejected { kept_for: None },
        Verb::Done => Body::TaskDone { lease: end(), awaits_landing: None },
        Verb::Fail => Body::TaskFailed { lease: None },
        Verb::Drop => Body::TaskDropped { lease: None },
        Verb::Reopen => Body::TaskReopened {},
        Verb::Reset => Body::TaskReset { lease: None },
        Verb::Retry => Body::TaskRetried { attempt: 1 },
    }]
}

#[test]
fn the_fold_goes_where_the_table_says() {
    let mut cells = 0;
    for from in State::ALL {
        for verb in Verb::ALL.iter().copied() {
            let Some(cell) = Transition::of(*from, verb) else { continue };
            cells += 1;
            let mut task = task(*from);
            for body in events(verb) {
                let event = Event {
                    uid: Uid(uuid::Uuid::nil()),
                    task: Some(task.uid),
                    version: task.version.next(),
                    token: Some(match body {
                        Body::LeaseAcquired { .. } => task.token.next(),
                        _ => task.token,
                    }),
                    body,
                    actor: "agent:a".parse().unwrap(),
                    instance: "i".parse().unwrap(),
                    at_ms: 0,
                    cause: None,
                    texts: BTreeMap::new(),
                    stretches: Vec::new(),
                    waited_ms: 0,
                    prev: String::new(),
                    hash: String::new(),
                };
                let changes = apply_to_task(Some(&task), &event).unwrap();
                let Some(RowChange::MoveTask(after) | RowChange::PutTask(after)) = changes.into_iter().next()
                else {
                    panic!("no row")
                };
                task = *after;
            }
            assert_eq!(task.state, cell.to, "{verb} from {from}");
        }
    }
    assert_eq!(cells, 31);
}
