//! Gates, as they are run and asked for here.
//!
//! | file | story |
//! | --- | --- |
//! | `running.rs` | a command that a repository configures, run from beginning to end: gates and set-up commands |
//! | `logs.rs` | what they wrote, kept beside the store, bounded |

mod logs;
mod running;

pub use running::{Judged, Live, Running, definition, judge};

pub(crate) use running::{Command, outcome_in_words, run};
