//! Commits of work that was done elsewhere: a transaction, or the fragments that workers wrote.

use std::sync::Arc;

use pennon_core::manifest::Fragment;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Append, Operation, Transaction};
use pennon_core::{Error, Result, Version};

use crate::commit::{self, Change, CommitParams};
use crate::dataset::{self, Dataset};
use crate::session::Session;
use crate::store::Store;
use crate::write::{WriteMode, WrittenFragments};

impl Dataset {
    /// Commits a transaction and gives the version it made.
    ///
    /// Doing it again with the same uuid gives the version the first commit made. A table that does not exist is
    /// created by an `Overwrite`. Errors: `NotFound` for another operation on a table that does not exist,
    /// `Unsupported` for operations other than append, delete, overwrite and restore, `Conflict` by the rules of
    /// table format 8.2.
    pub async fn commit(uri: &str, transaction: Transaction, params: CommitParams) -> Result<Self> {
        supported(&transaction.operation)?;
        let store = Store::open(uri, &params.storage_options)?;
        let session = params.session.clone().unwrap_or_else(|| Session::new(params.cache));
        let newest = dataset::newest(&store, &session, None).await;
        let snapshot = match newest {
            Ok(newest) => commit::commit(newest, Change::from(transaction), &params).await?,
            Err(error)
                if error.is_not_found() && matches!(transaction.operation, Operation::Overwrite(_)) =>
            {
                commit::create(&store, &session, transaction, &params).await?
            }
            Err(error) => return Err(error),
        };
        Ok(Self::at(snapshot, params.durability))
    }

    /// Commits fragments from [`Self::write_fragments`] as an append to this version. Idempotent by uuid.
    pub async fn commit_append(
        &self,
        fragments: Vec<Fragment>,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<Self> {
        self.commit_operation(Operation::Append(Append { fragments }), uuid, properties).await
    }

    /// Commits fragments from [`Self::write_new_fragments`] as an overwrite of this version. Idempotent by uuid.
    pub async fn commit_overwrite(
        &self,
        written: WrittenFragments,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<Self> {
        self.commit_operation(written.overwrite(), uuid, properties).await
    }

    /// Commits fragments from [`Self::write_new_fragments`] as a new table, or in mode overwrite as the next version
    /// of one that exists. Idempotent by uuid.
    ///
    /// Errors: `AlreadyExists` in mode create, `InvalidInput` for mode append.
    pub async fn commit_new(
        uri: &str,
        written: WrittenFragments,
        mode: WriteMode,
        uuid: Option<String>,
        properties: Metadata,
        params: CommitParams,
    ) -> Result<Self> {
        let store = Store::open(uri, &params.storage_options)?;
        let session = params.session.clone().unwrap_or_else(|| Session::new(params.cache));
        let newest = match dataset::newest(&store, &session, None).await {
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
        let transaction = commit::transaction(read_version, uuid, properties, written.overwrite());
        let snapshot = match newest {
            Some(newest) => match commit::find_repeated(&newest, &transaction).await? {
                Some(done) => done,
                None => commit::commit(newest, Change::from(transaction), &params).await?,
            },
            None => commit::create(&store, &session, transaction, &params).await?,
        };
        Ok(Self::at(snapshot, params.durability))
    }

    async fn commit_operation(
        &self,
        operation: Operation,
        uuid: Option<String>,
        properties: Metadata,
    ) -> Result<Self> {
        let transaction = commit::transaction(self.version(), uuid, properties, operation);
        let params = self.commit_params();
        let snapshot =
            commit::commit(Arc::clone(self.snapshot()), Change::from(transaction), &params).await?;
        Ok(Self::at(snapshot, self.durability()))
    }
}

fn supported(operation: &Operation) -> Result<()> {
    use Operation::{Append, Delete, Overwrite, Restore};
    match operation {
        Append(_) | Delete(_) | Overwrite(_) | Restore(_) => Ok(()),
        other => {
            Err(Error::unsupported(format!("Committing the operation {} is not supported yet", other.name())))
        }
    }
}
