//! Entries that this release can read, as segments.

use std::sync::Arc;

use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::manifest::{AddressMoves, IndexMetadata};
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, ErrorKind, FieldId, FragmentId, Result, RowAddress};
use pennon_index::{Answer, IndexKind, PageCache, PageRun, Precision, RowSet, ScalarIndex, ValueTest};
use roaring::RoaringBitmap;
use tracing::debug;
use uuid::Uuid;

use super::files::{SegmentFiles, SessionPages};
use super::json;
use super::moves::moves;
use super::unreadable::{SearchError, is_about_the_index, newer, pass_over};
use crate::session::EntryKind;
use crate::versions::snapshot::Snapshot;

/// A segment of an index.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// Names its directory.
    pub(crate) uuid: Uuid,
    /// Name of the index.
    pub(crate) name: String,
    /// The indexed field.
    pub(crate) field: FieldId,
    /// What it is.
    pub(crate) kind: IndexKind,
    /// What its files are: of an index over a key of JSON documents another kind.
    pub(crate) files_kind: IndexKind,
    /// That key.
    pub(crate) key: Option<String>,
    /// Version of its files.
    pub(crate) version: i32,
    /// What only its kind understands.
    pub(crate) details: Option<(String, Bytes)>,
    /// The fragments of the version that it covers.
    pub(crate) covered: RoaringBitmap,
    pub(super) files: SegmentFiles,
    /// Where rows are now that its files name by address, if compactions left that to readers.
    moves: Option<Arc<AddressMoves>>,
}

/// Kind and file version of an entry.
pub(crate) fn kind_of(parts: &IndexParts) -> (IndexKind, i32) {
    let names: Vec<&str> = parts.files.iter().map(|(name, _)| name.as_str()).collect();
    let kind = IndexKind::of_details(parts.details.as_ref().map(|(url, _)| url.as_str()), &names);
    (kind, parts.index_version.unwrap_or(0))
}

/// The segments of all `entries` of a version, which keeps them. May block on the store. As [`segments`].
pub(crate) fn all_segments(snapshot: &Snapshot, entries: &[IndexMetadata]) -> Result<Arc<Vec<Segment>>> {
    snapshot.index_segments.get_or_make(|| segments(snapshot, entries).map(Arc::new))
}

/// As [`all_segments`], if they are known.
pub(crate) fn known_segments(snapshot: &Snapshot) -> Option<Arc<Vec<Segment>>> {
    snapshot.index_segments.get()
}

/// The segments of some entries that can be read and cover some of a version. May block on the store.
///
/// Entries of unknown kinds and newer versions, and system entries, are left out: what they cover is scanned. Errors:
/// those of reading where compactions moved rows.
pub(crate) fn segments(snapshot: &Snapshot, entries: &[IndexMetadata]) -> Result<Vec<Segment>> {
    let manifest = &snapshot.manifest;
    let live: RoaringBitmap = manifest.fragments.ids().map(|id| id.0).collect();
    let moves = moves(snapshot, entries)?;
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_system()) {
        let parts = IndexParts::of(entry)?;
        let ([field], Some(fragments)) = (entry.fields.as_slice(), &entry.fragments) else { continue };
        let (kind, version) = kind_of(&parts);
        if !kind.reads(version) {
            match newer(entry, kind, version) {
                Some(error) => pass_over(snapshot, &entry.name, entry.uuid, &error),
                None => debug!(index = entry.name, kind = kind.name(), version, "the index is not used"),
            }
            continue;
        }
        let key = json::key_of(kind, &parts)?;
        if kind == IndexKind::Json && (key.is_none() || manifest.has_stable_row_ids()) {
            continue;
        }
        let (key, files_kind) = key.map_or((None, kind), |(key, of_files)| (Some(key), of_files));
        let by_address = kind.has_addresses(version, manifest.has_stable_row_ids());
        let moves = moves.as_ref().filter(|_| by_address).map(Arc::clone);
        let covered =
            moves.as_ref().map_or_else(|| fragments.clone(), |moves| moves.covered(fragments)) & &live;
        if covered.is_empty() {
            continue;
        }
        found.push(Segment {
            uuid: entry.uuid,
            name: entry.name.clone(),
            field: *field,
            kind,
            files_kind,
            key,
            version,
            details: parts.details.clone(),
            covered,
            files: SegmentFiles::new(snapshot, &parts)?,
            moves,
        });
    }
    Ok(found)
}

impl Segment {
    /// How precisely it answers a test; `None` if it cannot.
    pub(crate) fn precision(&self, test: &ValueTest) -> Option<Precision> {
        match self.key {
            None => ScalarIndex::precision(self.kind, test),
            Some(_) => test.is_of_intervals().then_some(Precision::Candidates),
        }
    }

    /// An error that was met when its files were read.
    pub(crate) fn failed(&self, error: Error) -> SearchError {
        SearchError { segment: is_about_the_index(&error).then_some(self.uuid), error }
    }

    /// Whether its numbers are row addresses in a version.
    pub(crate) fn has_addresses(&self, snapshot: &Snapshot) -> bool {
        self.kind.has_addresses(self.version, snapshot.manifest.has_stable_row_ids())
    }

