//! Targets whose branch lacks what landed, for people and programs.

use onus_host::Host;
use onus_repo::landing::{Behind, Lander};
use serde_json::{Value, json};

use crate::output::{Output, escape_line, path_line, path_text};

/// Every such target, or none if git cannot tell: `doctor` reports what is wrong with git.
pub(crate) fn all(host: &Host) -> Vec<Behind> {
    let lander = host.place.as_ref().and_then(|place| Lander::of(place).ok().flatten());
    lander.and_then(|lander| lander.behind().ok()).unwrap_or_default()
}

/// The folders in which it is checked out, or its name.
pub(super) fn place(behind: &Behind) -> String {
    match behind.checkouts.as_slice() {
        [] if behind.own.is_none() => format!("branch {}", escape_line(&behind.target)),
        [] => format!("branch {}, checked out nowhere,", escape_line(&behind.target)),
        some => some.iter().map(|path| path_line(path)).collect::<Vec<_>>().join(" and "),
    }
}

pub(crate) fn lines(out: &Output, all: &[Behind]) {
    if !all.is_empty() {
        out.prose("");
        out.prose(&out.bold("behind what landed"));
    }
    for behind in all {
        out.prose(&format!("  {}", place(behind).trim_end_matches(',')));
        out.prose(&format!("    {}", escape_line(&behind.words())));
        out.prose(&out.dim(&format!("    next: {}", escape_line(&behind.command()))));
    }
}

pub(crate) fn documents(all: &[Behind]) -> Value {
    all.iter().map(document).collect()
}

fn document(behind: &Behind) -> Value {
    json!({
        "target": behind.target,
        "checkouts": behind.checkouts.iter().map(|path| path_text(path)).collect::<Vec<_>>(),
        "behind": behind.lacks,
        "ahead": behind.own,
        "next": behind.command(),
    })
}
