//! The sixteen operations <-> [`Operation`] (table format 7.1).

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::data_fragment::decode_fragment_id;
use super::manifest::{decode_base_path, encode_base_path};
use super::table::transaction as wire;
use super::table::transaction::Operation as Wire;
use super::{decode_message, fields, key_filter, table};
use crate::bitmaps::{decode_bitmap, encode_bitmap};
use crate::manifest::{DataFile, Fragment, IndexMetadata};
use crate::schema::Metadata;
use crate::transaction::{
    Append, Clone, CreateIndex, DataOverlay, DataReplacement, Delete, MapUpdate, Merge, OldConfigUpdate,
    Operation, OverlayGroup, Overwrite, Project, Replacement, ReserveFragments, Restore, Rewrite,
    RewriteGroup, RewrittenIndex, Update, UpdateBases, UpdateConfig, UpdateMemWalState, UpdateMode,
};
use crate::{Error, FieldId, FragmentId, Result, Version};

/// Decodes and checks an operation.
pub(super) fn decode(operation: Wire) -> Result<Operation> {
    Ok(match operation {
        Wire::Append(op) => Operation::Append(Append { fragments: fragments(op.fragments)? }),
        Wire::Delete(op) => Operation::Delete(Delete {
            updated_fragments: fragments(op.updated_fragments)?,
            deleted_fragment_ids: fragment_ids(op.deleted_fragment_ids)?,
            predicate: op.predicate,
        }),
        Wire::Overwrite(op) => Operation::Overwrite(Overwrite {
            fragments: fragments(op.fragments)?,
            schema: fields::decode_schema(op.schema, op.schema_metadata)?,
            config_upserts: Some(op.config_upsert_values).filter(|m| !m.is_empty()),
            initial_bases: op.initial_bases.into_iter().map(decode_base_path).collect(),
        }),
        Wire::CreateIndex(op) => Operation::CreateIndex(CreateIndex {
            new_indices: indices(op.new_indices)?,
            removed_indices: indices(op.removed_indices)?,
        }),
        Wire::Rewrite(op) => Operation::Rewrite(decode_rewrite(op)?),
        Wire::Merge(op) => Operation::Merge(Merge {
            fragments: fragments(op.fragments)?,
            schema: fields::decode_schema(op.schema, op.schema_metadata)?,
            preserves_nullability: op.preserves_nullability,
        }),
        Wire::Restore(op) => Operation::Restore(Restore { version: Version(op.version) }),
        Wire::ReserveFragments(op) => {
            Operation::ReserveFragments(ReserveFragments { num_fragments: op.num_fragments })
        }
        Wire::Update(op) => Operation::Update(decode_update(op)?),
        Wire::Project(op) => Operation::Project(Project {
            schema: fields::decode_schema(op.schema, BTreeMap::new())?,
            preserves_nullability: op.preserves_nullability,
        }),
        Wire::UpdateConfig(op) => Operation::UpdateConfig(decode_update_config(op)),
        Wire::DataReplacement(op) => Operation::DataReplacement(DataReplacement {
            replacements: op.replacements.into_iter().map(decode_replacement).collect::<Result<_>>()?,
        }),
        Wire::UpdateMemWalState(op) => {
            Operation::UpdateMemWalState(UpdateMemWalState { compacted_sstables: op.compacted_sstables })
        }
        Wire::Clone(op) => Operation::Clone(Clone {
            is_shallow: op.is_shallow,
            ref_name: op.ref_name,
            ref_version: Version(op.ref_version),
            ref_path: op.ref_path,
            branch_name: op.branch_name,
        }),
        Wire::UpdateBases(op) => Operation::UpdateBases(UpdateBases {
            new_bases: op.new_bases.into_iter().map(decode_base_path).collect(),
        }),
        Wire::DataOverlay(op) => Operation::DataOverlay(DataOverlay {
            groups: op
                .groups
                .into_iter()
                .map(|g| {
                    Ok(OverlayGroup { fragment: decode_fragment_id(g.fragment_id)?, overlays: g.overlays })
                })
                .collect::<Result<_>>()?,
        }),
    })
}

