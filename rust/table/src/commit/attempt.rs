//! One attempt: transaction file, next manifest, put-if-absent.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::FutureExt;
use pennon_core::apply::{ApplyContext, IndexedVersion, apply, needed_lineage_columns};
use pennon_core::lengths::to_u64;
use pennon_core::manifest::naming;
use pennon_core::manifest::{
    Flags, Fragment, IndexMetadata, Manifest, Timestamp, WriterVersion, write_manifest_file,
};
use pennon_core::transaction::{Operation, Transaction};
use pennon_core::{Error, FragmentId, Result, Version, checksum, wire};
use roaring::RoaringBitmap;
use tracing::warn;
use uuid::Uuid;

use super::gap::{self, LastLook};
use super::lock::{self, Held};
use super::{external, planted, probe};
use crate::indices::followed;
use crate::runtime::{self, Fault, Stopwatch, blocking, is_planted};
use crate::scan;
use crate::session::{CommitOptions, CreateOptions, Session};
use crate::store::{Created, Durability, Store};
use crate::versions::snapshot::{ManifestSource, Snapshot};
use crate::versions::{Located, locate};
use crate::versions::{TRANSACTIONS, load, manifest_path};
use crate::write::staged::{self, StagedChange, StagedFile};

/// A transaction larger than this is only kept as a file: every open would read past it.
const INLINE_LIMIT: usize = 64 * 1024;
/// Manifest files from this size on are not made on the threads of the runtime: to hand smaller ones to another thread
/// takes as long.
const LARGE: u64 = 1 << 20;

/// What an attempt builds on.
pub(super) struct Basis<'a> {
    /// Where the version is published.
    pub(super) store: &'a Arc<Store>,
    /// The caches of the new version.
    pub(super) session: &'a Arc<Session>,
    /// The version before; none for the first one of a table.
    pub(super) current: Option<&'a Arc<Snapshot>>,
    /// The version that is restored or copied.
    pub(super) restored: Option<&'a Snapshot>,
    /// How a table that is created is laid out.
    pub(super) create: CreateOptions,
    /// The last look for the newest version, for one on top of it.
    pub(super) last_look: Option<LastLook>,
}

/// A version that is ready to be published. Its transaction file is written.
pub(super) struct Prepared {
    at: Located,
    manifest: Manifest,
    file: Bytes,
    /// The transaction file, if the version can do without it and no other call has written it: it may go if the version
    /// is not committed.
    pub(super) transaction_file: Option<String>,
}

/// What became of a put.
pub(super) enum Published {
    /// The version is committed; perhaps the caller's lock could not be released afterwards.
    Done(Arc<Snapshot>, Result<()>),
    /// There is a manifest of that version already. It may be ours: a client sends a request again when an answer gets
    /// lost, and the second one finds what the first has written.
    Taken,
    /// As before, and the caller's lock could not be released.
    NotReleased(Error),
    /// The version came after newer ones, and was removed again: see [`super::gap`].
    InAGap,
    /// The caller's lock was not acquired, or the store said that it wrote nothing.
    Refused(Error),
    /// The store answered with an error. The manifest may have been written.
    Failed(Error),
}

/// A transaction as its file holds it.
pub(super) struct TransactionFile {
    pub(super) path: String,
    pub(super) bytes: Bytes,
}

/// The transaction file that can be written before it is known what the change has to be carried over to: most of the
/// time to nothing, and on a remote store that saves the time of a request. `None` elsewhere, and for a change that
/// cannot do without its file.
pub(super) fn file_ahead(newest: &Snapshot, transaction: &Transaction) -> Option<TransactionFile> {
    if newest.store.is_local() {
        return None;
    }
    let (name, bytes) = transaction_file(transaction, Some(newest)).ok()?;
    let path = format!("{TRANSACTIONS}/{}", name?);
    (bytes.len() <= INLINE_LIMIT).then_some(TransactionFile { path, bytes })
}

/// The name of the transaction file and what it holds; no name for a table that keeps none.
///
/// Errors: `InvalidInput` for a uuid that leads elsewhere as a part of the name.
fn transaction_file(
    transaction: &Transaction,
    current: Option<&Snapshot>,
) -> Result<(Option<String>, Bytes)> {
    if transaction.uuid.contains(['/', '\\', '\0']) {
        return Err(Error::invalid_input(format!(
            "the uuid of the transaction is {:?}, expected 32 hexadecimal digits with hyphens",
            transaction.uuid
        )));
    }
    let disabled = Flags::TRANSACTION_FILE_DISABLED;
    let has_file = current.is_none_or(|current| !current.manifest.writer_flags.contains(disabled));
    let name = || naming::transaction_file_name(transaction.read_version, &transaction.uuid);
    let mut encoded = transaction.encode();
    checksum::append(&mut encoded);
    Ok((has_file.then(name), Bytes::from(encoded)))
}

