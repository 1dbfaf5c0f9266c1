//! The promises under faults: a few seeds, with every assertion on. More of them, and faster: `scripts/long simulation`.

use std::process::Command;

const SEEDS: &str = "12";
const STEPS: &str = "1500";

#[test]
fn the_promises_hold_in_a_few_random_histories() {
    let output = Command::new(env!("CARGO_BIN_EXE_onus-sim"))
        .args(["--seeds", SEEDS, "--steps", STEPS])
        .output()
        .expect("the simulation was built with this test");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{SEEDS} seeds")), "it ran something else: {said}");
}
