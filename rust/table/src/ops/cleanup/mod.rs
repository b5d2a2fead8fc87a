//! Cleanup: versions that are not wanted any more go, with the files that only they refer to (table format 11.1).
//!
//! | step | why in this order |
//! |---|---|
//! | list files, then read all versions, tags, branches, known clones | `crate::inventory` |
//! | decide for every file | `crate::inventory`, from values |
//! | say which versions go | who makes a tag later waits for the end of it |
//! | read tags, branches and restores once more | reading all versions took long, and these keep some |
//! | delete the manifests of old versions, sync their directory | no version may be left without its files |
//! | forget the old versions in the manifest store, if there is one | after their manifests |
//! | read restores, versions, branches and clones that came meanwhile | they may refer to files of an old version |
//! | delete the files | |
//!
//! When it is interrupted, files stay that no version refers to: a later cleanup treats them as unverified, so they go
//! when they are seven days old, or with `delete_unverified`.

mod auto;
mod remove;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use auto::after_commit;
pub(super) use auto::check as check_setting;
use futures::FutureExt;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Timestamp;
use pennon_core::manifest::paths::{self, TableFile};
use pennon_core::{Error, Result, Version};
use tracing::{instrument, warn};

use self::remove::Pace;
use crate::dataset::Dataset;
use crate::inventory::{self, Inventory, Policy, UnreachableClones};
pub use crate::inventory::{Disposition, Reason};
use crate::refs;
use crate::runtime;
use crate::store::{Durability, ListedFile};
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};

/// Which versions are removed, and how. A version is removed if it meets every condition that is given; the version of
/// the handle, those after it, tagged ones and those that a branch was made from stay in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupOptions {
    /// Only versions older than this.
    pub older_than: Option<Duration>,
    /// Only versions that are not among the last so many.
    pub retain_versions: Option<u64>,
    /// Only these versions.
    pub versions: Option<Vec<u64>>,
    /// Whether files that no version refers to go at any age, not only after seven days. Not while others write.
    pub delete_unverified: bool,
    /// Whether a tagged version that meets the conditions is an error.
    pub error_if_tagged_old_versions: bool,
    /// Files deleted in a second, at most; `None`: as many as the store takes. With a limit each file is a request of its
    /// own: none deletes many.
    pub delete_rate_limit: Option<u64>,
    /// Files deleted at a time, at most; `None`: as many as other requests of one operation, and on object stores by
    /// requests for many files. With a limit each file is a request of its own.
    pub delete_concurrency: Option<u64>,
}

impl Default for CleanupOptions {
    /// Versions older than 14 days.
    fn default() -> Self {
        Self {
            older_than: Some(Duration::from_secs(14 * 24 * 3600)),
            retain_versions: None,
            versions: None,
            delete_unverified: false,
            error_if_tagged_old_versions: true,
            delete_rate_limit: None,
            delete_concurrency: None,
        }
    }
}

/// What went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CleanupStats {
    /// Bytes of all files.
    pub bytes_removed: u64,
    /// Versions.
    pub old_versions: u64,
    /// Data files.
    pub data_files_removed: u64,
    /// Transaction files.
    pub transaction_files_removed: u64,
    /// Files of indices.
    pub index_files_removed: u64,
    /// Deletion files.
    pub deletion_files_removed: u64,
    /// Files that could not be deleted; they stay without a version that refers to them.
    pub failed_deletes: u64,
}

impl CleanupStats {
    fn count(&mut self, disposition: &Disposition) {
        self.bytes_removed = self.bytes_removed.saturating_add(disposition.file.size);
        match disposition.found {
            Some(TableFile::Manifest(_)) if disposition.reason == Reason::OldVersion => {
                self.old_versions += 1
            }
            Some(TableFile::Data { .. }) => self.data_files_removed += 1,
            Some(TableFile::Transaction) => self.transaction_files_removed += 1,
            Some(TableFile::Index(_)) => self.index_files_removed += 1,
            Some(TableFile::Deletion) => self.deletion_files_removed += 1,
            _ => {}
        }
    }
}

/// What a cleanup would do.
#[derive(Debug, Clone)]
pub struct CleanupExplanation {
    /// Version of the handle.
    pub read_version: Version,
    /// What would go.
    pub stats: CleanupStats,
    /// Every file in the table's folders, by path.
    pub files: Vec<Disposition>,
    /// Branches that were made from versions of this one, and those versions.
    pub branches: Vec<(String, Version)>,
    /// What is worth knowing besides.
    pub warnings: Vec<String>,
}

