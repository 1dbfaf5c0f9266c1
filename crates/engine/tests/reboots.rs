//! Across boots, where ticks mean nothing: only on SQLite, since a server's clock is the same for all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::world::{TTL_MS, claim, on, who, world};
use onus_core::command::{Act, Terms};
use onus_core::refusal::Code;
use onus_core::scope::{Glob, Scope};

#[test]
fn a_wall_clock_set_back_across_a_reboot_revives_no_lease_that_had_lapsed() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    let (lapsed, other) = (world.add("lapsed"), world.add("other"));
    let reserving = || {
        let scope: Scope = ["src/**".parse::<Glob>().unwrap()].into_iter().collect();
        Act::Claim(Terms { scope, ..Terms::default() })
    };
    world.lease(&a, on(&lapsed, reserving()));
    // Given that another got its paths after it had lapsed, and that nobody swept it
    world.pass(TTL_MS);
    world.lease(&b, on(&other, reserving()));
    // When the wall is set back before the next boot, its deadline is to come again by the wall
    world.reboot(-2 * 3_600_000);
    // Then it is lapsed all the same: its holder is late, and the paths are another's
    assert!(!world.show(&lapsed).lease.unwrap().live);
    world.ok(&a, on(&other, Act::note("a sign of life")));
    assert!(!world.show(&lapsed).lease.unwrap().live);
    assert_eq!(world.refused(&a, on(&lapsed, claim())), Code::Scope);
    world.is_whole();
}
