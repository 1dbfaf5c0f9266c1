//! Gates: which ones a task has to pass, and how they are run.
//!
//! | file | story |
//! | --- | --- |
//! | `asking.rs` | which gates a task has to pass, and the tree that they judge |
//! | `running.rs` | runs a command that a repository configures: gates and set-up commands |
//! | `judging.rs` | runs one gate on a work tree, red-green gates twice |
//! | `rounds.rs` | runs a task's gates where its work is, and records the results |
//! | `presets.rs` | suggests gates for a project of a known kind |
//! | `logs.rs` | keeps a bounded number of logs beside the store |

mod asking;
mod judging;
mod logs;
mod presets;
mod rounds;
mod running;

pub use asking::{Workplace, unknown_gate};
pub use judging::On;
pub use presets::{Preset, presets};
pub use rounds::{GateOutcome, Round, Wanted};

pub use running::{Judged, Live, definition};

pub use crate::worktree::this_machine;

pub(crate) use running::{Command, outcome_in_words, run};
