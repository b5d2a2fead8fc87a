//! Results of all tasks, published in one commit; and planned again where others changed what was read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DataFile, Fragment, Manifest};
use pennon_core::schema::Metadata;
use pennon_core::transaction::Operation;
use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use super::divide::{self, FragmentPart};
use super::{Division, FragmentSlice, JobPlan, NewTable, Pin, TaskResult, Work};
use crate::commit::CommitStatus;
use crate::dataset::Dataset;
use crate::ops::commit::TransactionOptions;
use crate::ops::compact::RewriteResult;
use crate::ops::merge_insert::MergeResult;
use crate::ops::merge_insert::parts::MergedPart;
use crate::ops::verify::{Depth, Report};
use crate::runtime::gather;
use crate::session::CommitOptions;
use crate::versions::snapshot::Snapshot;
use crate::write::{WriteMode, WrittenFragments, deletions};

/// What a job did.
#[derive(Debug, Clone)]
pub struct JobReport {
    /// The table at the version that the job made.
    pub dataset: Dataset,
    /// Rows that were added, deleted or updated.
    pub num_rows: u64,
    /// The same one by one, of a merge or of changes of rows.
    pub merged: Option<MergeResult>,
    /// What was found, of a verification.
    pub verified: Option<Report>,
}

impl JobPlan {
    /// Publishes the results of all tasks, or reports on a verification, once: again, with the same results or those of
    /// twins, it gives the version that the first time made.
    ///
    /// `dataset` is the table at the pinned version, `None` for a job that makes a table; `properties` are those of the
    /// transaction. `options.commit` says how every kind of job commits, with the lock of `dataset` if it has none, and how
    /// the handle of the report does; what else is in `options` counts for a job that makes or overwrites a table. Of twins
    /// one counts.
    ///
    /// Errors: `InvalidInput` for a result of another plan, or a task without one if the plan says how many there are;
    /// `NotFound` for files of a task that are gone; `AlreadyExists`; retryable `Conflict` if others changed rows since
    /// the pinned version: [`Self::renew`] then.
    #[instrument(level = "debug", skip_all, fields(table = self.pin.uri, version = %self.pin.version))]
    pub async fn commit(
        &self,
        dataset: Option<&Dataset>,
        results: Vec<TaskResult>,
        properties: Metadata,
        options: TransactionOptions,
    ) -> Result<JobReport> {
        if let Work::Scan(_) = &self.work {
            return Err(self.work.wrong_job_call("be committed"));
        }
        let results = self.one_of_each(results)?;
        if let Work::Overwrite(table) = &self.work {
            return self.commit_table(table, results, properties, options).await;
        }
        let Some(dataset) = dataset else {
            return Err(Error::internal("a job was committed without its table"));
        };
        let mut dataset = self.pin.pinned(dataset)?;
        if let Work::Verify = &self.work {
            return verified(dataset, results).await;
        }
        self.check_files(&dataset, &results).await?;
        let lock = options.commit.lock.or_else(|| dataset.commit_options().lock.clone());
        dataset.set_commit_options(CommitOptions { lock, ..options.commit });
        let (num_rows, merged) = self.publish(&mut dataset, results, properties).await?;
        Ok(JobReport { dataset, num_rows, merged, verified: None })
    }

    /// Publishes a table, or all of one, that the tasks wrote.
    async fn commit_table(
        &self,
        table: &NewTable,
        results: Vec<TaskResult>,
        properties: Metadata,
        options: TransactionOptions,
    ) -> Result<JobReport> {
        let mut all = table.empty.clone();
        for written in results.into_iter().filter_map(|result| result.written) {
            all.extend(written)?;
        }
        let mode = if table.must_create { WriteMode::Create } else { WriteMode::Overwrite };
        let options = TransactionOptions { create: table.create, ..options };
        let (uuid, written) = (Some(self.pin.uuid.clone()), (all, table.config.clone()));
        let commit = Dataset::commit_new(&self.pin.uri, written, mode, uuid, properties, options);
        let dataset = commit.await?;
        // Of the version, which a repeated commit may have made with the results of twins.
        let num_rows = dataset.manifest().live_rows();
        Ok(JobReport { dataset, num_rows, merged: None, verified: None })
    }

