//! The ids of one fragment, as the index needs them: an outline at once, the decoded sequence when it is needed.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

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

impl RowIdSource {
    /// The ids of a fragment. Errors: `Corrupt`, those of `read_ids`.
    pub(super) fn new(fragment: &Fragment, read_ids: ReadRowIds<'_>) -> Result<Self> {
        let (kind, encoded) = match &fragment.row_ids {
            None => (StoredIds::Absent, Bytes::new()),
            Some(LineageSource::Inline(bytes)) => (StoredIds::Inline, bytes.clone()),
            Some(LineageSource::Column) => (StoredIds::Column, read_ids(fragment)?.encode()),
        };
        let is_owned = kind == StoredIds::Column;
        Ok(Self::of(fragment, kind, encoded, is_owned))
    }

    /// [`Self::new`] with a copy of the ids: one fragment that changed must not keep a whole manifest in memory.
    pub(super) fn owned(fragment: &Fragment, read_ids: ReadRowIds<'_>) -> Result<Self> {
        match &fragment.row_ids {
            Some(LineageSource::Inline(bytes)) => {
                Ok(Self::of(fragment, StoredIds::Inline, Bytes::copy_from_slice(bytes), true))
            }
            _ => Self::new(fragment, read_ids),
        }
    }

    fn of(fragment: &Fragment, kind: StoredIds, encoded: Bytes, is_owned: bool) -> Self {
        Self {
            fragment: fragment.id,
            physical_rows: fragment.physical_rows,
            kind,
            encoded,
            is_owned,
            sequence: OnceLock::new(),
        }
    }

    /// Whether the fragment has no ids.
    pub(super) fn is_absent(&self) -> bool {
        self.kind == StoredIds::Absent
    }

    /// The ids segment by segment, without decoding them. Errors: `Corrupt`, those of `each`.
    pub(super) fn outline(&self, each: impl FnMut(u32, Outline) -> Result<()>) -> Result<()> {
        outline_row_ids(&self.encoded, each).map_err(|e| self.in_fragment(e))
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
        if self.is_absent() {
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

    /// The address of the first of some rows, all of which are in the fragment.
    pub(super) fn address(&self, position: u64, rows: u64) -> Result<RowAddress> {
        let end = position.checked_add(rows).filter(|end| *end <= self.physical_rows);
        let first = end.and_then(|_| address(self.fragment, position));
        first.ok_or_else(|| Error::corrupt(format!("ids for more than {} physical rows", self.physical_rows)))
    }

    /// Errors: `Corrupt` if these are not as many ids as the fragment has rows.
    pub(super) fn check_length(&self, found: u64) -> Result<()> {
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

/// The address of a row in a fragment, if it fits. Positions of a sequence are offsets.
pub(super) fn address(fragment: FragmentId, position: u64) -> Option<RowAddress> {
    Some(RowAddress::new(fragment, u32::try_from(position).ok()?))
}
