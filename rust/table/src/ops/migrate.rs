//! Manifests from the older naming scheme to the newer one.

use pennon_core::manifest::naming::NamingScheme;
use pennon_core::{Result, Version};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::store::Store;
use crate::store::external::Entry;
use crate::versions::{Located, locate};
use crate::versions::{load, manifest_path};

impl Dataset {
    /// Renames all manifests so that the newest is listed first; nothing else changes. Doing it again is harmless.
    ///
    /// Nobody may commit to the table meanwhile. A table that is left half way opens by version number only, and another
    /// call continues where the first one stopped. With an external manifest store, the entry of each version gets its new
    /// path before the old name is removed, so that such a table opens at any time.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn migrate_manifest_paths_v2(&mut self) -> Result<()> {
        let store = &self.snapshot().store;
        let versions = locate::list(store).await?;
        for at in versions.iter().rev() {
            let old = manifest_path(at.version, NamingScheme::V1);
            let new = manifest_path(at.version, NamingScheme::V2);
            if at.scheme == NamingScheme::V1 {
                match store.get(&old).await {
                    // The same bytes may be there already, from a call that did not get to the deletion.
                    Ok(bytes) => drop(store.put_if_absent(&new, bytes, self.durability()).await?),
                    // Only the manifest store has the old name, since an older release renamed the file.
                    Err(error) if error.is_not_found() && store.exists(&new).await? => {}
                    Err(error) => return Err(error),
                }
            }
            rename_entry(store, at.version, &old, &new).await?;
            if at.scheme == NamingScheme::V1 {
                store.delete(&old).await?;
            }
        }
        let here = Located { version: self.version(), scheme: NamingScheme::V2 };
        if self.snapshot().source().scheme == NamingScheme::V1 {
            let snapshot = load::load(&self.snapshot().store, self.session(), here).await?;
            self.move_to(snapshot);
        }
        Ok(())
    }
}

/// Gives the entry of a version in the manifest store, if there is one, the new name of the manifest.
async fn rename_entry(store: &Store, version: Version, old: &str, new: &str) -> Result<()> {
    let Some(external) = store.external() else { return Ok(()) };
    let Some(entry) = external.store.get(&external.table, version).await? else { return Ok(()) };
    if entry.path.trim_start_matches('/') != store.object_path(old) {
        return Ok(());
    }
    let e_tag = store.info(new).await?.and_then(|info| info.e_tag);
    let renamed = Entry { path: store.object_path(new), e_tag, ..entry };
    external.store.put_if_exists(&external.table, &renamed).await
}
