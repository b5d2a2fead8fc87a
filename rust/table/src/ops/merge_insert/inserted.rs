//! The keys that a merge inserts, for conflict checks of concurrent merges (table format 8.4).
//!
//! They are named with every merge that inserts, whether or not its key is declared.

use arrow_array::RecordBatch;
use pennon_core::Result;
use pennon_core::transaction::KeyFilter;

use super::found::MatchedRows;
use super::keys::wrong;
use super::plan::MergePlan;
use super::rows::unmatched;
use super::sides::JoinColumns;
use super::source::MergeSource;
use crate::write::inserted_keys;

/// The keys of the rows that match nothing; none if all do, or have a null in their key and so equal no other.
/// `shares`: how many sources of about as many rows the merge has.
pub(super) fn keys(
    plan: &MergePlan,
    columns: &JoinColumns,
    source: &MergeSource,
    matched: &MatchedRows,
    shares: usize,
) -> Result<Option<KeyFilter>> {
    let mut hashes = Vec::new();
    for numbered in source.batches()? {
        let (first, batch) = numbered?;
        let arrays = columns.keys_of(&batch)?;
        let named = arrays.into_iter().enumerate().map(|(at, array)| (format!("key{at}"), array));
        let keys = RecordBatch::try_from_iter(named).and_then(|keys| unmatched(matched, first, &keys));
        hashes.extend(inserted_keys::hashes_without_null(keys.map_err(wrong)?.columns())?);
    }
    Ok(inserted_keys::filter(plan.key_ids(), hashes, shares))
}
