//! From a wish to a version: the newest that can be read, or the one of a time.

use std::sync::Arc;

use chrono::DateTime;
use futures::FutureExt;
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result};

use super::VERSIONS;
use super::load::{self, Newest};
use super::snapshot::Snapshot;
use super::{Located, locate};
use crate::runtime;
use crate::session::Session;
use crate::store::Store;

/// A way to name a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionRef {
    /// By number, on the branch of the handle.
    Number(u64),
    /// By tag.
    Tag(String),
    /// On a branch; `None` is the main one, without a version its newest.
    Branch(Option<String>, Option<Box<VersionRef>>),
}

/// The newest version; `known` itself if nothing came after it.
pub(crate) async fn newest(
    store: &Arc<Store>,
    session: &Arc<Session>,
    known: Option<&Arc<Snapshot>>,
) -> Result<Arc<Snapshot>> {
    Ok(find_newest(store, session, known).await?.snapshot)
}

/// As [`newest`], with what is wrong with the versions above it.
pub(crate) async fn find_newest(
    store: &Arc<Store>,
    session: &Arc<Session>,
    known: Option<&Arc<Snapshot>>,
) -> Result<Newest> {
    let (found, is_replaced) = match known {
        Some(known) => find_from(known, None).await?,
        None => (locate::find(store, None).await?, false),
    };
    let found = found.ok_or_else(|| load::not_found(store, VERSIONS))?;
    match known {
        Some(known) if known.located() == found && !is_replaced => {
            Ok(Newest { snapshot: Arc::clone(known), corruption: None })
        }
        _ => load::newest(store, session, found).await,
    }
}

/// The newest version as [`locate::find`] gives it, and whether the manifest of one that was read is another one now.
pub(crate) async fn find_from(read: &Snapshot, known: Option<Located>) -> Result<(Option<Located>, bool)> {
    let store = &read.store;
    if store.is_local() || store.external().is_some() {
        let (found, is_replaced) = futures::join!(locate::find(store, known), read.is_replaced(None));
        // A crash of the machine may have torn what was read before.
        return Ok((found?, is_replaced && !load::is_torn(store, read.located()).await));
    }
    let path = read.source().path.as_str();
    let (found, listed) = locate::remote(store, path.rsplit('/').next()).await?;
    let is_replaced = match listed {
        Some(listed) => read.is_replaced(Some(listed)).await,
        None => false,
    };
    Ok((found, is_replaced))
}

/// The newest version that is not younger than a time. Errors: `InvalidInput` if all are, `NotFound` without versions.
pub(crate) async fn as_of(
    store: &Arc<Store>,
    session: &Arc<Session>,
    asof: Timestamp,
) -> Result<Arc<Snapshot>> {
    let versions = locate::list(store).await?;
    if versions.is_empty() {
        return Err(load::not_found(store, VERSIONS));
    }
    // Newest first, a few at a time: most often the version asked for is among the first.
    let newest_first: Vec<Located> = versions.into_iter().rev().collect();
    for chunk in newest_first.chunks(runtime::IN_FLIGHT) {
        let loads = chunk.iter().map(|&at| load::load(store, session, at).map(Ok).boxed()).collect();
        for (&at, loaded) in chunk.iter().zip(runtime::gather(loads).await?) {
            match loaded {
                Ok(snapshot) if snapshot.manifest.timestamp <= asof => return Ok(snapshot),
                Ok(_) => {}
                Err(error) if Error::is_not_found(&error) || load::is_torn(store, at).await => {}
                Err(error) => return Err(error),
            }
        }
    }
    // Who asks for a microsecond means its end.
    let time = DateTime::from_timestamp(asof.seconds, asof.nanos / 1000 * 1000).map_or_else(
        || format!("{} seconds since 1970", asof.seconds),
        |time| time.format("%Y-%m-%d %H:%M:%S%.f").to_string(),
    );
    Err(Error::invalid_input(format!("{time} is earlier than the first version of this dataset")))
}
