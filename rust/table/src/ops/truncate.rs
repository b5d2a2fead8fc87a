//! Truncate: no rows, the same schema, one new version.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Delete, Operation};

use crate::commit::{self, Change};
use crate::dataset::Dataset;

impl Dataset {
    /// Removes all fragments of the newest version and moves to the new one.
    pub async fn truncate(&mut self) -> Result<()> {
        let deleted_fragment_ids = self.manifest().fragments.iter().map(|f| f.id).collect();
        let delete =
            Delete { updated_fragments: Vec::new(), deleted_fragment_ids, predicate: "true".to_owned() };
        let transaction =
            commit::transaction(self.version(), None, Metadata::new(), Operation::Delete(delete));
        let base = Arc::clone(self.snapshot());
        self.move_to(commit::commit(base, Change::from(transaction), &self.commit_params()).await?);
        Ok(())
    }
}
