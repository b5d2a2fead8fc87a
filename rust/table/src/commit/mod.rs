//! The commit loop: the one place where manifests are written (table format, section 8).
//!
//! | step | here |
//! |---|---|
//! | find the newest version, load the transactions since the one that was read | `latest`, `load` |
//! | decide: compatible, rebase, retryable, incompatible | `pennon_core::conflict` (pure) |
//! | carry deletions, moves, rewrites and changes in place over to the newest version | `rebase` |
//! | next manifest from newest manifest and transaction | `pennon_core::apply` (pure) |
//! | wait for other commits of this process to the table | `turn` |
//! | transaction file, manifest with put-if-absent, hint | `attempt`; `external` where the store needs help |
//! | hold the caller's lock meanwhile, if there is one | `lock` |
//!
//! Invariant: a commit is acknowledged only if exactly one manifest carries its transaction. A transaction whose
//! uuid is found in a version since the one it read is done already; that is how an answer that got lost, and a
//! caller that tries again, are recognised.

mod attempt;
mod backoff;
pub(crate) mod clone;
mod count;
mod detached;
mod external;
pub(crate) mod latest;
pub(crate) mod load;
mod lock;
mod probe;
mod rebase;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use pennon_core::conflict::{self, Outcome};
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::manifest::{Flags, FragmentReuse};
use pennon_core::transaction::{Operation, Rewrite, Transaction};
use pennon_core::{Error, FragmentId, Result, Version};

use self::attempt::{Beside, Published};
use self::backoff::Backoff;
pub(crate) use self::detached::detached;
use self::latest::Located;
pub use self::lock::{CommitLock, HeldLock};
use crate::session::{CacheSizes, Session};
use crate::snapshot::Snapshot;
use crate::store::{Durability, StorageOptions, Store};
use crate::write::in_place::RowsInPlace;

pub(crate) const VERSIONS: &str = "_versions";
pub(crate) const TRANSACTIONS: &str = "_transactions";
const HINT: &str = "_versions/latest_version_hint.json";

/// How [`crate::Dataset::commit`] works.
#[derive(Debug, Clone)]
pub struct CommitParams {
    /// Settings of the store.
    pub storage_options: StorageOptions,
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// Attempts after losing races; at least one is made. With 0 an overwrite is only accepted right on top of
    /// the version it read.
    pub max_retries: u32,
    /// No new attempt is begun after this time.
    pub timeout: Duration,
    /// Whether rows of a table that this commit creates get stable ids.
    pub enable_stable_row_ids: bool,
    /// Whether a table that this commit creates names its manifests in the newer way.
    pub enable_v2_manifest_paths: bool,
    /// Data file version of a table that this commit creates or overwrites.
    pub file_version: Option<FileVersion>,
    /// What a new session keeps.
    pub cache: CacheSizes,
    /// A session to use instead of a new one.
    pub session: Option<Arc<Session>>,
    /// Held while a manifest is published, instead of the session's.
    pub lock: Option<Arc<dyn CommitLock>>,
}

impl Default for CommitParams {
    fn default() -> Self {
        Self {
            storage_options: StorageOptions::new(),
            durability: Durability::Full,
            max_retries: 20,
            timeout: Duration::from_secs(1800),
            enable_stable_row_ids: true,
            enable_v2_manifest_paths: true,
            file_version: None,
            cache: CacheSizes::default(),
            session: None,
            lock: None,
        }
    }
}

impl CommitParams {
    /// The session of a table that is opened for this commit.
    pub(crate) fn session(&self) -> Arc<Session> {
        let new = || Session::with_lock(self.cache, self.lock.clone());
        self.session.clone().unwrap_or_else(new)
    }
}

/// What is to be committed.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) transaction: Transaction,
    /// For a delete or update: the offsets it deletes, by fragment, at its read version. Without them a change of a
    /// fragment that somebody else changed cannot be carried over.
    pub(crate) affected: Option<BTreeMap<FragmentId, DeletionVector>>,
    /// For a rewrite whose indices are not rewritten: where the rows go.
    pub(crate) reuse: Option<FragmentReuse>,
    /// For an update: rows that changed where they are, if their last-updated-at versions are columns, which are for
    /// one version.
    pub(crate) in_place: Option<RowsInPlace>,
}

impl From<Transaction> for Change {
    fn from(transaction: Transaction) -> Self {
        Self { transaction, affected: None, reuse: None, in_place: None }
    }
}

pub(crate) fn manifest_path(version: Version, scheme: NamingScheme) -> String {
    format!("{VERSIONS}/{}", naming::manifest_name(version, scheme))
}

/// A transaction with a fresh uuid unless one is given.
pub(crate) fn transaction(
    read_version: Version,
    uuid: Option<String>,
    properties: pennon_core::schema::Metadata,
    operation: Operation,
) -> Transaction {
    let uuid = uuid.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    Transaction { read_version, uuid, tag: String::new(), properties, operation }
}

