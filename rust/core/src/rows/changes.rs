//! What happened to the rows of a table between two of its versions, from lineage alone.
//!
//! | row id lives | last updated in | change |
//! |---|---|---|
//! | only in the new version | | inserted |
//! | only in the old version | | deleted |
//! | in both | different versions | updated |
//! | in both | the same version | none: it may have moved, as compaction does |
//!
//! Which of the two versions of an update is larger does not matter: a restore goes back. A fragment that is the same
//! in both is skipped, because a live id is in one fragment only; of a fragment that only lost rows, only those rows
//! are compared. Each run of consecutive ids at consecutive offsets takes 24 bytes while they are compared.

use std::ops::Range;
use std::sync::Arc;

use super::{RowIdSequence, VersionSequence, to_index};
use crate::deletion::DeletionVector;
use crate::manifest::{Difference, Fragment, Fragments, LineageSource};
use crate::{Error, FieldId, FragmentId, Result, RowAddress, RowId};

/// The fragments whose rows may differ between two versions, ascending by id, by comparing manifest entries. One that got
/// other physical rows under its id counts as removed and added. A `candidate` counts as changed even if it is the same;
/// to find those, all fragments are decoded.
///
/// ```
/// # use std::sync::Arc;
/// use pennon_core::manifest::{Difference, Fragment, Fragments};
/// use pennon_core::rows::differing;
/// use pennon_core::FragmentId;
/// let made = |ids: [u32; 2]| -> Fragments {
///     ids.map(|id| Arc::new(Fragment { id: FragmentId(id), ..Fragment::new(Vec::new(), 10) })).into_iter().collect()
/// };
/// let (old, new) = (made([0, 1]), made([0, 2]));
/// let found = differing(&old, &new, None);
/// assert!(matches!(&found[..], [Difference::Removed(old), Difference::Added(new)] if old.id.0 == 1 && new.id.0 == 2));
/// ```
pub fn differing(
    old: &Fragments,
    new: &Fragments,
    candidate: Option<&dyn Fn(&Fragment) -> bool>,
) -> Vec<Difference> {
    let is_candidate = |fragment: &Fragment| candidate.is_some_and(|candidate| candidate(fragment));
    let mut found = Vec::new();
    for difference in new.diff(old) {
        match difference {
            Difference::Changed(old, new) if !has_same_rows(&old, &new) => {
                found.extend([Difference::Removed(old), Difference::Added(new)]);
            }
            Difference::Changed(old, new) if is_same(&old, &new) && !is_candidate(&new) => {}
            difference => found.push(difference),
        }
    }
    if candidate.is_some() {
        let shared = new.decode_all().filter(|fragment| new.share(old, fragment.id));
        let candidates = shared.filter(|fragment| is_candidate(fragment));
        found.extend(candidates.map(|fragment| Difference::Changed(Arc::clone(&fragment), fragment)));
        found.sort_by_key(Difference::id);
    }
    found
}

/// Whether entries of different bytes say the same of rows and files.
fn is_same(old: &Fragment, new: &Fragment) -> bool {
    (&old.files, &old.deletion, old.physical_rows) == (&new.files, &new.deletion, new.physical_rows)
        && (&old.row_ids, &old.last_updated_at) == (&new.row_ids, &new.last_updated_at)
        && old.overlays == new.overlays
}

/// Whether the physical rows of both are the same, in the same order.
fn has_same_rows(old: &Fragment, new: &Fragment) -> bool {
    let id_file = |fragment: &Fragment| {
        let file = fragment.files.iter().find(|file| file.fields.contains(&FieldId::ROW_ID));
        file.map(|file| (file.path.clone(), file.base_id))
    };
    old.physical_rows == new.physical_rows
        && old.row_ids == new.row_ids
        && (old.row_ids != Some(LineageSource::Column) || id_file(old) == id_file(new))
}

