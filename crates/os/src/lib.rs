//! What the operating system says about processes and time, in one place: [`stat`] reads `/proc`, [`process`] identifies
//! a process and says whether it lives, [`clock`] reads the clocks and says what they mean.
//!
//! **Architecture invariant:** it reports, it never decides. Whom to believe about which process is a rule of the domain
//! (`onus_core::sight`).

pub mod clock;
pub mod process;
pub mod stat;
