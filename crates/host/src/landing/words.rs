//! The commit message of a landing.

use onus_core::gate::GateKey;
use onus_core::quote::is_hidden;
use onus_repo::landing::Words;

use super::Candidate;

/// The first line has the task's id and its title, since people search for both; programs read the trailers. `gates`: what passed on
/// exactly this commit's tree, so only the result of a round has any; of replayed commits, only the last.
pub(super) fn words(candidate: &Candidate, gates: &[GateKey]) -> Words {
    let title: String = candidate.title().chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect();
    let mut trailers = vec![format!("Onus-Task: {}", candidate.id())];
    trailers.extend(candidate.actor().map(|actor| format!("Onus-Actor: {actor}")));
    let gates: Vec<&str> = gates.iter().map(GateKey::as_str).collect();
    let of_result = (!gates.is_empty()).then(|| format!("Onus-Gates: {}", gates.join(", ")));
    let message = format!("{}: {}\n", candidate.id(), title.trim());
    Words { message, trailers, of_result: of_result.into_iter().collect() }
}

impl Candidate {
    /// The actor who did the work: its holder, else the actor who submitted or finished it.
    pub fn actor(&self) -> Option<String> {
        let held = self.of.view.lease.as_ref().map(|lease| lease.actor.clone());
        held.or_else(|| self.of.view.submitter.clone()).or_else(|| self.of.last_actor.clone())
    }
}