/// Encodes an operation; `None` for an unknown one.
pub(super) fn encode(operation: &Operation) -> Option<Wire> {
    Some(match operation {
        Operation::Append(op) => Wire::Append(wire::Append { fragments: to_fragments(&op.fragments) }),
        Operation::Delete(op) => Wire::Delete(wire::Delete {
            updated_fragments: to_fragments(&op.updated_fragments),
            deleted_fragment_ids: to_ids(&op.deleted_fragment_ids),
            predicate: op.predicate.clone(),
        }),
        Operation::Overwrite(op) => Wire::Overwrite(wire::Overwrite {
            fragments: to_fragments(&op.fragments),
            schema: fields::encode_fields(&op.schema),
            schema_metadata: fields::encode_metadata(&op.schema.metadata),
            config_upsert_values: op.config_upserts.clone().unwrap_or_default(),
            initial_bases: op.initial_bases.iter().map(encode_base_path).collect(),
        }),
        Operation::CreateIndex(op) => Wire::CreateIndex(wire::CreateIndex {
            new_indices: op.new_indices.iter().map(|i| i.encoded.clone()).collect(),
            removed_indices: op.removed_indices.iter().map(|i| i.encoded.clone()).collect(),
        }),
        Operation::Rewrite(op) => Wire::Rewrite(encode_rewrite(op)),
        Operation::Merge(op) => Wire::Merge(wire::Merge {
            fragments: to_fragments(&op.fragments),
            schema: fields::encode_fields(&op.schema),
            schema_metadata: fields::encode_metadata(&op.schema.metadata),
            preserves_nullability: op.preserves_nullability,
        }),
        Operation::Restore(op) => Wire::Restore(wire::Restore { version: op.version.0 }),
        Operation::ReserveFragments(op) => {
            Wire::ReserveFragments(wire::ReserveFragments { num_fragments: op.num_fragments })
        }
        Operation::Update(op) => Wire::Update(encode_update(op)),
        Operation::Project(op) => Wire::Project(wire::Project {
            schema: fields::encode_fields(&op.schema),
            preserves_nullability: op.preserves_nullability,
        }),
        Operation::UpdateConfig(op) => Wire::UpdateConfig(encode_update_config(op)),
        Operation::DataReplacement(op) => Wire::DataReplacement(wire::DataReplacement {
            replacements: op.replacements.iter().map(encode_replacement).collect(),
        }),
        Operation::UpdateMemWalState(op) => Wire::UpdateMemWalState(wire::UpdateMemWalState {
            compacted_sstables: op.compacted_sstables.clone(),
        }),
        Operation::Clone(op) => Wire::Clone(wire::Clone {
            is_shallow: op.is_shallow,
            ref_name: op.ref_name.clone(),
            ref_version: op.ref_version.0,
            ref_path: op.ref_path.clone(),
            branch_name: op.branch_name.clone(),
        }),
        Operation::UpdateBases(op) => Wire::UpdateBases(wire::UpdateBases {
            new_bases: op.new_bases.iter().map(encode_base_path).collect(),
        }),
        Operation::DataOverlay(op) => Wire::DataOverlay(wire::DataOverlay {
            groups: op
                .groups
                .iter()
                .map(|g| wire::data_overlay::DataOverlayGroup {
                    fragment_id: g.fragment.0.into(),
                    overlays: g.overlays.clone(),
                })
                .collect(),
        }),
        Operation::Unknown(_) => return None,
    })
}

fn fragments(wire: Vec<table::DataFragment>) -> Result<Vec<Fragment>> {
    wire.into_iter().map(Fragment::try_from).collect()
}

fn to_fragments(fragments: &[Fragment]) -> Vec<table::DataFragment> {
    fragments.iter().map(table::DataFragment::from).collect()
}

fn fragment_ids(wire: Vec<u64>) -> Result<Vec<FragmentId>> {
    wire.into_iter().map(decode_fragment_id).collect()
}

fn to_ids(ids: &[FragmentId]) -> Vec<u64> {
    ids.iter().map(|id| id.0.into()).collect()
}

fn indices(wire: Vec<Bytes>) -> Result<Vec<IndexMetadata>> {
    wire.into_iter().map(IndexMetadata::decode).collect()
}

