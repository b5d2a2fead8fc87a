//! Descriptors to bytes.
//!
//! Invariant: no more is read of a file of the table than it has bytes, whatever the descriptors say.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::manifest::{DataFile, naming, paths};
use pennon_core::schema::{BlobKind, Field, LogicalType};
use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, MemorySource, Seal, VerifyReads};

use super::descriptor::{self, Descriptor};
use crate::runtime::{IN_FLIGHT, each_concurrently, waiting};
use crate::store::{StorageOptions, Store};
use crate::versions::snapshot::Snapshot;

/// Where the bytes of a blob are, without having been read.
#[derive(Debug, Clone)]
pub struct Blob {
    source: Arc<dyn ByteSource>,
    range: Range<u64>,
    /// The version it belongs to; `None` without bytes.
    snapshot: Option<Arc<Snapshot>>,
}

impl Blob {
    /// A blob without bytes.
    fn empty() -> Self {
        Self { source: Arc::new(MemorySource::new("a blob", Bytes::new())), range: 0..0, snapshot: None }
    }

    /// Bytes of the blob.
    pub fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Some of its bytes. Blocks on the store.
    ///
    /// Errors: `InvalidInput` for a range beyond its end; `NotFound` if its file is missing since the version was cleaned
    /// up, `Corrupt` if it is missing though the version is there.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start > range.end || range.end > self.size() {
            return Err(Error::invalid_input(format!(
                "bytes {} to {} of a blob of {}",
                range.start,
                range.end,
                self.size()
            )));
        }
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let range = self.range.start + range.start..self.range.start + range.end;
        let read = self.source.read(std::slice::from_ref(&range)).map_err(|error| match &self.snapshot {
            Some(snapshot) => snapshot.lost_blocking(error),
            None => error,
        });
        read?.pop().ok_or_else(|| Error::internal("nothing was read of a blob"))
    }
}

/// A file that contains blobs: the data file, one next to it, or one anywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum BlobFile {
    DataFile,
    Separate(u32),
    Address(String),
}

#[derive(Debug)]
struct Opened {
    source: Arc<dyn ByteSource>,
    size: u64,
}

/// The files with the blobs of one data file. Blocks on the store.
#[derive(Debug)]
pub(crate) struct BlobSources<'a> {
    snapshot: &'a Arc<Snapshot>,
    file: &'a DataFile,
    opened: HashMap<BlobFile, Opened>,
}

impl<'a> BlobSources<'a> {
    pub(crate) fn new(snapshot: &'a Arc<Snapshot>, file: &'a DataFile) -> Self {
        Self { snapshot, file, opened: HashMap::new() }
    }

    /// An array of blobs in the form of the field.
    pub(crate) fn resolve(&mut self, field: &Field, descriptors: &ArrayRef) -> Result<ArrayRef> {
        let rows = descriptor::rows(descriptors)?;
        let as_bytes = field.logical_type == LogicalType::LargeBinary;
        let has_ranges = field.child("position").is_some() && field.child("size").is_some();
        let by_address =
            |d: &&Descriptor| !as_bytes && d.kind == BlobKind::External && (has_ranges || d.size == 0);
        let wanted: Vec<Option<&Descriptor>> =
            rows.iter().map(|row| row.as_ref().filter(|d| !by_address(d))).collect();
        let bytes = self.fetch(&wanted)?;
        let total = bytes.iter().flatten().map(Bytes::len).sum();
        let mut data = LargeBinaryBuilder::with_capacity(rows.len(), total);
        bytes.iter().for_each(|bytes| data.append_option(bytes.as_deref()));
        if as_bytes {
            return Ok(Arc::new(data.finish()));
        }
        let (mut uris, mut positions, mut sizes) =
            (StringBuilder::new(), UInt64Builder::new(), UInt64Builder::new());
        for row in &rows {
            let external = row.as_ref().filter(by_address);
            uris.append_option(external.map(|d| self.address(d)).transpose()?);
            let range = external.filter(|d| d.size > 0);
            positions.append_option(range.map(|d| d.position));
            sizes.append_option(range.map(|d| d.size));
        }
        let mut members: HashMap<&str, ArrayRef> = HashMap::new();
        members.insert("data", Arc::new(data.finish()));
        members.insert("uri", Arc::new(uris.finish()));
        members.insert("position", Arc::new(positions.finish()));
        members.insert("size", Arc::new(sizes.finish()));
        let wrong = || Error::corrupt(format!("blobs in the form of {}", field.data_type()));
        let DataType::Struct(fields) = field.data_type() else { return Err(wrong()) };
        let columns = fields.iter().map(|f| members.remove(f.name().as_str()).ok_or_else(wrong));
        let columns = columns.collect::<Result<_>>()?;
        let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        let array = StructArray::try_new(fields, columns, nulls);
        Ok(Arc::new(array.map_err(|e| Error::corrupt(format!("field {}: {e}", field.name)))?))
    }

