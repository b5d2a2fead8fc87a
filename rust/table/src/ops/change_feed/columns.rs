//! The columns of a feed, and where a fragment has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef, TimeUnit};
use pennon_core::manifest::{DataFile, Fragment};
use pennon_core::schema::Field;
use pennon_core::{Error, FieldId, Result};

use crate::json;
use crate::ops::field_trail::TracedColumns;
use crate::scan::{check_unique, id_in_version};
use crate::versions::snapshot::Snapshot;

/// Names of the columns that say what happened.
const DESCRIBING: [&str; 4] = ["_change_type", "_rowid", "_commit_version", "_commit_timestamp"];

/// The columns of a feed.
#[derive(Debug)]
pub(super) struct FeedColumns {
    /// Those of the table.
    pub(super) table: TracedColumns,
    /// Those that say what happened, then those of the table.
    pub(super) made: SchemaRef,
    /// The same as they are given, with JSON as text.
    pub(super) schema: SchemaRef,
    /// Those of the table.
    pub(super) values: SchemaRef,
}

/// The columns as a version has them, with its field ids; `None` for one that it does not have.
pub(super) type VersionFields = [Option<Field>];

impl FeedColumns {
    /// Columns of a version by name. Errors: `InvalidInput` for unknown or repeated ones and for those named like ours.
    pub(super) fn new(shown: &Arc<Snapshot>, names: Option<&[String]>) -> Result<Self> {
        let schema = &shown.manifest.schema;
        let chosen: Vec<&Field> = match names {
            None => schema.fields.iter().collect(),
            Some(names) => {
                let find = |name: &String| schema.field(name).ok_or_else(|| schema.unknown_column(name));
                names.iter().map(find).collect::<Result<_>>()?
            }
        };
        for field in &chosen {
            if DESCRIBING.contains(&field.name.as_str()) {
                return Err(Error::invalid_input(format!(
                    "Column {} of the table has the name of a column of the feed: leave it out with columns",
                    field.name
                )));
            }
        }
        check_unique(chosen.iter().map(|field| field.name.as_str()))?;
        let table = TracedColumns::new(shown, chosen);
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let types = [DataType::Utf8, DataType::UInt64, DataType::UInt64, time];
        let described = DESCRIBING
            .into_iter()
            .zip(types)
            .map(|(name, data_type)| ArrowField::new(name, data_type, false));
        let arrow: Vec<ArrowField> = table.fields().iter().map(Field::to_arrow).collect();
        let all: Vec<ArrowField> = described.chain(arrow.iter().cloned()).collect();
        let metadata = schema.metadata.clone().into_iter().collect::<std::collections::HashMap<_, _>>();
        let made = Arc::new(ArrowSchema::new_with_metadata(all, metadata));
        Ok(Self { table, schema: json::shown_schema(&made), made, values: Arc::new(ArrowSchema::new(arrow)) })
    }

    /// The ids of fields that only one of two versions has, or under another id, and of those that may be others in one
    /// than in the other. They were added or dropped, or restored, which leaves no trace in the lineage.
    pub(super) async fn only_in_one(
        &self,
        (old, old_fields): (&Arc<Snapshot>, &VersionFields),
        (new, new_fields): (&Arc<Snapshot>, &VersionFields),
    ) -> Result<Vec<FieldId>> {
        let (mut both, mut found) = (BTreeSet::new(), Vec::new());
        for (old, new) in old_fields.iter().zip(new_fields) {
            compare_ids(old.as_ref(), new.as_ref(), &mut both, &mut found);
        }
        found.extend(self.table.trail.maybe_reused(old, new, both).await?);
        Ok(found)
    }
}

fn compare_ids(
    old: Option<&Field>,
    new: Option<&Field>,
    both: &mut BTreeSet<FieldId>,
    different: &mut Vec<FieldId>,
) {
    match (old.and_then(id_in_version), new.and_then(id_in_version)) {
        (Some(old), Some(new)) if old == new => _ = both.insert(old),
        (old, new) => different.extend(old.into_iter().chain(new)),
    }
    for_members(old, new, |old, new| compare_ids(old, new, both, different));
}

/// Calls with each member of a field in two versions.
fn for_members(
    old: Option<&Field>,
    new: Option<&Field>,
    mut call: impl FnMut(Option<&Field>, Option<&Field>),
) {
    let members = |field: Option<&Field>| field.map_or(0, |field| field.children.len());
    for at in 0..members(old).max(members(new)) {
        call(old.and_then(|field| field.children.get(at)), new.and_then(|field| field.children.get(at)));
    }
}

/// Whether some of the values of a fragment's rows are stored elsewhere in another version of it.
pub(super) fn are_elsewhere(
    (old, old_fields): (&Fragment, &VersionFields),
    (new, new_fields): (&Fragment, &VersionFields),
) -> bool {
    let mut fields = old_fields.iter().zip(new_fields).peekable();
    let has_columns = fields.peek().is_some();
    has_columns
        && (old.overlays != new.overlays
            || fields.any(|(before, after)| is_elsewhere((before.as_ref(), old), (after.as_ref(), new))))
}

/// Whether a fragment has values of one of these fields.
pub(super) fn has_one_of(fragment: &Fragment, fields: &[FieldId]) -> bool {
    fields.iter().any(|&id| value_location(fragment, id).is_some())
}

fn is_elsewhere(
    (before, old): (Option<&Field>, &Fragment),
    (after, new): (Option<&Field>, &Fragment),
) -> bool {
    let location = |field: Option<&Field>, fragment| value_location(fragment, field.and_then(id_in_version)?);
    let mut found = location(before, old) != location(after, new);
    for_members(before, after, |before, after| found = found || is_elsewhere((before, old), (after, new)));
    found
}

/// Path, base path and column of a field's values.
fn value_location(fragment: &Fragment, id: FieldId) -> Option<(&str, Option<u32>, u32)> {
    let found = |file: &'_ DataFile| file.column_of(id);
    fragment.files.iter().find_map(|file| Some((file.path.as_str(), file.base_id, found(file)?)))
}
