//! Values of fixed width and bits, in fixed-size lists or not.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use pennon_core::file::ArrayEncoding;
use pennon_core::{Error, Result};

use super::page::{Buffers, nulls_of};
use crate::encodings::flat::encode::{fixed_bytes, zero};
use crate::values::Physical;

/// Encodes values with `dimensions` of fixed-size lists around them, outer first.
pub(super) fn encode(
    physical: Physical,
    dimensions: &[usize],
    arrays: &[ArrayRef],
    buffers: &mut Buffers,
) -> Result<ArrayEncoding> {
    let nulls = nulls_of(arrays);
    buffers.nullable(nulls.clone(), |buffers| match dimensions {
        [] => Ok(ArrayEncoding::Flat(match physical {
            Physical::Bits => buffers.flat(bits(arrays, nulls.as_ref()), 1)?,
            Physical::Fixed(width) => buffers.flat(bytes(arrays, width, nulls.as_ref())?, width * 8)?,
            _ => return Err(Error::internal("values without width")),
        })),
        [dimension, inner @ ..] => {
            let items = arrays.iter().map(|a| a.as_fixed_size_list_opt().map(|list| list.values().clone()));
            let items: Vec<ArrayRef> = items
                .collect::<Option<_>>()
                .ok_or_else(|| Error::internal("a leaf that is not a fixed-size list"))?;
            let dimension = u32::try_from(*dimension)
                .map_err(|_| Error::internal(format!("fixed-size list of {dimension} items")))?;
            let items = Box::new(encode(physical, inner, &items, buffers)?);
            Ok(ArrayEncoding::FixedSizeList { dimension, items })
        }
    })
}

/// The bits; false where null.
fn bits(arrays: &[ArrayRef], nulls: Option<&NullBuffer>) -> Vec<u8> {
    let len = arrays.iter().map(|array| array.len()).sum();
    let mut bits = BooleanBufferBuilder::new(len);
    arrays.iter().for_each(|array| bits.append_buffer(array.as_boolean().values()));
    let mut bits = bits.finish();
    if let Some(nulls) = nulls {
        bits = &bits & nulls.inner();
    }
    let packed = bits.sliced();
    packed.get(..len.div_ceil(8)).unwrap_or(&packed).to_vec()
}

/// The bytes; zero where null.
fn bytes(arrays: &[ArrayRef], width: usize, nulls: Option<&NullBuffer>) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(width * arrays.iter().map(|array| array.len()).sum::<usize>());
    for array in arrays {
        bytes.extend_from_slice(&fixed_bytes(array, width)?);
    }
    if let Some(nulls) = nulls {
        zero(&mut bytes, width, (!nulls.inner()).set_indices());
    }
    Ok(bytes)
}
