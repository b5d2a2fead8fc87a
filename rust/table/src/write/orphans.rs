//! Removing files that no version refers to. One that cannot be removed is an orphan, which the log names and cleanup
//! finds.

use pennon_core::manifest::naming;
use tracing::warn;

use crate::store::Store;

/// Removes a file that will not be committed, and the blobs of a data file.
pub(crate) async fn remove_file(store: &Store, path: &str) {
    remove_one(store, path).await;
    let folder = naming::blob_folder(path);
    if folder != path {
        for blobs in store.list_below(folder).await.unwrap_or_default() {
            remove_one(store, &blobs.path).await;
        }
    }
}

async fn remove_one(store: &Store, path: &str) {
    if let Err(error) = store.delete(path).await {
        warn!(path = store.full_path(path), %error, "a staged file was not removed: cleanup will");
    }
}
