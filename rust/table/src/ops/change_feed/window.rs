//! Which versions a feed compares, and the error for one that was cleaned up.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use pennon_core::{Error, ErrorKind, Result, Version};

use super::{FeedMode, FeedPoint};
use crate::dataset::Dataset;
use crate::refs;
use crate::versions::VersionRef;
use crate::versions::load;
use crate::versions::missing::cleaned_up;
use crate::versions::resolve;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};

/// Steps that are prepared while one is read, on a store where requests take long.
const REMOTE_AHEAD: usize = 4;

/// A version and the one before; none is the empty table before the first version.
type VersionPair = (Option<Arc<Snapshot>>, Arc<Snapshot>);

/// Versions that are compared one with the next.
#[derive(Debug)]
pub(super) struct Window {
    /// The last one compared; none is the empty table before the first version.
    before: Option<Arc<Snapshot>>,
    /// Those between the ends that were not read yet.
    between: Vec<Located>,
    end: Arc<Snapshot>,
    done: bool,
}

impl Window {
    /// Finds the ends, and in mode `Each` whether all versions between are there.
    pub(super) async fn find(
        dataset: &Dataset,
        begin: FeedPoint,
        end: Option<FeedPoint>,
        mode: FeedMode,
    ) -> Result<Self> {
        let end = match end {
            None => Arc::clone(dataset.snapshot()),
            Some(end) => {
                find(dataset, end).await?.ok_or_else(|| Error::invalid_input("The end is version 0"))?
            }
        };
        let mut before = match begin {
            FeedPoint::Time(_) => from_time(dataset, begin).await?,
            FeedPoint::Version(_) => find(dataset, begin).await?,
        };
        check_ids(&end)?;
        if let Some(before) = &mut before {
            check_order(before, &end)?;
            if !before.manifest.has_stable_row_ids() {
                *before = first_with_ids(before, &end).await?;
            }
        }
        let first = before.as_ref().map_or(Version(0), |snapshot| snapshot.version());
        let mut between = Vec::new();
        if mode == FeedMode::Each {
            let listed = locate::list(&end.store).await?;
            between.extend(listed.into_iter().filter(|at| at.version > first && at.version < end.version()));
            let mut expected = first;
            for at in &between {
                expected = expected.next();
                if at.version != expected {
                    return Err(gap(&end, expected).await);
                }
            }
            if expected.next() < end.version() {
                return Err(gap(&end, expected.next()).await);
            }
        }
        let done = before.as_ref().is_some_and(|before| before.version() == end.version());
        Ok(Self { before, between, end, done })
    }

    /// The version of the end.
    pub(super) fn end(&self) -> &Arc<Snapshot> {
        &self.end
    }

    /// How many steps are prepared while one is read.
    pub(super) fn ahead(&self) -> usize {
        if self.end.store.is_local() { 1 } else { REMOTE_AHEAD }
    }

    /// The versions to compare, each with the one before.
    pub(super) fn pairs(self) -> BoxStream<'static, Result<VersionPair>> {
        if self.done {
            return stream::empty().boxed();
        }
        let ahead = self.ahead();
        let Self { mut before, between, end, .. } = self;
        let last = Arc::clone(&end);
        let load = move |at: Located| {
            let end = Arc::clone(&end);
            async move {
                match load::load(&end.store, end.session(), at).await {
                    Err(error) if error.is_not_found() => {
                        Err(cleaned_up(at.version, "it was removed while the feed was read"))
                    }
                    found => found,
                }
            }
        };
        let versions = stream::iter(between).map(load).buffered(ahead);
        let versions = versions.chain(stream::once(std::future::ready(Ok(last))));
        let mut pair = move |next: Arc<Snapshot>| {
            check_ids(&next)?;
            Ok((before.replace(Arc::clone(&next)), next))
        };
        versions.map(move |next| next.and_then(&mut pair)).boxed()
    }
}

/// The error of a version between the ends that is not there.
async fn gap(end: &Snapshot, version: Version) -> Error {
    missing(end, version, "each version between the ends is needed (mode=\"each\")").await
}

/// The error of a version that is needed and is not there: the branch or clone begins later, or it was cleaned up.
async fn missing(snapshot: &Snapshot, version: Version, why: &str) -> Error {
    let store = &snapshot.store;
    if let Some(error) = refs::before_branch(store, version).await {
        return error;
    }
    let before_clone = load::before_clone(store, snapshot.session(), version).await;
    before_clone.unwrap_or_else(|| cleaned_up(version, why))
}

/// The version a point means; `None` for the empty table before the first one.
async fn find(dataset: &Dataset, point: FeedPoint) -> Result<Option<Arc<Snapshot>>> {
    match point {
        FeedPoint::Version(VersionRef::Number(0)) => Ok(None),
        FeedPoint::Time(time) => {
            let snapshot = dataset.snapshot();
            resolve::as_of(&snapshot.store, snapshot.session(), time).await.map(Some)
        }
        FeedPoint::Version(reference) => dataset.find(reference).await.map(Some),
    }
}

/// The version at a time; before the first one the table is empty.
async fn from_time(dataset: &Dataset, point: FeedPoint) -> Result<Option<Arc<Snapshot>>> {
    match find(dataset, point).await {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            match locate::list(&dataset.snapshot().store).await?.first() {
                Some(first) if first.version > Version(1) => {
                    let before = Version(first.version.0 - 1);
                    let why = "the begin lies before the oldest version that is left";
                    Err(missing(dataset.snapshot(), before, why).await)
                }
                _ => Ok(None),
            }
        }
        found => found,
    }
}

fn check_order(before: &Snapshot, end: &Snapshot) -> Result<()> {
    let (first, last) = (before.version(), end.version());
    if before.store.root() != end.store.root() || first.is_detached() || last.is_detached() {
        return Err(Error::invalid_input(format!(
            "Versions {first} and {last} are not in one history: a feed follows one branch"
        )));
    }
    if first > last {
        return Err(Error::invalid_input(format!("begin version {first} is newer than end version {last}")));
    }
    Ok(())
}

fn check_ids(snapshot: &Snapshot) -> Result<()> {
    match snapshot.manifest.has_stable_row_ids() {
        true => Ok(()),
        false => {
            Err(without_ids(snapshot, "migrate_to_stable_row_ids gives them, for the versions from then on"))
        }
    }
}

/// The next version, if it gave the rows their ids, and changed nothing else.
async fn first_with_ids(before: &Arc<Snapshot>, end: &Arc<Snapshot>) -> Result<Arc<Snapshot>> {
    let next = match before.version().next() {
        next if next == end.version() => Some(Arc::clone(end)),
        next => {
            let scheme = end.source().scheme;
            match load::load_version(&end.store, end.session(), next, scheme).await {
                Ok(next) => Some(next),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error),
            }
        }
    };
    let with_ids = next.filter(|next| next.manifest.has_stable_row_ids());
    with_ids.ok_or_else(|| {
        without_ids(before, "later ones do, since migrate_to_stable_row_ids gave them to the table")
    })
}

fn without_ids(snapshot: &Snapshot, hint: &str) -> Error {
    Error::invalid_input(format!(
        "A change feed requires stable row ids, version {} of {} does not use them: without them an updated row cannot be \
         distinguished from a deleted and a new one; {hint}",
        snapshot.version(),
        snapshot.store.root()
    ))
}
