//! Sources of the bytes of a file, and how the ranges of one read are joined.

use std::fmt::Debug;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use pennon_core::{Error, Result};

use crate::seal::Seal;

/// Random access to the bytes of one file.
pub trait ByteSource: Send + Sync + Debug {
    /// Size of the file in bytes.
    fn size(&self) -> Result<u64>;

    /// The bytes of each range, in the order of the request.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// The name of the file in errors.
    fn name(&self) -> &str;

    /// Whether many small reads cost no more than few large ones.
    fn is_local(&self) -> bool;

    /// Lets go of bytes that are in memory for the first read.
    fn forget(&self) {}

    /// The seal of the file, if there is one: asked for when a file without checksums is read and all are looked at.
    fn seal(&self) -> Result<Option<Seal>> {
        Ok(None)
    }

    /// Which checksums are looked at when the file is read.
    fn verify_reads(&self) -> VerifyReads {
        VerifyReads::default()
    }
}

/// Which checksums of a data file are looked at when it is read, if it has some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyReads {
    /// None.
    Off,
    /// That of the metadata, when the file is opened.
    #[default]
    Metadata,
    /// Those of all blocks that are read as well.
    Pages,
}

impl VerifyReads {
    const ALL: [Self; 3] = [Self::Off, Self::Metadata, Self::Pages];

    /// Its name: `off`, `metadata` or `pages`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Metadata => "metadata",
            Self::Pages => "pages",
        }
    }
}

impl FromStr for VerifyReads {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|found| found.name() == text).ok_or_else(|| {
            Error::invalid_input(format!(
                "verify_reads is {text:?}; expected \"off\", \"metadata\" or \"pages\""
            ))
        })
    }
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

    fn is_local(&self) -> bool {
        true
    }
}

/// A file whose last bytes are in memory, until [`ByteSource::forget`] is called.
#[derive(Debug)]
pub struct EndSource {
    source: Arc<dyn ByteSource>,
    size: u64,
    end: Mutex<Option<(u64, Bytes)>>,
}

impl EndSource {
    /// A source of a file of which the bytes from a position on were read.
    pub fn new(source: Arc<dyn ByteSource>, start: u64, end: Bytes) -> Self {
        Self { source, size: start + end.len() as u64, end: Mutex::new(Some((start, end))) }
    }
}

impl ByteSource for EndSource {
    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match end {
            Some(end) => HeldSource::new(self.source.as_ref(), end).read(ranges),
            None => self.source.read(ranges),
        }
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn is_local(&self) -> bool {
        self.source.is_local()
    }

    fn seal(&self) -> Result<Option<Seal>> {
        self.source.seal()
    }

    fn verify_reads(&self) -> VerifyReads {
        self.source.verify_reads()
    }

    fn forget(&self) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.source.forget();
    }
}

fn beyond(len: usize, range: &Range<u64>) -> Error {
    Error::corrupt(format!("bytes {} to {} needed, the file has {len}", range.start, range.end))
}

/// Ranges closer than this are read as one, for any source; where a request is expensive, the source joins more.
const GAP: u64 = 2 * 1024;
/// Bytes that are read at once from a local source: they are still in a cache of the processor when they are
/// decoded, and the memory is used again. New memory for all of a read costs as much as reading.
const BLOCK: u64 = 256 << 10;

/// A source of which some parts are in memory already.
#[derive(Debug)]
pub(crate) struct HeldSource<'a> {
    source: &'a dyn ByteSource,
    /// Ascending, without overlaps.
    held: Vec<(u64, Bytes)>,
}

impl<'a> HeldSource<'a> {
    /// A source of which the bytes from a position on were read.
    pub(crate) fn new(source: &'a dyn ByteSource, part: (u64, Bytes)) -> Self {
        Self { source, held: vec![part] }
    }

