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
