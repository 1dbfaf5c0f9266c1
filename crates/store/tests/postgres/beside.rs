//! What a transaction sees and takes while another of the same project has not ended yet.

use onus_core::actor::Tier;
use onus_core::event::{Body, Draft, KeptFor};
use onus_core::ids::Token;
use onus_core::task::{Facts, Priority, Task};
use onus_core::time::ClockDomain;
use onus_store::conformance::scribe::{actor, append, claim, commit, create, instance, uid};
use onus_store::{Loss, OnLocked, PendingKind, PendingNotice, Read, Result, Write};

use super::{add, two};

/// The number of the first task that fits.
fn first(write: &mut dyn Write, fits: &mut dyn FnMut(&mut dyn Read, &Task) -> Result<bool>) -> Option<u64> {
    let asked = write.first_ready(&actor("a"), Tier(1), 0, OnLocked::Skip, fits).unwrap();
    asked.0.map(|task| task.number.0)
}

#[test]
fn after_a_task_that_another_takes_the_best_of_all_tiers_is_next() {
    let (mut one, mut other) = two();
    commit(&mut one, |write| {
        for (n, priority, tier) in [(1, Priority::P0, 0), (2, Priority::P4, 0), (3, Priority::P0, 1)] {
            let facts = Facts { priority, required_tier: Tier(tier), ..Facts::default() };
            create(write, uid(n, n), "t", facts)?;
        }
        Ok(())
    });
    commit(&mut one, |write| {
        assert_eq!(first(write, &mut |_, _| Ok(true)), Some(1));
        commit(&mut other, |write| {
            assert_eq!(first(write, &mut |_, _| Ok(true)), Some(3));
            Ok(())
        });
        Ok(())
    });
}

/// What does not fit one asker may be just what another waits for.
#[test]
fn a_task_that_does_not_fit_is_left_to_others() {
    let (mut one, mut other) = two();
    commit(&mut one, |write| {
        for (n, tier) in [(1, 0), (2, 1)] {
            let facts = Facts { required_tier: Tier(tier), ..Facts::default() };
            create(write, uid(n, n), "t", facts)?;
        }
        Ok(())
    });
    commit(&mut one, |write| {
        assert_eq!(first(write, &mut |_, task| Ok(task.number.0 == 2)), Some(2));
        commit(&mut other, |write| {
            assert_eq!(first(write, &mut |_, _| Ok(true)), Some(1));
            Ok(())
        });
        Ok(())
    });
}

#[test]
fn a_task_that_is_kept_for_another_is_left_to_it() {
    let (mut one, mut other) = two();
    (1..=2).for_each(|n| add(&mut one, n));
    commit(&mut one, |write| {
        let domain = ClockDomain::new("m", "b", "t");
        let kept_for = KeptFor { actor: actor("k"), until_wall_ms: 1, until_tick_ms: 1, domain };
        append(write, uid(1, 1), Draft::new(Body::LeaseHandedOff { kept_for, lease: None }))
    });
    commit(&mut one, |write| {
        assert_eq!(first(write, &mut |_, task| Ok(task.kept.is_none())), Some(2));
        commit(&mut other, |write| {
            assert_eq!(first(write, &mut |_, _| Ok(true)), Some(1));
            Ok(())
        });
        Ok(())
    });
}

#[test]
fn of_two_requests_of_one_holder_at_once_one_is_told() {
    let (mut one, mut other) = two();
    add(&mut one, 1);
    let (holder, own) = (actor("h"), instance("1"));
    let loss = Loss { actor: holder.clone(), instance: own.clone(), task: uid(1, 1), token: Token(1) };
    let notice = PendingNotice {
        actor: holder.clone(),
        instance: own.clone(),
        task: uid(1, 1),
        token: Token(1),
        kind: PendingKind::Changed,
        path: "a".parse().unwrap(),
        by: None,
        by_task: None,
        worktree: None,
        branch: None,
        at_ms: 5,
    };
    commit(&mut one, |write| {
        claim(write, uid(1, 1), ("h", "1"), None)?;
        write.put_loss(&loss)?;
        write.put_notice(&notice)
    });
    let told = |write: &mut dyn Write| {
        let rows = write.closing(&holder, &own, None, None, &[]).unwrap();
        (rows.held.len(), rows.lost.len(), rows.notices.len())
    };
    commit(&mut one, |write| {
        assert_eq!(told(write), (1, 1, 1));
        commit(&mut other, |write| {
            assert_eq!(told(write), (1, 0, 0));
            Ok(())
        });
        Ok(())
    });
    // The first did not say that it told anybody.
    commit(&mut other, |write| {
        assert_eq!(told(write), (1, 1, 1));
        Ok(())
    });
}
