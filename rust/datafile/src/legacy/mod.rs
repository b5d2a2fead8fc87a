//! Data files of version 0.1, which are read and never written.
//!
//! | region | content |
//! |---|---|
//! | pages | one for each field and batch (a group of rows), at any position |
//! | dictionaries | of each dictionary field its values, as a page |
//! | page table | position (i64) and length (i64) of each page, by field id and batch |
//! | statistics | bounds of each batch, with a page table of their own; not read |
//! | schema | u32 length, message |
//! | metadata | u32 length, message: positions of schema and page table, first rows of the batches |
//! | footer | 16 bytes, see [`pennon_core::file::LegacyFooter`] |
//!
//! The page table begins with the smallest field id of the file, before minor version 2 with 0, and ends with the
//! largest. A page is what its type makes it, and its length is what the page table says:
//!
//! | type | page | length |
//! |---|---|---|
//! | bool, and fixed-size lists of it | bits, the lowest first, without padding between rows | rows |
//! | of fixed width, and fixed-size lists | values one after another | rows |
//! | string, binary | where the bytes of each value begin in the file, and where the last one ends: i64 | rows |
//! | list | offsets of the items in the item's page of the same batch: i32, of large lists i64 | rows + 1 |
//! | dictionary | keys | rows |
//! | struct, null | nothing | 0, rows |
//!
//! Nulls are not stored. As in the reference, a null is read as zero or false, the first value of a dictionary, an empty
//! list, a struct of such members; and an empty string or binary value of a field that may be null, or of its
//! dictionary, is read as null.
//!
//! The invariant: every byte that is read was compared with the size of the file, and a pass of a read wants no more
//! bytes than the file has.

mod dictionary;
mod leaf;
mod list;
mod open;
mod pages;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use arrow_array::{ArrayRef, NullArray, StructArray};
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Field, LogicalType, Schema};
use pennon_core::{Error, Result};

use crate::container::{FileMetadata, PageRows, rows_by_page};
use crate::source::{ByteSource, Fetch};
use crate::values::{Leaf, Physical, arrow_error};
use dictionary::DictionaryRead;
use leaf::LeafRead;
use list::ListRead;
pub(crate) use open::open;
pub(crate) use pages::LegacyPages;
use pages::Page;
use text::TextRead;

/// What a read of fields works with.
#[derive(Debug, Clone, Copy)]
struct File<'a> {
    schema: &'a Schema,
    pages: &'a LegacyPages,
}

/// Reads rows of fields, one array per field. All rows are in the file.
pub(crate) fn read(
    source: &dyn ByteSource,
    metadata: &FileMetadata,
    pages: &LegacyPages,
    fields: &[Field],
    rows: &RowRanges,
) -> Result<Vec<ArrayRef>> {
    let file = File { schema: &metadata.schema, pages };
    let batches = rows_by_page(&pages.batch_starts, rows);
    let begin = |field| Node::begin(file, field, "", &batches);
    let mut nodes = fields.iter().map(begin).collect::<Result<Vec<_>>>()?;
    let mut bytes = Vec::new();
    loop {
        let mut fetch = Fetch::default();
        let mut more = false;
        for node in &mut nodes {
            more |= node.step(&bytes, &mut fetch)?;
        }
        if !more {
            break;
        }
        // Ends of values are read for the value before and for the value after.
        let (total, end) = fetch.extent();
        if end > metadata.size || total / 2 > metadata.size {
            return Err(Error::corrupt(format!(
                "its pages overlap or are cut: {total} bytes up to {end} needed, the file has {}",
                metadata.size
            )));
        }
        bytes = fetch.run(source)?;
    }
    nodes.into_iter().map(Node::finish).collect()
}

/// Bytes of rows in memory, about.
pub(crate) fn bytes_in_memory(metadata: &FileMetadata, field: &Field, rows: u64) -> u64 {
    let data_type = field.data_type();
    let of_row = match Leaf::of(&data_type) {
        Ok(Leaf { physical: Physical::None | Physical::Bits, .. }) => 1,
        Ok(leaf @ Leaf { physical: Physical::Fixed(width), .. }) => width.saturating_mul(leaf.items()) as u64,
        // Which fields the bytes of the file belong to is not known before they are read.
        _ => metadata.size / metadata.num_rows.max(1) + 1,
    };
    of_row.saturating_mul(rows)
}

