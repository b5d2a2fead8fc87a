//! Truncate: no rows, the same schema, one new version.

use pennon_core::Result;

use super::delete::DeleteOptions;
use crate::dataset::Dataset;

impl Dataset {
    /// Deletes all rows of the newest version and moves to the new one. Errors: those of [`Self::delete`].
    pub async fn truncate(&mut self) -> Result<()> {
        let mut newest = self.clone();
        newest.checkout_latest().await?;
        newest.delete("true", DeleteOptions::default()).await?;
        *self = newest;
        Ok(())
    }
}
