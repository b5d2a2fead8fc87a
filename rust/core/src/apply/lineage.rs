//! Row ids and row versions of rows that are added, moved and changed (table format 4.3 to 4.5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::deletion::DeletionVector;
use crate::manifest::{Fragment, LineageSource, Manifest};
use crate::rows::{Intervals, RowIdSequence, VersionSequence};
use crate::{Error, FragmentId, Result, RowId, Version};

/// Gives the rows of a new fragment their ids; `next_row_id` is advanced.
///
/// A fragment may have ids for its first rows, which existed before; only the others get new ones. Gives the ids it
/// had, `None` if they are in a data column. An id that was never handed out is not handed out later either.
/// Errors: `InvalidInput` if it has more ids than rows, or files and no rows; `Unsupported` when the 64 bits are used up.
pub(super) fn assign(fragment: &mut Fragment, next_row_id: &mut u64) -> Result<Option<RowIdSequence>> {
    let rows = fragment.physical_rows;
    let in_fragment = |e: Error| e.at(format!("fragment {}", fragment.id));
    let existing = match &fragment.row_ids {
        Some(LineageSource::Column) => return Ok(None),
        Some(LineageSource::Inline(bytes)) => RowIdSequence::decode(bytes).map_err(in_fragment)?,
        None => RowIdSequence::empty(),
    };
    let Some(missing) = rows.checked_sub(existing.len()) else {
        return Err(in_fragment(Error::invalid_input(format!(
            "{} row ids for {rows} physical rows",
            existing.len()
        ))));
    };
    // Zero is also what is read where nothing was said.
    if rows == 0 && !fragment.files.is_empty() {
        return Err(in_fragment(Error::invalid_input(
            "data files of 0 physical rows, expected how many they have",
        )));
    }
    let used_up = || Error::unsupported("all 2^64 row ids are used up");
    if let Some((_, max)) = existing.min_max() {
        *next_row_id = (*next_row_id).max(max.checked_add(1).ok_or_else(used_up)?);
    }
    if missing > 0 || fragment.row_ids.is_none() {
        let start = *next_row_id;
        let end = start.checked_add(missing).ok_or_else(used_up)?;
        let sequence = if existing.is_empty() {
            RowIdSequence::from_range(start..end)
        } else {
            existing.iter().chain(start..end).collect()
        };
        fragment.row_ids = Some(LineageSource::Inline(sequence.encode()));
        *next_row_id = end;
    }
    Ok(Some(existing))
}

/// Rows whose versions are not known were made and changed in this version.
pub(super) fn set_missing_versions(fragment: &mut Fragment, version: Version) {
    if fragment.created_at.is_none() || fragment.last_updated_at.is_none() {
        let versions = constant(fragment, version);
        for source in [&mut fragment.created_at, &mut fragment.last_updated_at] {
            source.get_or_insert(versions.clone());
        }
    }
}

/// All rows were changed in this version.
pub(super) fn touch_all(fragment: &mut Fragment, version: Version) {
    fragment.last_updated_at = Some(constant(fragment, version));
}

/// Whether a fragment has no other physical rows.
pub(super) fn are_all(rows: &DeletionVector, fragment: &Fragment) -> bool {
    rows.count_in(0..fragment.physical_rows) == fragment.physical_rows
}

/// The rows at these offsets were changed in this version. Versions that were in a data column are inline then, and
/// the column is not read any more.
///
/// `inline_lineage`: the fragment with its last-updated-at versions inline; not needed if all rows were changed.
pub(super) fn touch(
    fragment: &mut Fragment,
    inline_lineage: Option<&Fragment>,
    rows: &DeletionVector,
    version: Version,
) -> Result<()> {
    if are_all(rows, fragment) {
        touch_all(fragment, version);
        return Ok(());
    }
    let before = inline_lineage.unwrap_or(fragment).last_updated_at_sequence()?;
    let before = before.unwrap_or_else(|| VersionSequence::unrecorded(fragment.physical_rows));
    let after = before.with(rows, version);
    fragment.last_updated_at = Some(LineageSource::Inline(after.encode()));
    Ok(())
}

fn constant(fragment: &Fragment, version: Version) -> LineageSource {
    LineageSource::Inline(VersionSequence::constant(fragment.physical_rows, version).encode())
}

/// Finds the versions of rows by their ids, in the version they come from.
///
/// An id may be in several fragments, because a moved row is deleted in the old one, which still lists its
/// id: all of them have the same versions for it. Sequences are decoded when an id may be in them, those of other
/// fragments than the expected ones only when an id is in none of these.
pub(super) struct Origins<'a> {
    current: &'a Manifest,
    inline_lineage: &'a BTreeMap<FragmentId, Fragment>,
    stage: Stage,
    /// The fragments of the stage by the ids they may have.
    fragments: Intervals<FragmentId>,
    opened: Vec<Origin>,
    opened_at: BTreeMap<FragmentId, usize>,
    /// Where the last id was: origin and position.
    last: (usize, u64),
}

