//! A graph of vectors, which are inserted one after another by several threads.
//!
//! How high a node reaches is drawn before, so the highest node is inserted first and stays the entry. With one thread the
//! same vectors give the same graph.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{iter, mem, slice, thread};

use super::search::FoundNode;
use super::{Graph, Level};
use crate::vector::random::Random;

/// How graphs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphOptions {
    /// Neighbors of a node; twice as many on level 0.
    pub m: u32,
    /// Candidates for neighbors.
    pub ef_construction: u32,
    /// Levels at most.
    pub max_level: u32,
}

impl GraphOptions {
    /// The most neighbors of a node of level 0.
    pub(in crate::vector) fn degree(&self) -> u32 {
        self.m.saturating_mul(2)
    }
}

impl Default for GraphOptions {
    /// 20 neighbors, 150 candidates, 7 levels: those of the reference.
    fn default() -> Self {
        Self { m: 20, ef_construction: 150, max_level: 7 }
    }
}

/// The vectors of a graph.
pub(in crate::vector) trait NodeDistances: Sync {
    /// The distances of nodes from one, all at once: one after another each would wait for its memory.
    fn fill(&self, from: u32, nodes: &[u32], to: &mut [f32]);

    /// The distance of two nodes.
    fn between(&self, a: u32, b: u32) -> f32 {
        let mut distance = f32::NAN;
        self.fill(a, &[b], slice::from_mut(&mut distance));
        distance
    }

    /// Whether searches compare by these distances, too: then the nearest nodes are the ones to lead to.
    fn are_those_of_searches(&self) -> bool;
}

