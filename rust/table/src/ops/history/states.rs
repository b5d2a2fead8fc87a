//! A row in one version, and which versions may undo what those before did.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, new_null_array};
use futures::FutureExt;
use futures::future::OptionFuture;
use pennon_core::manifest::{Difference, Fragment, LineageSource};
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::transaction::Transaction;
use pennon_core::{Error, FragmentId, Result, RowAddress, RowId, Version};
use tokio::task::JoinHandle;

use crate::ops::RESTORED_ROWS;
use crate::runtime::IN_FLIGHT;
use crate::scan::{self, FragmentReader};
use crate::store::Store;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};
use crate::versions::{load, manifest_path};

/// First bytes of a message in a manifest file that tell its operation.
const HEAD: u64 = 256;
/// Field number of a restore (table format 7.1).
const RESTORE: u32 = 106;
/// Size of the length before a message.
const PREFIX: usize = 4;

/// Versions that are loaded ahead.
const AHEAD: usize = 4;
/// Versions whose state is kept; more than a bisection reads more than once.
const KEPT: usize = 16;

/// A row in a version: the version and the address.
#[derive(Debug, Clone)]
pub(super) struct RowLocation {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) address: RowAddress,
}

impl RowLocation {
    /// The values of the row in some columns, null where the version does not have one. Blocks on the store.
    pub(super) fn read(&self, columns: &[Field], present: &[Option<Field>]) -> Result<Vec<ArrayRef>> {
        let fragment = self.snapshot.manifest.fragment(self.address.fragment());
        let fragment = fragment.ok_or_else(|| Error::internal("a row of a fragment that is not there"))?;
        let reader = FragmentReader::new(Arc::clone(&self.snapshot), Arc::clone(fragment), 0);
        let offset = u64::from(self.address.offset());
        let fields: Vec<_> = present.iter().flatten().collect();
        let mut read = if fields.is_empty() {
            Vec::new()
        } else {
            reader.read(&fields, &RowRanges::from(offset..offset + 1))?
        }
        .into_iter();
        let column = |(present, field): (&Option<_>, &Field)| match present {
            Some(_) => read.next().ok_or_else(|| Error::internal("a column was not read")),
            None => Ok(new_null_array(&field.data_type(), 1)),
        };
        present.iter().zip(columns).map(column).collect()
    }
}

/// A row in one version.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// Its id was not given out yet.
    Unborn,
    Dead,
    Live {
        location: RowLocation,
        created: Version,
        updated: Version,
    },
}

/// The versions of a table up to one, and what is known of a row in them.
pub(super) struct States {
    newest: Arc<Snapshot>,
    row: RowId,
    versions: Vec<Located>,
    /// For each version, whether the row may be in a state that does not follow from the version before; `None` until
    /// the version's manifest is asked.
    breaks: Vec<Option<bool>>,
    /// The last ones that were asked for.
    known: BTreeMap<usize, (Arc<Snapshot>, State)>,
    positions: Positions,
    /// Versions that may be asked for next.
    ahead: BTreeMap<usize, JoinHandle<Result<Arc<Snapshot>>>>,
}

impl States {
    pub(super) async fn new(newest: &Arc<Snapshot>, row: RowId) -> Result<Self> {
        let mut versions = locate::list(&newest.store).await?;
        versions.retain(|at| at.version < newest.version() && !newest.version().is_detached());
        versions.push(Located { version: newest.version(), scheme: newest.source().scheme });
        let mut before = Version(0);
        let is_after_gap = |at: &Located| at.version != std::mem::replace(&mut before, at.version).next();
        let breaks = versions.iter().map(is_after_gap).map(|gap| gap.then_some(true)).collect();
        let newest = Arc::clone(newest);
        Ok(Self {
            newest,
            row,
            versions,
            breaks,
            known: BTreeMap::new(),
            positions: Positions::default(),
            ahead: BTreeMap::new(),
        })
    }

    /// Number of the newest version.
    pub(super) fn last(&self) -> usize {
        self.versions.len().saturating_sub(1)
    }

    pub(super) fn version(&self, at: usize) -> Version {
        self.versions.get(at).map_or(Version(0), |at| at.version)
    }

