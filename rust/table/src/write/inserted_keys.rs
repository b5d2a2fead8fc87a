//! The keys of rows that a transaction inserts, for conflict checks of concurrent ones (table format 8.4).
//!
//! Few keys are listed, many make a filter. Two transactions that insert one key at a time must not both do so.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, LargeBinaryArray, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{ArrowError, DataType};
use pennon_core::transaction::{BloomFilter, KeyFilter, KeySet, key_hash};
use pennon_core::{Error, FieldId, Result};

use super::floats::canonical_float;

/// Keys that are listed, at most: 128 KiB.
const LISTED: usize = 16 << 10;
/// Bytes of a filter, at most.
const FILTER_BYTES: usize = 4 << 20;

/// A filter of keys by their hashes; none without any. `shares`: in how many tasks about as many rows are inserted.
pub(crate) fn filter(fields: Vec<FieldId>, hashes: Vec<u64>, shares: usize) -> Option<KeyFilter> {
    if hashes.is_empty() {
        return None;
    }
    let keys = if hashes.len() <= LISTED {
        KeySet::Exact(hashes.into_iter().collect())
    } else {
        KeySet::Bloom(filter_of(hashes.len().saturating_mul(shares.max(1)), hashes))
    };
    Some(KeyFilter { fields, keys: Some(keys) })
}

/// Rows without a null among these columns; `None`: all.
pub(crate) fn not_null(columns: &[ArrayRef]) -> Option<NullBuffer> {
    let nulls = columns.iter().map(|column| column.logical_nulls().filter(|n| n.null_count() > 0));
    nulls.fold(None, |all, nulls| NullBuffer::union(all.as_ref(), nulls.as_ref()))
}

/// The hashes of keys without a null, which equals no other.
pub(crate) fn hashes_without_null(columns: &[ArrayRef]) -> Result<Vec<u64>> {
    let not_null = not_null(columns);
    let rows = columns.first().map_or(0, |column| column.len());
    hashes_of(columns, (0..rows).filter(|row| not_null.as_ref().is_none_or(|n| n.is_valid(*row))))
}

/// The keys of all, in one filter.
pub(crate) fn union(filters: impl IntoIterator<Item = KeyFilter>) -> Option<KeyFilter> {
    let mut all = filters.into_iter().reduce(KeyFilter::union)?;
    all.keys = match all.keys {
        Some(KeySet::Exact(keys)) if keys.len() > LISTED => Some(KeySet::Bloom(filter_of(keys.len(), keys))),
        keys => keys,
    };
    Some(all)
}

/// A filter with room for so many keys.
fn filter_of(count: usize, hashes: impl IntoIterator<Item = u64>) -> BloomFilter {
    let bytes = count.saturating_mul(2).next_power_of_two().min(FILTER_BYTES);
    let mut filter = BloomFilter { bitmap: vec![0; bytes], items: 0, ..BloomFilter::default() };
    for hash in hashes {
        filter.insert(hash);
        filter.items += 1;
    }
    filter
}

/// The hashes of keys, one of each row that is asked for. Null is hashed as some value.
pub(crate) fn hashes_of(columns: &[ArrayRef], rows: impl IntoIterator<Item = usize>) -> Result<Vec<u64>> {
    let bytes = columns.iter().map(Bytes::of).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let hash = |row| match bytes.as_slice() {
        [Bytes::Signed(column)] => key_hash(&[&column.value(row).to_le_bytes()]),
        columns => {
            let mut words = vec![[0; 8]; columns.len()];
            let parts = columns.iter().zip(&mut words);
            key_hash(&parts.map(|(column, word)| column.bytes(row, word)).collect::<Vec<_>>())
        }
    };
    Ok(rows.into_iter().map(hash).collect())
}

/// A key column as the bytes that are hashed.
enum Bytes {
    Signed(Int64Array),
    Unsigned(UInt64Array),
    Binary(LargeBinaryArray),
    /// Types that the reference has no bytes for.
    Rows(Rows),
}

impl Bytes {
    fn of(column: &ArrayRef) -> Result<Self, ArrowError> {
        Ok(match column.data_type() {
            DataType::Dictionary(_, values) => return Self::of(&cast(column, values)?),
            t if t.is_signed_integer() => {
                Self::Signed(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            t if t.is_unsigned_integer() => {
                Self::Unsigned(cast(column, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                Self::Binary(cast(column, &DataType::LargeBinary)?.as_binary::<i64>().clone())
            }
            t if t.is_floating() => {
                let values = canonical_float(&cast(column, &DataType::Float64)?);
                let converter = RowConverter::new(vec![SortField::new(DataType::Float64)])?;
                Self::Rows(converter.convert_columns(&[values])?)
            }
            other => {
                let converter = RowConverter::new(vec![SortField::new(other.clone())])?;
                Self::Rows(converter.convert_columns(&[Arc::clone(column)])?)
            }
        })
    }

    fn bytes<'a>(&'a self, row: usize, word: &'a mut [u8; 8]) -> &'a [u8] {
        match self {
            Self::Signed(values) => *word = values.value(row).to_le_bytes(),
            Self::Unsigned(values) => *word = values.value(row).to_le_bytes(),
            Self::Binary(values) => return values.value(row),
            Self::Rows(rows) => return rows.row(row).data(),
        }
        word
    }
}

fn failed(error: ArrowError) -> Error {
    Error::invalid_input(format!("The keys of inserted rows: {error}"))
}
