//! Commits of what is decided already: a transaction, fragments that workers wrote, rows that go or move. What several
//! verbs end with is here, too.

use std::collections::HashSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Fragment;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Append, Delete, Operation, Transaction};
use pennon_core::{Error, FragmentId, Result, Version};
use tracing::instrument;

use crate::commit::{self, CommitOutcome};
use crate::dataset::Dataset;
use crate::indices;
use crate::ops::config;
use crate::runtime;
use crate::session::{CommitOptions, ConnectOptions, CreateOptions};
use crate::store::shown;
use crate::versions::snapshot::Snapshot;
use crate::versions::{load, locate, resolve};
use crate::write::deletions::{self, MergedDeletions};
use crate::write::moved::{self, WrittenMoves};
use crate::write::staged::{self, StagedChange};
use crate::write::{WriteMode, WrittenFragments};

/// What a transaction is put on top of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitMode {
    /// The newest version, after a check against everything since the version that was read.
    #[default]
    Rebase,
    /// The newest version, taken as the one that was read.
    OnNewest,
    /// The version that was read; the new one is outside the table's history, and no other commit is checked against it.
    Detached,
}

impl CommitMode {
    /// That of a transaction, which may not say which version it read.
    #[must_use]
    pub fn of(detached: bool, read_version: Option<Version>) -> Self {
        match (detached, read_version) {
            (true, _) => Self::Detached,
            (false, Some(_)) => Self::Rebase,
            (false, None) => Self::OnNewest,
        }
    }
}

/// How a transaction that was made elsewhere is committed.
#[derive(Debug, Clone, Default)]
pub struct TransactionOptions {
    /// How the table is reached.
    pub connect: ConnectOptions,
    /// How the transaction is committed.
    pub commit: CommitOptions,
    /// How a table that the transaction creates is laid out.
    pub create: CreateOptions,
}