    /// The rows for which tests hold, all of them. Blocks on the store. Errors: those of [`ScalarIndex::search`].
    pub(crate) fn search(&self, snapshot: &Snapshot, tests: &[&ValueTest]) -> Result<Option<Answer>> {
        let index = self.open(snapshot)?;
        if self.key.is_some() && !json::has_values_of(&index, tests) {
            return Ok(Some(Answer::any()));
        }
        let Some(mut answer) = self.with_pages(snapshot, |pages| index.search(tests, pages))? else {
            return Ok(None);
        };
        if self.key.is_some() {
            answer.precision = Precision::Candidates;
        }
        let Some(moves) = &self.moves else { return Ok(Some(answer)) };
        let every = || Error::unsupported("an index that has all rows of a fragment that was replaced");
        let now = answer.rows.iter().ok_or_else(every)?.filter_map(|row| moves.current(RowAddress(row)));
        Ok(Some(Answer { rows: now.map(|address| address.0).collect::<RowSet>(), ..answer }))
    }

    /// The number of rows of a version for which tests hold, all of them; `None` unless its files are known to name the live
    /// rows and no others. Blocks on the store. Errors: those of [`ScalarIndex::search`].
    pub(crate) fn count(&self, snapshot: &Snapshot, tests: &[&ValueTest]) -> Result<Option<u64>> {
        let manifest = &snapshot.manifest;
        let covers_all = || manifest.fragments.ids().all(|id| self.covered.contains(id.0));
        if self.key.is_some() || self.moves.is_some() || !covers_all() {
            return Ok(None);
        }
        let rows = manifest.live_rows();
        // Every id that the table gave is that of a live row.
        let are_all = !self.has_addresses(snapshot) && manifest.next_row_id == rows;
        let index = self.open(snapshot)?;
        self.with_pages(snapshot, |pages| index.count(tests, rows, are_all, pages))
    }

    /// The rows for which tests hold, all of them, with their values, which have a type; `None` if its files do not give
    /// them, or if they take more than so many bytes. Blocks on the store. Errors: those of [`ScalarIndex::search`].
    pub(crate) fn search_values(
        &self,
        snapshot: &Snapshot,
        tests: &[&ValueTest],
        data_type: &DataType,
        most_bytes: u64,
    ) -> Result<Option<Vec<PageRun>>> {
        match self.open(snapshot)?.as_ref() {
            ScalarIndex::BTree(index) if self.key.is_none() && index.data_type() == data_type => {
                self.with_pages(snapshot, |pages| index.search_values(tests, most_bytes, pages))
            }
            _ => Ok(None),
        }
    }

    /// The full name of its directory.
    pub(crate) fn directory(&self) -> String {
        self.files.full_directory()
    }

    /// Where a row is now that its files name by this address; `None` if it is gone.
    pub(crate) fn current(&self, address: RowAddress) -> Option<RowAddress> {
        match &self.moves {
            None => Some(address),
            Some(moves) => moves.current(address),
        }
    }

    /// As [`Self::current`], of several rows of a fragment: by the fragments where they are.
    pub(crate) fn current_of(
        &self,
        fragment: FragmentId,
        offsets: &RoaringBitmap,
    ) -> Vec<(FragmentId, RoaringBitmap)> {
        match &self.moves {
            None => vec![(fragment, offsets.clone())],
            Some(moves) => moves.current_of(fragment, offsets),
        }
    }

    /// Whether its files name rows by addresses that they do not have any more.
    pub(crate) fn has_moves(&self) -> bool {
        self.moves.is_some()
    }

    /// Hands over the pages that the session keeps of it.
    pub(crate) fn with_pages<T>(&self, snapshot: &Snapshot, read: impl FnOnce(&dyn PageCache) -> T) -> T {
        read(&SessionPages { session: snapshot.session(), name: self.files.name() })
    }

    /// Whether files of it are missing or damaged, for certain: what the store does not answer now may be there. Blocks on
    /// the store.
    pub(crate) fn is_lost(&self, snapshot: &Snapshot) -> bool {
        let opened = self.files.check().and_then(|()| match self.kind {
            IndexKind::Vector => self.open_vectors(snapshot).map(drop),
            _ => match self.open(snapshot)?.as_ref() {
                // Its pages are opened when they are read.
                ScalarIndex::BTree(index) => index.num_rows().map(drop),
                _ => Ok(()),
            },
        });
        opened.is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt))
    }

    /// Whether the session keeps it opened.
    pub(crate) fn is_open(&self, snapshot: &Snapshot) -> bool {
        snapshot.session().has(EntryKind::Index, self.files.name())
    }

    /// The index, opened now or before. Blocks on the store.
    pub(crate) fn open(&self, snapshot: &Snapshot) -> Result<Arc<ScalarIndex>> {
        let name = self.files.name();
        if let Some(index) = snapshot.session().get(EntryKind::Index, name) {
            return Ok(index);
        }
        let field = snapshot.manifest.schema.field_by_id(self.field);
        let field = field.ok_or_else(|| Error::unsupported("an index of a field that is not there"))?;
        let files = Arc::new(self.files.clone());
        let index = Arc::new(ScalarIndex::open(self.files_kind, files, &field.data_type())?);
        snapshot.session().put(EntryKind::Index, name, &index, index.memory_bytes() + name.len());
        Ok(index)
    }
}
