//! Branches, shallow clones and deep clones: a version of one table becomes the first of another (table format 11.4).
//!
//! | | files | base paths | where |
//! |---|---|---|---|
//! | branch | stay, marked with the id of a new base path | the source's and the source | `tree/<branch>` |
//! | shallow clone | the same | the same | anywhere |
//! | deep clone | copied | none | anywhere |
//!
//! The version number, row ids and counters go on. The manifest is published with put-if-absent like every other.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::error::ResultExt;
use pennon_core::manifest::{naming, paths};
use pennon_core::schema::{Field, Metadata};
use pennon_core::transaction::{Clone, Operation};
use pennon_core::{Error, ErrorKind, Result};
use tracing::{instrument, warn};

use crate::commit::{self, CommitOutcome, clone};
use crate::dataset::Dataset;
use crate::refs;
use crate::session::CommitOptions;
use crate::store::{Durability, StorageOptions, Store, copy};
use crate::versions::snapshot::Snapshot;
use crate::versions::{HINT, TRANSACTIONS, VERSIONS, VersionRef, locate};
use crate::write::staged;

impl Dataset {
    /// Makes a branch from a version (by default this one) and gives a handle on it.
    ///
    /// Errors: `InvalidInput` "Ref is invalid: ..." for the name, `AlreadyExists` for a branch that is there or left
    /// files behind, `NotFound` for the version, `CommitUnknown` if answers were lost: then the name stays taken.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn create_branch(&self, name: &str, reference: Option<VersionRef>) -> Result<Self> {
        let source = match reference {
            Some(reference) => self.find(reference).await?,
            None => {
                self.check_committed("A branch")?;
                Arc::clone(self.snapshot())
            }
        };
        let main = refs::main_store(&source)?;
        let target = refs::branch_store(&main, source.session(), name)?;
        let branches = self.on(Arc::clone(&source)).branches();
        let owner = refs::owner(&source).await?;
        let claimed = branches.claim(name).await?;
        match publish(&source, &target, Some(name), true, self.commit_options()).await {
            CommitOutcome::NotCommitted(error) => {
                branches.give_back(name, &claimed).await;
                if error.kind() == ErrorKind::AlreadyExists {
                    return Err(Error::already_exists(format!(
                        "Branch {name:?} has versions from a deletion or a creation that was cut short. Delete the branch, \
                         then create it"
                    ))
                    .concerning(target.root()));
                }
                Err(error.at(format!("branch {name:?}")))
            }
            // Its versions may be there, so its name stays.
            CommitOutcome::Unknown(error) => Err(error.at(format!(
                "branch {name:?} may have been made. If it cannot be opened, delete it, then create it"
            ))),
            committed => {
                let made = self.on(committed.into_result()?);
                let Some(error) = refs::lost_source(&source, &owner).await else {
                    return Ok(made);
                };
                // A cleanup that did not see the branch removes what it needs. What others committed on it stays.
                let is_unused = locate::list(&target).await.is_ok_and(|versions| versions.len() == 1);
                match is_unused && branches.delete(name).await.is_ok() {
                    true => Err(error),
                    false => Err(error.at(format!("branch {name:?} is left, without some of its files"))),
                }
            }
        }
    }

    /// Makes a table elsewhere whose first version is a version of this one, with the same files. This table keeps a
    /// note of it, if it can be written to, so that cleanup spares those files.
    ///
    /// Errors: `AlreadyExists` if there is a table at `target`, `NotFound` for the version, also if a cleanup removed it
    /// meanwhile.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn shallow_clone(
        &self,
        target: &str,
        reference: VersionRef,
        storage_options: &StorageOptions,
    ) -> Result<Self> {
        let (source, store) = self.source_and_target(target, reference, storage_options).await?;
        let owner = refs::owner(&source).await?;
        // The notes come first, so that a clone never exists without one where the source can be written to.
        let (mut seen, mut notes) = (BTreeSet::new(), Vec::new());
        for root in roots(&source)? {
            // A base path that is not a table gets no note: it may be any directory.
            if !seen.insert(root.root().to_owned()) || !matches!(locate::find(&root, None).await, Ok(Some(_)))
            {
                continue;
            }
            match refs::remember_clone(&root, store.root(), self.durability()).await {
                Ok(note) => notes.push((root, note)),
                Err(error) => warn!(
                    path = root.root(),
                    version = source.version().0,
                    clone = store.root(),
                    %error,
                    "the note about a clone was not written: cleanup of the source does not spare its files"
                ),
            }
        }
        let error = match publish(&source, &store, None, true, self.commit_options()).await {
            CommitOutcome::NotCommitted(error) => error,
            // Its version may be there, so its notes stay.
            CommitOutcome::Unknown(error) => return Err(error),
            committed => {
                let made = committed.into_result()?;
                let Some(error) = refs::lost_source(&source, &owner).await else {
                    return Ok(self.on(made));
                };
                // A cleanup that did not see the clone removes what it needs. What others committed on it stays.
                let is_unused = locate::list(&store).await.is_ok_and(|versions| versions.len() == 1);
                if !is_unused || take_back(&made).await.is_err() {
                    return Err(
                        error.at(format!("the clone {target} is left, without some files of its source"))
                    );
                }
                error
            }
        };
        for (root, note) in notes {
            if let Err(failed) = root.delete(&note).await {
                warn!(path = root.full_path(&note), error = %failed, "the note about a clone that was not made is left");
            }
        }
        Err(error)
    }

    /// Makes a table elsewhere whose first version is a version of this one, with copies of the files.
    ///
    /// Errors: as for [`Self::shallow_clone`]; those of reading and writing.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn deep_clone(
        &self,
        target: &str,
        reference: VersionRef,
        storage_options: &StorageOptions,
    ) -> Result<Self> {
        let (source, store) = self.source_and_target(target, reference, storage_options).await?;
        copy_files(&source, &store, self.durability()).await?;
        let snapshot = publish(&source, &store, None, false, self.commit_options()).await.into_result()?;
        Ok(self.on(snapshot))
    }

    async fn source_and_target(
        &self,
        target: &str,
        reference: VersionRef,
        storage_options: &StorageOptions,
    ) -> Result<(Arc<Snapshot>, Arc<Store>)> {
        let source = self.find(reference).await?;
        let store = self.session().open_store(target, storage_options)?;
        if locate::find(&store, None).await?.is_some() {
            return Err(commit::already_exists(&store));
        }
        Ok((source, store))
    }
}

