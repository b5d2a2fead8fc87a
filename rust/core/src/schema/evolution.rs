//! Changes of a schema: columns that are added, changed and dropped (table format 3.1).
//!
//! Invariant: a field keeps its id as long as its values are where they were. New fields, and fields whose type
//! changes, get ids above all that the table mentions, depth first; dropping a field changes no other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use arrow_schema::DataType;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};

use super::arrow::SYSTEM_COLUMNS;
use super::compatibility::check_children;
use super::{Field, LogicalType, Metadata, Schema, projection};
use crate::{Error, FieldId, Result};

/// Stands for an id that is handed out when all changes are known.
const UNASSIGNED: FieldId = FieldId(i32::MIN);
/// What fields of an extension type have in their metadata.
const EXTENSION_KEYS: [&str; 2] = [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY];

/// A schema with fields that are not in the data files yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evolved {
    /// The new schema of the table.
    pub schema: Schema,
    /// What the new data files hold: the new fields, within the fields they are members of.
    pub added: Schema,
}

/// What is to change about a column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alteration {
    /// Path of the column.
    pub path: String,
    /// Its new name.
    pub name: Option<String>,
    /// Whether it may hold nulls from now on.
    pub nullable: Option<bool>,
    /// Its new type.
    pub data_type: Option<DataType>,
    /// Name and metadata of the extension type that the new type is, as fields of Arrow have them; of JSON as text.
    pub extension: Metadata,
}

/// A schema whose columns were altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Altered {
    /// The schema, and the fields whose values have to be cast.
    pub evolved: Evolved,
    /// The fields that the values of new fields come from.
    pub casts: BTreeMap<FieldId, FieldId>,
    /// Paths of columns that may hold nulls and must not any more.
    pub no_longer_nullable: Vec<String>,
}

impl Schema {
    /// The schema with the fields of another one added; their ids are handed out from `next` on.
    ///
    /// A struct that is there already gets the members it does not have. Errors: `AlreadyExists` for a column of the
    /// same type that is there, `SchemaMismatch` if its type is another one.
    ///
    /// ```
    /// use arrow_schema::{DataType, Field, Schema as ArrowSchema};
    /// use pennon_core::{FieldId, schema::Schema};
    ///
    /// let schema = |name| Schema::from_arrow(&ArrowSchema::new(vec![Field::new(name, DataType::Int8, true)]));
    /// let evolved = schema("a")?.with_columns(&schema("b")?, FieldId(5))?;
    /// assert_eq!(evolved.schema.fields.iter().map(|f| f.id.0).collect::<Vec<_>>(), [0, 5]);
    /// assert_eq!(evolved.added.fields[0].name, "b");
    /// # Ok::<(), pennon_core::Error>(())
    /// ```
    pub fn with_columns(&self, new: &Self, next: FieldId) -> Result<Evolved> {
        let mut schema = self.clone();
        add(&mut schema.fields, &new.fields, "")?;
        Ok(Evolved::new(schema, next, &BTreeSet::new())?.0)
    }

    /// The schema without some columns, given by their paths. A struct that has no member left is dropped too.
    ///
    /// Errors: `InvalidInput` for a path without a field, for parts that lists and maps cannot do without, and if
    /// no column is left.
    pub fn without_columns(&self, paths: &[String]) -> Result<Self> {
        let mut gone = HashSet::new();
        for path in paths {
            let field = self.field_by_path(path);
            let field = field.ok_or_else(|| {
                Error::invalid_input(format!("Column {path} does not exist in the dataset"))
            })?;
            gone.insert(field.id);
        }
        let mut schema = self.clone();
        remove(&mut schema.fields, &gone);
        if schema.fields.is_empty() {
            return Err(Error::invalid_input("Cannot drop all columns from a dataset"));
        }
        match broken(&schema.fields, "") {
            Some(path) => {
                Err(Error::invalid_input(format!("Column {path} cannot be without the part that is dropped")))
            }
            None => Ok(schema),
        }
    }

