//! One fragment of a snapshot as a scan reads it: ranges of live rows, columns of its files, and (`lineage.rs`) who its
//! rows are.
//!
//! Everything is opened when first needed and kept as long as the scan, so the units of one fragment share it.
//! All calls may wait for the store; they belong on blocking threads, unless they are brief (`scan/brief.rs`).

mod lineage;
mod loaded;
mod parts;
mod prepare;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use pennon_core::deletion::DeletionVector;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::{DataFile, Fragment};
use pennon_core::rows::{RowIdSequence, RowRanges, VersionSequence};
use pennon_core::schema::{Field, LogicalType};
use pennon_core::{Error, FieldId, Result};
use pennon_datafile::statistics::ColumnStatistics;
use pennon_datafile::{Ahead, ColumnMap, FileReader};
use roaring::RoaringBitmap;

pub(super) use self::lineage::SystemValues;
pub(crate) use self::lineage::{inline_lineage, lineage};
use self::loaded::Loaded;
pub(crate) use self::prepare::{Needs, NeedsDeletions, open_ahead, opens_ahead, prepare};
use super::units::array_rows;
use crate::blobs;
use crate::blobs::descriptor;
use crate::blobs::read::{Blob, BlobSources};
use crate::runtime::Counter;
use crate::session::HeldBytes;
use crate::store::Store;
use crate::versions::snapshot::Snapshot;

/// A fragment and what was opened of it.
#[derive(Debug)]
pub(crate) struct FragmentReader {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) fragment: Arc<Fragment>,
    /// Live rows of the table before this fragment.
    live_before: u64,
    files: Vec<Loaded<OpenFile>>,
    deletions: Loaded<Arc<DeletionVector>>,
    row_ids: Loaded<RowIdSequence>,
    created: Loaded<VersionSequence>,
    updated: Loaded<VersionSequence>,
}

#[derive(Debug)]
struct OpenFile {
    reader: Arc<FileReader>,
    columns: ColumnMap,
    /// If more than the metadata was read of it.
    held: Mutex<Option<HeldBytes>>,
}

impl OpenFile {
    fn forget_ahead(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        if held.is_some() {
            self.reader.forget_ahead();
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.forget_ahead();
    }
}

/// Where the columns of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldLocation {
    File(usize),
    Nowhere,
    Several,
}

/// What is known of the values of a leaf without reading them.
#[derive(Debug)]
pub(super) enum LeafFacts {
    Nothing,
    AllNull,
    Statistics(Arc<ColumnStatistics>),
}

impl FragmentReader {
    pub(crate) fn new(snapshot: Arc<Snapshot>, fragment: Arc<Fragment>, live_before: u64) -> Self {
        let files = fragment.files.iter().map(|_| Loaded::default()).collect();
        Self {
            snapshot,
            fragment,
            live_before,
            files,
            deletions: Loaded::default(),
            row_ids: Loaded::default(),
            created: Loaded::default(),
            updated: Loaded::default(),
        }
    }

    /// Where the table is.
    pub(crate) fn store(&self) -> &Store {
        &self.snapshot.store
    }

    /// The fragment.
    pub(crate) fn fragment(&self) -> &Fragment {
        &self.fragment
    }

    /// The deletion vector.
    pub(crate) fn deletions(&self) -> Result<&DeletionVector> {
        let load = || self.snapshot.deletion_vector_blocking(&self.fragment);
        self.deletions.get_or_load(load).map(|d| d.as_ref())
    }

    /// Physical ranges of the live rows at these positions among the live rows.
    pub(crate) fn live_ranges(&self, positions: &Range<u64>) -> Result<RowRanges> {
        if positions.start >= positions.end {
            return Ok(RowRanges::new());
        }
        if self.fragment.deletion.is_none() {
            return Ok(RowRanges::from(positions.clone()));
        }
        let deletions = self.deletions()?;
        let (first, last) =
            (deletions.live_offset(positions.start), deletions.live_offset(positions.end - 1));
        Ok(deletions.live_ranges(first..last + 1).collect())
    }

    /// The live rows among these physical ones.
    pub(super) fn live_among(&self, rows: RowRanges) -> Result<RowRanges> {
        if rows.is_empty() || self.fragment.deletion.is_none() {
            return Ok(rows);
        }
        let deletions = self.deletions()?;
        Ok(rows.into_iter().flat_map(|range| deletions.live_ranges(range)).collect())
    }

