//! Arrow schemas to and from fields (table format 3.3).
//!
//! From Arrow, field ids are handed out depth first; views lose their form (`utf8_view` is stored as `string`),
//! JSON text becomes the `json` type, and a type without a place in the format is refused with its field path.
//! To Arrow nothing can fail: a field is checked when it is made or decoded.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema};

use super::compatibility::unfit_primary_key;
use super::{CarriedKeys, Field, LogicalType, Metadata, Schema, projection};
use crate::{Error, FieldId, Result};

/// Names of the columns that readers make themselves.
pub const SYSTEM_COLUMNS: [&str; 5] =
    ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"];

const PRIMARY_KEY: &str = "lance-schema:unenforced-primary-key";
const PRIMARY_KEY_POSITION: &str = "lance-schema:unenforced-primary-key:position";
const CLUSTERING_KEY: &str = "lance-schema:unenforced-clustering-key";
const CLUSTERING_KEY_POSITION: &str = "lance-schema:unenforced-clustering-key:position";

/// Extension name of JSON as Arrow producers give it: text.
const ARROW_JSON: &str = "arrow.json";
/// Extension name of JSON as it is stored: binary.
const STORED_JSON: &str = "lance.json";

impl Schema {
    /// The schema of Arrow data, with fresh field ids.
    ///
    /// Errors: `Unsupported` for a type the format cannot hold, `InvalidInput` for names that are not unique, are
    /// those of system columns or contain a dot at the top level, and for primary keys that can be null; each names
    /// the field's path.
    ///
    /// ```
    /// use arrow_schema::{DataType, Field, Schema as ArrowSchema};
    /// use pennon_core::schema::Schema;
    ///
    /// let arrow = ArrowSchema::new(vec![Field::new("id", DataType::Int64, false)]);
    /// let schema = Schema::from_arrow(&arrow)?;
    /// assert_eq!(schema.fields[0].logical_type.to_string(), "int64");
    /// assert_eq!(schema.to_arrow(), arrow);
    /// # Ok::<(), pennon_core::Error>(())
    /// ```
    pub fn from_arrow(schema: &ArrowSchema) -> Result<Self> {
        for field in schema.fields() {
            if field.name().contains('.') {
                return Err(Error::invalid_input(format!(
                    "Top level field {} cannot contain `.`. Maybe you meant to create a struct field?",
                    field.name()
                )));
            }
            if SYSTEM_COLUMNS.contains(&field.name().as_str()) {
                return Err(Error::invalid_input(format!(
                    "Column {} has a reserved name: drop or rename it",
                    field.name()
                )));
            }
        }
        let fields = fields_from_arrow(schema.fields().iter(), "", true)?;
        Ok(Self { fields, metadata: ordered(schema.metadata()) }.with_fresh_ids())
    }

    /// The Arrow schema of the data, extension types as metadata.
    pub fn to_arrow(&self) -> ArrowSchema {
        let fields: Vec<ArrowField> = self.fields.iter().map(Field::to_arrow).collect();
        ArrowSchema::new_with_metadata(fields, unordered(&self.metadata))
    }
}

impl Field {
    /// The Arrow type of the values.
    pub fn data_type(&self) -> DataType {
        let item = || self.children.first().map_or_else(null_item, |child| Arc::new(child.to_arrow()));
        match &self.logical_type {
            LogicalType::List | LogicalType::ListStruct => DataType::List(item()),
            LogicalType::LargeList | LogicalType::LargeListStruct => DataType::LargeList(item()),
            LogicalType::Map => DataType::Map(item(), false),
            LogicalType::FixedSizeList(_, size) if !self.children.is_empty() => {
                DataType::FixedSizeList(item(), *size)
            }
            LogicalType::Struct => DataType::Struct(self.children.iter().map(Field::to_arrow).collect()),
            leaf => leaf.leaf_data_type().unwrap_or(DataType::Null),
        }
    }

    /// The Arrow field: name, type, nullability and metadata.
    pub fn to_arrow(&self) -> ArrowField {
        ArrowField::new(&self.name, self.data_type(), self.nullable).with_metadata(unordered(&self.metadata))
    }
}

