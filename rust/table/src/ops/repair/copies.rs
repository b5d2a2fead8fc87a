//! Files of a copy of the table.

use std::io::Write;
use std::sync::Arc;

use pennon_core::{Error, Result, Version};

use super::RepairOptions;
use crate::ops::verify::{Pace, StoredFile, check};
use crate::runtime;
use crate::store::{Durability, Store};

/// Bytes that are read at once.
const BYTES: u64 = 4 << 20;

/// A table with the same files.
pub(super) struct Copy(Arc<Store>);

impl Copy {
    pub(super) async fn open(options: &RepairOptions) -> Result<Option<Self>> {
        let Some(uri) = &options.copy else { return Ok(None) };
        let store = Store::open(uri, &options.connect.storage_options)?;
        if store.list("_versions").await?.is_empty() {
            return Err(Error::not_found(format!("{uri}: no table to take files from")));
        }
        Ok(Some(Self(store)))
    }

    pub(super) fn uri(&self) -> &str {
        self.0.root()
    }

    /// The same file of the copy, if it is there and is as it was written: names of files are never used again. A seal that
    /// the damaged table has of the file counts as well.
    pub(super) async fn find(&self, damaged: &Store, path: &str) -> Result<Option<StoredFile>> {
        let Self(store) = self;
        if store.root() == damaged.root() || !store.exists(path).await? {
            return Ok(None);
        }
        let file = StoredFile {
            store: Arc::clone(store),
            path: path.to_owned(),
            version: Version(0),
            fragment: None,
        };
        if !check(&file, Pace::default()).await?.findings.is_empty() {
            return Ok(None);
        }
        if let Ok(Some(seal)) = damaged.seal(path).await {
            let source = store.source(path, None);
            let changed = runtime::blocking(move || seal.block_check(source)?.all_damaged_blocks()).await;
            if !changed.is_ok_and(|changed| changed.is_empty()) {
                return Ok(None);
            }
        }
        Ok(Some(file))
    }
}

/// Copies a file, which appears when it is complete.
pub(super) async fn copy(
    from: StoredFile,
    to: Arc<Store>,
    path: String,
    durability: Durability,
) -> Result<()> {
    runtime::blocking(move || {
        let source = from.store.source(&from.path, None);
        let size = source.size()?;
        let mut sink = to.replacing_sink(&path, durability)?;
        let mut start = 0;
        while start < size {
            let range = start..size.min(start + BYTES);
            start = range.end;
            for bytes in source.read(&[range])? {
                sink.write_all(&bytes)
                    .map_err(|e| Error::store(format!("{}: {e}", to.full_path(&path))).with_source(e))?;
            }
        }
        sink.finish(durability)
    })
    .await
}
