//! From buffers to an Arrow array of the leaf's type.

use arrow_array::{ArrayRef, BooleanArray, FixedSizeListArray, NullArray, StructArray, make_array};
use arrow_array::{GenericBinaryArray, GenericStringArray, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef};
use std::sync::Arc;

use pennon_core::{Error, Result};

use super::{Data, Leaf, Strings, Validity, Values};

/// The array of `rows` rows. Errors: `Corrupt` for text that is not UTF-8.
pub(crate) fn leaf_array(
    leaf: &Leaf,
    values: Values,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    wrap(&leaf.data_type, values.data, &mut values.item_validity.into_iter(), rows, nulls)
}

/// Puts the fixed-size lists of a type around its items.
fn wrap(
    data_type: &DataType,
    data: Data,
    item_validity: &mut std::vec::IntoIter<Validity>,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::FixedSizeList(child, dimension) = data_type else {
        return flat(data_type, data, len, nulls);
    };
    let items = usize::try_from(*dimension).unwrap_or_default().saturating_mul(len);
    let item_nulls = item_validity.next().and_then(Validity::finish);
    let values = wrap(child.data_type(), data, item_validity, items, item_nulls)?;
    let array = FixedSizeListArray::try_new_with_length(Arc::clone(child), *dimension, values, nulls, len)
        .map_err(arrow_error)?;
    Ok(Arc::new(array))
}

fn flat(data_type: &DataType, data: Data, len: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(match (data, data_type) {
        (Data::None, DataType::Null) => Arc::new(NullArray::new(len)),
        (Data::None, DataType::Struct(_)) => Arc::new(StructArray::new_empty_fields(len, nulls)),
        (Data::Packed(members), DataType::Struct(fields)) => {
            // A null struct has null members, as anywhere else.
            let member = |(values, field): (Values, &FieldRef)| {
                leaf_array(&Leaf::of(field.data_type())?, values, len, nulls.clone())
            };
            let arrays = members.into_iter().zip(fields).map(member).collect::<Result<_>>()?;
            let array = StructArray::try_new_with_length(fields.clone(), arrays, nulls, len);
            Arc::new(array.map_err(arrow_error)?)
        }
        (Data::Bits(mut bits), _) => {
            check_len(bits.len(), len)?;
            if let Some(nulls) = &nulls {
                check_len(nulls.len(), len)?;
            }
            Arc::new(BooleanArray::new(bits.finish(), nulls))
        }
        (Data::Fixed { width, bytes }, _) => {
            check_len(bytes.len(), width.saturating_mul(len))?;
            let data = ArrayData::builder(data_type.clone())
                .len(len)
                .add_buffer(bytes.into())
                .nulls(nulls)
                .build()
                .map_err(arrow_error)?;
            make_array(data)
        }
        (Data::Variable32(strings), DataType::Utf8) => text(strings, nulls)?,
        (Data::Variable64(strings), DataType::LargeUtf8) => text(strings, nulls)?,
        (Data::Variable32(strings), DataType::Binary) => binary(strings, nulls)?,
        (Data::Variable64(strings), DataType::LargeBinary) => binary(strings, nulls)?,
        _ => return Err(Error::internal(format!("buffers do not fit to type {data_type}"))),
    })
}

fn text<O: OffsetSizeTrait>(strings: Strings<O>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(strings.offsets));
    let array =
        GenericStringArray::<O>::try_new(offsets, strings.bytes.into(), nulls).map_err(arrow_error)?;
    Ok(Arc::new(array))
}

fn binary<O: OffsetSizeTrait>(strings: Strings<O>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(strings.offsets));
    let array =
        GenericBinaryArray::<O>::try_new(offsets, strings.bytes.into(), nulls).map_err(arrow_error)?;
    Ok(Arc::new(array))
}

fn check_len(found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!("{found} found where {expected} are needed for the rows asked")))
}

/// An array that Arrow refuses is bad data, since the types are correct.
pub(crate) fn arrow_error(error: ArrowError) -> Error {
    Error::corrupt(format!("values do not make an Arrow array: {error}"))
}
