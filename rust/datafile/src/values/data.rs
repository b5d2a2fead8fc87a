//! Items one after another in the buffers of an Arrow array.

use arrow_array::OffsetSizeTrait;
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, MutableBuffer, i256};
use pennon_core::{Error, Result};

use super::{Physical, Values};
use crate::encodings::le::{Number, check_allocation, reserve};

/// Buffers that grow with each page.
#[derive(Debug)]
pub(crate) enum Data {
    /// Only a count.
    None,
    /// A bitmap.
    Bits(BooleanBufferBuilder),
    /// Items of `width` bytes.
    Fixed {
        /// Bytes of an item.
        width: usize,
        /// The items.
        bytes: MutableBuffer,
    },
    /// 32-bit offsets.
    Variable32(Strings<i32>),
    /// 64-bit offsets.
    Variable64(Strings<i64>),
    /// Members of packed structs, as many values of each.
    Packed(Vec<Values>),
}

/// Bytes after the last item of a dictionary, and the most bytes of an item that are copied all the same.
const SLACK: usize = 32;

/// Offsets (starting with 0) and bytes.
#[derive(Debug)]
pub(crate) struct Strings<O> {
    /// One more than there are values.
    pub offsets: Vec<O>,
    /// The bytes of all values.
    pub bytes: Vec<u8>,
}

impl<O: OffsetSizeTrait> Strings<O> {
    fn with_capacity(n: usize) -> Result<Self> {
        check_allocation(n.saturating_add(1).saturating_mul(size_of::<O>()))?;
        let mut offsets = Vec::with_capacity(n + 1);
        offsets.push(O::zero());
        Ok(Self { offsets, bytes: Vec::new() })
    }

    /// Errors: `InvalidInput` when the offsets cannot count that many bytes.
    pub(crate) fn check_end(&self, end: usize) -> Result<()> {
        if O::from_usize(end).is_some() {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "{end} bytes of strings or binary in one array with {}-bit offsets; read smaller ranges of rows",
            size_of::<O>() * 8
        )))
    }

    /// Appends one value.
    pub(crate) fn append(&mut self, value: &[u8]) -> Result<()> {
        self.append_with(|bytes| {
            bytes.extend_from_slice(value);
            Ok(())
        })
    }

    /// Appends a value so many times.
    pub(crate) fn append_n(&mut self, value: &[u8], n: usize) -> Result<()> {
        let total = n.saturating_mul(value.len());
        self.check_end(self.bytes.len().saturating_add(total))?;
        reserve(&mut self.bytes, total)?;
        reserve(&mut self.offsets, n)?;
        for _ in 0..n {
            self.bytes.extend_from_slice(value);
            self.offsets.push(O::usize_as(self.bytes.len()));
        }
        Ok(())
    }

    /// Appends one value, whose bytes the closure appends.
    pub(crate) fn append_with(&mut self, put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        put(&mut self.bytes)?;
        self.check_end(self.bytes.len())?;
        self.offsets.push(O::usize_as(self.bytes.len()));
        Ok(())
    }

    /// Appends empty values.
    pub(crate) fn append_empty(&mut self, n: usize) {
        let last = O::usize_as(self.bytes.len());
        self.offsets.extend(std::iter::repeat_n(last, n));
    }

    /// Appends the items with these indices; an index without item becomes empty and its position is added to
    /// `missing`. It is faster for items with [`SLACK`] bytes after them.
    fn gather<T: Number>(&mut self, items: &Self, indices: &[T], missing: &mut Vec<usize>) -> Result<()> {
        let base = self.offsets.len() - 1;
        let ends: &[O] = items.offsets.get(1..).unwrap_or_default();
        let len = |i: &T| match (items.offsets.get(i.size()), ends.get(i.size())) {
            (Some(start), Some(end)) => end.as_usize() - start.as_usize(),
            _ => 0,
        };
        let total: usize = indices.iter().map(len).sum();
        self.check_end(self.bytes.len().saturating_add(total))?;
        let start = self.bytes.len();
        reserve(&mut self.bytes, total.saturating_add(SLACK))?;
        self.bytes.resize(start + total + SLACK, 0);
        self.offsets.reserve(indices.len());
        let target = self.bytes.get_mut(start..).unwrap_or_default();
        let mut at = 0;
        for (position, index) in indices.iter().enumerate() {
            let item = (items.offsets.get(index.size()), ends.get(index.size()));
            if let (Some(from), Some(to)) = item {
                let (from, len) = (from.as_usize(), to.as_usize() - from.as_usize());
                let (item, target) = (items.bytes.get(from..), target.get_mut(at..));
                let (Some(item), Some(target)) = (item, target) else {
                    return Err(Error::internal("dictionary items beyond their bytes"));
                };
                // A fixed number of bytes is copied much faster; what is too much is overwritten or cut off.
                if len <= SLACK
                    && let (Some(item), Some(target)) =
                        (item.first_chunk::<SLACK>(), target.first_chunk_mut())
                {
                    *target = *item;
                } else if let (Some(item), Some(target)) = (item.get(..len), target.get_mut(..len)) {
                    target.copy_from_slice(item);
                } else {
                    return Err(Error::internal("dictionary items beyond their bytes"));
                }
                at += len;
            } else {
                missing.push(base + position);
            }
            self.offsets.push(O::usize_as(start + at));
        }
        self.bytes.truncate(start + at);
        Ok(())
    }
}

