//! The ids of one fragment, as the index needs them: an outline at once, the decoded sequence when it is needed.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::chunks::Key;
use super::extents::{Extent, address};
use super::moved;
use crate::manifest::{Fragment, LineageSource};
use crate::rows::RowIdSequence;
use crate::wire::rows::{Outline, outline_row_ids};
use crate::{Error, FragmentId, Result, RowAddress, RowId};

/// Gives the ids of a fragment that stores them in a data column (table format 4.7).
pub type ReadRowIds<'a> = &'a dyn Fn(&Fragment) -> Result<RowIdSequence>;

/// Sequences of fewer bytes are a few numbers, so keeping them decoded gains nothing.
const DECODED_FROM: usize = 512;
/// Bytes that a decoded sequence takes beyond its directories.
const DECODED: usize = 640;

/// One fragment's ids.
#[derive(Debug)]
pub(super) struct RowIdSource {
    fragment: FragmentId,
    physical_rows: u64,
    kind: StoredIds,
    /// A slice of a manifest, unless it is owned.
    encoded: Bytes,
    is_owned: bool,
    /// Decoded when it was needed.
    sequence: OnceLock<Arc<RowIdSequence>>,
}

#[derive(Debug, PartialEq)]
enum StoredIds {
    /// The fragment has no ids.
    Absent,
    Inline,
    Column,
}

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
}

impl RowIdSource {
    /// The ids of a fragment; adds what the lists need to know. Errors: `Corrupt`, those of `read_ids`.
    pub(super) fn new(fragment: &Fragment, read_ids: ReadRowIds<'_>, items: &mut Items) -> Result<Arc<Self>> {
        let (kind, encoded) = match &fragment.row_ids {
            None => (StoredIds::Absent, Bytes::new()),
            Some(LineageSource::Inline(bytes)) => (StoredIds::Inline, bytes.clone()),
            Some(LineageSource::Column) => (StoredIds::Column, read_ids(fragment)?.encode()),
        };
        let is_owned = kind == StoredIds::Column;
        Self::add(fragment, kind, encoded, is_owned, items)
    }

    /// [`Self::new`] with a copy of the ids: one fragment that changed must not keep a whole manifest in memory.
    pub(super) fn owned(
        fragment: &Fragment,
        read_ids: ReadRowIds<'_>,
        items: &mut Items,
    ) -> Result<Arc<Self>> {
        match &fragment.row_ids {
            Some(LineageSource::Inline(bytes)) => {
                Self::add(fragment, StoredIds::Inline, Bytes::copy_from_slice(bytes), true, items)
            }
            _ => Self::new(fragment, read_ids, items),
        }
    }

    fn add(
        fragment: &Fragment,
        kind: StoredIds,
        encoded: Bytes,
        is_owned: bool,
        items: &mut Items,
    ) -> Result<Arc<Self>> {
        let source = Arc::new(Self {
            fragment: fragment.id,
            physical_rows: fragment.physical_rows,
            kind,
            encoded,
            is_owned,
            sequence: OnceLock::new(),
        });
        source.outline(items)?;
        Ok(source)
    }

    pub(super) fn fragment(&self) -> FragmentId {
        self.fragment
    }

    /// Whether a fragment of another version has the same ids.
    pub(super) fn is_of(&self, fragment: &Fragment) -> bool {
        let is_same = match &fragment.row_ids {
            None => self.kind == StoredIds::Absent,
            Some(LineageSource::Column) => self.kind == StoredIds::Column,
            Some(LineageSource::Inline(bytes)) => {
                let same_buffer =
                    self.encoded.as_ptr() == bytes.as_ptr() && self.encoded.len() == bytes.len();
                self.kind == StoredIds::Inline && (same_buffer || self.encoded == *bytes)
            }
        };
        is_same && self.fragment == fragment.id && self.physical_rows == fragment.physical_rows
    }

    /// Bytes it takes, at most: as if the sequence was decoded.
    pub(super) fn memory(&self) -> usize {
        let encoded = self.encoded.len();
        // A directory is 7 % of its bitmap; what else a decoded sequence takes counts where bitmaps are short.
        let decoded = if encoded > DECODED_FROM { encoded / 14 + DECODED } else { 0 };
        let owned = if self.is_owned { encoded } else { 0 };
        size_of::<Self>() + 16 + size_of::<Arc<Self>>() + decoded + owned
    }

