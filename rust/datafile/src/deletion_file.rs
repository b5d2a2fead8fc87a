//! Deletion files: the offsets of a fragment's deleted rows, in two forms (table format 5).
//!
//! | form | suffix | content |
//! |---|---|---|
//! | Arrow | `.arrow` | Arrow IPC file: one batch, one column `row_id: uint32 not null`, body compressed with zstd, any order |
//! | bitmap | `.bin` | 32-bit roaring bitmap, portable serialization, with or without run containers |
//!
//! Files of this library have a checksum: in a bitmap behind everything, in an Arrow file before its footer, where other
//! readers do not look.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `PENNHASH` |
//! | 8 | XXH3 (64 bits) of all bytes before and, chained by the seed, of all bytes behind, little endian |
//!
//! A file is either read completely or an error: missing rows must never look like fewer deletions. Memory is
//! proportional to the actual content of the file, not to the sizes in its headers.

use std::io::Read;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::writer::{FileWriter as IpcWriter, IpcWriteOptions};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use bytes::Bytes;
use pennon_core::bitmaps::{decode_bitmap, encode_bitmap};
use pennon_core::deletion::DeletionVector;
use pennon_core::error::ResultExt;
use pennon_core::manifest::DeletionFileType;
use pennon_core::{Error, Result};

use crate::container::checksums::hash_parts;

/// From this many rows on the bitmap is chosen.
const BITMAP_FROM: u64 = 5000;

/// Bytes at both ends of an Arrow file.
const MAGIC: &[u8] = b"ARROW1";
/// The first bytes of the checksum.
const CHECKSUM_MAGIC: &[u8; 8] = b"PENNHASH";

/// Encodes in the form for the number of rows: Arrow below 5000 rows, else the bitmap.
///
/// Errors: `Internal` if the encoder fails.
pub fn encode(rows: &DeletionVector) -> Result<(DeletionFileType, Vec<u8>)> {
    let form = if rows.len() < BITMAP_FROM { DeletionFileType::Arrow } else { DeletionFileType::Bitmap };
    Ok((form, encode_as(form, rows)?))
}

/// Encodes in a given form. Errors: `Internal` if the encoder fails.
pub fn encode_as(form: DeletionFileType, rows: &DeletionVector) -> Result<Vec<u8>> {
    match form {
        DeletionFileType::Arrow => {
            encode_arrow(rows).map_err(|e| Error::internal(format!("deletion file: {e}")))
        }
        DeletionFileType::Bitmap => {
            let bytes = encode_bitmap(&rows.to_roaring());
            Ok(with_checksum(&bytes, bytes.len()))
        }
    }
}

/// Whether a deletion file has a checksum, which is right. Errors: `Corrupt` for a wrong one.
pub fn check(form: DeletionFileType, bytes: &[u8]) -> Result<bool> {
    Ok(check_checksum(form, bytes)?.len() < bytes.len())
}

/// Whether a deletion file has a checksum, right or not.
pub fn has_checksum(form: DeletionFileType, bytes: &[u8]) -> bool {
    checksum_at(form, bytes).is_some()
}

/// Decodes a deletion file of exactly `expected_rows` rows, the number in the manifest.
///
/// Errors: `Corrupt` for anything else; the caller adds the path. `Unsupported` for a compression the format does not
/// use.
pub fn decode(form: DeletionFileType, bytes: &Bytes, expected_rows: u64) -> Result<DeletionVector> {
    decode_if(form, bytes, |found| check_count(found, expected_rows))
}

/// Decodes a deletion file of at most so many rows, whose number is not in the manifest.
///
/// Errors: those of [`decode`].
pub fn decode_uncounted(form: DeletionFileType, bytes: &Bytes, most: u64) -> Result<DeletionVector> {
    let first = std::cell::Cell::new(None);
    decode_if(form, bytes, |found| match first.replace(Some(found)) {
        // A row that the file has two times is in the vector once.
        Some(listed) => check_count(found, listed),
        None if found > most => {
            Err(Error::corrupt(format!("deletion file has {found} rows, the fragment has {most}")))
        }
        None => Ok(()),
    })
}

/// `check` is called with the number of rows that the file states, if any, and with that of distinct rows.
fn decode_if(
    form: DeletionFileType,
    bytes: &Bytes,
    check: impl Fn(u64) -> Result<()>,
) -> Result<DeletionVector> {
    let content = check_checksum(form, bytes)?;
    let rows: DeletionVector = match form {
        DeletionFileType::Arrow => decode_arrow(bytes, &check)?.into_iter().collect(),
        DeletionFileType::Bitmap => {
            DeletionVector::from_roaring(decode_bitmap(content).at(|| "deletion file")?)
        }
    };
    check(rows.len())?;
    Ok(rows)
}