impl Dataset {
    /// Commits a change that was staged on some version of this table, and moves to the version that has it.
    ///
    /// The way to write an operation of one's own: the outcome says whether the change is committed, and the files it
    /// owns are removed if, and only if, it is not.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn commit_staged(&mut self, change: StagedChange) -> CommitOutcome {
        let outcome = self.publish(change).await;
        if let CommitOutcome::Committed(snapshot, _) = &outcome {
            self.move_to(Arc::clone(snapshot));
        }
        outcome
    }

    /// Commits a transaction and gives the version it made: [`Self::commit_as`] with [`CommitMode::Rebase`].
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn commit(uri: &str, transaction: Transaction, params: TransactionOptions) -> Result<Self> {
        Self::commit_as(uri, transaction, CommitMode::Rebase, params, None).await
    }

    /// Commits a transaction and gives the version it made; to the table of `read`, if that is given.
    ///
    /// Doing it again with the same uuid gives the version the first commit made, unless it is detached. A table that
    /// does not exist is created by an `Overwrite`. Errors: `NotFound` for another operation on a table that does not
    /// exist, `InvalidInput` for fragments, schemas and settings that cannot be, `Unsupported` for operations that
    /// are only read, `Conflict` by the rules of table format 8.2, and if the table of `read` was dropped and made
    /// again.
    pub async fn commit_as(
        uri: &str,
        transaction: Transaction,
        mode: CommitMode,
        params: TransactionOptions,
        read: Option<&Self>,
    ) -> Result<Self> {
        let mut transaction = checked(transaction)?;
        let (store, session) = params.connect.open(uri)?;
        let newest = match read.filter(|read| read.snapshot().store.root() == store.root()) {
            Some(read) => resolve::newest_of(&store, &session, read.snapshot()).await,
            None => resolve::newest(&store, &session, None).await,
        };
        let newest = match newest {
            Ok(newest) => newest,
            Err(error)
                if error.is_not_found() && matches!(transaction.operation, Operation::Overwrite(_)) =>
            {
                if mode == CommitMode::Detached {
                    return Err(Error::unsupported("A detached commit cannot create a table"));
                }
                transaction.read_version = Version(0);
                let snapshot = commit::create(
                    &store,
                    &session,
                    StagedChange::from(transaction),
                    params.create,
                    &params.commit,
                )
                .await
                .into_result()?;
                return Ok(Self::at(snapshot, params.commit));
            }
            Err(error) => return Err(error),
        };
        if mode == CommitMode::OnNewest {
            transaction.read_version = newest.version();
        }
        if let Operation::Merge(merge) = &transaction.operation {
            let (version, scheme) = (transaction.read_version, newest.source().scheme);
            match load::load_version(&newest.store, newest.session(), version, scheme).await {
                Ok(read) => merge.check_columns(&read.manifest)?,
                // What was changed since then nobody knows: that is a conflict.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        indices::list_files(&newest, &mut transaction.operation).await?;
        let snapshot = match mode {
            CommitMode::Rebase | CommitMode::OnNewest => {
                super::publish(newest, StagedChange::from(transaction), &params.commit).await.into_result()?
            }
            CommitMode::Detached => {
                commit::detached(newest, transaction, &params.commit).await.into_result()?
            }
        };
        Ok(Self::at(snapshot, params.commit))
    }

    /// Commits a transaction that was made on this version, with its columns that are not committed: as [`Self::commit`].
    ///
    /// Errors: `Unsupported` for another mode than [`CommitMode::Rebase`].
    pub async fn commit_on(
        &self,
        transaction: Transaction,
        mode: CommitMode,
        options: CommitOptions,
    ) -> Result<Self> {
        if mode != CommitMode::Rebase {
            return Err(Error::unsupported(
                "A handle with columns that are not committed takes transactions with a read version, not detached",
            ));
        }
        self.check_read_version(&transaction)?;
        let mut transaction = checked(transaction)?;
        if let Operation::Merge(merge) = &transaction.operation {
            merge.check_columns(self.manifest())?;
        }
        indices::list_files(self.snapshot(), &mut transaction.operation).await?;
        let change = StagedChange::from(transaction);
        let snapshot = super::publish(Arc::clone(self.snapshot()), change, &options).await.into_result()?;
        Ok(Self::at(snapshot, options))
    }

    /// Commits fragments from [`Self::write_fragments`] as an append to this version, and moves to the new one.
    /// Idempotent by uuid.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn commit_append(
        &mut self,
        fragments: Vec<Fragment>,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<()> {
        self.commit_operation(Operation::Append(Append { fragments }), uuid, properties).await
    }

    /// Commits fragments from [`Self::write_new_fragments`] as a new table, or in mode overwrite as the next version
    /// of one that exists, with entries of the table config. Idempotent by uuid.
    ///
    /// Errors: `AlreadyExists` in mode create, `InvalidInput` for mode append, `Conflict` if the table has some of their files
    /// already, from a commit of which a cleanup left no trace, and `NotFound` for files that are gone.
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn commit_new(
        uri: &str,
        (written, config): (WrittenFragments, Metadata),
        mode: WriteMode,
        uuid: Option<String>,
        properties: Metadata,
        params: TransactionOptions,
    ) -> Result<Self> {
        let (store, session) = params.connect.open(uri)?;
        let newest = match resolve::newest(&store, &session, None).await {
            Ok(newest) if mode == WriteMode::Overwrite => Some(newest),
            Err(error) if !error.is_not_found() => return Err(error),
            _ if mode == WriteMode::Append => {
                return Err(Error::invalid_input(
                    "Fragments of a new table cannot be appended: write them for an append",
                ));
            }
            _ => None,
        };
        let read_version = newest.as_ref().map_or(Version(0), |newest| newest.version());
        config::check_values(&config)?;
        let transaction = staged::transaction(read_version, uuid, properties, written.overwrite(config));
        let snapshot = match newest {
            Some(newest) => match commit::find_repeated(&newest, &transaction).await? {
                Some(done) => done,
                None => {
                    check_unused(&newest, &written.fragments).await?;
                    let change = StagedChange::from(transaction);
                    super::publish(newest, change, &params.commit).await.into_result()?
                }
            },
            None => commit::create(
                &store,
                &session,
                StagedChange::from(transaction),
                params.create,
                &params.commit,
            )
            .await
            .into_result()?,
        };
        Ok(Self::at(snapshot, params.commit))
    }

    /// Commits an operation on this version and moves to the new one. Its files stay whatever becomes of the commit.
    /// Idempotent by uuid.
    pub(super) async fn commit_operation(
        &mut self,
        operation: Operation,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<()> {
        let transaction = staged::transaction(self.version(), uuid, properties, operation);
        self.commit_change(StagedChange::from(transaction)).await
    }

    /// Commits the deletion of rows that were found at this version, and moves to the new version: how many rows that is.
    /// `predicate` is what the history shows.
    ///
    /// Doing it again with the same uuid gives the version the first commit made. Rows that are deleted already at
    /// this version are not counted. Errors: `InvalidInput` for rows that cannot be there, retryable `Conflict` if
    /// somebody changed the same rows since this version: find the rows again then.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn commit_delete(
        &mut self,
        rows: RowsByFragment,
        predicate: &str,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<u64> {
        let (snapshot, num_deleted_rows) = self.publish_deletion(rows, predicate, uuid, properties).await?;
        self.move_to(snapshot);
        Ok(num_deleted_rows)
    }

    /// [`Self::commit_delete`], where this handle stays where it is: merges rows with the vectors of this version and
    /// writes deletion files.
    pub(super) async fn publish_deletion(
        &self,
        rows: RowsByFragment,
        predicate: &str,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<(Arc<Snapshot>, u64)> {
        let MergedDeletions { affected, vectors, removed } = deletions::merge(self.snapshot(), rows).await?;
        let num_deleted_rows = affected.values().map(DeletionVector::len).sum();
        let written = deletions::write_later(self.snapshot(), vectors, None, self.durability()).await?;
        let (updated_fragments, uploads) = written;
        let predicate = predicate.to_owned();
        let delete = Delete { updated_fragments, deleted_fragment_ids: removed, predicate };
        let change = self.staged_delete(delete, uuid, properties)?;
        let change = StagedChange { affected: Some(affected), uploads, ..change };
        Ok((self.publish(change).await.into_result()?, num_deleted_rows))
    }

    /// Commits the removal of fragments with all their rows; this handle stays where it is.
    pub(super) async fn publish_removal(
        &self,
        deleted_fragment_ids: Vec<FragmentId>,
        predicate: &str,
        properties: Metadata,
    ) -> Result<Arc<Snapshot>> {
        let predicate = predicate.to_owned();
        let delete = Delete { updated_fragments: Vec::new(), deleted_fragment_ids, predicate };
        self.publish(self.staged_delete(delete, None, properties)?).await.into_result()
    }

    fn staged_delete(
        &self,
        delete: Delete,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<StagedChange> {
        let transaction = staged::transaction(self.version(), uuid, properties, Operation::Delete(delete));
        StagedChange::staged(self.snapshot(), transaction)
    }

    /// Commits rows that go on in fragments that others wrote, and rows that go, and moves to the new version. The
    /// fragments stay whatever becomes of the commit. Idempotent by uuid.
    pub(super) async fn commit_moves(
        &mut self,
        moves: WrittenMoves,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        let staged = moved::stage(self.snapshot(), moves, self.durability()).await?;
        let change = staged.change_without_new(self.snapshot(), uuid, properties)?;
        self.commit_change(change).await
    }

    /// Commits a change of this version and moves to the one that has it.
    pub(super) async fn commit_change(&mut self, change: StagedChange) -> Result<()> {
        let snapshot = self.publish(change).await.into_result()?;
        self.move_to(snapshot);
        Ok(())
    }

    /// Commits a change of this version, with the options of this handle, which stays where it is.
    pub(super) async fn publish(&self, change: StagedChange) -> CommitOutcome {
        super::publish(Arc::clone(self.snapshot()), change, self.commit_options()).await
    }
}

/// One append that adds the fragments of several, in their order, on top of the oldest version that one of them read.
///
/// Their uuids and properties are left behind. Errors: `InvalidInput` without transactions, `Unsupported` for other
/// operations.
pub fn merge_appends(transactions: Vec<Transaction>) -> Result<Transaction> {
    let Some(read_version) = transactions.iter().map(|transaction| transaction.read_version).min() else {
        return Err(Error::invalid_input("No transactions to commit"));
    };
    let mut fragments = Vec::new();
    for transaction in transactions {
        match transaction.operation {
            Operation::Append(append) => fragments.extend(append.fragments),
            other => {
                return Err(Error::unsupported(format!(
                    "Only append transactions are supported in batch commits, found {}",
                    other.name()
                )));
            }
        }
    }
    Ok(staged::transaction(read_version, None, Metadata::new(), Operation::Append(Append { fragments })))
}

/// Checks that files which were written to replace a table have not replaced it before. That a repeated commit finds out
/// by the transaction, unless a cleanup removed the version.
///
/// Errors: `Conflict` if the table has some of these files, `NotFound` if some are gone.
async fn check_unused(newest: &Snapshot, fragments: &[Fragment]) -> Result<()> {
    let versions = locate::list(&newest.store).await?;
    if to_u64(versions.iter().filter(|at| at.version <= newest.version()).count()) == newest.version().0 {
        // Nothing was cleaned up.
        return Ok(());
    }
    let files = || fragments.iter().flat_map(|fragment| &fragment.files);
    let written: HashSet<&str> = files().map(|file| file.path.as_str()).collect();
    let is_written =
        |fragment: &Arc<Fragment>| fragment.files.iter().any(|file| written.contains(file.path.as_str()));
    if newest.manifest.fragments.decode_all().any(|fragment| is_written(&fragment)) {
        return Err(Error::conflict(
            "Commit conflict: the table has the files that were written to replace it. They were committed before, by a \
             version that a cleanup removed",
        ));
    }
    let looks = files().map(|file| {
        async move {
            let (store, path) = newest.locate("data", &file.path, file.base_id)?;
            Ok((!store.exists(&path).await?).then(|| store.full_path(&path)))
        }
        .boxed()
    });
    match runtime::gather(looks.collect()).await?.into_iter().flatten().next() {
        None => Ok(()),
        Some(path) => Err(Error::not_found(format!(
            "The file {path}, which was written to replace the table, is gone: it has to be written again"
        ))),
    }
}

/// The transaction as it will be read, once it has passed the checks of its decoding.
fn checked(transaction: Transaction) -> Result<Transaction> {
    match &transaction.operation {
        Operation::Unknown(number) => {
            return Err(Error::unsupported(format!("Operation {number} is not known to this release")));
        }
        Operation::UpdateConfig(update) => config::check(update)?,
        Operation::Overwrite(overwrite) => config::check_values(overwrite.config_upserts.iter().flatten())?,
        _ => {}
    }
    if transaction.uuid.is_empty() {
        return Err(Error::invalid_input("The transaction has no uuid"));
    }
    Transaction::decode(transaction.encode().into())
        .map_err(|error| Error::invalid_input(format!("This transaction cannot be committed: {error}")))
}
