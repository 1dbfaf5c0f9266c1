//! The landing protocol within small bounds, in every test run; and the same search over a protocol with a rule left out.

use onus_model::{BrokenLanding, LandingBounds, Landings};
use stateright::{Checker, Expectation, Model as _};

/// Two landers of one target, of which the second takes the seat; and two that land one task in a target each.
const ONE_TARGET: LandingBounds = LandingBounds { tries: 1, tokens: 2, apart: false };
const TWO_TARGETS: LandingBounds = LandingBounds { tries: 1, tokens: 2, apart: true };

fn search(bounds: LandingBounds, broken: BrokenLanding) -> impl Checker<Landings> {
    Landings::new(bounds, broken).checker().threads(2).spawn_bfs().join()
}

/// What must always hold and does not.
fn broken_by(bounds: LandingBounds, broken: BrokenLanding) -> Vec<&'static str> {
    let checker = search(bounds, broken);
    let properties = checker.model().properties();
    let always = properties.iter().filter(|property| property.expectation == Expectation::Always);
    always.map(|property| property.name).filter(|name| checker.discovery(name).is_some()).collect()
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
    let broken = broken_by(ONE_TARGET, BrokenLanding::EventFirst);
    assert!(broken.contains(&"what is withdrawn never lands"), "{broken:?}");
}

#[test]
fn a_target_that_moves_without_its_intent_undoes_a_takeover() {
    let broken = broken_by(ONE_TARGET, BrokenLanding::IntentNotDeleted);
    assert!(broken.contains(&"a target moves only for a task that is as it was"), "{broken:?}");
}

#[test]
fn a_takeover_that_settles_nothing_is_followed_by_a_landing() {
    let broken = broken_by(ONE_TARGET, BrokenLanding::NotSettled);
    assert!(broken.contains(&"a target moves only for a task that is as it was"), "{broken:?}");
}

#[test]
fn settling_by_whatever_reference_is_there_forgets_what_landed() {
    let broken = broken_by(TWO_TARGETS, BrokenLanding::ByReference);
    assert!(broken.contains(&"what is withdrawn never lands"), "{broken:?}");
}