    /// The schema with altered columns; those whose type changes get ids from `next` on.
    ///
    /// A later alteration of a column overrules an earlier one. Errors: `InvalidInput` for a path without a field, a
    /// name that is taken or cannot be, and a type that the values cannot be cast to.
    pub fn with_alterations(&self, alterations: &[Alteration], next: FieldId) -> Result<Altered> {
        let mut schema = self.clone();
        let mut retyped = BTreeSet::new();
        // Parts of lists and maps that are cast, and the outermost list or map of each, which is stored again.
        let mut parts = BTreeMap::new();
        let mut no_longer_nullable = BTreeMap::new();
        for Alteration { path, name, nullable, data_type, extension } in alterations {
            let missing = || Error::invalid_input(format!("Column \"{path}\" does not exist in the dataset"));
            let before = self.field_by_path(path).ok_or_else(missing)?;
            let top_level = self.fields.iter().any(|field| field.id == before.id);
            let after = find_mut(&mut schema.fields, before.id).ok_or_else(missing)?;
            if let Some(name) = name {
                check_name(name, top_level)?;
                after.name.clone_from(name);
            }
            if let Some(nullable) = *nullable {
                after.nullable = nullable;
                match before.nullable && !nullable {
                    true => no_longer_nullable.insert(before.id, path.clone()),
                    false => no_longer_nullable.remove(&before.id),
                };
            }
            if let Some(data_type) = data_type {
                let is_cast = retype(before, after, (data_type, extension), path)?;
                match list_above(&self.fields, before.id).filter(|list| list.id != before.id) {
                    Some(list) if is_cast => {
                        if after.logical_type == LogicalType::Json || list.has_blob_v2() {
                            return Err(Error::invalid_input(format!(
                                "Cannot cast column \"{path}\": it is a part of a list or map with JSON or blobs"
                            )));
                        }
                        parts.insert(before.id, list.id);
                    }
                    Some(_) => drop(parts.remove(&before.id)),
                    None if is_cast => drop(retyped.insert(before.id)),
                    None => drop(retyped.remove(&before.id)),
                }
            }
        }
        for list in parts.into_values() {
            if let Some(field) = find_mut(&mut schema.fields, list)
                && retyped.insert(list)
            {
                field.children = std::mem::take(&mut field.children).into_iter().map(unassigned).collect();
            }
        }
        check_names(&schema.fields, "")?;
        let (evolved, casts) = Evolved::new(schema, next, &retyped)?;
        Ok(Altered { evolved, casts, no_longer_nullable: no_longer_nullable.into_values().collect() })
    }
}

impl Evolved {
    /// Gives new fields their ids, and those of `retyped` other ones; says which became which. Errors: `Unsupported` if
    /// all ids were handed out.
    fn new(
        mut schema: Schema,
        next: FieldId,
        retyped: &BTreeSet<FieldId>,
    ) -> Result<(Self, BTreeMap<FieldId, FieldId>)> {
        fn assign(
            fields: &mut [Field],
            ids: &mut Range<i32>,
            retyped: &BTreeSet<FieldId>,
            from: &mut BTreeMap<FieldId, FieldId>,
        ) -> Result<()> {
            for field in fields {
                let is_retyped = retyped.contains(&field.id);
                if is_retyped || field.id == UNASSIGNED {
                    let id = FieldId(ids.next().ok_or_else(|| {
                        let (last, name) = (ids.end - 1, &field.name);
                        Error::unsupported(format!(
                            "field {name} needs an id after {last}, the last that there is"
                        ))
                    })?);
                    if is_retyped {
                        from.insert(id, field.id);
                    }
                    field.id = id;
                }
                assign(&mut field.children, ids, retyped, from)?;
            }
            Ok(())
        }
        let mut from = BTreeMap::new();
        // The largest number is what follows the last id.
        assign(&mut schema.fields, &mut (next.0..i32::MAX), retyped, &mut from)?;
        let fields = schema.fields.iter().filter_map(|field| only_new(field, next)).collect();
        let added = Schema { fields, metadata: schema.metadata.clone() };
        Ok((Self { schema, added }, from))
    }
}

