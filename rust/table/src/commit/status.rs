//! Whether a transaction was committed: asked later, by whoever repeats a commit or was told that its outcome is unknown.

use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::Flags;
use pennon_core::manifest::naming;
use pennon_core::transaction::Transaction;
use pennon_core::{Result, Version};

use super::outcome::CommitStatus;
use crate::runtime::gather;
use crate::session::Session;
use crate::store::Store;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};
use crate::versions::{TRANSACTIONS, load};

/// The version that this very transaction made, if it made one: for a commit that is repeated without knowing what
/// the first one read. The name of its transaction file says since which version to look; a table without such files is
/// searched from the start.
pub(crate) async fn find_repeated(
    newest: &Arc<Snapshot>,
    mine: &Transaction,
) -> Result<Option<Arc<Snapshot>>> {
    let without_files = newest.manifest.writer_flags.contains(Flags::TRANSACTION_FILE_DISABLED);
    let read = read_version(newest, &mine.uuid).await?;
    let Some(first) = read.or(without_files.then_some(Version(0))) else { return Ok(None) };
    let (store, session) = (&newest.store, newest.session());
    let mut versions = locate::list(store).await?;
    versions.retain(|at| at.version > first && at.version <= newest.version());
    match made_by(store, session, &versions, &mine.uuid).await?.into_iter().find(|(_, is_mine)| *is_mine) {
        Some((at, _)) => load::load(store, session, at).await.map(Some),
        None => Ok(None),
    }
}

/// Whether a transaction made each of some versions, without those that were cleaned up since they were listed.
async fn made_by(
    store: &Arc<Store>,
    session: &Arc<Session>,
    versions: &[Located],
    uuid: &str,
) -> Result<Vec<(Located, bool)>> {
    let looks = versions.iter().map(|&at| {
        let look = async move {
            match load::transaction_uuid(store, session, at).await {
                Ok(found) => Ok(Some((at, found.is_some_and(|found| found == uuid)))),
                Err(error) if error.is_not_found() => Ok(None),
                // Never written to its end: its commit has failed.
                Err(_) if load::is_torn(store, at).await => Ok(Some((at, false))),
                Err(error) => Err(error),
            }
        };
        look.boxed()
    });
    Ok(gather(looks.collect()).await?.into_iter().flatten().collect())
}

/// Whether a transaction was committed to the table that a version is of.
pub(crate) async fn status(newest: &Arc<Snapshot>, uuid: &str) -> Result<CommitStatus> {
    let (store, session) = (&newest.store, newest.session());
    let read = read_version(newest, uuid).await?.unwrap_or(Version(0));
    let mut versions = locate::list(store).await?;
    versions.retain(|at| at.version > read);
    let looked = made_by(store, session, &versions, uuid).await?;
    if let Some((at, _)) = looked.iter().find(|(_, is_mine)| *is_mine) {
        return Ok(CommitStatus::Committed(at.version));
    }
    let expected = (read.0.saturating_add(1)..=newest.version().0).map(Version);
    let has_all = expected.eq(looked.iter().map(|(at, _)| at.version).filter(|&at| at <= newest.version()));
    Ok(if has_all { CommitStatus::NotCommitted } else { CommitStatus::Unknown })
}

/// The version that a transaction read, as the name of its file says; `None` without a file.
async fn read_version(snapshot: &Snapshot, uuid: &str) -> Result<Option<Version>> {
    let names = snapshot.store.list(TRANSACTIONS).await?;
    let files = names.iter().filter_map(|name| naming::parse_transaction_file_name(name));
    Ok(files.filter(|(_, of)| *of == uuid).map(|(version, _)| version).min())
}