    /// Reads these ranges with one call of the source, close ones joined.
    pub(crate) fn fetch(source: &'a dyn ByteSource, mut ranges: Vec<Range<u64>>) -> Result<Self> {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut().filter(|last| range.start <= last.end.saturating_add(GAP)) {
                Some(last) => last.end = last.end.max(range.end),
                None => joined.push(range),
            }
        }
        let read = source.read(&joined)?;
        Ok(Self { source, held: joined.iter().map(|range| range.start).zip(read).collect() })
    }

    fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let at = self.held.partition_point(|(start, _)| *start <= range.start).checked_sub(1)?;
        let (start, bytes) = self.held.get(at)?;
        let offset = |position: u64| usize::try_from(position.checked_sub(*start)?).ok();
        let range = offset(range.start)?..offset(range.end)?;
        bytes.get(range.clone()).map(|_| bytes.slice(range))
    }
}

impl ByteSource for HeldSource<'_> {
    fn size(&self) -> Result<u64> {
        self.source.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let found: Vec<Option<Bytes>> = ranges.iter().map(|range| self.find(range)).collect();
        let missing: Vec<Range<u64>> =
            ranges.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(r, _)| r.clone()).collect();
        let mut read = if missing.is_empty() { Vec::new() } else { self.source.read(&missing)? }.into_iter();
        found.into_iter().map(|found| found.or_else(|| read.next()).ok_or_else(not_read)).collect()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn is_local(&self) -> bool {
        self.source.is_local()
    }
}

/// Ranges of one pass of reading. Overlapping and close ranges become one request.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    ranges: Vec<Range<u64>>,
}

impl Fetch {
    /// Requests a range; the result is the index of its bytes in what [`Self::run`] returns, or its ticket for
    /// [`Fetched::get`].
    pub(crate) fn add(&mut self, range: Range<u64>) -> usize {
        self.ranges.push(range);
        self.ranges.len() - 1
    }

    /// What was requested.
    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Requested bytes, counted at each request, and the end of the last range.
    pub(crate) fn extent(&self) -> (u64, u64) {
        self.ranges.iter().fold((0, 0), |(total, end), range| {
            (total.saturating_add(range.end.saturating_sub(range.start)), end.max(range.end))
        })
    }

    /// Reads everything with one call of the source.
    pub(crate) fn run(self, source: &dyn ByteSource) -> Result<Vec<Bytes>> {
        let (blocks, slices) = self.merged();
        let read = if blocks.is_empty() { Vec::new() } else { source.read(&blocks)? };
        let block = |slice: &BlockSlice| read.get(slice.block).ok_or_else(not_read);
        slices
            .iter()
            .map(|slice| if slice.len == 0 { Ok(Bytes::new()) } else { slice.of(block(slice)?) })
            .collect()
    }

    /// Reads everything with one call of the source. From a local file of `size` bytes it reads large requests
    /// block by block when [`Fetched::get`] is called, which should be in the order of the tickets.
    pub(crate) fn begin(self, source: &dyn ByteSource, size: u64) -> Result<Fetched<'_>> {
        let (total, _) = self.extent();
        // Only a damaged file leads to requests of more than its size: every byte is read once then.
        if source.is_local() && (BLOCK + 1..=size).contains(&total) {
            let (blocks, slices) = self.in_order();
            return Ok(Fetched { source, blocks, slices, all: None, last: None });
        }
        let (blocks, slices) = self.merged();
        let all = if blocks.is_empty() { Vec::new() } else { source.read(&blocks)? };
        Ok(Fetched { source, blocks, slices, all: Some(all), last: None })
    }

    /// Overlapping and close ranges joined to blocks, and the position of each range.
    fn merged(&self) -> (Vec<Range<u64>>, Vec<BlockSlice>) {
        let mut order: Vec<usize> = (0..self.ranges.len()).collect();
        order.sort_unstable_by_key(|&i| self.ranges.get(i).map(|r| r.start));
        self.put_together(order, u64::MAX)
    }

    /// Consecutive ranges joined to blocks of at most [`BLOCK`] or one range, and the position of each range.
    fn in_order(&self) -> (Vec<Range<u64>>, Vec<BlockSlice>) {
        self.put_together(0..self.ranges.len(), BLOCK)
    }

    fn put_together(
        &self,
        order: impl IntoIterator<Item = usize>,
        most: u64,
    ) -> (Vec<Range<u64>>, Vec<BlockSlice>) {
        let mut blocks: Vec<Range<u64>> = Vec::new();
        let mut slices = vec![BlockSlice::default(); self.ranges.len()];
        for i in order {
            let (Some(range), Some(slice)) = (self.ranges.get(i), slices.get_mut(i)) else { continue };
            if range.start >= range.end {
                continue;
            }
            let is_close = |last: &Range<u64>| {
                (last.start..=last.end.saturating_add(GAP)).contains(&range.start)
                    && range.end.max(last.end) - last.start <= most
            };
            match blocks.last_mut().filter(|last| is_close(last)) {
                Some(last) => last.end = last.end.max(range.end),
                None => blocks.push(range.clone()),
            }
            let first = blocks.last().map_or(0, |b| b.start);
            *slice = BlockSlice {
                block: blocks.len() - 1,
                offset: range.start - first,
                len: range.end - range.start,
            };
        }
        (blocks, slices)
    }
}

