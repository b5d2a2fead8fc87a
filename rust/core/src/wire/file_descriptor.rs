//! `FileDescriptor`, global buffer 0 of a data file (file format 1.5).

use prost::Message;

use super::{decode_message, fields, file};
use crate::file::FileDescriptor;
use crate::schema::Schema;
use crate::{Error, Result};

impl FileDescriptor {
    /// Decodes global buffer 0 of a data file (file format 1.5).
    ///
    /// Errors: `Corrupt` if the bytes are no descriptor or the schema breaks a rule; `Unsupported` for a logical
    /// type that is not known.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let wire: file::FileDescriptor = decode_message("file descriptor", bytes)?;
        let Some(schema) = wire.schema else {
            return Err(Error::corrupt("file descriptor: it has no schema"));
        };
        let schema: Schema = fields::decode_file_schema(schema.fields, schema.metadata)?;
        Ok(Self { schema, num_rows: wire.length })
    }

    /// Encodes the descriptor; the inverse of [`Self::decode`].
    pub fn encode(&self) -> Vec<u8> {
        let schema = file::Schema {
            fields: fields::encode_fields(&self.schema),
            metadata: fields::encode_metadata(&self.schema.metadata),
        };
        file::FileDescriptor { schema: Some(schema), length: self.num_rows }.encode_to_vec()
    }
}