    /// The sequence, decoded now or before. Errors: `Corrupt`.
    pub(super) fn sequence(&self) -> Result<&Arc<RowIdSequence>> {
        if let Some(sequence) = self.sequence.get() {
            return Ok(sequence);
        }
        if self.kind == StoredIds::Absent {
            return Err(Error::corrupt(format!("fragment {} has no row ids", self.fragment)));
        }
        let sequence = RowIdSequence::decode(&self.encoded).map_err(|e| self.in_fragment(e))?;
        self.check_length(sequence.len())?;
        Ok(self.sequence.get_or_init(|| Arc::new(sequence)))
    }

    /// The address of an id in a segment. Errors: `Corrupt`.
    pub(super) fn find(&self, segment: u32, id: u64) -> Result<Option<RowAddress>> {
        let sequence = self.sequence()?;
        let position = sequence.segment_at(segment).and_then(|(s, start)| Some(start + s.position(id)?));
        Ok(position.and_then(|position| address(self.fragment, position)))
    }

    /// The id of a row. Errors: `Corrupt`.
    pub(super) fn id(&self, offset: u32) -> Result<Option<RowId>> {
        Ok(self.sequence()?.get(offset.into()))
    }

    /// Adds what the lists need to know. Errors: `Corrupt`.
    pub(super) fn outline(self: &Arc<Self>, items: &mut Items) -> Result<()> {
        if self.kind == StoredIds::Absent {
            return Ok(());
        }
        // Position of the next segment; not known behind one whose ids were not counted.
        let mut next = Some(0_u64);
        let mut ids = Vec::new();
        let add = |segment: u32, outline: Outline| {
            match outline {
                Outline::Consecutive { first, last } => {
                    let rows = last - first + 1;
                    match next.map(|position| self.address(position, rows)).transpose()? {
                        None => items.extents.push(Extent::lazy(first, last, self, segment)),
                        Some(address) if rows <= moved::SHORT => {
                            items.rows.extend((first..=last).zip(address.0..));
                        }
                        Some(address) => items.extents.push(Extent::direct(first, last, address)),
                    }
                    next = next.map(|position| position + rows);
                }
                Outline::Dense { first, last } => {
                    items.extents.push(Extent::lazy(first, last, self, segment));
                    next = None;
                }
                Outline::List(values) => {
                    let Some((min, max)) = values.min_max() else { return Ok(()) };
                    let rows = values.len();
                    if moved::is_scattered(rows, min, max) {
                        let start = match next {
                            Some(position) => position,
                            None => self.sequence()?.segment_at(segment).map_or(0, |(_, start)| start),
                        };
                        let address = self.address(start, rows)?;
                        ids.clear();
                        values.append_to(0..rows, &mut ids);
                        items.rows.extend(ids.iter().copied().zip(address.0..));
                        next = Some(start);
                    } else {
                        items.extents.push(Extent::lazy(min, max, self, segment));
                    }
                    next = next.map(|position| position.saturating_add(rows));
                }
            }
            Ok(())
        };
        outline_row_ids(&self.encoded, add).map_err(|e| self.in_fragment(e))?;
        next.map_or(Ok(()), |rows| self.check_length(rows))
    }

    /// The address of the first of some rows, all of which are in the fragment.
    fn address(&self, position: u64, rows: u64) -> Result<RowAddress> {
        let end = position.checked_add(rows).filter(|end| *end <= self.physical_rows);
        let first = end.and_then(|_| address(self.fragment, position));
        first.ok_or_else(|| Error::corrupt(format!("ids for more than {} physical rows", self.physical_rows)))
    }

    fn check_length(&self, found: u64) -> Result<()> {
        if found == self.physical_rows {
            return Ok(());
        }
        let rows = self.physical_rows;
        Err(Error::corrupt(format!("fragment {}: {found} row ids for {rows} physical rows", self.fragment)))
    }

    fn in_fragment(&self, error: Error) -> Error {
        error.at(format!("row ids of fragment {}", self.fragment))
    }
}
