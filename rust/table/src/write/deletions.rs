//! Writes the deletion files of a delete (table format, section 5).

use std::sync::Arc;

use bytes::Bytes;
use pennon_core::Result;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DeletionFile, DeletionFileType, Fragment};
use pennon_datafile::deletion_file;

use crate::snapshot::Snapshot;
use crate::store::Durability;

/// Writes the full vector of each fragment and gives the fragments that refer to them.
///
/// The form follows the number of rows unless one is asked for.
pub(crate) async fn write(
    snapshot: &Arc<Snapshot>,
    vectors: Vec<(Fragment, DeletionVector)>,
    form: Option<DeletionFileType>,
    durability: Durability,
) -> Result<Vec<Fragment>> {
    let mut fragments = Vec::with_capacity(vectors.len());
    let mut files = Vec::with_capacity(vectors.len());
    let mut kept = Vec::with_capacity(vectors.len());
    for (fragment, vector) in vectors {
        let (file_type, bytes) = match form {
            Some(file_type) => (file_type, deletion_file::encode_as(file_type, &vector)?),
            None => deletion_file::encode(&vector)?,
        };
        let deletion = DeletionFile {
            file_type,
            read_version: snapshot.version(),
            id: rand::random(),
            num_deleted_rows: vector.len(),
            base_id: None,
        };
        let fragment = Fragment { deletion: Some(deletion), ..fragment };
        if let Some(path) = path(&fragment) {
            kept.push((snapshot.store.full_path(&path), Arc::new(vector)));
            files.push((path, Bytes::from(bytes)));
        }
        fragments.push(fragment);
    }
    snapshot.store.put_new(files, durability).await?;
    for (name, vector) in &kept {
        snapshot.keep_deletions(name, vector);
    }
    Ok(fragments)
}

/// Where the deletion file of a fragment is, below the table's own root.
pub(crate) fn path(fragment: &Fragment) -> Option<String> {
    let deletion = fragment.deletion.as_ref()?;
    Some(format!("_deletions/{}", deletion.file_name(fragment.id)))
}
