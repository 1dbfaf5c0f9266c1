//! What the operating system reports about processes and time: [`stat`] reads `/proc`, [`process`] identifies a process and
//! says whether it lives, [`clock`] reads the clocks and says in which domain they can be compared.
//!
//! **Architecture invariant:** it reports, it never decides. Which observer to believe about which process is a rule of the
//! domain (`onus_core::sight`).

pub mod clock;
pub mod process;
pub mod stat;
