//! Pull requests, for a target that only its server moves: pushes the branch, and runs the project's command to open one.

use onus_core::command::Act;
use onus_core::decide::check_landing;
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::NoteKind;
use onus_dispatch::Watch;
use onus_repo::approval::Definition;
use onus_repo::landing::{Change, Fetched, Push};

use super::round::{push_failed, unreachable};
use super::settle::REMOTE_LIMIT;
use super::{Candidate, Landings, refused};
use crate::gates::{Live, outcome_in_words, run};
use crate::host::on_task;

/// A pull request that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub remote: String,
    /// The last address that the command printed.
    pub link: Option<String>,
}

impl Landings<'_> {
    /// Pushes a task's branch and opens a pull request for it.
    pub fn open_pull_request(&mut self, candidate: &Candidate) -> Result<Opened, Refusal> {
        let Some(template) = self.settings.pr.clone() else {
            return Err(Refusal::usage("this project does not say how a pull request is opened").next(
                Step::plain("set land.pr to a command, such as [\"gh\", \"pr\", \"create\", \"--fill\"]"),
            ));
        };
        self.host.require_approved(&template)?;
        self.check_constraints(candidate)?;
        let remote = self.settings.remote.clone().unwrap_or_else(|| "origin".to_owned());
        self.push_branch(&remote, candidate)?;
        let definition = Definition { argv: filled(&template.argv, candidate, &self.target), ..template };
        let root = self.lander.worktrees().home().to_owned();
        let command = crate::gates::Command {
            definition: &definition,
            root: &root,
            told: Vec::new(),
            live: Live::Plain,
        };
        let (ended, log) = run(command, Watch { renew: None, interrupts: None })?;
        if let Some(why) = outcome_in_words(&ended.outcome, &definition) {
            let message = format!("the branch was pushed to {}, but land.pr {why}", quote::name(&remote));
            return Err(Refusal::new(Code::NotAllowed, message).task(candidate.id()));
        }
        let said = String::from_utf8_lossy(&log.bytes()).into_owned();
        let is_address = |word: &&str| word.starts_with("https://") && word.len() <= 500;
        let link = said.split_whitespace().rfind(is_address).map(str::to_owned);
        let text = format!("opened a pull request for {} into {}", candidate.branch, self.target);
        let act = Act::Note { text, kind: NoteKind::Progress, link: link.clone() };
        self.engine.run(&on_task(self.identity_for(candidate), candidate.of.task.uid, act))?;
        Ok(Opened { remote, link })
    }

    /// Refuses a branch that has changed what the task's constraints forbid since it left the target.
    fn check_constraints(&self, candidate: &Candidate) -> Result<(), Refusal> {
        let constraints = &candidate.of.constraints;
        if constraints.is_empty() {
            return Ok(());
        }
        let (head, tip) = (&candidate.head, self.tip()?.commit);
        let from = self.lander.fork_of(head, &tip).unwrap_or(tip);
        let changed = self.lander.changed(&from, head.as_str()).map_err(refused)?;
        let extent = self.lander.extent(&from, head.as_str()).map_err(refused)?;
        check_landing(candidate.id(), constraints, &changed, &extent)
    }

    fn push_branch(&self, remote: &str, candidate: &Candidate) -> Result<(), Refusal> {
        let branch = &candidate.branch;
        let old = match self.lander.fetch_target(remote, branch, REMOTE_LIMIT).map_err(refused)? {
            Fetched::At(there) if there == candidate.head => return Ok(()),
            Fetched::At(there) => Some(there),
            Fetched::NoBranch => None,
            Fetched::Unreachable(why) => return Err(unreachable(remote, &why)),
        };
        let change =
            Change { reference: format!("refs/heads/{branch}"), old, new: Some(candidate.head.clone()) };
        match self.lander.push(remote, &[change], REMOTE_LIMIT).map_err(refused)? {
            Push::Pushed => Ok(()),
            Push::Moved => {
                let message = format!("{branch} at {} has moved meanwhile", quote::name(remote));
                Err(Refusal::new(Code::Changed, message).task(candidate.id()))
            }
            failed => Err(unreachable(remote, &push_failed(&failed))),
        }
    }
}

/// Fills in a command's placeholders, word by word, so that no value becomes a word of its own.
fn filled(argv: &[String], candidate: &Candidate, target: &str) -> Vec<String> {
    let title = quote::visible_line(candidate.title());
    let values = [
        ("branch", candidate.branch.as_str()),
        ("target", target),
        ("id", candidate.id()),
        ("title", &title),
    ];
    argv.iter().map(|word| fill(word, &values)).collect()
}

/// Fills in a word's placeholders, once: placeholders within a value are left as they are.
fn fill(word: &str, values: &[(&str, &str)]) -> String {
    let (mut filled, mut rest) = (String::new(), word);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let value = values
            .iter()
            .find_map(|(name, value)| Some((*value, after.strip_prefix(name)?.strip_prefix('}')?)));
        let (text, left) = value.unwrap_or(("{", after));
        filled.push_str(text);
        rest = left;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn a_value_is_filled_in_as_it_is_whatever_others_wrote_in_it() {
        let values =
            [("branch", "onus/{title}"), ("target", "{id}"), ("id", "ON-1"), ("title", "{branch} $(x)")];
        onus_fuzz::run(&onus_fuzz::corpus("template"), onus_fuzz::execs(4_000), |bytes| {
            let text = String::from_utf8_lossy(bytes);
            for word in text.split('\u{1f}') {
                let filled = fill(word, &values);
                // Checked in another way: the pieces between placeholders all remain, in their order.
                let mut pieces = vec![word.to_owned()];
                for (name, _) in values {
                    let mark = format!("{{{name}}}");
                    pieces = pieces
                        .iter()
                        .flat_map(|piece| piece.split(&mark).map(str::to_owned).collect::<Vec<_>>())
                        .collect();
                }
                let own: usize = pieces.iter().map(String::len).sum();
                let count = |name: &str| word.matches(&format!("{{{name}}}")).count();
                let added: usize = values.iter().map(|(name, value)| count(name) * value.len()).sum();
                assert_eq!(filled.len(), own + added, "{word:?} became {filled:?}");
                let mut rest = filled.as_str();
                for piece in &pieces {
                    let at = rest.find(piece.as_str());
                    assert!(at.is_some(), "{word:?} became {filled:?}");
                    rest = &rest[at.unwrap_or_default() + piece.len()..];
                }
            }
        });
    }
}
