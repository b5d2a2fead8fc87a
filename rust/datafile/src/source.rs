//! Where the bytes of a file come from, and how the ranges of one read are put together.

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;
use pennon_core::{Error, Result};

/// Random access to the bytes of one file.
pub trait ByteSource: Send + Sync + Debug {
    /// Size of the file in bytes.
    fn size(&self) -> Result<u64>;

    /// The bytes of each range, in the order asked.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// What to call the file in errors.
    fn name(&self) -> &str;
}

/// A file in memory.
#[derive(Debug, Clone)]
pub struct MemorySource {
    name: String,
    bytes: Bytes,
}

impl MemorySource {
    /// A source of these bytes; the name appears in errors.
    ///
    /// ```
    /// use pennon_datafile::{ByteSource, MemorySource};
    /// let source = MemorySource::new("a.lance", b"abc".as_slice());
    /// assert_eq!(source.read(&[1..3]).unwrap(), ["bc"]);
    /// ```
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }
}

impl ByteSource for MemorySource {
    fn size(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges
            .iter()
            .map(|range| {
                let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end)) else {
                    return Err(beyond(self.bytes.len(), range));
                };
                match self.bytes.get(start..end) {
                    Some(_) => Ok(self.bytes.slice(start..end)),
                    None => Err(beyond(self.bytes.len(), range)),
                }
            })
            .collect()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn beyond(len: usize, range: &Range<u64>) -> Error {
    Error::corrupt(format!("bytes {} to {} needed, the file has {len}", range.start, range.end))
}

/// Ranges closer than this are read as one, for any source; where a request is dear, the source joins more of them.
const GAP: u64 = 2 * 1024;

/// Ranges of one round of reading. Overlapping and near ranges become one request.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    ranges: Vec<Range<u64>>,
}

impl Fetch {
    /// Asks for a range; the result is the index of its bytes in what [`Self::run`] returns.
    pub(crate) fn add(&mut self, range: Range<u64>) -> usize {
        self.ranges.push(range);
        self.ranges.len() - 1
    }

    /// Bytes asked for, counted as often as asked for, and where the last of them end.
    pub(crate) fn extent(&self) -> (u64, u64) {
        self.ranges.iter().fold((0, 0), |(total, end), range| {
            (total.saturating_add(range.end.saturating_sub(range.start)), end.max(range.end))
        })
    }

    /// Reads everything with one call of the source.
    pub(crate) fn run(self, source: &dyn ByteSource) -> Result<Vec<Bytes>> {
        let mut order: Vec<usize> =
            (0..self.ranges.len()).filter(|&i| self.ranges.get(i).is_some_and(|r| r.start < r.end)).collect();
        order.sort_unstable_by_key(|&i| self.ranges.get(i).map(|r| r.start));
        let mut blocks: Vec<Range<u64>> = Vec::new();
        let mut places = vec![(0usize, 0u64); self.ranges.len()];
        for i in order {
            let (Some(range), Some(place)) = (self.ranges.get(i), places.get_mut(i)) else { continue };
            match blocks.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end)
                }
                _ => blocks.push(range.clone()),
            }
            let first = blocks.last().map_or(0, |b| b.start);
            *place = (blocks.len() - 1, range.start - first);
        }
        if blocks.is_empty() {
            return Ok(vec![Bytes::new(); self.ranges.len()]);
        }
        let read = source.read(&blocks)?;
        self.ranges
            .iter()
            .zip(places)
            .map(|(range, (block, offset))| {
                if range.start >= range.end {
                    return Ok(Bytes::new());
                }
                let bytes = read.get(block).ok_or_else(|| Error::internal("a range was not read"))?;
                let (Ok(start), Ok(len)) =
                    (usize::try_from(offset), usize::try_from(range.end - range.start))
                else {
                    return Err(beyond(bytes.len(), range));
                };
                match start.checked_add(len).filter(|&end| end <= bytes.len()) {
                    Some(end) => Ok(bytes.slice(start..end)),
                    None => Err(beyond(bytes.len(), range)),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_read_once_and_come_back_in_order() {
        let bytes: Vec<u8> = (0..60_000u32).map(|i| i.to_le_bytes()[0]).collect();
        let source = MemorySource::new("x", bytes.clone());
        let mut fetch = Fetch::default();
        let asked = [50_000..50_010, 0..10, 5..20, 7..7, 30..40, 20_000..20_001];
        for range in &asked {
            fetch.add(range.clone());
        }
        let got = fetch.run(&source).unwrap();
        for (range, bytes_got) in asked.iter().zip(got) {
            let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
            assert_eq!(bytes_got, bytes[start..end]);
        }
    }

    #[test]
    fn a_range_beyond_the_end_is_an_error() {
        let mut fetch = Fetch::default();
        fetch.add(2..5);
        assert!(fetch.run(&MemorySource::new("x", vec![0u8; 4])).is_err());
    }
}