    /// How many of these rows are live.
    pub(super) fn count_live_among(&self, rows: &RoaringBitmap) -> Result<u64> {
        if self.fragment.deletion.is_none() {
            return Ok(rows.len());
        }
        Ok(rows.len() - self.deletions()?.count_among(rows))
    }

    /// One array per field, the rows of all ranges one after another.
    pub(crate) fn read(&self, fields: &[&Field], ranges: &RowRanges) -> Result<Vec<ArrayRef>> {
        if let [field] = fields {
            return Ok(vec![self.read_one(field, ranges)?]);
        }
        let locations: Vec<FieldLocation> = fields.iter().map(|f| self.location(f)).collect();
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; fields.len()];
        for file in 0..self.files.len() {
            let here: Vec<usize> = locations
                .iter()
                .enumerate()
                .filter(|(_, p)| **p == FieldLocation::File(file))
                .map(|(at, _)| at)
                .collect();
            if here.is_empty() {
                continue;
            }
            let wanted: Vec<Field> =
                here.iter().filter_map(|&at| fields.get(at).map(|f| (*f).clone())).collect();
            for (at, array) in here.into_iter().zip(self.read_file(file, &wanted, ranges)?) {
                if let Some(slot) = arrays.get_mut(at) {
                    *slot = Some(array);
                }
            }
        }
        let finish = |(field, array): (&&Field, Option<ArrayRef>)| match array {
            Some(array) => Ok(array),
            None => self.read_one(field, ranges),
        };
        fields.iter().zip(arrays).map(finish).collect()
    }

    fn read_one(&self, field: &Field, ranges: &RowRanges) -> Result<ArrayRef> {
        match self.location(field) {
            FieldLocation::File(file) => self
                .read_file(file, std::slice::from_ref(field), ranges)?
                .pop()
                .ok_or_else(|| Error::internal(format!("nothing was read for field {}", field.name))),
            FieldLocation::Nowhere | FieldLocation::Several => self.read_parts(field, ranges),
        }
    }

    /// An array of which only the nulls are right, for a leaf; large values are not read for it.
    pub(super) fn read_nulls(&self, field: &Field, ranges: &RowRanges) -> Result<ArrayRef> {
        match self.location(field) {
            FieldLocation::File(at) if !self.reads_blobs(std::slice::from_ref(field)) => {
                let (file, open) = self.file_with(at, ranges)?;
                let array = open.reader.read_nulls(field, &open.columns, ranges);
                self.snapshot.store.metrics().add(Counter::RowsDecoded, ranges.count());
                array.map_err(|e| self.within(file, e))
            }
            _ => self.read_one(field, ranges),
        }
    }

    /// Bytes that rows take in memory, about, in those fields that are in one file.
    pub(crate) fn bytes_in_memory(&self, fields: &[&Field], ranges: &RowRanges) -> Result<u64> {
        let mut bytes = 0_u64;
        for field in fields {
            if let FieldLocation::File(at) = self.location(field)
                && !self.reads_blobs(std::slice::from_ref(field))
            {
                let (file, open) = self.file(at)?;
                let found = open.reader.bytes_in_memory(&[field], &open.columns, ranges);
                bytes = bytes.saturating_add(found.map_err(|e| self.within(file, e))?);
            }
        }
        Ok(bytes)
    }

    /// A field whose members are in several files, or nowhere.
    fn read_parts(&self, field: &Field, ranges: &RowRanges) -> Result<ArrayRef> {
        let mut arrays = Vec::new();
        for file in 0..self.files.len() {
            let is_here = |member: &Field| self.location(member) == FieldLocation::File(file);
            if let Some(part) = parts::only(field, &is_here) {
                arrays.extend(
                    self.read_file(file, std::slice::from_ref(&part), ranges)?
                        .pop()
                        .map(|array| (part, array)),
                );
            }
        }
        let read: Vec<_> = arrays.iter().map(|(part, array)| (part, Arc::clone(array))).collect();
        let has_column = |id| self.fragment.files.iter().any(|file| file.fields.contains(&id));
        parts::combined(field, &read, array_rows(ranges)?, &has_column)
            .map_err(|e| e.in_fragment(self.fragment.id))
    }

    /// What is known of a leaf, given as its top-level field with only the members that lead to it.
    pub(super) fn facts_of(&self, field: &Field) -> Result<LeafFacts> {
        if !self.fragment.overlays.is_empty() || field.has_blob_v2() {
            return Ok(LeafFacts::Nothing);
        }
        let mut leaf = field;
        while let [member] = leaf.children.as_slice() {
            leaf = member;
        }
        match self.location(field) {
            FieldLocation::Nowhere if leaf.nullable => Ok(LeafFacts::AllNull),
            FieldLocation::Nowhere | FieldLocation::Several => Ok(LeafFacts::Nothing),
            FieldLocation::File(at) => {
                let (file, open) = self.file(at)?;
                let column = open.columns.column(leaf.id);
                let found = column.map(|c| open.reader.statistics(c)).transpose();
                let found = found.map_err(|e| self.within(file, e))?.flatten();
                // Statistics are about the rows of a file, and those are the rows of the fragment.
                let fits = open.reader.metadata().num_rows == self.fragment.physical_rows;
                Ok(found.filter(|_| fits).map_or(LeafFacts::Nothing, LeafFacts::Statistics))
            }
        }
    }

    fn location(&self, field: &Field) -> FieldLocation {
        if parts::is_indivisible(field) {
            let file = self.fragment.files.iter().position(|f| f.column_of(field.id).is_some());
            return file.map_or(FieldLocation::Nowhere, FieldLocation::File);
        }
        let mut locations = field.children.iter().map(|c| self.location(c));
        let first = locations.next().unwrap_or(FieldLocation::Nowhere);
        if locations.all(|p| p == first) { first } else { FieldLocation::Several }
    }

    fn read_file(&self, at: usize, fields: &[Field], ranges: &RowRanges) -> Result<Vec<ArrayRef>> {
        let (file, open) = self.file_with(at, ranges)?;
        let read = || {
            if !self.reads_blobs(fields) {
                return open.reader.read(fields, &open.columns, ranges);
            }
            let stored: Vec<Field> = fields.iter().map(|field| self.stored(field)).collect();
            let arrays = open.reader.read(&stored, &open.columns, ranges)?;
            fields.iter().zip(arrays).map(|(field, array)| self.blobs(file, field, &array)).collect()
        };
        let arrays = read().map_err(|e| self.within(file, e))?;
        let rows = array_rows(ranges)?;
        self.snapshot.store.metrics().add(Counter::RowsDecoded, to_u64(rows));
        match arrays.iter().find(|a| a.len() != rows) {
            None => Ok(arrays),
            Some(short) => {
                Err(self.within(file, Error::corrupt(format!("{} values for {rows} rows", short.len()))))
            }
        }
    }

    /// The field as files hold it: with descriptors in the place of blobs.
    fn stored(&self, field: &Field) -> Field {
        if field.is_blob_v2() {
            return field.with_blob_descriptors();
        }
        if let Some(blob) = self.blob_read_as_bytes(field) {
            return blob.with_blob_descriptors();
        }
        Field { children: field.children.iter().map(|child| self.stored(child)).collect(), ..field.clone() }
    }

    fn blob_read_as_bytes(&self, field: &Field) -> Option<&Field> {
        blob_read_as_bytes(&self.snapshot, field)
    }

    /// Whether the bytes of blobs are read for some field.
    fn reads_blobs(&self, fields: &[Field]) -> bool {
        reads_blobs(&self.snapshot, fields)
    }

    /// The blobs that descriptors describe.
    fn blobs(&self, file: &DataFile, field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
        let mut sources = BlobSources::new(&self.snapshot, file);
        let mut convert =
            |field: &Field, array: &ArrayRef, _: Option<&NullBuffer>| sources.resolve(field, array);
        blobs::replace(field, field, array, None, &|field| is_blob(&self.snapshot, field), &mut convert)
    }

    /// The blobs of some rows of a field, given as its top-level field with only the members that lead to it.
    ///
    /// Their bytes are not read.
    pub(super) fn blob_handles(&self, field: &Field, ranges: &RowRanges) -> Result<Vec<Option<Blob>>> {
        let described = field.with_blob_descriptions();
        let mut array = self.read_one(&described, ranges)?;
        let (mut leaf, mut nulls) = (field, None);
        while let [member] = leaf.children.as_slice()
            && !leaf.is_blob_v2()
        {
            let parent = array.as_struct_opt().ok_or_else(|| {
                Error::unsupported(format!("blobs of field {}, which is in a list", member.name))
            })?;
            nulls = NullBuffer::union(nulls.as_ref(), parent.nulls());
            array = Arc::clone(parent.column(0));
            leaf = member;
        }
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls: &NullBuffer| nulls.is_null(row));
        let FieldLocation::File(at) = self.location(&described) else { return Ok(vec![None; array.len()]) };
        let (file, _) = self.file(at)?;
        let mut sources = BlobSources::new(&self.snapshot, file);
        let mut rows = descriptor::rows(&array).map_err(|e| self.within(file, e))?;
        for (row, descriptor) in rows.iter_mut().enumerate() {
            descriptor.take_if(|_| is_null(row));
        }
        sources.blobs(&rows).map_err(|e| self.within(file, e))
    }

    /// A file that has these rows.
    fn file_with(&self, at: usize, ranges: &RowRanges) -> Result<(&DataFile, &OpenFile)> {
        let (file, open) = self.file(at)?;
        let (expected, found) = (self.fragment.physical_rows, open.reader.metadata().num_rows);
        if found < expected && ranges.span().end > found {
            let text = format!("the file has {found} rows, the fragment {expected}");
            return Err(self.within(file, Error::corrupt(text)));
        }
        Ok((file, open))
    }

    fn file(&self, at: usize) -> Result<(&DataFile, &OpenFile)> {
        self.open_file(at, Ahead::Metadata)
    }

    /// A file; `ahead` is requested with its metadata if it is opened now, unless too many bytes are held.
    fn open_file(&self, at: usize, ahead: Ahead) -> Result<(&DataFile, &OpenFile)> {
        let (Some(file), Some(cell)) = (self.fragment.files.get(at), self.files.get(at)) else {
            return Err(Error::internal(format!("fragment {} has no file {at}", self.fragment.id)));
        };
        let open = || {
            let (ahead, held) = match ahead {
                Ahead::Held(bytes) => match self.snapshot.session().hold(bytes) {
                    Some(held) => (ahead, Some(held)),
                    None => (Ahead::Metadata, None),
                },
                _ => (ahead, None),
            };
            let reader = self.snapshot.file_reader_ahead_blocking(file, ahead);
            let reader = reader.map_err(|e| self.within(file, e))?;
            let column = |(&id, &index): (&FieldId, &i32)| u32::try_from(index).ok().map(|index| (id, index));
            let columns = file.fields.iter().zip(file.column_indices.iter()).filter_map(column).collect();
            Ok(OpenFile { reader, columns, held: Mutex::new(held) })
        };
        Ok((file, cell.get_or_load(open)?))
    }

    /// Lets go of what was read with the metadata of files: all rows were read.
    pub(super) fn forget_ahead(&self) {
        self.files.iter().filter_map(Loaded::get).for_each(OpenFile::forget_ahead);
    }

    fn within(&self, file: &DataFile, error: Error) -> Error {
        error.in_data_file(&file.path).in_fragment(self.fragment.id)
    }
}

/// The blob field of the table that a field of bytes stands for.
fn blob_read_as_bytes<'a>(snapshot: &'a Snapshot, field: &Field) -> Option<&'a Field> {
    if field.logical_type != LogicalType::LargeBinary {
        return None;
    }
    snapshot.manifest.schema.field_by_id(field.id).filter(|found| found.is_blob_v2())
}

fn is_blob(snapshot: &Snapshot, field: &Field) -> bool {
    field.is_blob_v2() || blob_read_as_bytes(snapshot, field).is_some()
}

/// Whether the bytes of blobs are read for some field of a version.
pub(super) fn reads_blobs(snapshot: &Snapshot, fields: &[Field]) -> bool {
    fields.iter().any(|field| is_blob(snapshot, field) || reads_blobs(snapshot, &field.children))
}

/// Offsets have 32 bits in a row address; no vector holds a larger one.
fn clip(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
