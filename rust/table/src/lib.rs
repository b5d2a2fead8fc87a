//! Lance tables: stores, versions and commits, scans and operations.
//!
//! Every operation is the same walk: read one [`Snapshot`], decide in plain values, write new files, hand a
//! [`Transaction`](pennon_core::transaction::Transaction) to the one commit loop ([`commit`]). Nothing else ever
//! writes a manifest.
//!
//! # A tour
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
//! use futures::TryStreamExt;
//! use pennon_table::scan::ScanOptions;
//! use pennon_table::{
//!     BatchReader, Dataset, FeedOptions, FeedPoint, MergeClauses, MergeOptions, UpdateOptions, VersionRef, WhenMatched,
//!     WriteMode, WriteOptions,
//! };
//!
//! // Anything that reads record batches goes in.
//! fn rows(ids: &[i64], cities: &[&str]) -> pennon_core::Result<BatchReader> {
//!     let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
//!     let cities: ArrayRef = Arc::new(StringArray::from(cities.to_vec()));
//!     let batch = RecordBatch::try_from_iter([("id", ids), ("city", cities)])
//!         .map_err(|error| pennon_core::Error::invalid_input(error.to_string()))?;
//!     Ok(Box::new(RecordBatchIterator::new([Ok(batch.clone())], batch.schema())))
//! }
//!
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! // Version 1: a new table. Its rows get ids that they keep.
//! let data = rows(&[1, 2], &["Oslo", "Rome"])?;
//! let mut table = Dataset::write(data, "memory://tour/cities", WriteOptions::default()).await?;
//! // Version 2: more rows. A handle moves to the version it made.
//! let append = WriteOptions { mode: WriteMode::Append, ..WriteOptions::default() };
//! table.insert(rows(&[3], &["Lima"])?, append).await?;
//! // Version 3: new values for some rows.
//! let assignments = [("city".to_owned(), "upper(city)".to_owned())];
//! table.update(&assignments, Some("id = 1"), UpdateOptions::default()).await?;
//! // Version 4: rows with a known key are updated, the others inserted.
//! let clauses = MergeClauses {
//!     on: vec!["id".to_owned()],
//!     when_matched: WhenMatched::UpdateAll,
//!     insert: true,
//!     ..MergeClauses::default()
//! };
//! let source = rows(&[2, 4], &["Roma", "Baku"])?;
//! let merged = table.merge_insert(source, &clauses, &MergeOptions::default()).await?;
//! assert_eq!((merged.num_updated_rows, merged.num_inserted_rows), (1, 1));
//!
//! // Scans have columns, SQL filters and limits. Ids are a column like any other.
//! let options = ScanOptions { filter: Some("city >= 'L'".into()), with_row_id: true, ..ScanOptions::default() };
//! let batches: Vec<RecordBatch> = table.scan(&options)?.stream().try_collect().await?;
//! assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
//!
//! // Versions stay: the table as it was before the update.
//! let before = table.checkout(VersionRef::Number(2)).await?;
//! assert_eq!(before.count_rows(Some("city = 'Oslo'")).await?, 1);
//!
//! // What happened since: two updates and an insertion.
//! let feed = table.changes(FeedPoint::Version(VersionRef::Number(2)), None, &FeedOptions::default()).await?;
//! let changes: Vec<RecordBatch> = feed.stream().try_collect().await?;
//! assert_eq!(changes.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
//! # Ok::<(), pennon_core::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate needs a multi-threaded tokio runtime with time: files are read, decoded and written on its blocking
//! threads, except for a few rows of local files, which are read on the thread that asks. It starts none itself and
//! keeps no global state but the registry of `memory://` tables, the turns of commits ([`runtime`]), the clients of
//! clouds, which share connections and budgets, and a few manifests.

mod batches;
pub(crate) mod blobs;
pub mod commit;
pub mod dataset;
pub mod expr;
pub mod file;
pub(crate) mod indices;
mod inventory;
pub mod jobs;
pub(crate) mod json;
pub mod ops;
pub mod refs;
pub mod runtime;
pub mod scan;
pub mod session;
mod spill;
pub mod store;
pub mod versions;
pub mod write;

pub use commit::{CommitOutcome, CommitStatus};
pub use dataset::{Dataset, OpenOptions, VersionInfo};
pub use ops::ConflictRetries;
pub use ops::change_feed::{ChangeFeed, ColumnsOf, FeedMode, FeedOptions, FeedPart, FeedPoint, Images};
pub use ops::commit::{CommitMode, TransactionOptions};
pub use ops::compact;
pub use ops::delete::DeleteResult;
pub use ops::merge_insert::{
    MergeClauses, MergeOptions, MergeResult, MergeWriteMode, WhenMatched, WhenUnmatchedTarget,
};
pub use ops::update::{UpdateOptions, UpdateResult, UpdatedFragment};
pub use ops::{FindRows, NewColumns};
pub use refs::{Branch, Branches, RefOrder, Tag, Tags};
pub use runtime::{Env, Observer, StepCounts, observed, processors, set_processors};
pub use session::{CacheSizes, CommitLock, CommitOptions, ConnectOptions, CreateOptions, HeldLock, Session};
pub use store::{Durability, RequestLimits, StorageOptions, Store};
pub use versions::{Snapshot, VersionRef};
pub use write::{BatchReader, StagedChange, Target, WriteMode, WriteOptions, WrittenFragments};