/// Creates a table. Errors: `AlreadyExists` if somebody else did.
pub(crate) async fn create(
    store: &Arc<Store>,
    session: &Arc<Session>,
    transaction: Transaction,
    params: &CommitParams,
) -> Result<Arc<Snapshot>> {
    let scheme = if params.enable_v2_manifest_paths { NamingScheme::V2 } else { NamingScheme::V1 };
    let existing = match latest::find(store, None).await? {
        Some(existing) => existing,
        None => {
            let first = Located { version: Version(1), scheme };
            match attempt::publish(store, session, None, first, &transaction, Beside::default(), params)
                .await?
            {
                Published::Done(snapshot) => return Ok(snapshot),
                Published::Refused { transaction, error } => {
                    remove_refused(store, transaction).await;
                    return Err(error);
                }
                Published::Taken { .. } => first,
            }
        }
    };
    // The answer to our own put may have been lost on the way.
    match load::load_version(store, session, Version(1), existing.scheme).await {
        Ok(first) if is_ours(&first, &transaction).await => Ok(first),
        _ => Err(already_exists(store)),
    }
}

/// Removes the transaction file of a version that was certainly not published; one that stays is only an orphan.
async fn remove_refused(store: &Store, transaction: Option<String>) {
    if let Some(path) = transaction {
        let _ = store.delete(&path).await;
    }
}

pub(crate) fn already_exists(store: &Store) -> Error {
    Error::already_exists(format!("Dataset already exists: {}", store.uri()))
}

async fn is_ours(snapshot: &Snapshot, mine: &Transaction) -> bool {
    matches!(load::transaction(snapshot).await, Ok(Some(theirs)) if theirs.uuid == mine.uuid)
}

/// Commits to an existing table. `base` is any version of it that was the newest not long ago.
///
/// Errors: `Conflict`, retryable or not as the rules say (table format 8.2), and retryable when every attempt lost
/// its race; whatever reading and writing raise. The table is as before after every error.
pub(crate) async fn commit(
    base: Arc<Snapshot>,
    change: Change,
    params: &CommitParams,
) -> Result<Arc<Snapshot>> {
    let store = Arc::clone(&base.store);
    let mut attempts = Attempts::default();
    if change.in_place.is_some() {
        attempts.files = rebase::version_files(&change.transaction.operation);
    }
    let result = try_to_commit(base, change, &mut attempts, params).await;
    attempts.clean(&store, result.as_deref().ok()).await;
    result
}

async fn try_to_commit(
    base: Arc<Snapshot>,
    mut change: Change,
    attempts: &mut Attempts,
    params: &CommitParams,
) -> Result<Arc<Snapshot>> {
    if change.transaction.read_version.is_detached() {
        return Err(Error::invalid_input(format!(
            "Version {} is detached: only another detached commit can follow it",
            change.transaction.read_version
        )));
    }
    let (store, session) = (Arc::clone(&base.store), Arc::clone(base.session()));
    let started = Instant::now();
    let mut backoff = Backoff::new();
    let mut newest = base;
    // Everything up to here has been checked against the change.
    let mut checked = change.transaction.read_version;
    // A version that somebody else published, whatever the listing says.
    let mut taken: Option<Located> = None;
    for attempt in 0..params.max_retries.max(1) {
        let turn = turn::take(&store).await;
        let attempt_started = Instant::now();
        let known = Located { version: newest.version(), scheme: newest.source().scheme };
        let found = latest::find(&store, Some(known)).await?;
        let mut found = found.ok_or_else(|| load::not_found(&store, VERSIONS))?;
        if let Some(taken) = taken.filter(|taken| taken.version > found.version) {
            found = latest::probe(&store, taken).await?;
        }
        if found != known {
            newest = load::newest(&store, &session, found).await?.snapshot;
        }
        if newest.version() < checked {
            return Err(Error::not_found(format!(
                "Dataset at path {} was not found: version {checked} was read, the newest one is {}",
                store.full_path(VERSIONS),
                newest.version()
            )));
        }
        if newest.version() > checked {
            if params.max_retries == 0 && matches!(change.transaction.operation, Operation::Overwrite(_)) {
                if let Some(done) = find_own(&newest, checked, &change.transaction).await? {
                    return Ok(done);
                }
                return Err(Error::retryable_conflict(format!(
                    "Commit conflict for version {}: Failed to commit the transaction after 0 retries.",
                    checked.next()
                )));
            }
            if let Some(done) = reconcile(&newest, checked, &mut change, attempts, params).await? {
                return Ok(done);
            }
            checked = newest.version();
        }
        let restored = match &change.transaction.operation {
            Operation::Restore(restore) => Some(load::restored(&newest, restore).await?),
            _ => None,
        };
        let at = Located { version: found.version.next(), ..found };
        let files = rebase::versions(&newest, &mut change, at.version, params.durability).await?;
        if let Some(files) = files {
            attempts.replace_files(files);
        }
        attempts.begin(&change.transaction);
        let published = attempt::publish(
            &store,
            &session,
            Some(&newest),
            at,
            &change.transaction,
            Beside {
                restored: restored.as_deref(),
                reuse: change.reuse.as_ref(),
                writes_version_column: change.in_place.is_some(),
            },
            params,
        );
        match published.await? {
            Published::Done(snapshot) => return Ok(snapshot),
            Published::Refused { transaction, error } => {
                attempts.transaction = transaction;
                attempts.settle();
                return Err(error);
            }
            Published::Taken { transaction } => {
                attempts.transaction = transaction;
                taken = Some(at);
            }
        }
        drop(turn);
        if started.elapsed() > params.timeout {
            return Err(Error::retryable_conflict(format!(
                "Too many concurrent writers. Gave up after {} attempts in {} s.",
                attempt + 1,
                started.elapsed().as_secs()
            )));
        }
        tokio::time::sleep(backoff.next(attempt_started.elapsed())).await;
    }
    // The last put may have been ours, with its answer lost.
    if let Some(found) = latest::find(&store, None).await? {
        let newest = load::newest(&store, &session, found).await?.snapshot;
        if let Some(done) = find_own(&newest, checked, &change.transaction).await? {
            return Ok(done);
        }
        attempts.settle();
    }
    Err(Error::retryable_conflict(format!(
        "Too many concurrent writers. Attempted {} retries.",
        params.max_retries.max(1)
    )))
}