/// A fragment in one of the versions.
#[derive(Debug, Clone, Copy)]
pub struct RowSide<'a> {
    /// Its id.
    pub fragment: FragmentId,
    /// Ids of the physical rows.
    pub ids: &'a RowIdSequence,
    /// In which version each physical row was last changed.
    pub updated: &'a VersionSequence,
    /// Rows that do not live.
    pub deleted: &'a DeletionVector,
    /// Whether values of its rows may differ from those in the other version without a trace in the lineage.
    pub candidate: bool,
}

/// A fragment that differs.
#[derive(Debug, Clone, Copy)]
pub enum RowSides<'a> {
    /// Only the old version has it.
    Old(RowSide<'a>),
    /// Only the new version has it.
    New(RowSide<'a>),
    /// Both have it, with the same ids.
    Both {
        /// In the old version.
        old: RowSide<'a>,
        /// In the new version.
        new: RowSide<'a>,
    },
}

/// Consecutive ids to which the same happened, at consecutive addresses where they live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRun {
    /// The first id.
    pub id: RowId,
    /// How many there are.
    pub rows: u64,
    /// Address of the first in the old version.
    pub old: Option<RowAddress>,
    /// Address of the first in the new version.
    pub new: Option<RowAddress>,
}

/// What happened to rows between two versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowChanges {
    /// Live only in the new version.
    pub inserted: Vec<RowRun>,
    /// Live only in the old version.
    pub deleted: Vec<RowRun>,
    /// Live in both, last updated in different versions.
    pub updated: Vec<RowRun>,
    /// Live in both and not updated as far as the lineage tells, in a candidate fragment.
    pub candidates: Vec<RowRun>,
}

impl RowChanges {
    /// The list for rows that live in both versions; `None` if nothing happened to them.
    fn of_both(
        &mut self,
        old: RowSide<'_>,
        new: RowSide<'_>,
        same_version: bool,
    ) -> Option<&mut Vec<RowRun>> {
        match (same_version, old.candidate || new.candidate) {
            (false, _) => Some(&mut self.updated),
            (true, true) => Some(&mut self.candidates),
            (true, false) => None,
        }
    }
}

