//! The fragments of a version: decoded when they are read, shared with the versions before and after.
//!
//! | held of each | for |
//! |---|---|
//! | its bytes | the next manifest: unchanged fragments are copied into it |
//! | a [`FragmentSummary`]: id, rows, deletions, sizes, what its lineage and files are | totals, flags, plans and look-ups |
//! | the decoded fragment, once [`Fragments::get`] or [`Fragments::by_id`] asked for it | everything else |
//!
//! There is no way to walk over decoded fragments by accident: the list is not a slice and has no iterator.
//!
//! | call | decodes | keeps what it decoded |
//! |---|---|---|
//! | [`Fragments::summaries`], [`Fragments::ids`], [`Fragments::live_rows`], [`Fragments::rows_before`] | none | |
//! | [`Fragments::get`], [`Fragments::by_id`] | one | yes |
//! | [`Fragments::newer_than`] | of each its versions | no |
//! | [`Fragments::diff`] | those that differ | no |
//! | [`Fragments::decode_where`] | those whose summary is selected | no |
//! | [`Fragments::decode_all`] | all, one at a time | no |
//!
//! Invariant: the bytes of a fragment that is not decoded were checked when the manifest was read (`wire::fragment_scan`
//! walks them the same way), so decoding them cannot fail. Ids are ascending.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{Fragment, FragmentSummary};
use crate::wire::{FragmentScanner, NewestVersion};
use crate::{FragmentId, Version};

/// Fragments in the order of their ids.
#[derive(Default)]
pub struct Fragments {
    slots: Vec<Arc<Slot>>,
    /// What [`Fragments::starts`] gives, once it was called.
    starts: OnceLock<Arc<[u64]>>,
}

/// A fragment that is not the same in two versions.
#[derive(Debug, Clone)]
pub enum Difference {
    /// Only the old version has it.
    Removed(Arc<Fragment>),
    /// Only the new version has it.
    Added(Arc<Fragment>),
    /// Both have it, as it was and as it is.
    Changed(Arc<Fragment>, Arc<Fragment>),
}

impl Difference {
    /// The id of the fragment.
    pub fn id(&self) -> FragmentId {
        match self {
            Self::Removed(fragment) | Self::Added(fragment) | Self::Changed(_, fragment) => fragment.id,
        }
    }

    /// The fragment in the old version, if that has it.
    pub fn before(&self) -> Option<&Arc<Fragment>> {
        match self {
            Self::Removed(fragment) | Self::Changed(fragment, _) => Some(fragment),
            Self::Added(_) => None,
        }
    }

    /// The fragment in the new version, if that has it.
    pub fn after(&self) -> Option<&Arc<Fragment>> {
        match self {
            Self::Added(fragment) | Self::Changed(_, fragment) => Some(fragment),
            Self::Removed(_) => None,
        }
    }
}

struct Slot {
    summary: FragmentSummary,
    /// `None` for a fragment that was made and not encoded yet.
    encoded: Option<Bytes>,
    decoded: OnceLock<Arc<Fragment>>,
}

impl Slot {
    /// The fragment, kept once it is decoded.
    fn fragment(&self, scanner: &mut FragmentScanner) -> &Arc<Fragment> {
        self.decoded.get_or_init(|| self.decode(scanner))
    }

    /// The fragment; nothing is kept.
    fn decoded(&self, scanner: &mut FragmentScanner) -> Arc<Fragment> {
        self.decoded.get().cloned().unwrap_or_else(|| self.decode(scanner))
    }

    fn decode(&self, scanner: &mut FragmentScanner) -> Arc<Fragment> {
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
        let made = || self.decoded(&mut FragmentScanner::default()).encode();
        self.encoded.clone().unwrap_or_else(made)
    }

    /// Whether a manifest would hold the same of both.
    fn is_same(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        match (&self.encoded, &other.encoded) {
            _ if Arc::ptr_eq(self, other) => true,
            _ if self.summary != other.summary => false,
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.encoding() == other.encoding(),
        }
    }
}

