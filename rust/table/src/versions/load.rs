//! From a manifest file to a [`Snapshot`], and from a snapshot to its transaction.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pennon_core::error::ResultExt;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::manifest::{Manifest, Tail};
use pennon_core::transaction::{Operation, Restore, Transaction};
use pennon_core::{Error, Result, Version, checksum};
use tracing::warn;

use super::recent::KnownManifest;
use super::snapshot::{COMPARED, ManifestSource, Snapshot};
use super::{Located, locate, missing};
use super::{TRANSACTIONS, count, external, manifest_path, recent};
use crate::runtime::blocking;
use crate::session::{EntryKind, Session};
use crate::store::{FileEnd, FileInfo, Store};

/// What is fetched of a manifest file at first: all of it for most tables.
const PREFETCH: u64 = 64 * 1024;
/// What is read at once of a local one: its fragments are slices of what was read.
const LOCAL_PREFETCH: u64 = 32 << 20;
/// What is kept of the end of a file that was read in pieces.
pub(crate) const KEPT_TAIL: usize = 64 * 1024;
/// The end of every manifest file.
const FOOTER: u64 = 16;
/// How often the newest version is found again: each time it was cleaned up before it was read.
const MAX_RETRIES: u32 = 16;

/// The error of a table or version that is not there.
pub(crate) fn not_found(store: &Store, path: &str) -> Error {
    let path = store.full_path(path);
    Error::not_found(format!("Dataset at path {path} was not found: Not found: {path}"))
}

/// Loads a version whose naming is known.
pub(crate) async fn load(store: &Arc<Store>, session: &Arc<Session>, at: Located) -> Result<Arc<Snapshot>> {
    let path = manifest_path(at.version, at.scheme);
    let kept = session.get::<KnownManifest>(EntryKind::Manifest, &store.reader_name(&path));
    let make = |known: &KnownManifest| {
        let (manifest, source) = (Arc::clone(&known.manifest), Arc::clone(&known.source));
        Snapshot::new(Arc::clone(store), Arc::clone(session), manifest, source)
    };
    let mut length = PREFETCH;
    let recent = || if session.is_off() { None } else { recent::get(store, &path) };
    // On a local disk the file's metadata costs less than its bytes.
    if store.is_local() {
        let info = file_info(store, at, &path).await?.ok_or_else(|| not_found(store, &path))?;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.info.stamp == info.stamp) {
            return Ok(make(kept));
        }
        length = info.size.clamp(PREFETCH, LOCAL_PREFETCH);
        if info.size >= recent::SMALLEST
            && let Some(known) = recent().filter(|known| known.info.stamp == info.stamp)
        {
            let (end, size) = store.get_tail(&path, COMPARED).await?;
            if size == known.source.size && known.source.tail.ends_with(&end) {
                keep(session, store, &known);
                return Ok(make(&known));
            }
        }
    }
    // Other stores say whether the file is still the one that is known.
    let known = if store.is_local() { None } else { kept.as_deref().cloned().or_else(recent) };
    let Some(end) = get_end(store, at, &path, length, known.as_ref().map(|known| &known.info)).await? else {
        let known = known
            .ok_or_else(|| Error::internal(format!("{path} is what it was, and nothing is known of it")))?;
        keep(session, store, &known);
        return Ok(make(&known));
    };
    let info = end.info.clone();
    let (manifest, source) = decode(store, at, path.clone(), end).await?;
    manifest.reader_flags.check_readable().in_file(|| store.full_path(&source.path))?;
    let found = Snapshot::new(Arc::clone(store), Arc::clone(session), Arc::new(manifest), source);
    let snapshot = count::counted(found).await.in_file(|| store.full_path(&path))?;
    let known = known_manifest(&snapshot, info);
    if !session.is_off() {
        recent::put(store, &known);
    }
    keep(session, store, &known);
    Ok(snapshot)
}

fn known_manifest(snapshot: &Snapshot, info: FileInfo) -> KnownManifest {
    KnownManifest { manifest: Arc::clone(&snapshot.manifest), source: Arc::clone(snapshot.source()), info }
}