/// Checks the change against every version after `checked` and carries it over to `newest`.
///
/// Gives the version that the same transaction made before, if there is one.
async fn reconcile(
    newest: &Arc<Snapshot>,
    checked: Version,
    change: &mut Change,
    attempts: &mut Attempts,
    params: &CommitParams,
) -> Result<Option<Arc<Snapshot>>> {
    // A crash of the machine took the version that was read, and its numbers of fragments were given out again.
    let read = Located { version: checked, scheme: newest.source().scheme };
    if load::is_torn(&newest.store, read).await {
        let path = newest.store.full_path(&manifest_path(read.version, read.scheme));
        return Err(Error::corrupt(format!(
            "{path}: the version that was read is gone, its manifest is torn"
        )));
    }
    let intervening = intervening(newest, checked).await?;
    for (snapshot, theirs) in &intervening {
        let Some(theirs) = theirs else {
            return Err(Error::retryable_conflict(format!(
                "Retryable commit conflict for version {}: its transaction was not kept",
                snapshot.version()
            )));
        };
        if theirs.uuid == change.transaction.uuid {
            return Ok(Some(Arc::clone(snapshot)));
        }
    }
    attempts.settle();
    let mine = &mut change.transaction;
    if let Some(original) = &attempts.rewrite {
        mine.operation = Operation::Rewrite(original.clone());
    }
    // Without the rows a delete can only drop fragments.
    let mut affected = change.affected.take().unwrap_or_default();
    let mut rebase = false;
    for (snapshot, theirs) in &intervening {
        let Some(theirs) = theirs else { continue };
        match conflict::check(mine, theirs, snapshot.version()) {
            Outcome::Compatible => {}
            // Where its rows go was worked out for the fragments as they were.
            Outcome::Rebase if change.reuse.is_some() => {
                return Err(Error::retryable_conflict(format!(
                    "Retryable commit conflict for version {}: rows that were moved were changed meanwhile",
                    snapshot.version()
                )));
            }
            Outcome::Rebase => {
                rebase = true;
                if let Operation::Rewrite(rewrite) = &theirs.operation {
                    rebase::follow(&mut mine.operation, &mut affected, rewrite, snapshot).await?;
                }
            }
            Outcome::Retryable(message) => return Err(Error::retryable_conflict(message)),
            Outcome::Incompatible(message) => return Err(Error::conflict(message)),
        }
    }
    match &mut mine.operation {
        Operation::Delete(_) | Operation::Update(_) => {
            if rebase {
                let files = rebase::rows(newest, &mut mine.operation, &affected, params.durability).await?;
                attempts.replace_files(files);
            }
            // They move to the version they were carried over to (table format 1, transaction file).
            mine.read_version = newest.version();
        }
        Operation::Rewrite(rewrite) if rebase || attempts.rewrite.is_some() => {
            let original = attempts.rewrite.get_or_insert_with(|| rewrite.clone());
            let (rebased, files) = rebase::rewrite(newest, original, params.durability).await?;
            mine.operation = Operation::Rewrite(rebased);
            attempts.replace_files(files);
        }
        other if rebase => {
            return Err(Error::internal(format!("{} transactions are not carried over", other.name())));
        }
        _ => {}
    }
    change.affected = Some(affected);
    Ok(None)
}

