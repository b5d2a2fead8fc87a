//! Blobs: their bytes are written when they are appended, and the column has descriptors (file format 4.8).
//!
//! A null is marked by its descriptor in file version 2.0, later by the definition level in the descriptor.

use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Field as ArrowField};
use pennon_core::error::ResultExt;
use pennon_core::file::{FileVersion, Layer, PageLayout};
use pennon_core::schema::{Field, LogicalType, Schema};
use pennon_core::{Error, Result};

use super::levels::PageLevels;
use super::packed;
use crate::container::is_blob;
use crate::container::writer::{ContainerWriter, Page};
use crate::encodings::flat::encode::{fixed_bytes, put_uint};
use crate::values::Leaf;

/// Bytes of a descriptor: position and size.
const DESCRIPTOR: usize = 16;
/// Position of a null in file version 2.0.
pub(crate) const NULL: u64 = 1;

/// How descriptors are stored.
pub(crate) fn descriptor_leaf() -> Result<Leaf> {
    Leaf::of(&DataType::FixedSizeBinary(16))
}

/// Checks that a field can be written as blobs. Errors: `Unsupported`.
pub(crate) fn check(field: &Field) -> Result<()> {
    match field.logical_type {
        LogicalType::LargeBinary => Ok(()),
        LogicalType::Struct => Err(Error::unsupported(
            "structs cannot be written as blobs (lance-encoding:blob): of descriptions read the bytes \
             (blob_handling=\"all_binary\")",
        )),
        _ => Err(Error::unsupported(format!(
            "blobs of type {} cannot be written (large_binary can)",
            field.data_type()
        ))),
    }
}

/// Errors: `Unsupported` for blob v2 fields: most of their blobs need files next to the data file.
pub(crate) fn refuse_blob_v2(schema: &Schema) -> Result<()> {
    match schema.depth_first().find(|field| field.is_blob_v2()) {
        None => Ok(()),
        Some(field) => Err(Error::unsupported(format!(
            "field `{}`: blob v2 (lance.blob.v2) can be written to tables only",
            schema.path_of(field.id).as_deref().unwrap_or(&field.name)
        ))),
    }
}

/// Writes the blobs of a field or of the structs in it, and replaces them by descriptors. `None` for a field
/// without blobs.
///
/// Errors: `SchemaMismatch` for values that are not `large_binary`; `Store` when the sink fails.
pub(crate) fn store<W: Write>(
    field: &Field,
    array: &ArrayRef,
    hidden: Option<&NullBuffer>,
    out: &mut ContainerWriter<W>,
) -> Result<Option<ArrayRef>> {
    if is_blob(field) {
        check(field).at(|| format!("field `{}`", field.name))?;
        let nulls = NullBuffer::union(hidden, array.nulls());
        return descriptors(&field.name, array, nulls, 0, out).map(Some);
    }
    if field.logical_type != LogicalType::Struct || !has_blobs(field) {
        return Ok(None);
    }
    let mismatch = || Error::schema_mismatch(format!("field `{}`: the data does not fit", field.name));
    let structs = array.as_struct_opt().ok_or_else(mismatch)?;
    let hidden = NullBuffer::union(hidden, structs.nulls());
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for child in &field.children {
        let column = structs.column_by_name(&child.name).ok_or_else(mismatch)?;
        let column = store(child, column, hidden.as_ref(), out)?.unwrap_or_else(|| column.clone());
        fields.push(ArrowField::new(&child.name, column.data_type().clone(), true));
        columns.push(column);
    }
    let nulls = structs.nulls().cloned();
    let array = StructArray::try_new_with_length(fields.into(), columns, nulls, structs.len());
    Ok(Some(Arc::new(array.map_err(|e| Error::internal(e.to_string()))?)))
}

fn has_blobs(field: &Field) -> bool {
    is_blob(field) || field.children.iter().any(has_blobs)
}

/// Writes blobs that are not null. Their descriptors have the nulls of the array; those of nulls get a position.
pub(crate) fn descriptors<W: Write>(
    path: &str,
    array: &ArrayRef,
    nulls: Option<NullBuffer>,
    null: u64,
    out: &mut ContainerWriter<W>,
) -> Result<ArrayRef> {
    let blobs = array.as_binary_opt::<i64>().ok_or_else(|| {
        Error::schema_mismatch(format!(
            "field `{path}`: data of type {}, blobs are large_binary",
            array.data_type()
        ))
    })?;
    let mut bytes = Vec::with_capacity(blobs.len() * DESCRIPTOR);
    for row in 0..blobs.len() {
        let (position, size) = match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => (null, 0),
            false if blobs.value(row).is_empty() => (0, 0),
            false => {
                let range = out.blob(blobs.value(row))?;
                (range.start, range.end - range.start)
            }
        };
        put_uint(position, 8, &mut bytes);
        put_uint(size, 8, &mut bytes);
    }
    let array = FixedSizeBinaryArray::try_new(16, Buffer::from_vec(bytes), array.nulls().cloned());
    Ok(Arc::new(array.map_err(|e| Error::internal(e.to_string()))?))
}

/// A page of these levels and the descriptors that are its slots. There are no lists.
pub(crate) fn page(levels: &PageLevels, descriptors: &[ArrayRef], version: FileVersion) -> Result<Page> {
    let (mut positions, mut sizes) = (Vec::new(), Vec::new());
    for array in descriptors {
        for descriptor in fixed_bytes(array, DESCRIPTOR)?.as_chunks::<DESCRIPTOR>().0 {
            let (position, size) = descriptor.split_at(8);
            positions.extend_from_slice(position);
            sizes.extend_from_slice(size);
        }
    }
    let def = levels.def.as_deref().unwrap_or_default();
    for (position, &level) in positions.as_chunks_mut::<8>().0.iter_mut().zip(def).filter(|(_, d)| **d > 0) {
        *position = (u64::from(level) << 16).to_le_bytes();
    }
    let inner = PageLevels {
        rows: levels.rows,
        len: levels.slots,
        slots: levels.slots,
        layers: vec![Layer::AllValidItem],
        ..PageLevels::default()
    };
    let mut page = packed::fixed(&inner, &[(positions, 8), (sizes, 8)], version)?
        .ok_or_else(|| Error::internal("descriptors of blobs that fit into no chunk"))?;
    page.layout = PageLayout::Blob { inner: Box::new(page.layout), layers: levels.layers.clone() };
    Ok(page)
}
