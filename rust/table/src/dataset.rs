//! The handle of a table at one version: opening, checking out, and the way to everything else.
//!
//! A [`Dataset`] is a pinned [`Snapshot`] with the settings it was opened with; cloning it costs nothing. Methods
//! that change the table take `&mut self` and move the handle to the version they made; after an error it stays
//! where it was.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::FutureExt;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::naming::NamingScheme;
use pennon_core::manifest::{FragmentSummary, IndexMetadata, Manifest, Timestamp};
use pennon_core::schema::{Metadata, Schema};
use pennon_core::transaction::Transaction;
use pennon_core::{Result, RowAddress, Version};
use tracing::instrument;

use crate::commit::{self, CommitStatus};
use crate::json;
use crate::refs::{self, Branches, RefLocation, Tags};
use crate::runtime::gather;
use crate::scan::{self, Blob, BlobHandling, FragmentSlice, Scan, ScanOptions, TakeOptions, TakeRows};
use crate::session::{CommitOptions, ConnectOptions, Session};
use crate::store::{Durability, StorageOptions, Store, shown};
use crate::versions::load::{self, Newest};
use crate::versions::resolve::{as_of, find_newest, newest};
use crate::versions::snapshot::Snapshot;
use crate::versions::{VERSIONS, VersionRef, locate};

/// How a table is opened.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The version; `None` for the newest.
    pub version: Option<VersionRef>,
    /// Open the newest version that is not younger than this. Not looked at when `version` is given.
    pub asof: Option<Timestamp>,
    /// How the table is reached.
    pub connect: ConnectOptions,
    /// How every verb commits through the handle.
    pub commit: CommitOptions,
}

/// One version as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionInfo {
    /// Its number.
    pub version: Version,
    /// When it was committed.
    pub timestamp: Timestamp,
    /// `total_rows`, `total_fragments`, `total_data_files`, `total_files_size`, `total_deletion_files`,
    /// `total_deletion_file_rows`, `total_data_file_rows` as decimal numbers.
    pub metadata: Metadata,
}

impl VersionInfo {
    fn of(manifest: &Manifest) -> Self {
        let fragments = &manifest.fragments;
        let total = |amount: &dyn Fn(&FragmentSummary) -> u64| fragments.summaries().map(amount).sum();
        let figures = [
            ("total_rows", manifest.live_rows()),
            ("total_fragments", to_u64(fragments.len())),
            ("total_data_files", total(&|f| f.data_files.into())),
            ("total_files_size", total(&|f| f.file_bytes)),
            ("total_deletion_files", total(&|f| f.has_deletions.into())),
            ("total_deletion_file_rows", total(&|f| f.deleted_rows)),
            ("total_data_file_rows", manifest.physical_rows()),
        ];
        let metadata =
            figures.into_iter().map(|(name, number)| (name.to_owned(), number.to_string())).collect();
        Self { version: manifest.version, timestamp: manifest.timestamp, metadata }
    }
}

/// A table at one version.
///
/// ```
/// use pennon_table::{Dataset, OpenOptions};
/// # async fn example() -> pennon_core::Result<()> {
/// let dataset = Dataset::open("flights.lance", OpenOptions::default()).await?;
/// println!("version {}: {} rows", dataset.version(), dataset.count_rows(None).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Dataset {
    snapshot: Arc<Snapshot>,
    commit: CommitOptions,
    corruption: Option<Arc<str>>,
}

impl Dataset {
    /// Opens a table.
    ///
    /// Without a version it opens the newest one that was written to its end, see [`Self::corruption`]. Errors:
    /// `NotFound` for a table, version or tag that is not there, `InvalidInput` if every version is younger than
    /// `asof`, `Unsupported` for feature flags this release does not know, `Corrupt` for a manifest that does not
    /// decode: no other version is tried in its place.
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn open(uri: &str, options: OpenOptions) -> Result<Self> {
        let OpenOptions { version, asof, connect, commit } = options;
        let (store, session) = connect.open(uri)?;
        let snapshot = match (version, asof) {
            (Some(version), _) => resolve(&store, &session, version, NamingScheme::V2).await?,
            (None, Some(asof)) => as_of(&store, &session, asof).await?,
            (None, None) => {
                let Newest { snapshot, corruption } = find_newest(&store, &session, None).await?;
                return Ok(Self { snapshot, commit, corruption: corruption.map(Arc::from) });
            }
        };
        Ok(Self::at(snapshot, commit))
    }

    pub(crate) fn at(snapshot: Arc<Snapshot>, commit: CommitOptions) -> Self {
        Self { snapshot, commit, corruption: None }
    }

    /// A handle on another version, with the same settings.
    pub(crate) fn on(&self, snapshot: Arc<Snapshot>) -> Self {
        snapshot.follow(&self.snapshot);
        Self::at(snapshot, self.commit.clone())
    }

