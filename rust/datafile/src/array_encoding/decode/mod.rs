//! Reading files of version 2.0: fields to columns, rows to pages, passes of requests, then arrays.
//!
//! Each part of a read is a state machine with one step: it takes the bytes of the previous pass and requests those
//! of the next. All fields do their passes together, so a read costs as many requests as its deepest field
//! has passes: one for numbers, two for strings, one more for each list around them.

mod array;
mod binary;
mod blobs;
mod columns;
mod dictionary;
mod ends;
mod flat;
mod leaf;
mod list;
mod packed;

use std::sync::Arc;

use arrow_array::{ArrayRef, StructArray};
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Field, LogicalType, legacy_description};
use pennon_core::{Error, Result};

use crate::container::{ColumnMap, FileMetadata, is_packed};
use crate::source::{ByteSource, Fetch};
use crate::values::{arrow_error, members};
use columns::Column;
pub(crate) use columns::ColumnPages;
use leaf::LeafRead;
use list::ListRead;
use packed::PackedRead;

/// What a read of fields works with.
#[derive(Debug, Clone, Copy)]
pub(super) struct File<'a> {
    metadata: &'a FileMetadata,
    pages: &'a ColumnPages,
    columns: &'a ColumnMap,
}

/// Reads rows of fields, one array per field. All rows are in the file.
pub(crate) fn read(
    source: &dyn ByteSource,
    metadata: &FileMetadata,
    pages: &ColumnPages,
    fields: &[Field],
    columns: &ColumnMap,
    rows: &RowRanges,
) -> Result<Vec<ArrayRef>> {
    let file = File { metadata, pages, columns };
    let begin = |field| Node::begin(file, field, "", rows, metadata.num_rows);
    let mut nodes = fields.iter().map(begin).collect::<Result<Vec<_>>>()?;
    run(source, &mut nodes)?;
    nodes.into_iter().map(Node::finish).collect()
}

/// Reads rows of a column that has no field.
pub(crate) fn read_column(
    source: &dyn ByteSource,
    metadata: &FileMetadata,
    pages: &ColumnPages,
    column: u32,
    data_type: DataType,
    rows: &RowRanges,
) -> Result<ArrayRef> {
    let file = File { metadata, pages, columns: &ColumnMap::default() };
    let column = file.column(format!("column {column}"), column, metadata.num_rows)?;
    let mut nodes = [Node::Leaf(LeafRead::new(column, data_type, rows)?)];
    run(source, &mut nodes)?;
    let [node] = nodes;
    node.finish()
}

/// Runs the passes of all nodes.
fn run(source: &dyn ByteSource, nodes: &mut [Node<'_>]) -> Result<()> {
    let mut bytes = Vec::new();
    loop {
        let mut fetch = Fetch::default();
        let mut more = false;
        for node in &mut *nodes {
            more |= node.step(&bytes, &mut fetch)?;
        }
        if !more {
            return Ok(());
        }
        bytes = fetch.run(source)?;
    }
}

impl<'a> File<'a> {
    /// A column that must have this many rows.
    fn column(&self, path: String, index: u32, expected: u64) -> Result<Column<'a>> {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let (Some(metadata), Some(pages)) = (self.metadata.columns.get(at), self.pages.get(at)) else {
            return Err(Error::corrupt(format!(
                "field `{path}` (column {index}): the file has {} columns",
                self.metadata.columns.len()
            )));
        };
        let column = Column { path, index, metadata, pages, file_size: self.metadata.size };
        if column.pages.num_rows() != expected {
            let found = column.pages.num_rows();
            return Err(Error::corrupt(format!("{column}: pages of {found} rows, expected {expected}")));
        }
        Ok(column)
    }

    fn column_of(&self, field: &Field, path: &str, expected: u64) -> Result<Column<'a>> {
        let index = self.columns.column(field.id).ok_or_else(|| {
            Error::invalid_input(format!("field `{path}` (id {}) has no column in the file", field.id))
        })?;
        self.column(path.to_owned(), index, expected)
    }
}

/// A field of a read.
#[derive(Debug)]
enum Node<'a> {
    Leaf(LeafRead<'a>),
    Packed(PackedRead<'a>),
    /// Descriptions of legacy blobs, of which the field may have some members.
    Descriptions(&'a Field, LeafRead<'a>),
    List(Box<ListRead<'a>>),
    Struct {
        field: &'a Field,
        path: String,
        rows: usize,
        children: Vec<Node<'a>>,
    },
}

impl<'a> Node<'a> {
    /// The field in its column, which must have `expected` rows.
    fn begin(
        file: File<'a>,
        field: &'a Field,
        parent: &str,
        rows: &RowRanges,
        expected: u64,
    ) -> Result<Self> {
        let path = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
        if is_packed(field) {
            let column = file.column_of(field, &path, expected)?;
            return Ok(Self::Packed(PackedRead::new(column, field, &file.metadata.schema, rows)?));
        }
        if field.describes_legacy_blob() {
            let column = file.column_of(field, &path, expected)?;
            let members = legacy_description().iter().map(Field::to_arrow).collect();
            let leaf = LeafRead::new(column, DataType::Struct(members), rows)?;
            return Ok(Self::Descriptions(field, leaf));
        }
        match &field.logical_type {
            // The header column has no data that its children lack.
            LogicalType::Struct => {
                let begin = |child| Self::begin(file, child, &path, rows, expected);
                let children = field.children.iter().map(begin).collect::<Result<_>>()?;
                Ok(Self::Struct { field, rows: count(rows)?, children, path })
            }
            _ if field.is_leaf() => {
                let column = file.column_of(field, &path, expected)?;
                Ok(Self::Leaf(LeafRead::new(column, field.data_type(), rows)?))
            }
            LogicalType::List
            | LogicalType::ListStruct
            | LogicalType::LargeList
            | LogicalType::LargeListStruct => {
                let column = file.column_of(field, &path, expected)?;
                Ok(Self::List(Box::new(ListRead::new(file, column, field, rows)?)))
            }
            other => Err(Error::unsupported(format!(
                "field `{path}`: type {other} cannot be read from file version 2.0"
            ))),
        }
    }

    /// Takes the bytes of the previous pass and requests those of the next. Returns whether another pass follows.
    fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        match self {
            Self::Leaf(leaf) | Self::Descriptions(_, leaf) => leaf.step(bytes, fetch),
            Self::Packed(packed) => packed.step(bytes, fetch),
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
            Self::Leaf(leaf) => leaf.finish(),
            Self::Packed(packed) => packed.finish(),
            Self::Descriptions(field, leaf) => members(field, &legacy_description(), &leaf.finish()?),
            Self::List(list) => list.finish(),
            Self::Struct { field, path, rows, children } => {
                let children = children.into_iter().map(Self::finish).collect::<Result<_>>()?;
                let members = field.children.iter().map(|child| Arc::new(child.to_arrow())).collect();
                // Structs of this version cannot be null.
                let array = StructArray::try_new_with_length(members, children, None, rows);
                Ok(Arc::new(array.map_err(arrow_error).at(|| format!("field `{path}`"))?))
            }
        }
    }
}

/// How many rows there are. Errors: `InvalidInput` for more than an array can have.
fn count(rows: &RowRanges) -> Result<usize> {
    let total = rows.count();
    i32::try_from(total).ok().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
        Error::invalid_input(format!("{total} items of lists in one array; read smaller ranges of rows"))
    })
}
