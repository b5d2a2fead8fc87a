//! Dictionaries: of the writer's own making beneath plain strings, and of the dictionary type (file format 3.4).
//!
//! | type | an index `i` means | null |
//! |---|---|---|
//! | strings | item `i - 1` | index 0 |
//! | dictionary | item `i` | an item that is null |

use arrow_array::{Array as _, ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::file::ArrayEncoding;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::array::{Array, Shape};
use super::columns::Page;
use crate::encodings::flat::encode::zero;
use crate::encodings::le::Number;
use crate::source::Fetch;
use crate::values::{Data, Leaf, Physical, Validity, Values, arrow_error, leaf_array};

/// Rows of a dictionary array, and all of its items.
#[derive(Debug)]
pub(super) struct Dictionary<'a> {
    indices: Array<'a>,
    index_width: usize,
    items: Array<'a>,
}

impl<'a> Dictionary<'a> {
    /// Asks for the indices of rows and for the items and their number.
    pub(super) fn ask(
        page: &Page<'a>,
        indices: &'a ArrayEncoding,
        items: (&'a ArrayEncoding, u32),
        item: Physical,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<Self> {
        let index_width = index_width(indices)?;
        let shape = Shape { physical: Physical::Fixed(index_width), dimensions: &[] };
        let indices = Array::ask(page, indices, shape, rows, fetch)?;
        if matches!(items.0, ArrayEncoding::Dictionary { .. }) {
            return Err(Error::unsupported("a dictionary of a dictionary cannot be read"));
        }
        let shape = Shape { physical: item, dimensions: &[] };
        let items = Array::ask(page, items.0, shape, &RowRanges::from(0..u64::from(items.1)), fetch)?;
        Ok(Self { indices, index_width, items })
    }

    /// Takes the bytes of the pass before; returns whether there is a next one.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        // The indices have one pass, which comes first.
        self.indices.step(bytes, fetch)?;
        self.items.step(bytes, fetch)
    }

    fn finish(self, leaf: &Leaf) -> Result<(Indices, Values, Validity)> {
        let leaf_of_indices = Leaf {
            physical: Physical::Fixed(self.index_width),
            dimensions: Vec::new(),
            members: Vec::new(),
            data_type: DataType::Null,
        };
        let mut indices = Indices { data: Values::with_capacity(&leaf_of_indices, 0)?, nulls: None };
        let mut nulls = Validity::default();
        self.indices.append_to(&leaf_of_indices, &mut indices.data, &mut nulls)?;
        indices.nulls = nulls.finish();
        let mut items = Values::with_capacity(leaf, 0)?;
        let mut item_validity = Validity::default();
        self.items.append_to(leaf, &mut items, &mut item_validity)?;
        Ok((indices, items, item_validity))
    }

    /// Appends the items of plain strings.
    pub(super) fn append_to(self, leaf: &Leaf, out: &mut Data, nulls: &mut Validity) -> Result<()> {
        let (indices, items, item_validity) = self.finish(leaf)?;
        // Index 0 becomes one without item.
        let item_numbers: Vec<u64> = indices.iter()?.map(|index| index.wrapping_sub(1)).collect();
        let (before, mut missing) = (out.count(), Vec::new());
        out.gather(&items.data, &item_numbers, &mut missing)?;
        if let Some(item_number) = missing
            .iter()
            .filter_map(|&at| item_numbers.get(at - before))
            .find(|item_number| **item_number != u64::MAX)
        {
            return Err(no_item(item_number.wrapping_add(1), items.data.count()));
        }
        let item_nulls = item_validity.finish();
        for (at, &item_number) in item_numbers.iter().enumerate() {
            let item = usize::try_from(item_number).unwrap_or(usize::MAX);
            let valid = item_number != u64::MAX
                && indices.nulls.as_ref().is_none_or(|n| n.is_valid(at))
                && item_nulls.as_ref().is_none_or(|n| n.is_valid(item));
            nulls.append(valid);
        }
        Ok(())
    }

    /// The dictionary array of a dictionary type; `leaf` is the type of its items.
    pub(super) fn into_array(self, data_type: &DataType, leaf: &Leaf) -> Result<ArrayRef> {
        let (indices, items, item_validity) = self.finish(leaf)?;
        let num_items = items.data.count();
        let item_nulls = item_validity.finish();
        let items = leaf_array(leaf, items, num_items, item_nulls.clone())?;
        let mut nulls = indices.nulls.clone();
        if let Some(item_nulls) = item_nulls {
            // A null item makes null rows, as Arrow wants them.
            let valid: BooleanBuffer = indices
                .iter()?
                .map(|index| usize::try_from(index).is_ok_and(|i| i >= num_items || item_nulls.is_valid(i)))
                .collect();
            nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(valid)));
        }
        if let Some(index) = indices.iter()?.find(|&index| index >= num_items as u64) {
            return Err(no_item(index, num_items));
        }
        let key = match data_type {
            DataType::Dictionary(key, _) => key.primitive_width(),
            _ => None,
        };
        if key != Some(self_width(&indices)) {
            return Err(Error::corrupt(format!(
                "dictionary indices of {} bytes for type {data_type}",
                self_width(&indices)
            )));
        }
        let len = indices.iter()?.len();
        let Data::Fixed { width, mut bytes } = indices.data.data else {
            return Err(Error::internal("dictionary indices without width"));
        };
        // The null item at the end has done its work; few readers of Arrow expect one.
        let last_is_null = num_items > 0 && items.is_null(num_items - 1);
        let items = if last_is_null { items.slice(0, num_items - 1) } else { items };
        if let Some(nulls) = &nulls {
            zero(&mut bytes, width, (!nulls.inner()).set_indices());
        }
        let array = ArrayData::builder(data_type.clone())
            .len(len)
            .add_buffer(bytes.into())
            .nulls(nulls)
            .add_child_data(items.to_data())
            .build();
        Ok(make_array(array.map_err(arrow_error)?))
    }
}

/// Indices as they are stored.
#[derive(Debug)]
struct Indices {
    data: Values,
    nulls: Option<NullBuffer>,
}

impl Indices {
    fn iter(&self) -> Result<Box<dyn ExactSizeIterator<Item = u64> + '_>> {
        let Data::Fixed { width, bytes } = &self.data.data else {
            return Err(Error::internal("dictionary indices without width"));
        };
        Ok(match width {
            1 => Box::new(u8::iter(bytes).map(u64::from)),
            2 => Box::new(u16::iter(bytes).map(u64::from)),
            4 => Box::new(u32::iter(bytes).map(u64::from)),
            _ => Box::new(u64::iter(bytes)),
        })
    }
}

fn self_width(indices: &Indices) -> usize {
    match indices.data.data {
        Data::Fixed { width, .. } => width,
        _ => 0,
    }
}

fn no_item(index: u64, items: usize) -> Error {
    Error::corrupt(format!("dictionary index {index}, there are {items} items"))
}

fn index_width(indices: &ArrayEncoding) -> Result<usize> {
    match indices {
        ArrayEncoding::NoNulls(values) | ArrayEncoding::SomeNulls { values, .. } => index_width(values),
        ArrayEncoding::Flat(flat) => match flat.bits_per_value {
            8 => Ok(1),
            16 => Ok(2),
            32 => Ok(4),
            64 => Ok(8),
            bits => Err(Error::corrupt(format!("dictionary indices of {bits} bits"))),
        },
        // No row has one.
        ArrayEncoding::AllNulls => Ok(1),
        other => Err(Error::unsupported(format!(
            "dictionary indices of encoding `{}` cannot be read",
            other.name()
        ))),
    }
}
