//! Jobs: work on one table that many processes share.
//!
//! [`JobPlan`] -> [`Task`] -> [`TaskResult`] -> one commit. A plan pins a version and the uuid of the transaction that will
//! be committed; its tasks are parts of the version of about as many bytes each. A task is plain data with a JSON form:
//! whoever opens the table at the pinned version can run it, again or at the same time as a twin. A result is small:
//! bitmaps of rows and what the manifest says of files that were written, never rows.
//!
//! | step | file |
//! |---|---|
//! | what is to be done | `work.rs` |
//! | the parts of a version; pure | `divide.rs` |
//! | one task | `task.rs` |
//! | results, published; planned again after a conflict | `commit.rs` |
//! | JSON, both ways | `json/` |
//!
//! Nothing is removed here: the files of a task that ran for nothing are orphans, which cleanup finds. They may belong to
//! a commit whose answer was lost.

mod commit;
mod divide;
mod json;
mod task;
mod work;

use std::sync::Arc;

use arrow_schema::SchemaRef;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DataFile, Timestamp};
use pennon_core::{Error, FragmentId, Result, Version};
use tracing::instrument;

pub use self::commit::JobReport;
pub use self::divide::Division;
use self::divide::FragmentPart;
pub use self::work::{ChangeWork, ColumnsWork, JoinWork, MergeWork, NewTable, ScanWork, Work};
use crate::dataset::Dataset;
use crate::ops::compact::CompactionOptions;
use crate::ops::config::check_values;
use crate::ops::merge_insert::WhenUnmatchedTarget;
use crate::ops::merge_insert::parts::MergedPart;
use crate::ops::verify::Finding;
use crate::runtime;
use crate::scan;
pub use crate::scan::FragmentSlice;
use crate::versions::snapshot::Snapshot;
use crate::write::WrittenFragments;

/// The version and the transaction that a job is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Where the table is.
    pub uri: String,
    /// The version that tasks read; 0 if they read none.
    pub version: Version,
    /// When that version was made: another table at the same place has another time.
    pub made_at: Timestamp,
    /// Identifies the transaction: committing again gives the version that the first commit made.
    pub uuid: String,
    /// Columns that the table gets with what the job commits: see [`Dataset::with_columns`].
    pub columns: Option<SchemaRef>,
}

impl Pin {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            uri: snapshot.store.absolute_uri().to_owned(),
            version: snapshot.version(),
            made_at: snapshot.manifest.timestamp,
            uuid: runtime::uuid().to_string(),
            columns: snapshot.uncommitted().map(|uncommitted| Arc::clone(&uncommitted.columns)),
        }
    }

    /// The version that was pinned, with the columns of the job. Errors: `InvalidInput` for another version.
    pub fn pinned(&self, dataset: &Dataset) -> Result<Dataset> {
        let snapshot = dataset.snapshot();
        let found = (snapshot.version(), snapshot.manifest.timestamp);
        if found == (self.version, self.made_at) {
            return match (&self.columns, dataset.uncommitted_columns()) {
                (Some(columns), None) => dataset.with_columns(Arc::clone(columns)),
                (mine, theirs) if mine.as_ref() == theirs => Ok(dataset.clone()),
                _ => Err(Error::invalid_input(format!(
                    "Job {} is for other columns than those of the handle that are not committed",
                    self.uuid
                ))),
            };
        }
        let text = |(version, at): (Version, Timestamp)| {
            format!("version {version}, made {}.{:09} seconds after 1970", at.seconds, at.nanos)
        };
        Err(Error::invalid_input(format!(
            "Job {} is for {} of {}; found {} of {}",
            self.uuid,
            text((self.version, self.made_at)),
            self.uri,
            text(found),
            snapshot.store.uri()
        )))
    }
}

/// A job that is divided into tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPlan {
    pub(crate) pin: Pin,
    pub(crate) work: Work,
    /// What each task reads, nothing where tasks are given rows; `None` for as many tasks as there will be, which are
    /// given rows.
    pub(crate) tasks: Option<Vec<Vec<FragmentSlice>>>,
    /// Results of the plan before this one that are still right.
    pub(crate) done: Vec<TaskResult>,
}

