//! Values that are stored outside of their page: position and size of each, then the bytes (file format 4.8).
//!
//! | size | position | value |
//! |---|---|---|
//! | not 0 | offset in the file | the bytes there |
//! | 0 | 0 | empty |
//! | 0 | not 0 | none: a null |

use bytes::Bytes;
use pennon_core::{Error, Result};

use super::flat::Flat;
use crate::layout::blob::check_extent;
use crate::source::Fetch;
use crate::values::{Data, Validity};

/// Rows of blobs, or of descriptions of them.
#[derive(Debug)]
pub(super) struct Blobs<'a> {
    descriptors: Flat<'a>,
    file_size: u64,
    pass: BlobPass,
    /// Position and size of each value; `None` for a null.
    extents: Vec<Option<(u64, u64)>>,
    /// The requests for the values that are not null; `None` if they are only described.
    requests: Option<Vec<usize>>,
    bytes: Vec<Bytes>,
}

/// What the next pass brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlobPass {
    Descriptors,
    Bytes,
    /// Nothing: other columns have more passes.
    Done,
}

impl<'a> Blobs<'a> {
    /// `descriptors` are values of 128 bits. `with_bytes`: whether the bytes are read too.
    pub(super) fn new(descriptors: Flat<'a>, file_size: u64, with_bytes: bool) -> Self {
        let (pass, requests) = (BlobPass::Descriptors, with_bytes.then(Vec::new));
        Self { descriptors, file_size, pass, extents: Vec::new(), requests, bytes: Vec::new() }
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        match (self.pass, &mut self.requests) {
            (BlobPass::Descriptors, requests) => {
                self.descriptors.take(bytes)?;
                self.extents = extents(&self.descriptors, self.file_size)?;
                let Some(requests) = requests else {
                    self.pass = BlobPass::Done;
                    return Ok(false);
                };
                let ranges = self.extents.iter().flatten();
                requests.extend(
                    ranges.map(|(position, size)| fetch.add(*position..position.saturating_add(*size))),
                );
                self.pass = BlobPass::Bytes;
                return Ok(true);
            }
            (BlobPass::Bytes, Some(requests)) => {
                let read = requests.iter().map(|&request| bytes.get(request).cloned());
                let read = read.collect::<Option<Vec<_>>>();
                self.bytes = read.ok_or_else(|| Error::internal("a blob that was not asked for"))?;
                self.pass = BlobPass::Done;
            }
            _ => {}
        }
        Ok(false)
    }

    /// Appends the values.
    pub(super) fn append_to(self, out: &mut Data, nulls: &mut Validity) -> Result<()> {
        let mut bytes = self.bytes.iter();
        for extent in &self.extents {
            nulls.append(extent.is_some());
            let mut value = || extent.and_then(|_| bytes.next()).map_or(&[] as &[u8], |bytes| bytes);
            match out {
                Data::Packed(_) => {
                    let (position, size) = extent.unwrap_or_default();
                    out.append_description(position, size)?;
                }
                Data::Variable32(strings) => strings.append(value())?,
                Data::Variable64(strings) => strings.append(value())?,
                _ => return Err(Error::internal("blobs for another type")),
            }
        }
        Ok(())
    }
}

/// Position and size of each value; `None` for a null. Errors: `Corrupt` for bytes beyond the end of the file.
fn extents(descriptors: &Flat<'_>, file_size: u64) -> Result<Vec<Option<(u64, u64)>>> {
    let mut found = Vec::new();
    for mut values in descriptors.u64_values()? {
        while let (Some(position), Some(size)) = (values.next(), values.next()) {
            check_extent(position, size, file_size)?;
            // Empty ones are at 0, nulls at 1.
            found.push((size > 0 || position == 0).then_some((position, size)));
        }
    }
    Ok(found)
}
