//! A list of a read: its offsets in the first pass, which determine the rows of the item column.

use std::sync::Arc;

use arrow_array::{ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef};
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::ArrayEncoding;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};

use super::columns::{Column, Page};
use super::ends::Ends;
use super::{File, Node};
use crate::source::Fetch;
use crate::values::{Validity, arrow_error};

/// Rows of a list column and the items they have.
#[derive(Debug)]
pub(super) struct ListRead<'a> {
    file: File<'a>,
    column: Column<'a>,
    field: &'a Field,
    pages: Vec<PageRead<'a>>,
    state: State<'a>,
}

#[derive(Debug)]
struct PageRead<'a> {
    page: Page<'a>,
    rows: RowRanges,
    /// The ends, and how many items the page has.
    ends: Option<(Ends<'a>, u64)>,
}

#[derive(Debug)]
enum State<'a> {
    Begun,
    /// Offsets were requested.
    Asked,
    Items {
        offsets: Vec<usize>,
        nulls: Validity,
        items: Box<Node<'a>>,
    },
}

impl<'a> ListRead<'a> {
    /// Starts a read of some rows.
    pub(super) fn new(
        file: File<'a>,
        column: Column<'a>,
        field: &'a Field,
        rows: &RowRanges,
    ) -> Result<Self> {
        let begin = |(page, rows)| PageRead { page, rows, ends: None };
        let pages = column.split(rows)?.into_iter().map(begin).collect();
        Ok(Self { file, column, field, pages, state: State::Begun })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        match &mut self.state {
            State::Begun => {
                for read in &mut self.pages {
                    let location = || self.column.location(&read.page);
                    let ArrayEncoding::List { offsets, null_offset_adjustment, num_items } =
                        read.page.encoding
                    else {
                        let name = read.page.encoding.name();
                        return Err(Error::unsupported(format!(
                            "encoding `{name}` cannot be read as a list"
                        ))
                        .at(location()));
                    };
                    let ends = Ends::ask(&read.page, offsets, *null_offset_adjustment, &read.rows, fetch)
                        .at(location)?;
                    read.ends = Some((ends, *num_items));
                }
                self.state = State::Asked;
                Ok(true)
            }
            State::Asked => {
                let mut items = self.items(bytes)?;
                let more = match &mut items {
                    State::Items { items, .. } => items.step(&[], fetch)?,
                    _ => false,
                };
                self.state = items;
                Ok(more)
            }
            State::Items { items, .. } => items.step(bytes, fetch),
        }
    }

    /// Turns ends into offsets of the array and rows of the item column.
    fn items(&mut self, bytes: &[Bytes]) -> Result<State<'a>> {
        let (mut offsets, mut nulls) = (vec![0], Validity::default());
        let mut rows = RowRanges::new();
        let mut total = 0u64;
        for read in &mut self.pages {
            let location = || self.column.location(&read.page);
            let Some((mut ends, num_items)) = read.ends.take() else { continue };
            ends.take(bytes).at(location)?;
            let covered = ends.resolve(num_items, |length, valid| {
                total = total.saturating_add(length);
                offsets.push(usize::try_from(total).unwrap_or(usize::MAX));
                nulls.append(valid);
            });
            let first = self.column.pages.first_item(read.page.number);
            rows.extend(
                covered.at(location)?.into_iter().map(|items| first + items.start..first + items.end),
            );
        }
        let item = self.field.children.first().ok_or_else(|| Error::internal("a list without items"))?;
        let expected = self.column.pages.num_items();
        let items = Node::begin(self.file, item, &self.column.path, &rows, expected)?;
        super::count(&rows).at(|| &self.column)?;
        Ok(State::Items { offsets, nulls, items: Box::new(items) })
    }

    /// The array.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let State::Items { offsets, nulls, items } = self.state else {
            return Err(Error::internal("a list that was not read"));
        };
        let items = items.finish()?;
        let array = match self.field.data_type() {
            DataType::List(item) => list::<i32>(item, &offsets, items, nulls),
            DataType::LargeList(item) => list::<i64>(item, &offsets, items, nulls),
            other => Err(Error::internal(format!("type {other} as a list"))),
        };
        array.at(|| &self.column)
    }
}

fn list<O: OffsetSizeTrait>(
    item: FieldRef,
    offsets: &[usize],
    items: ArrayRef,
    nulls: Validity,
) -> Result<ArrayRef> {
    // The items were counted: there are at most `i32::MAX`.
    let offsets: ScalarBuffer<O> = offsets.iter().map(|&offset| O::usize_as(offset)).collect();
    let offsets = OffsetBuffer::new(offsets);
    let array = GenericListArray::<O>::try_new(item, offsets, items, nulls.finish());
    Ok(Arc::new(array.map_err(arrow_error)?))
}
