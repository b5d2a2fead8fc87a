//! The columns of a feed, and where a fragment has them.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef, TimeUnit};
use pennon_core::manifest::{DataFile, Fragment};
use pennon_core::schema::{Field, Schema, unknown_field};
use pennon_core::{Error, FieldId, Result};

use crate::json;
use crate::ops::reused::maybe_reused;
use crate::scan::NullableFields;
use crate::versions::snapshot::Snapshot;

/// Names of the columns that say what happened.
const DESCRIBING: [&str; 4] = ["_change_type", "_rowid", "_commit_version", "_commit_timestamp"];

/// The columns of a feed.
#[derive(Debug)]
pub(super) struct FeedColumns {
    /// Those of the table.
    pub(super) fields: NullableFields,
    /// Those that say what happened, then those of the table.
    pub(super) made: SchemaRef,
    /// The same as they are given, with JSON as text.
    pub(super) schema: SchemaRef,
    /// Those of the table.
    pub(super) values: SchemaRef,
}

impl FeedColumns {
    /// Columns by name. Errors: `InvalidInput` for unknown or repeated ones and for those named like ours.
    pub(super) fn new(schema: &Schema, names: Option<&[String]>) -> Result<Self> {
        let valid = || schema.fields.iter().map(|field| field.name.as_str());
        let chosen: Vec<&Field> = match names {
            None => schema.fields.iter().collect(),
            Some(names) => {
                let find = |name: &String| schema.field(name).ok_or_else(|| unknown_field(name, valid()));
                names.iter().map(find).collect::<Result<_>>()?
            }
        };
        for (at, field) in chosen.iter().enumerate() {
            if DESCRIBING.contains(&field.name.as_str()) {
                return Err(Error::invalid_input(format!(
                    "Column {} of the table has the name of a column of the feed: leave it out with columns",
                    field.name
                )));
            }
            if chosen.iter().take(at).any(|other| other.name == field.name) {
                return Err(Error::invalid_input(format!("Duplicate column name: {}", field.name)));
            }
        }
        let fields = NullableFields::of(chosen);
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let types = [DataType::Utf8, DataType::UInt64, DataType::UInt64, time];
        let described = DESCRIBING
            .into_iter()
            .zip(types)
            .map(|(name, data_type)| ArrowField::new(name, data_type, false));
        let arrow: Vec<ArrowField> = fields.fields().iter().map(Field::to_arrow).collect();
        let all: Vec<ArrowField> = described.chain(arrow.iter().cloned()).collect();
        let metadata = schema.metadata.clone().into_iter().collect::<std::collections::HashMap<_, _>>();
        let made = Arc::new(ArrowSchema::new_with_metadata(all, metadata));
        Ok(Self {
            fields,
            schema: json::shown_schema(&made),
            made,
            values: Arc::new(ArrowSchema::new(arrow)),
        })
    }

    /// The ids of all fields, members of structs included.
    fn ids(&self) -> impl Iterator<Item = FieldId> {
        let mut below: Vec<&Field> = self.fields.fields().iter().collect();
        std::iter::from_fn(move || {
            let field = below.pop()?;
            below.extend(&field.children);
            Some(field.id)
        })
    }

    /// The fields that only one of two versions has, and those that may be others in one than in the other. They were
    /// added or dropped, or restored, which leaves no trace in the lineage.
    pub(super) async fn only_in_one(&self, old: &Arc<Snapshot>, new: &Arc<Snapshot>) -> Result<Vec<FieldId>> {
        let has = |snapshot: &Arc<Snapshot>, id| snapshot.manifest.schema.field_by_id(id).is_some();
        let (both, mut found): (Vec<_>, Vec<_>) = self.ids().partition(|&id| has(old, id) == has(new, id));
        found.extend(maybe_reused(old, new, both.into_iter().collect()).await?);
        Ok(found)
    }

    /// Whether some of the values of a fragment's rows are stored elsewhere in another version of it.
    pub(super) fn are_elsewhere(&self, old: &Fragment, new: &Fragment) -> bool {
        let fields = self.fields.fields();
        if fields.is_empty() {
            return false;
        }
        old.overlays != new.overlays || fields.iter().any(|field| is_elsewhere(field, old, new))
    }
}

/// Whether a fragment has values of one of these fields.
pub(super) fn has_one_of(fragment: &Fragment, fields: &[FieldId]) -> bool {
    fields.iter().any(|&id| value_location(fragment, id).is_some())
}

fn is_elsewhere(field: &Field, old: &Fragment, new: &Fragment) -> bool {
    value_location(old, field.id) != value_location(new, field.id)
        || field.children.iter().any(|child| is_elsewhere(child, old, new))
}

/// Path, base path and column of a field's values.
fn value_location(fragment: &Fragment, id: FieldId) -> Option<(&str, Option<u32>, u32)> {
    let found = |file: &'_ DataFile| file.column_of(id);
    fragment.files.iter().find_map(|file| Some((file.path.as_str(), file.base_id, found(file)?)))
}
