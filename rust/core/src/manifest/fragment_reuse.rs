//! Where rows went in a compaction whose indices are not rewritten (table format 9.5).
//!
//! An index names rows by address. Readers translate the addresses: of a group's moved rows, in the order of their old
//! addresses, the n-th is the n-th row of its new fragments.

use roaring::RoaringTreemap;
use uuid::Uuid;

use super::index::FRAGMENT_REUSE;
use super::{Fragment, IndexMetadata, Timestamp};
use crate::deletion::DeletionVector;
use crate::wire::index_parts::IndexParts;
use crate::{Result, RowAddress, Version};

/// The moves of one compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct FragmentReuse {
    /// The version before the one that has the result.
    pub dataset_version: Version,
    /// Fragments that were replaced together.
    pub groups: Vec<ReuseGroup>,
}

/// Moved rows of some fragments.
#[derive(Debug, Clone, PartialEq)]
pub struct ReuseGroup {
    /// Old addresses of the live rows.
    pub moved: RoaringTreemap,
    /// The fragments they were in.
    pub old_fragments: Vec<Fragment>,
    /// The fragments they are in, with their ids.
    pub new_fragments: Vec<Fragment>,
}

impl ReuseGroup {
    /// The live rows of fragments, given with their deletion vectors, moved to others in their order.
    pub fn new(old: Vec<(Fragment, &DeletionVector)>, new_fragments: Vec<Fragment>) -> Self {
        let mut moved = RoaringTreemap::new();
        for (fragment, deletions) in &old {
            let start = RowAddress::new(fragment.id, 0).0;
            for range in deletions.live_ranges(0..fragment.physical_rows) {
                moved.insert_range(start + range.start..start + range.end);
            }
        }
        moved.optimize();
        Self { moved, old_fragments: old.into_iter().map(|(fragment, _)| fragment).collect(), new_fragments }
    }
}

impl FragmentReuse {
    /// Name of the entry.
    pub const NAME: &str = FRAGMENT_REUSE;

    /// The entry that says this besides what the one among `indices` says.
    ///
    /// Errors: `Unsupported` if that one has its content in a file or in a newer form; `Corrupt` if it does not decode.
    pub fn entry(&self, indices: &[IndexMetadata], uuid: Uuid, made_at: Timestamp) -> Result<IndexMetadata> {
        let before = indices.iter().find(|entry| entry.name == Self::NAME).map(IndexParts::of).transpose()?;
        let details = before.as_ref().and_then(|parts| parts.details.as_ref());
        let details = self.encode(details.map(|(_, bytes)| bytes))?;
        let mut fragments = before.and_then(|parts| parts.fragments).unwrap_or_default();
        for group in &self.groups {
            fragments.extend(group.new_fragments.iter().map(|new| new.id.0));
        }
        let millis =
            made_at.seconds.saturating_mul(1000).saturating_add(i64::from(made_at.nanos / 1_000_000));
        let parts = IndexParts {
            uuid,
            name: Self::NAME.to_owned(),
            fields: Vec::new(),
            dataset_version: self.dataset_version,
            fragments: Some(fragments),
            index_version: Some(0),
            created_at: u64::try_from(millis).ok(),
            base_id: None,
            files: Vec::new(),
            details: Some(("/lance.table.FragmentReuseIndexDetails".to_owned(), details)),
            covering_fields: Vec::new(),
        };
        parts.entry()
    }
}