impl From<Arc<Fragment>> for Slot {
    fn from(fragment: Arc<Fragment>) -> Self {
        Self {
            summary: FragmentSummary::of(&fragment),
            encoded: fragment.encoded.clone(),
            decoded: OnceLock::from(fragment),
        }
    }
}

impl Fragments {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { slots: Vec::with_capacity(count), starts: OnceLock::new() }
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

    /// The one at that position of the list.
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

    /// Where this list differs from an older one, ascending by id. Fragments that both share, or have with the same bytes,
    /// are not decoded.
    pub fn diff<'a>(&'a self, old: &'a Self) -> impl Iterator<Item = Difference> {
        let mut scanner = FragmentScanner::default();
        let (mut olds, mut news) = (old.slots.iter().peekable(), self.slots.iter().peekable());
        std::iter::from_fn(move || {
            loop {
                let id = |slot: Option<&&Arc<Slot>>| slot.map(|slot| slot.summary.id);
                let (old, new) = match (id(olds.peek()), id(news.peek())) {
                    (None, None) => return None,
                    (Some(old), Some(new)) if old == new => (olds.next(), news.next()),
                    (Some(old), new) if new.is_none_or(|new| old < new) => (olds.next(), None),
                    _ => (None, news.next()),
                };
                return Some(match (old, new) {
                    (Some(old), Some(new)) if old.is_same(new) => continue,
                    (Some(old), Some(new)) => {
                        Difference::Changed(old.decoded(&mut scanner), new.decoded(&mut scanner))
                    }
                    (Some(old), None) => Difference::Removed(old.decoded(&mut scanner)),
                    (None, new) => Difference::Added(new?.decoded(&mut scanner)),
                });
            }
        })
    }

    /// All of them, decoded one at a time and not kept: costs what the table costs.
    pub fn decode_all(&self) -> impl DoubleEndedIterator<Item = Arc<Fragment>> + ExactSizeIterator {
        let mut scanner = FragmentScanner::default();
        self.slots.iter().map(move |slot| slot.decoded(&mut scanner))
    }

    /// Those whose summary is selected, decoded one at a time and not kept.
    pub fn decode_where(
        &self,
        selected: impl Fn(&FragmentSummary) -> bool,
    ) -> impl Iterator<Item = Arc<Fragment>> {
        let mut scanner = FragmentScanner::default();
        let slots = self.slots.iter().filter(move |slot| selected(&slot.summary));
        slots.map(move |slot| slot.decoded(&mut scanner))
    }

    /// Ids of the fragments that may have a row that was made or changed after a version, ascending: all others have none.
    /// Decodes their versions alone; what the manifest does not tell, of lineage in data columns, may be so.
    pub fn newer_than(&self, version: Version) -> Vec<FragmentId> {
        let mut reader = NewestVersion::default();
        let mut is_newer = |slot: &Slot| {
            let encoded = slot.encoded.as_ref().filter(|_| !slot.summary.has_lineage_columns);
            encoded.and_then(|bytes| reader.of(bytes)).is_none_or(|newest| newest > version)
        };
        self.slots.iter().filter(|slot| is_newer(slot)).map(|slot| slot.summary.id).collect()
    }

    /// Whether both lists have the fragment with that id, and as the same.
    pub fn share(&self, other: &Self, id: FragmentId) -> bool {
        let slot = |list: &Self| list.position(id).and_then(|at| list.slots.get(at).cloned());
        matches!((slot(self), slot(other)), (Some(mine), Some(theirs)) if mine.is_same(&theirs))
    }

    /// Id and number of rows that are not deleted, of each.
    pub fn live_rows(&self) -> impl ExactSizeIterator<Item = (FragmentId, u64)> {
        self.slots.iter().map(|slot| (slot.summary.id, slot.summary.live_rows()))
    }

    /// Live rows before each fragment, and after that those of all. Summed up once.
    pub fn starts(&self) -> &[u64] {
        self.starts.get_or_init(|| {
            let sum = |before: &mut u64, (_, rows): (_, u64)| {
                *before = before.saturating_add(rows);
                Some(*before)
            };
            std::iter::once(0).chain(self.live_rows().scan(0, sum)).collect()
        })
    }

    /// Live rows before the fragment with that id.
    pub fn rows_before(&self, id: FragmentId) -> u64 {
        let at = self.slots.partition_point(|slot| slot.summary.id < id);
        self.starts().get(at).copied().unwrap_or(0)
    }

    /// Bytes they take beyond their encoding, while none is decoded.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.len() * (size_of::<Slot>() + 2 * size_of::<usize>() + size_of::<Arc<Slot>>())
    }

    /// What the fragment with that id is, in short.
    pub fn summary(&self, id: FragmentId) -> Option<&FragmentSummary> {
        Some(&self.slots.get(self.position(id)?)?.summary)
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
            self.starts = OnceLock::new();
        }
    }

    /// What each is, in short.
    pub fn summaries(&self) -> impl ExactSizeIterator<Item = &FragmentSummary> {
        self.slots.iter().map(|slot| &slot.summary)
    }

    /// Adds the one at that position of another list if it has these bytes: it is shared and need not be checked.
    pub(crate) fn push_shared(&mut self, other: &Self, at: usize, bytes: &Bytes) -> Option<FragmentId> {
        let slot = other.slots.get(at).filter(|slot| slot.encoded.as_ref() == Some(bytes))?;
        self.starts = OnceLock::new();
        self.slots.push(Arc::clone(slot));
        Some(slot.summary.id)
    }

    /// Adds one whose bytes were checked: [`FragmentScanner::check`] gave the summary.
    pub(crate) fn push_checked(&mut self, summary: FragmentSummary, encoded: Bytes) {
        self.push_slot(Slot { summary, encoded: Some(encoded), decoded: OnceLock::new() });
    }

    pub(crate) fn push(&mut self, fragment: Arc<Fragment>) {
        self.push_slot(fragment.into());
    }

    fn push_slot(&mut self, slot: Slot) {
        self.starts = OnceLock::new();
        self.slots.push(Arc::new(slot));
    }

    pub(crate) fn sort(&mut self) {
        if !self.slots.is_sorted_by_key(|slot| slot.summary.id) {
            self.starts = OnceLock::new();
            self.slots.sort_by_key(|slot| slot.summary.id);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Replaces the one with that id, if there is one.
    pub(crate) fn replace<E>(
        &mut self,
        id: FragmentId,
        change: impl FnOnce(&Fragment) -> Result<Fragment, E>,
    ) -> Result<(), E> {
        let slot = self.position(id).and_then(|at| self.slots.get_mut(at));
        let Some(slot) = slot else { return Ok(()) };
        let changed = change(&slot.decoded(&mut FragmentScanner::default()))?;
        *slot = Arc::new(Slot::from(Arc::new(changed.sealed())));
        self.starts = OnceLock::new();
        Ok(())
    }

    /// Takes out those with these ids.
    pub(crate) fn remove(&mut self, gone: impl Fn(FragmentId) -> bool) {
        self.starts = OnceLock::new();
        self.slots.retain(|slot| !gone(slot.summary.id));
    }

    /// Puts others in the places of those for which there is one.
    pub(crate) fn change_all(&mut self, change: impl Fn(&Fragment) -> Option<Fragment>) {
        let mut scanner = FragmentScanner::default();
        self.starts = OnceLock::new();
        for slot in &mut self.slots {
            if let Some(changed) = change(&slot.decoded(&mut scanner)) {
                *slot = Arc::new(Slot::from(Arc::new(changed.sealed())));
            }
        }
    }
}

impl FromIterator<Arc<Fragment>> for Fragments {
    fn from_iter<T: IntoIterator<Item = Arc<Fragment>>>(fragments: T) -> Self {
        let slots = fragments.into_iter().map(|fragment| Arc::new(Slot::from(fragment))).collect();
        Self { slots, starts: OnceLock::new() }
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
        Self { slots: self.slots.clone(), starts: self.starts.clone() }
    }
}

/// Whether a manifest would hold the same.
impl PartialEq for Fragments {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.slots.iter().zip(&other.slots).all(|(mine, theirs)| mine.is_same(theirs))
    }
}

/// The summaries.
impl fmt::Debug for Fragments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.summaries()).finish()
    }
}