/// A graph of so many vectors, more than none.
pub(in crate::vector) fn build<D: NodeDistances>(
    count: u32,
    options: GraphOptions,
    threads: usize,
    distances: D,
) -> Graph {
    let heights = heights(count, options);
    let entry =
        (0..count).max_by_key(|node| (heights.get(*node as usize).copied(), Reverse(*node))).unwrap_or(0);
    let building = Building {
        bottom: heights.iter().map(|_| Links::default()).collect(),
        upper: heights.iter().map(|height| (0..*height).map(|_| Links::default()).collect()).collect(),
        entry,
        m: options.m.max(2) as usize,
        ef: options.ef_construction.max(1) as usize,
        distances,
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut search = SearchMemory::of(count);
        loop {
            let Ok(node) = u32::try_from(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if node >= count {
                return;
            }
            if node != entry {
                building.insert(node, &mut search);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    building.connect();
    building.into_graph()
}

/// The highest level of each node: fewer on each by a factor of `m`.
fn heights(count: u32, options: GraphOptions) -> Vec<usize> {
    let mut random = Random::new(u64::from(count));
    let scale = 1.0 / f64::from(options.m.max(2)).ln();
    let highest = options.max_level.max(1) as usize - 1;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let mut height = || ((-(1.0 - random.unit()).ln() * scale) as usize).min(highest);
    (0..count).map(|_| height()).collect()
}

/// The neighbors of a node on a level.
type Links = Mutex<Vec<FoundNode>>;

/// A graph that is being built.
struct Building<D> {
    /// Of each node on level 0.
    bottom: Vec<Links>,
    /// Of each node on each of its other levels.
    upper: Vec<Vec<Links>>,
    entry: u32,
    m: usize,
    ef: usize,
    distances: D,
}

/// What a search needs memory for.
struct SearchMemory {
    /// Of each node the last search that saw it.
    seen_by: Vec<u32>,
    number: u32,
    nodes: Vec<u32>,
    distances: Vec<f32>,
}

impl<D: NodeDistances> Building<D> {
    fn insert(&self, node: u32, search: &mut SearchMemory) {
        let height = self.height(node);
        let entry = FoundNode { distance: self.distances.between(node, self.entry), node: self.entry };
        let mut nearest = vec![entry];
        for level in (0..=self.height(self.entry)).rev() {
            let ef = if level > height { 1 } else { self.ef };
            nearest = self.search(node, nearest, level, ef, search);
            if level <= height {
                // In dense regions, as those of pixels of photographs, few lead apart, and nodes would hardly be reached.
                let least = if self.distances.are_those_of_searches() { self.m } else { 0 };
                let chosen = self.choose(&nearest, self.m, least);
                for neighbor in &chosen {
                    self.link(neighbor.node, FoundNode { distance: neighbor.distance, node }, level);
                }
                // Others may have found it on this level already.
                for neighbor in chosen {
                    self.link(node, neighbor, level);
                }
            }
        }
    }

    /// The highest level of a node.
    fn height(&self, node: u32) -> usize {
        self.upper.get(node as usize).map_or(0, Vec::len)
    }

    fn links(&self, node: u32, level: usize) -> Option<MutexGuard<'_, Vec<FoundNode>>> {
        let links = match level.checked_sub(1) {
            None => self.bottom.get(node as usize),
            Some(level) => self.upper.get(node as usize).and_then(|levels| levels.get(level)),
        };
        links.map(|links| links.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The nodes of a level nearest to another one, from some on.
    fn search(
        &self,
        to: u32,
        from: Vec<FoundNode>,
        level: usize,
        ef: usize,
        search: &mut SearchMemory,
    ) -> Vec<FoundNode> {
        search.begin();
        let mut candidates = BinaryHeap::new();
        let mut found = BinaryHeap::new();
        for start in from {
            search.is_new(start.node);
            candidates.push(Reverse(start));
            found.push(start);
        }
        search.is_new(to);
        while found.len() > ef {
            found.pop();
        }
        while let Some(Reverse(candidate)) = candidates.pop() {
            if found.len() >= ef && found.peek().is_some_and(|farthest| candidate > *farthest) {
                break;
            }
            let mut nodes = mem::take(&mut search.nodes);
            nodes.clear();
            if let Some(links) = self.links(candidate.node, level) {
                nodes.extend(links.iter().map(|found| found.node));
            }
            nodes.retain(|node| search.is_new(*node));
            search.distances.resize(nodes.len(), f32::NAN);
            self.distances.fill(to, &nodes, &mut search.distances);
            for (node, distance) in nodes.iter().zip(&search.distances) {
                let neighbor = FoundNode { distance: *distance, node: *node };
                if found.len() < ef || found.peek().is_some_and(|farthest| neighbor < *farthest) {
                    candidates.push(Reverse(neighbor));
                    found.push(neighbor);
                    if found.len() > ef {
                        found.pop();
                    }
                }
            }
            search.nodes = nodes;
        }
        found.into_sorted_vec()
    }

    /// At most so many of the candidates, which are sorted: those that are not nearer to a chosen one, so that they lead in all
    /// directions and out of clusters. Of few such, the nearest others are taken as well, until there are `least`.
    fn choose(&self, candidates: &[FoundNode], count: usize, least: usize) -> Vec<FoundNode> {
        let mut chosen: Vec<FoundNode> = Vec::with_capacity(count);
        let mut others: Vec<FoundNode> = Vec::new();
        for candidate in candidates {
            if chosen.len() == count {
                break;
            }
            let is_apart =
                |other: &FoundNode| self.distances.between(candidate.node, other.node) >= candidate.distance;
            if chosen.iter().all(is_apart) {
                chosen.push(*candidate);
            } else if others.len() < least {
                others.push(*candidate);
            }
        }
        let missing = least.saturating_sub(chosen.len());
        chosen.extend(others.into_iter().take(missing));
        chosen
    }

    /// Leads from a node to another one; if that is too many, some are chosen.
    fn link(&self, from: u32, to: FoundNode, level: usize) {
        let Some(mut links) = self.links(from, level) else { return };
        if from == to.node || links.iter().any(|found| found.node == to.node) {
            return;
        }
        links.push(to);
        let most = if level == 0 { 2 * self.m } else { self.m };
        if links.len() > most {
            links.sort_unstable();
            *links = self.choose(&links, most, 0);
        }
    }

    /// Leads to every node: what the entry does not lead to gets a link from one of its neighbors.
    fn connect(&self) {
        let mut is_reached = vec![false; self.bottom.len()];
        self.reach(self.entry, &mut is_reached);
        let mut last = self.entry;
        for node in (0_u32..).take(self.bottom.len()) {
            if is_reached.get(node as usize).copied().unwrap_or(true) {
                continue;
            }
            let neighbors: Vec<u32> =
                self.links(node, 0).iter().flat_map(|links| links.iter().map(|found| found.node)).collect();
            let is_free = |other: &u32| {
                let count = self.links(*other, 0).map_or(usize::MAX, |links| links.len());
                is_reached.get(*other as usize).copied().unwrap_or(false) && count < 2 * self.m
            };
            let from = neighbors.into_iter().chain([last]).find(is_free).unwrap_or(self.entry);
            let to = FoundNode { distance: self.distances.between(from, node), node };
            if let Some(mut links) = self.links(from, 0) {
                links.push(to);
            }
            self.reach(node, &mut is_reached);
            last = node;
        }
    }

    /// Marks what a node leads to on level 0.
    fn reach(&self, node: u32, is_reached: &mut [bool]) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            let Some(mark) = is_reached.get_mut(node as usize).filter(|mark| !**mark) else { continue };
            *mark = true;
            if let Some(links) = self.links(node, 0) {
                open.extend(links.iter().map(|found| found.node));
            }
        }
    }

    fn into_graph(self) -> Graph {
        let count = self.height(self.entry) + 1;
        let mut levels: Vec<Level> = (0..count).map(|_| Level::default()).collect();
        for (node, (bottom, upper)) in (0_u32..).zip(self.bottom.into_iter().zip(self.upper)) {
            let of_node = iter::once(bottom).chain(upper);
            for ((number, level), links) in levels.iter_mut().enumerate().zip(of_node) {
                let mut links = links.into_inner().unwrap_or_else(PoisonError::into_inner);
                links.sort_unstable();
                if number > 0 {
                    level.nodes.get_or_insert_default().push(node);
                }
                level.neighbors.extend(links.iter().map(|found| found.node));
                level.ends.push(level.neighbors.len());
            }
        }
        Graph { entry: self.entry, levels }
    }
}

impl SearchMemory {
    fn of(count: u32) -> Self {
        Self { seen_by: vec![0; count as usize], number: 0, nodes: Vec::new(), distances: Vec::new() }
    }

    fn begin(&mut self) {
        if self.number == u32::MAX {
            self.seen_by.fill(0);
            self.number = 0;
        }
        self.number += 1;
    }

    /// Whether this search has not seen a node; now it has.
    fn is_new(&mut self, node: u32) -> bool {
        match self.seen_by.get_mut(node as usize) {
            Some(seen_by) if *seen_by != self.number => {
                *seen_by = self.number;
                true
            }
            _ => false,
        }
    }
}
