//! Index entries in full, as bindings show and make them (table format 2.7, and field 4 of a Rewrite in 7.1).
//!
//! Everywhere else an entry is its bytes and the few values that commits read.

use std::collections::BTreeSet;

use bytes::Bytes;
use prost::Message;
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::table::transaction::rewrite as wire;
use super::{decode_message, table, well_known};
use crate::bitmaps::encode_bitmap;
use crate::manifest::IndexMetadata;
use crate::transaction::RewrittenIndex;
use crate::{Error, FieldId, Result, Version};

/// A message of some type: its type URL and its bytes.
pub type Details = (String, Bytes);

/// What an index entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParts {
    /// Names its directory.
    pub uuid: Uuid,
    /// Name.
    pub name: String,
    /// Indexed fields.
    pub fields: Vec<FieldId>,
    /// Version that was read when it was first built.
    pub dataset_version: Version,
    /// Fragments it covers; `None` if not recorded.
    pub fragments: Option<BTreeSet<u32>>,
    /// Version of its files.
    pub index_version: Option<i32>,
    /// When it was made, in milliseconds since 1970.
    pub created_at: Option<u64>,
    /// Root its files lie under; `None` for the table's own.
    pub base_id: Option<u32>,
    /// Its files with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// What only readers of its kind understand.
    pub details: Option<Details>,
    /// Fields whose values it holds.
    pub covering_fields: Vec<i32>,
}

impl IndexParts {
    /// What an entry says. Errors: `Corrupt` if its bytes are no entry.
    pub fn of(entry: &IndexMetadata) -> Result<Self> {
        let wire: table::IndexMetadata = decode_message("index entry", entry.encoded.clone())?;
        Ok(Self {
            uuid: entry.uuid,
            name: wire.name,
            fields: entry.fields.clone(),
            dataset_version: entry.dataset_version,
            fragments: entry.fragments.as_ref().map(|fragments| fragments.iter().collect()),
            index_version: wire.index_version,
            created_at: wire.created_at,
            base_id: wire.base_id,
            files: wire.files.into_iter().map(|file| (file.path, file.size_bytes)).collect(),
            details: wire.index_details.map(|any| (any.type_url, any.value)),
            covering_fields: wire.covering_fields,
        })
    }

    /// The entry that says this.
    pub fn entry(self) -> Result<IndexMetadata> {
        let bitmap = self.fragments.map(|fragments| encode_bitmap(&RoaringBitmap::from_iter(fragments)));
        let wire = table::IndexMetadata {
            uuid: Some(to_uuid(self.uuid)),
            fields: self.fields.iter().map(|id| id.0).collect(),
            name: self.name,
            dataset_version: self.dataset_version.0,
            fragment_bitmap: bitmap.unwrap_or_default().into(),
            index_details: self.details.map(to_any),
            index_version: self.index_version,
            created_at: self.created_at,
            base_id: self.base_id,
            files: to_files(self.files),
            covering_fields: self.covering_fields,
            clustering_id: None,
        };
        IndexMetadata::decode(wire.encode_to_vec().into())
    }
}

/// What a [`RewrittenIndex`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenParts {
    /// Its uuid before.
    pub old_id: Uuid,
    /// Its uuid afterwards.
    pub new_id: Uuid,
    /// What only readers of its kind understand.
    pub details: Option<Details>,
    /// Version of its files.
    pub index_version: u32,
    /// Its files with their sizes in bytes.
    pub files: Vec<(String, u64)>,
}

impl RewrittenParts {
    /// What a rewritten index says. Errors: `Corrupt` if its bytes are none.
    pub fn of(index: &RewrittenIndex) -> Result<Self> {
        let wire: wire::RewrittenIndex = decode_message("rewritten index", index.encoded.clone())?;
        Ok(Self {
            old_id: index.old_id,
            new_id: index.new_id,
            details: wire.new_index_details.map(|any| (any.type_url, any.value)),
            index_version: wire.new_index_version,
            files: wire.new_index_files.into_iter().map(|file| (file.path, file.size_bytes)).collect(),
        })
    }

    /// The rewritten index that says this.
    pub fn index(self) -> RewrittenIndex {
        let wire = wire::RewrittenIndex {
            old_id: Some(to_uuid(self.old_id)),
            new_id: Some(to_uuid(self.new_id)),
            new_index_details: self.details.map(to_any),
            new_index_version: self.index_version,
            new_index_files: to_files(self.files),
        };
        RewrittenIndex { old_id: self.old_id, new_id: self.new_id, encoded: wire.encode_to_vec().into() }
    }
}

/// A uuid from its text. Errors: `InvalidInput`.
pub fn parse_uuid(text: &str) -> Result<Uuid> {
    Uuid::parse_str(text).map_err(|e| Error::invalid_input(format!("{text:?} is not a uuid: {e}")))
}

fn to_uuid(uuid: Uuid) -> table::Uuid {
    table::Uuid { uuid: Bytes::copy_from_slice(uuid.as_bytes()) }
}

fn to_any((type_url, value): Details) -> well_known::Any {
    well_known::Any { type_url, value }
}

fn to_files(files: Vec<(String, u64)>) -> Vec<table::IndexFile> {
    files.into_iter().map(|(path, size_bytes)| table::IndexFile { path, size_bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> IndexParts {
        IndexParts {
            uuid: Uuid::from_u128(7),
            name: "a_idx".to_owned(),
            fields: vec![FieldId(0)],
            dataset_version: Version(3),
            fragments: Some(BTreeSet::from([0, 5, 70_000])),
            index_version: Some(1),
            created_at: Some(1_700_000_000_000),
            base_id: Some(0),
            files: vec![("page_data.lance".to_owned(), 634)],
            details: Some(("/lance.table.BTreeIndexDetails".to_owned(), Bytes::from_static(b"\x08\x01"))),
            covering_fields: vec![0, 2],
        }
    }

    #[test]
    fn round_trip() {
        let entry = parts().entry().unwrap();
        assert_eq!(IndexParts::of(&entry).unwrap(), parts());
        assert_eq!(entry.details_type().as_deref(), Some("lance.table.BTreeIndexDetails"));
        let bare = IndexParts { fragments: None, details: None, files: Vec::new(), ..parts() };
        assert_eq!(IndexParts::of(&bare.clone().entry().unwrap()).unwrap(), bare);
    }

    #[test]
    fn rewritten_round_trip() {
        let rewritten = RewrittenParts {
            old_id: Uuid::from_u128(1),
            new_id: Uuid::from_u128(2),
            details: parts().details,
            index_version: 3,
            files: parts().files,
        };
        assert_eq!(RewrittenParts::of(&rewritten.clone().index()).unwrap(), rewritten);
    }
}
