//! What may keep a waiter from its task, and the ways in which each obstacle goes away.

/// Who waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asks {
    ById,
    Next,
}

/// On which terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// What the task declares, for an agent.
    Declared,
    /// Paths that the waiter asks for itself.
    OwnPaths,
    /// Shared with another that shares, too.
    Shared,
    /// By a person.
    Person,
}

/// Who holds what is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Agent,
    AgentBound,
    AgentResting,
    Person,
    PersonBound,
}

impl Holder {
    const ALL: [Holder; 5] =
        [Holder::Agent, Holder::AgentBound, Holder::AgentResting, Holder::Person, Holder::PersonBound];

    pub(crate) fn is_person(self) -> bool {
        matches!(self, Holder::Person | Holder::PersonBound)
    }

    pub(crate) fn is_bound(self) -> bool {
        !matches!(self, Holder::Agent | Holder::Person)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The task is held.
    Held(Holder),
    /// The task is kept for another.
    Kept,
    /// It is not to be worked on now: proposed, blocked, and so on.
    Proposed,
    Blocked,
    Review,
    Failed,
    Done,
    Dropped,
    /// It depends on another.
    Dependency,
    /// It has an unfinished part.
    Part,
    Scheduled,
    /// It needs a higher tier.
    Tier,
    /// Another task's lease has the paths.
    Paths(Holder),
}

/// How an obstacle goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Done,
    Dropped,
    Failed,
    Submitted,
    Blocked,
    HandedToWaiter,
    Reset,
    ReleasedByForce,
    TakenOverAndReleased,
    Killed,
    Ttl,
    MaxHold,
    ScopeRemoved,
    /// What the waiter's task declares was changed.
    ScopeEdited,
    TimedOut,
    ClaimedAndReleased,
    Accepted,
    Unblocked,
    Rejected,
    Retried,
    Reopened,
    Approved,
    DepRemoved,
    Moved,
    Unscheduled,
    TierLowered,
    ActorRaised,
}

impl End {
    /// Whether an agent does it, who cannot force its way past what else is there.
    fn is_an_agents(self) -> bool {
        self == End::ClaimedAndReleased
    }

    /// Whether it comes by itself, after a time.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, End::Ttl | End::MaxHold | End::TimedOut)
    }

    /// Whether it comes without a commit.
    pub(crate) fn is_silent(self) -> bool {
        self == End::Killed || self.is_time()
    }

    /// Whether the task whose holder does this cannot be claimed afterwards.
    pub(crate) fn leaves_it_unclaimable(self) -> bool {
        matches!(self, End::Done | End::Dropped | End::Failed | End::Submitted | End::Blocked)
    }
}

const OF_LEASES: [End; 13] = [
    End::Released,
    End::Done,
    End::Dropped,
    End::Failed,
    End::Submitted,
    End::Blocked,
    End::HandedToWaiter,
    End::Reset,
    End::ReleasedByForce,
    End::TakenOverAndReleased,
    End::Killed,
    End::Ttl,
    End::MaxHold,
];

impl Obstacle {
    fn all() -> Vec<Obstacle> {
        use Obstacle::*;
        let mut all: Vec<Obstacle> = Holder::ALL.map(Held).to_vec();
        all.extend([Kept, Proposed, Blocked, Review, Failed, Done, Dropped]);
        all.extend([Dependency, Part, Scheduled, Tier]);
        all.extend(Holder::ALL.map(Paths));
        all
    }

    /// Whether it keeps such a waiter waiting: a request that names the task is refused at once for what
    /// waiting cannot fix.
    pub(crate) fn hinders(self, asks: Asks) -> bool {
        asks == Asks::Next
            || matches!(
                self,
                Obstacle::Held(_)
                    | Obstacle::Kept
                    | Obstacle::Dependency
                    | Obstacle::Scheduled
                    | Obstacle::Paths(_)
            )
    }

    /// Whether a waiter that names the task can wait in spite of this.
    fn lets_wait(self, asks: Asks) -> bool {
        self.hinders(asks) || self == Obstacle::Part
    }

    /// Whether it is about the state of the task itself: a task has only one.
    pub(crate) fn is_state(self) -> bool {
        use Obstacle::*;
        matches!(self, Held(_) | Kept | Proposed | Blocked | Review | Failed | Done | Dropped)
    }

