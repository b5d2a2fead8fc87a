//! `Field` and the flat field list <-> the tree of a [`Schema`] (table format 2.3 and 3).
//!
//! The list is depth first; a field names its parent by id. Ids of lineage columns (-3 to -5) appear in the schemas
//! of data files only.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::file;
use crate::manifest::ManifestDictionaries;
use crate::schema::{CarriedKeys, Field, LogicalType, Metadata, Schema};
use crate::{Error, FieldId, Result};

const EXTENSION_NAME: &str = "ARROW:extension:name";

/// The deepest nesting that is accepted, so that no walk over a schema can exhaust the stack.
const MAX_DEPTH: u32 = 100;

/// Builds and checks a schema. Errors: `Corrupt` naming the field, `Unsupported` for an unknown type.
pub(super) fn decode_schema(fields: Vec<file::Field>, metadata: BTreeMap<String, Bytes>) -> Result<Schema> {
    let schema = decode_unchecked(fields, metadata)?;
    schema.validate()?;
    Ok(schema)
}

/// The schema of a data file, which may have lineage columns at its top level (table format 4.7).
pub(super) fn decode_file_schema(
    fields: Vec<file::Field>,
    metadata: BTreeMap<String, Bytes>,
) -> Result<Schema> {
    let schema = decode_unchecked(fields, metadata)?;
    if schema.fields.iter().any(|field| field.id.is_lineage()) {
        let data = schema.fields.iter().filter(|field| !field.id.is_lineage()).cloned().collect();
        Schema { fields: data, metadata: Metadata::new() }.validate()?;
    } else {
        schema.validate()?;
    }
    Ok(schema)
}

fn decode_unchecked(fields: Vec<file::Field>, metadata: BTreeMap<String, Bytes>) -> Result<Schema> {
    Ok(Schema { fields: decode_tree(fields)?, metadata: decode_metadata("schema metadata", metadata)? })
}

fn decode_tree(wire: Vec<file::Field>) -> Result<Vec<Field>> {
    // Of each field so far: its position in the list and its depth.
    let mut positions: HashMap<i32, (usize, u32)> = HashMap::with_capacity(wire.len());
    let mut parents = Vec::with_capacity(wire.len());
    let mut last = None;
    for (at, field) in wire.iter().enumerate() {
        // The members of a blob descriptor come behind it, with the id -1 and no parent.
        let member_of = last.filter(|_| field.id == FieldId::NO_PARENT.0);
        let (parent, depth) = if let Some((parent, depth)) = member_of {
            (Some(parent), depth + 1)
        } else if field.parent_id == FieldId::NO_PARENT.0 {
            (None, 1)
        } else {
            let Some(&(parent, depth)) = positions.get(&field.parent_id) else {
                return Err(Error::corrupt(format!(
                    "field `{}` (id {}): its parent {} does not come before it",
                    field.name, field.id, field.parent_id
                )));
            };
            (Some(parent), depth + 1)
        };
        if depth > MAX_DEPTH {
            return Err(Error::corrupt(format!(
                "field `{}` (id {}): nested deeper than {MAX_DEPTH} levels",
                field.name, field.id
            )));
        }
        if field.id != FieldId::NO_PARENT.0 {
            if positions.insert(field.id, (at, depth)).is_some() {
                return Err(Error::corrupt(format!(
                    "field `{}`: id {} is taken by another field",
                    field.name, field.id
                )));
            }
            last = Some((at, depth));
        }
        parents.push(parent);
    }

    // From the back, so that a field is complete when it moves into its parent.
    let mut slots = wire.into_iter().map(|f| decode_field(f).map(Some)).collect::<Result<Vec<_>>>()?;
    let mut top = Vec::new();
    for (at, parent) in parents.iter().enumerate().rev() {
        let Some(mut field) = slots.get_mut(at).and_then(Option::take) else { continue };
        field.children.reverse();
        match parent.and_then(|p| slots.get_mut(p)) {
            Some(Some(parent)) => parent.children.push(field),
            _ => top.push(field),
        }
    }
    top.reverse();
    Ok(top)
}