/// The manifest file of a version that was lost, made again from the version before and its transaction, with the time when
/// it was made. Nothing is written. Errors: those of applying the transaction.
pub(crate) async fn rebuild(
    before: &Arc<Snapshot>,
    at: Located,
    transaction: Transaction,
    made: Timestamp,
) -> Result<Bytes> {
    let basis = Basis {
        store: &before.store,
        session: before.session(),
        current: Some(before),
        restored: None,
        create: CreateOptions::default(),
        last_look: None,
    };
    let change = StagedChange::from(transaction);
    let (next, _) = next_manifest(&basis, at, &change, made).await?;
    blocking(move || next.make(&change.transaction)).await.map(|(_, file)| file)
}

/// Makes what the change makes of the current version, as the version `at`, detached or not.
pub(super) async fn prepare(
    basis: &Basis<'_>,
    at: Located,
    change: &StagedChange,
    written: Option<&TransactionFile>,
    durability: Durability,
) -> Result<Prepared> {
    let Basis { store, session, current, .. } = *basis;
    let complete = current.map(|current| change.on(&current.manifest)).transpose()?;
    let change = complete.as_deref().unwrap_or(change);
    let transaction = &change.transaction;
    let (next, encoded) = next_manifest(basis, at, change, runtime::now()).await?;
    let is_large =
        current.is_some_and(|current| current.source().size > LARGE) || to_u64(encoded.len()) > LARGE;
    let (manifest, file) = if is_large {
        // Takes milliseconds: not on the runtime's own threads.
        let transaction = transaction.clone();
        blocking(move || next.make(&transaction)).await?
    } else {
        next.make(transaction)?
    };
    let small = encoded.len() <= INLINE_LIMIT;
    let mut transaction_file = None;
    if !manifest.transaction_file.is_empty() {
        let path = format!("{TRANSACTIONS}/{}", manifest.transaction_file);
        let is_own = match written.filter(|written| written.path == path) {
            Some(written) => {
                if written.bytes != encoded {
                    store.put_new(vec![(path.clone(), encoded)], durability).await?;
                }
                true
            }
            None => probe::put(store, session, &path, encoded, durability).await?,
        };
        transaction_file = (small && is_own).then_some(path);
    }
    Ok(Prepared { at, manifest, file, transaction_file })
}

/// What the next manifest is made of, and the transaction as its file holds it.
async fn next_manifest(
    basis: &Basis<'_>,
    at: Located,
    change: &StagedChange,
    timestamp: Timestamp,
) -> Result<(NextManifest, Bytes)> {
    let Basis { current, restored, create, .. } = *basis;
    let transaction = &change.transaction;
    let mut indices = Arc::default();
    if let Some(current) = current {
        current.manifest.writer_flags.check_writable()?;
        indices = followed(current).await?;
    }
    let (file_name, encoded) = transaction_file(transaction, current.map(|current| current.as_ref()))?;
    let restored = match restored {
        Some(snapshot) => {
            Some((snapshot.manifest.as_ref().clone(), snapshot.indices().await?.as_ref().clone()))
        }
        None => None,
    };
    let indexed = match current {
        Some(current) => indexed(current, transaction).await?,
        None => BTreeMap::new(),
    };
    let writes_version_column = change.in_place.is_some();
    let inline_lineage = match current {
        Some(current) => inline_lineage(current, transaction, writes_version_column).await?,
        None => BTreeMap::new(),
    };
    let reuse = change.reuse.as_ref();
    let reuse = reuse.map(|reuse| reuse.entry(&indices, runtime::uuid(), timestamp)).transpose()?;
    let next = NextManifest {
        at,
        current: current.map(|current| Arc::clone(&current.manifest)),
        indices,
        restored,
        indexed,
        reuse,
        inline_lineage,
        timestamp,
        transaction_file: file_name.unwrap_or_default(),
        writes_version_column,
        create,
        encoded: encoded.clone(),
    };
    Ok((next, encoded))
}

/// All that the next manifest is made of, apart from the transaction.
struct NextManifest {
    at: Located,
    current: Option<Arc<Manifest>>,
    indices: Arc<Vec<IndexMetadata>>,
    restored: Option<(Manifest, Vec<IndexMetadata>)>,
    indexed: BTreeMap<Uuid, IndexedVersion>,
    reuse: Option<IndexMetadata>,
    inline_lineage: BTreeMap<FragmentId, Fragment>,
    timestamp: Timestamp,
    transaction_file: String,
    writes_version_column: bool,
    create: CreateOptions,
    /// The transaction as its file holds it.
    encoded: Bytes,
}

