//! A list column: the end of each list among the items of its page. Its items are stored in the next column.

use std::io::Write;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use pennon_core::Result;
use pennon_core::file::{ArrayEncoding, PageLayout};

use super::page::Buffers;
use super::{ColumnTarget, FieldWriter};
use crate::container::writer::{ContainerWriter, Page};

/// The writer of a list column.
#[derive(Debug)]
pub(crate) struct ListWriter {
    target: ColumnTarget,
    pub(super) items: FieldWriter,
    /// End of each pending list among the items of the page; a null list has no items.
    ends: Vec<u64>,
    nulls: Vec<usize>,
}

impl ListWriter {
    pub(super) fn new(target: ColumnTarget, items: FieldWriter) -> Self {
        Self { target, items, ends: Vec::new(), nulls: Vec::new() }
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.ends.len() * 8 + self.items.pending_bytes()
    }

    pub(super) fn append<W: Write>(&mut self, array: &ArrayRef, out: &mut ContainerWriter<W>) -> Result<()> {
        self.target.check_nulls(array.null_count())?;
        let mut ranges = Vec::new();
        let values = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                self.append_ends(list.offsets(), list.nulls(), &mut ranges, out)?;
                list.values()
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                self.append_ends(list.offsets(), list.nulls(), &mut ranges, out)?;
                list.values()
            }
            _ => return Err(self.target.mismatch(array)),
        };
        for range in ranges {
            self.items.append(&values.slice(range.start, range.len()), out)?;
        }
        Ok(())
    }

    /// Appends the ends, and returns the ranges of items that belong to lists which are not null.
    fn append_ends<O: OffsetSizeTrait, W: Write>(
        &mut self,
        offsets: &OffsetBuffer<O>,
        nulls: Option<&NullBuffer>,
        ranges: &mut Vec<Range<usize>>,
        out: &mut ContainerWriter<W>,
    ) -> Result<()> {
        let mut end = self.ends.last().copied().unwrap_or_default();
        let starts = offsets.iter().map(|offset| offset.as_usize());
        for (row, (start, stop)) in starts.clone().zip(starts.skip(1)).enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.nulls.push(self.ends.len());
            } else if start < stop {
                end += (stop - start) as u64;
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = stop,
                    _ => ranges.push(start..stop),
                }
            }
            self.ends.push(end);
            if self.ends.len() * 8 >= self.target.max_page_bytes {
                self.flush(out)?;
                end = 0;
            }
        }
        Ok(())
    }

    fn flush<W: Write>(&mut self, out: &mut ContainerWriter<W>) -> Result<()> {
        let (ends, nulls) = (std::mem::take(&mut self.ends), std::mem::take(&mut self.nulls));
        let Some(&num_items) = ends.last() else { return Ok(()) };
        let num_rows = ends.len() as u64;
        let mut buffers = Buffers::default();
        let (offsets, null_offset_adjustment) = buffers.ends(ends, &nulls)?;
        let layout = PageLayout::Array(ArrayEncoding::List { offsets, null_offset_adjustment, num_items });
        out.page(self.target.column, Page { num_rows, layout, buffers: buffers.0 }, 0)
    }

    pub(super) fn finish<W: Write>(&mut self, out: &mut ContainerWriter<W>) -> Result<()> {
        self.flush(out)?;
        self.items.finish(out)
    }
}
