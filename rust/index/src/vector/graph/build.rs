//! A graph of vectors, which are inserted one after another by several threads.
//!
//! How high a node reaches is drawn before, so the highest node is inserted first and stays the entry. With one thread the
//! same vectors give the same graph.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, mem, slice, thread};

use super::links::Links;
use super::search::{FoundNode, visit};
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
    /// Neighbors of a node of level 0, with few exceptions at most.
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
    let m = options.m.max(2) as usize;
    let mut starts = vec![0];
    let mut end = 0;
    starts.extend(heights.iter().map(|height| {
        end += height;
        end
    }));
    let building = Building {
        bottom: Links::new(heights.len(), 2 * m),
        upper: Links::new(end, m),
        starts,
        entry,
        m,
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
    let extra = building.connect();
    building.into_graph(&extra)
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

/// Links of level 0 that come last, by the node that they lead from.
type ExtraLinks = HashMap<u32, Vec<FoundNode>>;

/// A graph that is being built.
struct Building<D> {
    /// Of each node on level 0.
    bottom: Links,
    /// Of each node on each of its other levels.
    upper: Links,
    /// Of each node the slot of its first other level, then the end of all.
    starts: Vec<usize>,
    entry: u32,
    m: usize,
    ef: usize,
    distances: D,
}

/// What a search needs memory for.
struct SearchMemory {
    /// A bit for each node that this search has seen.
    seen: Vec<u64>,
    /// The words with such bits.
    words: Vec<usize>,
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

    /// The slots of a node on levels above level 0, the lowest first.
    fn upper_slots(&self, node: u32) -> Range<usize> {
        let at = node as usize;
        self.starts.get(at).zip(self.starts.get(at + 1)).map_or(0..0, |(start, end)| *start..*end)
    }

    /// The highest level of a node.
    fn height(&self, node: u32) -> usize {
        self.upper_slots(node).len()
    }

    /// Where the neighbors of a node on one of its levels are.
    fn links(&self, node: u32, level: usize) -> Option<(&Links, usize)> {
        match level.checked_sub(1) {
            None => Some((&self.bottom, node as usize)),
            Some(above) => self.upper_slots(node).nth(above).map(|slot| (&self.upper, slot)),
        }
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
            if let Some((links, slot)) = self.links(candidate.node, level) {
                links.read(slot, &mut nodes);
            }
            nodes.retain(|node| search.is_new(*node));
            // The nearest candidate now may be the next one.
            let next = candidates.peek().and_then(|Reverse(next)| self.links(next.node, level));
            if let Some((links, slot)) = next {
                links.prefetch(slot);
            }
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

    /// At most so many of the candidates, which are sorted: those that are not nearer to a chosen one, so that they
    /// lead in all directions and out of clusters. Of few such, the nearest others are taken as well, until there are
    /// `least`.
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
        let Some((links, slot)) = self.links(from, level).filter(|_| from != to.node) else { return };
        links.add(slot, to, |all, most| self.choose(all, most, 0));
    }

    /// Links by which the entry leads to every node: what it does not lead to gets one from a neighbor.
    fn connect(&self) -> ExtraLinks {
        let count = self.starts.len().saturating_sub(1);
        let (mut extra, mut is_reached) = (ExtraLinks::new(), vec![false; count]);
        self.reach(self.entry, &extra, &mut is_reached);
        let mut last = self.entry;
        for node in (0_u32..).take(count) {
            if is_reached.get(node as usize).copied().unwrap_or(true) {
                continue;
            }
            let is_free = |other: &u32| {
                is_reached.get(*other as usize).copied().unwrap_or(false)
                    && self.neighbors(*other, &extra).len() < 2 * self.m
            };
            let neighbors = self.neighbors(node, &extra).into_iter().map(|found| found.node);
            let from = neighbors.chain([last]).find(is_free).unwrap_or(self.entry);
            let to = FoundNode { distance: self.distances.between(from, node), node };
            extra.entry(from).or_default().push(to);
            self.reach(node, &extra, &mut is_reached);
            last = node;
        }
        extra
    }

    /// The neighbors of a node on level 0.
    fn neighbors(&self, node: u32, extra: &ExtraLinks) -> Vec<FoundNode> {
        let mut found = self.bottom.found(node as usize);
        found.extend(extra.get(&node).into_iter().flatten());
        found
    }

    /// Marks what a node leads to on level 0.
    fn reach(&self, node: u32, extra: &ExtraLinks, is_reached: &mut [bool]) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            let Some(mark) = is_reached.get_mut(node as usize).filter(|mark| !**mark) else { continue };
            *mark = true;
            self.bottom.read(node as usize, &mut open);
            open.extend(extra.get(&node).into_iter().flatten().map(|found| found.node));
        }
    }

    fn into_graph(self, extra: &ExtraLinks) -> Graph {
        let count = self.height(self.entry) + 1;
        let mut levels: Vec<Level> = (0..count).map(|_| Level::default()).collect();
        for node in (0_u32..).take(self.starts.len().saturating_sub(1)) {
            let upper = self.upper_slots(node).map(|slot| self.upper.found(slot));
            let of_node = iter::once(self.neighbors(node, extra)).chain(upper);
            for ((number, level), mut links) in levels.iter_mut().enumerate().zip(of_node) {
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
        let seen = vec![0; count.div_ceil(64) as usize];
        Self { seen, words: Vec::new(), nodes: Vec::new(), distances: Vec::new() }
    }

    fn begin(&mut self) {
        for word in self.words.drain(..) {
            if let Some(bits) = self.seen.get_mut(word) {
                *bits = 0;
            }
        }
    }

    /// Whether this search has not seen a node; now it has.
    fn is_new(&mut self, node: u32) -> bool {
        let word = node as usize / 64;
        if self.seen.get(word) == Some(&0) {
            self.words.push(word);
        }
        visit(&mut self.seen, node)
    }
}
