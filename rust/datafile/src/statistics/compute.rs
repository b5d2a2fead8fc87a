//! Values to zones, while pages are written.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, IntervalDayTime, IntervalMonthDayNano};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteArray, downcast_primitive_array};
use arrow_buffer::{BooleanBuffer, NullBuffer, i256};
use arrow_schema::DataType;
use half::f16;

use super::{Bound, BoundKind, Bounds, LONGEST, ZONE_ROWS, Zone};
use crate::simd::simd;

/// Gathers the zones of a column.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(super) kind: BoundKind,
    pub(super) zones: Vec<Zone>,
    /// Rows of the last zone.
    filled: usize,
}

impl Collector {
    /// A collector for values of this type, unless it has no statistics.
    pub(crate) fn new(data_type: &DataType) -> Option<Self> {
        use DataType::{
            Binary, Boolean, Date32, Date64, Decimal128, Duration, FixedSizeBinary, Float16, Float32,
            Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt8,
            UInt16, UInt32, UInt64, Utf8,
        };
        let width = data_type.primitive_width().unwrap_or(1);
        let kind = match data_type {
            Int8 | Int16 | Int32 | Int64 | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..)
            | Duration(_) | Decimal128(..) => BoundKind::Signed(width),
            Boolean | UInt8 | UInt16 | UInt32 | UInt64 => BoundKind::Unsigned(width),
            Float16 | Float32 => BoundKind::Float(4),
            Float64 => BoundKind::Float(8),
            Utf8 | LargeUtf8 | Binary | LargeBinary | FixedSizeBinary(_) => BoundKind::Bytes,
            _ => return None,
        };
        Some(Self { kind, zones: Vec::new(), filled: ZONE_ROWS })
    }

    /// Adds the next rows. `def` are their definition levels where a struct is around them; rows whose level is
    /// not 0 are null.
    pub(crate) fn add(&mut self, array: &ArrayRef, def: Option<&[u16]>) {
        let mut start = 0;
        while start < array.len() {
            if self.filled == ZONE_ROWS {
                self.zones.push(Zone::default());
                self.filled = 0;
            }
            let rows = (ZONE_ROWS - self.filled).min(array.len() - start);
            let part = array.slice(start, rows);
            let nulls = match def {
                Some(def) => {
                    let def = def.get(start..start + rows).unwrap_or_default();
                    Some(NullBuffer::new(BooleanBuffer::from_iter(def.iter().map(|&d| d == 0))))
                }
                None => part.logical_nulls(),
            };
            let zone = zone(&part, nulls.filter(|n| n.null_count() > 0).as_ref());
            if let Some(last) = self.zones.last_mut() {
                last.merge(zone);
            }
            self.filled += rows;
            start += rows;
        }
    }
}

/// The statistics of one array.
fn zone(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Zone {
    let array = array.as_ref();
    let mut zone = downcast_primitive_array!(
        array => zone_of_numbers(array.values(), nulls),
        DataType::Boolean => booleans(array.as_boolean(), nulls),
        DataType::Utf8 => byte_array(array.as_string::<i32>(), nulls),
        DataType::LargeUtf8 => byte_array(array.as_string::<i64>(), nulls),
        DataType::Binary => byte_array(array.as_binary::<i32>(), nulls),
        DataType::LargeBinary => byte_array(array.as_binary::<i64>(), nulls),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            strings(valid(nulls, array.len()).map(|at| array.value(at)))
        }
        _ => Zone::default(),
    );
    zone.nulls = nulls.map_or(0, |n| n.null_count() as u64);
    zone
}

/// Extremes of numbers of one type.
trait Number: Copy {
    /// Adds values to the extremes of earlier values.
    fn extend(found: NumberBounds, values: &[Self]) -> NumberBounds;
}

/// The smallest and the largest number so far; `min` is above `max` as long as there is no number.
#[derive(Debug, Clone, Copy)]
enum NumberBounds {
    Nothing,
    Int(i128, i128),
    Float { min: f64, max: f64, nan: bool },
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn extend(found: NumberBounds, values: &[Self]) -> NumberBounds {
                let Some(&first) = values.first() else { return found };
                let of = |(min, max): ($t, $t), &v: &$t| (v.min(min), v.max(max));
                let (min, max) = simd(|| values.iter().fold((first, first), of));
                let (min, max) = (i128::from(min), i128::from(max));
                match found {
                    NumberBounds::Int(a, b) => NumberBounds::Int(a.min(min), b.max(max)),
                    _ => NumberBounds::Int(min, max),
                }
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// Independent comparisons, enough to become vector instructions.
const LANES: usize = 16;

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn extend(found: NumberBounds, values: &[Self]) -> NumberBounds {
                let (mut min, mut max) = ([<$t>::INFINITY; LANES], [<$t>::NEG_INFINITY; LANES]);
                let mut nan = [false; LANES];
                let (chunks, rest) = values.as_chunks::<LANES>();
                let mut take = |chunk: &[$t]| {
                    let lanes = min.iter_mut().zip(max.iter_mut()).zip(nan.iter_mut());
                    for (((min, max), nan), &v) in lanes.zip(chunk) {
                        // False for NaN, so NaN is never a bound.
                        *min = if v < *min { v } else { *min };
                        *max = if v > *max { v } else { *max };
                        *nan |= v.is_nan();
                    }
                };
                chunks.iter().for_each(|chunk| take(chunk));
                take(rest);
                let (mut low, mut high, mut any) = match found {
                    NumberBounds::Float { min, max, nan } => (min, max, nan),
                    _ => (f64::INFINITY, f64::NEG_INFINITY, false),
                };
                low = min.iter().fold(low, |a, &b| a.min(b.into()));
                high = max.iter().fold(high, |a, &b| a.max(b.into()));
                any |= nan.contains(&true);
                NumberBounds::Float { min: low, max: high, nan: any }
            }
        }
    )*};
}
floats!(f32, f64);

