//! The inner products of eight vectors with 32 centroids, element by element, as in a product of matrices.
//!
//! All sums stay in registers: of 512 bits two for each vector, of 256 bits two for each of four vectors at a time.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls code that not every processor can run")
)]

/// Vectors that are compared at once.
pub(super) const ROWS: usize = 8;
/// Centroids of a panel.
pub(super) const PANEL: usize = 32;

/// The inner products of vectors with the centroids of a panel, both element by element.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn products(vectors: &[[f32; ROWS]], panel: &[[f32; PANEL]]) -> [[f32; PANEL]; ROWS] {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the extension.
        unsafe { x86::with_avx512(vectors, panel) }
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both extensions.
        unsafe { x86::with_avx2(vectors, panel) }
    } else {
        portable(vectors, panel)
    }
}

/// Other processors have one kind of registers that every program may use.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn products(vectors: &[[f32; ROWS]], panel: &[[f32; PANEL]]) -> [[f32; PANEL]; ROWS] {
    portable(vectors, panel)
}

/// For any processor.
#[cfg_attr(target_arch = "x86_64", inline(never))]
fn portable(vectors: &[[f32; ROWS]], panel: &[[f32; PANEL]]) -> [[f32; PANEL]; ROWS] {
    let mut sums = [[0.0_f32; PANEL]; ROWS];
    for (of_vectors, of_centroids) in vectors.iter().zip(panel) {
        for (sums, value) in sums.iter_mut().zip(of_vectors) {
            sums.iter_mut().zip(of_centroids).for_each(|(sum, of_centroid)| *sum += value * of_centroid);
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    use super::{PANEL, ROWS};

    #[target_feature(enable = "avx512f")]
    pub(super) fn with_avx512(vectors: &[[f32; ROWS]], panel: &[[f32; PANEL]]) -> [[f32; PANEL]; ROWS] {
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        for (of_vectors, of_centroids) in vectors.iter().zip(panel) {
            let (halves, _) = of_centroids.as_chunks::<16>();
            let [first, second] = halves else { break };
            // SAFETY: both have the 16 floats of a register.
            let (first, second) =
                unsafe { (_mm512_loadu_ps(first.as_ptr()), _mm512_loadu_ps(second.as_ptr())) };
            for ([low, high], value) in sums.iter_mut().zip(of_vectors) {
                let value = _mm512_set1_ps(*value);
                *low = _mm512_fmadd_ps(value, first, *low);
                *high = _mm512_fmadd_ps(value, second, *high);
            }
        }
        let mut products = [[0.0_f32; PANEL]; ROWS];
        for (to, [low, high]) in products.iter_mut().zip(sums) {
            let (halves, _) = to.as_chunks_mut::<16>();
            let [first, second] = halves else { break };
            // SAFETY: both have the 16 floats of a register.
            unsafe {
                _mm512_storeu_ps(first.as_mut_ptr(), low);
                _mm512_storeu_ps(second.as_mut_ptr(), high);
            }
        }
        products
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn with_avx2(vectors: &[[f32; ROWS]], panel: &[[f32; PANEL]]) -> [[f32; PANEL]; ROWS] {
        let mut products = [[0.0_f32; PANEL]; ROWS];
        for half in 0..2 {
            for part in 0..2 {
                let mut sums = [[_mm256_setzero_ps(); 2]; ROWS / 2];
                for (of_vectors, of_centroids) in vectors.iter().zip(panel) {
                    let (chunks, _) = of_centroids.as_chunks::<8>();
                    let Some([first, second]) = chunks.get(2 * part..2 * part + 2) else { break };
                    // SAFETY: both have the 8 floats of a register.
                    let (first, second) =
                        unsafe { (_mm256_loadu_ps(first.as_ptr()), _mm256_loadu_ps(second.as_ptr())) };
                    let (quads, _) = of_vectors.as_chunks::<{ ROWS / 2 }>();
                    let Some(of_vectors) = quads.get(half) else { break };
                    for ([low, high], value) in sums.iter_mut().zip(of_vectors) {
                        let value = _mm256_set1_ps(*value);
                        *low = _mm256_fmadd_ps(value, first, *low);
                        *high = _mm256_fmadd_ps(value, second, *high);
                    }
                }
                for (to, [low, high]) in products.iter_mut().skip(half * (ROWS / 2)).zip(sums) {
                    let (chunks, _) = to.as_chunks_mut::<8>();
                    let Some([first, second]) = chunks.get_mut(2 * part..2 * part + 2) else { break };
                    // SAFETY: both have the 8 floats of a register.
                    unsafe {
                        _mm256_storeu_ps(first.as_mut_ptr(), low);
                        _mm256_storeu_ps(second.as_mut_ptr(), high);
                    }
                }
            }
        }
        products
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_kind_of_registers_gives_the_same(
            values in prop::collection::vec(-4_i8..5, 0..40 * (ROWS + PANEL)),
        ) {
            // Sums of products of small whole numbers are exact.
            let all: Vec<f32> = values.into_iter().map(f32::from).collect();
            let (vectors, panel) = all.split_at(all.len() / (ROWS + PANEL) * ROWS);
            let (vectors, panel) = (vectors.as_chunks::<ROWS>().0, panel.as_chunks::<PANEL>().0);
            let expected = portable(vectors, panel);
            prop_assert_eq!(products(vectors, panel), expected);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the processor has both extensions.
                prop_assert_eq!(unsafe { x86::with_avx2(vectors, panel) }, expected);
            }
        }
    }
}
