//! Loops over two vectors of one length, with as many sums at once as registers hold.

use std::ops::{Add, Mul, Sub};

/// Sums at once: the compiler may not change the order of one sum of floats.
const LANES: usize = 32;

/// Floats that distances are computed in.
pub(super) trait Real:
    Copy + Default + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Into<f64>
{
}

impl Real for f32 {}
impl Real for f64 {}

/// The sum of squared differences.
#[inline(always)]
pub(super) fn squared_l2<T: Real>(a: &[T], b: &[T]) -> T {
    sum(a, b, |a, b| (a - b) * (a - b))
}

/// The inner product.
#[inline(always)]
pub(super) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    sum(a, b, |a, b| a * b)
}

/// The length of a vector.
#[inline(always)]
pub(super) fn length<T: Real>(a: &[T]) -> f64 {
    dot(a, a).into().sqrt()
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
fn sum<T: Real>(a: &[T], b: &[T], term: impl Fn(T, T) -> T) -> T {
    let mut sums = [T::default(); LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum = *sum + term(*a, *b);
        }
    }
    let all = sums.into_iter().fold(T::default(), Add::add);
    a_rest.iter().zip(b_rest).fold(all, |sum, (a, b)| sum + term(*a, *b))
}
