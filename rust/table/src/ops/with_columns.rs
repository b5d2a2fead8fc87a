//! Columns that are committed together with rows: what a write does whose rows have columns that the table lacks.
//!
//! A handle has them before any version does, so that all verbs read, check and write as if they were there. Its change
//! of rows becomes a `Merge`, the one operation of the format that has a schema and fragments (table format 7.2). That is
//! made on top of each version that the commit tries: what others do to other rows meanwhile does not matter, as without
//! columns; another change of the schema is a retryable conflict.

use std::sync::Arc;

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use pennon_core::schema::Schema;
use pennon_core::transaction::{Merge, Operation, Transaction};
use pennon_core::{Error, ErrorKind, Result};

use crate::dataset::Dataset;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::StagedChange;

impl Dataset {
    /// This version with more columns, null in all rows. The next append, delete, update or merge of rows through the
    /// handle commits them with it, as one version; every other change is `Unsupported`.
    ///
    /// The handle that this is called on stays as it is. Errors: `AlreadyExists` and `SchemaMismatch` for columns that are
    /// there, `InvalidInput` for names that cannot be, columns that cannot be null, and a handle that has such columns;
    /// this or `Unsupported` for structs without members.
    pub fn with_columns(&self, columns: SchemaRef) -> Result<Self> {
        if columns.fields().is_empty() {
            return Err(Error::invalid_input("No columns were given to add"));
        }
        if self.uncommitted_columns().is_some() {
            return Err(Error::invalid_input("The handle has columns already that are not committed"));
        }
        let evolved = self.with_new_columns(&columns)?;
        self.check_null_columns(&evolved.added)?;
        Ok(self.on(self.snapshot().with_columns(evolved.schema, columns)))
    }

    /// Errors: `InvalidInput` for a transaction that was made on another version.
    pub(super) fn check_read_version(&self, transaction: &Transaction) -> Result<()> {
        if transaction.read_version == self.version() {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "The transaction is for version {}; expected {}, that of the handle with columns that are not committed",
            transaction.read_version,
            self.version()
        )))
    }

    /// Errors: `Unsupported` on a handle with columns that are not committed.
    pub(super) fn check_committed(&self, verb: &str) -> Result<()> {
        match self.uncommitted_columns() {
            None => Ok(()),
            Some(_) => Err(Error::unsupported(format!(
                "{verb} cannot add columns in the same version: the handle has some that are not committed"
            ))),
        }
    }

    /// The columns of [`Self::with_columns`].
    pub fn uncommitted_columns(&self) -> Option<&SchemaRef> {
        self.snapshot().uncommitted().map(|uncommitted| &uncommitted.columns)
    }

    /// Those of some columns that this version does not have, as [`Self::with_columns`] adds them. Errors:
    /// `SchemaMismatch` if somebody else has added one of another type.
    pub(crate) fn with_missing_columns(&self, columns: &ArrowSchema) -> Result<Self> {
        let mut missing = Vec::new();
        for field in columns.fields() {
            match self.with_new_columns(&ArrowSchema::new(vec![Arc::clone(field)])) {
                Ok(_) => missing.push(Arc::clone(field)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        if missing.is_empty() {
            Ok(self.clone())
        } else {
            self.with_columns(Arc::new(ArrowSchema::new(missing)))
        }
    }

    /// A transaction that was made on this handle, together with its columns if they are not committed and it does not
    /// have them.
    ///
    /// Errors: `InvalidInput` if it was made on another version; `Unsupported` for another change than one of rows.
    pub fn completed(&self, transaction: Transaction) -> Result<Transaction> {
        let Some(uncommitted) = self.snapshot().uncommitted() else { return Ok(transaction) };
        self.check_read_version(&transaction)?;
        if has_columns(&transaction.operation, self.schema()) {
            return Ok(transaction);
        }
        let manifest = &uncommitted.version.manifest;
        let merge = Merge::with_rows(manifest, self.schema().as_ref().clone(), transaction.operation)?;
        let operation = Operation::Merge(merge);
        Ok(Transaction { operation, ..transaction })
    }
}

/// A change and the version to commit it on, with the columns of the snapshot that it was made on.
pub(super) async fn complete(
    base: Arc<Snapshot>,
    change: StagedChange,
) -> Result<(Arc<Snapshot>, StagedChange)> {
    let Some(uncommitted) = base.uncommitted() else { return Ok((base, change)) };
    let version = Arc::clone(&uncommitted.version);
    if has_columns(&change.transaction.operation, &base.manifest.schema) {
        return Ok((version, change));
    }
    match Merge::check(&change.transaction.operation) {
        Ok(()) => Ok((version, StagedChange { columns: Some(Arc::clone(&base.manifest.schema)), ..change })),
        Err(error) => {
            change.discard().await;
            Err(error)
        }
    }
}

/// Whether an operation commits these columns itself.
fn has_columns(operation: &Operation, schema: &Schema) -> bool {
    matches!(operation, Operation::Merge(merge) if merge.schema.fields == schema.fields)
}
