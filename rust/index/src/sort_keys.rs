//! Numbers in the order of values, which sorting and merging compare before they look at a value.
//!
//! Those of integers, times and floats say all. Of texts and binaries they are eight bytes behind what all values begin
//! with, of decimals what fits into 64 bits: there equal numbers may be of different values.

use std::ops::Range;

use arrow_array::{Array, UInt32Array};
use arrow_schema::DataType;
use pennon_core::{Error, Result};

use crate::values::{TypedValues, Value, compare_at, value_at};

/// The sign of a number of 64 bits.
const SIGN: u64 = 1 << 63;
/// So few entries are sorted by comparison.
const FEW: usize = 1 << 11;

/// How values become numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SortKeys {
    /// Bytes that all texts or binaries begin with.
    prefix: Vec<u8>,
}

impl SortKeys {
    /// Of all values of an array.
    pub(crate) fn of(values: &dyn Array) -> Self {
        // Nothing else has a prefix.
        let is_decimal = matches!(values.data_type(), DataType::Decimal128(..));
        let positions = if is_decimal || is_exact(values.data_type()) { 0..0 } else { 0..values.len() };
        Self { prefix: common_prefix(positions.map(|at| (values, at))) }
    }

    /// Of sorted arrays.
    pub(crate) fn of_sorted<'a>(arrays: impl Iterator<Item = &'a dyn Array>) -> Self {
        Self { prefix: common_prefix(arrays.flat_map(ends)) }
    }

    /// Whether all values of a sorted array begin as these do.
    pub(crate) fn suit(&self, values: &dyn Array) -> bool {
        let begins = |at| match value_at(values, at) {
            Some(Value::Bytes(bytes)) => bytes.starts_with(&self.prefix),
            _ => true,
        };
        self.prefix.is_empty() || ends(values).into_iter().all(|(_, at)| begins(at))
    }

    /// The numbers of some values; any of nulls. Those of types without an order are all alike.
    pub(crate) fn fill(&self, values: &dyn Array, at: Range<usize>, keys: &mut Vec<u64>) {
        let (typed, prefix) = (TypedValues::of(values), self.prefix.len());
        let is_unsigned = *values.data_type() == DataType::UInt64;
        keys.clear();
        keys.extend(at.map(|at| match typed.get(at) {
            None => 0,
            Some(Value::Int(value)) if is_unsigned => u64::try_from(value).unwrap_or(0),
            Some(Value::Int(value)) => {
                let bound = if value < 0 { i64::MIN } else { i64::MAX };
                signed(i64::try_from(value).unwrap_or(bound))
            }
            Some(Value::Float(value)) => float(value),
            Some(Value::Bytes(bytes)) => first_bytes(bytes.get(prefix..).unwrap_or_default()),
        }));
    }
}

/// Whether values of a type with one number are equal.
pub(crate) fn is_exact(data_type: &DataType) -> bool {
    use DataType as T;
    !matches!(
        data_type,
        T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary | T::FixedSizeBinary(_) | T::Decimal128(..)
    )
}

/// Positions of values of a type with an order, ascending by value, nulls first; equal values in their order.
///
/// Errors: `Unsupported` for more values than 32 bits number.
pub(crate) fn sorted_indices(values: &dyn Array) -> Result<UInt32Array> {
    let count = u32::try_from(values.len());
    let count = count.map_err(|_| Error::unsupported(format!("sorting {} values at once", values.len())))?;
    let mut keys = Vec::with_capacity(values.len());
    SortKeys::of(values).fill(values, 0..values.len(), &mut keys);
    let all = keys.into_iter().zip(0..count);
    let (mut indices, mut entries) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => entries.extend(all),
        Some(nulls) => {
            for (entry, is_value) in all.zip(nulls.iter()) {
                if is_value { entries.push(entry) } else { indices.push(entry.1) }
            }
        }
    }
    sort_by_key(&mut entries);
    if !is_exact(values.data_type()) {
        let value = |entry: &(u64, u32)| (values, usize::try_from(entry.1).unwrap_or(usize::MAX));
        for same in entries.chunk_by_mut(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            same.sort_by(|a, b| compare_at(value(a), value(b)));
        }
    }
    indices.extend(entries.into_iter().map(|(_, at)| at));
    Ok(UInt32Array::from(indices))
}

/// Sorts by the key, without a change of order among equal ones: byte by byte from the last, where bytes differ.
fn sort_by_key(entries: &mut Vec<(u64, u32)>) {
    if entries.is_sorted_by_key(|(key, _)| *key) {
        return;
    }
    if entries.len() < FEW {
        return entries.sort_by_key(|(key, _)| *key);
    }
    let mut counts = [[0_usize; 256]; 8];
    for (key, _) in entries.iter() {
        for (counts, byte) in counts.iter_mut().zip(key.to_le_bytes()) {
            if let Some(count) = counts.get_mut(usize::from(byte)) {
                *count += 1;
            }
        }
    }
    let mut sorted = vec![(0, 0); entries.len()];
    for (shift, mut counts) in (0..64).step_by(8).zip(counts) {
        if counts.contains(&entries.len()) {
            continue;
        }
        // Where the next entry with a byte goes.
        let mut start = 0;
        for count in &mut counts {
            start += std::mem::replace(count, start);
        }
        for entry in entries.iter() {
            let [byte, ..] = (entry.0 >> shift).to_le_bytes();
            if let Some(next) = counts.get_mut(usize::from(byte)) {
                if let Some(slot) = sorted.get_mut(*next) {
                    *slot = *entry;
                }
                *next += 1;
            }
        }
        std::mem::swap(entries, &mut sorted);
    }
}

