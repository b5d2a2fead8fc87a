//! What is done on the calling thread: work on local files that is done before another thread would wake up.
//!
//! Nothing else happens meanwhile on that thread, Ctrl-C included, so each kind of work has a bound. Blobs may be large,
//! and anywhere: they are read by other threads.

use pennon_core::manifest::{Flags, IndexMetadata};
use pennon_core::schema::Field;

use super::fragment::reads_blobs;
use crate::versions::snapshot::Snapshot;

/// Rows that are read, and about their bytes where no index found them.
pub(super) const ROWS: u64 = 16;
pub(super) const ROW_BYTES: u64 = 1 << 20;
/// Values that are looked up in an index.
pub(super) const VALUES: usize = 16;
/// Rows that an index knows to have these values, before it is searched.
pub(super) const MATCHES: u64 = 4096;
/// Bytes of indices over vectors that are looked at.
const BYTES: u64 = 4 << 20;
/// Fragments or B-trees that are opened, and the rows of the B-trees, whose pages of 4,096 rows are listed.
pub(super) const OPENED: usize = 4;
const INDEXED_ROWS: u64 = 32 << 20;
/// Fragments that have their row ids indexed, or their deletion vectors read.
const FRAGMENTS: usize = 64;

/// Whether to read some fields of so many rows is brief.
pub(super) fn is_brief_read(snapshot: &Snapshot, fields: &[Field], rows: u64) -> bool {
    rows <= ROWS && !reads_blobs(snapshot, fields) && snapshot.reads_locally()
}

/// Whether it is brief to count live rows among those that indices found.
pub(super) fn is_brief_count(snapshot: &Snapshot) -> bool {
    snapshot.manifest.fragments.len() <= FRAGMENTS && snapshot.reads_locally()
}

/// Whether it is brief to open B-trees, each over so many rows.
pub(super) fn is_brief_opening(rows: impl Iterator<Item = u64> + Clone) -> bool {
    rows.clone().count() <= OPENED && rows.fold(0, u64::saturating_add) <= INDEXED_ROWS
}

/// Whether it is brief to find rows by stable ids: their index is there, or is made of few fragments.
pub(super) fn is_indexed_soon(snapshot: &Snapshot) -> bool {
    let manifest = &snapshot.manifest;
    let in_columns = || manifest.reader_flags.contains(Flags::LINEAGE_COLUMNS);
    !manifest.has_stable_row_ids()
        || snapshot.known_row_id_index().is_some()
        || (manifest.fragments.len() <= FRAGMENTS && !in_columns())
}

/// Whether it is brief to tell the segments of entries: system entries say where rows were moved to, in a file.
pub(super) fn is_brief_listing(snapshot: &Snapshot, entries: &[IndexMetadata]) -> bool {
    !entries.iter().any(IndexMetadata::is_system) && snapshot.reads_locally()
}

/// Whether it may be brief to look up so many values in indices.
pub(super) fn is_brief_lookup(snapshot: &Snapshot, entries: &[IndexMetadata], values: Option<usize>) -> bool {
    values.is_some_and(|values| values <= VALUES)
        && is_brief_listing(snapshot, entries)
        && is_indexed_soon(snapshot)
}

/// Whether to look at so many bytes of indices over vectors is brief.
pub(super) fn is_brief_search(snapshot: &Snapshot, bytes: u64) -> bool {
    bytes <= BYTES
        && snapshot.manifest.fragments.len() <= FRAGMENTS
        && is_indexed_soon(snapshot)
        && snapshot.reads_locally()
}
