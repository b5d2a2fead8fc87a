//! What the ids of fragments are in the lists of the index: extents, and rows of their own.

use std::sync::Arc;

use super::chunks::Key;
use super::extents::Extent;
use super::moved;
use super::source::RowIdSource;
use crate::Result;
use crate::wire::rows::Outline;

/// What fragments add to the lists of the index.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) extents: Vec<Extent>,
    /// Id and address.
    pub(super) rows: Vec<(u64, u64)>,
}

impl Items {
    pub(super) fn sort(&mut self) {
        self.extents.sort_unstable_by_key(Extent::key);
        self.rows.sort_unstable();
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.extents.iter().map(Extent::key).collect()
    }

    /// Adds what the lists need to know of the ids of a fragment. Errors: `Corrupt`.
    pub(super) fn add(&mut self, source: &Arc<RowIdSource>) -> Result<()> {
        if source.is_absent() {
            return Ok(());
        }
        // Position of the next segment; not known behind one whose ids were not counted.
        let mut next = Some(0_u64);
        let mut ids = Vec::new();
        let each = |segment: u32, outline: Outline| {
            match outline {
                Outline::Consecutive { first, last } => {
                    let rows = last - first + 1;
                    match next.map(|position| source.address(position, rows)).transpose()? {
                        None => self.extents.push(Extent::lazy(first, last, source, segment)),
                        Some(address) if rows <= moved::SHORT => {
                            self.rows.extend((first..=last).zip(address.0..));
                        }
                        Some(address) => self.extents.push(Extent::direct(first, last, address)),
                    }
                    next = next.map(|position| position + rows);
                }
                Outline::Dense { first, last } => {
                    self.extents.push(Extent::lazy(first, last, source, segment));
                    next = None;
                }
                Outline::List(values) => {
                    let Some((min, max)) = values.min_max() else { return Ok(()) };
                    let rows = values.len();
                    if moved::is_scattered(rows, min, max) {
                        let start = match next {
                            Some(position) => position,
                            None => source.sequence()?.segment_at(segment).map_or(0, |(_, start)| start),
                        };
                        let address = source.address(start, rows)?;
                        ids.clear();
                        values.append_to(0..rows, &mut ids);
                        self.rows.extend(ids.iter().copied().zip(address.0..));
                        next = Some(start);
                    } else {
                        self.extents.push(Extent::lazy(min, max, source, segment));
                    }
                    next = next.map(|position| position.saturating_add(rows));
                }
            }
            Ok(())
        };
        source.outline(each)?;
        next.map_or(Ok(()), |rows| source.check_length(rows))
    }
}
