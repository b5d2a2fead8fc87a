//! Drop: the whole table with everything in its directory.

use pennon_core::{Error, Result};

use crate::dataset::Dataset;
use crate::store::{StorageOptions, Store};

impl Dataset {
    /// Removes a table. Errors: `NotFound` if there is nothing, unless that is to be ignored.
    pub async fn drop_table(
        uri: &str,
        storage_options: &StorageOptions,
        ignore_not_found: bool,
    ) -> Result<()> {
        let store = Store::open(uri, storage_options)?;
        if store.delete_all().await? || ignore_not_found {
            return Ok(());
        }
        Err(Error::not_found(format!("Not found: {}", store.root())))
    }
}
