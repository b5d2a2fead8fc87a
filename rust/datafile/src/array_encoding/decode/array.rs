//! One array of a page: its nulls and its values, according to the encoding tree.

use bytes::Bytes;
use pennon_core::file::{ArrayEncoding, FlatArray};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::binary::Binary;
use super::blobs::Blobs;
use super::columns::Page;
use super::dictionary::Dictionary;
use super::flat::Flat;
use crate::source::Fetch;
use crate::values::{Leaf, Physical, Validity, Values};

/// Rows of an array.
#[derive(Debug)]
pub(super) struct Array<'a> {
    rows: usize,
    nulls: Nulls<'a>,
    values: Form<'a>,
}

#[derive(Debug)]
enum Nulls<'a> {
    /// No nulls, or the encoding of the values has them.
    Values,
    All,
    Bitmap(Flat<'a>),
}

#[derive(Debug)]
enum Form<'a> {
    Nothing,
    Flat(Flat<'a>),
    FixedSizeList(Box<Array<'a>>),
    Binary(Box<Binary<'a>>),
    Dictionary(Box<Dictionary<'a>>),
    Blobs(Blobs<'a>),
}

/// What an array must be: items and the fixed-size lists that are still around them, outer first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    pub physical: Physical,
    pub dimensions: &'a [usize],
}

impl<'a> Shape<'a> {
    pub(super) fn of(leaf: &'a Leaf) -> Self {
        Self { physical: leaf.physical, dimensions: &leaf.dimensions }
    }
}

impl<'a> Array<'a> {
    /// Requests rows of a page.
    pub(super) fn ask(
        page: &Page<'a>,
        encoding: &'a ArrayEncoding,
        shape: Shape<'_>,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<Self> {
        let (nulls, values) = match encoding {
            ArrayEncoding::AllNulls => (Nulls::All, Form::Nothing),
            ArrayEncoding::SomeNulls { validity, values } => {
                let bitmap = Flat::ask(page, validity, 1, rows.as_slice().to_vec(), fetch)?;
                let values = Form::ask(page, values, shape, rows, fetch)?;
                if !matches!(values, Form::Flat(_) | Form::FixedSizeList(_)) {
                    return Err(unsupported(encoding, "with a bitmap of nulls"));
                }
                (Nulls::Bitmap(bitmap), values)
            }
            _ => (Nulls::Values, Form::ask(page, encoding, shape, rows, fetch)?),
        };
        Ok(Self { rows: super::count(rows)?, nulls, values })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        if let Nulls::Bitmap(bitmap) = &mut self.nulls {
            bitmap.take(bytes)?;
        }
        match &mut self.values {
            Form::Nothing => Ok(false),
            Form::Flat(flat) => flat.take(bytes).map(|()| false),
            Form::FixedSizeList(items) => items.step(bytes, fetch),
            Form::Binary(binary) => binary.step(bytes, fetch),
            Form::Dictionary(dictionary) => dictionary.step(bytes, fetch),
            Form::Blobs(blobs) => blobs.step(bytes, fetch),
        }
    }

    /// Appends the rows, and for each whether it is valid.
    pub(super) fn append_to(self, leaf: &Leaf, out: &mut Values, nulls: &mut Validity) -> Result<()> {
        self.append_level(leaf, 0, out, nulls)
    }

    /// `level` fixed-size lists are around the array; validity of level 0 goes to `rows`.
    fn append_level(self, leaf: &Leaf, level: usize, out: &mut Values, rows: &mut Validity) -> Result<()> {
        let validity = match level.checked_sub(1) {
            None => &mut *rows,
            Some(at) => {
                let items = out.item_validity.get_mut(at);
                items.ok_or_else(|| Error::internal("more fixed-size lists than the type has"))?
            }
        };
        match (&self.nulls, &self.values) {
            (Nulls::All, _) => {
                validity.append_null(self.rows);
                let mut items = self.rows;
                for (at, dimension) in leaf.dimensions.iter().enumerate().skip(level) {
                    items = items.saturating_mul(*dimension);
                    if let Some(inner) = out.item_validity.get_mut(at) {
                        inner.append_valid(items);
                    }
                }
                return out.data.append_filler(items);
            }
            (Nulls::Bitmap(bitmap), _) => bitmap.append_validity(validity)?,
            (Nulls::Values, Form::Flat(_) | Form::FixedSizeList(_)) => validity.append_valid(self.rows),
            (Nulls::Values, _) => {}
        }
        match self.values {
            Form::Nothing => Ok(()),
            Form::Flat(flat) => flat.append_to(&mut out.data),
            Form::FixedSizeList(items) => items.append_level(leaf, level + 1, out, rows),
            Form::Binary(binary) => binary.append_to(&mut out.data, validity),
            Form::Dictionary(dictionary) => dictionary.append_to(leaf, &mut out.data, validity),
            Form::Blobs(blobs) => blobs.append_to(&mut out.data, validity),
        }
    }
}

impl<'a> Form<'a> {
    fn ask(
        page: &Page<'a>,
        encoding: &'a ArrayEncoding,
        shape: Shape<'_>,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<Self> {
        use ArrayEncoding as E;
        let is_binary = matches!(shape.physical, Physical::Variable32 | Physical::Variable64);
        Ok(match (encoding, shape.dimensions) {
            (E::NoNulls(values), _) => Self::ask(page, values, shape, rows, fetch)?,
            (E::Flat(flat), []) => match shape.physical {
                Physical::Bits => Self::Flat(Flat::ask(page, flat, 1, rows.as_slice().to_vec(), fetch)?),
                Physical::Fixed(width) => Self::Flat(Flat::ask(
                    page,
                    flat,
                    width.saturating_mul(8),
                    rows.as_slice().to_vec(),
                    fetch,
                )?),
                _ => return Err(unsupported(encoding, "for this type")),
            },
            (E::FixedSizeList { dimension, items }, [expected, inner @ ..]) => {
                if u64::from(*dimension) != *expected as u64 {
                    return Err(Error::corrupt(format!(
                        "lists of {dimension} items, the type has {expected}"
                    )));
                }
                let scaled = rows.scaled((*dimension).into());
                let rows = scaled.ok_or_else(|| {
                    Error::corrupt(format!("{} rows of {dimension} items", rows.span().end))
                })?;
                let shape = Shape { dimensions: inner, ..shape };
                let page = Page { values: page.values.saturating_mul((*dimension).into()), ..*page };
                Self::FixedSizeList(Box::new(Array::ask(&page, items, shape, &rows, fetch)?))
            }
            (E::Binary(binary), []) if is_binary => {
                Self::Binary(Box::new(Binary::ask(page, binary, None, rows, fetch)?))
            }
            (E::Fsst { codes, symbol_table }, []) if is_binary => {
                Self::Binary(Box::new(Binary::ask(page, codes, Some(symbol_table), rows, fetch)?))
            }
            (E::Dictionary { indices, items, num_items }, []) if is_binary => Self::Dictionary(Box::new(
                Dictionary::ask(page, indices, (items, *num_items), shape.physical, rows, fetch)?,
            )),
            (E::PackedStruct { members, buffer }, [])
                if (is_binary || shape.physical == Physical::Packed) && is_descriptor(members) =>
            {
                let flat = FlatArray { bits_per_value: 128, buffer: *buffer, compression: None };
                let descriptors = Flat::ask(page, &flat, 128, rows.as_slice().to_vec(), fetch)?;
                Self::Blobs(Blobs::new(descriptors, page.file_size, is_binary))
            }
            _ => return Err(unsupported(encoding, "for this type")),
        })
    }
}

/// Position and size of a blob.
fn is_descriptor(members: &[ArrayEncoding]) -> bool {
    let is_number = |member: &ArrayEncoding| match member {
        ArrayEncoding::NoNulls(values) => {
            matches!(values.as_ref(), ArrayEncoding::Flat(flat) if flat.bits_per_value == 64)
        }
        _ => false,
    };
    matches!(members, [position, size] if is_number(position) && is_number(size))
}

fn unsupported(encoding: &ArrayEncoding, why: &str) -> Error {
    Error::unsupported(format!("encoding `{}` {why} cannot be read", encoding.name()))
}
