//! RaBitQ: of each rotated element its sign and a few more bits, and two factors for each vector.
//!
//! Gao and others: "RaBitQ", 2024, and "Practical and asymptotically optimal quantization of high-dimensional vectors",
//! 2025. With `q` the rotated query, `u` the codes less the middle of their range, and the factors of a vector:
//!
//! | metric | distance |
//! |---|---|
//! | l2 | square of the distance from the centroid + first factor + second factor `* <q, u>` |
//! | cosine | half of that |
//! | dot | first factor + second factor `* <q, u>` - inner product with the centroid |
//!
//! In memory a code is the bit of the sign with the other bits below it.

use std::ops::Range;

use pennon_core::{Error, Result};

use super::rotation;
use crate::vector::Metric;
use crate::vector::kernels::{self, Real};
use crate::vector::matrix::{Matrix, Values, narrowed};
use crate::vector::metadata::RabitMetadata;
use crate::vector::query::VectorRows;
use crate::vector::simd::{self, Kernel};

/// Rows whose signs are stored together.
const BLOCK: usize = 32;
/// The row of each half byte in a block of signs; its other half is that of the row 16 later.
const ORDER: [usize; 16] = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];
/// Elements whose further bits are stored together.
const GROUP: usize = 64;

/// How vectors become codes.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::vector) struct RabitQuantizer {
    dimension: usize,
    /// Bits of an element, the sign among them.
    bits: usize,
    packed: bool,
    signs: Vec<u8>,
}

/// The codes of the vectors of a partition.
#[derive(Debug, Clone)]
pub(in crate::vector) struct RabitCodes {
    /// Row by row.
    codes: CodeValues,
    add: Vec<f32>,
    scale: Vec<f32>,
}

/// Codes of at most 8 bits, and of 9.
#[derive(Debug, Clone)]
enum CodeValues {
    U8(Vec<u8>),
    U16(Vec<u16>),
}

impl RabitCodes {
    pub(super) fn memory_bytes(&self) -> usize {
        let codes = match &self.codes {
            CodeValues::U8(codes) => codes.len(),
            CodeValues::U16(codes) => codes.len() * 2,
        };
        codes + (self.add.len() + self.scale.len()) * 4
    }
}

impl RabitQuantizer {
    /// The one of a file. Errors: `Corrupt`, and `Unsupported` for rotations by a matrix.
    pub(super) fn of_file(metadata: RabitMetadata, dimension: usize) -> Result<Self> {
        let RabitMetadata { dimension: found, bits, packed, signs } = metadata;
        let bits = usize::try_from(bits).ok().filter(|bits| (1..=9).contains(bits));
        let bits = bits.ok_or_else(|| Error::corrupt("RaBitQ with more than 9 bits, or without bits"))?;
        if found != dimension as u64 || !dimension.is_multiple_of(8) {
            return Err(Error::corrupt(format!("codes of {found} elements, the centroids have {dimension}")));
        }
        let signs = signs.filter(|signs| !signs.is_empty());
        let signs = signs.ok_or_else(|| Error::unsupported("RaBitQ with a rotation by a matrix"))?;
        if !rotation::has_signs(&signs, dimension) {
            return Err(Error::corrupt(format!("{} bytes of signs for {dimension} elements", signs.len())));
        }
        Ok(Self { dimension, bits, packed, signs })
    }

    pub(in crate::vector) fn bits(&self) -> usize {
        self.bits
    }

    /// Bits but the sign.
    fn more_bits(&self) -> usize {
        self.bits - 1
    }

    /// Bytes of the further bits of a vector.
    fn more_bytes(&self) -> usize {
        self.dimension.div_ceil(GROUP) * 8 * self.more_bits()
    }

    /// The columns of bytes with the bytes of a row, and the columns of factors.
    pub(super) fn columns(&self) -> (Vec<(&'static str, usize)>, [&'static str; 2]) {
        let signs = ("_rabit_codes", self.dimension / 8);
        if self.more_bits() == 0 {
            return (vec![signs], ["__add_factors", "__scale_factors"]);
        }
        let more = ("__blocked_ex_codes", self.more_bytes());
        (vec![signs, more], ["__add_factors_ex", "__scale_factors_ex"])
    }

