//! Unpacking in registers of 256 bits, where the processor has them: the portable kernel, compiled anew.
//!
//! The wheel runs on every x86-64 processor, so that elsewhere the compiler may use 128 bits only.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code that not every processor can run")
)]

use super::{GROUP, Packed};

/// Unpacks one group as [`Packed::unpack_portable`] does; false if the processor has no such registers.
#[cfg(target_arch = "x86_64")]
pub(super) fn unpack<T: Packed>(packed: &[u8], width: usize, out: &mut [T; GROUP]) -> bool {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return false;
    }
    // SAFETY: the processor has AVX2, which is all that the function needs.
    unsafe { unpack_avx2(packed, width, out) };
    true
}

/// Other processors have one kind of registers that every program may use.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn unpack<T: Packed>(_packed: &[u8], _width: usize, _out: &mut [T; GROUP]) -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn unpack_avx2<T: Packed>(packed: &[u8], width: usize, out: &mut [T; GROUP]) {
    T::unpack_portable(packed, width, out);
}