/// A field of a read.
#[derive(Debug)]
enum Node<'a> {
    Null(usize),
    Leaf(LeafRead),
    Text(TextRead),
    Dictionary(Box<DictionaryRead<'a>>),
    List(Box<ListRead<'a>>),
    Struct { field: &'a Field, rows: usize, children: Vec<Node<'a>> },
}

impl<'a> Node<'a> {
    /// The field with those rows of its pages.
    fn begin(file: File<'a>, field: &'a Field, parent: &str, batches: &[PageRows]) -> Result<Self> {
        let path = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
        let location = || format!("field `{path}` (id {})", field.id);
        let rows = count(batches).at(location)?;
        if field.logical_type == LogicalType::Struct {
            let begin = |child| Self::begin(file, child, &path, batches);
            let children = field.children.iter().map(begin).collect::<Result<_>>()?;
            return Ok(Self::Struct { field, rows, children });
        }
        let found = file
            .schema
            .field_by_id(field.id)
            .ok_or_else(|| Error::invalid_input(format!("{} has no pages in the file", location())))?;
        if found.logical_type != field.logical_type {
            return Err(Error::corrupt(format!(
                "{}: it has type {}, the pages in the file {}",
                location(),
                field.logical_type,
                found.logical_type
            )));
        }
        let pages = || {
            let page = |batch: &PageRows| Ok((file.pages.page(field.id, batch.page)?, batch.rows.clone()));
            batches.iter().map(page).collect::<Result<Vec<_>>>().at(location)
        };
        Ok(match field.data_type() {
            DataType::Null => Self::Null(rows),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                let read = TextRead::new(location(), field.data_type(), field.nullable, pages()?);
                Self::Text(read.at(location)?)
            }
            DataType::Dictionary(..) => {
                let values = file.pages.dictionaries.get(&field.id);
                let read = DictionaryRead::new(location(), field, pages()?, values, file.pages.file_size);
                Self::Dictionary(Box::new(read.at(location)?))
            }
            DataType::List(_) | DataType::LargeList(_) => {
                let read = ListRead::new(file, path.clone(), field, pages()?, batches);
                Self::List(Box::new(read.at(location)?))
            }
            other => Self::Leaf(LeafRead::new(location(), &other, pages()?).at(location)?),
        })
    }

    /// Takes the bytes of the previous pass and requests those of the next. Returns whether another pass follows.
    fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        match self {
            Self::Null(_) => Ok(false),
            Self::Leaf(leaf) => leaf.step(bytes, fetch),
            Self::Text(text) => text.step(bytes, fetch),
            Self::Dictionary(dictionary) => dictionary.step(bytes, fetch),
            Self::List(list) => list.step(bytes, fetch),
            Self::Struct { children, .. } => {
                let mut more = false;
                for child in children {
                    more |= child.step(bytes, fetch)?;
                }
                Ok(more)
            }
        }
    }

    /// The array, when all passes are over.
    fn finish(self) -> Result<ArrayRef> {
        match self {
            Self::Null(rows) => Ok(Arc::new(NullArray::new(rows))),
            Self::Leaf(leaf) => leaf.finish(),
            Self::Text(text) => text.finish(),
            Self::Dictionary(dictionary) => dictionary.finish(),
            Self::List(list) => list.finish(),
            Self::Struct { field, rows, children } => {
                let children = children.into_iter().map(Self::finish).collect::<Result<_>>()?;
                let members = field.children.iter().map(|child| Arc::new(child.to_arrow())).collect();
                let array = StructArray::try_new_with_length(members, children, None, rows);
                Ok(Arc::new(array.map_err(arrow_error).at(|| format!("field `{}`", field.name))?))
            }
        }
    }
}

/// How many rows there are. Errors: `InvalidInput` for more than an array can have.
fn count(batches: &[PageRows]) -> Result<usize> {
    let total = batches.iter().map(|batch| batch.rows.count()).fold(0, u64::saturating_add);
    i32::try_from(total).ok().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
        Error::invalid_input(format!("{total} items of lists in one array; read smaller ranges of rows"))
    })
}

/// The bytes of a request. Errors: `Internal`.
fn taken(bytes: &[Bytes], ticket: usize) -> Result<&Bytes> {
    bytes.get(ticket).ok_or_else(|| Error::internal("bytes that were not requested"))
}