    /// The codes of a partition from what its columns have.
    pub(super) fn codes(&self, bytes: &[&[u8]], add: Vec<f32>, scale: Vec<f32>) -> RabitCodes {
        let rows = add.len();
        let mut codes = vec![0_u16; rows * self.dimension];
        self.put_signs(bytes.first().copied().unwrap_or_default(), rows, &mut codes);
        if let Some(more) = bytes.get(1) {
            let of_rows = more
                .chunks_exact(self.more_bytes().max(1))
                .zip(codes.chunks_exact_mut(self.dimension.max(1)));
            for (bytes, codes) in of_rows {
                let groups = bytes.chunks_exact(8 * self.more_bits()).zip(codes.chunks_mut(GROUP));
                groups.for_each(|(bytes, codes)| put_more(bytes, self.more_bits(), codes));
            }
        }
        let codes = if self.bits <= 8 {
            CodeValues::U8(codes.into_iter().map(|code| code.to_le_bytes()[0]).collect())
        } else {
            CodeValues::U16(codes)
        };
        RabitCodes { codes, add, scale }
    }

    /// Puts the bits of signs above the others.
    fn put_signs(&self, bytes: &[u8], rows: usize, codes: &mut [u16]) {
        let width = self.dimension / 8;
        let more = self.more_bits();
        let mut put = |row: usize, byte: usize, value: u8, first: usize, bits: usize| {
            let start = row * self.dimension + byte * 8 + first;
            let of_byte = codes.get_mut(start..start + bits).unwrap_or_default();
            for (bit, code) in of_byte.iter_mut().enumerate() {
                *code |= u16::from(value >> bit & 1) << more;
            }
        };
        if !self.packed {
            for (at, byte) in bytes.iter().enumerate() {
                put(at / width.max(1), at % width.max(1), *byte, 0, 8);
            }
            return;
        }
        let in_blocks = rows / BLOCK * BLOCK;
        let (blocks, rest) = bytes.split_at_checked(in_blocks * width).unwrap_or_default();
        for (at, column) in blocks.chunks_exact(BLOCK).enumerate() {
            let (first_row, byte) = (at / width.max(1) * BLOCK, at % width.max(1));
            let (low, high) = column.split_at(BLOCK / 2);
            for (halves, first) in [(low, 0), (high, 4)] {
                for (value, row) in halves.iter().zip(ORDER) {
                    put(first_row + row, byte, value & 15, first, 4);
                    put(first_row + row + 16, byte, value >> 4, first, 4);
                }
            }
        }
        let left = rows - in_blocks;
        for (byte, column) in rest.chunks_exact(left.max(1)).enumerate() {
            for (row, value) in column.iter().enumerate() {
                put(in_blocks + row, byte, *value, 0, 8);
            }
        }
    }

    /// Rotates a query.
    pub(super) fn rotated(&self, query: &Values) -> Vec<f32> {
        let mut rotated = query.to_f32();
        rotation::rotate(&mut rotated, &self.signs);
        rotated
    }

    /// Distances of the codes of a partition from a query, as it is and rotated.
    pub(super) fn distances<'a>(
        &self,
        codes: &'a RabitCodes,
        metric: Metric,
        (query, rotated): (&Values, &'a [f32]),
        centroids: &Matrix,
        partition: usize,
    ) -> Result<Distances<'a>> {
        let range = partition * self.dimension..(partition + 1) * self.dimension;
        let is_dot = metric == Metric::Dot;
        let of_centroid = match (query, centroids.values().slice(range)) {
            (Values::F32(query), Values::F32(centroid)) if is_dot => {
                -f64::from(kernels::dot::<false, _>(query, &centroid))
            }
            (Values::F64(query), Values::F64(centroid)) if is_dot => {
                -kernels::dot::<false, _>(query, &centroid)
            }
            (Values::F32(query), Values::F32(centroid)) => {
                f64::from(kernels::squared_l2::<false, _>(query, &centroid))
            }
            (Values::F64(query), Values::F64(centroid)) => kernels::squared_l2::<false, _>(query, &centroid),
            _ => return Err(Error::internal("a query of another type than the centroids")),
        };
        let sum: f64 = rotated.iter().map(|value| f64::from(*value)).sum();
        let middle = f64::from(1_u16 << self.more_bits()) - 0.5;
        let scale = if metric == Metric::Cosine { 0.5 } else { 1.0 };
        Ok(Distances {
            codes,
            rotated,
            of_centroid: narrowed(of_centroid),
            middle: narrowed(middle * sum),
            scale,
        })
    }
}

