//! What a holder may not do, judged by the texts in the ledger alone.

use std::collections::BTreeSet;

use onus_core::command::{Act, Command};

/// Whether one set forbids everything that another does: each of its words, and for each limit the same or a lower number.
pub(super) fn cover(set: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let limit =
        |word: &str| word.split_once('=').map(|(kind, n)| (kind.to_owned(), n.parse().unwrap_or(0_u64)));
    other.iter().all(|word| match limit(word) {
        None => set.contains(word),
        Some((kind, most)) => set.iter().filter_map(|word| limit(word)).any(|(k, n)| k == kind && n <= most),
    })
}

/// The constraints that a claim requested.
pub(super) fn asked(command: &Command) -> BTreeSet<String> {
    match command {
        Command::ClaimNext(terms) | Command::OnTask { act: Act::Claim(terms) | Act::Takeover(terms), .. } => {
            terms.constraints.words().into_iter().collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Which of these words a landing would break, by what it brings.
pub(super) fn broken<'w>(words: &'w BTreeSet<String>, command: &Command) -> Option<&'w String> {
    let Command::OnTask { act: Act::Land(checked), .. } = command.itself() else { return None };
    let changed = checked.demand.changed.as_ref().is_some_and(|changed| !changed.is_empty());
    let tally = checked.extent.tally.unwrap_or_default();
    words.iter().find(|word| match word.split_once('=') {
        None => *word == "read_only" && changed || *word == "no_delete" && !checked.extent.removed.is_empty(),
        Some((kind, most)) => {
            let brings = if kind == "max_files" { tally.files } else { tally.lines };
            most.parse::<u64>().is_ok_and(|most| brings > most)
        }
    })
}
