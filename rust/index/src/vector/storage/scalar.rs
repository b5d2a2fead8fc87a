//! Scalar quantization: a byte for each element, between bounds that all vectors share.
//!
//! A code is the whole part of `(x - low) * 255 / (high - low)`, at least 0 and at most 255; 0 if both bounds are equal.

use arrow_buffer::ScalarBuffer;

use super::rabit::Products;
use crate::vector::Metric;
use crate::vector::matrix::{Values, narrowed};
use crate::vector::query::{self, VectorRows, fill_distances};
use crate::vector::simd;

/// The bounds of all elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::vector) struct ScalarQuantizer {
    low: f64,
    high: f64,
}

/// A byte for each element, vector by vector.
#[derive(Debug, Clone)]
pub(in crate::vector) struct ScalarCodes(ScalarBuffer<u8>);

impl ScalarCodes {
    pub(super) fn new(codes: ScalarBuffer<u8>) -> Self {
        Self(codes)
    }

    pub(in crate::vector) fn bytes(&self) -> &ScalarBuffer<u8> {
        &self.0
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.len()
    }
}

impl ScalarQuantizer {
    /// With finite bounds in their order.
    pub(in crate::vector) fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    pub(in crate::vector) fn bounds(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// How far elements are apart whose codes differ by one.
    pub(in crate::vector) fn step(&self) -> f64 {
        (self.high - self.low) / 255.0
    }

    /// The code of an element; 0 for NaN.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    #[inline(always)]
    pub(in crate::vector) fn encode(&self, value: f64) -> u8 {
        // Zero divided by zero is NaN, which becomes 0; what is above equal bounds would be infinite.
        if self.high > self.low { ((value - self.low) * 255.0 / (self.high - self.low)) as u8 } else { 0 }
    }

    pub(super) fn encode_query(&self, query: &Values) -> Vec<u8> {
        match query {
            Values::F32(values) => values.iter().map(|value| self.encode(f64::from(*value))).collect(),
            Values::F64(values) => values.iter().map(|value| self.encode(*value)).collect(),
            Values::U8(values) => values.to_vec(),
        }
    }

    /// The element that a code stands for.
    pub(in crate::vector) fn decode(&self, code: u8) -> f64 {
        self.low + f64::from(code) * self.step()
    }

    /// Distances from a query, whose codes these are.
    pub(super) fn distances<'a>(
        &self,
        codes: &'a ScalarCodes,
        metric: Metric,
        query: &Values,
        of_query: &'a [u8],
    ) -> Distances<'a> {
        let step = self.step();
        let comparison = match metric {
            Metric::Dot => {
                let floats = query.to_f32();
                let sum: f64 = floats.iter().map(|value| f64::from(*value)).sum();
                Comparison::Dot { query: floats, start: 1.0 - self.low * sum, step }
            }
            Metric::Cosine => Comparison::Squares { query: of_query, scale: step * step / 2.0 },
            _ => Comparison::Squares { query: of_query, scale: step * step },
        };
        Distances { codes: &codes.0, dimension: of_query.len(), comparison }
    }
}

/// Distances of codes from a query.
pub(in crate::vector) struct Distances<'a> {
    codes: &'a [u8],
    dimension: usize,
    comparison: Comparison<'a>,
}

enum Comparison<'a> {
    /// The sum of squared differences of codes, times this.
    Squares { query: &'a [u8], scale: f64 },
    /// The inner product of codes and these floats, times a step, less than this.
    Dot { query: Vec<f32>, start: f64, step: f64 },
}

impl Distances<'_> {
    pub(super) fn fill(&self, rows: impl VectorRows, to: &mut [f32]) {
        if self.dimension == 0 {
            return;
        }
        match &self.comparison {
            Comparison::Squares { query, scale } => {
                fill_distances(self.codes, rows, query, to, CodeSquares(*scale))
            }
            Comparison::Dot { query, start, step } => {
                simd::run(Products { codes: rows.of(self.codes, self.dimension), query, to: &mut *to });
                to.iter_mut().for_each(|to| *to = narrowed(start - f64::from(*to) * step));
            }
        }
    }
}

/// The sum of squared differences of codes, times a scale.
pub(in crate::vector) struct CodeSquares(pub(in crate::vector) f64);

impl query::Comparison<u8> for CodeSquares {
    #[inline(always)]
    fn distance<const FUSED: bool>(&self, codes: &[u8], query: &[u8]) -> f32 {
        narrowed(squares(codes, query) * self.0)
    }
}

/// The sum of squared differences, of parts that 32 bits are enough for.
#[expect(clippy::cast_precision_loss, reason = "vectors have less than 2^37 elements")]
#[inline(always)]
fn squares(a: &[u8], b: &[u8]) -> f64 {
    const PART: usize = 1 << 16;
    let mut sum = 0_u64;
    for (a, b) in a.chunks(PART).zip(b.chunks(PART)) {
        sum += u64::from(squared_difference(a, b));
    }
    sum as f64
}

/// The sum of squared differences, of at most 66,051 elements.
#[inline(always)]
pub(in crate::vector) fn squared_difference(a: &[u8], b: &[u8]) -> u32 {
    const AT_ONCE: usize = 32;
    let (a_chunks, a_rest) = a.as_chunks::<AT_ONCE>();
    let (b_chunks, b_rest) = b.as_chunks::<AT_ONCE>();
    let term = |(a, b): (&u8, &u8)| {
        let difference = i32::from(i16::from(*a) - i16::from(*b));
        (difference * difference).cast_unsigned()
    };
    let mut sums = [0_u32; AT_ONCE / 2];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let (a, _) = a.as_chunks::<2>();
        let (b, _) = b.as_chunks::<2>();
        for ((sum, [a0, a1]), [b0, b1]) in sums.iter_mut().zip(a).zip(b) {
            *sum = sum.wrapping_add(term((a0, b0)) + term((a1, b1)));
        }
    }
    let rest: u32 = a_rest.iter().zip(b_rest).map(term).sum();
    sums.into_iter().fold(rest, u32::wrapping_add)
}
