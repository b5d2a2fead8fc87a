//! One immutable version of a table, with what was read of it so far.
//!
//! A snapshot never changes: what it loads lazily (index section, deletion vectors, open data files, the row id
//! index) is fixed by the manifest. Vectors and files are kept in the [`Session`], so that versions share them; the
//! index is the snapshot's own (`row_ids`).

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_schema::SchemaRef;
use bytes::Bytes;
use pennon_core::deletion::DeletionVector;
use pennon_core::error::ResultExt;
use pennon_core::manifest::naming::NamingScheme;
use pennon_core::manifest::{DataFile, DeletionFile, Fragment, IndexMetadata, Manifest, ManifestFile, Tail};
use pennon_core::rows::RowIdIndex;
use pennon_core::schema::Schema;
use pennon_core::{Error, Result, Version, wire};
use pennon_datafile::{Ahead, FileReader, deletion_file};
use tokio::sync::OnceCell;

use super::row_ids::{RowIds, VersionIndex};
use super::{Located, missing};
use crate::session::{EntryKind, Session};
use crate::store::{FileInfo, Store};

/// The end of a manifest's file that is compared: the name of its transaction and the time of its commit are in it.
pub(crate) const COMPARED: u64 = 16 * 1024;

/// Where a manifest came from, and the end of its file.
#[derive(Debug, Clone)]
pub(crate) struct ManifestSource {
    /// Path below the root.
    pub(crate) path: String,
    /// How the table names its manifests.
    pub(crate) scheme: NamingScheme,
    /// Size of the file.
    pub(crate) size: u64,
    /// The last bytes of the file.
    pub(crate) tail: Bytes,
    /// The stamp of the file, once it is known to have this content.
    pub(crate) stamp: OnceLock<String>,
}

/// Columns that a snapshot has and its version does not: the next change of rows commits them.
#[derive(Debug, Clone)]
pub(crate) struct UncommittedColumns {
    /// The version.
    pub(crate) version: Arc<Snapshot>,
    /// The columns.
    pub(crate) columns: SchemaRef,
}

/// One version of a table.
#[derive(Debug)]
pub struct Snapshot {
    /// Where the table is.
    pub store: Arc<Store>,
    /// What the version consists of.
    pub manifest: Arc<Manifest>,
    session: Arc<Session>,
    source: Arc<ManifestSource>,
    uncommitted: Option<UncommittedColumns>,
    row_ids: RowIds,
    indices: OnceCell<Arc<Vec<IndexMetadata>>>,
    arrow_schema: OnceLock<SchemaRef>,
    data_bytes: OnceLock<u64>,
    reads_locally: OnceLock<bool>,
    /// How whole rows are taken.
    pub(crate) whole_rows: MadeOnce,
    /// The segments of its indices.
    pub(crate) index_segments: MadeOnce,
}

/// What a module above makes of a version once; this one does not look into it.
#[derive(Debug, Default)]
pub(crate) struct MadeOnce(OnceLock<Arc<dyn Any + Send + Sync>>);

impl MadeOnce {
    /// What was made before.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.get()?).downcast().ok()
    }

    /// What was made before, or is made now; whoever makes it at the same time makes the same.
    pub(crate) fn get_or_make<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        if let Some(kept) = self.get() {
            return Ok(kept);
        }
        let made = make()?;
        let kept: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&made);
        drop(self.0.set(kept));
        Ok(made)
    }
}

impl Snapshot {
    pub(crate) fn new(
        store: Arc<Store>,
        session: Arc<Session>,
        manifest: Arc<Manifest>,
        source: impl Into<Arc<ManifestSource>>,
    ) -> Arc<Self> {
        Self::make(store, session, manifest, source.into(), None)
    }