/// The position of the bytes of a range.
#[derive(Debug, Clone, Default)]
struct BlockSlice {
    block: usize,
    offset: u64,
    len: u64,
}

impl BlockSlice {
    fn of(&self, block: &Bytes) -> Result<Bytes> {
        let range = self.offset..self.offset.saturating_add(self.len);
        match (usize::try_from(range.start), usize::try_from(range.end)) {
            (Ok(start), Ok(end)) if end <= block.len() => Ok(block.slice(start..end)),
            _ => Err(Error::internal(format!(
                "{} bytes came for a block of which {} to {} are needed",
                block.len(),
                range.start,
                range.end
            ))),
        }
    }
}

/// The result of a pass of reading.
#[derive(Debug)]
pub(crate) struct Fetched<'a> {
    source: &'a dyn ByteSource,
    blocks: Vec<Range<u64>>,
    slices: Vec<BlockSlice>,
    /// All blocks, if they were read at once.
    all: Option<Vec<Bytes>>,
    /// The block that was read last.
    last: Option<(usize, Bytes)>,
}

impl Fetched<'_> {
    /// The bytes of a range.
    pub(crate) fn get(&mut self, ticket: usize) -> Result<Bytes> {
        let slice = self.slices.get(ticket).ok_or_else(not_read)?;
        if slice.len == 0 {
            return Ok(Bytes::new());
        }
        if let Some(all) = &self.all {
            return slice.of(all.get(slice.block).ok_or_else(not_read)?);
        }
        if let Some((_, bytes)) = self.last.as_ref().filter(|(block, _)| *block == slice.block) {
            return slice.of(bytes);
        }
        // Its memory is reused for the next block.
        self.last = None;
        let block = self.blocks.get(slice.block).ok_or_else(not_read)?;
        let bytes = self.source.read(std::slice::from_ref(block))?.pop().ok_or_else(not_read)?;
        let found = slice.of(&bytes);
        self.last = Some((slice.block, bytes));
        found
    }
}