    /// The ways in which it goes away, so that the waiter learns of it.
    fn ends(self, asks: Asks) -> Vec<End> {
        let of_holder = |holder: Holder, end: &End| match end {
            End::Killed => holder.is_bound(),
            End::Ttl => matches!(holder, Holder::Agent | Holder::AgentResting),
            End::MaxHold => !holder.is_person(),
            _ => true,
        };
        match self {
            Obstacle::Held(holder) => {
                // What a person held is never handed out; what is finished is not handed out at all.
                let lapse = |end: &End| matches!(end, End::Killed | End::Ttl | End::MaxHold);
                let is_for_next =
                    |end: &End| !(end.leaves_it_unclaimable() || holder.is_person() && lapse(end));
                let ends = OF_LEASES.into_iter().filter(|end| of_holder(holder, end));
                ends.filter(|end| asks == Asks::ById || is_for_next(end)).collect()
            }
            Obstacle::Paths(holder) => {
                let of_leases = OF_LEASES.into_iter().filter(|end| of_holder(holder, end));
                of_leases.chain([End::ScopeRemoved, End::ScopeEdited]).collect()
            }
            // Not a reset: it ends claims, not assignments.
            Obstacle::Kept => vec![End::TimedOut, End::ClaimedAndReleased, End::HandedToWaiter],
            Obstacle::Proposed => vec![End::Accepted],
            Obstacle::Blocked => vec![End::Unblocked, End::Reset],
            Obstacle::Review => vec![End::Rejected, End::Reset],
            Obstacle::Failed => vec![End::Retried, End::Reset],
            Obstacle::Done => vec![End::Reopened, End::Reset],
            Obstacle::Dropped => vec![End::Reopened],
            Obstacle::Dependency => vec![End::Done, End::Approved, End::DepRemoved],
            Obstacle::Part => vec![End::Done, End::Dropped, End::Moved],
            Obstacle::Scheduled => vec![End::TimedOut, End::Unscheduled],
            Obstacle::Tier => vec![End::TierLowered, End::ActorRaised],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) asks: Asks,
    pub(crate) on: On,
    /// In the order in which they go.
    pub(crate) obstacles: Vec<(Obstacle, End)>,
}

/// All combinations.
pub(crate) fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for asks in [Asks::ById, Asks::Next] {
        let alone: Vec<(Obstacle, End)> = Obstacle::all()
            .into_iter()
            .filter(|obstacle| obstacle.lets_wait(asks))
            .flat_map(|obstacle| obstacle.ends(asks).into_iter().map(move |end| (obstacle, end)))
            .collect();
        for (obstacle, end) in alone.iter().copied().filter(|(obstacle, _)| obstacle.hinders(asks)) {
            for on in [On::Declared, On::OwnPaths, On::Shared, On::Person] {
                // The terms are about paths; and a scope that was not declared cannot be edited.
                let is_about_paths = matches!(obstacle, Obstacle::Paths(_));
                let fits = match on {
                    On::Declared | On::Person => true,
                    On::OwnPaths => is_about_paths && end != End::ScopeEdited,
                    On::Shared => is_about_paths,
                };
                if fits && !(on == On::Person && obstacle == Obstacle::Tier) {
                    cases.push(Case { asks, on, obstacles: vec![(obstacle, end)] });
                }
            }
        }
        for (first, first_end) in &alone {
            for (second, second_end) in &alone {
                let both = [(first, first_end), (second, second_end)];
                let is_one_state = both.iter().filter(|(obstacle, _)| obstacle.is_state()).count() < 2;
                let is_one_holder = !both.iter().all(|(obstacle, _)| matches!(obstacle, Obstacle::Paths(_)));
                let can_be_had =
                    !both.iter().any(|(obstacle, end)| obstacle.is_state() && end.leaves_it_unclaimable());
                // Nobody could claim the task in between while the other obstacle is there.
                let is_claimed_between = first.is_state()
                    && matches!(first_end, End::ClaimedAndReleased | End::TakenOverAndReleased);
                let can_go_first =
                    !is_claimed_between || !matches!(second, Obstacle::Paths(_)) && !first_end.is_an_agents();
                if first != second
                    && (is_one_state && is_one_holder && can_be_had && can_go_first)
                    && second.hinders(asks)
                {
                    let obstacles = vec![(*first, *first_end), (*second, *second_end)];
                    cases.push(Case { asks, on: On::Declared, obstacles });
                }
            }
        }
    }
    cases
}
