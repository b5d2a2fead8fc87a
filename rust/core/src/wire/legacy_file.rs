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

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::ErrorKind;

    fn metadata(manifest_position: u64, batch_offsets: &[i32]) -> Result<LegacyMetadata> {
        let batch_offsets = batch_offsets.to_vec();
        let wire = file::LegacyMetadata { manifest_position, batch_offsets, page_table_position: 94 };
        LegacyMetadata::decode(&wire.encode_to_vec())
    }

    #[test]
    fn batches_ascend_from_row_0() {
        // The end of a file of pylance 14.0.2, its statistics included.
        let golden = b"\x08\xc1\x02\x12\x02\x00\x05\x18\x5e\x2a\x03\x18\xc1\x01";
        let expected = LegacyMetadata { schema: 321, batch_starts: vec![0, 5], page_table: 94 };
        assert_eq!(LegacyMetadata::decode(golden).unwrap(), expected);
        assert_eq!(metadata(9, &[0, 2, 2, 7]).unwrap().batch_starts, [0, 2, 2, 7]);
        assert!(metadata(9, &[]).unwrap().batch_starts.is_empty());
        for offsets in [&[1, 2][..], &[0, 3, 2], &[-1], &[0, -3]] {
            let error = metadata(9, offsets).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("a batch begins with row"), "{error}");
        }
        assert_eq!(metadata(0, &[0, 5]).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(LegacyMetadata::decode(b"\x12\xff").unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn dictionaries_have_a_position_for_each_field() {
        let field = |id: i32, logical_type: &str, dictionary| file::Field {
            name: format!("f{id}"),
            id,
            parent_id: -1,
            logical_type: logical_type.into(),
            dictionary,
            ..file::Field::default()
        };
        let keyed = |id, offset, length| {
            field(id, "dict:string:int8:false", Some(file::Dictionary { offset, length }))
        };
        let fields = vec![field(0, "int64", None), keyed(1, 22, 3), keyed(2, -1, 4)];
        let wire = file::Schema { fields, ..file::Schema::default() };
        let found = LegacySchema::decode(&wire.encode_to_vec()).unwrap();
        assert_eq!(found.schema.fields.len(), 3);
        let expected = [(FieldId(1), (22, 3)), (FieldId(2), (u64::MAX, 4))];
        assert_eq!(found.dictionaries.into_iter().collect::<Vec<_>>(), expected);
    }
}