    /// The blobs that descriptors describe.
    pub(crate) fn blobs(&mut self, rows: &[Option<Descriptor>]) -> Result<Vec<Option<Blob>>> {
        let rows: Vec<Option<&Descriptor>> = rows.iter().map(Option::as_ref).collect();
        self.open_all(&rows)?;
        let blob = |descriptor: &Descriptor| {
            if is_empty(descriptor) {
                return Ok(Blob::empty());
            }
            let (_, opened, range) = self.locate(descriptor)?;
            let snapshot = Some(Arc::clone(self.snapshot));
            Ok(Blob { source: Arc::clone(&opened.source), range, snapshot })
        };
        rows.into_iter().map(|row| row.map(blob).transpose()).collect()
    }

    /// The bytes of blobs. Where they are in several files on a remote store, these are read at once.
    fn fetch(&mut self, rows: &[Option<&Descriptor>]) -> Result<Vec<Option<Bytes>>> {
        self.open_all(rows)?;
        let mut found: Vec<Option<Bytes>> = vec![None; rows.len()];
        let mut wanted: HashMap<BlobFile, Vec<(Range<u64>, usize)>> = HashMap::new();
        for (at, (row, slot)) in rows.iter().zip(&mut found).enumerate() {
            let Some(descriptor) = row else { continue };
            if is_empty(descriptor) {
                *slot = Some(Bytes::new());
                continue;
            }
            let (file, _, range) = self.locate(descriptor)?;
            wanted.entry(file).or_default().push((range, at));
        }
        let mut wanted: Vec<_> = wanted.into_iter().collect();
        for (_, parts) in &mut wanted {
            parts.sort_unstable_by_key(|(range, at)| (range.start, *at));
        }
        let threads = self.readers(wanted.iter().map(|(file, _)| file));
        let read = waiting(|| each_concurrently(threads, &wanted, |(file, parts)| self.read(file, parts)))?;
        for ((_, at), bytes) in
            wanted.into_iter().flat_map(|(_, parts)| parts).zip(read.into_iter().flatten())
        {
            if let Some(slot) = found.get_mut(at) {
                *slot = Some(bytes);
            }
        }
        Ok(found)
    }

    /// Ranges of an opened file; the row of each is not looked at.
    fn read(&self, file: &BlobFile, parts: &[(Range<u64>, usize)]) -> Result<Vec<Bytes>> {
        let opened = self.opened(file)?;
        // Blobs that lie over each other would make memory larger than the file.
        let total = parts.iter().fold(0_u64, |sum, (r, _)| sum.saturating_add(r.end - r.start));
        if total > opened.size && !matches!(file, BlobFile::Address(_)) {
            return Err(Error::corrupt(format!(
                "{}: {total} bytes of blobs in a file of {} bytes",
                opened.source.name(),
                opened.size
            )));
        }
        let ranges: Vec<Range<u64>> = parts.iter().map(|(range, _)| range.clone()).collect();
        opened.source.read(&ranges).map_err(|error| self.snapshot.lost_blocking(error))
    }

    /// Opens the files of descriptors that are not open, at once on a remote store.
    fn open_all(&mut self, rows: &[Option<&Descriptor>]) -> Result<()> {
        let rows = rows.iter().flatten().filter(|descriptor| !is_empty(descriptor));
        let mut files: BTreeSet<BlobFile> =
            rows.map(|descriptor| self.file(descriptor)).collect::<Result<_>>()?;
        files.retain(|file| !self.opened.contains_key(file));
        let files: Vec<BlobFile> = files.into_iter().collect();
        let opened = waiting(|| each_concurrently(self.readers(&files), &files, |file| self.open(file)))?;
        self.opened.extend(files.into_iter().zip(opened));
        Ok(())
    }

