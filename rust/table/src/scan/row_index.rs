//! The index of row ids of a version. Ids in data columns that it does not have yet are read concurrently, so that a
//! fragment costs a read and not the time of a read.

use std::collections::HashMap;
use std::sync::Arc;

use pennon_core::error::ResultExt;
use pennon_core::manifest::{Flags, Fragment, LineageSource};
use pennon_core::rows::{RowIdIndex, RowIdSequence};
use pennon_core::{FragmentId, Result};

use super::fragment::FragmentReader;
use crate::runtime::{each_concurrently, processors};
use crate::versions::row_ids::VersionIndex;
use crate::versions::snapshot::Snapshot;

/// Row id to row address in a version with stable row ids. Blocks on the store, and computes for long the first time.
/// Errors: `Corrupt`; those of reading.
pub(crate) fn row_id_index(snapshot: &Arc<Snapshot>) -> Result<Arc<VersionIndex>> {
    snapshot.row_id_index(|related| {
        let fragments = &snapshot.manifest.fragments;
        let read = read_concurrently(snapshot, &in_columns(snapshot, related))?;
        let read_ids = |fragment: &Fragment| match read.get(&fragment.id) {
            Some(ids) => Ok(ids.clone()),
            None => ids_of(snapshot, &Arc::new(fragment.clone())),
        };
        let made = match related {
            Some(related) => related.index.advance(&related.manifest.fragments, fragments, &read_ids),
            None => RowIdIndex::new(fragments, &read_ids),
        };
        made.at(|| format!("{} at version {}", snapshot.store.root(), snapshot.version()))
    })
}

/// Fragments with ids in a data column that the index of a related version does not have.
fn in_columns(snapshot: &Snapshot, related: Option<&VersionIndex>) -> Vec<Arc<Fragment>> {
    if !snapshot.manifest.reader_flags.contains(Flags::LINEAGE_COLUMNS) {
        return Vec::new();
    }
    let is_known = |fragment: &Fragment| related.is_some_and(|related| related.index.has(fragment));
    let column_backed =
        snapshot.manifest.fragments.decode_all().filter(|f| f.row_ids == Some(LineageSource::Column));
    column_backed.filter(|fragment| !is_known(fragment)).collect()
}

fn ids_of(snapshot: &Arc<Snapshot>, fragment: &Arc<Fragment>) -> Result<RowIdSequence> {
    FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0).all_row_ids()
}

/// Adds the ids of the live rows of a fragment, in its order. May block on the store.
pub(crate) fn ids_of_live_rows(
    snapshot: &Arc<Snapshot>,
    fragment: Arc<Fragment>,
    ids: &mut Vec<u64>,
) -> Result<()> {
    let reader = FragmentReader::new(Arc::clone(snapshot), fragment, 0);
    let live = reader.all_row_ids()?.mask(reader.deletions()?);
    live.extend_into(0..live.len(), ids);
    Ok(())
}

fn read_concurrently(
    snapshot: &Arc<Snapshot>,
    fragments: &[Arc<Fragment>],
) -> Result<HashMap<FragmentId, RowIdSequence>> {
    let threads = processors().max(snapshot.store.readers());
    let read = |fragment: &Arc<Fragment>| Ok((fragment.id, ids_of(snapshot, fragment)?));
    Ok(each_concurrently(threads, fragments, read)?.into_iter().collect())
}
