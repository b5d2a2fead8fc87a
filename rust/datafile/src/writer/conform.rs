//! Arrays in the type that is stored.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, FieldRef};

/// The array in the type that is stored: views are copied into plain strings, members of structs put in order.
/// `None` if it has another type.
pub(crate) fn conform(array: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    let found = array.data_type();
    if let DataType::Struct(members) = wanted {
        return members_of(array, members);
    }
    if same(found, wanted) {
        return Some(array.clone());
    }
    let is_view = match (found, wanted) {
        (DataType::Utf8View, DataType::Utf8) | (DataType::BinaryView, DataType::Binary) => true,
        (DataType::Dictionary(found, _), DataType::Dictionary(wanted, _)) => found == wanted,
        _ => false,
    };
    arrow_cast::cast(array, wanted).ok().filter(|_| is_view)
}

fn members_of(array: &ArrayRef, members: &[FieldRef]) -> Option<ArrayRef> {
    let structs = array.as_struct_opt()?;
    let mut columns = Vec::with_capacity(members.len());
    let mut fields = Vec::with_capacity(members.len());
    for member in members {
        let column = conform(structs.column_by_name(member.name())?, member.data_type())?;
        let field = member.as_ref().clone().with_data_type(column.data_type().clone());
        // Nulls are checked later, where the path is known.
        fields.push(Arc::new(field.with_nullable(true)));
        columns.push(column);
    }
    let nulls = structs.nulls().cloned();
    let array = StructArray::try_new_with_length(fields.into(), columns, nulls, structs.len());
    Some(Arc::new(array.ok()?))
}

/// Equal except for the names and nullability of fixed-size list items.
fn same(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::FixedSizeList(found, n), DataType::FixedSizeList(wanted, m)) => {
            n == m && same(found.data_type(), wanted.data_type())
        }
        _ => found == wanted,
    }
}
