//! Scattered rows: the ids of updates, one by one, sorted, 12 bytes each.
//!
//! | per piece | per row |
//! |---|---|
//! | smallest id, 8 bytes | distance from it, 4 bytes; address, 8 bytes |

use super::chunks::{Chunk, Chunks, Key};
use crate::RowAddress;

/// Rows of a piece, by id, then address.
#[derive(Debug)]
pub(super) struct MovedChunk {
    base: u64,
    distances: Box<[u32]>,
    addresses: Box<[u64]>,
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
        // Ids that are too far away go into the next piece.
        let distances: Box<[u32]> =
            items.iter().map_while(|(id, _)| u32::try_from(id.saturating_sub(base)).ok()).collect();
        let packed = distances.len();
        let addresses = items.iter().take(packed).map(|(_, address)| *address).collect();
        (Self { base, distances, addresses }, packed)
    }

    fn unpack(&self, items: &mut Vec<Self::Item>) {
        let ids = self.distances.iter().map(|&distance| self.base + u64::from(distance));
        items.extend(ids.zip(self.addresses.iter().copied()));
    }

    fn memory(&self) -> usize {
        // With the counts of its `Arc`.
        size_of::<Self>() + 16 + size_of_val(self.distances.as_ref()) + size_of_val(self.addresses.as_ref())
    }

    fn len(&self) -> usize {
        self.distances.len()
    }
}

/// Scattered rows of all fragments.
pub(super) type Moved = Chunks<MovedChunk>;

impl Moved {
    /// The addresses that have an id.
    pub(super) fn find(&self, id: u64, found: &mut Vec<RowAddress>) {
        // Rows with the id may begin at the end of the piece before.
        let first = self.count_first(|(min, _)| min < id).saturating_sub(1);
        for chunk in self.chunks().get(first..).unwrap_or_default() {
            let Some(distance) = id.checked_sub(chunk.base) else { return };
            let Ok(distance) = u32::try_from(distance) else { continue };
            let at = chunk.distances.partition_point(|&d| d < distance);
            let rows = chunk.distances.get(at..).unwrap_or_default();
            let rows = rows.iter().zip(chunk.addresses.get(at..).unwrap_or_default());
            let before = found.len();
            found.extend(rows.take_while(|(d, _)| **d == distance).map(|(_, &a)| RowAddress(a)));
            if at + (found.len() - before) < chunk.distances.len() {
                return;
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