fn decode_rewrite(op: wire::Rewrite) -> Result<Rewrite> {
    let group =
        |old, new| Ok(RewriteGroup { old_fragments: fragments(old)?, new_fragments: fragments(new)? });
    let mut groups =
        op.groups.into_iter().map(|g| group(g.old_fragments, g.new_fragments)).collect::<Result<Vec<_>>>()?;
    if !op.old_fragments.is_empty() || !op.new_fragments.is_empty() {
        groups.push(group(op.old_fragments, op.new_fragments)?);
    }
    let index = |index: wire::rewrite::RewrittenIndex| {
        let uuid = |id: &Option<table::Uuid>| id.as_ref().and_then(|id| Uuid::from_slice(&id.uuid).ok());
        match (uuid(&index.old_id), uuid(&index.new_id)) {
            (Some(old_id), Some(new_id)) => {
                Ok(RewrittenIndex { old_id, new_id, encoded: index.encode_to_vec().into() })
            }
            _ => Err(Error::corrupt("a rewritten index without its two uuids of 16 bytes")),
        }
    };
    let rewritten_indices = op.rewritten_indices.into_iter().map(index).collect::<Result<_>>()?;
    Ok(Rewrite { groups, rewritten_indices })
}

fn encode_rewrite(op: &Rewrite) -> wire::Rewrite {
    let group = |group: &RewriteGroup| wire::rewrite::RewriteGroup {
        old_fragments: to_fragments(&group.old_fragments),
        new_fragments: to_fragments(&group.new_fragments),
    };
    // The bytes were made from the same message when it was decoded.
    let index = |index: &RewrittenIndex| {
        decode_message::<wire::rewrite::RewrittenIndex>("rewritten index", index.encoded.clone())
            .unwrap_or_default()
    };
    wire::Rewrite {
        old_fragments: Vec::new(),
        new_fragments: Vec::new(),
        groups: op.groups.iter().map(group).collect(),
        rewritten_indices: op.rewritten_indices.iter().map(index).collect(),
    }
}

fn decode_update(op: wire::Update) -> Result<Update> {
    let field_ids = |ids: Vec<u32>| {
        let field_id = |id: u32| match i32::try_from(id) {
            Ok(id) => Ok(FieldId(id)),
            Err(_) => Err(Error::corrupt(format!("field id {id} does not fit 31 bits"))),
        };
        ids.into_iter().map(field_id).collect::<Result<Vec<_>>>()
    };
    Ok(Update {
        removed_fragment_ids: fragment_ids(op.removed_fragment_ids)?,
        updated_fragments: fragments(op.updated_fragments)?,
        new_fragments: fragments(op.new_fragments)?,
        fields_modified: field_ids(op.fields_modified)?,
        compacted_sstables: op.compacted_sstables,
        fields_for_preserving_fragment_bitmap: field_ids(op.fields_for_preserving_frag_bitmap)?,
        mode: match wire::update::UpdateMode::try_from(op.update_mode) {
            Ok(wire::update::UpdateMode::RewriteRows) => UpdateMode::RewriteRows,
            Ok(wire::update::UpdateMode::RewriteColumns) => UpdateMode::RewriteColumns,
            Err(_) => return Err(Error::corrupt(format!("update mode {} is not known", op.update_mode))),
        },
        inserted_rows: op.inserted_rows.map(key_filter::decode),
        updated_offset_bitmaps: offset_bitmaps(
            op.updated_fragment_offsets,
            op.updated_fragment_offset_bitmaps,
        )?,
    })
}

/// Offsets by fragment, of which some are listed and others are bitmaps, as bitmaps.
fn offset_bitmaps(
    lists: BTreeMap<u64, wire::UInt32List>,
    mut bitmaps: BTreeMap<u64, Bytes>,
) -> Result<BTreeMap<u64, Bytes>> {
    for (id, list) in lists {
        let mut offsets = RoaringBitmap::from_iter(list.values);
        if let Some(bytes) = bitmaps.get(&id) {
            offsets |= decode_bitmap(bytes)?;
        }
        bitmaps.insert(id, encode_bitmap(&offsets).into());
    }
    Ok(bitmaps)
}

fn encode_update(op: &Update) -> wire::Update {
    let field_ids = |ids: &[FieldId]| ids.iter().filter_map(|id| u32::try_from(id.0).ok()).collect();
    wire::Update {
        removed_fragment_ids: to_ids(&op.removed_fragment_ids),
        updated_fragments: to_fragments(&op.updated_fragments),
        new_fragments: to_fragments(&op.new_fragments),
        fields_modified: field_ids(&op.fields_modified),
        compacted_sstables: op.compacted_sstables.clone(),
        fields_for_preserving_frag_bitmap: field_ids(&op.fields_for_preserving_fragment_bitmap),
        update_mode: match op.mode {
            UpdateMode::RewriteRows => wire::update::UpdateMode::RewriteRows.into(),
            UpdateMode::RewriteColumns => wire::update::UpdateMode::RewriteColumns.into(),
        },
        inserted_rows: op.inserted_rows.as_ref().map(key_filter::encode),
        updated_fragment_offsets: BTreeMap::new(),
        updated_fragment_offset_bitmaps: op.updated_offset_bitmaps.clone(),
    }
}

