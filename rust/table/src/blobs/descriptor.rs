//! Descriptors of blobs as rows, from and to the struct arrays that a data file holds or that describe legacy blobs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, StringArray, StructArray, UInt8Array, UInt32Array, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use pennon_core::schema::{BlobKind, Field};
use pennon_core::{Error, Result};

/// Where the bytes of one blob are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) kind: BlobKind,
    pub(crate) position: u64,
    pub(crate) size: u64,
    pub(crate) blob_id: u32,
    pub(crate) uri: String,
}

impl Descriptor {
    /// Bytes in the data file or in one next to it.
    pub(crate) fn managed(kind: BlobKind, position: u64, size: u64, blob_id: u32) -> Self {
        Self { kind, position, size, blob_id, uri: String::new() }
    }
}

/// The descriptors of an array; `None` for nulls. Errors: `Corrupt` for another type, `Unsupported` for an unknown
/// kind.
pub(crate) fn rows(array: &ArrayRef) -> Result<Vec<Option<Descriptor>>> {
    let wrong = || Error::corrupt(format!("descriptors of blobs have the type {}", array.data_type()));
    let structs = array.as_struct_opt().ok_or_else(wrong)?;
    let column = |name: &str| structs.column_by_name(name).ok_or_else(wrong);
    let positions = column("position")?.as_primitive_opt::<UInt64Type>().ok_or_else(wrong)?;
    let sizes = column("size")?.as_primitive_opt::<UInt64Type>().ok_or_else(wrong)?;
    if structs.num_columns() == 2 {
        let legacy = |row: usize| {
            let (position, size) = (positions.value(row), sizes.value(row));
            structs.is_valid(row).then(|| Descriptor::managed(BlobKind::Inline, position, size, 0))
        };
        return Ok((0..structs.len()).map(legacy).collect());
    }
    let kinds = column("kind")?.as_primitive_opt::<UInt8Type>().ok_or_else(wrong)?;
    let ids = column("blob_id")?.as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
    let uris = column("blob_uri")?.as_string_opt::<i32>().ok_or_else(wrong)?;
    let row = |row: usize| {
        if structs.is_null(row) {
            return Ok(None);
        }
        Ok(Some(Descriptor {
            kind: BlobKind::of(kinds.value(row))?,
            position: positions.value(row),
            size: sizes.value(row),
            blob_id: ids.value(row),
            uri: uris.value(row).to_owned(),
        }))
    };
    (0..structs.len()).map(row).collect()
}

/// The array of descriptors, in the type of the field.
pub(crate) fn array(field: &Field, rows: &[Option<Descriptor>]) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(Error::internal(format!("field {} holds no descriptors", field.name)));
    };
    let unsigned = |of: fn(&Descriptor) -> u64| {
        UInt64Array::from_iter_values(rows.iter().map(|row| row.as_ref().map_or(0, of)))
    };
    let kinds = rows.iter().map(|row| row.as_ref().map_or(0, |d| d.kind as u8));
    let ids = rows.iter().map(|row| row.as_ref().map_or(0, |d| d.blob_id));
    let uris = rows.iter().map(|row| row.as_ref().map_or("", |d| d.uri.as_str()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt8Array::from_iter_values(kinds)),
        Arc::new(unsigned(|d| d.position)),
        Arc::new(unsigned(|d| d.size)),
        Arc::new(UInt32Array::from_iter_values(ids)),
        Arc::new(StringArray::from_iter_values(uris)),
    ];
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    let array = StructArray::try_new(fields, columns, nulls);
    Ok(Arc::new(array.map_err(|e| Error::internal(format!("descriptors of blobs: {e}")))?))
}
