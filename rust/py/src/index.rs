//! Index entries as parts, both ways: dictionaries out, `pennon.Index` in.

use std::collections::BTreeSet;

use bytes::Bytes;
use pennon_core::manifest::IndexMetadata;
use pennon_core::transaction::RewrittenIndex;
use pennon_core::wire::index_parts::{self, RewrittenParts, parse_uuid};
use pennon_core::{Error, FieldId, Result, Version};
use pyo3::prelude::*;

/// A file of an index.
#[derive(FromPyObject, IntoPyObject)]
struct FileParts {
    path: String,
    size_bytes: u64,
}

/// An index entry; the time is milliseconds since 1970.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct IndexParts {
    uuid: String,
    name: String,
    fields: Vec<i32>,
    dataset_version: u64,
    fragment_ids: Option<BTreeSet<u32>>,
    index_version: Option<i32>,
    #[pyo3(attribute("_created_at_ms"))]
    created_at: Option<u64>,
    base_id: Option<u32>,
    files: Option<Vec<FileParts>>,
    index_details: Option<(String, Vec<u8>)>,
    covering_fields: Vec<i32>,
}

impl From<index_parts::IndexParts> for IndexParts {
    fn from(parts: index_parts::IndexParts) -> Self {
        let file = |(path, size_bytes)| FileParts { path, size_bytes };
        Self {
            uuid: parts.uuid.to_string(),
            name: parts.name,
            fields: parts.fields.iter().map(|id| id.0).collect(),
            dataset_version: parts.dataset_version.0,
            fragment_ids: parts.fragments,
            index_version: parts.index_version,
            created_at: parts.created_at,
            base_id: parts.base_id,
            files: Some(parts.files.into_iter().map(file).collect()),
            index_details: parts.details.map(|(url, value)| (url, value.to_vec())),
            covering_fields: parts.covering_fields,
        }
    }
}

impl TryFrom<&IndexMetadata> for IndexParts {
    type Error = Error;

    fn try_from(entry: &IndexMetadata) -> Result<Self> {
        index_parts::IndexParts::of(entry).map(Self::from)
    }
}

impl TryFrom<IndexParts> for IndexMetadata {
    type Error = Error;

    fn try_from(parts: IndexParts) -> Result<Self> {
        let files = parts.files.unwrap_or_default();
        index_parts::IndexParts {
            uuid: parse_uuid(&parts.uuid)?,
            name: parts.name,
            fields: parts.fields.into_iter().map(FieldId).collect(),
            dataset_version: Version(parts.dataset_version),
            fragments: parts.fragment_ids,
            index_version: parts.index_version,
            created_at: parts.created_at,
            base_id: parts.base_id,
            files: files.into_iter().map(|file| (file.path, file.size_bytes)).collect(),
            details: parts.index_details.map(|(url, value)| (url, Bytes::from(value))),
            covering_fields: parts.covering_fields,
        }
        .entry()
    }
}

/// An index that was rewritten.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct RewrittenIndexParts {
    old_id: String,
    new_id: String,
    new_details_type_url: String,
    new_details_value: Vec<u8>,
    new_index_version: u32,
}

impl TryFrom<&RewrittenIndex> for RewrittenIndexParts {
    type Error = Error;

    fn try_from(index: &RewrittenIndex) -> Result<Self> {
        let parts = RewrittenParts::of(index)?;
        let (new_details_type_url, value) = parts.details.unwrap_or_default();
        Ok(Self {
            old_id: parts.old_id.to_string(),
            new_id: parts.new_id.to_string(),
            new_details_type_url,
            new_details_value: value.to_vec(),
            new_index_version: parts.index_version,
        })
    }
}

impl TryFrom<RewrittenIndexParts> for RewrittenIndex {
    type Error = Error;

    fn try_from(parts: RewrittenIndexParts) -> Result<Self> {
        Ok(RewrittenParts {
            old_id: parse_uuid(&parts.old_id)?,
            new_id: parse_uuid(&parts.new_id)?,
            details: Some((parts.new_details_type_url, parts.new_details_value.into())),
            index_version: parts.new_index_version,
            files: Vec::new(),
        }
        .index())
    }
}