impl Dataset {
    /// Removes old versions and what only they refer to.
    ///
    /// A known clone keeps what it refers to. One without a manifest where its record says it is, or without a directory
    /// there, counts as gone, with a warning in the log: mount the disk of a clone before its source is cleaned up.
    ///
    /// Errors: `InvalidInput` for a limit of 0 and for tagged versions in the range, unless those are to be left out;
    /// `Unsupported` for a folder of the table that is a symbolic link; those of reading, if any version of the table, its
    /// branches or its known clones cannot be read: nothing is removed then. That of a clone names its record, a file to
    /// remove if the clone is gone for good.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn cleanup_old_versions(&self, options: &CleanupOptions) -> Result<CleanupStats> {
        run(self.snapshot(), options).await
    }

    /// Tells for every file whether it would go, and why, and removes nothing. Errors as for the removal.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn explain_cleanup_old_versions(&self, options: &CleanupOptions) -> Result<CleanupExplanation> {
        let found = look(self.snapshot(), options).await?;
        let mut files: Vec<Disposition> =
            found.files.into_iter().map(|file| found.plan.disposition(file)).collect();
        files.sort_by(|a, b| a.file.path.cmp(&b.file.path));
        let mut stats = CleanupStats::default();
        files
            .iter()
            .filter(|disposition| disposition.reason.removes())
            .for_each(|disposition| stats.count(disposition));
        let (branches, warnings) = (found.branches, found.warnings);
        Ok(CleanupExplanation { read_version: self.version(), stats, files, branches, warnings })
    }
}

async fn look(snapshot: &Arc<Snapshot>, options: &CleanupOptions) -> Result<Inventory> {
    snapshot.store.refuse_links(inventory::FOLDERS)?;
    if let Some(branch) = &snapshot.manifest.branch {
        refs::refuse_links(refs::main_store(snapshot)?.as_ref(), branch)?;
    }
    let policy = |now, versions: &[Located]| policy(options, now, snapshot.version(), versions);
    let (delete_unverified, clones) = (options.delete_unverified, UnreachableClones::Refuse);
    let mut found = inventory::gather(snapshot, delete_unverified, clones, policy, &mut |_, _| {}).await?;
    if !found.damaged.is_empty() {
        // What such a version refers to is not known.
        return Err(found.damaged.swap_remove(0).error);
    }
    if !found.damaged_references.is_empty() {
        return Err(found.damaged_references.swap_remove(0));
    }
    let tags = found.plan.blocking_tags();
    if options.error_if_tagged_old_versions && !tags.is_empty() {
        let named: Vec<String> = tags.iter().map(|(tag, version)| format!("{tag:?}: {version}")).collect();
        return Err(Error::invalid_input(format!(
            "Cleanup error: {} tagged version(s) have been marked for cleanup. Set \
             error_if_tagged_old_versions=False to keep them, or delete the tag(s) {{{}}}",
            tags.len(),
            named.join(", ")
        )));
    }
    Ok(found)
}

async fn run(snapshot: &Arc<Snapshot>, options: &CleanupOptions) -> Result<CleanupStats> {
    let mut pace = Pace::new(options)?;
    let mut found = look(snapshot, options).await?;
    let store = &snapshot.store;
    for warning in &found.warnings {
        warn!(path = store.root(), version = snapshot.version().0, "cleanup: {warning}");
    }
    let mut stats = CleanupStats::default();
    let planned = found.files.iter().filter(|file| found.plan.reason(file).0.removes()).count();
    runtime::advance(|counts| counts.of_tasks = Some(to_u64(planned))).await?;
    if found.plan.old_versions().next().is_some() {
        remove_versions(snapshot, &mut found, &mut pace, &mut stats).await?;
        if found.add_later(snapshot).await? {
            warn!(path = store.root(), "a version is being restored: files stay until a later cleanup");
            return Ok(stats);
        }
    }
    let files: Vec<Disposition> = found.files.into_iter().map(|file| found.plan.disposition(file)).collect();
    let rest = files
        .iter()
        .filter(|disposition| disposition.reason.removes() && disposition.reason != Reason::OldVersion);
    let (removed, failed) = remove::remove(store, rest.collect(), &mut pace).await?;
    let emptied: BTreeSet<&str> = removed
        .iter()
        .filter(|disposition| matches!(disposition.found, Some(TableFile::Index(_))))
        .filter_map(|disposition| Some(disposition.file.path.rsplit_once('/')?.0))
        .collect();
    store.remove_empty_directories(emptied.into_iter().map(str::to_owned).collect()).await;
    removed.into_iter().for_each(|disposition| stats.count(disposition));
    stats.failed_deletes = to_u64(failed.len());
    Ok(stats)
}

