//! Keys of rows: a form that can be hashed and compared, the same for both sides of a join.
//!
//! | key | form |
//! |---|---|
//! | one column of numbers of at most 8 bytes, or of times | its bits as a word |
//! | anything else | Arrow's row format |
//!
//! Equal means equal in every bit: NaN equals itself and zero is not minus zero, as in the reference. A key with a null
//! among its columns equals nothing.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, DataType};
use pennon_core::{Error, Result};
use twox_hash::XxHash64;

/// Makes keys of columns.
pub(super) enum Encoder {
    Words,
    Rows(RowConverter),
}

/// Keys of some rows.
pub(super) enum Keys {
    Words(Vec<u64>),
    /// Words as a column has them.
    Column(ScalarBuffer<u64>),
    Rows(Rows),
}

impl Encoder {
    /// For key columns of these types. Errors: `Unsupported` for types that cannot be compared.
    pub(super) fn new(types: &[DataType]) -> Result<Self> {
        if let [one] = types
            && is_word(one)
        {
            return Ok(Self::Words);
        }
        let fields = types.iter().map(|one| SortField::new(one.clone())).collect();
        RowConverter::new(fields).map(Self::Rows).map_err(|e| {
            Error::unsupported(format!("A merge on keys of these types ({types:?}) is not possible: {e}"))
        })
    }

    /// No keys yet, with room for so many words.
    pub(super) fn with_capacity(&self, rows: usize) -> Keys {
        match self {
            Self::Words => Keys::Words(Vec::with_capacity(rows)),
            Self::Rows(converter) => Keys::Rows(converter.empty_rows(0, 0)),
        }
    }

    /// The keys of rows, without a copy if a column has them as they are. Errors: as [`Self::append`].
    pub(super) fn of(&self, columns: &[ArrayRef]) -> Result<Keys> {
        if let (Self::Words, [column]) = (self, columns)
            && column.data_type().primitive_width() == Some(size_of::<u64>())
            && let data = column.to_data()
            && let [words] = data.buffers()
        {
            return Ok(Keys::Column(ScalarBuffer::new(words.clone(), data.offset(), data.len())));
        }
        let rows = columns.first().map_or(0, |column| column.len());
        let mut keys = self.with_capacity(rows);
        self.append(&mut keys, columns)?;
        Ok(keys)
    }

    /// Adds the keys of rows. Errors: `InvalidInput` for more bytes than can be held at once.
    pub(super) fn append(&self, keys: &mut Keys, columns: &[ArrayRef]) -> Result<()> {
        match (self, keys, columns) {
            (Self::Words, Keys::Words(words), [column]) => words_of(column, words),
            (Self::Rows(converter), Keys::Rows(rows), _) => converter.append(rows, columns).map_err(wrong),
            _ => Err(Error::internal("keys of another form")),
        }
    }
}

impl Keys {
    pub(super) fn hash(&self, row: usize) -> u64 {
        let word = |words: &[u64]| mix(words.get(row).copied().unwrap_or_default());
        match self {
            Self::Words(words) => word(words),
            Self::Column(words) => word(words),
            Self::Rows(rows) => XxHash64::oneshot(0, rows.row(row).data()),
        }
    }

    /// The hashes of the first rows, in order.
    pub(super) fn for_each_hash(&self, rows: usize, mut each: impl FnMut(usize, u64)) {
        match self.words() {
            Some(words) => words.iter().take(rows).enumerate().for_each(|(row, word)| each(row, mix(*word))),
            None => (0..rows).for_each(|row| each(row, self.hash(row))),
        }
    }

    fn words(&self) -> Option<&[u64]> {
        match self {
            Self::Words(words) => Some(words),
            Self::Column(words) => Some(words),
            Self::Rows(_) => None,
        }
    }

    pub(super) fn equal(&self, row: usize, other: &Self, other_row: usize) -> bool {
        match (self, other) {
            (Self::Rows(one), Self::Rows(two)) => one.row(row) == two.row(other_row),
            _ => match (self.words(), other.words()) {
                (Some(one), Some(two)) => one.get(row) == two.get(other_row),
                _ => false,
            },
        }
    }
}

/// Rows without a null among these columns; `None`: all.
pub(super) fn not_null(columns: &[ArrayRef]) -> Option<NullBuffer> {
    let nulls = columns.iter().map(|column| column.logical_nulls().filter(|n| n.null_count() > 0));
    nulls.fold(None, |all, nulls| NullBuffer::union(all.as_ref(), nulls.as_ref()))
}

