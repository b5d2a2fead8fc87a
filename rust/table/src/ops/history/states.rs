//! A row in one version, and which versions may undo what those before did.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, new_null_array};
use futures::FutureExt;
use pennon_core::manifest::Fragment;
use pennon_core::rows::RowIdIndex;
use pennon_core::transaction::Transaction;
use pennon_core::{Error, FragmentId, Result, RowAddress, RowId, Version};

use crate::commit::latest::{self, Located};
use crate::commit::{load, manifest_path};
use crate::ops::restore_rows::RESTORED_ROWS;
use crate::scan::{FragmentReader, NullableFields};
use crate::snapshot::Snapshot;
use crate::store::Store;

/// First bytes of a message in a manifest file that tell its operation.
const HEAD: u64 = 256;
/// Field number of a restore (table format 7.1).
const RESTORE: u32 = 106;
/// Size of the length before a message.
const PREFIX: usize = 4;

/// Where a row lives.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) address: RowAddress,
}

impl Place {
    /// The values of the row, null where the version does not have a column. Blocks on the store.
    pub(super) fn read(&self, selected: &NullableFields) -> Result<Vec<ArrayRef>> {
        let fragment = self.snapshot.manifest.fragment(self.address.fragment());
        let fragment = fragment.ok_or_else(|| Error::internal("a row of a fragment that is not there"))?;
        let reader = FragmentReader::new(Arc::clone(&self.snapshot), Arc::clone(fragment), 0);
        let offset = u64::from(self.address.offset());
        let present = selected.in_version(&self.snapshot.manifest.schema);
        let fields: Vec<_> = present.iter().flatten().collect();
        let mut read =
            if fields.is_empty() { Vec::new() } else { reader.read(&fields, &[offset..offset + 1])? }
                .into_iter();
        let column = |(present, field): (&Option<_>, &pennon_core::schema::Field)| match present {
            Some(_) => read.next().ok_or_else(|| Error::internal("a column was not read")),
            None => Ok(new_null_array(&field.data_type(), 1)),
        };
        present.iter().zip(selected.fields()).map(column).collect()
    }
}

/// A row in one version.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// Its id was not given out yet.
    Unborn,
    Dead,
    Live {
        place: Place,
        created: Version,
        updated: Version,
    },
}

/// The versions of a table up to one, and what is known of a row in them.
pub(super) struct States {
    newest: Arc<Snapshot>,
    row: RowId,
    versions: Vec<Located>,
    /// For each version, whether the row may be in a state that does not follow from the version before.
    breaks: Vec<bool>,
    known: BTreeMap<usize, (Arc<Snapshot>, State)>,
    index: Option<Arc<RowIdIndex>>,
}

impl States {
    pub(super) async fn new(newest: &Arc<Snapshot>, row: RowId) -> Result<Self> {
        let mut versions = latest::list(&newest.store).await?;
        versions.retain(|at| at.version < newest.version() && !newest.version().is_detached());
        versions.push(Located { version: newest.version(), scheme: newest.source().scheme });
        let heads = versions.iter().map(|&at| restores(&newest.store, at).boxed());
        let mut breaks = crate::gather(heads.collect()).await?;
        let mut before = Version(0);
        for (at, breaks) in versions.iter().zip(&mut breaks) {
            *breaks |= at.version != before.next();
            before = at.version;
        }
        let newest = Arc::clone(newest);
        Ok(Self { newest, row, versions, breaks, known: BTreeMap::new(), index: None })
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

    /// The first of the versions up to this one between which the row is first unborn, then alive, then dead.
    pub(super) fn segment(&self, at: usize) -> usize {
        (0..=at).rev().find(|&at| self.breaks.get(at).copied().unwrap_or(true)).unwrap_or(0)
    }

    /// Whether versions right before this one were cleaned up.
    pub(super) fn is_after_gap(&self, at: usize) -> bool {
        let before = at.checked_sub(1).map_or(Version(0), |before| self.version(before));
        self.version(at) != before.next()
    }

    pub(super) async fn snapshot(&mut self, at: usize) -> Result<Arc<Snapshot>> {
        if at == self.last() {
            return Ok(Arc::clone(&self.newest));
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
        let (looked, row, index) = (Arc::clone(&snapshot), self.row, self.index.take());
        let (state, index) = crate::blocking(move || look(&looked, row, index)).await?;
        self.index = index;
        self.known.insert(at, (Arc::clone(&snapshot), state.clone()));
        Ok((snapshot, state))
    }
}

/// The row in a version; the index is that of another version, and becomes that of this one.
fn look(
    snapshot: &Arc<Snapshot>,
    row: RowId,
    index: Option<Arc<RowIdIndex>>,
) -> Result<(State, Option<Arc<RowIdIndex>>)> {
    if row.0 >= snapshot.manifest.next_row_id {
        return Ok((State::Unborn, index));
    }
    let reader =
        |fragment: &Arc<Fragment>| FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
    let spilled = |fragment: &Fragment| reader(&Arc::new(fragment.clone())).all_row_ids();
    let fragments = &snapshot.manifest.fragments;
    let index = match index {
        Some(index) => index.advance(fragments, &spilled)?,
        None => RowIdIndex::new(fragments, &spilled)?,
    };
    let missing = || Error::internal("the row id index names a fragment that is not there");
    let mut deletions = |id: FragmentId| {
        snapshot.deletion_vector_blocking(snapshot.manifest.fragment(id).ok_or_else(missing)?)
    };
    let found = index.lookup(&[row], &mut deletions)?.into_iter().flatten().next();
    let Some(address) = found else { return Ok((State::Dead, Some(Arc::new(index)))) };
    let fragment = snapshot.manifest.fragment(address.fragment()).ok_or_else(missing)?;
    let (created, updated) = reader(fragment).all_versions()?;
    let at = u64::from(address.offset());
    let (Some(created), Some(updated)) = (created.get(at), updated.get(at)) else {
        return Err(Error::corrupt(format!("fragment {}: row {at} has no versions", fragment.id)));
    };
    let place = Place { snapshot: Arc::clone(snapshot), address };
    Ok((State::Live { place, created, updated }, Some(Arc::new(index))))
}

/// Whether a version may have brought back rows that were dead, or older values: told from the first bytes of its
/// manifest file, true if they do not tell.
async fn restores(store: &Store, at: Located) -> Result<bool> {
    let path = manifest_path(at.version, at.scheme);
    let Ok(head) = store.get_range(&path, 0..HEAD).await else { return Ok(true) };
    let Some((length, message)) = head.split_at_checked(PREFIX) else { return Ok(true) };
    if let Some(restores) = tells(message) {
        return Ok(restores);
    }
    // Behind the indices.
    let Ok(length) = <[u8; PREFIX]>::try_from(length) else { return Ok(true) };
    let start = 8 + u64::from(u32::from_le_bytes(length));
    let message = store.get_range(&path, start..start + HEAD).await;
    Ok(message.ok().and_then(|message| tells(&message)).unwrap_or(true))
}

fn tells(message: &[u8]) -> Option<bool> {
    let operation = Transaction::operation_number(bytes::Bytes::copy_from_slice(message))?;
    let marked = || message.windows(RESTORED_ROWS.len()).any(|part| part == RESTORED_ROWS.as_bytes());
    Some(operation == RESTORE || marked())
}
