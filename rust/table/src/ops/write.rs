//! Create, append, overwrite; and the halves of a distributed write that run on workers.

use std::sync::Arc;

use pennon_core::file::FileVersion;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Append, Operation, Transaction};
use pennon_core::{Error, ErrorKind, Result, Version};
use pennon_datafile::check_writable;
use tracing::instrument;

use crate::commit::{self, CommitOutcome};
use crate::dataset::Dataset;
use crate::session::Session;
use crate::store::{Store, shown};
use crate::versions::resolve;
use crate::write::placement::{self, Placement, Target};
use crate::write::staged::{self, StagedChange};
use crate::write::{BatchReader, WriteMode, WriteOptions, WrittenFragments, fragments, table_types};

impl Dataset {
    /// Writes rows to a table and gives the version that has them.
    ///
    /// Append and overwrite create a table that does not exist. Errors: `AlreadyExists` in mode create,
    /// `SchemaMismatch` "Append with different schema: ..." naming the field, `Conflict` after a concurrent
    /// overwrite. The table is as before after an error, and the files of the attempt are removed.
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn write(data: BatchReader, uri: &str, params: WriteOptions) -> Result<Self> {
        let (store, session) = params.connect.open(uri)?;
        match resolve::newest(&store, &session, None).await {
            Ok(_) if params.mode == WriteMode::Create => Err(commit::already_exists(&store)),
            Ok(snapshot) => {
                let mut dataset = Self::at(snapshot, params.commit.clone());
                dataset.insert(data, params).await?;
                Ok(dataset)
            }
            Err(error) if error.is_not_found() => create(&store, &session, data, params).await,
            Err(error) => Err(error),
        }
    }

    /// Appends to this version, or overwrites it, and moves to the new one.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn insert(&mut self, data: BatchReader, params: WriteOptions) -> Result<()> {
        let mut params = params;
        params.commit.lock = params.commit.lock.or_else(|| self.commit_options().lock.clone());
        let written = self.write_files(data, &params).await?;
        self.commit_written(written, &params).await
    }

    /// Where the files of a write go. Errors: `InvalidInput` for base paths that are not registered or would have to be.
    fn placement(&self, params: &WriteOptions) -> Result<Placement> {
        if !params.initial_bases.is_empty() {
            return Err(Error::invalid_input(
                "Cannot register new bases in a table that exists: add_bases does. Only CREATE mode can",
            ));
        }
        Placement::new(&self.snapshot().store, self.session(), &self.manifest().base_paths, &params.target)
    }

    async fn write_files(&self, data: BatchReader, params: &WriteOptions) -> Result<WrittenFragments> {
        match params.mode {
            WriteMode::Append => self.append_files(data, params).await,
            WriteMode::Overwrite => {
                // A table of an old release gets files that can be written.
                let current =
                    Some(self.manifest().file_version).filter(|&version| check_writable(version).is_ok());
                let version = params.create.file_version.or(current).unwrap_or(FileVersion::STABLE);
                new_fragments(self.placement(params)?, version, data, params).await
            }
            WriteMode::Create => Err(commit::already_exists(&self.snapshot().store)),
        }
    }

    async fn append_files(&self, data: BatchReader, params: &WriteOptions) -> Result<WrittenFragments> {
        let version = self.manifest().version_of_new_files()?;
        let data = table_types::converted(data, self.snapshot().arrow_schema());
        self.schema().check_append(&fragments::schema_of(&data.schema(), version)?)?;
        fragments::write(self.placement(params)?, self.schema(), version, data, params).await
    }

    /// Commits files on top of this version and moves to the new one.
    async fn commit_written(&mut self, written: WrittenFragments, options: &WriteOptions) -> Result<()> {
        let transaction = written.transaction(self.version(), options);
        let base = Arc::clone(self.snapshot());
        let change = StagedChange { uploads: written.uploads, ..StagedChange::staged(&base, transaction)? };
        let snapshot = super::publish(base, change, &options.commit).await.into_result()?;
        self.move_to(snapshot);
        Ok(())
    }

    /// Writes the files of [`Self::write`] and gives the transaction that would commit them.
    ///
    /// A table that does not exist is created by it, whatever the mode. Errors: those of [`Self::write`].
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn write_uncommitted(
        uri: &str,
        data: BatchReader,
        params: WriteOptions,
    ) -> Result<Transaction> {
        let (store, session) = params.connect.open(uri)?;
        match resolve::newest(&store, &session, None).await {
            Ok(snapshot) => Self::at(snapshot, params.commit.clone()).insert_uncommitted(data, params).await,
            Err(error) if error.is_not_found() => {
                Ok(first_version(&store, &session, data, &params).await?.transaction)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the files of [`Self::insert`] and gives the transaction that would commit them on top of this version: if
    /// that has columns which are not committed, [`Self::completed`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn insert_uncommitted(&self, data: BatchReader, params: WriteOptions) -> Result<Transaction> {
        let written = self.write_files(data, &params).await?.arrived(&self.placement(&params)?).await?;
        Ok(written.transaction(self.version(), &params))
    }

    /// Writes the files of an append to this version without committing them: what a worker does.
    ///
    /// Errors: `SchemaMismatch` as for [`Self::write`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn write_fragments(
        &self,
        data: BatchReader,
        params: &WriteOptions,
    ) -> Result<WrittenFragments> {
        self.append_files(data, params).await?.arrived(&self.placement(params)?).await
    }

    /// Writes the files of a new or overwritten table without committing them: what a worker does.
    ///
    /// All workers must be given the same Arrow schema and file version: field ids follow from the schema.
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn write_new_fragments(
        uri: &str,
        data: BatchReader,
        params: &WriteOptions,
    ) -> Result<WrittenFragments> {
        if params.target != Target::Own || !params.initial_bases.is_empty() {
            return Err(Error::unsupported("Workers write the files of a new table below its own root only"));
        }
        let (store, _) = params.connect.open(uri)?;
        let placement = Placement::own(store);
        new_fragments(placement.clone(), version_of_new_table(params), data, params)
            .await?
            .arrived(&placement)
            .await
    }
}

