//! `U64Segment` and `EncodedU64Array` <-> [`Segment`] (table format 4.1).

use std::ops::Range;

use super::{Bitmap, Segment};
use crate::rows::to_u64;
use crate::wire::table;
use crate::wire::table::encoded_u64_array::{Array, U16Array, U32Array, U64Array};
use crate::wire::table::u64_segment::{self, Segment as Wire};
use crate::{Error, Result};

impl TryFrom<table::U64Segment> for Segment {
    type Error = Error;

    fn try_from(wire: table::U64Segment) -> Result<Self> {
        match wire.segment {
            None => Err(Error::corrupt("a segment without a form")),
            Some(Wire::Range(range)) => Ok(Self::Range(checked(range.start, range.end)?)),
            Some(Wire::RangeWithHoles(wire)) => {
                let range = checked(wire.start, wire.end)?;
                let holes =
                    wire.holes.ok_or_else(|| Error::corrupt("a segment with holes that lists none"))?;
                let mut holes = decode_array(holes)?;
                holes.sort_unstable();
                let inside = |hole: &u64| range.contains(hole);
                if !holes.iter().all(inside) || !holes.is_sorted_by(|a, b| a < b) {
                    return Err(Error::corrupt(format!("holes outside of {range:?} or named twice")));
                }
                Ok(Self::Holes { range, holes })
            }
            Some(Wire::RangeWithBitmap(wire)) => {
                let range = checked(wire.start, wire.end)?;
                let values = range.end - range.start;
                if to_u64(wire.bitmap.len()) != values.div_ceil(8) {
                    let found = wire.bitmap.len();
                    return Err(Error::corrupt(format!("a bitmap of {found} bytes for {values} values")));
                }
                let padding =
                    wire.bitmap.last().is_some_and(|last| values % 8 != 0 && last >> (values % 8) != 0);
                if padding {
                    return Err(Error::corrupt(format!("a bitmap with bits set behind its {values} values")));
                }
                Ok(Self::Bitmap(Bitmap::new(range, wire.bitmap)))
            }
            Some(Wire::SortedArray(array)) => {
                let values = decode_array(array)?;
                if !values.is_sorted_by(|a, b| a < b) {
                    return Err(Error::corrupt("a sorted segment whose values do not ascend"));
                }
                Ok(Self::Sorted(values))
            }
            Some(Wire::Array(array)) => Ok(Self::Array(decode_array(array)?)),
        }
    }
}

impl From<&Segment> for table::U64Segment {
    fn from(segment: &Segment) -> Self {
        let segment = match segment {
            Segment::Range(range) => Wire::Range(u64_segment::Range { start: range.start, end: range.end }),
            Segment::Holes { range, holes } => Wire::RangeWithHoles(u64_segment::RangeWithHoles {
                start: range.start,
                end: range.end,
                holes: Some(encode_array(holes)),
            }),
            Segment::Bitmap(bitmap) => Wire::RangeWithBitmap(u64_segment::RangeWithBitmap {
                start: bitmap.range.start,
                end: bitmap.range.end,
                bitmap: bitmap.bits.clone(),
            }),
            Segment::Sorted(values) => Wire::SortedArray(encode_array(values)),
            Segment::Array(values) => Wire::Array(encode_array(values)),
        };
        Self { segment: Some(segment) }
    }
}

fn checked(start: u64, end: u64) -> Result<Range<u64>> {
    if start > end {
        return Err(Error::corrupt(format!("a segment from {start} to {end}")));
    }
    Ok(start..end)
}

fn decode_array(array: table::EncodedU64Array) -> Result<Vec<u64>> {
    let add = |base: u64, offset: u64| {
        base.checked_add(offset)
            .ok_or_else(|| Error::corrupt(format!("offset {offset} from {base} overflows")))
    };
    match array.array {
        None => Err(Error::corrupt("an array without a form")),
        Some(Array::U16Array(array)) => {
            let offsets = pieces::<2>(&array.offsets)?;
            offsets.map(|bytes| add(array.base, u16::from_le_bytes(bytes).into())).collect()
        }
        Some(Array::U32Array(array)) => {
            let offsets = pieces::<4>(&array.offsets)?;
            offsets.map(|bytes| add(array.base, u32::from_le_bytes(bytes).into())).collect()
        }
        Some(Array::U64Array(array)) => Ok(pieces::<8>(&array.values)?.map(u64::from_le_bytes).collect()),
    }
}

fn pieces<const N: usize>(bytes: &[u8]) -> Result<impl Iterator<Item = [u8; N]> + '_> {
    let (pieces, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(Error::corrupt(format!("an array of {} bytes, expected a multiple of {N}", bytes.len())));
    }
    Ok(pieces.iter().copied())
}

fn encode_array(values: &[u64]) -> table::EncodedU64Array {
    let base = values.iter().copied().min().unwrap_or_default();
    let spread = values.iter().copied().max().unwrap_or_default() - base;
    let array = if values.is_empty() {
        Array::U64Array(U64Array { values: Vec::new().into() })
    } else if let Some(offsets) =
        narrow(values, base, spread, |offset| u16::try_from(offset).ok(), u16::to_le_bytes)
    {
        Array::U16Array(U16Array { base, offsets: offsets.into() })
    } else if let Some(offsets) =
        narrow(values, base, spread, |offset| u32::try_from(offset).ok(), u32::to_le_bytes)
    {
        Array::U32Array(U32Array { base, offsets: offsets.into() })
    } else {
        let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Array::U64Array(U64Array { values: values.into() })
    };
    table::EncodedU64Array { array: Some(array) }
}

/// The offsets from `base` in a smaller width, if the largest of them fits.
fn narrow<T, const N: usize>(
    values: &[u64],
    base: u64,
    spread: u64,
    fit: impl Fn(u64) -> Option<T>,
    bytes: impl Fn(T) -> [u8; N],
) -> Option<Vec<u8>> {
    fit(spread)?;
    let mut out = Vec::with_capacity(values.len() * N);
    for value in values {
        out.extend(bytes(fit(value - base)?));
    }
    Some(out)
}
