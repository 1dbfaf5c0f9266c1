//! A limit on the steps of a search. The search counts its steps here and stops when there are too many; the caller checks
//! the budget before it trusts the result.

#[derive(Debug)]
pub(super) struct Budget {
    spent: u64,
    pub(super) limit: u64,
}

/// The budget is spent: there is no answer.
#[derive(Debug)]
pub(super) struct Exhausted;

impl Budget {
    pub(super) fn of(limit: u64) -> Budget {
        Budget { spent: 0, limit }
    }

    /// For one match, which is bounded by the lengths of glob and path.
    pub(super) fn unlimited() -> Budget {
        Budget::of(u64::MAX)
    }

    pub(super) fn spend(&mut self, steps: usize) {
        self.spent = self.spent.saturating_add(steps as u64);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent > self.limit
    }

    pub(super) fn check(&self) -> Result<(), Exhausted> {
        if self.is_spent() { Err(Exhausted) } else { Ok(()) }
    }
}
