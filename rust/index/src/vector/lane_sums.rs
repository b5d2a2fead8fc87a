//! The sums of [kernels](super::kernels) in the registers of x86-64.
//!
//! Left to itself, the compiler finds pairs of floats in the loop and in the addition of its sums, and leaves most of each
//! register empty. Both kinds of registers give, to the bit, the sums of the portable loop with fused multiplication and
//! addition.
#![expect(
    unsafe_code,
    reason = "calls code that not every processor can run, and loads and stores by pointers"
)]

use std::arch::x86_64::{
    _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_setzero_pd, _mm256_setzero_ps,
    _mm256_storeu_pd, _mm256_storeu_ps, _mm256_sub_pd, _mm256_sub_ps, _mm512_fmadd_pd, _mm512_fmadd_ps,
    _mm512_loadu_pd, _mm512_loadu_ps, _mm512_setzero_pd, _mm512_setzero_ps, _mm512_storeu_pd,
    _mm512_storeu_ps, _mm512_sub_pd, _mm512_sub_ps,
};

use super::LANES;

/// A function for one kind of registers, which have so many floats, and one for all kinds.
macro_rules! lane_sums {
    ($module:ident, $real:ident: $($name:ident($features:literal, $count:literal):
        $zero:ident, $load:ident, $store:ident, $subtract:ident, $multiply_add:ident;)+) => {
        pub(super) mod $module {
            use super::*;

            /// The sums with the largest registers of the processor; `None` if it has none of these.
            #[inline(always)]
            pub(in crate::vector) fn largest<const DIFFERENCES: bool>(
                a: &[[$real; LANES]],
                b: &[[$real; LANES]],
            ) -> Option<[$real; LANES]> {
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor has the extension.
                    Some(unsafe { avx512::<DIFFERENCES>(a, b) })
                } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has both extensions.
                    Some(unsafe { avx2::<DIFFERENCES>(a, b) })
                } else {
                    None
                }
            }

            $(
                #[inline]
                #[target_feature(enable = $features)]
                pub(super) fn $name<const DIFFERENCES: bool>(
                    a: &[[$real; LANES]],
                    b: &[[$real; LANES]],
                ) -> [$real; LANES] {
                    let mut sums = [$zero(); LANES / $count];
                    for (a, b) in a.iter().zip(b) {
                        let ((a, _), (b, _)) = (a.as_chunks::<$count>(), b.as_chunks::<$count>());
                        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                            // SAFETY: both have the floats of a register.
                            let (a, b) = unsafe { ($load(a.as_ptr()), $load(b.as_ptr())) };
                            *sum = if DIFFERENCES {
                                let difference = $subtract(a, b);
                                $multiply_add(difference, difference, *sum)
                            } else {
                                $multiply_add(a, b, *sum)
                            };
                        }
                    }
                    let mut lanes = [0.0; LANES];
                    for (to, sum) in lanes.as_chunks_mut::<$count>().0.iter_mut().zip(sums) {
                        // SAFETY: it has the floats of a register.
                        unsafe { $store(to.as_mut_ptr(), sum) };
                    }
                    lanes
                }
            )+
        }
    };
}

lane_sums!(of_f32, f32:
    avx512("avx512f", 16):
        _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_sub_ps, _mm512_fmadd_ps;
    avx2("avx2,fma", 8):
        _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_sub_ps, _mm256_fmadd_ps;
);
lane_sums!(of_f64, f64:
    avx512("avx512f", 8):
        _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_sub_pd, _mm512_fmadd_pd;
    avx2("avx2,fma", 4):
        _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_sub_pd, _mm256_fmadd_pd;
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vector::kernels::portable_sums;

    /// Each kind of registers that the processor has, to the bit.
    macro_rules! agree {
        ($module:ident, $real:ident, $a:expr, $b:expr, $differences:literal) => {
            let (a, b) = ($a.as_chunks::<LANES>().0, $b.as_chunks::<LANES>().0);
            let expected = portable_sums::<$real, true, $differences>(a, b).map($real::to_bits);
            if let Some(found) = $module::largest::<$differences>(a, b) {
                prop_assert_eq!(found.map($real::to_bits), expected);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the processor has both extensions.
                let found = unsafe { $module::avx2::<$differences>(a, b) };
                prop_assert_eq!(found.map($real::to_bits), expected);
            }
        };
    }

    proptest! {
        #[test]
        fn every_kind_of_registers_gives_the_same(
            values in prop::collection::vec((-1e3_f64..1e3, -1e3_f64..1e3), 0..5 * LANES),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
            agree!(of_f64, f64, a, b, true);
            agree!(of_f64, f64, a, b, false);
            #[expect(clippy::cast_possible_truncation, reason = "any floats will do")]
            let narrowed = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect::<Vec<_>>();
            let (a, b) = (narrowed(a), narrowed(b));
            agree!(of_f32, f32, a, b, true);
            agree!(of_f32, f32, a, b, false);
        }
    }
}