/// The end of a manifest file; `None` if the file is what `known` says. One that is committed and has not got its name
/// yet is finished first. Errors: `NotFound`.
async fn get_end(
    store: &Store,
    at: Located,
    path: &str,
    length: u64,
    known: Option<&FileInfo>,
) -> Result<Option<FileEnd>> {
    let missing = |error: Error| if error.is_not_found() { not_found(store, path) } else { error };
    match store.get_end(path, length, known).await {
        Err(error) if error.is_not_found() => match store.external() {
            // Committed, but its writer stopped before the manifest had its name.
            Some(external) if external::complete_version(store, external, at.version).await? => {
                store.get_end(path, length, None).await.map_err(missing)
            }
            _ => Err(missing(error)),
        },
        found => found,
    }
}

/// Decodes a manifest, whatever features it needs. Reads what the end of the file does not have.
async fn decode(
    store: &Store,
    at: Located,
    path: String,
    end: FileEnd,
) -> Result<(Manifest, ManifestSource)> {
    let FileEnd { bytes: mut tail, info: FileInfo { size, stamp, .. } } = end;
    let full_path = store.full_path(&path);
    let range = Tail::locate(&tail, size).in_file(|| &full_path)?;
    let tail_start = size.saturating_sub(to_u64(tail.len()));
    let message = if range.start >= tail_start {
        slice(&tail, range.start - tail_start, range.end - tail_start)
    } else {
        let head = store.get_range(&path, range.start..tail_start).await?;
        let rest = slice(&tail, 0, range.end.saturating_sub(tail_start))
            .ok_or_else(|| Error::corrupt("the manifest ends before its last part").in_file(&full_path))?;
        let mut joined = BytesMut::with_capacity(head.len() + rest.len());
        joined.extend_from_slice(&head);
        joined.extend_from_slice(&rest);
        // The fragments are slices of what was joined.
        tail = Bytes::copy_from_slice(tail.get(tail.len().saturating_sub(KEPT_TAIL)..).unwrap_or_default());
        Some(joined.freeze())
    };
    let message =
        message.ok_or_else(|| Error::corrupt("the manifest lies outside its file").in_file(&full_path))?;
    if store.looks_at_seals() && !checksum::is_at_end(&message) {
        let file = store.get(&path).await?;
        store.check_seal(&path, &file).await.in_file(|| &full_path)?;
        let start = usize::try_from(range.start).unwrap_or(usize::MAX);
        if !file.get(start..).is_some_and(|rest| rest.starts_with(&message)) {
            return Err(Error::corrupt("the manifest was changed while it was read").in_file(&full_path));
        }
    }
    let length = message.len();
    let other = if size < recent::SMALLEST { None } else { recent::of_same_table(store, &path) };
    let decode = move || Manifest::decode_sharing(message, other.as_deref());
    // Decoding a large manifest takes milliseconds: not on the runtime's own threads.
    let mut manifest =
        if length > 64 * 1024 { blocking(decode).await } else { decode() }.in_file(|| &full_path)?;
    if manifest.carried.dictionaries.are_missing() {
        // They are before the first section; the length of the manifest is before its message.
        let sections = [manifest.index_section, manifest.transaction_section];
        let end = sections.into_iter().flatten().fold(range.start.saturating_sub(4), u64::min);
        let pages = match slice(&tail, 0, end).filter(|_| to_u64(tail.len()) == size) {
            Some(pages) => Bytes::copy_from_slice(&pages),
            None => store.get_range(&path, 0..end).await?,
        };
        manifest.carried.dictionaries.pages = Some(pages);
    }
    if manifest.version != at.version {
        return Err(Error::corrupt(format!(
            "{full_path}: the manifest says version {}, its name says {}",
            manifest.version, at.version
        )));
    }
    Ok((manifest, ManifestSource { path, scheme: at.scheme, size, tail, stamp: stamp.into() }))
}

/// The uuid of the transaction that made a version, whatever features the version needs; `None` if nothing in the
/// table says. Errors: `NotFound` for a version that is not there.
pub(crate) async fn transaction_uuid(
    store: &Arc<Store>,
    session: &Arc<Session>,
    at: Located,
) -> Result<Option<String>> {
    let path = manifest_path(at.version, at.scheme);
    let end = get_end(store, at, &path, PREFETCH, None).await?.ok_or_else(|| not_found(store, &path))?;
    let (manifest, source) = decode(store, at, path, end).await?;
    uuid(&Snapshot::new(Arc::clone(store), Arc::clone(session), Arc::new(manifest), source)).await
}