    /// Threads that read these files at a time.
    fn readers<'f>(&self, files: impl IntoIterator<Item = &'f BlobFile>) -> usize {
        let may_be_remote = files.into_iter().any(|file| matches!(file, BlobFile::Address(_)));
        if may_be_remote { IN_FLIGHT } else { self.snapshot.store.readers() }
    }

    fn file(&self, descriptor: &Descriptor) -> Result<BlobFile> {
        Ok(match descriptor.kind {
            BlobKind::Inline => BlobFile::DataFile,
            BlobKind::Packed | BlobKind::Dedicated => BlobFile::Separate(descriptor.blob_id),
            BlobKind::External => BlobFile::Address(self.address(descriptor)?),
        })
    }

    fn opened(&self, file: &BlobFile) -> Result<&Opened> {
        self.opened.get(file).ok_or_else(|| Error::internal("a file of blobs is not open"))
    }

    /// The file of a descriptor, which is open, and the range of its bytes there.
    fn locate(&self, descriptor: &Descriptor) -> Result<(BlobFile, &Opened, Range<u64>)> {
        let file = self.file(descriptor)?;
        let opened = self.opened(&file)?;
        let is_entire_file = descriptor.kind == BlobKind::External && descriptor.size == 0;
        let start = if is_entire_file { 0 } else { descriptor.position };
        let end = if is_entire_file { Some(opened.size) } else { start.checked_add(descriptor.size) };
        match end.filter(|end| *end <= opened.size) {
            Some(end) => Ok((file, opened, start..end)),
            None => Err(Error::corrupt(format!(
                "{}: a blob of {} bytes at {start} in a file of {} bytes",
                opened.source.name(),
                descriptor.size,
                opened.size
            ))),
        }
    }

    fn open(&self, file: &BlobFile) -> Result<Opened> {
        let (data_file, snapshot) = (self.file, self.snapshot);
        let source = match file {
            BlobFile::DataFile => {
                let (store, path) = snapshot.locate("data", &data_file.path, data_file.base_id)?;
                let source = store.source(&path, data_file.known_size());
                match source.verify_reads() {
                    VerifyReads::Pages => Arc::clone(snapshot.file_reader_blocking(data_file)?.source()),
                    VerifyReads::Off | VerifyReads::Metadata => source,
                }
            }
            BlobFile::Separate(id) => {
                let name = naming::blob_file_path(&data_file.path, *id);
                let (store, path) = snapshot.locate("data", &name, data_file.base_id)?;
                sealed(store.source(&path, None)).map_err(|error| snapshot.lost_blocking(error))?
            }
            BlobFile::Address(address) => source_at(address, snapshot.store.options())?,
        };
        let size =
            source.size().map_err(|error| snapshot.lost_blocking(error)).at(|| source.name().to_owned())?;
        Ok(Opened { source, size })
    }

    /// The address of an external blob, made absolute.
    fn address(&self, descriptor: &Descriptor) -> Result<String> {
        if descriptor.uri.is_empty() {
            return Err(Error::corrupt("an external blob has no address"));
        }
        if descriptor.blob_id == 0 {
            return Ok(descriptor.uri.clone());
        }
        let bases = &self.snapshot.manifest.base_paths;
        let base = bases.iter().find(|base| base.id == descriptor.blob_id).ok_or_else(|| {
            Error::corrupt(format!(
                "the blob {} lies under base path {}, which is not registered",
                descriptor.uri, descriptor.blob_id
            ))
        })?;
        paths::check_inside(&descriptor.uri).at(|| format!("the blob under base path {}", base.path))?;
        Ok(format!("{}/{}", base.path.trim_end_matches('/'), descriptor.uri))
    }
}

/// Whether a blob has no bytes, in no file.
fn is_empty(descriptor: &Descriptor) -> bool {
    descriptor.size == 0 && descriptor.kind != BlobKind::External
}

/// A file of blobs, compared with its seal if it has one and all checksums are looked at.
fn sealed(source: Arc<dyn ByteSource>) -> Result<Arc<dyn ByteSource>> {
    if source.verify_reads() != VerifyReads::Pages {
        return Ok(source);
    }
    let seal = match Seal::at_end(source.as_ref())? {
        Some(seal) => Some(seal),
        None => source.seal()?,
    };
    seal.map_or_else(|| Ok(Arc::clone(&source)), |seal| seal.checked(Arc::clone(&source)))
}

/// A file anywhere.
pub(super) fn source_at(address: &str, options: &StorageOptions) -> Result<Arc<dyn ByteSource>> {
    let (store, path) = Store::of_file(address, options)?;
    Ok(store.source(&path, None))
}
