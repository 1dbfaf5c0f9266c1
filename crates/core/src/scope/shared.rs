//! The shared globs, tracked during the search for an example path.
//!
//! An example must be matched by *no* shared glob. So the search keeps the set of all steps that any of them can be in; sets are
//! built on demand, and numbered.

use std::collections::{HashMap, HashSet};

use super::Glob;
use super::budget::Budget;
use super::class::Class;
use super::pattern::{Pattern, Step};

/// The number of a set of steps.
pub(super) type SetId = u32;

/// No shared glob can match any more.
pub(super) const NONE: SetId = 0;

#[derive(Default)]
pub(super) struct Shared {
    /// All shared globs, one after another.
    pattern: Pattern,
    sets: Vec<Set>,
    ids: HashMap<Vec<u32>, SetId>,
    moves: HashMap<(SetId, char), Option<SetId>>,
}

struct Set {
    /// Sorted.
    steps: Vec<u32>,
    /// Whether a path that ends here is shared.
    ends: bool,
}

impl Shared {
    /// The shared globs that can match a path beginning with `base`, and the set that they are in after it. None: all such paths
    /// are shared.
    pub(super) fn after_base<'a>(
        globs: impl Iterator<Item = &'a Glob>,
        base: &str,
        budget: &mut Budget,
    ) -> (Shared, Option<SetId>) {
        let mut shared = Shared::default();
        shared.number(Vec::new());
        let mut starts = Vec::new();
        for glob in globs {
            let (anchor, pattern) = (glob.anchor(), glob.pattern.as_deref());
            budget.spend(1);
            if let Some(lead) = anchor.strip_prefix(base) {
                starts.push(shared.pattern.append(lead, pattern));
            } else if let (Some(rest), Some(pattern)) = (base.strip_prefix(anchor), pattern) {
                let reached = pattern.run(rest, budget);
                let start = shared.pattern.append("", Some(pattern));
                starts.extend(reached.into_iter().map(|at| start + at));
            }
        }
        let start = shared.settle(starts, budget);
        (shared, start)
    }

    pub(super) fn classes(&self) -> &[Class] {
        &self.pattern.classes
    }

    /// The characters that it distinguishes from all others.
    pub(super) fn chars(&self) -> impl Iterator<Item = char> {
        self.pattern.steps.iter().filter_map(|step| if let Step::Char(c) = step { Some(*c) } else { None })
    }

    /// The set after one more character. None: from here on everything is shared.
    pub(super) fn after(&mut self, set: SetId, c: char, budget: &mut Budget) -> Option<SetId> {
        if set == NONE {
            return Some(NONE);
        }
        if let Some(known) = self.moves.get(&(set, c)) {
            return *known;
        }
        let steps = self.steps(set);
        let next = steps.iter().filter_map(|at| self.pattern.take(*at, c)).collect();
        budget.spend(steps.len());
        let next = self.settle(next, budget);
        self.moves.insert((set, c), next);
        next
    }

    pub(super) fn ends(&self, set: SetId) -> bool {
        self.sets.get(set as usize).is_some_and(|set| set.ends)
    }

    /// Whether whatever is shared in `set` is also shared in `other`.
    pub(super) fn within(&self, set: SetId, other: SetId, budget: &mut Budget) -> bool {
        let (steps, others) = (self.steps(set), self.steps(other));
        budget.spend(others.len());
        let mut others = others.iter();
        steps.iter().all(|at| others.by_ref().any(|there| there == at))
    }

    fn steps(&self, set: SetId) -> &[u32] {
        self.sets.get(set as usize).map_or(&[], |set| &set.steps)
    }

    /// The set of these steps and of all that they lead to without a character.
    fn settle(&mut self, mut steps: Vec<u32>, budget: &mut Budget) -> Option<SetId> {
        let mut seen: HashSet<u32> = HashSet::new();
        steps.retain(|at| seen.insert(*at));
        let mut i = 0;
        while let Some(at) = steps.get(i).copied() {
            steps.extend(self.pattern.leads(at).into_iter().flatten().filter(|next| seen.insert(*next)));
            i += 1;
        }
        budget.spend(steps.len());
        if steps.iter().any(|at| self.pattern.takes_all(*at)) {
            return None;
        }
        steps.retain(|at| !self.pattern.only_leads(*at));
        steps.sort_unstable();
        Some(self.number(steps))
    }

    fn number(&mut self, steps: Vec<u32>) -> SetId {
        if let Some(id) = self.ids.get(&steps) {
            return *id;
        }
        let id = self.sets.len() as SetId;
        let ends = steps.iter().any(|at| self.pattern.step(*at) == Step::End);
        self.ids.insert(steps.clone(), id);
        self.sets.push(Set { steps, ends });
        id
    }
}
