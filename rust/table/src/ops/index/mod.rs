//! Indices: made, dropped, described, taken care of.
//!
//! | part | file |
//! |---|---|
//! | a new index | `create.rs` |
//! | a segment, of the rows of fragments and the entries of other segments | `segment.rs` |
//! | its files | `build.rs` |
//! | the same of zone maps and Bloom filters | `zones.rs` |
//! | sorted values, in memory or in temporary files | `entries.rs` |
//! | what is there, and how far it reaches | `describe.rs` |
//! | rows and segments taken into an index | `optimize.rs` |
//! | segments whose rows a compaction moves | `remap.rs` |
//! | segments that were built apart | `uncommitted.rs` |
//! | indices over vectors | `vectors/` |

mod build;
mod create;
mod describe;
mod entries;
mod optimize;
mod remap;
mod segment;
mod uncommitted;
mod vectors;
mod zones;

pub use build::IndexParameters;
pub use create::NewIndex;
pub use describe::{IndexDescription, SegmentDescription, SegmentStatistics};
pub use optimize::IndexCare;
use pennon_core::manifest::IndexMetadata;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{CreateIndex, Operation};
use pennon_core::{Error, Result};
pub use pennon_index::{IndexKind, VectorModel};
pub(crate) use remap::{RemappedIndices, follows_moves, moves_of, remap};
use tracing::instrument;
pub use vectors::{NewVectorIndex, VectorParameters, VectorStatistics};

use crate::dataset::Dataset;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::{self, StagedChange};

/// The stage in which values are read.
const READ_STAGE: &str = "load_data";

impl Dataset {
    /// Removes an index with all its segments; the files stay until a cleanup. Moves to the new version.
    ///
    /// Errors: `NotFound` for a name that no index has; `Conflict` if others changed it meanwhile.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn drop_index(&mut self, name: &str) -> Result<()> {
        let removed = self.segments_of(name).await?;
        if removed.is_empty() {
            return Err(Error::not_found(format!("index not found: there is no index named '{name}'")));
        }
        self.commit_indices(Vec::new(), removed, Vec::new()).await
    }

    /// The entries of an index of this version.
    async fn segments_of(&self, name: &str) -> Result<Vec<IndexMetadata>> {
        let entries = self.snapshot().indices().await?;
        Ok(entries.iter().filter(|entry| entry.name == name && !entry.is_system()).cloned().collect())
    }

    async fn commit_indices(
        &mut self,
        new: Vec<IndexMetadata>,
        removed: Vec<IndexMetadata>,
        files: Vec<staged::StagedFile>,
    ) -> Result<()> {
        let operation = Operation::CreateIndex(CreateIndex { new_indices: new, removed_indices: removed });
        let transaction = staged::transaction(self.version(), None, Metadata::new(), operation);
        let change = StagedChange { files, ..StagedChange::from(transaction) };
        self.commit_change(change).await
    }
}

/// Live rows of some fragments of a version.
fn live_rows(snapshot: &Snapshot, fragments: &roaring::RoaringBitmap) -> u64 {
    let summaries = snapshot.manifest.fragments.summaries();
    summaries.filter(|f| fragments.contains(f.id.0)).map(|f| f.live_rows()).fold(0, u64::saturating_add)
}
