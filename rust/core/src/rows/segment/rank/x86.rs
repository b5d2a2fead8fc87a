//! Counting and selecting with the instructions of newer x86-64 processors: `popcnt` counts the bits of a word, `pdep`
//! and `tzcnt` find its n-th set bit. The functions are those of the parent, inlined here as a whole.
//!
//! Invariant: a [`Fast`] is only made after the processor was found to have the instructions.
#![expect(unsafe_code, reason = "the compiler cannot know which processor the program will run on")]

use std::arch::x86_64::{_pdep_u64, _tzcnt_u64};

use super::Directory;

/// The processor has the instructions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fast(());

impl Fast {
    pub(super) fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        has_all.then_some(Self(()))
    }

    pub(super) fn directory(self, bits: &[u8]) -> Directory {
        // SAFETY: `detect` found the instructions.
        unsafe { directory(self, bits) }
    }

    pub(super) fn rank(self, directory: &Directory, bits: &[u8], bit: u64) -> u64 {
        // SAFETY: `detect` found the instructions.
        unsafe { rank(directory, bits, bit) }
    }

    pub(super) fn select(self, directory: &Directory, bits: &[u8], rank: u64) -> Option<u64> {
        // SAFETY: `detect` found the instructions.
        unsafe { select(directory, bits, rank) }
    }
}

#[target_feature(enable = "popcnt,bmi1,bmi2")]
fn directory(fast: Fast, bits: &[u8]) -> Directory {
    Directory::build(bits, Some(fast))
}

#[target_feature(enable = "popcnt,bmi1,bmi2")]
fn rank(directory: &Directory, bits: &[u8], bit: u64) -> u64 {
    directory.rank_here(bits, bit)
}

#[target_feature(enable = "popcnt,bmi1,bmi2")]
fn select(directory: &Directory, bits: &[u8], rank: u64) -> Option<u64> {
    // The rank is below 64: the word has more bits than that.
    directory.select_by(bits, rank, |word, rank| _tzcnt_u64(_pdep_u64(1 << (rank % 64), word)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scalar::select_in_word;
    use super::*;

    proptest! {
        #[test]
        fn both_ways_agree(
            parts in proptest::collection::vec((any::<u8>(), prop_oneof![Just(0_u8), Just(255), any::<u8>()], 0..3000_usize), 0..8),
            probes in proptest::collection::vec(any::<u32>(), 50),
        ) {
            // Stretches of one byte over and over, some with another now and then.
            let bits: Vec<u8> = parts.iter().flat_map(|&(odd, usual, count)| (0..count).map(move |at| if at % 97 == 5 { odd } else { usual })).collect();
            let slow = Directory::build(&bits, None);
            let Some(fast) = Fast::detect() else { return Ok(()) };
            let with = fast.directory(&bits);
            prop_assert_eq!(Directory { fast: None, ..with.clone() }, slow.clone());
            let counted: u64 = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
            prop_assert_eq!(slow.ones, counted);
            for probe in probes {
                if let Some(bit) = u64::from(probe).checked_rem(8 * bits.len() as u64) {
                    let (words, part) = bits.split_at(usize::try_from(bit / 8).unwrap());
                    let before = words.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
                        + u64::from((part[0] & ((1 << (bit % 8)) - 1)).count_ones());
                    prop_assert_eq!(slow.rank(&bits, bit), before);
                    prop_assert_eq!(with.rank(&bits, bit), before);
                }
                let rank = u64::from(probe) % (counted + 2);
                let found = slow.select_by(&bits, rank, select_in_word);
                prop_assert_eq!(with.select(&bits, rank), found);
                prop_assert_eq!(found.map(|bit| slow.rank(&bits, bit)), (rank < counted).then_some(rank));
            }
        }
    }
}
