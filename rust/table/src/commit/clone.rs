//! The first version of a branch or clone: the one commit that follows no version of its own table.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::manifest::naming::NamingScheme;
use pennon_core::transaction::Transaction;

use super::attempt::{self, Beside, Published};
use super::{CommitParams, already_exists, latest, load};
use crate::snapshot::Snapshot;
use crate::store::Store;

/// Publishes a version of `source` as the first of `target`, where there is none.
///
/// Errors: `AlreadyExists` if somebody else was quicker; `Unsupported` for flags that this release cannot write.
pub(crate) async fn publish(
    source: &Arc<Snapshot>,
    target: &Arc<Store>,
    transaction: Transaction,
    params: &CommitParams,
) -> Result<Arc<Snapshot>> {
    source.manifest.writer_flags.check_writable()?;
    if latest::find(target, None).await?.is_some() {
        return Err(already_exists(target));
    }
    let (session, scheme) = (source.session(), source.source().scheme);
    let scheme = if source.version().is_detached() { NamingScheme::V2 } else { scheme };
    let at = latest::Located { version: source.version(), scheme };
    let beside = Beside { restored: Some(source), ..Beside::default() };
    let published = attempt::publish(target, session, None, at, &transaction, beside, params);
    match published.await? {
        Published::Done(snapshot) => return Ok(snapshot),
        Published::Refused { transaction, error } => {
            super::remove_refused(target, transaction).await;
            return Err(error);
        }
        Published::Taken { .. } => {}
    }
    // The answer to our own put may have been lost on the way.
    match load::load_version(target, session, source.version(), scheme).await {
        Ok(there) if super::is_ours(&there, &transaction).await => Ok(there),
        _ => Err(already_exists(target)),
    }
}
