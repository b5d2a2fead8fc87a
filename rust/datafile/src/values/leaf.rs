//! What a leaf type looks like as bytes: its items and how many make a row.

use arrow_schema::DataType;
use pennon_core::{Error, Result};

/// Items of a leaf in memory, as Arrow has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Physical {
    /// No bytes at all: null, or a struct without members.
    None,
    /// One bit.
    Bits,
    /// This many bytes.
    Fixed(usize),
    /// Offsets of 32 bits, and bytes.
    Variable32,
    /// Offsets of 64 bits, and bytes.
    Variable64,
    /// The members of a packed struct, each in buffers of its own.
    Packed,
}

/// A leaf type split into items and dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// One item.
    pub physical: Physical,
    /// Dimensions of the fixed-size lists around it, outer first.
    pub dimensions: Vec<usize>,
    /// Members of a packed struct; empty for all else.
    pub members: Vec<Leaf>,
    /// The Arrow type of a row.
    pub data_type: DataType,
}

impl Leaf {
    /// Splits a type. Errors: `Unsupported` for types without a leaf form.
    pub(crate) fn of(data_type: &DataType) -> Result<Self> {
        let mut dimensions = Vec::new();
        let mut item = data_type;
        while let DataType::FixedSizeList(child, dimension) = item {
            dimensions.push(
                usize::try_from(*dimension)
                    .map_err(|_| Error::invalid_input(format!("fixed-size list of {dimension} items")))?,
            );
            item = child.data_type();
        }
        let mut members = Vec::new();
        let physical = match item {
            DataType::Null => Physical::None,
            DataType::Struct(fields) if fields.is_empty() => Physical::None,
            DataType::Boolean => Physical::Bits,
            DataType::Struct(fields) if dimensions.is_empty() => {
                members = fields.iter().map(|f| Self::of(f.data_type())).collect::<Result<_>>()?;
                if members.iter().any(|m| matches!(m.physical, Physical::None | Physical::Packed)) {
                    return Err(Error::unsupported(format!("{data_type} cannot be a packed struct")));
                }
                Physical::Packed
            }
            DataType::Utf8 | DataType::Binary if dimensions.is_empty() => Physical::Variable32,
            DataType::LargeUtf8 | DataType::LargeBinary if dimensions.is_empty() => Physical::Variable64,
            DataType::FixedSizeBinary(width) => Physical::Fixed(
                usize::try_from(*width)
                    .map_err(|_| Error::invalid_input(format!("fixed-size binary of {width} bytes")))?,
            ),
            other => match other.primitive_width() {
                Some(width) => Physical::Fixed(width),
                None => return Err(Error::unsupported(format!("values of type {data_type} cannot be read"))),
            },
        };
        let leaf = Self { physical, dimensions, members, data_type: data_type.clone() };
        match leaf.checked_items() {
            Some(_) => Ok(leaf),
            None => Err(Error::unsupported(format!("values of type {data_type} are too large"))),
        }
    }

    fn checked_items(&self) -> Option<usize> {
        const LIMIT: usize = 1 << 28;
        self.dimensions.iter().try_fold(1usize, |n, d| n.checked_mul(*d).filter(|&n| n <= LIMIT))
    }

    /// Items of a row.
    pub(crate) fn items(&self) -> usize {
        self.checked_items().unwrap_or(usize::MAX)
    }
}