/// Removes old versions for good, unless they were given names since the inventory was made. Their files stay.
async fn remove_versions(
    snapshot: &Arc<Snapshot>,
    found: &mut Inventory,
    pace: &mut Pace,
    stats: &mut CleanupStats,
) -> Result<()> {
    let store = &snapshot.store;
    let manifests: Vec<ListedFile> =
        found.files.iter().filter(|file| is_old_version(found, file)).cloned().collect();
    for manifests in manifests.chunks(pace.manifests_between_looks) {
        let old = manifests.iter().filter_map(|file| match paths::recognise(&file.path) {
            Some(TableFile::Manifest(version)) => Some(version),
            _ => None,
        });
        let begun = refs::begin_removal(store, old).await?;
        let removed = remove_manifests(snapshot, found, manifests, pace, stats).await;
        refs::end_intent(store, &begun).await;
        removed?;
    }
    // After the manifests: a reader that finds a manifest without an entry adds the entry.
    if let Some(external) = store.external() {
        let versions: Vec<Version> = found.plan.old_versions().collect();
        let removals = versions.iter().map(|version| external.store.remove(&external.table, *version));
        runtime::gather(removals.map(FutureExt::boxed).collect()).await?;
    }
    // Otherwise a power cut could bring a manifest back, but not its files.
    let own = &snapshot.source().path;
    match store.sync(own, Durability::Full).await {
        // Another cleanup removed this version; that has to last as well.
        Err(error) if error.is_not_found() => store.sync_removal(own, Durability::Full).await,
        synced => synced,
    }
}

/// Removes manifests of old versions, unless these were given names meanwhile.
async fn remove_manifests(
    snapshot: &Arc<Snapshot>,
    found: &mut Inventory,
    manifests: &[ListedFile],
    pace: &mut Pace,
    stats: &mut CleanupStats,
) -> Result<()> {
    // A hint from before the gap would stop at it.
    let hint = locate::write_hint(&snapshot.store, found.newest);
    let (named, ()) = futures::join!(found.add_new_names(snapshot), hint);
    named?;
    let old = manifests.iter().filter(|file| is_old_version(found, file));
    let old: Vec<Disposition> = old.map(|file| found.plan.disposition(file.clone())).collect();
    let (removed, failed) = remove::remove(&snapshot.store, old.iter().collect(), pace).await?;
    removed.into_iter().for_each(|disposition| stats.count(disposition));
    failed.into_iter().next().map_or(Ok(()), Err)
}

fn is_old_version(found: &Inventory, file: &ListedFile) -> bool {
    found.plan.reason(file).0 == Reason::OldVersion
}

fn policy(
    options: &CleanupOptions,
    now: Timestamp,
    current: Version,
    versions: &[Located],
) -> Result<Policy> {
    let below = match options.retain_versions {
        None => None,
        Some(0) => {
            return Err(Error::invalid_input("retain_versions must be greater than 0, got 0"));
        }
        Some(count) => {
            let upto = versions.iter().rev().filter(|at| at.version <= current);
            let oldest = upto.take(usize::try_from(count).unwrap_or(usize::MAX)).last();
            oldest.map(|at| at.version)
        }
    };
    let before = options.older_than.map(|age| {
        let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let (mut seconds, mut nanos) = (now.seconds.saturating_sub(seconds), now.nanos);
        match nanos.checked_sub(age.subsec_nanos()) {
            Some(rest) => nanos = rest,
            None => {
                seconds = seconds.saturating_sub(1);
                nanos = nanos.saturating_add(1_000_000_000).saturating_sub(age.subsec_nanos());
            }
        }
        Timestamp { seconds, nanos }
    });
    let listed: Option<HashSet<Version>> =
        options.versions.as_ref().map(|listed| listed.iter().copied().map(Version).collect());
    Ok(Policy { before, below, listed })
}
