//! Manifests and transaction files made again.

use std::collections::HashSet;
use std::sync::Arc;

use memchr::memmem;
use pennon_core::manifest::{DataFile, Flags, Manifest, ManifestFile, naming};
use pennon_core::transaction::{Operation, Transaction};
use pennon_core::{Result, Version, checksum};

use super::Rebuilt;
use crate::commit;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, TRANSACTIONS, VERSIONS, load};

/// A manifest, from the version before and the transaction whose file it names: what is left of the damaged file has
/// that name. Its time is that of the damaged file, between those of its neighbors.
pub(super) async fn manifest(snapshot: &Arc<Snapshot>, path: &str) -> Result<Option<Rebuilt>> {
    let (store, session) = (&snapshot.store, snapshot.session());
    let name = path.strip_prefix(VERSIONS).and_then(|name| name.strip_prefix('/')).unwrap_or_default();
    let Some((version, scheme)) = naming::parse(name) else { return Ok(None) };
    // Which versions are committed another store says, and the size of their manifests.
    if store.external().is_some() {
        return Ok(None);
    }
    let at = Located { version, scheme };
    let load = |version| load::load(store, session, Located { version, scheme });
    let Ok(before) = load(Version(version.0.saturating_sub(1))).await else { return Ok(None) };
    let after = load(version.next()).await.ok();
    let (Some(info), Ok(left)) = (store.info(path).await?, store.get(path).await) else { return Ok(None) };
    let earliest = before.manifest.timestamp;
    let latest = after.as_ref().map_or(info.changed, |after| after.manifest.timestamp).max(earliest);
    let made = info.changed.clamp(earliest, latest);
    for name in store.list(TRANSACTIONS).await? {
        if naming::parse_transaction_file_name(&name).is_none() || !has(&left, name.as_bytes()) {
            continue;
        }
        let bytes = store.get(&format!("{TRANSACTIONS}/{name}")).await?;
        let Ok(transaction) = Transaction::decode(bytes) else { continue };
        if !is_enough(&transaction, &before).await? {
            continue;
        }
        let Ok(bytes) = commit::rebuild(&before, at, transaction, made).await else { continue };
        let manifest = ManifestFile::decode(bytes.clone())?.manifest;
        if after.as_ref().is_none_or(|after| leads_to(&manifest, after)) {
            let from = format!("version {} and the transaction {name}", before.version());
            return Ok(Some(Rebuilt { bytes, from }));
        }
    }
    Ok(None)
}

/// Whether bytes are among others.
pub(super) fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    memmem::find(bytes, wanted).is_some()
}

/// Whether a transaction says all that its version has: where a compaction moved rows is noted in an entry of its own, if
/// indices were not written again; columns of row versions that an update wrote are known to its writer only.
async fn is_enough(transaction: &Transaction, before: &Snapshot) -> Result<bool> {
    Ok(match &transaction.operation {
        Operation::Rewrite(_) => before.indices().await?.is_empty(),
        Operation::Update(_) => !before.manifest.writer_flags.contains(Flags::LINEAGE_COLUMNS),
        Operation::Restore(_) | Operation::Clone(_) => false,
        _ => true,
    })
}

/// Whether a version can come after another one: its counters do not go back, and of fragments that both have, the files
/// are the same unless there are more.
fn leads_to(manifest: &Manifest, after: &Snapshot) -> bool {
    let after = &after.manifest;
    let same_files = manifest.fragments.decode_all().all(|fragment| {
        let paths = |files: &[DataFile]| files.iter().map(|file| file.path.clone()).collect::<HashSet<_>>();
        after
            .fragment(fragment.id)
            .is_none_or(|other| !paths(&other.files).is_disjoint(&paths(&fragment.files)))
    });
    same_files
        && manifest.next_row_id <= after.next_row_id
        && manifest.max_fragment_id <= after.max_fragment_id
}

/// A transaction file, from the copy in the manifest of its version.
pub(super) async fn transaction_file(versions: &[Arc<Snapshot>], path: &str) -> Option<Rebuilt> {
    let name = path.strip_prefix(TRANSACTIONS)?.strip_prefix('/')?;
    for found in versions.iter().rev() {
        if found.manifest.transaction_file != name || found.manifest.transaction_section.is_none() {
            continue;
        }
        if let Ok(Some(transaction)) = load::transaction(found).await {
            let mut bytes = transaction.encode();
            checksum::append(&mut bytes);
            return Some(Rebuilt { bytes: bytes.into(), from: from_manifest(found.version()) });
        }
    }
    None
}

fn from_manifest(version: Version) -> String {
    format!("the copy in the manifest of version {version}")
}