fn not_read() -> Error {
    Error::internal("a range was not read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_ranges_are_read_once_and_come_back_in_order() {
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

    /// A source that records its reads.
    #[derive(Debug)]
    struct Noting(MemorySource, bool, Mutex<Vec<Vec<Range<u64>>>>);

    impl ByteSource for Noting {
        fn size(&self) -> Result<u64> {
            self.0.size()
        }

        fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
            self.2.lock().unwrap().push(ranges.to_vec());
            self.0.read(ranges)
        }

        fn name(&self) -> &str {
            self.0.name()
        }

        fn is_local(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn local_blocks_are_read_when_they_are_asked_for() {
        let bytes: Vec<u8> = (0..3 * BLOCK).map(|i| (i % 251) as u8).collect();
        let cut = BLOCK + 3001;
        let asked = [0..10, 3000..4000, 3500..BLOCK - 1, BLOCK - 1..cut, 7..7, cut + 5..3 * BLOCK];
        let begin = |asked: &[Range<u64>], local: bool| {
            let source = Noting(MemorySource::new("x", bytes.clone()), local, Mutex::default());
            let mut fetch = Fetch::default();
            asked.iter().for_each(|range| assert_eq!(asked[fetch.add(range.clone())], *range));
            let mut fetched = fetch.begin(&source, 3 * BLOCK).unwrap();
            for (ticket, range) in asked.iter().enumerate() {
                let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                assert_eq!(fetched.get(ticket).unwrap(), bytes[range]);
            }
            fetched.get(asked.len()).unwrap_err();
            drop(fetched);
            source.2.into_inner().unwrap()
        };
        let own_block = cut + 5..3 * BLOCK;
        let local = [0..10, 3000..BLOCK - 1, BLOCK - 1..cut, own_block.clone()];
        assert_eq!(begin(&asked, true), local.map(|block| vec![block]));
        assert_eq!(begin(&asked, false), [vec![0..10, 3000..own_block.end]]);
        // Pages of two columns in turns: each block is read once.
        let (page, half) = (BLOCK / 4, 3 * BLOCK / 2);
        let turns = [0..page, 2 * page..3 * page, half..half + page, page..2 * page, 3 * page..4 * page];
        assert_eq!(begin(&turns, true), turns.clone().map(|block| vec![block]));
        // Little is read at once, and so is what overlaps.
        assert_eq!(begin(&turns[..1], true), [vec![0..page]]);
        assert_eq!(begin(&[0..2 * BLOCK, 5..BLOCK, BLOCK..3 * BLOCK], true), [vec![0..3 * BLOCK]]);
    }

    #[test]
    fn held_parts_are_not_read_again() {
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
        let source = Noting(MemorySource::new("x", bytes.clone()), false, Mutex::default());
        let held =
            HeldSource::fetch(&source, vec![20_000..21_000, 100..200, 150..300, 2_000..2_100]).unwrap();
        let asked = [2_010..2_020, 100..2_100, 0..10, 20_000..21_000, 20_999..21_001, 300..300];
        for (range, got) in asked.iter().zip(held.read(&asked).unwrap()) {
            let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
            assert_eq!(got, bytes[start..end], "{range:?}");
        }
        held.read(&asked[..2]).unwrap();
        drop(held);
        let reads = source.2.into_inner().unwrap();
        assert_eq!(reads, [vec![100..2_100, 20_000..21_000], vec![0..10, 20_999..21_001]]);
    }

    #[test]
    fn the_end_of_a_file_is_not_read_again() {
        let source =
            Arc::new(Noting(MemorySource::new("x", b"0123456789".as_slice()), false, Mutex::default()));
        let with_end =
            EndSource::new(Arc::clone(&source) as Arc<dyn ByteSource>, 6, Bytes::from_static(b"6789"));
        assert_eq!(with_end.size().unwrap(), 10);
        assert_eq!(with_end.read(&[6..8, 2..4, 9..10, 5..7]).unwrap(), ["67", "23", "9", "56"]);
        assert_eq!(*source.2.lock().unwrap(), [vec![2..4, 5..7]]);
        let is_local = |is_local: bool| {
            let source = Arc::new(Noting(MemorySource::new("x", vec![0u8; 4]), is_local, Mutex::default()));
            EndSource::new(source, 4, Bytes::new()).is_local()
        };
        assert!(is_local(true) && !is_local(false));
        with_end.forget();
        assert_eq!(with_end.read(&[6..8]).unwrap(), ["67"]);
        assert_eq!(source.2.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_range_beyond_the_end_is_an_error() {
        let beyond = |range: Range<u64>| {
            let mut fetch = Fetch::default();
            fetch.add(range);
            fetch
        };
        let source = MemorySource::new("x", vec![0u8; 4]);
        assert!(beyond(2..5).run(&source).is_err());
        assert!(beyond(2..5).begin(&source, 4).is_err());
        let far = Noting(source, false, Mutex::default());
        assert!(beyond(2..5).begin(&far, 4).is_err());
        let local = MemorySource::new("x", vec![0u8; 4]);
        let mut fetched = beyond(2..2 * BLOCK).begin(&local, 4 * BLOCK).unwrap();
        assert!(fetched.get(0).is_err());
    }
}
