//! Fields to leaf columns, and leaf arrays back into structs, lists and maps.

use std::sync::Arc;

use arrow_array::{ArrayRef, GenericListArray, MapArray, OffsetSizeTrait, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use pennon_core::error::ResultExt;
use pennon_core::schema::{Field, LogicalType};
use pennon_core::{Error, Result};

use super::LeafColumn;
use super::column::{LayerArray, LeafArray};
use crate::container::ColumnMap;
use crate::container::is_packed;
use crate::values::arrow_error;

/// Adds the leaf columns of a field. `lists` says which layers around it are lists, outermost first.
pub(super) fn collect(
    field: &Field,
    parent: &str,
    lists: &mut Vec<bool>,
    columns: &ColumnMap,
    out: &mut Vec<LeafColumn>,
) -> Result<()> {
    let path = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
    if is_packed(field) {
        return Err(Error::unsupported(format!("field `{path}`: packed structs cannot be read")));
    }
    if field.is_leaf() {
        let column = columns.column(field.id).ok_or_else(|| {
            Error::invalid_input(format!("field `{path}` (id {}) has no column in the file", field.id))
        })?;
        let lists = std::iter::once(false).chain(lists.iter().rev().copied()).collect();
        out.push(LeafColumn { path, column, data_type: field.data_type(), lists });
        return Ok(());
    }
    let is_list = match field.logical_type {
        LogicalType::Struct => false,
        LogicalType::FixedSizeList(..) => {
            return Err(Error::unsupported(format!(
                "field `{path}`: fixed-size lists of structs cannot be read"
            )));
        }
        _ => true,
    };
    lists.push(is_list);
    for child in &field.children {
        collect(child, &path, lists, columns, out)?;
    }
    lists.pop();
    Ok(())
}

/// Leaf arrays in column order, taken one by one.
#[derive(Debug)]
pub(super) struct Leaves(std::collections::VecDeque<LeafArray>);

impl Leaves {
    /// All leaves of a read.
    pub(super) fn new(leaves: Vec<LeafArray>) -> Self {
        Self(leaves.into())
    }

    /// The layer at a depth, from the first of the leaves below it; the others say the same.
    fn layer(&mut self, depth: usize) -> Result<LayerArray> {
        let layer = self.0.front_mut().and_then(|leaf| leaf.layers.get_mut(depth));
        let layer = layer.ok_or_else(|| Error::internal("fewer layers than the type has"))?;
        Ok(LayerArray { len: layer.len, nulls: layer.nulls.take(), offsets: layer.offsets.take() })
    }
}

/// The array of a field that has `depth` layers around it.
pub(super) fn build(field: &Field, depth: usize, leaves: &mut Leaves) -> Result<ArrayRef> {
    if field.is_leaf() {
        return leaves
            .0
            .pop_front()
            .map(|leaf| leaf.array)
            .ok_or_else(|| Error::internal("a leaf was not read"));
    }
    let layer = leaves.layer(depth)?;
    let mut children = Vec::with_capacity(field.children.len());
    for child in &field.children {
        children.push(build(child, depth + 1, leaves).at(|| format!("`{}`", child.name))?);
    }
    match (field.data_type(), layer.offsets) {
        (DataType::Struct(fields), None) => {
            let array = StructArray::try_new_with_length(fields, children, layer.nulls, layer.len);
            Ok(Arc::new(array.map_err(arrow_error)?))
        }
        (DataType::List(item), Some(offsets)) => list::<i32>(item, offsets, children, layer.nulls),
        (DataType::LargeList(item), Some(offsets)) => list::<i64>(item, offsets, children, layer.nulls),
        (DataType::Map(entries, sorted), Some(offsets)) => {
            let child = children.pop().ok_or_else(|| Error::internal("a map without entries"))?;
            let child = child
                .as_any()
                .downcast_ref::<StructArray>()
                .ok_or_else(|| Error::corrupt("entries of a map are not structs"))?;
            let offsets = list_offsets::<i32>(offsets)?;
            let array = MapArray::try_new(entries, offsets, child.clone(), layer.nulls, sorted);
            Ok(Arc::new(array.map_err(arrow_error)?))
        }
        (data_type, _) => Err(Error::internal(format!("layers do not fit to type {data_type}"))),
    }
}

fn list<O: OffsetSizeTrait>(
    item: arrow_schema::FieldRef,
    offsets: Vec<i64>,
    mut children: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let child = children.pop().ok_or_else(|| Error::internal("a list without items"))?;
    let array = GenericListArray::<O>::try_new(item, list_offsets::<O>(offsets)?, child, nulls);
    Ok(Arc::new(array.map_err(arrow_error)?))
}

fn list_offsets<O: OffsetSizeTrait>(offsets: Vec<i64>) -> Result<OffsetBuffer<O>> {
    let last = offsets.last().copied().and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    if O::from_usize(last).is_none() {
        return Err(Error::invalid_input(format!(
            "{last} items of lists in one array with {}-bit offsets; read smaller ranges of rows",
            size_of::<O>() * 8
        )));
    }
    let offsets: Vec<O> =
        offsets.into_iter().map(|o| O::usize_as(usize::try_from(o).unwrap_or_default())).collect();
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}
