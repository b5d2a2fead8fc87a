//! A graph of vectors, which are inserted one after another by several threads.
//!
//! How high a node reaches is drawn before, so the highest node is inserted first and stays the entry. With one thread the
//! same vectors give the same graph.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

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

impl Default for GraphOptions {
    /// 20 neighbors, 150 candidates, 7 levels: those of the reference.
    fn default() -> Self {
        Self { m: 20, ef_construction: 150, max_level: 7 }
    }
}

/// A graph of so many vectors, more than none; `distance` is that of two of them.
pub(in crate::vector) fn build<D: Fn(u32, u32) -> f32 + Sync>(
    count: u32,
    options: GraphOptions,
    threads: usize,
    distance: D,
) -> Graph {
    let heights = heights(count, options);
    let entry =
        (0..count).max_by_key(|node| (heights.get(*node as usize).copied(), Reverse(*node))).unwrap_or(0);
    let links = heights.iter().map(|height| (0..=*height).map(|_| Mutex::default()).collect()).collect();
    let building = Building {
        links,
        entry,
        m: options.m.max(2) as usize,
        ef: options.ef_construction.max(1) as usize,
        distance,
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut visited = Visited { marks: vec![0; count as usize], mark: 0 };
        loop {
            let Ok(node) = u32::try_from(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if node >= count {
                return;
            }
            if node != entry {
                building.insert(node, &mut visited);
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

/// A graph that is being built.
struct Building<D> {
    /// Of each node the neighbors on each of its levels.
    links: Vec<Vec<Mutex<Vec<FoundNode>>>>,
    entry: u32,
    m: usize,
    ef: usize,
    distance: D,
}

/// Which nodes a search saw: those with its mark.
struct Visited {
    marks: Vec<u32>,
    mark: u32,
}

impl<D: Fn(u32, u32) -> f32 + Sync> Building<D> {
    fn insert(&self, node: u32, visited: &mut Visited) {
        let height = self.height(node);
        let mut nearest = vec![FoundNode { distance: (self.distance)(node, self.entry), node: self.entry }];
        for level in (0..=self.height(self.entry)).rev() {
            let ef = if level > height { 1 } else { self.ef };
            nearest = self.search(node, nearest, level, ef, visited);
            if level <= height {
                let chosen = self.choose(&nearest, self.m);
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

    fn height(&self, node: u32) -> usize {
        self.links.get(node as usize).map_or(0, |levels| levels.len().saturating_sub(1))
    }

    fn neighbors(&self, node: u32, level: usize, to: &mut Vec<u32>) {
        to.clear();
        if let Some(links) = self.links.get(node as usize).and_then(|levels| levels.get(level)) {
            let links = links.lock().unwrap_or_else(PoisonError::into_inner);
            to.extend(links.iter().map(|found| found.node));
        }
    }

    /// The nodes of a level nearest to another one, from some on.
    fn search(
        &self,
        to: u32,
        from: Vec<FoundNode>,
        level: usize,
        ef: usize,
        visited: &mut Visited,
    ) -> Vec<FoundNode> {
        visited.next();
        let mut candidates = BinaryHeap::new();
        let mut found = BinaryHeap::new();
        for start in from {
            visited.is_new(start.node);
            candidates.push(Reverse(start));
            found.push(start);
        }
        visited.is_new(to);
        while found.len() > ef {
            found.pop();
        }
        let mut neighbors = Vec::new();
        while let Some(Reverse(candidate)) = candidates.pop() {
            if found.len() >= ef && found.peek().is_some_and(|farthest| candidate > *farthest) {
                break;
            }
            self.neighbors(candidate.node, level, &mut neighbors);
            for neighbor in &neighbors {
                if !visited.is_new(*neighbor) {
                    continue;
                }
                let neighbor = FoundNode { distance: (self.distance)(to, *neighbor), node: *neighbor };
                if found.len() < ef || found.peek().is_some_and(|farthest| neighbor < *farthest) {
                    candidates.push(Reverse(neighbor));
                    found.push(neighbor);
                    if found.len() > ef {
                        found.pop();
                    }
                }
            }
        }
        found.into_sorted_vec()
    }

    /// At most so many of the candidates, which are sorted: those that are not nearer to a chosen one, so that they lead in all
    /// directions and out of clusters.
    fn choose(&self, candidates: &[FoundNode], count: usize) -> Vec<FoundNode> {
        let mut chosen: Vec<FoundNode> = Vec::with_capacity(count);
        for candidate in candidates {
            if chosen.len() == count {
                break;
            }
            let is_apart =
                |other: &FoundNode| (self.distance)(candidate.node, other.node) >= candidate.distance;
            if chosen.iter().all(is_apart) {
                chosen.push(*candidate);
            }
        }
        chosen
    }

    /// Leads from a node to another one; if that is too many, some are chosen.
    fn link(&self, from: u32, to: FoundNode, level: usize) {
        let Some(links) = self.links.get(from as usize).and_then(|levels| levels.get(level)) else { return };
        let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
        if from == to.node || links.iter().any(|found| found.node == to.node) {
            return;
        }
        links.push(to);
        let most = if level == 0 { 2 * self.m } else { self.m };
        if links.len() > most {
            links.sort_unstable();
            *links = self.choose(&links, most);
        }
    }

    /// Leads to every node: what the entry does not lead to gets a link from one of its neighbors.
    fn connect(&self) {
        let mut is_reached = vec![false; self.links.len()];
        self.reach(self.entry, &mut is_reached);
        let (mut last, mut links) = (self.entry, Vec::new());
        for node in (0_u32..).take(self.links.len()) {
            if is_reached.get(node as usize).copied().unwrap_or(true) {
                continue;
            }
            self.neighbors(node, 0, &mut links);
            links.push(last);
            let is_free = |other: &u32| {
                let count = self.links.get(*other as usize).and_then(|levels| levels.first());
                let count = count
                    .map_or(usize::MAX, |links| links.lock().unwrap_or_else(PoisonError::into_inner).len());
                is_reached.get(*other as usize).copied().unwrap_or(false) && count < 2 * self.m
            };
            let from = links.iter().copied().find(is_free).unwrap_or(self.entry);
            let to = FoundNode { distance: (self.distance)(from, node), node };
            if let Some(links) = self.links.get(from as usize).and_then(|levels| levels.first()) {
                links.lock().unwrap_or_else(PoisonError::into_inner).push(to);
            }
            self.reach(node, &mut is_reached);
            last = node;
        }
    }

    /// Marks what a node leads to on level 0.
    fn reach(&self, node: u32, is_reached: &mut [bool]) {
        let (mut open, mut links) = (vec![node], Vec::new());
        while let Some(node) = open.pop() {
            let Some(mark) = is_reached.get_mut(node as usize).filter(|mark| !**mark) else { continue };
            *mark = true;
            self.neighbors(node, 0, &mut links);
            open.extend_from_slice(&links);
        }
    }

    fn into_graph(self) -> Graph {
        let count = self.height(self.entry) + 1;
        let mut levels: Vec<Level> = (0..count).map(|_| Level::default()).collect();
        for (node, of_node) in (0_u32..).zip(self.links) {
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

impl Visited {
    fn next(&mut self) {
        if self.mark == u32::MAX {
            self.marks.fill(0);
            self.mark = 0;
        }
        self.mark += 1;
    }

    fn is_new(&mut self, node: u32) -> bool {
        match self.marks.get_mut(node as usize) {
            Some(mark) if *mark != self.mark => {
                *mark = self.mark;
                true
            }
            _ => false,
        }
    }
}
