//! One attempt: transaction file, next manifest, put-if-absent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pennon_core::apply::{ApplyContext, apply, needed_lineage_columns};
use pennon_core::manifest::naming;
use pennon_core::manifest::{
    Flags, Fragment, FragmentReuse, IndexMetadata, Manifest, Timestamp, WriterVersion, write_manifest_file,
};
use pennon_core::transaction::{Operation, Transaction};
use pennon_core::{Error, FragmentId, Result, Version, wire};
use uuid::Uuid;

use super::latest::Located;
use super::lock::{self, Under};
use super::{CommitParams, TRANSACTIONS, external, latest, load, manifest_path, probe};
use crate::scan;
use crate::session::Session;
use crate::snapshot::{ManifestSource, Snapshot};
use crate::store::{Durability, Store};

/// A transaction larger than this is only kept as a file: every open would read past it.
const INLINE_LIMIT: usize = 64 * 1024;
/// The end of the manifest file that a snapshot keeps.
const KEPT_TAIL: usize = 64 * 1024;

/// How an attempt ended, unless in an error.
pub(super) enum Published {
    /// The version is committed.
    Done(Arc<Snapshot>),
    /// Somebody else has published that version.
    Taken {
        /// The transaction file of the attempt, if it may go once it is certain that the attempt did not commit.
        transaction: Option<String>,
    },
    /// The caller's lock was not given, so nothing was published.
    Refused {
        /// As above.
        transaction: Option<String>,
        /// Why.
        error: Error,
    },
}

/// What a transaction has no place for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside<'a> {
    /// The version that is restored or copied.
    pub(super) restored: Option<&'a Snapshot>,
    /// See [`super::Change::reuse`].
    pub(super) reuse: Option<&'a FragmentReuse>,
    /// See [`ApplyContext`].
    pub(super) writes_version_column: bool,
}

/// Publishes what a transaction makes of `current` (of nothing without it) as the version `at`, detached or not.
pub(super) async fn publish(
    store: &Arc<Store>,
    session: &Arc<Session>,
    current: Option<&Arc<Snapshot>>,
    at: Located,
    transaction: &Transaction,
    beside: Beside<'_>,
    params: &CommitParams,
) -> Result<Published> {
    let mut flags = Flags::default();
    let mut indices = Arc::default();
    if let Some(current) = current {
        flags = current.manifest.writer_flags;
        flags.check_writable()?;
        indices = current.indices().await?;
    }
    let encoded = Bytes::from(transaction.encode());
    let transaction_file = if flags.contains(Flags::TRANSACTION_FILE_DISABLED) {
        String::new()
    } else {
        naming::transaction_file_name(transaction.read_version, &transaction.uuid)
    };
    let restored = match beside.restored {
        Some(snapshot) => {
            Some((snapshot.manifest.as_ref().clone(), snapshot.indices().await?.as_ref().clone()))
        }
        None => None,
    };
    let indexed = match current {
        Some(current) => indexed(current, transaction).await?,
        None => None,
    };
    let inline_lineage = match current {
        Some(current) => inline_lineage(current, transaction, beside.writes_version_column).await?,
        None => BTreeMap::new(),
    };
    let timestamp = now()?;
    let reuse = beside.reuse.map(|reuse| reuse.entry(&indices, Uuid::new_v4(), timestamp)).transpose()?;
    let context = ApplyContext {
        timestamp,
        // A detached version has the lineage that the next one of the history would have.
        taken: if at.version.is_detached() { Version(0) } else { Version(at.version.0.saturating_sub(1)) },
        transaction_file,
        restored: restored.as_ref(),
        indexed: indexed.as_deref(),
        fragment_reuse: reuse.as_ref(),
        writer: writer(),
        enable_stable_row_ids: params.enable_stable_row_ids,
        file_version: params.file_version,
        inline_lineage: &inline_lineage,
        writes_version_column: beside.writes_version_column,
    };
    let (mut manifest, indices) =
        apply(current.map(|c| c.manifest.as_ref()), &indices, transaction, &context)?;
    manifest.version = at.version;
    // What is new is encoded once, so that the next commits copy it.
    manifest.fragments.seal();
    // Whoever committed a transaction of this uuid elsewhere has an inline copy then.
    let small = encoded.len() <= INLINE_LIMIT;
    let inline = small || manifest.transaction_file.is_empty();
    let file = Bytes::from(encode(&mut manifest, &indices, inline.then_some(&encoded))?);
    let mut written = None;
    if !manifest.transaction_file.is_empty() {
        let path = format!("{TRANSACTIONS}/{}", manifest.transaction_file);
        written = small.then(|| path.clone());
        probe::put(store, session, path, encoded, params.durability).await?;
    }
    let path = manifest_path(at.version, at.scheme);
    let put = async {
        match store.external() {
            Some(external) if !at.version.is_detached() => {
                external::publish(store, external, at, file.clone(), params.durability).await
            }
            _ => store.put_if_absent(&path, file.clone(), params.durability).await,
        }
    };
    let put = match lock::hold(params.lock.as_ref().or(session.lock()), at.version, put).await? {
        Under::Done(put) => put,
        Under::Refused(error) => return Ok(Published::Refused { transaction: written, error }),
    };
    match put {
        Ok(true) => {}
        Ok(false) => return Ok(Published::Taken { transaction: written }),
        Err(error) => {
            return recover(store, session, transaction, at, error, params.durability).await;
        }
    }
    if !at.version.is_detached() {
        latest::write_hint(store, manifest.version).await;
    }
    let tail = file.slice(file.len().saturating_sub(KEPT_TAIL)..);
    let tail = if tail.len() < file.len() { Bytes::copy_from_slice(&tail) } else { tail };
    let size = u64::try_from(file.len()).map_err(|_| Error::internal("a manifest of more than 64 bits"))?;
    let source = ManifestSource { path, scheme: at.scheme, size, tail };
    let done = Snapshot::new(Arc::clone(store), Arc::clone(session), Arc::new(manifest), source);
    load::remember(&done).await;
    Ok(Published::Done(done))
}

