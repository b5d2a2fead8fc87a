//! One immutable version of a table, with what was read of it so far.
//!
//! A snapshot never changes: what it loads lazily (index section, deletion vectors, open data files, the row id
//! index) is fixed by the manifest. Vectors, files and the index are kept in the [`Session`], so that versions share
//! them.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use arrow_schema::SchemaRef;
use bytes::Bytes;
use pennon_core::deletion::DeletionVector;
use pennon_core::error::ResultExt;
use pennon_core::manifest::naming::NamingScheme;
use pennon_core::manifest::{
    DataFile, DeletionFile, Flags, Fragment, IndexMetadata, LineageSource, Manifest,
};
use pennon_core::rows::{ReadRowIds, RowIdIndex};
use pennon_core::{Error, Result, Version, wire};
use pennon_datafile::{FileReader, deletion_file};
use tokio::sync::OnceCell;

use super::Located;
use crate::session::{EntryKind, Session};
use crate::store::Store;

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
}

/// One version of a table.
#[derive(Debug)]
pub struct Snapshot {
    /// Where the table is.
    pub store: Arc<Store>,
    /// What the version consists of.
    pub manifest: Arc<Manifest>,
    session: Arc<Session>,
    source: ManifestSource,
    indices: OnceCell<Arc<Vec<IndexMetadata>>>,
    arrow_schema: OnceLock<SchemaRef>,
    /// How whole rows are taken: made by the scan the first time, and nothing that this floor looks into.
    pub(crate) whole_rows: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// The row id index of a version.
struct KeptIndex {
    /// While it is kept no other manifest has its address.
    manifest: Weak<Manifest>,
    index: Arc<RowIdIndex>,
}

impl Snapshot {
    pub(crate) fn new(
        store: Arc<Store>,
        session: Arc<Session>,
        manifest: Arc<Manifest>,
        source: ManifestSource,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            manifest,
            session,
            source,
            indices: OnceCell::new(),
            arrow_schema: OnceLock::new(),
            whole_rows: OnceLock::new(),
        })
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

    pub(crate) fn source(&self) -> &ManifestSource {
        &self.source
    }