/// A part of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// What the job is for.
    pub pin: Pin,
    /// What is done.
    pub work: Work,
    /// Its number in the plan, from 0.
    pub number: usize,
    /// Number of tasks, if the plan says it.
    pub of: Option<usize>,
    /// What it reads; nothing if it is given rows.
    pub slices: Vec<FragmentSlice>,
}

/// A file that a task wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its path below the root of the table.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

impl WrittenFile {
    /// Data files of the table's own root.
    fn of<'a>(files: impl Iterator<Item = &'a DataFile>) -> Vec<Self> {
        let own = files.filter(|file| file.base_id.is_none());
        own.map(|file| Self { path: format!("data/{}", file.path), bytes: file.size.unwrap_or(0) }).collect()
    }
}

/// What a task did.
#[derive(Debug, Clone)]
pub struct TaskResult {
    pub(crate) uuid: String,
    pub(crate) version: Version,
    pub(crate) number: usize,
    pub(crate) slices: Vec<FragmentSlice>,
    /// Rows of the version that go, or that go on in what was written.
    pub(crate) rows: RowsByFragment,
    pub(crate) written: Option<WrittenFragments>,
    pub(crate) files: Vec<WrittenFile>,
    /// What a merge found besides, or changes of rows.
    pub(crate) merged: Option<MergedPart>,
    /// What a verification found.
    pub(crate) findings: Vec<Finding>,
}

impl PartialEq for TaskResult {
    fn eq(&self, other: &Self) -> bool {
        let key = |result: &Self| (result.version, result.number, result.rows.clone());
        let written = |result: &Self| result.written.as_ref().map(WrittenFragments::encode);
        self.uuid == other.uuid
            && self.slices == other.slices
            && key(self) == key(other)
            && written(self) == written(other)
            && self.files == other.files
            && self.merged == other.merged
            && self.findings == other.findings
    }
}

impl Dataset {
    /// Divides work on this version into tasks; [`Dataset::plan_scan_job`] divides scans by their filter as well.
    ///
    /// Errors: `InvalidInput` or `NotFound` for what is wrong with the work, before any task runs; `InvalidInput` for a
    /// division into nothing.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub fn plan_job(&self, work: Work, division: Division) -> Result<JobPlan> {
        let tasks = match &work {
            Work::Append => divide::nothing(division)?,
            Work::Merge(merge) => {
                let tasks = divide::nothing(division)?;
                if tasks.is_none() && merge.clauses.when_unmatched_target != WhenUnmatchedTarget::Keep {
                    return Err(Error::invalid_input(
                        "A merge that deletes rows which only the table has needs the number of its tasks: which rows \
                         these are is known when all tasks are done",
                    ));
                }
                tasks
            }
            Work::ChangeRows(changes) if changes.scan.is_none() => divide::nothing(division)?,
            Work::Compact(_) => {
                return Err(Error::invalid_input(
                    "A compaction decides by itself which fragments go together: plan it without a division",
                ));
            }
            Work::Overwrite(_) => {
                return Err(Error::invalid_input(
                    "A job that makes a table is planned without one: JobPlan::new_table",
                ));
            }
            _ => {
                let fragments = self.manifest().fragments.summaries().map(FragmentPart::of);
                Some(divide::divide(fragments, division, work.unit())?)
            }
        };
        work.check(self)?;
        Ok(JobPlan { pin: Pin::of(self.snapshot()), work, tasks, done: Vec::new() })
    }

    /// Divides work on this version into tasks: scans as [`Dataset::plan_scan_job`], all else as [`Dataset::plan_job`].
    pub async fn plan_work(&self, work: Work, division: Division) -> Result<JobPlan> {
        match work {
            Work::Scan(scan) => self.plan_scan_job(scan, division).await,
            work => self.plan_job(work, division),
        }
    }

    /// Divides a scan of this version. Fragments whose statistics say that the filter matches none of their rows are in
    /// no task, and rows before the first and after the last that it can match are in none either.
    ///
    /// Errors: those of [`Dataset::plan_job`]. Where statistics cannot be read, a task reads the whole fragment.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn plan_scan_job(&self, work: Arc<ScanWork>, division: Division) -> Result<JobPlan> {
        let plan = self.plan_job(Work::Scan(Arc::clone(&work)), division)?;
        let Some(filter) = &work.filter else { return Ok(plan) };
        let predicate = scan::predicate(self.snapshot(), filter, work.options(None).blobs)?;
        let Some(spans) = scan::spans(self.snapshot(), predicate).await? else { return Ok(plan) };
        let fragments = self.manifest().fragments.summaries();
        let parts =
            fragments.filter_map(|part| Some(FragmentPart::of(part).at(spans.get(&part.id)?.clone())));
        let tasks = Some(divide::divide(parts, division, plan.work.unit())?);
        Ok(JobPlan { tasks, ..plan })
    }

    /// Divides a compaction of this version: a task for the fragments that go together. Errors: those of
    /// [`Dataset::plan_compaction`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn plan_compaction_job(&self, options: CompactionOptions) -> Result<JobPlan> {
        let fragments = self.plan_compaction(&options).await?;
        let task = |task: Vec<FragmentId>| task.into_iter().map(FragmentSlice::from).collect();
        let tasks = Some(fragments.into_iter().map(task).collect());
        let work = Work::Compact(Arc::new(options));
        Ok(JobPlan { pin: Pin::of(self.snapshot()), work, tasks, done: Vec::new() })
    }
}