    pub(crate) fn move_to(&mut self, snapshot: Arc<Snapshot>) {
        snapshot.follow(&self.snapshot);
        self.snapshot = snapshot;
    }

    /// Why this is not the newest version, if that was asked for: a crash of the machine left the manifests of newer
    /// ones torn. Users should hear of it.
    pub fn corruption(&self) -> Option<&str> {
        self.corruption.as_deref()
    }

    /// The address as it was given.
    pub fn uri(&self) -> &str {
        self.snapshot.store.uri()
    }

    /// The address; see [`Store::absolute_uri`].
    pub fn absolute_uri(&self) -> &str {
        self.snapshot.store.absolute_uri()
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.snapshot.version()
    }

    /// What the version consists of.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.snapshot.manifest
    }

    /// The schema with field ids.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.snapshot.manifest.schema
    }

    /// The schema in Arrow's terms.
    pub fn arrow_schema(&self) -> SchemaRef {
        json::shown_schema(self.snapshot.arrow_schema())
    }

    /// The version with its caches.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The caches, shared by all handles that came from one open.
    pub fn session(&self) -> &Arc<Session> {
        self.snapshot.session()
    }

    /// Settings of the store.
    pub fn storage_options(&self) -> &StorageOptions {
        self.snapshot.store.options()
    }

    /// What commits through this handle survive.
    pub fn durability(&self) -> Durability {
        self.commit.durability
    }

    /// How every verb commits through this handle.
    pub fn commit_options(&self) -> &CommitOptions {
        &self.commit
    }

    /// Sets how every verb commits through this handle from now on.
    pub fn set_commit_options(&mut self, commit: CommitOptions) {
        self.commit = commit;
    }

    /// Whether the transaction with that uuid was committed to this branch: what to ask after an error of kind
    /// [`CommitUnknown`](pennon_core::ErrorKind::CommitUnknown), or of another process's commit.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn commit_status(&self, uuid: &str) -> Result<CommitStatus> {
        let newest = newest(&self.snapshot.store, self.session(), Some(&self.snapshot)).await?;
        commit::status(&newest, uuid).await
    }

    /// Plans a scan of this version.
    pub fn scan(&self, options: &ScanOptions) -> Result<Scan> {
        Scan::new(Arc::clone(&self.snapshot), options)
    }

    /// Reads rows by position, address or stable id, in the order asked for.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn take(&self, rows: TakeRows, options: &TakeOptions) -> Result<RecordBatch> {
        scan::take(Arc::clone(&self.snapshot), rows, options).await
    }

    /// The blobs of some rows, see [`scan::take_blobs`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn take_blobs(&self, column: &str, rows: TakeRows) -> Result<Vec<(RowAddress, Option<Blob>)>> {
        scan::take_blobs(Arc::clone(&self.snapshot), column, rows).await
    }

    /// Number of rows, or of those for which a predicate is true. Without one only the manifest is looked at.
    ///
    /// Errors: those of scanning with the predicate.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn count_rows(&self, filter: Option<&str>) -> Result<u64> {
        let Some(filter) = filter else {
            return Ok(self.manifest().live_rows());
        };
        let blobs = BlobHandling::Descriptions;
        let options = ScanOptions { filter: Some(filter.into()), blobs, ..ScanOptions::default() };
        self.scan(&options)?.count().await
    }

    /// The rows of this version for which a predicate is true, of the whole table or of parts of it.
    ///
    /// Errors: `InvalidInput` or `NotFound` for the predicate, `InvalidInput` for parts that this version does not have.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn matching_rows(
        &self,
        predicate: &str,
        slices: Option<Vec<FragmentSlice>>,
    ) -> Result<RowsByFragment> {
        let predicate = scan::table_predicate(self.snapshot(), predicate)?;
        scan::matches(Arc::clone(self.snapshot()), slices, predicate, false).await
    }

    /// Index entries of this version, kept true though not used yet.
    pub async fn indices(&self) -> Result<Arc<Vec<IndexMetadata>>> {
        self.snapshot.indices().await
    }

    /// The newest version there is now.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn latest_version(&self) -> Result<Version> {
        let store = &self.snapshot.store;
        let found = locate::find(store, None).await?;
        Ok(found.ok_or_else(|| load::not_found(store, VERSIONS))?.version)
    }

    /// All versions, oldest first. Reads every manifest.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn versions(&self) -> Result<Vec<VersionInfo>> {
        let (store, session) = (&self.snapshot.store, self.session());
        let loads = locate::list(store).await?.into_iter().map(|at| {
            let load = async move {
                let found = load::listed(store, session, at).await?;
                Ok(found.map(|snapshot| VersionInfo::of(&snapshot.manifest)))
            };
            load.boxed()
        });
        Ok(gather(loads.collect()).await?.into_iter().flatten().collect())
    }

    /// This version as [`Self::versions`] shows it.
    pub fn version_info(&self) -> VersionInfo {
        VersionInfo::of(self.manifest())
    }

    /// The snapshot a reference leads to, seen from this version.
    pub(crate) async fn find(&self, reference: VersionRef) -> Result<Arc<Snapshot>> {
        Ok(self.checkout(reference).await?.snapshot)
    }

    /// Another version of the table. Errors as for [`Self::open`].
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn checkout(&self, version: VersionRef) -> Result<Self> {
        let scheme = self.snapshot.source().scheme;
        let main = refs::main_store(&self.snapshot)?;
        let location = RefLocation::of(&self.snapshot).follow(&main, self.session(), version).await?;
        let snapshot = load_location(&location, self.session(), scheme).await?;
        Ok(self.on(snapshot))
    }

    /// Moves this handle to the newest version, with those of its uncommitted columns that this does not have.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn checkout_latest(&mut self) -> Result<()> {
        let Newest { snapshot, corruption } =
            find_newest(&self.snapshot.store, self.session(), Some(&self.snapshot)).await?;
        let columns = self.uncommitted_columns().cloned();
        self.move_to(snapshot);
        if let Some(columns) = columns.filter(|_| self.uncommitted_columns().is_none()) {
            *self = self.with_missing_columns(&columns)?;
        }
        self.corruption = corruption.map(Arc::from);
        Ok(())
    }

    /// The transaction that made a version; `None` if the table did not keep it. Errors: `NotFound` for the
    /// version, `Corrupt` for a transaction that does not decode.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn read_transaction(&self, version: Version) -> Result<Option<Transaction>> {
        let scheme = self.snapshot.source().scheme;
        let snapshot = load::load_version(&self.snapshot.store, self.session(), version, scheme).await?;
        load::transaction(&snapshot).await
    }

    /// The transactions of the newest versions up to this one, newest first; of a detached version its own.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn get_transactions(&self, recent: usize) -> Result<Vec<Option<Transaction>>> {
        if self.version().is_detached() {
            let own = load::transaction(&self.snapshot).await?;
            return Ok([own].into_iter().take(recent).collect());
        }
        let (store, session) = (&self.snapshot.store, self.session());
        let mut versions = locate::list(store).await?;
        versions.retain(|at| at.version <= self.version());
        let reads = versions.iter().rev().take(recent).map(|&at| {
            let read = async move {
                match load::listed(store, session, at).await? {
                    Some(snapshot) => load::transaction(&snapshot).await.map(Some),
                    None => Ok(None),
                }
            };
            read.boxed()
        });
        Ok(gather(reads.collect()).await?.into_iter().flatten().collect())
    }

    /// The tags of the table.
    pub fn tags(&self) -> Tags {
        Tags::of(Arc::clone(&self.snapshot), self.durability())
    }

    /// The branches of the table.
    pub fn branches(&self) -> Branches {
        Branches::of(Arc::clone(&self.snapshot), self.durability())
    }

    /// Numbers of all versions of this branch, oldest first. Reads no manifest.
    pub async fn version_refs(&self) -> Result<Vec<Version>> {
        Ok(locate::list(&self.snapshot.store).await?.into_iter().map(|at| at.version).collect())
    }
}

