//! One task: what a worker does with a table that it opened at the pinned version.

use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::schema::Schema;
use pennon_core::{Error, Result};
use tracing::instrument;

use super::{Task, TaskResult, Work};
use crate::dataset::Dataset;
use crate::scan::ScanOptions;
use crate::write::{BatchReader, WriteOptions, WrittenFragments};

impl Task {
    /// What it reads, of a task of a scan. Errors: `InvalidInput` unless it belongs to a scan of this version.
    pub fn scan_options(&self, dataset: &Dataset) -> Result<ScanOptions> {
        self.pin.check(dataset.snapshot())?;
        match &self.work {
            Work::Scan(scan) => scan.options(Some(self.slices.clone())),
            other => Err(other.wrong_call("read rows for you")),
        }
    }

    /// Runs a task that reads its part of the table, and commits nothing.
    ///
    /// Errors: `InvalidInput` for another version or table than the plan's, or a task that is given rows; those of
    /// reading and writing. Files that were written are removed then.
    #[instrument(level = "debug", skip_all, fields(table = dataset.uri(), task = self.number, of = self.of))]
    pub async fn run(&self, dataset: &Dataset) -> Result<TaskResult> {
        self.pin.check(dataset.snapshot())?;
        match &self.work {
            Work::Delete { predicate } => {
                let rows = dataset.matching_rows(predicate, Some(self.slices.clone())).await?;
                Ok(TaskResult::of(self, rows, None))
            }
            Work::Update { assignments, predicate } => {
                let predicate = predicate.as_deref().unwrap_or("true");
                let rows = dataset.matching_rows(predicate, Some(self.slices.clone())).await?;
                let written = dataset.write_updated(assignments, rows.clone()).await?;
                Ok(TaskResult::of(self, rows, Some(written)))
            }
            Work::Scan(_) => Err(self.work.wrong_call("be run: read its batches")),
            Work::Append | Work::Overwrite(_) => Err(self.work.wrong_call("be run without rows")),
        }
    }

    /// Writes rows of a task that is given them, and commits nothing. Of `params` the sizes of files and pages, blobs,
    /// where files go, and the durability count.
    ///
    /// Errors: `InvalidInput` for a task that reads the table, `SchemaMismatch` for other columns than the plan's, those
    /// of writing. Files that were written are removed then.
    #[instrument(level = "debug", skip_all, fields(table = self.pin.uri, task = self.number, of = self.of))]
    pub async fn write(
        &self,
        dataset: Option<&Dataset>,
        data: BatchReader,
        mut params: WriteOptions,
    ) -> Result<TaskResult> {
        let written = match (&self.work, dataset) {
            (Work::Append, Some(dataset)) => {
                self.pin.check(dataset.snapshot())?;
                dataset.write_fragments(data, &params).await?
            }
            (Work::Append, None) => return Err(Error::internal("an append was given no table")),
            (Work::Overwrite(table), _) => {
                params.create = table.create;
                let found = WrittenFragments::empty(&data.schema(), table.create.file_version)?;
                check_schema(&table.empty.schema, &found.schema)?;
                Dataset::write_new_fragments(&self.pin.uri, data, &params).await?
            }
            (other, _) => return Err(other.wrong_call("be given rows")),
        };
        Ok(TaskResult::of(self, RowsByFragment::new(), Some(written)))
    }
}

fn check_schema(planned: &Schema, found: &Schema) -> Result<()> {
    if planned.fields == found.fields {
        return Ok(());
    }
    let names = |schema: &Schema| {
        let fields = schema.fields.iter().map(|field| format!("{}: {}", field.name, field.logical_type));
        fields.collect::<Vec<_>>().join(", ")
    };
    Err(Error::schema_mismatch(format!(
        "The task was given other columns than the job was planned with: expected {}; found {}",
        names(planned),
        names(found)
    )))
}
