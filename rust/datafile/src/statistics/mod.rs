//! Statistics of columns: bounds and null counts of runs of rows, so that a filter can skip rows that cannot match.
//!
//! They are the last of the extra global buffers (file format 1.5), which the reference ignores. All columns are cut into
//! the same zones of consecutive rows, whatever their pages are. Columns below lists, dictionaries and fixed-size lists
//! have none. All numbers are little endian.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | 8 bytes | `PENNSTAT` |
//! | 8 | u32 | version of the layout, 1 |
//! | 12 | u32 | columns of the file, n |
//! | 16 | u64 | rows of the file |
//! | 24 | u64 | rows of a zone; the last one has the rest |
//! | 32 | u64 | XXH64 of the bytes before and of the table |
//! | 40 | n × 16 bytes | table: per column u32 kind, u32 bytes of its zones, u64 XXH64 of them |
//! | | | the zones of each column, back to back |
//!
//! | kind | bounds |
//! |---|---|
//! | 0 | none: the column has no statistics |
//! | 1, 2, 3, 4, 5 | signed integers of 1, 2, 4, 8, 16 bytes; temporal and decimal types count as what they are stored as |
//! | 6, 7, 8, 9 | unsigned integers of 1 (booleans too), 2, 4, 8 bytes |
//! | 10, 11 | floats of 4 (of 2 too) and 8 bytes |
//! | 12 | byte strings, compared byte by byte: length as u8, then at most 64 bytes |
//!
//! | part of a zone | content |
//! |---|---|
//! | u8 | bits: 1 bounds follow, 2 no upper bound, 4 some value is NaN, 8 a null count follows |
//! | u32 | rows that are null or lie in a null struct |
//! | minimum, maximum | of the values that are neither null nor NaN |
//!
//! A zone without bounds has no such value. A minimum of zero is -0.0, a maximum +0.0. Long byte strings are cut:
//! that lowers a minimum; of a maximum the last byte is raised, with carry, and where it cannot be raised there is
//! no upper bound.
//!
//! A file has statistics only if they are at most a hundredth of it; zones are made larger until they are. Files
//! that are read with one request anyway have none.
//!
//! Invariant: the bounds and counts of a zone are true for every row in it. A buffer that was changed is an error,
//! a buffer of another file is ignored.

mod compute;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub(crate) use compute::Collector;
pub(crate) use decode::Statistics;
pub(crate) use encode::encode;

/// The first bytes of the buffer.
const MAGIC: &[u8; 8] = b"PENNSTAT";
const LAYOUT_VERSION: u32 = 1;
/// Bytes before the table.
const HEADER: usize = 40;
/// Bytes of a column in the table.
const ENTRY: usize = 16;
/// Rows of a zone, if they need not be more.
const ZONE_ROWS: usize = 8192;
/// Bytes of a bound at most.
const LONGEST: usize = 64;

const HAS_BOUNDS: u8 = 1;
const UNBOUNDED: u8 = 2;
const HAS_NAN: u8 = 4;
const HAS_NULLS: u8 = 8;

/// A bound of values, as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// Integers, booleans (0 and 1), dates, times, timestamps, durations and decimals of at most 128 bits.
    Int(i128),
    /// Floats; never NaN.
    Float(f64),
    /// Strings and binary: the first bytes.
    Bytes(Vec<u8>),
}

/// Bounds and null count of consecutive rows of a column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Zone {
    /// Rows whose value is null, also because of a null struct around it.
    pub nulls: u64,
    /// Whether a value is NaN.
    pub has_nan: bool,
    /// Bounds of the values that are neither null nor NaN; `None` if there is no such value.
    pub bounds: Option<Bounds>,
}

/// Bounds of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// No value is smaller.
    pub min: Bound,
    /// No value is larger; `None` where nothing is known.
    pub max: Option<Bound>,
}

/// The zones of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStatistics {
    /// Rows of each zone but the last.
    pub zone_rows: u64,
    /// In order, covering all rows of the file.
    pub zones: Vec<Zone>,
}

/// How the bounds of a column are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundKind {
    Signed(usize),
    Unsigned(usize),
    Float(usize),
    Bytes,
}

impl BoundKind {
    fn code(self) -> u32 {
        match self {
            Self::Signed(width) => 1 + width.trailing_zeros(),
            Self::Unsigned(width) => 6 + width.trailing_zeros(),
            Self::Float(width) => 8 + width.trailing_zeros(),
            Self::Bytes => 12,
        }
    }

    fn of_code(code: u32) -> Option<Self> {
        Some(match code {
            1..=5 => Self::Signed(1 << (code - 1)),
            6..=9 => Self::Unsigned(1 << (code - 6)),
            10 | 11 => Self::Float(1 << (code - 8)),
            12 => Self::Bytes,
            _ => return None,
        })
    }
}

impl Zone {
    /// Adds the rows of another zone.
    fn merge(&mut self, other: Self) {
        self.nulls += other.nulls;
        self.has_nan |= other.has_nan;
        self.bounds = match (self.bounds.take(), other.bounds) {
            (Some(a), Some(b)) => Some(a.merge(b)),
            (a, b) => a.or(b),
        };
    }
}

impl Bounds {
    fn merge(self, other: Self) -> Self {
        let min = if other.min.is_below(&self.min) { other.min } else { self.min };
        let max = match (self.max, other.max) {
            (Some(a), Some(b)) => Some(if a.is_below(&b) { b } else { a }),
            _ => None,
        };
        Self { min, max }
    }
}

impl Bound {
    /// The order of the values, of floats the total one in which -0.0 is below 0.0; `None` for another form.
    ///
    /// ```
    /// use std::cmp::Ordering;
    /// use pennon_datafile::statistics::Bound;
    /// assert_eq!(Bound::Float(-0.0).compare(&Bound::Float(0.0)), Some(Ordering::Less));
    /// assert_eq!(Bound::Int(1).compare(&Bound::Float(1.0)), None);
    /// ```
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => Some(a.total_cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    fn is_below(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }
}
