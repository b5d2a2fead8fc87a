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
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
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
        if let [data_type] = types
            && is_word(data_type)
        {
            return Ok(Self::Words);
        }
        let fields = types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
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
        match self {
            Self::Rows(rows) => XxHash64::oneshot(0, rows.row(row).data()),
            _ => mix(self.words().and_then(|words| words.get(row)).copied().unwrap_or_default()),
        }
    }

    /// The hashes of the first rows, in order.
    pub(super) fn for_each_hash(&self, rows: usize, mut each: impl FnMut(usize, u64)) {
        match self.words() {
            Some(words) => words.iter().take(rows).enumerate().for_each(|(row, word)| each(row, mix(*word))),
            None => (0..rows).for_each(|row| each(row, self.hash(row))),
        }
    }

    /// The words, if the keys are words.
    pub(super) fn words(&self) -> Option<&[u64]> {
        match self {
            Self::Words(words) => Some(words),
            Self::Column(words) => Some(words),
            Self::Rows(_) => None,
        }
    }

    pub(super) fn equal(&self, row: usize, other: &Self, other_row: usize) -> bool {
        match (self, other) {
            (Self::Rows(left), Self::Rows(right)) => left.row(row) == right.row(other_row),
            _ => match (self.words(), other.words()) {
                (Some(left), Some(right)) => left.get(row) == right.get(other_row),
                _ => false,
            },
        }
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
        _ => return Err(Error::internal(format!("{} is not a word", column.data_type()))),
    }
    Ok(())
}

pub(super) fn wrong(error: ArrowError) -> Error {
    Error::invalid_input(format!("The keys of a merge: {error}"))
}