    /// Publishes a change of the table, which moves to the new version: the number of rows, and the same one by one.
    async fn publish(
        &self,
        dataset: &mut Dataset,
        results: Vec<TaskResult>,
        properties: Metadata,
    ) -> Result<(u64, Option<MergeResult>)> {
        let uuid = self.pin.uuid.clone();
        let mut merged = None;
        let num_rows = match &self.work {
            Work::Append => {
                let written: Vec<_> = results.into_iter().filter_map(|result| result.written).collect();
                let num_rows = written.iter().map(|written| written.rows).sum();
                let fragments = written.into_iter().flat_map(|written| written.fragments).collect();
                let read = Arc::clone(dataset.snapshot());
                dataset.commit_append(fragments, Some(uuid), properties).await?;
                appended_rows(dataset, &read).await.unwrap_or(num_rows)
            }
            Work::Delete { predicate } => {
                let rows = together(&results);
                dataset.commit_delete(rows, predicate, Some(uuid), properties).await?
            }
            Work::Update { assignments, .. } => {
                let rows = together(&results);
                let written: Vec<WrittenFragments> =
                    results.into_iter().filter_map(|result| result.written).collect();
                let num_rows = written.iter().map(|written| written.rows).sum();
                dataset.commit_updated(assignments, rows, written, uuid, properties).await?;
                num_rows
            }
            Work::Merge(merge) => {
                let parts = merged_parts(results)?;
                let commit = dataset.commit_merged(&merge.clauses, &merge.source, parts, uuid, properties);
                merged.insert(commit.await?).num_rows()
            }
            Work::ChangeRows(work) => {
                let parts = merged_parts(results)?;
                let counts = parts.iter().map(|(_, part, _)| part.counts).sum();
                let part = |(rows, part, written): (_, MergedPart, _)| (rows, part.inserted_keys, written);
                let parts = parts.into_iter().map(part).collect();
                let predicate = work.predicate.as_deref();
                dataset.commit_changes(&work.columns(), predicate, parts, uuid, properties).await?;
                merged.insert(counts).num_rows()
            }
            Work::AddColumns(columns) => {
                let schema = columns.new_schema(dataset)?;
                let mut all = WrittenFragments::of(schema, Vec::new());
                results
                    .into_iter()
                    .filter_map(|result| result.written)
                    .try_for_each(|other| all.extend(other))?;
                let num_rows = all.rows;
                dataset.commit_written_columns(all.schema, all.fragments, uuid, properties).await?;
                num_rows
            }
            Work::UpdateColumns(join) => {
                let rows = together(&results);
                let num_rows = rows.values().map(DeletionVector::len).sum();
                let written = results.into_iter().filter_map(|result| result.written);
                let fragments = written.flat_map(|written| written.fragments).collect();
                let columns = join.columns();
                dataset.commit_columns_by_key(&columns, rows, fragments, uuid, properties).await?;
                num_rows
            }
            Work::Compact(options) => {
                let num_rows = results.iter().map(TaskResult::num_rows).sum();
                let rewrites = rewrites(dataset, results);
                dataset.commit_compaction_once(rewrites, options, uuid, properties).await?;
                num_rows
            }
            Work::Scan(_) | Work::Overwrite(_) | Work::Verify => {
                return Err(self.work.wrong_job_call("be committed"));
            }
        };
        Ok((num_rows, merged))
    }

