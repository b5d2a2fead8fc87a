//! Lance tables: stores, versions and commits, scans and operations.
//!
//! Every operation is the same walk: read one [`Snapshot`], decide in plain values, write new files, hand a
//! [`Transaction`](pennon_core::transaction::Transaction) to the one commit loop ([`commit`]). Nothing else ever
//! writes a manifest.
//!
//! The crate needs a multi-threaded tokio runtime with time: files are read, decoded and written on its blocking threads.
//! It starts none itself and keeps no global state but the registry of `memory://` tables, the turns of commits
//! ([`runtime`]) and a few manifests.

pub(crate) mod blobs;
pub mod commit;
pub mod dataset;
pub mod expr;
pub mod file;
mod inventory;
pub mod ops;
pub mod refs;
pub mod runtime;
pub mod scan;
pub mod session;
pub mod store;
pub mod versions;
pub mod write;

pub use commit::{CommitOutcome, CommitStatus};
pub use dataset::{Dataset, OpenOptions, VersionInfo};
pub use ops::NewColumns;
pub use ops::change_feed::{ChangeFeed, FeedMode, FeedOptions, FeedPoint, Images};
pub use ops::commit::{CommitMode, TransactionOptions};
pub use ops::compact;
pub use ops::delete::{DeleteOptions, DeleteResult, FragmentRows};
pub use ops::merge_insert::{
    MergeClauses, MergeOptions, MergeResult, MergeWriteMode, WhenMatched, WhenUnmatchedTarget,
};
pub use ops::update::{UpdateOptions, UpdateResult, UpdatedFragment};
pub use refs::{Branch, Branches, RefOrder, Tag, Tags};
pub use runtime::Env;
pub use session::{CacheSizes, CommitLock, CommitOptions, ConnectOptions, CreateOptions, HeldLock, Session};
pub use store::{Durability, StorageOptions, Store};
pub use versions::{Snapshot, VersionRef};
pub use write::{BatchReader, StagedChange, Target, WriteMode, WriteOptions, WrittenFragments};
