//! Row id to row address, for one version of a table, and back (table format 4.6).
//!
//! | file | what |
//! |---|---|
//! | `source` | one fragment's ids: outline at once, decoded when hit |
//! | `items` | what it is in the lists of the index |
//! | `extents` | which fragments have most of a range of ids |
//! | `moved` | scattered rows, one by one |
//! | `chunks` | a sorted list whose pieces are shared between versions |
//!
//! Bitmaps and ranges are never taken apart. A row that moved has a stale copy in its old fragment, which is deleted
//! there: deletion vectors decide at the hit which copy is the answer. So nothing of the index depends on deletions, and
//! versions that only delete have the same one.

mod chunks;
mod extents;
mod items;
mod moved;
mod source;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::iter::Peekable;
use std::ops::RangeInclusive;
use std::sync::Arc;

use chunks::Chunks;
use extents::{Directory, Run};
use items::Items;
use moved::Moved;
pub use source::ReadRowIds;
use source::RowIdSource;

use crate::deletion::DeletionVector;
use crate::manifest::{Fragment, Fragments};
use crate::{Error, FragmentId, Result, RowAddress, RowId};

/// Finds rows of one version by their stable ids.
///
/// ```
/// # use std::sync::Arc;
/// use pennon_core::deletion::DeletionVector;
/// use pennon_core::manifest::{Fragment, Fragments, LineageSource};
/// use pennon_core::rows::{RowIdIndex, RowIdSequence};
/// use pennon_core::{FragmentId, RowAddress, RowId};
/// let mut fragment = Fragment::new(Vec::new(), 10);
/// fragment.row_ids = Some(LineageSource::Inline(RowIdSequence::from_range(100..110).encode()));
/// let fragments = Fragments::from(vec![Arc::new(fragment)]);
/// let index = RowIdIndex::new(&fragments, &|_| unreachable!("no ids in a column"))?;
/// let found = index.lookup(&[RowId(104), RowId(5)], &mut |_| Ok(Arc::new(DeletionVector::empty())))?;
/// assert_eq!(found, [Some(RowAddress::new(FragmentId(0), 4)), None]);
/// # Ok::<(), pennon_core::Error>(())
/// ```
pub struct RowIdIndex {
    /// By fragment id.
    sources: Vec<Arc<RowIdSource>>,
    directory: Directory,
    moved: Moved,
    source_bytes: usize,
}

/// So many ids are searched for one by one where no run was found.
const PAUSE: u32 = 16;

/// Gives the deletion vector of a fragment.
pub type Deletions<'a> = &'a mut dyn FnMut(FragmentId) -> Result<Arc<DeletionVector>>;

impl RowIdIndex {
    /// The index of these fragments.
    ///
    /// Reads the heads of the segments, decodes no bitmap, and leaves no fragment decoded. Errors: `Corrupt` if a
    /// sequence does not decode; those of `read_ids`.
    pub fn new(fragments: &Fragments, read_ids: ReadRowIds<'_>) -> Result<Self> {
        let mut items = Items::default();
        let (mut sources, mut source_bytes) = (Vec::with_capacity(fragments.len()), 0);
        for fragment in fragments.decode_all() {
            let source = Arc::new(RowIdSource::new(&fragment, read_ids)?);
            items.add(&source)?;
            source_bytes += source.memory();
            sources.push(source);
        }
        items.sort();
        Ok(Self {
            sources,
            directory: Directory::new(&items.extents),
            moved: Chunks::new(&items.rows),
            source_bytes,
        })
    }

