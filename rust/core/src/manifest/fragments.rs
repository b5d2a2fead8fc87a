//! The fragments of a version: decoded when they are read, shared with the versions before and after.
//!
//! | held of each | for |
//! |---|---|
//! | its bytes | the next manifest: unchanged fragments are copied into it |
//! | a summary: id, rows, deletions, what its lineage and files are | counters, flags and look-ups, for all fragments at once |
//! | the decoded fragment, once it was read | everything else |
//!
//! Opening a table of 100,000 fragments and appending to it decodes none of them. As a slice they are all decoded;
//! [`Fragments::by_id`] and [`Fragments::get`] decode one.
//!
//! Invariant: the bytes of a fragment that is not decoded were checked when the manifest was read (`wire::fragment_scan`
//! walks them the same way), so decoding them cannot fail. Ids are ascending.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{Fragment, LineageSource};
use crate::FragmentId;
use crate::file::FileVersion;
use crate::wire::FragmentScanner;

/// Fragments in the order of their ids.
#[derive(Default)]
pub struct Fragments {
    slots: Vec<Arc<Slot>>,
    /// All of them decoded, once they were read as a slice.
    all: OnceLock<Vec<Arc<Fragment>>>,
}

/// What a fragment is, without decoding all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) id: FragmentId,
    pub(crate) physical_rows: u64,
    pub(crate) deleted_rows: u64,
    pub(crate) has_deletions: bool,
    pub(crate) has_row_ids: bool,
    /// Whether some of its lineage is in data columns.
    pub(crate) has_lineage_columns: bool,
    pub(crate) has_overlays: bool,
    pub(crate) versions: FileVersions,
    /// Whether some file has version 0.1.
    pub(crate) has_legacy_files: bool,
}

/// File versions of some data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileVersions {
    /// There are no files.
    None,
    /// All have this one.
    One(FileVersion),
    /// They have several.
    Several,
}

impl FileVersions {
    pub(crate) fn and(self, version: FileVersion) -> Self {
        match self {
            Self::None => Self::One(version),
            Self::One(known) if known == version => self,
            _ => Self::Several,
        }
    }

    /// Whether some file has another version.
    pub(crate) fn differ_from(self, version: FileVersion) -> bool {
        !matches!(self, Self::None) && self != Self::One(version)
    }
}

struct Slot {
    summary: Summary,
    /// `None` for a fragment that was made and not encoded yet.
    encoded: Option<Bytes>,
    decoded: OnceLock<Arc<Fragment>>,
}

impl Slot {
    fn fragment(&self, scanner: &mut FragmentScanner) -> &Arc<Fragment> {
        self.decoded.get_or_init(|| self.decode(scanner))
    }

    /// The fragment; nothing is kept.
    fn decode(&self, scanner: &mut FragmentScanner) -> Arc<Fragment> {
        if let Some(fragment) = self.decoded.get() {
            return Arc::clone(fragment);
        }
        let decoded = self.encoded.as_ref().and_then(|bytes| scanner.read(bytes));
        #[expect(
            clippy::expect_used,
            reason = "a slot without a fragment is made of bytes that were checked"
        )]
        let fragment = decoded.expect("the bytes of a fragment were checked");
        Arc::new(fragment)
    }

    /// As a manifest holds it.
    fn encoding(&self) -> Bytes {
        let made = || self.fragment(&mut FragmentScanner::default()).encode();
        self.encoded.clone().unwrap_or_else(made)
    }

    /// Whether a manifest would hold the same of both.
    fn is_same(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other) || self.encoding() == other.encoding()
    }
}

impl From<Arc<Fragment>> for Slot {
    fn from(fragment: Arc<Fragment>) -> Self {
        Self {
            summary: Summary::of(&fragment),
            encoded: fragment.encoded.clone(),
            decoded: OnceLock::from(fragment),
        }
    }
}

