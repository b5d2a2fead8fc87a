//! Operations as parts, both ways: dictionaries out, the attributes of `pennon.LanceOperation`'s classes in.

use std::collections::BTreeMap;

use pennon_core::manifest::BasePath;
use pennon_core::transaction::{
    Append, Clone, CreateIndex, DataOverlay, DataReplacement, Delete, KeyFilter, MapUpdate, Merge, Operation,
    OverlayGroup, Overwrite, Project, Replacement, ReserveFragments, Restore, Rewrite, RewriteGroup, Update,
    UpdateBases, UpdateConfig, UpdateMemWalState, UpdateMode,
};
use pennon_core::{Error, FieldId, FragmentId, Result, Version};
use pyo3::prelude::*;

use crate::error::invalid_type;
use crate::fragment::{DataFileParts, FragmentParts};
use crate::index::{IndexParts, RewrittenIndexParts};
use crate::schema::SchemaParts;

/// The parts of an operation.
#[derive(IntoPyObject)]
pub(crate) enum OperationParts {
    Append(AppendParts),
    Delete(DeleteParts),
    Overwrite(OverwriteParts),
    CreateIndex(CreateIndexParts),
    Rewrite(RewriteParts),
    Merge(MergeParts),
    Restore(RestoreParts),
    ReserveFragments(ReserveFragmentsParts),
    Update(UpdateParts),
    Project(ProjectParts),
    UpdateConfig(UpdateConfigParts),
    DataReplacement(DataReplacementParts),
    UpdateMemWalState(UpdateMemWalStateParts),
    Clone(CloneParts),
    UpdateBases(UpdateBasesParts),
    DataOverlay(DataOverlayParts),
    Unknown(UnknownParts),
}

