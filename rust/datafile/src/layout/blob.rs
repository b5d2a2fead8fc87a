//! Blob pages: the page has the position of each value in the file (file format 4.8).
//!
//! | size | position | value |
//! |---|---|---|
//! | not 0 | offset in the file | the bytes there |
//! | 0 | 0 | empty |
//! | 0 | `rep \| def << 16` | none: a null, by its definition level |
//!
//! A leaf of `large_binary` gets the values, one of two numbers their positions and sizes.
//!
//! Levels are stored only in the descriptors of nulls, so the list of a value that is not null is lost: lists of
//! blobs cannot be rebuilt.

use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::file::{Layer, PageLayout, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::Output;
use crate::encodings::le::number_at;
use crate::source::Fetch;
use crate::values::{Data, Leaf, Values};

/// Bytes of a descriptor: position and size.
const DESCRIPTOR: usize = 16;

/// The page of the descriptors. Errors: `Unsupported` for blobs in lists.
pub(super) fn descriptors(page: &PageMetadata, inner: &PageLayout, layers: &[Layer]) -> Result<PageMetadata> {
    if layers.iter().any(|l| l.is_list()) {
        return Err(Error::unsupported(
            "lists of blobs cannot be read: the file does not say where a list ends",
        ));
    }
    match inner {
        PageLayout::MiniBlock(_) | PageLayout::Constant(_) | PageLayout::FullZip(_) => Ok(PageMetadata {
            buffers: page.buffers.clone(),
            num_rows: page.num_rows,
            layout: inner.clone(),
            priority: page.priority,
        }),
        _ => Err(Error::corrupt("descriptors of blobs that are blobs themselves")),
    }
}

/// The meaning of a descriptor.
pub(super) fn descriptor_leaf() -> Result<Leaf> {
    Leaf::of(&DataType::FixedSizeBinary(16))
}

/// What a descriptor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blob {
    /// Where the bytes are; there are some.
    Bytes { position: u64, size: u64 },
    /// Without bytes: the definition level, 0 for an empty value.
    Level(u16),
}

impl Blob {
    /// Errors: `Corrupt` for bytes beyond the end of the file, and for what is no level.
    fn of(descriptor: &[u8; DESCRIPTOR], file_size: u64) -> Result<Self> {
        let position: u64 = number_at(descriptor, 0)?;
        let size: u64 = number_at(descriptor, 8)?;
        if size > 0 {
            check_extent(position, size, file_size)?;
            return Ok(Self::Bytes { position, size });
        }
        let level = u16::try_from(position >> 16).ok().filter(|_| position & 0xffff == 0);
        level.map(Self::Level).ok_or_else(|| {
            Error::corrupt(format!("a blob without bytes at {position}, expected a definition level there"))
        })
    }
}

/// Errors: `Corrupt` for a blob that ends after the file does.
pub(crate) fn check_extent(position: u64, size: u64, file_size: u64) -> Result<()> {
    match position.checked_add(size) {
        Some(end) if end <= file_size => Ok(()),
        _ => Err(Error::corrupt(format!(
            "a blob of {size} bytes at {position}, the file has {file_size} bytes"
        ))),
    }
}

/// The blobs of some rows.
#[derive(Debug, Default)]
pub(super) struct BlobPlan {
    blobs: Vec<Blob>,
    /// One for each blob that has bytes; `None` if they are only described.
    requests: Option<Vec<usize>>,
}

impl BlobPlan {
    /// Reads descriptors. Errors: those of [`Blob::of`].
    pub(super) fn new(descriptors: &Values, rows: usize, file_size: u64) -> Result<Self> {
        let blobs = match &descriptors.data {
            Data::Fixed { bytes, .. } if bytes.len() == rows.saturating_mul(DESCRIPTOR) => {
                bytes.as_chunks().0.iter().map(|descriptor| Blob::of(descriptor, file_size))
            }
            _ => return Err(Error::corrupt(format!("descriptors for other than {rows} blobs"))),
        };
        Ok(Self { blobs: blobs.collect::<Result<_>>()?, requests: None })
    }

    /// Requests the bytes.
    pub(super) fn request(&mut self, fetch: &mut Fetch) {
        let request = |blob: &Blob| match *blob {
            Blob::Bytes { position, size } => Some(fetch.add(position..position.saturating_add(size))),
            Blob::Level(_) => None,
        };
        self.requests = Some(self.blobs.iter().filter_map(request).collect());
    }

    /// Appends the rows. `got` are the requested bytes.
    pub(super) fn decode(&self, rows: &RowRanges, got: &[Bytes], out: Output<'_>) -> Result<()> {
        if super::row_count(rows)? != self.blobs.len() {
            return Err(Error::internal("blobs were looked up for other rows"));
        }
        match &self.requests {
            Some(requests) => self.append_bytes(requests, got, &mut out.values.data)?,
            None => self.append_descriptions(&mut out.values.data)?,
        }
        let level = |blob: &Blob| match *blob {
            Blob::Bytes { .. } => 0,
            Blob::Level(level) => level,
        };
        out.levels.def.extend(self.blobs.iter().map(level));
        out.levels.len += self.blobs.len();
        Ok(())
    }

    fn append_bytes(&self, requests: &[usize], got: &[Bytes], out: &mut Data) -> Result<()> {
        let Data::Variable64(strings) = out else {
            return Err(Error::unsupported("blobs of another type than large_binary cannot be read"));
        };
        let read = requests.iter().map(|&request| got.get(request)).collect::<Option<Vec<_>>>();
        let read = read.ok_or_else(|| Error::internal("a blob was not read"))?;
        strings.bytes.reserve(read.iter().map(|bytes| bytes.len()).sum());
        let mut read = read.into_iter();
        for blob in &self.blobs {
            let bytes = if matches!(blob, Blob::Bytes { .. }) { read.next() } else { None };
            strings.append(bytes.map_or(&[], AsRef::as_ref))?;
        }
        Ok(())
    }

    fn append_descriptions(&self, out: &mut Data) -> Result<()> {
        self.blobs.iter().try_for_each(|blob| match *blob {
            Blob::Bytes { position, size } => out.append_description(position, size),
            Blob::Level(_) => out.append_description(0, 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(position: u64, size: u64) -> [u8; DESCRIPTOR] {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&position.to_le_bytes());
        bytes[8..].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    #[test]
    fn descriptors() {
        let of = |position, size| Blob::of(&descriptor(position, size), 100);
        assert_eq!(of(64, 36).unwrap(), Blob::Bytes { position: 64, size: 36 });
        assert_eq!(of(0, 0).unwrap(), Blob::Level(0));
        assert_eq!(of(3 << 16, 0).unwrap(), Blob::Level(3));
        for (position, size) in [(64, 37), (u64::MAX, 2), (1, 0), (1 << 32, 0), (5 << 16 | 1, 0)] {
            assert_eq!(
                of(position, size).unwrap_err().kind(),
                pennon_core::ErrorKind::Corrupt,
                "{position} {size}"
            );
        }
    }

    /// A page that says less than its rows need.
    #[test]
    fn a_short_page() {
        let leaf = descriptor_leaf().unwrap();
        let mut values = Values::with_capacity(&leaf, 2).unwrap();
        let Data::Fixed { bytes, .. } = &mut values.data else { panic!("{values:?}") };
        bytes.extend_from_slice(&descriptor(0, 3));
        assert_eq!(BlobPlan::new(&values, 1, 100).unwrap().blobs, [Blob::Bytes { position: 0, size: 3 }]);
        assert!(BlobPlan::new(&values, 2, 100).unwrap_err().to_string().contains("other than 2 blobs"));
    }
}