impl NextManifest {
    /// The manifest and its file.
    fn make(&self, transaction: &Transaction) -> Result<(Manifest, Bytes)> {
        let version = self.at.version;
        let context = ApplyContext {
            timestamp: self.timestamp,
            // A detached version has the lineage that the next one of the history would have.
            taken: if version.is_detached() { Version(0) } else { Version(version.0.saturating_sub(1)) },
            transaction_file: self.transaction_file.clone(),
            restored: self.restored.as_ref(),
            indexed: &self.indexed,
            fragment_reuse: self.reuse.as_ref(),
            writer: writer(),
            enable_stable_row_ids: self.create.enable_stable_row_ids,
            file_version: self.create.file_version,
            inline_lineage: &self.inline_lineage,
            writes_version_column: self.writes_version_column,
        };
        let (mut manifest, mut indices) =
            apply(self.current.as_deref(), &self.indices, transaction, &context)?;
        manifest.version = version;
        planted::corrupt_manifest(
            self.current.as_deref(),
            &transaction.operation,
            &mut manifest,
            &mut indices,
        )?;
        // What is new is encoded once, so that the next commits copy it.
        manifest.fragments.seal();
        // A transaction with a file of its own that was committed elsewhere under this uuid is found by its inline copy.
        let inline = self.encoded.len() <= INLINE_LIMIT || manifest.transaction_file.is_empty();
        let section = (!indices.is_empty()).then(|| {
            let mut section = wire::index_section::encode(&indices);
            checksum::append(&mut section);
            section
        });
        let transaction = inline.then_some(self.encoded.as_ref());
        let file = write_manifest_file(&mut manifest, section.as_deref(), transaction)?;
        Ok((manifest, file.into()))
    }
}

/// Publishes a version unless there is one of its name.
pub(super) async fn publish(basis: &Basis<'_>, prepared: Prepared, options: &CommitOptions) -> Published {
    let Prepared { at, manifest, file, .. } = prepared;
    let (store, path) = (basis.store, manifest_path(at.version, at.scheme));
    let put = async {
        match store.external() {
            Some(external) if !at.version.is_detached() => {
                let is_new = external::publish(store, external, at, file.clone(), options.durability).await?;
                Ok(if is_new { Created::New { e_tag: None } } else { Created::Taken })
            }
            _ if is_planted(Fault::PutOverwrites) => {
                store.put(&path, file.clone(), options.durability).await?;
                Ok(Created::New { e_tag: None })
            }
            _ => store.create(&path, file.clone(), options.durability).await,
        }
    };
    let started = Stopwatch::start();
    let Held { done, release } = match lock::hold(options.lock.as_ref(), at.version, put).await {
        Ok(held) => held,
        Err(error) => return Published::Refused(error),
    };
    let stamp = match (done, &release) {
        (Ok(Created::New { e_tag }), _) => e_tag.map_or_else(OnceLock::new, OnceLock::from),
        (Err(error), Ok(())) if error.is_retryable() => return Published::Refused(error),
        (Err(error), Ok(())) => return Published::Failed(error),
        (Err(error), Err(lock)) => {
            warn!(path, error = %lock, "the commit lock was not released after a put that failed");
            return Published::Failed(error);
        }
        (Ok(Created::Taken), Ok(())) => return Published::Taken,
        (Ok(Created::Taken), Err(error)) => return Published::NotReleased(error.clone()),
    };
    if let (Some(current), Some(look)) = (basis.current, basis.last_look)
        && gap::is_in_a_gap(current, &manifest, at, look, started.elapsed()).await
    {
        warn!(path, "the version came after newer ones, which know nothing of it: it is removed");
        return match locate::remove(store, &path, at.version).await {
            Ok(()) => Published::InAGap,
            Err(error) => Published::Refused(error),
        };
    }
    if !at.version.is_detached() {
        locate::write_hint(store, manifest.version).await;
        locate::remember(store, at).await;
    }
    let tail = file.slice(file.len().saturating_sub(load::KEPT_TAIL)..);
    let tail = if tail.len() < file.len() { Bytes::copy_from_slice(&tail) } else { tail };
    let size = to_u64(file.len());
    let source = ManifestSource { path, scheme: at.scheme, size, tail, stamp };
    let done = Snapshot::new(Arc::clone(store), Arc::clone(basis.session), Arc::new(manifest), source);
    load::remember(&done).await;
    Published::Done(done, release)
}

/// Removes the transaction file of an attempt that did not commit; one that stays is an orphan.
pub(super) async fn remove_transaction_file(store: &Store, path: &str) {
    if let Err(error) = store.delete(path).await {
        warn!(path = store.full_path(path), %error, "a transaction file was not removed: cleanup will");
    }
}

