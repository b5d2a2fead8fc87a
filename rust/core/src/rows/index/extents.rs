//! Ranges of ids of which a fragment has all or most: what the directory of an index lists.
//!
//! Sorted by their smallest id, with the largest id up to each: those that may hold an id are found by walking back
//! from the last that starts before it, as far as any reaches.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::chunks::{Chunk, Chunks, Key};
use super::source::RowIdSource;
use crate::{FragmentId, Result, RowAddress};

/// Ids of one segment.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    min: u64,
    max: u64,
    /// Of consecutive ids the address of the first, else fragment and number of the segment.
    location: u64,
    /// The sequence to look ids up in, unless they are consecutive.
    source: Option<Arc<RowIdSource>>,
}

impl Extent {
    /// Consecutive ids in consecutive rows.
    pub(super) fn direct(min: u64, max: u64, first: RowAddress) -> Self {
        Self { min, max, location: first.0, source: None }
    }

    /// A segment that has to be decoded.
    pub(super) fn lazy(min: u64, max: u64, source: &Arc<RowIdSource>, segment: u32) -> Self {
        let location = RowAddress::new(source.fragment(), segment).0;
        Self { min, max, location, source: Some(Arc::clone(source)) }
    }

    pub(super) fn key(&self) -> Key {
        (self.min, self.location)
    }

    /// The address of an id between the smallest and the largest.
    fn find(&self, id: u64) -> Result<Option<RowAddress>> {
        let location = RowAddress(self.location);
        match &self.source {
            None => Ok(Some(RowAddress(self.location + (id - self.min)))),
            Some(source) => source.find(location.offset(), id),
        }
    }
}

/// Extents of a piece, each with the largest id of it and those before it in the piece.
#[derive(Debug, Clone)]
pub(super) struct ExtentChunk(Arc<[(Extent, u64)]>);

impl Chunk for ExtentChunk {
    type Item = Extent;
    const TARGET: usize = 128;

    fn key(item: &Extent) -> Key {
        item.key()
    }

    fn pack(items: &[Extent]) -> (Self, usize) {
        let reach = running_max(items.iter().map(|extent| extent.max));
        (Self(items.iter().cloned().zip(reach).collect()), items.len())
    }

    fn unpack(&self, items: &mut Vec<Extent>) {
        items.extend(self.0.iter().map(|(extent, _)| extent.clone()));
    }

    fn memory(&self) -> usize {
        size_of_val(self.0.as_ref()) + 16
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

fn running_max(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let running = values.scan(0, |max: &mut u64, value| {
        *max = value.max(*max);
        Some(*max)
    });
    running.collect()
}

/// Extents of all fragments.
#[derive(Debug)]
pub(super) struct Directory {
    list: Chunks<ExtentChunk>,
    /// Largest id of each piece, and of those before it too.
    reach: Vec<(u64, u64)>,
}

impl Directory {
    /// Of sorted extents.
    pub(super) fn new(extents: &[Extent]) -> Self {
        Self::of(Chunks::new(extents))
    }

    /// Without the extents of some keys and with others, both sorted.
    pub(super) fn apply(&self, removed: &[Key], added: &[Extent]) -> Self {
        Self::of(self.list.apply(removed, added))
    }

    fn of(list: Chunks<ExtentChunk>) -> Self {
        let own = |chunk: &ExtentChunk| chunk.0.last().map_or(0, |(_, reach)| *reach);
        let running = running_max(list.chunks().iter().map(own));
        let reach = list.chunks().iter().map(own).zip(running).collect();
        Self { list, reach }
    }

    pub(super) fn memory(&self) -> usize {
        self.list.memory() + size_of_val(self.reach.as_slice())
    }

    /// The addresses that have an id. Errors: those of decoding a sequence.
    pub(super) fn find(&self, hint: &mut usize, id: u64, found: &mut Vec<RowAddress>) -> Result<()> {
        let end = self.list.count_first(hint, |(min, _)| min <= id);
        let chunks = self.list.chunks().get(..end).unwrap_or_default();
        let reach = self.reach.get(..end).unwrap_or_default();
        for (chunk, (own, so_far)) in chunks.iter().zip(reach).rev() {
            if *so_far < id {
                break;
            }
            if *own < id {
                continue;
            }
            let end = chunk.0.partition_point(|(extent, _)| extent.min <= id);
            for (extent, reach) in chunk.0.get(..end).unwrap_or_default().iter().rev() {
                if *reach < id {
                    break;
                }
                if extent.max >= id {
                    found.extend(extent.find(id)?);
                }
            }
        }
        Ok(())
    }
}

/// Consecutive ids in consecutive rows, which are in no other rows as far as a list knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) last: u64,
    first: u64,
    address: u64,
}

impl Run {
    /// The address of an id, if it is in the run.
    pub(super) fn find(&self, id: u64) -> Option<RowAddress> {
        (self.first..=self.last).contains(&id).then(|| RowAddress(self.address + (id - self.first)))
    }
}

impl Directory {
    /// The ids from one on that only one extent has, if they are consecutive there.
    pub(super) fn run(&self, hint: &mut usize, id: u64) -> Option<Run> {
        let end = self.list.count_first(hint, |(min, _)| min <= id);
        let chunk = self.list.chunks().get(end.checked_sub(1)?)?;
        let (_, reach_before) = end.checked_sub(2).map_or(Some((0, 0)), |at| self.reach.get(at).copied())?;
        let at = chunk.0.partition_point(|(extent, _)| extent.min <= id);
        let (extent, _) = chunk.0.get(at.checked_sub(1)?)?;
        let before = at.checked_sub(2).and_then(|at| chunk.0.get(at)).map(|(_, reach)| *reach);
        let is_alone = (end == 1 || reach_before < id) && before.is_none_or(|reach| reach < id);
        if !is_alone || extent.source.is_some() || extent.max < id {
            return None;
        }
        let next = chunk
            .0
            .get(at)
            .map(|(next, _)| next.min)
            .or_else(|| self.list.first_key(end).map(|(min, _)| min));
        let last = next.map_or(extent.max, |next| extent.max.min(next - 1));
        Some(Run { last, first: id, address: extent.location + (id - extent.min) })
    }

    /// The fragments of the extents that reach into a range, each perhaps repeatedly.
    pub(super) fn fragments_with(&self, ids: &RangeInclusive<u64>, found: &mut Vec<FragmentId>) {
        let end = self.list.count_first(&mut 0, |(min, _)| min <= *ids.end());
        let chunks = self.list.chunks().get(..end).unwrap_or_default();
        let reach = self.reach.get(..end).unwrap_or_default();
        for (chunk, (own, so_far)) in chunks.iter().zip(reach).rev() {
            if so_far < ids.start() {
                break;
            }
            if own >= ids.start() {
                let here =
                    |extent: &&(Extent, u64)| extent.0.min <= *ids.end() && extent.0.max >= *ids.start();
                let extents = chunk.0.iter().filter(here);
                found.extend(extents.map(|(extent, _)| RowAddress(extent.location).fragment()));
            }
        }
    }
}
