//! Create, append, overwrite; and the halves of a distributed write that run on workers.

use std::sync::Arc;

use pennon_core::file::FileVersion;
use pennon_core::manifest::BasePath;
use pennon_core::transaction::{Append, Operation, Transaction};
use pennon_core::{Error, ErrorKind, Result, Version};

use crate::commit::{self, Change};
use crate::dataset::{self, Dataset};
use crate::session::Session;
use crate::store::Store;
use crate::write::placement::{self, Placement, Target};
use crate::write::{BatchReader, WriteMode, WriteParams, WrittenFragments, fragments};

impl Dataset {
    /// Writes rows to a table and gives the version that has them.
    ///
    /// Append and overwrite create a table that does not exist. Errors: `AlreadyExists` in mode create,
    /// `SchemaMismatch` "Append with different schema: ..." naming the field, `Conflict` after a concurrent
    /// overwrite. The table is as before after an error, and the files of the attempt are removed.
    pub async fn write(data: BatchReader, uri: &str, params: WriteParams) -> Result<Self> {
        let store = Store::open(uri, &params.storage_options)?;
        let session = params.session();
        match dataset::newest(&store, &session, None).await {
            Ok(_) if params.mode == WriteMode::Create => Err(commit::already_exists(&store)),
            Ok(snapshot) => {
                let mut dataset = Self::at(snapshot, params.durability);
                dataset.insert(data, params).await?;
                Ok(dataset)
            }
            Err(error) if error.is_not_found() => create(&store, &session, data, params).await,
            Err(error) => Err(error),
        }
    }

    /// Appends to this version, or overwrites it, and moves to the new one.
    pub async fn insert(&mut self, data: BatchReader, params: WriteParams) -> Result<()> {
        let written = self.write_files(data, &params).await?;
        self.commit_written(written, &params).await
    }

    /// Where the files of a write go. Errors: `InvalidInput` for base paths that are not registered or would have to be.
    fn placement(&self, params: &WriteParams) -> Result<Placement> {
        if !params.initial_bases.is_empty() {
            return Err(Error::invalid_input(
                "Cannot register new bases in a table that exists: add_bases does. Only CREATE mode can",
            ));
        }
        Placement::new(&self.snapshot().store, self.session(), &self.manifest().base_paths, &params.target)
    }

    async fn write_files(&self, data: BatchReader, params: &WriteParams) -> Result<WrittenFragments> {
        match params.mode {
            WriteMode::Append => self.write_fragments(data, params).await,
            WriteMode::Overwrite => {
                let version = params.file_version.unwrap_or(self.manifest().file_version);
                new_fragments(self.placement(params)?, version, data, params).await
            }
            WriteMode::Create => Err(commit::already_exists(&self.snapshot().store)),
        }
    }

    /// Commits files on top of this version and moves to the new one; removes them if that is not to be.
    async fn commit_written(&mut self, written: WrittenFragments, params: &WriteParams) -> Result<()> {
        let transaction = written.transaction(self.version(), params);
        let base = Arc::clone(self.snapshot());
        match super::publish(base, Change::from(transaction), &params.commit_params()).await {
            Ok(snapshot) => {
                self.move_to(snapshot);
                Ok(())
            }
            Err(error) => {
                give_up(&self.placement(params)?, &written, &error).await;
                Err(error)
            }
        }
    }

