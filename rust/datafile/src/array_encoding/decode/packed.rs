//! A packed struct of a read: its members, of fixed width and without nulls, row by row in one buffer.

use std::sync::Arc;

use arrow_array::{ArrayRef, StructArray};
use arrow_buffer::MutableBuffer;
use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::{ArrayEncoding, FlatArray};
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, Result};

use super::columns::{Column, Page};
use super::flat::Flat;
use crate::encodings::le::check_allocation;
use crate::source::Fetch;
use crate::values::{Data, Leaf, Physical, Validity, Values, arrow_error, leaf_array};

/// Rows of a packed struct.
#[derive(Debug)]
pub(super) struct PackedRead<'a> {
    column: Column<'a>,
    field: &'a Field,
    /// The members that are read.
    members: Vec<Member>,
    /// Bytes of each member of the file, and of a row.
    widths: Vec<usize>,
    rows: usize,
    pages: Vec<(Page<'a>, RowRanges, Option<Flat<'a>>)>,
}

#[derive(Debug)]
struct Member {
    leaf: Leaf,
    /// Position of the member in a row.
    start: usize,
    width: usize,
}

impl<'a> PackedRead<'a> {
    /// `schema` is the file's own: it has all members, of which `field` may have some.
    pub(super) fn new(
        column: Column<'a>,
        field: &'a Field,
        schema: &Schema,
        rows: &RowRanges,
    ) -> Result<Self> {
        let stored = schema.depth_first().find(|f| f.id == field.id).unwrap_or(field);
        let mut widths = Vec::with_capacity(stored.children.len());
        let mut members = Vec::with_capacity(field.children.len());
        let mut start = 0;
        for member in &stored.children {
            let leaf = Leaf::of(&member.data_type()).at(|| &column)?;
            let Physical::Fixed(width) = leaf.physical else {
                return Err(Error::unsupported(format!(
                    "{column}: a packed struct with a member of type {} cannot be read",
                    leaf.data_type
                )));
            };
            let width = width.saturating_mul(leaf.items());
            widths.push(width);
            if field.children.iter().any(|wanted| wanted.id == member.id) {
                members.push(Member { leaf, start, width });
            }
            start += width;
        }
        if members.len() != field.children.len() {
            return Err(Error::corrupt(format!("{column}: the packed struct of the file has other members")));
        }
        let pages = column.split(rows)?.into_iter().map(|(page, rows)| (page, rows, None)).collect();
        Ok(Self { rows: super::count(rows).at(|| &column)?, column, field, members, widths, pages })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        let mut more = false;
        for (page, rows, flat) in &mut self.pages {
            let location = || self.column.location(page);
            match flat {
                Some(flat) => flat.take(bytes).at(location)?,
                None => {
                    *flat = Some(ask(page, &self.widths, rows, fetch).at(location)?);
                    more = true;
                }
            }
        }
        Ok(more)
    }

    /// The array.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let row: usize = self.widths.iter().sum();
        let mut arrays = Vec::with_capacity(self.members.len());
        for member in &self.members {
            check_allocation(self.rows.saturating_mul(member.width)).at(|| &self.column)?;
            let mut bytes = MutableBuffer::with_capacity(self.rows * member.width);
            for flat in self.pages.iter().filter_map(|(_, _, flat)| flat.as_ref()) {
                for part in flat.bytes()? {
                    for row in part.chunks_exact(row.max(1)) {
                        let value = row.get(member.start..member.start + member.width);
                        bytes.extend_from_slice(value.unwrap_or_default());
                    }
                }
            }
            let items = member.leaf.items().max(1);
            let data = Data::Fixed { width: member.width / items, bytes };
            let mut values = Values { data, item_validity: Vec::new() };
            values.item_validity.extend(member.leaf.dimensions.iter().map(|_| Validity::default()));
            arrays.push(leaf_array(&member.leaf, values, self.rows, None).at(|| &self.column)?);
        }
        let members = self.field.children.iter().map(|child| Arc::new(child.to_arrow())).collect();
        let array = StructArray::try_new_with_length(members, arrays, None, self.rows);
        Ok(Arc::new(array.map_err(arrow_error).at(|| &self.column)?))
    }
}

fn ask<'a>(page: &Page<'a>, widths: &[usize], rows: &RowRanges, fetch: &mut Fetch) -> Result<Flat<'a>> {
    let ArrayEncoding::PackedStruct { members, buffer } = page.encoding else {
        let name = page.encoding.name();
        return Err(Error::unsupported(format!("encoding `{name}` cannot be read as a packed struct")));
    };
    let found = members.iter().map(bits).collect::<Result<Vec<u64>>>()?;
    if !found.iter().copied().eq(widths.iter().map(|&width| width as u64 * 8)) {
        return Err(Error::corrupt(format!("members of {found:?} bits, the type has {widths:?} bytes")));
    }
    let bits: usize = widths.iter().sum::<usize>().saturating_mul(8);
    let flat = FlatArray { bits_per_value: bits as u64, buffer: *buffer, compression: None };
    Flat::ask(page, &flat, bits, rows.as_slice().to_vec(), fetch)
}

/// Bits of a member.
fn bits(member: &ArrayEncoding) -> Result<u64> {
    match member {
        ArrayEncoding::NoNulls(values) => bits(values),
        ArrayEncoding::Flat(flat) => Ok(flat.bits_per_value),
        ArrayEncoding::FixedSizeList { dimension, items } => {
            Ok(bits(items)?.saturating_mul(u64::from(*dimension)))
        }
        other => Err(Error::unsupported(format!(
            "a packed struct with a member of encoding `{}` cannot be read",
            other.name()
        ))),
    }
}
