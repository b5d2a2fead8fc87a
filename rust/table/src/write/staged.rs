//! A change that is ready to be committed: a transaction, and the files that were written for it.
//!
//! Invariant: the files belong to the change. The commit loop takes both and removes the files if, and only if, it is
//! certain that no version refers to them. A change that is dropped leaves its files where they are, for cleanup to find.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::manifest::paths::{self, Reference};
use pennon_core::manifest::{Fragment, FragmentReuse, Manifest};
use pennon_core::schema::{Metadata, Schema};
use pennon_core::transaction::{Merge, Operation, Transaction};
use pennon_core::{Result, Version};
use uuid::Uuid;

use super::in_place::RowsInPlace;
use super::orphans::remove_files;
use super::placement::Placement;
use crate::runtime;
use crate::store::{Store, Uploads};
use crate::versions::snapshot::Snapshot;

/// A file that was written and that no version refers to yet.
#[derive(Debug, Clone)]
pub(crate) struct StagedFile {
    /// How a fragment refers to it.
    pub(crate) reference: Reference<'static>,
    /// Where it is.
    pub(crate) store: Arc<Store>,
    /// Its path there.
    pub(crate) path: String,
}

impl StagedFile {
    /// The file that a reference of a version means, its base path taken into account.
    pub(crate) fn of(snapshot: &Snapshot, reference: Reference<'_>) -> Result<Self> {
        let (store, path) = snapshot.locate(reference.folder, &reference.name, reference.base_id)?;
        Ok(Self { reference: reference.into_owned(), store, path })
    }
}

/// Removes files, with the blobs of data files; one that cannot be removed is an orphan, which the log names.
pub(crate) async fn remove<'a>(files: impl IntoIterator<Item = &'a StagedFile>) {
    remove_files(files.into_iter().map(|file| (file.store.as_ref(), file.path.as_str()))).await;
}

/// What is to be committed.
#[derive(Debug, Clone)]
#[must_use = "a change does nothing until it is committed, and its files stay behind when it is dropped"]
pub struct StagedChange {
    pub(crate) transaction: Transaction,
    /// Files that the change owns.
    pub(crate) files: Vec<StagedFile>,
    /// For a delete or update: the offsets it deletes, by fragment, at its read version. Without them a change of a
    /// fragment that somebody else changed cannot be carried over.
    pub(crate) affected: Option<RowsByFragment>,
    /// For a rewrite whose indices are not rewritten: where the rows go.
    pub(crate) reuse: Option<FragmentReuse>,
    /// For an update: rows that changed where they are, if their last-updated-at versions are columns, which are for
    /// one version.
    pub(crate) in_place: Option<RowsInPlace>,
    /// The schema of a table that gets columns with the change: it becomes a `Merge`, on top of whatever version it is
    /// committed on.
    pub(crate) columns: Option<Arc<Schema>>,
    /// Files that are on their way to the store: the commit waits for them before it publishes.
    pub(crate) uploads: Uploads,
}

impl From<Transaction> for StagedChange {
    /// A change whose files belong to whoever made the transaction: they stay, whatever becomes of the commit.
    fn from(transaction: Transaction) -> Self {
        Self {
            transaction,
            files: Vec::new(),
            affected: None,
            reuse: None,
            in_place: None,
            columns: None,
            uploads: Uploads::default(),
        }
    }
}

impl StagedChange {
    /// A change that owns the files its operation refers to and the version it was made from does not.
    ///
    /// Errors: `Corrupt` for a file below a base path that is not registered.
    pub fn staged(base: &Snapshot, transaction: Transaction) -> Result<Self> {
        let mut change = Self::from(transaction);
        for reference in new_files(&base.manifest, &change.transaction.operation) {
            change.files.push(StagedFile::of(base, reference)?);
        }
        Ok(change)
    }

    /// A change of fragments that were written to a placement, all of which it owns: for a table that does not exist.
    pub(crate) fn placed(placement: &Placement, transaction: Transaction) -> Self {
        let mut files = Vec::new();
        for fragment in fragments(&transaction.operation) {
            for file in &fragment.files {
                if let Some((store, path)) = placement.find(file) {
                    let reference = paths::data(file).into_owned();
                    files.push(StagedFile { reference, store: Arc::clone(store), path });
                }
            }
        }
        Self { files, ..Self::from(transaction) }
    }