impl Data {
    /// Empty buffers with room for `n` items.
    pub(crate) fn with_capacity(physical: Physical, n: usize) -> Result<Self> {
        Ok(match physical {
            Physical::None => Self::None,
            Physical::Bits => {
                check_allocation(n / 8)?;
                Self::Bits(BooleanBufferBuilder::new(n))
            }
            Physical::Fixed(width) => {
                let bytes = n.saturating_mul(width);
                check_allocation(bytes)?;
                Self::Fixed { width, bytes: MutableBuffer::with_capacity(bytes) }
            }
            Physical::Variable32 => Self::Variable32(Strings::with_capacity(n)?),
            Physical::Variable64 => Self::Variable64(Strings::with_capacity(n)?),
            Physical::Packed => return Err(Error::internal("a packed struct without its members")),
        })
    }

    /// Makes room for value bytes of strings; the size of other forms is known from the start.
    pub(crate) fn reserve_bytes(&mut self, len: usize) -> Result<()> {
        match self {
            Self::Variable32(s) => reserve(&mut s.bytes, len),
            Self::Variable64(s) => reserve(&mut s.bytes, len),
            _ => Ok(()),
        }
    }

    /// Appends zero, false or empty items, not of packed structs.
    pub(crate) fn append_filler(&mut self, n: usize) -> Result<()> {
        match self {
            Self::None => {}
            Self::Bits(bits) => bits.append_n(n, false),
            Self::Fixed { width, bytes } => {
                check_allocation(n.saturating_mul(*width))?;
                bytes.extend_zeros(n * *width);
            }
            Self::Variable32(s) => s.append_empty(n),
            Self::Variable64(s) => s.append_empty(n),
            Self::Packed(_) => return Err(Error::internal("a packed struct without its members")),
        }
        Ok(())
    }

    /// Appends the description of a blob.
    pub(crate) fn append_description(&mut self, position: u64, size: u64) -> Result<()> {
        if let Self::Packed(members) = self
            && let [positions, sizes] = members.as_mut_slice()
            && let (Self::Fixed { bytes: positions, .. }, Self::Fixed { bytes: sizes, .. }) =
                (&mut positions.data, &mut sizes.data)
        {
            positions.extend_from_slice(&position.to_le_bytes());
            sizes.extend_from_slice(&size.to_le_bytes());
            return Ok(());
        }
        Err(Error::internal("descriptions of blobs for another type"))
    }

