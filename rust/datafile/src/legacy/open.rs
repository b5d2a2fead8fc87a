//! From the footer back to the metadata, the schema and the page table.

use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::{FileVersion, LegacyFooter, LegacyMetadata, LegacySchema};
use pennon_core::{Error, Result};

use super::LegacyPages;
use crate::container::{End, FileMetadata};
use crate::encodings::le::number_at;
use crate::source::ByteSource;

/// Reads the metadata; what was read of the file so far is extended as far as that takes.
///
/// Errors: `Corrupt` for a file that is cut short or garbled; `Unsupported` for one without schema.
pub(crate) fn open(source: &dyn ByteSource, end: &mut End, footer: LegacyFooter) -> Result<FileMetadata> {
    let size = end.size();
    let behind = size.saturating_sub(LegacyFooter::SIZE as u64);
    let metadata = LegacyMetadata::decode(message(source, end, footer.metadata, behind, "metadata")?)?;
    let message = message(source, end, metadata.schema, behind, "schema")?;
    let LegacySchema { schema, dictionaries } = LegacySchema::decode(message)?;
    let ids = || schema.depth_first().map(|field| i64::from(field.id.0));
    let last_field = ids().max().unwrap_or(-1);
    let first_field = if footer.table_begins_with_field_0 { 0 } else { ids().min().unwrap_or(0) };
    let batches = metadata.batch_starts.len().saturating_sub(1) as u64;
    let fields = u64::try_from(last_field - first_field + 1).unwrap_or(0);
    let table_end = fields.checked_mul(batches).and_then(|pages| pages.checked_mul(16));
    let table_end = table_end.and_then(|length| metadata.page_table.checked_add(length));
    let table_end = table_end.filter(|&end| end <= behind).ok_or_else(|| {
        Error::corrupt(format!(
            "page table of {fields} fields and {batches} batches at {}, the file has {size} bytes",
            metadata.page_table
        ))
    })?;
    end.extend(source, metadata.page_table)?;
    let table = Bytes::copy_from_slice(end.slice(&(metadata.page_table..table_end))?);
    let num_rows = metadata.batch_starts.last().copied().unwrap_or_default();
    let pages = LegacyPages {
        batch_starts: metadata.batch_starts,
        first_field,
        table,
        dictionaries,
        file_size: size,
    };
    Ok(FileMetadata {
        version: FileVersion::Legacy,
        schema,
        num_rows,
        columns: Vec::new(),
        global_buffers: Vec::new(),
        size,
        checksums: None,
        legacy: Some(pages.into()),
    })
}

/// The message at a position, its length before it.
fn message<'a>(
    source: &dyn ByteSource,
    end: &'a mut End,
    position: u64,
    behind: u64,
    what: &str,
) -> Result<&'a [u8]> {
    let start = position
        .checked_add(4)
        .filter(|&start| start <= behind)
        .ok_or_else(|| Error::corrupt(format!("{what} at {position}, the file has {} bytes", end.size())))?;
    end.extend(source, position)?;
    let length = number_at::<u32>(end.slice(&(position..start))?, 0)?;
    let message = start..start.saturating_add(length.into());
    if message.end > behind {
        return Err(Error::corrupt(format!(
            "{what} of {length} bytes at {position}, the file has {}",
            end.size()
        )));
    }
    end.slice(&message).at(|| format!("{what} at {position}"))
}
