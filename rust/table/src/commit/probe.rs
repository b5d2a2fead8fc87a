//! Does the store keep its word? Two puts of one name, both only if it is absent: one must be refused.
//!
//! Some stores that speak the protocol of S3 ignore the condition and overwrite. Two writers there would overwrite
//! each other's versions, and both would believe they had committed. So the first transaction file or reference that a
//! process writes to such a store is put twice, at the same time and with the same bytes: that costs two requests, and
//! leaves nothing behind.
//!
//! | store | probed |
//! |---|---|
//! | local disks, external manifest stores, S3, GCS and Azure themselves | never |
//! | a cloud protocol at an endpoint of the user's | once per process, endpoint and bucket |
//! | memory | once per session and name |

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pennon_core::{Error, Result};

use crate::session::{EntryKind, Session};
use crate::store::{ConditionalPuts, Durability, Store};

/// Endpoints that kept their word.
static TRUSTED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Puts the file of a transaction, in the place of an earlier one; `false` if another call has written that. Errors: those
/// of [`create`].
pub(super) async fn put(
    store: &Arc<Store>,
    session: &Arc<Session>,
    path: &str,
    bytes: Bytes,
    durability: Durability,
) -> Result<bool> {
    // On a local disk it costs less not to ask.
    if !store.is_local() && create(store, session, path, &bytes, durability).await? {
        return Ok(true);
    }
    store.put_new(vec![(path.to_owned(), bytes)], durability).await?;
    Ok(store.is_local())
}

/// Puts a file unless there is one of its name; `false` if there is. Probes the store on the first call.
///
/// Errors: `Unsupported` for a store that overwrites; those of the put.
pub(crate) async fn create(
    store: &Arc<Store>,
    session: &Arc<Session>,
    path: &str,
    bytes: &Bytes,
    durability: Durability,
) -> Result<bool> {
    let put = || store.put_if_absent(path, bytes.clone(), durability);
    if is_trusted(store, session) {
        return put().await;
    }
    match futures::join!(put(), put()) {
        (Ok(true), Ok(true)) => {
            // Whatever comes of it: the error matters more.
            let _ = store.delete(path).await;
            Err(Error::unsupported(format!(
                "{}: the store overwrites files that it was asked to write only if they are absent, so concurrent \
                 commits would destroy each other. Keep the versions in an external manifest store: s3+ddb://",
                store.full_path(path)
            )))
        }
        // Nothing is known of the store yet.
        (Ok(true), Err(_)) | (Err(_), Ok(true)) => Ok(true),
        (first, second) => {
            let created = first? | second?;
            trust(store, session);
            Ok(created)
        }
    }
}

/// Whether the store need not be probed, or was.
fn is_trusted(store: &Store, session: &Session) -> bool {
    match store.conditional_puts() {
        ConditionalPuts::Trusted => true,
        ConditionalPuts::OfStore => session.get::<()>(EntryKind::Probe, store.root()).is_some(),
        // In a forked child nobody may ever give the lock back: the store is probed again then.
        ConditionalPuts::OfEndpoint(endpoint) => {
            TRUSTED.try_lock().is_ok_and(|known| known.as_ref().is_some_and(|known| known.contains(endpoint)))
        }
    }
}

/// Remembers that the store refused the second put.
fn trust(store: &Store, session: &Session) {
    match store.conditional_puts() {
        ConditionalPuts::Trusted => {}
        ConditionalPuts::OfStore => {
            session.put(EntryKind::Probe, store.root(), &Arc::new(()), store.root().len() + 64);
        }
        ConditionalPuts::OfEndpoint(endpoint) => {
            if let Ok(mut known) = TRUSTED.try_lock() {
                known.get_or_insert_default().insert(endpoint.to_owned());
            }
        }
    }
}
