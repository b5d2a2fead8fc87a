//! Counting and selecting with what every processor has, and the stand-in where there is nothing better.

use crate::rows::to_index;

/// Position of the set bit of a word that has `rank` before it (Vigna, "Broadword implementation of rank/select
/// queries"): sums per byte, the byte by one comparison of all, then the bit of that byte from a table.
pub(super) fn select_in_word(word: u64, rank: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let sums = ((fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    let passed = (((rank.wrapping_mul(ONES) | HIGH) - sums) & HIGH) >> 7;
    // Not all bytes are passed: the word has more bits than `rank`.
    let shift = (passed.wrapping_mul(ONES) >> 56) % 8 * 8;
    let before = ((sums << 8) >> shift) & 0xff;
    let bits = BITS.get(to_index((word >> shift) & 0xff));
    let bit = bits.and_then(|bits| bits.get(to_index(rank.wrapping_sub(before)))).copied();
    shift + u64::from(bit.unwrap_or_default())
}

/// Positions of the set bits of each byte.
static BITS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut rest: &mut [[u8; 8]] = &mut table;
    let mut byte = 0_u16;
    while let [entry, others @ ..] = rest {
        let (mut slots, mut bit): (&mut [u8], u8) = (entry, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1
                && let [slot, others @ ..] = slots
            {
                *slot = bit;
                slots = others;
            }
            bit += 1;
        }
        byte += 1;
        rest = others;
    }
    table
};

/// Other processors need no second version: there the compiler counts bits with one instruction anyway.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fast {}

#[cfg(not(target_arch = "x86_64"))]
impl Fast {
    pub(super) fn detect() -> Option<Self> {
        None
    }

    pub(super) fn directory(self, _: &[u8]) -> super::Directory {
        match self {}
    }

    pub(super) fn rank(self, _: &super::Directory, _: &[u8], _: u64) -> u64 {
        match self {}
    }

    pub(super) fn select(self, _: &super::Directory, _: &[u8], _: u64) -> Option<u64> {
        match self {}
    }
}
