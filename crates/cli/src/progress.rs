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
    let mut bar = Bar::new(what, json);
    let outcome = work(&mut |progress| bar.at(progress));
    bar.end();
    outcome
}

struct Bar {
    what: &'static str,
    shown: bool,
    watched: bool,
    next: Instant,
}

impl Bar {
    fn new(what: &'static str, json: bool) -> Bar {
        Bar {
            what,
            shown: false,
            watched: !json && std::io::stderr().is_terminal(),
            next: Instant::now() + FIRST,
        }
    }

    fn at(&mut self, progress: Progress) {
        if !self.watched || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        self.shown = true;
        let percent = (progress.done * 100).checked_div(progress.total).unwrap_or(100);
        let _ = write!(
            std::io::stderr().lock(),
            "\r{percent:>3} %  {} of {} {}",
            progress.done,
            progress.total,
            self.what
        );
    }

    fn end(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}
