//! The index of row ids of a version. Ids in data columns that it does not have yet are read concurrently, so that a
//! fragment costs a read and not the time of a read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use pennon_core::manifest::Fragment;
use pennon_core::rows::{RowIdIndex, RowIdSequence};
use pennon_core::{FragmentId, Result};

use super::fragment::FragmentReader;
use crate::runtime::concurrently;
use crate::versions::snapshot::Snapshot;

/// Fragments whose ids are read at once from stores that take their time.
const REMOTE_READS: usize = 16;

/// Row id to row address in a version with stable row ids. Blocks on the store. Errors: `Corrupt`; those of reading.
pub(crate) fn row_id_index(snapshot: &Arc<Snapshot>) -> Result<Arc<RowIdIndex>> {
    let read = read_concurrently(snapshot, &snapshot.column_ids_not_indexed())?;
    snapshot.row_id_index(&|fragment| match read.get(&fragment.id) {
        Some(ids) => Ok(ids.clone()),
        None => ids_of(snapshot, &Arc::new(fragment.clone())),
    })
}

fn ids_of(snapshot: &Arc<Snapshot>, fragment: &Arc<Fragment>) -> Result<RowIdSequence> {
    FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0).all_row_ids()
}

fn read_concurrently(
    snapshot: &Arc<Snapshot>,
    fragments: &[Arc<Fragment>],
) -> Result<HashMap<FragmentId, RowIdSequence>> {
    let cores = available_parallelism().map_or(1, usize::from);
    let most = if snapshot.store.is_local() { cores } else { cores.max(REMOTE_READS) };
    let next = AtomicUsize::new(0);
    let share = |_| {
        let mut read = Vec::new();
        while let Some(fragment) = fragments.get(next.fetch_add(1, Ordering::Relaxed)) {
            read.push((fragment.id, ids_of(snapshot, fragment)?));
        }
        Ok(read)
    };
    Ok(concurrently(most.min(fragments.len()), share)?.into_iter().flatten().collect())
}
