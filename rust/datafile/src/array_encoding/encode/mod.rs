//! Writing files of version 2.0: fields to columns, arrays to pages (file format 6).
//!
//! Each field has a column: leaves with their values, lists with the ends of their lists, structs with a page
//! without data. Columns fill their pages independently of each other. Structs cannot be null in this version.

mod binary;
mod dictionary;
mod fixed;
mod leaf;
mod list;
mod packed;
mod page;

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use pennon_core::file::{ArrayEncoding, PageLayout};
use pennon_core::schema::{Field, LogicalType};
use pennon_core::{Error, Result};

use crate::container::writer::{ContainerWriter, Page};
use crate::container::{is_blob, is_packed};
use crate::statistics::Collector;
use leaf::LeafWriter;
use list::ListWriter;

/// The writer of a field and of the fields below it.
#[derive(Debug)]
pub(crate) enum FieldWriter {
    /// Values.
    Leaf(LeafWriter),
    /// Ends of lists, and the items.
    List(Box<ListWriter>),
    /// Members.
    Struct(StructWriter),
}

/// What all writers of a field have in common.
#[derive(Debug)]
struct ColumnTarget {
    /// Dotted path, for errors.
    path: String,
    nullable: bool,
    /// Whether the column has a value for each row of the file: it is not below a list.
    is_of_rows: bool,
    column: usize,
    max_page_bytes: usize,
}

/// A struct: its members, and a page that counts its rows.
#[derive(Debug)]
pub(crate) struct StructWriter {
    target: ColumnTarget,
    rows: u64,
    members: Vec<(String, FieldWriter)>,
}

impl FieldWriter {
    /// A writer of a top-level field; `num_columns` counts the columns so far. Errors: `Unsupported`, with the field's
    /// path.
    pub(crate) fn new(field: &Field, num_columns: &mut usize, max_page_bytes: usize) -> Result<Self> {
        Self::below("", true, field, num_columns, max_page_bytes)
    }

    fn below(
        parent: &str,
        is_of_rows: bool,
        field: &Field,
        num_columns: &mut usize,
        max_page_bytes: usize,
    ) -> Result<Self> {
        let path = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
        let column = *num_columns;
        *num_columns += 1;
        let refuse = |why: &str| Err(Error::unsupported(format!("field `{path}`: {why}")));
        let target =
            |path| ColumnTarget { path, nullable: field.nullable, is_of_rows, column, max_page_bytes };
        match &field.logical_type {
            _ if is_packed(field) || is_blob(field) => Ok(Self::Leaf(LeafWriter::new(target(path), field)?)),
            LogicalType::Struct => {
                let member = |child: &Field| -> Result<(String, Self)> {
                    let member = Self::below(&path, is_of_rows, child, num_columns, max_page_bytes)?;
                    Ok((child.name.clone(), member))
                };
                let members = field.children.iter().map(member).collect::<Result<_>>()?;
                Ok(Self::Struct(StructWriter { target: target(path), rows: 0, members }))
            }
            LogicalType::Map => refuse("maps need file version 2.2, this file has 2.0"),
            LogicalType::FixedSizeList(..) if !field.children.is_empty() => {
                refuse("fixed-size lists of structs cannot be written in file version 2.0")
            }
            _ => match field.children.first() {
                None => Ok(Self::Leaf(LeafWriter::new(target(path), field)?)),
                Some(item) => {
                    let items = Self::below(&path, false, item, num_columns, max_page_bytes)?;
                    Ok(Self::List(Box::new(ListWriter::new(target(path), items))))
                }
            },
        }
    }

    /// Appends the rows of an array.
    ///
    /// Errors: `InvalidInput` for null structs; `SchemaMismatch` for nulls where none may be and for another
    /// type; `Store` when the sink fails.
    pub(crate) fn append<W: Write>(&mut self, array: &ArrayRef, out: &mut ContainerWriter<W>) -> Result<()> {
        match self {
            Self::Leaf(leaf) => leaf.append(array, out),
            Self::List(list) => list.append(array, out),
            Self::Struct(writer) => writer.append(array, out),
        }
    }

    /// Writes what was gathered; nothing can be appended afterwards.
    pub(crate) fn finish<W: Write>(&mut self, out: &mut ContainerWriter<W>) -> Result<()> {
        match self {
            Self::Leaf(leaf) => leaf.finish(out),
            Self::List(list) => list.finish(out),
            Self::Struct(writer) => writer.finish(out),
        }
    }

    /// Statistics of the values of each column, in column order.
    pub(crate) fn take_statistics(&mut self, columns: &mut Vec<Option<Collector>>) {
        match self {
            Self::Leaf(leaf) => columns.push(leaf.statistics.take()),
            Self::List(list) => {
                columns.push(None);
                list.items.take_statistics(columns);
            }
            Self::Struct(writer) => {
                columns.push(None);
                writer.members.iter_mut().for_each(|(_, member)| member.take_statistics(columns));
            }
        }
    }

    /// Bytes gathered and not written.
    pub(crate) fn pending_bytes(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.pending_bytes(),
            Self::List(list) => list.pending_bytes(),
            Self::Struct(writer) => writer.members.iter().map(|(_, member)| member.pending_bytes()).sum(),
        }
    }
}

impl StructWriter {
    fn append<W: Write>(&mut self, array: &ArrayRef, out: &mut ContainerWriter<W>) -> Result<()> {
        let structs = array.as_struct_opt().ok_or_else(|| self.target.mismatch(array))?;
        self.target.check_null_structs(structs.null_count())?;
        for (name, member) in &mut self.members {
            let values = structs.column_by_name(name).ok_or_else(|| {
                Error::schema_mismatch(format!(
                    "field `{}`: the data has no member `{name}`",
                    self.target.path
                ))
            })?;
            member.append(values, out)?;
        }
        self.rows += array.len() as u64;
        Ok(())
    }

    /// A header column has exactly one page, even without rows.
    fn finish<W: Write>(&mut self, out: &mut ContainerWriter<W>) -> Result<()> {
        let page = Page {
            num_rows: self.rows,
            layout: PageLayout::Array(ArrayEncoding::Struct),
            buffers: Vec::new(),
        };
        out.page(self.target.column, page, 0)?;
        self.members.iter_mut().try_for_each(|(_, member)| member.finish(out))
    }
}

impl ColumnTarget {
    fn mismatch(&self, array: &ArrayRef) -> Error {
        Error::schema_mismatch(format!(
            "field `{}`: data of type {} does not fit the schema's type",
            self.path,
            array.data_type()
        ))
    }

    /// Errors: `InvalidInput` for null structs.
    fn check_null_structs(&self, null_count: usize) -> Result<()> {
        if null_count == 0 {
            return Ok(());
        }
        self.check_nulls(null_count)?;
        Err(Error::invalid_input(format!(
            "field `{}`: {null_count} null structs, which file version 2.0 cannot hold; use file version 2.1 or later",
            self.path
        )))
    }

    /// Errors: `SchemaMismatch` for nulls in a field that must not have any.
    fn check_nulls(&self, null_count: usize) -> Result<()> {
        if null_count == 0 || self.nullable {
            return Ok(());
        }
        Err(Error::schema_mismatch(format!(
            "The field `{}` contained null values even though the field is marked non-null",
            self.path
        )))
    }
}