/// The uuid of the transaction that made a version: from the name of its file, which the manifest keeps when the file
/// is gone, else from the inline copy.
pub(crate) async fn uuid(snapshot: &Snapshot) -> Result<Option<String>> {
    match naming::parse_transaction_file_name(&snapshot.manifest.transaction_file) {
        Some((_, uuid)) => Ok(Some(uuid.to_owned())),
        None => Ok(transaction(snapshot).await?.map(|transaction| transaction.uuid)),
    }
}

/// Size and stamp of a manifest; one that is committed and has not got its name yet is finished first.
async fn file_info(store: &Store, at: Located, path: &str) -> Result<Option<FileInfo>> {
    match (store.info(path).await?, store.external()) {
        // Committed, but its writer stopped before the manifest had its name.
        (None, Some(external)) if external::complete_version(store, external, at.version).await? => {
            store.info(path).await
        }
        (info, _) => Ok(info),
    }
}

fn keep(session: &Session, store: &Store, known: &KnownManifest) {
    let bytes = usize::try_from(known.source.size).unwrap_or(usize::MAX);
    let bytes = bytes.saturating_add(known.manifest.memory_bytes());
    let name = store.reader_name(&known.source.path);
    session.put(EntryKind::Manifest, &name, &Arc::new(known.clone()), bytes);
}

/// Remembers a version that was just published, for whoever opens the table next in this process.
pub(crate) async fn remember(snapshot: &Snapshot) {
    let (store, source) = (&snapshot.store, snapshot.source());
    if !store.is_local() || snapshot.session().is_off() || source.size < recent::SMALLEST {
        return;
    }
    if let Ok(Some(info)) = store.info(&source.path).await
        && info.size == source.size
    {
        recent::put(store, &known_manifest(snapshot, info));
    }
}

/// The newest version that can be read.
pub(crate) struct Newest {
    pub(crate) snapshot: Arc<Snapshot>,
    /// What is wrong with the versions above it.
    pub(crate) corruption: Option<String>,
}

/// Loads the newest version; if its manifest is torn, the one before. If it was cleaned up since it was found, another one
/// is the newest by now.
///
/// A crash of the machine leaves empty or cut files in the place of those that were not synced. Nobody was told that
/// such a version was committed, unless by a writer that does not sync. Everything else that is wrong with a manifest is
/// an error: going back would hide versions that were acknowledged.
pub(crate) async fn newest(store: &Arc<Store>, session: &Arc<Session>, mut found: Located) -> Result<Newest> {
    let mut retries = 0;
    let error = loop {
        match load(store, session, found).await {
            Ok(snapshot) => return Ok(Newest { snapshot, corruption: None }),
            Err(error) if error.is_not_found() && retries < MAX_RETRIES => {
                match locate::find(store, None).await? {
                    Some(newer) if newer != found => found = newer,
                    _ => return Err(error),
                }
                retries += 1;
            }
            Err(error) if is_torn(store, found).await => break error,
            Err(error) => return Err(error),
        }
    };
    let older = locate::list(store).await?.into_iter().rev().filter(|at| at.version < found.version);
    for at in older {
        match load(store, session, at).await {
            Ok(snapshot) => {
                let path = store.full_path(&manifest_path(found.version, found.scheme));
                warn!(path, version = found.version.0, opened = at.version.0, %error, "a torn manifest was passed over");
                let corruption =
                    format!("{error}; opened version {}, the newest one that is whole", at.version);
                return Ok(Newest { snapshot, corruption: Some(corruption) });
            }
            Err(_) if is_torn(store, at).await => {}
            Err(error) => return Err(error),
        }
    }
    Err(error)
}