    /// The schema in Arrow's terms.
    pub fn arrow_schema(&self) -> &SchemaRef {
        self.arrow_schema.get_or_init(|| Arc::new(self.manifest.schema.to_arrow()))
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

    /// Fragments with ids in a data column that no kept index has: [`Self::row_id_index`] will ask for them.
    pub(crate) fn column_ids_not_indexed(&self) -> Vec<Arc<Fragment>> {
        if !self.manifest.reader_flags.contains(Flags::LINEAGE_COLUMNS) {
            return Vec::new();
        }
        let kept = self.session.get::<KeptIndex>(EntryKind::RowIds, self.store.root());
        let is_known = |fragment: &Fragment| kept.as_ref().is_some_and(|kept| kept.index.has(fragment));
        let column_backed =
            self.manifest.fragments.iter().filter(|f| f.row_ids == Some(LineageSource::Column));
        column_backed.filter(|fragment| !is_known(fragment)).cloned().collect()
    }

    /// Row id to row address. Made from the index of the version of this table that was asked before, if the session
    /// still has it: that costs what changed.
    ///
    /// `read_ids` reads ids that are stored in a data column. Errors: `Corrupt` if a sequence does not decode; those
    /// of `read_ids`.
    pub fn row_id_index(&self, read_ids: ReadRowIds<'_>) -> Result<Arc<RowIdIndex>> {
        let name = self.store.root();
        let kept = self.session.get::<KeptIndex>(EntryKind::RowIds, name);
        if let Some(kept) = kept.as_ref().filter(|kept| kept.manifest.as_ptr() == Arc::as_ptr(&self.manifest))
        {
            return Ok(Arc::clone(&kept.index));
        }
        let fragments = &self.manifest.fragments;
        let index = match &kept {
            Some(kept) => kept.index.advance(fragments, read_ids),
            None => RowIdIndex::new(fragments, read_ids),
        };
        let index = Arc::new(index.map_err(|e| e.at(format!("{name} at version {}", self.version())))?);
        let kept = KeptIndex { manifest: Arc::downgrade(&self.manifest), index: Arc::clone(&index) };
        self.session.put(EntryKind::RowIds, name, &Arc::new(kept), index.memory_bytes() + name.len());
        Ok(index)
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
        let bytes = store.get(&path).await;
        self.decode_deletions(fragment, deletion, &store.full_path(&path), bytes)
    }

    /// [`Self::deletion_vector`], waiting for the store on the calling thread.
    pub fn deletion_vector_blocking(&self, fragment: &Fragment) -> Result<Arc<DeletionVector>> {
        let Some(deletion) = &fragment.deletion else { return Ok(Arc::new(DeletionVector::empty())) };
        if let Some(kept) = self.kept_deletions(fragment) {
            return Ok(kept);
        }
        let (store, path) = self.deletion_path(fragment)?;
        let bytes = store.get_blocking(&path);
        self.decode_deletions(fragment, deletion, &store.full_path(&path), bytes)
    }

    /// The vector of a deletion file that was read, which is kept.
    fn decode_deletions(
        &self,
        fragment: &Fragment,
        deletion: &DeletionFile,
        name: &str,
        bytes: Result<Bytes>,
    ) -> Result<Arc<DeletionVector>> {
        let decode = || {
            let bytes = bytes.map_err(missing_is_corrupt)?;
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
        let vector = decode().at(|| format!("deletion file {name} of fragment {}", fragment.id))?;
        self.keep_deletions(name, &vector);
        Ok(vector)
    }

    /// A data file of this version, opened now or before. Errors: `Corrupt` if it is missing or no such file.
    pub fn file_reader_blocking(&self, file: &DataFile) -> Result<Arc<FileReader>> {
        let (store, path) = self.locate("data", &file.path, file.base_id)?;
        let name = store.full_path(&path);
        if let Some(reader) = self.session.get(EntryKind::DataFile, &name) {
            return Ok(reader);
        }
        let reader = FileReader::open(store.source(&path, file.size)).map_err(missing_is_corrupt)?;
        let reader = Arc::new(reader);
        self.session.put(EntryKind::DataFile, &name, &reader, reader.memory_size() + name.len());
        Ok(reader)
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

    fn deletion_path(&self, fragment: &Fragment) -> Result<(Arc<Store>, String)> {
        let deletion = fragment.deletion.as_ref();
        let deletion = deletion.ok_or_else(|| Error::internal("a path of no deletion file was asked for"))?;
        self.locate("_deletions", &deletion.file_name(fragment.id), deletion.base_id)
    }

    fn kept_deletions(&self, fragment: &Fragment) -> Option<Arc<DeletionVector>> {
        let (store, path) = fragment.deletion.as_ref().and_then(|_| self.deletion_path(fragment).ok())?;
        self.session.get(EntryKind::Deletions, &store.full_path(&path))
    }

    /// Keeps a vector that was read or just written.
    pub(crate) fn keep_deletions(&self, name: &str, vector: &Arc<DeletionVector>) {
        self.session.put(EntryKind::Deletions, name, vector, vector.memory_bytes() + name.len() + 64);
    }

    /// The length-prefixed message at an offset of the manifest file (table format 2.1).
    pub(crate) async fn section(&self, offset: u64, what: &str) -> Result<Bytes> {
        let content_end = self.source.size.saturating_sub(16);
        let short = || {
            Error::corrupt(format!("the file has {} bytes", self.source.size))
                .at(self.section_at(what, offset))
        };
        let body = offset.checked_add(4).filter(|&start| start <= content_end).ok_or_else(short)?;
        let prefix = self.manifest_bytes(offset..body).await?;
        let length = <[u8; 4]>::try_from(prefix.as_ref()).map_err(|_| short())?;
        let end = body.checked_add(u32::from_le_bytes(length).into()).filter(|&end| end <= content_end);
        self.manifest_bytes(body..end.ok_or_else(short)?).await
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
pub(crate) fn missing_is_corrupt(error: Error) -> Error {
    if error.is_not_found() { Error::corrupt(format!("{error} (the manifest refers to it)")) } else { error }
}
