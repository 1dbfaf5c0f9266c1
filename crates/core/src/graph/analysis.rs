//! What a graph of work reveals: an order, the longest chain, and the tasks that block the most others.
//!
//! Nodes are numbers; of two nodes that are otherwise equal, the lower one wins. `ahead[n]` are the nodes that wait for n
//! directly. Everything here is linear in nodes and edges (and sorting), except the bottlenecks: counting what depends on each
//! of many nodes is not linear, so that search has a budget.

use std::cmp::Reverse;

/// How many edges a search for bottlenecks may follow before it gives up being complete: about a second.
pub const BUDGET: usize = 50_000_000;

/// A topological order: every node after all those that it waits for. Nodes in a cycle, or behind one, are left out.
pub fn in_order(ahead: &[Vec<usize>]) -> Vec<usize> {
    let mut waits_for = vec![0_usize; ahead.len()];
    for to in ahead.iter().flatten() {
        waits_for[*to] += 1;
    }
    let mut order: Vec<usize> = (0..ahead.len()).filter(|node| waits_for[*node] == 0).collect();
    let mut next = 0;
    while let Some(node) = order.get(next).copied() {
        next += 1;
        for to in &ahead[node] {
            waits_for[*to] -= 1;
            if waits_for[*to] == 0 {
                order.push(*to);
            }
        }
    }
    order
}

/// The longest chain in which each node waits for the one before it. Of several, the one whose first node has the better
/// priority; if that is equal, the one whose rest is better.
pub fn longest_chain<P: Ord>(ahead: &[Vec<usize>], priority: impl Fn(usize) -> P) -> Vec<usize> {
    let order = in_order(ahead);
    let mut length = vec![0_usize; ahead.len()];
    for node in order.iter().rev() {
        length[*node] = 1 + ahead[*node].iter().map(|to| length[*to]).max().unwrap_or_default();
    }
    let longest = length.iter().copied().max().unwrap_or_default();
    let mut by_length = vec![Vec::new(); longest + 1];
    for node in order {
        by_length[length[node]].push(node);
    }
    // Chains of one length are compared by their first node, then by their rest, whose rank is already known.
    let mut place = vec![0_usize; ahead.len()];
    let mut follows = vec![None; ahead.len()];
    for level in by_length.iter_mut().skip(1) {
        for node in level.iter() {
            let on = ahead[*node].iter().copied().filter(|to| length[*to] + 1 == length[*node]);
            follows[*node] = on.min_by_key(|to| place[*to]);
        }
        level.sort_by_cached_key(|node| (priority(*node), follows[*node].map(|to: usize| place[to]), *node));
        for (at, node) in level.iter().enumerate() {
            place[*node] = at;
        }
    }
    let mut chain = Vec::with_capacity(longest);
    let mut at = by_length.last().filter(|_| longest > 0).and_then(|level| level.first().copied());
    while let Some(node) = at {
        chain.push(node);
        at = follows[node];
    }
    chain
}

/// The nodes that hold up the most others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bottlenecks {
    /// Nodes, and how many others wait for each, directly or indirectly; the most first. Every number is exact.
    pub most: Vec<(usize, usize)>,
    /// Whether no other node holds up more than these: false if the budget ran out before all others were ruled out.
    pub complete: bool,
}

/// The `count` nodes for which the most others wait, directly or indirectly. Follows at most `budget` edges.
///
/// The number of nodes that wait for a node is bounded by the number of nodes after it in a topological order, and by the sum
/// over its successors. Nodes are counted by that bound, the highest first, until no other can reach the list any more. In
/// graphs that look like plans this counts a few dozen nodes; a dense one can use up the budget.
pub fn bottlenecks(ahead: &[Vec<usize>], count: usize, budget: usize) -> Bottlenecks {
    let order = in_order(ahead);
    let mut bound = vec![0_usize; ahead.len()];
    for (later, node) in order.iter().rev().enumerate() {
        let sum = ahead[*node].iter().fold(0_usize, |sum, to| sum.saturating_add(bound[*to] + 1));
        bound[*node] = sum.min(later);
    }
    let mut candidates: Vec<usize> = order.into_iter().filter(|node| bound[*node] > 0).collect();
    candidates.sort_by_key(|node| (Reverse(bound[*node]), *node));
    let mut found = Bottlenecks { most: Vec::new(), complete: true };
    let mut counter = Counter { seen_by: vec![usize::MAX; ahead.len()], left: budget };
    for node in candidates {
        let worst = found.most.last().filter(|_| found.most.len() >= count);
        if worst.is_some_and(|(other, behind)| (Reverse(bound[node]), node) > (Reverse(*behind), *other)) {
            break;
        }
        let Some(behind) = counter.behind(ahead, node) else {
            found.complete = false;
            break;
        };
        let at =
            found.most.partition_point(|(other, more)| (Reverse(*more), *other) < (Reverse(behind), node));
        found.most.insert(at, (node, behind));
        found.most.truncate(count);
    }
    found
}

struct Counter {
    /// For each node, the search that saw it last.
    seen_by: Vec<usize>,
    left: usize,
}

