//! Two versions -> the rows that changed, in units that are read at a time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use pennon_core::manifest::{Fragment, Fragments};
use pennon_core::rows::{RowIdSequence, RowRun, RowSide, RowSides, VersionSequence, differing, row_changes};
use pennon_core::schema::Field;
use pennon_core::{Error, FieldId, FragmentId, Result, RowAddress, RowId};

use super::FeedPart;
use super::columns::{FeedColumns, are_elsewhere, has_one_of};
use crate::runtime::{IN_FLIGHT, blocking};
use crate::scan::{FragmentReader, Needs, NeedsDeletions, prepare};
use crate::versions::snapshot::Snapshot;

/// Bytes of the values of a unit, about.
const UNIT_BYTES: u64 = 16 << 20;
/// Bytes that the values of a unit take in memory, at most, about.
const MOST_BYTES: u64 = 128 << 20;
/// Fragments of a unit when only those of one version are read: so cores share many small ones.
const FEW_FRAGMENTS: usize = 24;
/// Rows that are decoded for one of them, about.
const DECODED_ROWS: u64 = 1 << 10;
/// Rows of which both images are read in one go: the fragments of the other version are read for each part.
const SHARED_ROWS: u64 = 16 << 10;
/// Rows of which one image is read in one go, so that cores share them.
const LONE_ROWS: u64 = 4 << 10;
/// Addresses of rows that are in the same part of a feed.
const PART_BLOCK: u64 = 8 << 10;
/// Rows of a unit.
const UNIT_ROWS: Range<u64> = 64..32 << 10;

/// What happened to the rows of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitKind {
    Deleted,
    Updated,
    /// Updated if the values differ.
    Candidate,
    Inserted,
}

/// Rows that are read at a time.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) kind: UnitKind,
    pub(super) runs: Vec<RowRun>,
}

impl Unit {
    /// The same rows in smaller units, if their values take too many bytes in memory.
    pub(super) fn parts(&self, bytes: u64) -> Option<Vec<Self>> {
        let rows: u64 = self.runs.iter().map(|run| run.rows).sum();
        if rows < 2 || bytes <= MOST_BYTES {
            return None;
        }
        let rows = (MOST_BYTES / 2 / (bytes / rows)).max(1);
        let parts = cut(self.runs.clone(), rows, usize::MAX);
        Some(parts.into_iter().map(|runs| Self { kind: self.kind, runs }).collect())
    }
}

/// One of the two versions: its fragments that differ, and the columns as it has them.
#[derive(Debug)]
pub(super) struct Side {
    readers: HashMap<FragmentId, FragmentReader>,
    pub(super) fields: Vec<Option<Field>>,
}

/// Two versions that are compared.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) old: Side,
    pub(super) new: Side,
    /// Fragments that differ, in the versions that have them.
    differing: Vec<(Option<FragmentId>, Option<FragmentId>)>,
    /// Fields of the columns that only one of the versions has, or that may be others in one than in the other.
    alone: Vec<FieldId>,
}

/// Who the rows of a fragment are.
pub(super) struct Lineage {
    ids: RowIdSequence,
    updated: VersionSequence,
}

/// In the old and in the new version, where it has the fragment.
pub(super) type Lineages = (Option<Lineage>, Option<Lineage>);

impl Side {
    fn new(snapshot: &Arc<Snapshot>, fragments: Vec<Arc<Fragment>>, fields: Vec<Option<Field>>) -> Self {
        let reader =
            |fragment: Arc<Fragment>| (fragment.id, FragmentReader::new(Arc::clone(snapshot), fragment, 0));
        let readers = fragments.into_iter().map(reader).collect();
        Self { readers, fields }
    }

    pub(super) fn reader(&self, id: FragmentId) -> Result<&FragmentReader> {
        let missing = || Error::internal(format!("fragment {id} is not among those that differ"));
        self.readers.get(&id).ok_or_else(missing)
    }

    fn lineage(&self, id: Option<FragmentId>) -> Result<Option<Lineage>> {
        let Some(id) = id else { return Ok(None) };
        let reader = self.reader(id)?;
        Ok(Some(Lineage { ids: reader.all_row_ids()?, updated: reader.last_updated()? }))
    }

