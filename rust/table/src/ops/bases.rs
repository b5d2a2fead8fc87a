//! Base paths: more roots that data files may be written to (table format 2.6 and 11.4).

use pennon_core::Result;
use pennon_core::manifest::BasePath;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Operation, UpdateBases};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::write::placement;

impl Dataset {
    /// Registers base paths and moves to the version that has them. Id 0 means that the commit gives one.
    ///
    /// Errors: `InvalidInput` for a name or path that is there already, a path that climbs, that nothing can open or
    /// that lies in the table itself; `Conflict` if another writer registered the same one meanwhile.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn add_bases(&mut self, bases: &[BasePath], properties: Metadata) -> Result<()> {
        let mut new_bases = placement::prepare(bases, &self.snapshot().store, 1)?;
        // The commit gives the other ids: writers that add different paths at the same time would choose the same ones.
        for (prepared, base) in new_bases.iter_mut().zip(bases) {
            prepared.id = base.id;
        }
        let operation = Operation::UpdateBases(UpdateBases { new_bases });
        self.commit_operation(operation, None, properties).await
    }
}
