//! Drop: the whole table with everything in its directory.

use pennon_core::{Error, Result};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::refs;
use crate::store::{StorageOptions, Store, shown};
use crate::versions::locate;

impl Dataset {
    /// Removes a table with all its versions and branches.
    ///
    /// Errors: `NotFound` if no version is found there, unless that is to be ignored; whatever else the directory
    /// contains is kept.
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn drop_table(
        uri: &str,
        storage_options: &StorageOptions,
        ignore_not_found: bool,
    ) -> Result<()> {
        let store = Store::open(uri, storage_options)?;
        if locate::find(&store, None).await?.is_some() {
            if let Some(external) = store.external() {
                // Main last: as long as it is known, the drop can be repeated.
                refs::forget_branches(&store).await?;
                external.store.forget(&external.table).await?;
            }
            return store.delete_all().await.map(drop);
        }
        if ignore_not_found {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "Not found: refusing to drop {}, no manifest was found there",
            store.root()
        )))
    }
}
