//! Blob pages: the page has the position of each value in the file (file format 4.8).
//!
//! | size | position | value |
//! |---|---|---|
//! | not 0 | offset in the file | the bytes there |
//! | 0 | 0 | empty |
//! | 0 | `rep \| def << 16` | none: a null, by its definition level |
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

/// Positions of the values of some rows.
#[derive(Debug, Default)]
pub(super) struct BlobPlan {
    /// Definition level of each row.
    def: Vec<u16>,
    /// The requests, one for each row with bytes; `None` for the other rows.
    tickets: Vec<Option<usize>>,
}

impl BlobPlan {
    /// Reads descriptors and requests the values.
    pub(super) fn new(descriptors: &Values, rows: usize, fetch: &mut Fetch) -> Result<Self> {
        let bytes = match &descriptors.data {
            Data::Fixed { bytes, .. } if bytes.len() == rows.saturating_mul(DESCRIPTOR) => bytes.as_slice(),
            _ => return Err(Error::corrupt(format!("descriptors for other than {rows} blobs"))),
        };
        let mut plan = Self { def: Vec::with_capacity(rows), tickets: Vec::with_capacity(rows) };
        for descriptor in bytes.as_chunks::<DESCRIPTOR>().0 {
            let position: u64 = number_at(descriptor, 0)?;
            let size: u64 = number_at(descriptor, 8)?;
            if size > 0 {
                let end = position.checked_add(size).ok_or_else(|| {
                    Error::corrupt(format!("a blob of {size} bytes at {position}, beyond any file"))
                })?;
                plan.tickets.push(Some(fetch.add(position..end)));
                plan.def.push(0);
                continue;
            }
            let def = u16::try_from(position >> 16).ok().filter(|_| position & 0xffff == 0);
            plan.def.push(def.ok_or_else(|| {
                Error::corrupt(format!(
                    "a blob without bytes at {position}, expected a definition level there"
                ))
            })?);
            plan.tickets.push(None);
        }
        Ok(plan)
    }

    /// Appends the rows. `got` are the requested bytes.
    pub(super) fn decode(&self, rows: &RowRanges, got: &[Bytes], out: Output<'_>) -> Result<()> {
        if super::row_count(rows)? != self.def.len() {
            return Err(Error::internal("blobs were looked up for other rows"));
        }
        let Data::Variable64(strings) = &mut out.values.data else {
            return Err(Error::unsupported("blobs of another type than large_binary cannot be read"));
        };
        let found = |ticket: &Option<usize>| match ticket {
            Some(ticket) => got.get(*ticket).ok_or_else(|| Error::internal("a blob was not read")).map(Some),
            None => Ok(None),
        };
        let blobs = self.tickets.iter().map(found).collect::<Result<Vec<_>>>()?;
        strings.bytes.reserve(blobs.iter().flatten().map(|b| b.len()).sum());
        for blob in blobs {
            strings.append(blob.map_or(&[], |b| b.as_ref()))?;
        }
        out.levels.def.extend_from_slice(&self.def);
        out.levels.len += self.def.len();
        Ok(())
    }
}
