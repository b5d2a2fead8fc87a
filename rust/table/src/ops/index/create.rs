//! A new index over the values of a column.

use std::sync::Arc;

use arrow_schema::DataType;
use pennon_core::manifest::IndexMetadata;
use pennon_core::schema::Field;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, FragmentId, Result};
use pennon_index::{IndexKind, is_hashed, is_ordered};
use tracing::instrument;
use uuid::Uuid;

use super::build::{Build, IndexParameters, directory_of};
use super::segment;
use crate::dataset::Dataset;
use crate::indices::kind_of;
use crate::json::has_json;
use crate::runtime;
use crate::write::staged::StagedFile;

/// An index to make.
#[derive(Debug, Clone)]
pub struct NewIndex {
    /// The column, or the path of a nested field; without regard to case where that is unambiguous.
    pub column: String,
    /// What kind of index.
    pub kind: IndexKind,
    /// Its name; derived from the column if not given.
    pub name: Option<String>,
    /// Whether an index of that name over the same column is replaced.
    pub replace: bool,
    /// Whether the rows there are go into it; else it covers nothing until it is optimised.
    pub train: bool,
    /// Its uuid; a random one if not given.
    pub uuid: Option<Uuid>,
    /// Settings of its kind.
    pub parameters: IndexParameters,
}

impl Dataset {
    /// Makes an index over the values of a column and moves to the version that has it.
    ///
    /// Errors: `NotFound` for an unknown column; `SchemaMismatch` for values that the kind cannot hold; `Unsupported` for a
    /// kind that cannot be made; `AlreadyExists` for a name or a uuid that is taken; those of reading and writing. The table
    /// is as before then, and the files of the attempt are removed.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn create_index(&mut self, new: NewIndex) -> Result<()> {
        let (field, name, replaced) = self.check_new(&new).await?;
        let fragments: Vec<FragmentId> =
            if new.train { self.manifest().fragments.ids().collect() } else { Vec::new() };
        let uuid = self.segment_uuid(new.uuid).await?;
        let (entry, files) = self.build_segment(&new, &field, &name, uuid, fragments).await?;
        self.commit_indices(vec![entry], replaced, files).await
    }

    /// Makes a segment of an index over some fragments without committing it: its entry.
    ///
    /// Errors: those of [`Self::create_index`]; `InvalidInput` for fragments that the version does not have.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn create_index_segment(
        &self,
        new: NewIndex,
        fragments: Vec<FragmentId>,
    ) -> Result<IndexMetadata> {
        let (field, name, _) = self.check_new(&new).await?;
        if let Some(missing) = fragments.iter().find(|id| !self.manifest().fragments.contains_id(**id)) {
            return Err(self.manifest().no_fragment(*missing));
        }
        let uuid = self.segment_uuid(new.uuid).await?;
        Ok(self.build_segment(&new, &field, &name, uuid, fragments).await?.0)
    }

    /// The field, the name, and the entries that are replaced.
    async fn check_new(&self, new: &NewIndex) -> Result<(Field, String, Vec<IndexMetadata>)> {
        let field = self.indexed_field(&new.column)?;
        check_type(new.kind, &field, &new.column)?;
        let (name, replaced) = self.check_name(&field, new.kind, new.name.as_deref(), new.replace).await?;
        Ok((field, name, replaced))
    }

    /// The name of a new index over a field, and the entries that it replaces. Errors: `AlreadyExists`; `InvalidInput` for
    /// a name that the format uses.
    pub(super) async fn check_name(
        &self,
        field: &Field,
        kind: IndexKind,
        name: Option<&str>,
        replace: bool,
    ) -> Result<(String, Vec<IndexMetadata>)> {
        let path = self.schema().path_of(field.id).unwrap_or_else(|| field.name.clone());
        let entries = self.snapshot().indices().await?;
        let named = |name: &str| -> Vec<IndexMetadata> {
            entries.iter().filter(|entry| entry.name == name && !entry.is_system()).cloned().collect()
        };
        let is_other = |entry: &IndexMetadata| -> Result<bool> {
            Ok(entry.fields != [field.id] || kind_of(&IndexParts::of(entry)?).0 != kind)
        };
        let name = match name {
            Some(name) if IndexMetadata::is_system_name(name) => {
                return Err(Error::invalid_input(format!(
                    "an index cannot be named '{name}': the format uses that name itself"
                )));
            }
            Some(name) => name.to_owned(),
            None => {
                // A name of its own next to an index of another kind.
                let mut name = format!("{path}_idx");
                let mut number = 2;
                while named(&name).iter().map(&is_other).collect::<Result<Vec<_>>>()?.contains(&true) {
                    name = format!("{path}_idx_{number}");
                    number += 1;
                }
                name
            }
        };
        let before = named(&name);
        if before.iter().any(|entry| entry.fields != [field.id]) {
            return Err(Error::already_exists(format!(
                "Index name '{name}' already exists with different fields, please specify a different name"
            )));
        }
        if !before.is_empty() && !replace {
            return Err(Error::already_exists(format!(
                "Index name '{name}' already exists, please specify a different name or use replace=True"
            )));
        }
        Ok((name, before))
    }

    /// The uuid of a new segment, a random one if none is given. Errors: `AlreadyExists` for one that another has.
    pub(super) async fn segment_uuid(&self, given: Option<Uuid>) -> Result<Uuid> {
        let Some(uuid) = given else { return Ok(runtime::uuid()) };
        let (snapshot, folder) = (self.snapshot(), directory_of(uuid));
        if let Some(entry) = snapshot.indices().await?.iter().find(|entry| entry.uuid == uuid) {
            let name = &entry.name;
            return Err(Error::already_exists(format!(
                "The index '{name}' has the uuid {uuid}: give another one"
            )));
        }
        if !snapshot.store.list(&folder).await?.is_empty() {
            return Err(Error::already_exists(format!(
                "The uuid {uuid} is taken, there are files in {}: give another one",
                snapshot.store.full_path(&folder)
            )));
        }
        Ok(uuid)
    }

    /// The field of a column; without regard to case where that is unambiguous. Errors: `NotFound`.
    pub(super) fn indexed_field(&self, column: &str) -> Result<Field> {
        let schema = self.schema();
        if let Some(field) = schema.field_by_path(column) {
            return Ok(field.clone());
        }
        let is_same = |path: &str| path.to_lowercase() == column.to_lowercase();
        let mut similar =
            schema.depth_first().filter(|field| schema.path_of(field.id).is_some_and(|path| is_same(&path)));
        match (similar.next(), similar.next()) {
            (Some(field), None) => Ok(field.clone()),
            _ => Err(Error::not_found(
                schema.unknown_column(column).at(format_args!("Column '{column}' not found in schema")),
            )),
        }
    }

    async fn build_segment(
        &self,
        new: &NewIndex,
        field: &Field,
        name: &str,
        uuid: Uuid,
        fragments: Vec<FragmentId>,
    ) -> Result<(IndexMetadata, Vec<StagedFile>)> {
        let build = Build {
            snapshot: Arc::clone(self.snapshot()),
            field: field.clone(),
            kind: new.kind,
            uuid,
            fragments,
            parameters: new.parameters,
            durability: self.durability(),
        };
        segment::build(name, build, Vec::new()).await
    }
}

