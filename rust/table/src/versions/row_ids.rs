//! The row id index of a version: made once, owned by the snapshot, and what the index of the next version is made from.
//!
//! | who holds it | for how long |
//! |---|---|
//! | the snapshot it was made for | as long as that lives |
//! | snapshots that a handle moved on to | until they make their own from it |
//! | the session, the last one of each table | while it fits; if not, as long as somebody else holds it |
//!
//! Invariant: it costs what changed to make one while any of these holds an index of the table, and a cache that is too
//! small for an index changes nothing about that.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use pennon_core::Result;
use pennon_core::manifest::Manifest;
use pennon_core::rows::RowIdIndex;

use crate::runtime::Counter;
use crate::session::{EntryKind, Session};

/// What a session takes for an index that it does not keep alive.
const REFERENCE_BYTES: usize = 256;

/// An index and the version it is of.
#[derive(Debug)]
pub(crate) struct VersionIndex {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) index: RowIdIndex,
}

/// The index of a snapshot, if it was needed yet.
#[derive(Debug, Default)]
pub(super) struct RowIds {
    own: OnceLock<Arc<VersionIndex>>,
    making: Mutex<()>,
    /// That of a version that a handle was at before.
    earlier: Mutex<Option<Arc<VersionIndex>>>,
}

impl RowIds {
    /// The index, if it is there or some other snapshot of the version has it.
    pub(super) fn get(
        &self,
        manifest: &Arc<Manifest>,
        session: &Session,
        table: &str,
    ) -> Option<Arc<VersionIndex>> {
        if let Some(own) = self.own.get() {
            return Some(Arc::clone(own));
        }
        let same = self.related(manifest, session, table)?;
        Arc::ptr_eq(&same.manifest, manifest).then(|| Arc::clone(self.own.get_or_init(|| same)))
    }

    /// The index of the version that is closest, of those that somebody holds.
    pub(super) fn related(
        &self,
        manifest: &Arc<Manifest>,
        session: &Session,
        table: &str,
    ) -> Option<Arc<VersionIndex>> {
        let kept = session.get::<Weak<VersionIndex>>(EntryKind::RowIds, table);
        let kept = kept.and_then(|kept| kept.upgrade());
        let earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let distance = |index: &Arc<VersionIndex>| index.manifest.version.0.abs_diff(manifest.version.0);
        kept.into_iter().chain(earlier).min_by_key(distance)
    }

    /// The index, which is made from a related one or from nothing by whoever asks first.
    pub(super) fn get_or_make(
        &self,
        manifest: &Arc<Manifest>,
        session: &Session,
        table: &str,
        make: impl FnOnce(Option<&VersionIndex>) -> Result<RowIdIndex>,
    ) -> Result<Arc<VersionIndex>> {
        if let Some(own) = self.own.get() {
            return Ok(Arc::clone(own));
        }
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.get(manifest, session, table) {
            return Ok(known);
        }
        let index = make(self.related(manifest, session, table).as_deref())?;
        session.metrics().add(Counter::RowIdIndexes, 1);
        let made = Arc::new(VersionIndex { manifest: Arc::clone(manifest), index });
        session.put(
            EntryKind::RowIds,
            table,
            &Arc::new(Arc::downgrade(&made)),
            REFERENCE_BYTES + table.len(),
        );
        let bytes = made.index.memory_bytes().saturating_add(manifest.memory_bytes());
        session.put(EntryKind::RowIdIndex, table, &made, bytes);
        let own = Arc::clone(self.own.get_or_init(|| made));
        drop(self.earlier.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(own)
    }

    /// Takes on what another version of the table has, to make its own from.
    pub(super) fn follow(&self, before: &Self) {
        let known = before.own.get().cloned();
        let known = known.or_else(|| before.earlier.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if self.own.get().is_none() && known.is_some() {
            *self.earlier.lock().unwrap_or_else(PoisonError::into_inner) = known;
        }
    }
}
