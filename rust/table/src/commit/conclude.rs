//! How a commit ended whose answer is outstanding: the one place that says so.

use std::sync::Arc;
use std::time::Duration;

use pennon_core::{Error, Result};
use tracing::warn;

use super::attempt::{self, Basis, Prepared, Published};
use super::outcome::CommitOutcome;
use crate::runtime::{self, Fault, is_planted};
use crate::session::{CommitOptions, Session};
use crate::store::{Durability, Store};
use crate::versions::load;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};

/// How often the manifest of an unanswered put is looked for, and how long to wait before.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(100), Duration::from_secs(1)];

/// Whose manifest has a name.
pub(super) enum Look {
    /// That of the transaction.
    Ours(Arc<Snapshot>),
    /// Somebody else's.
    Others,
    /// Nobody's: there is none.
    Nothing,
    /// It could not be read.
    Failed(Error),
}

/// A put of a manifest whose answer does not say what became of it.
pub(super) struct Unanswered<'a> {
    pub(super) store: &'a Arc<Store>,
    pub(super) session: &'a Arc<Session>,
    /// The version that was put.
    pub(super) at: Located,
    /// The transaction it was put for.
    pub(super) uuid: &'a str,
    pub(super) durability: Durability,
}

impl Unanswered<'_> {
    /// Looks whose manifest it is. One of ours is made durable before it counts.
    pub(super) async fn look(&self) -> Look {
        let &Self { store, session, at, uuid, durability } = self;
        match load::transaction_uuid(store, session, at).await {
            Ok(Some(found)) if found == uuid => {
                let loaded = async {
                    let snapshot = load::load(store, session, at).await?;
                    store.sync(&snapshot.source().path, durability).await?;
                    Ok(snapshot)
                };
                loaded.await.map_or_else(Look::Failed, Look::Ours)
            }
            Ok(_) => Look::Others,
            Err(error) if error.is_not_found() => Look::Nothing,
            Err(error) => Look::Failed(error),
        }
    }

    /// Publishes the version, once. The error `taken` is that of a version which is there already, and is not what an
    /// earlier request of the same put wrote.
    pub(super) async fn publish(
        &self,
        basis: &Basis<'_>,
        prepared: Prepared,
        options: &CommitOptions,
        taken: Error,
    ) -> CommitOutcome {
        let transaction_file = prepared.transaction_file.clone();
        let outcome = match attempt::publish(basis, prepared, options).await {
            Published::Done(snapshot, release) => CommitOutcome::Committed(snapshot, release),
            Published::Refused(error) => CommitOutcome::NotCommitted(error),
            Published::Taken => self.conclude(taken).await,
            Published::InAGap => CommitOutcome::NotCommitted(taken),
            Published::Failed(error) | Published::NotReleased(error) => self.conclude(error).await,
        };
        if let (CommitOutcome::NotCommitted(_), Some(path)) = (&outcome, transaction_file) {
            attempt::remove_transaction_file(self.store, &path).await;
        }
        outcome
    }

    /// Says how a commit ended that failed with `error`. Looks more than once before it says "unknown".
    pub(super) async fn conclude(&self, error: Error) -> CommitOutcome {
        let &Self { store, at, uuid, .. } = self;
        let mut reason = String::new();
        for wait in LOOKS {
            if !wait.is_zero() {
                runtime::sleep(wait).await;
            }
            match self.look().await {
                Look::Ours(snapshot) => return CommitOutcome::Committed(snapshot, Ok(())),
                Look::Others => return CommitOutcome::NotCommitted(error),
                Look::Nothing if is_planted(Fault::UnknownIsNotCommitted) => {
                    return CommitOutcome::NotCommitted(error);
                }
                Look::Nothing if self.cannot_come().await => return CommitOutcome::NotCommitted(error),
                Look::Nothing => reason = format!("there is no version {}, it may still appear", at.version),
                Look::Failed(failure) => reason = format!("version {} cannot be read: {failure}", at.version),
            }
        }
        warn!(path = store.root(), version = at.version.0, uuid, reason, %error, "the outcome of a commit is unknown");
        CommitOutcome::Unknown(Error::commit_unknown(
            uuid,
            format!(
                "{error}. It is unknown whether the change was committed to {}: {reason}. Ask commit_status({uuid:?}) \
                 before you make the change again",
                store.root()
            ),
        ))
    }

    /// Whether a manifest that is not there will never be: what a local disk has not written by now it will not write,
    /// and a version that is newer than all others was not cleaned up.
    async fn cannot_come(&self) -> bool {
        let newest: Result<Option<Located>> = match self.store.is_local() && self.store.external().is_none() {
            true => locate::find(self.store, None).await,
            false => return false,
        };
        newest.is_ok_and(|newest| newest.is_none_or(|newest| newest.version < self.at.version))
    }
}