/// Puts the further bits of at most 64 elements below their signs.
fn put_more(bytes: &[u8], bits: usize, codes: &mut [u16]) {
    let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    for (at, code) in codes.iter_mut().enumerate() {
        *code |= match bits {
            1 => byte(at / 8) >> (at % 8) & 1,
            2 => two_bits(&byte, at),
            3 => two_bits(&byte, at) | top_bit(&byte, 16, at) << 2,
            4 => nibble(&byte, at, 8),
            5 => nibble(&byte, at, 16) | top_bit(&byte, 32, at) << 4,
            6 => six_bits(&byte, at),
            7 => six_bits(&byte, at) | top_bit(&byte, 48, at) << 6,
            _ => byte(at),
        };
    }
}

/// Four elements to a byte, 16 apart.
fn two_bits(byte: &impl Fn(usize) -> u16, at: usize) -> u16 {
    byte(at % 16) >> (at / 16 * 2) & 3
}

/// Groups of bytes with two elements each, as far apart as a group has bytes.
fn nibble(byte: &impl Fn(usize) -> u16, at: usize, group: usize) -> u16 {
    let (number, in_group) = (at / (2 * group), at % (2 * group));
    byte(number * group + in_group % group) >> (in_group / group * 4) & 15
}

/// Three quarters of the elements in the lower bits of a byte each, the last quarter in the upper ones of three bytes.
fn six_bits(byte: &impl Fn(usize) -> u16, at: usize) -> u16 {
    if at < 48 {
        return byte(at) & 63;
    }
    (0..3).map(|group| byte(16 * group + at - 48) >> 6 << (2 * group)).fold(0, |bits, part| bits | part)
}

/// Eight elements to a byte, 8 apart.
fn top_bit(byte: &impl Fn(usize) -> u16, start: usize, at: usize) -> u16 {
    byte(start + at % 8) >> (at / 8) & 1
}

/// Distances of codes from a query.
pub(in crate::vector) struct Distances<'a> {
    codes: &'a RabitCodes,
    rotated: &'a [f32],
    of_centroid: f32,
    /// The inner product of the query with the middle of the range of codes.
    middle: f32,
    scale: f32,
}

impl Distances<'_> {
    pub(super) fn fill(&self, rows: Range<usize>, to: &mut [f32]) {
        let dimension = self.rotated.len().max(1);
        match &self.codes.codes {
            CodeValues::U8(codes) => {
                let codes = rows.clone().of(codes, dimension);
                simd::run(Products { codes, query: self.rotated, to: &mut *to });
            }
            CodeValues::U16(codes) => {
                let codes = rows.clone().of(codes, dimension);
                simd::run(Products { codes, query: self.rotated, to: &mut *to });
            }
        }
        let add = self.codes.add.get(rows.clone()).unwrap_or_default();
        let scale = self.codes.scale.get(rows).unwrap_or_default();
        for ((to, add), scale) in to.iter_mut().zip(add).zip(scale) {
            *to = (self.of_centroid + add + scale * (*to - self.middle)) * self.scale;
        }
    }
}

/// The inner products of codes with a query.
pub(super) struct Products<'a, I> {
    pub(super) codes: I,
    pub(super) query: &'a [f32],
    pub(super) to: &'a mut [f32],
}

