//! The shallow clones that were made of a table by Pennon: `_refs/clones/<uuid>.json`.
//!
//! The format has no such thing: a clone names its source, but the source does not list its clones. Without these files
//! cleanup of the source would take away what its clones refer to. The reference does not read them.

use pennon_core::error::ResultExt;
use pennon_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::runtime::{self, Fault, is_planted};
use crate::store::{Durability, Store};

const CLONES: &str = "_refs/clones";

#[derive(Debug, Serialize, Deserialize)]
struct CloneFile {
    path: String,
}

/// Notes down that a table at `address` refers to files of this one; gives the path of the note.
pub(crate) async fn remember_clone(store: &Store, address: &str, durability: Durability) -> Result<String> {
    let file = super::to_json(&CloneFile { path: address.to_owned() })?;
    let path = format!("{CLONES}/{}.json", runtime::uuid());
    store.put(&path, file, durability).await?;
    Ok(path)
}

/// A clone that was noted down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownClone {
    /// Its address.
    pub(crate) address: String,
    /// Full path of the record of it.
    pub(crate) record: String,
}

/// The clones that were noted down.
pub(crate) async fn known_clones(store: &Store) -> Result<Vec<KnownClone>> {
    if is_planted(Fault::CleanupIgnoresClones) {
        return Ok(Vec::new());
    }
    let read = |file: String| async move {
        let path = format!("{CLONES}/{file}.json");
        let bytes = store.get(&path).await?;
        let file = super::from_json("the record of a clone", &bytes).and_then(|file: CloneFile| {
            // An address that nothing can open.
            Store::open(&file.path, store.options())
                .map_err(|e| Error::corrupt(format!("the clone {:?}: {e}", file.path)).with_source(e))?;
            Ok(file)
        });
        let record = store.full_path(&path);
        let file = file.in_file(|| &record)?;
        Ok(KnownClone { address: file.path, record })
    };
    super::list(store, CLONES, read).await
}
