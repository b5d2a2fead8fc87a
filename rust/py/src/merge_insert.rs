//! Merges of a source into a table.

use std::time::Duration;

use arrow_pyarrow::FromPyArrow;
use arrow_schema::Schema;
use pennon_core::Result;
use pennon_table::{
    ConflictRetries, MergeClauses, MergeOptions, MergeResult, Target, WhenMatched, WhenUnmatchedTarget,
};
use pyo3::prelude::*;

use crate::arrow::Input;
use crate::dataset::Dataset;
use crate::error::to_py;
use crate::given::Given;
use crate::runtime::run;
use crate::transaction::Transaction;

/// Inserted, updated and deleted rows.
pub(crate) type Counts = (u64, u64, u64);

/// What a merge does and how: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MergeRequest {
    on: Vec<String>,
    when_matched: String,
    condition: Option<String>,
    insert: bool,
    delete_unmatched: bool,
    delete_condition: Option<String>,
    write_mode: String,
    conflict_retries: u32,
    retry_timeout: Duration,
    memory_limit: Option<u64>,
    source_in_memory: bool,
    use_index: bool,
    data_storage_version: Option<String>,
    target_bases: Option<Vec<String>>,
    target_all_bases: Option<bool>,
}

impl MergeRequest {
    fn split(self, py: Python<'_>) -> PyResult<(MergeClauses, MergeOptions)> {
        self.convert().map_err(|error| to_py(py, &error))
    }

    fn convert(self) -> Result<(MergeClauses, MergeOptions)> {
        let clauses = MergeClauses {
            on: self.on,
            when_matched: WhenMatched::parse(&self.when_matched, self.condition)?,
            insert: self.insert,
            when_unmatched_target: WhenUnmatchedTarget::new(self.delete_unmatched, self.delete_condition)?,
            write_mode: self.write_mode.parse()?,
        };
        let options = MergeOptions {
            retries: ConflictRetries { count: self.conflict_retries, timeout: self.retry_timeout },
            memory_limit: self.memory_limit.unwrap_or(MergeOptions::default().memory_limit),
            source_in_memory: self.source_in_memory,
            use_index: self.use_index,
            file_version: self.data_storage_version.map(|text| text.parse()).transpose()?,
            target: Target::from_options(self.target_bases, self.target_all_bases)?,
        };
        Ok((clauses, options))
    }
}

pub(crate) fn counts(result: MergeResult) -> Counts {
    (result.num_inserted_rows, result.num_updated_rows, result.num_deleted_rows)
}

/// The names of key columns as the table has them; those of its declared key if none are given.
#[pyfunction]
pub(crate) fn merge_keys(py: Python<'_>, dataset: &Dataset, on: Vec<String>) -> PyResult<Vec<String>> {
    dataset.get(py)?.merge_keys(&on).map_err(|error| to_py(py, &error))
}

/// Merges a source: numbers of rows and new version.
#[pyfunction]
pub(crate) fn merge_insert(
    py: Python<'_>,
    dataset: &Dataset,
    reader: Input,
    request: Given<MergeRequest>,
) -> PyResult<(Counts, Dataset)> {
    let (mut dataset, (clauses, options)) = (dataset.get(py)?, request.0.split(py)?);
    let result = reader.run(py, |reader| dataset.merge_insert(reader, &clauses, &options))?;
    Ok((counts(result), Dataset::wrap(dataset)))
}

/// Writes the files of a merge: numbers of rows and the transaction that would commit them.
#[pyfunction]
pub(crate) fn merge_insert_uncommitted(
    py: Python<'_>,
    dataset: &Dataset,
    reader: Input,
    request: Given<MergeRequest>,
) -> PyResult<(Counts, Transaction)> {
    let (dataset, (clauses, options)) = (dataset.get(py)?, request.0.split(py)?);
    let merge = |reader| dataset.merge_insert_uncommitted(reader, &clauses, &options);
    let (transaction, result) = reader.run(py, merge)?;
    Ok((counts(result), Transaction::wrap(py, transaction)?))
}

/// What a merge would do.
#[pyfunction]
pub(crate) fn explain_merge_insert(
    py: Python<'_>,
    dataset: &Dataset,
    schema: Option<&Bound<'_, PyAny>>,
    request: Given<MergeRequest>,
) -> PyResult<String> {
    let (dataset, (clauses, options)) = (dataset.get(py)?, request.0.split(py)?);
    let schema = schema.map(Schema::from_pyarrow_bound).transpose()?;
    run(py, dataset.explain_merge_insert(&clauses, schema.as_ref(), &options))
}

/// What a merge does and costs, without a commit.
#[pyfunction]
pub(crate) fn analyze_merge_insert(
    py: Python<'_>,
    dataset: &Dataset,
    reader: Input,
    request: Given<MergeRequest>,
) -> PyResult<String> {
    let (dataset, (clauses, options)) = (dataset.get(py)?, request.0.split(py)?);
    reader.run(py, |reader| dataset.analyze_merge_insert(reader, &clauses, &options))
}