/// What the attempts of one commit leave behind.
#[derive(Debug, Default)]
struct Attempts {
    /// A rewrite as it was asked for, once it was carried over: it is carried over anew each time.
    rewrite: Option<Rewrite>,
    /// Deletion files and files of versions that the last attempt refers to.
    files: Vec<String>,
    /// Transaction file of the last attempt.
    transaction: Option<String>,
    /// Whether the last attempt may have committed: even "there is one already" may be the answer to a second put.
    open: bool,
    /// Files that nothing refers to.
    leftovers: Vec<String>,
}

impl Attempts {
    fn begin(&mut self, transaction: &Transaction) {
        let name = naming::transaction_file_name(transaction.read_version, &transaction.uuid);
        let path = format!("{TRANSACTIONS}/{name}");
        self.leftovers.retain(|leftover| *leftover != path);
        self.open = true;
    }

    /// The versions that are there now are others': the last attempt did not commit.
    fn settle(&mut self) {
        self.open = false;
        self.leftovers.extend(self.transaction.take());
    }

    fn replace_files(&mut self, files: Vec<String>) {
        self.leftovers.extend(std::mem::replace(&mut self.files, files));
    }

    /// Removes what nothing refers to. Failures do not matter: cleanup finds the files.
    async fn clean(mut self, store: &Store, done: Option<&Snapshot>) {
        if done.is_none() && !self.open {
            self.replace_files(Vec::new());
        }
        let kept = done.map(|done| format!("{TRANSACTIONS}/{}", done.manifest.transaction_file));
        for path in self.leftovers.iter().filter(|path| kept.as_ref() != Some(path)) {
            let _ = store.delete(path).await;
        }
    }
}

/// Versions after `checked` up to `newest` with their transactions, ascending.
async fn intervening(
    newest: &Arc<Snapshot>,
    checked: Version,
) -> Result<Vec<(Arc<Snapshot>, Option<Transaction>)>> {
    let versions = checked.0.saturating_add(1)..=newest.version().0;
    let loads = versions.map(|version| {
        let load = async move {
            let snapshot = if version == newest.version().0 {
                Arc::clone(newest)
            } else {
                let at = Located { version: Version(version), scheme: newest.source().scheme };
                match load::load(&newest.store, newest.session(), at).await {
                    Ok(snapshot) => snapshot,
                    // Nobody built on a version that was not whole, or knows what it was to be.
                    Err(_) if load::is_torn(&newest.store, at).await => return Ok(None),
                    Err(error) if error.is_not_found() => return Err(cleaned_up(version)),
                    Err(error) => return Err(error),
                }
            };
            let transaction = load::transaction(&snapshot).await?;
            Ok(Some((snapshot, transaction)))
        };
        load.boxed()
    });
    Ok(crate::gather(loads.collect()).await?.into_iter().flatten().collect())
}

fn cleaned_up(version: u64) -> Error {
    Error::retryable_conflict(format!(
        "Retryable commit conflict for version {version}: the version is gone, what it changed is not known"
    ))
}

/// The version that this very transaction made, if it made one: for a commit that is repeated without knowing what
/// the first one read. The name of its transaction file says since which version to look; a table without such files is
/// searched from the start.
pub(crate) async fn find_repeated(
    newest: &Arc<Snapshot>,
    mine: &Transaction,
) -> Result<Option<Arc<Snapshot>>> {
    let names = newest.store.list(TRANSACTIONS).await?;
    let files = names.iter().filter_map(|name| naming::parse_transaction_file_name(name));
    let read = files.filter(|(_, uuid)| *uuid == mine.uuid).map(|(version, _)| version);
    let without_files = newest.manifest.writer_flags.contains(Flags::TRANSACTION_FILE_DISABLED);
    let Some(first) = read.min().or(without_files.then_some(Version(0))) else { return Ok(None) };
    for version in first.0.saturating_add(1)..=newest.version().0 {
        let at = Located { version: Version(version), scheme: newest.source().scheme };
        match load::load(&newest.store, newest.session(), at).await {
            Ok(snapshot) if is_ours(&snapshot, mine).await => return Ok(Some(snapshot)),
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

/// The version after `checked` that this very transaction made.
async fn find_own(
    newest: &Arc<Snapshot>,
    checked: Version,
    mine: &Transaction,
) -> Result<Option<Arc<Snapshot>>> {
    let found = intervening(newest, checked).await?;
    let own = |theirs: &Option<Transaction>| theirs.as_ref().is_some_and(|t| t.uuid == mine.uuid);
    Ok(found.into_iter().find_map(|(snapshot, theirs)| own(&theirs).then_some(snapshot)))
}
