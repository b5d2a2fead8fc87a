//! Scattered rows: the ids of updates, one by one, sorted, 12 bytes each.
//!
//! A piece is its smallest id and one array: the distances of the ids from it, then the addresses in halves, the lower
//! first.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::chunks::{Chunk, Chunks, Key};
use crate::{FragmentId, RowAddress};

/// Rows of a piece, by id, then address.
#[derive(Debug, Clone)]
pub(super) struct MovedChunk {
    base: u64,
    words: Arc<[u32]>,
}

impl Chunk for MovedChunk {
    /// Id and address.
    type Item = (u64, u64);
    const TARGET: usize = 256;

    fn key(item: &Self::Item) -> Key {
        *item
    }

    fn pack(items: &[Self::Item]) -> (Self, usize) {
        let base = items.first().map_or(0, |(id, _)| *id);
        let mut words = Vec::with_capacity(3 * items.len());
        // Ids that are too far away go into the next piece.
        words.extend(items.iter().map_while(|(id, _)| u32::try_from(id.saturating_sub(base)).ok()));
        let packed = words.len();
        let addresses = items.iter().take(packed).map(|(_, address)| RowAddress(*address));
        words.extend(addresses.flat_map(|address| [address.offset(), address.fragment().0]));
        (Self { base, words: words.into() }, packed)
    }

    fn unpack(&self, items: &mut Vec<Self::Item>) {
        let (distances, addresses) = self.parts();
        let ids = distances.iter().map(|&distance| self.base + u64::from(distance));
        items.extend(ids.zip(addresses.iter().map(|halves| address(halves).0)));
    }

    fn memory(&self) -> usize {
        size_of_val(self.words.as_ref()) + 16
    }

    fn len(&self) -> usize {
        self.words.len() / 3
    }
}

impl MovedChunk {
    /// Distances and addresses.
    fn parts(&self) -> (&[u32], &[[u32; 2]]) {
        let (distances, addresses) = self.words.split_at_checked(self.words.len() / 3).unwrap_or_default();
        (distances, addresses.as_chunks().0)
    }
}

fn address([offset, fragment]: &[u32; 2]) -> RowAddress {
    RowAddress::new(FragmentId(*fragment), *offset)
}

/// Number of distances below this one. Ids of a piece are spread evenly, more or less, so a guess is good.
fn below(distances: &[u32], distance: u32) -> usize {
    const OFF: usize = 12;
    let Some(&last) = distances.last() else { return 0 };
    if distance > last {
        return distances.len();
    }
    let length = u64::try_from(distances.len()).unwrap_or(u64::MAX);
    let guess = u64::from(distance) * length / (u64::from(last) + 1);
    let guess = usize::try_from(guess).unwrap_or(0);
    let (start, end) = (guess.saturating_sub(OFF), (guess + OFF).min(distances.len()));
    let around = distances.get(start..end).unwrap_or_default();
    let at = around.partition_point(|&d| d < distance);
    if (at > 0 || start == 0) && at < around.len() {
        return start + at;
    }
    distances.partition_point(|&d| d < distance)
}

/// Scattered rows of all fragments.
pub(super) type Moved = Chunks<MovedChunk>;

impl Moved {
    /// The addresses that have an id.
    pub(super) fn find(&self, hint: &mut usize, id: u64, found: &mut Vec<RowAddress>) {
        // Rows with the id may begin at the end of the piece before.
        let first = self.count_first(hint, |(min, _)| min < id).saturating_sub(1);
        for chunk in self.chunks().get(first..).unwrap_or_default() {
            let Some(distance) = id.checked_sub(chunk.base) else { return };
            let Ok(distance) = u32::try_from(distance) else { continue };
            let (distances, addresses) = chunk.parts();
            let at = below(distances, distance);
            let rows = distances.iter().zip(addresses).skip(at);
            let before = found.len();
            found.extend(rows.take_while(|(d, _)| **d == distance).map(|(_, halves)| address(halves)));
            if at + (found.len() - before) < distances.len() {
                return;
            }
        }
    }
}

impl Moved {
    /// The lowest id from one on.
    pub(super) fn first_from(&self, hint: &mut usize, id: u64) -> Option<u64> {
        let first = self.count_first(hint, |(min, _)| min < id).saturating_sub(1);
        let chunks = self.chunks().get(first..).unwrap_or_default();
        chunks.iter().find_map(|chunk| {
            let (distances, _) = chunk.parts();
            let least = id.saturating_sub(chunk.base);
            let at = u32::try_from(least).map_or(distances.len(), |least| below(distances, least));
            distances.get(at).map(|distance| chunk.base + u64::from(*distance))
        })
    }

    /// The fragments of the rows whose ids are in a range, each perhaps repeatedly.
    pub(super) fn fragments_with(&self, ids: &RangeInclusive<u64>, found: &mut Vec<FragmentId>) {
        let first = self.count_first(&mut 0, |(min, _)| min < *ids.start()).saturating_sub(1);
        for chunk in self.chunks().get(first..).unwrap_or_default() {
            if chunk.base > *ids.end() {
                return;
            }
            let (distances, addresses) = chunk.parts();
            let rows = distances.iter().zip(addresses);
            let inside = rows.filter(|(distance, _)| ids.contains(&(chunk.base + u64::from(**distance))));
            for (_, halves) in inside {
                let fragment = address(halves).fragment();
                if found.last() != Some(&fragment) {
                    found.push(fragment);
                }
            }
        }
    }
}

/// So long a list is worth looking up row by row: its ids are further apart than a bitmap would pay for.
pub(super) fn is_scattered(rows: u64, min: u64, max: u64) -> bool {
    rows < 64 || (max - min) / 16 > rows
}

/// Number of rows up to which a range is taken row by row: an extent takes as much.
pub(super) const SHORT: u64 = 2;