/// The bytes of a file with a checksum in the middle.
fn with_checksum(bytes: &[u8], at: usize) -> Vec<u8> {
    let (before, behind) = bytes.split_at(at.min(bytes.len()));
    let mut file = Vec::with_capacity(bytes.len() + CHECKSUM_MAGIC.len() + 8);
    file.extend_from_slice(before);
    file.extend_from_slice(CHECKSUM_MAGIC);
    file.extend_from_slice(&hash_parts(before, behind).to_le_bytes());
    file.extend_from_slice(behind);
    file
}

/// Where the checksum starts; `None` if there is none.
fn checksum_at(form: DeletionFileType, bytes: &[u8]) -> Option<usize> {
    match form {
        DeletionFileType::Bitmap => {
            let at = bytes.len().checked_sub(CHECKSUM_MAGIC.len() + 8);
            at.filter(|at| bytes.get(*at..).is_some_and(|end| end.starts_with(CHECKSUM_MAGIC)))
        }
        // Its footer may be damaged as well, so it is looked for. Such files are small.
        DeletionFileType::Arrow => bytes.windows(CHECKSUM_MAGIC.len()).rposition(|w| w == CHECKSUM_MAGIC),
    }
}

/// Checks the checksum, if there is one. Gives what lies before it. Errors: `Corrupt` for a wrong one.
fn check_checksum(form: DeletionFileType, bytes: &[u8]) -> Result<&[u8]> {
    let Some((before, rest)) = checksum_at(form, bytes).and_then(|at| bytes.split_at_checked(at)) else {
        return Ok(bytes);
    };
    let behind = rest.get(CHECKSUM_MAGIC.len()..).and_then(<[u8]>::split_first_chunk::<8>);
    let Some((expected, behind)) = behind else {
        return Err(Error::corrupt(format!("deletion file of {} bytes ends in its checksum", bytes.len())));
    };
    let (expected, found) = (u64::from_le_bytes(*expected), hash_parts(before, behind));
    if expected == found {
        return Ok(before);
    }
    Err(Error::corrupt(format!(
        "deletion file of {} bytes was changed after it was written: its checksum is {found:016x}, expected \
         {expected:016x}",
        bytes.len()
    )))
}

fn check_count(found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!("deletion file has {found} distinct rows, the manifest says {expected}")))
}

fn encode_arrow(rows: &DeletionVector) -> Result<Vec<u8>, ArrowError> {
    let schema = Arc::new(Schema::new(vec![Field::new("row_id", DataType::UInt32, false)]));
    let column = Arc::new(UInt32Array::from_iter_values(rows.iter()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::ZSTD))?;
    let mut writer = IpcWriter::try_new_with_options(Vec::new(), &schema, options)?;
    writer.write(&batch)?;
    let bytes = writer.into_inner()?;
    let footer_end = bytes.len() - MAGIC.len() - 4;
    let footer_length = int(&bytes, footer_end).unwrap_or_default();
    Ok(with_checksum(&bytes, footer_end - footer_length))
}

