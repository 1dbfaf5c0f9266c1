//! Circles of waiting: holders that each wait for what the next one has, so that none of them makes progress.
//!
//! A holder waits for what it was last refused: a path that another's lease reserves, or a task that another holds or that
//! depends on one. All holders in a circle get the same message, with the same way out: who gives back what. No lease is taken
//! away; leases that lapse end a circle by themselves.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use crate::actor::{self, ActorName, InstanceId};
use crate::quote;
use crate::refusal::Step;
use crate::scope::Glob;
use crate::time::MINUTE_MS;
use crate::transition::Verb;

/// How long a refusal counts as a wait. After that the instance has probably found another way.
pub const WISH_MS: i64 = 60 * MINUTE_MS;

/// The longest circle that is searched for, and how many holders a search visits.
pub const MAX_LENGTH: usize = 8;
pub const MAX_HOLDERS: usize = 64;

/// An instance that holds something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub actor: ActorName,
    pub instance: InstanceId,
}

impl Holder {
    /// The holder, worded for a sentence.
    pub fn spoken(&self) -> String {
        actor::spoken(self.actor.as_str(), self.instance.as_str())
    }
}

/// One holder that waits for what another has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The one that waits.
    pub who: Holder,
    /// When it was refused.
    pub at_ms: i64,
    /// The one that has what `who` waits for.
    pub holder: Holder,
    /// The id of the task that `holder` holds.
    pub task: String,
    /// Whether that task was opened for edits that belonged to no task.
    pub ad_hoc: bool,
    /// The path that `who` waits for, and the glob of the holder's lease that has it. None: the task itself.
    pub path: Option<(String, Glob)>,
    /// The task that `who` wants, if that one depends on `task`.
    pub through: Option<String>,
}

impl Wait {
    fn spoken(&self) -> String {
        let (who, task, holder) = (self.who.spoken(), &self.task, self.holder.spoken());
        match (&self.path, &self.through) {
            (Some((path, _)), _) => {
                format!("{who} waits for {}, which {task} of {holder} reserves", quote::name(path))
            }
            (None, Some(wanted)) => {
                format!("{who} waits for {wanted}, which waits for {task} of {holder}")
            }
            (None, None) => format!("{who} waits for {task} of {holder}"),
        }
    }

    /// What the holder can do to end the wait.
    fn giving_back(&self) -> Step {
        match &self.path {
            Some((_, glob)) => Step::GiveBack { task: self.task.clone(), glob: glob.clone() },
            None => Step::verb(Verb::Release, &self.task),
        }
    }
}

/// A circle: each holder waits for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle(Vec<Wait>);

impl Circle {
    pub fn waits(&self) -> &[Wait] {
        &self.0
    }

    /// When the circle closed, with the last refusal.
    pub fn closed_at_ms(&self) -> i64 {
        self.0.iter().map(|wait| wait.at_ms).max().unwrap_or_default()
    }

    /// The wait that should end, because its holder gives back what it has: ad-hoc work yields to planned work; otherwise the
    /// holder that was refused last yields, since its work is the youngest. Every observer gets the same answer.
    fn way_out(&self) -> Option<&Wait> {
        let refused_at =
            |holder: &Holder| self.0.iter().find(|wait| wait.who == *holder).map(|wait| wait.at_ms);
        self.0.iter().max_by_key(|wait| (wait.ad_hoc, refused_at(&wait.holder), wait.holder.clone()))
    }

    /// Words who waits for whom, and who should give back what, for everybody in the circle.
    pub fn message(&self) -> String {
        let waits: Vec<String> = self.0.iter().map(Wait::spoken).collect();
        let way_out = self.way_out().map(|wait| {
            let what = match &wait.path {
                Some((path, _)) => quote::name(path).to_string(),
                None => wait.task.clone(),
            };
            format!("; to resolve it, {} should give back {what}", wait.holder.spoken())
        });
        format!("deadlock: {}{}", waits.join("; "), way_out.unwrap_or_default())
    }

    /// What this holder can do about it: give back what it has, or look at the task that has to.
    pub fn step_for(&self, holder: &Holder) -> Option<Step> {
        let wait = self.way_out()?;
        if wait.holder == *holder { Some(wait.giving_back()) } else { Some(Step::why(&wait.task)) }
    }
}