/// A field with only what is new in it.
fn only_new(field: &Field, first: FieldId) -> Option<Field> {
    if field.id >= first {
        return Some(field.clone());
    }
    let children: Vec<Field> = field.children.iter().filter_map(|child| only_new(child, first)).collect();
    (!children.is_empty()).then(|| Field { children, ..field.clone() })
}

fn add(fields: &mut Vec<Field>, new: &[Field], parent: &str) -> Result<()> {
    for field in new {
        let path = projection::join(parent, &field.name);
        match fields.iter_mut().find(|f| f.name == field.name) {
            None => {
                check_name(&field.name, parent.is_empty())?;
                fields.push(unassigned(field.clone()));
            }
            Some(known)
                if known.logical_type == LogicalType::Struct && field.logical_type == LogicalType::Struct =>
            {
                add(&mut known.children, &field.children, &path)?;
            }
            Some(known) if known.data_type() == field.data_type() => {
                return Err(Error::already_exists(format!("Column {path} already exists in the dataset")));
            }
            Some(known) => {
                return Err(Error::schema_mismatch(format!(
                    "Type conflicts between {path}({:?}) and {path}({:?})",
                    known.data_type(),
                    field.data_type()
                )));
            }
        }
    }
    Ok(())
}

fn unassigned(mut field: Field) -> Field {
    field.id = UNASSIGNED;
    field.children = field.children.into_iter().map(unassigned).collect();
    field
}

fn remove(fields: &mut Vec<Field>, gone: &HashSet<FieldId>) {
    fields.retain_mut(|field| {
        let had_members = !field.children.is_empty();
        remove(&mut field.children, gone);
        let empty = had_members && field.children.is_empty() && field.logical_type == LogicalType::Struct;
        !gone.contains(&field.id) && !empty
    });
}

/// The path of a field that lacks a part it must have.
fn broken(fields: &[Field], parent: &str) -> Option<String> {
    fields.iter().find_map(|field| {
        let path = projection::join(parent, &field.name);
        match check_children(field) {
            Err(_) => Some(path),
            Ok(()) => broken(&field.children, &path),
        }
    })
}

fn find_mut(fields: &mut [Field], id: FieldId) -> Option<&mut Field> {
    fields.iter_mut().find_map(
        |field| {
            if field.id == id { Some(field) } else { find_mut(&mut field.children, id) }
        },
    )
}

/// The outermost field on the way down to one, or that itself, that is not a struct.
fn list_above(fields: &[Field], id: FieldId) -> Option<&Field> {
    let field = fields.iter().find(|field| contains(field, id))?;
    match field.logical_type == LogicalType::Struct && field.id != id {
        true => list_above(&field.children, id),
        false => Some(field),
    }
}

fn contains(field: &Field, id: FieldId) -> bool {
    field.id == id || field.children.iter().any(|child| contains(child, id))
}

