//! One task: what a worker does with a table that it opened at the pinned version.

use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::Fragment;
use pennon_core::schema::Schema;
use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use super::commit::new_files;
use super::{ChangeWork, ColumnsWork, Task, TaskResult, Work, WrittenFile};
use crate::dataset::Dataset;
use crate::ops::NewColumns;
use crate::ops::merge_insert::MergeResult;
use crate::ops::merge_insert::parts::{self, MergedPart};
use crate::scan::ScanOptions;
use crate::write::{BatchReader, WriteOptions, WrittenFragments};

impl Task {
    /// What it reads, of a task of a scan, or of one that changes rows, which gives addresses as well.
    ///
    /// Errors: `InvalidInput` unless it belongs to such a job on this version.
    pub fn scan_options(&self, dataset: &Dataset) -> Result<ScanOptions> {
        self.pin.pinned(dataset)?;
        match &self.work {
            Work::Scan(scan) => Ok(scan.options(Some(self.slices.clone()))),
            Work::ChangeRows(work) => match &work.scan {
                Some(scan) => {
                    let options = scan.options(Some(self.slices.clone()));
                    Ok(ScanOptions { with_row_address: true, ..options })
                }
                None => Err(self.work.wrong_call("read rows for you: the job was planned without a scan")),
            },
            other => Err(other.wrong_call("read rows for you")),
        }
    }