impl WrittenFragments {
    /// What commits them on top of a version, 0 for a table that is created.
    fn transaction(&self, read_version: Version, params: &WriteOptions) -> Transaction {
        let operation = match params.mode {
            WriteMode::Append if read_version != Version(0) => {
                Operation::Append(Append { fragments: self.fragments.clone() })
            }
            // A table that is overwritten keeps its config.
            WriteMode::Overwrite if read_version != Version(0) => self.overwrite(Metadata::new()),
            _ => self.overwrite(params.config.clone()),
        };
        staged::transaction(read_version, params.uuid.clone(), params.transaction_properties(), operation)
    }
}

async fn new_fragments(
    placement: Placement,
    version: FileVersion,
    data: BatchReader,
    params: &WriteOptions,
) -> Result<WrittenFragments> {
    let schema = fragments::schema_of(&data.schema(), version)?;
    fragments::write(placement, &schema, version, data, params).await
}

/// The files of a table that does not exist, and what creates it.
struct FirstVersion {
    placement: Placement,
    written: WrittenFragments,
    transaction: Transaction,
}

async fn first_version(
    store: &Arc<Store>,
    session: &Arc<Session>,
    data: BatchReader,
    params: &WriteOptions,
) -> Result<FirstVersion> {
    let bases = placement::prepare(&params.initial_bases, store, 1)?;
    let placement = Placement::new(store, session, &bases, &params.target)?;
    let written = new_fragments(placement.clone(), version_of_new_table(params), data, params).await?;
    let written = written.arrived(&placement).await?;
    let mut transaction = written.transaction(Version(0), params);
    if let Operation::Overwrite(overwrite) = &mut transaction.operation {
        overwrite.initial_bases = bases;
    }
    Ok(FirstVersion { placement, written, transaction })
}

fn version_of_new_table(params: &WriteOptions) -> FileVersion {
    params.create.file_version.unwrap_or(FileVersion::STABLE)
}

async fn create(
    store: &Arc<Store>,
    session: &Arc<Session>,
    data: BatchReader,
    params: WriteOptions,
) -> Result<Dataset> {
    let FirstVersion { placement, written, transaction } =
        first_version(store, session, data, &params).await?;
    let change = StagedChange::placed(&placement, transaction);
    // The files of an append or overwrite stay if somebody else creates the table meanwhile.
    let (owned, kept) = match params.mode {
        WriteMode::Create => (change, None),
        _ => (StagedChange::from(change.transaction.clone()), Some(change)),
    };
    let outcome = commit::create(store, session, owned, params.create, &params.commit).await;
    let error = match (outcome, kept) {
        (CommitOutcome::NotCommitted(error), Some(kept)) => match error.kind() {
            ErrorKind::AlreadyExists => {
                return append_to_other(store, session, written, kept, params).await;
            }
            _ => {
                kept.discard().await;
                error
            }
        },
        (outcome, _) => return Ok(Dataset::at(outcome.into_result()?, params.commit)),
    };
    Err(error)
}

/// Commits the files of a table that somebody else created meanwhile as the version after theirs.
async fn append_to_other(
    store: &Arc<Store>,
    session: &Arc<Session>,
    written: WrittenFragments,
    change: StagedChange,
    params: WriteOptions,
) -> Result<Dataset> {
    let version = version_of_new_table(&params);
    let newest = match resolve::newest(store, session, None).await {
        Ok(newest) => newest,
        Err(error) => {
            change.discard().await;
            return Err(error);
        }
    };
    let refusal = if !params.initial_bases.is_empty() {
        Some(Error::already_exists(format!(
            "Dataset already exists: {}: it was created meanwhile, with other base paths",
            store.uri()
        )))
    } else if params.mode == WriteMode::Append
        && (newest.manifest.schema.fields != written.schema.fields || newest.manifest.file_version != version)
    {
        Some(Error::schema_mismatch(
            "Append with different schema: the table was created meanwhile with other fields",
        ))
    } else {
        None
    };
    if let Some(refusal) = refusal {
        change.discard().await;
        return Err(refusal);
    }
    let mut dataset = Dataset::at(newest, params.commit.clone());
    dataset.commit_written(written, &params).await?;
    Ok(dataset)
}
