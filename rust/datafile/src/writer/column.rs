//! One column: gathers pieces of arrays until a page is full.
//!
//! Rows are split into blocks small enough that a page never grows far beyond its limit; a block that is too large
//! is split again. The column keeps levels and slices of the caller's arrays, so values are copied once, into the
//! page.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use pennon_core::{Error, Result};

use super::conform::conform;
use super::levels::PageLevels;
use super::page::{Encoding, Storage, build};
use super::pool::Job;
use crate::encodings::dictionary::encode::UsedItems;
use crate::repdef::shred::{LeafPath, Shredded, shred};
use crate::statistics::Collector;

/// Null or empty rows in a row from which they get a page of their own. Half of what fits before two values of a
/// chunk in file version 2.1.
const VALUELESS_RUN: usize = 2048;

/// Most rows of a block.
const MAX_BLOCK: usize = 1 << 20;

/// The writer of a leaf of the schema.
#[derive(Debug)]
pub(crate) struct ColumnWriter {
    index: usize,
    kind: Arc<ColumnKind>,
    max_page_bytes: usize,
    pending: Pending,
    block_rows: usize,
    /// Number of the first pending row.
    first_row: u64,
    statistics: Option<Collector>,
    used_items: Option<UsedItems>,
}

/// What all pages have in common.
#[derive(Debug)]
struct ColumnKind {
    path: LeafPath,
    storage: Storage,
    encoding: Encoding,
}

#[derive(Debug, Default)]
struct Pending {
    rows: usize,
    levels: usize,
    bytes: usize,
    rep: Option<Vec<u16>>,
    def: Option<Vec<u16>>,
    values: VecDeque<ArrayRef>,
}

impl ColumnWriter {
    /// The column with this index.
    pub(crate) fn new(
        index: usize,
        path: LeafPath,
        storage: Storage,
        encoding: Encoding,
        max_page_bytes: usize,
    ) -> Self {
        let pending = Pending::default();
        let has_rows = path.max_rep() == 0 && path.repeated() == 1 && !matches!(storage, Storage::Blob(_));
        let statistics = if has_rows { Collector::new(storage.data_type()) } else { None };
        let used_items = match &storage {
            Storage::Dictionary(data_type) => UsedItems::of(data_type),
            _ => None,
        };
        let (block_rows, first_row) = (16 << 10, 0);
        let kind = Arc::new(ColumnKind { path, storage, encoding });
        Self { index, kind, max_page_bytes, pending, block_rows, first_row, statistics, used_items }
    }

    /// Which column of the file it is.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Whether pages have descriptors of values that are elsewhere in the file.
    pub(crate) fn has_blobs(&self) -> bool {
        matches!(self.kind.storage, Storage::Blob(_))
    }

    /// Statistics of the values so far.
    pub(crate) fn take_statistics(&mut self) -> Option<Collector> {
        self.statistics.take()
    }

    /// Bytes gathered and not written.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.bytes
    }

    /// Appends the rows of an array of the path's first field; submits the pages that are full.
    pub(crate) fn append(
        &mut self,
        array: &ArrayRef,
        submit: &mut dyn FnMut(Job) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        while start < array.len() {
            let rows = self.block_rows.min(array.len() - start);
            let mut piece = shred(&self.kind.path, &array.slice(start, rows))?;
            piece.values = piece.values.into_iter().map(|a| self.conform(a)).collect::<Result<_>>()?;
            let bytes = piece_bytes(&piece);
            let goal = self.max_page_bytes / 8;
            if bytes > self.max_page_bytes / 4 && rows > 1 {
                let per_row = bytes.div_ceil(rows);
                self.block_rows = (goal / per_row).clamp(1, rows / 2);
                continue;
            }
            if bytes < goal / 2 && rows == self.block_rows {
                self.block_rows = (rows * 2).min(MAX_BLOCK);
            }
            if let Some(used) = &mut self.used_items {
                let add = |values| used.add(values);
                piece
                    .values
                    .iter()
                    .try_for_each(add)
                    .map_err(|e| e.at(format!("field `{}`", self.kind.path.name())))?;
            }
            if self.pending.rows > 0 && self.pending.bytes + bytes > self.max_page_bytes {
                self.flush(submit)?;
            }
            if let (Some(statistics), [values]) = (&mut self.statistics, piece.values.as_slice()) {
                // A top-level leaf has its own nulls; below structs only the levels have them.
                let def = piece.def.as_deref().filter(|_| self.kind.path.layers().nth(1).is_some());
                statistics.add(values, def);
            }
            self.pending.push(piece, bytes);
            start += rows;
        }
        Ok(())
    }

    /// Submits the gathered rows.
    pub(crate) fn flush(&mut self, submit: &mut dyn FnMut(Job) -> Result<()>) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.rows == 0 {
            return Ok(());
        }
        let parts = pending.parts(&self.kind.path);
        let bytes = pending.bytes / parts.len().max(1);
        let Pending { rows, levels: len, rep, def, values, .. } = pending;
        if parts.len() == 1 {
            return submit(self.page((rows, len, rep, def), values.into(), bytes));
        }
        let mut values = values;
        let max_rep = self.kind.path.max_rep();
        for part in parts {
            let cut = |levels: &Option<Vec<u16>>| Some(levels.as_ref()?.get(part.clone())?.to_vec());
            let (rep, def) = (cut(&rep), cut(&def));
            let starts = |rep: &Vec<u16>| rep.iter().filter(|&&r| r == max_rep).count();
            let rows = rep.as_ref().map_or(part.len(), starts);
            let is_slot = |d: &&u16| **d <= self.kind.path.visible();
            let slots = def.as_ref().map_or(part.len(), |def| def.iter().filter(is_slot).count());
            let values = take_slots(&mut values, slots);
            submit(self.page((rows, part.len(), rep, def), values, bytes))?;
        }
        Ok(())
    }

    /// A page of rows, positions, repetition and canonical definition levels.
    fn page(
        &mut self,
        (rows, len, rep, def): (usize, usize, Option<Vec<u16>>, Option<Vec<u16>>),
        values: Vec<ArrayRef>,
        bytes: usize,
    ) -> Job {
        let kind = Arc::clone(&self.kind);
        let encode = move || {
            let ColumnKind { path, storage, encoding } = &*kind;
            let levels = PageLevels::new(path, rows, len, rep, def);
            build(storage, &levels, &values, encoding).map_err(|e| e.at(format!("field `{}`", path.name())))
        };
        let first_row = self.first_row;
        self.first_row += (rows / self.kind.path.repeated().max(1)) as u64;
        Job { column: self.index, first_row, bytes, encode: Box::new(encode) }
    }

    /// The array in the type that is stored.
    fn conform(&self, array: ArrayRef) -> Result<ArrayRef> {
        let wanted = self.kind.storage.data_type();
        conform(&array, wanted).ok_or_else(|| {
            Error::schema_mismatch(format!(
                "field `{}`: data of type {} does not fit the schema's type {wanted}",
                self.kind.path.name(),
                array.data_type()
            ))
        })
    }
}

