//! Cycles and paths in a graph. Edges come from a function, so that a store can look them up one by one.

pub mod analysis;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;

/// A shortest path from one node to another, both included. `next`: the successors of a node.
pub fn path<N: Copy + Ord, E>(
    from: N,
    to: N,
    mut next: impl FnMut(N) -> Result<Vec<N>, E>,
) -> Result<Option<Vec<N>>, E> {
    let mut came_from: BTreeMap<N, N> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        if node == to {
            let mut way = vec![node];
            let mut at = node;
            while at != from
                && let Some(before) = came_from.get(&at)
            {
                at = *before;
                way.push(at);
            }
            way.reverse();
            return Ok(Some(way));
        }
        for other in next(node)? {
            if other != from && !came_from.contains_key(&other) {
                came_from.insert(other, node);
                queue.push_back(other);
            }
        }
    }
    Ok(None)
}

/// The nodes of some cycle, in order, if there is one. `edges[n]`: the successors of node n.
pub fn cycle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let Ok(found) = cycle_from(0..edges.len(), |node| Ok::<_, Infallible>(edges[node].clone()));
    found
}

/// The nodes of some cycle that can be reached from these, in order, if there is one. `next`: the successors of a node; called
/// once for each.
pub fn cycle_from<N: Copy + Ord, E>(
    starts: impl IntoIterator<Item = N>,
    mut next: impl FnMut(N) -> Result<Vec<N>, E>,
) -> Result<Option<Vec<N>>, E> {
    let mut seen: BTreeSet<N> = BTreeSet::new();
    // The nodes on the path from a start, each with the successors that are left to try; and the same as a set.
    let mut way: Vec<(N, Vec<N>)> = Vec::new();
    let mut on_it: BTreeSet<N> = BTreeSet::new();
    for start in starts {
        if seen.insert(start) {
            on_it.insert(start);
            way.push((start, next(start)?));
        }
        while let Some((node, left)) = way.last_mut() {
            let Some(to) = left.pop() else {
                on_it.remove(node);
                way.pop();
                continue;
            };
            if on_it.contains(&to) {
                return Ok(Some(
                    way.into_iter().map(|(node, _)| node).skip_while(|node| *node != to).collect(),
                ));
            }
            if seen.insert(to) {
                on_it.insert(to);
                way.push((to, next(to)?));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1_usize..12).prop_flat_map(|n| proptest::collection::vec(proptest::collection::vec(0..n, 0..3), n))
    }

    /// Whether a node can be reached in one step or more.
    fn reaches(edges: &[Vec<usize>], from: usize, to: usize) -> bool {
        let mut seen = vec![false; edges.len()];
        let mut stack = edges[from].clone();
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            if !std::mem::replace(&mut seen[node], true) {
                stack.extend(&edges[node]);
            }
        }
        false
    }

    proptest! {
        #[test]
        fn a_circle_is_found_exactly_when_some_node_reaches_itself(edges in graph()) {
            let exists = (0..edges.len()).any(|node| reaches(&edges, node, node));
            let found = cycle(&edges);
            prop_assert_eq!(found.is_some(), exists);
            if let Some(nodes) = found {
                for (i, node) in nodes.iter().enumerate() {
                    prop_assert!(edges[*node].contains(&nodes[(i + 1) % nodes.len()]), "{:?}", nodes);
                }
            }
        }

        #[test]
        fn a_circle_is_found_from_where_it_can_be_reached(
            edges in graph(), starts in proptest::collection::vec(0_usize..12, 0..3)
        ) {
            let starts: Vec<usize> = starts.into_iter().map(|node| node % edges.len()).collect();
            let exists = (0..edges.len()).any(|node| reaches(&edges, node, node)
                && starts.iter().any(|start| *start == node || reaches(&edges, *start, node)));
            let found = cycle_from(starts, |node| Ok::<_, Infallible>(edges[node].clone())).unwrap();
            prop_assert_eq!(found.is_some(), exists);
            if let Some(nodes) = found {
                for (i, node) in nodes.iter().enumerate() {
                    prop_assert!(edges[*node].contains(&nodes[(i + 1) % nodes.len()]), "{:?}", nodes);
                }
            }
        }

        #[test]
        fn a_path_is_found_exactly_when_there_is_one_and_follows_the_edges(
            edges in graph(), from in 0_usize..12, to in 0_usize..12
        ) {
            let (from, to) = (from % edges.len(), to % edges.len());
            let found = path(from, to, |node| Ok::<_, Infallible>(edges[node].clone())).unwrap();
            prop_assert_eq!(found.is_some(), from == to || reaches(&edges, from, to));
            if let Some(way) = found {
                prop_assert_eq!((way[0], way[way.len() - 1]), (from, to));
                prop_assert!(way.windows(2).all(|step| edges[step[0]].contains(&step[1])));
            }
        }
    }
}