/// Rows by the hash of their keys.
pub(super) struct HashTable {
    /// Upper half of a hash and the last row that has it, at the first place from the one that the lower half names on
    /// that was free. A power of two, at most half of them taken.
    slots: Vec<u64>,
    /// A bit for each hash, by its middle bits: most rows that match nothing are told by it, and it fits a cache that
    /// the slots do not.
    seen: Vec<u64>,
    /// For each row, one before it in the same slot; empty as long as there is none.
    next: Vec<u32>,
}

const NONE: u32 = u32::MAX;
/// The row of a slot.
const ROW: u64 = NONE as u64;
/// No row.
const FREE: u64 = u64::MAX;
/// Sixteen bits for each row.
const SEEN_ROWS_PER_WORD: usize = 4;

/// Word and bit of a hash among so many words, a power of two.
fn place(hash: u64, words: usize) -> (usize, u64) {
    let word = usize::try_from((hash >> 14) & u64::from(u32::MAX)).unwrap_or_default() & (words - 1);
    (word, 1 << ((hash >> 8) & 63))
}

impl HashTable {
    /// A table for keys, without those that have nulls. Errors: `InvalidInput` for more rows than 32 bits can name.
    pub(super) fn new(keys: &Keys, rows: usize, not_null: impl Fn(usize) -> bool) -> Result<Self> {
        if u32::try_from(rows).is_err() {
            return Err(Error::invalid_input(format!("{rows} keys at once: lower the memory limit")));
        }
        let mut table = Self {
            slots: vec![FREE; rows.max(1).saturating_mul(2).next_power_of_two()],
            seen: vec![0; rows.div_ceil(SEEN_ROWS_PER_WORD).next_power_of_two()],
            next: Vec::new(),
        };
        for (row, at) in (0..rows).zip(0_u32..) {
            if not_null(row) {
                let hash = keys.hash(row);
                let (word, bit) = place(hash, table.seen.len());
                if let Some(word) = table.seen.get_mut(word) {
                    *word |= bit;
                }
                let (slot, other) = table.find(hash);
                if let Some(slot) = table.slots.get_mut(slot) {
                    *slot = (hash & !ROW) | u64::from(at);
                }
                if other != NONE {
                    table.next.resize(rows, NONE);
                    if let Some(before) = table.next.get_mut(row) {
                        *before = other;
                    }
                }
            }
        }
        Ok(table)
    }

    /// The slot of a hash and its row; a free one if there is none.
    fn find(&self, hash: u64) -> (usize, u32) {
        let last = self.slots.len() - 1;
        let mut at = usize::try_from(hash & ROW).unwrap_or_default() & last;
        loop {
            match self.slots.get(at) {
                Some(&slot) if slot != FREE && (slot ^ hash) & !ROW != 0 => at = (at + 1) & last,
                Some(&slot) => return (at, u32::try_from(slot & ROW).unwrap_or(NONE)),
                None => return (0, NONE),
            }
        }
    }

    /// Whether a row may have that hash.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = place(hash, self.seen.len());
        self.seen.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The last of the rows whose keys may have that hash.
    pub(super) fn last(&self, hash: u64) -> Option<u32> {
        Some(self.find(hash).1).filter(|row| *row != NONE)
    }

    /// A row and those before it whose keys may have the same hash.
    pub(super) fn with_rows_before(&self, row: u32) -> impl Iterator<Item = usize> + '_ {
        let mut at = row;
        std::iter::from_fn(move || {
            let row = usize::try_from(at).ok().filter(|_| at != NONE)?;
            at = self.next.get(row).copied().unwrap_or(NONE);
            Some(row)
        })
    }
}

/// Spreads the bits of a word; different words stay different.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

fn is_word(data_type: &DataType) -> bool {
    data_type.primitive_width().is_some_and(|width| matches!(width, 1 | 2 | 4 | 8))
        && !matches!(data_type, DataType::Interval(_))
}

fn words_of(column: &ArrayRef, words: &mut Vec<u64>) -> Result<()> {
    fn extend<T: ArrowNativeType + Into<u64>>(column: &ArrayRef, words: &mut Vec<u64>) {
        let data = column.to_data();
        words.extend(data.buffer::<T>(0).iter().take(column.len()).map(|value| (*value).into()));
    }
    match column.data_type().primitive_width() {
        Some(1) => extend::<u8>(column, words),
        Some(2) => extend::<u16>(column, words),
        Some(4) => extend::<u32>(column, words),
        Some(8) => extend::<u64>(column, words),
        _ => return Err(Error::internal(format!("{} is no word", column.data_type()))),
    }
    Ok(())
}

fn wrong(error: ArrowError) -> Error {
    Error::invalid_input(format!("The keys of a merge: {error}"))
}
