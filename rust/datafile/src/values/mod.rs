//! Leaf values between pages and an Arrow array.
//!
//! A column's values of one read are appended page by page to one [`Values`], which then becomes the array; no
//! page has an array of its own. Nesting and nulls of rows are kept apart, see `repdef`.

mod array;
mod data;
mod leaf;
mod members;
mod validity;

pub(crate) use array::{arrow_error, leaf_array};
pub(crate) use data::{Data, Strings};
pub(crate) use leaf::{Leaf, Physical};
pub(crate) use members::members;
pub(crate) use validity::Validity;

use pennon_core::Result;

/// Values of a leaf: items one after another and, for fixed-size lists, which items are valid.
#[derive(Debug)]
pub(crate) struct Values {
    /// The items, [`Leaf::items`] for each row.
    pub data: Data,
    /// For each level of fixed-size list, outer first, which of its items are valid.
    pub item_validity: Vec<Validity>,
}

impl Values {
    /// Nothing yet, with room for this many rows.
    pub(crate) fn with_capacity(leaf: &Leaf, rows: usize) -> Result<Self> {
        let data = match leaf.physical {
            Physical::Packed => {
                let members = leaf.members.iter().map(|member| Self::with_capacity(member, rows));
                Data::Packed(members.collect::<Result<_>>()?)
            }
            physical => Data::with_capacity(physical, rows.saturating_mul(leaf.items()))?,
        };
        Ok(Self { data, item_validity: leaf.dimensions.iter().map(|_| Validity::default()).collect() })
    }

    /// Appends the values of that many null rows.
    pub(crate) fn append_filler(&mut self, leaf: &Leaf, rows: usize) -> Result<()> {
        match &mut self.data {
            Data::Packed(members) => {
                for (values, member) in members.iter_mut().zip(&leaf.members) {
                    values.append_filler(member, rows)?;
                }
            }
            data => data.append_filler(rows.saturating_mul(leaf.items()))?,
        }
        self.append_valid_items(leaf, rows);
        Ok(())
    }

    /// Marks all items of the next rows as valid.
    pub(crate) fn append_valid_items(&mut self, leaf: &Leaf, rows: usize) {
        let mut items = rows;
        for (validity, dimension) in self.item_validity.iter_mut().zip(&leaf.dimensions) {
            items *= dimension;
            validity.append_valid(items);
        }
    }
}
