//! A leaf column of a read: the arrays of its pages, joined.

use std::sync::Arc;

use arrow_array::{ArrayRef, new_empty_array};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use bytes::Bytes;
use pennon_core::Result;
use pennon_core::error::ResultExt;
use pennon_core::file::ArrayEncoding;
use pennon_core::rows::RowRanges;

use super::array::{Array, Shape};
use super::columns::{Column, Page};
use super::dictionary::Dictionary;
use crate::encodings::dictionary::unify::unify_dictionaries;
use crate::source::Fetch;
use crate::values::{Leaf, Validity, Values, arrow_error, leaf_array};

/// Rows of a leaf column.
#[derive(Debug)]
pub(super) struct LeafRead<'a> {
    column: Column<'a>,
    data_type: DataType,
    /// The values; of a dictionary, its items.
    leaf: Leaf,
    rows: usize,
    pages: Vec<PageRead<'a>>,
}

#[derive(Debug)]
struct PageRead<'a> {
    page: Page<'a>,
    rows: RowRanges,
    form: Form<'a>,
}

#[derive(Debug)]
enum Form<'a> {
    Begun,
    Plain(Box<Array<'a>>),
    /// Indices and items of a dictionary type.
    Keyed(Box<Dictionary<'a>>),
}

impl<'a> LeafRead<'a> {
    /// Starts a read of some rows.
    pub(super) fn new(column: Column<'a>, data_type: DataType, rows: &RowRanges) -> Result<Self> {
        let leaf = match &data_type {
            DataType::Dictionary(_, items) => Leaf::of(items),
            other => Leaf::of(other),
        };
        let leaf = leaf.at(|| &column)?;
        let begin = |(page, rows)| PageRead { page, rows, form: Form::Begun };
        let pages = column.split(rows)?.into_iter().map(begin).collect();
        Ok(Self { data_type, leaf, rows: super::count(rows).at(|| &column)?, pages, column })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        let mut more = false;
        for read in &mut self.pages {
            let location = || self.column.location(&read.page);
            more |= match &mut read.form {
                Form::Begun => {
                    let is_keyed = matches!(self.data_type, DataType::Dictionary(..));
                    read.form =
                        Form::ask(&read.page, is_keyed, &self.leaf, &read.rows, fetch).at(location)?;
                    true
                }
                Form::Plain(array) => array.step(bytes, fetch).at(location)?,
                Form::Keyed(dictionary) => dictionary.step(bytes, fetch).at(location)?,
            };
        }
        Ok(more)
    }

    /// The array.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        if matches!(self.data_type, DataType::Dictionary(..)) {
            return self.finish_dictionary();
        }
        let mut values = Values::with_capacity(&self.leaf, self.rows).at(|| &self.column)?;
        let mut nulls = Validity::default();
        for read in self.pages {
            if let Form::Plain(array) = read.form {
                let location = || self.column.location(&read.page);
                array.append_to(&self.leaf, &mut values, &mut nulls).at(location)?;
            }
        }
        leaf_array(&self.leaf, values, self.rows, nulls.finish()).at(|| &self.column)
    }

    fn finish_dictionary(self) -> Result<ArrayRef> {
        let mut pieces: Vec<ArrayRef> = Vec::with_capacity(self.pages.len());
        for read in self.pages {
            let location = || self.column.location(&read.page);
            let rows = super::count(&read.rows)?;
            pieces.push(match read.form {
                Form::Keyed(dictionary) => dictionary.into_array(&self.data_type, &self.leaf).at(location)?,
                Form::Plain(array) => {
                    let (mut values, mut nulls) =
                        (Values::with_capacity(&self.leaf, 0)?, Validity::default());
                    array.append_to(&self.leaf, &mut values, &mut nulls).at(location)?;
                    let plain = leaf_array(&self.leaf, values, rows, nulls.finish()).at(location)?;
                    cast(&plain, &self.data_type).map_err(arrow_error).at(location)?
                }
                Form::Begun => continue,
            });
        }
        match pieces.as_slice() {
            [] => Ok(new_empty_array(&self.data_type)),
            [single] => Ok(Arc::clone(single)),
            many => {
                let many = unify_dictionaries(many).at(|| &self.column)?;
                let many: Vec<&dyn arrow_array::Array> = many.iter().map(AsRef::as_ref).collect();
                concat(&many).map_err(arrow_error).at(|| &self.column)
            }
        }
    }
}

impl<'a> Form<'a> {
    fn ask(
        page: &Page<'a>,
        is_keyed: bool,
        leaf: &Leaf,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<Self> {
        if let ArrayEncoding::Dictionary { indices, items, num_items } = page.encoding
            && is_keyed
        {
            let items = (items.as_ref(), *num_items);
            let dictionary = Dictionary::ask(page, indices, items, leaf.physical, rows, fetch)?;
            return Ok(Self::Keyed(Box::new(dictionary)));
        }
        let array = Array::ask(page, page.encoding, Shape::of(leaf), rows, fetch)?;
        Ok(Self::Plain(Box::new(array)))
    }
}
