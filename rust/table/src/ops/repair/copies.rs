//! Files of a copy of the table.

use std::sync::Arc;

use pennon_core::manifest::ManifestFile;
use pennon_core::{Error, Result, Version};

use super::RepairOptions;
use super::metadata::has;
use crate::ops::verify::{Pace, StoredFile, check};
use crate::runtime;
use crate::store::{self, Durability, Store};
use crate::versions::VERSIONS;

/// A table with the same files.
pub(super) struct TableCopy(Arc<Store>);

impl TableCopy {
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

    /// The same file of the copy, if it is there, is as it was written and has the stated size. A seal that the damaged
    /// table has of the file counts as well. Names of files are never used again, except those of manifests: what is
    /// left of a damaged one must have the name of the transaction.
    pub(super) async fn find(
        &self,
        damaged: &Store,
        path: &str,
        size: Option<u64>,
    ) -> Result<Option<StoredFile>> {
        let Self(store) = self;
        let Some(info) = store.info(path).await?.filter(|_| store.root() != damaged.root()) else {
            return Ok(None);
        };
        let file = StoredFile {
            store: Arc::clone(store),
            path: path.to_owned(),
            version: Version(0),
            fragment: None,
        };
        let has_size = size.is_none_or(|size| size == info.size);
        if !has_size || !check(&file, Pace::default()).await?.findings.is_empty() {
            return Ok(None);
        }
        if path.starts_with(VERSIONS) && !self.is_same_version(damaged, path).await? {
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

    async fn is_same_version(&self, damaged: &Store, path: &str) -> Result<bool> {
        let manifest = ManifestFile::decode(self.0.get(path).await?)?.manifest;
        let left = match damaged.get(path).await {
            Err(error) if error.is_not_found() => return Ok(false),
            left => left?,
        };
        Ok(!manifest.transaction_file.is_empty() && has(&left, manifest.transaction_file.as_bytes()))
    }
}

/// Copies a file, which appears when it is complete.
pub(super) async fn copy(
    from: StoredFile,
    to: Arc<Store>,
    path: String,
    durability: Durability,
) -> Result<()> {
    runtime::blocking(move || store::copy(&from.store, &from.path, &to, &path, durability)).await
}
