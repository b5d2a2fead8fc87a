//! Value slots of one page, out of the arrays that hold them, in the form the codecs take.
//!
//! A row of a fixed-size list is one value: its items, and for each level of list that has null items a bitmap of
//! them. Items of a null row count as valid, so that a null embedding alone does not need bitmaps.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, BooleanBufferBuilder, Buffer};
use arrow_schema::DataType;
use pennon_core::{Error, Result};

use super::levels::PageLevels;
use crate::encodings::flat::encode::{Rope, fixed_bytes, zero};
use crate::encodings::variable::encode::Variable;
use crate::values::{Leaf, Physical};

/// The values of a page.
#[derive(Debug)]
pub(crate) struct Values {
    /// One entry per level of fixed-size list, outer first.
    pub lists: Vec<ListItems>,
    /// The items.
    pub data: Data,
    /// Bits of an item, of an offset for strings.
    pub item_bits: usize,
}

/// Items of a level of fixed-size list.
#[derive(Debug)]
pub(crate) struct ListItems {
    /// Items of a list.
    pub dimension: usize,
    /// Items of a row.
    pub per_row: usize,
    /// Which items are valid, if any is not.
    pub validity: Option<BooleanBuffer>,
}

/// Values without nulls.
#[derive(Debug)]
pub(crate) enum Data {
    /// Bits; false where null.
    Bits {
        /// Bits of a row.
        per_row: usize,
        /// All bits.
        bits: BooleanBuffer,
    },
    /// Bytes; zeros where null.
    Fixed {
        /// Bytes of a row.
        width: usize,
        /// All bytes.
        bytes: Rope,
    },
    /// Strings; empty where null.
    Variable(Variable),
}

impl Values {
    /// Plain values of a width in bytes.
    pub(crate) fn fixed(width: usize, bytes: Rope) -> Self {
        Self { lists: Vec::new(), data: Data::Fixed { width, bytes }, item_bits: width * 8 }
    }

    /// The values of these arrays, which are the slots of the levels.
    pub(crate) fn collect(leaf: &Leaf, levels: &PageLevels, arrays: &[ArrayRef]) -> Result<Self> {
        let nulls = null_slots(levels);
        let (mut items, mut lists) = (arrays.to_vec(), Vec::with_capacity(leaf.dimensions.len()));
        let (mut per_row, mut broken) = (1, nulls.clone());
        for &dimension in &leaf.dimensions {
            per_row *= dimension;
            items = items
                .iter()
                .map(|a| a.as_fixed_size_list_opt().map(|list| list.values().clone()))
                .collect::<Option<_>>()
                .ok_or_else(|| Error::internal("a leaf that is not a fixed-size list"))?;
            broken = broken_items(&items, broken.as_ref(), dimension, per_row * levels.slots);
            let own = broken.as_ref().and_then(|b| without_rows(b, nulls.as_ref(), per_row));
            lists.push(ListItems { dimension, per_row, validity: own.map(|broken| !&broken) });
        }
        let (data, item_bits) = match leaf.physical {
            Physical::None | Physical::Packed => {
                return Err(Error::internal("a page of values without bytes"));
            }
            Physical::Bits => {
                let mut bits = BooleanBufferBuilder::new(per_row * levels.slots);
                for array in &items {
                    bits.append_buffer(array.as_boolean().values());
                }
                let mut bits = bits.finish();
                if let Some(nulls) = &nulls {
                    bits = &bits & &!&repeat(nulls, per_row);
                }
                (Data::Bits { per_row, bits }, 1)
            }
            Physical::Fixed(width) => {
                let parts = items.iter().map(|a| fixed_bytes(a, width)).collect::<Result<_>>()?;
                let mut bytes = Rope::new(parts);
                if let Some(nulls) = &nulls {
                    let mut all = bytes.to_vec();
                    zero(&mut all, width * per_row, nulls.set_indices());
                    bytes = Rope::new(vec![Buffer::from_vec(all)]);
                }
                (Data::Fixed { width: width * per_row, bytes }, width * 8)
            }
            Physical::Variable32 | Physical::Variable64 => {
                let width = if leaf.physical == Physical::Variable32 { 4 } else { 8 };
                (Data::Variable(strings(&items, levels.slots, nulls.as_ref(), width)?), width * 8)
            }
        };
        Ok(Self { lists, data, item_bits })
    }

    /// Bitmaps of items, outer first.
    pub(crate) fn bitmaps(&self) -> impl Iterator<Item = (usize, &BooleanBuffer)> {
        self.lists.iter().filter_map(|list| Some((list.per_row, list.validity.as_ref()?)))
    }