impl Counter {
    /// How many nodes can be reached from a node. None: the budget ran out.
    fn behind(&mut self, ahead: &[Vec<usize>], node: usize) -> Option<usize> {
        let (mut stack, mut behind) = (vec![node], 0);
        while let Some(at) = stack.pop() {
            self.left = self.left.checked_sub(ahead[at].len())?;
            for to in &ahead[at] {
                if std::mem::replace(&mut self.seen_by[*to], node) != node {
                    behind += 1;
                    stack.push(*to);
                }
            }
        }
        Some(behind)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    /// A graph without circles: edges lead from lower to higher places, and the places are shuffled.
    fn dag() -> impl Strategy<Value = (Vec<Vec<usize>>, Vec<u8>)> {
        (1_usize..11).prop_flat_map(|n| {
            let shuffled = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
            let edges = proptest::collection::vec((0..n, 0..n), 0..n * 2);
            (shuffled, edges, proptest::collection::vec(0..3_u8, n)).prop_map(
                move |(place, edges, priority)| {
                    let mut ahead = vec![Vec::new(); n];
                    for (a, b) in edges {
                        if a != b {
                            ahead[place[a.min(b)]].push(place[a.max(b)]);
                        }
                    }
                    (ahead, priority)
                },
            )
        })
    }

    fn chains(ahead: &[Vec<usize>], from: usize) -> Vec<Vec<usize>> {
        let mut all = vec![vec![from]];
        for to in &ahead[from] {
            all.extend(chains(ahead, *to).into_iter().map(|rest| [vec![from], rest].concat()));
        }
        all
    }

    /// The longer first, then the better first node, then what follows, then the lower number.
    fn better(a: &[usize], b: &[usize], priority: &[u8]) -> Ordering {
        let length = b.len().cmp(&a.len());
        match (a, b) {
            ([first, rest @ ..], [other, others @ ..]) => length
                .then_with(|| priority[*first].cmp(&priority[*other]))
                .then_with(|| better(rest, others, priority))
                .then_with(|| first.cmp(other)),
            _ => length,
        }
    }

    fn behind(ahead: &[Vec<usize>], node: usize) -> usize {
        let reached: std::collections::BTreeSet<usize> =
            chains(ahead, node).into_iter().flatten().filter(|other| *other != node).collect();
        reached.len()
    }

    proptest! {
        #[test]
        fn an_order_puts_every_node_after_what_it_waits_for((ahead, _) in dag()) {
            let order = in_order(&ahead);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..ahead.len()).collect::<Vec<_>>());
            let at = |node: usize| order.iter().position(|other| *other == node);
            for (from, to) in ahead.iter().enumerate().flat_map(|(n, to)| to.iter().map(move |to| (n, *to))) {
                prop_assert!(at(from) < at(to));
            }
        }

        #[test]
        fn the_longest_chain_is_the_best_of_all_chains((ahead, priority) in dag()) {
            let all = (0..ahead.len()).flat_map(|node| chains(&ahead, node));
            let best = all.min_by(|a, b| better(a, b, &priority)).unwrap();
            prop_assert_eq!(longest_chain(&ahead, |node| priority[node]), best);
        }

        #[test]
        fn bottlenecks_are_those_that_most_wait_for((ahead, _) in dag(), count in 1_usize..12) {
            let mut all: Vec<(usize, usize)> = (0..ahead.len()).map(|node| (node, behind(&ahead, node))).collect();
            all.retain(|(_, behind)| *behind > 0);
            all.sort_by_key(|(node, behind)| (Reverse(*behind), *node));
            all.truncate(count);
            prop_assert_eq!(bottlenecks(&ahead, count, BUDGET), Bottlenecks { most: all, complete: true });
        }

        #[test]
        fn a_search_without_budget_says_so_and_tells_nothing_wrong((ahead, _) in dag(), budget in 0_usize..6) {
            let found = bottlenecks(&ahead, 3, budget);
            for (node, count) in &found.most {
                prop_assert_eq!(behind(&ahead, *node), *count);
            }
            if !found.complete {
                prop_assert!(ahead.iter().map(Vec::len).sum::<usize>() > 0);
            }
        }
    }

    #[test]
    fn nothing_has_no_chain_and_no_bottleneck() {
        assert_eq!(longest_chain(&[], |_| 0), [0_usize; 0]);
        assert_eq!(bottlenecks(&[], 5, BUDGET), Bottlenecks { most: Vec::new(), complete: true });
    }

    /// 100,000 tasks that depend on three earlier ones each, and as many in one chain: seconds would mean quadratic.
    #[test]
    fn large_graphs_are_answered_within_the_budget() {
        let n = 100_000_usize;
        let mut seed = 7_u64;
        let mut dice = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % below
        };
        let mut wide = vec![Vec::new(); n];
        for node in 1..n {
            for _ in 0..3 {
                wide[dice(node)].push(node);
            }
        }
        let chain: Vec<Vec<usize>> =
            (0..n).map(|node| if node + 1 < n { vec![node + 1] } else { vec![] }).collect();
        for ahead in [wide, chain] {
            assert_eq!(in_order(&ahead).len(), n);
            assert!(longest_chain(&ahead, |_| 0).len() > 20);
            let found = bottlenecks(&ahead, 10, BUDGET);
            assert_eq!((found.most.len(), found.complete), (10, true));
            assert!(found.most[0].1 > n / 2, "{found:?}");
        }
    }
}
