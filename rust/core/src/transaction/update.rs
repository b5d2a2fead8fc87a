//! Update (108), also what a merge of rows commits.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::KeyFilter;
use crate::manifest::Fragment;
use crate::{FieldId, FragmentId};

/// Changes, adds and deletes rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update {
    /// Fragments without a row left.
    pub removed_fragment_ids: Vec<FragmentId>,
    /// Fragments with new deletion files or new columns.
    pub updated_fragments: Vec<Fragment>,
    /// Fragments with the changed and added rows.
    pub new_fragments: Vec<Fragment>,
    /// Fields whose values were changed in place.
    pub fields_modified: Vec<FieldId>,
    /// Messages that are only carried along.
    pub compacted_sstables: Vec<Bytes>,
    /// Fields that changed in the new fragments.
    pub fields_for_preserving_fragment_bitmap: Vec<FieldId>,
    /// How the change was stored.
    pub mode: UpdateMode,
    /// Keys that were inserted.
    pub inserted_rows: Option<KeyFilter>,
    /// Changed offsets by fragment, as bitmaps.
    pub updated_offset_bitmaps: BTreeMap<u64, Bytes>,
}

/// How an update stores changed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateMode {
    /// Whole rows in new fragments.
    #[default]
    RewriteRows,
    /// New columns for the fragments.
    RewriteColumns,
}