    /// Rows.
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            Data::Bits { per_row, bits } => bits.len() / per_row.max(&1),
            Data::Fixed { width, bytes } => bytes.len() / width.max(&1),
            Data::Variable(v) => v.offsets.len() - 1,
        }
    }

    /// Bytes of all rows, about.
    pub(crate) fn bytes(&self) -> usize {
        let bitmaps = self.bitmaps().map(|(_, bits)| bits.len().div_ceil(8)).sum::<usize>();
        bitmaps
            + match &self.data {
                Data::Bits { bits, .. } => bits.len().div_ceil(8),
                Data::Fixed { bytes, .. } => bytes.len(),
                Data::Variable(v) => v.bytes.len() + v.offsets.len() * v.width,
            }
    }
}

/// Appends bits so that the first is bit 0 of a byte.
pub(crate) fn put_bits(bits: &BooleanBuffer, at: usize, len: usize, out: &mut Vec<u8>) {
    let part = bits.slice(at, len).sliced();
    out.extend_from_slice(part.get(..len.div_ceil(8)).unwrap_or(&part));
}

/// Per slot whether it is null, if any is.
pub(crate) fn null_slots(levels: &PageLevels) -> Option<BooleanBuffer> {
    let def = levels.def.as_deref().filter(|_| levels.null_slots > 0)?;
    let mut bits = BooleanBufferBuilder::new(levels.slots);
    for &d in def.iter().filter(|&&d| d <= levels.visible) {
        bits.append(d > 0);
    }
    Some(bits.finish())
}

/// Which items are null or are in a null list, if any.
fn broken_items(
    items: &[ArrayRef],
    lists: Option<&BooleanBuffer>,
    dimension: usize,
    len: usize,
) -> Option<BooleanBuffer> {
    if lists.is_none() && items.iter().all(|a| a.null_count() == 0) {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(len);
    for array in items {
        match array.nulls() {
            Some(nulls) => bits.append_buffer(&!nulls.inner()),
            None => bits.append_n(array.len(), false),
        }
    }
    let own = bits.finish();
    Some(match lists {
        Some(lists) => &own | &repeat(lists, dimension),
        None => own,
    })
}

/// The broken items of rows that are not null, if there are any.
fn without_rows(
    broken: &BooleanBuffer,
    rows: Option<&BooleanBuffer>,
    per_row: usize,
) -> Option<BooleanBuffer> {
    let own = match rows {
        Some(rows) => broken & &!&repeat(rows, per_row),
        None => broken.clone(),
    };
    Some(own).filter(|own| own.count_set_bits() > 0)
}

fn repeat(bits: &BooleanBuffer, times: usize) -> BooleanBuffer {
    if times == 1 {
        return bits.clone();
    }
    let mut repeated = BooleanBufferBuilder::new(bits.len() * times);
    for bit in bits {
        repeated.append_n(times, bit);
    }
    repeated.finish()
}

fn strings(
    arrays: &[ArrayRef],
    slots: usize,
    nulls: Option<&BooleanBuffer>,
    width: usize,
) -> Result<Variable> {
    let mut offsets = Vec::with_capacity(slots + 1);
    offsets.push(0);
    let mut parts = Vec::with_capacity(arrays.len());
    for array in arrays {
        match array.data_type() {
            DataType::Utf8 => append_strings::<Utf8Type>(array, nulls, &mut offsets, &mut parts),
            DataType::Binary => append_strings::<BinaryType>(array, nulls, &mut offsets, &mut parts),
            DataType::LargeUtf8 => append_strings::<LargeUtf8Type>(array, nulls, &mut offsets, &mut parts),
            DataType::LargeBinary => {
                append_strings::<LargeBinaryType>(array, nulls, &mut offsets, &mut parts)
            }
            other => return Err(Error::internal(format!("array of type {other} for strings"))),
        }
    }
    Ok(Variable { offsets, bytes: Rope::new(parts), width })
}

fn append_strings<T: ByteArrayType>(
    array: &ArrayRef,
    nulls: Option<&BooleanBuffer>,
    offsets: &mut Vec<u64>,
    parts: &mut Vec<Buffer>,
) {
    let array = array.as_bytes::<T>();
    let ends = array.value_offsets();
    let first = ends.first().map_or(0, |o| o.as_usize());
    let base = offsets.last().copied().unwrap_or_default();
    let nulls = nulls.map(|n| n.slice(offsets.len() - 1, array.len())).filter(|n| n.count_set_bits() > 0);
    let Some(nulls) = nulls else {
        offsets.extend(ends.iter().skip(1).map(|end| base + (end.as_usize() - first) as u64));
        let last = ends.last().map_or(0, |o| o.as_usize());
        parts.push(array.values().slice_with_length(first, last - first));
        return;
    };
    // A null may have bytes of its own; they are left out.
    let (mut end_of_last, mut part_start, mut total) = (first, first, base);
    for (end, null) in ends.iter().skip(1).map(|end| end.as_usize()).zip(nulls.iter()) {
        if !null {
            total += (end - end_of_last) as u64;
        } else if end > end_of_last {
            parts.push(array.values().slice_with_length(part_start, end_of_last - part_start));
            part_start = end;
        }
        end_of_last = end;
        offsets.push(total);
    }
    parts.push(array.values().slice_with_length(part_start, end_of_last - part_start));
}
