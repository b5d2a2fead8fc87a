//! Members of structs that are stored in one column.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;
use pennon_core::schema::Field;
use pennon_core::{Error, FieldId, Result};

use super::arrow_error;

/// The members of structs that a field has, of all those that its column has.
///
/// Errors: `InvalidInput` for others; `Corrupt` if they are members of a blob descriptor.
pub(crate) fn members(field: &Field, stored: &[Field], array: &ArrayRef) -> Result<ArrayRef> {
    let all = array.as_struct_opt().ok_or_else(|| Error::internal("a packed struct that is not a struct"))?;
    let find = |child: &Field| {
        // The members of a blob descriptor have no ids.
        let is_it = |member: &Field| {
            member.id == child.id && (child.id != FieldId::NO_PARENT || member.name == child.name)
        };
        let found = stored.iter().position(is_it).and_then(|at| all.columns().get(at));
        found.cloned().ok_or_else(|| {
            let what = format!("the struct in one column has no member `{}` (id {})", child.name, child.id);
            if child.id == FieldId::NO_PARENT { Error::corrupt(what) } else { Error::invalid_input(what) }
        })
    };
    let children = field.children.iter().map(find).collect::<Result<_>>()?;
    let DataType::Struct(fields) = field.data_type() else {
        return Err(Error::internal("a packed struct that is not a struct"));
    };
    let array = StructArray::try_new_with_length(fields, children, all.nulls().cloned(), all.len());
    Ok(Arc::new(array.map_err(arrow_error)?))
}