    /// Errors: `NotFound` if a file that a task wrote is gone, unless the job is committed: it may be compacted and
    /// cleaned up by now.
    async fn check_files(&self, dataset: &Dataset, results: &[TaskResult]) -> Result<()> {
        let snapshot = dataset.snapshot();
        let mut calls = Vec::new();
        for result in results {
            for fragment in result.written.iter().flat_map(|written| &written.fragments) {
                for file in new_files(dataset, fragment) {
                    let (store, path) = snapshot.locate("data", &file.path, file.base_id)?;
                    let find = async move {
                        let found = store.exists(&path).await?;
                        Ok((!found).then(|| (result.number, store.full_path(&path))))
                    };
                    calls.push(find.boxed());
                }
            }
        }
        let Some((task, path)) = gather(calls).await?.into_iter().flatten().next() else { return Ok(()) };
        if let CommitStatus::Committed(_) = dataset.commit_status(&self.pin.uuid).await? {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "The file {path} of task {task} is gone: the task has to be run again; if cleanup removed it, the job has to be \
             planned again as well"
        )))
    }

    /// The same job on the newest version: what the results say of fragments that are as they were is kept, tasks are
    /// planned for the others and for those that came. Of a merge nothing is kept: its tasks are given their rows again.
    ///
    /// Errors: `InvalidInput` for results as in [`Self::commit`], for a job that makes a table, and for a predicate or an
    /// expression that does not fit the newest version any more.
    pub fn renew(&self, read: &Dataset, newest: &Dataset, results: Vec<TaskResult>) -> Result<Self> {
        let read = &self.pin.pinned(read)?;
        let results = self.one_of_each(results)?;
        let is_renewable = match &self.work {
            Work::Scan(_) | Work::Append | Work::Overwrite(_) => false,
            Work::Verify | Work::Compact(_) => false,
            Work::Delete { .. } | Work::Update { .. } | Work::Merge(_) => true,
            Work::ChangeRows(work) => work.scan.is_some(),
            Work::AddColumns(_) | Work::UpdateColumns(_) => true,
        };
        if !is_renewable {
            return Err(self.work.wrong_job_call("be planned again: commit it again, or plan a new one"));
        }
        if let Some(key) = self.work.address_key(read) {
            return Err(Error::invalid_input(format!(
                "The key {key} of job {} is the address of a row at version {}, and rows may have moved since: the job \
                 cannot be planned again, only with a new source",
                self.pin.uuid, self.pin.version
            )));
        }
        let newest = &match &self.pin.columns {
            Some(columns) if newest.uncommitted_columns().is_none() => {
                newest.with_missing_columns(columns)?
            }
            None if newest.uncommitted_columns().is_some() => {
                return Err(Error::invalid_input(
                    "The job has no columns, and the handle of the newest version has some that are not committed",
                ));
            }
            _ => newest.clone(),
        };
        self.work.check(newest)?;
        let pin = Pin { uuid: self.pin.uuid.clone(), ..Pin::of(newest.snapshot()) };
        if let Work::Merge(_) = &self.work {
            return Ok(Self { pin, ..self.clone() });
        }
        let (old, new) = (read.manifest(), newest.manifest());
        let is_kept = |result: &TaskResult| {
            old.schema == new.schema
                && old.next_field_id() == new.next_field_id()
                && result.slices.iter().all(|slice| is_same(old, new, slice.fragment))
        };
        let mut done: Vec<TaskResult> = results.into_iter().filter(is_kept).collect();
        // The rest of a fragment of which only a part is kept is done again, so that part has to be as well.
        let planned = self.tasks.as_deref().unwrap_or_default();
        let tasks = planned.iter().chain(self.done.iter().map(|result| &result.slices));
        let all = parts(tasks.flatten());
        loop {
            let kept = parts(done.iter().flat_map(|result| &result.slices));
            let before = done.len();
            done.retain(|result| {
                result.slices.iter().all(|slice| kept.get(&slice.fragment) == all.get(&slice.fragment))
            });
            if done.len() == before {
                break;
            }
        }
        let kept: BTreeSet<FragmentId> =
            done.iter().flat_map(|result| &result.slices).map(|slice| slice.fragment).collect();
        for (number, result) in done.iter_mut().enumerate() {
            (result.version, result.number) = (pin.version, number);
        }
        let others = new.fragments.summaries().filter(|fragment| !kept.contains(&fragment.id));
        let tasks = divide::divide(
            others.map(FragmentPart::of),
            Division::Tasks(planned.len().max(1)),
            self.work.unit(),
        )?;
        Ok(Self { pin, work: self.work.clone(), tasks: Some(tasks), done })
    }

    /// A result of each task, by number, then those that are done. Errors: `InvalidInput`.
    fn one_of_each(&self, results: Vec<TaskResult>) -> Result<Vec<TaskResult>> {
        let mut found = BTreeMap::new();
        for result in results {
            let is_ours = (&result.uuid, result.version) == (&self.pin.uuid, self.pin.version)
                && self.task(result.number).is_ok_and(|task| task.slices == result.slices);
            if !is_ours {
                return Err(Error::invalid_input(format!(
                    "The result of task {} of job {} at version {} is not of this plan: expected {} tasks of job {} at \
                     version {}",
                    result.number,
                    result.uuid,
                    result.version,
                    self.num_tasks().map_or_else(|| "any number of".to_owned(), |tasks| tasks.to_string()),
                    self.pin.uuid,
                    self.pin.version,
                )));
            }
            found.entry(result.number).or_insert(result);
        }
        let tasks = self.num_tasks().unwrap_or_default();
        let mut missing = (0..tasks).filter(|number| !found.contains_key(number));
        if let Some(first) = missing.next() {
            return Err(Error::invalid_input(format!(
                "{} of {tasks} tasks of job {} have no result; the first is task {first}",
                missing.count() + 1,
                self.pin.uuid
            )));
        }
        Ok(found.into_values().chain(self.done.iter().cloned()).collect())
    }
}

