//! The index of row ids of a version. Ids in data columns that it does not have yet are read concurrently, so that a
//! fragment costs a read and not the time of a read.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::available_parallelism;

use pennon_core::manifest::Fragment;
use pennon_core::rows::{RowIdIndex, RowIdSequence};
use pennon_core::{FragmentId, Result};

use super::fragment::FragmentReader;
use crate::runtime::each_concurrently;
use crate::versions::snapshot::Snapshot;

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
    let threads = available_parallelism().map_or(1, usize::from).max(snapshot.store.readers());
    let read = |fragment: &Arc<Fragment>| Ok((fragment.id, ids_of(snapshot, fragment)?));
    Ok(each_concurrently(threads, fragments, read)?.into_iter().collect())
}
