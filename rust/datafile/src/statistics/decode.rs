//! Bytes to zones, column by column and only on request.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::{Error, Result};
use twox_hash::XxHash64;

use super::{
    Bound, BoundKind, Bounds, ColumnStatistics, ENTRY, HAS_BOUNDS, HAS_NAN, HAS_NULLS, HEADER,
    LAYOUT_VERSION, LONGEST, MAGIC, UNBOUNDED, Zone,
};
use crate::container::{End, FileMetadata};
use crate::encodings::le::to_usize;
use crate::source::ByteSource;

/// Bytes read at first: the table and, of most files, all zones.
const HEAD: u64 = 64 * 1024;

/// The statistics of a file, as far as they were read.
#[derive(Debug)]
pub(crate) struct Statistics {
    /// The buffer, if it was read together with the metadata.
    in_tail: Option<Bytes>,
    index: OnceLock<Option<Index>>,
    columns: Vec<OnceLock<Option<Arc<ColumnStatistics>>>>,
}

/// The positions of the zones of each column.
#[derive(Debug)]
struct Index {
    rows: u64,
    zone_rows: u64,
    entries: Vec<Entry>,
    /// Position of the buffer in the file, and its first bytes.
    start: u64,
    head: Bytes,
}

#[derive(Debug)]
struct Entry {
    kind: Option<BoundKind>,
    /// Within the buffer.
    range: Range<u64>,
    hash: u64,
}

impl Statistics {
    /// Nothing is decoded yet. `in_tail` is the buffer, if it was read already.
    pub(crate) fn new(num_columns: usize, in_tail: Option<Bytes>) -> Self {
        Self { in_tail, index: OnceLock::new(), columns: (0..num_columns).map(|_| OnceLock::new()).collect() }
    }

    /// The buffer, from the bytes that were read for the metadata.
    pub(crate) fn in_tail(metadata: &FileMetadata, end: &End) -> Option<Bytes> {
        let bytes = end.slice(buffer_of(metadata)?).ok()?;
        // A copy, since a part of the end would keep all of it.
        bytes.starts_with(MAGIC).then(|| Bytes::copy_from_slice(bytes))
    }

    /// The zones of a column, and bytes of memory that were taken by this call.
    pub(crate) fn column(
        &self,
        source: &dyn ByteSource,
        metadata: &FileMetadata,
        column: u32,
    ) -> Result<(Option<Arc<ColumnStatistics>>, usize)> {
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        let Some(cell) = self.columns.get(column) else { return Ok((None, 0)) };
        if let Some(found) = cell.get() {
            return Ok((found.clone(), 0));
        }
        let mut taken = 0;
        let index = match self.index.get() {
            Some(index) => index,
            None => {
                let index = read_index(source, metadata, self.in_tail.clone())?;
                let head = |i: &Index| if self.in_tail.is_some() { 0 } else { i.head.len() };
                taken += index.as_ref().map_or(0, |i| head(i) + i.entries.len() * size_of::<Entry>());
                self.index.get_or_init(|| index)
            }
        };
        let found = match index {
            Some(index) => index.column(source, column).at(|| format!("statistics of column {column}"))?,
            None => None,
        };
        taken += found.as_ref().map_or(0, |s| s.zones.len() * size_of::<Zone>());
        Ok((cell.get_or_init(|| found.map(Arc::new)).clone(), taken))
    }
}

/// Where the statistics are, if the file has any.
fn buffer_of(metadata: &FileMetadata) -> Option<&Range<u64>> {
    metadata.global_buffers.get(1..).and_then(<[_]>::last)
}

fn read_index(
    source: &dyn ByteSource,
    metadata: &FileMetadata,
    in_tail: Option<Bytes>,
) -> Result<Option<Index>> {
    let Some(range) = buffer_of(metadata) else { return Ok(None) };
    let len = range.end - range.start;
    if len < HEADER as u64 {
        return Ok(None);
    }
    let head = match in_tail {
        Some(all) => all,
        None => read(source, range.start..range.start + len.min(HEAD))?,
    };
    if head.get(..MAGIC.len()) != Some(MAGIC) {
        return Ok(None);
    }
    let location = || format!("statistics at {}", range.start);
    let head = match head.get(12..16).and_then(|n| n.try_into().ok()).map(u32::from_le_bytes) {
        Some(columns) if table_end(columns) > head.len() as u64 && table_end(columns) <= len => {
            read(source, range.start..range.start + table_end(columns))?
        }
        _ => head,
    };
    let index = Index::decode(head, range.start, len).at(location)?;
    Ok(index.filter(|i| i.rows == metadata.num_rows && i.entries.len() == metadata.columns.len()))
}

fn table_end(columns: u32) -> u64 {
    HEADER as u64 + u64::from(columns) * ENTRY as u64
}