/// The data files of a fragment that it did not have at the version that was read.
pub(super) fn new_files<'a>(dataset: &Dataset, fragment: &'a Fragment) -> impl Iterator<Item = &'a DataFile> {
    let old = dataset.manifest().fragment(fragment.id).cloned();
    fragment.files.iter().filter(move |file| {
        let is_same = |old: &DataFile| (&old.path, old.base_id) == (&file.path, file.base_id);
        !old.as_ref().is_some_and(|fragment| fragment.files.iter().any(is_same))
    })
}

/// The rows that the version of a dataset appended, which may be those of a commit before; `None` if it is not known.
async fn appended_rows(dataset: &Dataset, read: &Snapshot) -> Option<u64> {
    let version = dataset.version();
    if version.0 == read.version().0 + 1 {
        let old: BTreeSet<FragmentId> = read.manifest.fragments.ids().collect();
        let new = dataset.manifest().fragments.summaries().filter(|fragment| !old.contains(&fragment.id));
        return Some(new.map(|fragment| fragment.physical_rows).sum());
    }
    if version == read.version() {
        return None;
    }
    match dataset.read_transaction(version).await.ok()??.operation {
        Operation::Append(append) => {
            Some(append.fragments.iter().map(|fragment| fragment.physical_rows).sum())
        }
        _ => None,
    }
}

/// The report of a verification: what the tasks found in the data, and what is found without them.
async fn verified(dataset: Dataset, results: Vec<TaskResult>) -> Result<JobReport> {
    let mut report = dataset.verify(Depth::Rows).await?;
    let num_rows = results.iter().map(TaskResult::num_rows).sum();
    report.findings.extend(results.into_iter().flat_map(|result| result.findings));
    Ok(JobReport { dataset, num_rows, merged: None, verified: Some(report) })
}

/// What each task of a compaction rewrote.
fn rewrites(dataset: &Dataset, results: Vec<TaskResult>) -> Vec<RewriteResult> {
    let rewrite = |result: TaskResult| {
        let original = result.slices.iter().filter_map(|slice| dataset.manifest().fragment(slice.fragment));
        Some(RewriteResult {
            read_version: result.version,
            original_fragments: original.map(|fragment| fragment.as_ref().clone()).collect(),
            new_fragments: result.written?.fragments,
        })
    };
    results.into_iter().filter_map(rewrite).collect()
}

/// What each task of a merge, or of changes of rows, found and wrote. Errors: `InvalidInput` for other results.
fn merged_parts(results: Vec<TaskResult>) -> Result<Vec<(RowsByFragment, MergedPart, WrittenFragments)>> {
    let part = |result: TaskResult| match (result.merged, result.written) {
        (Some(merged), Some(written)) => Ok((result.rows, merged, written)),
        _ => Err(Error::invalid_input(format!(
            "The result of task {} is of another kind of job: expected what it matched and wrote",
            result.number
        ))),
    };
    results.into_iter().map(part).collect()
}

/// The rows of all results.
fn together(results: &[TaskResult]) -> RowsByFragment {
    let mut all = RowsByFragment::new();
    for (id, rows) in results.iter().flat_map(|result| &result.rows) {
        deletions::add(&mut all, *id, rows);
    }
    all
}

/// Whether a fragment is the same in both versions.
fn is_same(old: &Manifest, new: &Manifest, id: FragmentId) -> bool {
    old.fragment(id).is_some_and(|fragment| Some(fragment) == new.fragment(id))
}

/// In how many parts each fragment is.
fn parts<'a>(slices: impl Iterator<Item = &'a FragmentSlice>) -> BTreeMap<FragmentId, usize> {
    let mut parts = BTreeMap::new();
    for slice in slices {
        *parts.entry(slice.fragment).or_insert(0) += 1;
    }
    parts
}