/// Loads a version that was listed; `None` if it was cleaned up since, or was never written to its end.
pub(crate) async fn listed(
    store: &Arc<Store>,
    session: &Arc<Session>,
    at: Located,
) -> Result<Option<Arc<Snapshot>>> {
    match load(store, session, at).await {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(error) if error.is_not_found() || is_torn(store, at).await => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a manifest was not written to its end. Stores other than the local disk show files only when they are.
pub(crate) async fn is_torn(store: &Store, at: Located) -> bool {
    if !store.is_local() || store.external().is_some() {
        return false;
    }
    let path = manifest_path(at.version, at.scheme);
    let footer = store.get_tail(&path, FOOTER).await;
    if !footer.is_ok_and(|(footer, size)| Tail::may_be_torn(&footer, size)) {
        return false;
    }
    store.get(&path).await.is_ok_and(|file| Tail::is_torn(&file))
}

/// Loads a version by number. `scheme` is a guess; the other one is tried too. Errors: `NotFound`, saying what would have
/// kept it.
pub(crate) async fn load_version(
    store: &Arc<Store>,
    session: &Arc<Session>,
    version: Version,
    scheme: NamingScheme,
) -> Result<Arc<Snapshot>> {
    let other = if scheme == NamingScheme::V1 { NamingScheme::V2 } else { NamingScheme::V1 };
    match load(store, session, Located { version, scheme }).await {
        Err(error) if error.is_not_found() && !version.is_detached() => {
            match load(store, session, Located { version, scheme: other }).await {
                Err(second) if second.is_not_found() => {
                    Err(explain_missing(store, session, version, error).await)
                }
                found => found,
            }
        }
        found => found,
    }
}

/// The error of a version that was not found in a table: it was cleaned up, is one from before a clone, or nobody has
/// committed it yet. What was found out already if there is no table.
async fn explain_missing(
    store: &Arc<Store>,
    session: &Arc<Session>,
    version: Version,
    error: Error,
) -> Error {
    let Ok(Some(newest)) = locate::find(store, None).await.map(|found| found.map(|at| at.version)) else {
        return error;
    };
    if version == Version(0) || version > newest {
        let root = store.root();
        return Error::not_found(format!(
            "There is no version {version} of {root}: it was not found, and the newest is {newest}"
        ));
    }
    if let Some(error) = before_clone(store, session, version).await {
        return error;
    }
    missing::cleaned_up(
        version,
        &format!("it is the one that was asked for, and was not found in {}", store.root()),
    )
}

/// The error of a version before the first one of a clone or branch; `None` if the table is neither, begins with that
/// version or an earlier one, or if its first version was cleaned up.
pub(crate) async fn before_clone(
    store: &Arc<Store>,
    session: &Arc<Session>,
    version: Version,
) -> Option<Error> {
    let first = *locate::list(store).await.ok()?.first()?;
    if version >= first.version {
        return None;
    }
    let snapshot = load(store, session, first).await.ok()?;
    let Operation::Clone(clone) = transaction(&snapshot).await.ok()??.operation else { return None };
    Some(Error::not_found(format!(
        "There is no version {version} of {}: it begins at version {} of {}, where earlier versions are",
        store.root(),
        clone.ref_version,
        clone.ref_path
    )))
}

/// The version that a restore goes back to. Errors: `NotFound` naming it.
pub(crate) async fn restored(newest: &Snapshot, restore: &Restore) -> Result<Arc<Snapshot>> {
    let (store, session, scheme) = (&newest.store, newest.session(), newest.source().scheme);
    let loaded = load_version(store, session, restore.version, scheme).await;
    loaded.at(|| format!("Restore of version {}", restore.version))
}

/// The transaction that made a version: the inline copy, else the file; `None` if neither was kept
/// (table format 7.5). Errors: `Corrupt` if what is there does not decode.
pub(crate) async fn transaction(snapshot: &Snapshot) -> Result<Option<Transaction>> {
    if let Some(offset) = snapshot.manifest.transaction_section {
        let bytes = snapshot.section(offset, "transaction").await?;
        return Transaction::decode(bytes).at(|| snapshot.section_at("transaction", offset)).map(Some);
    }
    if snapshot.manifest.transaction_file.is_empty() {
        return Ok(None);
    }
    let path = format!("{TRANSACTIONS}/{}", snapshot.manifest.transaction_file);
    match snapshot.store.get(&path).await {
        Ok(bytes) => {
            if snapshot.store.looks_at_seals() && !checksum::is_at_end(&bytes) {
                let checked = snapshot.store.check_seal(&path, &bytes).await;
                checked.in_file(|| snapshot.store.full_path(&path))?;
            }
            Transaction::decode(bytes).in_file(|| snapshot.store.full_path(&path)).map(Some)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn slice(bytes: &Bytes, start: u64, end: u64) -> Option<Bytes> {
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    bytes.get(start..end)?;
    Some(bytes.slice(start..end))
}