impl Summary {
    fn of(fragment: &Fragment) -> Self {
        let lineage = [&fragment.row_ids, &fragment.created_at, &fragment.last_updated_at];
        Self {
            id: fragment.id,
            physical_rows: fragment.physical_rows,
            deleted_rows: fragment.deleted_rows(),
            has_deletions: fragment.deletion.is_some(),
            has_row_ids: fragment.row_ids.is_some(),
            has_lineage_columns: lineage.into_iter().any(|source| *source == Some(LineageSource::Column)),
            has_overlays: !fragment.overlays.is_empty(),
            versions: fragment.files.iter().fold(FileVersions::None, |found, file| found.and(file.version)),
            has_legacy_files: fragment.files.iter().any(|file| file.version == FileVersion::Legacy),
        }
    }

    /// Whether its files have to be asked how many rows it has, or how many are deleted.
    pub(crate) fn is_uncounted(&self) -> bool {
        let rows_unknown = self.physical_rows == 0 && self.versions != FileVersions::None;
        rows_unknown || (self.has_deletions && self.deleted_rows == 0)
    }
}

impl Fragments {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { slots: Vec::with_capacity(count), all: OnceLock::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Their ids, ascending.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = FragmentId> + ExactSizeIterator {
        self.slots.iter().map(|slot| slot.summary.id)
    }

    /// Whether there is one with that id.
    pub fn contains_id(&self, id: FragmentId) -> bool {
        self.position(id).is_some()
    }

    /// The one at that place.
    pub fn get(&self, at: usize) -> Option<&Arc<Fragment>> {
        Some(self.slots.get(at)?.fragment(&mut FragmentScanner::default()))
    }

    /// Where the one with that id is among them.
    pub fn position(&self, id: FragmentId) -> Option<usize> {
        self.slots.binary_search_by_key(&id, |slot| slot.summary.id).ok()
    }

    /// The fragment with that id.
    pub fn by_id(&self, id: FragmentId) -> Option<&Arc<Fragment>> {
        let slot = self.slots.get(self.position(id)?)?;
        Some(slot.fragment(&mut FragmentScanner::default()))
    }

