//! A leaf column: gathers slices of arrays until a page is full.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use pennon_core::error::ResultExt;
use pennon_core::file::{ArrayEncoding, FileVersion, PageLayout};
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use super::page::Buffers;
use super::{ColumnTarget, binary, dictionary, fixed};
use crate::container::is_blob;
use crate::container::writer::{ContainerWriter, Page};
use crate::encodings::dictionary::encode::UsedItems;
use crate::encodings::general::encode::Compressor;
use crate::statistics::Collector;
use crate::values::{Leaf, Physical};
use crate::writer::conform::conform;
use crate::writer::options::{Compression, FieldOptions};
use crate::writer::{blob, packed};

/// The writer of a leaf column.
#[derive(Debug)]
pub(crate) struct LeafWriter {
    target: ColumnTarget,
    data_type: DataType,
    /// The values; of a dictionary, its items; of blobs, their descriptors.
    leaf: Leaf,
    is_blob: bool,
    compressor: Option<Compressor>,
    pending: Vec<ArrayRef>,
    pending_bytes: usize,
    used_items: Option<Box<UsedItems>>,
    pub(super) statistics: Option<Collector>,
}

impl LeafWriter {
    /// Errors: `Unsupported` for a type that the format does not have.
    pub(super) fn new(target: ColumnTarget, field: &Field) -> Result<Self> {
        let data_type = field.data_type();
        if matches!(data_type, DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0)) {
            return Err(Error::unsupported(format!(
                "field `{}`: values of no bytes ({data_type}) cannot be written",
                target.path
            )));
        }
        let leaf = match &data_type {
            _ if is_blob(field) => blob::check(field).and_then(|()| blob::descriptor_leaf()),
            DataType::Dictionary(_, items) => Leaf::of(items),
            other => Leaf::of(other),
        };
        let at = || format!("field `{}`", target.path);
        let leaf = leaf.at(at)?;
        packed::check(&leaf, FileVersion::V2_0).at(at)?;
        // As in the reference, only a general compressor of strings changes anything.
        let compressor = match FieldOptions::of(field, &target.path)?.compression {
            Some(Compression::General(compressor)) => Some(compressor),
            _ => None,
        };
        let is_blob = is_blob(field);
        let has_statistics = target.is_of_rows && !is_blob;
        let statistics = if has_statistics { Collector::new(&data_type) } else { None };
        let used_items = UsedItems::of(&data_type).map(Box::new);
        let (pending, pending_bytes) = (Vec::new(), 0);
        Ok(Self {
            target,
            data_type,
            leaf,
            is_blob,
            compressor,
            pending,
            pending_bytes,
            used_items,
            statistics,
        })
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(super) fn append<W: Write>(&mut self, array: &ArrayRef, out: &mut ContainerWriter<W>) -> Result<()> {
        let mut array = conform(array, &self.data_type).ok_or_else(|| self.target.mismatch(array))?;
        match &self.data_type {
            DataType::Null => {}
            DataType::Struct(_) => self.target.check_null_structs(array.null_count())?,
            _ => self.target.check_nulls(array.logical_null_count())?,
        }
        if self.is_blob {
            array = blob::descriptors(&self.target.path, &array, array.nulls().cloned(), blob::NULL, out)?;
        }
        if let Some(used) = &mut self.used_items {
            used.add(&array).at(|| format!("field `{}`", self.target.path))?;
        }
        if let Some(statistics) = &mut self.statistics {
            statistics.add(&array, None);
        }
        self.pending_bytes += self.new_items(&array);
        let mut start = 0;
        while start < array.len() {
            let rest = array.slice(start, array.len() - start);
            let room = self.target.max_page_bytes.saturating_sub(self.pending_bytes);
            let mut rows = self.rows_within(&rest, room);
            if rows == 0 && !self.pending.is_empty() {
                self.flush(out)?;
                continue;
            }
            // A row that is larger than a page has a page of its own.
            rows = rows.max(1);
            let part = rest.slice(0, rows);
            self.pending_bytes += self.bytes(&part);
            self.pending.push(part);
            start += rows;
        }
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish<W: Write>(&mut self, out: &mut ContainerWriter<W>) -> Result<()> {
        if self.is_blob {
            out.holds_blobs(self.target.column);
        }
        self.flush(out)
    }

    /// Writes what was gathered.
    pub(super) fn flush<W: Write>(&mut self, out: &mut ContainerWriter<W>) -> Result<()> {
        let arrays = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        if arrays.is_empty() { Ok(()) } else { self.page(&arrays, out) }
    }

    fn page<W: Write>(&self, arrays: &[ArrayRef], out: &mut ContainerWriter<W>) -> Result<()> {
        let num_rows: usize = arrays.iter().map(|array| array.len()).sum();
        let mut buffers = Buffers::default();
        let location = || format!("field `{}`", self.target.path);
        let encoding = match (self.leaf.physical, &self.data_type) {
            (_, DataType::Dictionary(..)) => {
                match dictionary::encode(arrays, &self.data_type, &mut buffers).at(location)? {
                    Some(encoding) => encoding,
                    None => return self.halves(arrays, out),
                }
            }
            (Physical::None, _) => ArrayEncoding::AllNulls,
            _ if self.is_blob => super::packed::descriptors(arrays, &mut buffers).at(location)?,
            (Physical::Packed, _) => super::packed::encode(&self.leaf, arrays, &mut buffers).at(location)?,
            (Physical::Variable32 | Physical::Variable64, _) => {
                binary::encode(arrays, self.compressor, &mut buffers).at(location)?
            }
            (physical, _) => {
                fixed::encode(physical, &self.leaf.dimensions, arrays, &mut buffers).at(location)?
            }
        };
        let layout = PageLayout::Array(encoding);
        out.page(self.target.column, Page { num_rows: num_rows as u64, layout, buffers: buffers.0 }, 0)
    }

    /// Two pages instead of one. One row always fits.
    fn halves<W: Write>(&self, arrays: &[ArrayRef], out: &mut ContainerWriter<W>) -> Result<()> {
        let (first, second) = match arrays {
            [single] => {
                let half = single.len() / 2;
                (vec![single.slice(0, half)], vec![single.slice(half, single.len() - half)])
            }
            many => {
                let (first, second) = many.split_at(many.len() / 2);
                (first.to_vec(), second.to_vec())
            }
        };
        if arrays.len() == 1 && first.iter().all(|array| array.is_empty()) {
            return Err(Error::internal(format!("field `{}`: a row with too many items", self.target.path)));
        }
        self.page(&first, out)?;
        self.page(&second, out)
    }

    /// How many of the first rows take at most this many bytes in a page.
    fn rows_within(&self, array: &ArrayRef, room: usize) -> usize {
        match array.data_type() {
            DataType::Utf8 => strings_within::<Utf8Type>(array, room),
            DataType::LargeUtf8 => strings_within::<LargeUtf8Type>(array, room),
            DataType::Binary => strings_within::<BinaryType>(array, room),
            DataType::LargeBinary => strings_within::<LargeBinaryType>(array, room),
            _ => (room.saturating_mul(8) / self.bits().max(1)).min(array.len()),
        }
    }

    fn bytes(&self, array: &ArrayRef) -> usize {
        match array.data_type() {
            DataType::Utf8 => strings_bytes::<Utf8Type>(array, array.len()),
            DataType::LargeUtf8 => strings_bytes::<LargeUtf8Type>(array, array.len()),
            DataType::Binary => strings_bytes::<BinaryType>(array, array.len()),
            DataType::LargeBinary => strings_bytes::<LargeBinaryType>(array, array.len()),
            _ => array.len().saturating_mul(self.bits()).div_ceil(8),
        }
    }

    /// Bits of a row of fixed width, its validity left out.
    fn bits(&self) -> usize {
        match (&self.data_type, self.leaf.physical) {
            (DataType::Dictionary(key, _), _) => key.primitive_width().unwrap_or_default() * 8,
            (_, Physical::Fixed(width)) => width.saturating_mul(8).saturating_mul(self.leaf.items()),
            (_, Physical::Bits) => self.leaf.items(),
            (_, Physical::Packed) => super::packed::row(&self.leaf).saturating_mul(8),
            _ => 0,
        }
    }

    /// Bytes of dictionary items that no pending array has.
    fn new_items(&self, array: &ArrayRef) -> usize {
        let items = |array: &ArrayRef| array.as_any_dictionary_opt().map(|d| d.values().clone());
        let (last, new) = (self.pending.last().and_then(items), items(array));
        match (last, new) {
            (Some(last), Some(new)) if ArrayRef::ptr_eq(&last, &new) => 0,
            (_, Some(new)) => new.get_buffer_memory_size().min(self.target.max_page_bytes / 2),
            _ => 0,
        }
    }
}

/// Bytes of the first rows: an end of 8 bytes each, and the values.
fn strings_bytes<T: ByteArrayType>(array: &ArrayRef, rows: usize) -> usize {
    let offsets = array.as_bytes::<T>().value_offsets();
    let offset = |at: usize| offsets.get(at).map_or(0, |o| o.as_usize());
    rows.saturating_mul(8) + (offset(rows) - offset(0))
}

fn strings_within<T: ByteArrayType>(array: &ArrayRef, room: usize) -> usize {
    let (mut fits, mut over) = (0, array.len() + 1);
    while over - fits > 1 {
        let middle = fits + (over - fits) / 2;
        if strings_bytes::<T>(array, middle) <= room { fits = middle } else { over = middle }
    }
    fits
}
