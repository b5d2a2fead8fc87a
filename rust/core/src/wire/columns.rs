//! `ColumnMetadata` and its pages <-> [`ColumnMetadata`] (file format 1.4).
//!
//! Encodings are `Any` values inside `DirectEncoding`; no writer uses the other two places.

use std::ops::Range;

use bytes::Bytes;
use prost::Message;

use super::file::v2 as wire;
use super::{any, array_encoding, decode_message, encodings, encodings21, layout, well_known};
use crate::file::{ColumnMetadata, FileVersion, PageLayout, PageMetadata};
use crate::{Error, Result};

const COLUMN_ENCODING: &str = "lance.encodings.ColumnEncoding";
const ARRAY_ENCODING: &str = "lance.encodings.ArrayEncoding";
const PAGE_LAYOUT: &str = "lance.encodings21.PageLayout";
const PLANAR_LAYOUT: &str = "lance.encodings23.PlanarLayout";

impl ColumnMetadata {
    /// Decodes the metadata block of one column (file format 1.4, 3.1 and 4.2).
    ///
    /// Errors: `Unsupported` for file versions other than 2.0, 2.1 and 2.2 and for layouts this release does not read;
    /// `Corrupt` when a rule is broken. Both name the page; the caller adds the column and the file.
    pub fn decode(bytes: &[u8], version: FileVersion) -> Result<Self> {
        if !matches!(version, FileVersion::V2_0 | FileVersion::V2_1 | FileVersion::V2_2) {
            return Err(Error::unsupported(format!(
                "file version {version} is not supported yet (supported: 2.0, 2.1, 2.2)"
            )));
        }
        // One copy, so that symbol tables and inline values are slices of it.
        let wire: wire::ColumnMetadata = decode_message("column metadata", Bytes::copy_from_slice(bytes))?;
        let is_blob = is_blob(wire.encoding, version)?;
        let decode_page = |(at, page): (usize, wire::column_metadata::Page)| {
            decode_page(page, version).map_err(|e| e.at(format!("page {at}")))
        };
        let pages = wire.pages.into_iter().enumerate().map(decode_page).collect::<Result<_>>()?;
        Ok(Self { pages, is_blob })
    }

    /// Encodes the metadata block of one column; the inverse of [`Self::decode`].
    ///
    /// Errors: `Internal` for a page whose encoding was not understood.
    pub fn encode(&self) -> Result<Vec<u8>> {
        use encodings::column_encoding::ColumnEncoding;
        let values = ColumnEncoding::Values(well_known::Empty {});
        let mut encoding = encodings::ColumnEncoding { column_encoding: Some(values) };
        if self.is_blob {
            let blob = encodings::Blob { inner: Some(Box::new(encoding)) };
            encoding =
                encodings::ColumnEncoding { column_encoding: Some(ColumnEncoding::Blob(Box::new(blob))) };
        }
        let wire = wire::ColumnMetadata {
            encoding: Some(direct(COLUMN_ENCODING, encoding.encode_to_vec())),
            pages: self.pages.iter().map(encode_page).collect::<Result<_>>()?,
            buffer_offsets: Vec::new(),
            buffer_sizes: Vec::new(),
        };
        Ok(wire.encode_to_vec())
    }
}

/// Checks the encoding of a column; whether it is that of blobs.
fn is_blob(encoding: Option<wire::Encoding>, version: FileVersion) -> Result<bool> {
    use encodings::column_encoding::ColumnEncoding;
    let Some(encoding) = encoding else { return Err(Error::corrupt("the column is missing its encoding")) };
    let any = decode_direct("column", encoding)?;
    any::check(&any, COLUMN_ENCODING)?;
    let encoding: encodings::ColumnEncoding = decode_message("column encoding", any.value)?;
    match encoding.column_encoding {
        Some(ColumnEncoding::Values(_)) => Ok(false),
        Some(ColumnEncoding::ZoneIndex(_)) => Err(Error::unsupported("a column with a zone index")),
        Some(ColumnEncoding::Blob(_)) if version == FileVersion::V2_0 => Ok(true),
        Some(ColumnEncoding::Blob(_)) => {
            Err(Error::unsupported("a blob column of the form of file version 2.0"))
        }
        None => Err(Error::unsupported("a column encoding that is not known")),
    }
}

fn decode_direct(what: &str, encoding: wire::Encoding) -> Result<well_known::Any> {
    match encoding.location {
        Some(wire::encoding::Location::Direct(direct)) => decode_message("encoding", direct.encoding),
        Some(wire::encoding::Location::Indirect(_)) => {
            Err(Error::unsupported(format!("the {what} encoding is stored elsewhere in the file")))
        }
        Some(wire::encoding::Location::None(_)) | None => {
            Err(Error::corrupt(format!("the {what} encoding is missing")))
        }
    }
}

fn direct(name: &str, value: Vec<u8>) -> wire::Encoding {
    let encoding = any::wrap(name, value).encode_to_vec().into();
    wire::Encoding { location: Some(wire::encoding::Location::Direct(wire::DirectEncoding { encoding })) }
}

fn decode_page(wire: wire::column_metadata::Page, version: FileVersion) -> Result<PageMetadata> {
    if wire.buffer_offsets.len() != wire.buffer_sizes.len() {
        return Err(Error::corrupt(format!(
            "{} buffer positions and {} buffer sizes",
            wire.buffer_offsets.len(),
            wire.buffer_sizes.len()
        )));
    }
    let range = |(&start, &size): (&u64, &u64)| match start.checked_add(size) {
        Some(end) => Ok(start..end),
        None => Err(Error::corrupt(format!("a buffer of {size} bytes at {start} has no end"))),
    };
    let buffers: Vec<Range<u64>> =
        wire.buffer_offsets.iter().zip(&wire.buffer_sizes).map(range).collect::<Result<_>>()?;
    let Some(encoding) = wire.encoding else {
        return Err(Error::corrupt("the page is missing its encoding"));
    };
    let any = decode_direct("page", encoding)?;
    if version == FileVersion::V2_0 {
        any::check(&any, ARRAY_ENCODING)?;
        let layout = PageLayout::Array(array_encoding::decode(decode_message("array encoding", any.value)?)?);
        return Ok(PageMetadata { buffers, num_rows: wire.length, layout, priority: wire.priority });
    }
    match any::message_name(&any.type_url) {
        Some(ARRAY_ENCODING) => {
            return Err(Error::unsupported(format!(
                "an encoding of file version 2.0 in a file of version {version}"
            )));
        }
        Some(PLANAR_LAYOUT) => return Err(Error::unsupported("a layout of file version 2.3")),
        _ => any::check(&any, PAGE_LAYOUT)?,
    }
    let page_layout: encodings21::PageLayout = decode_message("page layout", any.value)?;
    Ok(PageMetadata {
        buffers,
        num_rows: wire.length,
        layout: layout::decode(page_layout, version)?,
        priority: wire.priority,
    })
}

fn encode_page(page: &PageMetadata) -> Result<wire::column_metadata::Page> {
    let encoding = match &page.layout {
        PageLayout::Array(array) => direct(ARRAY_ENCODING, array_encoding::encode(array)?.encode_to_vec()),
        layout => direct(PAGE_LAYOUT, layout::encode(layout)?.encode_to_vec()),
    };
    Ok(wire::column_metadata::Page {
        buffer_offsets: page.buffers.iter().map(|b| b.start).collect(),
        buffer_sizes: page.buffers.iter().map(|b| b.end.saturating_sub(b.start)).collect(),
        length: page.num_rows,
        encoding: Some(encoding),
        priority: page.priority,
    })
}