/// Whether an index of this kind can be made.
pub(super) fn can_make(kind: IndexKind) -> bool {
    matches!(kind, IndexKind::BTree | IndexKind::Bitmap | IndexKind::LabelList) || kind.has_zones()
}

/// Whether an index of a kind that can be made supports the values of a field. A zone map records which vectors are null.
/// Stored documents do not have the order of their texts.
pub(super) fn fits(kind: IndexKind, field: &Field) -> bool {
    match (kind, &field.data_type()) {
        _ if has_json(&field.to_arrow()) => false,
        (IndexKind::BTree | IndexKind::Bitmap, data_type) => is_ordered(data_type),
        (IndexKind::ZoneMap, DataType::FixedSizeList(item, _)) => item.data_type().is_numeric(),
        (IndexKind::ZoneMap, data_type) => is_ordered(data_type),
        (IndexKind::BloomFilter, data_type) => is_hashed(data_type),
        (IndexKind::LabelList, DataType::List(item) | DataType::LargeList(item)) => {
            is_ordered(item.data_type())
        }
        _ => false,
    }
}

fn check_type(kind: IndexKind, field: &Field, column: &str) -> Result<()> {
    if !can_make(kind) {
        return Err(Error::unsupported(format!("an index of the kind {} cannot be made", kind.name())));
    }
    if fits(kind, field) {
        return Ok(());
    }
    let values = match kind {
        IndexKind::LabelList => {
            "lists of values with an order (numbers, booleans, texts, binaries, dates, times)"
        }
        IndexKind::BloomFilter => "whole numbers, floats of 4 or 8 bytes, texts, binaries, dates or times",
        _ => "values with an order (numbers, booleans, texts, binaries, dates, times)",
    };
    let found = if has_json(&field.to_arrow()) {
        "documents".to_owned()
    } else {
        format!("the type {}", field.data_type())
    };
    Err(Error::schema_mismatch(format!(
        "{} index column '{column}' must have {values}, found {found}",
        kind.name()
    )))
}