impl Pending {
    fn push(&mut self, piece: Shredded, bytes: usize) {
        match (&mut self.rep, piece.rep) {
            (Some(all), Some(rep)) => all.extend_from_slice(&rep),
            (all, rep) => *all = rep,
        }
        match (&mut self.def, piece.def) {
            (None, None) => {}
            (all, def) => {
                let all = all.get_or_insert_default();
                all.resize(self.levels, 0);
                match def {
                    Some(def) => all.extend_from_slice(&def),
                    None => all.resize(self.levels + piece.levels, 0),
                }
            }
        }
        self.rows += piece.rows;
        self.levels += piece.levels;
        self.bytes += bytes;
        self.values.extend(piece.values.into_iter().filter(|a| !a.is_empty()));
    }

    /// Positions of each page: long runs of null or empty rows get a page of their own, except in fixed-size lists,
    /// where the structs of a row must be in one page.
    fn parts(&self, path: &LeafPath) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = 0;
        if let (Some(rep), Some(def), 1) = (&self.rep, &self.def, path.repeated()) {
            let valueless = |at: usize| match (rep.get(at), def.get(at)) {
                (Some(&r), Some(&d)) => {
                    r == path.max_rep()
                        && d > path.visible()
                        && rep.get(at + 1).is_none_or(|&r| r == path.max_rep())
                }
                _ => false,
            };
            let mut at = 0;
            while at < self.levels {
                let run = (at..self.levels).take_while(|&i| valueless(i)).count();
                if run >= VALUELESS_RUN {
                    if start < at {
                        parts.push(start..at);
                    }
                    parts.push(at..at + run);
                    start = at + run;
                }
                at += run.max(1);
            }
        }
        if start < self.levels {
            parts.push(start..self.levels);
        }
        parts
    }
}

/// Takes the next slots off the front.
fn take_slots(values: &mut VecDeque<ArrayRef>, mut slots: usize) -> Vec<ArrayRef> {
    let mut taken = Vec::new();
    while slots > 0 {
        let Some(array) = values.pop_front() else { break };
        if array.len() > slots {
            values.push_front(array.slice(slots, array.len() - slots));
            taken.push(array.slice(0, slots));
            break;
        }
        slots -= array.len();
        taken.push(array);
    }
    taken
}

/// Bytes a piece will take in a page: its slots, not the buffers they are slices of.
fn piece_bytes(piece: &Shredded) -> usize {
    let levels = [&piece.rep, &piece.def].into_iter().flatten().map(|l| l.len() * 2).sum::<usize>();
    levels + piece.values.iter().map(|a| leaf_bytes(a)).sum::<usize>()
}

fn leaf_bytes(array: &dyn Array) -> usize {
    fn between<O: ArrowNativeType>(offsets: &[O]) -> usize {
        let edge = |o: Option<&O>| o.map_or(0, |o| o.as_usize());
        edge(offsets.last()) - edge(offsets.first()) + size_of_val(offsets)
    }
    match array.data_type() {
        DataType::Null => 0,
        DataType::Struct(_) => array.as_struct().columns().iter().map(|member| leaf_bytes(member)).sum(),
        DataType::Boolean => array.len() / 8,
        DataType::Utf8 => between(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => between(array.as_string::<i64>().value_offsets()),
        DataType::Binary => between(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => between(array.as_binary::<i64>().value_offsets()),
        DataType::FixedSizeList(..) => leaf_bytes(array.as_fixed_size_list().values()),
        DataType::FixedSizeBinary(width) => array.len() * usize::try_from(*width).unwrap_or_default(),
        DataType::Dictionary(key, _) => array.len() * key.primitive_width().unwrap_or_default(),
        other => array.len() * other.primitive_width().unwrap_or_default(),
    }
}
