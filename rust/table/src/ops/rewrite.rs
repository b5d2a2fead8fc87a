//! Rewrite: the rows of some fragments in new ones, in the order of their ids. The start of every compaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::write::{WriteOptions, WrittenFragments, rewrite};

impl Dataset {
    /// Writes the live rows of some fragments into new ones without committing them.
    ///
    /// In a table with stable row ids the rows come in the order of their ids and keep them, with both versions: the
    /// new fragments carry all three sequences, as columns of their data files where the table's config says so.
    /// Otherwise they come in the order of `fragments`. Of `params` the sizes of files and pages count, the
    /// version of files, and the durability.
    ///
    /// Errors: `InvalidInput` for a fragment that is not in this version or named more than once, and for a table
    /// config `lance.row_lineage.*` with an invalid value; `Corrupt` if two live rows have one id. Files that were
    /// written are removed then.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn rewrite_fragments(
        &self,
        fragments: &[FragmentId],
        params: &WriteOptions,
    ) -> Result<WrittenFragments> {
        let mut seen = BTreeSet::new();
        if let Some(duplicate) = fragments.iter().find(|id| !seen.insert(**id)) {
            return Err(Error::invalid_input(format!("Fragment {duplicate} is named twice")));
        }
        rewrite::live_rows(Arc::clone(self.snapshot()), fragments.to_vec(), params).await
    }
}