/// Loads the version a reference means, as seen from a table that was not opened yet.
async fn resolve(
    store: &Arc<Store>,
    session: &Arc<Session>,
    version: VersionRef,
    scheme: NamingScheme,
) -> Result<Arc<Snapshot>> {
    if let VersionRef::Number(number) = version {
        return load_version(store, session, Version(number), scheme).await;
    }
    let start = RefLocation { store: Arc::clone(store), branch: None, version: None };
    // The address may be that of a branch; its manifests say so.
    let main = match newest(store, session, None).await {
        Ok(snapshot) if store.root().contains("/tree/") => refs::main_store(&snapshot)?,
        _ => Arc::clone(store),
    };
    load_location(&start.follow(&main, session, version).await?, session, scheme).await
}

async fn load_location(
    location: &RefLocation,
    session: &Arc<Session>,
    scheme: NamingScheme,
) -> Result<Arc<Snapshot>> {
    match location.version {
        Some(version) => load_version(&location.store, session, version, scheme).await,
        None => newest(&location.store, session, None).await,
    }
}

/// [`load::load_version`], whose error says so if the version is one from before a branch.
async fn load_version(
    store: &Arc<Store>,
    session: &Arc<Session>,
    version: Version,
    scheme: NamingScheme,
) -> Result<Arc<Snapshot>> {
    match load::load_version(store, session, version, scheme).await {
        Err(error) => Err(refs::explain_missing(store, version, error).await),
        found => found,
    }
}
