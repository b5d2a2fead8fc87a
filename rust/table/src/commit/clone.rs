//! The first version of a branch or clone: the one commit that follows no version of its own table.

use std::sync::Arc;

use pennon_core::manifest::naming::NamingScheme;
use pennon_core::transaction::Transaction;

use super::attempt::Basis;
use super::create;
use super::outcome::CommitOutcome;
use crate::session::{CommitOptions, CreateOptions};
use crate::store::Store;
use crate::versions::Located;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::StagedChange;

/// Publishes a version of `source` as the first of `target`, where there is none.
///
/// Errors, in the outcome: `AlreadyExists` if there is a table at `target`; `Unsupported` for flags that this release
/// cannot write.
pub(crate) async fn publish(
    source: &Arc<Snapshot>,
    target: &Arc<Store>,
    transaction: Transaction,
    options: &CommitOptions,
) -> CommitOutcome {
    if let Err(error) = source.manifest.writer_flags.check_writable() {
        return CommitOutcome::NotCommitted(error);
    }
    let scheme = if source.version().is_detached() { NamingScheme::V2 } else { source.source().scheme };
    let at = Located { version: source.version(), scheme };
    let basis = Basis {
        store: target,
        session: source.session(),
        current: None,
        restored: Some(source),
        create: CreateOptions::default(),
        last_look: None,
    };
    create::first(&basis, at, StagedChange::from(transaction), options).await
}
