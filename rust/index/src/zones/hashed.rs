//! The bytes of values that Bloom filters hash: little endian at the width of the type, texts and binaries as they are.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, downcast_primitive_array};
use arrow_buffer::ToByteSlice;
use arrow_schema::DataType;
use pennon_core::transaction::key_hash;
use pennon_core::{Error, Result};
use pennon_datafile::statistics::Bound;

/// Whether values of a type can be in a Bloom filter of the format.
///
/// ```
/// use arrow_schema::DataType;
/// assert!(pennon_index::is_hashed(&DataType::Utf8) && !pennon_index::is_hashed(&DataType::Boolean));
/// ```
pub fn is_hashed(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Int8
            | T::Int16
            | T::Int32
            | T::Int64
            | T::UInt8
            | T::UInt16
            | T::UInt32
            | T::UInt64
            | T::Float32
            | T::Float64
            | T::Utf8
            | T::LargeUtf8
            | T::Binary
            | T::LargeBinary
            | T::Date32
            | T::Date64
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(..)
    )
}

/// The hash of each value; `None` of null. Errors: `InvalidInput` for values that cannot be in a filter.
pub(super) fn hashes(values: &ArrayRef) -> Result<Vec<Option<u64>>> {
    fn of_numbers<T: ArrowPrimitiveType>(array: &arrow_array::PrimitiveArray<T>) -> Vec<Option<u64>> {
        array.iter().map(|value| value.map(|value| key_hash(&[value.to_byte_slice()]))).collect()
    }
    fn of_bytes<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<Option<u64>> {
        values.map(|value| value.map(|value| key_hash(&[value]))).collect()
    }
    let found = values.data_type();
    if !is_hashed(found) {
        return Err(Error::invalid_input(format!("values of type {found} cannot be in a Bloom filter")));
    }
    Ok(match found {
        DataType::Utf8 => of_bytes(values.as_string::<i32>().iter().map(|text| text.map(str::as_bytes))),
        DataType::LargeUtf8 => of_bytes(values.as_string::<i64>().iter().map(|text| text.map(str::as_bytes))),
        DataType::Binary => of_bytes(values.as_binary::<i32>().iter()),
        DataType::LargeBinary => of_bytes(values.as_binary::<i64>().iter()),
        _ => {
            let values = values.as_ref();
            downcast_primitive_array!(
                values => of_numbers(values),
                other => return Err(Error::internal(format!("values of type {other} have no width")))
            )
        }
    })
}

/// The hash of a value of a type; `None` if the type does not have it.
pub(super) fn hash_of(value: &Bound, data_type: &DataType) -> Option<u64> {
    use DataType as T;
    macro_rules! int {
        ($value:expr, $type:ty) => {
            <$type>::try_from(*$value).ok().map(|value| key_hash(&[&value.to_le_bytes()]))
        };
    }
    match (value, data_type) {
        (Bound::Int(value), T::Int8) => int!(value, i8),
        (Bound::Int(value), T::Int16) => int!(value, i16),
        (Bound::Int(value), T::Int32 | T::Date32 | T::Time32(_)) => int!(value, i32),
        (Bound::Int(value), T::Int64 | T::Date64 | T::Time64(_) | T::Timestamp(..)) => int!(value, i64),
        (Bound::Int(value), T::UInt8) => int!(value, u8),
        (Bound::Int(value), T::UInt16) => int!(value, u16),
        (Bound::Int(value), T::UInt32) => int!(value, u32),
        (Bound::Int(value), T::UInt64) => int!(value, u64),
        (Bound::Float(value), T::Float64) => Some(key_hash(&[&value.to_le_bytes()])),
        (Bound::Float(value), T::Float32) => {
            #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
            let narrow = *value as f32;
            let is_same = f64::from(narrow).to_bits() == value.to_bits();
            is_same.then(|| key_hash(&[&narrow.to_le_bytes()]))
        }
        (Bound::Bytes(value), T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary) => {
            Some(key_hash(&[value]))
        }
        _ => None,
    }
}