impl<'a, I: Iterator<Item = &'a [T]>, T: Copy + Into<f32> + 'a> Kernel for Products<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run<const LANES: usize, const FUSED: bool>(self) {
        const AT_ONCE: usize = 64;
        let (query, query_rest) = self.query.as_chunks::<AT_ONCE>();
        for (to, row) in self.to.iter_mut().zip(self.codes) {
            let mut sums = [0.0_f32; AT_ONCE];
            let (row, rest) = row.as_chunks::<AT_ONCE>();
            for (codes, query) in row.iter().zip(query) {
                for ((sum, code), value) in sums.iter_mut().zip(codes).zip(query) {
                    *sum = (*code).into().multiply_add::<FUSED>(*value, *sum);
                }
            }
            let left: f32 = rest.iter().zip(query_rest).map(|(code, value)| (*code).into() * value).sum();
            *to = sums.into_iter().sum::<f32>() + left;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Stores the bits of 64 elements as they are described, one by one.
    fn stored(codes: &[u16], bits: usize) -> Vec<u8> {
        let mut bytes = vec![0_u8; 8 * bits];
        let mut set =
            |byte: usize, bit: usize, value: u16| bytes[byte] |= u8::try_from(value & 1).unwrap() << bit;
        for (at, code) in codes.iter().enumerate() {
            for bit in 0..bits {
                let value = code >> bit;
                let top = |start: usize| (start + at % 8, at / 8);
                let (byte, to) = match (bits, bit) {
                    (1, _) => (at / 8, at % 8),
                    (2, _) | (3, 0 | 1) => (at % 16, at / 16 * 2 + bit),
                    (3, _) => top(16),
                    (4, _) => (at / 16 * 8 + at % 8, at % 16 / 8 * 4 + bit),
                    (5, 4) => top(32),
                    (5, _) => (at / 32 * 16 + at % 16, at % 32 / 16 * 4 + bit),
                    (7, 6) => top(48),
                    (6 | 7, _) if at < 48 => (at, bit),
                    (6 | 7, _) => (bit / 2 * 16 + at - 48, 6 + bit % 2),
                    _ => (at, bit),
                };
                set(byte, to, value);
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn further_bits_of_every_width(codes in prop::collection::vec(0_u16..256, 64), bits in 1_usize..9) {
            let codes: Vec<u16> = codes.into_iter().map(|code| code & ((1 << bits) - 1)).collect();
            let mut found = vec![0; 64];
            put_more(&stored(&codes, bits), bits, &mut found);
            prop_assert_eq!(found, codes);
        }

        #[test]
        fn signs_in_blocks_and_what_is_left(rows in 0_usize..80, width in 1_usize..5, seed in any::<u64>()) {
            let dimension = width * 8;
            let mut random = crate::vector::random::Random::new(seed);
            let expected: Vec<u8> = (0..rows * width).map(|_| random.next().to_le_bytes()[0]).collect();
            let of = |row: usize, byte: usize| expected[row * width + byte];
            let mut bytes = Vec::new();
            let full = rows / 32 * 32;
            for block in (0..full).step_by(32) {
                for byte in 0..width {
                    for shift in [0, 4] {
                        bytes.extend(ORDER.map(|row| {
                            (of(block + row, byte) >> shift & 15) | (of(block + row + 16, byte) >> shift & 15) << 4
                        }));
                    }
                }
            }
            for byte in 0..width {
                bytes.extend((full..rows).map(|row| of(row, byte)));
            }
            let quantizer = RabitQuantizer { dimension, bits: 1, packed: true, signs: Vec::new() };
            let codes = quantizer.codes(&[&bytes], vec![0.0; rows], vec![0.0; rows]);
            let CodeValues::U8(found) = codes.codes else { unreachable!() };
            let bits = expected.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
            prop_assert_eq!(&found, &bits.collect::<Vec<u8>>());
            let row_major = RabitQuantizer { packed: false, ..quantizer };
            let codes = row_major.codes(&[&expected], vec![0.0; rows], vec![0.0; rows]);
            let CodeValues::U8(row_by_row) = codes.codes else { unreachable!() };
            prop_assert_eq!(found, row_by_row);
        }
    }
}