    fn make(
        store: Arc<Store>,
        session: Arc<Session>,
        manifest: Arc<Manifest>,
        source: Arc<ManifestSource>,
        uncommitted: Option<UncommittedColumns>,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            manifest,
            session,
            source,
            uncommitted,
            row_ids: RowIds::default(),
            indices: OnceCell::new(),
            arrow_schema: OnceLock::new(),
            data_bytes: OnceLock::new(),
            reads_locally: OnceLock::new(),
            whole_rows: MadeOnce::default(),
            index_segments: MadeOnce::default(),
        })
    }

    /// The version with another schema, which has more columns: these are null in all rows.
    pub(crate) fn with_columns(self: &Arc<Self>, schema: Schema, columns: SchemaRef) -> Arc<Self> {
        let manifest = Manifest { schema: Arc::new(schema), ..self.manifest.as_ref().clone() };
        let uncommitted = UncommittedColumns { version: Arc::clone(self), columns };
        let (store, session) = (Arc::clone(&self.store), Arc::clone(&self.session));
        let source = Arc::clone(&self.source);
        let snapshot = Self::make(store, session, Arc::new(manifest), source, Some(uncommitted));
        snapshot.follow(self);
        snapshot
    }

    /// Columns that the version does not have.
    pub(crate) fn uncommitted(&self) -> Option<&UncommittedColumns> {
        self.uncommitted.as_ref()
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.manifest.version
    }

    /// The caches.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The version and how its manifest is named.
    pub(crate) fn located(&self) -> Located {
        Located { version: self.version(), scheme: self.source.scheme }
    }

    /// Whether the manifest of this name is another one now: the table, or the branch, was dropped and made again. `listed`:
    /// what a listing of an object store says of it, which is not asked again then. `false` for a version that was cleaned
    /// up.
    pub(crate) async fn is_replaced(&self, listed: Option<FileInfo>) -> Result<bool> {
        let source = &self.source;
        match (source.stamp.get(), listed) {
            (_, Some(found)) if found.size != source.size => return Ok(true),
            (Some(stamp), Some(found)) if !found.has_other_e_tag(stamp) => return Ok(false),
            (Some(stamp), None) => match self.store.info(&source.path).await? {
                Some(found) if found.size != source.size => return Ok(true),
                Some(found) if found.stamp != *stamp => {}
                _ => return Ok(false),
            },
            _ => {}
        }
        let found = match self.store.get_end(&source.path, COMPARED, None).await {
            Err(error) if !error.is_not_found() => return Err(error),
            found => found.ok().flatten(),
        };
        let Some(found) = found else { return Ok(false) };
        let is_same = found.info.size == source.size && source.tail.ends_with(&found.bytes);
        if is_same {
            source.stamp.get_or_init(|| found.info.stamp);
        }
        Ok(!is_same)
    }

    /// The error of a change to a version of which [`Self::is_replaced`] is true.
    pub(crate) fn replaced(&self) -> Error {
        Error::conflict(format!("{}. Open it again", self.replacement()))
    }

    fn replacement(&self) -> String {
        let (uri, version) = (self.store.uri(), self.version());
        format!("{uri} was dropped and made again: its version {version} is not the one that was read")
    }

    pub(crate) fn source(&self) -> &Arc<ManifestSource> {
        &self.source
    }

    /// The schema in Arrow's terms.
    pub fn arrow_schema(&self) -> &SchemaRef {
        self.arrow_schema.get_or_init(|| Arc::new(self.manifest.schema.to_arrow()))
    }

    /// Bytes of all data files, as far as the manifest has their sizes.
    pub(crate) fn data_bytes(&self) -> u64 {
        let sum = || self.manifest.fragments.summaries().map(|f| f.file_bytes).fold(0, u64::saturating_add);
        *self.data_bytes.get_or_init(sum)
    }

    /// Index entries of the version; none without an index section.
    pub async fn indices(&self) -> Result<Arc<Vec<IndexMetadata>>> {
        let load = || async {
            let Some(offset) = self.manifest.index_section else { return Ok(Arc::default()) };
            let bytes = self.section(offset, "index section").await?;
            Ok(Arc::new(wire::index_section::decode(bytes).at(|| self.section_at("index section", offset))?))
        };
        self.indices.get_or_try_init(load).await.map(Arc::clone)
    }

    /// Row id to row address, if nothing has to be made for that.
    pub(crate) fn known_row_id_index(&self) -> Option<Arc<VersionIndex>> {
        self.row_ids.get(&self.manifest, &self.session, &self.store.reader_name(""))
    }

    /// Whether an index of this version costs only what it differs by from another one.
    pub(crate) fn has_related_row_id_index(&self) -> bool {
        self.known_row_id_index().is_some()
            || self.row_ids.related(&self.manifest, &self.session, &self.store.reader_name("")).is_some()
    }

    /// Row id to row address. Made once, by the first who asks, from the index of a related version if there is one.
    /// Errors: those of `make`.
    pub(crate) fn row_id_index(
        &self,
        make: impl FnOnce(Option<&VersionIndex>) -> Result<RowIdIndex>,
    ) -> Result<Arc<VersionIndex>> {
        self.row_ids.get_or_make(&self.manifest, &self.session, &self.store.reader_name(""), make)
    }

    /// Takes on what costs O(table) from the version that a handle was at before.
    pub(crate) fn follow(&self, before: &Self) {
        self.row_ids.follow(&before.row_ids);
    }

    /// Deleted offsets of a fragment of this version; empty without a deletion file.
    ///
    /// Errors: `Corrupt` if the file is missing, does not decode or has another number of rows than the manifest
    /// says. There is no way to get fewer deletions than there are.
    pub async fn deletion_vector(self: &Arc<Self>, fragment: &Fragment) -> Result<Arc<DeletionVector>> {
        if let Some(kept) = self.kept_deletions(fragment) {
            return Ok(kept);
        }
        let Some(deletion) = &fragment.deletion else { return Ok(Arc::new(DeletionVector::empty())) };
        let (store, path) = self.deletion_path(fragment)?;
        let mut bytes = store.get(&path).await;
        if let Ok(file) = &bytes
            && store.looks_at_seals()
            && !deletion_file::has_checksum(deletion.file_type, file)
        {
            bytes = store.check_seal(&path, file).await.and(bytes);
        }
        if let Err(error) = bytes {
            bytes = Err(self.lost(error).await);
        }
        self.decode_deletions(fragment, deletion, (&store, &path), bytes)
    }

    /// [`Self::deletion_vector`], waiting for the store on the calling thread.
    pub fn deletion_vector_blocking(&self, fragment: &Fragment) -> Result<Arc<DeletionVector>> {
        let Some(deletion) = &fragment.deletion else { return Ok(Arc::new(DeletionVector::empty())) };
        if let Some(kept) = self.kept_deletions(fragment) {
            return Ok(kept);
        }
        let (store, path) = self.deletion_path(fragment)?;
        let mut bytes = store.get_blocking(&path);
        if let Ok(file) = &bytes
            && store.looks_at_seals()
            && !deletion_file::has_checksum(deletion.file_type, file)
        {
            bytes = store.check_seal_blocking(&path, file).and(bytes);
        }
        let bytes = bytes.map_err(|error| self.lost_blocking(error));
        self.decode_deletions(fragment, deletion, (&store, &path), bytes)
    }

    /// The vector of a deletion file that was read, which is kept.
    fn decode_deletions(
        &self,
        fragment: &Fragment,
        deletion: &DeletionFile,
        (store, path): (&Store, &str),
        bytes: Result<Bytes>,
    ) -> Result<Arc<DeletionVector>> {
        let decode = || {
            let bytes = bytes?;
            let vector = match deletion.num_deleted_rows {
                0 => deletion_file::decode_uncounted(deletion.file_type, &bytes, fragment.physical_rows)?,
                rows => deletion_file::decode(deletion.file_type, &bytes, rows)?,
            };
            match vector.last() {
                Some(last) if u64::from(last) >= fragment.physical_rows => Err(Error::corrupt(format!(
                    "row {last} is deleted in a fragment of {} rows",
                    fragment.physical_rows
                ))),
                _ => Ok(Arc::new(vector)),
            }
        };
        let vector =
            decode().at(|| format!("deletion file {} of fragment {}", store.full_path(path), fragment.id))?;
        self.keep_deletions(&store.reader_name(path), &vector);
        Ok(vector)
    }

    /// A data file of this version, opened now or before. Errors: `Corrupt` if it is missing or no such file,
    /// `NotFound` if it is missing since the version was cleaned up.
    pub fn file_reader_blocking(&self, file: &DataFile) -> Result<Arc<FileReader>> {
        self.file_reader_ahead_blocking(file, Ahead::Metadata)
    }

    /// Whether the session has opened a data file.
    pub(crate) fn has_file_reader(&self, file: &DataFile) -> bool {
        let found = self.locate("data", &file.path, file.base_id);
        found.is_ok_and(|(store, path)| self.session.has(EntryKind::DataFile, &store.reader_name(&path)))
    }

    /// [`Self::file_reader_blocking`]; `ahead` is requested with the metadata if it is opened now.
    pub(crate) fn file_reader_ahead_blocking(
        &self,
        file: &DataFile,
        ahead: Ahead,
    ) -> Result<Arc<FileReader>> {
        let (store, path) = self.locate("data", &file.path, file.base_id)?;
        let name = store.reader_name(&path);
        if let Some(reader) = self.session.get(EntryKind::DataFile, &name) {
            return Ok(reader);
        }
        let reader = FileReader::open_ahead(store.source(&path, file.known_size()), ahead);
        let reader = Arc::new(reader.map_err(|error| self.lost_blocking(error))?);
        self.session.put(EntryKind::DataFile, &name, &reader, reader.memory_size() + name.len());
        Ok(reader)
    }

    /// The error of a file of this version that could not be read: one that is not found is damage only while the version is
    /// there, as it is if the store does not tell.
    async fn lost(&self, error: Error) -> Error {
        if !error.is_not_found() {
            return error;
        }
        let what = format!("it is being read, and a file of it is gone: {error}");
        match self.store.exists(&self.source.path).await {
            Ok(false) => missing::cleaned_up(self.version(), &what),
            _ if self.is_replaced(None).await.unwrap_or(false) => {
                Error::not_found(format!("{}. Open it again: {error}", self.replacement())).with_source(error)
            }
            _ => missing_is_corrupt(error),
        }
    }

    /// [`Self::lost`], waiting for the store on the calling thread.
    pub(crate) fn lost_blocking(&self, error: Error) -> Error {
        if !error.is_not_found() {
            return error;
        }
        self.store.wait(self.lost(error.clone())).unwrap_or(error)
    }

    /// Store and path of a file, its base path taken into account (table format 11.4).
    pub(crate) fn locate(
        &self,
        directory: &str,
        path: &str,
        base_id: Option<u32>,
    ) -> Result<(Arc<Store>, String)> {
        let Some(id) = base_id else { return Ok((Arc::clone(&self.store), format!("{directory}/{path}"))) };
        let base = self.manifest.base_paths.iter().find(|base| base.id == id).ok_or_else(|| {
            Error::corrupt(format!(
                "{}: {path} lies under base path {id}, which is not registered",
                self.store.root()
            ))
        })?;
        let store = self.session.store(&self.store, &base.path)?;
        Ok((store, if base.is_dataset_root { format!("{directory}/{path}") } else { path.to_owned() }))
    }

    /// Whether all its files are local ones, also those under base paths, as the clone of a remote table has them. External
    /// blobs may be elsewhere.
    pub(crate) fn reads_locally(&self) -> bool {
        let is_local = |path: &str| self.session.store(&self.store, path).is_ok_and(|store| store.is_local());
        *self.reads_locally.get_or_init(|| {
            self.store.is_local() && self.manifest.base_paths.iter().all(|base| is_local(&base.path))
        })
    }

    fn deletion_path(&self, fragment: &Fragment) -> Result<(Arc<Store>, String)> {
        let deletion = fragment.deletion.as_ref();
        let deletion = deletion.ok_or_else(|| Error::internal("a path of no deletion file was asked for"))?;
        self.locate("_deletions", &deletion.file_name(fragment.id), deletion.base_id)
    }

    fn kept_deletions(&self, fragment: &Fragment) -> Option<Arc<DeletionVector>> {
        let (store, path) = fragment.deletion.as_ref().and_then(|_| self.deletion_path(fragment).ok())?;
        self.session.get(EntryKind::Deletions, &store.reader_name(&path))
    }

    /// Keeps a vector that was read or just written.
    pub(crate) fn keep_deletions(&self, name: &str, vector: &Arc<DeletionVector>) {
        self.session.put(EntryKind::Deletions, name, vector, vector.memory_bytes() + name.len() + 64);
    }

    /// The length-prefixed message at an offset of the manifest file (table format 2.1).
    pub(crate) async fn section(&self, offset: u64, what: &str) -> Result<Bytes> {
        let located = |error: Error| error.at(self.section_at(what, offset));
        let message = Tail::locate(&self.source.tail, self.source.size).map_err(located)?;
        // Up to the next piece of the file: a section is as long as it is, whatever its prefix says.
        let position = message.start.saturating_sub(4);
        let sections = [self.manifest.index_section, self.manifest.transaction_section];
        let next = sections.into_iter().flatten().filter(|&at| at > offset && at < position);
        let end = next.fold(position, u64::min);
        if offset.checked_add(4).is_none_or(|start| start > end) {
            let short = format!("the file has {} bytes", self.source.size);
            return Err(located(Error::corrupt(short)));
        }
        let section = self.manifest_bytes(offset..end).await?;
        ManifestFile::unwrap_section(section, offset).map_err(located)
    }

    async fn manifest_bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let tail = &self.source.tail;
        let tail_start = self.source.size.saturating_sub(u64::try_from(tail.len()).unwrap_or(u64::MAX));
        let within = |position: u64| usize::try_from(position.checked_sub(tail_start)?).ok();
        match (within(range.start), within(range.end)) {
            (Some(start), Some(end)) if start <= end && end <= tail.len() => Ok(tail.slice(start..end)),
            _ => self.store.get_range(&self.source.path, range).await,
        }
    }

    /// A position in the manifest file, for messages.
    pub(crate) fn section_at(&self, what: &str, offset: u64) -> String {
        format!("{} at offset {offset} of {}", what, self.store.full_path(&self.source.path))
    }
}

/// A file that a manifest promises must be there.
fn missing_is_corrupt(error: Error) -> Error {
    if error.is_not_found() { Error::corrupt(format!("{error} (the manifest refers to it)")) } else { error }
}