impl Index {
    /// `None` for a later layout. Errors: `Corrupt`.
    fn decode(head: Bytes, start: u64, len: u64) -> Result<Option<Self>> {
        let mut cursor = Cursor(head.get(MAGIC.len()..).unwrap_or_default());
        if cursor.u32()? != LAYOUT_VERSION {
            return Ok(None);
        }
        let columns = cursor.u32()?;
        let (rows, zone_rows, hash) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let table = to_usize(table_end(columns)).ok().and_then(|end| head.get(HEADER..end));
        let table =
            table.ok_or_else(|| Error::corrupt(format!("a table of {columns} columns in {len} bytes")))?;
        let seed = XxHash64::oneshot(0, head.get(..HEADER - 8).unwrap_or_default());
        if XxHash64::oneshot(seed, table) != hash {
            return Err(Error::corrupt("the table does not have the hash written next to it"));
        }
        if zone_rows == 0 {
            return Err(Error::corrupt("zones of no rows"));
        }
        let mut cursor = Cursor(table);
        let mut at = table_end(columns);
        let mut entries = Vec::with_capacity(table.len() / ENTRY);
        for column in 0..columns {
            let (code, bytes, hash) = (cursor.u32()?, u64::from(cursor.u32()?), cursor.u64()?);
            if at + bytes > len {
                return Err(Error::corrupt(format!(
                    "column {column}: {bytes} bytes at {at}, the buffer has {len}"
                )));
            }
            // A kind of a later release counts as no statistics.
            entries.push(Entry { kind: BoundKind::of_code(code), range: at..at + bytes, hash });
            at += bytes;
        }
        Ok(Some(Self { rows, zone_rows, entries, start, head }))
    }

    fn column(&self, source: &dyn ByteSource, column: usize) -> Result<Option<ColumnStatistics>> {
        let Some(entry) = self.entries.get(column) else { return Ok(None) };
        let Some(kind) = entry.kind else { return Ok(None) };
        let range = &entry.range;
        let in_head = to_usize(range.start)
            .ok()
            .zip(to_usize(range.end).ok())
            .filter(|&(start, end)| start <= end && end <= self.head.len());
        let bytes = match in_head {
            Some((start, end)) => self.head.slice(start..end),
            None => read(source, self.start + range.start..self.start + range.end)?,
        };
        if XxHash64::oneshot(0, &bytes) != entry.hash {
            return Err(Error::corrupt("the zones do not have the hash written next to them"));
        }
        zones(&bytes, kind, self.rows, self.zone_rows).map(Some)
    }
}

/// Errors: `Corrupt`.
fn zones(bytes: &[u8], kind: BoundKind, rows: u64, zone_rows: u64) -> Result<ColumnStatistics> {
    let count = rows.div_ceil(zone_rows);
    // A zone has at least one byte.
    if count > bytes.len() as u64 {
        return Err(Error::corrupt(format!("{count} zones in {} bytes", bytes.len())));
    }
    let mut cursor = Cursor(bytes);
    let mut zones = Vec::with_capacity(to_usize(count)?);
    for at in 0..count {
        let of_zone = zone_rows.min(rows - at * zone_rows);
        zones.push(cursor.zone(kind, of_zone).at(|| format!("zone {at}"))?);
    }
    if !cursor.0.is_empty() {
        return Err(Error::corrupt(format!("{} bytes behind the last zone", cursor.0.len())));
    }
    Ok(ColumnStatistics { zone_rows, zones })
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| Error::corrupt(format!("{len} bytes needed, {} left", self.0.len())))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| Error::internal("a part of another length"))
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn zone(&mut self, kind: BoundKind, rows: u64) -> Result<Zone> {
        let [bits] = self.array()?;
        if bits > HAS_BOUNDS | UNBOUNDED | HAS_NAN | HAS_NULLS {
            return Err(Error::corrupt(format!("bits {bits:#x}")));
        }
        let nulls = if bits & HAS_NULLS > 0 { u64::from(self.u32()?) } else { 0 };
        if nulls > rows {
            return Err(Error::corrupt(format!("{nulls} nulls in {rows} rows")));
        }
        let bounds = if bits & HAS_BOUNDS > 0 {
            let min = self.bound(kind)?;
            let max = if bits & UNBOUNDED > 0 { None } else { Some(self.bound(kind)?) };
            Some(Bounds { min, max })
        } else {
            None
        };
        Ok(Zone { nulls, has_nan: bits & HAS_NAN > 0, bounds })
    }

    fn bound(&mut self, kind: BoundKind) -> Result<Bound> {
        Ok(match kind {
            BoundKind::Signed(width) => {
                let bytes = self.take(width)?;
                let negative = bytes.last().is_some_and(|b| *b >= 0x80);
                Bound::Int(i128::from_le_bytes(widened(bytes, if negative { 0xff } else { 0 })))
            }
            BoundKind::Unsigned(width) => Bound::Int(i128::from_le_bytes(widened(self.take(width)?, 0))),
            BoundKind::Float(4) => Bound::Float(f32::from_le_bytes(self.array()?).into()),
            BoundKind::Float(_) => Bound::Float(f64::from_le_bytes(self.array()?)),
            BoundKind::Bytes => {
                let [len] = self.array()?;
                if usize::from(len) > LONGEST {
                    return Err(Error::corrupt(format!(
                        "a bound of {len} bytes, at most {LONGEST} are possible"
                    )));
                }
                Bound::Bytes(self.take(len.into())?.to_vec())
            }
        })
    }
}

fn widened(bytes: &[u8], fill: u8) -> [u8; 16] {
    let mut padded = [fill; 16];
    padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    padded
}

fn read(source: &dyn ByteSource, range: Range<u64>) -> Result<Bytes> {
    let len = range.end - range.start;
    let bytes = source.read(std::slice::from_ref(&range))?.pop().unwrap_or_default();
    if bytes.len() as u64 != len {
        return Err(Error::corrupt(format!("{} bytes where {len} were to be read", bytes.len())));
    }
    Ok(bytes)
}
