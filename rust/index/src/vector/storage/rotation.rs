//! The rotation of RaBitQ: four rounds of signs and Hadamard transforms, with a pairing step where the length is not a
//! power of two.
//!
//! A round changes the sign of element `i` if bit `round * length + i` is set, the lowest bit of a byte first. Then
//! follows an orthonormal Hadamard transform of all elements; or, of a length that is not a power of two, of the first
//! `t` of them in even rounds and of the last `t` in odd ones, `t` being the largest power of two below, and then each
//! element is paired with the one half the length behind: their sum and their difference, divided by the root of 2.

/// Rounds.
const ROUNDS: usize = 4;

/// Whether there is a sign for each element and round.
pub(super) fn has_signs(signs: &[u8], length: usize) -> bool {
    signs.len() * 8 >= ROUNDS * length
}

/// Rotates a vector of an even length.
pub(super) fn rotate(vector: &mut [f32], signs: &[u8]) {
    let length = vector.len();
    let Some(log) = length.checked_ilog2() else { return };
    let part = 1_usize << log;
    for round in 0..ROUNDS {
        for (at, value) in vector.iter_mut().enumerate() {
            let bit = round * length + at;
            if signs.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1) {
                *value = -*value;
            }
        }
        if part == length {
            hadamard(vector);
            continue;
        }
        let start = if round % 2 == 0 { 0 } else { length - part };
        hadamard(vector.get_mut(start..start + part).unwrap_or_default());
        let (first, second) = vector.split_at_mut(length / 2);
        for (a, b) in first.iter_mut().zip(second) {
            (*a, *b) =
                ((*a + *b) * std::f32::consts::FRAC_1_SQRT_2, (*a - *b) * std::f32::consts::FRAC_1_SQRT_2);
        }
    }
}

/// The orthonormal Hadamard transform of as many elements as a power of two.
fn hadamard(vector: &mut [f32]) {
    let mut half = 1;
    while half < vector.len() {
        for pair in vector.chunks_exact_mut(2 * half) {
            let (first, second) = pair.split_at_mut(half);
            for (a, b) in first.iter_mut().zip(second) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    #[expect(clippy::cast_precision_loss, reason = "vectors have less than 2^24 elements")]
    let scale = 1.0 / (vector.len() as f32).sqrt();
    vector.iter_mut().for_each(|value| *value *= scale);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lengths_and_angles_stay(
            half in 4_usize..80,
            values in prop::collection::vec((-4.0_f32..4.0, -4.0_f32..4.0), 160),
            signs in prop::collection::vec(any::<u8>(), 80),
        ) {
            let length = half * 2;
            prop_assert!(has_signs(&signs, length));
            let (mut a, mut b): (Vec<f32>, Vec<f32>) = values.into_iter().take(length).unzip();
            let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let expected = [product(&a, &a), product(&a, &b)];
            rotate(&mut a, &signs);
            rotate(&mut b, &signs);
            let found = [product(&a, &a), product(&a, &b)];
            prop_assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3 * expected[0].max(1.0)));
        }
    }
}