impl Number for f16 {
    fn extend(found: NumberBounds, values: &[Self]) -> NumberBounds {
        let values: Vec<f32> = values.iter().map(|v| v.to_f32()).collect();
        f32::extend(found, &values)
    }
}

macro_rules! without {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn extend(_: NumberBounds, _: &[Self]) -> NumberBounds {
                NumberBounds::Nothing
            }
        }
    )*};
}
without!(i256, IntervalDayTime, IntervalMonthDayNano);

/// With shorter runs between nulls, values are copied together first.
const LONG_RUN: usize = 64;

fn zone_of_numbers<T: Number>(values: &[T], nulls: Option<&NullBuffer>) -> Zone {
    let found = match nulls {
        None => T::extend(NumberBounds::Nothing, values),
        Some(nulls) if nulls.null_count() * LONG_RUN < values.len() => nulls
            .valid_slices()
            .filter_map(|(start, end)| values.get(start..end))
            .fold(NumberBounds::Nothing, T::extend),
        Some(nulls) => {
            let valid: Vec<T> = nulls.valid_indices().filter_map(|at| values.get(at).copied()).collect();
            T::extend(NumberBounds::Nothing, &valid)
        }
    };
    match found {
        NumberBounds::Nothing => Zone::default(),
        NumberBounds::Int(min, max) => with_bounds(Bound::Int(min), Bound::Int(max)),
        NumberBounds::Float { min, max, nan } => {
            // Comparisons may have kept either zero.
            let (min, max) = (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max });
            let bounds =
                (min <= max).then_some(Bounds { min: Bound::Float(min), max: Some(Bound::Float(max)) });
            Zone { nulls: 0, has_nan: nan, bounds }
        }
    }
}

fn booleans(array: &BooleanArray, nulls: Option<&NullBuffer>) -> Zone {
    let (set, of) = match nulls {
        None => (array.values().count_set_bits(), array.len()),
        Some(nulls) => ((array.values() & nulls.inner()).count_set_bits(), array.len() - nulls.null_count()),
    };
    match of {
        0 => Zone::default(),
        _ => with_bounds(Bound::Int(i128::from(set == of)), Bound::Int(i128::from(set > 0))),
    }
}

fn with_bounds(min: Bound, max: Bound) -> Zone {
    Zone { nulls: 0, has_nan: false, bounds: Some(Bounds { min, max: Some(max) }) }
}

fn byte_array<T: ByteArrayType>(array: &GenericByteArray<T>, nulls: Option<&NullBuffer>) -> Zone {
    match nulls {
        None => strings((0..array.len()).map(|at| array.value(at).as_ref())),
        Some(_) => strings(valid(nulls, array.len()).map(|at| array.value(at).as_ref())),
    }
}

fn valid(nulls: Option<&NullBuffer>, len: usize) -> impl Iterator<Item = usize> {
    let runs = nulls.map_or_else(|| vec![(0, len)], |n| n.valid_slices().collect());
    runs.into_iter().flat_map(|(start, end)| start..end)
}

/// Most strings differ in their first bytes from the extremes so far: one comparison of numbers then decides.
fn strings<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Zone {
    let Some(first) = values.next() else { return Zone::default() };
    let (mut min, mut max) = (first, first);
    let (mut min_head, mut max_head) = (head(first), head(first));
    for value in values {
        let head = head(value);
        if head <= min_head && (head < min_head || value < min) {
            (min, min_head) = (value, head);
        }
        if head >= max_head && (head > max_head || value > max) {
            (max, max_head) = (value, head);
        }
    }
    let lower = min.get(..LONGEST).unwrap_or(min).to_vec();
    let max = upper_bound(max).map(Bound::Bytes);
    Zone { nulls: 0, has_nan: false, bounds: Some(Bounds { min: Bound::Bytes(lower), max }) }
}

/// The first bytes as a number of the same order; what is missing counts as zero.
#[inline]
fn head(value: &[u8]) -> u128 {
    if let Some(head) = value.first_chunk::<16>() {
        return u128::from_be_bytes(*head);
    }
    let len = value.len();
    let (first, last) = match (value.first_chunk(), value.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_be_bytes(*first), u64::from_be_bytes(*last)),
        _ => {
            let mut head = [0; 8];
            head.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            (u64::from_be_bytes(head), 0)
        }
    };
    // The last eight bytes without those that were among the first.
    let rest = if len > 8 { last << (8 * (16 - len)) } else { 0 };
    u128::from(first) << 64 | u128::from(rest)
}

/// The string, or if it is long a shorter one that is larger.
fn upper_bound(value: &[u8]) -> Option<Vec<u8>> {
    let Some(cut) = value.get(..LONGEST).filter(|_| value.len() > LONGEST) else {
        return Some(value.to_vec());
    };
    let mut bound = cut.to_vec();
    while let Some(last) = bound.pop() {
        if let Some(raised) = last.checked_add(1) {
            bound.push(raised);
            return Some(bound);
        }
    }
    None
}