/// The shortest circle through one holder. `waits_of`: the waits of a holder.
pub fn circle_of<E>(
    start: &Holder,
    mut waits_of: impl FnMut(&Holder) -> Result<Vec<Wait>, E>,
) -> Result<Option<Circle>, E> {
    let mut came_by: BTreeMap<Holder, Wait> = BTreeMap::new();
    let mut queue = VecDeque::from([(start.clone(), 0)]);
    let mut looked_at = 0;
    while let Some((holder, length)) = queue.pop_front() {
        looked_at += 1;
        if length >= MAX_LENGTH || looked_at > MAX_HOLDERS {
            continue;
        }
        for wait in waits_of(&holder)? {
            if wait.holder == *start {
                let mut waits = vec![wait];
                while let Some(before) = waits.last().and_then(|wait| came_by.get(&wait.who)) {
                    waits.push(before.clone());
                }
                waits.reverse();
                return Ok(Some(Circle(waits)));
            }
            if !came_by.contains_key(&wait.holder) {
                queue.push_back((wait.holder.clone(), length + 1));
                came_by.insert(wait.holder.clone(), wait);
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holder(n: usize) -> Holder {
        Holder { actor: format!("agent:a{n}").parse().unwrap(), instance: format!("{n}").parse().unwrap() }
    }

    fn wait(from: usize, to: usize, ad_hoc: bool) -> Wait {
        Wait {
            who: holder(from),
            at_ms: i64::try_from(from).unwrap(),
            holder: holder(to),
            task: format!("ON-{to}"),
            ad_hoc,
            path: Some((format!("p{to}"), Glob::literal(&format!("p{to}")).unwrap())),
            through: None,
        }
    }

    fn found(edges: &[Vec<usize>], start: usize) -> Option<Circle> {
        let waits = |who: &Holder| -> Result<Vec<Wait>, ()> {
            let from: usize = who.instance.as_str().parse().unwrap();
            Ok(edges[from].iter().map(|to| wait(from, *to, false)).collect())
        };
        circle_of(&holder(start), waits).unwrap()
    }

    /// The least number of steps from a node back to itself.
    fn shortest(edges: &[Vec<usize>], start: usize) -> Option<usize> {
        let mut reached: Vec<usize> = edges[start].clone();
        for length in 1..=edges.len() {
            if reached.contains(&start) {
                return Some(length);
            }
            reached = reached.iter().flat_map(|node| edges[*node].clone()).collect();
            reached.sort_unstable();
            reached.dedup();
        }
        None
    }

    proptest! {
        #[test]
        fn a_circle_is_found_if_there_is_one_and_is_one(
            edges in (2_usize..9).prop_flat_map(|n| prop::collection::vec(prop::collection::vec(0..n, 0..3), n)),
            start in 0_usize..2,
        ) {
            let edges: Vec<Vec<usize>> = edges
                .into_iter()
                .enumerate()
                .map(|(from, to)| to.into_iter().filter(|to| *to != from).collect())
                .collect();
            let circle = found(&edges, start);
            let expected = shortest(&edges, start).filter(|length| *length <= MAX_LENGTH);
            prop_assert_eq!(circle.as_ref().map(|circle| circle.waits().len()), expected);
            if let Some(circle) = circle {
                let waits = circle.waits();
                prop_assert_eq!(&waits[0].who, &holder(start));
                for (at, wait) in waits.iter().enumerate() {
                    prop_assert_eq!(&wait.holder, &waits[(at + 1) % waits.len()].who);
                }
            }
        }

        /// Wherever the circle is entered, the way out is the same, and concerns exactly one holder.
        #[test]
        fn all_are_told_the_same_way_out(n in 2_usize..8, ad_hoc in prop::collection::vec(any::<bool>(), 8)) {
            let circle = |start: usize| {
                Circle((0..n).map(|at| (start + at) % n).map(|at| wait(at, (at + 1) % n, ad_hoc[at])).collect())
            };
            let first = circle(0);
            let out = first.way_out().unwrap().clone();
            prop_assert_eq!(out.ad_hoc, ad_hoc[..n].contains(&true));
            for start in 0..n {
                prop_assert_eq!(circle(start).way_out().cloned(), Some(out.clone()));
            }
            let gives = (0..n).filter(|at| matches!(first.step_for(&holder(*at)), Some(Step::GiveBack { .. })));
            prop_assert_eq!(gives.count(), 1);
        }
    }

    #[test]
    fn whoever_was_refused_last_gives_back() {
        let circle = found(&[vec![1], vec![2], vec![0]], 0).unwrap();
        assert_eq!(circle.way_out().unwrap().holder, holder(2));
        assert_eq!(circle.closed_at_ms(), 2);
        let message = circle.message();
        assert!(
            message.contains("agent:a0 (0) waits for p1, which ON-1 of agent:a1 (1) reserves"),
            "{message}"
        );
        assert!(message.ends_with("to resolve it, agent:a2 (2) should give back p2"), "{message}");
    }

    #[test]
    fn a_long_way_round_is_not_walked() {
        let far: Vec<Vec<usize>> = (0..20).map(|at| vec![(at + 1) % 20]).collect();
        assert_eq!(found(&far, 0), None);
        let wide: Vec<Vec<usize>> =
            std::iter::once((1..200).collect()).chain((1..200).map(|_| vec![])).collect();
        assert_eq!(found(&wide, 0), None);
    }
}