    /// The number of a version that is there.
    pub(super) fn find(&self, version: Version) -> Option<usize> {
        self.versions.binary_search_by_key(&version, |at| at.version).ok()
    }

    /// The first of the versions from `oldest` up to this one between which the row is first unborn, then alive, then
    /// dead. Asks the manifests from this one backwards, several at a time, and only up to the one that is found.
    pub(super) async fn segment(&mut self, at: usize, oldest: usize) -> Result<usize> {
        let (oldest, mut end) = (oldest.min(at), at + 1);
        while end > oldest + 1 {
            let start = end.saturating_sub(IN_FLIGHT).max(oldest + 1);
            let store = &self.newest.store;
            let is_unknown = |at: &usize| self.breaks.get(*at).is_some_and(Option::is_none);
            let unknown: Vec<usize> = (start..end).filter(is_unknown).collect();
            let located = unknown.iter().filter_map(|&at| self.versions.get(at));
            let heads = located.map(|&located| restores(store, located).boxed()).collect();
            for (at, found) in unknown.into_iter().zip(crate::runtime::gather(heads).await?) {
                if let Some(known) = self.breaks.get_mut(at) {
                    *known = Some(found);
                }
            }
            let is_break = |at: &usize| self.breaks.get(*at) == Some(&Some(true));
            if let Some(first) = (start..end).rev().find(is_break) {
                return Ok(first);
            }
            end = start;
        }
        Ok(oldest)
    }

    /// Whether versions right before this one were cleaned up.
    pub(super) fn is_after_gap(&self, at: usize) -> bool {
        let before = at.checked_sub(1).map_or(Version(0), |before| self.version(before));
        self.version(at) != before.next()
    }

    async fn snapshot(&mut self, at: usize) -> Result<Arc<Snapshot>> {
        if at == self.last() {
            return Ok(Arc::clone(&self.newest));
        }
        let loading = self.ahead.remove(&at);
        // A row that changed in the last two versions may have changed in those before.
        if self.known.contains_key(&(at + 1)) && self.known.contains_key(&(at + 2)) {
            for before in (at.saturating_sub(AHEAD)..at).rev() {
                let Some(&located) = self.versions.get(before) else { continue };
                let (store, session) = (Arc::clone(&self.newest.store), Arc::clone(self.newest.session()));
                self.ahead.entry(before).or_insert_with(|| {
                    crate::runtime::spawn(async move { load::load(&store, &session, located).await })
                });
            }
        }
        if let Some(Ok(loaded)) = OptionFuture::from(loading).await {
            return loaded;
        }
        let located =
            self.versions.get(at).ok_or_else(|| Error::internal("a version outside the history"))?;
        load::load(&self.newest.store, self.newest.session(), *located).await
    }

    /// The version and the row in it.
    pub(super) async fn state(&mut self, at: usize) -> Result<(Arc<Snapshot>, State)> {
        if let Some(known) = self.known.get(&at) {
            return Ok(known.clone());
        }
        let snapshot = self.snapshot(at).await?;
        let nearest = self.known.range(at..).next().or_else(|| self.known.range(..at).next_back());
        let nearest = nearest.map(|(_, nearest)| nearest.clone());
        let (looked, row, mut positions) =
            (Arc::clone(&snapshot), self.row, std::mem::take(&mut self.positions));
        let (state, positions) = crate::runtime::blocking(move || {
            let state = match nearest {
                Some((other, known)) => compare(&looked, row, &other, &known, &mut positions)?,
                None => look(&looked, row)?,
            };
            Ok((state, positions))
        })
        .await?;
        self.positions = positions;
        self.known.insert(at, (Arc::clone(&snapshot), state.clone()));
        if self.known.len() > KEPT {
            self.known.pop_last();
        }
        Ok((snapshot, state))
    }
}

impl Drop for States {
    fn drop(&mut self) {
        self.ahead.values().for_each(JoinHandle::abort);
    }
}

/// The row in the newest version.
fn look(snapshot: &Arc<Snapshot>, row: RowId) -> Result<State> {
    if row.0 >= snapshot.manifest.next_row_id {
        return Ok(State::Unborn);
    }
    let address = scan::find_ids(snapshot, &[row])?.into_iter().flatten().next();
    address.map_or(Ok(State::Dead), |address| live(snapshot, address))
}