/// Gives a field another type; says whether it has to be stored otherwise.
fn retype(
    before: &Field,
    after: &mut Field,
    (data_type, extension): (&DataType, &Metadata),
    path: &str,
) -> Result<bool> {
    let refuse = |from: &str, to: &str| {
        Err(Error::invalid_input(format!("Cannot cast column \"{path}\" from {from} to {to}")))
    };
    let renamed = arrow_schema::Field::new(&after.name, data_type.clone(), after.nullable);
    let renamed = renamed.with_metadata(extension.clone().into_iter().collect());
    let new = super::arrow::field_from_arrow(&renamed, path, false)?;
    if new.logical_type == LogicalType::Json && before.logical_type == LogicalType::Json {
        (after.logical_type, after.metadata) = (LogicalType::Json, before.metadata.clone());
        return Ok(false);
    }
    if holds_json(before) {
        return refuse("JSON", &data_type.to_string());
    }
    if new.logical_type == LogicalType::Json {
        if !matches!(before.logical_type, LogicalType::Utf8 | LogicalType::LargeUtf8) {
            return refuse(&before.data_type().to_string(), "JSON");
        }
        after.logical_type = new.logical_type;
        after.metadata.extend(new.metadata);
        return Ok(true);
    }
    if before.has_blob_v2() != new.has_blob_v2() {
        return refuse(&described(before), &described(&new));
    }
    let same = before.data_type() == new.data_type();
    if !same && !can_cast(&before.data_type(), &new.data_type()) {
        return Err(Error::invalid_input(format!(
            "Cannot cast column \"{path}\" from {} to {data_type}",
            before.data_type()
        )));
    }
    let (logical_type, children) = match same {
        true => (before.logical_type.clone(), before.children.clone()),
        false => (new.logical_type, new.children.into_iter().map(unassigned).collect()),
    };
    after.logical_type = logical_type;
    after.children = children;
    after.metadata = before.metadata.clone();
    after.metadata.retain(|key, _| !EXTENSION_KEYS.contains(&key.as_str()));
    after.metadata.extend(new.metadata);
    Ok(!same)
}

/// A type as an error names it.
fn described(field: &Field) -> String {
    if field.has_blob_v2() { "blob".to_owned() } else { field.data_type().to_string() }
}

fn holds_json(field: &Field) -> bool {
    field.logical_type == LogicalType::Json || field.children.iter().any(holds_json)
}

/// Whether values of one type can become values of the other: the casts that the reference does.
fn can_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, Date32, Date64, Decimal128, Decimal256, Dictionary, Duration, FixedSizeList, LargeBinary,
        LargeList, LargeUtf8, List, Time32, Time64, Timestamp, Utf8,
    };
    let date = |t: &DataType| matches!(t, Date32 | Date64 | Timestamp(..));
    let time = |t: &DataType| matches!(t, Time32(_) | Time64(_));
    match (from, to) {
        _ if from == to => true,
        _ if from.is_integer() => to.is_integer(),
        _ if from.is_floating() => to.is_floating(),
        (Timestamp(..), _) => date(to) || time(to),
        (Date32 | Date64, _) => date(to),
        (Time32(_) | Time64(_), _) => time(to),
        (Duration(_), _) => matches!(to, Duration(_)),
        (Decimal128(..) | Decimal256(..), _) => matches!(to, Decimal128(..) | Decimal256(..)),
        (Utf8 | LargeUtf8, Utf8 | LargeUtf8) | (Binary | LargeBinary, Binary | LargeBinary) => true,
        (Utf8 | LargeUtf8, Dictionary(_, value)) | (Dictionary(_, value), Utf8 | LargeUtf8) => {
            matches!(**value, Utf8 | LargeUtf8)
        }
        (Dictionary(_, from), Dictionary(_, to)) => can_cast(from, to),
        (List(from) | LargeList(from), List(to) | LargeList(to)) => {
            can_cast(from.data_type(), to.data_type())
        }
        (FixedSizeList(from, a), FixedSizeList(to, b)) => {
            a == b && can_cast(from.data_type(), to.data_type())
        }
        _ => false,
    }
}

fn check_name(name: &str, top_level: bool) -> Result<()> {
    if top_level && name.contains('.') {
        return Err(Error::invalid_input(format!(
            "Top level field {name} cannot contain `.`. Maybe you meant to create a struct field?"
        )));
    }
    if top_level && SYSTEM_COLUMNS.contains(&name) {
        return Err(Error::invalid_input(format!("Column {name} has a reserved name")));
    }
    match name.is_empty() {
        true => Err(Error::invalid_input("A column cannot have an empty name")),
        false => Ok(()),
    }
}