fn decode_field(wire: file::Field) -> Result<Field> {
    let location = || format!("field `{}` (id {})", wire.name, wire.id);
    let logical_type: LogicalType = wire
        .logical_type
        .parse()
        .map_err(|e: Error| e.at(format!("field `{}` (id {})", wire.name, wire.id)))?;
    let metadata = decode_metadata(&location(), wire.metadata)?;
    Ok(Field {
        id: FieldId(wire.id),
        name: wire.name,
        nullable: wire.nullable,
        logical_type,
        children: Vec::new(),
        metadata,
        unenforced_primary_key: wire.unenforced_primary_key,
        carried: CarriedKeys {
            primary_key_position: wire.unenforced_primary_key_position,
            clustering_key: wire.unenforced_clustering_key,
            clustering_key_position: wire.unenforced_clustering_key_position,
        },
    })
}

/// Where a manifest file has the values of dictionaries, if it has some.
pub(super) fn decode_dictionaries(fields: &[file::Field]) -> ManifestDictionaries {
    let position = |field: &file::Field| {
        let dictionary = field.dictionary.filter(|dictionary| dictionary.length > 0)?;
        Some((FieldId(field.id), (dictionary.offset, dictionary.length)))
    };
    ManifestDictionaries { positions: fields.iter().filter_map(position).collect(), pages: None }
}

/// The fields depth first, as the reference writes them.
pub(super) fn encode_fields(schema: &Schema) -> Vec<file::Field> {
    fn walk(fields: &[Field], parent: FieldId, out: &mut Vec<file::Field>) {
        for field in fields {
            // The members of a blob descriptor have neither id nor parent.
            let parent = if field.id == FieldId::NO_PARENT { FieldId::NO_PARENT } else { parent };
            out.push(encode_field(field, parent));
            walk(&field.children, field.id, out);
        }
    }
    let mut out = Vec::new();
    walk(&schema.fields, FieldId::NO_PARENT, &mut out);
    out
}

fn encode_field(field: &Field, parent: FieldId) -> file::Field {
    let encoding = encoding_hint(&field.logical_type);
    file::Field {
        r#type: 0,
        name: field.name.clone(),
        id: field.id.0,
        parent_id: parent.0,
        logical_type: field.logical_type.to_string(),
        nullable: field.nullable,
        encoding: encoding.into(),
        dictionary: (encoding == file::field::Encoding::Dictionary).then(Default::default),
        extension_name: field.metadata.get(EXTENSION_NAME).cloned().unwrap_or_default(),
        metadata: encode_metadata(&field.metadata),
        unenforced_primary_key: field.unenforced_primary_key,
        unenforced_primary_key_position: field.carried.primary_key_position,
        unenforced_clustering_key: field.carried.clustering_key,
        unenforced_clustering_key_position: field.carried.clustering_key_position,
    }
}

/// What files of version 0.1 would use; kept because the reference writes it (table format 3.3).
fn encoding_hint(logical_type: &LogicalType) -> file::field::Encoding {
    use file::field::Encoding;
    match logical_type {
        LogicalType::Null | LogicalType::Struct => Encoding::None,
        LogicalType::Utf8
        | LogicalType::LargeUtf8
        | LogicalType::Binary
        | LogicalType::LargeBinary
        | LogicalType::Json => Encoding::VarBinary,
        LogicalType::Dictionary { .. } => Encoding::Dictionary,
        _ => Encoding::Plain,
    }
}

/// Errors: `Corrupt` if a value is not UTF-8.
pub(super) fn decode_metadata(location: &str, wire: BTreeMap<String, Bytes>) -> Result<Metadata> {
    let decode = |(key, value): (String, Bytes)| match String::from_utf8(value.into()) {
        Ok(value) => Ok((key, value)),
        Err(_) => Err(Error::corrupt(format!("{location}: the metadata value of `{key}` is not UTF-8"))),
    };
    wire.into_iter().map(decode).collect()
}

pub(super) fn encode_metadata(metadata: &Metadata) -> BTreeMap<String, Bytes> {
    metadata.iter().map(|(key, value)| (key.clone(), Bytes::from(value.clone().into_bytes()))).collect()
}
