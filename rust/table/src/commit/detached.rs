//! Commits outside the history: a version with a random number whose bit 63 is set (table format 8.1).

use std::sync::Arc;

use pennon_core::manifest::naming::NamingScheme;
use pennon_core::transaction::{Operation, Transaction};
use pennon_core::{Error, Result, Version};

use super::attempt::{self, Basis};
use super::conclude::Unanswered;
use super::outcome::CommitOutcome;
use crate::runtime;
use crate::session::{CommitOptions, CreateOptions};
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, load, locate, manifest_path};
use crate::write::staged::StagedChange;

const DETACHED: u64 = 1 << 63;

/// Commits on top of the version that was read, the newest if that is 0, without a look at what others did.
///
/// Errors, in the outcome: `Unsupported` for a table whose manifests are named in the older way, `NotFound` for the
/// version, also if a cleanup removed it meanwhile.
pub(crate) async fn detached(
    newest: Arc<Snapshot>,
    transaction: Transaction,
    options: &CommitOptions,
) -> CommitOutcome {
    attempt(newest, transaction, options).await.unwrap_or_else(CommitOutcome::NotCommitted)
}

/// An error is one of before the put, or of a version that was taken back.
async fn attempt(
    newest: Arc<Snapshot>,
    mut transaction: Transaction,
    options: &CommitOptions,
) -> Result<CommitOutcome> {
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
    let change = StagedChange::from(transaction);
    let basis = Basis {
        store: &store,
        session: &session,
        current: Some(&base),
        restored: restored.as_deref(),
        create: CreateOptions::default(),
        last_look: None,
    };
    let at = Located { version: Version(runtime::random() | DETACHED), scheme };
    let prepared = attempt::prepare(&basis, at, &change, None, options.durability).await?;
    let (uuid, durability) = (change.transaction.uuid.as_str(), options.durability);
    let put = Unanswered { store: &store, session: &session, at, uuid, durability };
    // Two equal random numbers are as likely as nothing: it is the second put of a client that sent it again.
    let taken = Error::conflict(format!("version {} is taken", at.version));
    let outcome = put.publish(&basis, prepared, options, taken).await;
    let needed = restored.as_ref().unwrap_or(&base);
    if let CommitOutcome::Committed(..) = &outcome
        && let Some(error) = locate::removed_meanwhile(needed).await
    {
        // A cleanup that did not see this version removes files that it needs.
        let is_left =
            |_| error.clone().at(format!("version {} is left, without some of its files", at.version));
        store.delete(&manifest_path(at.version, at.scheme)).await.map_err(is_left)?;
        return Err(error);
    }
    Ok(outcome)
}
