//! UpdateConfig: table config and the metadata of table, schema and fields.

use std::sync::Arc;

use crate::manifest::Manifest;
use crate::schema::{Field, Metadata, Schema};
use crate::transaction::{MapUpdate, OldConfigUpdate, UpdateConfig};
use crate::{Error, FieldId, Result};

pub(super) fn apply(update: &UpdateConfig, next: &mut Manifest) -> Result<()> {
    let new = UpdateConfig { old: OldConfigUpdate::default(), ..update.clone() };
    if update.old != OldConfigUpdate::default() {
        if new != UpdateConfig::default() {
            return Err(Error::invalid_input("UpdateConfig mixes the older form with the newer one"));
        }
        return apply_old(&update.old, next);
    }
    if let Some(change) = &update.config {
        change_map(&mut next.config, change);
    }
    if let Some(change) = &update.table_metadata {
        change_map(&mut next.table_metadata, change);
    }
    if update.touches_schema() {
        let mut schema = next.schema.as_ref().clone();
        if let Some(change) = &update.schema_metadata {
            change_map(&mut schema.metadata, change);
        }
        for (id, change) in &update.field_metadata {
            change_map(&mut field(&mut schema, *id)?.metadata, change);
        }
        schema.check_primary_key()?;
        next.schema = Arc::new(schema);
    }
    Ok(())
}

fn apply_old(old: &OldConfigUpdate, next: &mut Manifest) -> Result<()> {
    next.config.retain(|key, _| !old.deletes.contains(key));
    next.config.extend(old.upserts.clone());
    let mut schema = next.schema.as_ref().clone();
    if !old.schema_metadata.is_empty() {
        schema.metadata.clone_from(&old.schema_metadata);
    }
    for (id, metadata) in &old.field_metadata {
        field(&mut schema, *id)?.metadata.clone_from(metadata);
    }
    schema.check_primary_key()?;
    next.schema = Arc::new(schema);
    Ok(())
}

fn change_map(map: &mut Metadata, change: &MapUpdate) {
    if change.replace {
        map.clear();
    }
    for (key, value) in &change.entries {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

fn field(schema: &mut Schema, id: FieldId) -> Result<&mut Field> {
    fn find(fields: &mut [Field], id: FieldId) -> Option<&mut Field> {
        for field in fields {
            if field.id == id {
                return Some(field);
            }
            if let Some(found) = find(&mut field.children, id) {
                return Some(found);
            }
        }
        None
    }
    find(&mut schema.fields, id)
        .ok_or_else(|| Error::invalid_input(format!("Field with id {id} does not exist in the schema")))
}
