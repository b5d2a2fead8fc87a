//! What a schema must satisfy: by itself when it was stored, and towards a table when rows are appended.
//!
//! Both walk the tree of fields; metadata matters only for the descriptors of blobs.

use std::collections::HashSet;

use super::{Field, LogicalType, Schema, projection};
use crate::{Error, FieldId, Result};

/// Fields nested deeper than this are refused, so that no walk of a schema can exhaust the stack.
pub(crate) const MAX_DEPTH: usize = 100;

/// Checks a schema that was stored (table format, section 3). Errors: `Corrupt`, with the field's path.
///
/// Ids are unique and not negative, names are unique per level, and the children fit the type.
pub(super) fn validate(schema: &Schema) -> Result<()> {
    let corrupt = |path: &str, problem: String| Err(Error::corrupt(format!("field `{path}`: {problem}")));
    let mut ids = HashSet::new();
    let mut levels: Vec<(&[Field], String, usize, bool)> = vec![(&schema.fields, String::new(), 1, true)];
    while let Some((fields, parent, depth, with_ids)) = levels.pop() {
        let mut names = HashSet::new();
        for field in fields {
            let path = projection::join(&parent, &field.name);
            if depth > MAX_DEPTH {
                return corrupt(&path, format!("nested deeper than {MAX_DEPTH} levels"));
            }
            // The members of a blob descriptor are no fields of the table and all have the id -1.
            let with_id = with_ids || field.id != FieldId::NO_PARENT;
            if with_id && field.id.0 < 0 {
                return corrupt(&path, format!("id {} is negative", field.id));
            }
            if with_id && !ids.insert(field.id) {
                return corrupt(&path, format!("id {} is taken by another field", field.id));
            }
            if !names.insert(field.name.as_str()) {
                return corrupt(&path, "another field of this level has the same name".to_owned());
            }
            if let Err(problem) = field.logical_type.check().and_then(|()| check_children(field)) {
                return corrupt(&path, problem);
            }
            if !field.children.is_empty() {
                let is_descriptor = field.metadata.contains_key("lance-encoding:blob");
                levels.push((&field.children, path, depth + 1, !is_descriptor));
            }
        }
    }
    Ok(())
}

/// Checks primary keys: leaves that may not be null, below structs that may not be either.
///
/// Errors: `InvalidInput`: the reference does not open a table with another one.
pub(super) fn check_primary_key(schema: &Schema) -> Result<()> {
    let mut levels: Vec<(&[Field], String, bool)> = vec![(&schema.fields, String::new(), true)];
    while let Some((fields, parent, required)) = levels.pop() {
        for field in fields {
            let path = projection::join(&parent, &field.name);
            let required = required && !field.nullable;
            if field.is_primary_key() && !(required && field.children.is_empty()) {
                return Err(unfit_primary_key(&path, &field.logical_type));
            }
            let is_struct = field.logical_type == LogicalType::Struct;
            levels.push((&field.children, path, required && is_struct));
        }
    }
    Ok(())
}

pub(super) fn unfit_primary_key(path: &str, found: &LogicalType) -> Error {
    Error::invalid_input(format!(
        "Primary key column and all its ancestors must not be nullable, and it must be a leaf: field `{path}`, type {found}"
    ))
}

pub(super) fn check_children(field: &Field) -> Result<(), String> {
    let found = field.children.len();
    let children = |expected: usize| {
        if found == expected { Ok(()) } else { Err(format!("{found} child fields, expected {expected}")) }
    };
    let is_struct = |child: &Field| child.logical_type == LogicalType::Struct;
    match &field.logical_type {
        LogicalType::Struct => Ok(()),
        LogicalType::List | LogicalType::LargeList => children(1),
        LogicalType::ListStruct | LogicalType::LargeListStruct => {
            children(1)?;
            if field.children.iter().all(is_struct) {
                Ok(())
            } else {
                Err("its items are not structs".to_owned())
            }
        }
        LogicalType::FixedSizeList(item, _) if **item == LogicalType::Struct => {
            children(1)?;
            if field.children.iter().all(is_struct) {
                Ok(())
            } else {
                Err("its items are not structs".to_owned())
            }
        }
        LogicalType::Map => {
            children(1)?;
            match field.children.first() {
                Some(entries) if is_struct(entries) && entries.children.len() == 2 => Ok(()),
                _ => Err("map entries are not a struct of key and value".to_owned()),
            }
        }
        _ => children(0),
    }
}

impl Schema {
    /// Checks that rows of the schema `data` can be appended to a table of this schema.
    ///
    /// Fields are matched by name in any order, list items and map entries by position; nullable fields may be
    /// missing. Nullability is not compared: nulls are looked for when the rows are written.
    /// Errors: `SchemaMismatch` that says for every field how it differs.
    pub fn check_append(&self, data: &Self) -> Result<()> {
        let problems = differences(&self.fields, &data.fields, "");
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::schema_mismatch(format!("Append with different schema: {}", problems.join(", "))))
    }
}

fn differences(table: &[Field], data: &[Field], parent: &str) -> Vec<String> {
    let find = |fields: &'_ [Field], name: &str| fields.iter().any(|f| f.name == name);
    let paths = |fields: Vec<&Field>| {
        let paths: Vec<String> = fields.iter().map(|f| projection::join(parent, &f.name)).collect();
        paths.join(", ")
    };
    let missing: Vec<&Field> = table.iter().filter(|f| !f.nullable && !find(data, &f.name)).collect();
    let unexpected: Vec<&Field> = data.iter().filter(|f| !find(table, &f.name)).collect();
    let mut problems = Vec::new();
    if !missing.is_empty() || !unexpected.is_empty() {
        problems.push(format!(
            "fields did not match, missing=[{}], unexpected=[{}]",
            paths(missing),
            paths(unexpected)
        ));
    }
    for field in table {
        if let Some(other) = data.iter().find(|f| f.name == field.name) {
            problems.extend(difference(field, other, &projection::join(parent, &field.name), false));
        }
    }
    problems
}

/// `by_position`: the children of this struct, map entries, are matched by position.
fn difference(table: &Field, data: &Field, path: &str, by_position: bool) -> Vec<String> {
    if table.logical_type != data.logical_type {
        return vec![format!(
            "`{path}` should have type {} but type was {}",
            table.logical_type, data.logical_type
        )];
    }
    if table.is_blob_v2() && data.is_blob_v2() {
        // Written with or without a range of an address.
        return Vec::new();
    }
    let problems = if table.logical_type == LogicalType::Struct && !by_position {
        differences(&table.children, &data.children, path)
    } else {
        let entries = table.logical_type == LogicalType::Map;
        let pairs = table.children.iter().zip(&data.children);
        pairs.flat_map(|(t, d)| difference(t, d, &projection::join(path, &t.name), entries)).collect()
    };
    if problems.is_empty() {
        return problems;
    }
    vec![format!("`{path}` had mismatched children: {}", problems.join(", "))]
}