/// Removes the first version of a clone, and nothing else that lies there.
async fn take_back(made: &Snapshot) -> Result<()> {
    let store = &made.store;
    locate::remove(store, &made.source().path, made.version()).await?;
    let transaction = format!("{TRANSACTIONS}/{}", made.manifest.transaction_file);
    for path in [HINT, transaction.as_str()] {
        if let Err(error) = store.delete(path).await {
            warn!(path = store.full_path(path), %error, "a file of a clone that was not made is left");
        }
    }
    store.remove_empty_directories([VERSIONS, TRANSACTIONS].map(str::to_owned).into()).await;
    Ok(())
}

async fn publish(
    source: &Arc<Snapshot>,
    target: &Arc<Store>,
    branch: Option<&str>,
    is_shallow: bool,
    options: &CommitOptions,
) -> CommitOutcome {
    let operation = Operation::Clone(Clone {
        is_shallow,
        ref_name: source.manifest.branch.clone(),
        ref_version: source.version(),
        ref_path: source.store.root().to_owned(),
        branch_name: branch.map(str::to_owned),
    });
    let transaction = staged::transaction(source.version(), None, Metadata::new(), operation);
    clone::publish(source, target, transaction, options).await
}

/// The tables whose files a version refers to.
fn roots(source: &Snapshot) -> Result<Vec<Arc<Store>>> {
    let mut roots = vec![Arc::clone(&source.store)];
    for base in source.manifest.base_paths.iter().filter(|base| base.is_dataset_root) {
        roots.push(source.session().store(&source.store, &base.path)?);
    }
    Ok(roots)
}

async fn copy_files(source: &Snapshot, target: &Arc<Store>, durability: Durability) -> Result<()> {
    let indices = source.indices().await?;
    let blobs = source.manifest.schema.fields.iter().any(Field::has_blob_v2);
    let mut copies = Vec::new();
    for file in paths::references(&source.manifest, &indices) {
        match file.folder {
            "_transactions" => {}
            "_indices" => {
                let (store, directory) = source.locate(file.folder, &file.name, file.base_id)?;
                for listed in store.list_below(&directory).await? {
                    copies.push((Arc::clone(&store), listed.path.clone(), listed.path));
                }
            }
            _ => {
                let (store, path) = source.locate(file.folder, &file.name, file.base_id)?;
                if blobs && file.folder == "data" {
                    let to = file.path();
                    for listed in store.list_below(naming::blob_folder(&path)).await? {
                        let name = listed.path.rsplit_once('/').map_or("", |(_, name)| name);
                        let to = format!("{}/{name}", naming::blob_folder(&to));
                        copies.push((Arc::clone(&store), listed.path, to));
                    }
                }
                copies.push((store, path, file.path()));
            }
        }
    }
    let copies = copies.into_iter().map(|(store, path, to)| {
        let target = Arc::clone(target);
        // Over what a clone that was given up may have left behind.
        let copy = move || copy(&store, &path, &target, &to, durability).in_file(|| store.full_path(&path));
        crate::runtime::blocking(copy).boxed()
    });
    crate::runtime::gather(copies.collect()).await.map(drop)
}
