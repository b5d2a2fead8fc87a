//! Numbers from a seed: the same seed gives the same index.

/// Steele, Lea and Flood: "Fast splittable pseudorandom number generators", 2014.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from 0 to 1, without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float has")]
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// So many of the numbers below a bound, or all of them, in random order.
    pub(super) fn choose(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        let count = count.min(bound);
        for at in 0..count {
            all.swap(at, at + self.below(bound - at));
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn chosen_once_and_below_the_bound() {
        let mut random = Random::new(7);
        for (count, bound) in [(0, 0), (3, 10), (10, 10), (20, 10)] {
            let chosen = random.choose(count, bound);
            assert_eq!(chosen.len(), count.min(bound));
            assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len());
            assert!(chosen.iter().all(|at| *at < bound));
        }
        assert_ne!(Random::new(1).choose(10, 1000), Random::new(2).choose(10, 1000));
        assert!((0..1000).map(|_| random.unit()).all(|v| (0.0..1.0).contains(&v)));
    }
}
