//! Loops over two vectors, with as many sums at once as registers hold.

use std::ops::{Add, Mul, Sub};

use super::LANES;
#[cfg(target_arch = "x86_64")]
use super::lane_sums;
use super::matrix::narrowed;

/// Floats that distances are computed in.
pub(super) trait Real:
    Copy + Default + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Into<f64>
{
    /// The float that is nearest to a value.
    fn nearest(value: f64) -> Self;

    /// `self * factor + term`: rounded once if that is one instruction, else twice.
    fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self;

    /// What [`portable_sums`] gives with `FUSED`, from the registers of this processor; `None` where it has none of ours.
    #[inline(always)]
    fn register_sums<const DIFFERENCES: bool>(
        _: &[[Self; LANES]],
        _: &[[Self; LANES]],
    ) -> Option<[Self; LANES]> {
        None
    }
}

impl Real for f32 {
    #[inline(always)]
    fn nearest(value: f64) -> Self {
        narrowed(value)
    }

    #[inline(always)]
    fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self {
        if FUSED { self.mul_add(factor, term) } else { self * factor + term }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn register_sums<const DIFFERENCES: bool>(
        a: &[[Self; LANES]],
        b: &[[Self; LANES]],
    ) -> Option<[Self; LANES]> {
        lane_sums::of_f32::largest::<DIFFERENCES>(a, b)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn multiply_add<const FUSED: bool>(self, factor: Self, term: Self) -> Self {
        if FUSED { self.mul_add(factor, term) } else { self * factor + term }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn register_sums<const DIFFERENCES: bool>(
        a: &[[Self; LANES]],
        b: &[[Self; LANES]],
    ) -> Option<[Self; LANES]> {
        lane_sums::of_f64::largest::<DIFFERENCES>(a, b)
    }
}

/// The sum of squared differences.
#[inline(always)]
pub(super) fn squared_l2<const FUSED: bool, T: Real>(a: &[T], b: &[T]) -> T {
    sum::<T, FUSED, true>(a, b)
}

/// The inner product.
#[inline(always)]
pub(super) fn dot<const FUSED: bool, T: Real>(a: &[T], b: &[T]) -> T {
    sum::<T, FUSED, false>(a, b)
}

/// The length of a vector.
#[inline(always)]
pub(super) fn length<T: Real>(a: &[T]) -> f64 {
    dot::<false, T>(a, a).into().sqrt()
}

/// The vector of length 1 with the direction of one of this length.
#[inline(always)]
pub(super) fn unit<T: Real>(a: &[T], length: f64) -> impl Iterator<Item = T> {
    a.iter().map(move |value| T::nearest((*value).into() / length))
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
fn sum<T: Real, const FUSED: bool, const DIFFERENCES: bool>(a: &[T], b: &[T]) -> T {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let sum = match a_chunks {
        [] => T::default(),
        _ => total(lane_sums_of::<T, FUSED, DIFFERENCES>(a_chunks, b_chunks)),
    };
    let rest = a_rest.iter().zip(b_rest);
    rest.fold(sum, |sum, (a, b)| add::<T, FUSED, DIFFERENCES>(*a, *b, sum))
}

/// The sums of products of two vectors, or of squared differences, each of every so many elements.
#[inline(always)]
fn lane_sums_of<T: Real, const FUSED: bool, const DIFFERENCES: bool>(
    a: &[[T; LANES]],
    b: &[[T; LANES]],
) -> [T; LANES] {
    let sums = if FUSED { T::register_sums::<DIFFERENCES>(a, b) } else { None };
    sums.unwrap_or_else(|| portable_sums::<T, FUSED, DIFFERENCES>(a, b))
}

/// The sums without code for one kind of processor.
#[inline(always)]
pub(super) fn portable_sums<T: Real, const FUSED: bool, const DIFFERENCES: bool>(
    a: &[[T; LANES]],
    b: &[[T; LANES]],
) -> [T; LANES] {
    let mut sums = [T::default(); LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum = add::<T, FUSED, DIFFERENCES>(*a, *b, *sum);
        }
    }
    sums
}

#[inline(always)]
fn add<T: Real, const FUSED: bool, const DIFFERENCES: bool>(a: T, b: T, sum: T) -> T {
    let (a, b) = if DIFFERENCES { (a - b, a - b) } else { (a, b) };
    a.multiply_add::<FUSED>(b, sum)
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