fn decode_update_config(op: wire::UpdateConfig) -> UpdateConfig {
    let by_field = |fields: BTreeMap<i32, wire::update_config::FieldMetadataUpdate>| {
        fields.into_iter().map(|(id, update)| (FieldId(id), update.metadata)).collect()
    };
    UpdateConfig {
        config: op.config_updates.map(decode_map_update),
        table_metadata: op.table_metadata_updates.map(decode_map_update),
        schema_metadata: op.schema_metadata_updates.map(decode_map_update),
        field_metadata: op
            .field_metadata_updates
            .into_iter()
            .map(|(id, update)| (FieldId(id), decode_map_update(update)))
            .collect(),
        old: OldConfigUpdate {
            upserts: op.upsert_values,
            deletes: op.delete_keys,
            schema_metadata: op.schema_metadata,
            field_metadata: by_field(op.field_metadata),
        },
    }
}

fn encode_update_config(op: &UpdateConfig) -> wire::UpdateConfig {
    let by_field = |fields: &BTreeMap<FieldId, Metadata>| {
        let update = |(id, metadata): (&FieldId, &Metadata)| {
            (id.0, wire::update_config::FieldMetadataUpdate { metadata: metadata.clone() })
        };
        fields.iter().map(update).collect()
    };
    wire::UpdateConfig {
        upsert_values: op.old.upserts.clone(),
        delete_keys: op.old.deletes.clone(),
        schema_metadata: op.old.schema_metadata.clone(),
        field_metadata: by_field(&op.old.field_metadata),
        config_updates: op.config.as_ref().map(encode_map_update),
        table_metadata_updates: op.table_metadata.as_ref().map(encode_map_update),
        schema_metadata_updates: op.schema_metadata.as_ref().map(encode_map_update),
        field_metadata_updates: op
            .field_metadata
            .iter()
            .map(|(id, update)| (id.0, encode_map_update(update)))
            .collect(),
    }
}

fn decode_map_update(update: table::UpdateMap) -> MapUpdate {
    MapUpdate {
        entries: update.update_entries.into_iter().map(|entry| (entry.key, entry.value)).collect(),
        replace: update.replace,
    }
}

fn encode_map_update(update: &MapUpdate) -> table::UpdateMap {
    let entry = |(key, value): (&String, &Option<String>)| table::UpdateMapEntry {
        key: key.clone(),
        value: value.clone(),
    };
    table::UpdateMap { update_entries: update.entries.iter().map(entry).collect(), replace: update.replace }
}

fn decode_replacement(group: wire::data_replacement::DataReplacementGroup) -> Result<Replacement> {
    let Some(file) = group.new_file else {
        return Err(Error::corrupt(format!("fragment {}: a replacement without a file", group.fragment_id)));
    };
    Ok(Replacement { fragment: decode_fragment_id(group.fragment_id)?, file: DataFile::try_from(file)? })
}

fn encode_replacement(replacement: &Replacement) -> wire::data_replacement::DataReplacementGroup {
    wire::data_replacement::DataReplacementGroup {
        fragment_id: replacement.fragment.0.into(),
        new_file: Some(table::DataFile::from(&replacement.file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_offsets_become_bitmaps() {
        let list = wire::UInt32List { values: vec![2, 1] };
        let bitmap = Bytes::from(encode_bitmap(&[9].into()));
        let update = decode_update(wire::Update {
            updated_fragment_offsets: BTreeMap::from([(4, list.clone()), (6, list)]),
            updated_fragment_offset_bitmaps: BTreeMap::from([(4, bitmap.clone()), (5, bitmap)]),
            ..wire::Update::default()
        });
        let offsets = update.unwrap().updated_offset_bitmaps;
        let found: Vec<_> = offsets.iter().map(|(id, bytes)| (*id, decode_bitmap(bytes).unwrap())).collect();
        assert_eq!(found, [(4, [1, 2, 9].into()), (5, [9].into()), (6, [1, 2].into())]);
    }
}
