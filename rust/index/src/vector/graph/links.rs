//! The neighbors of nodes while a graph is built: read by searches while others change them.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::search::FoundNode;
use crate::vector::simd;

/// The neighbors of some nodes, for each in its slot.
///
/// Whoever changes a slot has its lock. Whoever reads has none: while neighbors are chosen it may miss one, or find a
/// duplicate or one that was left out, but each of them was a neighbor.
pub(super) struct Links {
    /// Neighbors of a node at most.
    most: usize,
    locks: Vec<Mutex<()>>,
    /// Of each slot the number of neighbors, then their nodes: a search reads them and no more.
    nodes: Vec<AtomicU32>,
    /// Of each slot the distances of its neighbors, as bits.
    distances: Vec<AtomicU32>,
}

impl Links {
    /// So many slots, of at most so many neighbors, each of which has a slot as well.
    pub(super) fn new(slots: usize, most: usize) -> Self {
        let most = most.min(slots.saturating_sub(1));
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        Self {
            most,
            locks: (0..slots).map(|_| Mutex::default()).collect(),
            nodes: zeros(slots * (1 + most)),
            distances: zeros(slots * most),
        }
    }

    /// Adds the neighbors of a slot to a list.
    pub(super) fn read(&self, slot: usize, to: &mut Vec<u32>) {
        if let Some((count, nodes)) = self.nodes_of(slot).split_first() {
            let count = count.load(Ordering::Acquire) as usize;
            to.extend(nodes.iter().take(count).map(|node| node.load(Ordering::Relaxed)));
        }
    }

    /// Has the processor fetch what [`Self::read`] needs.
    pub(super) fn prefetch(&self, slot: usize) {
        simd::prefetch(self.nodes_of(slot));
    }

    /// Adds a neighbor that a slot does not have yet. If there is no room, of all of them, sorted, at most so many are
    /// chosen.
    pub(super) fn add(
        &self,
        slot: usize,
        neighbor: FoundNode,
        choose: impl FnOnce(&[FoundNode], usize) -> Vec<FoundNode>,
    ) {
        let Some(lock) = self.locks.get(slot) else { return };
        let _locked = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((count, nodes)) = self.nodes_of(slot).split_first() else { return };
        let before = count.load(Ordering::Relaxed) as usize;
        if nodes.iter().take(before).any(|node| node.load(Ordering::Relaxed) == neighbor.node) {
            return;
        }
        if before < self.most {
            self.put(slot, before, &[neighbor]);
            return;
        }
        let mut all = self.found(slot);
        all.push(neighbor);
        all.sort_unstable();
        self.put(slot, 0, &choose(&all, self.most));
    }

    /// The neighbors of a slot with their distances, which nobody changes meanwhile.
    pub(super) fn found(&self, slot: usize) -> Vec<FoundNode> {
        let Some((count, nodes)) = self.nodes_of(slot).split_first() else { return Vec::new() };
        let count = count.load(Ordering::Relaxed) as usize;
        let found = |(node, distance): (&AtomicU32, &AtomicU32)| FoundNode {
            node: node.load(Ordering::Relaxed),
            distance: f32::from_bits(distance.load(Ordering::Relaxed)),
        };
        nodes.iter().zip(self.distances_of(slot)).take(count).map(found).collect()
    }

    /// Replaces the neighbors of a slot from a position on.
    fn put(&self, slot: usize, start: usize, neighbors: &[FoundNode]) {
        let Some((count, nodes)) = self.nodes_of(slot).split_first() else { return };
        let pairs = nodes.iter().zip(self.distances_of(slot)).skip(start);
        let mut written = 0;
        for ((node, distance), neighbor) in pairs.zip(neighbors) {
            node.store(neighbor.node, Ordering::Relaxed);
            distance.store(neighbor.distance.to_bits(), Ordering::Relaxed);
            written += 1;
        }
        // Whoever sees the number sees the nodes.
        count.store(u32::try_from(start + written).unwrap_or(0), Ordering::Release);
    }

    fn nodes_of(&self, slot: usize) -> &[AtomicU32] {
        self.nodes.get(range(slot, 1 + self.most)).unwrap_or_default()
    }

    fn distances_of(&self, slot: usize) -> &[AtomicU32] {
        self.distances.get(range(slot, self.most)).unwrap_or_default()
    }
}

fn range(slot: usize, size: usize) -> Range<usize> {
    slot * size..(slot + 1) * size
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    fn node(node: u32, distance: f32) -> FoundNode {
        FoundNode { distance, node }
    }

    fn read(links: &Links, slot: usize) -> Vec<u32> {
        let mut nodes = Vec::new();
        links.read(slot, &mut nodes);
        nodes
    }

    #[test]
    fn neighbors_are_added_until_some_must_be_chosen() {
        let links = Links::new(4, 2);
        let never = |_: &[FoundNode], _| -> Vec<FoundNode> { panic!("there is room") };
        links.add(1, node(7, 2.0), never);
        links.add(1, node(5, 3.0), never);
        links.add(1, node(7, 2.0), never);
        assert_eq!([0, 1, 2].map(|slot| read(&links, slot)), [vec![], vec![7, 5], vec![]]);
        links.add(1, node(6, 1.0), |all, most| {
            assert_eq!(most, 2);
            assert_eq!(all.iter().map(|found| found.node).collect::<Vec<_>>(), [6, 7, 5]);
            vec![all[0]]
        });
        assert_eq!(read(&links, 1), [6]);
        assert_eq!(links.found(1), [node(6, 1.0)]);
        // A slot that is not there has no neighbors.
        links.add(4, node(1, 1.0), never);
        assert!(read(&links, 4).is_empty());
    }

    /// Readers find nodes that were neighbors at some time, and writers leave each of them once.
    #[test]
    fn slots_are_read_while_they_are_changed() {
        for round in 0..200 {
            let links = Links::new(101, 4);
            let begin = Barrier::new(3);
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (links, begin) = (&links, &begin);
                    scope.spawn(move || {
                        begin.wait();
                        for number in 0..100 {
                            let neighbor = node(1 + (round + 7 * thread + number) % 100, 1.0);
                            links.add(0, neighbor, |all, _| all[..1 + number as usize % 4].to_vec());
                        }
                    });
                }
                begin.wait();
                for _ in 0..100 {
                    let nodes = read(&links, 0);
                    assert!(nodes.len() <= 4 && nodes.iter().all(|n| (1..=100).contains(n)), "{nodes:?}");
                }
            });
            let nodes: BTreeSet<u32> = read(&links, 0).into_iter().collect();
            assert!(!nodes.is_empty() && nodes.len() == read(&links, 0).len(), "{nodes:?}");
        }
    }
}
