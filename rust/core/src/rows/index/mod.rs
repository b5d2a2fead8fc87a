//! Row id to row address, for one version of a table (table format 4.6).
//!
//! Lazy: the first lookup learns the bounds of each fragment's ids; a fragment's sequence is only prepared when an id
//! within its bounds is asked for; deletion vectors are consulted at hits. A row that moved has a stale copy in its
//! old fragment, which is deleted there: the live one is the answer.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::RowIdSequence;
use crate::deletion::DeletionVector;
use crate::manifest::Fragment;
use crate::{FragmentId, Result, RowAddress, RowId};

/// Finds rows of one version by their stable ids.
pub struct RowIdIndex {
    entries: Vec<Entry>,
    bounds: OnceLock<Result<Bounds>>,
}

struct Entry {
    fragment: Arc<Fragment>,
    prepared: OnceLock<Result<RowIdSequence>>,
}

/// Fragments by their smallest id, with the largest id up to each.
struct Bounds {
    by_min: Vec<Bound>,
}

struct Bound {
    min: u64,
    max: u64,
    /// Largest id of this and all entries before.
    max_so_far: u64,
    entry: usize,
}

impl RowIdIndex {
    /// The index of these fragments. Decodes nothing.
    pub fn new(fragments: &[Arc<Fragment>]) -> Self {
        let entry =
            |fragment: &Arc<Fragment>| Entry { fragment: Arc::clone(fragment), prepared: OnceLock::new() };
        Self { entries: fragments.iter().map(entry).collect(), bounds: OnceLock::new() }
    }

    /// The address of each id; `None` for ids that no live row has.
    ///
    /// `deletions` gives the deletion vector of a fragment. Errors: `Corrupt` if a sequence does not decode,
    /// `Unsupported` for ids stored as a column; those of `deletions`.
    pub fn lookup(
        &self,
        ids: &[RowId],
        deletions: &mut dyn FnMut(FragmentId) -> Result<Arc<DeletionVector>>,
    ) -> Result<Vec<Option<RowAddress>>> {
        let bounds = self.bounds.get_or_init(|| self.learn_bounds()).as_ref().map_err(Clone::clone)?;
        ids.iter().map(|&id| self.find(bounds, id, deletions)).collect()
    }

    fn find(
        &self,
        bounds: &Bounds,
        id: RowId,
        deletions: &mut dyn FnMut(FragmentId) -> Result<Arc<DeletionVector>>,
    ) -> Result<Option<RowAddress>> {
        let end = bounds.by_min.partition_point(|bound| bound.min <= id.0);
        let candidates = bounds.by_min.get(..end).unwrap_or_default().iter().rev();
        for bound in candidates.take_while(|bound| bound.max_so_far >= id.0).filter(|bound| bound.max >= id.0)
        {
            let Some(entry) = self.entries.get(bound.entry) else { continue };
            let prepared = entry.prepared.get_or_init(|| entry.prepare()).as_ref().map_err(Clone::clone)?;
            let Some(offset) = prepared.position(id).and_then(|at| u32::try_from(at).ok()) else { continue };
            let fragment = entry.fragment.id;
            if entry.fragment.deletion.is_some() && deletions(fragment)?.contains(offset) {
                continue;
            }
            return Ok(Some(RowAddress::new(fragment, offset)));
        }
        Ok(None)
    }

    fn learn_bounds(&self) -> Result<Bounds> {
        let mut by_min = Vec::with_capacity(self.entries.len());
        for (entry, value) in self.entries.iter().enumerate() {
            let Some(sequence) = value.fragment.row_id_sequence()? else { continue };
            if let Some((min, max)) = sequence.min_max() {
                by_min.push(Bound { min, max, max_so_far: max, entry });
            }
        }
        by_min.sort_unstable_by_key(|bound| bound.min);
        let mut max_so_far = 0;
        for bound in &mut by_min {
            max_so_far = bound.max.max(max_so_far);
            bound.max_so_far = max_so_far;
        }
        Ok(Bounds { by_min })
    }
}

impl Entry {
    fn prepare(&self) -> Result<RowIdSequence> {
        Ok(self.fragment.row_id_sequence()?.unwrap_or_default())
    }
}

impl fmt::Debug for RowIdIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = self.entries.iter().filter(|entry| entry.prepared.get().is_some()).count();
        f.debug_struct("RowIdIndex")
            .field("fragments", &self.entries.len())
            .field("prepared", &prepared)
            .finish()
    }
}