fn check_names(fields: &[Field], parent: &str) -> Result<()> {
    let mut names = HashSet::new();
    fields.iter().try_for_each(|field| {
        let path = projection::join(parent, &field.name);
        if !names.insert(&field.name) {
            return Err(Error::invalid_input(format!("Duplicate field name \"{path}\" in schema")));
        }
        check_names(&field.children, &path)
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field as ArrowField, Fields, Schema as ArrowSchema};

    use super::*;
    use crate::ErrorKind;

    fn members(names: &[(&str, DataType)]) -> DataType {
        let field = |(name, data_type): &(&str, DataType)| ArrowField::new(*name, data_type.clone(), true);
        DataType::Struct(names.iter().map(field).collect::<Fields>())
    }

    fn schema(columns: &[(&str, DataType)]) -> Schema {
        let DataType::Struct(fields) = members(columns) else { unreachable!() };
        Schema::from_arrow(&ArrowSchema::new(fields)).unwrap()
    }

    /// `a: int64, s: struct<x: int8, y: utf8>, l: list<int32>`, ids 0 to 5.
    fn table() -> Schema {
        let item = ArrowField::new("item", DataType::Int32, true);
        schema(&[
            ("a", DataType::Int64),
            ("s", members(&[("x", DataType::Int8), ("y", DataType::Utf8)])),
            ("l", DataType::List(item.into())),
        ])
    }

    fn ids(schema: &Schema) -> Vec<(String, i32)> {
        schema.depth_first().map(|f| (f.name.clone(), f.id.0)).collect()
    }

    fn named(ids: &[(&str, i32)]) -> Vec<(String, i32)> {
        ids.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect()
    }

    fn alter(path: &str) -> Alteration {
        Alteration { path: path.to_owned(), ..Alteration::default() }
    }

    #[test]
    fn new_columns_and_members_get_ids_depth_first() {
        let new =
            schema(&[("z", members(&[("p", DataType::Int8)])), ("s", members(&[("w", DataType::Int8)]))]);
        let evolved = table().with_columns(&new, FieldId(9)).unwrap();
        let expected =
            [("a", 0), ("s", 1), ("x", 2), ("y", 3), ("w", 9), ("l", 4), ("item", 5), ("z", 10), ("p", 11)];
        assert_eq!(ids(&evolved.schema), named(&expected));
        assert_eq!(ids(&evolved.added), named(&[("s", 1), ("w", 9), ("z", 10), ("p", 11)]));
        evolved.schema.validate().unwrap();
    }

    #[test]
    fn ids_are_not_handed_out_twice() {
        let new = schema(&[("y", DataType::Int8), ("z", DataType::Int8)]);
        let last = FieldId(i32::MAX - 2);
        assert_eq!(table().with_columns(&new, last).unwrap().added.max_field_id(), FieldId(i32::MAX - 1));
        for next in [i32::MAX - 1, i32::MAX] {
            let error = table().with_columns(&new, FieldId(next)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }

    #[test]
    fn columns_that_are_there() {
        let error = |new: &[(&str, DataType)]| table().with_columns(&schema(new), FieldId(6)).unwrap_err();
        let taken = error(&[("a", DataType::Int64)]);
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert_eq!(taken.to_string(), "Column a already exists in the dataset");
        let other = error(&[("a", DataType::Utf8)]);
        assert_eq!(other.kind(), ErrorKind::SchemaMismatch);
        assert_eq!(other.to_string(), "Type conflicts between a(Int64) and a(Utf8)");
        let member = error(&[("s", members(&[("x", DataType::Int8)]))]);
        assert_eq!(member.to_string(), "Column s.x already exists in the dataset");
    }

    #[test]
    fn columns_go() {
        let without = |paths: &[&str]| {
            table().without_columns(&paths.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(ids(&without(&["s.x", "l", "l"]).unwrap()), named(&[("a", 0), ("s", 1), ("y", 3)]));
        assert_eq!(ids(&without(&["s.x", "s.y", "l"]).unwrap()), named(&[("a", 0)]));
        assert_eq!(without(&[]).unwrap(), table());
        let message = |paths: &[&str]| without(paths).unwrap_err().to_string();
        assert_eq!(message(&["nope"]), "Column nope does not exist in the dataset");
        assert_eq!(message(&["a", "s", "l"]), "Cannot drop all columns from a dataset");
        assert_eq!(message(&["l.item"]), "Column l cannot be without the part that is dropped");
    }

    #[test]
    fn names_and_nullability_change_in_place() {
        let renamed = Alteration { name: Some("b".to_owned()), nullable: Some(false), ..alter("s.x") };
        let altered = table().with_alterations(&[renamed], FieldId(6)).unwrap();
        assert_eq!(altered.no_longer_nullable, ["s.x"]);
        assert!(altered.casts.is_empty() && altered.evolved.added.fields.is_empty());
        let field = altered.evolved.schema.field_by_path("s.b").unwrap();
        assert_eq!((field.id, field.nullable), (FieldId(2), false));
        // Back again in the same call.
        let both = [
            Alteration { nullable: Some(false), ..alter("a") },
            Alteration { nullable: Some(true), ..alter("a") },
        ];
        assert!(table().with_alterations(&both, FieldId(6)).unwrap().no_longer_nullable.is_empty());
    }

    #[test]
    fn types_change_under_new_ids() {
        let to = |path: &str, data_type| Alteration { data_type: Some(data_type), ..alter(path) };
        let item = ArrowField::new("item", DataType::Int64, true);
        let changes = [to("l", DataType::LargeList(item.into())), to("s.x", DataType::Int16)];
        let altered = table().with_alterations(&changes, FieldId(6)).unwrap();
        let expected = [("a", 0), ("s", 1), ("x", 6), ("y", 3), ("l", 7), ("item", 8)];
        assert_eq!(ids(&altered.evolved.schema), named(&expected));
        assert_eq!(ids(&altered.evolved.added), named(&[("s", 1), ("x", 6), ("l", 7), ("item", 8)]));
        assert_eq!(altered.casts, [(FieldId(6), FieldId(2)), (FieldId(7), FieldId(4))].into());
        // A list is stored again with its parts.
        let part = table().with_alterations(&[to("l.item", DataType::Int64)], FieldId(6)).unwrap();
        assert_eq!(ids(&part.evolved.added), named(&[("l", 6), ("item", 7)]));
        assert_eq!(part.casts, [(FieldId(6), FieldId(4))].into());
        // The type it has, or has again, is no change.
        let back = ["a", "l.item"]
            .map(|path| {
                [DataType::Int8, table().field_by_path(path).unwrap().data_type()].map(|t| to(path, t))
            })
            .concat();
        let unchanged = table().with_alterations(&back, FieldId(6)).unwrap();
        assert_eq!((unchanged.evolved.schema, unchanged.casts.len()), (table(), 0));
    }

    #[test]
    fn alterations_that_cannot_be() {
        let message = |alteration: Alteration| {
            table().with_alterations(&[alteration], FieldId(6)).unwrap_err().to_string()
        };
        let to = |path: &str, data_type| Alteration { data_type: Some(data_type), ..alter(path) };
        let name = |path: &str, name: &str| Alteration { name: Some(name.to_owned()), ..alter(path) };
        assert_eq!(message(alter("nope")), "Column \"nope\" does not exist in the dataset");
        assert_eq!(message(to("a", DataType::Utf8)), "Cannot cast column \"a\" from Int64 to Utf8");
        assert_eq!(message(to("l.item", DataType::Utf8)), "Cannot cast column \"l.item\" from Int32 to Utf8");
        assert_eq!(message(name("a", "l")), "Duplicate field name \"l\" in schema");
        assert_eq!(message(name("s.x", "y")), "Duplicate field name \"s.y\" in schema");
        assert!(message(name("a", "b.c")).starts_with("Top level field b.c cannot contain"));
        assert!(message(name("a", "_rowid")).contains("reserved"));
        assert!(message(name("a", "")).contains("empty"));
    }
}
