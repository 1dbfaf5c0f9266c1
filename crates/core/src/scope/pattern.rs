//! The pattern of a glob with special characters: a small nondeterministic automaton, about one step per character of its
//! text. Braces are forks in it and are never multiplied out, so `{a,b}{a,b}{a,b}…` grows with its length and not with the
//! number of its alternatives.
//!
//! Every text that is run through it is (the rest of) a path, which keeps the steps simple: `**` at the end may
//! take any characters at all, since a path neither ends in `/` nor has `//` in it.

use super::budget::Budget;
use super::class::Class;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Step {
    /// Takes this character.
    Char(char),
    /// `?`: takes one character that is not `/`.
    One,
    /// `[…]`: takes one character of the class with this number.
    Class(u32),
    /// `*`: takes any number of characters that are not `/`.
    Run,
    /// `**`: takes any number of characters.
    Deep,
    /// `**/`: what the next two steps take, or nothing.
    Folders,
    /// Continues with the next step, and also with that one.
    Fork(u32),
    /// Continues with that step.
    Jump(u32),
    End,
}

/// The part of a glob after its anchor.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pattern {
    pub(super) steps: Vec<Step>,
    pub(super) classes: Vec<Class>,
    /// The text with which every matching path ends.
    pub(super) tail: String,
}

impl Pattern {
    pub(super) fn step(&self, at: u32) -> Step {
        self.steps.get(at as usize).copied().unwrap_or(Step::End)
    }

    /// Where a step leads without taking anything.
    pub(super) fn leads(&self, at: u32) -> [Option<u32>; 2] {
        match self.step(at) {
            Step::Run | Step::Deep => [Some(at + 1), None],
            Step::Folders => [Some(at + 1), Some(at + 3)],
            Step::Fork(there) => [Some(at + 1), Some(there)],
            Step::Jump(there) => [Some(there), None],
            Step::Char(_) | Step::One | Step::Class(_) | Step::End => [None, None],
        }
    }

    /// Whether a step takes nothing itself.
    pub(super) fn only_leads(&self, at: u32) -> bool {
        matches!(self.step(at), Step::Folders | Step::Fork(_) | Step::Jump(_))
    }

    /// Where a step leads by taking this character.
    pub(super) fn take(&self, at: u32, c: char) -> Option<u32> {
        match self.step(at) {
            Step::Char(one) => (one == c).then_some(at + 1),
            Step::One => (c != '/').then_some(at + 1),
            Step::Class(class) => {
                self.classes.get(class as usize).is_some_and(|class| class.contains(c)).then_some(at + 1)
            }
            Step::Run => (c != '/').then_some(at),
            Step::Deep => Some(at),
            Step::Folders | Step::Fork(_) | Step::Jump(_) | Step::End => None,
        }
    }

    /// Whether every rest of a path is matched from this step on.
    pub(super) fn takes_all(&self, at: u32) -> bool {
        self.step(at) == Step::Deep && self.step(at + 1) == Step::End
    }

    /// The steps that can be reached from the first step by reading `text`.
    pub(super) fn run(&self, text: &str, budget: &mut Budget) -> Vec<u32> {
        let mut reached = Reached { at: Vec::with_capacity(8), since: vec![0; self.steps.len()], round: 1 };
        reached.add(0);
        self.spread(&mut reached);
        let mut before = Vec::with_capacity(8);
        for c in text.chars() {
            std::mem::swap(&mut before, &mut reached.at);
            reached.at.clear();
            reached.round += 1;
            for at in &before {
                if let Some(next) = self.take(*at, c) {
                    reached.add(next);
                }
            }
            self.spread(&mut reached);
            budget.spend(before.len());
            if reached.at.is_empty() || budget.is_spent() {
                break;
            }
        }
        reached.at
    }

    fn spread(&self, reached: &mut Reached) {
        let mut i = 0;
        while let Some(at) = reached.at.get(i).copied() {
            self.leads(at).into_iter().flatten().for_each(|next| reached.add(next));
            i += 1;
        }
    }

    pub(super) fn matches(&self, rest: &str, budget: &mut Budget) -> bool {
        budget.spend(1);
        self.takes_all(0) || self.run(rest, budget).into_iter().any(|at| self.step(at) == Step::End)
    }

    /// Appends another pattern, preceded by `lead`, and returns where it begins.
    pub(super) fn append(&mut self, lead: &str, other: Option<&Pattern>) -> u32 {
        let start = self.steps.len() as u32;
        self.steps.extend(lead.chars().map(Step::Char));
        let Some(other) = other else {
            self.steps.push(Step::End);
            return start;
        };
        let (steps, classes) = (self.steps.len() as u32, self.classes.len() as u32);
        self.steps.extend(other.steps.iter().map(|step| match *step {
            Step::Fork(there) => Step::Fork(there + steps),
            Step::Jump(there) => Step::Jump(there + steps),
            Step::Class(class) => Step::Class(class + classes),
            other => other,
        }));
        self.classes.extend(other.classes.iter().cloned());
        start
    }
}

/// The steps reached in one round, each once.
struct Reached {
    at: Vec<u32>,
    since: Vec<u32>,
    round: u32,
}

impl Reached {
    fn add(&mut self, at: u32) {
        if let Some(since) = self.since.get_mut(at as usize)
            && *since != self.round
        {
            *since = self.round;
            self.at.push(at);
        }
    }
}
