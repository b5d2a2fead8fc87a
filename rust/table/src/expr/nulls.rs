//! Members of a null struct are null.
//!
//! DataFusion's field access gives the member as it is stored, and what is stored below a null struct may be
//! anything. Before an expression sees a struct, its nulls are handed down.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::nullif::nullif;

/// The same struct with its nulls in all members, down to the leaves; other arrays as they are.
pub(crate) fn hand_down(array: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(parent) = array.as_struct_opt() else { return Ok(array) };
    let is_null = parent.nulls().filter(|n| n.null_count() > 0).map(|n| BooleanArray::new(!n.inner(), None));
    let member = |child: &ArrayRef| {
        let child = match &is_null {
            Some(is_null) => nullif(child.as_ref(), is_null)?,
            None => Arc::clone(child),
        };
        hand_down(child)
    };
    let children = parent.columns().iter().map(member).collect::<Result<Vec<_>, _>>()?;
    // Members that may not be null are nullable here: the type is only seen by the expression.
    let fields = parent.fields().iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true)));
    let fields: Vec<_> = fields
        .zip(&children)
        .map(|(f, c)| Arc::new(f.as_ref().clone().with_data_type(c.data_type().clone())))
        .collect();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.into(),
        children,
        parent.nulls().cloned(),
        parent.len(),
    )?))
}

/// A member of a struct, null where the struct is.
pub(crate) fn visible(parent: &StructArray, member: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match parent.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => nullif(member, &BooleanArray::new(!nulls.inner(), None)),
        None => Ok(Arc::clone(member)),
    }
}

/// The type with members of structs that may be null, down to the leaves.
pub(super) fn allowed(data_type: &DataType) -> DataType {
    let DataType::Struct(members) = data_type else { return data_type.clone() };
    let member = |field: &Arc<Field>| {
        let field = field.as_ref().clone();
        let data_type = allowed(field.data_type());
        Arc::new(field.with_data_type(data_type).with_nullable(true))
    };
    DataType::Struct(members.iter().map(member).collect())
}
