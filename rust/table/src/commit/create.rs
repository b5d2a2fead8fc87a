//! The first version of a table.

use std::sync::Arc;

use pennon_core::manifest::naming::NamingScheme;
use pennon_core::{Error, Version};
use tracing::{Instrument, info_span};

use super::attempt::{self, Basis};
use super::conclude::{Look, Unanswered};
use super::outcome::CommitOutcome;
use crate::session::{CommitOptions, CreateOptions, Session};
use crate::store::Store;
use crate::versions::{Located, locate};
use crate::write::staged::StagedChange;

/// The error of a table that is not expected to exist.
pub(crate) fn already_exists(store: &Store) -> Error {
    Error::already_exists(format!("Dataset already exists: {}", store.uri()))
}

/// Creates a table. Errors, in the outcome: `AlreadyExists` if somebody else did.
pub(crate) async fn create(
    store: &Arc<Store>,
    session: &Arc<Session>,
    change: StagedChange,
    create: CreateOptions,
    options: &CommitOptions,
) -> CommitOutcome {
    let scheme = if create.enable_v2_manifest_paths { NamingScheme::V2 } else { NamingScheme::V1 };
    let at = Located { version: Version(1), scheme };
    let basis = Basis { store, session, current: None, restored: None, create, last_look: None };
    first(&basis, at, change, options).await
}

/// Publishes the first version of a table, under any number.
pub(super) async fn first(
    basis: &Basis<'_>,
    at: Located,
    change: StagedChange,
    options: &CommitOptions,
) -> CommitOutcome {
    let span = info_span!("commit.create", table = basis.store.root(), uuid = change.transaction.uuid);
    async {
        let outcome = publish(basis, at, &change, options).await;
        if let CommitOutcome::NotCommitted(_) = &outcome {
            change.discard().await;
        }
        outcome
    }
    .instrument(span)
    .await
}

async fn publish(
    basis: &Basis<'_>,
    at: Located,
    change: &StagedChange,
    options: &CommitOptions,
) -> CommitOutcome {
    let (store, session, uuid) = (basis.store, basis.session, change.transaction.uuid.as_str());
    let put = |at| Unanswered { store, session, at, uuid, durability: options.durability };
    match locate::find(store, None).await {
        Err(error) => return CommitOutcome::NotCommitted(error),
        // An earlier call may have created it, of the same transaction.
        Ok(Some(existing)) => {
            return match put(Located { version: at.version, scheme: existing.scheme }).look().await {
                Look::Ours(snapshot) => {
                    // What arrives after it was removed would stay; whether it arrives does not matter any more.
                    let _ = change.uploads.arrive().await;
                    attempt::remove_repeated(&change.files, &snapshot).await;
                    CommitOutcome::Committed(snapshot, Ok(()))
                }
                Look::Failed(error) => CommitOutcome::NotCommitted(error),
                Look::Others | Look::Nothing => CommitOutcome::NotCommitted(already_exists(store)),
            };
        }
        Ok(None) => {}
    }
    let put = put(at);
    let prepared = match attempt::prepare(basis, at, change, None, options.durability).await {
        Ok(prepared) => prepared,
        Err(error) => return CommitOutcome::NotCommitted(error),
    };
    put.publish(basis, prepared, options, already_exists(store)).await
}