/// The row in a version, by comparison with another one, in which its state is `known`: a live row is in one fragment
/// only, so it has the same address as there, or is in a fragment that is not the same there, or is dead.
fn compare(
    snapshot: &Arc<Snapshot>,
    row: RowId,
    other: &Snapshot,
    known: &State,
    positions: &mut Positions,
) -> Result<State> {
    if row.0 >= snapshot.manifest.next_row_id {
        return Ok(State::Unborn);
    }
    let (fragments, others) = (&snapshot.manifest.fragments, &other.manifest.fragments);
    if let State::Live { location, created, updated } = known
        && fragments.share(others, location.address.fragment())
    {
        let location = RowLocation { snapshot: Arc::clone(snapshot), address: location.address };
        return Ok(State::Live { location, created: *created, updated: *updated });
    }
    // Where a row that changed lives is often the fragment that was written last.
    let differ: Vec<Difference> = fragments.diff(others).collect();
    for fragment in differ.iter().rev().filter_map(Difference::after) {
        let Some(position) = positions.find(snapshot, fragment, row)? else { continue };
        let offset = u32::try_from(position)
            .map_err(|_| Error::corrupt(format!("fragment {}: a row at offset {position}", fragment.id)))?;
        if !snapshot.deletion_vector_blocking(fragment)?.contains(offset) {
            return live(snapshot, RowAddress::new(fragment.id, offset));
        }
    }
    Ok(State::Dead)
}

fn live(snapshot: &Arc<Snapshot>, address: RowAddress) -> Result<State> {
    let missing = || Error::internal("a row was found in a fragment that is not there");
    let fragment = snapshot.manifest.fragment(address.fragment()).ok_or_else(missing)?;
    let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
    let (created, updated) = reader.versions_of(address.offset().into())?;
    Ok(State::Live { location: RowLocation { snapshot: Arc::clone(snapshot), address }, created, updated })
}

/// Where the row is among the physical rows of fragments, which is the same in all versions of a fragment.
#[derive(Debug, Default)]
struct Positions(BTreeMap<FragmentId, (u64, Option<LineageSource>, Option<u64>)>);

impl Positions {
    fn find(
        &mut self,
        snapshot: &Arc<Snapshot>,
        fragment: &Arc<Fragment>,
        row: RowId,
    ) -> Result<Option<u64>> {
        if let Some((rows, ids, position)) = self.0.get(&fragment.id)
            && (*rows, ids) == (fragment.physical_rows, &fragment.row_ids)
        {
            return Ok(*position);
        }
        let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
        let position = reader.position_of(row)?;
        // Bytes of a manifest must not keep all of it in memory.
        let ids = match &fragment.row_ids {
            Some(LineageSource::Inline(bytes)) => {
                Some(LineageSource::Inline(bytes::Bytes::copy_from_slice(bytes)))
            }
            other => other.clone(),
        };
        self.0.insert(fragment.id, (fragment.physical_rows, ids, position));
        Ok(position)
    }
}

/// Whether a version may have brought back rows that were dead, or older values: read from the first bytes of its
/// manifest file, true if they do not tell.
async fn restores(store: &Store, at: Located) -> Result<bool> {
    let path = manifest_path(at.version, at.scheme);
    let Ok(head) = store.get_range(&path, 0..HEAD).await else { return Ok(true) };
    let Some((length, message)) = head.split_at_checked(PREFIX) else { return Ok(true) };
    if let Some(restores) = may_restore(message) {
        return Ok(restores);
    }
    // Behind the indices.
    let Ok(length) = <[u8; PREFIX]>::try_from(length) else { return Ok(true) };
    let start = 8 + u64::from(u32::from_le_bytes(length));
    let message = store.get_range(&path, start..start + HEAD).await;
    Ok(message.ok().and_then(|message| may_restore(&message)).unwrap_or(true))
}

fn may_restore(message: &[u8]) -> Option<bool> {
    let operation = Transaction::operation_number(bytes::Bytes::copy_from_slice(message))?;
    let marked = || message.windows(RESTORED_ROWS.len()).any(|part| part == RESTORED_ROWS.as_bytes());
    Some(operation == RESTORE || marked())
}
