//! Row id to row address, for one version of a table, and back (table format 4.6).
//!
//! | file | what |
//! |---|---|
//! | `source` | one fragment's ids: outline at once, decoded when hit |
//! | `extents` | which fragments have most of a range of ids |
//! | `moved` | scattered rows, one by one |
//! | `chunks` | a sorted list whose pieces are shared between versions |
//!
//! Bitmaps and ranges are never taken apart. A row that moved has a stale copy in its old fragment, which is deleted
//! there: deletion vectors decide at the hit which copy is the answer.

mod chunks;
mod extents;
mod moved;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use chunks::Chunks;
use extents::Directory;
use moved::Moved;
pub use source::ReadRowIds;
use source::{Items, RowIdSource};

use crate::deletion::DeletionVector;
use crate::manifest::Fragment;
use crate::{Error, FragmentId, Result, RowAddress, RowId};

/// Finds rows of one version by their stable ids.
///
/// ```
/// # use std::sync::Arc;
/// use pennon_core::manifest::{Fragment, LineageSource};
/// use pennon_core::rows::{RowIdIndex, RowIdSequence};
/// use pennon_core::{FragmentId, RowAddress, RowId};
/// let mut fragment = Fragment::new(Vec::new(), 10);
/// fragment.row_ids = Some(LineageSource::Inline(RowIdSequence::from_range(100..110).encode()));
/// let index = RowIdIndex::new(&[Arc::new(fragment)], &|_| unreachable!("no ids in a column"))?;
/// let found = index.lookup(&[RowId(104), RowId(5)], &mut |_| unreachable!("nothing is deleted"))?;
/// assert_eq!(found, [Some(RowAddress::new(FragmentId(0), 4)), None]);
/// # Ok::<(), pennon_core::Error>(())
/// ```
pub struct RowIdIndex {
    /// By fragment id.
    sources: Vec<Arc<RowIdSource>>,
    /// Fragments with a deletion file, ascending.
    with_deletions: Vec<FragmentId>,
    directory: Directory,
    moved: Moved,
    source_bytes: usize,
}

/// Gives the deletion vector of a fragment.
pub type Deletions<'a> = &'a mut dyn FnMut(FragmentId) -> Result<Arc<DeletionVector>>;

impl RowIdIndex {
    /// The index of these fragments.
    ///
    /// Reads the heads of the segments and decodes no bitmap. Errors: `Corrupt` if a sequence does not decode; those
    /// of `read_ids`.
    pub fn new(fragments: &[Arc<Fragment>], read_ids: ReadRowIds<'_>) -> Result<Self> {
        let mut items = Items::default();
        let (mut sources, mut source_bytes) = (Vec::with_capacity(fragments.len()), 0);
        for fragment in in_order(fragments) {
            let source = RowIdSource::new(fragment, read_ids, &mut items)?;
            source_bytes += source.memory();
            sources.push(source);
        }
        items.sort();
        Ok(Self {
            sources,
            with_deletions: with_deletions(fragments),
            directory: Directory::new(&items.extents),
            moved: Chunks::new(&items.rows),
            source_bytes,
        })
    }

    /// The index of the fragments of another version, sharing what is the same in both.
    ///
    /// Costs what changed, and a comparison per fragment. Errors as for [`Self::new`].
    pub fn advance(&self, fragments: &[Arc<Fragment>], read_ids: ReadRowIds<'_>) -> Result<Self> {
        let (mut removed, mut added) = (Items::default(), Items::default());
        let mut sources = Vec::with_capacity(fragments.len());
        let mut source_bytes = self.source_bytes;
        let mut changes = 0_usize;
        let mut drop = |source: &Arc<RowIdSource>, bytes: &mut usize| {
            *bytes = bytes.saturating_sub(source.memory());
            source.outline(&mut removed)
        };
        let mut old = self.sources.iter().peekable();
        for fragment in in_order(fragments) {
            while let Some(source) = old.next_if(|source| source.fragment() < fragment.id) {
                drop(source, &mut source_bytes)?;
                changes += 1;
            }
            if let Some(source) = old.next_if(|source| source.fragment() == fragment.id) {
                if source.is_of(fragment) {
                    sources.push(Arc::clone(source));
                    continue;
                }
                drop(source, &mut source_bytes)?;
            }
            let source = RowIdSource::new(fragment, read_ids, &mut added)?;
            source_bytes += source.memory();
            sources.push(source);
            changes += 1;
            if changes > 64 && changes > self.sources.len() / 2 {
                return Self::new(fragments, read_ids);
            }
        }
        old.try_for_each(|source| drop(source, &mut source_bytes))?;
        removed.sort();
        added.sort();
        Ok(Self {
            sources,
            with_deletions: with_deletions(fragments),
            directory: self.directory.apply(&removed.keys(), &added.extents),
            moved: self.moved.apply(&removed.rows, &added.rows),
            source_bytes,
        })
    }

    /// Whether it has the ids of a fragment.
    pub fn has(&self, fragment: &Fragment) -> bool {
        let at = self.sources.binary_search_by_key(&fragment.id, |source| source.fragment());
        at.ok().and_then(|at| self.sources.get(at)).is_some_and(|source| source.is_of(fragment))
    }

    /// The address of each id; `None` for ids that no live row has.
    ///
    /// `deletions` is called for fragments that have a deletion file and a wanted id. Errors: `Corrupt` if a sequence
    /// does not decode or two live rows have an id; those of `deletions`.
    pub fn lookup(&self, ids: &[RowId], deletions: Deletions<'_>) -> Result<Vec<Option<RowAddress>>> {
        self.find_all(ids, deletions, false)
    }