impl<'py> FromPyObject<'_, 'py> for OperationParts {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let name = value.get_type().name()?;
        Ok(match name.to_cow()?.as_ref() {
            "Append" => Self::Append(value.extract()?),
            "Delete" => Self::Delete(value.extract()?),
            "Overwrite" => Self::Overwrite(value.extract()?),
            "CreateIndex" => Self::CreateIndex(value.extract()?),
            "Rewrite" => Self::Rewrite(value.extract()?),
            "Merge" => Self::Merge(value.extract()?),
            "Restore" => Self::Restore(value.extract()?),
            "ReserveFragments" => Self::ReserveFragments(value.extract()?),
            "Update" => Self::Update(value.extract()?),
            "Project" => Self::Project(value.extract()?),
            "UpdateConfig" => Self::UpdateConfig(value.extract()?),
            "DataReplacement" => Self::DataReplacement(value.extract()?),
            "UpdateMemWalState" => Self::UpdateMemWalState(value.extract()?),
            "Clone" => Self::Clone(value.extract()?),
            "UpdateBases" => Self::UpdateBases(value.extract()?),
            "DataOverlay" => Self::DataOverlay(value.extract()?),
            "Unknown" => Self::Unknown(value.extract()?),
            other => return Err(invalid_type(value.py(), format!("{other} is not a `LanceOperation`"))),
        })
    }
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct AppendParts {
    fragments: Vec<FragmentParts>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct DeleteParts {
    updated_fragments: Vec<FragmentParts>,
    deleted_fragment_ids: Vec<u32>,
    predicate: String,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct OverwriteParts {
    new_schema: SchemaParts,
    fragments: Vec<FragmentParts>,
    initial_bases: Option<Vec<BasePathParts>>,
    config_upserts: Option<BTreeMap<String, String>>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct CreateIndexParts {
    new_indices: Vec<IndexParts>,
    removed_indices: Vec<IndexParts>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct RewriteParts {
    groups: Vec<RewriteGroupParts>,
    rewritten_indices: Vec<RewrittenIndexParts>,
}

#[derive(FromPyObject, IntoPyObject)]
struct RewriteGroupParts {
    old_fragments: Vec<FragmentParts>,
    new_fragments: Vec<FragmentParts>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct MergeParts {
    fragments: Vec<FragmentParts>,
    schema: SchemaParts,
    preserves_nullability: bool,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct RestoreParts {
    version: u64,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct ReserveFragmentsParts {
    num_fragments: u32,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct UpdateParts {
    removed_fragment_ids: Vec<u32>,
    updated_fragments: Vec<FragmentParts>,
    new_fragments: Vec<FragmentParts>,
    fields_modified: Vec<i32>,
    fields_for_preserving_frag_bitmap: Vec<i32>,
    update_mode: String,
    updated_fragment_offsets: Option<BTreeMap<u64, Vec<u8>>>,
    inserted_rows: Option<Vec<u8>>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct ProjectParts {
    schema: SchemaParts,
    preserves_nullability: bool,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct UpdateConfigParts {
    config_updates: Option<UpdateMapParts>,
    table_metadata_updates: Option<UpdateMapParts>,
    schema_metadata_updates: Option<UpdateMapParts>,
    field_metadata_updates: Option<BTreeMap<i32, UpdateMapParts>>,
}

#[derive(FromPyObject, IntoPyObject)]
struct UpdateMapParts {
    updates: BTreeMap<String, Option<String>>,
    replace: bool,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct DataReplacementParts {
    replacements: Vec<ReplacementParts>,
}

#[derive(FromPyObject, IntoPyObject)]
struct ReplacementParts {
    fragment_id: u32,
    new_file: DataFileParts,
}

/// Encoded.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct UpdateMemWalStateParts {
    compacted_sstables: Vec<Vec<u8>>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct CloneParts {
    is_shallow: bool,
    ref_name: Option<String>,
    ref_version: u64,
    ref_path: String,
    branch_name: Option<String>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct UpdateBasesParts {
    new_bases: Vec<BasePathParts>,
}

/// A root; without an id it is given one.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct BasePathParts {
    path: String,
    name: Option<String>,
    is_dataset_root: bool,
    id: Option<u32>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct DataOverlayParts {
    groups: Vec<OverlayGroupParts>,
}

/// The overlays are encoded.
#[derive(FromPyObject, IntoPyObject)]
struct OverlayGroupParts {
    fragment_id: u32,
    overlays: Vec<Vec<u8>>,
}

#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct UnknownParts {
    number: u32,
}

impl TryFrom<Operation> for OperationParts {
    type Error = Error;

    fn try_from(operation: Operation) -> Result<Self> {
        Ok(match operation {
            Operation::Append(op) => Self::Append(AppendParts { fragments: from_all(&op.fragments) }),
            Operation::Delete(op) => Self::Delete(DeleteParts {
                updated_fragments: from_all(&op.updated_fragments),
                deleted_fragment_ids: op.deleted_fragment_ids.iter().map(|id| id.0).collect(),
                predicate: op.predicate,
            }),
            Operation::Overwrite(op) => Self::Overwrite(OverwriteParts {
                new_schema: op.schema.into(),
                fragments: from_all(&op.fragments),
                initial_bases: (!op.initial_bases.is_empty()).then(|| from_all(&op.initial_bases)),
                config_upserts: op.config_upserts,
            }),
            Operation::CreateIndex(op) => Self::CreateIndex(CreateIndexParts {
                new_indices: try_all(&op.new_indices)?,
                removed_indices: try_all(&op.removed_indices)?,
            }),
            Operation::Rewrite(op) => Self::Rewrite(RewriteParts {
                groups: from_all(&op.groups),
                rewritten_indices: try_all(&op.rewritten_indices)?,
            }),
            Operation::Merge(op) => Self::Merge(MergeParts {
                fragments: from_all(&op.fragments),
                schema: op.schema.into(),
                preserves_nullability: op.preserves_nullability,
            }),
            Operation::Restore(op) => Self::Restore(RestoreParts { version: op.version.0 }),
            Operation::ReserveFragments(op) => {
                Self::ReserveFragments(ReserveFragmentsParts { num_fragments: op.num_fragments })
            }
            Operation::Update(op) => Self::Update(op.into()),
            Operation::Project(op) => Self::Project(ProjectParts {
                schema: op.schema.into(),
                preserves_nullability: op.preserves_nullability,
            }),
            Operation::UpdateConfig(op) => Self::UpdateConfig(op.into()),
            Operation::DataReplacement(op) => {
                Self::DataReplacement(DataReplacementParts { replacements: from_all(&op.replacements) })
            }
            Operation::UpdateMemWalState(op) => Self::UpdateMemWalState(UpdateMemWalStateParts {
                compacted_sstables: op.compacted_sstables.iter().map(|message| message.to_vec()).collect(),
            }),
            Operation::Clone(op) => Self::Clone(CloneParts {
                is_shallow: op.is_shallow,
                ref_name: op.ref_name,
                ref_version: op.ref_version.0,
                ref_path: op.ref_path,
                branch_name: op.branch_name,
            }),
            Operation::UpdateBases(op) => {
                Self::UpdateBases(UpdateBasesParts { new_bases: from_all(&op.new_bases) })
            }
            Operation::DataOverlay(op) => {
                Self::DataOverlay(DataOverlayParts { groups: from_all(&op.groups) })
            }
            Operation::Unknown(number) => Self::Unknown(UnknownParts { number }),
        })
    }
}

impl TryFrom<OperationParts> for Operation {
    type Error = Error;

    fn try_from(parts: OperationParts) -> Result<Self> {
        Ok(match parts {
            OperationParts::Append(op) => Self::Append(Append { fragments: into_all(op.fragments)? }),
            OperationParts::Delete(op) => Self::Delete(Delete {
                updated_fragments: into_all(op.updated_fragments)?,
                deleted_fragment_ids: op.deleted_fragment_ids.into_iter().map(FragmentId).collect(),
                predicate: op.predicate,
            }),
            OperationParts::Overwrite(op) => Self::Overwrite(Overwrite {
                fragments: into_all(op.fragments)?,
                schema: op.new_schema.try_into()?,
                config_upserts: op.config_upserts,
                initial_bases: op.initial_bases.unwrap_or_default().into_iter().map(Into::into).collect(),
            }),
            OperationParts::CreateIndex(op) => Self::CreateIndex(CreateIndex {
                new_indices: into_all(op.new_indices)?,
                removed_indices: into_all(op.removed_indices)?,
            }),
            OperationParts::Rewrite(op) => Self::Rewrite(Rewrite {
                groups: into_all(op.groups)?,
                rewritten_indices: into_all(op.rewritten_indices)?,
            }),
            OperationParts::Merge(op) => Self::Merge(Merge {
                fragments: into_all(op.fragments)?,
                schema: op.schema.try_into()?,
                preserves_nullability: op.preserves_nullability,
            }),
            OperationParts::Restore(op) => Self::Restore(Restore { version: Version(op.version) }),
            OperationParts::ReserveFragments(op) => {
                Self::ReserveFragments(ReserveFragments { num_fragments: op.num_fragments })
            }
            OperationParts::Update(op) => Self::Update(op.try_into()?),
            OperationParts::Project(op) => Self::Project(Project {
                schema: op.schema.try_into()?,
                preserves_nullability: op.preserves_nullability,
            }),
            OperationParts::UpdateConfig(op) => Self::UpdateConfig(op.into()),
            OperationParts::DataReplacement(op) => {
                Self::DataReplacement(DataReplacement { replacements: into_all(op.replacements)? })
            }
            OperationParts::UpdateMemWalState(op) => Self::UpdateMemWalState(UpdateMemWalState {
                compacted_sstables: op.compacted_sstables.into_iter().map(Into::into).collect(),
            }),
            OperationParts::Clone(op) => Self::Clone(Clone {
                is_shallow: op.is_shallow,
                ref_name: op.ref_name,
                ref_version: Version(op.ref_version),
                ref_path: op.ref_path,
                branch_name: op.branch_name,
            }),
            OperationParts::UpdateBases(op) => Self::UpdateBases(UpdateBases {
                new_bases: op.new_bases.into_iter().map(Into::into).collect(),
            }),
            OperationParts::DataOverlay(op) => {
                Self::DataOverlay(DataOverlay { groups: op.groups.into_iter().map(Into::into).collect() })
            }
            OperationParts::Unknown(op) => Self::Unknown(op.number),
        })
    }
}

impl From<Update> for UpdateParts {
    fn from(op: Update) -> Self {
        let offsets = op.updated_offset_bitmaps;
        let mode = match op.mode {
            UpdateMode::RewriteRows => "rewrite_rows",
            UpdateMode::RewriteColumns => "rewrite_columns",
        };
        Self {
            removed_fragment_ids: op.removed_fragment_ids.iter().map(|id| id.0).collect(),
            updated_fragments: from_all(&op.updated_fragments),
            new_fragments: from_all(&op.new_fragments),
            fields_modified: op.fields_modified.iter().map(|id| id.0).collect(),
            fields_for_preserving_frag_bitmap: op
                .fields_for_preserving_fragment_bitmap
                .iter()
                .map(|id| id.0)
                .collect(),
            update_mode: mode.to_owned(),
            updated_fragment_offsets: (!offsets.is_empty())
                .then(|| offsets.into_iter().map(|(id, bitmap)| (id, bitmap.to_vec())).collect()),
            inserted_rows: op.inserted_rows.map(|filter| filter.encode()),
        }
    }
}

impl TryFrom<UpdateParts> for Update {
    type Error = Error;

    fn try_from(parts: UpdateParts) -> Result<Self> {
        let mode = match parts.update_mode.as_str() {
            "" | "rewrite_rows" => UpdateMode::RewriteRows,
            "rewrite_columns" => UpdateMode::RewriteColumns,
            other => {
                return Err(Error::invalid_input(format!(
                    "update_mode must be 'rewrite_rows' or 'rewrite_columns', got '{other}'"
                )));
            }
        };
        let offsets = parts.updated_fragment_offsets.unwrap_or_default();
        Ok(Self {
            removed_fragment_ids: parts.removed_fragment_ids.into_iter().map(FragmentId).collect(),
            updated_fragments: into_all(parts.updated_fragments)?,
            new_fragments: into_all(parts.new_fragments)?,
            fields_modified: parts.fields_modified.into_iter().map(FieldId).collect(),
            compacted_sstables: Vec::new(),
            fields_for_preserving_fragment_bitmap: parts
                .fields_for_preserving_frag_bitmap
                .into_iter()
                .map(FieldId)
                .collect(),
            mode,
            inserted_rows: parts.inserted_rows.map(|filter| KeyFilter::decode(filter.into())).transpose()?,
            updated_offset_bitmaps: offsets.into_iter().map(|(id, bitmap)| (id, bitmap.into())).collect(),
        })
    }
}

/// The form of older writers is shown in the newer one.
impl From<UpdateConfig> for UpdateConfigParts {
    fn from(op: UpdateConfig) -> Self {
        let set = |(key, value)| (key, Some(value));
        let old = op.old;
        let mut config: BTreeMap<_, _> = old.upserts.into_iter().map(set).collect();
        config.extend(old.deletes.into_iter().map(|key| (key, None)));
        let config = (!config.is_empty()).then_some(UpdateMapParts { updates: config, replace: false });
        let replacement = |map: BTreeMap<String, String>| UpdateMapParts {
            updates: map.into_iter().map(set).collect(),
            replace: true,
        };
        let schema = (!old.schema_metadata.is_empty()).then(|| replacement(old.schema_metadata));
        let mut fields: BTreeMap<_, _> =
            old.field_metadata.into_iter().map(|(id, map)| (id.0, replacement(map))).collect();
        fields.extend(op.field_metadata.into_iter().map(|(id, update)| (id.0, update.into())));
        Self {
            config_updates: op.config.map(Into::into).or(config),
            table_metadata_updates: op.table_metadata.map(Into::into),
            schema_metadata_updates: op.schema_metadata.map(Into::into).or(schema),
            field_metadata_updates: (!fields.is_empty()).then_some(fields),
        }
    }
}

impl From<UpdateConfigParts> for UpdateConfig {
    fn from(parts: UpdateConfigParts) -> Self {
        let fields = parts.field_metadata_updates.unwrap_or_default();
        Self {
            config: parts.config_updates.map(Into::into),
            table_metadata: parts.table_metadata_updates.map(Into::into),
            schema_metadata: parts.schema_metadata_updates.map(Into::into),
            field_metadata: fields.into_iter().map(|(id, update)| (FieldId(id), update.into())).collect(),
            ..Self::default()
        }
    }
}

impl From<MapUpdate> for UpdateMapParts {
    fn from(update: MapUpdate) -> Self {
        Self { updates: update.entries, replace: update.replace }
    }
}

impl From<UpdateMapParts> for MapUpdate {
    fn from(parts: UpdateMapParts) -> Self {
        Self { entries: parts.updates, replace: parts.replace }
    }
}

impl From<&RewriteGroup> for RewriteGroupParts {
    fn from(group: &RewriteGroup) -> Self {
        Self { old_fragments: from_all(&group.old_fragments), new_fragments: from_all(&group.new_fragments) }
    }
}

impl TryFrom<RewriteGroupParts> for RewriteGroup {
    type Error = Error;

    fn try_from(parts: RewriteGroupParts) -> Result<Self> {
        Ok(Self {
            old_fragments: into_all(parts.old_fragments)?,
            new_fragments: into_all(parts.new_fragments)?,
        })
    }
}

impl From<&Replacement> for ReplacementParts {
    fn from(replacement: &Replacement) -> Self {
        Self { fragment_id: replacement.fragment.0, new_file: DataFileParts::from(&replacement.file) }
    }
}

impl TryFrom<ReplacementParts> for Replacement {
    type Error = Error;

    fn try_from(parts: ReplacementParts) -> Result<Self> {
        Ok(Self { fragment: FragmentId(parts.fragment_id), file: parts.new_file.try_into()? })
    }
}

impl From<&BasePath> for BasePathParts {
    fn from(base: &BasePath) -> Self {
        Self {
            path: base.path.clone(),
            name: base.name.clone(),
            is_dataset_root: base.is_dataset_root,
            id: Some(base.id),
        }
    }
}

impl From<BasePathParts> for BasePath {
    fn from(parts: BasePathParts) -> Self {
        Self {
            id: parts.id.unwrap_or(0),
            name: parts.name,
            is_dataset_root: parts.is_dataset_root,
            path: parts.path,
        }
    }
}

impl From<&OverlayGroup> for OverlayGroupParts {
    fn from(group: &OverlayGroup) -> Self {
        Self {
            fragment_id: group.fragment.0,
            overlays: group.overlays.iter().map(|overlay| overlay.to_vec()).collect(),
        }
    }
}

impl From<OverlayGroupParts> for OverlayGroup {
    fn from(parts: OverlayGroupParts) -> Self {
        Self {
            fragment: FragmentId(parts.fragment_id),
            overlays: parts.overlays.into_iter().map(Into::into).collect(),
        }
    }
}

fn from_all<'a, T, P: From<&'a T>>(values: &'a [T]) -> Vec<P> {
    values.iter().map(P::from).collect()
}

fn try_all<'a, T, P: TryFrom<&'a T, Error = Error>>(values: &'a [T]) -> Result<Vec<P>> {
    values.iter().map(P::try_from).collect()
}

fn into_all<P, T: TryFrom<P, Error = Error>>(parts: Vec<P>) -> Result<Vec<T>> {
    parts.into_iter().map(T::try_from).collect()
}