/// What happened to rows, from the fragments that differ.
///
/// ```
/// use pennon_core::deletion::DeletionVector;
/// use pennon_core::rows::{RowIdSequence, RowSide, RowSides, VersionSequence, row_changes};
/// use pennon_core::{FragmentId, RowId, Version};
/// let (ids, moved) = (RowIdSequence::from_range(0..4), RowIdSequence::from_slice(&[2]));
/// let (made, changed) = (VersionSequence::constant(4, Version(1)), VersionSequence::constant(1, Version(2)));
/// let (none, two): (DeletionVector, DeletionVector) = (DeletionVector::empty(), [2, 3].into_iter().collect());
/// let side = |deleted| RowSide { fragment: FragmentId(0), ids: &ids, updated: &made, deleted, candidate: false };
/// let new = RowSide { fragment: FragmentId(1), ids: &moved, updated: &changed, deleted: &none, candidate: false };
/// let both = RowSides::Both { old: side(&none), new: side(&two) };
/// let found = row_changes(&[both, RowSides::New(new)])?;
/// assert_eq!((found.updated[0].id, found.deleted[0].id), (RowId(2), RowId(3)));
/// # Ok::<(), pennon_core::Error>(())
/// ```
///
/// Errors: `Corrupt` if two live rows of a version have one id, or a row has no version.
pub fn row_changes(parts: &[RowSides<'_>]) -> Result<RowChanges> {
    let mut changes = RowChanges::default();
    let (mut olds, mut news) = (PendingRuns::default(), PendingRuns::default());
    for part in parts {
        match *part {
            RowSides::Old(side) => olds.add_live(side)?,
            RowSides::New(side) => news.add_live(side)?,
            RowSides::Both { old, new } => {
                olds.add(old, new.deleted.difference(old.deleted).ranges())?;
                news.add(new, old.deleted.difference(new.deleted).ranges())?;
                if old.candidate || new.candidate || old.updated != new.updated {
                    in_place(old, new, &mut changes)?;
                }
            }
        }
    }
    olds.sort()?;
    news.sort()?;
    join(&olds, &news, &mut changes)?;
    Ok(changes)
}

/// Rows that live at the same address in both versions.
fn in_place(old: RowSide<'_>, new: RowSide<'_>, changes: &mut RowChanges) -> Result<()> {
    let deleted = old.deleted.union(new.deleted);
    for live in deleted.live_ranges(0..old.ids.len()) {
        each_pair(old, live.start, new, live.start, live.end - live.start, |at, rows, same| {
            let Some(to) = changes.of_both(old, new, same) else { return Ok(()) };
            let mut offset = live.start + at;
            let mut result = Ok(());
            old.ids.runs_in(offset..offset + rows, |first, last| {
                match (address(old.fragment, offset), address(new.fragment, offset)) {
                    (Ok(from), Ok(into)) => {
                        push(
                            to,
                            RowRun {
                                id: RowId(first),
                                rows: last - first + 1,
                                old: Some(from),
                                new: Some(into),
                            },
                        );
                    }
                    (Err(error), _) | (_, Err(error)) => result = Err(error),
                }
                offset += last - first + 1;
            });
            result
        })?;
    }
    Ok(())
}

/// Calls `found` with relative position, number of rows, and whether both were last updated in the same version.
fn each_pair(
    old: RowSide<'_>,
    old_at: u64,
    new: RowSide<'_>,
    new_at: u64,
    rows: u64,
    mut found: impl FnMut(u64, u64, bool) -> Result<()>,
) -> Result<()> {
    let mut ours = old.updated.runs_in(old_at..old_at + rows);
    let mut theirs = new.updated.runs_in(new_at..new_at + rows);
    let (mut our, mut their) = (ours.next(), theirs.next());
    let mut at = 0;
    while at < rows {
        let (Some((left, old_version)), Some((right, new_version))) = (&our, &their) else {
            let (old, new) = (old.fragment, new.fragment);
            return Err(Error::corrupt(format!("a row of fragment {old} or {new} has no version")));
        };
        let (left, right) = (left.end - old_at, right.end - new_at);
        let end = left.min(right);
        found(at, end - at, old_version == new_version)?;
        at = end;
        if left == end {
            our = ours.next();
        }
        if right == end {
            their = theirs.next();
        }
    }
    Ok(())
}

/// Runs of ids of one version that have to be compared.
#[derive(Default)]
struct PendingRuns<'a> {
    sides: Vec<RowSide<'a>>,
    runs: Vec<Run>,
}

/// Consecutive ids at consecutive offsets.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    last: u64,
    side: u32,
    offset: u32,
}

impl<'a> PendingRuns<'a> {
    fn add_live(&mut self, side: RowSide<'a>) -> Result<()> {
        self.add(side, side.deleted.live_ranges(0..side.ids.len()))
    }

    fn add(&mut self, side: RowSide<'a>, offsets: impl Iterator<Item = Range<u64>>) -> Result<()> {
        let number =
            u32::try_from(self.sides.len()).map_err(|_| Error::internal("more than 2^32 fragments"))?;
        let mut result = Ok(());
        for range in offsets {
            let mut offset = range.start;
            side.ids.runs_in(range, |first, last| {
                match address(side.fragment, offset) {
                    Ok(address) => {
                        self.runs.push(Run { first, last, side: number, offset: address.offset() })
                    }
                    Err(error) => result = Err(error),
                }
                offset += last - first + 1;
            });
        }
        self.sides.push(side);
        result
    }

    fn sort(&mut self) -> Result<()> {
        if !self.runs.is_sorted_by_key(|run| run.first) {
            self.runs.sort_unstable_by_key(|run| run.first);
        }
        match self.runs.windows(2).find(|pair| matches!(pair, [run, next] if run.last >= next.first)) {
            Some([_, run]) => Err(Error::corrupt(format!("two live rows have row id {}", run.first))),
            _ => Ok(()),
        }
    }

