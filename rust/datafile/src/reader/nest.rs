//! Fields to leaf columns, and leaf arrays back into structs, lists and maps.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use pennon_core::error::ResultExt;
use pennon_core::schema::{Field, LogicalType, Schema, legacy_description};
use pennon_core::{Error, Result};

use super::column::LeafColumn;
use super::column::{LayerArray, LeafArray};
use crate::container::{ColumnMap, has_one_column};
use crate::repdef::assemble::PathLayer;
use crate::values::{arrow_error, members};

/// Finds the leaf columns of fields.
pub(super) struct Collector<'a> {
    /// Schema of the file.
    pub file: &'a Schema,
    pub columns: &'a ColumnMap,
    pub out: &'a mut Vec<LeafColumn>,
}

/// A layer around a leaf.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    layer: PathLayer,
    /// Items of a fixed-size list, 1 for all else.
    dimension: usize,
}

impl Collector<'_> {
    /// Adds the leaf columns of a field. `around` are the layers around it, outermost first.
    pub(super) fn collect(&mut self, field: &Field, parent: &str, around: &mut Vec<Around>) -> Result<()> {
        let path = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
        if has_one_column(field) {
            return self.leaf(field, path, around);
        }
        let layer = match &field.logical_type {
            LogicalType::Struct => Around { layer: PathLayer::Item, dimension: 1 },
            LogicalType::FixedSizeList(_, dimension) => {
                if around.iter().any(|a| a.layer.is_list()) {
                    return Err(Error::unsupported(format!(
                        "field `{path}`: fixed-size lists of structs inside of lists cannot be read"
                    )));
                }
                Around { layer: PathLayer::Item, dimension: usize::try_from(*dimension).unwrap_or_default() }
            }
            _ if field.nullable => Around { layer: PathLayer::List, dimension: 1 },
            _ => Around { layer: PathLayer::RequiredList, dimension: 1 },
        };
        around.push(layer);
        for child in &field.children {
            self.collect(child, &path, around)?;
        }
        around.pop();
        Ok(())
    }

    fn leaf(&mut self, field: &Field, path: String, around: &[Around]) -> Result<()> {
        let column = self.columns.column(field.id).ok_or_else(|| {
            Error::invalid_input(format!("field `{path}` (id {}) has no column in the file", field.id))
        })?;
        let inner_first = around.iter().rev();
        let layers = std::iter::once(PathLayer::Item).chain(inner_first.clone().map(|a| a.layer)).collect();
        let multiply = |n: &mut usize, a: &Around| {
            *n = n.saturating_mul(a.dimension);
            Some(*n)
        };
        let repeated = inner_first.scan(1, multiply).collect();
        let mut leaf =
            LeafColumn { path, column, data_type: field.data_type(), layers, repeated, members: Vec::new() };
        if !field.is_leaf() {
            // The column also has the members that are not requested.
            let stored = self.file.depth_first().find(|f| f.id == field.id).unwrap_or(field);
            leaf.members = match field.describes_legacy_blob() {
                true => legacy_description(),
                false => stored.children.clone(),
            };
            leaf.data_type = DataType::Struct(leaf.members.iter().map(Field::to_arrow).collect());
        }
        self.out.push(leaf);
        Ok(())
    }
}

/// Leaf arrays in column order, taken one by one.
#[derive(Debug)]
pub(super) struct Leaves(VecDeque<(LeafColumn, LeafArray)>);

impl Leaves {
    /// All leaves of a read.
    pub(super) fn new(columns: Vec<LeafColumn>, leaves: Vec<LeafArray>) -> Self {
        Self(columns.into_iter().zip(leaves).collect())
    }

    /// The layer at a depth, from the first of the leaves below it; the others have the same.
    fn layer(&mut self, depth: usize) -> Result<LayerArray> {
        let layer = self.0.front_mut().and_then(|(_, leaf)| leaf.layers.get_mut(depth));
        let layer = layer.ok_or_else(|| Error::internal("fewer layers than the type has"))?;
        Ok(LayerArray { len: layer.len, nulls: layer.nulls.take(), offsets: layer.offsets.take() })
    }
}

/// The array of a field of the file.
pub(super) fn build(field: &Field, leaves: &mut Leaves) -> Result<ArrayRef> {
    nested(field, 0, None, leaves)
}

/// The array of a field that has `depth` layers around it, of which the next one may be a struct with these nulls.
fn nested(field: &Field, depth: usize, around: Option<&NullBuffer>, leaves: &mut Leaves) -> Result<ArrayRef> {
    if has_one_column(field) {
        let (column, leaf) = leaves.0.pop_front().ok_or_else(|| Error::internal("a leaf was not read"))?;
        return if field.is_leaf() { Ok(leaf.array) } else { members(field, &column.members, &leaf.array) };
    }
    let mut layer = leaves.layer(depth)?;
    let is_struct = field.logical_type == LogicalType::Struct;
    let mut children = Vec::with_capacity(field.children.len());
    for child in &field.children {
        let around = layer.nulls.as_ref().filter(|_| is_struct);
        children.push(nested(child, depth + 1, around, leaves).at(|| format!("`{}`", child.name))?);
    }
    if !field.nullable && layer.offsets.is_some() {
        // Empty where the struct around it is null, which is read as null, as from the reference.
        layer.nulls = NullBuffer::union(layer.nulls.as_ref(), around);
    }
    match (field.data_type(), layer.offsets) {
        (DataType::Struct(fields), None) => {
            let array = StructArray::try_new_with_length(fields, children, layer.nulls, layer.len);
            Ok(Arc::new(array.map_err(arrow_error)?))
        }
        (DataType::FixedSizeList(item, dimension), None) => {
            let child = children.pop().ok_or_else(|| Error::internal("a list without items"))?;
            let array =
                FixedSizeListArray::try_new_with_length(item, dimension, child, layer.nulls, layer.len);
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
