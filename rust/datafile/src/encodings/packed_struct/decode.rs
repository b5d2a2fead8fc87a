//! Rows back to members.

use std::ops::Range;

use arrow_buffer::MutableBuffer;
use pennon_core::file::{CompressiveEncoding, FullZipWidth, PackedMember};
use pennon_core::{Error, Result};

use crate::encodings::codec::{Codec, Scratch};
use crate::encodings::le::{Number, bytes_at, check_allocation, number_at};
use crate::values::{Data, Leaf, Physical, Values};

/// Packed structs whose members have a fixed width: the position of each member in a row.
#[derive(Debug)]
pub(crate) struct FixedRows {
    /// Bytes of a row.
    row: usize,
    /// Bytes of each member.
    widths: Vec<usize>,
}

/// Packed structs with members of variable width.
#[derive(Debug)]
pub(crate) struct VariableRows {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    codec: Codec,
    width: Width,
}

#[derive(Debug)]
enum Width {
    /// Bytes of each buffer of a value: bitmaps of list items, then the items.
    Fixed(Vec<usize>),
    /// Bytes of the length.
    Variable(usize),
}

impl FixedRows {
    /// Checks the encoding against the members. Errors: `Corrupt`, and `Unsupported` for members of single bits.
    pub(crate) fn compile(bits: &[u64], rows: &CompressiveEncoding, leaf: &Leaf) -> Result<Self> {
        let mut widths = Vec::with_capacity(leaf.members.len());
        for member in &leaf.members {
            match member.physical {
                Physical::Fixed(width) => widths.push(width.saturating_mul(member.items())),
                _ => {
                    return Err(Error::unsupported(format!(
                        "packed structs with a member of type {} in this form cannot be read",
                        member.data_type
                    )));
                }
            }
        }
        let row: usize = widths.iter().sum();
        if !bits.iter().copied().eq(widths.iter().map(|&w| w as u64 * 8)) {
            return Err(Error::corrupt(format!(
                "packed struct of members of {bits:?} bits, the type has {widths:?} bytes"
            )));
        }
        match rows {
            CompressiveEncoding::Flat { bits_per_value } if *bits_per_value == row as u64 * 8 => {
                Ok(Self { row, widths })
            }
            other => Err(Error::unsupported(format!("rows of packed structs in the form {other:?}"))),
        }
    }

    /// Appends parts of `n` rows.
    pub(crate) fn append(
        &self,
        bytes: &[u8],
        n: usize,
        slices: &[Range<usize>],
        members: &mut [Values],
    ) -> Result<()> {
        let bytes = bytes_at(bytes, 0, n.saturating_mul(self.row))?;
        let mut at = 0;
        for (values, &width) in members.iter_mut().zip(&self.widths) {
            let Data::Fixed { bytes: out, .. } = &mut values.data else {
                return Err(Error::internal("a member of a packed struct without width"));
            };
            for slice in slices {
                let rows = bytes_at(bytes, slice.start * self.row, slice.len() * self.row)?;
                match width {
                    1 => column::<1>(rows, self.row, at, out),
                    2 => column::<2>(rows, self.row, at, out),
                    4 => column::<4>(rows, self.row, at, out),
                    8 => column::<8>(rows, self.row, at, out),
                    16 => column::<16>(rows, self.row, at, out),
                    _ => rows.chunks_exact(self.row.max(1)).for_each(|row| {
                        out.extend_from_slice(row.get(at..at + width).unwrap_or_default());
                    }),
                }
            }
            at += width;
        }
        Ok(())
    }
}

/// Appends the `W` bytes at a position of each row.
fn column<const W: usize>(rows: &[u8], row: usize, at: usize, out: &mut MutableBuffer) {
    let start = out.len();
    out.resize(start + rows.len() / row.max(1) * W, 0);
    let target = out.as_slice_mut().get_mut(start..).unwrap_or_default();
    for (value, row) in target.as_chunks_mut::<W>().0.iter_mut().zip(rows.chunks_exact(row.max(1))) {
        if let Some(found) = row.get(at..).and_then(|rest| rest.first_chunk::<W>()) {
            *value = *found;
        }
    }
}

impl VariableRows {
    /// Checks the encoding against the members. Errors: as [`Codec::compile`].
    pub(crate) fn compile(encodings: &[PackedMember], leaf: &Leaf) -> Result<Self> {
        if encodings.len() != leaf.members.len() {
            return Err(Error::corrupt(format!(
                "packed struct of {} members, the type has {}",
                encodings.len(),
                leaf.members.len()
            )));
        }
        let member = |(encoding, leaf): (&PackedMember, &Leaf)| {
            let codec = Codec::compile(&encoding.values, leaf.physical, &leaf.dimensions)?;
            let width = match encoding.width {
                FullZipWidth::Fixed(bits) => Width::Fixed(codec.value_parts(leaf, bits)?),
                FullZipWidth::Variable(bits) => {
                    if !matches!(leaf.physical, Physical::Variable32 | Physical::Variable64) {
                        return Err(Error::corrupt(format!(
                            "lengths before values of type {}",
                            leaf.data_type
                        )));
                    }
                    Width::Variable(if bits == 64 { 8 } else { 4 })
                }
            };
            Ok(Member { codec, width })
        };
        Ok(Self { members: encodings.iter().zip(&leaf.members).map(member).collect::<Result<_>>()? })
    }

    /// Appends one row.
    pub(crate) fn append(&self, bytes: &[u8], members: &mut [Values], scratch: &mut Scratch) -> Result<()> {
        let mut at = 0;
        for (values, member) in members.iter_mut().zip(&self.members) {
            match &member.width {
                Width::Fixed(parts) => {
                    let size = parts.iter().sum();
                    member.codec.append_parts(bytes_at(bytes, at, size)?, parts, values, scratch)?;
                    at += size;
                }
                Width::Variable(width) => {
                    let len = match width {
                        8 => number_at::<u64>(bytes, at)?.size(),
                        _ => number_at::<u32>(bytes, at)?.size(),
                    };
                    at += width;
                    let value = bytes_at(bytes, at, len)?;
                    check_allocation(len)?;
                    member.codec.append_value(value, &mut values.data, scratch)?;
                    at += len;
                }
            }
        }
        if at != bytes.len() {
            return Err(Error::corrupt(format!(
                "a row of a packed struct has {} bytes, its members {at}",
                bytes.len()
            )));
        }
        Ok(())
    }
}