fn signed(value: i64) -> u64 {
    value.cast_unsigned() ^ SIGN
}

/// In the total order of floats.
fn float(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The first eight bytes; zeros where there are fewer.
fn first_bytes(bytes: &[u8]) -> u64 {
    let first = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        padded
    });
    u64::from_be_bytes(first)
}

/// The first value of a sorted array that is not null, and the last.
fn ends(values: &dyn Array) -> [(&dyn Array, usize); 2] {
    [(values, values.null_count()), (values, values.len().saturating_sub(1))]
}

/// What all texts or binaries at some positions begin with; nothing of other values.
fn common_prefix<'a>(positions: impl Iterator<Item = (&'a dyn Array, usize)>) -> Vec<u8> {
    let mut prefix: Option<&[u8]> = None;
    for (values, at) in positions {
        let Some(Value::Bytes(bytes)) = value_at(values, at) else { continue };
        let common = match prefix {
            None => bytes,
            Some(before) if bytes.starts_with(before) => before,
            Some(before) => {
                let same = before.iter().zip(bytes).take_while(|(a, b)| a == b).count();
                before.get(..same).unwrap_or_default()
            }
        };
        prefix = Some(common);
        if common.is_empty() {
            break;
        }
    }
    prefix.unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float32Array,
        Float64Array, Int8Array, Int64Array, LargeStringArray, StringArray, TimestampMicrosecondArray,
        UInt64Array,
    };
    use proptest::prelude::*;

    use super::*;

    /// Many values of each type that differ in all of their bytes, or in few; some are equal.
    fn arrays(inputs: &[Option<u64>]) -> Vec<ArrayRef> {
        let each = || inputs.iter().copied();
        let text = |number: Option<u64>| {
            number.map(|n| format!("user_{:03}{}", n % 7, "x".repeat((n % 11) as usize)))
        };
        let bytes = |number: Option<u64>| number.map(|n| n.to_be_bytes()[(n % 8) as usize..].to_vec());
        let fixed = each().map(|number| number.map(u64::to_le_bytes));
        vec![
            Arc::new(each().map(|n| n.map(u64::cast_signed)).collect::<Int64Array>()),
            Arc::new(each().collect::<UInt64Array>()),
            Arc::new(each().map(|n| n.map(|n| n.to_le_bytes()[0].cast_signed())).collect::<Int8Array>()),
            Arc::new(each().map(|n| n.map(f64::from_bits)).collect::<Float64Array>()),
            Arc::new(each().map(|n| n.map(|n| (n % 1000) as f32 - 500.0)).collect::<Float32Array>()),
            Arc::new(each().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
            Arc::new(
                each().map(|n| n.map(|n| (n % 99_999).cast_signed())).collect::<TimestampMicrosecondArray>(),
            ),
            Arc::new(each().map(|n| n.map(|n| i128::from(n.cast_signed()) * 3)).collect::<Decimal128Array>()),
            Arc::new(each().map(text).collect::<StringArray>()),
            Arc::new(each().map(text).collect::<LargeStringArray>()),
            Arc::new(each().map(bytes).collect::<BinaryArray>()),
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 8).unwrap()),
        ]
    }

    fn check(inputs: &[Option<u64>]) {
        for values in arrays(inputs) {
            let found = sorted_indices(values.as_ref()).unwrap();
            let mut expected: Vec<u32> = (0..u32::try_from(values.len()).unwrap()).collect();
            let value = |at: &u32| (values.as_ref(), *at as usize);
            expected.sort_by(|a, b| compare_at(value(a), value(b)));
            assert_eq!(found.values(), expected.as_slice(), "{}", values.data_type());
        }
    }

    proptest! {
        #[test]
        fn values_are_in_their_order(inputs in prop::collection::vec(prop::option::weighted(0.9, any::<u64>()), 0..60)) {
            check(&inputs);
        }
    }

    #[test]
    fn many_values_are_in_their_order() {
        let number = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17);
        for modulus in [3, 70_000, u64::MAX] {
            let valid = |at: u64| (at % 13 != 5).then(|| number(at) % modulus);
            check(&(0..3 * FEW as u64).map(valid).collect::<Vec<_>>());
            check(&(0..3 * FEW as u64).map(|at| Some(number(at) % modulus)).collect::<Vec<_>>());
        }
        check(&(0..3 * FEW as u64).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn prefixes_are_those_of_all_values() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![None, Some("user_1"), Some("user_20")]));
        let keys = SortKeys::of_sorted([texts.as_ref()].into_iter());
        assert_eq!(keys, SortKeys::of(texts.as_ref()));
        assert_eq!(keys.prefix, b"user_");
        let others: ArrayRef = Arc::new(StringArray::from(vec!["user_3", "uses"]));
        assert!(keys.suit(texts.as_ref()) && !keys.suit(others.as_ref()));
    }
}
