//! Loops over two vectors, with as many sums at once as registers hold.

use std::ops::{Add, Mul, Sub};

use super::simd::Kernel;

/// Sums at once: the compiler may not change the order of one sum of floats.
const LANES: usize = 32;

/// Floats that distances are computed in.
pub(super) trait Real:
    Copy + Default + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Into<f64>
{
    /// `self * factor + term`: rounded once if that is one instruction, else twice.
    fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self {
        if FUSED { self.mul_add(factor, term) } else { self * factor + term }
    }
}

impl Real for f64 {
    #[inline(always)]
    fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self {
        if FUSED { self.mul_add(factor, term) } else { self * factor + term }
    }
}

/// The sum of squared differences.
#[inline(always)]
pub(super) fn squared_l2<const FUSED: bool, T: Real>(a: &[T], b: &[T]) -> T {
    sum(a, b, |a, b, sum| (a - b).multiply_add::<FUSED>(a - b, sum))
}

/// The inner product.
#[inline(always)]
pub(super) fn dot<const FUSED: bool, T: Real>(a: &[T], b: &[T]) -> T {
    sum(a, b, |a, b, sum| a.multiply_add::<FUSED>(b, sum))
}

/// The length of a vector.
#[inline(always)]
pub(super) fn length<T: Real>(a: &[T]) -> f64 {
    dot::<false, T>(a, a).into().sqrt()
}

/// The number of bits that differ.
#[inline(always)]
pub(super) fn hamming(a: &[u8], b: &[u8]) -> u32 {
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    let words = a_words.iter().zip(b_words);
    let words = words.map(|(a, b)| (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)).count_ones());
    words.sum::<u32>() + a_rest.iter().zip(b_rest).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
}

#[inline(always)]
fn sum<T: Real>(a: &[T], b: &[T], add: impl Fn(T, T, T) -> T) -> T {
    let mut sums = [T::default(); LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum = add(*a, *b, *sum);
        }
    }
    a_rest.iter().zip(b_rest).fold(total(sums), |sum, (a, b)| add(*a, *b, sum))
}

/// The sum of sums, by halves: one after another each addition would wait for the last.
#[inline(always)]
fn total<T: Real>(mut sums: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        let (first, second) = sums.split_at_mut(half);
        first.iter_mut().zip(second).for_each(|(a, b)| *a = *a + *b);
        half /= 2;
    }
    let [sum, ..] = sums;
    sum
}

/// The inner product of two vectors.
pub(super) struct Dot<'a>(pub(super) &'a [f32], pub(super) &'a [f32]);

impl Kernel for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<const LANES: usize, const FUSED: bool>(self) -> f32 {
        dot::<FUSED, f32>(self.0, self.1)
    }
}
