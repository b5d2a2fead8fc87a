//! Columns that are dropped. Their values are kept in the files until these are rewritten.

use pennon_core::Result;
use tracing::instrument;

use crate::dataset::Dataset;

impl Dataset {
    /// Drops columns, given by their paths, and moves to the new version.
    ///
    /// Errors: `InvalidInput` for a column that is not there and if none is left; `Conflict` if others changed columns
    /// meanwhile.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn drop_columns(&mut self, columns: &[String]) -> Result<()> {
        let schema = self.schema().without_columns(columns)?;
        self.commit_schema(schema, true).await
    }
}