    /// The address of an id of a run, and the fragment it is in.
    fn locate(&self, run: Option<&Run>, id: u64) -> Result<(RowSide<'a>, RowAddress)> {
        let side = |run: &Run| self.sides.get(to_index(run.side.into())).copied();
        let found = run.and_then(|run| Some((run, side(run)?)));
        let (run, side) = found.ok_or_else(|| Error::internal("a row id without its fragment"))?;
        Ok((side, address(side.fragment, u64::from(run.offset) + (id - run.first))?))
    }
}

fn join(olds: &PendingRuns<'_>, news: &PendingRuns<'_>, changes: &mut RowChanges) -> Result<()> {
    let (mut old_runs, mut new_runs) = (olds.runs.iter(), news.runs.iter());
    let (mut old, mut new) = (old_runs.next(), new_runs.next());
    // All ids below are done.
    let mut at = 0;
    loop {
        let old_first = old.map(|run| run.first.max(at));
        let new_first = new.map(|run| run.first.max(at));
        let (alone, first, end) = match (old_first.zip(old), new_first.zip(new)) {
            (None, None) => return Ok(()),
            (Some((first, run)), Some((other, _))) if first < other => {
                (Some(true), first, run.last.min(other - 1))
            }
            (Some((first, _)), Some((other, run))) if other < first => {
                (Some(false), other, run.last.min(first - 1))
            }
            (Some((first, run)), None) => (Some(true), first, run.last),
            (None, Some((first, run))) => (Some(false), first, run.last),
            (Some((first, old)), Some((_, new))) => (None, first, old.last.min(new.last)),
        };
        let rows = end - first + 1;
        match alone {
            Some(true) => {
                let (_, address) = olds.locate(old, first)?;
                push(&mut changes.deleted, RowRun { id: RowId(first), rows, old: Some(address), new: None });
            }
            Some(false) => {
                let (_, address) = news.locate(new, first)?;
                push(&mut changes.inserted, RowRun { id: RowId(first), rows, old: None, new: Some(address) });
            }
            None => {
                let ((from, from_at), (into, into_at)) = (olds.locate(old, first)?, news.locate(new, first)?);
                let (old_offset, new_offset) = (from_at.offset().into(), into_at.offset().into());
                each_pair(from, old_offset, into, new_offset, rows, |at, rows, same| {
                    let Some(to) = changes.of_both(from, into, same) else { return Ok(()) };
                    let old = Some(address(from.fragment, old_offset + at)?);
                    let new = Some(address(into.fragment, new_offset + at)?);
                    push(to, RowRun { id: RowId(first + at), rows, old, new });
                    Ok(())
                })?;
            }
        }
        if old.is_some_and(|run| run.last == end) {
            old = old_runs.next();
        }
        if new.is_some_and(|run| run.last == end) {
            new = new_runs.next();
        }
        let Some(next) = end.checked_add(1) else { return Ok(()) };
        at = next;
    }
}

/// Adds a run, joined with the last one if it continues that.
fn push(runs: &mut Vec<RowRun>, run: RowRun) {
    if let Some(last) = runs.last_mut() {
        let after = |address: Option<RowAddress>| address.map(|a| a.0.wrapping_add(last.rows));
        let is_next = after(last.old) == run.old.map(|a| a.0) && after(last.new) == run.new.map(|a| a.0);
        if is_next && last.id.0.checked_add(last.rows) == Some(run.id.0) {
            last.rows += run.rows;
            return;
        }
    }
    runs.push(run);
}

fn address(fragment: FragmentId, offset: u64) -> Result<RowAddress> {
    let offset = u32::try_from(offset)
        .map_err(|_| Error::corrupt(format!("fragment {fragment}: a row at offset {offset}")))?;
    Ok(RowAddress::new(fragment, offset))
}