/// The fragments that are searched.
enum Stage {
    /// None yet; these first.
    Unread(BTreeSet<FragmentId>),
    Expected,
    All,
}

struct Origin {
    ids: RowIdSequence,
    created: VersionSequence,
    updated: VersionSequence,
}

impl<'a> Origins<'a> {
    /// Searches these fragments first, then all. `inline_lineage`: fragments with their lineage inline.
    pub(super) fn new(
        current: &'a Manifest,
        expected: impl Iterator<Item = FragmentId>,
        inline_lineage: &'a BTreeMap<FragmentId, Fragment>,
    ) -> Self {
        Self {
            current,
            inline_lineage,
            stage: Stage::Unread(expected.collect()),
            fragments: Intervals::default(),
            opened: Vec::new(),
            opened_at: BTreeMap::new(),
            last: (0, 0),
        }
    }

    /// Created-at and last-updated-at versions of these rows; `version` for ids that no fragment has.
    ///
    /// Errors: `Corrupt` if a sequence does not decode; `Unsupported` if the ids of a row that is looked for may be in
    /// a data column.
    pub(super) fn versions(
        &mut self,
        ids: &RowIdSequence,
        version: Version,
    ) -> Result<(VersionSequence, VersionSequence)> {
        let (mut created, mut updated) = (VersionSequence::default(), VersionSequence::default());
        for id in ids.iter() {
            let found = self.find(RowId(id))?;
            let origin = found.and_then(|(at, position)| Some((self.opened.get(at)?, position)));
            let versions = origin.map(|(o, position)| (o.created.get(position), o.updated.get(position)));
            let (made, changed) = versions.unwrap_or((Some(version), Some(version)));
            created.push(1, made.unwrap_or(VersionSequence::UNRECORDED));
            updated.push(1, changed.unwrap_or(VersionSequence::UNRECORDED));
        }
        Ok((created, updated))
    }

    fn find(&mut self, id: RowId) -> Result<Option<(usize, u64)>> {
        let (at, position) = self.last;
        let next = self.opened.get(at).and_then(|origin| origin.ids.get(position + 1));
        if next == Some(id) {
            self.last = (at, position + 1);
            return Ok(Some(self.last));
        }
        loop {
            // Put back below: opening fragments does not change it.
            let fragments = std::mem::take(&mut self.fragments);
            let found =
                fragments.containing(id.0).find_map(|fragment| self.position(*fragment, id).transpose());
            self.fragments = fragments;
            if let Some(found) = found {
                self.last = found?;
                return Ok(Some(self.last));
            }
            if !self.widen()? {
                return Ok(None);
            }
        }
    }

    /// Where an id is in a fragment.
    fn position(&mut self, fragment: FragmentId, id: RowId) -> Result<Option<(usize, u64)>> {
        let at = match self.opened_at.get(&fragment) {
            Some(at) => *at,
            None => self.open(fragment)?,
        };
        Ok(self.opened.get(at).and_then(|origin| Some((at, origin.ids.position(id)?))))
    }

    /// Goes on to the next stage; `false` after the last.
    fn widen(&mut self) -> Result<bool> {
        let current = &self.current.fragments;
        let interval = |fragment: &Fragment| {
            let ids = self.inline_lineage.get(&fragment.id).unwrap_or(fragment).row_id_sequence()?;
            Ok(ids.and_then(|ids| Some((ids.min_max()?, fragment.id))))
        };
        let intervals = |fragments: &mut dyn Iterator<Item = Arc<Fragment>>| -> Result<_> {
            fragments.filter_map(|fragment| interval(&fragment).transpose()).collect()
        };
        (self.fragments, self.stage) = match &self.stage {
            Stage::Unread(expected) => {
                let mut expected = expected.iter().filter_map(|id| current.by_id(*id).cloned());
                (intervals(&mut expected)?, Stage::Expected)
            }
            Stage::Expected => {
                (intervals(&mut current.decode_where(|fragment| fragment.has_row_ids))?, Stage::All)
            }
            Stage::All => return Ok(false),
        };
        Ok(true)
    }

    fn open(&mut self, id: FragmentId) -> Result<usize> {
        let missing = || Error::internal(format!("fragment {id} of row ids is not there"));
        let fragment = self.inline_lineage.get(&id).or_else(|| self.current.fragment(id).map(Arc::as_ref));
        let fragment = fragment.ok_or_else(missing)?;
        let unrecorded = || VersionSequence::unrecorded(fragment.physical_rows);
        self.opened.push(Origin {
            ids: fragment.row_id_sequence()?.unwrap_or_default(),
            created: fragment.created_at_sequence()?.unwrap_or_else(unrecorded),
            updated: fragment.last_updated_at_sequence()?.unwrap_or_else(unrecorded),
        });
        let at = self.opened.len() - 1;
        self.opened_at.insert(id, at);
        Ok(at)
    }
}