    /// Those that another list does not have as they are; only these are decoded if they come from manifests.
    pub fn not_in<'a>(&'a self, other: &Self) -> Vec<&'a Arc<Fragment>> {
        let mut scanner = FragmentScanner::default();
        let mut others = other.slots.iter().peekable();
        let mut found = Vec::new();
        for slot in &self.slots {
            while others.next_if(|other| other.summary.id < slot.summary.id).is_some() {}
            if !others.peek().is_some_and(|other| slot.is_same(other)) {
                found.push(slot.fragment(&mut scanner));
            }
        }
        found
    }

    /// All of them, decoded one at a time and not kept: costs what the table costs.
    pub fn decode_all(&self) -> impl DoubleEndedIterator<Item = Arc<Fragment>> + ExactSizeIterator {
        let mut scanner = FragmentScanner::default();
        self.slots.iter().map(move |slot| slot.decode(&mut scanner))
    }

    /// Whether both lists have the fragment with that id, and as the same.
    pub fn share(&self, other: &Self, id: FragmentId) -> bool {
        let slot = |list: &Self| list.position(id).and_then(|at| list.slots.get(at).cloned());
        matches!((slot(self), slot(other)), (Some(mine), Some(theirs)) if mine.is_same(&theirs))
    }

    /// Id and number of rows that are not deleted, of each.
    pub fn live_rows(&self) -> impl ExactSizeIterator<Item = (FragmentId, u64)> {
        self.slots.iter().map(|slot| {
            let Summary { id, physical_rows, deleted_rows, .. } = slot.summary;
            (id, physical_rows.saturating_sub(deleted_rows))
        })
    }

    /// Bytes they take beyond their encoding, while none is decoded.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.len() * (size_of::<Slot>() + 2 * size_of::<usize>() + size_of::<Arc<Slot>>())
    }

    /// The encoding of each, as a manifest holds it.
    pub(crate) fn encoded(&self) -> impl Iterator<Item = Bytes> {
        self.slots.iter().map(|slot| slot.encoding())
    }

    /// Encodes those that are not, so that the next versions copy them.
    pub fn seal(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.encoded.is_none()) {
            let fragment = slot.fragment(&mut FragmentScanner::default()).as_ref().clone();
            *slot = Arc::new(Slot::from(Arc::new(fragment.sealed())));
            self.all = OnceLock::new();
        }
    }

    pub(crate) fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.slots.iter().map(|slot| &slot.summary)
    }

    /// Adds one whose bytes were checked: [`FragmentScanner::check`] gave the summary.
    pub(crate) fn push_checked(&mut self, summary: Summary, encoded: Bytes) {
        self.push_slot(Slot { summary, encoded: Some(encoded), decoded: OnceLock::new() });
    }

    pub(crate) fn push(&mut self, fragment: Arc<Fragment>) {
        self.push_slot(fragment.into());
    }

    fn push_slot(&mut self, slot: Slot) {
        self.all = OnceLock::new();
        self.slots.push(Arc::new(slot));
    }

    pub(crate) fn sort(&mut self) {
        if !self.slots.is_sorted_by_key(|slot| slot.summary.id) {
            self.all = OnceLock::new();
            self.slots.sort_by_key(|slot| slot.summary.id);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Puts another one in the place of the one with that id, or nothing; `false` if it is not there.
    pub(crate) fn replace<E>(
        &mut self,
        id: FragmentId,
        change: impl FnOnce(&Fragment) -> Result<Option<Fragment>, E>,
    ) -> Result<bool, E> {
        let Some(at) = self.position(id) else { return Ok(false) };
        let Some(slot) = self.slots.get_mut(at) else { return Ok(false) };
        let changed = change(slot.fragment(&mut FragmentScanner::default()))?;
        self.all = OnceLock::new();
        match changed {
            Some(fragment) => *slot = Arc::new(Slot::from(Arc::new(fragment.sealed()))),
            None => drop(self.slots.remove(at)),
        }
        Ok(true)
    }

    /// Takes out those with these ids.
    pub(crate) fn remove(&mut self, gone: impl Fn(FragmentId) -> bool) {
        self.all = OnceLock::new();
        self.slots.retain(|slot| !gone(slot.summary.id));
    }

    /// Puts others in the places of those for which there is one.
    pub(crate) fn change_all(&mut self, change: impl Fn(&Fragment) -> Option<Fragment>) {
        let mut scanner = FragmentScanner::default();
        self.all = OnceLock::new();
        for slot in &mut self.slots {
            if let Some(changed) = change(slot.fragment(&mut scanner)) {
                *slot = Arc::new(Slot::from(Arc::new(changed.sealed())));
            }
        }
    }
}

/// All of them, decoded.
impl Deref for Fragments {
    type Target = [Arc<Fragment>];

    fn deref(&self) -> &[Arc<Fragment>] {
        self.all.get_or_init(|| {
            let mut scanner = FragmentScanner::default();
            self.slots.iter().map(|slot| Arc::clone(slot.fragment(&mut scanner))).collect()
        })
    }
}

impl<'a> IntoIterator for &'a Fragments {
    type Item = &'a Arc<Fragment>;
    type IntoIter = std::slice::Iter<'a, Arc<Fragment>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Arc<Fragment>> for Fragments {
    fn from_iter<T: IntoIterator<Item = Arc<Fragment>>>(fragments: T) -> Self {
        let slots = fragments.into_iter().map(|fragment| Arc::new(Slot::from(fragment))).collect();
        Self { slots, all: OnceLock::new() }
    }
}

impl From<Vec<Arc<Fragment>>> for Fragments {
    fn from(fragments: Vec<Arc<Fragment>>) -> Self {
        fragments.into_iter().collect()
    }
}

/// The same fragments: nothing is copied, what was decoded is shared.
impl Clone for Fragments {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), all: OnceLock::new() }
    }
}

impl PartialEq for Fragments {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Fragments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