/// The version that an index was made for, if others committed since then. Errors: retryable `Conflict` if it is gone.
async fn indexed(current: &Arc<Snapshot>, transaction: &Transaction) -> Result<Option<Arc<Manifest>>> {
    let read = transaction.read_version;
    let Operation::CreateIndex(create) = &transaction.operation else { return Ok(None) };
    if read == current.version() || create.new_indices.iter().all(IndexMetadata::is_system) {
        return Ok(None);
    }
    let loaded = load::load_version(&current.store, current.session(), read, current.source().scheme).await;
    match loaded {
        Ok(snapshot) => Ok(Some(Arc::clone(&snapshot.manifest))),
        Err(error) if error.is_not_found() => Err(Error::retryable_conflict(format!(
            "Retryable commit conflict for version {}: version {read}, which the index was made for, is gone: which \
             values changed since then is not known",
            current.version()
        ))),
        Err(error) => Err(error),
    }
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
    crate::blocking(move || {
        let mut read = BTreeMap::new();
        for (id, sequences) in needed {
            let Some(fragment) = snapshot.manifest.fragment(id) else { continue };
            read.insert(id, scan::inline_lineage(&snapshot, fragment, sequences)?);
        }
        Ok(read)
    })
    .await
}

/// A put that failed may have succeeded all the same: look whose manifest is there.
async fn recover(
    store: &Arc<Store>,
    session: &Arc<Session>,
    mine: &Transaction,
    at: Located,
    error: Error,
    durability: Durability,
) -> Result<Published> {
    let there = load::load(store, session, at).await;
    match there {
        Ok(snapshot) => match load::transaction(&snapshot).await {
            Ok(Some(theirs)) if theirs.uuid == mine.uuid => {
                // Visible, but perhaps not synced: only then is it acknowledged.
                store.sync(&snapshot.source().path, durability).await?;
                Ok(Published::Done(snapshot))
            }
            _ => Ok(Published::Taken { transaction: None }),
        },
        Err(_) => Err(error),
    }
}

fn encode(
    manifest: &mut Manifest,
    indices: &[IndexMetadata],
    transaction: Option<&Bytes>,
) -> Result<Vec<u8>> {
    let section = (!indices.is_empty()).then(|| wire::index_section::encode(indices));
    write_manifest_file(manifest, section.as_deref(), transaction.map(|bytes| bytes.as_ref()))
}

fn writer() -> WriterVersion {
    WriterVersion {
        library: "pennon".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        prerelease: None,
        build_metadata: None,
    }
}

fn now() -> Result<Timestamp> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|e| Error::store("the system's clock is before 1970").with_source(e))?;
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Ok(Timestamp { seconds, nanos: since.subsec_nanos() })
}
