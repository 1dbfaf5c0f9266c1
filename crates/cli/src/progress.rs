//! Progress of long work, on stderr, if somebody is watching.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use onus_store::Progress;

/// Short work needs no bar, and no bar needs more than a few updates per second.
const FIRST: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_millis(100);

/// Does long work, and shows how far it is.
pub(crate) fn shown<T>(
    what: &'static str,
    json: bool,
    work: impl FnOnce(&mut dyn FnMut(Progress)) -> T,
) -> T {
    let is_watched = !json && std::io::stderr().is_terminal();
    let (mut next, mut is_shown) = (Instant::now() + FIRST, false);
    let outcome = work(&mut |Progress { done, total }| {
        if !is_watched || Instant::now() < next {
            return;
        }
        next = Instant::now() + EVERY;
        is_shown = true;
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        let _ = write!(std::io::stderr().lock(), "\r{percent:>3} %  {done} of {total} {what}");
    });
    if is_shown {
        let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
    }
    outcome
}
