//! Manifests from the older naming scheme to the newer one.

use pennon_core::Result;
use pennon_core::manifest::naming::NamingScheme;
use tracing::instrument;

use crate::dataset::Dataset;
use crate::versions::{Located, locate};
use crate::versions::{load, manifest_path};

impl Dataset {
    /// Renames all manifests so that the newest is listed first; nothing else changes. Doing it again is harmless.
    ///
    /// Nobody may commit to the table meanwhile. A table that is left half way opens by version number only, and another
    /// call continues where the first one stopped.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn migrate_manifest_paths_v2(&mut self) -> Result<()> {
        let store = &self.snapshot().store;
        let versions = locate::list(store).await?;
        for at in versions.iter().rev().filter(|at| at.scheme == NamingScheme::V1) {
            let old = manifest_path(at.version, NamingScheme::V1);
            let bytes = store.get(&old).await?;
            // The same bytes may be there already, from a call that did not get to the deletion.
            store
                .put_if_absent(&manifest_path(at.version, NamingScheme::V2), bytes, self.durability())
                .await?;
            store.delete(&old).await?;
        }
        let here = Located { version: self.version(), scheme: NamingScheme::V2 };
        if self.snapshot().source().scheme == NamingScheme::V1 {
            let snapshot = load::load(&self.snapshot().store, self.session(), here).await?;
            self.move_to(snapshot);
        }
        Ok(())
    }
}
