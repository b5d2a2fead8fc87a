//! Commits outside the history: a version with a random number whose bit 63 is set (table format 8.1).

use std::sync::Arc;

use pennon_core::manifest::naming::NamingScheme;
use pennon_core::transaction::{Operation, Transaction};
use pennon_core::{Error, Result, Version};

use super::attempt::{self, Beside, Published};
use super::latest::Located;
use super::{CommitParams, load};
use crate::snapshot::Snapshot;

const DETACHED: u64 = 1 << 63;

/// Commits on top of the version that was read, the newest if that is 0, without a look at what others did.
///
/// Errors: `Unsupported` for a table whose manifests are named in the older way, `NotFound` for the version.
pub(crate) async fn detached(
    newest: Arc<Snapshot>,
    mut transaction: Transaction,
    params: &CommitParams,
) -> Result<Arc<Snapshot>> {
    let scheme = newest.source().scheme;
    if scheme != NamingScheme::V2 {
        return Err(Error::unsupported(
            "A detached commit needs manifests named in the newer way: migrate_manifest_paths_v2 renames them",
        ));
    }
    let (store, session) = (Arc::clone(&newest.store), Arc::clone(newest.session()));
    let base = match transaction.read_version {
        Version(0) => newest,
        version => load::load_version(&store, &session, version, scheme).await?,
    };
    transaction.read_version = base.version();
    let restored = match &transaction.operation {
        Operation::Restore(restore) => Some(load::restored(&base, restore).await?),
        _ => None,
    };
    loop {
        let at = Located { version: Version(rand::random::<u64>() | DETACHED), scheme };
        let beside = Beside { restored: restored.as_deref(), ..Beside::default() };
        let published = attempt::publish(&store, &session, Some(&base), at, &transaction, beside, params);
        match published.await? {
            Published::Done(snapshot) => return Ok(snapshot),
            Published::Refused { transaction, error } => {
                super::remove_refused(&store, transaction).await;
                return Err(error);
            }
            // As likely as two equal random numbers.
            Published::Taken { .. } => {}
        }
    }
}
