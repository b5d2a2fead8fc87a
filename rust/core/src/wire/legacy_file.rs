//! `LegacyMetadata`, and the schema of a data file of version 0.1.

use super::{decode_message, fields, file};
use crate::file::{LegacyMetadata, LegacySchema};
use crate::{Error, FieldId, Result};

impl LegacyMetadata {
    /// Decodes the metadata message.
    ///
    /// Errors: `Corrupt` if the bytes are no such message, or its batches do not ascend from row 0.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let wire: file::LegacyMetadata = decode_message("file metadata", bytes)?;
        let mut batch_starts = Vec::with_capacity(wire.batch_offsets.len());
        for offset in wire.batch_offsets {
            let last = batch_starts.last().copied();
            match u64::try_from(offset) {
                Ok(start) if last.map_or(start == 0, |last| last <= start) => batch_starts.push(start),
                _ => {
                    let after = last.map_or("as the first one".to_owned(), |last| format!("after {last}"));
                    return Err(Error::corrupt(format!(
                        "file metadata: a batch begins with row {offset} {after}, expected ascending rows from 0"
                    )));
                }
            }
        }
        if wire.manifest_position == 0 {
            return Err(Error::unsupported("file metadata: the file does not contain its schema"));
        }
        Ok(Self { schema: wire.manifest_position, batch_starts, page_table: wire.page_table_position })
    }
}

impl LegacySchema {
    /// Decodes the schema.
    ///
    /// Errors: `Corrupt` if the bytes are no schema or it breaks a rule; `Unsupported` for a logical type that is not
    /// known.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let wire: file::Schema = decode_message("schema", bytes)?;
        let position = |field: &file::Field| {
            let dictionary = field.dictionary?;
            let part = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
            Some((FieldId(field.id), (part(dictionary.offset), part(dictionary.length))))
        };
        let dictionaries = wire.fields.iter().filter_map(position).collect();
        Ok(Self { schema: fields::decode_file_schema(wire.fields, wire.metadata)?, dictionaries })
    }
}
