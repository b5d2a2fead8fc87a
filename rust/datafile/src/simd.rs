//! Portable code compiled again for registers of 256 bits, for processors that have them.
//!
//! The wheel runs on every x86-64 processor, so that elsewhere the compiler may use 128 bits only.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code that not every processor can run")
)]

/// Runs a loop with registers of 256 bits, if the processor has them. What it calls must be inlined into it.
#[inline]
pub(crate) fn simd<R>(work: impl FnOnce() -> R) -> R {
    simd_into((), (), |(), ()| work())
}

/// The same for a loop that reads one slice and writes another. As arguments the two are known not to overlap;
/// captured by a closure they are not, and integers of 32 and 64 bits are unpacked six times more slowly.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn simd_into<A, B, R>(from: A, to: B, work: impl FnOnce(A, B) -> R) -> R {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return work(from, to);
    }
    // SAFETY: the processor has AVX2, which is all that the function needs.
    unsafe { with_avx2(from, to, work) }
}

/// Other processors have one kind of registers that every program may use.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn simd_into<A, B, R>(from: A, to: B, work: impl FnOnce(A, B) -> R) -> R {
    work(from, to)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<A, B, R>(from: A, to: B, work: impl FnOnce(A, B) -> R) -> R {
    work(from, to)
}