    fn rows<'a>(
        &'a self,
        id: Option<FragmentId>,
        lineage: Option<&'a Lineage>,
        alone: &[FieldId],
    ) -> Result<Option<RowSide<'a>>> {
        let (Some(fragment), Some(Lineage { ids, updated })) = (id, lineage) else { return Ok(None) };
        let reader = self.reader(fragment)?;
        let candidate = has_one_of(reader.fragment(), alone);
        Ok(Some(RowSide { fragment, ids, updated, deleted: reader.deletions()?, candidate }))
    }

    /// Bytes of the widest rows.
    fn width(&self) -> u64 {
        let width = |reader: &FragmentReader| {
            let fragment = reader.fragment();
            let bytes: u64 = fragment.files.iter().filter_map(|file| file.size).sum();
            bytes / fragment.physical_rows.max(1)
        };
        self.readers.values().map(width).max().unwrap_or(0)
    }
}

impl Pair {
    /// Compares the manifest entries; without an old version everything is new. What takes long to fetch is fetched at
    /// once.
    pub(super) async fn new(
        old: Option<&Arc<Snapshot>>,
        new: &Arc<Snapshot>,
        columns: &FeedColumns,
    ) -> Result<Self> {
        let nothing = Fragments::default();
        let before = old.map_or(&nothing, |snapshot| &snapshot.manifest.fragments);
        let (mut olds, mut news, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        let new_fields = columns.table.in_version(new).await?;
        let (old_fields, alone) = match old {
            Some(old) => {
                let old_fields = columns.table.in_version(old).await?;
                let alone = columns.only_in_one((old, &old_fields), (new, &new_fields)).await?;
                (old_fields, alone)
            }
            None => (Vec::new(), Vec::new()),
        };
        let is_candidate = |fragment: &Fragment| has_one_of(fragment, &alone);
        let candidate: Option<&dyn Fn(&Fragment) -> bool> = (!alone.is_empty()).then_some(&is_candidate);
        for difference in differing(before, &new.manifest.fragments, candidate) {
            let (removed, added) = (difference.before(), difference.after());
            pairs.push((removed.map(|fragment| fragment.id), added.map(|fragment| fragment.id)));
            olds.extend(removed.cloned());
            news.extend(added.cloned());
        }
        let is_local = new.store.is_local();
        let (old, new) = (Side::new(old.unwrap_or(new), olds, old_fields), Side::new(new, news, new_fields));
        let pair = Self { old, new, differing: pairs, alone };
        if is_local {
            return Ok(pair);
        }
        blocking(move || {
            pair.fetch()?;
            Ok(pair)
        })
        .await
    }

    /// Fetches deletion vectors at once, and with them the files of new fragments if they are few.
    fn fetch(&self) -> Result<()> {
        let fields: Vec<Field> = self.new.fields.iter().flatten().cloned().collect();
        let are_few = self.differing.len() <= IN_FLIGHT;
        let needs = |fields| Needs { fields, values: true, deletions: NeedsDeletions::Yes };
        let needs = |(id, reader)| {
            let is_new = are_few && !self.old.readers.contains_key(id);
            (reader, needs(if is_new { fields.as_slice() } else { &[] }))
        };
        prepare(self.old.readers.iter().chain(&self.new.readers).map(needs))
    }

    /// Number of fragments that differ.
    pub(super) fn len(&self) -> usize {
        self.differing.len()
    }

    /// Who the rows of fragments that differ are, in both versions. Blocks on the store.
    pub(super) fn lineages(&self, which: Range<usize>) -> Result<Vec<Lineages>> {
        let differing = self.differing.get(which).unwrap_or_default().iter();
        differing.map(|&(old, new)| Ok((self.old.lineage(old)?, self.new.lineage(new)?))).collect()
    }

    /// The rows that changed, to be read by so many at a time; `lineages` are those of all fragments that differ. `both`:
    /// whether the values of updated rows are read in both versions. Only the rows of a part, if there is one. Blocks on
    /// the store.
    pub(super) fn units(
        &self,
        lineages: &[Lineages],
        (readers, both): (u64, bool),
        part: Option<FeedPart>,
    ) -> Result<Vec<Unit>> {
        let mut sides = Vec::with_capacity(lineages.len());
        for (&(old, new), (before, after)) in self.differing.iter().zip(lineages) {
            let before = self.old.rows(old, before.as_ref(), &self.alone)?;
            let after = self.new.rows(new, after.as_ref(), &self.alone)?;
            sides.extend(match (before, after) {
                (Some(old), Some(mut new)) => {
                    let (before, after) = (self.old.reader(old.fragment)?, self.new.reader(new.fragment)?);
                    new.candidate |= are_elsewhere(
                        (before.fragment(), &self.old.fields),
                        (after.fragment(), &self.new.fields),
                    );
                    Some(RowSides::Both { old, new })
                }
                (Some(old), None) => Some(RowSides::Old(old)),
                (None, Some(new)) => Some(RowSides::New(new)),
                (None, None) => None,
            });
        }
        let changes = row_changes(&sides)?;
        let rows = UNIT_BYTES / self.old.width().max(self.new.width()).max(1);
        let rows = rows.clamp(UNIT_ROWS.start, UNIT_ROWS.end);
        let mut units = Vec::new();
        let kinds = [
            (UnitKind::Deleted, changes.deleted),
            (UnitKind::Updated, changes.updated),
            (UnitKind::Candidate, changes.candidates),
            (UnitKind::Inserted, changes.inserted),
        ];
        for (kind, mut runs) in kinds {
            if let Some(part) = part {
                runs = in_part(&runs, part);
            }
            let new = |run: &RowRun| run.new.or(run.old);
            let old = |run: &RowRun| run.old.or(run.new);
            let share = runs.iter().map(|run| run.rows).sum::<u64>().div_ceil(readers.max(1));
            let parts = match both && matches!(kind, UnitKind::Updated | UnitKind::Candidate) {
                false => {
                    runs.sort_unstable_by_key(new);
                    cut(runs, share.max(LONE_ROWS).min(rows), FEW_FRAGMENTS)
                }
                true => {
                    // In the version in which they lie farther apart each row is decoded once only.
                    runs.sort_unstable_by_key(old);
                    let decoded = spread(&runs, old);
                    let mut by_new = runs.clone();
                    by_new.sort_unstable_by_key(new);
                    let runs = if spread(&by_new, new) > decoded { by_new } else { runs };
                    cut(runs, share.max(SHARED_ROWS).min(rows), usize::MAX)
                }
            };
            units.extend(parts.into_iter().map(|runs| Unit { kind, runs }));
        }
        Ok(units)
    }
}

/// The rows that are in a part, by blocks of addresses: where a row lives in the newer of the two versions that has it is
/// known from these alone, unlike what may have happened to it.
fn in_part(runs: &[RowRun], part: FeedPart) -> Vec<RowRun> {
    let mut rows = Vec::new();
    for &run in runs {
        let mut run = run;
        while let Some(address) = run.new.or(run.old).filter(|_| run.rows > 0) {
            let offset = u64::from(address.offset());
            let taken = run.rows.min(PART_BLOCK - offset % PART_BLOCK);
            if part.has(u64::from(address.fragment().0) + offset / PART_BLOCK) {
                rows.push(RowRun { rows: taken, ..run });
            }
            run = after(run, taken);
        }
    }
    rows
}

/// A run without its first rows.
fn after(run: RowRun, rows: u64) -> RowRun {
    let moved = |address: Option<RowAddress>| address.map(|a| RowAddress(a.0 + rows));
    RowRun {
        id: RowId(run.id.0.saturating_add(rows)),
        rows: run.rows - rows,
        old: moved(run.old),
        new: moved(run.new),
    }
}

/// How many pieces of fragments are decoded to read runs that are in the order of these addresses.
fn spread(runs: &[RowRun], address: impl Fn(&RowRun) -> Option<RowAddress>) -> u64 {
    let (mut pieces, mut next) = (0, 0);
    for (first, rows) in runs.iter().filter_map(|run| Some((address(run)?.0, run.rows))) {
        let last = (first + rows.saturating_sub(1)) / DECODED_ROWS;
        let first = (first / DECODED_ROWS).max(next);
        if last >= first {
            pieces += last - first + 1;
            next = last + 1;
        }
    }
    pieces
}

/// Runs in lists of at most so many rows of so many fragments.
fn cut(runs: Vec<RowRun>, rows: u64, fragments: usize) -> Vec<Vec<RowRun>> {
    let (mut parts, mut part, mut room) = (Vec::new(), Vec::new(), rows);
    let (mut last, mut seen) = (None, 0);
    for mut run in runs {
        let fragment = run.new.or(run.old).map(RowAddress::fragment);
        if fragment != last {
            (last, seen) = (fragment, seen + 1);
            if seen > fragments && !part.is_empty() {
                parts.push(std::mem::take(&mut part));
                (room, seen) = (rows, 1);
            }
        }
        while run.rows > 0 {
            let taken = run.rows.min(room);
            part.push(RowRun { rows: taken, ..run });
            run = after(run, taken);
            room -= taken;
            if room == 0 {
                parts.push(std::mem::take(&mut part));
                (room, seen) = (rows, 1);
            }
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
