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

/// The newest version of the table of which a version was read. Errors: `Conflict` if it was dropped and made again.
pub(crate) async fn newest_of(
    store: &Arc<Store>,
    session: &Arc<Session>,
    read: &Snapshot,
) -> Result<Arc<Snapshot>> {
    let (found, is_replaced) = find_from(read, None).await?;
    let found = found.ok_or_else(|| load::not_found(store, VERSIONS))?;
    if is_replaced {
        return Err(read.replaced());
    }
    Ok(load::newest(store, session, found).await?.snapshot)
}

/// The newest version as [`locate::find`] gives it, and whether the manifest of one that was read is another one now.
pub(crate) async fn find_from(read: &Snapshot, known: Option<Located>) -> Result<(Option<Located>, bool)> {
    let store = &read.store;
    if store.is_local() || store.external().is_some() {
        let (found, is_replaced) = futures::try_join!(locate::find(store, known), read.is_replaced(None))?;
        // A crash of the machine may have torn what was read before.
        return Ok((found, is_replaced && !load::is_torn(store, read.located()).await));
    }
    let path = read.source().path.as_str();
    let (found, listed) = locate::remote(store, path.rsplit('/').next()).await?;
    let is_replaced = match listed {
        Some(listed) => read.is_replaced(Some(listed)).await?,
        None => false,
    };
    Ok((found, is_replaced))
}

/// The newest version that is not younger than a time. Reads few of many manifests: times ascend, except among few versions
/// of writers whose clocks differ. Errors: `InvalidInput` if all are younger, `NotFound` without versions.
pub(crate) async fn as_of(
    store: &Arc<Store>,
    session: &Arc<Session>,
    asof: Timestamp,
) -> Result<Arc<Snapshot>> {
    let versions = locate::list(store).await?;
    if versions.is_empty() {
        return Err(load::not_found(store, VERSIONS));
    }
    let search = TimeSearch { store, session, asof };
    // Most often the version asked for is one of the newest.
    let (old, newest) = versions.split_at(versions.len().saturating_sub(runtime::IN_FLIGHT));
    if let Some((_, found)) = search.last(newest).await? {
        return Ok(found);
    }
    if let Some(found) = search.bisect(old.to_vec()).await? {
        return Ok(found);
    }
    // Who asks for a microsecond means its end.
    let time = DateTime::from_timestamp(asof.seconds, asof.nanos / 1000 * 1000).map_or_else(
        || format!("{} seconds since 1970", asof.seconds),
        |time| time.format("%Y-%m-%d %H:%M:%S%.f").to_string(),
    );
    Err(Error::invalid_input(format!("{time} is earlier than the first version of this dataset")))
}

/// A search for the newest version that is not younger than a time.
struct TimeSearch<'a> {
    store: &'a Arc<Store>,
    session: &'a Arc<Session>,
    asof: Timestamp,
}

impl TimeSearch<'_> {
    /// A version; `None` for one that is gone, or that a crash has torn.
    async fn load(&self, at: Located) -> Result<Option<Arc<Snapshot>>> {
        load::listed(self.store, self.session, at).await
    }

    fn is_by_then(&self, snapshot: &Snapshot) -> bool {
        snapshot.manifest.timestamp <= self.asof
    }

    /// The last of a few versions that is not younger, and its index. All are read at once.
    async fn last(&self, versions: &[Located]) -> Result<Option<(usize, Arc<Snapshot>)>> {
        let loads = versions.iter().map(|&at| self.load(at).boxed()).collect();
        let loaded = runtime::gather(loads).await?.into_iter().enumerate().rev();
        Ok(loaded
            .filter_map(|(index, found)| Some((index, found?)))
            .find(|(_, found)| self.is_by_then(found)))
    }

    /// The last of many versions that is not younger.
    async fn bisect(&self, mut versions: Vec<Located>) -> Result<Option<Arc<Snapshot>>> {
        let (mut found, mut low, mut high) = (None, 0, versions.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let Some(&at) = versions.get(middle) else { break };
            match self.load(at).await? {
                Some(snapshot) if self.is_by_then(&snapshot) => (found, low) = (Some(snapshot), middle + 1),
                Some(_) => high = middle,
                None => {
                    versions.remove(middle);
                    high -= 1;
                }
            }
        }
        while let Some(after) = versions.get(low..versions.len().min(low + runtime::IN_FLIGHT))
            && let Some((index, later)) = self.last(after).await?
        {
            (found, low) = (Some(later), low + index + 1);
        }
        Ok(found)
    }
}