/// The values of the only column.
///
/// Arrow's own reader allocates the size in a header, so the few parts of the file are parsed here; the
/// flatbuffers are verified.
fn decode_arrow(bytes: &[u8], check: &impl Fn(u64) -> Result<()>) -> Result<Vec<u32>> {
    let len = bytes.len();
    if len < 2 * MAGIC.len() + 6 || !bytes.starts_with(MAGIC) || !bytes.ends_with(MAGIC) {
        return Err(Error::corrupt(format!("deletion file of {len} bytes is not a complete Arrow file")));
    }
    let footer_end = len - MAGIC.len() - 4;
    let footer_len = int(bytes, footer_end)?;
    let footer = footer_end.checked_sub(footer_len).map(|start| part(bytes, start, footer_len, "footer"));
    let footer = footer.ok_or_else(|| Error::corrupt(format!("footer of {footer_len} bytes in {len}")))??;
    let footer = arrow_ipc::root_as_footer(footer).map_err(|e| broken("footer", e))?;
    check_schema(footer.schema())?;
    let mut blocks = footer.recordBatches().into_iter().flatten();
    let (Some(block), None) = (blocks.next(), blocks.next()) else {
        let found = footer.recordBatches().map_or(0, |b| b.len());
        return Err(Error::corrupt(format!("deletion file with {found} record batches instead of one")));
    };
    let start = size(block.offset())?;
    let metadata_len = size(block.metaDataLength().into())?;
    let metadata = part(bytes, start, metadata_len, "metadata of the record batch")?;
    let body_start = start.checked_add(metadata_len).unwrap_or(len);
    let body = part(bytes, body_start, size(block.bodyLength())?, "body of the record batch")?;
    let prefix = if metadata.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = part(metadata, prefix, int(metadata, prefix - 4)?, "message")?;
    let message = arrow_ipc::root_as_message(message).map_err(|e| broken("message", e))?;
    let Some(batch) = message.header_as_record_batch() else {
        return Err(Error::corrupt("deletion file: the message is not a record batch"));
    };
    let rows = u64::try_from(batch.length()).unwrap_or(u64::MAX);
    check(rows)?;
    let node = batch.nodes().and_then(|nodes| nodes.iter().next());
    if node.is_none_or(|node| node.null_count() != 0 || node.length() != batch.length()) {
        return Err(Error::corrupt(
            "deletion file: column row_id has null values or another length than its batch",
        ));
    }
    // The first buffer is the validity, which is not needed.
    let Some(buffer) = batch.buffers().and_then(|buffers| buffers.iter().nth(1)) else {
        return Err(Error::corrupt("deletion file: column row_id has no values"));
    };
    let values = part(body, size(buffer.offset())?, size(buffer.length())?, "values")?;
    let wanted = size(batch.length())?.checked_mul(4).ok_or_else(|| Error::corrupt("too many rows"))?;
    let values = match batch.compression() {
        None => values.get(..wanted).map(<[u8]>::to_vec),
        Some(compression) => decompress(compression.codec(), values, wanted)?,
    };
    let values =
        values.ok_or_else(|| Error::corrupt(format!("deletion file: no {wanted} bytes of row ids")))?;
    Ok(values.as_chunks::<4>().0.iter().map(|v| u32::from_le_bytes(*v)).collect())
}

fn check_schema(schema: Option<arrow_ipc::Schema<'_>>) -> Result<()> {
    let fields = schema.and_then(|s| s.fields());
    let mut fields = fields.into_iter().flatten();
    let is_row_id = |field: &arrow_ipc::Field<'_>| {
        let int = field.type_as_int();
        field.name() == Some("row_id")
            && !field.nullable()
            && field.dictionary().is_none()
            && int.is_some_and(|int| int.bitWidth() == 32 && !int.is_signed())
    };
    match (fields.next(), fields.next()) {
        (Some(field), None) if is_row_id(&field) => Ok(()),
        (Some(field), None) => Err(Error::corrupt(format!(
            "deletion file has column {:?} of type {:?}{} instead of row_id: uint32 not null",
            field.name().unwrap_or_default(),
            field.type_type(),
            if field.nullable() { ", nullable," } else { "" },
        ))),
        (None, _) => Err(Error::corrupt("deletion file without a column")),
        _ => Err(Error::corrupt("deletion file with more than one column")),
    }
}

/// The bytes of a compressed buffer if there are `wanted` of them: i64 length, -1 for bytes stored as they are.
fn decompress(codec: CompressionType, bytes: &[u8], wanted: usize) -> Result<Option<Vec<u8>>> {
    if wanted == 0 {
        return Ok(Some(Vec::new()));
    }
    let Some((length, bytes)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
    let length = i64::from_le_bytes(*length);
    if length == -1 {
        return Ok(bytes.get(..wanted).map(<[u8]>::to_vec));
    }
    if usize::try_from(length) != Ok(wanted) {
        return Ok(None);
    }
    if codec != CompressionType::ZSTD {
        return Err(Error::unsupported(format!("deletion file compressed with {codec:?}")));
    }
    let mut values = Vec::new();
    let limit = wanted as u64 + 1;
    zstd::stream::read::Decoder::with_buffer(bytes)
        .and_then(|decoder| decoder.take(limit).read_to_end(&mut values))
        .map_err(|e| {
            Error::corrupt(format!("deletion file: row ids cannot be decompressed: {e}")).with_source(e)
        })?;
    Ok(Some(values).filter(|v| v.len() == wanted))
}

fn broken(what: &str, error: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("deletion file: the {what} is garbled: {error}"))
}

/// A length or position in memory. Errors: `Corrupt` for a negative one.
fn size(value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::corrupt(format!("deletion file: length or offset {value}")))
}

fn int(bytes: &[u8], at: usize) -> Result<usize> {
    let bytes = part(bytes, at, 4, "length")?;
    size(i32::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default()).into())
}

fn part<'a>(bytes: &'a [u8], start: usize, len: usize, what: &str) -> Result<&'a [u8]> {
    start.checked_add(len).and_then(|end| bytes.get(start..end)).ok_or_else(|| {
        Error::corrupt(format!("deletion file: {what} of {len} bytes at {start} in {} bytes", bytes.len()))
    })
}

#[cfg(test)]
mod tests;
