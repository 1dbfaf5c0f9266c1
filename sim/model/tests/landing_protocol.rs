//! The landing protocol within small bounds, in every test run; and the same search over a protocol with a rule left out.

use onus_model::{BrokenLanding, LandingBounds, Landings};
use stateright::{Checker, HasDiscoveries, Model as _};

/// Two landers of one target, of which the second takes the seat; and two that land one task in a target each.
const ONE_TARGET: LandingBounds = LandingBounds { tries: 1, tokens: 2, apart: false };
const TWO_TARGETS: LandingBounds = LandingBounds { tries: 1, tokens: 2, apart: true };

fn search(bounds: LandingBounds, broken: BrokenLanding) -> impl Checker<Landings> {
    Landings::new(bounds, broken).checker().threads(2).spawn_bfs().join()
}

/// Whether a promise can be broken with a rule left out.
fn breaks(bounds: LandingBounds, broken: BrokenLanding, promise: &'static str) -> bool {
    let found = HasDiscoveries::AllOf([promise].into_iter().collect());
    let checker = Landings::new(bounds, broken).checker().threads(2).finish_when(found).spawn_bfs().join();
    checker.discovery(promise).is_some()
}

#[test]
fn what_lands_is_recorded_and_what_is_withdrawn_never_lands_whoever_stops_where() {
    for bounds in [ONE_TARGET, TWO_TARGETS] {
        let checker = search(bounds, BrokenLanding::Nothing);
        checker.assert_properties();
        assert!(checker.unique_state_count() > 1_000, "only {} states", checker.unique_state_count());
    }
}

#[test]
fn an_event_before_its_reference_lets_a_stopped_lander_land_what_was_withdrawn() {
    assert!(breaks(ONE_TARGET, BrokenLanding::EventFirst, "what is withdrawn never lands"));
}

#[test]
fn a_target_that_moves_without_its_intent_undoes_a_takeover() {
    assert!(breaks(
        ONE_TARGET,
        BrokenLanding::IntentNotDeleted,
        "a target moves only for a task that is as it was"
    ));
}

#[test]
fn a_takeover_that_settles_nothing_is_followed_by_a_landing() {
    assert!(breaks(
        ONE_TARGET,
        BrokenLanding::NotSettled,
        "a target moves only for a task that is as it was"
    ));
}

#[test]
fn a_landing_that_is_not_compared_with_what_was_looked_at_lands_something_else() {
    assert!(breaks(ONE_TARGET, BrokenLanding::NotCompared, "a landing begins as it was looked at"));
}

#[test]
fn settling_by_whatever_reference_is_there_forgets_what_landed() {
    assert!(breaks(TWO_TARGETS, BrokenLanding::ByReference, "what is withdrawn never lands"));
}
