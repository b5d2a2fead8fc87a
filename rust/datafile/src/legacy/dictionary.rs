//! Keys, and the values of their dictionary.

use arrow_array::{ArrayRef, make_array};
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use super::Page;
use super::leaf::LeafRead;
use super::text::TextRead;
use crate::source::Fetch;
use crate::values::arrow_error;

/// Rows of a field of a dictionary type.
#[derive(Debug)]
pub(super) struct DictionaryRead<'a> {
    /// The field, for errors.
    location: String,
    field: &'a Field,
    keys: LeafRead,
    values: ValuesRead,
}

#[derive(Debug)]
enum ValuesRead {
    Leaf(LeafRead),
    Text(TextRead),
}

impl<'a> DictionaryRead<'a> {
    /// `values` are position and number of the values. Errors: `Corrupt` if there are none.
    pub(super) fn new(
        location: String,
        field: &'a Field,
        keys: Vec<(Page, RowRanges)>,
        values: Option<&(u64, u64)>,
        file_size: u64,
    ) -> Result<Self> {
        let DataType::Dictionary(key_type, value_type) = field.data_type() else {
            return Err(Error::internal("a dictionary of another type"));
        };
        let Some(&(position, length)) = values else {
            return Err(Error::corrupt("the file does not say where the values of the dictionary are"));
        };
        if length > file_size.saturating_mul(8) {
            return Err(Error::corrupt(format!(
                "a dictionary of {length} values, the file has {file_size} bytes"
            )));
        }
        let pages = vec![(Page { position, length, file_size }, RowRanges::from(0..length))];
        let of_values = || format!("{location}, values of its dictionary");
        let values = match value_type.as_ref() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                ValuesRead::Text(TextRead::new(of_values(), *value_type, field.nullable, pages)?)
            }
            other => ValuesRead::Leaf(LeafRead::new(of_values(), other, pages)?),
        };
        Ok(Self { keys: LeafRead::new(location.clone(), &key_type, keys)?, location, field, values })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        let more_keys = self.keys.step(bytes, fetch)?;
        let more_values = match &mut self.values {
            ValuesRead::Leaf(leaf) => leaf.step(bytes, fetch)?,
            ValuesRead::Text(text) => text.step(bytes, fetch)?,
        };
        Ok(more_keys || more_values)
    }

    /// The array. Errors: `Corrupt` for a key without value.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let values = match self.values {
            ValuesRead::Leaf(leaf) => leaf.finish()?,
            ValuesRead::Text(text) => text.finish()?,
        };
        let keys = self.keys.finish()?.to_data();
        let data = keys.into_builder().data_type(self.field.data_type()).add_child_data(values.to_data());
        let data = data.build().map_err(arrow_error).at(|| &self.location)?;
        Ok(make_array(data))
    }
}
