//! Row ids and row versions of new rows (table format 4.3 to 4.5).

use crate::manifest::{Fragment, LineageSource};
use crate::rows::{RowIdSequence, VersionSequence};
use crate::{Error, Result, Version};

/// Gives the rows of a new fragment their ids and both versions; `next_row_id` moves on.
///
/// A fragment may bring ids for its first rows, rows that existed before; only the others get new ones.
/// Errors: `InvalidInput` if it brings more ids than rows; `Unsupported` when the 64 bits are used up.
pub(super) fn assign(fragment: &mut Fragment, version: Version, next_row_id: &mut u64) -> Result<()> {
    let rows = fragment.physical_rows;
    if fragment.row_ids == Some(LineageSource::Column) {
        // All ids are there; versions as below unless they are stored as well.
        return keep_or_set_versions(fragment, version);
    }
    let brought = match &fragment.row_ids {
        Some(LineageSource::Inline(bytes)) => RowIdSequence::decode(bytes)?,
        _ => RowIdSequence::empty(),
    };
    let Some(missing) = rows.checked_sub(brought.len()) else {
        return Err(Error::invalid_input(format!("{} row ids for {rows} physical rows", brought.len())));
    };
    if missing > 0 || fragment.row_ids.is_none() {
        let start = *next_row_id;
        let end =
            start.checked_add(missing).ok_or_else(|| Error::unsupported("all 2^64 row ids are used up"))?;
        let sequence = if brought.is_empty() {
            RowIdSequence::from_range(start..end)
        } else {
            brought.iter().chain(start..end).collect()
        };
        fragment.row_ids = Some(LineageSource::Inline(sequence.encode()));
        *next_row_id = end;
    }
    keep_or_set_versions(fragment, version)
}

fn keep_or_set_versions(fragment: &mut Fragment, version: Version) -> Result<()> {
    if fragment.created_at.is_none() || fragment.last_updated_at.is_none() {
        let versions = VersionSequence::constant(fragment.physical_rows, version).encode();
        for source in [&mut fragment.created_at, &mut fragment.last_updated_at] {
            source.get_or_insert(LineageSource::Inline(versions.clone()));
        }
    }
    Ok(())
}
