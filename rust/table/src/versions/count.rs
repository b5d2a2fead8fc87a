//! Asks data and deletion files for the numbers of rows that a manifest of an old release does not say.

use std::sync::Arc;

use futures::FutureExt;
use pennon_core::error::ResultExt;
use pennon_core::manifest::{Fragment, RowCounts};
use pennon_core::{Error, Result};

use crate::versions::snapshot::Snapshot;

/// The snapshot with the numbers of rows of all fragments.
///
/// Opens the data files of the fragments concerned. Errors: `Corrupt` for files that are missing or disagree.
pub(super) async fn counted(snapshot: Arc<Snapshot>) -> Result<Arc<Snapshot>> {
    let uncounted = snapshot.manifest.uncounted();
    if uncounted.is_empty() {
        return Ok(snapshot);
    }
    let reads = uncounted.into_iter().map(|fragment| {
        let snapshot = Arc::clone(&snapshot);
        let read = move || Ok((fragment.id, count(&snapshot, &fragment)?));
        crate::runtime::blocking(read).boxed()
    });
    let counts = crate::runtime::gather(reads.collect()).await?.into_iter().collect();
    let mut manifest = snapshot.manifest.as_ref().clone();
    manifest.count(&counts);
    let (store, session) = (Arc::clone(&snapshot.store), Arc::clone(snapshot.session()));
    Ok(Snapshot::new(store, session, Arc::new(manifest), snapshot.source().clone()))
}

fn count(snapshot: &Snapshot, fragment: &Fragment) -> Result<RowCounts> {
    let within = || format!("fragment {}, whose rows the manifest does not count", fragment.id);
    let mut physical = fragment.physical_rows;
    if physical == 0 {
        for (at, file) in fragment.files.iter().enumerate() {
            let found = snapshot.file_reader_blocking(file).at(within)?.metadata().num_rows;
            if at > 0 && found != physical {
                return Err(Error::corrupt(format!(
                    "fragment {}: data file {} has {found} rows, the first one has {physical}",
                    fragment.id, file.path
                )));
            }
            physical = found;
        }
    }
    let deleted = match fragment.deleted_rows() {
        0 => {
            let counted = Fragment { physical_rows: physical, ..fragment.edit() };
            snapshot.deletion_vector_blocking(&counted).at(within)?.len()
        }
        deleted => deleted,
    };
    if deleted > physical {
        return Err(Error::corrupt(format!(
            "fragment {}: {deleted} of {physical} rows are deleted",
            fragment.id
        )));
    }
    Ok(RowCounts { physical, deleted })
}
