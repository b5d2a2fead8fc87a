//! The nodes nearest to a query.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pennon_core::Result;

use super::{Graph, Level};

/// A node and its distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::vector) struct FoundNode {
    pub(in crate::vector) distance: f32,
    pub(in crate::vector) node: u32,
}

impl Eq for FoundNode {}

impl Ord for FoundNode {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.distance.total_cmp(&other.distance).then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for FoundNode {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Of the nodes that pass the `ef` nearest that the graph leads to, the nearest first.
pub(in crate::vector) fn search(
    graph: &Graph,
    ef: usize,
    distance: &dyn Fn(u32) -> Result<f32>,
    passes: &dyn Fn(FoundNode) -> bool,
) -> Result<Vec<FoundNode>> {
    let Some(bottom) = graph.levels.first() else { return Ok(Vec::new()) };
    let mut visited = vec![0_u64; graph.len().div_ceil(64)];
    let mut candidates = BinaryHeap::new();
    let mut found = BinaryHeap::new();
    for start in starts(graph, distance)? {
        if visit(&mut visited, start.node) {
            candidates.push(Reverse(start));
            if passes(start) {
                found.push(start);
            }
        }
    }
    while let Some(Reverse(candidate)) = candidates.pop() {
        let is_full = found.len() >= ef;
        if is_full && found.peek().is_none_or(|farthest: &FoundNode| candidate.distance > farthest.distance) {
            break;
        }
        for neighbor in bottom.neighbors(candidate.node) {
            if !visit(&mut visited, *neighbor) {
                continue;
            }
            let neighbor = FoundNode { distance: distance(*neighbor)?, node: *neighbor };
            let is_among = found.len() < ef || found.peek().is_some_and(|farthest| neighbor < *farthest);
            if is_among {
                candidates.push(Reverse(neighbor));
                if passes(neighbor) {
                    found.push(neighbor);
                    if found.len() > ef {
                        found.pop();
                    }
                }
            }
        }
    }
    Ok(found.into_sorted_vec())
}

/// Nodes of an upper level that a search compares with the query.
const SEEN: usize = 64;
/// Nodes that it begins with.
const STARTS: usize = 4;

/// Nodes of level 0 to begin with: from the entry, and from the nearest of a few nodes of an upper level, always to the nearest
/// of a level. Where vectors are in clusters, the entry alone may not lead to the right one.
fn starts(graph: &Graph, distance: &dyn Fn(u32) -> Result<f32>) -> Result<Vec<FoundNode>> {
    let of_node = |node: u32| Ok(FoundNode { distance: distance(node)?, node });
    let upper = graph.levels.get(1..).unwrap_or_default();
    let entry = of_node(graph.entry)?;
    let mut from = entry;
    for level in upper.iter().rev() {
        from = descend(level, from, distance)?;
    }
    // The entry leads to all nodes, those below it may not.
    let mut starts = vec![entry, from];
    // The highest level with enough nodes, else the lowest.
    let number = upper.iter().rposition(|level| level.len() >= SEEN).unwrap_or(0);
    let nodes = upper.get(number).and_then(|level| level.nodes.as_deref()).unwrap_or_default();
    let seen = nodes.iter().step_by(nodes.len().div_ceil(SEEN).max(1));
    let mut seen = seen.map(|node| of_node(*node)).collect::<Result<Vec<_>>>()?;
    seen.sort_unstable();
    for mut from in seen.into_iter().take(STARTS) {
        for level in upper.get(..=number).unwrap_or_default().iter().rev() {
            from = descend(level, from, distance)?;
        }
        starts.push(from);
    }
    Ok(starts)
}

/// The nearest node of a level that can be reached by going nearer and nearer.
fn descend(
    level: &Level,
    mut nearest: FoundNode,
    distance: &dyn Fn(u32) -> Result<f32>,
) -> Result<FoundNode> {
    loop {
        let before = nearest;
        for neighbor in level.neighbors(before.node) {
            let neighbor = FoundNode { distance: distance(*neighbor)?, node: *neighbor };
            if neighbor < nearest {
                nearest = neighbor;
            }
        }
        if nearest == before {
            return Ok(nearest);
        }
    }
}

/// Marks a node; whether it was not marked before, and is one.
fn visit(visited: &mut [u64], node: u32) -> bool {
    let Some(word) = visited.get_mut(node as usize / 64) else { return false };
    let bit = 1 << (node % 64);
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}
