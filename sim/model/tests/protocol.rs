//! The search within small bounds, in every test run; and the same search over a protocol with a rule left out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use onus_model::{Bounds, Breadth, Broken, Protocol};
use stateright::{Checker, Model as _};

const ALONE: Bounds =
    Bounds { tasks: 1, tokens: 2, ticks: 3, ttl: 1, max_hold: 2, breadth: Breadth::Holding };
const BESIDE: Bounds = Bounds { tasks: 2, tokens: 1, ticks: 2, ttl: 1, max_hold: 3, breadth: Breadth::Paths };

const PASSING: Bounds =
    Bounds { tasks: 2, tokens: 2, ticks: 1, ttl: 1, max_hold: 3, breadth: Breadth::Passing };

/// A TTL of two ticks, so that a silence of both is no work and the lease lives.
const WORK: Bounds = Bounds { tasks: 1, tokens: 2, ticks: 3, ttl: 2, max_hold: 3, breadth: Breadth::Work };

fn search(bounds: Bounds, broken: Broken) -> impl Checker<Protocol> {
    Protocol::new(bounds, broken).checker().threads(2).spawn_bfs().join()
}

/// What must always hold and does not.
fn broken_by(bounds: Bounds, broken: Broken) -> Vec<&'static str> {
    let checker = search(bounds, broken);
    let properties = checker.model().properties();
    let names = properties.iter().map(|property| property.name);
    names.filter(|name| checker.discovery(name).is_some()).collect()
}

#[test]
fn one_task_has_one_holder_able_to_write_whatever_the_order() {
    let checker = search(ALONE, Broken::Nothing);
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000, "only {} states", checker.unique_state_count());
    for (what, count) in checker.model().saw.counts() {
        assert!(count > 0, "the search never came to this: {what}");
    }
}

#[test]
fn two_tasks_never_share_a_path_whatever_the_order() {
    assert_eq!(broken_by(BESIDE, Broken::Nothing), Vec::<&str>::new());
}

#[test]
fn nobody_finishes_in_passing_on_anothers_paths_whatever_the_order() {
    assert_eq!(broken_by(PASSING, Broken::Nothing), Vec::<&str>::new());
}

#[test]
fn finishing_in_passing_without_looking_around_trespasses() {
    assert!(broken_by(PASSING, Broken::Passing).contains(&"nothing is begun on another's paths"));
}

#[test]
fn without_the_fence_a_slow_holder_writes_beside_its_successor() {
    assert!(broken_by(ALONE, Broken::Fence).contains(&"no two holders are able to write"));
}

#[test]
fn a_reset_that_fences_nothing_leaves_an_old_token_able_to_write() {
    assert!(broken_by(ALONE, Broken::Reset).contains(&"a reset fences every earlier token"));
}

#[test]
fn a_sweep_that_does_not_ask_ends_a_live_lease() {
    assert!(broken_by(ALONE, Broken::Sweep).contains(&"no live lease was ended as if it had lapsed"));
}

#[test]
fn a_late_renewal_that_looks_at_nobody_shares_a_path() {
    assert!(broken_by(BESIDE, Broken::LateRenewal).contains(&"live leases share no path"));
}

#[test]
fn a_death_that_nobody_notices_strands_a_task() {
    assert!(broken_by(ALONE, Broken::Liveness).contains(&"a silent holder's task can be taken over"));
}

#[test]
fn the_stretches_of_a_lease_are_what_was_worked_under_it_whatever_the_order() {
    let checker = search(WORK, Broken::Nothing);
    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "only {} states", checker.unique_state_count());
}

#[test]
fn a_turn_whose_end_ends_no_work_makes_a_rest_of_it() {
    let broken = broken_by(WORK, Broken::Rest);
    assert!(broken.contains(&"work ends at a sign of life, and is no rest"), "{broken:?}");
}

#[test]
fn a_lapse_that_counts_until_it_is_noticed_makes_up_work() {
    let broken = broken_by(WORK, Broken::Lapse);
    for promise in ["work is done under a lease that is live", "stretches add up to what was worked"] {
        assert!(broken.contains(&promise), "{broken:?}");
    }
}
