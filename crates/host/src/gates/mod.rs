//! Gates, as they are run and asked for here.
//!
//! | file | story |
//! | --- | --- |
//! | `asking.rs` | what is asked for: the gates of a project, and the tree that is there to be judged |
//! | `running.rs` | a command that a repository configures, run from beginning to end: gates and set-up commands |
//! | `judging.rs` | one gate of a task, judged: run, red and green, and recorded |
//! | `rounds.rs` | the gates of a task, run where its work is, and recorded |
//! | `presets.rs` | what a project of a known kind would want |
//! | `logs.rs` | what they wrote, kept beside the store, bounded |

mod asking;
mod judging;
mod logs;
mod presets;
mod rounds;
mod running;

pub use asking::{Workplace, unknown_gate};
pub use judging::On;
pub use presets::{Preset, presets};
pub use rounds::{Came, Round, Wanted};

pub use running::{Judged, Live, Running, definition, judge};

pub use crate::worktree::this_machine;

pub(crate) use running::{Command, outcome_in_words, run};