    /// Writes the files of [`Self::write`] and gives the transaction that would commit them.
    ///
    /// A table that does not exist is created by it, whatever the mode. Errors: those of [`Self::write`].
    pub async fn write_uncommitted(uri: &str, data: BatchReader, params: WriteParams) -> Result<Transaction> {
        let store = Store::open(uri, &params.storage_options)?;
        let session = params.session();
        match dataset::newest(&store, &session, None).await {
            Ok(snapshot) => Self::at(snapshot, params.durability).insert_uncommitted(data, params).await,
            Err(error) if error.is_not_found() => {
                let version = params.file_version.unwrap_or(FileVersion::STABLE);
                let bases = placement::prepare(&params.initial_bases, &store, 1)?;
                let placement = Placement::new(&store, &session, &bases, &params.target)?;
                let written = new_fragments(placement, version, data, &params).await?;
                let mut transaction = written.transaction(Version(0), &params);
                set_up(&mut transaction, &params, bases);
                Ok(transaction)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the files of [`Self::insert`] and gives the transaction that would commit them on top of this version.
    pub async fn insert_uncommitted(&self, data: BatchReader, params: WriteParams) -> Result<Transaction> {
        let written = self.write_files(data, &params).await?;
        Ok(written.transaction(self.version(), &params))
    }

    /// Writes the files of an append to this version without committing them: what a worker does.
    ///
    /// Errors: `SchemaMismatch` as for [`Self::write`].
    pub async fn write_fragments(&self, data: BatchReader, params: &WriteParams) -> Result<WrittenFragments> {
        let version = self.manifest().file_version;
        self.schema().check_append(&fragments::schema_of(&data.schema(), version)?)?;
        fragments::write(self.placement(params)?, self.schema(), version, data, params).await
    }

    /// Writes the files of a new or overwritten table without committing them: what a worker does.
    ///
    /// All workers must be given the same Arrow schema and file version: field ids follow from the schema.
    pub async fn write_new_fragments(
        uri: &str,
        data: BatchReader,
        params: &WriteParams,
    ) -> Result<WrittenFragments> {
        if params.target != Target::Own || !params.initial_bases.is_empty() {
            return Err(Error::unsupported("Workers write the files of a new table below its own root only"));
        }
        let store = Store::open(uri, &params.storage_options)?;
        let version = params.file_version.unwrap_or(FileVersion::STABLE);
        new_fragments(Placement::own(store), version, data, params).await
    }
}

impl WrittenFragments {
    /// What commits them on top of a version, 0 for a table that is created.
    fn transaction(&self, read_version: Version, params: &WriteParams) -> Transaction {
        let operation = match params.mode {
            WriteMode::Append if read_version != Version(0) => {
                Operation::Append(Append { fragments: self.fragments.clone() })
            }
            _ => self.overwrite(),
        };
        commit::transaction(read_version, params.uuid.clone(), params.transaction_properties(), operation)
    }
}

async fn new_fragments(
    placement: Placement,
    version: FileVersion,
    data: BatchReader,
    params: &WriteParams,
) -> Result<WrittenFragments> {
    let schema = fragments::schema_of(&data.schema(), version)?;
    fragments::write(placement, &schema, version, data, params).await
}

async fn create(
    store: &Arc<Store>,
    session: &Arc<Session>,
    data: BatchReader,
    params: WriteParams,
) -> Result<Dataset> {
    let version = params.file_version.unwrap_or(FileVersion::STABLE);
    let bases = placement::prepare(&params.initial_bases, store, 1)?;
    let placement = Placement::new(store, session, &bases, &params.target)?;
    let written = new_fragments(placement.clone(), version, data, &params).await?;
    let mut transaction = written.transaction(Version(0), &params);
    let based = !bases.is_empty();
    set_up(&mut transaction, &params, bases);
    match commit::create(store, session, transaction, &params.commit_params()).await {
        Ok(snapshot) => Ok(Dataset::at(snapshot, params.durability)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && params.mode != WriteMode::Create => {
            // Somebody else was quicker: the same files become the version after theirs.
            if based {
                placement.remove(&written.fragments).await;
                return Err(Error::already_exists(format!(
                    "{error}: it was created meanwhile, with other base paths"
                )));
            }
            let mut dataset = Dataset::at(dataset::newest(store, session, None).await?, params.durability);
            let same = dataset.schema().fields == written.schema.fields
                && dataset.manifest().file_version == version;
            if params.mode == WriteMode::Append && !same {
                placement.remove(&written.fragments).await;
                return Err(Error::schema_mismatch(
                    "Append with different schema: the table was created meanwhile with other fields",
                ));
            }
            dataset.commit_written(written, &params).await?;
            Ok(dataset)
        }
        Err(error) => {
            give_up(&placement, &written, &error).await;
            Err(error)
        }
    }
}

/// What only a table that is created gets.
fn set_up(transaction: &mut Transaction, params: &WriteParams, bases: Vec<BasePath>) {
    if let Operation::Overwrite(overwrite) = &mut transaction.operation {
        overwrite.initial_bases = bases;
        overwrite.config_upserts = (!params.config.is_empty()).then(|| params.config.clone());
    }
}

/// Removes the files of a commit that certainly did not happen.
async fn give_up(placement: &Placement, written: &WrittenFragments, error: &Error) {
    if super::is_certain(error) {
        placement.remove(&written.fragments).await;
    }
}
