//! Loops compiled several times: for registers of 512 and of 256 bits with fused multiplication and addition, and for any
//! processor. Which one runs is chosen when it is called. Prefetching, which is for particular processors, too, is here
//! as well.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code that not every processor can run, and prefetches")
)]

/// A loop that is compiled for each kind of registers. What it calls must be inlined into it, or have target features of its
/// own.
pub(super) trait Kernel {
    /// What it gives.
    type Output;

    /// Runs it with so many floats to a register, and whether multiplication and addition are one instruction.
    fn run<const LANES: usize, const FUSED: bool>(self) -> Self::Output;
}

/// Runs a loop with the largest registers of the processor.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
    {
        // SAFETY: the processor has all four extensions, and they include the others.
        unsafe { with_avx512(kernel) }
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both extensions.
        unsafe { with_avx2(kernel) }
    } else {
        kernel.run::<8, false>()
    }
}

/// Other processors have one kind of registers that every program may use.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<8, { cfg!(target_arch = "aarch64") }>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
fn with_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<16, true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<8, true>()
}

/// Bytes of a slice that are prefetched; after so many the processor goes on by itself.
const PREFETCH_BYTES: usize = 1024;

/// Prefetches a slice that is read soon.
#[inline(always)]
pub(super) fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(values).min(PREFETCH_BYTES)).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().cast::<i8>().wrapping_add(at)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, PREFETCH_BYTES);
}