impl JobPlan {
    /// Divides the making of a table, or of its whole content, into tasks that are given rows. Errors: `InvalidInput` for
    /// a division into nothing, or by bytes, and for a setting of the config that cannot be.
    pub fn new_table(uri: &str, table: NewTable, division: Division) -> Result<Self> {
        check_values(&table.config)?;
        let pin = Pin {
            uri: uri.to_owned(),
            version: Version(0),
            made_at: Timestamp { seconds: 0, nanos: 0 },
            uuid: runtime::uuid().to_string(),
            columns: None,
        };
        Ok(Self {
            pin,
            work: Work::Overwrite(Arc::new(table)),
            tasks: divide::nothing(division)?,
            done: Vec::new(),
        })
    }

    /// What the job is for.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// What is done.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Number of tasks; `None` for as many as there will be.
    pub fn num_tasks(&self) -> Option<usize> {
        self.tasks.as_ref().map(Vec::len)
    }

    /// A task by its number, from 0. Errors: `InvalidInput` if the plan has fewer.
    pub fn task(&self, number: usize) -> Result<Task> {
        let slices = match &self.tasks {
            None => Vec::new(),
            Some(tasks) => tasks.get(number).cloned().ok_or_else(|| {
                Error::invalid_input(format!("Task {number} was asked for; the job has {}", tasks.len()))
            })?,
        };
        let (pin, work, of) = (self.pin.clone(), self.work.clone(), self.num_tasks());
        Ok(Task { pin, work, number, of, slices })
    }
}

impl TaskResult {
    fn of(task: &Task, rows: RowsByFragment, written: Option<WrittenFragments>) -> Self {
        let Task { pin, number, slices, .. } = task;
        let (uuid, version, slices) = (pin.uuid.clone(), pin.version, slices.clone());
        let fragments = written.iter().flat_map(|written| &written.fragments);
        let files = WrittenFile::of(fragments.flat_map(|fragment| &fragment.files));
        Self {
            uuid,
            version,
            number: *number,
            slices,
            rows,
            written,
            files,
            merged: None,
            findings: Vec::new(),
        }
    }

    /// The number of the task.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Rows that were found, or written where tasks are given rows, or that a merge changes.
    pub fn num_rows(&self) -> u64 {
        match (&self.merged, &self.written) {
            (Some(merged), _) => merged.counts.num_rows(),
            (None, Some(written)) => written.rows,
            (None, None) => self.rows.values().map(DeletionVector::len).sum(),
        }
    }

    /// Bytes of the data files that were written.
    pub fn bytes(&self) -> u64 {
        self.written.as_ref().map_or(0, |written| written.bytes)
    }

    /// The files that the task wrote, for orphans to be named where the job is not committed. Tasks write data files only:
    /// deletion files are written by the commit. Blobs in files of their own go with their data file.
    pub fn files(&self) -> &[WrittenFile] {
        &self.files
    }
}
