//! The nodes nearest to a query.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pennon_core::Result;

use super::{Graph, Level};

/// A node and its distance.
#[derive(Debug, Clone, Copy)]
pub(in crate::vector) struct FoundNode {
    pub(in crate::vector) distance: f32,
    pub(in crate::vector) node: u32,
}

impl PartialEq for FoundNode {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
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

/// Distances of nodes from a query, all at once: one after another each would wait for its memory.
pub(in crate::vector) type FillDistances<'a> = dyn Fn(&[u32], &mut [f32]) -> Result<()> + 'a;

/// Candidates of a search for so many rows: `ef`, by default half as many more than the rows.
pub(in crate::vector) fn candidates(rows: usize, ef: Option<usize>) -> usize {
    ef.unwrap_or(rows.saturating_add(rows / 2)).max(rows)
}

/// Of the nodes that pass the `ef` nearest that the graph leads to, the nearest first.
pub(in crate::vector) fn search(
    graph: &Graph,
    ef: usize,
    fill: &FillDistances<'_>,
    passes: &dyn Fn(FoundNode) -> bool,
) -> Result<Vec<FoundNode>> {
    let Some(bottom) = graph.levels.first() else { return Ok(Vec::new()) };
    let mut visited = vec![0_u64; graph.len().div_ceil(64)];
    let mut candidates = BinaryHeap::new();
    let mut found = BinaryHeap::new();
    let mut compared = Compared { fill, nodes: Vec::new(), distances: Vec::new() };
    for start in starts(graph, &mut compared)? {
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
        let neighbors = bottom.neighbors(candidate.node).iter().copied();
        for neighbor in compared.compare(neighbors.filter(|node| visit(&mut visited, *node)))? {
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

/// Nodes that were compared with the query.
struct Compared<'a> {
    fill: &'a FillDistances<'a>,
    nodes: Vec<u32>,
    distances: Vec<f32>,
}

impl Compared<'_> {
    /// Compares nodes. Those without a distance are the farthest.
    fn compare(&mut self, nodes: impl Iterator<Item = u32>) -> Result<impl Iterator<Item = FoundNode>> {
        self.nodes.clear();
        self.nodes.extend(nodes);
        self.distances.resize(self.nodes.len(), f32::NAN);
        (self.fill)(&self.nodes, &mut self.distances)?;
        let found = self.nodes.iter().zip(&self.distances);
        // In the order of floats NaNs with a sign come first.
        let last = |distance: f32| if distance.is_nan() { f32::NAN } else { distance };
        Ok(found.map(move |(node, distance)| FoundNode { distance: last(*distance), node: *node }))
    }
}

/// Nodes of an upper level that a search compares with the query.
const SEEN: usize = 64;
/// Nodes that it begins with.
const STARTS: usize = 4;

/// Nodes of level 0 to begin with: from the entry, and from the nearest of a few nodes of an upper level, always to the
/// nearest of a level. Where vectors are in clusters, the entry alone may not lead to the right one.
fn starts(graph: &Graph, compared: &mut Compared<'_>) -> Result<Vec<FoundNode>> {
    let upper = graph.levels.get(1..).unwrap_or_default();
    // The entry leads to all nodes, those below it may not.
    let mut starts: Vec<FoundNode> = compared.compare([graph.entry].into_iter())?.collect();
    if let Some(mut from) = starts.first().copied() {
        for level in upper.iter().rev() {
            from = descend(level, from, compared)?;
        }
        starts.push(from);
    }
    // The highest level with enough nodes, else the lowest.
    let number = upper.iter().rposition(|level| level.len() >= SEEN).unwrap_or(0);
    let nodes = upper.get(number).and_then(|level| level.nodes.as_deref()).unwrap_or_default();
    let seen = nodes.iter().step_by(nodes.len().div_ceil(SEEN).max(1));
    let mut seen: Vec<FoundNode> = compared.compare(seen.copied())?.collect();
    seen.sort_unstable();
    for mut from in seen.into_iter().take(STARTS) {
        for level in upper.get(..=number).unwrap_or_default().iter().rev() {
            from = descend(level, from, compared)?;
        }
        starts.push(from);
    }
    Ok(starts)
}

/// The nearest node of a level that can be reached by going nearer and nearer.
fn descend(level: &Level, mut nearest: FoundNode, compared: &mut Compared<'_>) -> Result<FoundNode> {
    loop {
        let before = nearest;
        let neighbors = level.neighbors(before.node).iter().copied();
        nearest = compared.compare(neighbors)?.fold(nearest, FoundNode::min);
        if nearest == before {
            return Ok(nearest);
        }
    }
}

/// Marks a node; whether it was not marked before, and is one.
pub(super) fn visit(visited: &mut [u64], node: u32) -> bool {
    let Some(word) = visited.get_mut(node as usize / 64) else { return false };
    let bit = 1 << (node % 64);
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}
