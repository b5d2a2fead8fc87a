//! Packed structs: the members of a row are adjacent in one buffer, as are the two numbers of a blob descriptor.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use pennon_core::file::{ArrayEncoding, FlatArray};
use pennon_core::{Error, Result};

use super::page::Buffers;
use crate::encodings::flat::encode::fixed_bytes;
use crate::encodings::packed_struct::encode::fixed_rows;
use crate::values::{Leaf, Physical};
use crate::writer::packed::{check_nulls, column, name};

/// Encodes structs without nulls. Errors: `InvalidInput` for nulls in members.
pub(super) fn encode(leaf: &Leaf, arrays: &[ArrayRef], buffers: &mut Buffers) -> Result<ArrayEncoding> {
    let mut members = Vec::with_capacity(leaf.members.len());
    let mut bytes = Vec::with_capacity(leaf.members.len());
    for (at, member) in leaf.members.iter().enumerate() {
        let mut items = column(arrays, at)?;
        check_nulls(&items, None, name(leaf, at))?;
        for _ in &member.dimensions {
            let values = items.iter().map(|a| Some(a.as_fixed_size_list_opt()?.values().clone()));
            items = values
                .collect::<Option<_>>()
                .ok_or_else(|| Error::internal("a leaf that is not a fixed-size list"))?;
            check_nulls(&items, None, name(leaf, at))?;
        }
        let width = item_width(member);
        let mut all = Vec::new();
        for array in &items {
            all.extend_from_slice(&fixed_bytes(array, width)?);
        }
        bytes.push((all, width * member.items()));
        members.push(no_nulls(width, &member.dimensions)?);
    }
    put(members, bytes, arrays.iter().map(|array| array.len()).sum(), buffers)
}

/// Encodes descriptors of 16 bytes.
pub(super) fn descriptors(arrays: &[ArrayRef], buffers: &mut Buffers) -> Result<ArrayEncoding> {
    let mut bytes = Vec::new();
    for array in arrays {
        bytes.extend_from_slice(&fixed_bytes(array, 16)?);
    }
    let rows = arrays.iter().map(|array| array.len()).sum();
    put(vec![no_nulls(8, &[])?, no_nulls(8, &[])?], vec![(bytes, 16)], rows, buffers)
}

/// Bytes of a row.
pub(super) fn row(leaf: &Leaf) -> usize {
    leaf.members.iter().map(|member| item_width(member).saturating_mul(member.items())).sum()
}

fn item_width(member: &Leaf) -> usize {
    if let Physical::Fixed(width) = member.physical { width } else { 0 }
}

fn put(
    members: Vec<ArrayEncoding>,
    bytes: Vec<(Vec<u8>, usize)>,
    rows: usize,
    buffers: &mut Buffers,
) -> Result<ArrayEncoding> {
    let row: usize = bytes.iter().map(|(_, width)| width).sum();
    let FlatArray { buffer, .. } = buffers.flat(fixed_rows(&bytes, rows), row * 8)?;
    Ok(ArrayEncoding::PackedStruct { members, buffer })
}

/// The declared encoding of a member: all members refer to the one buffer of the page.
fn no_nulls(width: usize, dimensions: &[usize]) -> Result<ArrayEncoding> {
    let values = match dimensions {
        [] => {
            ArrayEncoding::Flat(FlatArray { bits_per_value: width as u64 * 8, buffer: 0, compression: None })
        }
        [dimension, inner @ ..] => ArrayEncoding::FixedSizeList {
            dimension: u32::try_from(*dimension)
                .map_err(|_| Error::internal(format!("fixed-size list of {dimension} items")))?,
            items: Box::new(no_nulls(width, inner)?),
        },
    };
    Ok(ArrayEncoding::NoNulls(Box::new(values)))
}
