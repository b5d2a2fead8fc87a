//! Columns of one version as they are read from others.
//!
//! A column keeps its id, under whatever name, until an overwrite gives all columns ids from 0 on: through that it keeps
//! its name. What a version does not have, or has with another type, is null there; so everything may be null, members of
//! structs and items of lists included.

use std::collections::BTreeSet;

use pennon_core::FieldId;
use pennon_core::schema::{Field, LogicalType, Schema};
use pennon_datafile::container::is_packed;

/// The id of a member that a version does not have: no file lists it.
const ABSENT: FieldId = FieldId(i32::MAX);

/// Columns that may be null at every level.
#[derive(Debug)]
pub(crate) struct NullableFields(Vec<Field>);

/// What is known of fields that have another id or another name in another version.
#[derive(Debug, Default)]
pub(crate) struct Continuity {
    /// Those whose id is that of the same column in both.
    pub(crate) same_id: BTreeSet<FieldId>,
    /// Whether an overwrite between the versions cannot be ruled out.
    pub(crate) overwritten: bool,
}

/// A field of another type, which cannot be read as the one that is wanted.
struct OtherType;

impl NullableFields {
    /// These top-level columns.
    pub(crate) fn of<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Self {
        Self(fields.into_iter().map(nullable).collect())
    }

    /// The columns.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.0
    }

    /// The fields whose id has another name in a version, or whose name another id: the two schemas do not tell which one
    /// is the same column.
    pub(crate) fn ambiguous_in(&self, schema: &Schema) -> BTreeSet<FieldId> {
        let mut found = BTreeSet::new();
        self.0.iter().for_each(|field| add_ambiguous(field, &schema.fields, &mut found));
        found
    }

    /// What can be read of them in a version, with the ids that they have there: `None` for those it does not have with
    /// that type.
    pub(crate) fn in_version(&self, schema: &Schema, known: &Continuity) -> Vec<Option<Field>> {
        let read = |field: &Field| {
            let other = counterpart(field, &schema.fields, known)?;
            read_as(field, other, known, false).ok()
        };
        self.0.iter().map(read).collect()
    }
}

/// The id of a field of [`NullableFields::in_version`]; `None` for a member that the version does not have.
pub(crate) fn id_in_version(field: &Field) -> Option<FieldId> {
    Some(field.id).filter(|&id| id != ABSENT)
}

fn nullable(field: &Field) -> Field {
    let children = match field.logical_type {
        // Neither the entries of a map nor their keys are null.
        LogicalType::Map => field.children.clone(),
        _ => field.children.iter().map(nullable).collect(),
    };
    Field { nullable: true, children, ..field.clone() }
}

fn add_ambiguous(field: &Field, others: &[Field], found: &mut BTreeSet<FieldId>) {
    match others.iter().find(|other| other.id == field.id) {
        Some(other) if other.name == field.name => add_ambiguous_members(field, other, found),
        None if others.iter().all(|other| other.name != field.name) => {}
        _ => add_all(field, found),
    }
}

fn add_ambiguous_members(field: &Field, other: &Field, found: &mut BTreeSet<FieldId>) {
    if field.logical_type == LogicalType::Struct {
        field.children.iter().for_each(|member| add_ambiguous(member, &other.children, found));
    } else if field.logical_type != LogicalType::Map {
        let items = field.children.iter().zip(&other.children);
        items.for_each(|(item, other)| add_ambiguous_members(item, other, found));
    }
}

fn add_all(field: &Field, found: &mut BTreeSet<FieldId>) {
    found.insert(field.id);
    field.children.iter().for_each(|child| add_all(child, found));
}

/// The same field among those of another version.
fn counterpart<'a>(field: &Field, others: &'a [Field], known: &Continuity) -> Option<&'a Field> {
    let is_same = |other: &&Field| {
        other.id == field.id && (other.name == field.name || known.same_id.contains(&field.id))
    };
    let has_name = |other: &&Field| known.overwritten && other.name == field.name;
    others.iter().find(is_same).or_else(|| others.iter().find(has_name))
}

/// A field with the ids that it has in another version. Only members of structs have names that matter, and only they
/// may be missing: the items of lists and what a map consists of are found by position.
fn read_as(field: &Field, other: &Field, known: &Continuity, by_position: bool) -> Result<Field, OtherType> {
    let stored = |field: &Field| (is_packed(field), field.is_blob_v2());
    if field.logical_type != other.logical_type || stored(field) != stored(other) {
        return Err(OtherType);
    }
    let by_position = by_position || field.logical_type != LogicalType::Struct;
    let is_map = field.logical_type == LogicalType::Map;
    let child = |(at, child): (usize, &Field)| {
        let found = match by_position {
            true => other.children.get(at),
            false => counterpart(child, &other.children, known),
        };
        match found {
            Some(found) => read_as(child, found, known, is_map),
            None if by_position || stored(field) != (false, false) => Err(OtherType),
            None => Ok(absent(child)),
        }
    };
    let children = field.children.iter().enumerate().map(child).collect::<Result<_, _>>()?;
    Ok(Field { id: other.id, children, ..field.clone() })
}

fn absent(field: &Field) -> Field {
    Field { id: ABSENT, children: field.children.iter().map(absent).collect(), ..field.clone() }
}
