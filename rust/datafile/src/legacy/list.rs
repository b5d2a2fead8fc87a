//! Lists: their offsets in the first pass, which determine the rows of the item's pages.

use std::sync::Arc;

use arrow_array::{ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef};
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use super::{File, Node, Page, count, taken};
use crate::container::PageRows;
use crate::encodings::le::{Number, to_usize};
use crate::source::Fetch;
use crate::values::arrow_error;

/// Rows of a list field and the items they have.
#[derive(Debug)]
pub(super) struct ListRead<'a> {
    file: File<'a>,
    path: String,
    field: &'a Field,
    is_large: bool,
    /// The batches, their pages of offsets and their rows.
    pages: Vec<(usize, Page, RowRanges)>,
    state: State<'a>,
}

#[derive(Debug)]
enum State<'a> {
    Begun,
    /// For each range of rows the position of its page in `pages`, and the ticket.
    Requested(Vec<(usize, usize)>),
    Items {
        offsets: Vec<usize>,
        items: Box<Node<'a>>,
    },
}

impl<'a> ListRead<'a> {
    /// Errors: `Corrupt` if a page is shorter than its rows need.
    pub(super) fn new(
        file: File<'a>,
        path: String,
        field: &'a Field,
        pages: Vec<(Page, RowRanges)>,
        batches: &[PageRows],
    ) -> Result<Self> {
        // There is an offset more than there are rows.
        let without_last = |page: &Page| Page { length: page.length.saturating_sub(1), ..*page };
        pages.iter().try_for_each(|(page, rows)| without_last(page).check_rows(rows))?;
        let is_large = matches!(field.data_type(), DataType::LargeList(_));
        let numbered = |((page, rows), batch): ((Page, RowRanges), &PageRows)| (batch.page, page, rows);
        let pages = pages.into_iter().zip(batches).map(numbered).collect();
        Ok(Self { file, path, field, is_large, pages, state: State::Begun })
    }

    fn location(&self) -> String {
        format!("field `{}` (id {})", self.path, self.field.id)
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        match &mut self.state {
            State::Begun => {
                let bits = if self.is_large { 64 } else { 32 };
                let mut requested = Vec::new();
                for (at, (_, page, rows)) in self.pages.iter().enumerate() {
                    for rows in rows {
                        let offsets = rows.start..rows.end.saturating_add(1);
                        let range = page.range(&offsets, bits).at(|| self.location())?;
                        requested.push((at, fetch.add(range)));
                    }
                }
                self.state = State::Requested(requested);
                Ok(true)
            }
            State::Requested(requested) => {
                let requested = std::mem::take(requested);
                let (offsets, mut items) = self.items(&requested, bytes).at(|| self.location())?;
                let more = items.step(&[], fetch)?;
                self.state = State::Items { offsets, items };
                Ok(more)
            }
            State::Items { items, .. } => items.step(bytes, fetch),
        }
    }

    /// Turns offsets of pages into offsets of the array and rows of the item's pages.
    fn items(&self, requested: &[(usize, usize)], bytes: &[Bytes]) -> Result<(Vec<usize>, Box<Node<'a>>)> {
        let item = self.field.children.first().ok_or_else(|| Error::internal("a list without items"))?;
        let mut offsets = vec![0_usize];
        let mut batches: Vec<PageRows> = Vec::with_capacity(self.pages.len());
        for &(at, ticket) in requested {
            let (batch, ..) = self.pages.get(at).ok_or_else(|| Error::internal("a page is missing"))?;
            let bytes = taken(bytes, ticket)?;
            let range = if self.is_large {
                append(u64::iter(bytes), &mut offsets)?
            } else {
                append(u32::iter(bytes).map(u64::from), &mut offsets)?
            };
            match batches.last_mut() {
                Some(last) if last.page == *batch => last.rows.insert(range),
                _ => batches.push(PageRows { page: *batch, rows: RowRanges::from(range) }),
            }
        }
        let total = batches.iter().map(|batch| batch.rows.count()).fold(0, u64::saturating_add);
        // Lists of several rows cannot have the same items.
        if offsets.last().is_none_or(|&last| last as u64 != total) {
            return Err(Error::corrupt("the offsets of its lists do not ascend"));
        }
        count(&batches)?;
        batches.retain(|batch| !batch.rows.is_empty());
        Ok((offsets, Box::new(Node::begin(self.file, item, &self.path, &batches)?)))
    }

    /// The array.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let location = self.location();
        let State::Items { offsets, items } = self.state else {
            return Err(Error::internal("a list that was not read"));
        };
        let items = items.finish()?;
        let array = match self.field.data_type() {
            DataType::List(item) => list::<i32>(item, &offsets, items),
            DataType::LargeList(item) => list::<i64>(item, &offsets, items),
            other => Err(Error::internal(format!("type {other} as a list"))),
        };
        array.at(|| location)
    }
}

/// Appends the ends of lists, and returns the items of all. Errors: `Corrupt` for offsets that do not ascend.
fn append(mut ends: impl Iterator<Item = u64>, offsets: &mut Vec<usize>) -> Result<std::ops::Range<u64>> {
    let before = offsets.last().copied().unwrap_or_default();
    let start = ends.next().unwrap_or_default();
    let mut last = start;
    for end in ends {
        if end < last {
            return Err(Error::corrupt(format!("a list from item {last} to {end}")));
        }
        last = end;
        offsets.push(before.saturating_add(to_usize(end - start)?));
    }
    Ok(start..last)
}

fn list<O: OffsetSizeTrait>(item: FieldRef, offsets: &[usize], items: ArrayRef) -> Result<ArrayRef> {
    // The items were counted: there are at most `i32::MAX`.
    let offsets: ScalarBuffer<O> = offsets.iter().map(|&offset| O::usize_as(offset)).collect();
    let array = GenericListArray::<O>::try_new(item, OffsetBuffer::new(offsets), items, None);
    Ok(Arc::new(array.map_err(arrow_error)?))
}