    /// [`Self::lookup`], but a row that is only there deleted is found too: the last copy of it.
    pub fn lookup_with_deleted(
        &self,
        ids: &[RowId],
        deletions: Deletions<'_>,
    ) -> Result<Vec<Option<RowAddress>>> {
        self.find_all(ids, deletions, true)
    }

    /// The addresses that [`Self::lookup`] chooses from, of all ids together: where a row is, and where it was before it
    /// moved and is deleted now. Errors: `Corrupt` if a sequence does not decode.
    pub fn candidates(&self, ids: &[RowId]) -> Result<Vec<RowAddress>> {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        let (mut candidates, mut hints) = (Vec::new(), (0, 0));
        for id in sorted {
            self.moved.find(&mut hints.0, id.0, &mut candidates);
            self.directory.find(&mut hints.1, id.0, &mut candidates)?;
        }
        Ok(candidates)
    }

    fn find_all(
        &self,
        ids: &[RowId],
        deletions: Deletions<'_>,
        with_deleted: bool,
    ) -> Result<Vec<Option<RowAddress>>> {
        let mut by_id: Vec<(RowId, usize)> = ids.iter().copied().zip(0..).collect();
        // Neighbours are in the same pieces and need the same deletion vector.
        by_id.sort_unstable();
        let mut found = vec![None; ids.len()];
        let mut live = Live { index: self, deletions, last: None };
        let mut candidates = Vec::new();
        let mut hints = (0, 0);
        let mut before: Option<(RowId, Option<RowAddress>)> = None;
        for (id, at) in by_id {
            let address = match before {
                Some((same, address)) if same == id => address,
                _ => {
                    candidates.clear();
                    self.moved.find(&mut hints.0, id.0, &mut candidates);
                    self.directory.find(&mut hints.1, id.0, &mut candidates)?;
                    live.choose(id, &candidates, with_deleted)?
                }
            };
            before = Some((id, address));
            if let Some(result) = found.get_mut(at) {
                *result = address;
            }
        }
        Ok(found)
    }

    /// The id of each row, deleted or not; `None` for addresses where there is no row.
    ///
    /// Errors: `Corrupt` if a sequence does not decode.
    pub fn row_ids(&self, addresses: &[RowAddress]) -> Result<Vec<Option<RowId>>> {
        let mut last: Option<&Arc<RowIdSource>> = None;
        let mut ids = Vec::with_capacity(addresses.len());
        for address in addresses {
            let fragment = address.fragment();
            if last.is_none_or(|source| source.fragment() != fragment) {
                let at = self.sources.binary_search_by_key(&fragment, |source| source.fragment());
                last = at.ok().and_then(|at| self.sources.get(at));
            }
            ids.push(last.map_or(Ok(None), |source| source.id(address.offset()))?);
        }
        Ok(ids)
    }

    /// Bytes it takes beyond the encoded sequences, at most. What versions share is counted in each.
    pub fn memory_bytes(&self) -> usize {
        let deletions = size_of_val(self.with_deletions.as_slice());
        self.source_bytes + self.directory.memory() + self.moved.memory() + deletions
    }
}

/// Decides which copy of a row is live.
struct Live<'a, 'd> {
    index: &'a RowIdIndex,
    deletions: Deletions<'d>,
    last: Option<(FragmentId, Arc<DeletionVector>)>,
}

impl Live<'_, '_> {
    fn choose(
        &mut self,
        id: RowId,
        candidates: &[RowAddress],
        with_deleted: bool,
    ) -> Result<Option<RowAddress>> {
        let mut found = None;
        for &address in candidates {
            if self.is_deleted(address)? {
                continue;
            }
            if let Some(other) = found.replace(address) {
                let rows =
                    [other, address].map(|a| format!("row {} of fragment {}", a.offset(), a.fragment()));
                let [first, second] = rows;
                return Err(Error::corrupt(format!(
                    "row id {id} is that of {first} and of {second}, both live"
                )));
            }
        }
        Ok(found.or_else(|| candidates.iter().max().copied().filter(|_| with_deleted)))
    }

    fn is_deleted(&mut self, address: RowAddress) -> Result<bool> {
        let fragment = address.fragment();
        if let Some((_, vector)) = self.last.as_ref().filter(|(last, _)| *last == fragment) {
            return Ok(vector.contains(address.offset()));
        }
        if self.index.with_deletions.binary_search(&fragment).is_err() {
            return Ok(false);
        }
        let vector = (self.deletions)(fragment)?;
        let deleted = vector.contains(address.offset());
        self.last = Some((fragment, vector));
        Ok(deleted)
    }
}

fn in_order(fragments: &[Arc<Fragment>]) -> impl Iterator<Item = &Arc<Fragment>> {
    let sorted = fragments.is_sorted_by_key(|fragment| fragment.id);
    let mut others: Vec<&Arc<Fragment>> = if sorted { Vec::new() } else { fragments.iter().collect() };
    others.sort_by_key(|fragment| fragment.id);
    others.into_iter().chain(fragments.iter().filter(move |_| sorted))
}

fn with_deletions(fragments: &[Arc<Fragment>]) -> Vec<FragmentId> {
    let deleting = fragments.iter().filter(|fragment| fragment.deletion.is_some());
    let mut ids: Vec<FragmentId> = deleting.map(|fragment| fragment.id).collect();
    ids.sort_unstable();
    ids
}

impl fmt::Debug for RowIdIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowIdIndex")
            .field("fragments", &self.sources.len())
            .field("bytes", &self.memory_bytes())
            .finish()
    }
}