/// Stands in where a list has no child, which a checked schema never has.
fn null_item() -> FieldRef {
    Arc::new(ArrowField::new("item", DataType::Null, true))
}

/// `required`: no field above these can be null.
fn fields_from_arrow<'a>(
    fields: impl Iterator<Item = &'a FieldRef>,
    parent: &str,
    required: bool,
) -> Result<Vec<Field>> {
    let mut converted: Vec<Field> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for field in fields {
        let path = projection::join(parent, field.name());
        if !names.insert(field.name()) {
            return Err(Error::invalid_input(format!("Duplicate field name \"{path}\" in schema")));
        }
        converted.push(field_from_arrow(field, &path, required)?);
    }
    Ok(converted)
}

pub(super) fn field_from_arrow(field: &ArrowField, path: &str, required: bool) -> Result<Field> {
    let mut metadata = ordered(field.metadata());
    let required = required && !field.is_nullable();
    let (logical_type, children) = match json(field, &mut metadata) {
        Some(json) => (json, Vec::new()),
        None => type_from_arrow(field.data_type(), path, required)?,
    };
    logical_type
        .check()
        .map_err(|problem| Error::unsupported(format!("Unsupported data type: field `{path}`: {problem}")))?;
    let carried = CarriedKeys {
        primary_key_position: number(&metadata, PRIMARY_KEY_POSITION),
        clustering_key: flag(&metadata, CLUSTERING_KEY),
        clustering_key_position: number(&metadata, CLUSTERING_KEY_POSITION),
    };
    let unenforced_primary_key = is_primary_key(&metadata);
    if unenforced_primary_key && !(required && children.is_empty()) {
        return Err(unfit_primary_key(path, &logical_type));
    }
    Ok(Field {
        id: FieldId(0),
        name: field.name().clone(),
        nullable: field.is_nullable(),
        logical_type,
        children,
        metadata,
        unenforced_primary_key,
        carried,
    })
}

