//! Which form values get: the one place that decides (table format 4.2).

use bytes::Bytes;

use super::{Bitmap, Segment};
use crate::rows::{to_index, to_u64};

/// The smallest form for these values, in this order.
pub(in crate::rows) fn choose(values: &[u64]) -> Segment {
    let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Segment::Range(0..0) };
    // The end of a range is exclusive, so the largest number is in none.
    if !values.is_sorted_by(|a, b| a < b) || max == u64::MAX {
        return Segment::Array(values.to_vec());
    }
    let range = min..max + 1;
    let count = to_u64(values.len());
    let holes = (range.end - range.start).saturating_sub(count);
    if holes == 0 {
        return Segment::Range(range);
    }
    let as_holes = holes.saturating_mul(4).saturating_add(24);
    let as_bitmap = (range.end - range.start).div_ceil(8).saturating_add(24);
    let as_sorted = count.saturating_mul(2).saturating_add(24);
    if as_holes <= as_bitmap && as_holes <= as_sorted {
        let missing = values.windows(2).flat_map(|pair| match pair {
            [before, after] => before + 1..*after,
            _ => 0..0,
        });
        Segment::Holes { range, holes: missing.collect() }
    } else if as_bitmap <= as_sorted {
        let mut bits = vec![0_u8; to_index((range.end - range.start).div_ceil(8))];
        for value in values {
            let bit = value - min;
            if let Some(byte) = bits.get_mut(to_index(bit / 8)) {
                *byte |= 1 << (bit % 8);
            }
        }
        Segment::Bitmap(Bitmap::new(range, Bytes::from(bits)))
    } else {
        Segment::Sorted(values.to_vec())
    }
}