    /// The same change, which deletes or moves these rows of the version it was made from. With them it can be carried
    /// over to a version in which somebody else changed other rows of the same fragments.
    pub fn affecting(self, affected: Option<RowsByFragment>) -> Self {
        Self { affected, ..self }
    }

    /// What is committed on top of a version: the change, together with its columns if it has some. Errors: those of
    /// [`Merge::with_rows`].
    pub(crate) fn on(&self, current: &Manifest) -> Result<Cow<'_, Self>> {
        let Some(schema) = &self.columns else { return Ok(Cow::Borrowed(self)) };
        let mut change = self.clone();
        let operation = change.transaction.operation;
        change.transaction.operation =
            Operation::Merge(Merge::with_rows(current, schema.as_ref().clone(), operation)?);
        change.transaction.read_version = current.version;
        Ok(Cow::Owned(change))
    }

    /// The transaction, for somebody else to commit: all files have arrived. Errors: those of writing; the files are
    /// removed then.
    pub(crate) async fn into_transaction(self) -> Result<Transaction> {
        match self.uploads.arrive().await {
            Ok(()) => Ok(self.transaction),
            Err(error) => {
                self.discard().await;
                Err(error)
            }
        }
    }

    /// Removes the files of a change that is not committed.
    pub(crate) async fn discard(self) {
        // What arrives after it was removed would stay; whether it arrives does not matter any more.
        let _ = self.uploads.arrive().await;
        remove(&self.files).await;
    }
}

/// A transaction with a fresh uuid unless one is given.
pub(crate) fn transaction(
    read_version: Version,
    uuid: Option<String>,
    properties: Metadata,
    operation: Operation,
) -> Transaction {
    let uuid = uuid.unwrap_or_else(|| runtime::uuid().to_string());
    Transaction { read_version, uuid, tag: String::new(), properties, operation }
}

/// The fragments that an operation adds, and those it gives new files.
fn fragments(operation: &Operation) -> Vec<&Fragment> {
    match operation {
        Operation::Append(append) => append.fragments.iter().collect(),
        Operation::Overwrite(overwrite) => overwrite.fragments.iter().collect(),
        Operation::Delete(delete) => delete.updated_fragments.iter().collect(),
        Operation::Update(update) => update.updated_fragments.iter().chain(&update.new_fragments).collect(),
        Operation::Merge(merge) => merge.fragments.iter().collect(),
        Operation::Rewrite(rewrite) => rewrite.groups.iter().flat_map(|group| &group.new_fragments).collect(),
        _ => Vec::new(),
    }
}

/// The uuids of the index segments that an operation adds or writes again.
fn new_indices(operation: &Operation) -> Vec<Uuid> {
    match operation {
        Operation::CreateIndex(create) => create.new_indices.iter().map(|entry| entry.uuid).collect(),
        Operation::Rewrite(rewrite) => rewrite.rewritten_indices.iter().map(|entry| entry.new_id).collect(),
        _ => Vec::new(),
    }
}

/// What refers to the files of an index segment.
pub(crate) fn index_file(segment: Uuid) -> Reference<'static> {
    Reference { folder: "_indices", name: segment.to_string().into(), base_id: None, size: None }
}

/// Those of some files that an operation does not refer to.
pub(crate) fn unreferenced<'a>(
    files: &'a [StagedFile],
    operation: &'a Operation,
) -> impl Iterator<Item = &'a StagedFile> {
    let key = |file: &Reference<'_>| (file.folder, file.name.clone().into_owned(), file.base_id);
    let referenced: HashSet<_> = match files {
        [] => HashSet::new(),
        _ => {
            let of_fragments = fragments(operation).into_iter().flat_map(paths::of_fragment);
            let of_indices = new_indices(operation).into_iter().map(|segment| key(&index_file(segment)));
            of_fragments.map(|file| key(&file)).chain(of_indices).collect()
        }
    };
    files.iter().filter(move |file| !referenced.contains(&key(&file.reference)))
}

/// Files that an operation refers to and the version it was made from does not.
fn new_files(base: &Manifest, operation: &Operation) -> Vec<Reference<'static>> {
    let mut files = Vec::new();
    for fragment in fragments(operation) {
        let before = base.fragment(fragment.id);
        let known: Vec<Reference<'_>> =
            before.map(|before| paths::of_fragment(before).collect()).unwrap_or_default();
        let is_new = |file: &Reference<'_>| known.iter().all(|known| !known.is_same_file(file));
        files.extend(paths::of_fragment(fragment).filter(is_new).map(Reference::into_owned));
    }
    files
}