fn flag(metadata: &Metadata, key: &str) -> bool {
    metadata.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn number(metadata: &Metadata, key: &str) -> u32 {
    metadata.get(key).and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// Whether metadata says that a field is a primary key, or a part of it.
pub(super) fn is_primary_key(metadata: &Metadata) -> bool {
    flag(metadata, PRIMARY_KEY) || number(metadata, PRIMARY_KEY_POSITION) > 0
}

/// The `json` type if the field carries JSON, its extension renamed to the stored form.
fn json(field: &ArrowField, metadata: &mut Metadata) -> Option<LogicalType> {
    let name = metadata.get_mut(EXTENSION_TYPE_NAME_KEY)?;
    match (name.as_str(), field.data_type()) {
        (ARROW_JSON, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        | (STORED_JSON, DataType::LargeBinary) => {}
        _ => return None,
    }
    STORED_JSON.clone_into(name);
    metadata.entry(EXTENSION_TYPE_METADATA_KEY.to_owned()).or_default();
    Some(LogicalType::Json)
}

fn type_from_arrow(data_type: &DataType, path: &str, required: bool) -> Result<(LogicalType, Vec<Field>)> {
    let unsupported = |why: &str| {
        Error::unsupported(format!("Unsupported data type: field `{path}` has type {data_type}{why}"))
    };
    if let Some(leaf) = leaf_from_arrow(data_type) {
        return check_leaf(&leaf).map_err(unsupported).map(|()| (leaf, Vec::new()));
    }
    let is_struct = |item: &FieldRef| matches!(item.data_type(), DataType::Struct(_));
    // Nothing below a list or map can be a key, so nothing there is required in that sense.
    let child = |item: &FieldRef| fields_from_arrow(std::iter::once(item), path, false);
    Ok(match data_type {
        DataType::Struct(members) => {
            (LogicalType::Struct, fields_from_arrow(members.iter(), path, required)?)
        }
        DataType::List(item) if is_struct(item) => (LogicalType::ListStruct, child(item)?),
        DataType::List(item) => (LogicalType::List, child(item)?),
        DataType::LargeList(item) if is_struct(item) => (LogicalType::LargeListStruct, child(item)?),
        DataType::LargeList(item) => (LogicalType::LargeList, child(item)?),
        DataType::FixedSizeList(item, size) if is_struct(item) => {
            (LogicalType::FixedSizeList(Box::new(LogicalType::Struct), *size), child(item)?)
        }
        DataType::FixedSizeList(..) => {
            return Err(unsupported("; its items cannot be stored in fixed-size lists"));
        }
        DataType::Map(_, true) => return Err(unsupported(" with keys_sorted=true")),
        DataType::Map(entries, false) => {
            let DataType::Struct(members) = entries.data_type() else {
                return Err(unsupported("; map entries must be structs"));
            };
            let (Some(key), 2) = (members.first(), members.len()) else {
                return Err(unsupported("; map entries must have a key and a value"));
            };
            if entries.is_nullable() || key.is_nullable() {
                return Err(unsupported("; map entries and keys must not be nullable"));
            }
            (LogicalType::Map, child(entries)?)
        }
        _ => return Err(unsupported("")),
    })
}

/// Refuses what the format has and the reference cannot read, with the reason.
fn check_leaf(leaf: &LogicalType) -> Result<(), &'static str> {
    match leaf {
        // It ends at the second colon for the reference, which then opens no column of the table.
        LogicalType::Dictionary { value, .. } if value.to_string().contains(':') => {
            Err("; dictionaries of such values make a table unreadable for other readers")
        }
        LogicalType::FixedSizeList(item, _) if **item == LogicalType::Null => {
            Err("; lists of a fixed size need items of a type")
        }
        LogicalType::FixedSizeList(item, _) => check_leaf(item),
        _ => Ok(()),
    }
}

/// The logical type of an Arrow type that needs no child fields.
fn leaf_from_arrow(data_type: &DataType) -> Option<LogicalType> {
    Some(match data_type {
        DataType::Null => LogicalType::Null,
        DataType::Boolean => LogicalType::Bool,
        DataType::Int8 => LogicalType::Int8,
        DataType::Int16 => LogicalType::Int16,
        DataType::Int32 => LogicalType::Int32,
        DataType::Int64 => LogicalType::Int64,
        DataType::UInt8 => LogicalType::UInt8,
        DataType::UInt16 => LogicalType::UInt16,
        DataType::UInt32 => LogicalType::UInt32,
        DataType::UInt64 => LogicalType::UInt64,
        DataType::Float16 => LogicalType::Float16,
        DataType::Float32 => LogicalType::Float32,
        DataType::Float64 => LogicalType::Float64,
        DataType::Utf8 | DataType::Utf8View => LogicalType::Utf8,
        DataType::LargeUtf8 => LogicalType::LargeUtf8,
        DataType::Binary | DataType::BinaryView => LogicalType::Binary,
        DataType::LargeBinary => LogicalType::LargeBinary,
        DataType::FixedSizeBinary(width) => LogicalType::FixedSizeBinary(*width),
        DataType::Date32 => LogicalType::Date32,
        DataType::Date64 => LogicalType::Date64,
        DataType::Time32(unit) => LogicalType::Time32(*unit),
        DataType::Time64(unit) => LogicalType::Time64(*unit),
        DataType::Timestamp(unit, zone) => LogicalType::Timestamp(*unit, zone.as_deref().map(str::to_owned)),
        DataType::Duration(unit) => LogicalType::Duration(*unit),
        DataType::Decimal128(precision, scale) => LogicalType::Decimal128(*precision, *scale),
        DataType::Decimal256(precision, scale) => LogicalType::Decimal256(*precision, *scale),
        DataType::FixedSizeList(item, size) => {
            LogicalType::FixedSizeList(Box::new(leaf_from_arrow(item.data_type())?), *size)
        }
        DataType::Dictionary(index, value) => LogicalType::Dictionary {
            value: Box::new(leaf_from_arrow(value)?),
            index: Box::new(leaf_from_arrow(index)?),
        },
        _ => return None,
    })
}

fn ordered(metadata: &HashMap<String, String>) -> Metadata {
    metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn unordered(metadata: &Metadata) -> HashMap<String, String> {
    metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}