    /// Runs a task that reads its part of the table, and commits nothing.
    ///
    /// Errors: `InvalidInput` for another version or table than the plan's, or a task that is given rows; those of
    /// reading and writing. Files that were written are removed then.
    #[instrument(level = "debug", skip_all, fields(table = dataset.uri(), task = self.number, of = self.of))]
    pub async fn run(&self, dataset: &Dataset) -> Result<TaskResult> {
        let dataset = &self.pin.pinned(dataset)?;
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
            Work::AddColumns(columns) => match columns.as_ref() {
                ColumnsWork::Expressions { expressions, batch_size } => {
                    let new = NewColumns::Expressions(expressions.clone());
                    let written = dataset.write_columns(self.fragments(dataset)?, new, *batch_size).await?;
                    Ok(self.with_columns(dataset, written))
                }
                ColumnsWork::Values(_) | ColumnsWork::Join(_) => {
                    Err(self.work.wrong_call("be run without values"))
                }
            },
            Work::Verify => {
                let findings = dataset.verify_data(&self.fragment_ids()).await?;
                let rows = self.fragments(dataset)?.iter().map(|fragment| fragment.live_rows()).sum();
                let read = self.with_fragments(dataset, Vec::new(), dataset.schema().as_ref().clone(), rows);
                Ok(TaskResult { findings, ..read })
            }
            Work::Compact(options) => {
                let done = dataset.compact_fragments(&self.fragment_ids(), options).await?;
                let rows = self.fragments(dataset)?.iter().map(|fragment| fragment.live_rows()).sum();
                Ok(self.with_fragments(dataset, done.new_fragments, dataset.schema().as_ref().clone(), rows))
            }
            Work::Scan(_) => Err(self.work.wrong_call("be run: read its batches")),
            Work::Append
            | Work::Overwrite(_)
            | Work::Merge(_)
            | Work::ChangeRows(_)
            | Work::UpdateColumns(_) => Err(self.work.wrong_call("be run without rows")),
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
        let pinned = dataset.map(|dataset| self.pin.pinned(dataset)).transpose()?;
        let written = match (&self.work, &pinned) {
            (Work::Append, Some(dataset)) => dataset.write_fragments(data, &params).await?,
            (Work::Merge(merge), Some(dataset)) => {
                check_columns(&merge.source, &data.schema())?;
                let (options, shares) = (merge.options(), self.of.unwrap_or(1));
                let merge = dataset.write_merged(data, &merge.clauses, &options, &params, shares);
                let (rows, part, written) = merge.await?;
                return Ok(TaskResult { merged: Some(part), ..TaskResult::of(self, rows, Some(written)) });
            }
            (Work::ChangeRows(work), Some(dataset)) => {
                check_columns(&work.changes, &data.schema())?;
                let done =
                    dataset.write_changes(data, &work.columns(), &params, self.of.unwrap_or(1)).await?;
                self.check_ownership(work, &done.rows)?;
                let counts = MergeResult {
                    num_inserted_rows: done.num_inserted,
                    num_updated_rows: done.num_updated,
                    num_deleted_rows: done.num_deleted,
                };
                let part = MergedPart { inserted_keys: done.inserted_keys, counts, ..MergedPart::default() };
                let result = TaskResult::of(self, done.rows, Some(done.written));
                return Ok(TaskResult { merged: Some(part), ..result });
            }
            (Work::AddColumns(columns), Some(dataset)) => {
                let fragments = self.fragments(dataset)?;
                let written = match columns.as_ref() {
                    ColumnsWork::Values(schema) => {
                        check_columns(schema, &data.schema())?;
                        dataset.write_columns(fragments, NewColumns::Values(data), None).await?
                    }
                    ColumnsWork::Join(join) => {
                        check_columns(&join.source, &data.schema())?;
                        dataset.join_columns(fragments, data, &join.left_on, &join.right_on).await?
                    }
                    ColumnsWork::Expressions { .. } => return Err(self.work.wrong_call("be given values")),
                };
                return Ok(self.with_columns(dataset, written));
            }
            (Work::UpdateColumns(join), Some(dataset)) => {
                check_columns(&join.source, &data.schema())?;
                let ids = self.fragment_ids();
                let written = dataset.write_columns_by_key(&ids, data, &join.left_on, &join.right_on, false);
                let (update, rows) = written.await?;
                let fragments = update.map(|update| update.updated_fragments).unwrap_or_default();
                let count = rows.values().map(DeletionVector::len).sum();
                let result =
                    self.with_fragments(dataset, fragments, dataset.schema().as_ref().clone(), count);
                return Ok(TaskResult { rows, ..result });
            }
            (Work::Append | Work::Merge(_) | Work::ChangeRows(_), None)
            | (Work::AddColumns(_) | Work::UpdateColumns(_), None) => {
                return Err(self.work.wrong_call("be run without the table at its version"));
            }
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

impl Task {
    fn fragment_ids(&self) -> Vec<FragmentId> {
        self.slices.iter().map(|slice| slice.fragment).collect()
    }

    fn fragments(&self, dataset: &Dataset) -> Result<Vec<Arc<Fragment>>> {
        self.fragment_ids().into_iter().map(|id| dataset.manifest().require_fragment(id).cloned()).collect()
    }

    /// Errors: `InvalidInput` for changes of rows in fragments that the task does not read, where tasks read some.
    fn check_ownership(&self, work: &ChangeWork, rows: &RowsByFragment) -> Result<()> {
        let is_read = |id: &FragmentId| self.slices.iter().any(|slice| slice.fragment == *id);
        match rows.keys().find(|id| !is_read(id)) {
            Some(id) if work.scan.is_some() => Err(Error::invalid_input(format!(
                "Task {} was given changes of rows of fragment {id}, which it does not read: expected rows of fragments {}",
                self.number,
                self.slices.iter().map(|slice| slice.fragment.to_string()).collect::<Vec<_>>().join(", ")
            ))),
            _ => Ok(()),
        }
    }

    /// The result of a task that gave all rows of its fragments new columns.
    fn with_columns(&self, dataset: &Dataset, (fragments, schema): (Vec<Fragment>, Schema)) -> TaskResult {
        let rows = fragments.iter().map(Fragment::live_rows).sum();
        self.with_fragments(dataset, fragments, schema, rows)
    }

    /// The result of a task that gave fragments new files, or wrote fragments.
    fn with_fragments(
        &self,
        dataset: &Dataset,
        fragments: Vec<Fragment>,
        schema: Schema,
        rows: u64,
    ) -> TaskResult {
        let files = WrittenFile::of(fragments.iter().flat_map(|fragment| new_files(dataset, fragment)));
        let bytes = files.iter().map(|file| file.bytes).sum();
        let written = WrittenFragments { rows, bytes, ..WrittenFragments::of(schema, fragments) };
        TaskResult { files, ..TaskResult::of(self, RowsByFragment::new(), Some(written)) }
    }

    /// Those of all rows of a merge's source that belong to this task: for tasks that are each given all of them.
    ///
    /// Errors: `InvalidInput` for a task of another job, or of one that does not say how many tasks it has; those of
    /// [`Self::write`] about columns.
    pub fn part_of(&self, dataset: &Dataset, source: BatchReader) -> Result<BatchReader> {
        match (&self.work, self.of) {
            (Work::Merge(merge), Some(of)) => {
                check_columns(&merge.source, &source.schema())?;
                parts::part_of(self.pin.pinned(dataset)?.snapshot(), &merge.clauses, source, self.number, of)
            }
            (Work::Merge(_), None) => Err(Error::invalid_input(
                "The source of a merge can be divided among its tasks only if the plan says how many there are",
            )),
            (other, _) => Err(other.wrong_call("choose among rows by their keys")),
        }
    }
}

fn check_columns(planned: &ArrowSchema, found: &ArrowSchema) -> Result<()> {
    let columns = |schema: &ArrowSchema| {
        let fields = schema.fields().iter();
        fields.map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
    };
    if columns(planned) == columns(found) {
        return Ok(());
    }
    let names = |schema: &ArrowSchema| {
        let fields = schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
        fields.collect::<Vec<_>>().join(", ")
    };
    Err(other_columns(&names(planned), &names(found)))
}

fn other_columns(planned: &str, found: &str) -> Error {
    Error::schema_mismatch(format!(
        "The task was given other columns than the job was planned with: expected {planned}; found {found}"
    ))
}

fn check_schema(planned: &Schema, found: &Schema) -> Result<()> {
    if planned.fields == found.fields {
        return Ok(());
    }
    let names = |schema: &Schema| {
        let fields = schema.fields.iter().map(|field| format!("{}: {}", field.name, field.logical_type));
        fields.collect::<Vec<_>>().join(", ")
    };
    Err(other_columns(&names(planned), &names(found)))
}
