//! Blobs: a column that says where bytes are, and the bytes outside of it.
//!
//! | form of a column | legacy blobs | blob v2 (`lance.blob.v2`) |
//! |---|---|---|
//! | as written, can be written again | `large_binary` | a struct of `data`, `uri` and mostly `position` and `size` |
//! | bytes | `large_binary` | `large_binary` |
//! | description: where it is | `position` and `size` in the data file | see [`pennon_core::schema::BlobKind`] |
//!
//! The form a read gives is that of the field it is given. Invariant: a file of blob v2 lies in the folder that is
//! named like its data file, and is moved and removed with it.

pub(crate) mod descriptor;
mod given;
pub(crate) mod read;
mod source;
pub(crate) mod write;

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::Field as ArrowField;
pub(crate) use given::{array_of_bytes, field_of_bytes, type_of_bytes};
use pennon_core::file::FileVersion;
use pennon_core::manifest::Manifest;
use pennon_core::schema::{Field, LogicalType, Schema};
use pennon_core::{Error, Result};
pub(crate) use source::{check_computed, without_addresses};

/// What blob columns read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlobHandling {
    /// As they were written: bytes, or for blob v2 structs of data or address.
    #[default]
    Written,
    /// Bytes.
    Binary,
    /// Where the bytes are.
    Descriptions,
}

impl FromStr for BlobHandling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "all_binary" => Ok(Self::Binary),
            "blobs_descriptions" | "all_descriptions" => Ok(Self::Descriptions),
            _ => Err(Error::invalid_input(format!(
                "Invalid blob_handling {text:?}. Valid values are: all_binary, blobs_descriptions, all_descriptions"
            ))),
        }
    }
}

impl BlobHandling {
    /// What users are given: descriptions, unless they ask for something else. Errors: `InvalidInput` for other text.
    pub fn requested(text: Option<&str>) -> Result<Self> {
        text.map_or(Ok(Self::Descriptions), str::parse)
    }

    /// The text that parses as this; `None` for what has none.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Binary => Some("all_binary"),
            Self::Descriptions => Some("blobs_descriptions"),
            Self::Written => None,
        }
    }

    /// The fields of a table in the requested form.
    pub(crate) fn apply(self, table: &Manifest) -> Cow<'_, Schema> {
        let schema = &table.schema;
        let form = match self {
            Self::Binary => Field::with_blob_bytes,
            Self::Descriptions if has_legacy_blobs(table) => Field::with_blob_descriptions,
            Self::Descriptions => Field::with_blob_descriptors,
            Self::Written => return Cow::Borrowed(schema),
        };
        if !schema.fields.iter().any(Field::has_blobs) {
            return Cow::Borrowed(schema);
        }
        Cow::Owned(Schema {
            fields: schema.fields.iter().map(form).collect(),
            metadata: schema.metadata.clone(),
        })
    }
}

/// Whether files of the table store legacy blobs as such; others hold bytes, whatever their fields say.
pub(crate) fn has_legacy_blobs(table: &Manifest) -> bool {
    matches!(table.file_version, FileVersion::V2_0 | FileVersion::V2_1)
}

/// What is made of an array of blobs; the nulls are those of the structs around it.
pub(crate) type Convert<'a> = dyn FnMut(&Field, &ArrayRef, Option<&NullBuffer>) -> Result<ArrayRef> + 'a;

/// Replaces the arrays of blob fields, here and below. `is_blob` selects them, `to` has their new types.
///
/// Errors: `SchemaMismatch` for an array that does not have the type of the field; those of `convert`.
pub(crate) fn replace(
    field: &Field,
    to: &Field,
    array: &ArrayRef,
    hidden: Option<&NullBuffer>,
    is_blob: &dyn Fn(&Field) -> bool,
    convert: &mut Convert<'_>,
) -> Result<ArrayRef> {
    if is_blob(field) {
        return convert(field, array, hidden);
    }
    if !any(field, is_blob) {
        return Ok(Arc::clone(array));
    }
    match &field.logical_type {
        LogicalType::Struct => {
            let parent = array.as_struct_opt().ok_or_else(|| mismatch(field, array))?;
            let hidden = NullBuffer::union(hidden, parent.nulls());
            let mut children = Vec::with_capacity(to.children.len());
            for (child, target) in field.children.iter().zip(&to.children) {
                let column = parent.column_by_name(&child.name).ok_or_else(|| mismatch(field, array))?;
                children.push(replace(child, target, column, hidden.as_ref(), is_blob, convert)?);
            }
            let fields = to.children.iter().map(|c| Arc::new(c.to_arrow())).collect();
            let nulls = parent.nulls().cloned();
            StructArray::try_new_with_length(fields, children, nulls, parent.len())
                .map(|array| Arc::new(array) as ArrayRef)
                .map_err(|e| Error::schema_mismatch(format!("field {}: {e}", field.name)))
        }
        LogicalType::List | LogicalType::ListStruct => list::<i32>(field, to, array, is_blob, convert),
        LogicalType::LargeList | LogicalType::LargeListStruct => {
            list::<i64>(field, to, array, is_blob, convert)
        }
        other => Err(nowhere(&field.name, other)),
    }
}

fn list<O: OffsetSizeTrait>(
    field: &Field,
    to: &Field,
    array: &ArrayRef,
    is_blob: &dyn Fn(&Field) -> bool,
    convert: &mut Convert<'_>,
) -> Result<ArrayRef> {
    let lists = array.as_list_opt::<O>().ok_or_else(|| mismatch(field, array))?;
    let (Some(item), Some(target)) = (field.children.first(), to.children.first()) else {
        return Err(mismatch(field, array));
    };
    // A slice of an array still has all items.
    let offsets = lists.offsets();
    let (first, last) =
        (offsets.first().copied().unwrap_or_default(), offsets.last().copied().unwrap_or_default());
    let items = lists.values().slice(first.as_usize(), (last - first).as_usize());
    let offsets: ScalarBuffer<O> = offsets.iter().map(|&offset| offset - first).collect();
    let items = replace(item, target, &items, None, is_blob, convert)?;
    let item: Arc<ArrowField> = Arc::new(target.to_arrow());
    GenericListArray::try_new(item, OffsetBuffer::new(offsets), items, lists.nulls().cloned())
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(|e| Error::schema_mismatch(format!("field {}: {e}", field.name)))
}

fn any(field: &Field, is_blob: &dyn Fn(&Field) -> bool) -> bool {
    is_blob(field) || field.children.iter().any(|child| any(child, is_blob))
}

fn mismatch(field: &Field, array: &ArrayRef) -> Error {
    Error::schema_mismatch(format!("field {}: the data has type {}", field.name, array.data_type()))
}

fn nowhere(path: &str, kind: &LogicalType) -> Error {
    Error::unsupported(format!("field `{path}`: blob v2 (lance.blob.v2) in a {kind}"))
}