    /// The index of the fragments of another version, sharing what is the same in both. `before` are those of this one.
    ///
    /// Costs what changed, and a look at each fragment. Errors as for [`Self::new`].
    pub fn advance(
        &self,
        before: &Fragments,
        fragments: &Fragments,
        read_ids: ReadRowIds<'_>,
    ) -> Result<Self> {
        let different: Vec<Arc<Fragment>> =
            fragments.diff(before).filter_map(|difference| difference.after().cloned()).collect();
        if different.len() > 64 && different.len() > self.sources.len() / 2 {
            return Self::new(fragments, read_ids);
        }
        let (mut removed, mut added) = (Items::default(), Items::default());
        let mut sources = Vec::with_capacity(fragments.len());
        let mut source_bytes = self.source_bytes;
        let mut drop = |source: &Arc<RowIdSource>, bytes: &mut usize| {
            *bytes = bytes.saturating_sub(source.memory());
            removed.add(source)
        };
        let mut old = self.sources.iter().peekable();
        let mut different = different.into_iter().peekable();
        for id in fragments.ids() {
            while let Some(source) = old.next_if(|source| source.fragment() < id) {
                drop(source, &mut source_bytes)?;
            }
            let known = old.next_if(|source| source.fragment() == id);
            let fragment = match (known, different.next_if(|fragment| fragment.id == id)) {
                (Some(source), None) => {
                    sources.push(Arc::clone(source));
                    continue;
                }
                (Some(source), Some(fragment)) if source.is_of(&fragment) => {
                    sources.push(Arc::clone(source));
                    continue;
                }
                (Some(source), Some(fragment)) => {
                    drop(source, &mut source_bytes)?;
                    fragment
                }
                (None, Some(fragment)) => fragment,
                (None, None) => {
                    return Err(Error::internal(format!("fragment {id} is not in the index of its version")));
                }
            };
            let source = Arc::new(RowIdSource::owned(&fragment, read_ids)?);
            added.add(&source)?;
            source_bytes += source.memory();
            sources.push(source);
        }
        old.try_for_each(|source| drop(source, &mut source_bytes))?;
        removed.sort();
        added.sort();
        Ok(Self {
            sources,
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
    /// `deletions` is called for fragments that have a wanted id. Errors: `Corrupt` if a sequence
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

    /// The fragments that may have, deleted or not, a row with one of these ids. Decodes nothing.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use pennon_core::manifest::{Fragment, Fragments, LineageSource};
    /// use pennon_core::rows::{RowIdIndex, RowIdSequence};
    /// use pennon_core::FragmentId;
    /// let made = |(id, first)| {
    ///     let ids = RowIdSequence::from_range(first..first + 10).encode();
    ///     let row_ids = Some(LineageSource::Inline(ids));
    ///     Arc::new(Fragment { id: FragmentId(id), row_ids, ..Fragment::new(Vec::new(), 10) })
    /// };
    /// let fragments = Fragments::from([(0, 0), (1, 10), (2, 20)].map(made).to_vec());
    /// let index = RowIdIndex::new(&fragments, &|_| unreachable!("no ids in a column"))?;
    /// assert_eq!(index.fragments_with(15..=22), [1, 2].map(FragmentId));
    /// # Ok::<(), pennon_core::Error>(())
    /// ```
    pub fn fragments_with(&self, ids: RangeInclusive<u64>) -> Vec<FragmentId> {
        let mut found = Vec::new();
        if !ids.is_empty() {
            self.moved.fragments_with(&ids, &mut found);
            self.directory.fragments_with(&ids, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The addresses of the live rows with some ids, which ascend; in their order. Errors as for [`Self::lookup`].
    pub fn lookup_ascending(
        &self,
        ids: impl Iterator<Item = RowId>,
        deletions: Deletions<'_>,
    ) -> Result<Vec<RowAddress>> {
        let mut walk = Walk::new(self, deletions, false);
        let (mut found, mut ids) = (Vec::new(), ids.peekable());
        while let Some(id) = ids.next() {
            found.extend(walk.find(id)?);
            walk.find_in_run(&mut ids, &mut found)?;
        }
        Ok(found)
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
        let mut walk = Walk::new(self, deletions, with_deleted);
        let mut before: Option<(RowId, Option<RowAddress>)> = None;
        for (id, at) in by_id {
            let address = match before {
                Some((same, address)) if same == id => address,
                _ => walk.find(id)?,
            };
            before = Some((id, address));
            if let Some(result) = found.get_mut(at) {
                *result = address;
            }
        }
        Ok(found)
    }

    /// The ids from one on whose rows are known without a search.
    fn run(&self, hints: &mut (usize, usize), id: u64) -> Option<Run> {
        let mut run = self.directory.run(&mut hints.1, id)?;
        if let Some(moved) = self.moved.first_from(&mut hints.0, id) {
            run.last = run.last.min(moved.checked_sub(1)?);
        }
        (id <= run.last).then_some(run)
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
        self.source_bytes + self.directory.memory() + self.moved.memory()
    }
}

/// Finds rows by ascending ids.
struct Walk<'i, 'd> {
    index: &'i RowIdIndex,
    live: Live<'d>,
    with_deleted: bool,
    candidates: Vec<RowAddress>,
    /// Where the searches of moved rows and of extents ended.
    hints: (usize, usize),
    run: Option<Run>,
    pause: u32,
}

impl<'i, 'd> Walk<'i, 'd> {
    fn new(index: &'i RowIdIndex, deletions: Deletions<'d>, with_deleted: bool) -> Self {
        let live = Live { deletions, known: HashMap::new(), last: None };
        Self { index, live, with_deleted, candidates: Vec::new(), hints: (0, 0), run: None, pause: 0 }
    }

    fn find(&mut self, id: RowId) -> Result<Option<RowAddress>> {
        if self.pause > 0 {
            self.pause -= 1;
        } else if self.run.is_none_or(|run| run.last < id.0) {
            self.run = self.index.run(&mut self.hints, id.0);
            self.pause = if self.run.is_none() { PAUSE } else { 0 };
        }
        if let Some(only) = self.run.and_then(|run| run.find(id.0)) {
            return self.live.choose(id, &[only], self.with_deleted);
        }
        self.candidates.clear();
        self.index.moved.find(&mut self.hints.0, id.0, &mut self.candidates);
        self.index.directory.find(&mut self.hints.1, id.0, &mut self.candidates)?;
        self.live.choose(id, &self.candidates, self.with_deleted)
    }

    /// Adds where the live rows of those ids are that come next and are in the run of the last one.
    fn find_in_run(
        &mut self,
        ids: &mut Peekable<impl Iterator<Item = RowId>>,
        found: &mut Vec<RowAddress>,
    ) -> Result<()> {
        let Some(run) = self.run else { return Ok(()) };
        let Some(first) = ids.peek().and_then(|id| run.find(id.0)) else { return Ok(()) };
        // The rows of a run are in one fragment.
        let deletions = self.live.deletions_of(first.fragment())?;
        while let Some(address) = ids.peek().and_then(|id| run.find(id.0)) {
            ids.next();
            if !deletions.contains(address.offset()) {
                found.push(address);
            }
        }
        Ok(())
    }
}

/// Decides which copy of a row is live.
struct Live<'d> {
    deletions: Deletions<'d>,
    known: HashMap<FragmentId, Arc<DeletionVector>>,
    /// The one that was needed last.
    last: Option<(FragmentId, Arc<DeletionVector>)>,
}

impl Live<'_> {
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
        Ok(self.deletions_of(address.fragment())?.contains(address.offset()))
    }

    fn deletions_of(&mut self, fragment: FragmentId) -> Result<&DeletionVector> {
        let last = match self.last.take().filter(|(last, _)| *last == fragment) {
            Some(last) => last,
            None => match self.known.entry(fragment) {
                Entry::Occupied(known) => (fragment, Arc::clone(known.get())),
                Entry::Vacant(slot) => (fragment, Arc::clone(slot.insert((self.deletions)(fragment)?))),
            },
        };
        Ok(&self.last.insert(last).1)
    }
}

impl fmt::Debug for RowIdIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowIdIndex")
            .field("fragments", &self.sources.len())
            .field("bytes", &self.memory_bytes())
            .finish()
    }
}