    /// Items so far; 0 where only a count would exist, and of packed structs.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::None | Self::Packed(_) => 0,
            Self::Bits(bits) => bits.len(),
            Self::Fixed { width, bytes } => bytes.len() / (*width).max(1),
            Self::Variable32(s) => s.offsets.len() - 1,
            Self::Variable64(s) => s.offsets.len() - 1,
        }
    }

    /// Bytes of memory, about.
    pub(crate) fn memory_size(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Bits(bits) => bits.len() / 8,
            Self::Fixed { bytes, .. } => bytes.capacity(),
            Self::Variable32(s) => s.offsets.capacity() * 4 + s.bytes.capacity(),
            Self::Variable64(s) => s.offsets.capacity() * 8 + s.bytes.capacity(),
            Self::Packed(members) => members.iter().map(|m| m.data.memory_size()).sum(),
        }
    }

    /// Makes this the items of a dictionary: adds bytes after them that make [`Self::gather`] fast.
    pub(crate) fn into_items(mut self) -> Self {
        match &mut self {
            Self::Variable32(items) => items.bytes.resize(items.bytes.len() + SLACK, 0),
            Self::Variable64(items) => items.bytes.resize(items.bytes.len() + SLACK, 0),
            _ => {}
        }
        self
    }

    /// Appends the items with these indices; an index without item becomes a filler and its position is added to
    /// `missing`.
    pub(crate) fn gather<T: Number>(
        &mut self,
        items: &Self,
        indices: &[T],
        missing: &mut Vec<usize>,
    ) -> Result<()> {
        match (self, items) {
            (Self::Fixed { width, bytes }, Self::Fixed { bytes: items, width: item_width })
                if width == item_width =>
            {
                let base = bytes.len() / (*width).max(1);
                match *width {
                    1 => gather_fixed(items.typed_data::<u8>(), indices, base, bytes, missing),
                    2 => gather_fixed(items.typed_data::<u16>(), indices, base, bytes, missing),
                    4 => gather_fixed(items.typed_data::<u32>(), indices, base, bytes, missing),
                    8 => gather_fixed(items.typed_data::<u64>(), indices, base, bytes, missing),
                    16 => gather_fixed(items.typed_data::<i128>(), indices, base, bytes, missing),
                    32 => gather_fixed(items.typed_data::<i256>(), indices, base, bytes, missing),
                    width => {
                        for (position, index) in indices.iter().enumerate() {
                            let start = index.size().saturating_mul(width);
                            match items.as_slice().get(start..start.saturating_add(width)) {
                                Some(item) => bytes.extend_from_slice(item),
                                None => {
                                    missing.push(base + position);
                                    bytes.extend_zeros(width);
                                }
                            }
                        }
                    }
                }
                Ok(())
            }
            (Self::Bits(out), Self::Bits(items)) => {
                let base = out.len();
                for (position, index) in indices.iter().enumerate() {
                    let is_there = index.size() < items.len();
                    if !is_there {
                        missing.push(base + position);
                    }
                    out.append(is_there && items.get_bit(index.size()));
                }
                Ok(())
            }
            (Self::Variable32(out), Self::Variable32(items)) => out.gather(items, indices, missing),
            (Self::Variable64(out), Self::Variable64(items)) => out.gather(items, indices, missing),
            _ => Err(Error::internal("dictionary items of another type than the values")),
        }
    }
}

fn gather_fixed<V: ArrowNativeType, T: Number>(
    items: &[V],
    indices: &[T],
    base: usize,
    out: &mut MutableBuffer,
    missing: &mut Vec<usize>,
) {
    if indices.iter().all(|i| i.size() < items.len()) {
        out.extend(indices.iter().map(|i| items.get(i.size()).copied().unwrap_or_default()));
        return;
    }
    for (position, index) in indices.iter().enumerate() {
        let item = items.get(index.size()).copied();
        if item.is_none() {
            missing.push(base + position);
        }
        out.push(item.unwrap_or_default());
    }
}