/// Removes files of a change that a version does not refer to, which an earlier call made of the same transaction.
pub(super) async fn remove_repeated(files: &[StagedFile], earlier: &Snapshot) {
    if let Ok(Some(transaction)) = load::transaction(earlier).await {
        staged::remove(staged::unreferenced(files, &transaction.operation)).await;
    }
}

/// By new index the version that it was made for, if that is not the current one.
async fn indexed(
    current: &Arc<Snapshot>,
    transaction: &Transaction,
) -> Result<BTreeMap<Uuid, IndexedVersion>> {
    match &transaction.operation {
        Operation::CreateIndex(create) if !is_planted(Fault::IndexedVersionIsForgotten) => {
            indexed_versions(current, &create.new_indices, transaction.read_version).await
        }
        _ => Ok(BTreeMap::new()),
    }
}

/// By entry the version that it was made for, if that is not the current one, which does not have the entry either;
/// `read` was the version that was read.
///
/// Errors: retryable `Conflict` if one is gone.
pub(crate) async fn indexed_versions(
    current: &Arc<Snapshot>,
    entries: &[IndexMetadata],
    read: Version,
) -> Result<BTreeMap<Uuid, IndexedVersion>> {
    let mut older = Vec::new();
    let known = current.indices().await?;
    // What these cover every version since then has kept true.
    let is_known = |entry: &IndexMetadata| {
        let covers = |known: &IndexMetadata| match (&known.fragments, &entry.fragments) {
            (Some(known), Some(fragments)) => fragments.is_subset(known),
            _ => false,
        };
        known.iter().any(|known| known.uuid == entry.uuid && known.fields == entry.fields && covers(known))
    };
    for entry in entries.iter().filter(|entry| !entry.is_system()) {
        let version = entry.values_of(read);
        if version == current.version() || is_known(entry) {
            continue;
        }
        let scheme = current.source().scheme;
        match load::load_version(&current.store, current.session(), version, scheme).await {
            Ok(snapshot) => older.push((entry, snapshot)),
            Err(error) if error.is_not_found() => {
                return Err(Error::retryable_conflict(format!(
                    "Retryable commit conflict for version {}: version {version}, which the index was made for, is \
                     gone: which values changed since then is not known. Build `{}` again",
                    current.version(),
                    entry.name
                )));
            }
            Err(error) => return Err(error),
        }
    }
    let of_each = older.iter().map(|(entry, made_for)| {
        let indexed = async move {
            let restored = restored_fragments(made_for, current, entry).await?;
            Ok((entry.uuid, IndexedVersion { manifest: Arc::clone(&made_for.manifest), restored }))
        };
        indexed.boxed()
    });
    Ok(runtime::gather(of_each.collect()).await?.into_iter().collect())
}

/// The fragments of an entry that have rows now which are deleted in the version that it was made for.
///
/// Errors: those of reading deletion files.
async fn restored_fragments(
    made_for: &Arc<Snapshot>,
    current: &Arc<Snapshot>,
    entry: &IndexMetadata,
) -> Result<RoaringBitmap> {
    let checks = entry.fragments.iter().flatten().map(|id| {
        let check = async move {
            let (before, now) =
                (made_for.manifest.fragment(FragmentId(id)), current.manifest.fragment(FragmentId(id)));
            let (Some(before), Some(now)) = (before, now) else { return Ok(None) };
            if before.deletion.is_none() || before.deletion == now.deletion {
                return Ok(None);
            }
            let (before, now) =
                futures::try_join!(made_for.deletion_vector(before), current.deletion_vector(now))?;
            Ok(before.iter().any(|offset| !now.contains(offset)).then_some(id))
        };
        check.boxed()
    });
    Ok(runtime::gather(checks.collect()).await?.into_iter().flatten().collect())
}

/// Fragments whose lineage is in data columns and decides what the transaction makes of them, with it inline.
async fn inline_lineage(
    current: &Arc<Snapshot>,
    transaction: &Transaction,
    writes_version_column: bool,
) -> Result<BTreeMap<FragmentId, Fragment>> {
    let needed = needed_lineage_columns(&current.manifest, &transaction.operation, writes_version_column)?;
    if needed.is_empty() {
        return Ok(BTreeMap::new());
    }
    let snapshot = Arc::clone(current);
    blocking(move || {
        let mut read = BTreeMap::new();
        for (id, sequences) in needed {
            let Some(fragment) = snapshot.manifest.fragment(id) else { continue };
            read.insert(id, scan::inline_lineage(&snapshot, fragment, sequences)?);
        }
        Ok(read)
    })
    .await
}

fn writer() -> WriterVersion {
    WriterVersion {
        library: "pennon".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        prerelease: None,
        build_metadata: None,
    }
}
