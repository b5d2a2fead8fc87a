//! The types of the columns of a data file, and those that the table has for them.
//!
//! Reading takes the table's types: a column of another type is an error, or has wrong values. Some types are stored in
//! the same way, see [`is_readable_as`].

use std::collections::HashMap;

use pennon_core::FieldId;
use pennon_core::file::FileVersion;
use pennon_core::manifest::DataFile;
use pennon_core::schema::{Field, LogicalType, Schema};
use pennon_datafile::{FileMetadata, fields_with_column};

use super::report::{Finding, FindingKind};

/// The columns of a file that cannot be read as the fields which they are of.
pub(super) fn differing(
    table: &Schema,
    file: &DataFile,
    metadata: &FileMetadata,
) -> impl Iterator<Item = Finding> {
    // The pages of files of version 0.1 are found by field id.
    let by_id = metadata.version == FileVersion::Legacy;
    let stored: HashMap<i32, &Field> = match by_id {
        true => metadata.schema.depth_first().map(|field| (field.id.0, field)).collect(),
        false => (0..).zip(fields_with_column(&metadata.schema, metadata.version)).collect(),
    };
    let fields: HashMap<FieldId, &Field> = table.depth_first().map(|field| (field.id, field)).collect();
    let columns = file.fields.iter().enumerate().filter_map(|(at, id)| {
        let column = if by_id { id.0 } else { *file.column_indices.get(at)? };
        Some((*fields.get(id)?, *stored.get(&column)?))
    });
    let differing = columns.filter(|(field, stored)| {
        let is_blob = [field, stored].iter().any(|f| f.is_legacy_blob() || f.has_blob_v2());
        field.is_leaf()
            && stored.is_leaf()
            && !is_blob
            && !is_readable_as(&stored.logical_type, &field.logical_type)
    });
    let findings = differing.map(|(field, stored)| {
        let Field { name, id, logical_type, .. } = field;
        let message = format!(
            "the column of field `{name}` (id {id}) is of type {}, the manifest says {logical_type}",
            stored.logical_type
        );
        Finding::new(FindingKind::WrongType, message)
    });
    findings.collect::<Vec<_>>().into_iter()
}

/// Whether values that are stored as one type are the same values as the other.
fn is_readable_as(stored: &LogicalType, wanted: &LogicalType) -> bool {
    use LogicalType as T;
    match (stored, wanted) {
        (T::Null, _) => true,
        (T::Dictionary { value, .. }, wanted) => match wanted {
            T::Dictionary { value: other, .. } => is_readable_as(value, other),
            wanted => is_readable_as(value, wanted),
        },
        (stored, T::Dictionary { value, .. }) => is_readable_as(stored, value),
        (T::Timestamp(unit, _), T::Timestamp(other, _)) => unit == other,
        (T::Decimal128(_, scale), T::Decimal128(_, other))
        | (T::Decimal256(_, scale), T::Decimal256(_, other)) => scale == other,
        (T::FixedSizeList(item, length), T::FixedSizeList(other, other_length)) => {
            length == other_length && is_readable_as(item, other)
        }
        (T::Utf8 | T::LargeUtf8, T::Utf8 | T::LargeUtf8) => true,
        (T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary | T::Json, wanted) => {
            matches!(wanted, T::Binary | T::LargeBinary | T::Json)
        }
        (stored, wanted) => stored == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_stored_alike_are_read_as_each_other() {
        let parse = |text: &str| text.parse::<LogicalType>().unwrap();
        let is_readable = |stored, wanted| is_readable_as(&parse(stored), &parse(wanted));
        for (stored, wanted) in [
            ("int64", "int64"),
            ("string", "large_string"),
            ("binary", "large_binary"),
            ("string", "binary"),
            ("timestamp:us:-", "timestamp:us:UTC"),
            ("decimal:128:10:2", "decimal:128:20:2"),
            ("dict:string:int32:false", "string"),
            ("dict:string:int8:false", "dict:large_string:int32:false"),
            ("fixed_size_list:float:4", "fixed_size_list:float:4"),
            ("null", "string"),
        ] {
            assert!(is_readable(stored, wanted), "{stored} as {wanted}");
        }
        for (stored, wanted) in [
            ("string", "int64"),
            ("double", "int64"),
            ("int32", "uint32"),
            ("binary", "string"),
            ("timestamp:us:-", "timestamp:ms:-"),
            ("decimal:128:10:2", "decimal:128:10:3"),
            ("decimal:128:10:2", "decimal:256:10:2"),
            ("fixed_size_list:float:4", "fixed_size_list:float:8"),
            ("fixed_size_list:float:4", "fixed_size_list:int32:4"),
        ] {
            assert!(!is_readable(stored, wanted), "{stored} as {wanted}");
        }
    }
}
