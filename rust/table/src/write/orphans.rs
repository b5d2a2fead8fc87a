//! Removing files that no version refers to. One that cannot be removed is an orphan, which the log names and cleanup
//! finds.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use pennon_core::manifest::naming;
use tracing::warn;

use crate::runtime;
use crate::store::Store;

/// Removes files that will not be committed, and the blobs of data files, with as few requests as the stores allow.
pub(crate) async fn remove_files<'a>(files: impl IntoIterator<Item = (&'a Store, &'a str)>) {
    let mut by_store: BTreeMap<&str, (&Store, BTreeSet<String>)> = BTreeMap::new();
    for (store, path) in files {
        by_store.entry(store.root()).or_insert_with(|| (store, BTreeSet::new())).1.insert(path.to_owned());
    }
    for (store, paths) in by_store.into_values() {
        let is_data_file = |path: &&String| naming::blob_folder(path) != path.as_str();
        let lists = paths.iter().filter(is_data_file).map(|path| {
            let folder = naming::blob_folder(path);
            let list = async move {
                let listed = store.list_below(folder).await;
                Ok(listed.unwrap_or_else(|error| {
                    warn!(path = store.full_path(folder), %error, "staged blobs were not listed: cleanup will remove them");
                    Vec::new()
                }))
            };
            list.boxed()
        });
        let blobs = runtime::gather(lists.collect()).await.unwrap_or_default();
        let blobs = blobs.into_iter().flatten().map(|blob| blob.path);
        let paths: Vec<String> = paths.iter().cloned().chain(blobs).collect();
        for (path, deleted) in store.delete_many(paths).await {
            if let Err(error) = deleted {
                warn!(path = store.full_path(&path), %error, "a staged file was not removed: cleanup will");
            }
        }
    }
}
