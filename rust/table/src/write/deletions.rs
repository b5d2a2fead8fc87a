//! Rows that go: merged with those that are gone, into deletion files (table format, section 5).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DeletionFile, DeletionFileType, Fragment, paths};
use pennon_core::{Error, FragmentId, Result, RowAddress};
use pennon_datafile::deletion_file;

use super::orphans::remove_files;
use crate::runtime::{self, Fault, is_planted};
use crate::store::{Durability, Uploads};
use crate::versions::snapshot::Snapshot;

/// Rows merged with what was deleted before.
#[derive(Debug, Default)]
pub(crate) struct MergedDeletions {
    /// Rows that were there before.
    pub(crate) affected: RowsByFragment,
    /// The full vectors of fragments that keep rows.
    pub(crate) vectors: Vec<(Fragment, DeletionVector)>,
    /// Fragments without a row left, ascending.
    pub(crate) removed: Vec<FragmentId>,
}

/// Adds rows of a fragment to those that are there.
pub(crate) fn add(all: &mut RowsByFragment, id: FragmentId, rows: &DeletionVector) {
    let both = all.get(&id).map_or_else(|| rows.clone(), |known| known.union(rows));
    all.insert(id, both);
}

/// Adds rows that others found. Errors: `InvalidInput` for a row that is there already.
pub(crate) fn add_disjoint(all: &mut RowsByFragment, rows: RowsByFragment) -> Result<()> {
    for (id, rows) in rows {
        if all.get(&id).is_some_and(|known| known.intersects(&rows)) {
            return Err(Error::invalid_input(format!("two tasks change the same row of fragment {id}")));
        }
        add(all, id, &rows);
    }
    Ok(())
}

/// Rows by address, as rows by fragment.
pub(crate) fn by_fragment(rows: impl IntoIterator<Item = RowAddress>) -> RowsByFragment {
    let mut offsets = BTreeMap::<FragmentId, Vec<u32>>::new();
    for row in rows {
        offsets.entry(row.fragment()).or_default().push(row.offset());
    }
    offsets.into_iter().map(|(id, offsets)| (id, offsets.into_iter().collect())).collect()
}

/// Merges rows with the vectors of a version. Errors: `InvalidInput` for rows that cannot be there.
pub(crate) async fn merge(snapshot: &Arc<Snapshot>, rows: RowsByFragment) -> Result<MergedDeletions> {
    let merges = rows.into_iter().map(|(id, rows)| {
        let merge = async move {
            let fragment = snapshot.manifest.require_fragment(id)?;
            if rows.last().is_some_and(|last| u64::from(last) >= fragment.physical_rows) {
                return Err(Error::invalid_input(format!(
                    "Rows to delete lie behind the {} rows of fragment {id}",
                    fragment.physical_rows
                )));
            }
            let before = snapshot.deletion_vector(fragment).await?;
            let new = rows.difference(&before);
            let full = if is_planted(Fault::EarlierDeletionsAreForgotten) {
                new.clone()
            } else {
                before.union(&new)
            };
            Ok((fragment, full, new))
        };
        merge.boxed()
    });
    let mut merged = MergedDeletions::default();
    for (fragment, full, new) in runtime::gather(merges.collect()).await? {
        if new.is_empty() {
            continue;
        }
        merged.affected.insert(fragment.id, new);
        if full.len() == fragment.physical_rows {
            merged.removed.push(fragment.id);
        } else {
            merged.vectors.push((fragment.edit(), full));
        }
    }
    Ok(merged)
}

/// Writes the full vector of each fragment and gives the fragments that refer to them.
///
/// The form follows the number of rows unless one is asked for. After an error none of the files is there.
pub(crate) async fn write(
    snapshot: &Arc<Snapshot>,
    vectors: Vec<(Fragment, DeletionVector)>,
    form: Option<DeletionFileType>,
    durability: Durability,
) -> Result<Vec<Fragment>> {
    let (fragments, uploads) = write_later(snapshot, vectors, form, durability).await?;
    match uploads.arrive().await {
        Ok(()) => Ok(fragments),
        Err(error) => {
            let paths: Vec<String> = fragments.iter().filter_map(path).collect();
            remove_files(paths.iter().map(|path| (snapshot.store.as_ref(), path.as_str()))).await;
            Err(error)
        }
    }
}

/// As [`write`], but the files may be on their way to the store still.
pub(crate) async fn write_later(
    snapshot: &Arc<Snapshot>,
    vectors: Vec<(Fragment, DeletionVector)>,
    form: Option<DeletionFileType>,
    durability: Durability,
) -> Result<(Vec<Fragment>, Uploads)> {
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
            id: runtime::random(),
            num_deleted_rows: vector.len(),
            base_id: None,
        };
        let fragment = Fragment { deletion: Some(deletion), ..fragment };
        if let Some(path) = path(&fragment) {
            kept.push((snapshot.store.reader_name(&path), Arc::new(vector)));
            files.push((path, Bytes::from(bytes)));
        }
        fragments.push(fragment);
    }
    let paths: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
    let uploads = match snapshot.store.put_new_later(files, durability).await {
        Ok(uploads) => uploads,
        Err(error) => {
            remove_files(paths.iter().map(|path| (snapshot.store.as_ref(), path.as_str()))).await;
            return Err(error);
        }
    };
    for (name, vector) in &kept {
        snapshot.keep_deletions(name, vector);
    }
    Ok((fragments, uploads))
}

/// Where the deletion file of a fragment is, below the table's own root.
pub(crate) fn path(fragment: &Fragment) -> Option<String> {
    paths::deletion(fragment).map(|file| file.path())
}
